/* The twin on an NVIDIA device: the same walk as cpu.c's, issued as launches.
 *
 *     batch -> packed into one struct cuda_step, one copy -> layers (a recorded graph, where one fits) -> logits or tokens back
 *
 * The residual stream is f32; what goes into products, and the cache, is of the weights' type. The device's numbers agree with
 * the CPU's within a tolerance (tests/unit/test_compute_cuda.c), and by the house's own kernels a row's bits do not depend on its
 * company; products of more than CUDA_OWN_ROWS tokens by cuBLAS do not promise that. */
#ifndef TOLLGATE_DECODE_CUDA_TWIN_H
#define TOLLGATE_DECODE_CUDA_TWIN_H

#include "backends/decode/adapter.h"
#include "backends/decode/compute.h"
#include "backends/decode/cuda_blas.h"

#define CUDA_OWN_ROWS 8     /* up to so many tokens reading the weights is all that counts */
#define CUDA_SPLIT_ROWS 128 /* up to so many tokens, chunks of the past are given to blocks of their own */
#define CUDA_PARTIAL_BYTES_MAX (INT64_C(64) << 20)
#define CUDA_GRAPH_ROWS_MAX 128
#define CUDA_GRAPHS_MAX 48 /* recorded at once; the least lately used makes room */

enum cuda_adapted { CUDA_ADAPTED_LAYERS = 1, CUDA_ADAPTED_ENDS = 2 }; /* which launches of adapters a step has */

/* What a step's launches depend on; two steps of one plan are the same launches. */
struct cuda_plan {
    int32_t rows, want_rows; /* launched for; at least those of the step */
    int32_t tiles, want_tiles;
    int32_t chunks;   /* of the past, in blocks of their own; 0: one block goes through all */
    unsigned adapted; /* enum cuda_adapted */
    int32_t rank;     /* launched for */
    bool sampled;     /* some row's token is chosen here */
};
struct cuda_graph {
    struct cuda_plan plan;
    void *executable; /* owned; NULL: seen once, not recorded yet */
    int64_t used;     /* when it was last, by count; 0: free */
};
struct cuda_slot {
    void *blob; /* owned; the device's: all matrices and gains of one adapter; NULL: free */
    int64_t bytes, rank;
    unsigned adapted;
};

struct compute {
    const struct model *model; /* the engine's */
    struct compute_limits limits;
    struct cuda_device device;
    struct cuda_blas blas;
    struct cuda_model weights;
    /* the device's, from here on */
    void *k_cache, *v_cache;         /* [layer][block][kv_head][KV_BLOCK_TOK][head_dim] */
    float *x, *qkv, *back, *gate_up; /* [batch_tok][...] */
    void *xn, *mixed, *gate;         /* the same, of the activations' type */
    float *logits, *partial, *shrunk;
    int32_t *chosen;
    struct cuda_step *step;
    struct cuda_lora_part *parts; /* [slots][parts_a_slot] */
    /* the host's */
    int64_t parts_a_slot, step_bytes, partial_bytes, adapter_bytes; /* adapter_bytes: placed now */
    char *packed;                                                   /* owned; a step as it is copied; pinned */
    int32_t *chosen_here;                                           /* owned; [want_rows] */
    struct cuda_slot *slots;                                        /* owned */
    struct cuda_graph graphs[CUDA_GRAPHS_MAX];
    int64_t steps;
};

/* cuda_step.c: packs and copies; what it needs of launches. */
int64_t cuda_step_bytes(const struct compute_limits *l);
void cuda_step_put(struct compute *c, const struct batch *b);
struct cuda_plan cuda_step_plan(const struct compute *c, const struct batch *b);
/* cuda_walk.c: issues the launches of a plan. */
void cuda_walk(struct compute *c, const struct cuda_plan *p);
/* cuda_graph.c: the same, by a recording where there is one. */
void cuda_graph_walk(struct compute *c, const struct cuda_plan *p);
void cuda_graphs_fini(struct compute *c);
/* cuda_adapter.c */
bool cuda_place(struct compute *c, int32_t slot, const struct adapter *a);

#endif
