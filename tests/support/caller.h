/* A client of a test's own on the loop under test: one connection, one call, its answer read by the gateway's own codec. */
#ifndef TOLLGATE_TESTS_CALLER_H
#define TOLLGATE_TESTS_CALLER_H

#include "gateway/base/list.h"
#include "gateway/net/http.h"

struct event_base;
struct bufferevent;

struct caller {
    struct link link;
    struct bufferevent *bev; /* owned; NULL: it has left */
    struct http1 codec;
    struct str raw;        /* owned: every byte that came */
    size_t parsed;         /* of raw */
    struct str head, body; /* owned; head NUL-terminated with its CRLFs */
    int status;            /* 0: no head yet */
    bool whole;            /* the answer came to its end */
    bool closed;           /* the gateway closed */
    bool bad;              /* its bytes are no HTTP */
};

struct caller *caller_new(struct event_base *base, int port);
void caller_free(struct caller *c);
void caller_say(struct caller *c, struct span bytes);
/* One request; `fields` are further header lines, each with its CRLF, or "". body NULL: GET. */
void caller_ask(struct caller *c, const char *path, const char *fields, const char *body);
void caller_leave(struct caller *c, bool reset);       /* FIN and close, or RST */
void caller_stop_reading(struct caller *c, bool stop); /* a slow client: nothing is taken from the socket */
int caller_keep(const struct caller *c); /* its connection stays open when it leaves, until this descriptor is closed */
/* The value of a header field of the answer, good until the next call; NULL: it is not there. */
const char *caller_field(const struct caller *c, const char *name);

#endif
