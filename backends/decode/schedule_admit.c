/* Who is let in, and who has to make way. A run needs blocks for what is known of it and one more for each that runs already; if
 * blocks run short later, whoever came last gives his back and waits, and the oldest is never asked to: so there is always one
 * that ends. */
#include "backends/decode/schedule.h"

#include "gateway/base/log.h"

static struct decode_run *run_of(struct link *k) {
    return container_of(k, struct decode_run, link);
}

/* Whatever steps gives back its blocks and its place; what it knows stays. */
static void stop_stepping(struct schedule *s, struct decode_run *r) {
    kv_drop(&s->pool, &r->kv);
    if (r->version && r->slot >= 0)
        adapters_end(r->version);
    r->slot = -1;
    r->n_cached = 0;
    share_run(r->share, -1);
}

void schedule_let_go(struct schedule *s, struct list *from, struct decode_run *r) {
    list_remove(from, &r->link);
    if (from == &s->running)
        stop_stepping(s, r);
    share_leave(r->share);
    r->share = NULL;
    if (r->form)
        walker_fini(&r->walker, &s->automata);
    if (r->version)
        adapters_drop(s->adapters, r->version);
    r->version = NULL;
    atomic_store(&s->n_running, (int64_t)s->running.n);
    atomic_store(&s->n_waiting, (int64_t)s->waiting.n);
}

void schedule_preempt(struct schedule *s, struct decode_run *r) {
    list_remove(&s->running, &r->link);
    stop_stepping(s, r);
    list_append(&s->waiting, &r->link);
    atomic_fetch_add(&s->preemptions, 1);
}

static struct decode_run *latest(struct schedule *s) {
    struct decode_run *last = NULL;
    for (struct link *k = list_first(&s->running); k; k = list_next(&s->running, k))
        if (!last || run_of(k)->arrived > last->arrived)
            last = run_of(k);
    return last;
}

bool schedule_find_blocks(struct schedule *s, struct decode_run *r, int64_t n_tok) {
    while (!kv_grow(&s->pool, &r->kv, n_tok)) {
        struct decode_run *last = latest(s);
        schedule_preempt(s, last);
        if (last == r)
            return false;
    }
    return true;
}

static bool goes_before(const struct decode_run *a, const struct decode_run *b) {
    const struct share *x = a->share, *y = b->share;
    if (x->team != y->team)
        return x->team->had != y->team->had ? x->team->had < y->team->had : a->arrived < b->arrived;
    if (a->priority != b->priority)
        return a->priority < b->priority;
    int c = share_compare(x, y);
    return c ? c < 0 : a->arrived < b->arrived;
}

/* The first in line among those whose adapter is in memory. Asking is also what has the next ones loaded: all who wait are
 * asked for, in order of who waits first, as far as the memory goes. */
static struct decode_run *pick(struct schedule *s) {
    struct decode_run *best = NULL;
    for (struct link *k = list_first(&s->waiting), *next; k; k = next) {
        struct decode_run *r = run_of(k);
        next = list_next(&s->waiting, k);
        enum adapter_tier tier = r->version ? adapters_ready(s->adapters, s->ops, s->compute, r->version) : TIER_MEMORY;
        if (tier == TIER_BROKEN) {
            schedule_let_go(s, &s->waiting, r);
            run_finish(r, NULL, ERR_NO_TARGET);
            run_drop(r);
        } else if (tier == TIER_MEMORY && (!best || goes_before(r, best)))
            best = r;
    }
    return best;
}

/* All places are taken: a team that has none gets one from the team that has most, if that has more than one. */
static bool make_place(struct schedule *s, const struct decode_run *r) {
    struct decode_run *victim = NULL;
    if ((int64_t)s->running.n < s->max_sequences)
        return true;
    if (r->share->team->running)
        return false;
    for (struct link *k = list_first(&s->running); k; k = list_next(&s->running, k)) {
        struct decode_run *v = run_of(k);
        int64_t has = v->share->team->running, most = victim ? victim->share->team->running : 1;
        if (has > most || (victim && has == most && v->arrived > victim->arrived))
            victim = v;
    }
    if (victim)
        schedule_preempt(s, victim);
    return victim != NULL;
}

static bool begin(struct schedule *s, struct decode_run *r) {
    int64_t n = (int64_t)r->ids.n, found = kv_begin(&s->pool, &r->kv, r->root, r->ids.at, n);
    int64_t more = kv_blocks(n + 1) - found / KV_BLOCK_TOK, others = (int64_t)s->running.n;
    bool fits = more + others <= kv_room(&s->pool) || !others;
    if (fits && r->version)
        r->slot = adapters_begin(s->adapters, s->ops, s->compute, r->version);
    if (!fits || (r->version && r->slot < 0)) {
        kv_drop(&s->pool, &r->kv);
        s->pool.hit_tok -= found;
        s->pool.asked_tok -= n;
        return false;
    }
    r->n_cached = found;
    r->admitted = s->admissions++;
    list_remove(&s->waiting, &r->link);
    list_append(&s->running, &r->link);
    share_run(r->share, 1);
    return true;
}

/* Who cannot begin while nobody else steps never will: his adapter is larger than what the device has for adapters. */
static bool refuse_alone(struct schedule *s, struct decode_run *r) {
    if (!list_empty(&s->running))
        return false;
    log_error("adapter %s: the device has no room for it, even alone", r->adapter);
    schedule_let_go(s, &s->waiting, r);
    run_finish(r, NULL, ERR_NO_TARGET);
    run_drop(r);
    return true;
}

void schedule_admit(struct schedule *s) {
    struct decode_run *r;
    for (int64_t i = 0; i < s->max_sequences && (r = pick(s)); i++)
        if (!make_place(s, r) || (!begin(s, r) && !refuse_alone(s, r)))
            return;
}
