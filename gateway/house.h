/* What gateway.c and reload.c share; nobody else includes it. */
#ifndef TOLLGATE_GATEWAY_HOUSE_H
#define TOLLGATE_GATEWAY_HOUSE_H

#include "gateway/gateway.h"

struct front_limits limits_of(const struct conf *c, int64_t connections);
struct audit_options audit_options_of(struct gateway *g, const struct conf *c, int64_t now_us,
                                      const char *files[ANCHOR_FILES_MAX]);

/* The files as they are now; NULL with everything that is wrong in `why`. */
must_check struct conf *conf_read(const char *path, struct str *why);
void conf_record(struct gateway *g, const char *what);

#endif
