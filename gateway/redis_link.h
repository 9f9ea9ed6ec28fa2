/* What the files of the link share: redis.c (the door), redis_greet.c (the first commands of a connection),
 * redis_sentinel.c (who is master), redis_cluster.c (whose slot). Nobody else includes it.
 *
 *     link -< node (one; a cluster's are added as its map names them, and stay)     link -< sentinel nodes */
#ifndef TOLLGATE_GATEWAY_REDIS_LINK_H
#define TOLLGATE_GATEWAY_REDIS_LINK_H

#include "gateway/redis.h"
#include "gateway/redis_node.h"

#define NODES_MAX 64 /* masters of a cluster that are spoken to */
#define SENTINELS_MAX 8
#define SLOTS 16384 /* of every Redis cluster */
#define ERROR_KINDS 9

struct redis_link {
    struct redis base; /* first */
    struct turn turn;
    struct resolver *resolver;
    SSL_CTX *tls;                 /* owned; NULL: plain */
    char *user, *password, *name; /* owned; NULL: none */
    char *prefix;                 /* owned */
    int database;
    int64_t timeout_us, connect_us;
    struct list watchers;
    struct redis_node *nodes[NODES_MAX]; /* owned */
    size_t n_nodes;
    bool closing;
    struct log_gate errors[ERROR_KINDS];

    struct {                                     /* sentinel: n == 0: none */
        struct redis_node *nodes[SENTINELS_MAX]; /* owned */
        size_t n, at;                            /* at: who is asked next */
        char *master, *user, *password;          /* owned */
        bool known;                              /* `master_at` is what a sentinel said */
        struct redis_place master_at;
        int64_t asked_us;
        struct event *poll; /* owned */
    } sentinel;

    struct { /* cluster */
        bool on, mapped, asking;
        uint8_t slots[SLOTS]; /* index of a node */
        int64_t asked_us;
    } cluster;
};

must_check bool place_read(struct span text, struct redis_place *out);
struct redis_node *link_add_node(struct redis_link *l, const struct redis_place *at); /* NULL: NODES_MAX */
bool link_up(const struct redis_link *l);
void link_tell(struct redis_link *l, bool up);
enum redis_keep link_call_answered(struct redis_node *n, struct redis_ask *a, const struct redis_value *reply);

/* redis_greet.c */
void link_greet(struct redis_node *n);
void greet_auth(struct redis_node *n, const char *user, const char *password);
void greet_ping(struct redis_node *n);
/* The first words of an error, for a sentence. */
const char *error_text(const struct redis_value *reply, char out[REDIS_WHY_MAX]);

#endif
