/* Commands to a Redis and what it answers: the door through which budget/, cache/ and the shared state speak to it. The
 * hall implements it over its loop (gateway/redis/redis.c); a test may stand a table behind it.
 *
 *     redis_send, redis_run (a script) -> queued, pipelined -> reply, LATE, LOST -> call->done
 *                                       `-> DOWN at once: no connection, or the breaker is open
 *
 * A call ends exactly once: `done` from the loop, or redis_forget. LATE and LOST say nothing about whether Redis did what
 * it was asked, so whoever sends a change sends it again under the same name until it is answered. */
#ifndef TOLLGATE_BASE_REDIS_H
#define TOLLGATE_BASE_REDIS_H

#include "gateway/base/list.h"
#include "gateway/base/span.h"

enum redis_kind { REDIS_NIL, REDIS_INTEGER, REDIS_TEXT, REDIS_STATUS, REDIS_ERROR, REDIS_ARRAY };
struct redis_value { /* lives until `done` returns */
    enum redis_kind kind;
    int64_t number;   /* INTEGER */
    struct span text; /* TEXT, STATUS, ERROR ("NOSCRIPT No matching script.") */
    const struct redis_value *items;
    size_t n; /* ARRAY */
};

enum redis_fault {
    REDIS_OK,
    REDIS_DOWN, /* never sent: there is no connection, or the breaker is open */
    REDIS_LATE, /* no answer in time */
    REDIS_LOST, /* the connection closed before the answer */
};
extern const char *const redis_fault_names[];

struct redis_call { /* in its owner's op, where it stays until it ended; zeroed but for `done` and `until_us` */
    /* From the loop, never inside the sending. `reply` is NULL when `fault` is not REDIS_OK; an error that Redis answered
     * is a reply. */
    void (*done)(struct redis_call *call, const struct redis_value *reply);
    int64_t
        until_us; /* monotone: when it is LATE; 0: redis.timeout from now. All calls of one request share one instant */
    enum redis_fault fault;
    /* private */
    struct link in_flight;
    bool open;
    void *inside;
};

struct redis_script { /* static; EVALSHA, and EVAL where Redis has lost it */
    const char *name; /* for the log */
    const char *text; /* Lua */
    char sha1[41];    /* filled at its first use */
};

/* Told of each connection before anything else is sent over it: whoever keeps state there looks whether it is still the
 * same Redis with the same data. */
struct redis_watcher {
    struct link in_watchers;
    void (*on_up)(struct redis_watcher *w);
    void (*on_down)(struct redis_watcher *w);
};

struct redis;
struct redis_ops {
    bool (*send)(struct redis *r, struct redis_call *call, size_t argc, const struct span *argv);
    bool (*run)(struct redis *r, struct redis_call *call, struct redis_script *script, size_t n_keys, size_t argc,
                const struct span *argv);
    void (*forget)(struct redis *r, struct redis_call *call);
    void (*watch)(struct redis *r, struct redis_watcher *w);
    void (*unwatch)(struct redis *r, struct redis_watcher *w);
    bool (*up)(const struct redis *r);
};
struct redis { /* first member of what implements it */
    const struct redis_ops *ops;
    const char *prefix; /* redis.prefix: how every key begins. Owned by the implementation */
};

/* False: call->fault is REDIS_DOWN, and `done` is not called. argv is copied; argv[1] names the key that the command is
 * about, for a cluster. */
static inline bool redis_send(struct redis *r, struct redis_call *call, size_t argc, const struct span *argv) {
    return r->ops->send(r, call, argc, argv);
}
/* argv: n_keys keys, then arguments. In a cluster all keys of one script share one hash tag. */
static inline bool redis_run(struct redis *r, struct redis_call *call, struct redis_script *script, size_t n_keys,
                             size_t argc, const struct span *argv) {
    return r->ops->run(r, call, script, n_keys, argc, argv);
}
/* The caller goes away: what was sent may still be done, and nobody is told. Nothing when the call is not open. */
static inline void redis_forget(struct redis *r, struct redis_call *call) {
    r->ops->forget(r, call);
}
static inline void redis_watch(struct redis *r, struct redis_watcher *w) {
    r->ops->watch(r, w);
}
static inline void redis_unwatch(struct redis *r, struct redis_watcher *w) {
    r->ops->unwatch(r, w);
}
static inline bool redis_up(const struct redis *r) {
    return r->ops->up(r);
}

#endif
