/* The door of the ledger in Redis: what is decided here, and what Redis is asked. Always true here: a call that owes its
 * rates asks for them with its hold, where that asks Redis, and else alone; a call that is held from a slice asks nobody. */
#include "budget/redis_rates.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

/* --- hold, raise, settle --- */

/* A call that no budget limits needs nobody's word; what it costs is told. */
static enum progress hold_unlimited(struct redis_ledger *l, const struct ledger_ask *ask, struct hold_op *op) {
    (void)ledger_memory_ops.hold(l->memory, ask, op);
    if (op->err == ERR_NONE && !call_find(l, ask->request_id))
        (void)call_new(l, ask);
    return PROGRESS_DONE;
}

static enum progress raise_open(struct redis_ledger *l, const struct ledger_ask *ask, struct lease *lease,
                                struct hold_op *op) {
    if (l->state == LEDGER_READY && slice_raise(l, ask, op)) {
        l->counts.holds_in_slices++;
        *lease = op->lease;
        return PROGRESS_DONE;
    }
    if (l->state == LEDGER_READY && ask_later(l, ask, lease, op))
        return PROGRESS_WAIT;
    return down_raise(l, ask, lease, op);
}

/* A call that is held from a slice: it is not made smaller, and owes no rates any more. */
static enum progress hold_again(struct redis_ledger *l, const struct ledger_ask *ask, struct hold_op *op) {
    struct ledger_ask most = *ask;
    assert(!ask->owed);
    int64_t held = call_find(l, ask->request_id)->nanousd;
    most.nanousd = held > most.nanousd ? held : most.nanousd;
    return raise_open(l, &most, &op->lease, op);
}

/* The money is decided, and the rates are asked for alone. */
static enum progress rates_after(struct redis_ledger *l, const struct ledger_ask *ask) {
    return ask->owed ? rates_shared_ask(l->rates, &ask->rates, ask->owed) : PROGRESS_DONE;
}

static enum progress redis_hold(void *store, const struct ledger_ask *ask, struct hold_op *op) {
    struct redis_ledger *l = store;
    l->now_us = ask->now_us > l->now_us ? ask->now_us : l->now_us;
    const struct open_call *c = call_find(l, ask->request_id);
    if (c && c->in)
        return hold_again(l, ask, op);
    bool held = ask->n > 0 && l->state == LEDGER_READY && slice_hold(l, ask, op);
    bool asked = ask->n > 0 && l->state == LEDGER_READY && !held && ask_later(l, ask, NULL, op);
    if (ask->n > 0)
        slice_want(l, ask);
    l->counts.holds_in_slices += held;
    if (asked)
        return PROGRESS_WAIT;
    if (ask->n == 0)
        (void)hold_unlimited(l, ask, op);
    else if (!held)
        (void)down_hold(l, ask, op);
    return rates_after(l, ask);
}

static enum progress redis_raise(void *store, const struct ledger_ask *ask, struct lease *lease, struct hold_op *op) {
    struct redis_ledger *l = store;
    const struct open_call *c = call_find(l, lease->request_id);
    l->now_us = ask->now_us > l->now_us ? ask->now_us : l->now_us;
    if (!c || c->state != CALL_OPEN || c->n == 0)
        return ledger_memory_ops.raise(l->memory, ask, lease, op);
    return raise_open(l, ask, lease, op);
}

static int64_t redis_settle(void *store, struct lease *lease, int64_t nanousd) {
    struct redis_ledger *l = store;
    struct open_call *c = call_find(l, lease->request_id);
    int64_t overrun = ledger_memory_ops.settle(l->memory, lease, nanousd);
    if (!c || c->state != CALL_OPEN)
        return overrun;
    if (overrun > 0 && !c->in)
        slices_close(l, c);
    if (c->in)
        slice_settle(l, c, nanousd);
    else
        settle_queue(l, c, nanousd);
    return overrun;
}

/* --- rates --- */

static enum progress redis_rate(void *store, const struct rate_ask *ask, struct rate_op *op) {
    struct redis_ledger *l = store;
    return rates_shared_step(l->rates, ask, op);
}

static void redis_rate_end(void *store, struct rate_slip *slip, int64_t tokens_used, int64_t now_us) {
    struct redis_ledger *l = store;
    if (slip->open && slip->shared)
        rates_shared_end(l->rates, slip, tokens_used);
    else
        ledger_memory_ops.rate_end(l->memory, slip, tokens_used, now_us);
}

/* --- recovery and views --- */

static void redis_replay_log(void *store, const char *log) {
    struct redis_ledger *l = store;
    l->replay = log ? log_get(l, log) : l->own;
    l->replay->known_us = l->now_us;
    if (!l->replay->own) /* of our own, the greeting decides */
        l->replay->ends = true;
}

static void redis_replay(void *store, const struct ledger_ask *ask) {
    struct redis_ledger *l = store;
    ledger_memory_ops.replay(l->memory, ask);
    tallies_replay(l, ask);
}

/* Where a view counts what an account of this owner has; NULL: it is another's. */
static int64_t *spend_of(const struct tally *t, const char *owner, struct spend_view *out) {
    static const enum period periods[] = {PERIOD_DAY, PERIOD_WEEK, PERIOD_MONTH, PERIOD_TOTAL};
    int64_t *to[] = {&out->day_nanousd, &out->week_nanousd, &out->month_nanousd, &out->total_nanousd};
    size_t n = strlen(owner);
    if (strncmp(t->account, owner, n) != 0 || t->account[n] != '/')
        return NULL;
    for (size_t i = 0; i < ARRAY_LEN(periods); i++) {
        size_t length = strlen(period_names[periods[i]]);
        if (strncmp(t->account + n + 1, period_names[periods[i]], length) == 0 && t->account[n + 1 + length] == '@')
            return to[i];
    }
    return NULL;
}

/* What all have settled, as Redis said last; without Redis what this process has settled may be more. */
static void redis_spend(void *store, const char *owner, int64_t now_us, struct spend_view *out) {
    struct redis_ledger *l = store;
    ledger_memory_ops.spend(l->memory, owner, now_us, out);
    for (struct link *k = list_first(&l->tallies); k; k = list_next(&l->tallies, k)) {
        const struct tally *t = container_of(k, struct tally, in_all);
        if (!t->log->own || !t->seen || now_us < t->from_us || now_us >= t->to_us)
            continue;
        int64_t *to = spend_of(t, owner, out);
        if (to && t->said.settled > *to)
            *to = t->said.settled;
    }
}

static void redis_watch_news(void *store, budget_watcher *see, void *user) {
    struct redis_ledger *l = store;
    l->see = see;
    l->user = user;
    ledger_memory_ops.watch(l->memory, news_of_memory, l);
}

static bool redis_ready(const void *store) {
    const struct redis_ledger *l = store;
    return l->state == LEDGER_READY && l->now_us >= l->closed_until_us;
}

static bool redis_settled(const void *store) {
    const struct redis_ledger *l = store;
    bool rests = !l->resting || list_empty(&l->slices);
    return l->state != LEDGER_READY ||
           (list_empty(&l->queue) && list_empty(&l->untold) && l->jobs[JOB_SETTLE] == 0 && rests);
}

static void redis_rest(void *store) {
    slices_rest(store);
}

static void redis_tick(void *store, int64_t now_us) {
    sync_tick(store, now_us);
}

/* --- life --- */

static void on_up(struct redis_watcher *w) {
    sync_up(container_of(w, struct redis_ledger, watcher));
}

static void on_down(struct redis_watcher *w) {
    sync_down(container_of(w, struct redis_ledger, watcher));
}

void *ledger_redis_new(struct redis *redis, const struct budget_redis *o, void *memory) {
    struct redis_ledger *l = xcalloc(1, sizeof *l);
    *l = (struct redis_ledger){.redis = redis,
                               .watcher = {.on_up = on_up, .on_down = on_down},
                               .timeout_us = o->timeout_us,
                               .when_down = o->when_down,
                               .memory = memory,
                               .now_us = o->now_us};
    int n = snprintf(l->base, sizeof l->base, "%s{money}:", redis->prefix);
    assert(n > 0 && (size_t)n < sizeof l->base);
    list_init(&l->logs);
    list_init(&l->queue);
    list_init(&l->tallies);
    list_init(&l->asked);
    list_init(&l->under_way);
    map_init(&l->calls);
    map_init(&l->slice_of);
    list_init(&l->slices);
    list_init(&l->untold);
    l->own = l->replay = log_get(l, o->log);
    l->own->own = true;
    l->rates = rates_shared_new(l);
    random_name(l->boot);
    redis_watch(redis, &l->watcher);
    return l;
}

static void redis_free(void *store) {
    struct redis_ledger *l = store;
    redis_unwatch(l->redis, &l->watcher);
    asks_forget(l);
    jobs_free(l);
    rates_shared_free(l->rates);
    calls_free(l);
    map_fini(&l->slice_of);
    logs_free(l);
    ledger_memory_ops.free(l->memory);
    free(l);
}

static void redis_counts(const void *store, struct budget_counts *out) {
    const struct redis_ledger *l = store;
    *out = l->counts;
}

const struct ledger_ops ledger_redis_ops = {.rate = redis_rate,
                                            .rate_end = redis_rate_end,
                                            .hold = redis_hold,
                                            .raise = redis_raise,
                                            .settle = redis_settle,
                                            .replay = redis_replay,
                                            .each = views_each,
                                            .spend = redis_spend,
                                            .watch = redis_watch_news,
                                            .free = redis_free,
                                            .tick = redis_tick,
                                            .replay_log = redis_replay_log,
                                            .ready = redis_ready,
                                            .settled = redis_settled,
                                            .rest = redis_rest,
                                            .counts = redis_counts};
