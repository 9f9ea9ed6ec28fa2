/* One try on one lane, over either of two sources: an HTTP call that gives bytes, or a run of the engine that gives
 * pieces. Always true here: a try that began ends exactly once, in attempt_finish, which remembers it and tells routing. */
#include "gateway/attempt.h"

#include "gateway/gateway.h"
#include "gateway/routes.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

#define SIGN_MAX 4096      /* bytes of a credential header */
#define CALL_FIELDS_MAX 12 /* header fields of a call */

static struct try_row *row_of(struct request *r) {
    return &r->tries[r->n_tries];
}

const struct choice *attempt_choice(const struct request *r) {
    return &r->plan.choices[r->at];
}

/* ---- beginning ---- */

static bool is_credential(struct span name) {
    static const char *const names[] = {"key", "api_key", "api-key", "access_token", "token"};
    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        if (span_is_nocase(name, names[i]))
            return true;
    return false;
}

/* The caller's query without what could be a credential. */
static const char *forwarded_query(struct request *r) {
    struct span rest = r->client ? exchange_head(r->client)->query : SPAN_NONE, pair;
    struct str out;
    str_init(&out, HTTP_TARGET_MAX);
    while (rest.n && span_cut(&rest, '&', &pair)) {
        struct span name, value = pair;
        if (pair.n == 0 || !span_cut(&value, '=', &name) || is_credential(name))
            continue;
        str_putc(&out, out.n ? '&' : '?');
        str_put(&out, pair);
    }
    const char *kept = out.n && !out.over ? arena_strdup(&r->arena, str_span(&out)) : "";
    str_fini(&out);
    return kept ? kept : "";
}

static const struct {
    const char *name;
    enum dialect dialect;
    const char *absent; /* what is sent when the caller sends none; NULL: nothing */
} forwarded[] = {{"anthropic-version", DIALECT_ANTHROPIC, "2023-06-01"},
                 {"anthropic-beta", DIALECT_ANTHROPIC, NULL},
                 {"openai-beta", DIALECT_RESPONSES, NULL}};

/* What of the caller's head reaches a provider: read once, while the client is there. */
static void read_forwarded(struct request *r) {
    if (r->forwarded_read)
        return;
    r->forwarded_read = true;
    r->query = forwarded_query(r);
    for (size_t i = 0; i < ARRAY_LEN(forwarded); i++) {
        if (forwarded[i].dialect != r->dialect)
            continue;
        struct span value = http_field_get(exchange_head(r->client), forwarded[i].name, NULL);
        const char *text = value.at ? arena_strdup(&r->arena, value) : forwarded[i].absent;
        if (text)
            r->forwarded[r->n_forwarded++] = (struct http_field){span_of(forwarded[i].name), span_of(text)};
    }
}

/* Whole, however long: a value cut here would be one key for two calls. */
static bool put_forwarded(struct request *r, struct span name, struct span value, struct span *out) {
    char *line = arena_alloc(&r->arena, name.n + 2 + value.n);
    if (!line)
        return false;
    memcpy(line, name.at, name.n);
    memcpy(line + name.n, ": ", 2);
    memcpy(line + name.n + 2, value.at, value.n);
    *out = span_from(line, name.n + 2 + value.n);
    return true;
}

bool attempt_forwarded(struct request *r, struct span out[FORWARDED_LINES_MAX], size_t *n) {
    read_forwarded(r);
    *n = 0;
    for (size_t i = 0; i < r->n_forwarded; i++)
        if (!put_forwarded(r, r->forwarded[i].name, r->forwarded[i].value, &out[(*n)++]))
            return false;
    struct span tags = http_field_get(exchange_head(r->client), "x-tollgate-require", NULL);
    return put_forwarded(r, SPAN("query"), span_of(r->query), &out[(*n)++]) &&
           put_forwarded(r, SPAN("tags"), tags.at ? tags : SPAN(""), &out[(*n)++]);
}

static void on_call(struct http_call *c, void *user) {
    (void)c;
    request_wake(user);
}

static size_t call_fields(struct request *r, struct attempt *a, struct http_field fields[CALL_FIELDS_MAX]) {
    const struct choice *c = attempt_choice(r);
    size_t n = 0;
    const char *sign = c->key ? backend_sign(c->backend->protocol, c->key, &a->sign) : NULL;
    fields[n++] = (struct http_field){SPAN("content-type"), SPAN("application/json")};
    fields[n++] = (struct http_field){SPAN("accept"), SPAN("application/json, text/event-stream")};
    fields[n++] = (struct http_field){SPAN("user-agent"), SPAN("tollgate/" TOLLGATE_VERSION)};
    if (sign)
        fields[n++] = (struct http_field){span_of(sign), str_span(&a->sign)};
    if (r->idempotency)
        fields[n++] = (struct http_field){SPAN("idempotency-key"), span_of(strchr(r->idempotency, '/') + 1)};
    for (size_t i = 0; i < r->n_forwarded; i++)
        fields[n++] = r->forwarded[i];
    return n;
}

static bool open_call(struct request *r, struct attempt *a) {
    const struct conf_backend *b = attempt_choice(r)->backend;
    const struct endpoint_row *row = endpoint_row(r->call.endpoint);
    struct http_field fields[CALL_FIELDS_MAX];
    struct call_pieces *pieces = arena_alloc(&r->arena, sizeof(*pieces));
    struct str path;
    r->call.usage_unasked = a->again || map_find(&r->gateway->unasked, span_of(b->name));
    if (!pieces || !call_write(&r->call, attempt_choice(r)->model, &r->arena, pieces))
        return false;
    read_forwarded(r);
    str_init(&path, 2 * HTTP_TARGET_MAX);
    str_printf(&path, "%s%s%s", b->path, row->provider_path, r->query);
    const char *kept = arena_strdup(&r->arena, str_span(&path));
    str_fini(&path);
    if (!kept)
        return false;
    size_t n_fields = call_fields(r, a, fields);
    a->call = http_call_open(r->gateway->pool,
                             &(struct http_call_options){.target = {b->tls, b->host, b->port, b->ca_file, b->proxy},
                                                         .method = SPAN("POST"),
                                                         .path = span_of(kept),
                                                         .fields = fields,
                                                         .n_fields = n_fields,
                                                         .body = pieces->at,
                                                         .n_body = pieces->n,
                                                         .connect_us = b->connect_us,
                                                         .first_us = b->first_token_us,
                                                         .idle_us = b->idle_us,
                                                         .total_us = b->total_us,
                                                         .on_change = on_call,
                                                         .user = r});
    return true;
}

/* Usage was asked for where the caller did not ask, and the provider's refusal names it. */
static bool asking_was_refused(const struct request *r) {
    const struct attempt *a = r->attempt;
    bool speaks = r->call.endpoint == ENDPOINT_CHAT || r->call.endpoint == ENDPOINT_COMPLETIONS;
    bool ours = speaks && r->call.stream && !r->call.include_usage && !r->call.usage_unasked;
    return ours && (a->status == 400 || a->status == 422) && a->plain.n &&
           memmem(a->plain.at, a->plain.n, "stream_options", 14);
}

bool attempt_again_unasked(struct request *r) {
    struct attempt *a = r->attempt;
    if (!asking_was_refused(r))
        return false;
    http_call_close(a->call);
    a->call = NULL;
    a->again = true;
    a->form = FORM_UNKNOWN;
    str_clear(&a->plain);
    str_clear(&a->sign);
    return open_call(r, a);
}

/* ---- ending ---- */

static int64_t at_most(int64_t v, int64_t max) {
    return v < max ? v : max;
}

/* Output that came: as long as its text, and never fewer tokens than pieces. */
static int64_t seen_tok(const struct answer *a) {
    int64_t tok = budget_text_expect_tok(a->text_bytes);
    return tok > a->pieces ? tok : a->pieces;
}

/* Usage that a provider owes us: the prompt, and what was seen of the output; never more than was held. A figure that the
 * provider did give stays, and is only raised by output that we saw. */
static void estimate_usage(struct request *r, struct attempt *a, struct usage *u, bool whole) {
    bool sent = a->run || (a->call && http_call_sent(a->call));
    int64_t seen = seen_tok(r->answer);
    if (u->reported && (whole || u->out >= seen))
        return;
    if (!sent || (!whole && !r->answer->content && !r->client_left))
        return; /* a try that gave nothing and told nothing costs nothing */
    if (!u->reported)
        u->in =
            at_most(budget_expect_tok(r->gateway->budget, attempt_choice(r)->target, &r->call.size), r->bound.in_tok);
    if (seen > u->out)
        u->out = at_most(seen, r->bound.out_tok);
    u->estimated = true;
}

static bool holds_our_key(const struct request *r, struct span text) {
    const struct conf_upstream_key *key = attempt_choice(r)->key;
    return key && key->value[0] && text.n && memmem(text.at, text.n, key->value, strlen(key->value));
}

/* A provider that echoes its credential is not quoted: shapes are masked where its words are read, our own key here. */
static void forget_our_key(struct request *r) {
    struct provider_error *e = &r->attempt->error;
    char *const words[] = {e->message, e->code, e->param};
    for (size_t i = 0; i < ARRAY_LEN(words); i++)
        if (holds_our_key(r, span_of(words[i])))
            words[i][0] = '\0';
}

static void keep_upstream_id(struct request *r, const struct attempt *a) {
    const struct http_head *head = a->call ? http_call_head(a->call) : NULL;
    static const char *const names[] = {"request-id", "x-request-id"};
    for (size_t i = 0; head && i < ARRAY_LEN(names); i++) {
        struct span id = http_field_get(head, names[i], NULL);
        if (id.n == 0 || holds_our_key(r, id))
            continue;
        str_clear(&r->upstream_id);
        str_put(&r->upstream_id, id);
        return;
    }
}

static void attempt_free(struct attempt *a) {
    if (a->call)
        http_call_close(a->call);
    if (a->run)
        decode_end(a->run);
    reader_free(a->reader);
    frame_fini(&a->frames);
    str_fini(&a->plain);
    str_fini(&a->parked);
    str_fini(&a->sign);
    free(a);
}

/* Notes how the try ended, in the request, in routing and in the metrics; the attempt is gone afterwards. */
static void attempt_finish(struct request *r, enum outcome outcome, const char *why) {
    struct attempt *a = r->attempt;
    const struct choice *c = attempt_choice(r);
    struct try_row *t = row_of(r);
    struct usage used = a->reader ? *reader_usage(a->reader) : (struct usage){0};
    if (a->run)
        used = r->answer->usage;
    if (a->again && outcome == OUTCOME_OK)
        map_put(&r->gateway->unasked, span_of(c->backend->name), r->gateway);
    estimate_usage(r, a, &used, outcome == OUTCOME_OK);
    if (used.reported || used.estimated) /* no provider counts the pictures that it was given */
        used.images_in = r->call.size.images;
    budget_learn(r->gateway->budget, c->target, &r->call.size, &used);
    budget_learn(r->gateway->budget, r->alias->name, &r->call.size, &used);
    forget_our_key(r);
    *t = (struct try_row){.choice = c,
                          .outcome = outcome,
                          .why = why,
                          .status = a->status,
                          .began_us = a->began_us,
                          .first_us = a->first_us,
                          .ended_us = request_age_us(r),
                          .usage = used};
    if (used.reported || used.estimated) /* a try that gave nothing costs nothing, not even its fee per call */
        t->price = r->price;
    r->n_tries++;
    r->last_error = a->error;
    r->last_retry_after_us = a->retry_after_us;
    keep_upstream_id(r, a);
    routing_learn(r->gateway->routing, r->conf, c, outcome, a->retry_after_us, a->first_us, clock_mono_us());
    routing_end(r->gateway->routing, c);
    metrics_add(&r->gateway->metrics, METRIC_ATTEMPTS, 1, "target=\"%s\",outcome=\"%s\"",
                r->alias->pattern ? c->backend->name : c->target, outcome_names[outcome]);
    if (outcome != OUTCOME_OK && outcome != OUTCOME_CANCELLED && outcome != OUTCOME_CLIENT_FAULT)
        log_info("try failed request=%s target=%s outcome=%s status=%d why=%s", r->id, c->target,
                 outcome_names[outcome], a->status, why);
    attempt_free(a);
    r->attempt = NULL;
}

/* A failure: before content the answer is begun anew by the next try, after it everybody sees the same error. */
void attempt_fail(struct request *r, enum outcome outcome, const char *why) {
    struct answer *answer = r->answer;
    char message[512] = "The provider's answer broke off.";
    forget_our_key(r);
    if (r->attempt->error.message[0])
        snprintf(message, sizeof(message), "%s", r->attempt->error.message);
    attempt_finish(r, outcome, why);
    if (answer->content)
        answer_end(answer, outcome == OUTCOME_TIMEOUT ? ERR_DEADLINE : ERR_UPSTREAM, message);
    else if (!answer->ended)
        answer_restart(answer);
}

void attempt_succeed(struct request *r) {
    struct answer *answer = r->answer;
    attempt_finish(r, OUTCOME_OK, "whole");
    answer->usage = r->tries[r->n_tries - 1].usage; /* an estimate where the provider gave no numbers */
    answer->content = true;
    answer_end(answer, ERR_NONE, NULL);
}

void attempt_cancel(struct request *r, enum outcome outcome, const char *why) {
    attempt_finish(r, outcome, why);
}

static void put_ending(const struct event *e, void *user) {
    struct request *r = user;
    if (!r->answer->ended)
        answer_put(r->answer, e);
}

void attempt_cut(struct request *r, const char *why) {
    struct attempt *a = r->attempt;
    struct answer *answer = r->answer;
    struct usage used = a->reader ? *reader_usage(a->reader) : answer->usage;
    answer->content = answer->cut = true;
    estimate_usage(r, a, &used, false);
    bool made = reader_cut(a->reader, &used, put_ending, r);
    attempt_finish(r, OUTCOME_CANCELLED, why);
    answer->usage = r->tries[r->n_tries - 1].usage;
    answer_end(answer, made ? ERR_NONE : ERR_BUDGET, NULL);
}

/* ---- starting, and what comes next ---- */

bool attempt_start(struct request *r) {
    const struct choice *c = attempt_choice(r);
    struct attempt *a = xcalloc(1, sizeof(*a));
    assert(!r->attempt && r->n_tries < PLAN_MAX);
    r->attempt = a;
    a->began_us = request_age_us(r);
    a->first_us = -1;
    frame_init(&a->frames);
    str_init(&a->plain, PLAIN_ANSWER_MAX);
    str_init(&a->parked, ANSWER_MAX);
    str_init(&a->sign, SIGN_MAX);
    snprintf(r->answer->target, sizeof(r->answer->target), "%s", c->target);
    r->answer->down = r->down;
    r->answer->clamped_tok = r->call.clamped_tok;
    if (c->backend->protocol == PROTOCOL_DECODE)
        return attempt_open_run(r, a);
    a->reader = reader_new(c->backend->protocol, r->call.endpoint);
    if (open_call(r, a))
        return true;
    attempt_fail(r, OUTCOME_CLIENT_FAULT, "the call is too large to write");
    return false;
}

/* What the client is told when no choice is left, by how the last try ended. */
static const enum err told[OUTCOME_N] = {
    [OUTCOME_OK] = ERR_UPSTREAM,
    [OUTCOME_CLIENT_FAULT] = ERR_INVALID,
    [OUTCOME_CANCELLED] = ERR_CLIENT_GONE,
    [OUTCOME_CONNECT] = ERR_UPSTREAM,
    [OUTCOME_UNAVAILABLE] = ERR_UPSTREAM,
    [OUTCOME_RATE_LIMITED] = ERR_RATE,
    [OUTCOME_TIMEOUT] = ERR_DEADLINE,
    [OUTCOME_AUTH] = ERR_UPSTREAM_AUTH,
    [OUTCOME_MODEL_MISSING] = ERR_UPSTREAM,
    [OUTCOME_CONTEXT_WINDOW] = ERR_CONTEXT,
    [OUTCOME_CONTENT_FILTER] = ERR_FILTERED,
    [OUTCOME_NO_SLOT] = ERR_NO_TARGET,
    [OUTCOME_OVER_BUDGET] = ERR_BUDGET,
    [OUTCOME_LOCAL] = ERR_BUSY,
};

/* The provider's own words on what is wrong with the call; its status when it is of the caller's making. */
static void quote_provider(struct request *r, enum outcome outcome) {
    const struct provider_error *e = &r->last_error;
    bool callers =
        outcome == OUTCOME_CLIENT_FAULT || outcome == OUTCOME_CONTEXT_WINDOW || outcome == OUTCOME_CONTENT_FILTER;
    if (!callers || !e->message[0])
        return;
    bool marked = outcome != OUTCOME_CONTEXT_WINDOW || r->dialect != DIALECT_ANTHROPIC ||
                  strncmp(e->message, "prompt is too long", 18) == 0;
    snprintf(r->message, sizeof(r->message), "%s%s", marked ? "" : "prompt is too long: ", e->message);
    snprintf(r->param, sizeof(r->param), "%s", e->param);
    if (outcome != OUTCOME_CLIENT_FAULT)
        return;
    snprintf(r->code, sizeof(r->code), "%s", e->code);
    r->status = e->status >= 400 && e->status < 500 ? e->status : 400;
}

static enum walk give_up(struct request *r) {
    enum outcome outcome = r->tries[r->n_tries - 1].outcome;
    bool crowded = outcome == OUTCOME_LOCAL || outcome == OUTCOME_NO_SLOT; /* here, and soon over */
    r->retry_after_us = crowded ? US_PER_S : r->last_retry_after_us;
    r->no_retry = outcome != OUTCOME_RATE_LIMITED && !crowded;
    quote_provider(r, outcome);
    if (outcome == OUTCOME_RATE_LIMITED && !r->message[0])
        snprintf(r->message, sizeof(r->message), "The provider's rate limit is reached.");
    if (outcome == OUTCOME_NO_SLOT)
        snprintf(r->message, sizeof(r->message), NO_SLOT_TEXT);
    return refuse_or_stale(r, told[outcome]);
}

/* Back-off grows with each try in one rung, with jitter, so that an outage is not hammered. */
static void back_off(struct request *r, int next) {
    int64_t wait_us = r->conf->retries.backoff_us;
    if (r->plan.choices[next].rung != r->plan.choices[r->at].rung)
        return;
    for (int i = 1; i < r->n_tries && wait_us < r->conf->retries.backoff_max_us; i++)
        wait_us *= 2;
    wait_us = at_most(wait_us, r->conf->retries.backoff_max_us);
    r->not_before_us = clock_mono_us() + wait_us / 2 + (int64_t)(random_u64() % (uint64_t)(wait_us / 2 + 1));
}

/* Moves on to a choice of the plan; the ladder's reason is noted when it lies below. */
static void move_to(struct request *r, int next, enum outcome after) {
    if (r->plan.choices[next].rung > r->plan.choices[r->at].rung)
        r->down = outcome_reason(after);
    r->at = next;
}

bool attempt_pass_over(struct request *r, enum outcome outcome) {
    int next = plan_next(&r->plan, r->at, outcome, r->n_tries, r->alias->attempts, r->fallback);
    if (next < 0)
        return false;
    move_to(r, next, outcome);
    return true;
}

/* The same question asked from the end of the rung: only the rungs below answer. */
static int next_below(const struct request *r, enum outcome outcome) {
    struct plan rest = r->plan;
    int last = r->at;
    while (last + 1 < rest.n && rest.choices[last + 1].rung == rest.choices[r->at].rung)
        last++;
    rest.choices[last] = r->plan.choices[r->at];
    return plan_next(&rest, last, outcome, r->n_tries, r->alias->attempts, r->fallback);
}

/* The choice that follows; one within the same rung only as far as the budget of retries goes. */
static int next_affordable(struct request *r, enum outcome outcome) {
    int next = plan_next(&r->plan, r->at, outcome, r->n_tries, r->alias->attempts, r->fallback);
    bool same_rung = next >= 0 && r->plan.choices[next].rung == r->plan.choices[r->at].rung;
    return !same_rung || gateway_may_retry(r->gateway, r->conf) ? next : next_below(r, outcome);
}

enum walk attempt_next_or_give_up(struct request *r) {
    enum outcome outcome = r->tries[r->n_tries - 1].outcome;
    if (r->answer->content)
        return go(r, STATE_STREAM);
    int next = next_affordable(r, outcome);
    if (next < 0)
        return give_up(r);
    back_off(r, next);
    move_to(r, next, outcome);
    return go(r, STATE_HOLD);
}
