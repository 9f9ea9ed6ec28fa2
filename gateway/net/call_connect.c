/* A call on its way to a connection: name, address after address, proxy, TLS. Always true: the connect clock of the call
 * covers all of it, each address but the last gets an equal share of what is left, and a fault of this machine is never
 * blamed on the provider. */
#include "gateway/base/clock.h"
#include "gateway/net/pool.h"
#include "gateway/net/tls.h"

#include <arpa/inet.h>
#include <errno.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

static void start_tls(struct http_call *c) {
    struct origin *o = c->origin;
    SSL *ssl = o->tls ? tls_client(o->tls, o->to.host, &o->session) : NULL;
    if (!ssl) {
        call_fail(c, HTTP_FAIL_TLS, "%s", o->tls_why ? o->tls_why : "TLS cannot be set up for this host");
        return;
    }
    conn_start_tls(&c->up->conn, ssl, false);
    c->state = CALL_HANDSHAKE;
}

static void ask_proxy(struct http_call *c) {
    const struct http_target *t = &c->origin->to;
    const char *format = strchr(t->host, ':') ? "CONNECT [%s]:%d HTTP/1.1\r\nhost: [%s]:%d\r\n\r\n"
                                              : "CONNECT %s:%d HTTP/1.1\r\nhost: %s:%d\r\n\r\n";
    evbuffer_add_printf(c->up->conn.out, format, t->host, t->port, t->host, t->port);
    http1_init(&c->http, true, ANSWER_HEAD_MAX);
    c->http.head_request = true; /* what follows is the tunnel */
    c->state = CALL_PROXY;
    conn_flush(&c->up->conn);
}

static void connected(struct http_call *c) {
    if (c->origin->to.tls && c->origin->proxy_host)
        ask_proxy(c);
    else if (c->origin->to.tls)
        start_tls(c);
    else
        call_talk(c);
}

/* ---- addresses ---- */

static int open_socket(union address *a, int port) {
    bool v6 = a->any.sa_family == AF_INET6;
    if (v6)
        a->v6.sin6_port = htons((uint16_t)port);
    else
        a->v4.sin_port = htons((uint16_t)port);
    int fd = socket(a->any.sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -1;
    socket_setup(fd, true);
    if (connect(fd, &a->any, v6 ? sizeof a->v6 : sizeof a->v4) == 0 || errno == EINPROGRESS)
        return fd;
    int error = errno;
    close(fd);
    errno = error;
    return -1;
}

static int open_local(const char *path) {
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    if (strlen(path) >= sizeof to.sun_path) {
        errno = ENAMETOOLONG;
        return -1;
    }
    memcpy(to.sun_path, path, strlen(path) + 1);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0 || connect(fd, (struct sockaddr *)&to, sizeof to) == 0)
        return fd;
    int error = errno;
    close(fd);
    errno = error;
    return -1;
}

static void set_share(struct http_call *c) {
    int64_t now_us = clock_mono_us(), left = c->lookup.found.n - c->address;
    c->address_us = INT64_MAX;
    if (c->connect_us && left > 0)
        c->address_us = now_us + (c->try_us + c->connect_us - now_us) / (left + 1);
}

void call_next_address(struct http_call *c, const char *why_last, int error_last) {
    int port = c->origin->proxy_host ? c->origin->proxy_port : c->origin->to.port;
    if (c->up)
        up_close(c->up);
    c->up = NULL;
    while (c->address < c->lookup.found.n && !error_is_local(error_last)) {
        int fd = open_socket(&c->lookup.found.at[c->address++], port);
        if (fd >= 0) {
            c->up = up_new(c->origin, fd, true, c);
            c->state = CALL_CONNECT;
            set_share(c);
            return;
        }
        error_last = errno;
        why_last = strerror(error_last);
    }
    bool local = error_is_local(error_last);
    call_fail(c, local ? HTTP_FAIL_LOCAL : HTTP_FAIL_CONNECT, "cannot connect to %s: %s", c->origin->authority,
              why_last);
}

static void resolved(struct http_call *c) {
    const struct lookup *l = &c->lookup;
    if (!l->found.n) {
        call_fail(c, l->local ? HTTP_FAIL_LOCAL : HTTP_FAIL_RESOLVE, "cannot resolve %s: %s",
                  c->origin->proxy_host ? c->origin->proxy_host : c->origin->to.host, l->why);
        return;
    }
    c->address = 0;
    call_next_address(c, "there is no address", 0);
}

static void on_resolved(struct lookup *l) {
    struct http_call *c = container_of(l, struct http_call, lookup);
    resolved(c);
    turn_wake(&c->pool->turn, &c->item);
}

/* A socket of this machine answers at once: its queue has room, or it is as good as not there. */
static void connect_here(struct http_call *c) {
    int fd = open_local(c->origin->to.path);
    if (fd < 0) {
        call_fail(c, error_is_local(errno) ? HTTP_FAIL_LOCAL : HTTP_FAIL_CONNECT, "cannot connect to %s: %s",
                  c->origin->to.path, strerror(errno));
        return;
    }
    c->up = up_new(c->origin, fd, false, c);
    call_talk(c);
}

void call_connect(struct http_call *c) {
    const char *host = c->origin->proxy_host ? c->origin->proxy_host : c->origin->to.host;
    c->reused = false;
    c->try_us = clock_mono_us();
    if (c->origin->to.path) {
        connect_here(c);
        return;
    }
    c->state = CALL_RESOLVE;
    c->lookup.done = on_resolved;
    if (resolver_find(c->pool->resolver, host, &c->lookup))
        resolved(c);
}

/* ---- steps ---- */

static void step_connect(struct http_call *c) {
    struct conn *k = &c->up->conn;
    if (k->end == CONN_REFUSED)
        call_next_address(c, k->why, k->error);
    else if (!k->connecting)
        connected(c);
    else if (clock_mono_us() >= c->address_us)
        call_next_address(c, "no answer in time", 0);
}

static void step_proxy(struct http_call *c) {
    struct conn *k = &c->up->conn;
    size_t used, n = evbuffer_get_length(k->in);
    struct span body, bytes = {(const char *)evbuffer_pullup(k->in, -1), n};
    enum http1_result r = http1_read(&c->http, bytes, false, &used, &body);
    if (r == HTTP1_HEAD && c->http.head.status / 100 == 2 && used == n) {
        evbuffer_drain(k->in, used);
        start_tls(c);
    } else if (r == HTTP1_HEAD) {
        call_fail(c, HTTP_FAIL_CONNECT, "the proxy answered %d", c->http.head.status);
    } else if (r == HTTP1_BAD || k->end != CONN_OPEN || k->broken) {
        call_fail(c, HTTP_FAIL_CONNECT, "the proxy's answer is not HTTP or was cut");
    }
}

static void step_handshake(struct http_call *c) {
    struct conn *k = &c->up->conn;
    if (k->end != CONN_OPEN || k->broken)
        call_fail(c, HTTP_FAIL_TLS, "%s", k->why[0] ? k->why : "the connection closed during the handshake");
    else if (!k->handshaking)
        call_talk(c);
}

void call_connect_step(struct http_call *c) {
    if (c->state == CALL_CONNECT)
        step_connect(c);
    else if (c->state == CALL_PROXY)
        step_proxy(c);
    else if (c->state == CALL_HANDSHAKE)
        step_handshake(c);
}
