/* Paths: what stands where, who may ask, which dialect the reply speaks. One table. */
#ifndef TOLLGATE_GATEWAY_ROUTES_H
#define TOLLGATE_GATEWAY_ROUTES_H

#include "gateway/request.h"

#define PATH_MAX_BYTES 1024 /* a longer path is no path of ours */

enum route_kind {
    ROUTE_OPEN, /* answered without a key */
    ROUTE_OWN,  /* answered by the gateway itself, with the caller's key, free */
    ROUTE_CALL, /* a call to a model */
};

struct route {
    const char *path;    /* normalised, without /v1; a trailing '*' takes the rest */
    const char *methods; /* "GET HEAD": as the allow header says it */
    enum route_kind kind;
    enum endpoint endpoint;            /* ROUTE_CALL */
    const char *name;                  /* for records: "models" */
    void (*answer)(struct request *r); /* ROUTE_OPEN, ROUTE_OWN: r->out, r->status, r->content_type */
};

/* Decodes, cuts dot segments away (they match nothing), collapses slashes, drops up to two /v1 and an /openai in front
 * (also /openai/v1). False when the path is not well-formed. */
must_check bool path_normalise(struct span path, char out[PATH_MAX_BYTES]);
/* The route of a path as it was sent; `rest` is what '*' took, decoded once, in the arena. NULL: none. */
const struct route *route_find(struct span path, struct arena *a, struct span *rest);
/* Percent-decodes; NUL and broken escapes are refused. Returns the length or -1. */
int route_decode(struct span path, char *out, size_t max);
bool route_takes(const struct route *route, struct span method);
/* The dialect of a path that may not exist: what an SDK would read. */
enum dialect dialect_of_path(struct span path, const struct http_head *head);

/* gateway/own.c: the gateway's own answers. */
void answer_alive(struct request *r);
void answer_ready(struct request *r);
void answer_models(struct request *r);
void answer_model(struct request *r);
void answer_key(struct request *r);
void answer_key_info(struct request *r);
void answer_request(struct request *r);

/* gateway/state/self_service.c: keys that owners make for their team. */
void answer_keys(struct request *r);
void answer_key_end(struct request *r);

#endif
