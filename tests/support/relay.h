/* A provider's stream run through reader, packing and writers, for tests: what comes out is one text. */
#ifndef TOLLGATE_TESTS_RELAY_H
#define TOLLGATE_TESTS_RELAY_H

#include "backends/backends.h"

struct sse { /* a plain splitter: enough of WHATWG's event stream for tests */
    struct str line, name, data;
    bool skip_lf, has_data;
};
void sse_init(struct sse *s);
void sse_fini(struct sse *s);
/* Calls `see` for every event that `bytes` complete. */
void sse_feed(struct sse *s, struct span bytes, void (*see)(struct span name, struct span data, void *user),
              void *user);

/* Feeds `stream` in pieces of `piece` bytes (0: whole), with one more cut at `cut`, and writes events, usage and the
 * bytes of three clients (stream that asks for usage, stream that does not, plain) to `out`. */
void relay_stream(enum endpoint e, struct span stream, size_t cut, size_t piece, struct str *out);
void dump_event(const struct event *e, struct str *out);
struct span file_read(const char *path, struct str *into);
/* The plain answer that a client gets for a provider's stream. */
void relay_plain(enum endpoint e, struct span stream, struct str *out);
/* A provider's plain answer, to a client that asked for a stream or not. False: the reader refused it. */
bool relay_body(enum endpoint e, struct span body, bool stream, bool include_usage, struct str *out);

#endif
