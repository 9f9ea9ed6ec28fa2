/* The room: what tries taught, who is in flight, who may probe. Always true here: an outcome is charged to the one part
 * that is at fault (key, lane, target, backend, or nobody), and counts as good for the parts that it proves well. */
#include "routing/drain.h"

#include <assert.h>
#include <stdlib.h>

struct routing *routing_new(uint64_t seed) {
    struct routing *r = xcalloc(1, sizeof *r);
    health_book_init(&r->health, HEALTH_MAX);
    map_init(&r->drains);
    r->random = seed ? seed : random_u64() | 1;
    return r;
}

void routing_free(struct routing *r) {
    if (!r)
        return;
    health_book_fini(&r->health);
    drains_free(r);
    free(r);
}

static void count(struct routing *r, const struct part_names *names, bool failed) {
    struct health *lane = health_get(&r->health, PART_LANE, names);
    if (!lane)
        return;
    lane->tries++;
    lane->failures += failed;
}

/* A quick refusal says nothing of how long an answer takes; waiting in vain does. */
static void time_it(struct routing *r, const struct part_names *names, const struct lesson *l, int64_t now_us) {
    bool tells = l->outcome == OUTCOME_OK || l->outwaited || outcome_reason(l->outcome) == REASON_TIMEOUT;
    struct health *h = tells ? health_get(&r->health, PART_TARGET, names) : NULL;
    if (h && (!l->outwaited || l->waited_us > latency_now(&h->waits[l->stream], now_us)))
        latency_saw(&h->waits[l->stream], l->waited_us, now_us);
}

void routing_learn(struct routing *r, const struct conf *conf, const struct choice *c, const struct lesson *l,
                   int64_t now_us) {
    if (l->outcome == OUTCOME_NO_SLOT || l->outcome == OUTCOME_OVER_BUDGET)
        return;
    const struct outcome_row *row = outcome_row(l->outcome);
    struct part_names names = part_names(c);
    struct fault fault = {row->reason, row->at_once, l->retry_after_us};
    for (enum part part = 0; part < PART_N; part++) {
        bool faulty = row->fault == part, proven = row->proves & PART_BIT(part);
        struct health *h = faulty || proven ? health_get(&r->health, part, &names) : NULL;
        if (h && faulty)
            health_fault(h, conf, &fault, now_us);
        else if (h)
            health_good(h, conf, h->prober == c, now_us);
    }
    count(r, &names, row->fault != PART_N);
    time_it(r, &names, l, now_us);
}

static bool has_slot(struct routing *r, const struct choice *c, const struct part_names *names) {
    const struct health *h = health_find(&r->health, PART_BACKEND, names);
    return !h || c->backend->in_flight == CONF_UNLIMITED || h->in_flight < c->backend->in_flight;
}

static bool is_shut(const struct health *h, bool early, int64_t now_us) {
    enum health_state state = health_state(h, now_us);
    if (state == HEALTH_SHUT && early)
        return !health_may_early(h, now_us);
    if (state == HEALTH_HALF_OPEN)
        return health_probing(h, now_us) && (h->tripped || h->asked);
    return state == HEALTH_SHUT;
}

static void start(struct health *h, const struct choice *c, int64_t now_us) {
    enum health_state state = health_state(h, now_us);
    h->in_flight++;
    bool probes = state == HEALTH_HALF_OPEN || (state == HEALTH_SHUT && c->last);
    if (probes && !health_probing(h, now_us)) {
        h->prober = c;
        h->probe_us = now_us;
    }
}

bool routing_begin(struct routing *r, const struct choice *c, int64_t now_us) {
    struct part_names names = part_names(c);
    if (!has_slot(r, c, &names) || drain_until(r, &names, now_us))
        return false;
    for (enum part part = 0; part < PART_N; part++) {
        const struct health *h = health_find(&r->health, part, &names);
        if (h && is_shut(h, c->last, now_us))
            return false;
    }
    for (enum part part = 0; part < PART_N; part++) {
        struct health *h = health_get(&r->health, part, &names);
        if (h)
            start(h, c, now_us);
    }
    return true;
}

void routing_end(struct routing *r, const struct choice *c) {
    struct part_names names = part_names(c);
    for (enum part part = 0; part < PART_N; part++) {
        struct health *h = health_find(&r->health, part, &names);
        if (!h || h->in_flight == 0) /* it could not be remembered at begin */
            continue;
        h->in_flight--;
        if (h->prober == c)
            h->prober = NULL;
    }
}

/* A lane shows the worst of its four parts. */
static void view_lane(const struct routing *r, const struct health *lane, int64_t now_us, struct lane_view *v) {
    static const char *const states[] = {
        [HEALTH_CLOSED] = "closed", [HEALTH_HALF_OPEN] = "half-open", [HEALTH_SHY] = "open", [HEALTH_SHUT] = "open"};
    const char *slash = strchr(lane->target, '/');
    struct span target = span_of(lane->target);
    struct span backend = slash ? span_from(lane->target, (size_t)(slash - lane->target)) : target;
    struct part_names names = {backend, target, span_of(lane->key)};
    *v = (struct lane_view){.target = lane->target,
                            .key = lane->key,
                            .state = states[HEALTH_CLOSED],
                            .reason = REASON_N,
                            .tries = lane->tries,
                            .failures = lane->failures,
                            .in_flight = lane->in_flight,
                            .drained = drain_until(r, &names, now_us) != 0};
    for (enum part part = 0; part < PART_N; part++) {
        const struct health *h = health_find(&r->health, part, &names);
        enum health_state state = h ? health_state(h, now_us) : HEALTH_CLOSED;
        if (state == HEALTH_HALF_OPEN && v->open_until_us == 0)
            v->state = states[state];
        if ((state != HEALTH_SHY && state != HEALTH_SHUT) || h->open_until_us <= v->open_until_us)
            continue;
        v->state = states[state];
        v->open_until_us = h->open_until_us;
        v->reason = h->reason;
    }
}

void routing_each(struct routing *r, int64_t now_us, void (*see)(const struct lane_view *v, void *user), void *user) {
    struct list *all = &r->health.recent;
    for (struct link *k = list_first(all); k; k = list_next(all, k)) {
        const struct health *h = container_of(k, struct health, link);
        if (h->part != PART_LANE)
            continue;
        struct lane_view v;
        view_lane(r, h, now_us, &v);
        see(&v, user);
    }
}
