/* Requests, tokens and calls in flight of a key and its team, as one step. Always true here: a call that is refused by
 * any limit uses up nothing of the others; no sixty seconds hold more than a limit says, save what calls used beyond
 * what was counted for them; a slot is given back by the slip that took it, once. */
#include "budget/rate.h"

#include <assert.h>
#include <stdlib.h>

#include "budget/window.h"
#include "gateway/base/list.h"

#define SLOT_RETRY_US US_PER_S /* when a slot gets free cannot be known */
#define SWEEP 2                /* limiters looked at in each step, so that keys of old confs do not pile up */
#define GATES 6                /* three limits at two levels */

struct limiter { /* one key or team; windows are made when conf first sets that limit */
    struct link link;
    char name[OWNER_NAME_MAX];
    int64_t in_flight;
    struct window *requests, *tokens; /* owned; may be NULL */
};

struct rates {
    struct map by_name;  /* struct limiter, owned */
    struct list to_look; /* all of them; the next to be looked at by the sweep comes first */
};

struct rates *rates_new(void) {
    struct rates *r = xcalloc(1, sizeof *r);
    map_init(&r->by_name);
    list_init(&r->to_look);
    return r;
}

static void limiter_free(struct limiter *l) {
    free(l->requests);
    free(l->tokens);
    free(l);
}

void rates_free(struct rates *r) {
    for (struct map_entry *e = map_next(&r->by_name, NULL); e; e = map_next(&r->by_name, e))
        limiter_free(e->value);
    map_fini(&r->by_name);
    free(r);
}

size_t rates_kept(const struct rates *r) {
    return r->to_look.n;
}

/* --- limiters --- */

static bool is_idle(struct limiter *l, int64_t now_us) {
    struct window *of[] = {l->requests, l->tokens};
    for (size_t i = 0; i < ARRAY_LEN(of); i++) {
        if (!of[i])
            continue;
        window_forget(of[i], now_us);
        if (of[i]->n > 0)
            return false;
    }
    return l->in_flight == 0;
}

static void sweep(struct rates *r, int64_t now_us) {
    for (int i = 0; i < SWEEP && !list_empty(&r->to_look); i++) {
        struct limiter *l = container_of(list_shift(&r->to_look), struct limiter, link);
        if (is_idle(l, now_us)) {
            map_remove(&r->by_name, span_of(l->name));
            limiter_free(l);
        } else {
            list_append(&r->to_look, &l->link);
        }
    }
}

static struct limiter *limiter_find(const struct rates *r, enum budget_level level, struct span name) {
    char full[OWNER_NAME_MAX];
    ledger_owner_name(level, name, full);
    return map_find(&r->by_name, span_of(full));
}

static struct limiter *limiter_get(struct rates *r, enum budget_level level, struct span name) {
    struct limiter *l = limiter_find(r, level, name);
    if (l)
        return l;
    l = xcalloc(1, sizeof *l);
    ledger_owner_name(level, name, l->name);
    map_put(&r->by_name, span_of(l->name), l);
    list_append(&r->to_look, &l->link);
    return l;
}

static void window_want(struct window **w, int64_t limit) {
    if (!*w && limit != CONF_UNLIMITED)
        *w = xcalloc(1, sizeof **w);
}

/* --- the step --- */

enum gate_kind { GATE_REQUESTS, GATE_TOKENS, GATE_IN_FLIGHT };
static const char *const gate_names[] = {"requests_per_minute", "tokens_per_minute", "in_flight"};

struct gate { /* one limit that is set */
    enum gate_kind kind;
    enum budget_level level;
    int64_t limit, need;
    struct limiter *of;
    struct window *window; /* NULL for slots */
};

struct gates {
    int n;
    struct gate at[GATES];
};

static void gate_add(struct gates *g, struct gate gate, int64_t now_us) {
    if (gate.limit == CONF_UNLIMITED)
        return;
    if (gate.window)
        window_forget(gate.window, now_us);
    g->at[g->n++] = gate;
}

static void gates_of(struct gates *g, struct limiter *l, enum budget_level level, const struct conf_limits *c,
                     const struct rate_ask *ask) {
    window_want(&l->requests, c->requests_per_minute);
    window_want(&l->tokens, c->tokens_per_minute);
    gate_add(g, (struct gate){GATE_REQUESTS, level, c->requests_per_minute, 1, l, l->requests}, ask->now_us);
    gate_add(g, (struct gate){GATE_TOKENS, level, c->tokens_per_minute, ask->tokens, l, l->tokens}, ask->now_us);
    gate_add(g, (struct gate){GATE_IN_FLIGHT, level, c->in_flight, 1, l, NULL}, ask->now_us);
}

static int64_t gate_wait_us(const struct gate *g, int64_t now_us) {
    if (g->kind != GATE_IN_FLIGHT)
        return window_wait_us(g->window, g->limit, g->need, now_us);
    if (g->of->in_flight < g->limit)
        return 0;
    return g->limit > 0 ? SLOT_RETRY_US : INT64_MAX;
}

/* The limit that takes longest is the one to name: after any shorter wait the call would be refused again. */
static void refuse_longest(const struct gates *g, int64_t now_us, struct rate_op *op) {
    for (int i = 0; i < g->n; i++) {
        int64_t wait = gate_wait_us(&g->at[i], now_us);
        if (wait <= op->retry_after_us)
            continue;
        op->err = ERR_RATE;
        op->retry_after_us = wait;
        op->limit = gate_names[g->at[i].kind];
        op->level = budget_level_names[g->at[i].level];
        op->limit_value = g->at[i].limit;
    }
}

static void pass(struct limiter *const of[], int n, const struct rate_ask *ask) {
    for (int i = 0; i < n; i++) {
        of[i]->in_flight++;
        if (of[i]->requests)
            window_add(of[i]->requests, 1, ask->now_us);
        if (of[i]->tokens)
            window_add(of[i]->tokens, ask->tokens, ask->now_us);
    }
}

static void view_tell(const struct gates *g, int64_t now_us, struct rate_limit_view *v) {
    *v = (struct rate_limit_view){-1, -1, -1, -1, -1, -1};
    for (int i = 0; i < g->n; i++) {
        const struct gate *gate = &g->at[i];
        if (gate->kind == GATE_IN_FLIGHT)
            continue;
        bool requests = gate->kind == GATE_REQUESTS;
        int64_t left = gate->limit > gate->window->sum ? gate->limit - gate->window->sum : 0;
        int64_t *remaining = requests ? &v->remaining_requests : &v->remaining_tokens;
        if (*remaining >= 0 && *remaining <= left)
            continue;
        *remaining = left;
        *(requests ? &v->limit_requests : &v->limit_tokens) = gate->limit;
        *(requests ? &v->reset_requests_us : &v->reset_tokens_us) = window_empty_us(gate->window, now_us);
    }
}

static void slip_write(const struct rate_ask *ask, struct rate_slip *slip) {
    *slip = (struct rate_slip){.open = true, .tokens = ask->tokens, .at_us = ask->now_us};
    memcpy(slip->key_id, ask->key_id, sizeof slip->key_id);
    slip->team = xstrdup(ask->team);
}

void rates_step(struct rates *r, const struct rate_ask *ask, struct rate_op *op) {
    sweep(r, ask->now_us);
    struct limiter *of[] = {limiter_get(r, LEVEL_KEY, span_of(ask->key_id)),
                            limiter_get(r, LEVEL_TEAM, span_of(ask->team))};
    struct gates g = {0};
    gates_of(&g, of[0], LEVEL_KEY, &ask->of_key, ask);
    gates_of(&g, of[1], LEVEL_TEAM, &ask->of_team, ask);
    op->err = ERR_NONE;
    op->limit = op->level = NULL;
    op->limit_value = op->retry_after_us = 0;
    op->slip = (struct rate_slip){0};
    refuse_longest(&g, ask->now_us, op);
    if (op->err == ERR_NONE) {
        pass(of, 2, ask);
        slip_write(ask, &op->slip);
    }
    view_tell(&g, ask->now_us, &op->view);
}

/* --- the end --- */

/* What was counted too much goes back where it was counted; what was used beyond it was used by now. */
static void correct(struct window *w, const struct rate_slip *slip, int64_t used, int64_t now_us) {
    window_forget(w, now_us);
    if (used < slip->tokens)
        window_take_back(w, slip->tokens - used, slip->at_us);
    else
        window_add(w, used - slip->tokens, now_us);
}

void rates_end(struct rates *r, struct rate_slip *slip, int64_t tokens_used, int64_t now_us) {
    if (!slip->open)
        return;
    struct limiter *of[] = {limiter_find(r, LEVEL_KEY, span_of(slip->key_id)),
                            limiter_find(r, LEVEL_TEAM, span_of(slip->team))};
    for (size_t i = 0; i < ARRAY_LEN(of); i++) {
        assert(of[i] && of[i]->in_flight > 0);
        of[i]->in_flight--;
        if (of[i]->tokens && tokens_used >= 0)
            correct(of[i]->tokens, slip, tokens_used, now_us);
    }
    free(slip->team);
    *slip = (struct rate_slip){0};
}
