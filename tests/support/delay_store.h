/* A ledger that answers later: it stands before another one, says PROGRESS_WAIT, and asks that one after a while, from
 * the loop. Stories that pass with it will pass with a store across a network.
 *
 *     struct delay_store *d = delay_store_put(budget, base, 2000);   ... budget_free(budget) frees it too */
#ifndef TOLLGATE_TESTS_DELAY_STORE_H
#define TOLLGATE_TESTS_DELAY_STORE_H

#include "budget/ledger.h"

struct event_base;
struct delay_store;

/* Belongs to the budget from then on. What still waits when the budget is freed is told to the inner ledger and wakes
 * nobody. */
struct delay_store *delay_store_put(struct budget *b, struct event_base *base, int64_t delay_us);
/* From now on every question fails with ERR_LEDGER, or works again; what is told meanwhile arrives then. */
void delay_store_break(struct delay_store *d, bool broken);
int delay_store_waiting(const struct delay_store *d);
int delay_store_asked(const struct delay_store *d); /* questions so far, all kinds together */

#endif
