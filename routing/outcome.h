/* Private to routing/: what each outcome of a try means, as one table. */
#ifndef TOLLGATE_ROUTING_OUTCOME_H
#define TOLLGATE_ROUTING_OUTCOME_H

#include "routing/routing.h"

/* The four things that can be ill by themselves. A lane is (target, key). */
enum part { PART_BACKEND, PART_KEY, PART_TARGET, PART_LANE, PART_N };
#define PART_BIT(p) (1u << (p))
#define PARTS_NONE 0u
#define PARTS_ALL (PART_BIT(PART_N) - 1)

enum follow {
    FOLLOW_NONE, /* no other choice may follow */
    FOLLOW_ANY,  /* the rest of the rung, then lower rungs that list the reason */
    FOLLOW_DOWN, /* the rest of the rung would say the same: only lower rungs that list the reason */
};

struct outcome_row {
    enum reason reason; /* REASON_N with FOLLOW_NONE */
    enum follow follow;
    enum part fault; /* PART_N: nobody's */
    bool at_once;    /* one is enough to pass the part over while others can serve */
    bool certain;    /* what shares the faulty part fails too: never tried after it */
    bool sent;       /* the provider may have worked on it: a further try in the rung is a retry, and counts as one */
    bool waits;      /* ... and goes after a back-off: the rung may be in trouble as a whole */
    unsigned proves; /* PART_BITs that this outcome shows to be well */
};
const struct outcome_row *outcome_row(enum outcome o);

/* plan_next.c: what follows choice `from` among those behind `far`; `below`: only in other rungs. -1: nothing. */
int plan_next_behind(const struct plan *p, int from, int far, bool below, enum outcome last, enum fallback fallback);

#endif
