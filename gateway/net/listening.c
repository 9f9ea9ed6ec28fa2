/* Addresses to listening sockets. Always true here: a socket is bound only to an address that nobody else listens on, even
 * where the kernel would let several share it, so that two gateways never split one port by mistake. */
#include "gateway/net/listening.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#define BACKLOG 1024

void listening_text(const union any_address *a, char *out, size_t max) {
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

static int bind_socket(const union any_address *a, socklen_t n, bool shared) {
    int one = 1, family = a->any.sa_family;
    int fd = socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (shared)
        setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &one, sizeof one);
    if (bind(fd, &a->any, n) == 0 && listen(fd, BACKLOG) == 0)
        return fd;
    int error = errno;
    close(fd);
    errno = error;
    return -1;
}

/* The plain socket finds out whether the address is free; it gives way to one that others may stand beside. */
static int bind_shared(int plain, union any_address *a, socklen_t n) {
    getsockname(plain, &a->any, &n);
    close(plain);
    return bind_socket(a, n, true);
}

static bool open_at(struct listening *s, union any_address *a, socklen_t n, const char *address, bool shared) {
    bool local = a->any.sa_family == AF_UNIX;
    if (local)
        remove_stale(a, n);
    s->fd = bind_socket(a, n, false);
    if (s->fd >= 0 && shared && !local)
        s->fd = bind_shared(s->fd, a, n);
    if (s->fd < 0)
        return false;
    s->loopback = is_loopback(a);
    if (local) {
        snprintf(s->path, sizeof s->path, "%s", a->un.sun_path);
        snprintf(s->address, sizeof s->address, "%s", address);
        return true;
    }
    getsockname(s->fd, &a->any, &n);
    listening_text(a, s->address, sizeof s->address);
    return true;
}

bool listening_open(struct listening *s, const char *address, bool shared, struct str *why) {
    union any_address a = {0};
    socklen_t n = 0;
    bool local = strncmp(address, "unix:", 5) == 0;
    *s = (struct listening){.fd = -1};
    if (!(local ? read_unix(address + 5, &a, &n) : read_inet(address, &a, &n)))
        return say(why, address, "this is neither host:port nor unix:/path");
    if (open_at(s, &a, n, address, shared))
        return true;
    return say(why, address, errno == EADDRINUSE ? "the address is in use" : strerror(errno));
}

bool listening_another(struct listening *s, const struct listening *first, struct str *why) {
    union any_address a = {0};
    socklen_t n = sizeof a;
    *s = *first;
    if (first->path[0]) {
        s->fd = fcntl(first->fd, F_DUPFD_CLOEXEC, 0);
        s->path[0] = '\0'; /* the first one's to remove */
    } else {
        getsockname(first->fd, &a.any, &n);
        s->fd = bind_socket(&a, n, true);
    }
    return s->fd >= 0 || say(why, first->address, strerror(errno));
}

void listening_close(struct listening *s) {
    if (s->fd < 0)
        return;
    close(s->fd);
    s->fd = -1;
    if (s->path[0])
        unlink(s->path);
}
