/* One socket, towards a client or a provider, plain or TLS: the same code either way.
 *
 *   event -> wake -> owner's run(): conn_io(c); look at c->in, c->end; write to c->out; conn_flush(c)
 *
 * The socket is watched edge-triggered and once for its life, so that a peer's leaving (FIN or RST) is seen also while
 * nothing is read and nothing is written. */
#ifndef TOLLGATE_GATEWAY_CONN_H
#define TOLLGATE_GATEWAY_CONN_H

#include "gateway/net/http.h"
#include "gateway/net/turn.h"

#include <event2/buffer.h>
#include <openssl/ssl.h>

enum conn_end {
    CONN_OPEN,
    CONN_EOF,   /* the peer ended its bytes in order and all of them are in `in` */
    CONN_CUT,   /* TLS without close_notify: whatever ends only by the connection's end is not whole */
    CONN_RESET, /* RST, or any error of a socket that was connected */
    CONN_REFUSED,
    CONN_TLS_BAD,
};

struct conn {
    struct turn_item item; /* run and dispose are the owner's */
    struct turn *turn;
    struct event ev;
    struct alarm alarm;
    int fd;                    /* -1: closed */
    SSL *ssl;                  /* owned; NULL: plain */
    struct evbuffer *in, *out; /* owned, counted; plain text */
    struct evbuffer *wire;     /* owned, counted; TLS only: cipher text not yet in the kernel */
    size_t in_max;             /* reading stops while `in` holds as much */
    int64_t moved_us;          /* when bytes last went either way */
    uint64_t n_read;           /* plain bytes read */
    bool connecting, handshaking;
    bool readable, writable;
    bool paused; /* by the owner: nothing is read */
    bool hup;    /* the peer has sent FIN or RST, perhaps behind bytes not yet read */
    bool broken; /* writing failed; what the peer still sent may be read */
    enum conn_end end;
    int error; /* errno behind `end`, or 0 */
    char why[120];
};

/* Takes a non-blocking socket. `connecting`: connect() is under way. */
void conn_init(struct conn *c, struct turn *t, int fd, bool connecting, size_t in_max);
void conn_start_tls(struct conn *c, SSL *ssl, bool server); /* takes ssl */
void conn_io(struct conn *c);                 /* connects, shakes hands, reads, writes: what can be done now */
void conn_flush(struct conn *c);              /* writes what can be written now */
void conn_pause(struct conn *c, bool paused); /* call with false also after taking bytes out of a full `in` */
size_t conn_unsent(const struct conn *c);
/* No byte will follow: close_notify and FIN. Call when conn_unsent is 0. */
void conn_finish(struct conn *c);
/* Closes the socket at once and drops the buffers; `reset` with RST. The struct stays until its item is buried. */
void conn_close(struct conn *c, bool reset);

/* Buffers whose bytes are part of http_buffered_bytes. */
struct evbuffer *counted_new(void);
void counted_free(struct evbuffer *b); /* NULL allowed */
void counted_add(int64_t bytes);       /* for memory that is no evbuffer */

/* errno values that mean this machine has run out of something, not that the peer is bad. */
bool error_is_local(int error);
void socket_setup(int fd, bool keep_alive); /* TCP_NODELAY, SO_KEEPALIVE; harmless on other kinds */

#endif
