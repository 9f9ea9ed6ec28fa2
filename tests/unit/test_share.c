/* Who goes first: who has had least, team before adapter; and being away saves nothing up. */
#include "backends/decode/share.h"

#include <criterion/criterion.h>
#include <stdio.h>

Test(share, the_team_that_had_least_goes_first_then_its_adapter) {
    struct shares s;
    shares_init(&s);
    struct share *ax = share_enter(&s, SPAN("a"), SPAN("x")), *ay = share_enter(&s, SPAN("a"), SPAN("y"));
    struct share *bx = share_enter(&s, SPAN("b"), SPAN("x"));
    cr_expect(ax != bx && ax->team == ay->team && share_compare(ax, bx) == 0);
    share_charge(ax, 10, 5);
    cr_expect(ax->had == 20 && ax->team->had == 20);
    cr_expect(share_compare(bx, ay) < 0, "a's other adapter does not make a go first");
    cr_expect(share_compare(ay, ax) < 0);
    share_charge(bx, 100, 0);
    cr_expect(share_compare(ax, bx) < 0);
    share_leave(bx);
    share_charge(ax, 500, 0);
    bx = share_enter(&s, SPAN("b"), SPAN("x"));
    cr_expect_eq(bx->team->had, ax->team->had, "time away is not saved up");
    share_run(ax, 1);
    cr_expect(ax->team->running == 1 && ay->running == 0);
    share_run(ax, -1);
    shares_fini(&s);
}

Test(share, idle_accounts_are_forgotten_and_busy_ones_are_not) {
    struct shares s;
    char name[20];
    shares_init(&s);
    struct share *stays = share_enter(&s, SPAN("stays"), SPAN("x"));
    share_charge(stays, 3, 0);
    for (int i = 0; i < SHARES_MAX + 10; i++) {
        int n = snprintf(name, sizeof name, "t%d", i);
        share_leave(share_enter(&s, span_from(name, (size_t)n), SPAN("x")));
    }
    cr_expect(s.accounts.n < SHARES_MAX + 4, "%zu", s.accounts.n);
    cr_expect_eq(share_enter(&s, SPAN("stays"), SPAN("x")), stays);
    cr_expect(stays->had >= 3);
    shares_fini(&s);
}
