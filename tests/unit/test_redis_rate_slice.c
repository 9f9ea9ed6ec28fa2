/* Requests, tokens and slots leased in advance, and rates that are asked together with the hold: what is asked how often, and
 * what a caller is told. That no order of calls passes a limit is shown by test_redis_faults.c. */
#include "tests/support/ledger_kit.h"

#include <criterion/criterion.h>
#include <stdio.h>

TestSuite(redis_rate_slice, .init = kit_begin, .fini = kit_end);

#define OWNER "team/search"
#define BUDGET 100000

struct one {
    struct rate_op rate;
    struct hold_op hold;
};

static void on_wake(struct waiter *w) {
    (void)w;
}

static void begin(struct process *p, const char *log, int64_t share, struct conf_limits limits) {
    process_start(p, log, WHEN_DOWN_REFUSE);
    p->h.conf.hold.slice = share;
    p->h.teams[0].limits = limits;
    house_limit(&p->h, LEVEL_TEAM, BUDGET);
    process_ready(p);
}

static void rate(struct process *p, struct one *o, bool may_owe, int64_t tokens) {
    *o = (struct one){.rate.waiter.wake = on_wake, .hold.waiter.wake = on_wake};
    o->rate.may_owe = may_owe;
    if (budget_rate(p->h.b, &p->h.conf, &p->h.keys[0], tokens, kit.now_us, &o->rate) == PROGRESS_WAIT)
        sync_redis_pump(&p->s);
}

static void hold(struct process *p, struct one *o, const char *id, int64_t nanousd) {
    o->hold.rates = o->rate.owed ? &o->rate : NULL;
    if (budget_hold(p->h.b, &p->h.conf, &p->h.keys[0], id, &p->h.price, nanousd, kit.now_us, &o->hold) == PROGRESS_WAIT)
        sync_redis_pump(&p->s);
}

static void end(struct process *p, struct one *o) {
    if (o->hold.lease.open)
        (void)budget_settle(p->h.b, &o->hold.lease, 40);
    if (o->rate.slip.open)
        budget_rate_end(p->h.b, &o->rate.slip, 10, kit.now_us);
    sync_redis_pump(&p->s);
}

static bool through(struct process *p, struct one *o) {
    static int number;
    char id[24];
    snprintf(id, sizeof id, "call-%d", ++number);
    rate(p, o, true, 10);
    if (o->rate.err == ERR_NONE)
        hold(p, o, id, 50);
    if (o->rate.slip.open && o->hold.lease.open)
        return true;
    end(p, o);
    return false;
}

static const struct conf_limits wide = {.requests_per_minute = 1000, .tokens_per_minute = 20000, .in_flight = 50};

Test(redis_rate_slice, rates_and_hold_of_a_call_are_one_question) {
    struct process p;
    struct one a;
    begin(&p, "one", 0, wide);
    int sent = p.s.sent;
    rate(&p, &a, true, 10);
    cr_assert(a.rate.owed && !a.rate.slip.open && p.s.sent == sent, "nothing is asked yet");
    hold(&p, &a, "a", 50);
    cr_assert(a.rate.slip.open && a.hold.lease.open && !a.rate.owed && p.s.sent == sent + 1);
    cr_assert_eq(a.rate.view.remaining_requests, 999);
    end(&p, &a);
    sent = p.s.sent;
    rate(&p, &a, false, 10);
    cr_assert(a.rate.slip.open && p.s.sent == sent + 1, "who may be answered by a cache is asked for at once");
    end(&p, &a);
    process_stop(&p);
}

Test(redis_rate_slice, refused_rates_hold_no_money_and_refused_money_has_passed_its_rates) {
    struct process p;
    struct one a, b;
    begin(&p, "one", 0, (struct conf_limits){.requests_per_minute = 2, .tokens_per_minute = -1, .in_flight = -1});
    rate(&p, &a, true, 10);
    hold(&p, &a, "a", BUDGET + 1);
    cr_assert(a.rate.err == ERR_NONE && a.rate.slip.open && a.hold.err == ERR_BUDGET && !a.hold.lease.open);
    hold(&p, &a, "a", 50);
    cr_assert(a.hold.lease.open, "another choice is held, and asks no rates again");
    end(&p, &a);
    cr_assert(through(&p, &a));
    rate(&p, &b, true, 10);
    hold(&p, &b, "c", 50);
    cr_assert(b.rate.err == ERR_RATE && !b.hold.lease.open && !b.rate.slip.open);
    cr_assert_str_eq(b.rate.limit, "requests_per_minute");
    cr_assert_eq(kit_account(&p, OWNER, "h"), 50, "that of the call before");
    end(&p, &a);
    p.h.keys[0].max_cost_per_call = 10;
    rate(&p, &b, true, 10);
    hold(&p, &b, "d", 50);
    cr_assert(b.rate.err == ERR_RATE && b.hold.err == ERR_BUDGET, "rates are asked for where no ledger is");
    process_stop(&p);
}

Test(redis_rate_slice, calls_in_a_slice_ask_nobody_and_are_told_together) {
    struct process p;
    struct one o;
    begin(&p, "one", FACTOR_ONE / 10, wide);
    for (int i = 0; i < 3; i++) { /* Redis tells of the limits, and then has slices of them */
        cr_assert(through(&p, &o));
        end(&p, &o);
        process_tick(&p);
    }
    int sent = p.s.sent;
    int64_t left = o.rate.view.remaining_requests;
    for (int i = 0; i < 20; i++) {
        cr_assert(through(&p, &o), "call %d", i);
        cr_assert_eq(o.rate.view.remaining_requests, --left);
        end(&p, &o);
    }
    cr_assert_eq(p.s.sent, sent, "%d were sent", p.s.sent - sent);
    kit_pass(4 * US_PER_S, &p, NULL);
    cr_assert(kit_account(&p, OWNER, "h") == 0 && kit_account(&p, OWNER, "s") == 23 * 40);
    process_stop(&p);
}

Test(redis_rate_slice, the_last_request_passes_when_others_are_idle) {
    struct process p, q;
    struct one o;
    int n = 0;
    begin(&p, "one", FACTOR_ONE / 2, wide);
    begin(&q, "two", FACTOR_ONE / 2, wide);
    q.h.teams[0].limits.in_flight = p.h.teams[0].limits.in_flight = -1;
    cr_assert(through(&q, &o));
    end(&q, &o);
    for (n = 0; n <= 1000 && through(&p, &o); n++)
        end(&p, &o);
    cr_assert(n < 999 && n >= 999 - 1000 / 8, "it binds early by an idle slice of another process: %d", n);
    kit_pass(3 * US_PER_S, &p, &q);
    for (; n <= 1000 && through(&p, &o); n++)
        end(&p, &o);
    cr_assert_eq(n, 999, "%d passed", n);
    process_stop(&p);
    process_stop(&q);
}

Test(redis_rate_slice, a_limit_that_changes_ends_what_was_leased_under_the_old_one) {
    struct process p;
    struct one o;
    begin(&p, "one", FACTOR_ONE / 10, wide);
    for (int i = 0; i < 3; i++) {
        cr_assert(through(&p, &o));
        end(&p, &o);
    }
    p.h.teams[0].limits.requests_per_minute = 3;
    cr_assert_not(through(&p, &o));
    cr_assert_eq(o.rate.err, ERR_RATE);
    process_stop(&p);
}

Test(redis_rate_slice, slots_of_who_was_not_heard_are_asked_for_again) {
    struct process p, q;
    struct one of_p[20], of_q[20];
    int held = 0, others = 0;
    begin(&p, "one", FACTOR_ONE / 10, (struct conf_limits){-1, -1, .in_flight = 20});
    begin(&q, "two", FACTOR_ONE / 10, (struct conf_limits){-1, -1, .in_flight = 20});
    for (; held < 4 && through(&p, &of_p[held]); held++)
        ;
    kit.now_us += 4 * US_PER_S; /* p says nothing */
    process_tick(&q);
    for (; others < 20 && through(&q, &of_q[others]); others++)
        ;
    cr_assert_eq(others, 20, "slots are leases: %d", others);
    cr_assert_not(through(&p, &of_p[held]), "what it kept is gone");
    for (int i = 0; i < others; i++)
        end(&q, &of_q[i]);
    for (int i = 0; i < held; i++)
        end(&p, &of_p[i]);
    process_stop(&p);
    process_stop(&q);
}
