/* Host names to addresses, without blocking the loop: a few threads that call getaddrinfo, and a cache. */
#ifndef TOLLGATE_GATEWAY_RESOLVE_H
#define TOLLGATE_GATEWAY_RESOLVE_H

#include "gateway/base/list.h"
#include "gateway/base/loop.h"

#include <netinet/in.h>

#define ADDRESSES_MAX 8 /* of one name that are tried */

union address {
    struct sockaddr any;
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
};
struct addresses {
    int n;
    union address at[ADDRESSES_MAX]; /* ports are 0 */
};

struct lookup {
    void (*done)(struct lookup *l); /* on the loop; the fields below are set */
    struct addresses found;         /* n 0: none, and why */
    const char *why;                /* static */
    bool local;                     /* this machine ran out of something */
    struct link waiting;            /* on the entry's list while the answer is out */
    struct list *list;              /* that list */
};

struct resolver;
struct resolver *resolver_new(struct loop *loop);
void resolver_free(struct resolver *r); /* does not wait for a name server */
/* True: the answer is in l now. False: done() will be called, unless cancelled. */
bool resolver_find(struct resolver *r, const char *host, struct lookup *l);
void resolver_cancel(struct lookup *l);

#endif
