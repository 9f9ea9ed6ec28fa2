/* A provider of a test's own on the loop under test: it takes calls over HTTP/1.1 and says what the test tells it to say,
 * byte by byte if need be.
 *
 *     provider_bind -> its port goes into a conf -> provider_open(loop) -> provider_call(i) -> up_* -> provider_close */
#ifndef TOLLGATE_TESTS_PROVIDER_H
#define TOLLGATE_TESTS_PROVIDER_H

#include "gateway/base/list.h"
#include "gateway/base/span.h"

struct event_base;
struct evconnlistener;
struct provider_conn;
struct up;

struct provider {
    int fd, port;
    struct event_base *base;         /* not owned */
    struct evconnlistener *listener; /* owned */
    struct list calls;               /* struct up, owned, in order of arrival */
    struct list conns;               /* struct provider_conn, owned */
    size_t connected;                /* connections so far */
    void (*script)(struct up *u);    /* answers each whole call by itself; NULL: the test does */
};

/* One call as the provider sees it. */
struct up {
    struct link link;
    struct provider *of;
    struct provider_conn *conn; /* NULL: the gateway has closed it */
    struct str head, body;      /* owned */
    bool gone;                  /* the gateway closed before the answer was whole */
    bool ended;
};

void provider_bind(struct provider *p);
void provider_open(struct provider *p, struct event_base *base);
void provider_close(struct provider *p);
struct up *provider_call(const struct provider *p, size_t i); /* NULL: it has not come */

void up_say(struct up *u, struct span bytes); /* as they are */
/* A plain answer, whole; `fields` are further header lines, each with its CRLF, or "". */
void up_answer(struct up *u, int status, const char *fields, const char *json);
/* A stream: its head, then bytes, then its end; chunked. */
void up_stream(struct up *u);
void up_event(struct up *u, struct span bytes);
void up_end(struct up *u);
void up_leave(struct up *u, bool reset); /* closes the connection: FIN, or RST */
int up_keep(const struct up *u);         /* as caller_keep */
bool up_flushed(const struct up *u);     /* all that was said is with the kernel */

#endif
