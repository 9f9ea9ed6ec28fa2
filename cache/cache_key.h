/* Private to cache/: the key of a call, and what a client's cache-control asks for. */
#ifndef TOLLGATE_CACHE_CACHE_KEY_H
#define TOLLGATE_CACHE_CACHE_KEY_H

#include "cache/cache.h"

/* Making a key must not hold up the loop: a call beyond any of these has none. */
#define KEY_BODY_MAX (1 << 20)   /* bytes of the body */
#define KEY_COMMAS_MAX (1 << 16) /* of the body: against a million tiny values, each of them work */
#define KEY_HEADERS_MAX 128      /* forwarded headers */

/* NULL and the key, or the static reason why there is none. */
const char *key_make(const struct cache_ask *ask, uint8_t out[SHA256_BYTES]);

struct control {
    bool no_cache, no_store;
    int64_t max_age_us; /* INT64_MAX: not said */
};
struct control control_read(struct span cache_control);

/* `v` without its cache-control markers, as JSON text. False: a marker's name stands twice in one object. */
must_check bool marker_strip(struct json v, struct str *out);
/* Whether there can be anything to strip in it: a quick look. */
bool marker_suspected(struct span raw);

#endif
