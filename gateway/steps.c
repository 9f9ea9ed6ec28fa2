/* The steps on the way in, HEAD to ADMIT, save BODY and HOLD, which have files of their own. Each asks one room one thing; refusing is returning. */
#include "gateway/alerts/watch.h"
#include "gateway/arm.h"
#include "gateway/attempt.h"
#include "gateway/engines.h"
#include "gateway/gateway.h"
#include "gateway/needs.h"
#include "gateway/routes.h"
#include "gateway/shadow.h"
#include "gateway/state/keys.h"
#include "gateway/state/override.h"

#include <assert.h>
#include <event2/buffer.h>
#include <inttypes.h>
#include <stdio.h>

enum walk step_head(struct request *r) {
    const struct http_head *head = exchange_head(r->client);
    r->route = route_find(head->path, &r->arena, &r->rest);
    r->dialect = dialect_of_path(head->path, head);
    if (!r->route || r->route->kind != ROUTE_OPEN)
        return go(r, STATE_AUTH);
    if (!route_takes(r->route, head->method))
        return refuse(r, ERR_METHOD);
    r->route->answer(r);
    return go(r, STATE_SETTLE);
}

/* ---- AUTH ---- */

static bool fits(struct span *found, struct span value) {
    if (!value.at)
        return true;
    if (found->at && !span_equal(*found, value))
        return false;
    *found = value;
    return true;
}

static struct span bearer(const struct http_head *head, int *n) {
    struct span value = http_field_get(head, "authorization", n);
    if (value.n < 7 || !span_is_nocase(span_from(value.at, 7), "bearer "))
        return SPAN_NONE;
    return span_trim(span_from(value.at + 7, value.n - 7));
}

/* The caller's key from any of its headers; false when two values differ. */
static bool find_credential(const struct http_head *head, struct span *key) {
    static const char *const names[] = {"x-api-key", "x-goog-api-key", "api-key"};
    int n = 0;
    *key = SPAN_NONE;
    if (!fits(key, bearer(head, &n)) || n > 1)
        return false;
    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        if (!fits(key, http_field_get(head, names[i], &n)) || n > 1)
            return false;
    return true;
}

static const char *key_problem(const struct request *r, const struct conf_key *key, struct span text) {
    if (!key)
        return conf_key_form(text) == KEY_FORM_MISTYPED ? "The API key is mistyped: its check characters do not match."
                                                        : "The API key is not valid.";
    if (keys_is_revoked(r->gateway, key))
        return "The API key is revoked.";
    if (r->began_wall_us >= key->expires_us)
        return "The API key is expired.";
    if (key->demo && !exchange_loopback(r->client))
        return "The demonstration key is admitted on loopback only.";
    return NULL;
}

static enum walk admit_key(struct request *r) {
    struct span text;
    uint8_t digest[SHA256_BYTES];
    if (!find_credential(exchange_head(r->client), &text))
        return refuse_saying(r, ERR_KEY, "Two different API keys were sent in one request.");
    if (text.n == 0)
        return refuse_saying(r, ERR_KEY, "No API key was sent: use Authorization: Bearer, x-api-key or api-key.");
    sha256(text, digest);
    const struct conf_key *key = conf_find_key(r->conf, digest);
    const char *problem = key_problem(r, key, text);
    if (problem)
        return refuse_saying(r, ERR_KEY, "%s", problem);
    r->key = key;
    return WALK_DONE;
}

/* The key is good and stays so: what it asks for is refused until its team goes on. */
static bool is_paused(struct request *r) {
    char name[OVERRIDE_NAME_MAX], when[CLOCK_TEXT_MAX];
    snprintf(name, sizeof(name), OVERRIDE_PAUSE "%s", r->key->team->name);
    const struct override *v = overrides_find(r->gateway->overrides, name, r->began_wall_us);
    if (!v)
        return false;
    r->retry_after_us = v->until_us - r->began_wall_us;
    r->no_retry = true;
    refuse_saying(r, ERR_TARGET_FORBIDDEN, "The team %s is paused until %s: %s", r->key->team->name,
                  clock_text(v->until_us, when), v->reason);
    return true;
}

/* One of our own may wait, for the log: then it is asked again when that has answered. */
static enum walk end_own(struct request *r) {
    if (r->asking)
        return WALK_WAIT;
    return go(r, r->err ? STATE_REFUSE : STATE_SETTLE);
}

enum walk step_auth(struct request *r) {
    if (r->asked)
        return end_own(r);
    r->conf = conf_take(r->gateway->conf);
    enum walk refused = admit_key(r);
    if (!r->key)
        return refused;
    if (!r->route)
        return refuse(r, ERR_NOT_FOUND);
    if (!route_takes(r->route, exchange_head(r->client)->method))
        return refuse(r, ERR_METHOD);
    if (r->route->kind == ROUTE_CALL)
        return is_paused(r) ? WALK_MORE : go(r, STATE_BODY);
    if (span_is(exchange_head(r->client)->method, "POST")) /* a call of our own with a body */
        return go(r, STATE_BODY);
    r->route->answer(r);
    return end_own(r);
}

/* ---- RATE ---- */

/* Before a target is chosen, what callers of the alias were seen to use. */
static int64_t expected_tok(const struct request *r) {
    return budget_expect_tok(r->gateway->budget, r->alias->name, &r->call.size);
}

enum walk refuse_rate(struct request *r) {
    const struct rate_op *op = &r->rate;
    char wait[CLOCK_TEXT_MAX];
    r->retry_after_us = op->err == ERR_LEDGER ? US_PER_S : op->retry_after_us;
    if (op->err != ERR_RATE)
        return refuse(r, op->err);
    str_putc(&r->details, ','); /* the members follow others in the error object */
    json_put_str(&r->details, "limit", op->limit);
    json_put_str(&r->details, "level", op->level);
    return refuse_saying(r, ERR_RATE, "The %s's limit of %" PRId64 " %s is reached; the next call fits in %s.",
                         op->level, op->limit_value, op->limit, clock_duration_text(op->retry_after_us, wait));
}

enum walk step_expand(struct request *r) {
    return go(r, STATE_RATE); /* ids of stored objects were refused by the parser: nothing is stored here yet */
}

/* Limits come before the cache is looked at: who is over one gets no answer out of it. A call that no cache can answer has
 * nothing between its limits and its hold but the plan, which asks nobody, so where its limits need Redis they are owed
 * until the hold, and both are one script. (A hold that comes before the look-up would save a cacheable call its second
 * question, and set money aside, and refuse others for it, for each answer that costs nothing.) */
static bool may_owe(const struct request *r) {
    const struct cache_ask ask = {
        .alias = r->alias, .traits = &r->call.traits, .endpoint = endpoint_row(r->call.endpoint)->name};
    return !cache_may(&ask);
}

static void ask_rate(struct request *r, bool owes) {
    r->rate.may_owe = owes;
    request_answer(r, budget_rate(r->gateway->budget, r->conf, r->key, expected_tok(r), clock_wall_us(), &r->rate));
}

enum walk step_rate(struct request *r) {
    r->doing = "checking its rate limits";
    if (request_asks(r))
        ask_rate(r, may_owe(r));
    if (r->asking)
        return WALK_WAIT;
    return r->rate.err ? refuse_rate(r) : go(r, STATE_ROUTE);
}

/* ---- ROUTE ---- */

static bool read_fallback(struct request *r, enum fallback *out) {
    static const char *const words[] = {"any", "same-model", "none"};
    struct span value = request_field(r, "x-tollgate-fallback");
    *out = r->key->fallback;
    for (size_t i = 0; i < ARRAY_LEN(words); i++)
        if (span_is_nocase(value, words[i])) {
            *out = (enum fallback)i;
            return true;
        }
    return value.n == 0;
}

static enum reason lowest_reason(unsigned bits) {
    for (enum reason e = 0; e < REASON_N; e++)
        if (bits & REASON_BIT(e))
            return e;
    return REASON_N;
}

static enum walk refuse_route(struct request *r, enum err e) {
    r->retry_after_us = r->plan.retry_after_us;
    if (r->plan.n_excluded == 0)
        return refuse(r, e);
    const struct exclusion *first = &r->plan.excluded[0];
    if (e == ERR_CONTEXT)
        return refuse_saying(r, e, "prompt is too long: %s", first->why);
    if (r->conf->disclose.target)
        return refuse_saying(r, e, "%s %s: %s.", err_row(e)->text, first->target, first->why);
    return refuse(r, e);
}

enum walk refuse_unrouted(struct request *r) {
    return refuse_route(r, r->unrouted);
}

/* A call that will not be held is asked for by its rates alone: who is over a limit hears of that first. */
static enum walk end_unrouted(struct request *r) {
    if (r->rate.owed && request_asks(r))
        ask_rate(r, false);
    if (r->asking)
        return WALK_WAIT;
    return r->rate.err ? refuse_rate(r) : refuse_route(r, r->unrouted);
}

/* A copy of this call keeps within the same boundaries: the tags outlive the client. */
static bool read_require(struct request *r) {
    struct span tags = request_field(r, "x-tollgate-require");
    char *kept = tags.n ? arena_strdup(&r->arena, tags) : NULL;
    r->require = kept ? span_from(kept, tags.n) : SPAN_NONE;
    return kept || tags.n == 0;
}

enum walk step_route(struct request *r) {
    if (r->shadow)
        return shadow_route(r);
    struct needs needs = {
        .conf = r->conf, .key = r->key, .alias = r->alias, .captured = r->captured, .wall_us = r->began_wall_us};
    if (r->unrouted)
        return end_unrouted(r);
    r->explain |= r->conf->disclose.explain && span_is(request_field(r, "x-tollgate-explain"), "1");
    if (!read_require(r))
        return refuse(r, ERR_INTERNAL);
    needs.require = r->require;
    if (!read_fallback(r, &r->fallback))
        return refuse_saying(r, ERR_INVALID, "x-tollgate-fallback is none, same-model or any.");
    needs.fallback = r->fallback;
    r->deadline_us = r->began_us + r->alias->deadline_us;
    needs_of_call(&r->call, r->gateway->budget, &needs);
    needs.arm =
        arm_of(&(struct arm_ask){r->gateway->overrides, r->alias, r->key, r->labels, r->n_labels, r->began_wall_us});
    r->unrouted = routing_plan(r->gateway->routing, &needs, clock_mono_us(), &r->arena, &r->plan);
    if (r->unrouted == ERR_NO_TARGET && !r->rate.owed)
        return go(r, STATE_CACHE); /* what is kept answers also when nobody else can */
    if (r->unrouted)
        return end_unrouted(r);
    if (!r->explain)
        routing_count_call(r->gateway->routing, clock_mono_us());
    r->at = 0;
    if (r->plan.choices[0].rung > 0)
        r->down = lowest_reason(r->plan.skipped);
    return go(r, STATE_CACHE);
}

/* ---- ADMIT ---- */

static bool log_may_fail(const struct request *r) {
    return r->conf->audit.when_full_serve;
}

enum walk step_admit(struct request *r) {
    r->doing = "writing its admit record";
    if (request_asks(r)) {
        r->admitted.err = ERR_AUDIT;
        r->admitted.seq = audit_healthy(r->gateway->audit) || log_may_fail(r) ? record_hold(r) : 0;
        request_answer(r, r->admitted.seq ? audit_written(r->gateway->audit, &r->admitted) : PROGRESS_DONE);
    }
    if (r->asking)
        return WALK_WAIT;
    if (r->admitted.err && !log_may_fail(r) && r->hedging)
        return hedge_refused(r);
    if (r->admitted.err && !log_may_fail(r)) {
        r->retry_after_us = US_PER_S;
        return refuse(r, ERR_AUDIT);
    }
    return go(r, STATE_SEND);
}
