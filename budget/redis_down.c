/* What is done while Redis does not answer, as redis.when_down says, and the memory ledger that follows. Always true here:
 * what is granted without Redis is an open call like any other, and is told to Redis when it is back. */
#include "budget/redis_ledger.h"

static struct ledger_ask without_limits(const struct ledger_ask *ask) {
    struct ledger_ask all = *ask;
    for (int i = 0; i < all.n; i++)
        all.scopes[i].limit_nanousd = all.scopes[i].share_nanousd = CONF_UNLIMITED;
    return all;
}

void memory_follow(struct redis_ledger *l, const struct ledger_ask *ask, struct hold_op *op) {
    struct ledger_ask all = without_limits(ask);
    struct lease held = {0};
    memcpy(held.request_id, ask->request_id, sizeof held.request_id);
    if (call_find(l, ask->request_id))
        (void)ledger_memory_ops.raise(l->memory, &all, &held, op);
    else
        (void)ledger_memory_ops.hold(l->memory, &all, op);
}

static void say_it(struct redis_ledger *l, const struct ledger_ask *ask) {
    uint64_t swallowed;
    if (!log_gate_open(&l->down_gate, ask->now_us, &swallowed))
        return;
    if (l->when_down == WHEN_DOWN_ALLOW)
        log_warn("the Redis ledger does not answer: this process's own knowledge decides request=%s others=%llu",
                 ask->request_id, (unsigned long long)swallowed);
    else
        log_warn("the Redis ledger does not answer: calls under budgets are refused request=%s others=%llu",
                 ask->request_id, (unsigned long long)swallowed);
}

enum progress down_hold(struct redis_ledger *l, const struct ledger_ask *ask, struct hold_op *op) {
    if (l->when_down == WHEN_DOWN_LEASED && slice_hold(l, ask, op))
        return PROGRESS_DONE;
    say_it(l, ask);
    if (l->when_down != WHEN_DOWN_ALLOW) {
        op->err = ERR_LEDGER;
        return PROGRESS_DONE;
    }
    (void)ledger_memory_ops.hold(l->memory, ask, op);
    if (op->err == ERR_NONE && !call_find(l, ask->request_id))
        (void)call_new(l, ask);
    return PROGRESS_DONE;
}

enum progress down_raise(struct redis_ledger *l, const struct ledger_ask *ask, struct lease *lease,
                         struct hold_op *op) {
    struct open_call *c = call_find(l, lease->request_id);
    if (l->when_down == WHEN_DOWN_LEASED && slice_raise(l, ask, op)) {
        *lease = op->lease;
        return PROGRESS_DONE;
    }
    say_it(l, ask);
    if (l->when_down != WHEN_DOWN_ALLOW) {
        op->err = ERR_LEDGER;
        return PROGRESS_DONE;
    }
    (void)ledger_memory_ops.raise(l->memory, ask, lease, op);
    if (!c || op->err != ERR_NONE)
        return PROGRESS_DONE;
    bool leaves = c->in != NULL;
    if (leaves)
        slice_leave(l, c);
    c->nanousd = ask->nanousd;
    if (leaves && l->state == LEDGER_READY)
        sync_restore(l);
    return PROGRESS_DONE;
}
