/* Listening sockets, apart from whoever accepts from them: a parent opens them once and its workers accept. */
#ifndef TOLLGATE_GATEWAY_LISTENING_H
#define TOLLGATE_GATEWAY_LISTENING_H

#include "gateway/base/span.h"

#include <netinet/in.h>
#include <sys/un.h>

union any_address {
    struct sockaddr any;
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
    struct sockaddr_un un;
    struct sockaddr_storage space;
};

struct listening {
    int fd;            /* -1: closed */
    char address[128]; /* as bound: "127.0.0.1:43211", "unix:/path" */
    char path[108];    /* of a unix socket, removed with it; "": none */
    bool loopback;
};

/* "127.0.0.1:8080", "[::1]:0", "unix:/path". `shared`: further sockets may be bound to the very same address. False with a
 * sentence in `why`; the address must be free of everybody else in either case. */
must_check bool listening_open(struct listening *s, const char *address, bool shared, struct str *why);
/* One more socket on the address of a shared one: the kernel spreads new connections over all of them. Of a unix socket,
 * another descriptor of the same: whoever is free accepts. */
must_check bool listening_another(struct listening *s, const struct listening *first, struct str *why);
void listening_close(struct listening *s); /* and removes the path that it owns */
void listening_text(const union any_address *a, char *out, size_t max);

#endif
