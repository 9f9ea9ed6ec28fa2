/* One budget over processes that share a real Redis: what is granted, refused, settled, lost, and found again. */
#include "tests/support/ledger_kit.h"

#include <criterion/criterion.h>
#include <stdio.h>

#define TEAM "team/search"

TestSuite(redis_ledger, .init = kit_begin, .fini = kit_end);

static void two_with_limit(struct process *p, struct process *q, int64_t team_nanousd) {
    process_start(p, "one", WHEN_DOWN_REFUSE);
    process_start(q, "two", WHEN_DOWN_REFUSE);
    house_limit(&p->h, LEVEL_TEAM, team_nanousd);
    house_limit(&q->h, LEVEL_TEAM, team_nanousd);
    process_ready(p);
    process_ready(q);
}

static void stop_both(struct process *p, struct process *q) {
    process_stop(p);
    process_stop(q);
}

Test(redis_ledger, a_limit_is_one_for_all_processes) {
    struct process p, q;
    struct hold_op a = {0}, b = {0}, c = {0};
    two_with_limit(&p, &q, 100);
    cr_assert_eq(process_hold(&p, 0, "a", 60, &a), ERR_NONE);
    cr_assert_eq(a.remaining_team, 40);
    cr_assert_eq(process_hold(&q, 1, "b", 41, &b), ERR_BUDGET);
    struct house_view seen = house_look(&q.h, LEVEL_TEAM, kit.now_us); /* of a process that has held nothing itself */
    cr_assert(seen.found && seen.v.held_nanousd == 60 && seen.v.in_flight == 1);
    cr_assert(b.refusal.held_nanousd == 60 && b.refusal.needed_nanousd == 41 && b.refusal.limit_nanousd == 100);
    cr_assert_eq(process_hold(&q, 1, "b", 40, &b), ERR_NONE);
    process_settle(&p, &a.lease, 10);
    cr_assert_eq(process_hold(&q, 0, "c", 51, &c), ERR_BUDGET);
    cr_assert(c.refusal.settled_nanousd == 10 && c.refusal.held_nanousd == 40);
    cr_assert_eq(process_hold(&q, 0, "c", 50, &c), ERR_NONE);
    process_settle(&q, &b.lease, 40);
    process_settle(&q, &c.lease, 50);
    cr_assert(kit_account(&p, TEAM, "s") == 100 && kit_account(&p, TEAM, "h") == 0 && kit_account(&p, TEAM, "k") == 0);
    stop_both(&p, &q);
}

Test(redis_ledger, a_hold_stands_at_every_level_or_at_none) {
    struct process p;
    struct hold_op op = {0};
    process_start(&p, "one", WHEN_DOWN_REFUSE);
    house_limit(&p.h, LEVEL_KEY, 100);
    house_limit(&p.h, LEVEL_TEAM, 100);
    house_limit(&p.h, LEVEL_ORGANIZATION, 50);
    process_ready(&p);
    cr_assert_eq(process_hold(&p, 0, "a", 51, &op), ERR_BUDGET);
    cr_assert_eq(op.refusal.level, LEVEL_ORGANIZATION);
    cr_assert(kit_account(&p, "key/key00001", "h") == 0 && kit_account(&p, TEAM, "h") == 0);
    cr_assert_eq(process_hold(&p, 0, "a", 50, &op), ERR_NONE);
    cr_assert(kit_account(&p, "key/key00001", "h") == 50 && kit_account(&p, TEAM, "h") == 50 &&
              kit_account(&p, "organization", "h") == 50);
    cr_assert_eq(op.lease.n, 3);
    cr_assert_eq(process_raise(&p, 0, &op, 51), ERR_BUDGET);
    cr_assert_eq(op.lease.nanousd, 50);
    p.h.organization_budget.limit_nanousd = 90;
    cr_assert_eq(process_raise(&p, 0, &op, 90), ERR_NONE);
    cr_assert(op.lease.nanousd == 90 && kit_account(&p, TEAM, "h") == 90);
    p.h.organization_budget.limit_nanousd = 60; /* lowered while it runs: binds from the next hold on */
    struct hold_op other = {0};
    cr_assert_eq(process_hold(&p, 1, "b", 1, &other), ERR_BUDGET);
    process_settle(&p, &op.lease, 95);
    cr_assert(kit_account(&p, TEAM, "s") == 95 && kit_account(&p, TEAM, "v") == 5);
    process_stop(&p);
}

/* Amounts that a double cannot tell apart. */
Test(redis_ledger, large_amounts_are_exact) {
    static const int64_t at[] = {(INT64_C(1) << 53) - 1, INT64_C(1) << 53, (INT64_C(1) << 53) + 1, INT64_MAX - 1,
                                 INT64_MAX};
    struct process p;
    struct hold_op a = {0}, b = {0}, c = {0};
    process_start(&p, "one", WHEN_DOWN_REFUSE);
    house_limit(&p.h, LEVEL_TEAM, 1);
    process_ready(&p);
    for (size_t i = 0; i < ARRAY_LEN(at); i++) {
        p.h.team_budget.limit_nanousd = at[i];
        cr_assert_eq(process_hold(&p, 0, "a", at[i] - 1, &a), ERR_NONE, "%zu", i);
        cr_assert_eq(process_hold(&p, 1, "b", 2, &b), ERR_BUDGET, "%zu", i);
        cr_assert_eq(process_hold(&p, 1, "c", 1, &c), ERR_NONE, "%zu", i);
        cr_assert_eq(kit_account(&p, TEAM, "h"), at[i], "%zu", i);
        cr_assert(a.remaining_team == 1 && c.remaining_team == 0, "%zu", i);
        process_settle(&p, &a.lease, 0);
        process_settle(&p, &c.lease, 0);
    }
    p.h.team_budget.limit_nanousd = INT64_MAX;
    cr_assert_eq(process_hold(&p, 0, "d", INT64_MAX - 1, &a), ERR_NONE);
    process_settle(&p, &a.lease, (INT64_C(1) << 53) + 1);
    cr_assert_eq(kit_account(&p, TEAM, "s"), (INT64_C(1) << 53) + 1);
    process_stop(&p);
}

Test(redis_ledger, what_was_not_answered_changes_nothing_twice) {
    struct process p;
    struct hold_op a = {0}, b = {0};
    process_start(&p, "one", WHEN_DOWN_REFUSE);
    house_limit(&p.h, LEVEL_TEAM, 100);
    process_ready(&p);
    p.s.mode = SYNC_UNHEARD; /* done, and nobody knows */
    cr_assert_eq(process_hold(&p, 0, "a", 60, &a), ERR_LEDGER);
    cr_assert_eq(kit_account(&p, TEAM, "h"), 0, "what it may have held is given back");
    p.s.mode = SYNC_GOOD;
    process_tick(&p);
    cr_assert_eq(process_hold(&p, 0, "b", 60, &b), ERR_NONE);
    p.s.mode = SYNC_UNHEARD;
    process_settle(&p, &b.lease, 33);
    cr_assert_eq(kit_account(&p, TEAM, "s"), 33);
    process_tick(&p);
    p.s.mode = SYNC_GOOD;
    process_tick(&p);
    process_tick(&p);
    cr_assert(kit_account(&p, TEAM, "s") == 33 && kit_account(&p, TEAM, "h") == 0);
    cr_assert_eq(process_hold(&p, 0, "c", 60, &a), ERR_NONE);
    p.s.mode = SYNC_UNDONE; /* neither heard nor done */
    process_settle(&p, &a.lease, 5);
    cr_assert(kit_account(&p, TEAM, "s") == 33 && kit_account(&p, TEAM, "h") == 60);
    p.s.mode = SYNC_GOOD;
    process_tick(&p);
    cr_assert(kit_account(&p, TEAM, "s") == 38 && kit_account(&p, TEAM, "h") == 0 && kit_account(&p, TEAM, "k") == 0);
    process_stop(&p);
}

/* A frozen Redis reads an old connection after a new one. */
Test(redis_ledger, a_hold_that_was_overtaken_is_not_done_late) {
    struct process p;
    struct hold_op a = {0}, b = {0};
    process_start(&p, "one", WHEN_DOWN_REFUSE);
    house_limit(&p.h, LEVEL_TEAM, 100);
    process_ready(&p);
    p.s.mode = SYNC_OVERTAKEN;
    cr_assert_eq(process_hold(&p, 0, "a", 60, &a), ERR_LEDGER);
    p.s.mode = SYNC_GOOD;
    process_tick(&p);
    sync_redis_catch_up(&p.s);
    cr_assert_eq(kit_account(&p, TEAM, "h"), 0);
    cr_assert_eq(process_hold(&p, 0, "b", 100, &b), ERR_NONE);
    process_stop(&p);
}

Test(redis_ledger, a_dead_process_s_holds_are_charged_until_its_log_has_spoken) {
    struct process p, q;
    struct hold_op a = {0}, b = {0}, c = {0};
    two_with_limit(&p, &q, 100);
    cr_assert_eq(process_hold(&p, 0, "a", 60, &a), ERR_NONE);
    cr_assert_eq(process_hold(&p, 0, "b", 10, &b), ERR_NONE);
    process_settle(&p, &b.lease, 7);
    process_stop(&p);
    kit_pass(5 * US_PER_S, &q, NULL);
    cr_assert(kit_account(&q, TEAM, "h") == 0 && kit_account(&q, TEAM, "p") == 60 && kit_account(&q, TEAM, "k") == 0);
    cr_assert_eq(process_hold(&q, 0, "c", 34, &c), ERR_BUDGET);
    cr_assert(c.refusal.settled_nanousd == 7 && c.refusal.held_nanousd == 60);
    process_start(&p, "one", WHEN_DOWN_REFUSE); /* its log has b at 7 and settles a at 20 */
    house_limit(&p.h, LEVEL_TEAM, 100);
    budget_replay_log(p.h.b, NULL);
    budget_replay(p.h.b, &p.h.conf, SPAN("key00001"), SPAN("search"), kit.now_us, 7);
    budget_replay(p.h.b, &p.h.conf, SPAN("key00001"), SPAN("search"), kit.now_us, 20);
    process_tick(&p);
    cr_assert(kit_account(&q, TEAM, "p") == 0 && kit_account(&q, TEAM, "s") == 27);
    cr_assert_eq(process_hold(&q, 0, "c", 73, &c), ERR_NONE);
    stop_both(&p, &q);
}

Test(redis_ledger, another_process_may_speak_for_a_log_that_nobody_writes) {
    struct process p, q;
    struct hold_op a = {0};
    two_with_limit(&p, &q, 100);
    cr_assert_eq(process_hold(&p, 0, "a", 60, &a), ERR_NONE);
    struct process r; /* while p lives, its log is its own */
    process_start(&r, "three", WHEN_DOWN_REFUSE);
    budget_replay_log(r.h.b, "one");
    budget_replay(r.h.b, &r.h.conf, SPAN("key00001"), SPAN("search"), kit.now_us, 0);
    process_tick(&r);
    cr_assert_eq(kit_account(&q, TEAM, "h"), 60);
    process_stop(&r);
    process_stop(&p);
    kit_pass(5 * US_PER_S, &q, NULL);
    process_start(&r, "three", WHEN_DOWN_REFUSE);
    house_limit(&r.h, LEVEL_TEAM, 100);
    budget_replay_log(r.h.b, "one");
    budget_replay(r.h.b, &r.h.conf, SPAN("key00001"), SPAN("search"), kit.now_us, 60);
    process_tick(&r);
    cr_assert(kit_account(&q, TEAM, "p") == 0 && kit_account(&q, TEAM, "s") == 60);
    stop_both(&q, &r);
}

/* The one who takes a log over at once is told that its process was there a moment ago, and an answer is lost. */
Test(redis_ledger, a_log_that_was_taken_over_early_is_told_later) {
    struct process p, q, r;
    struct hold_op a = {0};
    two_with_limit(&p, &q, 100);
    cr_assert_eq(process_hold(&p, 0, "a", 60, &a), ERR_NONE);
    process_stop(&p);
    process_start(&r, "three", WHEN_DOWN_REFUSE);
    budget_replay_log(r.h.b, "one");
    budget_replay(r.h.b, &r.h.conf, SPAN("key00001"), SPAN("search"), kit.now_us, 45);
    process_tick(&r);
    cr_assert_eq(kit_account(&q, TEAM, "h"), 60, "its process may live");
    kit_pass(2 * US_PER_S, &q, &r);
    r.s.mode = SYNC_UNDONE;
    kit_pass(2 * US_PER_S, &q, &r);
    r.s.mode = SYNC_GOOD;
    kit_pass(2 * US_PER_S, &q, &r);
    cr_assert(kit_account(&q, TEAM, "p") == 0 && kit_account(&q, TEAM, "h") == 0 && kit_account(&q, TEAM, "s") == 45);
    stop_both(&q, &r);
}

/* What was read of its log before it was started again does not end what it holds in its new life. */
Test(redis_ledger, a_log_that_is_written_again_is_spoken_for_by_its_own_process_alone) {
    struct process p, q, r;
    struct hold_op a = {0}, b = {0};
    two_with_limit(&p, &q, 100);
    cr_assert_eq(process_hold(&p, 0, "a", 60, &a), ERR_NONE);
    process_stop(&p);
    process_start(&r, "three", WHEN_DOWN_REFUSE);
    r.s.mode = SYNC_DOWN;
    budget_replay_log(r.h.b, "one");
    budget_replay(r.h.b, &r.h.conf, SPAN("key00001"), SPAN("search"), kit.now_us, 60);
    kit_pass(US_PER_S, &q, NULL);
    process_start(&p, "one", WHEN_DOWN_REFUSE);
    house_limit(&p.h, LEVEL_TEAM, 100);
    budget_replay(p.h.b, &p.h.conf, SPAN("key00001"), SPAN("search"), kit.now_us, 60);
    process_tick(&p);
    cr_assert_eq(process_hold(&p, 0, "b", 30, &b), ERR_NONE);
    process_stop(&p); /* it dies again, and its call was never seen by r */
    kit_pass(5 * US_PER_S, &q, NULL);
    sync_redis_mend(&r.s);
    kit_pass(5 * US_PER_S, &q, &r);
    cr_assert(kit_account(&q, TEAM, "s") == 60 && kit_account(&q, TEAM, "p") == 30);
    stop_both(&q, &r);
}

/* A log that is read again does not say how much of a cost was beyond its hold. */
Test(redis_ledger, overruns_of_a_life_before_count_with_those_of_the_next) {
    struct process p, q;
    struct hold_op a = {0};
    two_with_limit(&p, &q, 100);
    cr_assert_eq(process_hold(&p, 0, "a", 10, &a), ERR_NONE);
    process_settle(&p, &a.lease, 17);
    cr_assert_eq(kit_account(&q, TEAM, "v"), 7);
    process_stop(&p);
    process_start(&p, "one", WHEN_DOWN_REFUSE);
    house_limit(&p.h, LEVEL_TEAM, 100);
    budget_replay(p.h.b, &p.h.conf, SPAN("key00001"), SPAN("search"), kit.now_us, 17);
    process_tick(&p);
    cr_assert_eq(process_hold(&p, 0, "b", 10, &a), ERR_NONE);
    process_settle(&p, &a.lease, 13);
    cr_assert(kit_account(&q, TEAM, "v") == 10 && kit_account(&q, TEAM, "s") == 30);
    stop_both(&p, &q);
}

Test(redis_ledger, what_is_charged_for_a_dead_process_is_shown_until_its_log_has_spoken) {
    struct process p, q;
    struct hold_op a = {0}, b = {0};
    two_with_limit(&p, &q, 100);
    cr_assert_eq(process_hold(&p, 0, "a", 60, &a), ERR_NONE);
    cr_assert_eq(process_hold(&q, 0, "b", 5, &b), ERR_NONE);
    process_stop(&p);
    kit_pass(6 * US_PER_S, &q, NULL);
    struct house_view v = house_look(&q.h, LEVEL_TEAM, kit.now_us);
    cr_assert(v.found && v.v.charged_nanousd == 60 && v.v.held_nanousd == 65, "%ld of %ld", (long)v.v.charged_nanousd,
              (long)v.v.held_nanousd);
    process_start(&p, "one", WHEN_DOWN_REFUSE);
    budget_replay(p.h.b, &p.h.conf, SPAN("key00001"), SPAN("search"), kit.now_us, 60);
    kit_pass(3 * US_PER_S, &p, &q);
    v = house_look(&q.h, LEVEL_TEAM, kit.now_us);
    cr_assert(v.v.charged_nanousd == 0 && v.v.settled_nanousd == 60 && v.v.held_nanousd == 5);
    process_settle(&q, &b.lease, 0);
    stop_both(&p, &q);
}

/* A correction is made by one process, after it has read other logs too; it is told when it is made and after a restart. */
Test(redis_ledger, a_correction_takes_back_once) {
    struct process p, q;
    struct hold_op a = {0};
    two_with_limit(&p, &q, 100);
    process_stop(&p);
    process_start(&p, "one", WHEN_DOWN_REFUSE);
    house_limit(&p.h, LEVEL_TEAM, 100);
    budget_replay_log(p.h.b, "another");
    budget_replay(p.h.b, &p.h.conf, SPAN("key00001"), SPAN("search"), kit.now_us, 5);
    budget_replay_log(p.h.b, NULL);
    process_tick(&p);
    cr_assert_eq(process_hold(&p, 0, "a", 60, &a), ERR_NONE);
    process_settle(&p, &a.lease, 60);
    budget_replay(p.h.b, &p.h.conf, SPAN("key00001"), SPAN("search"), kit.now_us, -20);
    process_tick(&p);
    cr_assert_eq(kit_account(&q, TEAM, "s"), 45);
    process_stop(&p);
    process_start(&p, "one", WHEN_DOWN_REFUSE);
    static const int64_t log[] = {60, -20};
    for (size_t i = 0; i < ARRAY_LEN(log); i++)
        budget_replay(p.h.b, &p.h.conf, SPAN("key00001"), SPAN("search"), kit.now_us, log[i]);
    process_tick(&p);
    cr_assert_eq(kit_account(&q, TEAM, "s"), 45);
    sync_redis_ask(&q.s, "FLUSHALL");
    kit_pass(4 * US_PER_S, &p, &q);
    cr_assert_eq(kit_account(&q, TEAM, "s"), 40, "what another log settled is told by who knows it");
    cr_assert_eq(process_hold(&q, 0, "b", 61, &a), ERR_BUDGET);
    cr_assert_eq(process_hold(&q, 0, "b", 60, &a), ERR_NONE);
    stop_both(&p, &q);
}

Test(redis_ledger, a_raised_limit_binds_over_all_processes_and_ends) {
    struct process p, q;
    struct hold_op a = {0}, b = {0}, c = {0};
    two_with_limit(&p, &q, 100);
    cr_assert_eq(process_hold(&p, 0, "a", 100, &a), ERR_NONE);
    cr_assert_eq(process_hold(&q, 0, "b", 1, &b), ERR_BUDGET);
    budget_lift(q.h.b, TEAM "/month@UTC", 20, kit.now_us + US_PER_MIN);
    cr_assert_eq(process_hold(&q, 0, "b", 21, &b), ERR_BUDGET);
    cr_assert_eq(process_hold(&q, 0, "b", 15, &b), ERR_NONE);
    cr_assert_eq(b.remaining_team, 5);
    kit.now_us += 2 * US_PER_MIN;
    process_tick(&p);
    process_tick(&q);
    cr_assert_eq(process_hold(&q, 0, "c", 1, &c), ERR_BUDGET);
    process_settle(&q, &b.lease, 15); /* what was granted stays granted */
    process_settle(&p, &a.lease, 100);
    cr_assert_eq(kit_account(&p, TEAM, "s"), 115);
    stop_both(&p, &q);
}

Test(redis_ledger, a_live_call_whose_lease_expired_stands_again) {
    struct process p, q;
    struct hold_op a = {0};
    two_with_limit(&p, &q, 100);
    cr_assert_eq(process_hold(&p, 0, "a", 60, &a), ERR_NONE);
    kit_pass(5 * US_PER_S, &q, NULL); /* p is frozen meanwhile */
    cr_assert_eq(kit_account(&q, TEAM, "p"), 60);
    process_tick(&p);
    cr_assert(kit_account(&q, TEAM, "p") == 0 && kit_account(&q, TEAM, "h") == 60 && kit_account(&q, TEAM, "k") == 1);
    kit_pass(5 * US_PER_S, &q, NULL);
    process_settle(&p, &a.lease, 20);
    cr_assert(kit_account(&q, TEAM, "p") == 0 && kit_account(&q, TEAM, "h") == 0 && kit_account(&q, TEAM, "s") == 20);
    stop_both(&p, &q);
}

Test(redis_ledger, after_a_flush_everything_is_told_again_before_anything_is_held) {
    struct process p, q;
    struct hold_op a = {0}, b = {0}, c = {0};
    two_with_limit(&p, &q, 100);
    cr_assert_eq(process_hold(&p, 0, "a", 30, &a), ERR_NONE);
    cr_assert_eq(process_hold(&q, 0, "b", 20, &b), ERR_NONE);
    process_settle(&q, &b.lease, 11);
    cr_assert_eq(process_hold(&q, 0, "b2", 20, &b), ERR_NONE);
    sync_redis_ask(&p.s, "FLUSHALL");
    cr_assert_eq(process_hold(&p, 0, "c", 1, &c), ERR_LEDGER);
    process_tick(&p);
    cr_assert_eq(process_hold(&p, 0, "c", 1, &c), ERR_LEDGER, "closed: others may not have told");
    cr_assert_not(budget_ready(p.h.b));
    kit_pass(4 * US_PER_S, &p, &q);
    cr_assert(kit_account(&p, TEAM, "s") == 11 && kit_account(&p, TEAM, "h") == 50 && kit_account(&p, TEAM, "k") == 2);
    cr_assert_eq(process_hold(&p, 0, "c", 40, &c), ERR_BUDGET);
    cr_assert_eq(process_hold(&p, 0, "c", 39, &c), ERR_NONE);
    cr_assert(budget_ready(p.h.b));
    process_settle(&p, &a.lease, 30);
    process_settle(&p, &c.lease, 39);
    process_settle(&q, &b.lease, 20);
    cr_assert(kit_account(&p, TEAM, "s") == 100 && kit_account(&p, TEAM, "h") == 0);
    stop_both(&p, &q);
}

/* A replica that had not heard of the last settles becomes the master. */
Test(redis_ledger, an_older_redis_is_noticed_by_the_number_of_the_last_operation) {
    struct process p;
    struct hold_op a = {0}, b = {0};
    process_start(&p, "one", WHEN_DOWN_REFUSE);
    house_limit(&p.h, LEVEL_TEAM, 100);
    process_ready(&p);
    cr_assert_eq(process_hold(&p, 0, "a", 30, &a), ERR_NONE);
    sync_redis_ask(&p.s, "BGREWRITEAOF");
    const char *account = "tg:{money}:a:team/search/month@UTC/1793491200";
    process_settle(&p, &a.lease, 25);
    sync_redis_ask(&p.s, "HSET tg:{money}:ops one 1");
    sync_redis_ask(&p.s, "HSET %s s 0 c:one 0", account);
    sync_redis_break(&p.s);
    sync_redis_mend(&p.s);
    cr_assert_eq(process_hold(&p, 0, "b", 1, &b), ERR_LEDGER);
    kit_pass(4 * US_PER_S, &p, NULL);
    cr_assert_eq(kit_account(&p, TEAM, "s"), 25);
    cr_assert_eq(process_hold(&p, 0, "b", 1, &b), ERR_NONE);
    process_stop(&p);
}

Test(redis_ledger, without_redis_calls_are_refused_or_held_locally_and_told_later) {
    struct process p, q;
    struct hold_op a = {0}, b = {0}, c = {0};
    process_start(&p, "one", WHEN_DOWN_REFUSE);
    process_start(&q, "two", WHEN_DOWN_ALLOW);
    house_limit(&p.h, LEVEL_TEAM, 100);
    house_limit(&q.h, LEVEL_TEAM, 100);
    p.s.mode = q.s.mode = SYNC_DOWN; /* it starts without Redis */
    cr_assert_eq(process_hold(&p, 0, "a", 1, &a), ERR_LEDGER);
    cr_assert_eq(process_hold(&q, 0, "a", 60, &a), ERR_NONE);
    cr_assert_eq(process_hold(&q, 0, "b", 41, &b), ERR_BUDGET);
    cr_assert_eq(process_hold(&q, 0, "b", 40, &b), ERR_NONE);
    process_settle(&q, &b.lease, 15);
    sync_redis_mend(&q.s);
    cr_assert(kit_account(&q, TEAM, "s") == 15 && kit_account(&q, TEAM, "h") == 60);
    sync_redis_mend(&p.s);
    kit_pass(4 * US_PER_S, &p, &q);
    cr_assert_eq(process_hold(&p, 0, "c", 26, &c), ERR_BUDGET);
    sync_redis_break(&q.s);
    process_settle(&q, &a.lease, 60);
    sync_redis_mend(&q.s);
    cr_assert(kit_account(&q, TEAM, "s") == 75 && kit_account(&q, TEAM, "h") == 0);
    stop_both(&p, &q);
}

Test(redis_ledger, calls_without_budgets_do_not_ask_redis) {
    struct process p;
    struct hold_op a = {0};
    process_start(&p, "one", WHEN_DOWN_REFUSE);
    process_ready(&p);
    int sent = p.s.sent;
    cr_assert_eq(process_hold(&p, 0, "a", 60, &a), ERR_NONE);
    process_settle(&p, &a.lease, 15);
    cr_assert_eq(p.s.sent, sent);
    p.s.mode = SYNC_DOWN;
    cr_assert_eq(process_hold(&p, 0, "b", 60, &a), ERR_NONE);
    process_stop(&p);
}

Test(redis_ledger, spend_of_a_key_is_what_all_processes_have_settled) {
    struct process p, q;
    struct hold_op a = {0}, b = {0};
    struct spend_view key, team;
    two_with_limit(&p, &q, 100);
    cr_assert_eq(process_hold(&p, 0, "a", 30, &a), ERR_NONE);
    cr_assert_eq(process_hold(&q, 0, "b", 30, &b), ERR_NONE);
    process_settle(&p, &a.lease, 20);
    process_settle(&q, &b.lease, 7);
    kit_pass(2 * US_PER_S, &p, &q);
    struct process *both[] = {&p, &q};
    for (size_t i = 0; i < ARRAY_LEN(both); i++) {
        budget_spend(both[i]->h.b, SPAN("key00001"), SPAN("search"), kit.now_us, &key, &team);
        cr_assert(key.day_nanousd == 27 && key.week_nanousd == 27 && key.month_nanousd == 27 &&
                  key.total_nanousd == 27);
        cr_assert(team.day_nanousd == 27 && team.month_nanousd == 27);
    }
    budget_spend(p.h.b, SPAN("key0000"), SPAN("sea"), kit.now_us, &key, &team);
    cr_assert(key.day_nanousd == 0 && team.day_nanousd == 0);
    stop_both(&p, &q);
}
