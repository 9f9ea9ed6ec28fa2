/* The link to Redis: what stands behind the door of gateway/base/redis.h. One server, the master that sentinels name, or
 * the nodes of a cluster; kept up by itself, whatever happens to them. */
#ifndef TOLLGATE_GATEWAY_REDIS_H
#define TOLLGATE_GATEWAY_REDIS_H

#include "gateway/base/loop.h"
#include "gateway/base/redis.h"

struct redis_options {   /* strings are borrowed and copied */
    const char *address; /* "host:port", "[v6]:port", or "/path" of a unix socket */
    bool tls;
    const char *ca_file;         /* NULL: the system's roots */
    const char *user, *password; /* NULL: none */
    int database;
    const char *prefix;
    const char *name; /* what CLIENT LIST shows */
    int64_t timeout_us, connect_us;
    const char *const *sentinels; /* addresses; n_sentinels 0: no sentinel */
    size_t n_sentinels;
    const char *master, *sentinel_user, *sentinel_password;
    bool cluster;
    const char *const *seeds; /* further addresses of a cluster's nodes */
    size_t n_seeds;
};

/* NULL with a sentence in `why` when the options are wrong; a server that is not there is none of them. */
must_check struct redis *redis_open(struct loop *loop, const struct redis_options *o, struct str *why);
void redis_close(struct redis *r); /* nobody is told; NULL allowed */
/* Members of a JSON object: state (up, down), server, why (of the last failure, while down), late, lost, refused. */
void redis_put(const struct redis *r, struct str *json);

#endif
