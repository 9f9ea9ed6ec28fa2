/* How a position becomes angles: the frequencies of rotary embedding, as config.json scales them. */
#ifndef TOLLGATE_DECODE_ROPE_H
#define TOLLGATE_DECODE_ROPE_H

#include "backends/decode/model_file.h"

enum rope_kind {
    ROPE_DEFAULT,
    ROPE_LINEAR,
    ROPE_DYNAMIC, /* scales past max_position_embeddings only, which is where a context ends here */
    ROPE_LLAMA3,
    ROPE_YARN,
};
struct rope {
    enum rope_kind kind;
    double theta, factor, low_freq, high_freq, beta_fast, beta_slow;
    double attention; /* what yarn multiplies cosines and sines by; 0: as its formula says */
    int64_t original; /* positions before the scaling; 0: max_position_embeddings */
};

/* rope_scaling or rope_parameters: null or an object; what is not understood is refused by name. */
must_check bool rope_read(const char *file, struct span field, struct json v, struct rope *out, struct str *why);
/* Radians a position for each of the head_dim / 2 pairs. Returns what cosines and sines are multiplied by. */
double rope_turns(const struct rope *r, int64_t head_dim, int64_t max_positions, double *turn);
/* Cosines and sines of the first n positions: [n][head_dim / 2] each. */
void rope_angles(const struct rope *r, int64_t head_dim, int64_t max_positions, int64_t n, float *cosines,
                 float *sines);

#endif
