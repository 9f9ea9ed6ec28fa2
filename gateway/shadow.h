/* Copies of calls for another target.
 *
 *     a client's call: RELEASE --(chosen, served, room)--> a request without a client: ROUTE > CACHE > HOLD > ... > DONE
 *
 * The copy walks like any request, from ROUTE on, but nothing that a client could want is used for it: it waits until at
 * most SHADOWS_AT_ONCE run, has connections and memory of its own, takes no slot of a backend, teaches routing nothing, and
 * is booked to the team _gateway within the alias's own budget. Its settle record tells of both answers; neither is kept. */
#ifndef TOLLGATE_GATEWAY_SHADOW_H
#define TOLLGATE_GATEWAY_SHADOW_H

#include "gateway/request.h"
#include "gateway/sketch.h"

#define SHADOWS_MAX 64                       /* that wait or run: one more is dropped */
#define SHADOWS_AT_ONCE 4                    /* that run */
#define SHADOW_BYTES_MAX (INT64_C(32) << 20) /* bodies and answers of all of them */
#define SHADOW_LIFE_US (5 * US_PER_MIN)      /* one that has not ended by then is ended: it is nobody's call */

struct pool;
struct loop;

/* How one of the two answers went. */
struct shadow_figures {
    char target[160];
    int status;
    enum finish finish;
    int64_t text_bytes, first_us, duration_us, cost_nanousd;
};

struct shadow { /* what a copy has beside a request */
    struct link link;
    struct request *request;    /* that it belongs to */
    const struct conf_key *key; /* of the call that was copied: its boundaries hold; in the request's conf */
    struct span require;        /* in the arena */
    char share[96];             /* whose it is in an engine: prompts of two teams never meet there either */
    char of[REQUEST_ID_MAX];
    bool runs;
    bool alike; /* both were asked at temperature 0: their words are compared */
    struct shadow_figures client;
    struct sketch said; /* by the answer that the client got */
};

struct shadows { /* of a house */
    struct list all;
    int running;
    int64_t bytes;
    struct pool *pool; /* owned */
};
void shadows_open(struct shadows *s, struct loop *loop);
void shadows_close(struct shadows *s);
void shadows_stop(struct gateway *g); /* a drain waits for none of them */
void shadows_tick(struct gateway *g, int64_t now_us);

/* What the client is given, as far as it may be compared later. */
void shadow_saw(struct request *r, const struct event *e);
/* At the RELEASE of a client's call: takes its body along when the call is to be copied. */
void shadow_after(struct request *r);

enum walk shadow_route(struct request *r); /* ROUTE, once it is its turn */
enum walk shadow_read(struct request *r);  /* STREAM */
void shadow_end(struct request *r);        /* RELEASE */
/* Members of its records. */
#define SHADOW_MEMBERS_MAX 1536
struct span shadow_members(struct request *r, bool ends, char out[SHADOW_MEMBERS_MAX]);

#endif
