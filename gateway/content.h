/* Bodies for the audit log, as the hall gathers them. */
#ifndef TOLLGATE_GATEWAY_CONTENT_H
#define TOLLGATE_GATEWAY_CONTENT_H

#include "gateway/base/span.h"

/* A longer body is in the record by its digest alone: redaction and sealing are the loop's work. */
#define CONTENT_BODY_MAX ((size_t)1 << 20)
#define CONTENT_NOTES_A_TICK 64

struct event;
struct gateway;
void content_tick(struct gateway *g); /* tells of bodies that the disk did not take */

/* gateway/spoken.c: what a stream said, put together, so that a word that came in pieces can be redacted:
 *     {"choices":[{"index":0,"message":{"content":"..","reasoning":"..","refusal":"..","tool_calls":[..]},
 *                  "finish_reason":".."}]} */
#define SPOKEN_STRANDS_MAX 256              /* texts of one answer: choices and tool calls */
#define SPOKEN_ALL_MAX (INT64_C(128) << 20) /* of all streams of a process together */
struct spoken;
struct spoken *spoken_new(int64_t *all_bytes);
void spoken_add(struct spoken *s, const struct event *e);
must_check bool spoken_put(const struct spoken *s, struct str *out); /* false: it was too large to be gathered */
void spoken_free(struct spoken *s);                                  /* NULL allowed */

#endif
