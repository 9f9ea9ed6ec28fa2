/* The door of the ledger in Redis. Always true here: whoever asks waits at most for what is left of the request's time for
 * Redis; whatever Redis did with a question that was not answered is taken back under the same name; what this process
 * knows by itself (the memory ledger) follows what Redis granted. */
#include "budget/redis_ledger.h"
#include "budget/redis_script.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

static struct redis_script hold_script = {.name = "hold", .text = lua_hold};

struct asked {              /* a hold or a raise under way */
    struct redis_call call; /* first member */
    struct redis_ledger *l;
    struct link in_asked;
    struct ledger_ask ask;
    struct hold_op *op;  /* the caller's */
    struct lease *lease; /* the caller's, of a raise; NULL: a hold */
    struct slice *slice; /* that is to grow for a raise in it; NULL: the call has a lease of its own */
    int64_t target;      /* what is then granted to it */
    struct instant sent;
    int64_t number, began_us;
    int tries;
    bool again; /* asked once more, without slices of ours */
};

static void asked_free(struct asked *a) {
    list_remove(&a->l->asked, &a->in_asked);
    free(a);
}

/* --- the question --- */

/* Whose calls in flight are limited to a share of a budget. */
static const char *sharer(const struct ledger_ask *ask, const struct ledger_scope *s) {
    bool shared = s->level != LEVEL_KEY && s->share_nanousd != CONF_UNLIMITED;
    return shared ? ask->owners[s->level - 1].name : "";
}

static void put_limit(struct words *w, int64_t nanousd) {
    if (nanousd == CONF_UNLIMITED)
        words_puts(w, "");
    else
        words_i64(w, nanousd);
}

static void put_scope(struct words *w, const struct ledger_ask *ask, const struct ledger_scope *s,
                      const struct tally *t) {
    words_puts(w, t->account);
    put_limit(w, s->limit_nanousd);
    put_limit(w, s->share_nanousd);
    words_puts(w, sharer(ask, s));
    words_puts(w, tally_keep_s(t));
}

/* The account of an ask's scope: where the call stands already, or that of now. */
static struct tally *account_of(struct redis_ledger *l, const struct ledger_ask *ask, int i) {
    const struct open_call *c = call_find(l, ask->request_id);
    const struct ledger_scope *s = &ask->scopes[i];
    struct tally *t = c ? call_place(c, s) : NULL;
    if (t)
        return t;
    return tally_get(l, l->own, s->name, s->period, s->zone, ask->now_us);
}

void question_put(struct words *w, struct redis_ledger *l, const struct ledger_ask *ask, const char *id, int64_t amount,
                  const char *mode) {
    words_puts(w, id);
    words_i64(w, amount);
    words_i64(w, LEASE_LIVES_US);
    words_puts(w, mode);
    words_puts(w, ask->free ? "1" : "0");
    words_i64(w, ask->n);
    for (int i = 0; i < ask->n; i++)
        put_scope(w, ask, &ask->scopes[i], account_of(l, ask, i));
    words_i64(w, LEDGER_OWNERS);
    for (int i = 0; i < LEDGER_OWNERS; i++)
        words_puts(w, ask->owners[i].name);
}

static void put_question(struct words *w, struct asked *a) {
    const struct open_call *c = a->slice ? call_find(a->l, a->ask.request_id) : NULL;
    if (!c) {
        question_put(w, a->l, &a->ask, a->ask.request_id, a->ask.nanousd, a->lease ? "raise" : "hold");
        return;
    }
    a->target = slice_ask_more(a->slice, a->ask.nanousd - c->nanousd);
    question_put(w, a->l, &a->ask, a->slice->call.request_id, a->target, "slice");
}

/* What the answer, NULL none, means for the slice that was asked for. */
static void slice_asked(struct asked *a, const struct redis_value *reply) {
    if (a->slice)
        slice_answered(a->l, a->slice, reply && reply_is(reply, "OK"), a->target, &a->sent);
}

static bool ask_redis(struct asked *a) {
    struct words w;
    int64_t left_us = a->l->timeout_us - a->op->waited_us;
    if (left_us <= 0)
        return false;
    a->call.until_us = a->began_us + left_us;
    words_begin(&w, a->l, a->ask.now_us);
    a->number = a->l->op;
    a->sent = (struct instant){a->ask.now_us, clock_mono_us()};
    put_question(&w, a);
    if (words_run(a->l, &w, &hold_script, &a->call))
        return true;
    slice_asked(a, NULL);
    return false;
}

/* --- the answer --- */

/* A raise under a newer conf may speak of budgets that the call does not stand in. */
static bool stands_in(const struct open_call *c, const struct tally *t) {
    for (int i = 0; c && i < c->n; i++) {
        if (c->at[i] == t)
            return true;
    }
    return !c;
}

static void see_accounts(struct asked *a, const struct redis_value *reply, size_t at,
                         struct ledger_sums sums[LEASE_SCOPES_MAX]) {
    for (int i = 0; i < a->ask.n; i++) {
        const struct ledger_scope *scope = &a->ask.scopes[i];
        struct tally *t = account_of(a->l, &a->ask, i);
        reply_told(reply, at + 4 * (size_t)i, &t->said);
        t->seen = true;
        news_terms(t, scope, a->ask.owners[scope->level].name);
        sums[i] = sums_said(t);
        sums[i].stands = stands_in(call_find(a->l, a->ask.request_id), t);
    }
}

static void granted(struct asked *a, const struct redis_value *reply) {
    struct redis_ledger *l = a->l;
    struct ledger_sums sums[LEASE_SCOPES_MAX];
    if (!a->slice)
        a->ask.nanousd = reply_i64(reply, 1);
    memory_follow(l, &a->ask, a->op);
    struct open_call *c = call_find(l, a->ask.request_id);
    if (!c)
        c = call_new(l, &a->ask);
    c->leased = true;
    slice_moved(l, &a->ask);
    see_accounts(a, reply, 2, sums);
    ledger_tell(&a->ask, sums, a->op);
    for (int i = 0; i < a->ask.n; i++)
        news_passed(l, account_of(l, &a->ask, i));
}

static void refused(struct asked *a, const struct redis_value *reply) {
    struct ledger_sums sums[LEASE_SCOPES_MAX];
    int i = (int)reply_i64(reply, 1) - 1;
    int64_t need = reply_i64(reply, 3);
    bool share = span_is(reply_text(reply, 2), "share");
    a->op->err = ERR_LEDGER;
    if (i < 0 || i >= a->ask.n)
        return;
    see_accounts(a, reply, 4, sums);
    if (share)
        ledger_refuse(&a->ask, sums, i, need, ERR_HOLD_SHARE, a->op);
    else if ((i = ledger_judge(&a->ask, sums, need, a->op)) >= 0)
        news_refused(a->l, account_of(a->l, &a->ask, i));
    ledger_tell(&a->ask, sums, a->op);
}

/* Nobody knows whether it was done: what a hold may have set aside is given back, what a raise may have is in its lease. */
static void unanswered(struct asked *a) {
    struct redis_ledger *l = a->l;
    if (a->lease)
        (void)down_raise(l, &a->ask, a->lease, a->op);
    else
        (void)down_hold(l, &a->ask, a->op);
    if (!a->lease)
        settle_nothing(l, a->ask.request_id);
}

static void answered(struct asked *a, const struct redis_value *reply) {
    if (reply_is(reply, "OK"))
        granted(a, reply);
    else if (reply_is(reply, "NO"))
        refused(a, reply);
    else if (reply_is(reply, "GONE") || reply_is(reply, "FULL"))
        a->op->err = ERR_LEDGER;
    else
        unanswered(a);
}

/* Before a call is refused, what is unused of this process's slices is given back, once. */
static bool ask_without_slices(struct asked *a) {
    if (a->again || !slices_give_back(a->l, &a->ask))
        return false;
    a->again = true;
    return ask_redis(a);
}

static void on_asked(struct redis_call *call, const struct redis_value *reply) {
    struct asked *a = (struct asked *)(void *)call;
    struct redis_ledger *l = a->l;
    struct hold_op *op = a->op;
    int64_t now_us = clock_mono_us();
    op->waited_us += now_us - a->began_us;
    a->began_us = now_us;
    bool done = answer_good(l, call, a->number, reply);
    slice_asked(a, done ? reply : NULL);
    if (done && reply_is(reply, "NO") && ask_without_slices(a))
        return;
    if (!done && call->fault == REDIS_OK && reply_is(reply, "STALE") && a->tries++ < STALE_TRIES && ask_redis(a))
        return;
    if (done)
        answered(a, reply);
    else
        unanswered(a);
    if (a->lease && op->err == ERR_NONE)
        *a->lease = op->lease;
    asked_free(a);
    op->waiter.wake(&op->waiter);
}

static bool ask_later(struct redis_ledger *l, const struct ledger_ask *ask, struct lease *lease, struct hold_op *op) {
    struct asked *a = xcalloc(1, sizeof *a);
    a->call.done = on_asked;
    a->l = l;
    a->ask = *ask;
    a->op = op;
    a->lease = lease;
    const struct open_call *c = call_find(l, ask->request_id);
    a->slice = c ? c->in : NULL;
    a->began_us = clock_mono_us();
    list_append(&l->asked, &a->in_asked);
    if (ask_redis(a))
        return true;
    asked_free(a);
    return false;
}

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
        *lease = op->lease;
        return PROGRESS_DONE;
    }
    if (l->state == LEDGER_READY && ask_later(l, ask, lease, op))
        return PROGRESS_WAIT;
    return down_raise(l, ask, lease, op);
}

/* A call that is held from a slice: it is not made smaller. */
static enum progress hold_again(struct redis_ledger *l, const struct ledger_ask *ask, struct hold_op *op) {
    struct ledger_ask most = *ask;
    int64_t held = call_find(l, ask->request_id)->nanousd;
    most.nanousd = held > most.nanousd ? held : most.nanousd;
    return raise_open(l, &most, &op->lease, op);
}

static enum progress redis_hold(void *store, const struct ledger_ask *ask, struct hold_op *op) {
    struct redis_ledger *l = store;
    l->now_us = ask->now_us > l->now_us ? ask->now_us : l->now_us;
    if (ask->n == 0)
        return hold_unlimited(l, ask, op);
    const struct open_call *c = call_find(l, ask->request_id);
    if (c && c->in)
        return hold_again(l, ask, op);
    if (l->state != LEDGER_READY)
        return down_hold(l, ask, op);
    bool held = slice_hold(l, ask, op), asked = !held && ask_later(l, ask, NULL, op);
    slice_want(l, ask);
    if (held)
        return PROGRESS_DONE;
    return asked ? PROGRESS_WAIT : down_hold(l, ask, op);
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
    for (struct link *k; (k = list_first(&l->asked));) {
        struct asked *a = container_of(k, struct asked, in_asked);
        redis_forget(l->redis, &a->call);
        asked_free(a);
    }
    jobs_free(l);
    rates_shared_free(l->rates);
    calls_free(l);
    map_fini(&l->slice_of);
    logs_free(l);
    ledger_memory_ops.free(l->memory);
    free(l);
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
                                            .rest = redis_rest};
