/* Which token comes next. A choice depends on the logits, the options, the seed and the token's place in the answer, and
 * on nothing else: no state runs from one token to the next. */
#ifndef TOLLGATE_DECODE_SAMPLE_H
#define TOLLGATE_DECODE_SAMPLE_H

#include "gateway/base/span.h"

struct sample_options {
    double temperature; /* 0: the most likely token, the lowest id among equals */
    double top_p;       /* at least 1: off */
    uint64_t seed;
};
struct sampler { /* scratch of one thread */
    struct candidate {
        double p;
        int32_t id;
    } * candidates; /* owned; [vocabulary] */
    int64_t vocabulary;
};

void sampler_init(struct sampler *s, int64_t vocabulary);
void sampler_fini(struct sampler *s);
int32_t sampler_pick(struct sampler *s, const float *logits, const struct sample_options *o, int64_t place);
/* Uniform in [0, 1): a function of (seed, place). */
double sample_uniform(uint64_t seed, int64_t place);

#endif
