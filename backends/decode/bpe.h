/* Byte-pair merging: a row of token ids shrinks by the best-ranked neighbours until none merge. O(n log n). */
#ifndef TOLLGATE_DECODE_BPE_H
#define TOLLGATE_DECODE_BPE_H

#include "gateway/base/span.h"

struct tokens {
    int32_t *at; /* owned */
    size_t n, capacity;
};
void tokens_put(struct tokens *t, int32_t id);
void tokens_fini(struct tokens *t);

struct merge {
    uint64_t pair; /* left << 32 | right */
    int32_t rank, id;
};
struct merges {
    struct merge *slots; /* owned; open addressing; a power of two; rank -1: empty */
    size_t n, n_slots;
};
void merges_init(struct merges *m, size_t expected);
void merges_fini(struct merges *m);
void merges_put(struct merges *m, int32_t left, int32_t right, int32_t rank, int32_t id); /* the first one stays */
const struct merge *merges_find(const struct merges *m, int32_t left, int32_t right);     /* NULL: they do not merge */

struct bpe_symbol {
    int32_t id, before, after; /* -1: none; id -1: merged away */
};
struct bpe_scratch { /* reused from word to word */
    struct bpe_symbol *symbols;
    struct bpe_candidate {
        int32_t rank, at;
        uint64_t pair;
    } * heap;
    size_t n, capacity, heap_n, heap_capacity;
};
void bpe_scratch_fini(struct bpe_scratch *s);
void bpe_start(struct bpe_scratch *s);           /* an empty word */
void bpe_put(struct bpe_scratch *s, int32_t id); /* its next symbol */
/* Merges the word and appends what is left of it to out. Ids with forbidden[id] never come out of a merge. */
void bpe_finish(struct bpe_scratch *s, const struct merges *m, const bool *forbidden, struct tokens *out);

#endif
