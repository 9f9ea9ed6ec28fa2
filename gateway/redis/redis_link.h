/* What the files of the link share: redis.c (the door), redis_greet.c (the first commands of a connection),
 * redis_sentinel.c (who is master), redis_cluster.c (whose slot). Nobody else includes it.
 *
 *     link -< node (one; a cluster's are added as its map names them, and stay)     link -< sentinel nodes */
#ifndef TOLLGATE_GATEWAY_REDIS_LINK_H
#define TOLLGATE_GATEWAY_REDIS_LINK_H

#include "gateway/redis/redis.h"
#include "gateway/redis/redis_node.h"

#define NODES_MAX 64 /* masters of a cluster that are spoken to */
#define SENTINELS_MAX 8
#define SLOTS 16384 /* of every Redis cluster */
#define NO_NODE 255
#define ERROR_KINDS 9

struct redis_vote {
    struct redis_place place;
    int64_t at_us; /* 0: none */
};

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

    struct event *tick; /* owned; NULL: one server, which needs none */

    struct {                                     /* n == 0: there are no sentinels */
        struct redis_node *nodes[SENTINELS_MAX]; /* owned */
        struct redis_vote votes[SENTINELS_MAX];  /* the last answer of each */
        size_t n;
        char *master, *user, *password; /* owned */
        bool known;                     /* master_at is where they say it is */
        struct redis_place master_at;
    } sentinel;

    struct {
        bool on;
        bool mapped; /* slots are what the cluster said */
        bool asking; /* CLUSTER SLOTS is out */
        bool dirty;  /* a node said that the map is old */
        int64_t asked_us;
        uint8_t slots[SLOTS]; /* index of a node, or NO_NODE */
    } cluster;
};

must_check bool place_read(struct span text, struct redis_place *out); /* "host:port", "[v6]:port", "/path" */
must_check bool place_of(struct span host, struct span port, struct redis_place *out);
bool place_equal(const struct redis_place *a, const struct redis_place *b);
struct redis_node *link_new_node(struct redis_link *l, const struct redis_place *at, const struct redis_node_ops *ops);
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

/* redis_sentinel.c */
bool sentinel_add(struct redis_link *l, struct span address); /* false: wrong, or one too many */
bool sentinel_locate(struct redis_node *n, const char **why);
void sentinel_tick(struct redis_link *l);

/* redis_cluster.c */
int cluster_slot(struct span key);
struct redis_node *cluster_node(struct redis_link *l, int slot); /* slot -1: any; NULL: none is up */
void cluster_node_up(struct redis_node *n);
void cluster_tick(struct redis_link *l);
void cluster_asking(struct redis_node *n); /* before a command that ASK led there */
/* An error that says to ask elsewhere: true when that is done, and the ask is the other node's. */
bool cluster_redirect(struct redis_node *n, struct redis_ask *a, const struct redis_value *error);

#endif
