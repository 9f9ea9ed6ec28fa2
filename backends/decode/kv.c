/* The block pool. Always true: a block is on the free stack, or kept (refs 0, keyed), or read by `refs` sequences; a keyed block
 * is in exactly one bucket, and no two keyed blocks have one key. A block that others may read is never written: only full
 * blocks get a key, and a sequence writes behind its last token only. */
#include "backends/decode/kv.h"

#include "backends/decode/compute.h"
#include "gateway/base/mem.h"

#include <assert.h>
#include <stdlib.h>

#define CAPACITY_MIN 8

int64_t kv_blocks(int64_t n_tok) {
    return (n_tok + KV_BLOCK_TOK - 1) / KV_BLOCK_TOK;
}

int64_t kv_room(const struct kv_pool *p) {
    return p->n_free + (int64_t)p->kept.n;
}

void kv_init(struct kv_pool *p, int64_t n_blocks, bool prefixes) {
    *p = (struct kv_pool){.n_free = n_blocks, .n = n_blocks, .n_buckets = 1, .prefixes = prefixes};
    while (p->n_buckets < n_blocks)
        p->n_buckets *= 2;
    p->blocks = xcalloc((size_t)n_blocks, sizeof *p->blocks);
    p->free = xcalloc((size_t)n_blocks, sizeof *p->free);
    p->buckets = xcalloc((size_t)p->n_buckets, sizeof *p->buckets);
    list_init(&p->kept);
    for (int64_t i = 0; i < n_blocks; i++)
        p->free[i] = (int32_t)(n_blocks - 1 - i);
    memset(p->buckets, -1, (size_t)p->n_buckets * sizeof *p->buckets);
}

void kv_fini(struct kv_pool *p) {
    assert(kv_room(p) == p->n);
    free(p->blocks);
    free(p->free);
    free(p->buckets);
    *p = (struct kv_pool){0};
}

void kv_root(struct span scope, const uint8_t *adapter, uint8_t root[SHA256_BYTES]) {
    struct sha256 *s = sha256_new();
    uint64_t n = scope.n; /* its length first, so that no scope and adapter run into another pair's */
    sha256_add(s, span_from(&n, sizeof n));
    sha256_add(s, scope);
    sha256_add(s, adapter ? span_from(adapter, SHA256_BYTES) : SPAN("base"));
    sha256_end(s, root);
}

/* --- keys --- */

static void key_next(uint8_t key[SHA256_BYTES], const int32_t *ids) {
    uint8_t text[SHA256_BYTES + KV_BLOCK_TOK * sizeof *ids];
    memcpy(text, key, SHA256_BYTES);
    memcpy(text + SHA256_BYTES, ids, KV_BLOCK_TOK * sizeof *ids);
    sha256(span_from(text, sizeof text), key);
}

static int32_t *bucket_of(const struct kv_pool *p, const uint8_t key[SHA256_BYTES]) {
    uint64_t hash;
    memcpy(&hash, key, sizeof hash);
    return &p->buckets[hash & (uint64_t)(p->n_buckets - 1)];
}

static int32_t block_find(const struct kv_pool *p, const uint8_t key[SHA256_BYTES]) {
    for (int32_t i = *bucket_of(p, key); i >= 0; i = p->blocks[i].next)
        if (memcmp(p->blocks[i].key, key, SHA256_BYTES) == 0)
            return i;
    return -1;
}

static void block_key(struct kv_pool *p, int32_t i, const uint8_t key[SHA256_BYTES]) {
    struct kv_block *b = &p->blocks[i];
    int32_t *bucket = bucket_of(p, key);
    memcpy(b->key, key, SHA256_BYTES);
    b->keyed = true;
    b->next = *bucket;
    *bucket = i;
}

static void block_forget(struct kv_pool *p, int32_t i) {
    int32_t *at = bucket_of(p, p->blocks[i].key);
    while (*at != i)
        at = &p->blocks[*at].next;
    *at = p->blocks[i].next;
    p->blocks[i].keyed = false;
}

/* --- blocks --- */

static int32_t block_take(struct kv_pool *p) {
    if (p->n_free)
        return p->free[--p->n_free];
    struct kv_block *b = container_of(list_shift(&p->kept), struct kv_block, link);
    int32_t i = (int32_t)(b - p->blocks);
    block_forget(p, i);
    return i;
}

static void block_drop(struct kv_pool *p, int32_t i) {
    struct kv_block *b = &p->blocks[i];
    if (--b->refs)
        return;
    if (b->keyed)
        list_append(&p->kept, &b->link);
    else
        p->free[p->n_free++] = i;
}

static void seq_put(struct kv_seq *s, int32_t block) {
    if (s->n == s->capacity) {
        s->capacity = s->capacity ? 2 * s->capacity : CAPACITY_MIN;
        s->blocks = xrealloc(s->blocks, (size_t)s->capacity * sizeof *s->blocks);
    }
    s->blocks[s->n++] = block;
}

int64_t kv_begin(struct kv_pool *p, struct kv_seq *s, const uint8_t root[SHA256_BYTES], const int32_t *ids,
                 int64_t n_tok) {
    int64_t most = p->prefixes ? (n_tok - 1) / KV_BLOCK_TOK : 0;
    *s = (struct kv_seq){0};
    memcpy(s->key, root, SHA256_BYTES);
    for (int32_t i; s->n < most; s->n_keyed++) {
        uint8_t key[SHA256_BYTES];
        memcpy(key, s->key, sizeof key);
        key_next(key, ids + s->n * KV_BLOCK_TOK);
        if ((i = block_find(p, key)) < 0)
            break;
        if (p->blocks[i].refs++ == 0)
            list_remove(&p->kept, &p->blocks[i].link);
        memcpy(s->key, key, sizeof key);
        seq_put(s, i);
    }
    p->hit_tok += s->n * KV_BLOCK_TOK;
    p->asked_tok += n_tok;
    return s->n * KV_BLOCK_TOK;
}

bool kv_grow(struct kv_pool *p, struct kv_seq *s, int64_t n_tok) {
    int64_t need = kv_blocks(n_tok);
    if (need - s->n > kv_room(p))
        return false;
    while (s->n < need) {
        int32_t i = block_take(p);
        p->blocks[i].refs = 1;
        seq_put(s, i);
    }
    return true;
}

void kv_keep(struct kv_pool *p, struct kv_seq *s, const int32_t *ids, int64_t n_tok) {
    for (; p->prefixes && s->n_keyed < n_tok / KV_BLOCK_TOK; s->n_keyed++) {
        key_next(s->key, ids + s->n_keyed * KV_BLOCK_TOK);
        if (block_find(p, s->key) < 0) /* else somebody else was faster; ours stays ours alone */
            block_key(p, s->blocks[s->n_keyed], s->key);
    }
}

/* From the end: what is kept of a sequence loses its last blocks first, which fewest others begin with. */
void kv_drop(struct kv_pool *p, struct kv_seq *s) {
    while (s->n)
        block_drop(p, s->blocks[--s->n]);
    free(s->blocks);
    *s = (struct kv_seq){0};
}
