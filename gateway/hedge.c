/* A second try beside a slow one. A try that has given no content for the alias's `hedge.after` is joined by the next
 * choice of the same plan, once its bound is held too and the raised hold is recorded:
 *
 *     SEND > HOLD > ADMIT > SEND, with the first try running all the while
 *
 * Always true here: a second try is one of `attempts`, takes of the budget of retries, and is not begun twice on a lane;
 * whatever refuses it refuses it alone, and the first one goes on. */
#include "gateway/attempt.h"
#include "gateway/gateway.h"

/* A provider that acts for the call would act twice. */
static bool may_be_asked_twice(const struct request *r) {
    return !r->call.traits.server_tools && !r->call.traits.stored;
}

int64_t hedge_time(const struct request *r, int64_t began_us) {
    return r->alias->hedge_us && may_be_asked_twice(r) ? began_us + r->alias->hedge_us : INT64_MAX;
}

bool hedge_is_due(const struct request *r, int64_t now_us) {
    return r->attempt && !r->attempt->wins && !r->hedge && now_us >= r->hedge_at_us;
}

/* The engine's queue is not shortened by standing in it twice, and a good answer that is slow is not traded for one that
 * the operator marked as lesser. */
static bool may_help(const struct choice *first, const struct choice *c) {
    bool same_engine = c->backend->protocol == PROTOCOL_DECODE && strcmp(c->backend->name, first->backend->name) == 0;
    return !same_engine && !c->last && (!c->degraded || first->degraded);
}

/* The choice that would follow the first try if that had run out of time; -1: none would. */
static int choose(const struct request *r) {
    const struct choice *first = r->attempt->row->choice;
    int far = attempt_farthest(r), next;
    struct plan rest = r->plan;
    far = far > r->hedge_from ? far : r->hedge_from;
    do {
        rest.choices[far] = *first;
        next = plan_next(&rest, far, OUTCOME_TIMEOUT, r->n_tries, r->alias->attempts, r->fallback);
        far = next;
    } while (next >= 0 && !may_help(first, &rest.choices[next]));
    return next;
}

static void count(struct request *r, const char *result) {
    metrics_add(&r->gateway->metrics, METRIC_HEDGES, 1, "alias=\"%s\",result=\"%s\"", r->alias->name, result);
}

/* The first one goes on alone, and is not joined again. */
static enum walk give_up(struct request *r, const char *result) {
    r->hedge_at_us = INT64_MAX;
    if (result)
        count(r, result);
    return WALK_WAIT;
}

enum walk hedge_refused(struct request *r) {
    if (r->attempt)
        attempt_stand(r->attempt);
    give_up(r, "refused");
    return go(r, STATE_SEND);
}

/* It is held for. A lane that takes nobody now is passed over for the one behind it. */
static enum walk begin(struct request *r, int64_t now_us) {
    r->hedge_from = r->at;
    if (!routing_begin(r->gateway->routing, &r->plan.choices[r->at], now_us)) {
        attempt_stand(r->attempt);
        return WALK_MORE;
    }
    r->hedging = false;
    if (!attempt_start(r) && !r->attempt)
        return attempt_next_or_give_up(r);
    return WALK_WAIT;
}

enum walk hedge_step(struct request *r, int64_t now_us) {
    if (r->hedging)
        return begin(r, now_us);
    if (!hedge_is_due(r, now_us))
        return WALK_WAIT;
    int next = choose(r);
    if (next < 0)
        return give_up(r, NULL);
    if (!routing_may_retry(r->gateway->routing, r->conf, now_us))
        return give_up(r, "held_back");
    r->hedging = true;
    r->at = next;
    return go(r, STATE_HOLD);
}
