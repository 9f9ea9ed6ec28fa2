/* The weights of one model, in place. Every tensor that the shape asks for is there with exactly that shape, and every
 * tensor in the files is one that the shape asks for: what maps to nothing is an error, not a surprise. */
#ifndef TOLLGATE_DECODE_MODEL_H
#define TOLLGATE_DECODE_MODEL_H

#include "backends/decode/model_config.h"
#include "backends/decode/safetensors.h"

#define MODEL_SHARDS_MAX 512

struct tensor {
    const uint8_t *at; /* row-major [rows, cols]; may be unaligned; owned by the model */
    enum dtype dtype;
    int64_t rows, cols;
    const float *scales; /* DTYPE_INT8: [rows][groups]; else NULL */
};

struct layer {
    const float *attention_norm, *mlp_norm; /* owned by the model; [hidden] */
    const float *q_norm, *k_norm;           /* [head_dim]; NULL: none */
    struct tensor q, k, v, o, gate, up, down;
    const float *q_bias, *k_bias, *v_bias, *o_bias, *gate_bias, *up_bias, *down_bias; /* NULL: none */
};

struct model {
    struct model_config config;
    struct tensor embed, head; /* head is embed when tied */
    const float *norm;
    struct layer *layers;
    int64_t parameters, weight_bytes;
    struct safetensors *shards;
    size_t n_shards;
    void **copies; /* norms, and matrices of another type than asked for */
    size_t n_copies;
};

/* dtype: "auto" keeps matrices as stored; "f32" and "bf16" turn them. */
must_check struct model *model_open(const char *directory, const char *dtype, struct str *why);
void model_close(struct model *m);

/* Rows of int8 weights are filled with zeros to whole groups, each with a scale. */
#define INT8_GROUP 64
static inline int64_t int8_groups(int64_t cols) {
    return (cols + INT8_GROUP - 1) / INT8_GROUP;
}
int64_t tensor_row_bytes(const struct tensor *t);
float tensor_get(const struct tensor *t, int64_t row, int64_t col);

/* One element of the other types, and one type into another; the meaning of a stored weight. */
float dtype_get(const uint8_t *at, enum dtype d, int64_t i);
float f16_to_f32(uint16_t h);
uint16_t f32_to_bf16(float f); /* nearest, ties to even; NaN stays NaN */
uint16_t f32_to_f16(float f);  /* the same; what is too large becomes the largest */

#endif
