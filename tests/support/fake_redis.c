/* See fake_redis.h. */
#include "tests/support/fake_redis.h"

#include <arpa/inet.h>
#include <assert.h>
#include <event2/buffer.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

static void note(struct fake_redis *f, const struct redis_value *command) {
    for (size_t i = 0; i < command->n; i++) {
        size_t n = strlen(f->said);
        snprintf(f->said + n, sizeof f->said - n, "%s%.*s", i ? " " : n ? "|" : "", SPAN_ARG(command->items[i].text));
    }
}

static void write_soon(evutil_socket_t fd, short what, void *arg) {
    struct fake_peer *p = arg;
    (void)fd, (void)what;
    if (p->be)
        bufferevent_enable(p->be, EV_WRITE);
}

void fake_say(struct fake_peer *p, const char *bytes) {
    size_t n = strlen(bytes), cut = p->fake->cut;
    struct timeval now = {0, 500};
    if (!p->be)
        return;
    if (!cut || cut >= n || evbuffer_get_length(bufferevent_get_output(p->be))) {
        bufferevent_write(p->be, bytes, n);
        return;
    }
    int fd = bufferevent_getfd(p->be);
    ssize_t sent = send(fd, bytes, cut, MSG_NOSIGNAL);
    assert(sent == (ssize_t)cut);
    bufferevent_disable(p->be, EV_WRITE);
    bufferevent_write(p->be, bytes + cut, n - cut);
    event_base_once(p->fake->base, -1, EV_TIMEOUT, write_soon, p, &now);
}

static void obey(struct fake_peer *p, const struct redis_value *command) {
    struct fake_redis *f = p->fake;
    struct span word = command->n ? command->items[0].text : SPAN_NONE;
    note(f, command);
    if (f->mute)
        return;
    if (span_is(word, "PING")) {
        fake_say(p, f->ping ? f->ping : "+PONG\r\n");
    } else if (span_is(word, "AUTH") || span_is(word, "SELECT") || span_is(word, "CLIENT")) {
        fake_say(p, "+OK\r\n");
    } else {
        f->n_commands++;
        const char *bytes = f->answer ? f->answer(f, p, command) : "+OK\r\n";
        if (bytes)
            fake_say(p, bytes);
    }
}

static void on_read(struct bufferevent *be, void *arg) {
    struct fake_peer *p = arg;
    struct evbuffer *in = bufferevent_get_input(be);
    struct redis_value *v;
    const char *why;
    size_t n = evbuffer_get_length(in);
    redis_reader_feed(p->reader, span_from(evbuffer_pullup(in, -1), n));
    evbuffer_drain(in, n);
    while (redis_reader_next(p->reader, &v, &why) == REDIS_READ_VALUE) {
        obey(p, v);
        redis_value_free(v);
    }
}

static void peer_free(struct fake_peer *p) {
    if (!p->be)
        return;
    bufferevent_free(p->be);
    redis_reader_free(p->reader);
    p->be = NULL;
}

static void on_event(struct bufferevent *be, short what, void *arg) {
    (void)be;
    if (what & (BEV_EVENT_EOF | BEV_EVENT_ERROR))
        peer_free(arg);
}

static void on_accept(struct evconnlistener *l, evutil_socket_t fd, struct sockaddr *from, int n, void *arg) {
    struct fake_redis *f = arg;
    (void)l, (void)from, (void)n;
    assert(f->n_peers < FAKE_CONNECTIONS_MAX);
    struct fake_peer *p = &f->peers[f->n_peers++];
    *p = (struct fake_peer){f, bufferevent_socket_new(f->base, fd, BEV_OPT_CLOSE_ON_FREE), redis_reader_new()};
    bufferevent_setcb(p->be, on_read, NULL, on_event, p);
    bufferevent_enable(p->be, EV_READ | EV_WRITE);
}

void fake_open(struct fake_redis *f, struct event_base *base) {
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons((uint16_t)f->port)};
    socklen_t n = sizeof at;
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    f->base = base;
    f->listener = evconnlistener_new_bind(base, on_accept, f, LEV_OPT_CLOSE_ON_FREE | LEV_OPT_REUSEABLE, 16,
                                          (struct sockaddr *)&at, sizeof at);
    assert(f->listener);
    getsockname(evconnlistener_get_fd(f->listener), (struct sockaddr *)&at, &n);
    f->port = ntohs(at.sin_port);
    snprintf(f->address, sizeof f->address, "127.0.0.1:%d", f->port);
}

void fake_stop_listening(struct fake_redis *f) {
    if (f->listener)
        evconnlistener_free(f->listener);
    f->listener = NULL;
}

void fake_hang_up(struct fake_redis *f) {
    for (int i = 0; i < f->n_peers; i++)
        peer_free(&f->peers[i]);
}

void fake_close(struct fake_redis *f) {
    fake_stop_listening(f);
    fake_hang_up(f);
}

struct fake_peer *fake_last(struct fake_redis *f) {
    return &f->peers[f->n_peers - 1];
}
