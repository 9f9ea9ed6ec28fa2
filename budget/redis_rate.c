/* Rate limits over all processes. Always true here: what is said of slots is how many of this process's calls run, not that
 * one began or ended, so that it may be said again; slots of a process that is gone, or was started anew, do not count.
 * Without Redis the limits hold for each process by itself. */
#include "budget/redis_rates.h"
#include "budget/redis_script.h"

#include <stdlib.h>

#define ENDS_BATCH 64  /* in one script */
#define ENDS_MAX 65536 /* that wait; beyond it what was counted in advance stands for its minute */
#define SLOTS_BATCH 256
#define SEND_NOW_MAX 16 /* scripts */

static struct redis_script script = {.name = "rate", .text = lua_rate};

struct rate_asked {
    struct redis_call call; /* first member */
    struct rate_question question;
    struct link link;
    int64_t number, began_us;
    int tries;
};

/* --- the step --- */

static void begin(struct words *w, struct redis_ledger *l, int64_t now_us, const char *verb) {
    words_begin(w, l, now_us);
    words_puts(w, verb);
}

static bool ask_redis(struct rate_asked *a) {
    struct redis_ledger *l = a->question.of->l;
    struct words w;
    int64_t left_us = l->timeout_us - a->question.op->waited_us;
    if (left_us <= 0)
        return false;
    a->call.until_us = a->began_us + left_us;
    begin(&w, l, a->question.ask.now_us, "step");
    a->number = l->op;
    rate_question_put(&a->question, &w);
    return words_run(l, &w, &script, &a->call);
}

static void asked_free(struct rate_asked *a) {
    list_remove(&a->question.of->asked, &a->link);
    free(a);
}

static void on_asked(struct redis_call *call, const struct redis_value *reply) {
    struct rate_asked *a = (struct rate_asked *)(void *)call;
    struct rate_op *op = a->question.op;
    struct redis_ledger *l = a->question.of->l;
    int64_t now_us = clock_mono_us();
    op->waited_us += now_us - a->began_us;
    a->began_us = now_us;
    bool done = answer_good(l, call, a->number, reply);
    bool stale = !done && call->fault == REDIS_OK && reply_is(reply, "STALE") && a->tries++ < STALE_TRIES;
    if ((stale || (done && rate_question_again(&a->question, reply))) && ask_redis(a))
        return;
    rate_question_answered(&a->question, done ? reply : NULL);
    asked_free(a);
    op->waiter.wake(&op->waiter);
}

static void op_begin(struct rate_op *op) {
    op->err = ERR_NONE;
    op->limit = op->level = NULL;
    op->limit_value = op->retry_after_us = 0;
    op->slip = (struct rate_slip){0};
}

enum progress rates_shared_ask(struct rates_shared *s, const struct rate_ask *ask, struct rate_op *op) {
    if (s->l->state != LEDGER_READY)
        return ledger_memory_ops.rate(s->l->memory, ask, op);
    struct rate_asked *a = xcalloc(1, sizeof *a);
    op_begin(op);
    a->call.done = on_asked;
    a->began_us = clock_mono_us();
    rate_question_begin(&a->question, s, ask, op);
    list_append(&s->asked, &a->link);
    s->l->counts.rates_asked++;
    if (ask_redis(a))
        return PROGRESS_WAIT;
    rate_question_answered(&a->question, NULL);
    asked_free(a);
    return PROGRESS_DONE;
}

enum progress rates_shared_step(struct rates_shared *s, const struct rate_ask *ask, struct rate_op *op) {
    bool limited = limits_any(&ask->of_key) || limits_any(&ask->of_team);
    if (s->l->state != LEDGER_READY || !limited)
        return ledger_memory_ops.rate(s->l->memory, ask, op);
    op_begin(op);
    if (rate_slice_pass(s, ask, op)) {
        s->l->counts.rates_in_slices++;
        return PROGRESS_DONE;
    }
    if (!ask->may_owe)
        return rates_shared_ask(s, ask, op);
    op->owed = true;
    return PROGRESS_DONE;
}

/* --- leases of no call --- */

static void on_leased(struct redis_call *call, const struct redis_value *reply) {
    struct job *j = (struct job *)(void *)call;
    bool good = answer_good(j->l, call, j->op, reply);
    rate_question_answered(j->rates, good ? reply : NULL);
    job_end(j);
}

static struct rate_question *lease_begin(struct rates_shared *s, const struct rate_ask *ask) {
    struct rate_question *q = xcalloc(1, sizeof *q);
    rate_question_begin(q, s, ask, NULL);
    return q;
}

struct rate_question *rates_shared_want(struct rates_shared *s, const char *key) {
    struct rate_slice *one = map_find(&s->slice_of, span_of(key));
    struct rate_ask ask;
    return one && rate_slice_wanted(s, one, &ask) ? lease_begin(s, &ask) : NULL;
}

static void lease(struct rates_shared *s, const struct rate_ask *ask) {
    struct redis_ledger *l = s->l;
    struct words w;
    struct job *j = job_new(l, JOB_RATE_LEASE, 0, on_leased);
    j->rates = lease_begin(s, ask);
    begin(&w, l, l->now_us, "step");
    j->op = l->op;
    rate_question_put(j->rates, &w);
    job_send(j, &w, &script);
}

/* What no call brought along. */
static void lease_wanted(struct rates_shared *s) {
    for (struct link *k = list_first(&s->slices); k; k = list_next(&s->slices, k)) {
        struct rate_slice *one = container_of(k, struct rate_slice, in_all);
        struct rate_ask ask;
        if (rate_slice_wanted(s, one, &ask))
            lease(s, &ask);
    }
}

/* --- the end --- */

static bool same(const struct rate_ended *a, const struct payers *payers, const struct rate_ended *b) {
    return a->at_us == b->at_us && strcmp(a->payers.of[0], payers->of[0]) == 0 &&
           strcmp(a->payers.of[1], payers->of[1]) == 0;
}

void rate_ended(struct rates_shared *s, const struct payers *payers, const struct rate_ended *what) {
    struct link *last = list_last(&s->ends);
    struct rate_ended *e = last ? container_of(last, struct rate_ended, link) : NULL;
    if (!e || !same(e, payers, what)) {
        if (s->ends.n >= ENDS_MAX)
            return;
        e = xcalloc(1, sizeof *e);
        e->payers = *payers;
        e->at_us = what->at_us;
        list_append(&s->ends, &e->link);
    }
    e->requests += what->requests;
    e->tokens += what->tokens;
    e->more += what->more;
}

void rates_shared_end(struct rates_shared *s, struct rate_slip *slip, int64_t tokens_used) {
    struct payers payers;
    int64_t less = slip->tokens - tokens_used;
    ledger_owner_name(LEVEL_KEY, span_of(slip->key_id), payers.of[0]);
    ledger_owner_name(LEVEL_TEAM, span_of(slip->team), payers.of[1]);
    slots_add(s, &payers, -1);
    bool in_slice = rate_slice_end(s, slip, tokens_used < 0 ? slip->tokens : tokens_used);
    if (!in_slice && tokens_used >= 0 && less != 0)
        rate_ended(
            s, &payers,
            &(struct rate_ended){.tokens = less > 0 ? less : 0, .more = less < 0 ? -less : 0, .at_us = slip->at_us});
    free(slip->team);
    *slip = (struct rate_slip){0};
    if (!in_slice)
        rates_shared_send(s);
}

static void put_ends(struct rates_shared *s, struct words *w) {
    size_t n = s->ends.n < ENDS_BATCH ? s->ends.n : ENDS_BATCH;
    words_i64(w, (int64_t)n * RATE_LEVELS);
    for (; n > 0; n--) {
        struct rate_ended *e = container_of(list_shift(&s->ends), struct rate_ended, link);
        for (int i = 0; i < RATE_LEVELS; i++) {
            words_puts(w, e->payers.of[i]);
            words_i64(w, e->requests);
            words_i64(w, e->tokens);
            words_i64(w, e->at_us);
            words_i64(w, e->more);
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
        slots_put(one, false, w);
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

static void send_ends(struct rates_shared *s) {
    struct redis_ledger *l = s->l;
    struct words w;
    struct job *j = job_new(l, JOB_RATE, 0, on_ended);
    begin(&w, l, l->now_us, "end");
    j->op = l->op;
    put_ends(s, &w);
    put_untold(s, &w);
    job_send(j, &w, &script);
}

static bool nothing_to_tell(const struct rates_shared *s) {
    return s->l->state != LEDGER_READY || (list_empty(&s->ends) && list_empty(&s->untold));
}

void rates_shared_send(struct rates_shared *s) {
    if (!nothing_to_tell(s) && !s->l->jobs[JOB_RATE])
        send_ends(s);
}

/* All of it, also while other ends are under way: somebody is about to be refused. */
void rates_shared_send_now(struct rates_shared *s) {
    for (int i = 0; i < SEND_NOW_MAX && !nothing_to_tell(s); i++)
        send_ends(s);
}

void rates_shared_lost(struct rates_shared *s) {
    rate_slices_lost(s);
    slots_lost(s);
}

void rates_shared_seen(struct rates_shared *s, const struct instant *sent) {
    slots_heard(s, sent);
}

void rates_shared_untold(struct rates_shared *s) {
    for (struct link *k = list_first(&s->all); k; k = list_next(&s->all, k))
        slots_untold(s, container_of(k, struct slots, in_all));
}

void rates_shared_tick(struct rates_shared *s) {
    rate_slices_tick(s);
    lease_wanted(s);
    slots_tick(s);
    rates_shared_send(s);
}

/* --- life --- */

struct rates_shared *rates_shared_new(struct redis_ledger *l) {
    struct rates_shared *s = xcalloc(1, sizeof *s);
    s->l = l;
    map_init(&s->slots);
    map_init(&s->slice_of);
    list_init(&s->untold);
    list_init(&s->all);
    list_init(&s->ends);
    list_init(&s->asked);
    list_init(&s->slices);
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
    rate_slices_free(s);
    free(s);
}
