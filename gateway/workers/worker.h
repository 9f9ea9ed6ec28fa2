/* What a parent gives to its workers: all of it is made before the first fork. */
#ifndef TOLLGATE_GATEWAY_WORKER_H
#define TOLLGATE_GATEWAY_WORKER_H

#include "conf/conf.h"
#include "gateway/gateway.h"
#include "gateway/net/listening.h"
#include "gateway/workers/engine_door.h"

#include <stdatomic.h>
#include <sys/types.h>

#define WORKER_METRICS_MAX (4 << 20) /* bytes of one worker's metrics; pages that are never written cost nothing */

/* One page a worker in memory that all share; kept while the parent lives. Its worker writes it, worker 0 reads it, the
 * next worker of the same number goes on with its counters. `version` is odd while it is being written. */
struct worker_page {
    atomic_int pid;    /* 0: it is not running; the parent's to write */
    atomic_bool ready; /* it serves; the parent clears it */
    atomic_uint version;
    int64_t in_flight, audit_lag;
    bool audit_healthy, draining;
    char conf_digest[SHA256_HEX_MAX];
    size_t n; /* bytes of metrics; 0: none yet */
    char metrics[WORKER_METRICS_MAX];
};

struct worker_start {
    const char *conf_path;
    struct conf *conf; /* counted by the parent */
    pid_t parent;
    int worker, n_workers;
    const struct listening *listen; /* its own, as many as conf says */
    size_t n_listen;
    const struct listening *admin, *metrics; /* worker 0's; metrics NULL: conf names none */
    const struct listening *ask;             /* where it is asked */
    struct worker_page *pages;               /* of all workers */
    const char *admin_token;                 /* secret */
    const struct listening *engine;          /* where worker 0's engines are asked; NULL: conf names none */
    const char *engine_secret;               /* secret */
    struct engine_page *engine_page;         /* of all workers */
};

#endif
