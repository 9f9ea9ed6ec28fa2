/* A batch as the kernels read it: one stretch of whole numbers, counts and places first, copied in one go. */
#include "backends/decode/cuda_twin.h"

#include <assert.h>

static_assert(sizeof(struct cuda_tile) == sizeof(struct batch_tile) && CUDA_TILE_ROWS == TILE_ROWS &&
                  CUDA_BLOCK_TOK == KV_BLOCK_TOK,
              "both sides mean the same");

struct packer {
    int32_t *at;
    int64_t n, most; /* of int32_t */
};

/* Every row may have an adapter of its own, every sequence the longest context. */
int64_t cuda_step_bytes(const struct compute_limits *l) {
    int64_t tables = l->want_rows * (1 + (l->max_context + KV_BLOCK_TOK - 1) / KV_BLOCK_TOK);
    int64_t ints = (int64_t)sizeof(struct cuda_step) / 4 + 3 * l->batch_tok + tables + l->want_rows +
                   3 * (l->batch_tok + l->want_rows) + 2 + l->want_rows * (int64_t)sizeof(struct cuda_choice) / 4;
    return ints * 4;
}

static int32_t pack(struct packer *p, const void *from, int64_t n) {
    int32_t at = (int32_t)p->n;
    assert(p->n + n <= p->most);
    if (n)
        memcpy(p->at + p->n, from, (size_t)n * 4);
    p->n += n;
    return at;
}

static int32_t pack_tables(struct packer *p, const struct batch *b) {
    int32_t at = (int32_t)p->n;
    p->n += b->n_seq;
    for (int32_t s = 0; s < b->n_seq; s++)
        p->at[at + s] = pack(p, b->block_tab[s], (b->ctx_len[s] + KV_BLOCK_TOK - 1) / KV_BLOCK_TOK);
    return at;
}

static int32_t pack_choices(struct packer *p, const struct batch *b) {
    p->n += p->n % 2; /* on 8 bytes */
    int32_t at = (int32_t)p->n;
    for (int32_t i = 0; i < b->n_want; i++) {
        struct cuda_choice c = {0};
        const struct batch_choice *from = b->choices ? &b->choices[i] : NULL;
        if (from && from->wanted)
            c = (struct cuda_choice){.wanted = 1,
                                     .top_k = (int32_t)from->top_k,
                                     .temperature = (float)from->temperature,
                                     .top_p = (float)from->top_p,
                                     .min_p = (float)from->min_p,
                                     .at = from->at};
        pack(p, &c, (int64_t)sizeof c / 4);
    }
    return at;
}

void cuda_step_put(struct compute *c, const struct batch *b) {
    struct cuda_step *s = (struct cuda_step *)(void *)c->packed;
    struct packer p = {(int32_t *)(void *)c->packed, (int64_t)sizeof *s / 4, c->step_bytes / 4};
    *s = (struct cuda_step){b->n_tok, b->n_want, b->tiles.n, b->want_tiles.n, 0, 0, 0, 0, 0, 0, 0, 0};
    s->ids = pack(&p, b->ids, b->n_tok);
    s->pos = pack(&p, b->pos, b->n_tok);
    s->seq = pack(&p, b->seq, b->n_tok);
    s->want = pack(&p, b->want, b->n_want);
    s->tiles = pack(&p, b->tiles.at, 3 * (int64_t)b->tiles.n);
    s->want_tiles = pack(&p, b->want_tiles.at, 3 * (int64_t)b->want_tiles.n);
    s->tables = pack_tables(&p, b);
    s->choices = pack_choices(&p, b);
    cuda_device_put(&c->device, c->step, c->packed, p.n * 4);
}

/* --- the plan --- */

static int32_t rounded(int32_t n) {
    static const int32_t sizes[] = {1, 2, 4, 8, 16, 24, 32, 48, 64, 96, CUDA_GRAPH_ROWS_MAX};
    for (size_t i = 0; i < ARRAY_LEN(sizes); i++)
        if (n <= sizes[i])
            return sizes[i];
    return n;
}

static int32_t chunks_of(const struct compute *c, const struct batch *b, int32_t rows) {
    const struct model_config *m = &c->model->config;
    int32_t most = 0, chunks = 1;
    for (int32_t t = 0; t < b->n_tok; t++)
        most = b->pos[t] > most ? b->pos[t] : most;
    while (chunks * CUDA_CHUNK_TOK <= most)
        chunks *= 2;
    int64_t bytes = rows * m->heads * chunks * (2 + m->head_dim) * 4;
    return chunks == 1 || rows > CUDA_SPLIT_ROWS || bytes > c->partial_bytes ? 0 : chunks;
}

static unsigned adapted_by(const struct compute *c, const struct batch_tiles *t, int32_t *rank) {
    unsigned adapted = 0;
    for (int32_t i = 0; i < t->n; i++) {
        const struct cuda_slot *s = &c->slots[t->at[i].slot];
        adapted |= s->adapted;
        *rank = s->rank > *rank ? (int32_t)s->rank : *rank;
    }
    return adapted;
}

/* Steps that only decode are rounded up, so that few recordings serve them all. */
struct cuda_plan cuda_step_plan(const struct compute *c, const struct batch *b) {
    bool decodes = b->n_want == b->n_tok && b->n_tok <= CUDA_GRAPH_ROWS_MAX;
    struct cuda_plan p = {.rows = decodes ? rounded(b->n_tok) : b->n_tok,
                          .want_rows = decodes ? rounded(b->n_tok) : b->n_want};
    p.adapted = adapted_by(c, &b->tiles, &p.rank);
    p.tiles = !p.adapted ? 0 : decodes ? p.rows : b->tiles.n;
    p.want_tiles = !p.adapted ? 0 : decodes ? p.rows : b->want_tiles.n;
    p.rank = !p.rank ? 0 : decodes ? (int32_t)c->limits.rank_max : p.rank;
    p.chunks = chunks_of(c, b, p.rows);
    for (int32_t i = 0; b->choices && i < b->n_want; i++)
        p.sampled = p.sampled || b->choices[i].wanted;
    return p;
}
