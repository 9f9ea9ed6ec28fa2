/* A blocking HTTP/1.1 exchange over TCP or a unix socket: one request, `connection: close`, the reply to its end. Always true
 * here: the token is sent to the address that conf or the operator named, and nowhere else. */
#include "gateway/cli/admin_client.h"

#include "gateway/state/state.h"

#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#define TIMEOUT_S 600 /* a report over a long log takes its time */
#define HEAD_MAX 8192
#define TOKEN_MAX 512

static int connect_unix(const char *path) {
    struct sockaddr_un un = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    snprintf(un.sun_path, sizeof(un.sun_path), "%s", path);
    if (fd >= 0 && connect(fd, (struct sockaddr *)&un, sizeof(un)) == 0)
        return fd;
    int error = errno;
    if (fd >= 0)
        close(fd);
    errno = error;
    return -1;
}

static int connect_tcp(const char *host, const char *port) {
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *all = NULL;
    int fd = -1;
    if (getaddrinfo(host, port, &hints, &all)) {
        errno = EADDRNOTAVAIL;
        return -1;
    }
    for (struct addrinfo *a = all; a && fd < 0; a = a->ai_next) {
        fd = socket(a->ai_family, a->ai_socktype | SOCK_CLOEXEC, a->ai_protocol);
        if (fd < 0 || connect(fd, a->ai_addr, a->ai_addrlen) == 0)
            continue;
        int error = errno;
        close(fd);
        fd = -1;
        errno = error;
    }
    freeaddrinfo(all);
    return fd;
}

/* "127.0.0.1:8081", "[::1]:8081", "unix:/path", also with http:// before it. */
static int connect_to(const char *address) {
    char host[256];
    struct span a = span_of(address);
    if (span_starts(a, "unix:"))
        return connect_unix(address + strlen("unix:"));
    if (span_starts(a, "http://"))
        address += strlen("http://");
    const char *colon = strrchr(address, ':');
    if (!colon) {
        errno = EINVAL;
        return -1;
    }
    bool brackets = address[0] == '[' && colon > address + 1;
    snprintf(host, sizeof(host), "%.*s", (int)(colon - address) - (brackets ? 2 : 0), address + (brackets ? 1 : 0));
    return connect_tcp(host, colon + 1);
}

static bool find_token(const struct conf *c, char out[TOKEN_MAX]) {
    char path[512];
    if (c->admin_token) {
        snprintf(out, TOKEN_MAX, "%s", c->admin_token);
        return true;
    }
    FILE *f = fopen(state_admin_token_path(c, path, sizeof(path)), "r");
    bool good = f && fgets(out, TOKEN_MAX, f);
    if (f)
        fclose(f);
    if (good)
        out[strcspn(out, "\r\n")] = 0;
    return good;
}

static bool send_all(int fd, struct span bytes) {
    while (bytes.n) {
        ssize_t n = send(fd, bytes.at, bytes.n, MSG_NOSIGNAL);
        if (n <= 0)
            return false;
        bytes = span_from(bytes.at + n, bytes.n - (size_t)n);
    }
    return true;
}

static bool receive_all(int fd, struct str *out) {
    char part[16384];
    ssize_t n;
    while ((n = recv(fd, part, sizeof(part), 0)) > 0)
        str_put(out, span_from(part, (size_t)n));
    return n == 0 && !out->over;
}

static bool exchange(int fd, const char *method, const char *path, const char *token, struct span body,
                     struct str *reply) {
    struct timeval wait = {TIMEOUT_S, 0};
    struct str head;
    str_init(&head, HEAD_MAX);
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof(wait));
    str_printf(&head, "%s %s HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\nauthorization: Bearer %s\r\n", method,
               path, token);
    if (body.n)
        str_printf(&head, "content-type: application/json\r\ncontent-length: %zu\r\n", body.n);
    str_puts(&head, "\r\n");
    bool good = !head.over && send_all(fd, str_span(&head)) && send_all(fd, body) && receive_all(fd, reply);
    str_fini(&head);
    return good;
}

/* The status, and what stands behind the head. */
static int take_apart(struct span reply, struct str *out) {
    static const char start[] = "HTTP/1.1 ";
    int64_t status;
    const char *end = reply.n ? memmem(reply.at, reply.n, "\r\n\r\n", 4) : NULL;
    if (!end || !span_starts(reply, start) || !span_to_i64(span_from(reply.at + sizeof(start) - 1, 3), &status))
        return -1;
    str_put(out, span_from(end + 4, reply.n - (size_t)(end + 4 - reply.at)));
    return (int)status;
}

int admin_ask(const struct conf *c, const char *address, const char *method, const char *path, struct span body,
              struct str *out, struct str *why) {
    char token[TOKEN_MAX];
    struct str reply;
    if (!address)
        address = c->admin_address;
    int fd = connect_to(address);
    if (fd < 0 && (errno == ECONNREFUSED || errno == ENOENT))
        return 0;
    if (fd < 0 || !find_token(c, token)) {
        str_printf(why, fd < 0 ? "the admin port %s: %s" : "the admin port %s: its token is not found (%s)", address,
                   strerror(errno));
        if (fd >= 0)
            close(fd);
        return -1;
    }
    str_init(&reply, ADMIN_CLIENT_REPLY_MAX);
    int status = exchange(fd, method, path, token, body, &reply) ? take_apart(str_span(&reply), out) : -1;
    if (status < 0)
        str_printf(why, "the admin port %s gave no whole answer", address);
    str_fini(&reply);
    close(fd);
    return status;
}
