/* The peak EWMA. Always true here: what is known is at least 0, and never above the slowest answer that was seen. */
#include "routing/latency.h"

#include <math.h>

static double share_left(int64_t passed_us, int64_t over_us) {
    return passed_us > 0 ? exp(-(double)passed_us / (double)over_us) : 1;
}

void latency_saw(struct latency *l, int64_t us, int64_t now_us) {
    double seen = us > 0 ? (double)us : 0;
    double keep = share_left(now_us - l->at_us, LATENCY_WINDOW_US);
    if (l->at_us == 0 || seen >= l->us)
        l->us = seen;
    else
        l->us = l->us * keep + seen * (1 - keep);
    if (now_us > l->at_us)
        l->at_us = now_us;
}

int64_t latency_now(const struct latency *l, int64_t now_us) {
    return l->at_us == 0 ? -1 : (int64_t)(l->us * share_left(now_us - l->at_us, LATENCY_FADE_US));
}
