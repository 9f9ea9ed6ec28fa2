/* Private to routing/: how long a lane lets one wait, of late: a peak EWMA. It goes up at once with a slow answer and
 * comes down with quick ones, or slowly by itself, so that a lane that was left alone is tried again. */
#ifndef TOLLGATE_ROUTING_LATENCY_H
#define TOLLGATE_ROUTING_LATENCY_H

#include <stdint.h>

#define LATENCY_WINDOW_US INT64_C(10000000) /* over which quick answers pull it down */
#define LATENCY_FADE_US INT64_C(120000000)  /* over which it comes down to 1/e when nothing is heard */

struct latency {
    double us;
    int64_t at_us; /* when it was told last; 0: never */
};

void latency_saw(struct latency *l, int64_t us, int64_t now_us);
int64_t latency_now(const struct latency *l, int64_t now_us); /* -1: not known */

#endif
