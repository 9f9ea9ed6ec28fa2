/* The front: listeners and the list of clients. Always true: when descriptors run out, accepting pauses for a moment
 * instead of spinning on a socket that stays readable. */
#include "gateway/net/front.h"

#include "gateway/base/clock.h"
#include "gateway/net/listening.h"
#include "gateway/net/tls.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#define ACCEPTS_A_TURN 64
#define ACCEPT_PAUSE_MS 100 /* when descriptors are out */

static void pause_accepting(struct front *f, int error) {
    struct timeval wait = {0, ACCEPT_PAUSE_MS * 1000};
    uint64_t swallowed;
    for (size_t i = 0; i < f->n_listeners; i++)
        if (f->listeners[i].fd >= 0)
            event_del(&f->listeners[i].ev);
    event_add(&f->resume, &wait);
    if (log_gate_open(&f->out_of_sockets, clock_mono_us(), &swallowed))
        log_warn("no connection can be accepted: %s (%llu more times)", strerror(error), (unsigned long long)swallowed);
}

static void on_resume(evutil_socket_t fd, short what, void *arg) {
    struct front *f = arg;
    (void)fd, (void)what;
    for (size_t i = 0; i < f->n_listeners; i++)
        if (f->listeners[i].fd >= 0)
            event_add(&f->listeners[i].ev, NULL);
}

static void on_accept(evutil_socket_t listening, short what, void *arg) {
    struct listener *l = arg;
    (void)what;
    for (int i = 0; i < ACCEPTS_A_TURN; i++) {
        union any_address peer = {0};
        socklen_t n = sizeof peer;
        char text[PEER_TEXT_MAX];
        int fd = accept4(listening, &peer.any, &n, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd < 0) {
            if (errno != EAGAIN && error_is_local(errno))
                pause_accepting(l->front, errno);
            return; /* EAGAIN, or a client that left while it waited */
        }
        listening_text(&peer, text, sizeof text);
        socket_setup(fd, true);
        client_new(l->front, l, fd, text);
    }
}

struct front *front_new(struct loop *loop, const struct front_limits *limits, const struct front_ops *ops, void *user) {
    struct front *f = xcalloc(1, sizeof *f);
    struct event_base *base = loop_base(loop);
    int needed = EV_FEATURE_ET | EV_FEATURE_EARLY_CLOSE;
    assert((event_base_get_features(base) & needed) == needed);
    turn_init(&f->turn, base);
    f->limits = *limits;
    f->ops = *ops;
    f->user = user;
    list_init(&f->clients);
    int wrong = evtimer_assign(&f->resume, base, on_resume, f);
    assert(!wrong);
    return f;
}

/* ---- listening ---- */

static bool add_listener(struct front *f, const struct listening *s, bool owns, const char *certificate,
                         const char *private_key, struct str *why) {
    SSL_CTX *tls = NULL;
    if (f->n_listeners == LISTENERS_MAX) {
        str_printf(why, "cannot listen on %s: there are too many listeners", s->address);
        return false;
    }
    if (certificate && !(tls = tls_server_context(certificate, private_key, why)))
        return false;
    struct listener *l = &f->listeners[f->n_listeners++];
    *l = (struct listener){.front = f, .fd = s->fd, .tls = tls, .loopback = s->loopback};
    l->path = owns && s->path[0] ? xstrdup(s->path) : NULL;
    snprintf(l->address, sizeof l->address, "%s", s->address);
    int wrong = event_assign(&l->ev, event_get_base(&f->turn.ev), l->fd, EV_READ | EV_PERSIST, on_accept, l);
    assert(!wrong);
    event_add(&l->ev, NULL);
    return true;
}

bool front_listen(struct front *f, const char *address, const char *certificate, const char *private_key,
                  struct str *why) {
    struct listening s;
    if (!listening_open(&s, address, false, why))
        return false;
    if (add_listener(f, &s, true, certificate, private_key, why))
        return true;
    listening_close(&s);
    return false;
}

bool front_adopt(struct front *f, const struct listening *s, const char *certificate, const char *private_key,
                 struct str *why) {
    return add_listener(f, s, false, certificate, private_key, why);
}

const char *front_address(const struct front *f, size_t i) {
    return i < f->n_listeners ? f->listeners[i].address : NULL;
}

void front_set_limits(struct front *f, const struct front_limits *limits) {
    f->limits = *limits;
}

size_t front_connections(const struct front *f) {
    return f->clients.n;
}

size_t front_leaving(const struct front *f) {
    size_t n = 0;
    for (struct link *k = list_first(&f->clients); k; k = list_next(&f->clients, k)) {
        enum client_state s = container_of(k, struct client, all)->state;
        n += s == CLIENT_FLUSH || s == CLIENT_LINGER;
    }
    return n;
}

static void listener_close(struct listener *l) {
    if (l->fd < 0)
        return;
    event_del(&l->ev);
    close(l->fd);
    l->fd = -1;
    if (l->path)
        unlink(l->path);
}

void front_stop_listening(struct front *f) {
    f->stopping = true;
    event_del(&f->resume);
    for (size_t i = 0; i < f->n_listeners; i++)
        listener_close(&f->listeners[i]);
    for (struct link *k = list_first(&f->clients); k; k = list_next(&f->clients, k))
        turn_wake(&f->turn, &container_of(k, struct client, all)->conn.item);
}

void front_free(struct front *f) {
    struct link *k;
    front_stop_listening(f);
    while ((k = list_first(&f->clients))) {
        struct client *c = container_of(k, struct client, all);
        if (c->x)
            c->x->closed = true;
        client_drop(c, false);
    }
    turn_fini(&f->turn);
    for (size_t i = 0; i < f->n_listeners; i++) {
        SSL_CTX_free(f->listeners[i].tls);
        free(f->listeners[i].path);
    }
    free(f);
}
