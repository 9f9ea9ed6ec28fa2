/* The door: what a caller sees of holds, prices, shares, periods and recovery. */
#include "budget/budget.h"

#include <criterion/criterion.h>
#include <stdio.h>

#include "gateway/base/clock.h"
#include "tests/support/budget_house.h"

static int hold_many(struct budget_house *h, int n, int64_t each, struct hold_op *ops) {
    int passed = 0;
    for (int i = 0; i < n; i++) {
        char id[40];
        snprintf(id, sizeof id, "call-%d", i);
        enum err err = house_hold(h, 0, id, each, &ops[i]);
        cr_assert(err == ERR_NONE || err == ERR_BUDGET);
        passed += err == ERR_NONE;
    }
    return passed;
}

/* Calls at once all saw the old sum, so that they overspent by as many as there were. */
Test(budget, parallel_calls_never_overspend_at_any_level) {
    static struct hold_op ops[200];
    for (int level = LEVEL_KEY; level <= LEVEL_ORGANIZATION; level++) {
        struct budget_house h;
        house_init(&h);
        for (int other = LEVEL_KEY; other <= LEVEL_ORGANIZATION; other++)
            house_limit(&h, (enum budget_level)other, other == level ? NANO_PER_USD : 5 * NANO_PER_USD);
        cr_assert_eq(hold_many(&h, 200, CENT, ops), 100);
        struct house_view v = house_look(&h, (enum budget_level)level, HOUSE_NOW_US);
        cr_assert(v.v.held_nanousd == NANO_PER_USD && v.v.in_flight == 100 && v.v.settled_nanousd == 0);
        for (int i = 0; i < 200; i++)
            cr_assert_eq(ops[i].lease.open, i < 100);
        cr_assert(ops[150].refusal.level == (enum budget_level)level && ops[150].refusal.needed_nanousd == CENT);
        cr_assert(ops[150].refusal.limit_nanousd == NANO_PER_USD && ops[150].refusal.held_nanousd == NANO_PER_USD);
        for (int i = 0; i < 200; i++)
            cr_assert_eq(budget_settle(h.b, &ops[i].lease, i % 3 ? CENT : 0), 0);
        v = house_look(&h, (enum budget_level)level, HOUSE_NOW_US);
        cr_assert(v.v.held_nanousd == 0 && v.v.in_flight == 0 && v.v.settled_nanousd == 66 * CENT);
        house_fini(&h);
    }
}

Test(budget, a_call_refused_at_one_level_is_held_at_none) {
    struct budget_house h;
    struct hold_op op = {0};
    house_init(&h);
    house_limit(&h, LEVEL_KEY, 100 * CENT);
    house_limit(&h, LEVEL_TEAM, 90 * CENT);
    house_limit(&h, LEVEL_ORGANIZATION, 50 * CENT);
    cr_assert_eq(house_hold(&h, 0, "a", 51 * CENT, &op), ERR_BUDGET);
    cr_assert_eq(op.refusal.level, LEVEL_ORGANIZATION);
    cr_assert_str_eq(op.refusal.scope, "organization");
    cr_assert_eq(op.refusal.period, PERIOD_MONTH);
    cr_assert_eq(op.refusal.resets_us, HOUSE_NOW_US + 12 * US_PER_HOUR, "December begins");
    cr_assert(op.remaining_key == 100 * CENT && op.remaining_team == 90 * CENT &&
              op.remaining_organization == 50 * CENT);
    cr_assert_eq(house_look(&h, LEVEL_KEY, HOUSE_NOW_US).v.held_nanousd, 0);
    cr_assert_eq(house_hold(&h, 0, "a", 50 * CENT, &op), ERR_NONE);
    cr_assert(op.remaining_key == 50 * CENT && op.remaining_team == 40 * CENT && op.remaining_organization == 0);
    cr_assert_eq(op.lease.n, 3);
    cr_assert_eq(op.lease.scopes[1].level, LEVEL_TEAM);
    cr_assert_str_eq(op.lease.scopes[1].name, "team/search/month@UTC");
    cr_assert_eq(budget_settle(h.b, &op.lease, 0), 0);
    cr_assert_eq(house_hold(&h, 2, "b", CENT, &op), ERR_NONE, "the other team only has the organization's");
    cr_assert(op.remaining_key == -1 && op.remaining_team == -1 && op.remaining_organization == 49 * CENT);
    house_fini(&h);
}

/* What failed, was cut off or hit the cache stayed reserved, so that a key was refused long before its budget ended. */
Test(budget, reservations_leak_on_no_way_out) {
    struct budget_house h;
    struct hold_op op = {0};
    int64_t settled = 0;
    house_init(&h);
    house_limit(&h, LEVEL_KEY, 1000);
    for (int i = 0; i < 500; i++) {
        char id[40];
        snprintf(id, sizeof id, "call-%d", i);
        cr_assert_eq(house_hold(&h, 0, id, 400, &op), ERR_NONE, "call %d", i);
        struct lease copy = op.lease;
        int64_t cost = i % 5 == 0; /* an abort pays for what came; a failure, a hit, a refusal pay nothing */
        cr_assert_eq(budget_settle(h.b, &op.lease, cost), 0);
        cr_assert_eq(budget_settle(h.b, &op.lease, 400), 0);
        cr_assert_eq(budget_settle(h.b, &copy, 400), 0, "told twice, booked once");
        settled += cost;
        struct budget_view v = house_look(&h, LEVEL_KEY, HOUSE_NOW_US).v;
        cr_assert(v.settled_nanousd == settled && v.held_nanousd == 0 && v.in_flight == 0 && v.overrun_nanousd == 0);
    }
    house_fini(&h);
}

/* A model without a price cost nothing, so that no budget ever tripped. */
Test(budget, unpriced_model_is_refused_where_a_budget_applies) {
    struct budget_house h;
    struct hold_op op = {0};
    house_init(&h);
    h.price = (struct price){.known = false};
    cr_assert_eq(house_hold(&h, 0, "a", INT64_MAX, &op), ERR_NONE, "nothing limits money here");
    cr_assert_eq(op.lease.nanousd, 0);
    cr_assert_eq(budget_settle(h.b, &op.lease, 0), 0);
    for (int level = LEVEL_KEY; level <= LEVEL_ORGANIZATION; level++) {
        struct budget_house one;
        house_init(&one);
        one.price = (struct price){.known = false};
        house_limit(&one, (enum budget_level)level, NANO_PER_USD);
        cr_assert_eq(house_hold(&one, 0, "a", 0, &op), ERR_PRICE);
        cr_assert_not(op.lease.open);
        house_fini(&one);
    }
    h.teams[0].max_cost_per_call = 5;
    cr_assert_eq(house_hold(&h, 0, "b", 0, &op), ERR_PRICE);
    h.price = (struct price){.in = 1000, .out = -1, .factor = FACTOR_ONE, .known = true};
    cr_assert_eq(house_hold(&h, 0, "c", INT64_MAX, &op), ERR_PRICE, "no bound for want of an output price");
    cr_assert_eq(house_hold(&h, 0, "d", 5, &op), ERR_NONE, "a call that is priced on input alone");
    house_fini(&h);
}

/* Models that cost nothing were refused with the others when the budget was gone. */
Test(budget, free_models_stay_open_when_the_budget_is_gone) {
    struct budget_house h;
    struct hold_op op = {0};
    house_init(&h);
    house_limit(&h, LEVEL_TEAM, 10);
    cr_assert_eq(house_hold(&h, 0, "a", 10, &op), ERR_NONE);
    cr_assert_eq(budget_settle(h.b, &op.lease, 25), 15);
    cr_assert_eq(house_hold(&h, 0, "b", 0, &op), ERR_BUDGET, "a price that is not zero may cost more than nothing");
    h.price.free = true;
    cr_assert_eq(house_hold(&h, 0, "c", 0, &op), ERR_NONE);
    cr_assert_eq(op.remaining_team, 0);
    cr_assert_eq(budget_settle(h.b, &op.lease, 0), 0);
    house_fini(&h);
}

/* A call that took two tries made two rows, or paid for the last one only. */
Test(budget, another_try_is_added_and_paid_once) {
    struct budget_house h;
    struct hold_op op = {0}, more = {0};
    house_init(&h);
    house_limit(&h, LEVEL_KEY, 200);
    house_limit(&h, LEVEL_TEAM, 1000);
    cr_assert_eq(house_hold(&h, 0, "a", 100, &op), ERR_NONE);
    (void)budget_raise(h.b, &h.conf, &h.keys[0], &op.lease, 140, HOUSE_NOW_US, &more);
    cr_assert(more.err == ERR_NONE && op.lease.nanousd == 140 && more.remaining_key == 60);
    cr_assert_eq(house_look(&h, LEVEL_TEAM, HOUSE_NOW_US).v.held_nanousd, 140);
    (void)budget_raise(h.b, &h.conf, &h.keys[0], &op.lease, 201, HOUSE_NOW_US, &more);
    cr_assert_eq(more.err, ERR_BUDGET);
    cr_assert(more.refusal.level == LEVEL_KEY && more.refusal.needed_nanousd == 61);
    cr_assert(op.lease.open && op.lease.nanousd == 140, "the hold stays as it was");
    cr_assert_eq(house_look(&h, LEVEL_TEAM, HOUSE_NOW_US).v.held_nanousd, 140);
    cr_assert_eq(budget_settle(h.b, &op.lease, 40 + 100), 0);
    struct budget_view v = house_look(&h, LEVEL_KEY, HOUSE_NOW_US).v;
    cr_assert(v.settled_nanousd == 140 && v.held_nanousd == 0);
    house_fini(&h);
}

Test(budget, a_raise_may_use_the_op_that_holds_the_lease) {
    struct budget_house h;
    struct hold_op op = {0};
    house_init(&h);
    house_limit(&h, LEVEL_KEY, 200);
    cr_assert_eq(house_hold(&h, 0, "a", 100, &op), ERR_NONE);
    (void)budget_raise(h.b, &h.conf, &h.keys[0], &op.lease, 150, HOUSE_NOW_US, &op);
    cr_assert(op.err == ERR_NONE && op.lease.open && op.lease.nanousd == 150);
    (void)budget_raise(h.b, &h.conf, &h.keys[0], &op.lease, 250, HOUSE_NOW_US, &op);
    cr_assert(op.err == ERR_BUDGET && op.lease.open && op.lease.nanousd == 150);
    (void)budget_raise(h.b, &h.conf, &h.keys[0], &op.lease, 20, HOUSE_NOW_US, &op);
    cr_assert(op.err == ERR_NONE && op.lease.nanousd == 20, "less always fits");
    struct lease copy = op.lease;
    (void)budget_settle(h.b, &op.lease, 20);
    (void)budget_raise(h.b, &h.conf, &h.keys[0], &copy, 30, HOUSE_NOW_US, &op);
    cr_assert_eq(op.err, ERR_LEDGER, "a call that has ended is not raised");
    house_fini(&h);
}

Test(budget, a_hold_told_twice_is_one_hold) {
    struct budget_house h;
    struct hold_op op = {0};
    house_init(&h);
    house_limit(&h, LEVEL_KEY, 100);
    cr_assert_eq(house_hold(&h, 0, "a", 60, &op), ERR_NONE);
    cr_assert_eq(house_hold(&h, 0, "a", 60, &op), ERR_NONE);
    cr_assert_eq(house_look(&h, LEVEL_KEY, HOUSE_NOW_US).v.held_nanousd, 60);
    cr_assert_eq(house_look(&h, LEVEL_KEY, HOUSE_NOW_US).v.in_flight, 1);
    cr_assert_eq(budget_settle(h.b, &op.lease, 60), 0);
    house_fini(&h);
}

Test(budget, overruns_are_booked_in_full_and_close_the_budget) {
    struct budget_house h;
    struct hold_op a = {0}, b = {0};
    house_init(&h);
    house_limit(&h, LEVEL_KEY, 100);
    cr_assert_eq(house_hold(&h, 0, "a", 40, &a), ERR_NONE);
    cr_assert_eq(house_hold(&h, 0, "b", 40, &b), ERR_NONE);
    cr_assert_eq(budget_settle(h.b, &a.lease, 130), 90);
    struct budget_view v = house_look(&h, LEVEL_KEY, HOUSE_NOW_US).v;
    cr_assert(v.settled_nanousd == 130 && v.held_nanousd == 40 && v.overrun_nanousd == 90);
    cr_assert_eq(house_hold(&h, 0, "c", 1, &a), ERR_BUDGET);
    cr_assert_eq(a.remaining_key, 0);
    cr_assert_eq(budget_settle(h.b, &b.lease, INT64_MAX), INT64_MAX - 40);
    v = house_look(&h, LEVEL_KEY, HOUSE_NOW_US).v;
    cr_assert(v.settled_nanousd == INT64_MAX && v.held_nanousd == 0, "an absurd cost does not wrap");
    cr_assert_eq(house_hold(&h, 0, "d", 1, &a), ERR_BUDGET);
    house_fini(&h);
}

/* --- shares --- */

Test(budget, one_key_does_not_hold_all_of_its_teams_budget) {
    struct budget_house h;
    struct hold_op op = {0}, other = {0};
    house_init(&h);
    house_limit(&h, LEVEL_TEAM, 1000);
    h.conf.hold.max_share_key = 2500; /* 25% */
    cr_assert_eq(house_hold(&h, 0, "a", 600, &op), ERR_NONE, "alone in flight a call may be large");
    cr_assert_eq(house_hold(&h, 0, "b", 1, &other), ERR_HOLD_SHARE);
    cr_assert(other.refusal.level == LEVEL_TEAM && !other.lease.open);
    cr_assert_eq(house_hold(&h, 1, "c", 250, &other), ERR_NONE, "the other key has its own share");
    cr_assert_eq(house_hold(&h, 1, "d", 151, &op), ERR_BUDGET, "a budget that is gone comes first");
    cr_assert_eq(budget_settle(h.b, &other.lease, 0), 0);
    cr_assert_eq(house_hold(&h, 1, "e", 200, &op), ERR_NONE);
    cr_assert_eq(house_hold(&h, 1, "f", 50, &other), ERR_NONE, "exactly the share");
    cr_assert_eq(house_hold(&h, 1, "g", 1, &other), ERR_HOLD_SHARE);
    (void)budget_raise(h.b, &h.conf, &h.keys[1], &op.lease, 201, HOUSE_NOW_US, &other);
    cr_assert_eq(other.err, ERR_HOLD_SHARE);
    house_fini(&h);
}

Test(budget, a_share_only_matters_where_others_could_starve) {
    static struct hold_op ops[200];
    struct budget_house h;
    house_init(&h);
    house_limit(&h, LEVEL_TEAM, NANO_PER_USD);
    h.conf.hold.max_share_key = h.conf.hold.max_share_team = 100;
    h.teams[0].n_keys = 1;
    cr_assert_eq(hold_many(&h, 200, CENT, ops), 100);
    house_fini(&h);
    house_init(&h);
    house_limit(&h, LEVEL_ORGANIZATION, 1000);
    h.conf.hold.max_share_team = 5000;
    cr_assert_eq(house_hold(&h, 0, "a", 300, &ops[0]), ERR_NONE);
    cr_assert_eq(house_hold(&h, 1, "b", 201, &ops[1]), ERR_HOLD_SHARE, "its team holds half");
    cr_assert_eq(ops[1].refusal.level, LEVEL_ORGANIZATION);
    cr_assert_eq(house_hold(&h, 2, "c", 500, &ops[1]), ERR_NONE);
    house_fini(&h);
}

Test(budget, one_call_may_cost_only_so_much) {
    struct budget_house h;
    struct hold_op op = {0}, more = {0};
    house_init(&h);
    h.keys[0].max_cost_per_call = 100;
    h.teams[0].max_cost_per_call = 80;
    cr_assert_eq(house_hold(&h, 0, "a", 101, &op), ERR_BUDGET);
    cr_assert(op.refusal.level == LEVEL_KEY && op.refusal.limit_nanousd == 100 && op.refusal.needed_nanousd == 101);
    cr_assert(op.refusal.period == PERIOD_TOTAL && op.refusal.resets_us == INT64_MAX);
    cr_assert_str_eq(op.refusal.scope, "k1");
    cr_assert_eq(house_hold(&h, 0, "a", 81, &op), ERR_BUDGET);
    cr_assert_str_eq(op.refusal.scope, "search");
    cr_assert_eq(house_hold(&h, 0, "a", 80, &op), ERR_NONE);
    cr_assert_eq(op.lease.n, 0);
    (void)budget_raise(h.b, &h.conf, &h.keys[0], &op.lease, 81, HOUSE_NOW_US, &more);
    cr_assert(more.err == ERR_BUDGET && op.lease.nanousd == 80, "all tries of a call together");
    cr_assert_eq(budget_settle(h.b, &op.lease, 80), 0);
    house_fini(&h);
}

/* --- periods --- */

Test(budget, a_request_belongs_to_the_period_of_its_hold) {
    struct budget_house h;
    struct hold_op op = {0}, next = {0};
    house_init(&h);
    house_limit(&h, LEVEL_KEY, 100);
    h.key_budget.zone = zone_get("Europe/Berlin");
    int64_t midnight = HOUSE_NOW_US + 11 * US_PER_HOUR; /* 23:00Z: December begins in Berlin */
    (void)budget_hold(h.b, &h.conf, &h.keys[0], "a", &h.price, 100, midnight - 1, &op);
    cr_assert_eq(op.err, ERR_NONE);
    cr_assert_eq(op.lease.scopes[0].period_to_us, midnight);
    (void)budget_hold(h.b, &h.conf, &h.keys[0], "b", &h.price, 100, midnight - 1, &next);
    cr_assert(next.err == ERR_BUDGET && next.refusal.resets_us == midnight);
    (void)budget_hold(h.b, &h.conf, &h.keys[0], "b", &h.price, 70, midnight, &next);
    cr_assert_eq(next.err, ERR_NONE, "the new month is untouched by what is still in flight");
    (void)budget_raise(h.b, &h.conf, &h.keys[0], &op.lease, 101, midnight + 1, &next);
    cr_assert_eq(next.err, ERR_BUDGET, "a raise is measured in its own month");
    cr_assert_eq(budget_settle(h.b, &op.lease, 90), 0);
    struct budget_view v = house_look(&h, LEVEL_KEY, midnight + 1).v;
    cr_assert(v.settled_nanousd == 0 && v.held_nanousd == 70 && v.period_from_us == midnight);
    struct spend_view key, team;
    budget_spend(h.b, span_of("key00001"), span_of("search"), midnight + 1, &key, &team);
    cr_assert(key.day_nanousd == 0 && key.month_nanousd == 0 && key.total_nanousd == 90 && key.week_nanousd == 90);
    house_fini(&h);
}

Test(budget, a_clock_set_back_opens_no_month_again) {
    struct budget_house h;
    struct hold_op op = {0};
    house_init(&h);
    house_limit(&h, LEVEL_KEY, 100);
    int64_t december = HOUSE_NOW_US + US_PER_DAY;
    (void)budget_hold(h.b, &h.conf, &h.keys[0], "a", &h.price, 100, december, &op);
    cr_assert_eq(budget_settle(h.b, &op.lease, 100), 0);
    (void)budget_hold(h.b, &h.conf, &h.keys[0], "b", &h.price, 1, HOUSE_NOW_US, &op);
    cr_assert_eq(op.err, ERR_BUDGET);
    house_fini(&h);
}

Test(budget, spend_is_counted_whatever_budgets_exist) {
    struct budget_house h;
    struct hold_op op = {0};
    struct spend_view key, team;
    house_init(&h);
    int64_t days[] = {0, 1, 2, 9}; /* Monday 30 November, then December */
    for (size_t i = 0; i < ARRAY_LEN(days); i++) {
        char id[40];
        snprintf(id, sizeof id, "call-%zu", i);
        (void)budget_hold(h.b, &h.conf, &h.keys[i % 2], id, &h.price, 5, HOUSE_NOW_US + days[i] * US_PER_DAY, &op);
        cr_assert_eq(op.err, ERR_NONE);
        (void)budget_settle(h.b, &op.lease, 10);
    }
    int64_t now = HOUSE_NOW_US + 9 * US_PER_DAY;
    budget_spend(h.b, span_of("key00001"), span_of("search"), now, &key, &team);
    cr_assert(key.day_nanousd == 0 && key.week_nanousd == 0 && key.month_nanousd == 10 && key.total_nanousd == 20);
    cr_assert(team.day_nanousd == 10 && team.week_nanousd == 10 && team.month_nanousd == 30 &&
              team.total_nanousd == 40);
    budget_spend(h.b, span_of("nobody"), span_of("none"), now, &key, &team);
    cr_assert(key.total_nanousd == 0 && team.total_nanousd == 0);
    house_fini(&h);
}

/* --- a new conf --- */

Test(budget, accounts_outlive_the_conf_that_named_them) {
    struct budget_house h;
    struct hold_op op = {0};
    house_init(&h);
    house_limit(&h, LEVEL_TEAM, 100);
    cr_assert_eq(house_hold(&h, 0, "a", 60, &op), ERR_NONE);
    struct conf_budget listed_anew[] = {{.limit_nanousd = 1000, .period = PERIOD_DAY, .zone = zone_get("UTC")},
                                        {.limit_nanousd = 50, .period = PERIOD_MONTH, .zone = zone_get("UTC")}};
    h.teams[0].budgets = listed_anew;
    h.teams[0].n_budgets = 2;
    struct hold_op more = {0};
    cr_assert_eq(house_hold(&h, 0, "b", 1, &more), ERR_BUDGET, "the month is the second one now, and has less");
    cr_assert(more.refusal.limit_nanousd == 50 && more.refusal.held_nanousd == 60);
    h.teams[0].n_budgets = 0;
    cr_assert_eq(house_hold(&h, 0, "c", 5000, &more), ERR_NONE);
    (void)budget_raise(h.b, &h.conf, &h.keys[0], &op.lease, 900, HOUSE_NOW_US, &more);
    cr_assert_eq(more.err, ERR_NONE, "no limit any more");
    struct budget_view v = house_look(&h, LEVEL_TEAM, HOUSE_NOW_US).v;
    cr_assert(v.limit_nanousd == CONF_UNLIMITED && v.held_nanousd == 900);
    cr_assert_str_eq(v.scope, "search");
    (void)budget_raise(h.b, &h.conf, &h.keys[0], &op.lease, INT64_MAX, HOUSE_NOW_US, &more);
    (void)budget_settle(h.b, &op.lease, 70);
    house_fini(&h);
}

Test(budget, a_budget_that_comes_later_knows_what_was_spent) {
    struct budget_house h;
    struct hold_op op = {0};
    house_init(&h);
    cr_assert_eq(house_hold(&h, 0, "a", 60, &op), ERR_NONE);
    (void)budget_settle(h.b, &op.lease, 60);
    house_limit(&h, LEVEL_TEAM, 100);
    cr_assert_eq(house_look(&h, LEVEL_TEAM, HOUSE_NOW_US).v.settled_nanousd, 60);
    cr_assert_eq(house_hold(&h, 0, "b", 41, &op), ERR_BUDGET);
    cr_assert_eq(house_hold(&h, 0, "b", 40, &op), ERR_NONE);
    house_fini(&h);
}

Test(budget, more_budgets_than_a_lease_holds_are_refused_not_forgotten) {
    static const char *const zones[] = {"UTC",          "Europe/Berlin", "Europe/Paris",
                                        "Asia/Tokyo",   "Asia/Kolkata",  "America/Denver",
                                        "Africa/Cairo", "Pacific/Apia",  "Asia/Dubai"};
    struct conf_budget many[18];
    struct budget_house h;
    struct hold_op op = {0};
    house_init(&h);
    for (int i = 0; i < 18; i++)
        many[i] = (struct conf_budget){
            .limit_nanousd = 1000, .period = i < 9 ? PERIOD_DAY : PERIOD_WEEK, .zone = zone_get(zones[i % 9])};
    h.teams[0].budgets = many;
    h.teams[0].n_budgets = 16;
    cr_assert_eq(house_hold(&h, 0, "a", 1, &op), ERR_NONE);
    cr_assert_eq(op.lease.n, 16);
    (void)budget_settle(h.b, &op.lease, 1);
    h.teams[0].n_budgets = 17;
    cr_assert_eq(house_hold(&h, 0, "b", 1, &op), ERR_LEDGER);
    house_fini(&h);
}

/* --- recovery --- */

struct record {
    const char *key, *team;
    int64_t at_us, nanousd;
};

Test(budget, the_log_told_in_any_order_gives_the_same_ledger) {
    static const struct record log[] = {{"key00001", "search", HOUSE_NOW_US - 40 * US_PER_DAY, 1000},
                                        {"key00001", "search", HOUSE_NOW_US - 2 * US_PER_DAY, 10},
                                        {"key00002", "search", HOUSE_NOW_US - US_PER_HOUR, 20},
                                        {"key00003", "ads", HOUSE_NOW_US - US_PER_HOUR, 300},
                                        {"gone0000", "search", HOUSE_NOW_US - US_PER_HOUR, 7},
                                        {"key00001", "gone", HOUSE_NOW_US, 5}};
    int n = (int)ARRAY_LEN(log);
    for (int turn = 0; turn < 2 * n; turn++) {
        struct budget_house h;
        struct spend_view key, team;
        house_init(&h);
        house_limit(&h, LEVEL_TEAM, 100);
        house_limit(&h, LEVEL_ORGANIZATION, 1000);
        for (int i = 0; i < n; i++) {
            const struct record *r = &log[turn < n ? (i + turn) % n : n - 1 - (i + turn) % n];
            budget_replay(h.b, &h.conf, span_of(r->key), span_of(r->team), r->at_us, r->nanousd);
        }
        cr_assert_eq(house_look(&h, LEVEL_TEAM, HOUSE_NOW_US).v.settled_nanousd, 37);
        cr_assert_eq(house_look(&h, LEVEL_ORGANIZATION, HOUSE_NOW_US).v.settled_nanousd, 342);
        budget_spend(h.b, span_of("key00001"), span_of("search"), HOUSE_NOW_US, &key, &team);
        cr_assert(key.total_nanousd == 1015 && key.month_nanousd == 15 && key.day_nanousd == 5);
        cr_assert(team.total_nanousd == 1037 && team.month_nanousd == 37 && team.week_nanousd == 27);
        struct hold_op op = {0};
        cr_assert_eq(house_hold(&h, 0, "a", 64, &op), ERR_BUDGET);
        cr_assert_eq(house_hold(&h, 0, "a", 63, &op), ERR_NONE);
        house_fini(&h);
    }
}

/* --- views --- */

static void count_view(const struct budget_view *v, void *user) {
    int *n = user;
    cr_assert(v->period_from_us < v->period_to_us);
    (*n)++;
}

Test(budget, every_budget_is_shown_used_or_not) {
    struct budget_house h;
    struct hold_op op = {0};
    int n = 0;
    house_init(&h);
    house_limit(&h, LEVEL_KEY, 100);
    house_limit(&h, LEVEL_TEAM, 100);
    struct conf_budget twice[] = {{.limit_nanousd = 500, .period = PERIOD_DAY, .zone = zone_get("UTC")},
                                  {.limit_nanousd = 300, .period = PERIOD_DAY, .zone = zone_get("UTC")}};
    h.conf.organization_budgets = twice;
    h.conf.n_organization_budgets = 2;
    budget_each(h.b, &h.conf, HOUSE_NOW_US, count_view, &n);
    cr_assert_eq(n, 3, "two limits on one account are one budget");
    cr_assert_eq(house_look(&h, LEVEL_ORGANIZATION, HOUSE_NOW_US).v.limit_nanousd, 300, "the tighter");
    cr_assert_eq(house_hold(&h, 0, "a", 50, &op), ERR_NONE);
    n = 0;
    budget_each(h.b, &h.conf, HOUSE_NOW_US, count_view, &n);
    cr_assert_eq(n, 3);
    n = 0;
    budget_each(h.b, &h.conf, HOUSE_NOW_US + 2 * US_PER_DAY, count_view, &n);
    cr_assert_eq(n, 6, "the old periods with a call in them, and the new ones");
    (void)budget_settle(h.b, &op.lease, 50);
    n = 0;
    budget_each(h.b, &h.conf, HOUSE_NOW_US + 2 * US_PER_DAY, count_view, &n);
    cr_assert_eq(n, 3);
    cr_assert_eq(house_look(&h, LEVEL_KEY, HOUSE_NOW_US).v.settled_nanousd, 50);
    cr_assert_str_eq(house_look(&h, LEVEL_KEY, HOUSE_NOW_US).v.scope, "key00001");
    house_fini(&h);
}
