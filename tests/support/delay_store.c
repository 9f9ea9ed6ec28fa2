/* A ledger that answers later. Always true here: what is asked first is answered first; an op is filled and woken from
 * the loop, never inside the call; a question keeps its own copy of the ask. */
#include "tests/support/delay_store.h"

#include <event2/event.h>
#include <stdlib.h>

#include "gateway/base/clock.h"
#include "gateway/base/list.h"

enum job_kind { JOB_RATE, JOB_RATE_END, JOB_HOLD, JOB_RAISE, JOB_SETTLE };

struct job {
    struct link link;
    struct delay_store *store;
    struct event *timer; /* owned */
    enum job_kind kind;
    struct rate_ask rate;
    struct rate_op *rate_op;
    struct rate_slip slip; /* owned: taken over from the caller */
    struct ledger_ask ask;
    struct hold_op *hold_op;
    struct lease *raised; /* the caller's */
    struct lease lease;   /* a copy */
    int64_t number, now_us;
};

struct delay_store {
    const struct ledger_ops *inner;
    void *inner_store; /* owned */
    struct event_base *base;
    struct timeval delay;
    const struct timeval *delay_queue; /* libevent's: timers of one queue end in the order in which they were begun */
    bool broken;
    int asked;
    struct list waiting; /* struct job, owned */
};

static void job_free(struct job *j) {
    if (j->timer)
        event_free(j->timer);
    free(j->slip.team);
    free(j);
}

/* The one that is woken when a job is over; NULL when nobody waits for it. */
static struct waiter *job_waiter(const struct job *j) {
    if (j->rate_op)
        return &j->rate_op->waiter;
    return j->hold_op ? &j->hold_op->waiter : NULL;
}

static void job_fail(struct job *j) {
    if (j->rate_op) {
        j->rate_op->err = ERR_LEDGER;
        j->rate_op->slip = (struct rate_slip){0};
    }
    if (j->hold_op)
        j->hold_op->err = ERR_LEDGER;
}

static void job_do(struct job *j) {
    const struct ledger_ops *ops = j->store->inner;
    void *in = j->store->inner_store;
    if (j->store->broken) {
        job_fail(j);
        return;
    }
    switch (j->kind) {
    case JOB_RATE:
        (void)ops->rate(in, &j->rate, j->rate_op);
        break;
    case JOB_RATE_END:
        ops->rate_end(in, &j->slip, j->number, j->now_us);
        break;
    case JOB_HOLD:
        (void)ops->hold(in, &j->ask, j->hold_op);
        break;
    case JOB_RAISE:
        (void)ops->raise(in, &j->ask, j->raised, j->hold_op);
        break;
    case JOB_SETTLE:
        (void)ops->settle(in, &j->lease, j->number);
        break;
    }
}

static bool job_is_told(const struct job *j) {
    return j->kind == JOB_SETTLE || j->kind == JOB_RATE_END;
}

static void on_time(evutil_socket_t fd, short what, void *arg) {
    (void)fd;
    (void)what;
    struct job *j = arg;
    struct waiter *w = job_waiter(j);
    if (j->store->broken && job_is_told(j)) { /* what has been told is told again until it has arrived */
        evtimer_add(j->timer, j->store->delay_queue);
        return;
    }
    list_remove(&j->store->waiting, &j->link);
    job_do(j);
    job_free(j);
    if (w)
        w->wake(w);
}

static struct job *job_new(struct delay_store *d, enum job_kind kind) {
    struct job *j = xcalloc(1, sizeof *j);
    j->store = d;
    j->kind = kind;
    j->timer = evtimer_new(d->base, on_time, j);
    evtimer_add(j->timer, d->delay_queue);
    list_append(&d->waiting, &j->link);
    d->asked++;
    return j;
}

static enum progress delay_rate(void *store, const struct rate_ask *ask, struct rate_op *op) {
    struct job *j = job_new(store, JOB_RATE);
    j->rate = *ask;
    j->rate_op = op;
    return PROGRESS_WAIT;
}

static void delay_rate_end(void *store, struct rate_slip *slip, int64_t tokens_used, int64_t now_us) {
    if (!slip->open)
        return;
    struct job *j = job_new(store, JOB_RATE_END);
    j->slip = *slip;
    j->number = tokens_used;
    j->now_us = now_us;
    *slip = (struct rate_slip){0};
}

static enum progress delay_hold(void *store, const struct ledger_ask *ask, struct hold_op *op) {
    struct job *j = job_new(store, JOB_HOLD);
    j->ask = *ask;
    j->hold_op = op;
    return PROGRESS_WAIT;
}

static enum progress delay_raise(void *store, const struct ledger_ask *ask, struct lease *lease, struct hold_op *op) {
    struct job *j = job_new(store, JOB_RAISE);
    j->ask = *ask;
    j->hold_op = op;
    j->raised = lease;
    return PROGRESS_WAIT;
}

static int64_t delay_settle(void *store, struct lease *lease, int64_t nanousd) {
    struct job *j = job_new(store, JOB_SETTLE);
    j->lease = *lease;
    j->number = nanousd;
    lease->open = false;
    return nanousd > lease->nanousd ? nanousd - lease->nanousd : 0;
}

static void delay_replay(void *store, const struct ledger_ask *ask) {
    struct delay_store *d = store;
    d->inner->replay(d->inner_store, ask);
}

static void delay_each(void *store, int64_t now_us, void (*see)(const struct ledger_account *a, void *user),
                       void *user) {
    struct delay_store *d = store;
    d->inner->each(d->inner_store, now_us, see, user);
}

static void delay_spend(void *store, const char *owner, int64_t now_us, struct spend_view *out) {
    struct delay_store *d = store;
    d->inner->spend(d->inner_store, owner, now_us, out);
}

static void delay_watch(void *store, budget_watcher *see, void *user) {
    struct delay_store *d = store;
    if (d->inner_store) /* else it is being put before one that knows its watcher */
        d->inner->watch(d->inner_store, see, user);
}

static void delay_free(void *store) {
    struct delay_store *d = store;
    d->broken = false;
    for (struct link *k; (k = list_shift(&d->waiting));) {
        struct job *j = container_of(k, struct job, link);
        if (job_is_told(j))
            job_do(j);
        job_free(j);
    }
    d->inner->free(d->inner_store);
    free(d);
}

static const struct ledger_ops delay_ops = {.rate = delay_rate,
                                            .rate_end = delay_rate_end,
                                            .hold = delay_hold,
                                            .raise = delay_raise,
                                            .settle = delay_settle,
                                            .replay = delay_replay,
                                            .each = delay_each,
                                            .spend = delay_spend,
                                            .watch = delay_watch,
                                            .free = delay_free};

struct delay_store *delay_store_put(struct budget *b, struct event_base *base, int64_t delay_us) {
    struct delay_store *d = xcalloc(1, sizeof *d);
    d->base = base;
    d->delay.tv_sec = delay_us / US_PER_S;
    d->delay.tv_usec = delay_us % US_PER_S;
    d->delay_queue = event_base_init_common_timeout(base, &d->delay);
    list_init(&d->waiting);
    d->inner_store = budget_set_store(b, &delay_ops, d, &d->inner);
    return d;
}

void delay_store_break(struct delay_store *d, bool broken) {
    d->broken = broken;
}

int delay_store_waiting(const struct delay_store *d) {
    return (int)d->waiting.n;
}

int delay_store_asked(const struct delay_store *d) {
    return d->asked;
}
