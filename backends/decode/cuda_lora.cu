/* Adapters: y = gain * (y + B (scale * A x)) for tiles of at most sixteen rows of one slot, in decoding and in prompts alike. A
 * tile costs as much as its own adapter's rank: blocks beyond it end at once. Rows without an adapter are in no tile. */
#include "backends/decode/cuda_dot.h"

DEVICE bool tile_at(const struct cuda_lora &a, int32_t i, struct cuda_tile *out) {
    int32_t n = a.wanted ? a.step->n_want_tiles : a.step->n_tiles, at = a.wanted ? a.step->want_tiles : a.step->tiles;
    if (i >= n)
        return false;
    *out = reinterpret_cast<const struct cuda_tile *>(ints(a.step, at))[i];
    return true;
}

/* Which of an argument's three: reading it by a number that is not known would move all of them to slow memory. */
DEVICE int32_t pick(const int32_t of[CUDA_PRODUCTS], int32_t product) {
    return product == 0 ? of[0] : product == 1 ? of[1] : of[2];
}

DEVICE struct cuda_lora_part part_of(const struct cuda_lora &a, const struct cuda_tile &t, int32_t product) {
    return a.parts[static_cast<int64_t>(t.slot) * a.parts_a_slot + pick(a.part, product)];
}

DEVICE float *shrunk_at(const struct cuda_lora &a, int32_t row, int32_t product) {
    return a.shrunk + (static_cast<int64_t>(row) * CUDA_PRODUCTS + product) * a.rank_max;
}

/* Grid: tiles, products, four rows of A. A warp takes one row of A. */
template <int T> DEVICE void shrink(const struct cuda_lora &a) {
    const int32_t size = T == CUDA_F32 ? 4 : 2;
    int32_t product = static_cast<int32_t>(blockIdx.y);
    int32_t k = static_cast<int32_t>(blockIdx.z) * (CUDA_ROW_THREADS / CUDA_WARP) + warp_of();
    struct cuda_tile t;
    if (!tile_at(a, static_cast<int32_t>(blockIdx.x), &t))
        return;
    struct cuda_lora_part p = part_of(a, t, product);
    if (k >= p.rank)
        return;
    for (int32_t first = 0; first < t.n; first += CUDA_TOKENS_A_WARP) {
        struct dots d;
        d.w = static_cast<const char *>(p.a) + static_cast<int64_t>(k) * a.cols * size;
        d.x = static_cast<const char *>(a.x) + static_cast<int64_t>(t.row0 + first) * a.cols * size;
        d.scales = nullptr;
        d.cols = a.cols;
        d.n = t.n - first < CUDA_TOKENS_A_WARP ? t.n - first : CUDA_TOKENS_A_WARP;
        float sum = dots_of<T, T>(d);
        int which = sum8_which(CUDA_WARP);
        if (which < d.n && lane_of() % (CUDA_WARP / 8) == 0)
            shrunk_at(a, t.row0 + first + which, product)[k] = sum * p.scale;
    }
}

/* Grid: tiles. What a token adds to its own row of the embedding is a column of A. */
template <int T> DEVICE void embed_shrink(const struct cuda_lora &a) {
    struct cuda_tile t;
    if (!tile_at(a, static_cast<int32_t>(blockIdx.x), &t))
        return;
    struct cuda_lora_part p = part_of(a, t, 0);
    for (int32_t i = static_cast<int32_t>(threadIdx.x); i < t.n * p.rank; i += static_cast<int32_t>(blockDim.x)) {
        int32_t row = t.row0 + i / p.rank, k = i % p.rank;
        int64_t id = ints(a.step, a.step->ids)[row];
        shrunk_at(a, row, 0)[k] = p.scale * load<T>(p.a, static_cast<int64_t>(k) * a.cols + id);
    }
}

/* Grid: tiles, products, outputs by blocks of threads. A thread takes one output of all rows of the tile; the shrunk rows
 * stand in shared memory, as many ranks of them at a time as there is room for. */
#define RANKS_AT_ONCE 64
template <int T> DEVICE void expand(const struct cuda_lora &a) {
    SHARED(float, z, CUDA_TILE_ROWS *RANKS_AT_ONCE);
    int32_t product = static_cast<int32_t>(blockIdx.y), me = static_cast<int32_t>(threadIdx.x);
    int32_t o = static_cast<int32_t>(blockIdx.z * blockDim.x) + me;
    int32_t rows = pick(a.rows, product);
    struct cuda_tile t;
    if (!tile_at(a, static_cast<int32_t>(blockIdx.x), &t))
        return;
    struct cuda_lora_part p = part_of(a, t, product);
    if (!p.rank || static_cast<int32_t>(blockIdx.z * blockDim.x) >= rows)
        return;
    float sum[CUDA_TILE_ROWS] = {0};
    for (int32_t k0 = 0; k0 < p.rank; k0 += RANKS_AT_ONCE) {
        int32_t ranks = p.rank - k0 < RANKS_AT_ONCE ? p.rank - k0 : RANKS_AT_ONCE;
        for (int32_t i = me; i < t.n * ranks; i += static_cast<int32_t>(blockDim.x))
            z[i / ranks * RANKS_AT_ONCE + i % ranks] = shrunk_at(a, t.row0 + i / ranks, product)[k0 + i % ranks];
        __syncthreads();
        for (int32_t k = 0; o < rows && k < ranks; k++) {
            float b = load<T>(p.b, static_cast<int64_t>(o) * p.rank + k0 + k);
#pragma unroll
            for (int r = 0; r < CUDA_TILE_ROWS; r++)
                if (r < t.n)
                    sum[r] = fmaf(b, z[r * RANKS_AT_ONCE + k], sum[r]);
        }
        __syncthreads();
    }
    if (o >= rows)
        return;
    float gain = p.gain ? p.gain[o] : 1.0f;
    float *y = a.y + static_cast<int64_t>(t.row0) * a.stride + pick(a.at, product) + o;
#pragma unroll
    for (int r = 0; r < CUDA_TILE_ROWS; r++)
        if (r < t.n)
            y[static_cast<int64_t>(r) * a.stride] = (y[static_cast<int64_t>(r) * a.stride] + sum[r]) * gain;
}

#define OF_TYPE(name, T)                                                                                               \
    KERNEL(lora_embed_##name, CUDA_ROW_THREADS, struct cuda_lora) {                                                    \
        embed_shrink<T>(a);                                                                                            \
    }                                                                                                                  \
    KERNEL(lora_shrink_##name, CUDA_ROW_THREADS, struct cuda_lora) {                                                   \
        shrink<T>(a);                                                                                                  \
    }                                                                                                                  \
    KERNEL(lora_expand_##name, CUDA_ROW_THREADS, struct cuda_lora) {                                                   \
        expand<T>(a);                                                                                                  \
    }

OF_TYPE(f32, CUDA_F32)
OF_TYPE(f16, CUDA_F16)
OF_TYPE(bf16, CUDA_BF16)
