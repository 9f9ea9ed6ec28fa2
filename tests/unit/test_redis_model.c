/* Every state of a small shared ledger: two processes, a call each, a limit of two; holds, raises, settles, deaths and
 * expiries in every order that leads to a new state. The model knows what a ledger must answer; the real one, over a real
 * Redis, is asked. In every state settled + held + charged is at most the limit, and when all dead processes have come
 * back and all calls have ended, what Redis says is what the logs say. The same with slices, for calls of which many fit
 * into one and calls that need nearly the whole limit, in every order of up to four acts: there a limit may bind early, by
 * what is unused of the other process's slices and by nothing else. */
#include "tests/support/ledger_kit.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>

#define TEAM "team/search"
static int limit = 2;
static bool sliced;
static int64_t in_slices; /* holds that asked nobody */
#define NONE (-1)
#define STATES_MAX 400
#define PATH_MAX_ACTS 12
#define ACTS_WITH_SLICES 4

TestSuite(redis_model, .init = kit_begin, .fini = kit_end);

struct model {
    int hold[2];    /* of each process's call; NONE: no call */
    int charged[2]; /* of calls of a life that is over, held or charged by now */
    int settled[2]; /* in each log */
    int dead[2];
};

enum act_kind { ACT_HOLD, ACT_RAISE, ACT_SETTLE, ACT_KILL, ACT_RETURN, ACT_PASS, ACT_KINDS };

struct act {
    enum act_kind kind;
    int process, amount;
};

#define AMOUNTS 3
static const int whole[AMOUNTS] = {0, 1, 2}, mixed[AMOUNTS] = {0, 2, 150}, *amounts = whole;
#define ACTS (ACT_KINDS * 2 * AMOUNTS)

static struct act act_of(int i) {
    return (struct act){(enum act_kind)(i / (2 * AMOUNTS)), i / AMOUNTS % 2, amounts[i % AMOUNTS]};
}

static int positive(int n) {
    return n > 0 ? n : 0;
}

static int used(const struct model *m) {
    int sum = 0;
    for (int p = 0; p < 2; p++)
        sum += positive(m->hold[p]) + m->charged[p] + m->settled[p];
    return sum;
}

/* Whether the act makes sense here; amounts that an act does not use stand for nothing new. */
static bool possible(const struct model *m, struct act a) {
    bool open = m->hold[a.process] != NONE, dead = m->dead[a.process];
    switch (a.kind) {
    case ACT_HOLD:
        return !dead && !open;
    case ACT_RAISE:
        return !dead && open && a.amount > m->hold[a.process];
    case ACT_SETTLE:
        return !dead && open && a.amount <= m->hold[a.process];
    case ACT_KILL:
        return !dead && a.amount == 0;
    case ACT_RETURN:
        return dead && a.amount == 0;
    default:
        return a.process == 0 && a.amount == 0;
    }
}

/* Makes the move; tells whether the ledger has to allow it. */
static bool model_act(struct model *m, struct act a) {
    int *hold = &m->hold[a.process];
    switch (a.kind) {
    case ACT_HOLD:
    case ACT_RAISE:
        if (used(m) - positive(*hold) + a.amount > limit)
            return false;
        *hold = a.amount;
        return true;
    case ACT_SETTLE:
        m->settled[a.process] += a.amount;
        *hold = NONE;
        return true;
    case ACT_KILL: /* its log has the admit of an open call, and settles it at its hold when it comes back */
        m->charged[a.process] = positive(*hold);
        *hold = NONE;
        m->dead[a.process] = 1;
        return true;
    case ACT_RETURN:
        m->settled[a.process] += m->charged[a.process];
        m->charged[a.process] = 0;
        m->dead[a.process] = 0;
        return true;
    default:
        return true;
    }
}

/* --- the real one --- */

struct world {
    struct process p[2];
    struct hold_op op[2];
    struct model m; /* what the logs know */
};

static void begin(struct world *w, int i) {
    static const char *const logs[] = {"one", "two"};
    process_start(&w->p[i], logs[i], WHEN_DOWN_REFUSE);
    house_limit(&w->p[i].h, LEVEL_TEAM, limit);
    w->p[i].h.conf.hold.slice = sliced ? FACTOR_ONE / 4 : 0;
}

static void pass(struct world *w, int64_t us) {
    kit_pass(us, w->m.dead[0] ? NULL : &w->p[0], w->m.dead[1] ? NULL : &w->p[1]);
}

static void world_begin(struct world *w) {
    *w = (struct world){.m.hold = {NONE, NONE}};
    begin(w, 0);
    begin(w, 1);
    sync_redis_ask(&w->p[0].s, "FLUSHALL");
    pass(w, 4 * US_PER_S);
    for (int i = 0; i < 2 && sliced; i++) { /* Redis tells of the budget, and then each has a slice of it */
        struct hold_op op = {0};
        for (int n = 0; n < 2; n++) {
            cr_assert_eq(process_hold(&w->p[i], 0, "warm", 1, &op), ERR_NONE);
            process_settle(&w->p[i], &op.lease, 0);
        }
    }
}

static void world_end(struct world *w) {
    for (int i = 0; i < 2; i++) {
        struct budget_counts counts;
        if (w->m.dead[i])
            continue;
        budget_counts(w->p[i].h.b, &counts);
        in_slices += counts.holds_in_slices;
        process_stop(&w->p[i]);
    }
}

static void come_back(struct world *w, int i) {
    begin(w, i);
    budget_replay_log(w->p[i].h.b, NULL);
    budget_replay(w->p[i].h.b, &w->p[i].h.conf, SPAN("key00001"), SPAN("search"), kit.now_us,
                  w->m.settled[i] + w->m.charged[i]);
    process_tick(&w->p[i]);
}

static bool world_act(struct world *w, struct act a) {
    static int number;
    struct process *p = &w->p[a.process];
    char id[24];
    bool allowed = true;
    snprintf(id, sizeof id, "call-%d", ++number);
    if (a.kind == ACT_HOLD)
        allowed = process_hold(p, 0, id, a.amount, &w->op[a.process]) == ERR_NONE;
    else if (a.kind == ACT_RAISE)
        allowed = process_raise(p, 0, &w->op[a.process], a.amount) == ERR_NONE;
    else if (a.kind == ACT_SETTLE)
        process_settle(p, &w->op[a.process].lease, a.amount);
    else if (a.kind == ACT_KILL)
        process_stop(p);
    else if (a.kind == ACT_RETURN)
        come_back(w, a.process);
    else
        pass(w, 4 * US_PER_S);
    (void)model_act(&w->m, a);
    return allowed;
}

/* With slices, Redis knows all when nothing was asked for a while. */
static void compare(struct world *w, const struct model *m, int at, bool quiet) {
    struct process *any = w->m.dead[0] ? &w->p[1] : &w->p[0];
    if (w->m.dead[0] && w->m.dead[1])
        return;
    int64_t s = kit_account(any, TEAM, "s"), h = kit_account(any, TEAM, "h"), c = kit_account(any, TEAM, "p");
    int held = positive(m->hold[0]) + positive(m->hold[1]), charged = m->charged[0] + m->charged[1];
    cr_assert_leq(s + h + c, limit, "state %d", at);
    cr_assert_geq(s + h + c, used(m), "state %d", at);
    if (sliced && !quiet)
        return;
    cr_assert_eq(s, m->settled[0] + m->settled[1], "state %d: settled %ld", at, (long)s);
    cr_assert_eq(h + c, held + charged, "state %d: held %ld charged %ld", at, (long)h, (long)c);
}

/* Everybody comes back, every call ends at nothing: the logs are what is left. */
static void finish(struct world *w, int at) {
    for (int i = 0; i < 2; i++) {
        if (w->m.dead[i])
            (void)world_act(w, (struct act){ACT_RETURN, i, 0});
        else if (w->m.hold[i] != NONE)
            (void)world_act(w, (struct act){ACT_SETTLE, i, 0});
    }
    if (sliced)
        pass(w, 4 * US_PER_S);
    compare(w, &w->m, at, true);
    cr_assert_eq(kit_account(&w->p[0], TEAM, "h") + kit_account(&w->p[0], TEAM, "p"), 0, "state %d: left open", at);
    cr_assert_eq(kit_account(&w->p[0], TEAM, "k"), 0, "state %d: calls", at);
}

/* What the other process has leased and does not use may be missing. */
static bool binds_early(struct world *w, struct act a) {
    struct process *any = w->m.dead[0] ? &w->p[1] : &w->p[0];
    if (!sliced || (a.kind != ACT_HOLD && a.kind != ACT_RAISE))
        return false;
    int64_t stands = kit_account(any, TEAM, "s") + kit_account(any, TEAM, "h") + kit_account(any, TEAM, "p");
    return stands - positive(w->m.hold[a.process]) + a.amount > limit;
}

struct state {
    struct model m;
    int n;
    struct act path[PATH_MAX_ACTS];
};

static bool is_known(const struct state *all, int n, const struct model *m) {
    for (int i = 0; i < n; i++) {
        if (memcmp(&all[i].m, m, sizeof *m) == 0)
            return true;
    }
    return false;
}

static int explore(struct state *all, int n, int at, struct act a) {
    struct world w;
    struct model m = all[at].m;
    if (!possible(&m, a))
        return n;
    bool want = model_act(&m, a);
    bool new = !is_known(all, n, &m);
    if (!new &&want && a.kind != ACT_PASS &&a.kind != ACT_RETURN)
        return n; /* the same step was seen from where it was found first */
    world_begin(&w);
    for (int i = 0; i < all[at].n; i++)
        (void)world_act(&w, all[at].path[i]);
    bool early = binds_early(&w, a), did = world_act(&w, a);
    cr_assert(did == want || (early && !did), "state %d, act %d of %d for %d", at, (int)a.kind, a.process, a.amount);
    if (did != want) {
        new = false;
        m = all[at].m;
    }
    w.m = m;
    compare(&w, &m, at, false);
    finish(&w, at);
    world_end(&w);
    if (!new)
        return n;
    cr_assert(n < STATES_MAX && all[at].n < PATH_MAX_ACTS);
    all[n] = all[at];
    all[n].m = m;
    all[n].path[all[n].n++] = a;
    return n + 1;
}

static int explore_all(int most_acts) {
    struct state *all = calloc(STATES_MAX, sizeof *all);
    all[0].m = (struct model){.hold = {NONE, NONE}};
    int n = 1;
    for (int at = 0; at < n; at++) {
        for (int i = 0; i < ACTS && all[at].n < most_acts; i++)
            n = explore(all, n, at, act_of(i));
    }
    free(all);
    return n;
}

Test(redis_model, every_state_of_a_small_shared_ledger_answers_as_it_must) {
    cr_assert_gt(explore_all(PATH_MAX_ACTS - 1), 60);
}

Test(redis_model, with_slices_it_answers_the_same_or_refuses_for_what_others_have_leased) {
    limit = 160;
    amounts = mixed;
    sliced = true;
    int n = explore_all(ACTS_WITH_SLICES);
    cr_assert(n > 50 && in_slices > n, "%d states, %lld holds from slices", n, (long long)in_slices);
}
