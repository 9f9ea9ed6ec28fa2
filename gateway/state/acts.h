/* Acts on state, carried from host to host over a Redis stream, <prefix>state. Each host's own file stays its truth: the
 * stream only carries.
 *
 *     connected -> read the stream from its start -> add what of ours is missing in it -> follow it, every ACTS_LOOK_US
 *
 * so a host that was away hears of everything, a Redis that lost its data is filled again by whoever knows, and a line
 * that comes twice or comes back is written once. */
#ifndef TOLLGATE_GATEWAY_ACTS_H
#define TOLLGATE_GATEWAY_ACTS_H

#include "gateway/base/err.h"
#include "gateway/base/redis.h"

#define ACTS_LOOK_US INT64_C(500000)
#define ACTS_PAGE 100 /* entries a question */

struct acts_ops {
    /* A line of another host, to be written unless it stands already: any number of times, in any order. ERR_INVALID:
     * it is none of ours, and passed over; another error: it is asked for again. */
    enum err (*take)(struct span line, void *user);
    /* All lines of our own. */
    void (*each)(void (*see)(struct span line, void *acts), void *acts, void *user);
};

struct acts;
struct acts *acts_new(struct redis *r, const struct acts_ops *ops, void *user);
void acts_free(struct acts *a);                  /* before the redis; NULL allowed */
void acts_add(struct acts *a, struct span line); /* a new line of our own; NULL allowed */
void acts_tick(struct acts *a, int64_t mono_us); /* NULL allowed */
bool acts_settled(const struct acts *a);         /* the stream is read to its end, and holds all of ours */

#endif
