/* One server and the one connection to it that is kept up. What the files of the link share; nobody else includes it.
 *
 *   DOWN > [RESOLVE >] CONNECT > [SECURE >] GREET > UP      any > DOWN: what was in flight is LOST; again after a wait
 *
 * Answers come in the order of the commands, so an ask stays in the queue until its answer has come, also when nobody
 * waits for it any more. The breaker trips after BREAKER_LATE late answers in a row, or one late PING, which is sent as
 * soon as an answer is late, and closes when a PING is answered in time: a frozen server costs each caller one timeout,
 * and later ones nothing. */
#ifndef TOLLGATE_GATEWAY_REDIS_NODE_H
#define TOLLGATE_GATEWAY_REDIS_NODE_H

#include "gateway/base/clock.h"
#include "gateway/base/log.h"
#include "gateway/net/conn.h"
#include "gateway/net/resolve.h"
#include "gateway/redis/redis_wire.h"

#define QUEUE_MAX 16384                    /* commands without an answer: a flood meets DOWN, not memory */
#define QUEUE_BYTES_MAX ((size_t)64 << 20) /* of commands not yet sent */
#define BREAKER_LATE 3                     /* late in a row */
#define PING_IDLE_US (1 * US_PER_S)        /* silence after which the server is asked how it is */
#define PROBE_US (50 * US_PER_MS)          /* between two PINGs of an open breaker */
#define SILENT_US (2 * US_PER_S)           /* an open breaker's silence after which a new connection is tried */
#define BACKOFF_FIRST_US (25 * US_PER_MS)  /* doubled each time, with jitter */
#define BACKOFF_MAX_US (1 * US_PER_S)      /* so that a Redis that is back is used again within two seconds */
#define REDIS_WHY_MAX 200

struct redis_node;

struct redis_ask { /* owned by the queue it stands in */
    struct link in_queue;
    struct redis_call *call; /* NULL: the link's own, or nobody waits any more */
    /* reply NULL: the connection closed. The ask is freed afterwards unless the answer was REDIS_KEEP: taken over. */
    enum redis_keep {
        REDIS_DROP,
        REDIS_KEEP
    } (*answered)(struct redis_node *n, struct redis_ask *a, const struct redis_value *reply);
    struct redis_script *script; /* NULL, or what EVALSHA named and EVAL has not sent yet */
    char *bytes;                 /* owned */
    size_t n_bytes;
    int64_t until_us; /* INT64_MAX: never late */
    int slot;         /* cluster: of its key; -1: none */
    bool late;
    bool moved; /* it was sent elsewhere once already */
    bool asked; /* and there by ASK: ASKING goes before it */
};

enum node_state { NODE_DOWN, NODE_RESOLVE, NODE_CONNECT, NODE_SECURE, NODE_GREET, NODE_UP };

struct redis_place {
    char host[256]; /* "/path" is a unix socket */
    int port;
};

struct redis_node_ops {
    /* Where the server is, before each try: false while nobody knows, `why` says so. NULL: where it always was. */
    bool (*locate)(struct redis_node *n, const char **why);
    void (*greet)(struct redis_node *n); /* node_greet() what must come first; node_up is called when all is answered */
    void (*up)(struct redis_node *n);
    void (*down)(struct redis_node *n, bool was_up);
};

struct redis_node {
    struct conn conn; /* its item is the node's, for the node's whole life */
    struct alarm alarm;
    struct turn *turn;
    struct resolver *resolver;
    const struct redis_node_ops *ops;
    void *owner;
    struct redis_place at;
    SSL_CTX *tls;         /* borrowed; NULL: plain */
    SSL_SESSION *session; /* owned */
    int64_t timeout_us, connect_us;

    enum node_state state;
    struct lookup lookup;
    int address;
    struct redis_reader *reader; /* owned; NULL: no connection */
    struct list queue;           /* struct redis_ask */
    struct list parked;          /* sent when the node is up: what another node said belongs here */
    size_t n_greetings;          /* not yet answered */
    int64_t next_due_us;         /* of the queue; INT64_MAX */
    int64_t give_up_us;          /* of CONNECT .. GREET */
    int64_t retry_us, backoff_us;
    int64_t heard_us, probe_us, up_us;
    int late_in_row;
    bool tripped;
    bool pinging;
    bool doomed;             /* close it when this run is over, for `why` */
    bool retired;            /* left alone once it is down, until somebody names it again */
    bool closing;            /* no further try */
    char why[REDIS_WHY_MAX]; /* the last failure */
    struct log_gate said;
    uint64_t n_late, n_lost, n_refused;
    uint64_t random;
};

void node_init(struct redis_node *n, struct turn *turn, struct resolver *resolver, const struct redis_node_ops *ops,
               void *owner);
void node_start(struct redis_node *n);
void node_fini(struct redis_node *n); /* nobody is told */
const char *node_name(const struct redis_node *n, char out[REDIS_WHY_MAX]);

static inline bool node_usable(const struct redis_node *n) {
    return n->state == NODE_UP && !n->tripped;
}
struct redis_ask *ask_new(size_t argc, const struct span *argv);
struct redis_ask *ask_new_script(struct redis_script *script, size_t n_keys, size_t argc, const struct span *argv);
void ask_free(struct redis_ask *a);
/* Into the queue; false, and the ask is still the caller's, when the node takes none now. */
must_check bool node_send(struct redis_node *n, struct redis_ask *a);
void node_park(struct redis_node *n,
               struct redis_ask *a); /* sent when the node is up, LOST when it goes down instead */
/* A command of the greeting; in GREET only. answered says node_doom when its answer is a bad one. */
void node_greet(struct redis_node *n, size_t argc, const struct span *argv,
                enum redis_keep (*answered)(struct redis_node *n, struct redis_ask *a,
                                            const struct redis_value *reply));
void node_doom(struct redis_node *n, const char *format, ...) printf_like(2, 3);

#endif
