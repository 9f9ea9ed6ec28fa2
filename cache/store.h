/* Private to cache/: what a store of answers must do. A new store is one file with one struct store_ops.
 *
 * A store may be slow: find and claim answer DONE at once or WAIT, and then wake the op from the loop, once, never inside
 * the call. Everything else is said and forgotten. Keys are 32 bytes; entries are counted, so one that somebody reads
 * survives its eviction. */
#ifndef TOLLGATE_CACHE_STORE_H
#define TOLLGATE_CACHE_STORE_H

#include "cache/cache.h"

struct store_op {
    struct waiter waiter;                /* filled by the caller; first member */
    const uint8_t (*keys)[SHA256_BYTES]; /* they stay until the op is answered */
    size_t n;
    int64_t now_us;   /* wall */
    int64_t until_us; /* monotone: nothing is waited for longer; 0: as long as the store waits by itself */
    /* One for each key, set by the store: counted, the caller's to drop; NULL: not there. It may be stale. */
    const struct cache_entry **entries;
    bool fault; /* out: not all could be asked for */
};

/* A lead over all processes that share the store. */
enum claim_answer {
    CLAIM_OURS,
    CLAIM_THEIRS,
    CLAIM_FAULT, /* the store could not be asked */
};
struct store_claim {
    struct waiter waiter; /* filled by the caller; first member */
    uint8_t key[SHA256_BYTES];
    int64_t until_us; /* monotone, as in struct store_op */
    enum claim_answer answer;
};
#define CLAIM_LIVES_US (5 * US_PER_S) /* without being renewed: what a leader that died costs those who wait for it */
#define CLAIM_RENEW_US (1 * US_PER_S)

struct store_ops {
    const char *name;
    enum progress (*find)(void *store, struct store_op *op); /* op stays where it is until it is answered */
    void (*keep)(void *store, const uint8_t key[SHA256_BYTES], const struct cache_entry *e, int64_t now_us);
    enum progress (*claim)(void *store, struct store_claim *c); /* NULL, and the two below: nobody else leads */
    void (*renew)(void *store, const uint8_t key[SHA256_BYTES]);
    void (*release)(void *store, const uint8_t key[SHA256_BYTES]);
    void (*resize)(void *store, int64_t size_bytes);
    void (*count)(const void *store, struct cache_stats *into); /* adds evicted, bytes, entries, faults, rejected */
    void (*free)(void *store);
};

/* The store belongs to the cache from here on. */
struct cache *cache_new_on(const struct store_ops *ops, void *store);

const struct cache_entry *entry_new(struct span bytes, int64_t kept_us, int64_t until_us,
                                    int64_t drop_us); /* counted once */
const struct cache_entry *entry_take(const struct cache_entry *e);
void entry_drop(const struct cache_entry *e); /* may be NULL */

extern const struct store_ops memory_store;
void *memory_store_new(int64_t size_bytes);

/* store_redis.c. At its end nobody is told. */
extern const struct store_ops redis_store;
void *redis_store_new(struct redis *r, int64_t timeout_us);

/* store_stack.c: memory, Redis, or memory in front of Redis, changed at any time. */
extern const struct store_ops stack_store;
void *stack_store_new(int64_t size_bytes);
void stack_store_share(void *stack, struct redis *r, int64_t timeout_us, enum conf_cache_store where);

/* packed.c: an entry as it lies in Redis. False: it is larger than a value may be. */
#define PACKED_BYTES_MAX (1 << 20) /* as it is stored: what one value may keep others waiting for */
#define PACKED_RAW_MAX (4 << 20)   /* before it is compressed: compressing is the loop's work */
must_check bool packed_write(const uint8_t key[SHA256_BYTES], const struct cache_entry *e, struct str *out);
/* NULL: it is not what was kept under this key, or of another version. */
const struct cache_entry *packed_read(const uint8_t key[SHA256_BYTES], struct span value);

#endif
