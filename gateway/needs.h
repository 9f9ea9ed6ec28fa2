/* What routing is told of a call: the same for the walk and for whoever explains it. */
#ifndef TOLLGATE_GATEWAY_NEEDS_H
#define TOLLGATE_GATEWAY_NEEDS_H

#include "backends/backends.h"
#include "budget/budget.h"
#include "routing/routing.h"

/* Fills what comes from the call itself; conf, key, alias and what the head says are there already. */
void needs_of_call(const struct llm_call *c, const struct budget *b, struct needs *n);

#endif
