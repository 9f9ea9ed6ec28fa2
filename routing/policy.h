/* Private to routing/: how the lanes of one rung are put into an order. A new policy is one function and one row. */
#ifndef TOLLGATE_ROUTING_POLICY_H
#define TOLLGATE_ROUTING_POLICY_H

#include "routing/routing.h"

/* One lane of a rung that may serve, with what policies look at. */
struct lane {
    const struct conf_backend *backend;
    const struct conf_upstream_key *key; /* NULL where the backend takes none */
    struct span model;                   /* in the plan's arena */
    const char *target;                  /* in the plan's arena */
    size_t nth_target;                   /* which target of the rung; lanes of one target stand side by side */
    int target_weight, key_weight;
    struct lane_facts facts; /* of its target */
    int in_flight;           /* on this lane alone */
    const char *why;         /* static; NULL: the policy says why */
    bool last;               /* as in the choice */
    bool taken;
};

struct draw {
    uint64_t *random;  /* never 0 */
    uint64_t affinity; /* of the call; 0: it has none */
};

struct policy_row {
    const char *name;
    /* The first lane of the target that is drawn among those with a lane left. */
    size_t (*target)(const struct lane *lanes, size_t n, const struct draw *d);
    /* One of the lanes that are left of the target that begins at `from`. */
    size_t (*key)(const struct lane *lanes, size_t n, size_t from, const struct draw *d);
    const char *why;
};
const struct policy_row *policy_row(enum conf_policy p);
/* Picks a lane that is not taken (there is one), sets its `why` unless it has one, and gives its index. */
size_t policy_pick(enum conf_policy p, struct lane *lanes, size_t n, const struct draw *d);

#endif
