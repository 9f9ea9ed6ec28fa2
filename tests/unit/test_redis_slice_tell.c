/* What Redis is told of slices: once, late, twice, and anew. */
#include "tests/support/ledger_kit.h"

#include <criterion/criterion.h>

#define TEAM "team/search"
#define LIMIT 10000

TestSuite(redis_slice_tell, .init = kit_begin, .fini = kit_end);

static void begin(struct process *p) {
    struct hold_op op = {0};
    process_start(p, "one", WHEN_DOWN_REFUSE);
    p->h.conf.hold.slice = FACTOR_ONE / 10;
    house_limit(&p->h, LEVEL_TEAM, LIMIT);
    process_ready(p);
    for (int i = 0; i < 2; i++) { /* Redis tells of the budget, and then has a slice of it */
        cr_assert_eq(process_hold(p, 0, "warm", 10, &op), ERR_NONE);
        process_settle(p, &op.lease, 0);
    }
    process_tick(p);
}

static void is_quiet(struct process *p, int64_t settled) {
    cr_assert(kit_account(p, TEAM, "s") == settled && kit_account(p, TEAM, "h") == 0);
    cr_assert(kit_account(p, TEAM, "p") == 0 && kit_account(p, TEAM, "k") == 0);
}

Test(redis_slice_tell, what_was_spent_is_told_until_it_is_answered_and_counts_once) {
    static const enum sync_mode modes[] = {SYNC_UNDONE, SYNC_UNHEARD, SYNC_GOOD};
    struct process p;
    struct hold_op a = {0};
    begin(&p);
    int64_t stands = kit_account(&p, TEAM, "h");
    cr_assert_eq(process_hold(&p, 0, "a", 10, &a), ERR_NONE);
    process_settle(&p, &a.lease, 8);
    for (size_t i = 0; i < ARRAY_LEN(modes); i++) {
        p.s.mode = modes[i];
        process_tick(&p);
        int64_t settled = kit_account(&p, TEAM, "s");
        cr_assert_eq(settled, i == 0 ? 0 : 8, "%zu", i);
        cr_assert_eq(settled + kit_account(&p, TEAM, "h"), stands, "%zu", i);
    }
    kit_pass(4 * US_PER_S, &p, NULL);
    is_quiet(&p, 8);
    process_stop(&p);
}

Test(redis_slice_tell, a_redis_that_lost_its_data_hears_of_what_a_slice_held_and_spent) {
    struct process p;
    struct hold_op a = {0}, b = {0};
    begin(&p);
    cr_assert_eq(process_hold(&p, 0, "a", 10, &a), ERR_NONE);
    cr_assert_eq(process_hold(&p, 0, "b", 30, &b), ERR_NONE);
    process_settle(&p, &a.lease, 8);
    sync_redis_ask(&p.s, "FLUSHALL");
    process_tick(&p);
    process_tick(&p);
    cr_assert_eq(kit_account(&p, TEAM, "s"), 8);
    cr_assert_eq(kit_account(&p, TEAM, "h"), 30);
    process_settle(&p, &b.lease, 30);
    kit_pass(6 * US_PER_S, &p, NULL);
    is_quiet(&p, 38);
    process_stop(&p);
}
