/* The block pool. Always true: every block is on the free stack or in exactly one sequence, and the free stack is at least
 * as tall as the promises that are still open. */
#include "backends/decode/kv.h"

#include "backends/decode/compute.h"
#include "gateway/base/mem.h"

#include <assert.h>
#include <stdlib.h>

int64_t kv_blocks(int64_t n_tok) {
    return (n_tok + KV_BLOCK_TOK - 1) / KV_BLOCK_TOK;
}

void kv_init(struct kv_pool *p, int64_t n_blocks) {
    *p = (struct kv_pool){xcalloc((size_t)n_blocks, sizeof *p->free), n_blocks, n_blocks, 0};
    for (int64_t i = 0; i < n_blocks; i++)
        p->free[i] = (int32_t)(n_blocks - 1 - i);
}

void kv_fini(struct kv_pool *p) {
    assert(p->n_free == p->n && p->promised == 0);
    free(p->free);
    p->free = NULL;
}

bool kv_admit(struct kv_pool *p, struct kv_seq *s, int64_t n_tok) {
    int64_t need = kv_blocks(n_tok);
    if (need > p->n_free - p->promised)
        return false;
    *s = (struct kv_seq){xcalloc((size_t)need, sizeof *s->blocks), 0, need};
    p->promised += need;
    return true;
}

void kv_grow(struct kv_pool *p, struct kv_seq *s, int64_t n_tok) {
    int64_t need = kv_blocks(n_tok);
    assert(need <= s->promised);
    for (; s->n < need; s->n++) {
        s->blocks[s->n] = p->free[--p->n_free];
        p->promised--;
    }
}

void kv_drop(struct kv_pool *p, struct kv_seq *s) {
    p->promised -= s->promised - s->n;
    while (s->n)
        p->free[p->n_free++] = s->blocks[--s->n];
    free(s->blocks);
    *s = (struct kv_seq){0};
}
