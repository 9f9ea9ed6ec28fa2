/* The front: listeners and the list of clients. Always true: when descriptors run out, accepting pauses for a moment
 * instead of spinning on a socket that stays readable. */
#include "gateway/front.h"

#include "gateway/base/clock.h"
#include "gateway/tls.h"

#include <arpa/inet.h>
#include <assert.h>
#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define ACCEPTS_A_TURN 64
#define ACCEPT_PAUSE_MS 100 /* when descriptors are out */
#define BACKLOG 1024

union any_address {
    struct sockaddr any;
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
    struct sockaddr_un un;
    struct sockaddr_storage space;
};

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

static void address_text(const union any_address *a, char *out, size_t max) {
    char host[INET6_ADDRSTRLEN] = "?";
    if (a->any.sa_family == AF_INET) {
        inet_ntop(AF_INET, &a->v4.sin_addr, host, sizeof host);
        snprintf(out, max, "%s:%d", host, ntohs(a->v4.sin_port));
    } else if (a->any.sa_family == AF_INET6) {
        inet_ntop(AF_INET6, &a->v6.sin6_addr, host, sizeof host);
        snprintf(out, max, "[%s]:%d", host, ntohs(a->v6.sin6_port));
    } else {
        snprintf(out, max, "unix");
    }
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
        address_text(&peer, text, sizeof text);
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

static bool say(struct str *why, const char *address, const char *what) {
    str_printf(why, "cannot listen on %s: %s", address, what);
    return false;
}

static bool read_unix(const char *path, union any_address *a, socklen_t *n) {
    a->un.sun_family = AF_UNIX;
    if (!*path || strlen(path) >= sizeof a->un.sun_path)
        return false;
    memcpy(a->un.sun_path, path, strlen(path) + 1);
    *n = sizeof a->un;
    return true;
}

/* "host:port", "[v6]:port": literal addresses, or a name of this machine. */
static bool read_inet(const char *address, union any_address *a, socklen_t *n) {
    const char *colon = strrchr(address, ':');
    char host[256];
    if (!colon || (size_t)(colon - address) >= sizeof host)
        return false;
    bool brackets = address[0] == '[' && colon > address && colon[-1] == ']';
    size_t length = (size_t)(colon - address) - (brackets ? 2 : 0);
    memcpy(host, address + brackets, length);
    host[length] = '\0';
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE | AI_NUMERICSERV}, *found;
    if (getaddrinfo(length ? host : NULL, colon + 1, &hints, &found) != 0)
        return false;
    *n = found->ai_addrlen;
    memcpy(a, found->ai_addr, found->ai_addrlen);
    freeaddrinfo(found);
    return true;
}

static bool is_loopback(const union any_address *a) {
    if (a->any.sa_family == AF_INET)
        return (ntohl(a->v4.sin_addr.s_addr) >> 24) == 127;
    if (a->any.sa_family == AF_INET6)
        return IN6_IS_ADDR_LOOPBACK(&a->v6.sin6_addr);
    return true;
}

/* A socket file that nobody answers on is left over from a process that ended badly. */
static void remove_stale(const union any_address *a, socklen_t n) {
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return;
    if (connect(fd, &a->any, n) < 0 && errno == ECONNREFUSED)
        unlink(a->un.sun_path);
    close(fd);
}

static int bind_socket(const union any_address *a, socklen_t n) {
    int one = 1, family = a->any.sa_family;
    if (family == AF_UNIX)
        remove_stale(a, n);
    int fd = socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (bind(fd, &a->any, n) == 0 && listen(fd, BACKLOG) == 0)
        return fd;
    int error = errno;
    close(fd);
    errno = error;
    return -1;
}

static void listen_on(struct listener *l, const union any_address *a, const char *address) {
    union any_address bound = {0};
    socklen_t n = sizeof bound;
    l->loopback = is_loopback(a);
    if (a->any.sa_family == AF_UNIX) {
        l->path = xstrdup(a->un.sun_path);
        snprintf(l->address, sizeof l->address, "%s", address);
    } else {
        getsockname(l->fd, &bound.any, &n);
        address_text(&bound, l->address, sizeof l->address);
    }
    int wrong = event_assign(&l->ev, event_get_base(&l->front->turn.ev), l->fd, EV_READ | EV_PERSIST, on_accept, l);
    assert(!wrong);
    event_add(&l->ev, NULL);
}

bool front_listen(struct front *f, const char *address, const char *certificate, const char *private_key,
                  struct str *why) {
    union any_address a = {0};
    socklen_t n = 0;
    if (f->n_listeners == LISTENERS_MAX)
        return say(why, address, "there are too many listeners");
    bool local = strncmp(address, "unix:", 5) == 0;
    if (!(local ? read_unix(address + 5, &a, &n) : read_inet(address, &a, &n)))
        return say(why, address, "this is neither host:port nor unix:/path");
    struct listener *l = &f->listeners[f->n_listeners];
    *l = (struct listener){.front = f, .fd = -1};
    if (certificate && !(l->tls = tls_server_context(certificate, private_key, why)))
        return false;
    l->fd = bind_socket(&a, n);
    if (l->fd < 0) {
        int error = errno;
        SSL_CTX_free(l->tls);
        return say(why, address, error == EADDRINUSE ? "the address is in use" : strerror(error));
    }
    listen_on(l, &a, address);
    f->n_listeners++;
    return true;
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
