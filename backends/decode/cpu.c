/* The walk of a batch through a model on the CPU, the same for every table of kernels: what is computed, in which order,
 * and which parts are shared out to threads. Each row of each product is computed whole by one thread, so neither the
 * number of threads nor the rest of the batch can change a bit of it. Buffers are allocated once, for the largest step. */
#include "backends/decode/cpu.h"

#include "backends/decode/cpu_lora.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <sys/mman.h>

#define SMALL_MACS 65536  /* below this, waking a thread costs more than the work */
#define CHUNKS_A_THREAD 8 /* enough pieces that a delayed thread holds nobody up for long */
#define CHUNK_ROWS 8      /* chunks are whole multiples of this many rows */
#define PRODUCTS_MAX 3

struct compute {
    const struct model *model; /* the engine's */
    const struct cpu_kernels *kernels;
    struct compute_limits limits;
    struct workers *pool;
    struct lora lora;
    float *k_cache, *v_cache; /* [layer][block][kv_head][KV_BLOCK_TOK][head_dim]; mapped, touched as used */
    size_t cache_bytes;       /* of each */
    float *cos, *sin;         /* [max_context][head_dim / 2] */
    float *x, *xn, *q, *k, *v, *mixed, *gate, *up, *back; /* [batch_tok][...] */
    float *scores;                                        /* [threads][max_context rounded up] */
    int64_t score_stride;
};

struct product {
    const struct tensor *w;
    float *y;
    enum module module;
    const float *bias; /* NULL: none */
};
struct products {
    const struct compute *c;
    struct product of[PRODUCTS_MAX];
    int64_t first_chunk[PRODUCTS_MAX + 1];
    int n;
    const float *x;
    int64_t n_tok, rows_a_chunk;
};

static void products_chunk(void *arg, int64_t chunk, int thread) {
    const struct products *p = arg;
    (void)thread;
    int i = 0;
    while (chunk >= p->first_chunk[i + 1])
        i++;
    const struct tensor *w = p->of[i].w;
    int64_t row0 = (chunk - p->first_chunk[i]) * p->rows_a_chunk, row1 = row0 + p->rows_a_chunk;
    p->c->kernels->matmul(w, row0, row1 < w->rows ? row1 : w->rows, p->x, w->cols, p->n_tok, p->of[i].y, w->rows);
}

static void products_share_out(struct products *p) {
    int64_t rows = 0;
    for (int i = 0; i < p->n; i++)
        rows += p->of[i].w->rows;
    bool small = rows * p->of[0].w->cols * p->n_tok < SMALL_MACS;
    int64_t chunks = small ? 1 : (int64_t)workers_threads(p->c->pool) * CHUNKS_A_THREAD;
    p->rows_a_chunk = (rows / chunks / CHUNK_ROWS + 1) * CHUNK_ROWS;
    for (int i = 0; i < p->n; i++)
        p->first_chunk[i + 1] = p->first_chunk[i] + (p->of[i].w->rows + p->rows_a_chunk - 1) / p->rows_a_chunk;
    if (!small) {
        workers_run(p->c->pool, products_chunk, p, p->first_chunk[p->n]);
        return;
    }
    for (int64_t i = 0; i < p->first_chunk[p->n]; i++)
        products_chunk(p, i, 0);
}

static void add_bias(const struct product *p, int64_t n_tok) {
    for (int64_t t = 0; t < n_tok; t++)
        for (int64_t i = 0; i < p->w->rows; i++)
            p->y[t * p->w->rows + i] += p->bias[i];
}

/* All products of the same input in one go: one meeting of the threads instead of three. Then what adapters add. */
static void products_run(struct compute *c, struct products *p, const struct batch_tiles *tiles, int64_t layer) {
    struct lora_product adapted[PRODUCTS_MAX];
    products_share_out(p);
    for (int i = 0; i < p->n; i++)
        adapted[i] = (struct lora_product){p->of[i].module, p->of[i].y, p->of[i].w->rows};
    lora_apply(&c->lora, tiles, layer, adapted, p->n, p->x, p->of[0].w->cols);
    for (int i = 0; i < p->n; i++)
        if (p->of[i].bias) /* last: DoRA rescales the product without it */
            add_bias(&p->of[i], p->n_tok);
}

/* Rotates pairs (i, i + half), as Hugging Face lays Llama's heads out. */
static void rotate(const struct compute *c, float *head, int64_t pos) {
    int64_t half = c->model->config.head_dim / 2;
    const float *cos = c->cos + pos * half, *sin = c->sin + pos * half;
    for (int64_t i = 0; i < half; i++) {
        float a = head[i], b = head[i + half];
        head[i] = a * cos[i] - b * sin[i];
        head[i + half] = b * cos[i] + a * sin[i];
    }
}

static int64_t block_floats(const struct compute *c) {
    return c->model->config.kv_heads * KV_BLOCK_TOK * c->model->config.head_dim;
}

static size_t layer_at(const struct compute *c, int64_t layer) {
    return (size_t)layer * (size_t)c->limits.n_blocks * (size_t)block_floats(c);
}

static void place_head(const struct compute *c, const float *norm, float *head, int64_t pos) {
    if (norm)
        c->kernels->norm(head, norm, (float)c->model->config.norm_eps, c->model->config.head_dim, head);
    rotate(c, head, pos);
}

/* Positions become angles; K and V go to their places in the cache. */
static void remember(struct compute *c, const struct batch *b, int64_t layer) {
    const struct model_config *m = &c->model->config;
    const struct layer *l = &c->model->layers[layer];
    int64_t d = m->head_dim;
    for (int32_t t = 0; t < b->n_tok; t++) {
        int64_t pos = b->pos[t], block = b->block_tab[b->seq[t]][pos / KV_BLOCK_TOK];
        size_t at = layer_at(c, layer) + (size_t)(block * block_floats(c) + pos % KV_BLOCK_TOK * d);
        for (int64_t h = 0; h < m->heads; h++)
            place_head(c, l->q_norm, c->q + (t * m->heads + h) * d, pos);
        for (int64_t h = 0; h < m->kv_heads; h++, at += (size_t)(KV_BLOCK_TOK * d)) {
            float *k = c->k + (t * m->kv_heads + h) * d;
            place_head(c, l->k_norm, k, pos);
            memcpy(c->k_cache + at, k, (size_t)d * sizeof *k);
            memcpy(c->v_cache + at, c->v + (t * m->kv_heads + h) * d, (size_t)d * sizeof *k);
        }
    }
}

struct look_back {
    const struct compute *c;
    const struct batch *b;
    int64_t layer, tokens_a_chunk;
};

static void attend_one(const struct look_back *l, int32_t t, int64_t kv_head, int thread) {
    const struct compute *c = l->c;
    const struct model_config *m = &c->model->config;
    int64_t group = m->heads / m->kv_heads, at = (t * m->heads + kv_head * group) * m->head_dim;
    int64_t pos = l->b->pos[t], from = m->windowed[l->layer] && pos >= m->window ? pos - m->window + 1 : 0;
    struct attend a = {
        .q = c->q + at,
        .k = c->k_cache + layer_at(c, l->layer),
        .v = c->v_cache + layer_at(c, l->layer),
        .blocks = l->b->block_tab[l->b->seq[t]] + from / KV_BLOCK_TOK,
        .block_stride = block_floats(c),
        .head_offset = kv_head * KV_BLOCK_TOK * m->head_dim,
        .first = from % KV_BLOCK_TOK,
        .n = pos + 1 - from,
        .group = group,
        .head_dim = m->head_dim,
        .scale = 1.0f / sqrtf((float)m->head_dim),
        .scores = c->scores + thread * c->score_stride,
        .out = c->mixed + at,
    };
    c->kernels->attend(&a);
}

static void look_back_chunk(void *arg, int64_t chunk, int thread) {
    const struct look_back *l = arg;
    int64_t end = (chunk + 1) * l->tokens_a_chunk;
    for (int64_t t = chunk * l->tokens_a_chunk; t < end && t < l->b->n_tok; t++)
        for (int64_t h = 0; h < l->c->model->config.kv_heads; h++)
            attend_one(l, (int32_t)t, h, thread);
}

static void look_back(struct compute *c, const struct batch *b, int64_t layer) {
    struct look_back l = {c, b, layer, 1};
    int64_t macs = 0;
    for (int32_t t = 0; t < b->n_tok; t++)
        macs += (b->pos[t] + 1) * c->model->config.heads * c->model->config.head_dim * 2;
    int64_t most = (int64_t)workers_threads(c->pool) * CHUNKS_A_THREAD;
    l.tokens_a_chunk = macs < SMALL_MACS ? b->n_tok : (b->n_tok + most - 1) / most;
    workers_run(c->pool, look_back_chunk, &l, (b->n_tok + l.tokens_a_chunk - 1) / l.tokens_a_chunk);
}

static void norm_rows(const struct compute *c, const float *w, int32_t n_tok) {
    int64_t h = c->model->config.hidden;
    for (int32_t t = 0; t < n_tok; t++)
        c->kernels->norm(c->x + t * h, w, (float)c->model->config.norm_eps, h, c->xn + t * h);
}

/* x += w . from */
static void add_product(struct compute *c, const struct batch *b, int64_t layer, struct product of, const float *from) {
    struct products p = {.c = c, .of = {of}, .n = 1, .x = from, .n_tok = b->n_tok};
    products_run(c, &p, &b->tiles, layer);
    for (int64_t i = 0; i < b->n_tok * of.w->rows; i++)
        c->x[i] += of.y[i];
}

static void forward_layer(struct compute *c, const struct batch *b, int64_t i) {
    const struct layer *l = &c->model->layers[i];
    norm_rows(c, l->attention_norm, b->n_tok);
    struct products qkv = {.c = c,
                           .of = {{&l->q, c->q, MODULE_Q, l->q_bias},
                                  {&l->k, c->k, MODULE_K, l->k_bias},
                                  {&l->v, c->v, MODULE_V, l->v_bias}},
                           .n = 3,
                           .x = c->xn,
                           .n_tok = b->n_tok};
    products_run(c, &qkv, &b->tiles, i);
    remember(c, b, i);
    look_back(c, b, i);
    add_product(c, b, i, (struct product){&l->o, c->back, MODULE_O, l->o_bias}, c->mixed);
    norm_rows(c, l->mlp_norm, b->n_tok);
    struct products both = {
        .c = c,
        .of = {{&l->gate, c->gate, MODULE_GATE, l->gate_bias}, {&l->up, c->up, MODULE_UP, l->up_bias}},
        .n = 2,
        .x = c->xn,
        .n_tok = b->n_tok};
    products_run(c, &both, &b->tiles, i);
    for (int32_t t = 0; t < b->n_tok; t++)
        c->kernels->silu_mul(c->gate + t * l->gate.rows, c->up + t * l->gate.rows, l->gate.rows);
    add_product(c, b, i, (struct product){&l->down, c->back, MODULE_DOWN, l->down_bias}, c->gate);
}

static void embed(struct compute *c, const struct batch *b) {
    const struct tensor *e = &c->model->embed;
    for (int32_t t = 0; t < b->n_tok; t++)
        for (int64_t i = 0; i < e->cols; i++)
            c->x[t * e->cols + i] = tensor_get(e, b->ids[t], i);
    lora_embed(&c->lora, b, c->x, e->cols);
}

/* Only the rows that are wanted meet the head, which is the largest matrix; they are moved to the front first. */
static void head(struct compute *c, const struct batch *b, float *logits) {
    int64_t h = c->model->config.hidden;
    for (int32_t i = 0; i < b->n_want; i++)
        if (b->want[i] != i)
            memcpy(c->x + i * h, c->x + b->want[i] * h, (size_t)h * sizeof *c->x);
    norm_rows(c, c->model->norm, b->n_want);
    struct products p = {
        .c = c, .of = {{&c->model->head, logits, MODULE_HEAD, NULL}}, .n = 1, .x = c->xn, .n_tok = b->n_want};
    products_run(c, &p, &b->want_tiles, 0);
}

bool cpu_forward(struct compute *c, const struct batch *b, float *logits) {
    assert(b->n_tok >= 1 && b->n_tok <= c->limits.batch_tok);
    embed(c, b);
    for (int64_t i = 0; i < c->model->config.layers; i++)
        forward_layer(c, b, i);
    if (b->n_want)
        head(c, b, logits);
    return true;
}

int64_t cpu_kv_tok_bytes(const struct model *m) {
    return m->config.layers * 2 * m->config.kv_heads * m->config.head_dim * (int64_t)sizeof(float);
}

bool cpu_place(struct compute *c, int32_t slot, const struct adapter *a) {
    assert(slot >= 0 && slot < c->lora.n_slots && (!a || a->rank_max <= c->lora.rank_max));
    c->lora.slots[slot] = a;
    return true;
}

static bool open_cache(struct compute *c, struct str *why) {
    c->cache_bytes = layer_at(c, c->model->config.layers) * sizeof(float);
    for (int i = 0; i < 2; i++) {
        void *at =
            mmap(NULL, c->cache_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (at == MAP_FAILED)
            return complain(why, "kv cache", "%zu bytes cannot be had; lower max_context or max_sequences",
                            2 * c->cache_bytes);
        *(i ? &c->v_cache : &c->k_cache) = at;
    }
    return true;
}

static void open_angles(struct compute *c) {
    const struct model_config *m = &c->model->config;
    int64_t half = m->head_dim / 2, n = c->limits.max_context;
    c->cos = xcalloc((size_t)(n * half), sizeof *c->cos);
    c->sin = xcalloc((size_t)(n * half), sizeof *c->sin);
    rope_angles(&m->rope, m->head_dim, m->max_positions, n, c->cos, c->sin);
}

static void open_buffers(struct compute *c) {
    const struct model_config *m = &c->model->config;
    int64_t rows = c->limits.batch_tok, q = m->heads * m->head_dim, kv = m->kv_heads * m->head_dim;
    const struct {
        float **to;
        int64_t width;
    } all[] = {{&c->x, m->hidden},
               {&c->xn, m->hidden},
               {&c->q, q},
               {&c->k, kv},
               {&c->v, kv},
               {&c->mixed, q},
               {&c->back, m->hidden},
               {&c->gate, m->intermediate},
               {&c->up, m->intermediate}};
    for (size_t i = 0; i < ARRAY_LEN(all); i++)
        *all[i].to = xcalloc((size_t)(rows * all[i].width), sizeof(float));
    c->score_stride = (c->limits.max_context + KV_BLOCK_TOK) / KV_BLOCK_TOK * KV_BLOCK_TOK;
    c->scores = xcalloc((size_t)(c->score_stride * workers_threads(c->pool)), sizeof(float));
}

struct compute *cpu_open(const struct model *m, const struct compute_limits *l, const struct cpu_kernels *k,
                         struct str *why) {
    struct compute *c = xcalloc(1, sizeof *c);
    *c = (struct compute){.model = m, .kernels = k, .limits = *l};
    if (!open_cache(c, why)) {
        cpu_close(c);
        return NULL;
    }
    c->pool = workers_new(l->threads);
    open_angles(c);
    open_buffers(c);
    lora_init(&c->lora, k, c->pool, l);
    return c;
}

void cpu_close(struct compute *c) {
    if (!c)
        return;
    lora_fini(&c->lora);
    workers_free(c->pool);
    if (c->k_cache)
        munmap(c->k_cache, c->cache_bytes);
    if (c->v_cache)
        munmap(c->v_cache, c->cache_bytes);
    float *all[] = {c->cos, c->sin, c->x, c->xn, c->q, c->k, c->v, c->mixed, c->gate, c->up, c->back, c->scores};
    for (size_t i = 0; i < ARRAY_LEN(all); i++)
        free(all[i]);
    free(c);
}
