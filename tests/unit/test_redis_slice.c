/* Money leased in advance: what a process holds without asking, what is given back, lost, charged, and found again. In
 * every test no account ever stands above its limit. */
#include "tests/support/ledger_kit.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>

#define TEAM "team/search"
#define LIMIT 10000
#define CALLS_MAX 12

TestSuite(redis_slice, .init = kit_begin, .fini = kit_end);

static void begin(struct process *p, const char *log, enum conf_when_down when_down) {
    process_start(p, log, when_down);
    p->h.conf.hold.slice = FACTOR_ONE / 10;
    house_limit(&p->h, LEVEL_TEAM, LIMIT);
    process_ready(p);
}

static int64_t standing(struct process *p) {
    return kit_account(p, TEAM, "s") + kit_account(p, TEAM, "h") + kit_account(p, TEAM, "p");
}

/* Two calls: Redis tells of the budget, and then has a slice of it. */
static void warm(struct process *p) {
    struct hold_op op = {0};
    for (int i = 0; i < 2; i++) {
        cr_assert_eq(process_hold(p, 0, "warm", 10, &op), ERR_NONE);
        process_settle(p, &op.lease, 0);
    }
    process_tick(p);
    cr_assert_gt(kit_account(p, TEAM, "h"), 900, "a slice stands");
}

static void is_quiet(struct process *p, int64_t settled) {
    cr_assert_eq(kit_account(p, TEAM, "s"), settled, "settled %ld", (long)kit_account(p, TEAM, "s"));
    cr_assert_eq(kit_account(p, TEAM, "h"), 0, "held %ld", (long)kit_account(p, TEAM, "h"));
    cr_assert(kit_account(p, TEAM, "p") == 0 && kit_account(p, TEAM, "k") == 0);
}

Test(redis_slice, calls_in_a_slice_ask_nobody_and_are_told_together) {
    struct process p;
    struct hold_op op[CALLS_MAX] = {0};
    char id[16];
    begin(&p, "one", WHEN_DOWN_REFUSE);
    warm(&p);
    int sent = p.s.sent;
    for (int i = 0; i < CALLS_MAX; i++) {
        snprintf(id, sizeof id, "c%d", i);
        cr_assert_eq(process_hold(&p, 0, id, 10, &op[i]), ERR_NONE);
    }
    cr_assert_eq(process_raise(&p, 0, &op[0], 20), ERR_NONE);
    for (int i = 0; i < CALLS_MAX; i++)
        process_settle(&p, &op[i].lease, 7);
    cr_assert_eq(p.s.sent, sent);
    int64_t before = standing(&p);
    budget_tick(p.h.b, kit.now_us);
    cr_assert_eq(standing(&p), before, "what is settled was held before");
    sync_redis_pump(&p.s);
    cr_assert_eq(kit_account(&p, TEAM, "s"), CALLS_MAX * 7);
    kit_pass(4 * US_PER_S, &p, NULL);
    is_quiet(&p, CALLS_MAX * 7);
    process_stop(&p);
}

Test(redis_slice, the_last_dollar_can_be_spent_when_others_are_idle) {
    struct process p, q;
    struct hold_op a = {0}, b = {0}, c = {0};
    begin(&p, "one", WHEN_DOWN_REFUSE);
    begin(&q, "two", WHEN_DOWN_REFUSE);
    warm(&q);
    warm(&p);
    cr_assert_eq(process_hold(&p, 0, "a", LIMIT, &a), ERR_BUDGET, "a limit binds early by a slice of another process");
    cr_assert_eq(process_hold(&p, 0, "b", LIMIT - 1000, &b), ERR_NONE, "not by one of its own");
    process_settle(&p, &b.lease, 0);
    kit_pass(4 * US_PER_S, &p, &q);
    cr_assert_eq(process_hold(&p, 0, "c", LIMIT, &c), ERR_NONE);
    cr_assert_eq(standing(&p), LIMIT);
    process_settle(&p, &c.lease, LIMIT);
    process_tick(&p);
    is_quiet(&q, LIMIT);
    process_stop(&p);
    process_stop(&q);
}

Test(redis_slice, a_raise_beyond_a_slice_makes_it_larger_or_is_refused) {
    struct process p;
    struct hold_op a = {0};
    begin(&p, "one", WHEN_DOWN_REFUSE);
    warm(&p);
    cr_assert_eq(process_hold(&p, 0, "a", 10, &a), ERR_NONE);
    cr_assert_eq(process_raise(&p, 0, &a, 5000), ERR_NONE);
    cr_assert_eq(process_raise(&p, 0, &a, LIMIT + 1), ERR_BUDGET);
    cr_assert_eq(a.lease.nanousd, 5000);
    cr_assert_eq(process_raise(&p, 0, &a, LIMIT), ERR_NONE, "the rest of the slice is its own");
    cr_assert_eq(standing(&p), LIMIT);
    process_settle(&p, &a.lease, 40);
    kit_pass(4 * US_PER_S, &p, NULL);
    is_quiet(&p, 40);
    process_stop(&p);
}

Test(redis_slice, a_dead_process_s_slice_is_charged_until_its_log_has_spoken) {
    struct process p, q;
    struct hold_op a = {0};
    begin(&p, "one", WHEN_DOWN_REFUSE);
    begin(&q, "two", WHEN_DOWN_REFUSE);
    warm(&p);
    cr_assert_eq(process_hold(&p, 0, "a", 10, &a), ERR_NONE);
    int64_t slice = kit_account(&q, TEAM, "h");
    process_stop(&p);
    kit_pass(5 * US_PER_S, &q, NULL);
    cr_assert(kit_account(&q, TEAM, "p") == slice && kit_account(&q, TEAM, "h") == 0);
    process_start(&p, "one", WHEN_DOWN_REFUSE);
    budget_replay_log(p.h.b, NULL);
    budget_replay(p.h.b, &p.h.conf, SPAN("key00001"), SPAN("search"), kit.now_us, 10);
    process_tick(&p);
    kit_pass(4 * US_PER_S, &p, &q);
    is_quiet(&q, 10);
    process_stop(&p);
    process_stop(&q);
}

Test(redis_slice, without_redis_calls_are_held_from_a_slice_while_it_lives) {
    struct process p;
    struct hold_op a = {0}, b = {0}, c = {0};
    begin(&p, "one", WHEN_DOWN_LEASED);
    warm(&p);
    sync_redis_break(&p.s);
    cr_assert_eq(process_hold(&p, 0, "a", 10, &a), ERR_NONE);
    cr_assert_eq(process_hold(&p, 0, "b", 5000, &b), ERR_LEDGER, "more than was leased");
    kit.now_us += 2 * US_PER_S;
    cr_assert_eq(process_hold(&p, 0, "c", 10, &c), ERR_LEDGER, "its lease may be charged soon");
    process_settle(&p, &a.lease, 9);
    sync_redis_mend(&p.s);
    kit_pass(6 * US_PER_S, &p, NULL);
    is_quiet(&p, 9);
    process_stop(&p);
}

Test(redis_slice, a_lowered_limit_and_an_overrun_close_a_slice) {
    struct process p;
    struct hold_op a = {0}, b = {0};
    begin(&p, "one", WHEN_DOWN_REFUSE);
    warm(&p);
    cr_assert_eq(process_hold(&p, 0, "a", 10, &a), ERR_NONE);
    p.h.team_budget.limit_nanousd = 12;
    cr_assert_eq(process_hold(&p, 0, "b", 3, &b), ERR_BUDGET);
    p.h.team_budget.limit_nanousd = LIMIT;
    kit_pass(2 * US_PER_S, &p, NULL);
    process_settle(&p, &a.lease, LIMIT + 5);
    cr_assert_eq(process_hold(&p, 0, "b", 3, &b), ERR_BUDGET, "nothing is held after an overrun");
    kit_pass(4 * US_PER_S, &p, NULL);
    cr_assert_eq(kit_account(&p, TEAM, "v"), LIMIT - 5);
    is_quiet(&p, LIMIT + 5);
    process_stop(&p);
}

Test(redis_slice, who_rests_gives_back_and_then_all_is_settled) {
    struct process p;
    struct hold_op a = {0};
    begin(&p, "one", WHEN_DOWN_REFUSE);
    warm(&p);
    cr_assert_eq(process_hold(&p, 0, "a", 10, &a), ERR_NONE);
    budget_rest(p.h.b);
    sync_redis_pump(&p.s);
    cr_assert_not(budget_settled(p.h.b));
    process_settle(&p, &a.lease, 10);
    process_tick(&p);
    cr_assert(budget_settled(p.h.b));
    is_quiet(&p, 10);
    process_stop(&p);
}

/* --- any order --- */

struct caller {
    struct process p;
    struct hold_op op[CALLS_MAX];
    bool open[CALLS_MAX];
    int64_t settled, used;
};

static void act(struct caller *c, int number) {
    static const enum sync_mode modes[] = {SYNC_UNHEARD, SYNC_UNDONE, SYNC_DOWN};
    int i = rand() % CALLS_MAX, dice = rand() % 20;
    char id[24];
    snprintf(id, sizeof id, "n%d", number);
    c->p.s.mode = dice < 2 ? modes[rand() % (int)ARRAY_LEN(modes)] : SYNC_GOOD;
    if (dice == 19) {
        sync_redis_break(&c->p.s);
        sync_redis_mend(&c->p.s);
    }
    if (!c->open[i]) {
        c->open[i] = process_hold(&c->p, rand() % 2, id, 1 + rand() % 200, &c->op[i]) == ERR_NONE;
        c->used += c->open[i] ? c->op[i].lease.nanousd : 0;
        return;
    }
    c->used -= c->op[i].lease.nanousd;
    if (rand() % 3 == 0) {
        (void)process_raise(&c->p, 0, &c->op[i], c->op[i].lease.nanousd + rand() % 300);
        c->used += c->op[i].lease.nanousd;
        return;
    }
    int64_t cost = c->op[i].lease.nanousd * (rand() % 3) / 2;
    process_settle(&c->p, &c->op[i].lease, cost);
    c->settled += cost;
    c->open[i] = false;
}

static void end_all(struct caller *c) {
    c->p.s.mode = SYNC_GOOD;
    for (int i = 0; i < CALLS_MAX; i++) {
        if (c->open[i])
            process_settle(&c->p, &c->op[i].lease, 0);
    }
}

static void any_order(unsigned seed, int acts) {
    static struct caller c[2];
    memset(c, 0, sizeof c);
    begin(&c[0].p, "one", WHEN_DOWN_REFUSE);
    begin(&c[1].p, "two", WHEN_DOWN_REFUSE);
    srand(seed);
    for (int n = 0; n < acts; n++) {
        act(&c[n % 2], n);
        if (n % 8 == 0) {
            kit.now_us += US_PER_S / 4;
            process_tick(&c[0].p);
            process_tick(&c[1].p);
        }
        int64_t logs = c[0].settled + c[0].used + c[1].settled + c[1].used, stands = standing(&c[0].p);
        cr_assert_leq(logs, LIMIT, "seed %u act %d: %ld", seed, n, (long)logs);
        cr_assert_leq(stands, LIMIT, "seed %u act %d: Redis %ld", seed, n, (long)stands);
        cr_assert_geq(stands, logs, "seed %u act %d: Redis %ld, the logs %ld", seed, n, (long)stands, (long)logs);
        cr_assert_geq(kit_account(&c[0].p, TEAM, "h"), 0, "seed %u act %d", seed, n);
    }
    end_all(&c[0]);
    end_all(&c[1]);
    kit_pass(8 * US_PER_S, &c[0].p, &c[1].p);
    is_quiet(&c[0].p, c[0].settled + c[1].settled);
    process_stop(&c[0].p);
    process_stop(&c[1].p);
}

Test(redis_slice, no_order_of_holds_raises_settles_and_lost_answers_passes_a_limit) {
    for (unsigned seed = 1; seed <= 3; seed++) {
        any_order(seed, 400);
        struct sync_redis s;
        sync_redis_open(&s, kit.redis.socket, "tg:");
        sync_redis_ask(&s, "FLUSHALL");
        sync_redis_close(&s);
    }
}
