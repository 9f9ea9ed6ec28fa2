/* One question to the admin port of a running gateway, for verbs that act on it. */
#ifndef TOLLGATE_CLI_ADMIN_CLIENT_H
#define TOLLGATE_CLI_ADMIN_CLIENT_H

#include "conf/conf.h"

#define ADMIN_CLIENT_REPLY_MAX ((size_t)64 << 20)

/* `address` overrides conf's admin.address; NULL: it stands. The token is conf's, or the one a gateway made into state.
 * Returns the HTTP status with the body in `out`; 0: nobody listens there; -1: a sentence in `why`. */
int admin_ask(const struct conf *c, const char *address, const char *method, const char *path, struct span body,
              struct str *out, struct str *why);

#endif
