/* Which token comes next. A choice depends on the logits, the options, the seed and the token's place in the answer, and
 * on nothing else: no state runs from one token to the next. */
#ifndef TOLLGATE_DECODE_SAMPLE_H
#define TOLLGATE_DECODE_SAMPLE_H

#include "backends/decode/decode.h"

struct sample_options {
    double temperature; /* 0: the most likely token, the lowest id among equals */
    double top_p;       /* at least 1: off */
    uint64_t seed;
    int64_t top_k;                          /* 0: off */
    double min_p;                           /* 0: off */
    double repetition, presence, frequency; /* 1 (or 0), 0, 0: off */
    const struct decode_bias *biases;       /* borrowed */
    size_t n_biases;
};
struct sample_past { /* what a sequence holds so far */
    const int32_t *ids;
    int64_t n, n_prompt; /* of n, those of the prompt */
};
struct sampler { /* scratch of one thread */
    struct candidate {
        double p;
        int32_t id;
    } * candidates;  /* owned; [vocabulary] */
    int32_t *counts; /* owned; [vocabulary]; zero between calls */
    int64_t vocabulary;
};

void sampler_init(struct sampler *s, int64_t vocabulary);
void sampler_fini(struct sampler *s);
/* Penalties and biases; the logits are changed in place. */
void sampler_adjust(struct sampler *s, float *logits, const struct sample_options *o, const struct sample_past *past);
/* Leaves only tokens of the mask, and the `ends`; what is not a number among them comes last but stays. False: there is none. */
must_check bool sampler_allow(const struct sampler *s, float *logits, const uint64_t *mask, const int64_t *ends,
                              size_t n_ends);
int32_t sampler_pick(struct sampler *s, const float *logits, const struct sample_options *o, int64_t place);
/* Uniform in [0, 1): a function of (seed, place). */
double sample_uniform(uint64_t seed, int64_t place);

#endif
