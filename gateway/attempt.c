/* One try on one lane, over either of two sources: an HTTP call that gives bytes, or a run of the engine that gives
 * pieces; and what follows it. Always true here: a try that began ends exactly once, in attempt_finish, which remembers it
 * and tells routing; of two tries the one that wins ends the other before it says a word of its own. */
#include "gateway/attempt.h"

#include "gateway/gateway.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

static int64_t at_most(int64_t v, int64_t max) {
    return v < max ? v : max;
}

static int place_of(const struct attempt *a) {
    return (int)(a->row->choice - a->of->plan.choices);
}

/* ---- who stands for the request ---- */

void attempt_stand(struct attempt *a) {
    struct request *r = a->of;
    r->at = r->clamp_at = place_of(a);
    r->price = a->price;
    r->bound = a->bound;
    r->call.clamped_tok = a->clamped_tok;
    r->down = a->row->down;
    r->hedging = false;
    snprintf(r->answer->target, sizeof(r->answer->target), "%s", a->target);
    r->answer->down = r->down;
    r->answer->clamped_tok = a->clamped_tok;
}

void attempt_win(struct attempt *a) {
    struct request *r = a->of;
    struct attempt *other = r->attempt == a ? r->hedge : r->attempt;
    if (a->wins)
        return;
    a->wins = true;
    if (other)
        other->beaten = true;
    if (other)
        attempt_cancel(other, OUTCOME_CANCELLED, "another try was quicker");
    attempt_stand(a);
    a->row->won = other || a->row->hedged;
}

static void put_early(struct attempt *a) {
    struct part parts[EVENT_PARTS_MAX];
    struct span rest = str_span(&a->early);
    struct event e;
    while (rest.n && !a->of->answer->ended && event_unpack(&rest, &e, parts))
        answer_put(a->of->answer, &e);
    str_fini(&a->early);
}

void attempt_write(struct attempt *a) {
    if (a->writes)
        return;
    attempt_win(a);
    a->writes = true;
    put_early(a);
}

/* ---- ending ---- */

/* Output that came: as long as its text, and never fewer tokens than pieces. */
static int64_t seen_tok(const struct answer *a) {
    int64_t tok = budget_text_expect_tok(a->text_bytes);
    return tok > a->pieces ? tok : a->pieces;
}

/* A try that gave nothing and told nothing costs nothing, unless it was we who did not wait for it. */
static bool owes(const struct attempt *a, bool whole) {
    bool sent = a->run || (a->call && http_call_sent(a->call));
    return sent && (whole || a->writes || a->beaten || a->of->client_left || (a->of->shadow && a->of->cancelled));
}

/* Usage that a provider owes us: the prompt, and what was seen of the output; never more than was held. A figure that the
 * provider did give stays, and is only raised by output that we saw. */
static void estimate_usage(struct attempt *a, struct usage *u, bool whole) {
    const struct request *r = a->of;
    int64_t seen = a->writes ? seen_tok(r->answer) : 0;
    if ((u->reported && (whole || u->out >= seen)) || !owes(a, whole))
        return;
    if (!u->reported)
        u->in = at_most(budget_expect_tok(r->gateway->budget, a->row->choice->target, &r->call.size), a->bound.in_tok);
    if (seen > u->out)
        u->out = at_most(seen, a->bound.out_tok);
    u->estimated = true;
}

static bool holds_our_key(const struct attempt *a, struct span text) {
    const struct conf_upstream_key *key = a->row->choice->key;
    return key && key->value[0] && text.n && memmem(text.at, text.n, key->value, strlen(key->value));
}

/* A provider that echoes its credential is not quoted: shapes are masked where its words are read, our own key here. */
static void forget_our_key(struct attempt *a) {
    struct provider_error *e = &a->error;
    char *const words[] = {e->message, e->code, e->param};
    for (size_t i = 0; i < ARRAY_LEN(words); i++)
        if (holds_our_key(a, span_of(words[i])))
            words[i][0] = '\0';
}

static void keep_upstream_id(const struct attempt *a) {
    struct request *r = a->of;
    const struct http_head *head = a->call ? http_call_head(a->call) : NULL;
    static const char *const names[] = {"request-id", "x-request-id"};
    for (size_t i = 0; head && i < ARRAY_LEN(names); i++) {
        struct span id = http_field_get(head, names[i], NULL);
        if (id.n == 0 || holds_our_key(a, id))
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
        engine_end(a->run);
    reader_free(a->reader);
    frame_fini(&a->frames);
    str_fini(&a->early);
    str_fini(&a->plain);
    str_fini(&a->parked);
    str_fini(&a->sign);
    free(a);
}

/* Of two the other goes on by itself; it may have had something to say meanwhile. */
static void take_off(struct attempt *a) {
    struct request *r = a->of;
    r->last = a->row;
    if (r->attempt == a)
        r->attempt = r->hedge;
    r->hedge = NULL;
    attempt_stand(r->attempt ? r->attempt : a);
    if (r->attempt)
        request_wake(r);
}

static struct usage used_by(const struct attempt *a) {
    return a->reader ? *reader_usage(a->reader) : a->used;
}

static void tell_routing(const struct attempt *a, enum outcome outcome) {
    struct request *r = a->of;
    const struct try_row *t = a->row;
    const struct choice *c = t->choice;
    struct lesson lesson = {.outcome = outcome,
                            .retry_after_us = a->retry_after_us,
                            .stream = r->call.stream,
                            .waited_us = (t->first_us >= 0 ? t->first_us : t->ended_us) - t->began_us,
                            .outwaited = a->beaten};
    routing_learn(r->gateway->routing, r->conf, c, &lesson, clock_mono_us());
    routing_end(r->gateway->routing, c);
    metrics_add(&r->gateway->metrics, METRIC_ATTEMPTS, 1, "target=\"%s\",outcome=\"%s\"",
                r->alias->pattern ? c->backend->name : c->target, outcome_names[outcome]);
}

/* Notes how the try ended, in the request, in routing and in the metrics; the attempt is gone afterwards. */
static void attempt_finish(struct attempt *a, enum outcome outcome, const char *why) {
    struct request *r = a->of;
    struct try_row *t = a->row;
    const struct choice *c = t->choice;
    struct usage used = used_by(a);
    if (a->again && outcome == OUTCOME_OK)
        map_put(&r->gateway->unasked, span_of(c->backend->name), r->gateway);
    estimate_usage(a, &used, outcome == OUTCOME_OK);
    if (used.reported || used.estimated) /* no provider counts the pictures that it was given */
        used.images_in = r->call.size.images;
    budget_learn(r->gateway->budget, c->target, &r->call.size, &used);
    if (!r->shadow)
        budget_learn(r->gateway->budget, r->alias->name, &r->call.size, &used);
    forget_our_key(a);
    t->outcome = outcome;
    t->why = why;
    t->ended_us = request_age_us(r);
    t->usage = used;
    if (used.reported || used.estimated) /* a try that gave nothing costs nothing, not even its fee per call */
        t->price = a->price;
    r->last_error = a->error;
    t->retry_after_us = a->retry_after_us;
    if (!a->beaten)
        keep_upstream_id(a);
    if (!r->shadow) /* it has no slot, and nobody is routed by it */
        tell_routing(a, outcome);
    if (t->hedged)
        metrics_add(&r->gateway->metrics, METRIC_HEDGES, 1, "alias=\"%s\",result=\"%s\"", r->alias->name,
                    t->won      ? "won"
                    : a->beaten ? "lost"
                                : "failed");
    if (outcome != OUTCOME_OK && outcome != OUTCOME_CANCELLED && outcome != OUTCOME_CLIENT_FAULT)
        log_info("try failed request=%s target=%s outcome=%s status=%d why=%s", r->id, c->target,
                 outcome_names[outcome], t->status, why);
    take_off(a);
    attempt_free(a);
}

void attempt_fail(struct attempt *a, enum outcome outcome, const char *why) {
    struct answer *answer = a->of->answer;
    char message[512] = "The provider's answer broke off.";
    bool wrote = a->writes;
    forget_our_key(a);
    if (a->error.message[0])
        snprintf(message, sizeof(message), "%s", a->error.message);
    attempt_finish(a, outcome, why);
    if (wrote)
        answer_end(answer, outcome == OUTCOME_TIMEOUT ? ERR_DEADLINE : ERR_UPSTREAM, message);
}

static void end_with(struct attempt *a, enum outcome outcome, const char *why, enum err err) {
    struct answer *answer = a->of->answer;
    const struct try_row *row = a->row;
    attempt_finish(a, outcome, why);
    answer->usage = row->usage; /* an estimate where the provider gave no numbers */
    answer->content = true;
    answer_end(answer, err, NULL);
}

void attempt_succeed(struct attempt *a) {
    attempt_write(a);
    end_with(a, OUTCOME_OK, "whole", ERR_NONE);
}

void attempt_cancel(struct attempt *a, enum outcome outcome, const char *why) {
    attempt_finish(a, outcome, why);
}

void attempts_cancel(struct request *r, enum outcome outcome, const char *why) {
    while (r->attempt)
        attempt_finish(r->hedge ? r->hedge : r->attempt, outcome, why);
}

static void put_ending(const struct event *e, void *user) {
    struct answer *answer = user;
    if (!answer->ended)
        answer_put(answer, e);
}

void attempt_cut(struct attempt *a, const char *why) {
    struct answer *answer = a->of->answer;
    struct usage used = used_by(a);
    attempt_write(a);
    answer->content = answer->cut = true;
    estimate_usage(a, &used, false);
    bool made = reader_cut(a->reader, &used, put_ending, answer);
    end_with(a, OUTCOME_CANCELLED, why, made ? ERR_NONE : ERR_BUDGET);
}

/* ---- starting ---- */

/* A second try that lies below the first came down because that is slow. */
static enum reason down_of(const struct request *r) {
    const struct attempt *first = r->attempt;
    int rung = r->plan.choices[r->at].rung;
    return first && rung > first->row->choice->rung && rung > 0 ? REASON_TIMEOUT : r->down;
}

static struct attempt *attempt_new(struct request *r) {
    struct attempt *a = xcalloc(1, sizeof(*a));
    assert(!r->hedge && r->n_tries < PLAN_MAX);
    a->of = r;
    a->row = &r->tries[r->n_tries++];
    *a->row = (struct try_row){.choice = &r->plan.choices[r->at],
                               .began_us = request_age_us(r),
                               .first_us = -1,
                               .down = down_of(r),
                               .hedged = r->attempt != NULL};
    r->hedge_at_us = hedge_time(r, clock_mono_us());
    a->price = r->price;
    a->bound = r->bound;
    a->clamped_tok = r->call.clamped_tok;
    frame_init(&a->frames);
    str_init(&a->early, ANSWER_MAX);
    str_init(&a->plain, PLAIN_ANSWER_MAX);
    str_init(&a->parked, ANSWER_MAX);
    str_init(&a->sign, SIGN_MAX);
    snprintf(a->target, sizeof(a->target), "%s", a->row->choice->target);
    return a;
}

bool attempt_start(struct request *r) {
    struct attempt *a = attempt_new(r);
    const struct choice *c = a->row->choice;
    *(r->attempt ? &r->hedge : &r->attempt) = a;
    if (c->backend->protocol == PROTOCOL_DECODE) {
        if (!attempt_open_run(a))
            return false;
    } else {
        a->reader = reader_new(c->backend->protocol, r->call.endpoint);
        if (!attempt_open_call(a)) {
            attempt_fail(a, OUTCOME_CLIENT_FAULT, "the call is too large to write");
            return false;
        }
    }
    if (!r->hedge)
        attempt_stand(a);
    return true;
}

/* ---- what comes next ---- */

/* What the client is told when no choice is left, by how the last try ended. */
static const enum err told[OUTCOME_N] = {
    [OUTCOME_OK] = ERR_UPSTREAM,
    [OUTCOME_CLIENT_FAULT] = ERR_INVALID,
    [OUTCOME_CANCELLED] = ERR_CLIENT_GONE,
    [OUTCOME_CONNECT] = ERR_UPSTREAM,
    [OUTCOME_CONNECT_SLOW] = ERR_DEADLINE,
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

/* When the first of those who asked for time is back; 0: nobody did. */
static int64_t soonest_wish(const struct request *r) {
    int64_t soonest = 0;
    for (int i = 0; i < r->n_tries; i++)
        if (r->tries[i].retry_after_us > 0 && (soonest == 0 || r->tries[i].retry_after_us < soonest))
            soonest = r->tries[i].retry_after_us;
    return soonest;
}

static enum walk give_up(struct request *r) {
    enum outcome outcome = r->last->outcome;
    bool crowded = outcome == OUTCOME_LOCAL || outcome == OUTCOME_NO_SLOT; /* here, and soon over */
    r->retry_after_us = crowded ? US_PER_S : soonest_wish(r);
    r->no_retry = r->n_tries > 1 || (outcome != OUTCOME_RATE_LIMITED && !crowded);
    quote_provider(r, outcome);
    if (outcome == OUTCOME_RATE_LIMITED && !r->message[0])
        snprintf(r->message, sizeof(r->message), "The provider's rate limit is reached.");
    if (outcome == OUTCOME_NO_SLOT)
        snprintf(r->message, sizeof(r->message), NO_SLOT_TEXT);
    return refuse_or_stale(r, told[outcome]);
}

/* Moves on to a choice of the plan; the ladder's reason is noted when it lies below, and gone with a last resort that is
 * its top. */
static void move_to(struct request *r, int next, enum outcome after) {
    int rung = r->plan.choices[next].rung;
    if (rung > r->plan.choices[r->at].rung && rung > 0)
        r->down = outcome_reason(after);
    else if (rung == 0)
        r->down = REASON_N;
    r->at = next;
}

bool attempt_pass_over(struct request *r, enum outcome outcome) {
    int next = plan_next(&r->plan, r->at, outcome, r->n_tries, r->alias->attempts, r->fallback);
    if (next < 0)
        return false;
    move_to(r, next, outcome);
    return true;
}

int attempt_farthest(const struct request *r) {
    int far = r->at;
    for (int i = 0; i < r->n_tries; i++)
        if (r->tries[i].choice - r->plan.choices > far)
            far = (int)(r->tries[i].choice - r->plan.choices);
    return far;
}

struct walked attempt_walked(const struct request *r, enum outcome last) {
    return (struct walked){.at = r->at,
                           .far = attempt_farthest(r),
                           .last = last,
                           .tried = r->n_tries,
                           .fallback = r->fallback,
                           .left_us = r->deadline_us - clock_mono_us()};
}

enum walk attempt_next_or_give_up(struct request *r) {
    enum outcome outcome = r->last->outcome;
    if (r->answer->content)
        return go(r, STATE_STREAM);
    struct walked w = attempt_walked(r, outcome);
    struct next next = routing_next(r->gateway->routing, r->conf, &r->plan, &w, clock_mono_us());
    if (next.at < 0)
        return give_up(r);
    r->not_before_us = clock_mono_us() + next.wait_us;
    move_to(r, next.at, outcome);
    return go(r, STATE_HOLD);
}
