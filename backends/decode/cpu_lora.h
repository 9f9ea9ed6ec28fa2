/* Adapters on the CPU: for each tile of rows with one adapter, y += B (scale * (A x)), then DoRA's gain. What is computed for a
 * row depends on the row and its adapter alone; rows without an adapter are never looked at. */
#ifndef TOLLGATE_DECODE_CPU_LORA_H
#define TOLLGATE_DECODE_CPU_LORA_H

#include "backends/decode/adapter.h"
#include "backends/decode/cpu.h"
#include "backends/decode/workers.h"

#define LORA_PRODUCTS_MAX 3

struct lora {
    const struct cpu_kernels *kernels;
    struct workers *pool;         /* the twin's */
    const struct adapter **slots; /* owned, the array; [n_slots] */
    int64_t n_slots, rank_max;
    float *shrunk; /* owned; [rows][LORA_PRODUCTS_MAX][rank_max] */
    float *grown;  /* owned; [threads][TILE_ROWS][a slice of outputs] */
};
struct lora_product {
    enum module module;
    float *y;
    int64_t rows;
};

void lora_init(struct lora *l, const struct cpu_kernels *k, struct workers *pool, const struct compute_limits *limits);
void lora_fini(struct lora *l);
void lora_apply(struct lora *l, const struct batch_tiles *tiles, int64_t layer, const struct lora_product *products,
                int n, const float *x, int64_t cols);
/* The embedding's part: a column of A by the token's id. x is [row][hidden]. */
void lora_embed(struct lora *l, const struct batch *b, float *x, int64_t hidden);

#endif
