/* What the host hands to the kernels, in C that both sides read: one struct a kernel, always its only argument.
 *
 *     struct cuda_step (in device memory, renewed before each step) says how many rows there are and what each is; a kernel
 *     launched for more rows than that does nothing for the rest, so that one recorded graph serves every smaller step.
 *
 * Pointers are the device's; the host never looks behind them. */
#ifndef TOLLGATE_DECODE_CUDA_ARGS_H
#define TOLLGATE_DECODE_CUDA_ARGS_H

#include <stdint.h>

#define CUDA_WARP 32
#define CUDA_TILE_ROWS 16    /* as TILE_ROWS */
#define CUDA_BLOCK_TOK 16    /* as KV_BLOCK_TOK */
#define CUDA_INT8_GROUP 64   /* as INT8_GROUP */
#define CUDA_PRODUCTS 3      /* matrices that share one input */
#define CUDA_CHUNK_TOK 256   /* positions whose scores are in shared memory together */
#define CUDA_HEADS_A_BLOCK 8 /* query heads of one kv head that read its cache together */
#define CUDA_TOKENS_A_WARP 8 /* tokens that share one reading of a row of weights */
#define CUDA_ROW_THREADS 128 /* of most kernels */
#define CUDA_SAMPLE_THREADS 256

enum cuda_type { CUDA_F32, CUDA_F16, CUDA_BF16, CUDA_INT8 }; /* as enum dtype */

struct cuda_choice { /* how one row's token is to be chosen */
    int32_t wanted;  /* 0: its logits are */
    int32_t top_k;   /* 0: off */
    float temperature, top_p, min_p;
    float unused;
    double at; /* uniform in [0, 1) */
};
struct cuda_tile {
    int32_t slot, row0, n;
};
/* Counts, and where each array begins, in units of int32_t from the start of this struct. */
struct cuda_step {
    int32_t n_tok, n_want, n_tiles, n_want_tiles;
    int32_t ids, pos, seq; /* [n_tok] */
    int32_t tables;        /* [n_seq] where a sequence's block numbers begin, in the same units */
    int32_t want;          /* [n_want] rows */
    int32_t tiles, want_tiles;
    int32_t choices; /* [n_want] struct cuda_choice, on 8 bytes */
};
struct cuda_lora_part { /* rank 0: absent */
    const void *a, *b;  /* [rank][in], [out][rank]; of the activations' type */
    const float *gain;  /* [out]; NULL: none */
    float scale;
    int32_t rank;
};

struct cuda_embed { /* x = the rows of w */
    const struct cuda_step *step;
    const void *w;
    const float *scales; /* int8: [row][group] */
    int32_t type, cols;
    float *x; /* [n_tok][cols] */
};
struct cuda_norm { /* x += add + bias; out = norm(x) * w */
    const struct cuda_step *step;
    int32_t wanted; /* the rows are the wanted ones; out is compact */
    int32_t n, out_type;
    float eps;
    float *x;
    const float *add, *bias, *w; /* add and bias: NULL: none */
    void *out;
};
struct cuda_matmul { /* y[t][row] = w[row] . x[t]; x is of w's type, f32 for int8 */
    const struct cuda_step *step;
    int32_t wanted; /* as many rows of x as are wanted */
    int32_t rows, cols;
    const void *w;
    const float *scales;
    const void *x;
    float *y;
};
struct cuda_rope { /* bias, head norms, turning; k and v into the cache */
    const struct cuda_step *step;
    float *qkv; /* [n_tok][(heads + 2 kv_heads) head_dim] */
    const float *bias, *q_norm, *k_norm, *cos, *sin;
    void *k, *v; /* this layer's cache: [block][kv_head][CUDA_BLOCK_TOK][head_dim] */
    int32_t heads, kv_heads, head_dim, kv_type;
    float eps;
};
struct cuda_attend {
    const struct cuda_step *step;
    const float *qkv;
    const void *k, *v;
    int32_t heads, kv_heads, head_dim, window; /* window 0: none */
    int32_t chunks; /* 0: a block goes through all chunks; else block z makes chunk z, for merging */
    int32_t out_type;
    float scale;
    float *partial; /* [n_tok][heads][chunks][2 + head_dim]: largest score, sum, mix */
    void *out;      /* [n_tok][heads head_dim] */
};
struct cuda_silu { /* out = silu(gate + bias) * (up + bias) */
    const struct cuda_step *step;
    const float *gate_up; /* [n_tok][2 n] */
    const float *bias;    /* [2 n]; NULL: none */
    int32_t n, out_type;
    void *out;
};
struct cuda_lora { /* y = gain * (y + B (scale * A x)) for the rows of tiles */
    const struct cuda_step *step;
    int32_t wanted;
    int32_t n; /* products */
    int32_t part[CUDA_PRODUCTS], at[CUDA_PRODUCTS],
        rows[CUDA_PRODUCTS]; /* which of a slot's parts; where in a row of y */
    int32_t parts_a_slot, cols, stride, rank_max;
    const struct cuda_lora_part *parts; /* [slot][parts_a_slot] */
    const void *x;                      /* [row][cols] */
    float *shrunk;                      /* [row][CUDA_PRODUCTS][rank_max] */
    float *y;                           /* [row][stride] */
};
struct cuda_sample {
    const struct cuda_step *step;
    const float *logits; /* [n_want][n] */
    int32_t n;
    int32_t *chosen; /* [n_want] */
};

/* Name, threads a block, argument. A name ending in _f32 has siblings for the other two types. */
#define CUDA_KERNELS(X)                                                                                                \
    X(embed_rows, CUDA_ROW_THREADS, struct cuda_embed)                                                                 \
    X(norm_rows, CUDA_ROW_THREADS, struct cuda_norm)                                                                   \
    X(rope_cache, CUDA_ROW_THREADS, struct cuda_rope)                                                                  \
    X(silu_mul, CUDA_ROW_THREADS, struct cuda_silu)                                                                    \
    X(matmul_f32, CUDA_ROW_THREADS, struct cuda_matmul)                                                                \
    X(matmul_f16, CUDA_ROW_THREADS, struct cuda_matmul)                                                                \
    X(matmul_bf16, CUDA_ROW_THREADS, struct cuda_matmul)                                                               \
    X(matmul_int8, CUDA_ROW_THREADS, struct cuda_matmul)                                                               \
    X(attend_f32, CUDA_ROW_THREADS, struct cuda_attend)                                                                \
    X(attend_f16, CUDA_ROW_THREADS, struct cuda_attend)                                                                \
    X(attend_bf16, CUDA_ROW_THREADS, struct cuda_attend)                                                               \
    X(attend_merge, CUDA_ROW_THREADS, struct cuda_attend)                                                              \
    X(lora_embed_f32, CUDA_ROW_THREADS, struct cuda_lora)                                                              \
    X(lora_embed_f16, CUDA_ROW_THREADS, struct cuda_lora)                                                              \
    X(lora_embed_bf16, CUDA_ROW_THREADS, struct cuda_lora)                                                             \
    X(lora_shrink_f32, CUDA_ROW_THREADS, struct cuda_lora)                                                             \
    X(lora_shrink_f16, CUDA_ROW_THREADS, struct cuda_lora)                                                             \
    X(lora_shrink_bf16, CUDA_ROW_THREADS, struct cuda_lora)                                                            \
    X(lora_expand_f32, CUDA_ROW_THREADS, struct cuda_lora)                                                             \
    X(lora_expand_f16, CUDA_ROW_THREADS, struct cuda_lora)                                                             \
    X(lora_expand_bf16, CUDA_ROW_THREADS, struct cuda_lora)                                                            \
    X(sample_rows, CUDA_SAMPLE_THREADS, struct cuda_sample)
#define CUDA_KERNEL_ENUM(name, threads, args) KERNEL_##name,
enum cuda_kernel { CUDA_KERNELS(CUDA_KERNEL_ENUM) KERNELS };
#undef CUDA_KERNEL_ENUM

#endif
