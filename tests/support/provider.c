/* The provider. Always true here: a connection has at most one call that is not ended; a call outlives its connection,
 * so that a test can look at it to the end. */
#include "tests/support/provider.h"

#include <arpa/inet.h>
#include <assert.h>
#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/event.h>
#include <event2/listener.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/support/own_memory.h"

#define UP_BYTES_MAX (64 << 20)

struct provider_conn {
    struct link link;
    struct provider *of;
    struct bufferevent *bev; /* owned */
    struct up *now;          /* the call that is being read or answered */
    size_t body_left;
    bool whole;
};

static void conn_free(struct provider_conn *c) {
    if (c->now) {
        c->now->gone = !c->now->ended;
        c->now->conn = NULL;
    }
    list_remove(&c->of->conns, &c->link);
    bufferevent_free(c->bev);
    free(c);
}

static void call_begin(struct provider_conn *c, struct span head) {
    struct up *u = xcalloc(1, sizeof *u);
    u->of = c->of;
    u->conn = c;
    str_init(&u->head, UP_BYTES_MAX);
    str_init(&u->body, UP_BYTES_MAX);
    str_put(&u->head, head);
    const char *length = strcasestr(u->head.at, "\r\ncontent-length:");
    c->body_left = length ? (size_t)strtoul(length + 17, NULL, 10) : 0;
    if (c->now)
        c->now->conn = NULL;
    c->now = u;
    c->whole = false;
}

static void take_body(struct provider_conn *c, struct evbuffer *in) {
    size_t n = evbuffer_get_length(in);
    n = n < c->body_left ? n : c->body_left;
    str_put(&c->now->body, span_from(evbuffer_pullup(in, (ev_ssize_t)n), n));
    evbuffer_drain(in, n);
    c->body_left -= n;
    if (c->body_left || c->whole)
        return;
    c->whole = true;
    list_append(&c->of->calls, &c->now->link);
    if (c->of->script)
        c->of->script(c->now);
}

static void read_call(struct bufferevent *bev, void *user) {
    struct provider_conn *c = user;
    struct evbuffer *in = bufferevent_get_input(bev);
    struct evbuffer_ptr end = evbuffer_search(in, "\r\n\r\n", 4, NULL);
    bool idle = !c->now || c->now->ended;
    if (idle && end.pos < 0)
        return;
    if (idle) {
        size_t n = (size_t)end.pos + 4;
        call_begin(c, span_from(evbuffer_pullup(in, (ev_ssize_t)n), n));
        evbuffer_drain(in, n);
    }
    take_body(c, in);
}

static void on_read(struct bufferevent *bev, void *user) {
    bool (*refuses)(size_t) = own_memory();
    read_call(bev, user);
    gateways_memory(refuses);
}

static void on_event(struct bufferevent *bev, short what, void *user) {
    (void)bev;
    if (what & (BEV_EVENT_EOF | BEV_EVENT_ERROR))
        conn_free(user);
}

static void on_connection(struct evconnlistener *l, int fd, struct sockaddr *from, int n, void *user) {
    struct provider *p = user;
    struct provider_conn *c = xcalloc(1, sizeof *c);
    int one = 1;
    (void)l, (void)from, (void)n;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    c->of = p;
    c->bev = bufferevent_socket_new(p->base, fd, BEV_OPT_CLOSE_ON_FREE);
    bufferevent_setcb(c->bev, on_read, NULL, on_event, c);
    bufferevent_enable(c->bev, EV_READ | EV_WRITE);
    list_append(&p->conns, &c->link);
    p->connected++;
}

void provider_bind(struct provider *p) {
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t n = sizeof at;
    *p = (struct provider){.fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0)};
    int wrong =
        bind(p->fd, (struct sockaddr *)&at, n) || listen(p->fd, 64) || getsockname(p->fd, (struct sockaddr *)&at, &n);
    assert(!wrong);
    p->port = ntohs(at.sin_port);
    list_init(&p->calls);
    list_init(&p->conns);
}

void provider_open(struct provider *p, struct event_base *base) {
    p->base = base;
    p->listener = evconnlistener_new(base, on_connection, p, LEV_OPT_CLOSE_ON_FREE, 0, p->fd);
    assert(p->listener);
}

void provider_close(struct provider *p) {
    for (struct link *k; (k = list_first(&p->conns));)
        conn_free(container_of(k, struct provider_conn, link));
    for (struct link *k; (k = list_shift(&p->calls));) {
        struct up *u = container_of(k, struct up, link);
        str_fini(&u->head);
        str_fini(&u->body);
        free(u);
    }
    if (p->listener)
        evconnlistener_free(p->listener);
    p->listener = NULL;
}

struct up *provider_call(const struct provider *p, size_t i) {
    struct link *k = list_first(&p->calls);
    while (k && i--)
        k = list_next(&p->calls, k);
    return k ? container_of(k, struct up, link) : NULL;
}

void up_say(struct up *u, struct span bytes) {
    if (u->conn)
        bufferevent_write(u->conn->bev, bytes.at, bytes.n);
}

static void say(struct up *u, const char *format, ...) printf_like(2, 3);
static void say(struct up *u, const char *format, ...) {
    struct str text;
    va_list args;
    str_init(&text, UP_BYTES_MAX);
    va_start(args, format);
    str_vprintf(&text, format, args);
    va_end(args);
    up_say(u, str_span(&text));
    str_fini(&text);
}

void up_answer(struct up *u, int status, const char *fields, const char *json) {
    say(u, "HTTP/1.1 %d Said\r\ncontent-type: application/json\r\n%scontent-length: %zu\r\n\r\n%s", status, fields,
        strlen(json), json);
    u->ended = true;
}

void up_stream(struct up *u) {
    say(u, "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n");
}

void up_event(struct up *u, struct span bytes) {
    if (bytes.n == 0)
        return;
    say(u, "%zx\r\n", bytes.n);
    up_say(u, bytes);
    up_say(u, SPAN("\r\n"));
}

void up_end(struct up *u) {
    up_say(u, SPAN("0\r\n\r\n"));
    u->ended = true;
}

void up_leave(struct up *u, bool reset) {
    struct linger at_once = {.l_onoff = 1, .l_linger = 0};
    if (!u->conn)
        return;
    if (reset)
        setsockopt(bufferevent_getfd(u->conn->bev), SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
    conn_free(u->conn);
}

int up_keep(const struct up *u) {
    return fcntl(bufferevent_getfd(u->conn->bev), F_DUPFD_CLOEXEC, 0);
}

bool up_flushed(const struct up *u) {
    return !u->conn || evbuffer_get_length(bufferevent_get_output(u->conn->bev)) == 0;
}
