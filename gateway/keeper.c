/* Looks of the keeper and what follows from them. Always true here: nothing of the log goes before a look has said that it
 * may, and what a look found is written before the log is told; records that carry another stand before the note of what is
 * removed, in the same chain, so that no crash can keep the second without the first. */
#include "gateway/keeper.h"

#include "gateway/admin/admin_finance.h"
#include "gateway/gateway.h"

#include <event2/event.h>
#include <pthread.h>
#include <stdlib.h>

#define WHY_MAX 4096
#define STEPS_MAX 2400 /* looks in a row: two for each month of a century */

struct keeper {
    struct loop_job posted;
    struct gateway *gateway; /* while a look is under way */
    pthread_t thread;
    struct books_keep ask;
    struct books_kept found;
    char *directory; /* owned */
    struct str why;
    atomic_bool stop;
    bool good, looking, writing;
    bool stale; /* conf changed while it looked */
    int steps;
    int64_t next_us; /* monotone */
    int64_t unrolled_us;
};

struct keeper *keeper_new(void) {
    struct keeper *k = xcalloc(1, sizeof(*k));
    k->unrolled_us = 1;
    str_init(&k->why, WHY_MAX);
    return k;
}

static void let_go(struct keeper *k) {
    finance_records_free(&k->found.records);
    k->writing = false;
    free(k->directory);
    k->directory = NULL;
}

void keeper_free(struct keeper *k) {
    let_go(k);
    str_fini(&k->why);
    free(k);
}

int64_t keeper_unrolled_us(const struct keeper *k) {
    return k->unrolled_us;
}

bool keeper_is_busy(const struct keeper *k) {
    return k->looking || k->writing;
}

void keeper_conf_changed(struct gateway *g) {
    struct keeper *k = g->keeper;
    k->stale = k->looking;
    k->next_us = 0;
    k->unrolled_us = 1;
    audit_unrolled(g->audit, k->unrolled_us, clock_wall_us());
}

/* ---- what a look found ---- */

static bool is_due(const struct gateway *g) {
    return books_keep_is_due(g->keeper->unrolled_us, clock_wall_us(), g->conf->audit.keep_us);
}

static void conclude(struct gateway *g, struct keeper *k) {
    k->unrolled_us = k->found.unrolled_us;
    audit_unrolled(g->audit, k->unrolled_us, clock_wall_us());
    if (!k->good)
        log_warn("old records of the audit log stay, since their month cannot be rolled up: %s",
                 k->why.at ? k->why.at : "it did not work");
    k->steps = 0;
    k->next_us = is_due(g) ? clock_mono_us() + KEEPER_PATIENCE_US : 0;
    let_go(k);
}

static void on_looked(struct loop_job *job) {
    struct keeper *k = container_of(job, struct keeper, posted);
    struct gateway *g = k->gateway;
    pthread_join(k->thread, NULL);
    k->looking = false;
    if (atomic_load(&k->stop) || k->stale)
        let_go(k);
    else if (k->good && k->found.records.n && k->steps < STEPS_MAX)
        k->writing = true;
    else
        conclude(g, k);
    k->stale = false;
}

static void *look(void *arg) {
    struct keeper *k = arg;
    k->good = books_keep_step(&k->ask, &k->found, &k->why);
    loop_post(k->gateway->loop, &k->posted);
    return NULL;
}

static void start(struct gateway *g, struct keeper *k) {
    k->directory = xstrdup(g->conf->audit.directory);
    k->gateway = g;
    k->posted.run = on_looked;
    k->ask = (struct books_keep){.directory = k->directory,
                                 .now_us = clock_wall_us(),
                                 .audit_keep_us = g->conf->audit.keep_us,
                                 .ledger_keep_us = g->conf->ledger_keep_us,
                                 .looks = g->worker > 0,
                                 .stop = &k->stop};
    k->steps++;
    str_clear(&k->why);
    k->looking = pthread_create(&k->thread, NULL, look, k) == 0;
    if (k->looking)
        return;
    k->next_us = clock_mono_us() + KEEPER_PATIENCE_US;
    let_go(k);
}

/* What is carried says itself who closed it. */
static void write_on(struct gateway *g, struct keeper *k) {
    static const struct finance_act closing = {"gateway", "operator", "rolled up before audit.keep takes its records"};
    static const struct finance_act carrying = {NULL, NULL, NULL};
    if (!finance_records_write(&k->found.records, g->audit, k->found.closes ? &closing : &carrying, clock_wall_us(),
                               NULL, NULL))
        return;
    log_info("%s month=%s records=%zu", k->found.closes ? "a month was rolled up" : "a month's rollups were carried on",
             k->found.month, k->found.records.n);
    let_go(k);
}

void keeper_tick(struct gateway *g, int64_t mono_us) {
    struct keeper *k = g->keeper;
    if (k->looking || g->draining)
        return;
    if (k->writing)
        write_on(g, k);
    else if (mono_us >= k->next_us && is_due(g) && !finance_writes(g))
        start(g, k);
}

void keeper_stop(struct gateway *g) {
    struct keeper *k = g->keeper;
    atomic_store(&k->stop, true);
    while (k->looking)
        event_base_loop(loop_base(g->loop), EVLOOP_ONCE);
}
