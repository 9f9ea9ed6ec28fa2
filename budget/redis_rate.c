/* Rate limits over all processes. Always true here: what is said of slots is how many of this process's calls run, not that
 * one began or ended, so that it may be said again; slots of a process that is gone, or was started anew, do not count.
 * Without Redis the limits hold for each process by itself. */
#include "budget/redis_ledger.h"
#include "budget/redis_script.h"

#include <assert.h>
#include <stdlib.h>

#define LEVELS 2
#define ENDS_BATCH 64  /* in one script */
#define ENDS_MAX 65536 /* that wait; beyond it what was counted in advance stands for its minute */
#define SLOTS_BATCH 256
#define SLOTS_SWEEP 8 /* looked at in a tick */

static struct redis_script script = {.name = "rate", .text = lua_rate};
static const char *const limit_names[] = {"requests_per_minute", "tokens_per_minute", "in_flight"};

struct payers { /* the key and the team of a call */
    char of[LEVELS][OWNER_NAME_MAX];
};

struct slots { /* calls of this process that one key or team has in flight */
    char owner[OWNER_NAME_MAX];
    int64_t n;
    bool untold;
    struct link in_untold, in_all;
};

struct rate_ended { /* tokens of a call are corrected */
    struct link link;
    struct payers payers;
    int64_t counted, used, at_us;
};

struct rates_shared {
    struct redis_ledger *l; /* not owned */
    struct map slots;       /* struct slots by owner, owned */
    struct list untold, all;
    struct list ends;  /* struct rate_ended, owned */
    struct list asked; /* struct rate_asked, owned */
};

struct rate_asked {
    struct redis_call call; /* first member */
    struct rates_shared *of;
    struct link link;
    struct rate_ask ask;
    struct rate_op *op; /* the caller's */
    int64_t number, began_us;
    int tries;
};

static void payers_of(const struct rate_ask *ask, struct payers *out) {
    ledger_owner_name(LEVEL_KEY, span_of(ask->key_id), out->of[0]);
    ledger_owner_name(LEVEL_TEAM, span_of(ask->team), out->of[1]);
}

/* --- slots --- */

static struct slots *slots_get(struct rates_shared *s, const char *owner) {
    struct slots *one = map_find(&s->slots, span_of(owner));
    if (one)
        return one;
    one = xcalloc(1, sizeof *one);
    memcpy(one->owner, owner, strlen(owner) + 1);
    map_put(&s->slots, span_of(owner), one);
    list_append(&s->all, &one->in_all);
    return one;
}

static void slots_untold(struct rates_shared *s, struct slots *one) {
    if (!one->untold)
        list_append(&s->untold, &one->in_untold);
    one->untold = true;
}

static void slots_add(struct rates_shared *s, const struct payers *payers, int n) {
    for (int i = 0; i < LEVELS; i++) {
        struct slots *one = slots_get(s, payers->of[i]);
        one->n += n;
        assert(one->n >= 0);
        if (n < 0)
            slots_untold(s, one);
    }
}

static void slots_sweep(struct rates_shared *s) {
    for (int i = 0; i < SLOTS_SWEEP && !list_empty(&s->all); i++) {
        struct slots *one = container_of(list_shift(&s->all), struct slots, in_all);
        if (one->n == 0 && !one->untold) {
            map_remove(&s->slots, span_of(one->owner));
            free(one);
        } else {
            list_append(&s->all, &one->in_all);
        }
    }
}

void rates_shared_untold(struct rates_shared *s) {
    for (struct link *k = list_first(&s->all); k; k = list_next(&s->all, k))
        slots_untold(s, container_of(k, struct slots, in_all));
}

/* --- the step --- */

static void put_limit(struct words *w, int64_t limit) {
    if (limit == CONF_UNLIMITED)
        words_puts(w, "");
    else
        words_i64(w, limit);
}

static void put_level(struct rates_shared *s, struct words *w, const char *owner, const struct conf_limits *c) {
    words_puts(w, owner);
    put_limit(w, c->requests_per_minute);
    put_limit(w, c->tokens_per_minute);
    put_limit(w, c->in_flight);
    words_i64(w, slots_get(s, owner)->n);
}

static void begin(struct words *w, struct redis_ledger *l, int64_t now_us, const char *verb) {
    words_begin(w, l, now_us);
    words_puts(w, verb);
    words_i64(w, LEASE_LIVES_US);
}

static bool ask_redis(struct rate_asked *a) {
    struct redis_ledger *l = a->of->l;
    struct payers payers;
    struct words w;
    int64_t left_us = l->timeout_us - a->op->waited_us;
    if (left_us <= 0)
        return false;
    a->call.until_us = a->began_us + left_us;
    payers_of(&a->ask, &payers);
    begin(&w, l, a->ask.now_us, "step");
    a->number = l->op;
    words_i64(&w, a->ask.tokens);
    words_i64(&w, LEVELS);
    put_level(a->of, &w, payers.of[0], &a->ask.of_key);
    put_level(a->of, &w, payers.of[1], &a->ask.of_team);
    return words_run(l, &w, &script, &a->call);
}

/* One limit as the caller is told of it: the tightest of key and team. */
static void view_one(int64_t limit, int64_t used, int64_t empty_us, int64_t *out_limit, int64_t *remaining,
                     int64_t *reset_us) {
    int64_t left = limit > used ? limit - used : 0;
    if (limit == CONF_UNLIMITED || (*remaining >= 0 && *remaining <= left))
        return;
    *out_limit = limit;
    *remaining = left;
    *reset_us = empty_us;
}

/* What the script says was used before this call; what passed has used its own too. */
static void view_tell(const struct rate_asked *a, const struct redis_value *reply, bool passed) {
    struct rate_limit_view *v = &a->op->view;
    const struct conf_limits *of[LEVELS] = {&a->ask.of_key, &a->ask.of_team};
    *v = (struct rate_limit_view){-1, -1, -1, -1, -1, -1};
    for (size_t i = 0; i < LEVELS; i++) {
        int64_t requests = reply_i64(reply, 2 + 4 * i) + passed, empty_us = reply_i64(reply, 3 + 4 * i);
        view_one(of[i]->requests_per_minute, requests, passed ? US_PER_MIN : empty_us, &v->limit_requests,
                 &v->remaining_requests, &v->reset_requests_us);
        int64_t tokens = reply_i64(reply, 4 + 4 * i) + (passed ? a->ask.tokens : 0);
        empty_us = reply_i64(reply, 5 + 4 * i);
        view_one(of[i]->tokens_per_minute, tokens, passed ? US_PER_MIN : empty_us, &v->limit_tokens,
                 &v->remaining_tokens, &v->reset_tokens_us);
    }
}

static void refuse(struct rate_asked *a, const struct redis_value *reply) {
    const struct conf_limits *of[LEVELS] = {&a->ask.of_key, &a->ask.of_team};
    int64_t level = reply_i64(reply, 10) - 1, kind = reply_i64(reply, 11) - 1, wait_us = reply_i64(reply, 12);
    struct rate_op *op = a->op;
    op->err = ERR_RATE;
    if (level < 0 || level >= LEVELS || kind < 0 || kind >= (int64_t)ARRAY_LEN(limit_names))
        return;
    const int64_t limits[] = {of[level]->requests_per_minute, of[level]->tokens_per_minute, of[level]->in_flight};
    op->limit = limit_names[kind];
    op->level = budget_level_names[level == 0 ? LEVEL_KEY : LEVEL_TEAM];
    op->limit_value = limits[kind];
    op->retry_after_us = wait_us < 0 ? INT64_MAX : wait_us;
}

static void pass(struct rate_asked *a, const struct redis_value *reply) {
    struct rate_slip *slip = &a->op->slip;
    *slip = (struct rate_slip){.open = true,
                               .shared = true,
                               .tokens = a->ask.tokens,
                               .at_us = reply_i64(reply, 1),
                               .team = xstrdup(a->ask.team)};
    memcpy(slip->key_id, a->ask.key_id, sizeof slip->key_id);
}

static void asked_free(struct rate_asked *a) {
    list_remove(&a->of->asked, &a->link);
    free(a);
}

/* The call has its slots from the question on; who is refused gives them back. */
static void give_back(struct rate_asked *a) {
    struct payers payers;
    payers_of(&a->ask, &payers);
    slots_add(a->of, &payers, -1);
}

static enum progress count_alone(struct rates_shared *s, const struct rate_ask *ask, struct rate_op *op) {
    return ledger_memory_ops.rate(s->l->memory, ask, op);
}

static void answered(struct rate_asked *a, const struct redis_value *reply) {
    bool passed = reply_is(reply, "OK");
    view_tell(a, reply, passed);
    if (passed) {
        pass(a, reply);
        return;
    }
    refuse(a, reply);
    give_back(a);
}

static void on_asked(struct redis_call *call, const struct redis_value *reply) {
    struct rate_asked *a = (struct rate_asked *)(void *)call;
    struct rate_op *op = a->op;
    int64_t now_us = clock_mono_us();
    op->waited_us += now_us - a->began_us;
    a->began_us = now_us;
    bool done = answer_good(a->of->l, call, a->number, reply);
    if (!done && call->fault == REDIS_OK && reply_is(reply, "STALE") && a->tries++ < STALE_TRIES && ask_redis(a))
        return;
    if (done) {
        answered(a, reply);
    } else {
        give_back(a);
        (void)count_alone(a->of, &a->ask, op);
    }
    asked_free(a);
    op->waiter.wake(&op->waiter);
}

static bool limits_any(const struct conf_limits *c) {
    return c->requests_per_minute != CONF_UNLIMITED || c->tokens_per_minute != CONF_UNLIMITED ||
           c->in_flight != CONF_UNLIMITED;
}

enum progress rates_shared_step(struct rates_shared *s, const struct rate_ask *ask, struct rate_op *op) {
    struct payers payers;
    if (s->l->state != LEDGER_READY || (!limits_any(&ask->of_key) && !limits_any(&ask->of_team)))
        return count_alone(s, ask, op);
    struct rate_asked *a = xcalloc(1, sizeof *a);
    a->call.done = on_asked;
    a->of = s;
    a->ask = *ask;
    a->op = op;
    a->began_us = clock_mono_us();
    list_append(&s->asked, &a->link);
    op->err = ERR_NONE;
    op->limit = op->level = NULL;
    op->limit_value = op->retry_after_us = 0;
    op->slip = (struct rate_slip){0};
    payers_of(ask, &payers);
    slots_add(s, &payers, 1);
    if (ask_redis(a))
        return PROGRESS_WAIT;
    give_back(a);
    asked_free(a);
    return count_alone(s, ask, op);
}

/* --- the end --- */

void rates_shared_end(struct rates_shared *s, struct rate_slip *slip, int64_t tokens_used) {
    struct rate_ended *e = xcalloc(1, sizeof *e);
    *e = (struct rate_ended){.counted = slip->tokens, .used = tokens_used, .at_us = slip->at_us};
    ledger_owner_name(LEVEL_KEY, span_of(slip->key_id), e->payers.of[0]);
    ledger_owner_name(LEVEL_TEAM, span_of(slip->team), e->payers.of[1]);
    slots_add(s, &e->payers, -1);
    free(slip->team);
    *slip = (struct rate_slip){0};
    if (tokens_used < 0 || tokens_used == e->counted || s->ends.n >= ENDS_MAX)
        free(e);
    else
        list_append(&s->ends, &e->link);
    rates_shared_send(s);
}

static void put_ends(struct rates_shared *s, struct words *w) {
    size_t n = s->ends.n < ENDS_BATCH ? s->ends.n : ENDS_BATCH;
    words_i64(w, (int64_t)n * LEVELS);
    for (; n > 0; n--) {
        struct rate_ended *e = container_of(list_shift(&s->ends), struct rate_ended, link);
        for (int i = 0; i < LEVELS; i++) {
            words_puts(w, e->payers.of[i]);
            words_i64(w, e->counted);
            words_i64(w, e->used);
            words_i64(w, e->at_us);
        }
        free(e);
    }
}

static void put_untold(struct rates_shared *s, struct words *w) {
    size_t n = s->untold.n < SLOTS_BATCH ? s->untold.n : SLOTS_BATCH;
    words_i64(w, (int64_t)n);
    for (; n > 0; n--) {
        struct slots *one = container_of(list_shift(&s->untold), struct slots, in_untold);
        one->untold = false;
        words_puts(w, one->owner);
        words_i64(w, one->n);
    }
}

/* What was not answered may be done or not: tokens are not corrected twice, slots are told again. */
static void on_ended(struct redis_call *call, const struct redis_value *reply) {
    struct job *j = (struct job *)(void *)call;
    struct redis_ledger *l = j->l;
    bool good = answer_good(l, call, j->op, reply);
    job_end(j);
    if (good)
        rates_shared_send(l->rates);
    else
        rates_shared_untold(l->rates);
}

void rates_shared_send(struct rates_shared *s) {
    struct redis_ledger *l = s->l;
    struct words w;
    slots_sweep(s);
    if (l->state != LEDGER_READY || l->jobs[JOB_RATE] || (list_empty(&s->ends) && list_empty(&s->untold)))
        return;
    struct job *j = job_new(l, JOB_RATE, 0, on_ended);
    begin(&w, l, l->now_us, "end");
    j->op = l->op;
    put_ends(s, &w);
    put_untold(s, &w);
    job_send(j, &w, &script);
}

/* --- life --- */

struct rates_shared *rates_shared_new(struct redis_ledger *l) {
    struct rates_shared *s = xcalloc(1, sizeof *s);
    s->l = l;
    map_init(&s->slots);
    list_init(&s->untold);
    list_init(&s->all);
    list_init(&s->ends);
    list_init(&s->asked);
    return s;
}

void rates_shared_free(struct rates_shared *s) {
    for (struct link *k; (k = list_first(&s->asked));) {
        struct rate_asked *a = container_of(k, struct rate_asked, link);
        redis_forget(s->l->redis, &a->call);
        asked_free(a);
    }
    for (struct link *k; (k = list_shift(&s->ends));)
        free(container_of(k, struct rate_ended, link));
    for (struct map_entry *e = map_next(&s->slots, NULL); e; e = map_next(&s->slots, e))
        free(e->value);
    map_fini(&s->slots);
    free(s);
}
