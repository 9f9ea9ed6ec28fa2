/* Heads and error bodies: the one place where header names of a reply are written. */
#include "gateway/gateway.h"
#include "gateway/routes.h"

#include <inttypes.h>
#include <stdio.h>

#define VALUE_MAX 256                     /* bytes of one made header value */
#define NO_RETRY_AFTER_US (60 * US_PER_S) /* a longer wait is not for an SDK to sleep through */

struct fields {
    struct http_field at[REPLY_FIELDS_MAX];
    char values[REPLY_FIELDS_MAX][VALUE_MAX];
    size_t n;
};

static void put(struct fields *f, const char *name, const char *format, ...) printf_like(3, 4);
static void put(struct fields *f, const char *name, const char *format, ...) {
    va_list args;
    if (f->n == REPLY_FIELDS_MAX)
        return;
    va_start(args, format);
    vsnprintf(f->values[f->n], VALUE_MAX, format, args);
    va_end(args);
    f->at[f->n] = (struct http_field){span_of(name), span_of(f->values[f->n])};
    f->n++;
}

/* Text that stays where it is until the head is sent. */
static void put_text(struct fields *f, const char *name, const char *text) {
    if (f->n < REPLY_FIELDS_MAX)
        f->at[f->n++] = (struct http_field){span_of(name), span_of(text)};
}

static void put_ids(struct fields *f, const struct request *r) {
    put_text(f, "x-request-id", r->id);
    if (r->dialect == DIALECT_ANTHROPIC)
        put_text(f, "request-id", r->id);
    if (r->upstream_id.n && !r->upstream_id.over)
        put_text(f, "x-tollgate-upstream-id", r->upstream_id.at);
}

static const char *target_of(const struct request *r) {
    if (r->answer && r->answer->target[0])
        return r->answer->target;
    return r->at >= 0 ? r->plan.choices[r->at].target : NULL;
}

/* How a second try beside a slow one fared; NULL: there was none. */
static const char *hedge_result(const struct request *r) {
    const char *result = NULL;
    for (int i = 0; i < r->n_tries; i++)
        if (r->tries[i].hedged)
            result = r->tries[i].won ? "won" : "lost";
    return result;
}

static void put_route(struct fields *f, const struct request *r) {
    const char *target = target_of(r);
    bool answered = !r->err || r->n_tries > 0;
    if (r->conf->disclose.target && target && answered)
        put_text(f, "x-tollgate-target", target);
    if (r->conf->disclose.attempts && r->route->kind == ROUTE_CALL)
        put(f, "x-tollgate-attempts", "%d", r->n_tries);
    const char *hedged = r->conf->disclose.attempts ? hedge_result(r) : NULL;
    if (hedged)
        put_text(f, "x-tollgate-hedged", hedged);
    if (r->down != REASON_N && !r->err)
        put_text(f, "x-tollgate-degraded", reason_names[r->down]);
    if (r->answer && r->answer->clamped_tok && !r->err)
        put(f, "x-tollgate-clamped", "max_tokens=%" PRId64, r->answer->clamped_tok);
    if (!r->cache_word)
        return;
    if (strcmp(r->cache_word, "bypass") == 0)
        put(f, "x-tollgate-cache", "bypass; reason=%s", r->cache_rule.why ? r->cache_rule.why : "off");
    else
        put_text(f, "x-tollgate-cache", r->cache_word);
    if (strcmp(r->cache_word, "hit") == 0 || kept_is_stale(r))
        put(f, "age", "%" PRId64, r->cache_age_us / US_PER_S);
}

static int64_t tightest(const struct request *r) {
    const struct {
        bool shown;
        int64_t left;
    } levels[] = {{r->conf->disclose.budget_key, r->hold.remaining_key},
                  {r->conf->disclose.budget_team, r->hold.remaining_team},
                  {r->conf->disclose.budget_organization, r->hold.remaining_organization}};
    int64_t least = -1;
    for (size_t i = 0; i < ARRAY_LEN(levels); i++)
        if (levels[i].shown && levels[i].left >= 0 && (least < 0 || levels[i].left < least))
            least = levels[i].left;
    return least;
}

/* The highest warn share that a level which may be shown has passed. */
static void put_warning(struct fields *f, const struct request *r) {
    const bool shown[BUDGET_LEVELS] = {r->conf->disclose.budget_key, r->conf->disclose.budget_team,
                                       r->conf->disclose.budget_organization};
    char share[NEWS_SHARE_MAX];
    int level = -1;
    for (int i = 0; i < BUDGET_LEVELS; i++)
        if (shown[i] && r->hold.passed[i] > (level < 0 ? 0 : r->hold.passed[level]))
            level = i;
    if (level >= 0)
        put(f, "x-tollgate-budget-warning", "%s; level=%s", news_share(r->hold.passed[level], share),
            budget_level_names[level]);
}

static void put_money(struct fields *f, const struct request *r, bool whole) {
    char text[MONEY_TEXT_MAX];
    bool called = r->route->kind == ROUTE_CALL && r->key;
    if (whole && called && r->conf->disclose.cost)
        put(f, "x-tollgate-cost", "%s", money_text(r->cost_nanousd, text));
    if (called)
        put_warning(f, r);
    int64_t left = called && r->hold.lease.request_id[0] ? tightest(r) : -1;
    if (left < 0)
        return;
    left += whole ? r->hold.lease.nanousd - r->cost_nanousd : 0; /* what the hold took too much */
    put(f, "x-tollgate-budget-remaining", "%s", money_text(left > 0 ? left : 0, text));
}

static void put_limit(struct fields *f, const struct request *r, const char *what, int64_t limit, int64_t remaining,
                      int64_t reset_us) {
    char name[64], when[CLOCK_TEXT_MAX];
    bool anthropic = r->dialect == DIALECT_ANTHROPIC;
    static const char *const words[] = {"limit", "remaining", "reset"};
    if (limit < 0)
        return;
    if (anthropic)
        clock_text(clock_wall_us() + reset_us, when);
    else
        clock_duration_text(reset_us / US_PER_MS * US_PER_MS, when);
    for (size_t i = 0; i < ARRAY_LEN(words); i++) {
        if (anthropic)
            snprintf(name, sizeof(name), "anthropic-ratelimit-%s-%s", what, words[i]);
        else
            snprintf(name, sizeof(name), "x-ratelimit-%s-%s", words[i], what);
        char *kept = arena_strdup((struct arena *)&r->arena, span_of(name));
        if (!kept)
            return;
        if (i == 2)
            put(f, kept, "%s", when);
        else
            put(f, kept, "%" PRId64, i ? remaining : limit);
    }
}

static void put_limits(struct fields *f, const struct request *r) {
    const struct rate_limit_view *v = &r->rate.view;
    if (!r->key || r->state == STATE_AUTH || r->route->kind != ROUTE_CALL)
        return;
    put_limit(f, r, "requests", v->limit_requests, v->remaining_requests, v->reset_requests_us);
    put_limit(f, r, "tokens", v->limit_tokens, v->remaining_tokens, v->reset_tokens_us);
}

static void put_retry(struct fields *f, const struct request *r) {
    if (r->no_retry || r->retry_after_us > NO_RETRY_AFTER_US)
        put_text(f, "x-should-retry", "false");
    if (r->retry_after_us <= 0 || r->retry_after_us == INT64_MAX) /* not known, or never */
        return;
    int64_t ms = (r->retry_after_us + US_PER_MS - 1) / US_PER_MS;
    put(f, "retry-after", "%" PRId64, (ms + 999) / 1000);
    put(f, "retry-after-ms", "%" PRId64, ms);
}

bool reply_is_stream(const struct request *r) {
    return r->call.stream && !r->err && r->route->kind == ROUTE_CALL;
}

static void put_all(struct fields *f, const struct request *r, bool whole) {
    bool stream = reply_is_stream(r); /* also one that leaves in one piece: a hit */
    put_text(f, "content-type", stream ? "text/event-stream" : r->content_type ? r->content_type : "application/json");
    put_ids(f, r);
    if (stream)
        put_text(f, "cache-control", "no-cache");
    if (r->err == ERR_METHOD && r->route)
        put(f, "allow", "%s", r->route->methods);
    if (!r->conf || !r->route)
        return;
    put_route(f, r);
    put_money(f, r, whole);
    put_limits(f, r);
    if (r->err)
        put_retry(f, r);
}

void reply_commit(struct request *r, int64_t content_length) {
    struct fields f; /* 9 KiB, of which n fields are filled */
    f.n = 0;
    if (r->head_sent)
        return;
    r->head_sent = true;
    r->status = r->status ? r->status : 200;
    put_all(&f, r, content_length >= 0);
    if (r->client)
        exchange_send_head(r->client, r->status, f.at, f.n, content_length);
}

void reply_whole(struct request *r) {
    reply_commit(r, (int64_t)r->out.n);
    if (r->client)
        exchange_send(r->client, str_span(&r->out));
    str_fini(&r->out);
}

void reply_error_body(struct request *r) {
    struct error_body body = {.err = r->err,
                              .message = r->message[0] ? r->message : NULL,
                              .param = r->param[0] ? r->param : NULL,
                              .code = r->code[0] ? r->code : NULL,
                              .request_id = r->id,
                              .details = r->details.n && !r->details.over ? r->details.at : NULL};
    str_clear(&r->out);
    error_write(r->dialect, &body, &r->out);
    r->content_type = "application/json";
    if (!r->status)
        r->status = error_status(r->dialect, r->err);
}

void reply_bad_head(struct gateway *g, struct exchange *x, enum err e, const char *what, struct str *body) {
    char id[REQUEST_ID_MAX];
    const struct http_head *head = exchange_head(x);
    request_make_id(g, id);
    struct error_body error = {.err = e, .message = what, .request_id = id};
    error_write(head && head->path.n ? dialect_of_path(head->path, head) : DIALECT_OPENAI, &error, body);
    gateway_count_stranger(g, id, exchange_client(x), "unparsed", e);
}
