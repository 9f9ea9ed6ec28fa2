/* Header fields on their way out, and heads that move to a place of their own. */
#ifndef TOLLGATE_GATEWAY_FIELDS_H
#define TOLLGATE_GATEWAY_FIELDS_H

#include "gateway/net/http.h"

#include <event2/buffer.h>

/* `name: value` lines, without those whose names are in `skip`. Control bytes become spaces: a value cannot end its
 * line. */
void fields_put(struct evbuffer *out, const struct http_field *fields, size_t n, const char *const *skip,
                size_t n_skip);
/* All spans of a parsed head that point into from[0..n) then point into to[0..n), which holds the same bytes. */
void fields_move(struct http1 *h, const char *from, const char *to, size_t n);
void fields_drop(struct http_head *h, const char *name);

#endif
