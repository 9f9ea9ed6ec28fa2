/* THE OTHER WORKERS: how several processes answer as one.
 *
 *     worker 0 -- "targets\n" --> every other worker's socket in state.directory --> its rows --> added up
 *     parent   -- "prepare\n", then "take\n" or "drop\n" --> every worker: a conf comes to all or to none
 *     worker 0 -- "reload\n" --> the parent's socket
 *
 * One connection a question: a line there, the answer back until the end. A worker that is not there within PEER_WAIT_US
 * is left out, and its row in /readyz says so. Metrics and what /readyz tells come over shared pages (gateway/workers/worker.h),
 * written twice a second, so that counters go on when a worker is started again. */
#ifndef TOLLGATE_GATEWAY_PEERS_H
#define TOLLGATE_GATEWAY_PEERS_H

#include "gateway/base/span.h"

#define PEER_WAIT_US INT64_C(2000000)    /* for the answer of a worker */
#define PEER_RELOAD_US INT64_C(60000000) /* for the parent's, which asks all */
#define PEER_LINE_MAX 256
#define PEER_ANSWER_MAX (16 << 20)
#define PEER_PAGE_US INT64_C(500000) /* how often a page is written */
#define PEER_PARENT (-1)             /* instead of a worker's number */
#define PEER_ENGINE (-2)             /* worker 0's socket for engines (gateway/workers/engine_door.h) */

struct gateway;
struct conf;
void peers_open(struct gateway *g);  /* does nothing where there is one process */
void peers_close(struct gateway *g); /* who waits for answers gets what has come */
void peers_tick(struct gateway *g, int64_t mono_us);
/* Worker 0 stays until the others are gone, so that the admin port tells of the whole drain. */
bool peers_are_done(const struct gateway *g);

/* Asks every other worker; `done` is called once, later, with the answers in order of workers, SPAN_NONE for one that did
 * not come. */
struct answers {
    struct span of[64];
    int n; /* workers */
};
void peers_ask(struct gateway *g, const char *line, void (*done)(const struct answers *a, void *user), void *user);
/* Asks the parent; of[0] is its answer. */
void peers_ask_parent(struct gateway *g, const char *line, void (*done)(const struct answers *a, void *user),
                      void *user);

/* Metrics of all workers, added up, behind those of this one in `own`. */
void peers_metrics(struct gateway *g, struct span own, struct str *out);
/* `"workers":[...]` for /readyz. */
void peers_put(const struct gateway *g, struct str *json);

/* "unix:<state.directory>/worker-1.sock"; parent: -1. False: the path is too long for a socket. */
#define PEER_ADDRESS_MAX 112
must_check bool peer_address(const struct conf *c, int worker, char out[PEER_ADDRESS_MAX], struct str *why);

#endif
