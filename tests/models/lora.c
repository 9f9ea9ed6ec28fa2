/* A linear layer with an adapter beside it, forward and backward. The scale is folded into t = scale (x A^T), so the
 * adapter's output is t B^T and the gradient of B needs no scale. Without an adapter it is a plain product. */
#include "tests/models/tiny.h"

#include "gateway/base/mem.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>

void tiny_line(float *y, float *t, const float *x, const struct tiny_line *l) {
    tiny_gemm(&(struct tiny_gemm){l->rows, l->out, l->in, x, l->in, 1, l->w, 1, l->in, y, l->out, false});
    if (!l->a)
        return;
    tiny_gemm(&(struct tiny_gemm){l->rows, l->rank, l->in, x, l->in, 1, l->a, 1, l->in, t, l->rank, false});
    for (int i = 0; i < l->rows * l->rank; i++)
        t[i] *= l->scale;
    tiny_gemm(&(struct tiny_gemm){l->rows, l->out, l->rank, t, l->rank, 1, l->b, 1, l->rank, y, l->out, true});
}

#define RANK_MAX 64

static void adapter_back(const struct tiny_line_grad *g, const float *dy, const float *x, const float *t,
                         const struct tiny_line *l) {
    float dt[TINY_ROWS * RANK_MAX];
    assert(l->rank <= RANK_MAX && l->rows <= TINY_ROWS);
    if (g->db)
        tiny_gemm(&(struct tiny_gemm){l->out, l->rank, l->rows, dy, 1, l->out, t, l->rank, 1, g->db, l->rank, true});
    tiny_gemm(&(struct tiny_gemm){l->rows, l->rank, l->out, dy, l->out, 1, l->b, l->rank, 1, dt, l->rank, false});
    for (int i = 0; i < l->rows * l->rank; i++)
        dt[i] *= l->scale;
    if (g->da)
        tiny_gemm(&(struct tiny_gemm){l->rank, l->in, l->rows, dt, 1, l->rank, x, l->in, 1, g->da, l->in, true});
    tiny_gemm(&(struct tiny_gemm){l->rows, l->in, l->rank, dt, l->rank, 1, l->a, l->in, 1, g->dx, l->in, true});
}

void tiny_line_back(const struct tiny_line_grad *g, const float *dy, const float *x, const float *t,
                    const struct tiny_line *l) {
    tiny_gemm(&(struct tiny_gemm){l->rows, l->in, l->out, dy, l->out, 1, l->w, l->in, 1, g->dx, l->in, true});
    if (g->dw)
        tiny_gemm(&(struct tiny_gemm){l->out, l->in, l->rows, dy, 1, l->out, x, l->in, 1, g->dw, l->in, true});
    if (l->a)
        adapter_back(g, dy, x, t, l);
}

void tiny_lora_init(struct tiny_lora *l, const struct tiny_shape *s, int rank, float alpha) {
    *l = (struct tiny_lora){.rank = rank, .scale = alpha / (float)rank};
    for (int pass = 0; pass < 2; pass++) {
        size_t n = 0;
        for (int i = 0; i < s->layers * TINY_LINEARS; i++) {
            int layer = i / TINY_LINEARS, which = i % TINY_LINEARS, out, in;
            tiny_linear_size(s, which, &out, &in);
            l->a[layer][which] = l->at ? l->at + n : NULL;
            n += (size_t)rank * in;
            l->b[layer][which] = l->at ? l->at + n : NULL;
            n += (size_t)rank * out;
        }
        if (pass == 0)
            l->at = xcalloc(n, sizeof *l->at);
        l->n = n;
    }
}

void tiny_lora_fini(struct tiny_lora *l) {
    free(l->at);
    *l = (struct tiny_lora){0};
}

void tiny_lora_randomise(struct tiny_lora *l, const struct tiny_shape *s, struct tiny_rng *r) {
    for (int i = 0; i < s->layers * TINY_LINEARS; i++) {
        int out, in;
        tiny_linear_size(s, i % TINY_LINEARS, &out, &in);
        float *a = l->a[i / TINY_LINEARS][i % TINY_LINEARS];
        for (int j = 0; j < l->rank * in; j++)
            a[j] = tiny_rng_normal(r) / sqrtf((float)in);
    }
}
