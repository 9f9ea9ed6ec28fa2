/* What became of a request that this process does not remember: out of the log, on a thread of its own.
 *
 *     answer_request -> lookup_start (the request waits in AUTH) -> thread: the log's last day -> the loop: lookup_end
 *
 * Everything that the log's directory has is found, also what other processes and earlier ones wrote. At most LOOKUPS_MAX
 * run, each at most LOOKUP_PATIENCE_US long; who comes too many is told to come again. */
#ifndef TOLLGATE_GATEWAY_LOOKUP_H
#define TOLLGATE_GATEWAY_LOOKUP_H

#include "gateway/base/span.h"

#define LOOKUPS_MAX 2
#define LOOKUP_PATIENCE_US INT64_C(10000000)
#define LOOKUP_RECORD_MAX ((size_t)4 << 20) /* bytes */

struct gateway;
struct request;

/* Whether a text can be the id of a request at all: then the log is worth a look. */
bool lookup_is_id(struct span id);
/* The request waits (asking), or its error is set. */
void lookup_start(struct request *r);
void lookups_stop(struct gateway *g); /* those that run end soon, and find nothing */

/* The answer out of a settle or refuse record, as gateway/recent.c tells it. `targets`, `tries`, `cost`: what conf discloses.
 * False: the record is none that can be told. */
struct lookup_discloses {
    bool targets, tries, cost;
};
must_check bool lookup_tell(struct span record, struct lookup_discloses may, struct str *out);

#endif
