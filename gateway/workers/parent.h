/* THE PARENT of several workers. It serves nobody itself.
 *
 *     open every listening socket (one a worker, SO_REUSEPORT) -> fork, before any thread exists
 *        |-- worker 0   admin port, metrics port; adds the others up
 *        |-- worker 1 ..
 *     a worker dies   -> another one takes its number, its sockets and its counters, after a wait that grows
 *     SIGHUP, reload  -> the conf is read; every worker prepares the same bytes; all take it, or none
 *     SIGTERM, SIGINT -> sockets are closed, all drain, exit 0; a second one: all end at once
 *     the parent dies -> its workers drain and end
 *
 * A connection in the queue of a dead worker's socket waits for the next one: the parent keeps the socket open. */
#ifndef TOLLGATE_GATEWAY_PARENT_H
#define TOLLGATE_GATEWAY_PARENT_H

#include "gateway/workers/worker.h"

#define PARENT_WAIT_US INT64_C(100000)      /* before a dead worker is started again; doubled for each further death */
#define PARENT_WAIT_MAX_US INT64_C(5000000) /* at the most: its queue waits as long */
#define PARENT_STEADY_US INT64_C(10000000)  /* a worker that lived so long begins anew with the shortest wait */
#define PARENT_ASK_US INT64_C(10000000)     /* for the answer of a worker in a reload */
#define PARENT_END_US INT64_C(5000000)      /* after a drain's time, or a second signal: then who is left is killed */

struct parent_worker {
    pid_t pid;                  /* 0: none runs */
    int deaths;                 /* in a row, each after less than PARENT_STEADY_US */
    int64_t started_us, due_us; /* mono; due_us: when the next one is started */
};

struct parent {
    const char *conf_path;
    struct conf *conf; /* counted: what workers run, and what the next one starts with */
    int n;             /* workers */
    struct parent_worker workers[CONF_WORKERS_MAX];
    struct listening *listen; /* owned; n rows of as many as conf says */
    struct listening admin, metrics, ask[CONF_WORKERS_MAX], control;
    struct listening engine;         /* worker 0's engines; fd -1: conf names none */
    struct worker_page *pages;       /* mapped */
    struct engine_page *engine_page; /* mapped */
    char engine_secret[ENGINE_SECRET_MAX];
    int signals; /* signalfd */
    char admin_token[ADMIN_TOKEN_MAX];
    bool draining, failed;
    int64_t end_us; /* while draining: mono, when who is left is killed */
};

struct parent_ready { /* told once, when all workers serve */
    void (*tell)(const struct conf *c, const char *address, const char *admin, void *user);
    void *user;
};
/* Runs until the end; returns the exit status. Takes the reference to `conf`. Returns in the parent alone. */
int parent_run(const char *conf_path, struct conf *conf, const struct parent_ready *ready);

/* How long to wait after so many deaths in a row. */
int64_t parent_wait_us(int deaths);

/* gateway/workers/parent_ask.c: a conf for all workers or for none; what is wrong in `report`. */
bool parent_reload(struct parent *p, bool dry_run, struct str *report);
void parent_answer(struct parent *p); /* a question at its own socket */

#endif
