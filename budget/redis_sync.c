/* Keeping this process and Redis of one mind. Always true here: no call is held in Redis before Redis has been told what
 * our log has settled and which calls are open, since the connection, or since its data was lost; what is told is a state
 * and not a change, so that it may be told again.
 *
 * connected -> hello -> the same epoch: go on
 *                    `-> another: every contribution of every log that we know, then every open call, then go on */
#include "budget/redis_ledger.h"
#include "budget/redis_script.h"

#include <stdio.h>

static struct redis_script hello = {.name = "hello", .text = lua_hello},
                           replay = {.name = "replay", .text = lua_replay},
                           restore = {.name = "restore", .text = lua_restore},
                           renew = {.name = "renew", .text = lua_renew}, look = {.name = "look", .text = lua_look};

static void tell_next(struct redis_ledger *l);

void sync_down(struct redis_ledger *l) {
    l->state = LEDGER_AWAY;
}

/* --- hello --- */

static void make_untold(struct redis_ledger *l) {
    for (struct link *k = list_first(&l->tallies); k; k = list_next(&l->tallies, k)) {
        struct tally *t = container_of(k, struct tally, in_all);
        if (t->settled > 0 || t->lowered > 0)
            tally_dirty(t);
    }
    for (struct map_entry *e = map_next(&l->calls, NULL); e; e = map_next(&l->calls, e))
        ((struct open_call *)e->value)->leased = false;
    settle_book_all(l);
    slices_lost(l);
    rates_shared_lost(l->rates);
    l->own->ends = !l->began;
    l->telling = true;
}

static void greeted(struct redis_ledger *l, const struct redis_value *reply) {
    struct span epoch = reply_text(reply, 0);
    int64_t last = reply_i64(reply, 1);
    l->op = last > l->op ? last : l->op;
    l->closed_until_us = reply_i64(reply, 2);
    if (!span_is(epoch, l->epoch)) {
        memcpy(l->epoch, epoch.at, epoch.n);
        l->epoch[epoch.n] = '\0';
        log_info("the ledger meets a Redis that does not know this process: everything is told log=%s epoch=%s",
                 l->own->name, l->epoch);
        make_untold(l);
    }
    l->op_answered = l->op_answered > last ? last : l->op_answered;
    l->state = LEDGER_TELLING;
    tell_next(l);
}

static void on_hello(struct redis_call *call, const struct redis_value *reply) {
    struct job *j = (struct job *)(void *)call;
    struct redis_ledger *l = j->l;
    struct span epoch = reply_text(reply, 0);
    bool good = call->fault == REDIS_OK && epoch.n && epoch.n < sizeof l->epoch;
    if (call->fault == REDIS_OK && !good)
        (void)answer_good(l, call, 0, reply);
    job_end(j);
    if (l->state != LEDGER_GREETING)
        return;
    l->state = LEDGER_AWAY;
    if (good)
        greeted(l, reply);
}

void sync_up(struct redis_ledger *l) {
    struct words w;
    char fresh[EPOCH_MAX];
    if (l->state == LEDGER_GREETING || l->jobs[JOB_HELLO])
        return;
    random_name(fresh);
    l->state = LEDGER_GREETING;
    struct job *j = job_new(l, JOB_HELLO, 0, on_hello);
    words_init(&w);
    words_puts(&w, l->base);
    words_puts(&w, l->own->name);
    words_i64(&w, l->op_answered);
    words_puts(&w, l->epoch);
    words_i64(&w, l->now_us);
    words_puts(&w, l->boot);
    words_puts(&w, fresh);
    words_i64(&w, LEASE_LIVES_US);
    job_send(j, &w, &hello);
}

void sync_epoch(struct redis_ledger *l) {
    if (l->state == LEDGER_GREETING)
        return;
    l->state = LEDGER_AWAY;
    sync_up(l);
}

/* --- telling --- */

static void on_told(struct redis_call *call, const struct redis_value *reply) {
    struct job *j = (struct job *)(void *)call;
    struct redis_ledger *l = j->l;
    bool good = answer_good(l, call, j->op, reply), live = good && reply_is(reply, "LIVE");
    job_told(j, good && !live, NULL, 0);
    if (live)
        j->log->later_us = l->now_us + LEASE_LIVES_US;
    if (j->ends && (!good || live || span_is(reply_text(reply, 1), "more")))
        j->log->ends = true;
    job_end(j);
    if (good)
        tell_next(l);
    else if (l->state == LEDGER_TELLING)
        l->state = LEDGER_AWAY;
}

static void tell(struct redis_ledger *l, struct log_of *log) {
    struct words w;
    struct job *j = job_new(l, JOB_TELL, TELL_TALLIES, on_told);
    j->ends = log->ends && log->dirty.n <= TELL_TALLIES;
    if (j->ends)
        log->ends = false;
    words_begin(&w, l, l->now_us);
    j->op = l->op;
    words_puts(&w, log->name);
    words_i64(&w, log->known_us);
    words_i64(&w, LEASE_LIVES_US);
    words_puts(&w, j->ends ? "end" : "more");
    put_dirty(j, log, TELL_TALLIES, &w);
    job_send(j, &w, &replay);
}

static void ready(struct redis_ledger *l) {
    bool anew = l->telling;
    l->telling = false;
    l->began = true;
    l->state = LEDGER_READY;
    if (anew)
        news_mark_again(l);
    l->renewed_us = 0;
    log_info("the Redis ledger is ready log=%s", l->own->name);
    sync_tick(l, l->now_us);
}

/* Of our own log, everything is told after a greeting, and what comes later goes with settles. */
static struct log_of *untold(const struct redis_ledger *l) {
    for (struct link *k = list_first(&l->logs); k; k = list_next(&l->logs, k)) {
        struct log_of *log = container_of(k, struct log_of, in_logs);
        if ((log->dirty.n > 0 || log->ends) && (l->telling || !log->own) && l->now_us >= log->later_us)
            return log;
    }
    return NULL;
}

static void tell_next(struct redis_ledger *l) {
    if (l->state < LEDGER_TELLING || l->jobs[JOB_TELL]) /* what is under way goes on when it is answered */
        return;
    struct log_of *log = untold(l);
    if (log) {
        tell(l, log);
        return;
    }
    if (l->state == LEDGER_READY)
        return;
    sync_restore(l);
    if (l->state == LEDGER_TELLING && !l->jobs[JOB_RESTORE])
        ready(l);
}

/* --- leases that Redis does not have --- */

static void put_lease(struct words *w, const struct open_call *c) {
    const struct slice *s = c->is_slice ? (const struct slice *)(const void *)c : NULL;
    words_puts(w, c->request_id);
    words_i64(w, s ? slice_lease(s) : c->nanousd);
    words_i64(w, s ? s->told : 0);
    words_i64(w, c->n);
    for (int i = 0; i < c->n; i++)
        words_puts(w, c->at[i]->account);
    words_i64(w, LEDGER_OWNERS);
    for (int i = 0; i < LEDGER_OWNERS; i++)
        words_puts(w, c->owners[i]);
}

static bool wants_lease(const struct open_call *c) {
    return c->state == CALL_OPEN && !c->leased && c->n > 0 && !c->in;
}

static void on_restored(struct redis_call *call, const struct redis_value *reply) {
    struct job *j = (struct job *)(void *)call;
    struct redis_ledger *l = j->l;
    bool good = answer_good(l, call, j->op, reply);
    job_end(j);
    for (struct map_entry *e = map_next(&l->calls, NULL); e && !good; e = map_next(&l->calls, e))
        ((struct open_call *)e->value)->leased = false;
    if (l->state == LEDGER_TELLING && !good)
        l->state = LEDGER_AWAY;
    else if (l->state == LEDGER_TELLING)
        tell_next(l);
    else if (good)
        sync_restore(l);
}

void sync_restore(struct redis_ledger *l) {
    struct open_call *of[RESTORE_CALLS];
    struct words w;
    int n = 0;
    if (l->jobs[JOB_RESTORE])
        return;
    for (struct map_entry *e = map_next(&l->calls, NULL); e && n < RESTORE_CALLS; e = map_next(&l->calls, e)) {
        if (wants_lease(e->value))
            of[n++] = e->value;
    }
    if (n == 0)
        return;
    struct job *j = job_new(l, JOB_RESTORE, 0, on_restored);
    words_begin(&w, l, l->now_us);
    j->op = l->op;
    words_i64(&w, LEASE_LIVES_US);
    words_i64(&w, n);
    for (int i = 0; i < n; i++) {
        put_lease(&w, of[i]);
        of[i]->leased = true;
    }
    job_send(j, &w, &restore);
}

/* --- leases that Redis has --- */

static void see_missing(struct redis_ledger *l, const struct redis_value *ids) {
    char id[REQUEST_ID_MAX];
    for (size_t i = 0; ids->kind == REDIS_ARRAY && i < ids->n; i++) {
        snprintf(id, sizeof id, "%.*s", SPAN_ARG(reply_text(ids, i)));
        struct open_call *c = call_find(l, id);
        if (c && !c->in)
            c->leased = false;
    }
}

/* Expired leases of calls that are not open here: our log has spoken of them, or never knew them. */
static void see_tombstones(struct redis_ledger *l, const struct redis_value *ids) {
    char id[REQUEST_ID_MAX];
    for (size_t i = 0; ids->kind == REDIS_ARRAY && i < ids->n; i++) {
        snprintf(id, sizeof id, "%.*s", SPAN_ARG(reply_text(ids, i)));
        settle_nothing(l, id);
    }
}

static void on_renewed(struct redis_call *call, const struct redis_value *reply) {
    struct job *j = (struct job *)(void *)call;
    struct redis_ledger *l = j->l;
    bool good = answer_good(l, call, j->op, reply) && reply->n == 3;
    if (good) {
        see_missing(l, &reply->items[1]);
        slices_renewed(l, j);
        rates_shared_seen(l->rates, &j->sent);
    }
    job_end(j);
    if (!good)
        return;
    see_tombstones(l, &reply->items[2]);
    sync_restore(l);
}

static void renew_some(struct redis_ledger *l, struct open_call *const *of, size_t n) {
    struct words w;
    struct job *j = job_new(l, JOB_RENEW, 0, on_renewed);
    words_begin(&w, l, l->now_us);
    j->op = l->op;
    j->sent = (struct instant){l->now_us, clock_mono_us()};
    words_i64(&w, LEASE_LIVES_US);
    words_i64(&w, (int64_t)n);
    for (size_t i = 0; i < n; i++) {
        words_puts(&w, of[i]->request_id);
        if (of[i]->is_slice)
            slice_renewing((struct slice *)(void *)of[i], j);
    }
    job_send(j, &w, &renew);
}

/* Without open calls too: it says that we are here. */
static void renew_all(struct redis_ledger *l) {
    struct open_call *of[RENEW_IDS];
    size_t n = 0;
    for (struct map_entry *e = map_next(&l->calls, NULL); e; e = map_next(&l->calls, e)) {
        struct open_call *c = e->value;
        if (c->state != CALL_OPEN || !c->leased || c->in)
            continue;
        of[n++] = c;
        if (n < RENEW_IDS)
            continue;
        renew_some(l, of, n);
        n = 0;
    }
    renew_some(l, of, n);
}

/* --- what others did, for people --- */

static void on_looked(struct redis_call *call, const struct redis_value *reply) {
    struct job *j = (struct job *)(void *)call;
    if (call->fault == REDIS_OK && reply_is(reply, "OK")) {
        for (size_t i = 0; i < j->n; i++) {
            reply_told(reply, 1 + TOLD_WORDS * i, &j->carried[i]->said);
            j->carried[i]->seen = true;
        }
    }
    job_end(j);
}

static void look_around(struct redis_ledger *l) {
    struct words w;
    if (l->jobs[JOB_LOOK])
        return;
    struct job *j = job_new(l, JOB_LOOK, LOOK_ACCOUNTS, on_looked);
    for (size_t i = l->tallies.n; i > 0 && j->n < LOOK_ACCOUNTS; i--) {
        struct tally *t = container_of(list_shift(&l->tallies), struct tally, in_all);
        list_append(&l->tallies, &t->in_all);
        if (!t->log->own || t->dirty || t->to_us <= l->now_us)
            continue;
        t->refs++;
        j->carried[j->n++] = t;
    }
    words_begin(&w, l, l->now_us);
    words_i64(&w, (int64_t)j->n);
    for (size_t i = 0; i < j->n; i++)
        words_puts(&w, j->carried[i]->account);
    job_send(j, &w, &look);
}

/* --- time --- */

void sync_tick(struct redis_ledger *l, int64_t now_us) {
    l->now_us = now_us;
    if (l->state == LEDGER_AWAY && redis_up(l->redis))
        sync_up(l);
    if (l->state != LEDGER_READY)
        return;
    slices_tick(l);
    settle_send(l);
    tell_next(l);
    rates_shared_tick(l->rates);
    if (now_us >= l->renewed_us && now_us - l->renewed_us < RENEW_US)
        return;
    l->renewed_us = now_us;
    renew_all(l);
    look_around(l);
    tallies_sweep(l, now_us);
}
