/* What a client may see of a sequence: bytes of tokens go in, whole characters come out, and nothing that may turn out to be
 * the beginning of a stop string. The same text comes out however the bytes are cut. */
#ifndef TOLLGATE_DECODE_RUN_TEXT_H
#define TOLLGATE_DECODE_RUN_TEXT_H

#include "backends/decode/decode.h"

struct stop {
    char *text; /* owned */
    size_t n, matched;
    size_t *fallback; /* owned; [n] length of the longest border of the first i + 1 bytes */
};
struct run_text {
    char bytes[4]; /* the beginning of a character */
    size_t n_bytes;
    struct str held; /* may be the beginning of a stop string */
    struct stop stops[DECODE_STOPS_MAX];
    size_t n_stops;
    size_t shown;     /* bytes that have been let out, and the space that never was */
    bool stopped;     /* a stop string was found: it and all behind it is not shown */
    bool strip_space; /* one space at the very beginning is not part of the text */
};

void run_text_init(struct run_text *t, const struct span *stops, size_t n_stops,
                   bool strip_space); /* empty stops are none */
void run_text_fini(struct run_text *t);
void run_text_put(struct run_text *t, struct span bytes, struct str *out);
void run_text_end(struct run_text *t,
                  struct str *out); /* what was held is shown after all; half a character never is */

#endif
