/* The client. Always true here: raw holds all bytes that came; head and body are made of raw[0..parsed). */
#include "tests/support/caller.h"

#include "tests/support/own_memory.h"

#include <arpa/inet.h>
#include <assert.h>
#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/event.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>

#define CALLER_BYTES_MAX (128 << 20)
#define VALUE_BYTES_MAX 512

static void parse(struct caller *c, bool eof) {
    while (!c->whole && !c->bad) {
        size_t used = 0;
        struct span rest = span_from(c->raw.at + c->parsed, c->raw.n - c->parsed), body = SPAN_NONE;
        enum http1_result got = http1_read(&c->codec, rest, eof, &used, &body);
        if (got == HTTP1_HEAD) {
            c->status = c->codec.head.status;
            str_clear(&c->head);
            str_put(&c->head, span_from(rest.at, used));
        }
        str_put(&c->body, got == HTTP1_BODY ? body : SPAN_NONE);
        c->parsed += used;
        c->whole = got == HTTP1_END;
        c->bad = got == HTTP1_BAD;
        if (got == HTTP1_MORE)
            return;
    }
}

static void on_read(struct bufferevent *bev, void *user) {
    struct caller *c = user;
    struct evbuffer *in = bufferevent_get_input(bev);
    size_t n = evbuffer_get_length(in);
    bool (*refuses)(size_t) = own_memory();
    str_put(&c->raw, span_from(evbuffer_pullup(in, -1), n));
    evbuffer_drain(in, n);
    parse(c, false);
    gateways_memory(refuses);
}

static void on_event(struct bufferevent *bev, short what, void *user) {
    struct caller *c = user;
    (void)bev;
    if (!(what & (BEV_EVENT_EOF | BEV_EVENT_ERROR)))
        return;
    c->closed = true;
    if (what & BEV_EVENT_EOF && c->status)
        parse(c, true);
}

struct caller *caller_new(struct event_base *base, int port) {
    struct sockaddr_in at = {
        .sin_family = AF_INET, .sin_port = htons((uint16_t)port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct caller *c = xcalloc(1, sizeof *c);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), one = 1;
    int wrong = connect(fd, (struct sockaddr *)&at, sizeof at);
    assert(!wrong);
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    evutil_make_socket_nonblocking(fd);
    http1_init(&c->codec, true, 64 * 1024);
    str_init(&c->raw, CALLER_BYTES_MAX);
    str_init(&c->head, CALLER_BYTES_MAX);
    str_init(&c->body, CALLER_BYTES_MAX);
    str_puts(&c->head, "");
    str_puts(&c->body, "");
    c->bev = bufferevent_socket_new(base, fd, BEV_OPT_CLOSE_ON_FREE);
    bufferevent_setcb(c->bev, on_read, NULL, on_event, c);
    bufferevent_enable(c->bev, EV_READ | EV_WRITE);
    return c;
}

void caller_free(struct caller *c) {
    caller_leave(c, false);
    str_fini(&c->raw);
    str_fini(&c->head);
    str_fini(&c->body);
    free(c);
}

void caller_say(struct caller *c, struct span bytes) {
    bufferevent_write(c->bev, bytes.at, bytes.n);
}

void caller_ask(struct caller *c, const char *path, const char *fields, const char *body) {
    struct str text;
    str_init(&text, CALLER_BYTES_MAX);
    str_printf(&text, "%s %s HTTP/1.1\r\nhost: test\r\n%s", body ? "POST" : "GET", path, fields);
    if (body)
        str_printf(&text, "content-type: application/json\r\ncontent-length: %zu\r\n", strlen(body));
    str_printf(&text, "\r\n%s", body ? body : "");
    caller_say(c, str_span(&text));
    str_fini(&text);
}

void caller_leave(struct caller *c, bool reset) {
    struct linger at_once = {.l_onoff = 1, .l_linger = 0};
    if (!c->bev)
        return;
    if (reset)
        setsockopt(bufferevent_getfd(c->bev), SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
    bufferevent_free(c->bev);
    c->bev = NULL;
}

void caller_stop_reading(struct caller *c, bool stop) {
    if (stop)
        bufferevent_disable(c->bev, EV_READ);
    else
        bufferevent_enable(c->bev, EV_READ);
}

int caller_keep(const struct caller *c) {
    return fcntl(bufferevent_getfd(c->bev), F_DUPFD_CLOEXEC, 0);
}

const char *caller_field(const struct caller *c, const char *name) {
    static char value[VALUE_BYTES_MAX];
    char key[VALUE_BYTES_MAX];
    snprintf(key, sizeof key, "\r\n%s: ", name);
    const char *at = strcasestr(c->head.at, key);
    if (!at)
        return NULL;
    at += strlen(key);
    snprintf(value, sizeof value, "%.*s", (int)strcspn(at, "\r"), at);
    return value;
}
