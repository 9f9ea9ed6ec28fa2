/* THE ENGINE OF SEVERAL WORKERS. Worker 0 owns it; the others ask over a unix socket in state.directory that only the gateway's own
 * user may open, with a secret that the parent makes at its start and only its workers know.
 *
 *     worker N   POST /run, the secret | engine_words, a line | the caller's body
 *     worker 0   200, the adapter that answers | packed events as they come (backends.h), the last one LAST or ERROR
 *
 * Who asks holds, limits, bills and audits; here a call only runs. When a caller hangs up its run ends within a step. */
#ifndef TOLLGATE_GATEWAY_ENGINE_DOOR_H
#define TOLLGATE_GATEWAY_ENGINE_DOOR_H

#include "backends/backends.h"
#include "gateway/base/hash.h"
#include "gateway/net/http.h"

#define ENGINE_SECRET_BYTES 32
#define ENGINE_SECRET_MAX (2 * ENGINE_SECRET_BYTES + 1)
#define ENGINE_ADAPTER_FIELD "x-adapter"

struct gateway;
struct engine_door;

struct engine_words { /* what an ask has that does not stand in the caller's body */
    const char *backend;
    enum endpoint endpoint;
    struct decode_ask ask; /* adapter, team, shared_prefix, cap_tok, deadline_us */
};
/* As a line; false when the arena is full. */
must_check bool engine_words_put(const struct engine_words *w, struct arena *a, struct span *line);
/* Spans and strings live in the arena. */
must_check bool engine_words_read(struct span line, struct arena *a, struct engine_words *out);

/* --- the other workers' side --- */
bool engine_door_is_open(const struct gateway *g); /* worker 0 serves */
struct http_call *engine_door_call(struct gateway *g, const struct span *body, size_t n,
                                   void (*on_change)(struct http_call *c, void *user), void *user);

/* --- worker 0's side --- */
must_check bool engine_door_open(struct gateway *g, struct str *why);
void engine_door_close(struct gateway *g); /* ends all runs */

/* What adapters mean, as all workers see it: worker 0 tells, on its clock and after every act on adapters. */
struct engine_page {
    _Atomic unsigned version; /* odd while it is written */
    uint8_t digest[SHA256_BYTES];
};
void engine_page_write(struct gateway *g);
void engine_page_read(const struct engine_page *page, uint8_t digest[SHA256_BYTES]);

#endif
