/* The one matrix product of the trainer. B is packed into panels of 16 columns that stay in the first cache; a block of
 * six rows by 16 columns is summed in registers over k, in the order of k: the result does not depend on how the rows
 * are shared out. The compiler turns the vector type into whatever the machine has. */
#include "tests/models/tiny.h"

#define VECTOR 8
#define PANEL 16  /* columns of a panel: two vectors */
#define DEPTH 256 /* of k packed at once: 16 KiB */
#define BLOCK 6   /* rows of a block: twelve accumulators fit the sixteen registers of AVX2 */

struct vector {
    float v __attribute__((vector_size(VECTOR * sizeof(float)), aligned(sizeof(float)), may_alias));
};

static void pack(float *panel, const struct tiny_gemm *g, int k0, int depth, int j, int columns) {
    for (int k = 0; k < depth; k++) {
        const float *b = g->b + (ptrdiff_t)(k0 + k) * g->b_row + (ptrdiff_t)j * g->b_col;
        for (int c = 0; c < PANEL; c++)
            panel[k * PANEL + c] = c < columns ? b[(ptrdiff_t)c * g->b_col] : 0;
    }
}

static void store(float *c, const float *sum, int columns, bool add) {
    for (int i = 0; i < columns; i++)
        c[i] = add ? c[i] + sum[i] : sum[i];
}

/* `rows` is a constant wherever this is inlined, so the accumulators are registers. */
static inline __attribute__((always_inline)) void block(const struct tiny_gemm *g, const float *panel, int k0,
                                                        int depth, int i, int j, int columns, int rows) {
    struct vector sum[BLOCK][2] = {0};
    for (int k = 0; k < depth; k++) {
        const struct vector *b = (const struct vector *)(panel + k * PANEL);
        const float *a = g->a + (ptrdiff_t)i * g->a_row + (ptrdiff_t)(k0 + k) * g->a_col;
        for (int r = 0; r < rows; r++) {
            float factor = a[(ptrdiff_t)r * g->a_row];
            sum[r][0].v += factor * b[0].v;
            sum[r][1].v += factor * b[1].v;
        }
    }
    for (int r = 0; r < rows; r++)
        store(g->c + (ptrdiff_t)(i + r) * g->c_row + j, (const float *)sum[r], columns, g->add || k0 > 0);
}

static void rows_left(const struct tiny_gemm *g, const float *panel, int k0, int depth, int i, int j, int columns) {
    for (; i + 2 <= g->m; i += 2)
        block(g, panel, k0, depth, i, j, columns, 2);
    for (; i < g->m; i++)
        block(g, panel, k0, depth, i, j, columns, 1);
}

void tiny_gemm(const struct tiny_gemm *g) {
    float panel[DEPTH * PANEL];
    for (int k0 = 0; k0 < g->k; k0 += DEPTH) {
        int depth = g->k - k0 < DEPTH ? g->k - k0 : DEPTH, i = 0;
        for (int j = 0; j < g->n; j += PANEL) {
            int columns = g->n - j < PANEL ? g->n - j : PANEL;
            pack(panel, g, k0, depth, j, columns);
            for (i = 0; i + BLOCK <= g->m; i += BLOCK)
                block(g, panel, k0, depth, i, j, columns, BLOCK);
            rows_left(g, panel, k0, depth, i, j, columns);
        }
    }
}
