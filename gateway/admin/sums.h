/* Metrics of several processes added up, in the text form of Prometheus. */
#ifndef TOLLGATE_GATEWAY_SUMS_H
#define TOLLGATE_GATEWAY_SUMS_H

#include "gateway/base/map.h"

struct sums {
    struct map by_key; /* series text -> struct sum *, owned */
    struct sum_family *families, *last;
    struct map by_family;
};

void sums_init(struct sums *s);
void sums_fini(struct sums *s);
/* One process's text. `gone`: the process is dead; what it counted stays, its gauges do not. */
void sums_add(struct sums *s, struct span text, bool gone);
void sums_print(const struct sums *s, struct str *out);

/* Each counter and each part of a histogram in `text`: its series as printed ("tollgate_x_total{a=\"b\"}") and its value
 * over 10^9. */
void sums_each_counter(struct span text, void (*see)(struct span series, __int128 nano, void *user), void *user);

#endif
