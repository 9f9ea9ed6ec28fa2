/* Who has which block of the KV cache. Blocks are numbers; the memory behind them is the compute twin's. A sequence is let
 * in only with the promise of all blocks it may ever need, so no step can run out. */
#ifndef TOLLGATE_DECODE_KV_H
#define TOLLGATE_DECODE_KV_H

#include "gateway/base/span.h"

struct kv_pool {
    int32_t *free;               /* owned; stack of free blocks */
    int64_t n_free, n, promised; /* promised: blocks of the free ones that are spoken for */
};
struct kv_seq {
    int32_t *blocks; /* owned; capacity is what was promised */
    int64_t n, promised;
};

void kv_init(struct kv_pool *p, int64_t n_blocks);
void kv_fini(struct kv_pool *p);
int64_t kv_blocks(int64_t n_tok); /* blocks that hold so many tokens */
/* False when that many tokens cannot be promised now. */
must_check bool kv_admit(struct kv_pool *p, struct kv_seq *s, int64_t n_tok);
/* Makes room for n_tok tokens in all; within the promise it cannot fail. */
void kv_grow(struct kv_pool *p, struct kv_seq *s, int64_t n_tok);
void kv_drop(struct kv_pool *p, struct kv_seq *s); /* gives everything back; twice is harmless */

#endif
