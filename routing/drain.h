/* Private to routing/: what is drained. */
#ifndef TOLLGATE_ROUTING_DRAIN_H
#define TOLLGATE_ROUTING_DRAIN_H

#include "routing/inside.h"

#define DRAIN_NAME_MAX HEALTH_NAME_MAX /* bytes; longer names are cut alike on both sides */

/* Until when a lane is drained, by whichever of its names; 0: it is not. */
int64_t drain_until(const struct routing *r, const struct part_names *names, int64_t now_us);
void drains_free(struct routing *r);

#endif
