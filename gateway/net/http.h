/* HTTP as exchanges: a head, a body pulled, an end or a reset with a reason. Never connections: HTTP/1.1 and, later,
 * HTTP/2 are codecs behind these two halves.
 *
 *   towards clients    front_listen -> on_head(x) -> exchange_* -> exchange_close(x)
 *   towards providers  call_open -> on_change(c) -> http_call_* -> http_call_close(c)
 *
 * Callbacks say only that something changed; nothing is freed inside them. Every exchange and call is closed exactly once
 * by its user. Bodies are pulled: what is not taken is not read from the socket past HTTP_WINDOW bytes. */
#ifndef TOLLGATE_GATEWAY_HTTP_H
#define TOLLGATE_GATEWAY_HTTP_H

#include "gateway/base/err.h"
#include "gateway/base/loop.h"
#include "gateway/base/mem.h"

struct evbuffer;

#define HTTP_WINDOW (64 * 1024)         /* bytes of a body that may wait untaken */
#define HTTP_FIELDS_MAX 100             /* header fields of one head */
#define HTTP_TARGET_MAX (8 * 1024)      /* bytes of a request target: 414 */
#define HTTP_STRANGER_DRAIN (64 * 1024) /* bytes of an unwanted body that are read before the connection closes */

struct http_field {
    struct span name, value; /* value trimmed; name as sent: compare without case */
};
struct http_head {
    struct span method, path, query; /* request; path is as sent, still percent-encoded; query without '?' */
    int status;                      /* response */
    struct http_field *fields;
    size_t n_fields;
    int64_t content_length; /* -1: none said */
    bool has_body, chunked;
};
/* The value of a field, at == NULL if absent; *n (may be NULL) tells how often it stands there. */
struct span http_field_get(const struct http_head *h, const char *name, int *n);

/* Bytes that all connections, exchanges and calls of this process hold in memory; back at its start when all are idle. */
int64_t http_buffered_bytes(void);

/* ---- sans-I/O codec of HTTP/1.1 (gateway/net/http1.c): bytes in, head or body spans out; no sockets, fuzzed ---- */
enum http1_result { HTTP1_MORE, HTTP1_HEAD, HTTP1_BODY, HTTP1_END, HTTP1_BAD };
struct http1 {
    bool response;     /* which side of a message this reads */
    bool head_request; /* response to HEAD: no body */
    size_t max_head;   /* bytes; over it ERR_HEADERS */
    enum err err;      /* why HTTP1_BAD: ERR_BAD_REQUEST, ERR_HEADERS, ERR_URI_TOO_LONG, ERR_VERSION */
    const char *what;  /* static sentence for HTTP1_BAD */
    bool keep_alive;   /* after this message */
    bool expect_continue;
    bool http10;
    struct span authority; /* of an absolute-form target: equal to Host; empty otherwise */
    struct http_head head; /* spans into `bytes` given to the HTTP1_HEAD call */
    struct http_field fields[HTTP_FIELDS_MAX];
    int state;
    int64_t left; /* of the body or chunk; -1: until close */
    size_t line_bytes, scanned;
};
void http1_init(struct http1 *h, bool response, size_t max_head);
/* Reads from `bytes`; *used says how many are done with. HTTP1_MORE: give more bytes; within the head *used is then 0
 * and the next call begins at the same byte; within a body all bytes given are done with. HTTP1_BODY: *body is a span of decoded body bytes. After HTTP1_END call http1_init for the next message.
 * `eof`: no more bytes will come. */
enum http1_result http1_read(struct http1 *h, struct span bytes, bool eof, size_t *used, struct span *body);

/* ---- towards clients ---- */
struct front; /* all listeners of this process */
struct exchange;

struct front_limits {
    int64_t max_headers;     /* bytes of one head: 431 */
    int64_t max_connections; /* above it a new connection is answered 503 and closed */
    int64_t head_timeout_us; /* from the first byte of a head to its end: 408, silent close before the first byte */
    int64_t idle_timeout_us; /* keep-alive between requests */
    int64_t body_timeout_us; /* silence while a wanted body is awaited: 408 through on_change and exchange_failed */
};
struct front_ops {
    /* A whole request head has arrived. The user owns x from here to exchange_close. */
    void (*on_head)(struct exchange *x, void *user);
    /* Framing is broken, a limit is hit or the head did not come in time: there is no request. The user writes the
     * error body (dialect by path if one is known, else OpenAI) into `body`; the front sends it and closes. */
    void (*on_bad)(struct exchange *x, enum err err, const char *what, struct str *body, void *user);
    /* Body bytes, body end, room to write, all written, client gone: look at x. Coalesced per turn. */
    void (*on_change)(struct exchange *x, void *user);
};
struct front *front_new(struct loop *loop, const struct front_limits *limits, const struct front_ops *ops, void *user);
/* "127.0.0.1:8080", "[::1]:0", "unix:/path"; certificate and key files for TLS, or NULL. False with a sentence in why. */
must_check bool front_listen(struct front *f, const char *address, const char *certificate, const char *private_key,
                             struct str *why);
/* A socket that somebody else opened and keeps: the front accepts from it, and closes its own descriptor. */
struct listening;
must_check bool front_adopt(struct front *f, const struct listening *s, const char *certificate,
                            const char *private_key, struct str *why);
/* The address really bound ("127.0.0.1:43211"), by listener index. */
const char *front_address(const struct front *f, size_t i);
void front_set_limits(struct front *f, const struct front_limits *limits); /* after a reload: for new connections */
void front_stop_listening(
    struct front *f); /* drain: no new connections; idle ones close; others close after their answer */
size_t front_connections(const struct front *f);
size_t front_leaving(const struct front *f); /* connections on which the end of an answer is still on its way */
void front_free(struct front *f);            /* closes what is left */

const struct http_head *exchange_head(const struct exchange *x); /* valid until exchange_close */
const char *exchange_client(const struct exchange *x);           /* "127.0.0.1:5123" or "unix" */
bool exchange_loopback(const struct exchange *x);       /* the listener's address is loopback or a unix socket */
void exchange_set_user(struct exchange *x, void *user); /* one pointer; NULL at first */
void *exchange_user(const struct exchange *x);
/* The body is wanted: 100-continue is answered, reading begins. Before that no body byte is read. */
void exchange_want_body(struct exchange *x);
struct evbuffer *exchange_body(struct exchange *x); /* decoded bytes; the user drains it */
void exchange_took_body(struct exchange *x);        /* after draining: reading goes on */
bool exchange_body_ended(const struct exchange *x);
enum err exchange_failed(const struct exchange *x); /* ERR_NONE; a body error: ERR_BAD_REQUEST, ERR_REQUEST_TIMEOUT */
bool exchange_gone(const struct exchange *x);       /* the client left (RST, or FIN after its request) */
/* Answer. content_length -1: chunked (HTTP/1.0: until close). date, connection, transfer-encoding and content-length are
 * the front's. Body bytes to HEAD requests are swallowed. */
void exchange_send_head(struct exchange *x, int status, const struct http_field *fields, size_t n,
                        int64_t content_length);
void exchange_send(struct exchange *x, struct span bytes); /* copied */
size_t exchange_unsent(const struct exchange *x);          /* bytes not yet in the kernel */
/* The last byte was given. keep: whether the connection may serve another request (an unread body closes it after at
 * most HTTP_STRANGER_DRAIN bytes). The exchange is still the user's until exchange_close. */
void exchange_end(struct exchange *x, bool keep);
/* The user lets go; unsent bytes of an ended answer still go out. Not ended: the connection is reset. */
void exchange_close(struct exchange *x);

/* ---- towards providers ---- */
struct pool; /* keep-alive connections by (tls, host, port, ca, proxy); resolver threads and their cache */
struct http_call;

struct http_target {
    bool tls;
    const char *host;
    int port;
    const char *ca_file; /* NULL: system roots */
    const char *proxy;   /* "http://host:port", NULL: none. TLS through CONNECT */
    const char *path;    /* of a unix socket, which is used instead of host and port; NULL: none */
};
enum http_failure {
    HTTP_FAIL_NONE,
    HTTP_FAIL_RESOLVE,
    HTTP_FAIL_CONNECT,
    HTTP_FAIL_TLS,
    HTTP_FAIL_CONNECT_TIMEOUT,
    HTTP_FAIL_FIRST_TIMEOUT,
    HTTP_FAIL_IDLE_TIMEOUT,
    HTTP_FAIL_TOTAL_TIMEOUT,
    HTTP_FAIL_RESET, /* before or in the answer */
    HTTP_FAIL_FRAMING,
    HTTP_FAIL_CODING,
    HTTP_FAIL_LOCAL, /* sockets, ports or memory of this machine */
};
extern const char *const http_failure_names[]; /* "resolve", "connect", ... */

struct http_call_options {
    struct http_target target;
    struct span method, path;        /* path with query */
    const struct http_field *fields; /* host, content-length, connection, accept-encoding are the call's own */
    size_t n_fields;
    const struct span *body; /* pieces; they must live until http_call_close; n 0: no body */
    size_t n_body;
    int64_t connect_us, first_us, idle_us,
        total_us; /* first_us: until the first body byte (SSE comments count for idle only) */
    void (*on_change)(struct http_call *c, void *user); /* coalesced per turn, never inside http_call_open */
    void *user;
};
struct pool *pool_new(struct loop *loop);
void pool_free(struct pool *p);
/* Never NULL: what goes wrong is told by on_change. A request sent on a reused connection that closed before any answer
 * byte is sent again once, on a fresh one: the same call. */
struct http_call *http_call_open(struct pool *p, const struct http_call_options *o);
const struct http_head *http_call_head(const struct http_call *c); /* NULL until the answer's head is there */
struct evbuffer *http_call_body(struct http_call *c); /* decoded (gzip and deflate too, bounded); the user drains it */
void http_call_took_body(struct http_call *c);        /* after draining: reading goes on */
bool http_call_ended(const struct http_call *c);      /* the answer is whole */
enum http_failure http_call_failed(const struct http_call *c);
const char *http_call_failure_text(const struct http_call *c); /* detail for the log: no secrets */
bool http_call_sent(const struct http_call *c);                /* request bytes may have reached the provider */
/* Content has come (the user saw a first event): the first_us clock stops, idle_us goes on. */
void http_call_progress(struct http_call *c);
void http_call_close(struct http_call *c); /* unfinished: the connection is closed at once */

/* ---- server-sent events (gateway/net/frame.c): WHATWG HTML, "event stream interpretation"; no I/O ---- */
#define FRAME_MAX (16 << 20) /* bytes of one event's data */
struct frame_reader {
    struct str line, data, name;
    bool bom_done, skip_lf, has_data;
    int bom_seen;
    bool dispatched; /* the last frame given must be cleared before the next byte */
    size_t comments; /* comment lines seen */
};
void frame_init(struct frame_reader *f);
void frame_fini(struct frame_reader *f);
enum frame_result { FRAME_MORE, FRAME_READY, FRAME_TOO_LARGE };
/* Eats bytes up to and including the end of one event; *used says how many. FRAME_READY: f->name and f->data hold the
 * event until the next call. Comments, ids and retry lines are dropped. */
enum frame_result frame_read(struct frame_reader *f, struct span bytes, size_t *used);
/* At a clean end of the body: an event that only lacks its blank line. */
bool frame_rest(struct frame_reader *f);

#endif
