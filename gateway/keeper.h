/* The keeper of the books: looks, on a thread of its own, at what retention is about to take from the log, and writes what
 * has to outlive it. Of several workers the first one writes; the others only look.
 *
 *     tick -> look (thread) -> records? -> written in slices, some a tick -> look again
 *                           -> none: the log is told until when its records may go; looks again when retention comes near */
#ifndef TOLLGATE_GATEWAY_KEEPER_H
#define TOLLGATE_GATEWAY_KEEPER_H

#include "gateway/base/clock.h"

#define KEEPER_PATIENCE_US US_PER_HOUR /* after a look that could not do what it should, or has to wait for another */

struct gateway;
struct keeper;

struct keeper *keeper_new(void);
void keeper_free(struct keeper *k);
/* Records since then stay in the log, whatever audit.keep says. */
int64_t keeper_unrolled_us(const struct keeper *k);
bool keeper_is_busy(const struct keeper *k); /* no other books are made meanwhile */
void keeper_tick(struct gateway *g, int64_t mono_us);
void keeper_conf_changed(struct gateway *g); /* what is kept may be another */
void keeper_stop(struct gateway *g);         /* waits for a look that is under way */

#endif
