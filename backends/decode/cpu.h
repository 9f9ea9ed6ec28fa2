/* What the CPU twins share: the walk through the layers (cpu.c) is one, the kernels are two tables. The plain kernels
 * say what is right; every other table gives the same bits.
 *
 * The one order of summation: element i is added by fused multiply-add to lane i mod 8, i ascending; then the lanes are
 * folded ((0+4) + (2+6)) + ((1+5) + (3+7)). */
#ifndef TOLLGATE_DECODE_CPU_H
#define TOLLGATE_DECODE_CPU_H

#include "backends/decode/compute.h"

#define CPU_LANES 8

/* One token's look back with the query heads of one kv head. */
struct attend {
    const float *q;     /* [group][head_dim] */
    const float *k, *v; /* this layer's cache: [block][kv_head][KV_BLOCK_TOK][head_dim] */
    const int32_t *blocks;
    int64_t block_stride;       /* floats from one block to the next */
    int64_t head_offset;        /* floats from a block's start to this kv head */
    int64_t first;              /* where in the first block the first position is */
    int64_t n, group, head_dim; /* n: positions looked at */
    float scale;
    float *scores; /* scratch, [n rounded up to a block] */
    float *out;    /* [group][head_dim] */
};

struct cpu_kernels {
    /* y[t][row] = w[row] . x[t] for rows row0 .. row1-1 and all tokens */
    void (*matmul)(const struct tensor *w, int64_t row0, int64_t row1, const float *x, int64_t x_stride, int64_t n_tok,
                   float *y, int64_t y_stride);
    void (*norm)(const float *x, const float *w, float eps, int64_t n, float *y);
    void (*attend)(const struct attend *a);
    void (*silu_mul)(float *gate, const float *up, int64_t n); /* gate = silu(gate) * up */
};

struct compute *cpu_open(const struct model *m, const struct compute_limits *l, const struct cpu_kernels *k,
                         struct str *why);
bool cpu_forward(struct compute *c, const struct batch *b, float *logits);
bool cpu_place(struct compute *c, int32_t slot, const struct adapter *a);
void cpu_close(struct compute *c);
int64_t cpu_kv_tok_bytes(const struct model *m);

/* exp by the same steps in every table: 2^n * p(r), r in [-ln2/2, ln2/2]. */
#define CPU_EXP_LO (-87.0f)
#define CPU_EXP_HI 88.0f
#define CPU_EXP_LOG2E 1.44269504f
#define CPU_EXP_LN2_HI 0.693359375f
#define CPU_EXP_LN2_LO (-2.12194440e-4f)
#define CPU_EXP_ROUND 12582912.0f /* 1.5 * 2^23: adding it rounds to the nearest whole number */
#define CPU_EXP_C0 1.9875691500e-4f
#define CPU_EXP_C1 1.3981999507e-3f
#define CPU_EXP_C2 8.3334519073e-3f
#define CPU_EXP_C3 4.1665795894e-2f
#define CPU_EXP_C4 1.6666665459e-1f
#define CPU_EXP_C5 5.0000001201e-1f

#endif
