/* A conf built by hand and a ledger: two teams, "search" with the keys k1 and k2, "ads" with k3; no limits, no budgets
 * and whole shares until a test says so. */
#ifndef TOLLGATE_TESTS_BUDGET_HOUSE_H
#define TOLLGATE_TESTS_BUDGET_HOUSE_H

#include "budget/ledger.h"

#define CENT (NANO_PER_USD / 100)
#define HOUSE_NOW_US INT64_C(1796040000000000) /* 2026-11-30T12:00:00Z, a Monday */

struct budget_house {
    struct conf conf;
    struct conf_team teams[2];
    struct conf_key keys[3];
    struct conf_budget key_budget, team_budget, organization_budget; /* joined by house_limit */
    struct price price;                                              /* 1 nano-dollar a token each way */
    struct budget *b;
};

void house_init(struct budget_house *h);
void house_fini(struct budget_house *h);
/* Gives k1, its team or the organization one budget by the month in UTC. */
void house_limit(struct budget_house *h, enum budget_level level, int64_t nanousd);
/* A hold by key number `k` at HOUSE_NOW_US. */
enum err house_hold(struct budget_house *h, int k, const char *id, int64_t nanousd, struct hold_op *op);
/* The view of a level's budget (the busiest if there are several); found is false when none is shown. */
struct house_view {
    bool found;
    struct budget_view v;
};
struct house_view house_look(struct budget_house *h, enum budget_level level, int64_t now_us);

#endif
