/* Shrink and expand over tiles that the scheduler has made. Shrinking is one small product a tile, expanding is cut into slices
 * of outputs; both are shared out to threads when there is enough of them, and each sum stays whole on one thread. */
#include "backends/decode/cpu_lora.h"

#include <assert.h>
#include <stdlib.h>

#define SLICE_ROWS 256
#define SMALL_MACS 65536 /* below this, waking a thread costs more than the work */

struct lora_job {
    struct lora *lora;
    const struct batch_tiles *tiles;
    int64_t layer;
    const struct lora_product *products;
    int n;
    const float *x;
    int64_t cols;
    int64_t slices[LORA_PRODUCTS_MAX + 1]; /* expand: first chunk of each product, within a tile */
};

void lora_init(struct lora *l, const struct cpu_kernels *k, struct workers *pool, const struct compute_limits *limits) {
    *l = (struct lora){.kernels = k, .pool = pool, .n_slots = limits->slots, .rank_max = limits->rank_max};
    if (!l->n_slots)
        return;
    l->slots = xcalloc((size_t)l->n_slots, sizeof *l->slots);
    l->shrunk = xcalloc((size_t)(limits->batch_tok * LORA_PRODUCTS_MAX * l->rank_max), sizeof *l->shrunk);
    l->grown = xcalloc((size_t)workers_threads(pool) * TILE_ROWS * SLICE_ROWS, sizeof *l->grown);
}

void lora_fini(struct lora *l) {
    free((void *)l->slots);
    free(l->shrunk);
    free(l->grown);
}

static const struct adapter_part *part_of(const struct lora_job *j, const struct batch_tile *t, int product) {
    return adapter_part(j->lora->slots[t->slot], j->layer, j->products[product].module);
}

static float *shrunk_at(const struct lora *l, int64_t row, int product) {
    return l->shrunk + (row * LORA_PRODUCTS_MAX + product) * l->rank_max;
}

static void scale_rows(const struct lora *l, const struct batch_tile *t, int product, const struct adapter_part *p) {
    for (int32_t i = 0; i < t->n; i++) {
        float *at = shrunk_at(l, t->row0 + i, product);
        for (int64_t k = 0; k < p->a.rows; k++)
            at[k] *= p->scale;
    }
}

static void shrink(void *arg, int64_t chunk, int thread) {
    const struct lora_job *j = arg;
    const struct batch_tile *t = &j->tiles->at[chunk / j->n];
    int product = (int)(chunk % j->n);
    const struct adapter_part *p = part_of(j, t, product);
    (void)thread;
    if (!p)
        return;
    j->lora->kernels->matmul(&p->a, 0, p->a.rows, j->x + t->row0 * j->cols, j->cols, t->n,
                             shrunk_at(j->lora, t->row0, product), LORA_PRODUCTS_MAX * j->lora->rank_max);
    scale_rows(j->lora, t, product, p);
}

/* Outputs row0 .. row0+n-1 of one product for the rows of one tile. */
static void grow(const struct lora_job *j, const struct batch_tile *t, int product, const struct adapter_part *p,
                 int64_t row0, int thread) {
    const struct lora_product *to = &j->products[product];
    const struct lora *l = j->lora;
    int64_t n = to->rows - row0 < SLICE_ROWS ? to->rows - row0 : SLICE_ROWS;
    float *z = l->grown + (int64_t)thread * TILE_ROWS * SLICE_ROWS;
    struct tensor slice = {p->b.at + row0 * p->b.cols * (int64_t)dtype_bytes(p->b.dtype), p->b.dtype, n, p->b.cols,
                           NULL};
    l->kernels->matmul(&slice, 0, n, shrunk_at(l, t->row0, product), LORA_PRODUCTS_MAX * l->rank_max, t->n, z,
                       SLICE_ROWS);
    for (int32_t i = 0; i < t->n; i++) {
        float *y = to->y + (t->row0 + i) * to->rows + row0;
        for (int64_t k = 0; k < n; k++)
            y[k] += z[i * SLICE_ROWS + k];
        for (int64_t k = 0; p->gain && k < n; k++)
            y[k] *= p->gain[row0 + k];
    }
}

static void expand(void *arg, int64_t chunk, int thread) {
    const struct lora_job *j = arg;
    const struct batch_tile *t = &j->tiles->at[chunk / j->slices[j->n]];
    int64_t at = chunk % j->slices[j->n];
    int product = 0;
    while (at >= j->slices[product + 1])
        product++;
    const struct adapter_part *p = part_of(j, t, product);
    if (p)
        grow(j, t, product, p, (at - j->slices[product]) * SLICE_ROWS, thread);
}

static void share_out(const struct lora *l, void (*work)(void *, int64_t, int), struct lora_job *j, int64_t n,
                      int64_t macs) {
    if (macs >= SMALL_MACS && n <= WORKERS_CHUNKS_MAX) {
        workers_run(l->pool, work, j, n);
        return;
    }
    for (int64_t i = 0; i < n; i++)
        work(j, i, 0);
}

static int64_t tile_rows(const struct batch_tiles *tiles) {
    int64_t n = 0;
    for (int32_t i = 0; i < tiles->n; i++)
        n += tiles->at[i].n;
    return n;
}

static void grow_all(struct lora *l, struct lora_job *j, int64_t rows) {
    int64_t outputs = 0;
    for (int i = 0; i < j->n; i++) {
        j->slices[i + 1] = j->slices[i] + (j->products[i].rows + SLICE_ROWS - 1) / SLICE_ROWS;
        outputs += j->products[i].rows;
    }
    share_out(l, expand, j, j->tiles->n * j->slices[j->n], rows * outputs * 8);
}

void lora_apply(struct lora *l, const struct batch_tiles *tiles, int64_t layer, const struct lora_product *products,
                int n, const float *x, int64_t cols) {
    struct lora_job j = {l, tiles, layer, products, n, x, cols, {0}};
    if (!tiles->n)
        return;
    assert(n <= LORA_PRODUCTS_MAX);
    int64_t rows = tile_rows(tiles);
    share_out(l, shrink, &j, (int64_t)tiles->n * n, rows * cols * 8 * n);
    grow_all(l, &j, rows);
}

void lora_embed(struct lora *l, const struct batch *b, float *x, int64_t hidden) {
    struct lora_product to = {MODULE_EMBED, x, hidden};
    struct lora_job j = {.lora = l, .tiles = &b->tiles, .products = &to, .n = 1};
    bool any = false;
    for (int32_t i = 0; i < b->tiles.n; i++) {
        const struct batch_tile *t = &b->tiles.at[i];
        const struct adapter_part *p = part_of(&j, t, 0);
        any = any || p;
        for (int32_t r = t->row0; p && r < t->row0 + t->n; r++)
            for (int64_t k = 0; k < p->a.rows; k++)
                shrunk_at(l, r, 0)[k] = p->scale * dtype_get(p->a.at, p->a.dtype, k * p->a.cols + b->ids[r]);
    }
    if (any)
        grow_all(l, &j, tile_rows(&b->tiles));
}
