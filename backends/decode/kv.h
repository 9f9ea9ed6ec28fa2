/* Who has which block of the KV cache, and which blocks are worth keeping. Blocks are numbers; the memory behind them is the
 * compute twin's. A full block has a key: everything that its numbers depend on. Who begins with the same tokens, under the
 * same adapter content and in the same scope, reads the same block instead of computing it again.
 *
 *     key of a block = SHA-256(key of the block before it, its tokens)      root = SHA-256(scope, adapter's digest)
 *
 *     free -> in use (refs) -> kept (refs 0, has a key; the least lately used goes first) -> free
 *
 * The base needs no place in a key: a pool serves one base. */
#ifndef TOLLGATE_DECODE_KV_H
#define TOLLGATE_DECODE_KV_H

#include "gateway/base/hash.h"
#include "gateway/base/list.h"

struct kv_block {
    struct link link; /* on `kept` when nobody uses it */
    int64_t refs;     /* sequences that read it */
    int32_t next;     /* in its bucket; -1: the last */
    bool keyed;       /* in a bucket, to be found by its key */
    uint8_t key[SHA256_BYTES];
};
struct kv_pool {
    struct kv_block *blocks; /* owned; [n] */
    int32_t *free;           /* owned; stack of blocks that hold nothing */
    int32_t *buckets;        /* owned; [n_buckets], a power of two */
    struct list kept;        /* of struct kv_block, least lately used first */
    int64_t n_free, n, n_buckets;
    bool prefixes;              /* false: no block is ever found again */
    int64_t hit_tok, asked_tok; /* of prompts: found, and looked for */
};
struct kv_seq {
    int32_t *blocks;              /* owned */
    int64_t n, capacity, n_keyed; /* n_keyed: blocks whose key has been worked out */
    uint8_t key[SHA256_BYTES];    /* of block n_keyed - 1; the root at first */
};

void kv_init(struct kv_pool *p, int64_t n_blocks, bool prefixes);
void kv_fini(struct kv_pool *p);
int64_t kv_blocks(int64_t n_tok);         /* blocks that hold so many tokens */
int64_t kv_room(const struct kv_pool *p); /* blocks that can be had now */
/* What an answer's numbers depend on besides its tokens. `adapter` NULL: the base. */
void kv_root(struct span scope, const uint8_t *adapter, uint8_t root[SHA256_BYTES]);
/* Begins a sequence with what is kept of its first tokens; returns how many need not be computed: whole blocks, and always
 * fewer than n_tok. */
int64_t kv_begin(struct kv_pool *p, struct kv_seq *s, const uint8_t root[SHA256_BYTES], const int32_t *ids,
                 int64_t n_tok);
/* Makes room for n_tok tokens in all; false, and nothing changed, when there are too few blocks. */
must_check bool kv_grow(struct kv_pool *p, struct kv_seq *s, int64_t n_tok);
/* The first n_tok tokens are in the cache: their full blocks can be found from now on. */
void kv_keep(struct kv_pool *p, struct kv_seq *s, const int32_t *ids, int64_t n_tok);
void kv_drop(struct kv_pool *p, struct kv_seq *s); /* gives everything back; twice is harmless */

#endif
