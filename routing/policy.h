/* Private to routing/: how the lanes of one rung are put into an order. A new policy is one function and one row. */
#ifndef TOLLGATE_ROUTING_POLICY_H
#define TOLLGATE_ROUTING_POLICY_H

#include "routing/routing.h"

/* One lane of a rung that may serve. */
struct lane {
    const struct conf_backend *backend;
    const struct conf_upstream_key *key; /* NULL where the backend takes none */
    struct span model;                   /* in the plan's arena */
    const char *target;                  /* in the plan's arena */
    size_t nth_target;                   /* which target of the rung; lanes of one target stand side by side */
    int target_weight, key_weight;
    const char *why; /* static; NULL: the policy says why */
    bool taken;
};

struct policy_row {
    const char *name;
    /* Picks a lane that is not taken (there is one), sets its `why` unless it has one, and gives its index. */
    size_t (*pick)(struct lane *lanes, size_t n, uint64_t *random);
};
const struct policy_row *policy_row(enum conf_policy p);

#endif
