/* Moves weights to the device, a stretch of rows at a time, so that no more than a stretch is ever held twice. */
#include "backends/decode/cuda_model.h"

#include "gateway/base/mem.h"

#include <assert.h>
#include <stdlib.h>

#define STRETCH_BYTES (INT64_C(16) << 20)
#define STACK_MAX 3

static_assert((int)CUDA_F32 == (int)DTYPE_F32 && (int)CUDA_F16 == (int)DTYPE_F16 && (int)CUDA_BF16 == (int)DTYPE_BF16 &&
                  (int)CUDA_INT8 == (int)DTYPE_INT8 && CUDA_INT8_GROUP == INT8_GROUP,
              "both sides mean the same");

static const struct tensor *next_matrix(const struct model *m, int64_t i) {
    const struct tensor *of_model[] = {&m->embed, &m->head};
    if (i < 2)
        return of_model[i];
    if ((i - 2) / 7 >= m->config.layers)
        return NULL;
    const struct layer *l = &m->layers[(i - 2) / 7];
    const struct tensor *of_layer[] = {&l->q, &l->k, &l->v, &l->o, &l->gate, &l->up, &l->down};
    return of_layer[(i - 2) % 7];
}

enum dtype cuda_model_type(const struct model *m) {
    const struct tensor *t;
    for (int64_t i = 0; (t = next_matrix(m, i)); i++)
        if (t->dtype != m->embed.dtype)
            return DTYPE_F32;
    return m->embed.dtype;
}

enum dtype cuda_model_act(const struct model *m) {
    enum dtype d = cuda_model_type(m);
    return d == DTYPE_INT8 ? DTYPE_F32 : d;
}

static struct tensor as_type(const struct tensor *t, enum dtype d) {
    return (struct tensor){NULL, d, t->rows, t->cols, NULL};
}

static int64_t scale_bytes(const struct tensor *t) {
    return t->dtype == DTYPE_INT8 ? t->rows * int8_groups(t->cols) * 4 : 0;
}

int64_t cuda_model_bytes(const struct model *m, int64_t max_context) {
    const struct tensor *t;
    enum dtype d = cuda_model_type(m);
    int64_t sum = (m->config.head_dim * max_context + m->config.hidden * (2 * m->config.layers + 1)) * 4;
    for (int64_t i = 0; (t = next_matrix(m, i)); i++)
        if (i != 1 || t->at != m->embed.at) {
            struct tensor as = as_type(t, d);
            sum += tensor_row_bytes(&as) * t->rows + scale_bytes(t);
        }
    return sum;
}

void cuda_turn(const uint8_t *from, enum dtype type, void *to, enum dtype act, int64_t n) {
    for (int64_t i = 0; i < n; i++) {
        float f = dtype_get(from, type, i);
        uint16_t h = act == DTYPE_BF16 ? f32_to_bf16(f) : act == DTYPE_F16 ? f32_to_f16(f) : 0;
        if (act == DTYPE_F32)
            memcpy((char *)to + i * 4, &f, sizeof f);
        else
            memcpy((char *)to + i * 2, &h, sizeof h);
    }
}

static void put_rows(struct cuda_device *d, char *to, const struct tensor *t, enum dtype type) {
    struct tensor as = as_type(t, type);
    int64_t from_bytes = tensor_row_bytes(t), to_bytes = tensor_row_bytes(&as);
    if (t->dtype == type) {
        cuda_device_put(d, to, t->at, t->rows * from_bytes);
        return;
    }
    int64_t rows = STRETCH_BYTES / to_bytes + 1;
    uint8_t *stretch = xcalloc((size_t)((rows < t->rows ? rows : t->rows) * to_bytes), 1);
    for (int64_t r = 0; r < t->rows; r += rows) {
        int64_t n = t->rows - r < rows ? t->rows - r : rows;
        cuda_turn(t->at + r * from_bytes, t->dtype, stretch, type, n * t->cols);
        cuda_device_put(d, to + r * to_bytes, stretch, n * to_bytes);
    }
    free(stretch);
}

static struct cuda_matrix put_stack(struct cuda_device *d, enum dtype type, const struct tensor *const *of, int n) {
    struct cuda_matrix m = {.cols = (int32_t)of[0]->cols};
    struct tensor as = as_type(of[0], type);
    int64_t row_bytes = tensor_row_bytes(&as), scales = 0, at = 0, scale_at = 0;
    for (int i = 0; i < n; i++) {
        m.rows += (int32_t)of[i]->rows;
        scales += scale_bytes(of[i]);
    }
    m.w = cuda_device_alloc(d, row_bytes * m.rows);
    if (scales)
        m.scales = cuda_device_alloc(d, scales);
    for (int i = 0; i < n && d->status == CUDA_OK; i++) {
        put_rows(d, (char *)m.w + at, of[i], type);
        cuda_device_put(d, (char *)m.scales + scale_at, of[i]->scales, scale_bytes(of[i]));
        at += row_bytes * of[i]->rows;
        scale_at += scale_bytes(of[i]);
    }
    return m;
}

/* NULL stays NULL: a model has all biases of a stack or none. */
static float *put_floats(struct cuda_device *d, const float *const *of, const int64_t *n, int count) {
    int64_t all = 0, at = 0;
    for (int i = 0; i < count; i++)
        all += n[i];
    if (!of[0])
        return NULL;
    float *to = cuda_device_alloc(d, all * 4);
    for (int i = 0; i < count && to; at += n[i++])
        cuda_device_put(d, to + at, of[i], n[i] * 4);
    return to;
}

static float *put_vector(struct cuda_device *d, const float *of, int64_t n) {
    return put_floats(d, &of, &n, 1);
}

static void put_layer(struct cuda_layer *to, const struct layer *l, const struct model_config *c, enum dtype type,
                      struct cuda_device *d) {
    int64_t q = c->heads * c->head_dim, kv = c->kv_heads * c->head_dim;
    *to = (struct cuda_layer){
        .attention_norm = put_vector(d, l->attention_norm, c->hidden),
        .mlp_norm = put_vector(d, l->mlp_norm, c->hidden),
        .q_norm = put_vector(d, l->q_norm, c->head_dim),
        .k_norm = put_vector(d, l->k_norm, c->head_dim),
        .qkv = put_stack(d, type, (const struct tensor *const[]){&l->q, &l->k, &l->v}, 3),
        .o = put_stack(d, type, (const struct tensor *const[]){&l->o}, 1),
        .gate_up = put_stack(d, type, (const struct tensor *const[]){&l->gate, &l->up}, 2),
        .down = put_stack(d, type, (const struct tensor *const[]){&l->down}, 1),
        .qkv_bias =
            put_floats(d, (const float *const[]){l->q_bias, l->k_bias, l->v_bias}, (const int64_t[]){q, kv, kv}, 3),
        .o_bias = put_vector(d, l->o_bias, c->hidden),
        .gate_up_bias = put_floats(d, (const float *const[]){l->gate_bias, l->up_bias},
                                   (const int64_t[]){c->intermediate, c->intermediate}, 2),
        .down_bias = put_vector(d, l->down_bias, c->hidden),
    };
}

static void put_angles(struct cuda_model *to, const struct model_config *c, int64_t max_context,
                       struct cuda_device *d) {
    int64_t n = c->head_dim / 2 * max_context;
    float *cos = xcalloc((size_t)n, sizeof *cos), *sin = xcalloc((size_t)n, sizeof *sin);
    rope_angles(&c->rope, c->head_dim, c->max_positions, max_context, cos, sin);
    to->cos = put_vector(d, cos, n);
    to->sin = put_vector(d, sin, n);
    free(cos);
    free(sin);
}

void cuda_model_put(struct cuda_model *to, const struct model *m, int64_t max_context, struct cuda_device *d) {
    const struct tensor *embed = &m->embed, *head = &m->head;
    *to = (struct cuda_model){.type = cuda_model_type(m), .act = cuda_model_act(m)};
    to->layers = xcalloc((size_t)m->config.layers, sizeof *to->layers);
    to->embed = to->head = put_stack(d, to->type, &embed, 1);
    if (head->at != embed->at)
        to->head = put_stack(d, to->type, &head, 1);
    to->norm = put_vector(d, m->norm, m->config.hidden);
    put_angles(to, &m->config, max_context, d);
    for (int64_t i = 0; i < m->config.layers && d->status == CUDA_OK; i++)
        put_layer(&to->layers[i], &m->layers[i], &m->config, to->type, d);
}

void cuda_model_fini(struct cuda_model *m) {
    free(m->layers);
    *m = (struct cuda_model){0};
}
