/* needs -> plan. Always true here: a plan stands rung by rung, last resorts behind all others, each lane in it at most once and at most PLAN_MAX of them;
 * a rung below the first stands in it only if its only_for lists a reason; every rung that can serve keeps at least one
 * place, so that many keys of one rung do not push out the rung that would have helped. */
#include "routing/lanes.h"

#include <assert.h>
#include <stdio.h>

#define REASONS_ALL (REASON_BIT(REASON_N) - 1)

/* One rung on its way into the plan. */
struct entering {
    const struct conf_rung *of;
    int rung;
    unsigned only_for;
};

static void put_choice(struct planner *p, const struct lane *lane, const struct entering *in) {
    assert(p->plan->n < PLAN_MAX);
    p->plan->choices[p->plan->n++] = (struct choice){
        .backend = lane->backend,
        .model = lane->model,
        .target = lane->target,
        .key = lane->key,
        .rung = in->rung,
        .degraded = in->of->degraded,
        .only_for = in->only_for,
        .why = lane->why,
        .last = lane->last,
        .facts = lane->facts,
    };
}

static void draw_rung(struct planner *p, struct rung_lanes *from, const struct entering *in) {
    struct draw draw = {&p->r->random, p->needs->affinity};
    int below = (int)p->needs->alias->n_rungs - in->rung - 1;
    int places = PLAN_MAX - p->plan->n - below;
    if (places < 1)
        places = p->plan->n < PLAN_MAX ? 1 : 0;
    size_t n = from->n < (size_t)places ? from->n : (size_t)places;
    for (size_t i = 0; i < n; i++) {
        size_t at = policy_pick(in->of->policy, from->lanes, from->n, &draw);
        from->lanes[at].taken = true;
        put_choice(p, &from->lanes[at], in);
    }
    p->plan->n_cut += (int)(from->n - n);
}

static void name_reasons(unsigned bits, char *out, size_t max) {
    size_t n = 0;
    out[0] = '\0';
    for (enum reason r = 0; r < REASON_N && n < max; r++)
        if (bits & REASON_BIT(r))
            n += (size_t)snprintf(out + n, max - n, "%s%s", n ? ", " : "", reason_names[r]);
}

/* The rungs above could not serve, and not for a reason for which this one may. */
static void exclude_rung(struct planner *p, const struct rung_lanes *of, unsigned only_for) {
    struct verdict v = {.barrier = BARRIER_NONE, .reason = REASON_N};
    char names[128];
    name_reasons(only_for, names, sizeof names);
    snprintf(v.why, sizeof v.why, "its rung is only for %s", only_for ? names : "nothing");
    for (size_t i = 0; i < of->n; i++)
        if (i == 0 || of->lanes[i].nth_target != of->lanes[i - 1].nth_target)
            lanes_exclude(p, of->lanes[i].target, &v);
}

/* A rung may also be entered for what leads into one above it that cannot serve, if it stands in for that one. */
static unsigned entry_of(const struct planner *p, unsigned only_for) {
    unsigned entry = only_for;
    for (enum reason r = 0; r < REASON_N; r++)
        if (only_for & REASON_BIT(r))
            entry |= p->through[r];
    return entry;
}

static void pass_over(struct planner *p, unsigned reasons, unsigned entry) {
    if (p->plan->n == 0)
        p->plan->skipped |= reasons;
    else
        for (enum reason r = 0; r < REASON_N; r++)
            if (reasons & REASON_BIT(r))
                p->through[r] |= entry;
}

static void plan_rung(struct planner *p, size_t i) {
    const struct conf_rung *rung = &p->needs->alias->rungs[i];
    struct rung_lanes found;
    lanes_gather(p, rung, &found);
    if (p->full || found.n_models == 0) /* for this caller the rung is not there */
        return;
    /* The first rung that is there is entered freely, but never a degraded one below others. */
    bool top = i == 0 || (!p->models && !rung->degraded);
    unsigned entry = top ? REASONS_ALL : entry_of(p, rung->only_for);
    if (!p->models) {
        p->models = found.models;
        p->n_models = found.n_models;
    }
    if (!top && p->plan->n == 0 && !(rung->only_for & p->plan->skipped)) {
        exclude_rung(p, &found, rung->only_for);
        return;
    }
    if (found.n == 0)
        pass_over(p, found.reasons, entry);
    else
        draw_rung(p, &found, &(struct entering){rung, (int)i, entry});
}

/* What the arm tries first. It is no rung of the ladder: it sets no model that a caller could insist on, being left out
 * it is no reason to go down, and whoever it fails begins at the ladder's top. */
static void plan_arm(struct planner *p, const struct arm *arm) {
    struct conf_target first = *arm->first;
    struct conf_rung rung = {.targets = &first, .n_targets = 1, .degraded = arm->degraded};
    struct rung_lanes found;
    lanes_gather(p, &rung, &found);
    if (!p->full && found.n)
        draw_rung(p, &found, &(struct entering){&rung, RUNG_ARM, REASONS_ALL});
}

/* What is cooling down stands last, in the same order: better than to give up when all others have failed. */
static void plan_last(struct planner *p) {
    p->quiet = true; /* why each lane is left out was said already */
    for (size_t i = 0; i < p->needs->alias->n_rungs && !p->full && p->plan->n < PLAN_MAX; i++)
        plan_rung(p, i);
}

static void plan_once(struct planner *p) {
    *p->plan = (struct plan){.alias = p->needs->alias, .arm = p->needs->arm};
    p->nearest = BARRIER_NONE;
    p->back_us = INT64_MAX;
    p->models = NULL;
    memset(p->through, 0, sizeof p->through);
    if (p->needs->arm.first)
        plan_arm(p, &p->needs->arm);
    for (size_t i = 0; i < p->needs->alias->n_rungs && !p->full; i++)
        plan_rung(p, i);
}

static enum err error_of(const struct planner *p) {
    static const enum err errors[] = {
        [BARRIER_NONE] = ERR_NO_TARGET,      [BARRIER_BOUNDARY] = ERR_TARGET_FORBIDDEN,
        [BARRIER_ABILITY] = ERR_UNSUPPORTED, [BARRIER_CONTEXT] = ERR_CONTEXT,
        [BARRIER_TIME] = ERR_NO_TARGET,
    };
    return errors[p->nearest];
}

enum err routing_plan(struct routing *r, const struct needs *needs, int64_t now_us, struct arena *arena,
                      struct plan *out) {
    struct planner p = {.r = r, .needs = needs, .now_us = now_us, .arena = arena, .plan = out};
    assert(needs->alias && needs->key && needs->key->team);
    plan_once(&p);
    if (p.n_last > 0 && !p.full) {
        p.take_last = true;
        if (out->n == 0)
            plan_once(&p);
        else
            plan_last(&p);
    }
    if (p.full) {
        out->n = 0;
        return ERR_INTERNAL;
    }
    if (out->n > 0)
        return ERR_NONE;
    out->retry_after_us = p.back_us != INT64_MAX ? p.back_us - now_us : 0;
    return error_of(&p);
}
