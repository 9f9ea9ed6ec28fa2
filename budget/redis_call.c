/* Open calls, and what each log has settled in each account. Always true here: the sums of a tally never
 * go down; one that a call or
 * a job refers to, or that waits to be told, is not freed; the calls that stand in the map are those whose lease may stand
 * in Redis. */
#include "budget/redis_ledger.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

static const enum period spend_periods[] = {PERIOD_DAY, PERIOD_WEEK, PERIOD_MONTH, PERIOD_TOTAL};

/* --- logs --- */

struct log_of *log_get(struct redis_ledger *l, const char *name) {
    for (struct link *k = list_first(&l->logs); k; k = list_next(&l->logs, k)) {
        struct log_of *log = container_of(k, struct log_of, in_logs);
        if (strcmp(log->name, name) == 0)
            return log;
    }
    struct log_of *log = xcalloc(1, sizeof *log);
    log->name = xstrdup(name);
    map_init(&log->tallies);
    list_init(&log->dirty);
    list_append(&l->logs, &log->in_logs);
    return log;
}

void logs_free(struct redis_ledger *l) {
    for (struct link *k; (k = list_shift(&l->logs));) {
        struct log_of *log = container_of(k, struct log_of, in_logs);
        for (struct map_entry *e = map_next(&log->tallies, NULL); e; e = map_next(&log->tallies, e))
            free(e->value);
        map_fini(&log->tallies);
        free(log->name);
        free(log);
    }
}

/* --- tallies --- */

struct tally *tally_get(struct redis_ledger *l, struct log_of *log, const char *scope, enum period period,
                        const struct zone *zone, int64_t now_us) {
    char account[ACCOUNT_NAME_MAX];
    int64_t from_us, to_us;
    zone_period(zone, period, now_us, &from_us, &to_us);
    snprintf(account, sizeof account, "%s/%" PRId64, scope, from_us / US_PER_S);
    struct tally *t = map_find(&log->tallies, span_of(account));
    if (t)
        return t;
    t = xcalloc(1, sizeof *t);
    memcpy(t->account, account, sizeof account);
    t->log = log;
    t->from_us = from_us;
    t->to_us = to_us;
    map_put(&log->tallies, span_of(account), t);
    list_append(&l->tallies, &t->in_all);
    return t;
}

struct tally *tally_said(const struct redis_ledger *l, const char *scope, int64_t from_us) {
    char account[ACCOUNT_NAME_MAX];
    snprintf(account, sizeof account, "%s/%" PRId64, scope, from_us / US_PER_S);
    struct tally *t = map_find(&l->own->tallies, span_of(account));
    return t && t->seen ? t : NULL;
}

void tally_dirty(struct tally *t) {
    if (!t->dirty)
        list_append(&t->log->dirty, &t->in_dirty);
    t->dirty = true;
}

static void add(int64_t *to, int64_t more) {
    if (__builtin_add_overflow(*to, more, to))
        *to = INT64_MAX;
}

void tally_add(struct tally *t, int64_t nanousd, int64_t overrun) {
    if (nanousd == 0)
        return;
    if (nanousd > 0)
        add(&t->settled, nanousd);
    else
        add(&t->lowered, -nanousd);
    add(&t->overrun, overrun);
    tally_dirty(t);
}

const char *tally_keep_s(const struct tally *t) {
    static char text[24];
    snprintf(text, sizeof text, "%d", ACCOUNT_KEPT_S);
    return t->to_us == INT64_MAX ? "" : text;
}

void tallies_sweep(struct redis_ledger *l, int64_t now_us) {
    for (int i = 0; i < TALLY_SWEEP && !list_empty(&l->tallies); i++) {
        struct tally *t = container_of(list_shift(&l->tallies), struct tally, in_all);
        if (t->refs || t->dirty || t->to_us > now_us - TALLY_KEPT_US) {
            list_append(&l->tallies, &t->in_all);
            continue;
        }
        map_remove(&t->log->tallies, span_of(t->account));
        free(t);
    }
}

void call_add(struct open_call *c, int64_t cost, int64_t overrun) {
    add(&c->cost, cost);
    add(&c->overrun, overrun);
}

/* --- records --- */

static void replay_in(struct redis_ledger *l, const char *scope, enum period period, const struct zone *zone,
                      const struct ledger_ask *ask) {
    int64_t from_us, to_us;
    zone_period(zone, period, ask->now_us, &from_us, &to_us);
    if (to_us > l->now_us - TALLY_KEPT_US)
        tally_add(tally_get(l, l->replay, scope, period, zone, ask->now_us), ask->nanousd, 0);
}

static bool asks_for(const struct ledger_ask *ask, const char *scope) {
    for (int i = 0; i < ask->n; i++) {
        if (strcmp(ask->scopes[i].name, scope) == 0)
            return true;
    }
    return false;
}

/* Budgets and spend have accounts of the same names; each counts once. */
void tallies_replay(struct redis_ledger *l, const struct ledger_ask *ask) {
    for (int i = 0; i < ask->n; i++)
        replay_in(l, ask->scopes[i].name, ask->scopes[i].period, ask->scopes[i].zone, ask);
    for (int i = 0; i < LEDGER_OWNERS * (int)ARRAY_LEN(spend_periods); i++) {
        const struct ledger_owner *owner = &ask->owners[i % LEDGER_OWNERS];
        enum period period = spend_periods[i / LEDGER_OWNERS];
        char scope[SCOPE_NAME_MAX];
        ledger_scope_name(owner->name, period, owner->zone, scope);
        if (!asks_for(ask, scope))
            replay_in(l, scope, period, owner->zone, ask);
    }
}

/* --- calls --- */

static bool is_budget(const struct open_call *c, const struct tally *t) {
    for (int i = 0; i < c->n; i++) {
        if (c->at[i] == t)
            return true;
    }
    return false;
}

static void stand_in_spend(struct redis_ledger *l, struct open_call *c, const struct ledger_ask *ask) {
    for (int o = 0; o < LEDGER_OWNERS; o++) {
        const struct ledger_owner *owner = &ask->owners[o];
        for (size_t p = 0; p < ARRAY_LEN(spend_periods); p++) {
            char scope[SCOPE_NAME_MAX];
            ledger_scope_name(owner->name, spend_periods[p], owner->zone, scope);
            struct tally *t = tally_get(l, l->own, scope, spend_periods[p], owner->zone, ask->now_us);
            if (is_budget(c, t))
                continue;
            c->spend[c->n_spend++] = t;
            t->refs++;
        }
    }
}

void call_stand(struct redis_ledger *l, struct open_call *c, const struct ledger_ask *ask) {
    for (int i = 0; i < ask->n; i++) {
        const struct ledger_scope *s = &ask->scopes[i];
        c->at[c->n] = tally_get(l, l->own, s->name, s->period, s->zone, ask->now_us);
        c->at[c->n++]->refs++;
    }
    for (int i = 0; i < LEDGER_OWNERS; i++)
        memcpy(c->owners[i], ask->owners[i].name, sizeof c->owners[i]);
}

struct tally *call_place(const struct open_call *c, const struct ledger_scope *s) {
    size_t n = strlen(s->name);
    for (int i = 0; i < c->n; i++) {
        if (strncmp(c->at[i]->account, s->name, n) == 0 && strrchr(c->at[i]->account, '/') == c->at[i]->account + n)
            return c->at[i];
    }
    return NULL;
}

struct open_call *call_new(struct redis_ledger *l, const struct ledger_ask *ask) {
    struct open_call *c = xcalloc(1, sizeof *c);
    memcpy(c->request_id, ask->request_id, sizeof c->request_id);
    c->nanousd = ask->nanousd;
    call_stand(l, c, ask);
    stand_in_spend(l, c, ask);
    struct open_call *before = map_put(&l->calls, span_of(c->request_id), c);
    assert(!before);
    (void)before;
    return c;
}

struct open_call *call_find(const struct redis_ledger *l, const char *request_id) {
    return map_find(&l->calls, span_of(request_id));
}

static void let_go(struct open_call *c) {
    for (int i = 0; i < c->n; i++)
        c->at[i]->refs--;
    for (int i = 0; i < c->n_spend; i++)
        c->spend[i]->refs--;
}

void call_free(struct redis_ledger *l, struct open_call *c) {
    let_go(c);
    if (link_on_list(&c->in_queue))
        list_remove(&l->queue, &c->in_queue);
    map_remove(&l->calls, span_of(c->request_id));
    free(c);
}

void calls_free(struct redis_ledger *l) {
    for (struct map_entry *e = map_next(&l->calls, NULL); e; e = map_next(&l->calls, e)) {
        let_go(e->value);
        free(e->value);
    }
    map_fini(&l->calls);
}
