/* What numbers of accounts mean for an ask: who says no, in whose words, what is left, what has been passed; and what the
 * ledger in memory tells of it, each once. */
#include "budget/ledger.h"

#include <criterion/criterion.h>
#include <stdio.h>

#include "gateway/base/clock.h"
#include "tests/support/budget_house.h"

static struct ledger_ask ask_of(const int64_t limits[3], const enum conf_at_limit words[3]) {
    struct ledger_ask ask = {.n = 3};
    for (int i = 0; i < 3; i++)
        ask.scopes[i] = (struct ledger_scope){.level = (enum budget_level)i,
                                              .owner = budget_level_names[i],
                                              .limit_nanousd = limits[i],
                                              .share_nanousd = CONF_UNLIMITED,
                                              .at_limit = words[i],
                                              .n_warn = 2,
                                              .warn = {5000, 9000}};
    return ask;
}

static const struct ledger_sums sums[3] = {
    {.stands = true, .settled_nanousd = 40, .held_nanousd = 20},                        /* 40 left of 100 */
    {.stands = true, .settled_nanousd = 40, .held_nanousd = 55},                        /* 5 left of 100 */
    {.stands = true, .settled_nanousd = 90, .held_nanousd = 20, .overrun_nanousd = 15}, /* 10 above 100 */
};

Test(judge, the_strictest_word_of_those_that_say_no_counts) {
    static const int64_t limits[3] = {100, 100, 1000};
    static const struct {
        enum conf_at_limit words[3];
        int64_t need;
        int who;
    } rows[] = {
        {{AT_LIMIT_CLAMP, AT_LIMIT_DEGRADE, AT_LIMIT_REFUSE}, 50, 1}, /* the organization has room, so it is silent */
        {{AT_LIMIT_DEGRADE, AT_LIMIT_CLAMP, AT_LIMIT_REFUSE}, 50, 0},
        {{AT_LIMIT_REFUSE, AT_LIMIT_REFUSE, AT_LIMIT_REFUSE}, 50, 0}, /* of equals the first */
        {{AT_LIMIT_REFUSE, AT_LIMIT_CLAMP, AT_LIMIT_REFUSE}, 30, 1},
        {{AT_LIMIT_REFUSE, AT_LIMIT_REFUSE, AT_LIMIT_REFUSE}, 5, -1},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct hold_op op = {0};
        struct ledger_ask ask = ask_of(limits, rows[i].words);
        int who = ledger_judge(&ask, sums, rows[i].need, &op);
        cr_assert_eq(who, rows[i].who, "row %zu", i);
        if (who < 0)
            continue;
        cr_expect_eq(op.err, ERR_BUDGET);
        cr_expect(op.refusal.level == (enum budget_level)who && op.refusal.at_limit == rows[i].words[who]);
        cr_expect(op.refusal.room_nanousd == 5 && op.refusal.needed_nanousd == rows[i].need);
    }
}

Test(judge, a_scope_above_its_limit_has_no_room_and_what_is_free_does_not_ask) {
    static const int64_t limits[3] = {CONF_UNLIMITED, INT64_MAX, 100};
    static const enum conf_at_limit words[3] = {AT_LIMIT_REFUSE, AT_LIMIT_REFUSE, AT_LIMIT_CLAMP};
    struct hold_op op = {0};
    struct ledger_ask ask = ask_of(limits, words);
    cr_expect_eq(ledger_judge(&ask, sums, 0, &op), 2, "even a call of zero waits for room");
    cr_expect(op.refusal.room_nanousd == -10 && op.refusal.overrun_nanousd == 15);
    ledger_tell(&ask, sums, &op);
    cr_expect_eq(op.remaining_key, -1, "no limit, nothing to tell");
    cr_expect_eq(op.remaining_team, INT64_MAX - 95);
    cr_expect_eq(op.remaining_organization, 0);
    cr_expect(op.passed[0] == 0 && op.passed[1] == 0 && op.passed[2] == 9000);
    ask.free = true;
    cr_expect_eq(ledger_judge(&ask, sums, 0, &op), -1);
    cr_expect_eq(ledger_room(&(struct ledger_sums){.settled_nanousd = INT64_MAX, .held_nanousd = INT64_MAX}, 0),
                 INT64_MIN, "a difference that does not fit is no room");
}

/* --- what the ledger tells --- */

struct heard {
    struct budget_news last;
    char name[96];
    int n[BUDGET_EVENT_N];
};

static void hear(const struct budget_news *n, void *user) {
    struct heard *h = user;
    h->last = *n;
    snprintf(h->name, sizeof h->name, "%s", n->name);
    h->n[n->event]++;
}

static void open_house(struct budget_house *h, struct heard *heard, int64_t limit) {
    static int64_t warn[] = {5000, 8000};
    house_init(h);
    house_limit(h, LEVEL_TEAM, limit);
    h->team_budget.warn = warn;
    h->team_budget.n_warn = 2;
    budget_watch(h->b, hear, heard);
}

Test(judge, each_share_is_told_once_a_period) {
    struct budget_house h;
    struct heard heard = {0};
    struct hold_op a = {0}, b = {0};
    open_house(&h, &heard, 100);
    cr_assert_eq(house_hold(&h, 0, "a", 49, &a), ERR_NONE);
    cr_expect(heard.n[BUDGET_WARN] == 0 && a.passed[LEVEL_TEAM] == 0);
    cr_assert_eq(house_hold(&h, 0, "b", 1, &b), ERR_NONE);
    cr_expect(heard.n[BUDGET_WARN] == 1 && heard.last.share == 5000 && b.passed[LEVEL_TEAM] == 5000);
    cr_expect_str_eq(heard.name, "team/search/month@UTC");
    cr_expect_str_eq(heard.last.scope, "search");
    budget_settle(h.b, &a.lease, 0);
    budget_settle(h.b, &b.lease, 0);
    cr_assert_eq(house_hold(&h, 1, "c", 60, &a), ERR_NONE);
    cr_expect(heard.n[BUDGET_WARN] == 1 && a.passed[LEVEL_TEAM] == 5000, "told, not told again");
    budget_settle(h.b, &a.lease, 90); /* beyond what was held: an overrun passes a share, too */
    cr_expect(heard.n[BUDGET_OVERRUN] == 1 && heard.n[BUDGET_WARN] == 2 && heard.last.share == 8000);
    (void)budget_hold(h.b, &h.conf, &h.keys[0], "d", &h.price, 60, HOUSE_NOW_US + 32 * US_PER_DAY, &a);
    cr_expect(heard.n[BUDGET_WARN] == 3 && heard.last.share == 5000, "a new period begins anew");
    house_fini(&h);
}

Test(judge, an_overrun_closes_its_scope_until_there_is_room_again) {
    struct budget_house h;
    struct heard heard = {0};
    struct hold_op a = {0}, b = {0}, op = {0};
    open_house(&h, &heard, 100);
    cr_assert_eq(house_hold(&h, 0, "a", 10, &a), ERR_NONE);
    cr_assert_eq(house_hold(&h, 0, "b", 30, &b), ERR_NONE);
    cr_expect_eq(budget_settle(h.b, &a.lease, 85), 75);
    cr_expect(heard.n[BUDGET_OVERRUN] == 1 && heard.n[BUDGET_LIMIT] == 0);
    cr_expect_eq(house_hold(&h, 0, "c", 0, &op), ERR_BUDGET, "85 + 30 of 100: closed, whatever is asked");
    cr_expect_eq(house_hold(&h, 1, "d", 1, &op), ERR_BUDGET);
    cr_expect(heard.n[BUDGET_LIMIT] == 1, "the first refusal is told, the second is not");
    h.price.free = true;
    cr_expect_eq(house_hold(&h, 0, "e", 0, &op), ERR_NONE, "an explicit zero price always fits");
    h.price.free = false;
    budget_settle(h.b, &b.lease, 5);
    cr_expect_eq(house_hold(&h, 0, "f", 10, &op), ERR_NONE, "85 + 5 leaves ten");
    cr_expect_eq(house_hold(&h, 0, "g", 1, &op), ERR_BUDGET);
    house_fini(&h);
}

Test(judge, a_replayed_bill_warns_nobody_again) {
    struct budget_house h;
    struct heard heard = {0};
    struct hold_op op = {0};
    open_house(&h, &heard, 100);
    budget_replay(h.b, &h.conf, SPAN("key00001"), SPAN("search"), HOUSE_NOW_US, 60);
    cr_assert_eq(house_hold(&h, 0, "a", 1, &op), ERR_NONE);
    cr_expect(heard.n[BUDGET_WARN] == 0 && op.passed[LEVEL_TEAM] == 5000);
    cr_assert_eq(house_hold(&h, 0, "b", 20, &op), ERR_NONE);
    cr_expect(heard.n[BUDGET_WARN] == 1 && heard.last.share == 8000, "what was not passed before is told");
    house_fini(&h);
}

Test(judge, a_lifted_limit_binds_from_the_next_hold_on_and_ends_by_itself) {
    struct budget_house h;
    struct heard heard = {0};
    struct hold_op op = {0};
    open_house(&h, &heard, 100);
    budget_lift(h.b, "team/search/month@UTC", 20, HOUSE_NOW_US + US_PER_HOUR);
    cr_assert_eq(house_hold(&h, 0, "a", 120, &op), ERR_NONE);
    struct house_view v = house_look(&h, LEVEL_TEAM, HOUSE_NOW_US);
    cr_expect(v.v.limit_nanousd == 120 && v.v.lifted_nanousd == 20);
    budget_settle(h.b, &op.lease, 99);
    (void)budget_hold(h.b, &h.conf, &h.keys[0], "b", &h.price, 2, HOUSE_NOW_US + US_PER_HOUR, &op);
    cr_expect_eq(op.err, ERR_BUDGET, "its hour is over");
    cr_expect_eq(house_hold(&h, 0, "c", 2, &op), ERR_NONE);
    budget_lift(h.b, "team/search/month@UTC", 0, 0);
    cr_expect_eq(house_hold(&h, 0, "d", 1, &op), ERR_BUDGET);
    h.conf.hold.max_share_key = FACTOR_ONE / 2;
    budget_lift(h.b, "team/search/month@UTC", 300, HOUSE_NOW_US + US_PER_HOUR);
    cr_expect_eq(house_hold(&h, 1, "e", 100, &op), ERR_NONE);
    cr_expect_eq(house_hold(&h, 1, "f", 100, &op), ERR_NONE, "half of 400: a share grows with its limit");
    cr_expect_eq(house_hold(&h, 1, "g", 1, &op), ERR_HOLD_SHARE);
    house_fini(&h);
}

Test(judge, two_budgets_of_one_account_say_the_stricter_word) {
    struct budget_house h;
    struct hold_op op = {0};
    house_init(&h);
    struct conf_budget two[2] = {{50, PERIOD_DAY, zone_get("UTC"), AT_LIMIT_CLAMP, NULL, 0},
                                 {70, PERIOD_DAY, zone_get("UTC"), AT_LIMIT_REFUSE, NULL, 0}};
    h.teams[0].budgets = two;
    h.teams[0].n_budgets = 2;
    cr_assert_eq(house_hold(&h, 0, "a", 60, &op), ERR_BUDGET);
    cr_expect(op.refusal.limit_nanousd == 50 && op.refusal.at_limit == AT_LIMIT_REFUSE);
    house_fini(&h);
}
