/* Opens the twin on a device, and one step of it. Everything is allocated at the start, for the largest step, but adapters; what
 * goes wrong later is logged once, and from then on every step says no. */
#include "backends/decode/cuda_twin.h"

#include "gateway/base/log.h"
#include "gateway/base/mem.h"

#include <assert.h>
#include <stdlib.h>

struct buffer {
    size_t at; /* of a pointer in struct compute */
    int64_t bytes;
};
#define BUFFERS_MAX 16

static int64_t largest(int64_t a, int64_t b) {
    return a > b ? a : b;
}

static int64_t partial_bytes(const struct model_config *m, const struct compute_limits *l) {
    int64_t chunks = 1, rows = l->batch_tok < CUDA_SPLIT_ROWS ? l->batch_tok : CUDA_SPLIT_ROWS;
    while (chunks * CUDA_CHUNK_TOK < l->max_context)
        chunks *= 2;
    int64_t bytes = rows * m->heads * chunks * (2 + m->head_dim) * 4;
    return bytes < CUDA_PARTIAL_BYTES_MAX ? bytes : CUDA_PARTIAL_BYTES_MAX;
}

static int64_t kv_tok_bytes(const struct model *m) {
    return m->config.layers * 2 * m->config.kv_heads * m->config.head_dim * (int64_t)dtype_bytes(cuda_model_act(m));
}

static size_t list_buffers(const struct model *m, const struct compute_limits *l, struct buffer out[BUFFERS_MAX]) {
    const struct model_config *k = &m->config;
    int64_t act = (int64_t)dtype_bytes(cuda_model_act(m)), q = k->heads * k->head_dim, kv = k->kv_heads * k->head_dim;
    /* Decoding is launched for up to the next larger of a few sizes; what such rows hold is never looked at. */
    int64_t rows = largest(l->batch_tok, CUDA_GRAPH_ROWS_MAX), want = largest(l->want_rows, CUDA_GRAPH_ROWS_MAX);
    int64_t cache = l->n_blocks * KV_BLOCK_TOK * kv_tok_bytes(m) / 2;
    int64_t parts = l->slots * (k->layers * MODULES_A_LAYER + MODULES - MODULES_A_LAYER);
    const struct buffer all[] = {
        {offsetof(struct compute, k_cache), cache},
        {offsetof(struct compute, v_cache), cache},
        {offsetof(struct compute, x), rows * k->hidden * 4},
        {offsetof(struct compute, xn), rows * k->hidden * act},
        {offsetof(struct compute, qkv), rows * (q + 2 * kv) * 4},
        {offsetof(struct compute, mixed), rows * q * act},
        {offsetof(struct compute, back), rows * k->hidden * 4},
        {offsetof(struct compute, gate_up), rows * 2 * k->intermediate * 4},
        {offsetof(struct compute, gate), rows * k->intermediate * act},
        {offsetof(struct compute, logits), want * k->vocabulary * 4},
        {offsetof(struct compute, chosen), want * 4},
        {offsetof(struct compute, partial), partial_bytes(k, l)},
        {offsetof(struct compute, shrunk), l->slots ? l->batch_tok * CUDA_PRODUCTS * l->rank_max * 4 : 0},
        {offsetof(struct compute, parts), parts * (int64_t)sizeof(struct cuda_lora_part)},
        {offsetof(struct compute, step), cuda_step_bytes(l)},
    };
    static_assert(ARRAY_LEN(all) <= BUFFERS_MAX, "a row for each");
    memcpy(out, all, sizeof all);
    return ARRAY_LEN(all);
}

static int64_t fixed_bytes(const struct model *m, const struct compute_limits *l) {
    struct buffer all[BUFFERS_MAX];
    size_t n = list_buffers(m, l, all);
    int64_t sum = cuda_model_bytes(m, l->max_context);
    for (size_t i = 2; i < n; i++) /* the first two are the cache */
        sum += all[i].bytes;
    return sum;
}

static void open_buffers(struct compute *c) {
    struct buffer all[BUFFERS_MAX];
    size_t n = list_buffers(c->model, &c->limits, all);
    for (size_t i = 0; i < n; i++)
        if (all[i].bytes) {
            void *at = cuda_device_alloc(&c->device, all[i].bytes);
            memcpy((char *)c + all[i].at, &at, sizeof at);
        }
    if (c->device.status != CUDA_OK)
        return;
    cuda_device_zero(&c->device, c->k_cache, all[0].bytes); /* NaN left by others would spoil what is masked out */
    cuda_device_zero(&c->device, c->v_cache, all[1].bytes);
    cuda_device_check(&c->device, c->device.driver.host_alloc((void **)&c->packed, (size_t)c->step_bytes),
                      "allocating pinned memory");
    cuda_device_wait(&c->device);
}

static void cuda_close(struct compute *c) {
    if (!c)
        return;
    if (c->device.driver.library) {
        c->device.driver.context_set(c->device.context);
        cuda_graphs_fini(c);
        cuda_blas_close(&c->blas);
        if (c->packed)
            c->device.driver.host_free(c->packed);
        cuda_device_close(&c->device);
    }
    cuda_model_fini(&c->weights);
    free(c->chosen_here);
    free(c->slots);
    free(c);
}

static struct compute *cuda_open(const struct model *m, const struct compute_limits *l, struct str *why) {
    struct compute *c = xcalloc(1, sizeof *c);
    *c = (struct compute){.model = m, .limits = *l, .step_bytes = cuda_step_bytes(l)};
    c->parts_a_slot = m->config.layers * MODULES_A_LAYER + MODULES - MODULES_A_LAYER;
    c->partial_bytes = partial_bytes(&m->config, l);
    c->chosen_here = xcalloc((size_t)l->want_rows, sizeof *c->chosen_here);
    c->slots = xcalloc((size_t)l->slots + 1, sizeof *c->slots);
    if (!cuda_device_open(&c->device, why)) {
        cuda_close(c);
        return NULL;
    }
    cuda_model_put(&c->weights, m, l->max_context, &c->device);
    open_buffers(c);
    if (c->device.status == CUDA_OK)
        cuda_blas_open(&c->blas, &c->device);
    if (c->device.status == CUDA_OK)
        return c;
    complain(why, "device", "%s: %s: %s", c->device.name, c->device.failed,
             cuda_status_text(&c->device.driver, c->device.status));
    cuda_close(c);
    return NULL;
}

static bool chosen_there(const struct batch *b, int32_t i) {
    return b->choices && b->choices[i].wanted;
}

/* Rows whose token was chosen there need no logits here; neighbours that do come together. */
static void bring_back(struct compute *c, const struct batch *b, bool sampled, float *logits) {
    int64_t n = c->model->config.vocabulary;
    if (sampled)
        cuda_device_get(&c->device, c->chosen_here, c->chosen, b->n_want * 4);
    for (int32_t i = 0, to; i < b->n_want; i = to + 1) {
        for (to = i; to < b->n_want && !chosen_there(b, to);)
            to++;
        cuda_device_get(&c->device, logits + i * n, c->logits + i * n, (to - i) * n * 4);
        if (to < b->n_want)
            b->choices[to].id = c->chosen_here[to];
    }
}

static bool cuda_forward(struct compute *c, const struct batch *b, float *logits) {
    assert(b->n_tok >= 1 && b->n_tok <= c->limits.batch_tok);
    bool was_well = c->device.status == CUDA_OK;
    if (cuda_device_enter(&c->device)) {
        struct cuda_plan p = cuda_step_plan(c, b);
        cuda_step_put(c, b);
        cuda_graph_walk(c, &p);
        bring_back(c, b, p.sampled, logits);
        cuda_device_wait(&c->device);
    }
    if (was_well && c->device.status != CUDA_OK)
        log_error("device: %s: %s: %s", c->device.name, c->device.failed,
                  cuda_status_text(&c->device.driver, c->device.status));
    return c->device.status == CUDA_OK;
}

const struct compute_ops compute_cuda = {"cuda",     NULL,         cuda_open,        cuda_forward, cuda_place,
                                         cuda_close, kv_tok_bytes, cuda_device_room, fixed_bytes};
