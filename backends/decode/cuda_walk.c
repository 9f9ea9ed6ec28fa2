/* The walk of a step through the model, as launches in one stream. Whatever a launch needs to know of the step itself it reads
 * from struct cuda_step on the device, so the launches of two steps of one plan are the same. */
#include "backends/decode/cuda_twin.h"

#include <math.h>

#define ROWS_A_BLOCK (CUDA_ROW_THREADS / CUDA_WARP)

static int64_t upward(int64_t n, int64_t by) {
    return (n + by - 1) / by;
}

/* Which sibling of a kernel that has one for each type. */
static enum cuda_kernel of_type(enum cuda_kernel f32, enum dtype d, int step) {
    return (enum cuda_kernel)((int)f32 + (int)d * step);
}

static void multiply(struct compute *c, const struct cuda_matrix *w, const void *x, int32_t rows, bool wanted,
                     float *y) {
    enum dtype type = c->weights.type;
    struct cuda_matmul a = {c->step, wanted, w->rows, w->cols, w->w, w->scales, x, y};
    if (rows > CUDA_OWN_ROWS && c->blas.library && type != DTYPE_INT8) {
        cuda_blas_multiply(&c->blas, &c->device, type, w, x, rows, y);
        return;
    }
    cuda_device_launch(&c->device, of_type(KERNEL_matmul_f32, type, 1),
                       (struct cuda_grid){upward(w->rows, ROWS_A_BLOCK), upward(rows, CUDA_TOKENS_A_WARP), 1}, 0, &a);
}

/* --- adapters --- */

struct adapted {
    int n;
    enum module module[CUDA_PRODUCTS];
    int64_t rows[CUDA_PRODUCTS];
};

static struct cuda_lora lora_args(const struct compute *c, const struct adapted *p, int64_t layer, const void *x,
                                  int64_t cols, float *y) {
    struct cuda_lora a = {.step = c->step,
                          .n = p->n,
                          .parts_a_slot = (int32_t)c->parts_a_slot,
                          .cols = (int32_t)cols,
                          .rank_max = (int32_t)c->limits.rank_max,
                          .parts = c->parts,
                          .x = x,
                          .shrunk = c->shrunk,
                          .y = y};
    for (int i = 0; i < p->n; i++) {
        int64_t first = p->module[i] < MODULES_A_LAYER ? layer * MODULES_A_LAYER
                                                       : c->model->config.layers * MODULES_A_LAYER - MODULES_A_LAYER;
        a.part[i] = (int32_t)(first + (int64_t)p->module[i]);
        a.at[i] = a.stride;
        a.rows[i] = (int32_t)p->rows[i];
        a.stride += a.rows[i];
    }
    return a;
}

static void expand(struct compute *c, const struct cuda_lora *a, int32_t tiles) {
    int32_t most = 0;
    for (int i = 0; i < a->n; i++)
        most = a->rows[i] > most ? a->rows[i] : most;
    cuda_device_launch(&c->device, of_type(KERNEL_lora_expand_f32, c->weights.act, 1),
                       (struct cuda_grid){tiles, a->n, upward(most, CUDA_ROW_THREADS)}, 0, a);
}

static void adapt(struct compute *c, const struct cuda_plan *p, struct cuda_lora a, int32_t tiles) {
    cuda_device_launch(&c->device, of_type(KERNEL_lora_shrink_f32, c->weights.act, 1),
                       (struct cuda_grid){tiles, a.n, upward(p->rank, ROWS_A_BLOCK)}, 0, &a);
    expand(c, &a, tiles);
}

static void adapt_layer(struct compute *c, const struct cuda_plan *p, int64_t layer, const struct adapted *of,
                        const void *x, int64_t cols, float *y) {
    if (p->adapted & CUDA_ADAPTED_LAYERS)
        adapt(c, p, lora_args(c, of, layer, x, cols, y), p->tiles);
}

/* --- rows --- */

static void embed(struct compute *c, const struct cuda_plan *p) {
    const struct cuda_matrix *e = &c->weights.embed;
    struct cuda_embed a = {c->step, e->w, e->scales, (int32_t)c->weights.type, e->cols, c->x};
    cuda_device_launch(&c->device, KERNEL_embed_rows, (struct cuda_grid){p->rows, 1, 1}, 0, &a);
    if (!(p->adapted & CUDA_ADAPTED_ENDS))
        return;
    struct adapted of = {1, {MODULE_EMBED}, {e->cols}};
    struct cuda_lora lora = lora_args(c, &of, 0, NULL, c->model->config.vocabulary, c->x);
    cuda_device_launch(&c->device, of_type(KERNEL_lora_embed_f32, c->weights.act, 1),
                       (struct cuda_grid){p->tiles, 1, 1}, 0, &lora);
    expand(c, &lora, p->tiles);
}

/* x += the last product and its bias (add NULL: nothing), then the norm of x. */
static void norm(struct compute *c, int32_t rows, bool wanted, const float *w, const float *add, const float *bias) {
    const struct model_config *m = &c->model->config;
    struct cuda_norm a = {
        c->step, wanted, (int32_t)m->hidden, (int32_t)c->weights.act, (float)m->norm_eps, c->x, add, bias, w, c->xn};
    cuda_device_launch(&c->device, KERNEL_norm_rows, (struct cuda_grid){rows, 1, 1}, 0, &a);
}

static void *cache_of(const struct compute *c, void *cache, int64_t layer) {
    const struct model_config *m = &c->model->config;
    return (char *)cache +
           layer * c->limits.n_blocks * m->kv_heads * KV_BLOCK_TOK * m->head_dim * (int64_t)dtype_bytes(c->weights.act);
}

static void remember(struct compute *c, const struct cuda_plan *p, int64_t layer) {
    const struct model_config *m = &c->model->config;
    const struct cuda_layer *l = &c->weights.layers[layer];
    struct cuda_rope a = {.step = c->step,
                          .qkv = c->qkv,
                          .bias = l->qkv_bias,
                          .q_norm = l->q_norm,
                          .k_norm = l->k_norm,
                          .cos = c->weights.cos,
                          .sin = c->weights.sin,
                          .k = cache_of(c, c->k_cache, layer),
                          .v = cache_of(c, c->v_cache, layer),
                          .heads = (int32_t)m->heads,
                          .kv_heads = (int32_t)m->kv_heads,
                          .head_dim = (int32_t)m->head_dim,
                          .kv_type = (int32_t)c->weights.act,
                          .eps = (float)m->norm_eps};
    cuda_device_launch(&c->device, KERNEL_rope_cache, (struct cuda_grid){p->rows, 1, 1}, 0, &a);
}

/* As struct room of cuda_attend.cu lays it out. */
static int64_t attend_bytes(const struct model_config *m) {
    int64_t group = m->heads / m->kv_heads, heads = group < CUDA_HEADS_A_BLOCK ? group : CUDA_HEADS_A_BLOCK;
    return heads * (2 * m->head_dim + CUDA_CHUNK_TOK + CUDA_ROW_THREADS + 6) * 4;
}

static void look_back(struct compute *c, const struct cuda_plan *p, int64_t layer) {
    const struct model_config *m = &c->model->config;
    struct cuda_attend a = {.step = c->step,
                            .qkv = c->qkv,
                            .k = cache_of(c, c->k_cache, layer),
                            .v = cache_of(c, c->v_cache, layer),
                            .heads = (int32_t)m->heads,
                            .kv_heads = (int32_t)m->kv_heads,
                            .head_dim = (int32_t)m->head_dim,
                            .window = m->windowed[layer] ? (int32_t)m->window : 0,
                            .chunks = p->chunks,
                            .out_type = (int32_t)c->weights.act,
                            .scale = 1.0f / sqrtf((float)m->head_dim),
                            .partial = c->partial,
                            .out = c->mixed};
    int64_t slices = upward(m->heads / m->kv_heads, CUDA_HEADS_A_BLOCK);
    cuda_device_launch(&c->device, of_type(KERNEL_attend_f32, c->weights.act, 1),
                       (struct cuda_grid){m->kv_heads * slices, p->rows, p->chunks ? p->chunks : 1}, attend_bytes(m),
                       &a);
    if (p->chunks)
        cuda_device_launch(&c->device, KERNEL_attend_merge, (struct cuda_grid){m->heads, p->rows, 1}, 0, &a);
}

static void close_gate(struct compute *c, const struct cuda_plan *p, int64_t layer) {
    int64_t n = c->model->config.intermediate;
    struct cuda_silu a = {
        c->step, c->gate_up, c->weights.layers[layer].gate_up_bias, (int32_t)n, (int32_t)c->weights.act, c->gate};
    cuda_device_launch(&c->device, KERNEL_silu_mul, (struct cuda_grid){p->rows, upward(n, CUDA_ROW_THREADS), 1}, 0, &a);
}

/* --- the walk --- */

/* `bias` is what the product before still lacks; it was made into `back`. */
static void layer_walk(struct compute *c, const struct cuda_plan *p, int64_t i, const float *bias) {
    const struct model_config *m = &c->model->config;
    const struct cuda_layer *l = &c->weights.layers[i];
    int64_t q = m->heads * m->head_dim, kv = m->kv_heads * m->head_dim;
    const struct adapted qkv = {3, {MODULE_Q, MODULE_K, MODULE_V}, {q, kv, kv}}, o = {1, {MODULE_O}, {m->hidden}},
                         gate_up = {2, {MODULE_GATE, MODULE_UP}, {m->intermediate, m->intermediate}},
                         down = {1, {MODULE_DOWN}, {m->hidden}};
    norm(c, p->rows, false, l->attention_norm, i ? c->back : NULL, bias);
    multiply(c, &l->qkv, c->xn, p->rows, false, c->qkv);
    adapt_layer(c, p, i, &qkv, c->xn, m->hidden, c->qkv);
    remember(c, p, i);
    look_back(c, p, i);
    multiply(c, &l->o, c->mixed, p->rows, false, c->back);
    adapt_layer(c, p, i, &o, c->mixed, q, c->back);
    norm(c, p->rows, false, l->mlp_norm, c->back, l->o_bias);
    multiply(c, &l->gate_up, c->xn, p->rows, false, c->gate_up);
    adapt_layer(c, p, i, &gate_up, c->xn, m->hidden, c->gate_up);
    close_gate(c, p, i);
    multiply(c, &l->down, c->gate, p->rows, false, c->back);
    adapt_layer(c, p, i, &down, c->gate, m->intermediate, c->back);
}

static void head(struct compute *c, const struct cuda_plan *p, const float *bias) {
    const struct adapted of = {1, {MODULE_HEAD}, {c->weights.head.rows}};
    norm(c, p->want_rows, true, c->weights.norm, c->back, bias);
    multiply(c, &c->weights.head, c->xn, p->want_rows, true, c->logits);
    if (!(p->adapted & CUDA_ADAPTED_ENDS))
        return;
    struct cuda_lora a = lora_args(c, &of, 0, c->xn, c->model->config.hidden, c->logits);
    a.wanted = 1;
    adapt(c, p, a, p->want_tiles);
}

static void sample(struct compute *c, const struct cuda_plan *p) {
    struct cuda_sample a = {c->step, c->logits, (int32_t)c->model->config.vocabulary, c->chosen};
    cuda_device_launch(&c->device, KERNEL_sample_rows, (struct cuda_grid){p->want_rows, 1, 1}, 0, &a);
}

void cuda_walk(struct compute *c, const struct cuda_plan *p) {
    const float *bias = NULL;
    embed(c, p);
    for (int64_t i = 0; i < c->model->config.layers; bias = c->weights.layers[i++].down_bias)
        layer_walk(c, p, i, bias);
    if (!p->want_rows)
        return;
    head(c, p, bias);
    if (p->sampled)
        sample(c, p);
}
