/* A small Llama: RMSNorm, rotate-half RoPE, grouped-query attention, SwiGLU, embeddings that are also the head. A shard
 * is one matrix of rows; the rows of a dialogue see only earlier rows of the same dialogue, so nothing is padded.
 * The order of names in the flat array is the order of the functions here: matrices first, norms last. */
#include "tests/models/tiny.h"

#include "gateway/base/mem.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

const struct tiny_shape TINY_SHAPE = {
    .vocab = 1024,
    .hidden = 128,
    .inter = 320,
    .layers = 4,
    .heads = 4,
    .kv_heads = 2,
    .head_dim = 32,
    .context = 1024,
    .eps = 1e-5f,
    .theta = 10000,
};

void tiny_linear_size(const struct tiny_shape *s, enum tiny_linear which, int *out, int *in) {
    int q = s->heads * s->head_dim, kv = s->kv_heads * s->head_dim;
    const int size[TINY_LINEARS][2] = {
        [TINY_Q] = {q, s->hidden},           [TINY_K] = {kv, s->hidden},          [TINY_V] = {kv, s->hidden},
        [TINY_O] = {s->hidden, q},           [TINY_GATE] = {s->inter, s->hidden}, [TINY_UP] = {s->inter, s->hidden},
        [TINY_DOWN] = {s->hidden, s->inter},
    };
    *out = size[which][0];
    *in = size[which][1];
}

/* Gives each name its place when p->at is there, and counts either way. */
static void place(struct tiny_params *p) {
    const struct tiny_shape *s = &p->shape;
    size_t n = (size_t)s->vocab * s->hidden;
    p->embed = p->at;
    for (int i = 0; i < s->layers * TINY_LINEARS; i++) {
        int out, in;
        tiny_linear_size(s, i % TINY_LINEARS, &out, &in);
        p->linear[i / TINY_LINEARS][i % TINY_LINEARS] = p->at ? p->at + n : NULL;
        n += (size_t)out * in;
    }
    p->n_decay = n;
    for (int i = 0; i < s->layers * 2; i++, n += s->hidden)
        p->norm[i / 2][i % 2] = p->at ? p->at + n : NULL;
    p->norm_last = p->at ? p->at + n : NULL;
    p->n = n + s->hidden;
}

void tiny_params_init(struct tiny_params *p, const struct tiny_shape *s) {
    assert(s->layers <= TINY_LAYERS_MAX && s->vocab <= TINY_VOCAB_MAX);
    *p = (struct tiny_params){.shape = *s};
    place(p);
    p->at = xcalloc(p->n, sizeof *p->at);
    place(p);
}

void tiny_params_fini(struct tiny_params *p) {
    free(p->at);
    *p = (struct tiny_params){0};
}

#define EMBED_SPREAD 0.05f

void tiny_params_randomise(struct tiny_params *p, struct tiny_rng *r) {
    const struct tiny_shape *s = &p->shape;
    for (int i = 0; i < s->vocab * s->hidden; i++)
        p->embed[i] = EMBED_SPREAD * tiny_rng_normal(r);
    for (int i = 0; i < s->layers * TINY_LINEARS; i++) {
        int out, in, which = i % TINY_LINEARS;
        tiny_linear_size(s, which, &out, &in);
        float spread = 1 / sqrtf((float)in);
        if (which == TINY_O || which == TINY_DOWN)
            spread /= sqrtf(2.0f * (float)s->layers); /* what adds to the residual stream starts small */
        for (int j = 0; j < out * in; j++)
            p->linear[i / TINY_LINEARS][which][j] = spread * tiny_rng_normal(r);
    }
    for (size_t i = p->n_decay; i < p->n; i++)
        p->at[i] = 1;
}

static float *take(float *at, size_t *n, size_t count) {
    float *mine = at ? at + *n : NULL;
    *n += count;
    return mine;
}

static void layer_place(struct tiny_layer_work *l, const struct tiny_shape *s, float *at, size_t *n) {
    size_t rows = TINY_ROWS, hidden = rows * s->hidden, inter = rows * s->inter, q = rows * s->heads * s->head_dim;
    size_t kv = rows * s->kv_heads * s->head_dim;
    struct {
        float **to;
        size_t count;
    } places[] = {
        {&l->x, hidden},       {&l->n1, hidden},
        {&l->inv1, rows},      {&l->q, q},
        {&l->k, kv},           {&l->v, kv},
        {&l->attended, q},     {&l->probs, rows * s->heads * TINY_SEGMENT_MAX},
        {&l->kept[0], hidden}, {&l->kept[1], hidden},
        {&l->mid, hidden},     {&l->n2, hidden},
        {&l->inv2, rows},      {&l->gate, inter},
        {&l->up, inter},       {&l->act, inter},
    };
    for (size_t i = 0; i < sizeof places / sizeof *places; i++)
        *places[i].to = take(at, n, places[i].count);
    for (int i = 0; i < TINY_LINEARS; i++)
        l->t[i] = take(at, n, rows * 64);
}

static size_t work_place(struct tiny_work *w, const struct tiny_shape *s, float *at) {
    size_t n = 0, rows = TINY_ROWS, hidden = rows * s->hidden, inter = rows * s->inter;
    size_t q = rows * s->heads * s->head_dim, kv = rows * s->kv_heads * s->head_dim;
    for (int i = 0; i < s->layers; i++)
        layer_place(&w->layer[i], s, at, &n);
    struct {
        float **to;
        size_t count;
    } places[] = {
        {&w->last, hidden},
        {&w->n_last, hidden},
        {&w->inv_last, rows},
        {&w->logits, rows * s->vocab},
        {&w->dx, hidden},
        {&w->dmid, hidden},
        {&w->dbranch, hidden},
        {&w->dn, hidden},
        {&w->dq, q},
        {&w->dk, kv},
        {&w->dv, kv},
        {&w->dgate, inter},
        {&w->dup, inter},
        {&w->dact, inter},
        {&w->turn, (size_t)TINY_SEGMENT_MAX * s->head_dim},
    };
    for (size_t i = 0; i < sizeof places / sizeof *places; i++)
        *places[i].to = take(at, &n, places[i].count);
    return n;
}

void tiny_work_init(struct tiny_work *w, const struct tiny_shape *s) {
    *w = (struct tiny_work){0};
    w->at = xcalloc(work_place(w, s, NULL), sizeof *w->at);
    work_place(w, s, w->at);
    tiny_turns(w->turn, s->head_dim, s->theta);
}

void tiny_work_fini(struct tiny_work *w) {
    free(w->at);
    *w = (struct tiny_work){0};
}
