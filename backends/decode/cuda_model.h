/* A model's weights on the device: matrices that share an input lie behind one another and are one product, all matrices are of
 * one type (f32, unless all are stored alike), and what goes into products is of that type too (f32 for int8). */
#ifndef TOLLGATE_DECODE_CUDA_MODEL_H
#define TOLLGATE_DECODE_CUDA_MODEL_H

#include "backends/decode/cuda_device.h"
#include "backends/decode/model.h"

struct cuda_matrix { /* the device's, as every pointer here */
    void *w;
    float *scales; /* int8 */
    int32_t rows, cols;
};
struct cuda_layer {
    float *attention_norm, *mlp_norm, *q_norm, *k_norm;
    struct cuda_matrix qkv, o, gate_up, down;
    float *qkv_bias, *o_bias, *gate_up_bias, *down_bias;
};
struct cuda_model {
    enum dtype type, act; /* of matrices; of what goes into them */
    struct cuda_matrix embed, head;
    float *norm, *cos, *sin;   /* the last two: [max_context][head_dim / 2] */
    struct cuda_layer *layers; /* owned; the host's */
};

enum dtype cuda_model_type(const struct model *m);
enum dtype cuda_model_act(const struct model *m);
int64_t cuda_model_bytes(const struct model *m, int64_t max_context);
/* What goes wrong is in the device's status. */
void cuda_model_put(struct cuda_model *to, const struct model *m, int64_t max_context, struct cuda_device *d);
void cuda_model_fini(struct cuda_model *m);

/* Elements of any type into another. */
void cuda_turn(const uint8_t *from, enum dtype type, void *to, enum dtype act, int64_t n);

#endif
