/* The one place that decides which choice follows a try, or that none does. Always true here: it only ever goes forward
 * in a plan, so each lane is tried at most once and a walk ends; it enters a lower rung only for a listed reason. */
#include "routing/outcome.h"

#include <assert.h>
#include <limits.h>

#define RANK_NEVER INT_MAX

static bool same(struct span a, struct span b) {
    return span_equal(a, b);
}

static bool shares_fault(enum part fault, const struct choice *a, const struct choice *b) {
    bool backend = same(span_of(a->backend->name), span_of(b->backend->name));
    switch (fault) {
    case PART_BACKEND:
        return backend;
    case PART_KEY:
        return backend && a->key == b->key;
    case PART_TARGET:
        return strcmp(a->target, b->target) == 0;
    default: /* a lane is never there twice, and nobody's fault is shared by nobody */
        return false;
    }
}

static bool may_follow(const struct outcome_row *row, const struct choice *from, const struct choice *to,
                       enum fallback fallback) {
    if (fallback == FALLBACK_SAME_MODEL && !same(from->model, to->model))
        return false;
    if (to->rung == from->rung)
        return row->follow == FOLLOW_ANY;
    return to->only_for & REASON_BIT(row->reason);
}

/* Low is good: what does not share the fault, then what does, then the same of rungs that are worse, and of last resorts. */
static int rank_of(const struct outcome_row *row, const struct choice *from, const struct choice *to,
                   enum fallback fallback) {
    bool shares = shares_fault(row->fault, from, to);
    if (!may_follow(row, from, to, fallback) || (shares && row->certain))
        return RANK_NEVER;
    return (to->last && !from->last ? 4 : 0) + (to->degraded && !from->degraded ? 2 : 0) + shares;
}

int plan_next_behind(const struct plan *p, int from, int far, bool below, enum outcome last, enum fallback fallback) {
    const struct outcome_row *row = outcome_row(last);
    int best = -1, best_rank = RANK_NEVER;
    assert(from >= 0 && far >= from && far < p->n);
    if (row->follow == FOLLOW_NONE || fallback == FALLBACK_NONE)
        return -1;
    for (int i = far + 1; i < p->n; i++) {
        bool passed = below && p->choices[i].rung == p->choices[from].rung;
        int rank = passed ? RANK_NEVER : rank_of(row, &p->choices[from], &p->choices[i], fallback);
        if (rank < best_rank) {
            best = i;
            best_rank = rank;
        }
    }
    return best;
}

int plan_next(const struct plan *p, int after, enum outcome last, int tried, int attempts, enum fallback fallback) {
    assert(after >= -1 && after < p->n);
    if (tried >= attempts)
        return -1;
    if (after < 0)
        return p->n > 0 ? 0 : -1;
    return plan_next_behind(p, after, after, false, last, fallback);
}
