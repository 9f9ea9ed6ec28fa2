/* The ledger in memory, as properties: whatever is asked in whatever order, the sum of the leases is what is held, and
 * what is settled and held never passes a limit. */
#include "budget/ledger.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>

#include "gateway/base/clock.h"
#include "tests/support/budget_house.h"

/* --- random walks --- */

#define CALLS 40

struct call {
    struct lease lease;
    int key;
};

struct shadow { /* what one budget should say, per period from_us */
    int64_t held, settled;
    int in_flight;
};

struct walk {
    struct budget_house h;
    struct conf_budget of_keys[3], of_teams[2], of_all[3];
    struct call calls[CALLS];
    struct lease ended[8]; /* copies of leases, told again now and then */
    uint64_t dice;
    int64_t now_us, next_id;
    int64_t settled[6]; /* k1 k2 k3 search ads organization: total, never ends */
};

static uint64_t roll(struct walk *w, uint64_t n) {
    return random_next(&w->dice) % n;
}

static void walk_init(struct walk *w, uint64_t seed) {
    *w = (struct walk){.dice = seed, .now_us = HOUSE_NOW_US};
    house_init(&w->h);
    for (int i = 0; i < 3; i++) {
        w->of_keys[i] =
            (struct conf_budget){.limit_nanousd = 50 + 20 * i, .period = PERIOD_TOTAL, .zone = zone_get("UTC")};
        w->h.keys[i].budgets = &w->of_keys[i];
        w->h.keys[i].n_budgets = 1;
    }
    for (int i = 0; i < 2; i++) {
        w->of_teams[i] =
            (struct conf_budget){.limit_nanousd = 100 - 10 * i, .period = PERIOD_TOTAL, .zone = zone_get("UTC")};
        w->h.teams[i].budgets = &w->of_teams[i];
        w->h.teams[i].n_budgets = 1;
    }
    w->of_all[0] = (struct conf_budget){.limit_nanousd = 150, .period = PERIOD_TOTAL, .zone = zone_get("UTC")};
    w->of_all[1] = (struct conf_budget){.limit_nanousd = 60, .period = PERIOD_HOUR, .zone = zone_get("Asia/Kathmandu")};
    w->of_all[2] = (struct conf_budget){.limit_nanousd = 90, .period = PERIOD_DAY, .zone = zone_get("Europe/Berlin")};
    w->h.conf.organization_budgets = w->of_all;
    w->h.conf.n_organization_budgets = 3;
}

static int owner_index(const struct budget_view *v) {
    static const char *const names[] = {"key00001", "key00002", "key00003", "search", "ads", "organization"};
    for (int i = 0; i < 6; i++) {
        if (strcmp(v->scope, names[i]) == 0)
            return i;
    }
    cr_assert_fail("unknown scope %s", v->scope);
    return -1;
}

static bool belongs(const struct call *c, int owner) {
    return owner == 5 || owner == c->key || owner == (c->key < 2 ? 3 : 4);
}

/* The leases that stand in a view's budget and period, summed. */
static struct shadow expect(const struct walk *w, const struct budget_view *v) {
    struct shadow s = {0};
    int owner = owner_index(v);
    for (int i = 0; i < CALLS; i++) {
        const struct lease *l = &w->calls[i].lease;
        for (int j = 0; l->open && belongs(&w->calls[i], owner) && j < l->n; j++) {
            bool here = l->scopes[j].level == v->level && l->scopes[j].period_from_us == v->period_from_us &&
                        l->scopes[j].period_to_us == v->period_to_us;
            s.held += here ? l->nanousd : 0;
            s.in_flight += here;
        }
    }
    s.settled = w->settled[owner];
    return s;
}

static void check(const struct budget_view *v, void *user) {
    const struct walk *w = user;
    struct shadow s = expect(w, v);
    cr_assert_eq(v->held_nanousd, s.held, "%s %s", v->scope, period_names[v->period]);
    cr_assert_eq(v->in_flight, s.in_flight, "%s %s", v->scope, period_names[v->period]);
    cr_assert_leq(v->settled_nanousd + v->held_nanousd, v->limit_nanousd, "%s %s", v->scope, period_names[v->period]);
    if (v->period == PERIOD_TOTAL)
        cr_assert_eq(v->settled_nanousd, s.settled, "%s", v->scope);
}

static void do_hold(struct walk *w, struct call *c) {
    struct hold_op op = {0};
    char id[40];
    snprintf(id, sizeof id, "req-%lld", (long long)w->next_id++);
    c->key = (int)roll(w, 3);
    (void)budget_hold(w->h.b, &w->h.conf, &w->h.keys[c->key], id, &w->h.price, (int64_t)roll(w, 12), w->now_us, &op);
    cr_assert(op.err == ERR_NONE || op.err == ERR_BUDGET);
    cr_assert_eq(op.lease.open, op.err == ERR_NONE);
    c->lease = op.lease;
}

static void do_raise(struct walk *w, struct call *c) {
    struct hold_op op = {0};
    struct lease before = c->lease;
    int64_t want = (int64_t)roll(w, 30);
    (void)budget_raise(w->h.b, &w->h.conf, &w->h.keys[c->key], &c->lease, want, w->now_us, &op);
    cr_assert(op.err == ERR_NONE || (op.err == ERR_BUDGET && want > before.nanousd));
    cr_assert_eq(c->lease.nanousd, op.err == ERR_NONE ? want : before.nanousd);
    cr_assert_eq(c->lease.scopes[0].period_from_us, before.scopes[0].period_from_us);
}

static void do_settle(struct walk *w, struct call *c) {
    int64_t cost = c->lease.nanousd ? (int64_t)roll(w, (uint64_t)c->lease.nanousd + 1) / 2 : 0;
    w->ended[roll(w, ARRAY_LEN(w->ended))] = c->lease;
    cr_assert_eq(budget_settle(w->h.b, &c->lease, cost), 0);
    cr_assert_not(c->lease.open);
    w->settled[c->key] += cost;
    w->settled[c->key < 2 ? 3 : 4] += cost;
    w->settled[5] += cost;
    struct lease again = w->ended[roll(w, ARRAY_LEN(w->ended))];
    if (again.open) /* it has ended: told a second time, nothing may move */
        cr_assert_eq(budget_settle(w->h.b, &again, 1000), 0);
}

static void walk_step(struct walk *w) {
    struct call *c = &w->calls[roll(w, CALLS)];
    w->now_us += roll(w, 40) == 0 ? (int64_t)roll(w, 3 * US_PER_HOUR) : 1;
    if (!c->lease.open)
        do_hold(w, c);
    else if (roll(w, 3) == 0)
        do_raise(w, c);
    else
        do_settle(w, c);
}

Test(ledger, leases_sum_to_what_is_held_and_no_limit_is_passed) {
    for (uint64_t seed = 1; seed <= 8; seed++) {
        struct walk w;
        walk_init(&w, seed * UINT64_C(0x9e3779b97f4a7c15));
        for (int i = 0; i < 400; i++) {
            walk_step(&w);
            budget_each(w.h.b, &w.h.conf, w.now_us, check, &w);
        }
        for (int i = 0; i < CALLS; i++) {
            if (w.calls[i].lease.open)
                do_settle(&w, &w.calls[i]);
        }
        cr_assert_gt(w.settled[5], 60, "the walk spent more than one hour's budget");
        budget_each(w.h.b, &w.h.conf, w.now_us, check, &w);
        house_fini(&w.h);
    }
}

/* --- every state of a small ledger --- */

#define KEY_LIMIT 2
#define TEAM_LIMIT 3
#define SETTLED_SEEN 6 /* states with more settled are not followed further */
#define CLOSED (-1)

struct model { /* k1 is limited to 2, its team to 3; call 0 is k1's, call 1 is k2's */
    int of_key, of_team, hold[2];
};

struct action {
    enum { ACT_HOLD, ACT_RAISE, ACT_SETTLE, ACT_KINDS } kind;
    int call, amount;
};

#define AMOUNTS 5
#define ACTIONS (ACT_KINDS * 2 * AMOUNTS)

static struct action action_of(int i) {
    return (struct action){(unsigned)(i / (2 * AMOUNTS)), i / AMOUNTS % 2, i % AMOUNTS};
}

static bool model_fits(const struct model *m, int call, int more) {
    int held_key = m->hold[0] > 0 ? m->hold[0] : 0, held_team = held_key + (m->hold[1] > 0 ? m->hold[1] : 0);
    return m->of_team + held_team + more <= TEAM_LIMIT && (call == 1 || m->of_key + held_key + more <= KEY_LIMIT);
}

/* Makes the move in the model; tells whether the ledger has to allow it. */
static bool model_act(struct model *m, struct action a) {
    int *hold = &m->hold[a.call];
    if (a.kind == ACT_SETTLE) {
        m->of_team += a.amount;
        m->of_key += a.call == 0 ? a.amount : 0;
        *hold = CLOSED;
        return true;
    }
    int more = a.kind == ACT_HOLD ? a.amount : a.amount - *hold;
    if ((a.kind == ACT_HOLD || more > 0) && !model_fits(m, a.call, more))
        return false;
    *hold = a.amount;
    return true;
}

struct small {
    struct budget_house h;
    struct lease leases[2];
};

static bool small_act(struct small *s, struct action a) {
    static const char *const ids[] = {"call-0", "call-1"};
    struct hold_op op = {0};
    struct lease *l = &s->leases[a.call];
    if (a.kind == ACT_SETTLE) {
        int64_t over = a.amount > l->nanousd ? a.amount - l->nanousd : 0;
        cr_assert_eq(budget_settle(s->h.b, l, a.amount), over);
        return true;
    }
    if (a.kind == ACT_RAISE) {
        (void)budget_raise(s->h.b, &s->h.conf, &s->h.keys[a.call], l, a.amount, HOUSE_NOW_US, &op);
        return op.err == ERR_NONE;
    }
    bool allowed = house_hold(&s->h, a.call, ids[a.call], a.amount, &op) == ERR_NONE;
    *l = op.lease;
    return allowed;
}

static void small_init(struct small *s) {
    *s = (struct small){0};
    house_init(&s->h);
    house_limit(&s->h, LEVEL_KEY, KEY_LIMIT);
    house_limit(&s->h, LEVEL_TEAM, TEAM_LIMIT);
}

static void small_check(struct small *s, const struct model *m) {
    struct house_view key = house_look(&s->h, LEVEL_KEY, HOUSE_NOW_US);
    struct house_view team = house_look(&s->h, LEVEL_TEAM, HOUSE_NOW_US);
    int held = m->hold[0] > 0 ? m->hold[0] : 0, other = m->hold[1] > 0 ? m->hold[1] : 0;
    cr_assert(key.v.settled_nanousd == m->of_key && key.v.held_nanousd == held);
    cr_assert(team.v.settled_nanousd == m->of_team && team.v.held_nanousd == held + other);
    cr_assert(key.v.in_flight == (m->hold[0] != CLOSED));
    cr_assert(team.v.in_flight == (m->hold[0] != CLOSED) + (m->hold[1] != CLOSED));
}

#define STATES_MAX 2000
#define PATH_MAX_ACTIONS 24

struct state {
    struct model m;
    int n;
    struct action path[PATH_MAX_ACTIONS]; /* how to get there */
};

static int state_find(const struct state *all, int n, const struct model *m) {
    for (int i = 0; i < n; i++) {
        if (memcmp(&all[i].m, m, sizeof *m) == 0)
            return i;
    }
    return -1;
}

static bool possible(const struct model *m, struct action a) {
    return (a.kind == ACT_HOLD) == (m->hold[a.call] == CLOSED);
}

/* Goes to a state, makes one more move there, and compares; a state not yet seen is kept. */
static int explore(struct state *all, int n, int at, struct action a) {
    struct small s;
    struct model m = all[at].m;
    if (!possible(&m, a))
        return n;
    small_init(&s);
    for (int i = 0; i < all[at].n; i++)
        (void)small_act(&s, all[at].path[i]);
    bool want = model_act(&m, a);
    cr_assert_eq(small_act(&s, a), want, "state %d, kind %d call %d amount %d", at, a.kind, a.call, a.amount);
    small_check(&s, &m);
    house_fini(&s.h);
    if (m.of_team > SETTLED_SEEN || state_find(all, n, &m) >= 0)
        return n;
    cr_assert(n < STATES_MAX && all[at].n < PATH_MAX_ACTIONS);
    all[n] = all[at];
    all[n].m = m;
    all[n].path[all[n].n++] = a;
    return n + 1;
}

Test(ledger, every_state_of_a_small_ledger_answers_as_it_must) {
    struct state *all = calloc(STATES_MAX, sizeof *all);
    all[0].m = (struct model){0, 0, {CLOSED, CLOSED}};
    int n = 1;
    for (int at = 0; at < n; at++) {
        for (int i = 0; i < ACTIONS; i++)
            n = explore(all, n, at, action_of(i));
    }
    cr_assert_gt(n, 100, "%d states", n);
    free(all);
}
