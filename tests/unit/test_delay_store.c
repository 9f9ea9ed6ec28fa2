/* The same stories with a ledger that answers later: the door is asynchronous, not only by its type. */
#include "tests/support/delay_store.h"

#include <criterion/criterion.h>
#include <event2/event.h>
#include <stdio.h>

#include "gateway/base/loop.h"
#include "tests/support/budget_house.h"

#define DELAY_US 500
#define CALLS 200

static int woken;

static void on_wake(struct waiter *w) {
    (void)w;
    woken++;
}

struct later {
    struct budget_house h;
    struct loop *loop;
    struct delay_store *store;
};

static void later_init(struct later *l) {
    woken = 0;
    house_init(&l->h);
    l->loop = loop_new();
    l->store = delay_store_put(l->h.b, loop_base(l->loop), DELAY_US);
}

static void later_fini(struct later *l) {
    house_fini(&l->h);
    loop_free(l->loop);
}

static void until_idle(struct later *l) {
    while (delay_store_waiting(l->store) > 0)
        event_base_loop(loop_base(l->loop), EVLOOP_ONCE);
}

static void ask(struct later *l, int k, const char *id, int64_t nanousd, struct hold_op *op) {
    op->waiter.wake = on_wake;
    op->err = ERR_INTERNAL;
    cr_assert_eq(budget_hold(l->h.b, &l->h.conf, &l->h.keys[k], id, &l->h.price, nanousd, HOUSE_NOW_US, op),
                 PROGRESS_WAIT);
    cr_assert_not(op->lease.open, "nothing is lent before the wake");
}

Test(delay_store, parallel_calls_never_overspend) {
    static struct hold_op ops[CALLS];
    struct later l;
    later_init(&l);
    house_limit(&l.h, LEVEL_TEAM, NANO_PER_USD);
    for (int i = 0; i < CALLS; i++) {
        char id[40];
        snprintf(id, sizeof id, "call-%d", i);
        ask(&l, 0, id, CENT, &ops[i]);
    }
    cr_assert_eq(woken, 0, "never inside the call");
    until_idle(&l);
    cr_assert_eq(woken, CALLS);
    for (int i = 0; i < CALLS; i++)
        cr_assert_eq(ops[i].err, i < 100 ? ERR_NONE : ERR_BUDGET, "first come, first served: %d", i);
    for (int i = 0; i < 100; i++)
        cr_assert_eq(budget_settle(l.h.b, &ops[i].lease, i == 0 ? 3 * CENT : CENT / 2), i == 0 ? 2 * CENT : 0);
    cr_assert_eq(house_look(&l.h, LEVEL_TEAM, HOUSE_NOW_US).v.held_nanousd, NANO_PER_USD, "told, not yet arrived");
    until_idle(&l);
    struct budget_view v = house_look(&l.h, LEVEL_TEAM, HOUSE_NOW_US).v;
    cr_assert(v.held_nanousd == 0 && v.settled_nanousd == 99 * CENT / 2 + 3 * CENT);
    later_fini(&l);
}

Test(delay_store, a_raise_waits_too) {
    struct later l;
    struct hold_op op = {0}, more = {.waiter = {on_wake}};
    later_init(&l);
    house_limit(&l.h, LEVEL_KEY, 100);
    ask(&l, 0, "a", 60, &op);
    until_idle(&l);
    cr_assert(op.err == ERR_NONE && op.lease.open && op.remaining_key == 40);
    cr_assert_eq(budget_raise(l.h.b, &l.h.conf, &l.h.keys[0], &op.lease, 90, HOUSE_NOW_US, &more), PROGRESS_WAIT);
    cr_assert_eq(op.lease.nanousd, 60, "the raise is not used before it is had");
    until_idle(&l);
    cr_assert(more.err == ERR_NONE && op.lease.nanousd == 90);
    (void)budget_settle(l.h.b, &op.lease, 90);
    cr_assert_not(op.lease.open);
    later_fini(&l);
}

Test(delay_store, rates_wait_and_give_back) {
    struct later l;
    struct rate_op a = {.waiter = {on_wake}}, b = {.waiter = {on_wake}};
    later_init(&l);
    l.h.keys[0].limits.in_flight = 1;
    cr_assert_eq(budget_rate(l.h.b, &l.h.conf, &l.h.keys[0], 5, HOUSE_NOW_US, &a), PROGRESS_WAIT);
    cr_assert_eq(budget_rate(l.h.b, &l.h.conf, &l.h.keys[0], 5, HOUSE_NOW_US, &b), PROGRESS_WAIT);
    until_idle(&l);
    cr_assert(a.err == ERR_NONE && a.slip.open && b.err == ERR_RATE && !b.slip.open);
    budget_rate_end(l.h.b, &a.slip, 5, HOUSE_NOW_US);
    budget_rate_end(l.h.b, &a.slip, 5, HOUSE_NOW_US);
    cr_assert_not(a.slip.open);
    cr_assert_eq(budget_rate(l.h.b, &l.h.conf, &l.h.keys[0], 5, HOUSE_NOW_US, &b), PROGRESS_WAIT);
    until_idle(&l);
    cr_assert_eq(b.err, ERR_NONE);
    budget_rate_end(l.h.b, &b.slip, 5, HOUSE_NOW_US);
    later_fini(&l);
}

Test(delay_store, what_needs_no_ledger_is_answered_at_once) {
    struct later l;
    struct hold_op op = {0};
    later_init(&l);
    house_limit(&l.h, LEVEL_KEY, 100);
    l.h.keys[0].max_cost_per_call = 5;
    cr_assert_eq(budget_hold(l.h.b, &l.h.conf, &l.h.keys[0], "a", &l.h.price, 6, HOUSE_NOW_US, &op), PROGRESS_DONE);
    cr_assert_eq(op.err, ERR_BUDGET);
    l.h.price.known = false;
    cr_assert_eq(budget_hold(l.h.b, &l.h.conf, &l.h.keys[0], "a", &l.h.price, 1, HOUSE_NOW_US, &op), PROGRESS_DONE);
    cr_assert_eq(op.err, ERR_PRICE);
    cr_assert_eq(delay_store_asked(l.store), 0);
    later_fini(&l);
}

Test(delay_store, a_broken_ledger_promises_nothing_and_forgets_nothing) {
    struct later l;
    struct hold_op op = {0}, other = {0};
    later_init(&l);
    house_limit(&l.h, LEVEL_KEY, 100);
    ask(&l, 0, "a", 60, &op);
    until_idle(&l);
    delay_store_break(l.store, true);
    ask(&l, 0, "b", 10, &other);
    (void)budget_settle(l.h.b, &op.lease, 33);
    while (delay_store_waiting(l.store) > 1)
        event_base_loop(loop_base(l.loop), EVLOOP_ONCE);
    cr_assert(other.err == ERR_LEDGER && !other.lease.open);
    delay_store_break(l.store, false);
    until_idle(&l);
    struct budget_view v = house_look(&l.h, LEVEL_KEY, HOUSE_NOW_US).v;
    cr_assert(v.settled_nanousd == 33 && v.held_nanousd == 0);
    later_fini(&l);
}

Test(delay_store, freed_while_calls_wait) {
    struct later l;
    static struct hold_op op;
    struct rate_op rate = {.waiter = {on_wake}};
    later_init(&l);
    house_limit(&l.h, LEVEL_KEY, 100);
    ask(&l, 0, "a", 60, &op);
    until_idle(&l);
    (void)budget_settle(l.h.b, &op.lease, 60);
    cr_assert_eq(budget_rate(l.h.b, &l.h.conf, &l.h.keys[0], 5, HOUSE_NOW_US, &rate), PROGRESS_WAIT);
    later_fini(&l);
    cr_assert_eq(woken, 1, "the first hold and nobody else");
}
