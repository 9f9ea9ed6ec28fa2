/* THE ARITHMETIC, behind one pointer: plain C (the specification), vectors of the CPU, and an NVIDIA device stand side by side.
 *
 *     struct batch (tokens of one step, flat) -> forward -> logits of the rows that want them
 *
 * A twin owns its copy of the KV cache; who has which block is kv.c's business. Whatever shares a batch, the numbers of a
 * row come out the same bit for bit: each sum has one fixed order that depends on its own length only (cuda_twin.h says where
 * a device does not promise it). */
#ifndef TOLLGATE_DECODE_COMPUTE_H
#define TOLLGATE_DECODE_COMPUTE_H

#include "backends/decode/model.h"

#define KV_BLOCK_TOK 16

#define TILE_ROWS 16

/* Neighbouring rows with one adapter. Rows without one are in no tile and cost nothing. */
struct batch_tile {
    int32_t slot, row0, n; /* n: 1 .. TILE_ROWS */
};
struct batch_tiles {
    struct batch_tile *at;
    int32_t n;
};

/* How a wanted row's token is to be chosen, for a twin that can: it is asked only where logits are not needed for anything else. */
struct batch_choice {
    bool wanted; /* false: the logits are */
    double temperature, top_p, min_p;
    int64_t top_k;
    double at;  /* uniform in [0, 1) */
    int32_t id; /* out; -1: not chosen here, the logits are there */
};

/* One step. A token's K and V are written at its place before any token of the step looks back. */
struct batch {
    int32_t n_tok;
    int32_t *ids; /* [n_tok] */
    int32_t *pos; /* [n_tok] position in its sequence */
    int32_t *seq; /* [n_tok] index into the sequence arrays */
    int32_t n_seq;
    int32_t *q_start;          /* [n_seq + 1] first token of each sequence in this step */
    int32_t *ctx_len;          /* [n_seq] tokens in the cache when the step is over */
    const int32_t **block_tab; /* [n_seq] blocks of a sequence in order; owned by kv.c */
    int32_t n_want;
    int32_t *want;                        /* [n_want] tokens whose logits are wanted, ascending */
    struct batch_tiles tiles, want_tiles; /* over tokens; over wanted rows */
    struct batch_choice *choices;         /* [n_want]; NULL: all logits are wanted */
};

struct compute_limits {
    int64_t max_context, n_blocks, batch_tok, want_rows;
    int threads;             /* at least 1: the caller's own */
    int64_t slots, rank_max; /* adapters that may be placed at once, and their largest rank; 0: none */
    int64_t adapter_bytes;   /* of a device for adapters; of no meaning to the CPU, which has them already */
};

struct adapter;
struct compute;
struct compute_ops {
    const char *name; /* "cpu avx2" */
    bool (*usable)(void);
    struct compute *(*open)(const struct model *m, const struct compute_limits *l, struct str *why);
    /* [n_want][vocabulary]. False: the device has failed, and will; what went wrong is in the log. */
    bool (*forward)(struct compute *c, const struct batch *b, float *logits);
    /* Makes an adapter's weights ready to be stepped with under a slot's number, until it is cleared; between steps only.
     * NULL clears. False when the device has no room. */
    bool (*place)(struct compute *c, int32_t slot, const struct adapter *a);
    void (*close)(struct compute *c);
    int64_t (*kv_tok_bytes)(const struct model *m); /* of the cache, for one token */
    /* A device's memory: bytes it has free now, and what is needed besides the cache and adapters. NULL: the machine's own. */
    bool (*room)(int64_t *bytes, struct str *why);
    int64_t (*fixed_bytes)(const struct model *m, const struct compute_limits *l);
};
extern const struct compute_ops compute_plain, compute_cuda;
#ifdef __x86_64__
extern const struct compute_ops compute_avx2;
#endif
/* The best twin of this machine for a device ("auto", "cpu", "cuda"). NULL with a sentence for other words, and for a device that
 * is not there (cuda) or that is there and cannot be used (cuda, auto): only a machine without one computes on its CPU unasked. */
const struct compute_ops *compute_pick(const char *device, struct str *why);

#endif
