/* One socket. Always true: event callbacks only set flags and wake; a closed conn has fd -1, no buffers' bytes and no TLS
 * state, and every call on it is a quiet no-op; `in` never holds more than in_max and one read. */
#include "gateway/net/conn.h"

#include "gateway/base/clock.h"
#include "gateway/net/tls.h"

#include <assert.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#define READ_BYTES (64 * 1024)      /* one read */
#define TURN_BYTES (4 * READ_BYTES) /* of one socket in one turn: a fast peer does not starve the others */
#define IOV_MAX_HERE 16
#define KEEPALIVE_IDLE_S 60 /* a peer whose machine vanished is noticed within 90 s of silence */
#define KEEPALIVE_STEP_S 10
#define KEEPALIVE_TRIES 3

static char scratch[READ_BYTES]; /* one loop thread a process */
static int64_t buffered_bytes;

static void count(struct evbuffer *b, const struct evbuffer_cb_info *info, void *arg) {
    (void)b, (void)arg;
    buffered_bytes += (int64_t)info->n_added - (int64_t)info->n_deleted;
}

struct evbuffer *counted_new(void) {
    struct evbuffer *b = evbuffer_new();
    assert(b);
    struct evbuffer_cb_entry *entry = evbuffer_add_cb(b, count, NULL);
    assert(entry);
    return b;
}

void counted_free(struct evbuffer *b) {
    if (!b)
        return;
    evbuffer_drain(b, evbuffer_get_length(b));
    evbuffer_free(b);
}

void counted_add(int64_t bytes) {
    buffered_bytes += bytes;
}

int64_t http_buffered_bytes(void) {
    return buffered_bytes;
}

bool error_is_local(int error) {
    return error == EMFILE || error == ENFILE || error == ENOBUFS || error == ENOMEM || error == EADDRNOTAVAIL ||
           error == EAGAIN;
}

void socket_setup(int fd, bool keep_alive) {
    int one = 1, idle = KEEPALIVE_IDLE_S, step = KEEPALIVE_STEP_S, tries = KEEPALIVE_TRIES;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    if (!keep_alive)
        return;
    setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &one, sizeof one);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof idle);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &step, sizeof step);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &tries, sizeof tries);
}

/* An RST arrives as readable and writable and says nothing more; poll tells without taking the error away. */
static void look_for_hangup(struct conn *c) {
    struct pollfd p = {.fd = c->fd, .events = POLLRDHUP};
    if (!c->connecting && poll(&p, 1, 0) > 0 && (p.revents & (POLLERR | POLLHUP | POLLRDHUP)))
        c->hup = true;
}

static void on_socket(evutil_socket_t fd, short what, void *arg) {
    struct conn *c = arg;
    (void)fd;
    if (what & (EV_READ | EV_CLOSED))
        c->readable = true;
    if (what & EV_WRITE)
        c->writable = true;
    if (what & EV_CLOSED)
        c->hup = true;
    else if (c->paused || evbuffer_get_length(c->in) >= c->in_max)
        look_for_hangup(c);
    turn_wake(c->turn, &c->item);
}

void conn_init(struct conn *c, struct turn *t, int fd, bool connecting, size_t in_max) {
    struct event_base *base = event_get_base(&t->ev);
    c->turn = t;
    c->fd = fd;
    c->connecting = connecting;
    c->in_max = in_max;
    c->in = counted_new();
    c->out = counted_new();
    c->moved_us = clock_mono_us();
    alarm_init(&c->alarm, t, &c->item);
    int wrong = event_assign(&c->ev, base, fd, EV_READ | EV_WRITE | EV_CLOSED | EV_ET | EV_PERSIST, on_socket, c);
    assert(!wrong);
    wrong = event_add(&c->ev, NULL);
    assert(!wrong);
}

static void ended(struct conn *c, enum conn_end end, int error, const char *why) {
    if (c->end != CONN_OPEN)
        return;
    c->end = end;
    c->error = error;
    snprintf(c->why, sizeof c->why, "%s", why);
    if (end == CONN_RESET || end == CONN_REFUSED || end == CONN_TLS_BAD)
        c->hup = true;
}

static void finish_connect(struct conn *c) {
    int error = 0;
    socklen_t n = sizeof error;
    if (!c->writable && !c->readable)
        return;
    getsockopt(c->fd, SOL_SOCKET, SO_ERROR, &error, &n);
    c->connecting = false;
    if (error)
        ended(c, CONN_REFUSED, error, strerror(error));
    c->moved_us = clock_mono_us();
}

/* ---- TLS over memory BIOs ---- */

static void take_wire(struct conn *c) {
    char *at;
    long n = BIO_get_mem_data(SSL_get_wbio(c->ssl), &at);
    if (n <= 0)
        return;
    evbuffer_add(c->wire, at, (size_t)n);
    (void)BIO_reset(SSL_get_wbio(c->ssl));
}

static void tls_failed(struct conn *c, int result) {
    int kind = SSL_get_error(c->ssl, result);
    take_wire(c);
    if (kind == SSL_ERROR_WANT_READ || kind == SSL_ERROR_WANT_WRITE)
        return;
    if (kind == SSL_ERROR_ZERO_RETURN) {
        ended(c, CONN_EOF, 0, "closed by the peer");
        return;
    }
    char why[sizeof c->why];
    tls_error_text(c->ssl, why, sizeof why);
    ended(c, CONN_TLS_BAD, 0, why);
}

static void shake_hands(struct conn *c) {
    ERR_clear_error();
    int r = SSL_do_handshake(c->ssl);
    take_wire(c);
    if (r == 1)
        c->handshaking = false;
    else
        tls_failed(c, r);
}

static void decrypt(struct conn *c) {
    static char plain[READ_BYTES / 4]; /* a TLS record */
    while (c->end == CONN_OPEN && !c->handshaking) {
        ERR_clear_error();
        int n = SSL_read(c->ssl, plain, sizeof plain);
        if (n <= 0) {
            tls_failed(c, n);
            return;
        }
        evbuffer_add(c->in, plain, (size_t)n);
        c->n_read += (uint64_t)n;
    }
}

static void take_cipher(struct conn *c, const char *at, size_t n) {
    int written = BIO_write(SSL_get_rbio(c->ssl), at, (int)n);
    assert(written == (int)n);
    if (c->handshaking)
        shake_hands(c);
    decrypt(c);
}

void conn_start_tls(struct conn *c, SSL *ssl, bool server) {
    BIO *in = BIO_new(BIO_s_mem()), *out = BIO_new(BIO_s_mem());
    assert(in && out);
    BIO_set_mem_eof_return(in, -1);
    SSL_set_bio(ssl, in, out);
    if (server)
        SSL_set_accept_state(ssl);
    else
        SSL_set_connect_state(ssl);
    c->ssl = ssl;
    c->wire = counted_new();
    c->handshaking = true;
    turn_wake(c->turn, &c->item);
}

static void encrypt(struct conn *c) {
    static char plain[READ_BYTES / 4];
    while (!c->handshaking && c->end != CONN_TLS_BAD && evbuffer_get_length(c->wire) < READ_BYTES) {
        ev_ssize_t n = evbuffer_copyout(c->out, plain, sizeof plain);
        if (n <= 0)
            return;
        ERR_clear_error();
        int written = SSL_write(c->ssl, plain, (int)n);
        if (written <= 0) {
            tls_failed(c, written);
            return;
        }
        evbuffer_drain(c->out, (size_t)written);
        take_wire(c);
    }
}

/* ---- the socket ---- */

static void took_bytes(struct conn *c, const char *at, size_t n) {
    c->moved_us = clock_mono_us();
    if (c->ssl) {
        take_cipher(c, at, n);
        return;
    }
    evbuffer_add(c->in, at, n);
    c->n_read += n;
}

static void read_failed(struct conn *c, ssize_t n, int error) {
    c->readable = n < 0 && error == EINTR;
    if (n == 0) {
        c->hup = true;
        ended(c, c->ssl ? CONN_CUT : CONN_EOF, 0, c->ssl ? "closed without close_notify" : "closed by the peer");
    } else if (error != EAGAIN && error != EINTR) {
        ended(c, CONN_RESET, error, strerror(error));
    }
}

/* Until the socket itself says that it is empty: a short read proves nothing, because one edge may announce both the last
 * bytes and the RST behind them, and no second edge would come. */
static void read_socket(struct conn *c) {
    size_t total = 0;
    while (c->readable && !c->paused && c->end == CONN_OPEN && evbuffer_get_length(c->in) < c->in_max) {
        if (total >= TURN_BYTES) {
            turn_wake(c->turn, &c->item);
            return;
        }
        size_t room = c->in_max - evbuffer_get_length(c->in);
        size_t asked = room < sizeof scratch ? room : sizeof scratch;
        ssize_t n = recv(c->fd, scratch, asked, 0);
        if (n <= 0) {
            read_failed(c, n, errno);
            continue;
        }
        total += (size_t)n;
        took_bytes(c, scratch, (size_t)n);
    }
}

/* What was read before the peer refused our bytes may hold its answer, so reading goes on. */
static void write_failed(struct conn *c, int error) {
    if (error == EINTR)
        return;
    c->writable = false;
    if (error == EAGAIN)
        return;
    c->broken = c->readable = true;
    c->error = error;
    evbuffer_drain(c->out, evbuffer_get_length(c->out));
    if (c->wire)
        evbuffer_drain(c->wire, evbuffer_get_length(c->wire));
    turn_wake(c->turn, &c->item);
}

static bool write_some(struct conn *c, struct evbuffer *from) {
    struct evbuffer_iovec iov[IOV_MAX_HERE];
    struct iovec vec[IOV_MAX_HERE];
    int n = evbuffer_peek(from, -1, NULL, iov, IOV_MAX_HERE);
    if (n > IOV_MAX_HERE)
        n = IOV_MAX_HERE;
    for (int i = 0; i < n; i++)
        vec[i] = (struct iovec){iov[i].iov_base, iov[i].iov_len};
    struct msghdr m = {.msg_iov = vec, .msg_iovlen = (size_t)n};
    ssize_t sent = sendmsg(c->fd, &m, MSG_NOSIGNAL);
    if (sent < 0) {
        write_failed(c, errno);
        return false;
    }
    evbuffer_drain(from, (size_t)sent);
    c->moved_us = clock_mono_us();
    return true;
}

void conn_flush(struct conn *c) {
    if (c->fd < 0 || c->connecting)
        return;
    struct evbuffer *from = c->ssl ? c->wire : c->out;
    for (;;) {
        if (c->broken || c->end == CONN_RESET)
            evbuffer_drain(c->out, evbuffer_get_length(c->out));
        if (c->ssl)
            encrypt(c);
        if (!c->writable || c->broken || !evbuffer_get_length(from))
            return;
        if (!write_some(c, from) && !c->writable)
            return;
    }
}

void conn_io(struct conn *c) {
    if (c->fd < 0)
        return;
    if (c->connecting)
        finish_connect(c);
    if (c->connecting || c->end == CONN_REFUSED)
        return;
    if (c->ssl && c->handshaking && c->end == CONN_OPEN)
        shake_hands(c);
    read_socket(c);
    conn_flush(c);
}

/* No event comes for bytes that were already announced, so whoever makes room asks for another round. */
void conn_pause(struct conn *c, bool paused) {
    c->paused = paused;
    if (c->fd >= 0 && !paused && c->readable && c->end == CONN_OPEN)
        turn_wake(c->turn, &c->item);
}

size_t conn_unsent(const struct conn *c) {
    if (c->fd < 0)
        return 0;
    return evbuffer_get_length(c->out) + (c->wire ? evbuffer_get_length(c->wire) : 0);
}

void conn_finish(struct conn *c) {
    if (c->fd < 0)
        return;
    if (c->ssl && !c->handshaking && c->end != CONN_TLS_BAD) {
        ERR_clear_error();
        SSL_shutdown(c->ssl);
        take_wire(c);
        conn_flush(c);
    }
    shutdown(c->fd, SHUT_WR);
}

void conn_close(struct conn *c, bool reset) {
    if (c->fd < 0)
        return;
    struct linger at_once = {1, 0};
    alarm_fini(&c->alarm);
    event_del(&c->ev);
    if (reset)
        setsockopt(c->fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
    close(c->fd);
    c->fd = -1;
    /* A session that ended without close_notify is still good to resume: the streams above have their own framing. */
    if (c->ssl)
        SSL_set_shutdown(c->ssl, SSL_SENT_SHUTDOWN | SSL_RECEIVED_SHUTDOWN);
    SSL_free(c->ssl);
    counted_free(c->in);
    counted_free(c->out);
    counted_free(c->wire);
    c->ssl = NULL;
    c->in = c->out = c->wire = NULL;
}
