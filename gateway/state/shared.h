/* What the processes of one gateway share: the link to Redis, and acts on state that travel over it. */
#ifndef TOLLGATE_GATEWAY_SHARED_H
#define TOLLGATE_GATEWAY_SHARED_H

#include "gateway/gateway.h"

/* Makes gateway.redis where conf names one; it connects by itself. False with a sentence when conf is wrong about it. */
must_check bool shared_open(struct gateway *g, struct str *why);
void shared_tick(struct gateway *g, int64_t mono_us);
void shared_close(struct gateway *g);
void shared_put(const struct gateway *g, struct str *json); /* the member "redis" of /readyz */

#endif
