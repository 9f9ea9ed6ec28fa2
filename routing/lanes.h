/* Private to routing/: which lanes of a rung may serve a call, and why the others may not. */
#ifndef TOLLGATE_ROUTING_LANES_H
#define TOLLGATE_ROUTING_LANES_H

#include "routing/inside.h"
#include "routing/policy.h"

#define SOON_US INT64_C(1000000) /* what a caller waits for a slot, or for the end of a probe: when is not known */

/* What keeps a lane out, from the farthest from serving to the nearest: the error of an empty plan is the nearest. */
enum barrier { BARRIER_NONE, BARRIER_BOUNDARY, BARRIER_ABILITY, BARRIER_CONTEXT, BARRIER_TIME };

#define WHY_MAX 192 /* bytes of one reason in words */
struct verdict {
    enum barrier barrier;
    enum reason reason; /* REASON_N: a boundary */
    char why[WHY_MAX];
};

struct planner {
    struct routing *r;
    const struct needs *needs;
    int64_t now_us;
    struct arena *arena;
    struct plan *plan;
    bool take_last;            /* nothing else can serve: lanes that are merely shy may, and early probes */
    int n_last;                /* lanes left out that may then */
    bool quiet;                /* exclusions are not noted */
    bool full;                 /* the arena was used up */
    enum barrier nearest;      /* of all exclusions so far */
    int64_t back_us;           /* when the first lane is back; INT64_MAX: not known */
    const struct span *models; /* fallback same-model: of the first rung that stands for this caller; NULL before it */
    size_t n_models;
    unsigned through[REASON_N]; /* [why a rung below the first choice cannot serve]: reasons that lead into it */
};

struct rung_lanes {
    struct lane *lanes; /* in the arena */
    size_t n;
    struct span *models; /* in the arena: of all targets within the boundaries */
    size_t n_models;     /* 0: for this caller the rung is not there */
    unsigned reasons;    /* REASON_BITs of the exclusions */
};
void lanes_gather(struct planner *p, const struct conf_rung *rung, struct rung_lanes *out);
/* Remembers in the plan why `target` is out. */
void lanes_exclude(struct planner *p, const char *target, const struct verdict *v);

#endif
