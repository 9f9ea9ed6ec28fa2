/* Requests and tokens leased in advance. Always true here: what the calls of a lot take is at most what Redis counted for
 * it, and they take it while Redis counts it as used later than that; what is unused is told once, under the instant at
 * which it was counted, and is not taken from then on. */
#include "budget/redis_rates.h"

#include <stdio.h>
#include <stdlib.h>

__extension__ typedef __int128 wide;

enum kind { REQUESTS, TOKENS, KINDS };

static int64_t least(int64_t a, int64_t b) {
    return a < b ? a : b;
}

bool limits_any(const struct conf_limits *c) {
    return c->requests_per_minute != CONF_UNLIMITED || c->tokens_per_minute != CONF_UNLIMITED ||
           c->in_flight != CONF_UNLIMITED;
}

void payers_of(const struct rate_ask *ask, struct payers *out) {
    ledger_owner_name(LEVEL_KEY, span_of(ask->key_id), out->of[0]);
    ledger_owner_name(LEVEL_TEAM, span_of(ask->team), out->of[1]);
}

static int64_t limit_of(const struct conf_limits *c, int kind) {
    return kind == REQUESTS ? c->requests_per_minute : c->tokens_per_minute;
}

/* Whether a call of this key needs a lot for that. */
static bool is_limited(const struct rate_slice *one, int kind) {
    return limit_of(&one->limits[0], kind) != CONF_UNLIMITED || limit_of(&one->limits[1], kind) != CONF_UNLIMITED;
}

static struct rate_slice *slice_at(struct link *k) {
    return container_of(k, struct rate_slice, in_all);
}

static bool same_limits(const struct rate_slice *one, const struct rate_ask *ask) {
    return memcmp(&one->limits[0], &ask->of_key, sizeof ask->of_key) == 0 &&
           memcmp(&one->limits[1], &ask->of_team, sizeof ask->of_team) == 0;
}

/* --- lots --- */

static bool lot_lives(const struct rate_lot *lot, int64_t now_us) {
    return lot->at_us != 0 && instant_lives(&lot->sent, now_us);
}

static void lot_give_back(struct rates_shared *s, const struct rate_slice *one, struct rate_lot *lot) {
    if (lot->at_us && (lot->requests > 0 || lot->tokens > 0))
        rate_ended(s, &one->payers,
                   &(struct rate_ended){.requests = lot->requests, .tokens = lot->tokens, .at_us = lot->at_us});
    *lot = (struct rate_lot){0};
}

static bool lots_give_back(struct rates_shared *s, struct rate_slice *one) {
    bool any = false;
    for (int i = 0; i < RATE_LOTS; i++) {
        any = any || one->lots[i].requests > 0 || one->lots[i].tokens > 0;
        lot_give_back(s, one, &one->lots[i]);
    }
    return any;
}

static bool is_spent(const struct rate_slice *one, const struct rate_lot *lot) {
    return lot->at_us == 0 || (is_limited(one, REQUESTS) && lot->requests == 0) ||
           (is_limited(one, TOKENS) && lot->tokens == 0);
}

static struct rate_lot *lot_spent(struct rate_slice *one) {
    for (int i = 0; i < RATE_LOTS; i++) {
        if (is_spent(one, &one->lots[i]))
            return &one->lots[i];
    }
    return NULL;
}

static int64_t unused(const struct rate_slice *one, int kind) {
    int64_t sum = 0;
    for (int i = 0; i < RATE_LOTS; i++)
        sum += kind == REQUESTS ? one->lots[i].requests : one->lots[i].tokens;
    return sum;
}

static struct rate_lot *lot_for(struct rate_slice *one, const struct rate_ask *ask) {
    for (int i = 0; i < RATE_LOTS; i++) {
        struct rate_lot *lot = &one->lots[i];
        if (lot_lives(lot, ask->now_us) && (!is_limited(one, REQUESTS) || lot->requests > 0) &&
            (!is_limited(one, TOKENS) || lot->tokens >= ask->tokens))
            return lot;
    }
    return NULL;
}

static struct rate_slice *of_key(const struct rates_shared *s, const char *key_id) {
    char key[OWNER_NAME_MAX];
    ledger_owner_name(LEVEL_KEY, span_of(key_id), key);
    return map_find(&s->slice_of, span_of(key));
}

/* --- passing --- */

static bool slots_suffice(struct rates_shared *s, const struct rate_slice *one, int64_t now_us) {
    for (int i = 0; i < RATE_LEVELS; i++) {
        bool limited = one->limits[i].in_flight != CONF_UNLIMITED;
        if (limited && !slots_are_free(s, slots_get(s, one->payers.of[i]), now_us))
            return false;
    }
    return true;
}

static void view_take(struct rate_limit_view *v, int64_t tokens) {
    v->remaining_requests -= v->remaining_requests > 0 ? 1 : 0;
    v->remaining_tokens -= v->remaining_tokens > 0 ? least(v->remaining_tokens, tokens) : 0;
}

static void pass(struct rate_slice *one, struct rate_lot *lot, const struct rate_ask *ask, struct rate_op *op) {
    op->slip = (struct rate_slip){.open = true, .shared = true, .tokens = ask->tokens, .team = xstrdup(ask->team)};
    memcpy(op->slip.key_id, ask->key_id, sizeof op->slip.key_id);
    if (lot) {
        op->slip.at_us = lot->at_us;
        lot->requests -= is_limited(one, REQUESTS);
        lot->tokens -= is_limited(one, TOKENS) ? ask->tokens : 0;
    }
    view_take(&one->view, ask->tokens);
    op->view = one->view;
    one->used_us = ask->now_us;
    one->tokens = ask->tokens;
}

bool rate_slice_pass(struct rates_shared *s, const struct rate_ask *ask, struct rate_op *op) {
    struct payers payers;
    payers_of(ask, &payers);
    struct rate_slice *one = ask->slice > 0 ? of_key(s, ask->key_id) : NULL;
    if (!one || !same_limits(one, ask) || strcmp(one->payers.of[1], payers.of[1]) != 0)
        return false;
    bool needs_lot = is_limited(one, REQUESTS) || is_limited(one, TOKENS);
    struct rate_lot *lot = needs_lot ? lot_for(one, ask) : NULL;
    if ((needs_lot && !lot) || !slots_suffice(s, one, ask->now_us))
        return false;
    slots_add(s, &payers, 1);
    pass(one, lot, ask, op);
    for (int kind = 0; kind < KINDS; kind++)
        one->wanted = one->wanted || unused(one, kind) < one->goal[kind] / 2;
    return true;
}

bool rate_slice_end(struct rates_shared *s, const struct rate_slip *slip, int64_t tokens_used) {
    struct rate_slice *one = of_key(s, slip->key_id);
    if (!one || !is_limited(one, TOKENS))
        return one != NULL;
    for (int i = 0; i < RATE_LOTS; i++) {
        struct rate_lot *lot = &one->lots[i];
        int64_t left = slip->tokens - tokens_used;
        if (lot->at_us != slip->at_us || !lot_lives(lot, s->l->now_us) || lot->tokens + left < 0)
            continue;
        lot->tokens += left;
        return true;
    }
    return false;
}

/* --- leasing --- */

struct rate_slice *rate_slice_of(struct rates_shared *s, const struct rate_ask *ask) {
    struct payers payers;
    payers_of(ask, &payers);
    struct rate_slice *one = of_key(s, ask->key_id);
    if (ask->slice == 0 || s->l->resting || (!one && s->slices.n >= SLICES_MAX))
        return NULL;
    if (!one) {
        one = xcalloc(1, sizeof *one);
        map_put(&s->slice_of, span_of(payers.of[0]), one);
        list_append(&s->slices, &one->in_all);
    }
    if (!same_limits(one, ask) || strcmp(one->payers.of[1], payers.of[1]) != 0)
        (void)lots_give_back(s, one);
    one->payers = payers;
    one->limits[0] = ask->of_key;
    one->limits[1] = ask->of_team;
    one->share = ask->slice;
    one->tokens = ask->tokens;
    one->used_us = ask->now_us;
    return one;
}

/* What lies unused of a kind in all slices of the key, or of the team. */
static int64_t idle_in(const struct rates_shared *s, const struct rate_slice *of, int level, int kind) {
    int64_t sum = 0;
    for (struct link *k = list_first(&s->slices); k; k = list_next(&s->slices, k)) {
        if (strcmp(slice_at(k)->payers.of[level], of->payers.of[level]) == 0)
            sum += unused(slice_at(k), kind);
    }
    return sum;
}

/* All slices of a process together are within conf's share of a limit. */
static int64_t room_of(const struct rates_shared *s, const struct rate_slice *one, int kind) {
    int64_t room = INT64_MAX;
    for (int level = 0; level < RATE_LEVELS; level++) {
        int64_t limit = limit_of(&one->limits[level], kind);
        if (limit != CONF_UNLIMITED)
            room = least(room, (int64_t)((wide)limit * one->share / FACTOR_ONE) - idle_in(s, one, level, kind));
    }
    return room;
}

bool rate_slice_wish(struct rates_shared *s, struct rate_slice *one, int64_t wish[KINDS]) {
    bool low = false;
    if (one->leasing || !lot_spent(one) || s->l->now_us < one->retry_us)
        return false;
    for (int kind = 0; kind < KINDS; kind++) {
        int64_t need = kind == REQUESTS ? 1 : one->tokens;
        wish[kind] = one->goal[kind] = 0;
        if (!is_limited(one, kind))
            continue;
        wish[kind] = room_of(s, one, kind);
        if (wish[kind] <= 0 || wish[kind] / SLICE_CALLS < need)
            return false;
        one->goal[kind] = wish[kind] + unused(one, kind);
        low = low || unused(one, kind) < wish[kind];
    }
    return low;
}

void rate_slice_leased(struct rates_shared *s, struct rate_slice *one, int64_t requests, int64_t tokens, int64_t at_us,
                       const struct instant *sent) {
    bool granted = requests > 0 || tokens > 0;
    one->leasing = one->wanted = false;
    if (!granted) {
        one->retry_us = s->l->now_us + SLICE_RETRY_US;
        return;
    }
    struct rate_lot *lot = lot_spent(one);
    if (!lot) { /* tokens came back meanwhile */
        rate_ended(s, &one->payers,
                   &(struct rate_ended){
                       .requests = requests > 0 ? requests : 0, .tokens = tokens > 0 ? tokens : 0, .at_us = at_us});
        return;
    }
    lot_give_back(s, one, lot);
    *lot = (struct rate_lot){requests > 0 ? requests : 0, tokens > 0 ? tokens : 0, at_us, *sent};
}

void rate_slice_saw(struct rates_shared *s, const struct rate_ask *ask, const struct rate_limit_view *v) {
    struct rate_slice *one = of_key(s, ask->key_id);
    if (one)
        one->view = *v;
}

bool rate_slice_wanted(struct rates_shared *s, struct rate_slice *one, struct rate_ask *ask) {
    int64_t wish[KINDS];
    if (!one->wanted || !rate_slice_wish(s, one, wish))
        return false;
    *ask = (struct rate_ask){.team = strchr(one->payers.of[1], '/') + 1,
                             .of_key = one->limits[0],
                             .of_team = one->limits[1],
                             .tokens = one->tokens,
                             .now_us = s->l->now_us,
                             .slice = one->share};
    snprintf(ask->key_id, sizeof ask->key_id, "%s", strchr(one->payers.of[0], '/') + 1);
    return true;
}

/* --- time --- */

static void tend(struct rates_shared *s, struct rate_slice *one) {
    bool idle = s->l->now_us - one->used_us >= SLICE_IDLE_US, holds = false;
    for (int i = 0; i < RATE_LOTS; i++) {
        if (!lot_lives(&one->lots[i], s->l->now_us) || s->l->resting)
            lot_give_back(s, one, &one->lots[i]);
        holds = holds || one->lots[i].at_us;
    }
    if (!idle || holds || one->leasing)
        return;
    map_remove(&s->slice_of, span_of(one->payers.of[0]));
    list_remove(&s->slices, &one->in_all);
    free(one);
}

void rate_slices_tick(struct rates_shared *s) {
    for (struct link *k = list_first(&s->slices), *next; k; k = next) {
        next = list_next(&s->slices, k);
        tend(s, slice_at(k));
    }
}

void rate_slices_free(struct rates_shared *s) {
    for (struct link *k; (k = list_shift(&s->slices));)
        free(slice_at(k));
    map_fini(&s->slice_of);
}

/* Redis knows nothing of them. */
void rate_slices_lost(struct rates_shared *s) {
    for (struct link *k = list_first(&s->slices); k; k = list_next(&s->slices, k))
        memset(slice_at(k)->lots, 0, sizeof slice_at(k)->lots);
}

bool rates_give_back(struct rates_shared *s, const struct rate_ask *ask) {
    struct payers payers;
    bool any = false;
    payers_of(ask, &payers);
    for (struct link *k = list_first(&s->slices); k; k = list_next(&s->slices, k)) {
        struct rate_slice *one = slice_at(k);
        if (strcmp(one->payers.of[1], payers.of[1]) == 0)
            any = lots_give_back(s, one) || any;
    }
    for (int i = 0; i < RATE_LEVELS; i++)
        any = slots_keep(s, slots_get(s, payers.of[i]), 0) || any;
    return any;
}
