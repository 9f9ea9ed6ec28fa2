/* The keeper over a year: calls go on, months are rolled up and carried by themselves, old files go, and the bill stays what the
 * ledger has. */
#include "tests/support/story.h"

#include "gateway/finance/report.h"
#include "gateway/keeper.h"

#define YEAR                                                                                                           \
    "listen: [{address: \"127.0.0.1:0\"}]\n"                                                                           \
    "admin: {address: \"127.0.0.1:0\", token: admin-token-0123456789}\n"                                               \
    "node: test\n"                                                                                                     \
    "state: {directory: @DIR@/state}\n"                                                                                \
    "audit: {directory: @DIR@/audit, keep: 35d}\n"                                                                     \
    "ledger: {keep: 2y}\n"                                                                                             \
    "prices: {unknown: {input: 1 USD/1M, output: 2 USD/1M}}\n"                                                         \
    "log: {level: error}\n"                                                                                            \
    "hold: {max_share_key: \"100%\", max_share_team: \"100%\"}\n" FLOW_BACKENDS FLOW_ALIASES "teams:\n"                \
    "  search: {" FLOW_KEYS ", allow: [\"*\"], budgets: [{limit: 1 USD, period: total}]}\n"
#define STEP_DAYS 20
#define CALLS 12

#ifdef TOLLGATE_TEST /* the clock can be moved */
static void answer(struct up *u) {
    up_answer(u, 200, "", flow_plain);
}

static bool is_rested(struct flow *f) {
    return !keeper_is_busy(f->g->keeper) && keeper_unrolled_us(f->g->keeper) > clock_wall_us() - 35 * US_PER_DAY;
}

static int64_t billed(struct flow *f, struct str *closed) {
    char path[128];
    struct spend s;
    struct span bad;
    struct str why;
    str_init(&why, 4096);
    spend_init(&s);
    snprintf(path, sizeof path, "%s/audit", f->folder);
    cr_assert(spend_groups(&s, "team", &bad) && report_sum(&s, path, closed, &why), "%s", why.at);
    int64_t sum_nanousd = s.total.at[SPEND_cost_nanousd];
    spend_fini(&s);
    str_fini(&why);
    return sum_nanousd;
}

STORY(keeper, a_year_of_calls_is_billed_whole_though_only_its_last_weeks_are_in_the_log, YEAR) {
    int64_t held, settled;
    struct str closed;
    str_init(&closed, 4096);
    f->gaps = true; /* settles are removed on purpose */
    f->up.script = answer;
    for (int i = 0; i < CALLS; i++) {
        struct caller *c = flow_call(f, FLOW_CALL);
        UNTIL(f, c->whole && flow_idle(f));
        cr_assert_eq(c->status, 200, "%s", c->body.at);
        UNTIL(f, is_rested(f));
        *f->clock_us += STEP_DAYS * US_PER_DAY;
    }
    UNTIL(f, is_rested(f) && flow_count(f, "settle") < CALLS / 2);
    cr_expect_geq(flow_count(f, "close"), 6);
    cr_expect_geq(flow_count(f, "rollup"), 6);
    flow_held(f, &held, &settled);
    cr_expect_eq(settled, CALLS * FLOW_COST_NANOUSD, "the ledger forgets nothing");
    cr_expect_eq(billed(f, &closed), CALLS * FLOW_COST_NANOUSD, "and the log tells the same");
    cr_expect(closed.at && strstr(closed.at, " is told by its rollups"), "%s", closed.at);
    str_fini(&closed);
}
#endif
