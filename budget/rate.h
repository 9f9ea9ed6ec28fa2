/* Private to the memory ledger: rates of one process. */
#ifndef TOLLGATE_BUDGET_RATE_H
#define TOLLGATE_BUDGET_RATE_H

#include "budget/ledger.h"

struct rates;
struct rates *rates_new(void);
void rates_free(struct rates *r);
void rates_step(struct rates *r, const struct rate_ask *ask, struct rate_op *op);
void rates_end(struct rates *r, struct rate_slip *slip, int64_t tokens_used, int64_t now_us);
size_t rates_kept(const struct rates *r); /* limiters in memory */

#endif
