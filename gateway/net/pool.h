/* What pool.c and the call files share; nobody else includes it.
 *
 *   pool ──< origin      one (tls, host, port, ca, proxy): its idle connections and its TLS session
 *              └──< up   one connection: idle in the origin's list, or lent to one call
 *   call:  START > RESOLVE > CONNECT [> PROXY] [> HANDSHAKE] > TALK > OVER      (a reused connection: START > TALK)
 *          TALK > START once, when a reused connection had died before any byte of an answer */
#ifndef TOLLGATE_GATEWAY_POOL_H
#define TOLLGATE_GATEWAY_POOL_H

#include "gateway/base/map.h"
#include "gateway/net/conn.h"
#include "gateway/net/resolve.h"

#include <zlib.h>

#define IDLE_PER_ORIGIN_MAX 256     /* connections kept to one origin: a burst must not hold sockets for ever */
#define IDLE_US INT64_C(30000000)   /* kept unused so long: most servers keep theirs a little longer */
#define ANSWER_HEAD_MAX (64 * 1024) /* bytes of a provider's head */
#define ANSWER_IN_MAX (64 * 1024 + 4096)
#define INTERIM_MAX 16         /* 1xx answers before the real one: an endless row of them is an attack */
#define FEED_BYTES (64 * 1024) /* of a request's body in the connection's buffer */
#define CODED_MAX (64 * 1024)  /* compressed bytes that wait for room */

struct origin {
    struct pool *pool;
    struct http_target to; /* strings owned; proxy is not kept here */
    char *proxy_host;      /* owned; NULL: no proxy */
    int proxy_port;
    char *authority;      /* owned; "host:port", port left out when it is the default */
    SSL_CTX *tls;         /* borrowed from the pool; NULL: plain, or broken (then tls_why) */
    char *tls_why;        /* owned */
    SSL_SESSION *session; /* owned; may be NULL */
    struct list idle;     /* oldest first */
    size_t n_ups, n_calls;
};

struct up {
    struct conn conn;
    struct origin *origin;
    struct http_call *call; /* NULL: idle */
    struct link idle, all;
    int64_t idle_since_us;
};

struct pool {
    struct turn turn;
    struct resolver *resolver;
    struct map origins, contexts; /* by key; by ca_file ("" for the system's) */
    struct list ups, calls;
};

enum call_state { CALL_START, CALL_RESOLVE, CALL_CONNECT, CALL_PROXY, CALL_HANDSHAKE, CALL_TALK, CALL_OVER };
enum coding { CODING_NONE, CODING_ZLIB, CODING_UNKNOWN };

struct http_call {
    struct turn_item item;
    struct alarm alarm;
    struct link all;
    struct pool *pool;
    struct origin *origin;
    struct up *up; /* lent; NULL between connections */
    void (*on_change)(struct http_call *c, void *user);
    void *user;
    enum call_state state;

    char *request; /* owned: request line and fields */
    size_t n_request;
    struct span *body_out; /* owned array of borrowed pieces */
    size_t n_body_out, piece, piece_at;

    struct lookup lookup;
    int address; /* the next to be tried */

    struct http1 http;
    char *head_bytes; /* owned; NULL: no head yet */
    size_t n_head;
    int n_interim;
    uint64_t n_read_before; /* the connection's count when the request was sent */
    enum coding coding;
    z_stream *inflater;                                 /* owned; NULL: not needed */
    bool inflater_began, inflater_ended, inflater_full; /* full: it may hold more output */
    struct evbuffer *coded, *body_in;                   /* owned, counted */

    int64_t connect_us, first_us, idle_us, total_us; /* clocks; 0: off */
    int64_t opened_us, try_us, address_us, sent_us, room_us;
    enum http_failure failure;
    char why[192];
    bool reused, resent, sent, progressed, answer_read, ended, closed, changed, no_room;
};

/* pool.c */
struct origin *origin_get(struct pool *p, const struct http_target *t);
struct up *up_new(struct origin *o, int fd, bool connecting, struct http_call *c);
struct up *up_borrow(struct origin *o, struct http_call *c); /* an idle one, or NULL */
void up_give_back(struct up *u);                             /* keeps it for the next call */
void up_close(struct up *u);

/* call.c */
void call_run(struct http_call *c);
void call_fail(struct http_call *c, enum http_failure f, const char *format, ...) printf_like(3, 4);

/* call_connect.c */
void call_connect(struct http_call *c); /* a fresh connection */
void call_next_address(struct http_call *c, const char *why_last, int error_last);
void call_connect_step(struct http_call *c); /* CONNECT, PROXY, HANDSHAKE */

/* call_answer.c */
void call_talk(struct http_call *c); /* the request goes out, the answer comes in */
void call_talk_step(struct http_call *c);
void call_decode_rest(struct http_call *c); /* the connection is given back already; coded bytes wait for room */

/* call_request.c */
void call_write_request(struct http_call *c, const struct http_call_options *o);

#endif
