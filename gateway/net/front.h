/* What front.c, front_client.c and front_exchange.c share; nobody else includes it.
 *
 *   front ──< listener          a listening socket
 *     └────< client             one connection:  IDLE > HEAD > BUSY > FLUSH > IDLE ...
 *              └── exchange                                          └──> LINGER > closed
 *
 * IDLE: no byte of a head. HEAD: some. BUSY: the user has the exchange. FLUSH: the user let go; its last bytes leave and
 * an unread body is passed over. LINGER: we have said our last; what the client still sends is dropped for a while, so
 * that it can read the answer. A client has at most one exchange: the next head is read when the former answer is out. */
#ifndef TOLLGATE_GATEWAY_FRONT_H
#define TOLLGATE_GATEWAY_FRONT_H

#include "gateway/base/log.h"
#include "gateway/net/conn.h"

#define PEER_TEXT_MAX 64
#define LISTENERS_MAX 16
/* After the last byte of an answer a client has this long to read it before the socket is closed. */
#define LINGER_US INT64_C(2000000)
/* A caller who was let in may still be sending what is refused (413): that much is passed over, a stranger gets
 * HTTP_STRANGER_DRAIN. */
#define CALLER_DRAIN (32 * 1024 * 1024)
#define OVER_LIMIT_MAX 64 /* connections above the limit that are told so; further ones are closed at once */

struct listener {
    struct front *front;
    struct event ev;
    int fd;            /* -1: closed */
    char address[128]; /* as bound */
    char *path;        /* owned; of a unix socket, or NULL */
    SSL_CTX *tls;      /* owned; NULL: plain */
    bool loopback;
};

struct front {
    struct turn turn;
    struct front_limits limits;
    struct front_ops ops;
    void *user;
    struct listener listeners[LISTENERS_MAX];
    size_t n_listeners;
    struct event resume; /* listeners pause when descriptors run out */
    struct log_gate out_of_sockets;
    struct list clients;
    bool stopping;
};

struct exchange {
    struct turn_item item; /* for its burial */
    struct client *client; /* borrowed; NULL: the connection is closed */
    struct front *front;
    void *user;
    struct http1 http; /* its head borrows from head_bytes */
    char *head_bytes;  /* owned */
    size_t n_head;
    struct evbuffer *body; /* owned, counted; NULL until asked for */
    char peer[PEER_TEXT_MAX];
    enum err failed;
    int64_t left_out; /* bytes of the announced length still to be sent; -1: no length */
    bool loopback;
    bool wanted, body_ended, gone;
    bool head_sent, chunked_out, swallow;
    bool ended, keep, closed;
    bool changed; /* on_change is due */
};

enum client_state { CLIENT_IDLE, CLIENT_HEAD, CLIENT_BUSY, CLIENT_FLUSH, CLIENT_LINGER };

struct client {
    struct conn conn;
    struct front *front;
    struct link all;
    struct exchange *x; /* owned unless the user has it */
    enum client_state state;
    int64_t since_us;   /* the state began, or its body last moved */
    size_t passed_over; /* bytes of an unwanted body */
    size_t seen_unsent;
    bool served; /* an answer has gone out before */
    bool loopback;
    char peer[PEER_TEXT_MAX];
};

void client_new(struct front *f, struct listener *l, int fd, const char *peer);
void client_drop(struct client *c, bool reset); /* closes and buries; its exchange, if the user has it, learns it */
void client_set_state(struct client *c, enum client_state s);

struct exchange *exchange_new(struct client *c);
void exchange_bury(struct exchange *x);
void exchange_keep_head(struct exchange *x, size_t n); /* the first n bytes of the connection's input are the head */
void exchange_take_body(struct exchange *x, bool drop);
void exchange_send_bad(struct exchange *x, enum err err, const char *what);
void exchange_free(struct exchange *x);

#endif
