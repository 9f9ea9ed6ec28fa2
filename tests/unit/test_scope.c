/* What accounts are called, and which budgets of a conf apply to a call. */
#include "budget/ledger.h"

#include <criterion/criterion.h>
#include <stdio.h>

#include "tests/support/budget_house.h"

static void owner_of(enum budget_level level, const char *name, char out[OWNER_NAME_MAX]) {
    ledger_owner_name(level, span_of(name), out);
}

Test(scope, an_account_is_named_for_whose_it_is_and_its_period) {
    char owner[OWNER_NAME_MAX], name[SCOPE_NAME_MAX];
    owner_of(LEVEL_KEY, "key00001", owner);
    cr_assert_str_eq(owner, "key/key00001");
    owner_of(LEVEL_ORGANIZATION, "whatever", owner);
    cr_assert_str_eq(owner, "organization");
    owner_of(LEVEL_TEAM, "search", owner);
    ledger_scope_name(owner, PERIOD_MONTH, zone_get("Europe/Berlin"), name);
    cr_assert_str_eq(name, "team/search/month@Europe/Berlin");
    owner_of(LEVEL_TEAM, "", owner);
    cr_assert_str_eq(owner, "team/");
}

Test(scope, long_names_never_share_an_account) {
    char a[OWNER_NAME_MAX], b[OWNER_NAME_MAX], name_a[SCOPE_NAME_MAX], name_b[SCOPE_NAME_MAX], team[300];
    for (size_t n = 10; n < sizeof team - 1; n++) {
        memset(team, 'x', n);
        team[n] = '\0';
        owner_of(LEVEL_TEAM, team, a);
        team[n - 1] = 'y';
        owner_of(LEVEL_TEAM, team, b);
        cr_assert_str_neq(a, b, "%zu bytes", n);
        const struct zone *far = zone_get("America/Argentina/ComodRivadavia"), *utc = zone_get("UTC");
        ledger_scope_name(a, PERIOD_MONTH, far ? far : utc, name_a);
        ledger_scope_name(b, PERIOD_MONTH, far ? far : utc, name_b);
        cr_assert_str_neq(name_a, name_b, "%zu bytes", n);
        ledger_scope_name(a, PERIOD_MONTH, utc, name_b);
        cr_assert(!far || strcmp(name_a, name_b) != 0, "%zu bytes, another zone", n);
    }
}

Test(scope, budgets_of_all_levels_apply_in_order) {
    struct budget_house h;
    struct ledger_ask ask;
    house_init(&h);
    house_limit(&h, LEVEL_ORGANIZATION, 3);
    house_limit(&h, LEVEL_KEY, 1);
    house_limit(&h, LEVEL_TEAM, 2);
    cr_assert(ledger_ask_of(&h.conf, &h.keys[0], &ask));
    cr_assert_eq(ask.n, 3);
    for (int i = 0; i < 3; i++) {
        cr_assert(ask.scopes[i].level == (enum budget_level)i && ask.scopes[i].limit_nanousd == i + 1);
        cr_assert_eq(ask.scopes[i].share_nanousd, CONF_UNLIMITED);
    }
    cr_assert(ledger_ask_of(&h.conf, &h.keys[1], &ask));
    cr_assert(ask.n == 2 && ask.scopes[0].level == LEVEL_TEAM);
    house_fini(&h);
}

Test(scope, a_name_that_conf_has_lost_still_has_an_account) {
    struct budget_house h;
    struct ledger_ask ask;
    house_init(&h);
    house_limit(&h, LEVEL_TEAM, 2);
    h.team_budget.zone = zone_get("Europe/Berlin");
    cr_assert(ledger_ask_of_names(&h.conf, span_of("gone0000"), span_of("search"), &ask));
    cr_assert_eq(ask.n, 1);
    cr_assert_str_eq(ask.owners[LEVEL_KEY].name, "key/gone0000");
    cr_assert_eq(ask.owners[LEVEL_KEY].zone, h.team_budget.zone, "a key counts in its team's days");
    cr_assert(ledger_ask_of_names(&h.conf, span_of("gone0000"), span_of("gone"), &ask));
    cr_assert_eq(ask.n, 0);
    cr_assert_str_eq(zone_name(ask.owners[LEVEL_TEAM].zone), "UTC");
    house_fini(&h);
}

Test(scope, shares_apply_where_a_team_has_other_keys) {
    struct budget_house h;
    struct ledger_ask ask;
    house_init(&h);
    h.conf.hold.max_share_key = 2500;
    house_limit(&h, LEVEL_TEAM, 1000);
    cr_assert(ledger_ask_of(&h.conf, &h.keys[0], &ask));
    cr_assert_eq(ask.scopes[0].share_nanousd, 250);
    h.teams[0].n_keys = 1;
    cr_assert(ledger_ask_of(&h.conf, &h.keys[0], &ask));
    cr_assert_eq(ask.scopes[0].share_nanousd, CONF_UNLIMITED, "nobody else to starve");
    h.keys[1].runtime = true;
    cr_assert(ledger_ask_of(&h.conf, &h.keys[1], &ask));
    cr_assert_eq(ask.scopes[0].share_nanousd, 250, "a key that came at run time is not listed with the team's");
    house_fini(&h);
}

Test(scope, a_share_is_exact_at_any_size) {
    struct budget_house h;
    struct ledger_ask ask;
    house_init(&h);
    h.conf.hold.max_share_key = 2500;
    house_limit(&h, LEVEL_TEAM, INT64_MAX);
    cr_assert(ledger_ask_of(&h.conf, &h.keys[0], &ask));
    cr_assert_eq(ask.scopes[0].share_nanousd, INT64_MAX / 4);
    house_limit(&h, LEVEL_TEAM, 10001);
    cr_assert(ledger_ask_of(&h.conf, &h.keys[0], &ask));
    cr_assert_eq(ask.scopes[0].share_nanousd, 2500, "rounded down");
    house_fini(&h);
}
