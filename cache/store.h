/* Private to cache/: what a store of answers must do. A new store is one file with one struct store_ops.
 *
 * A store may be slow: find answers DONE at once or WAIT, and then wakes the op from the loop, once, never inside the
 * call. Everything else is said and forgotten. Keys are 32 bytes; entries are counted, so one that somebody reads
 * survives its eviction. */
#ifndef TOLLGATE_CACHE_STORE_H
#define TOLLGATE_CACHE_STORE_H

#include "cache/cache.h"

struct store_op {
    struct waiter waiter; /* filled by the caller; first member */
    uint8_t key[SHA256_BYTES];
    int64_t now_us;
    const struct cache_entry *entry; /* the answer: counted, the caller's to drop; NULL: not there, or expired */
};

struct store_ops {
    const char *name;
    enum progress (*find)(void *store, struct store_op *op); /* op stays where it is until it is answered */
    void (*keep)(void *store, const uint8_t key[SHA256_BYTES], struct span bytes, int64_t ttl_us, int64_t now_us);
    void (*resize)(void *store, int64_t size_bytes);
    void (*count)(const void *store, struct cache_stats *into); /* sets evicted, bytes, entries */
    void (*free)(void *store);
};

/* The store belongs to the cache from here on. */
struct cache *cache_new_on(const struct store_ops *ops, void *store);

const struct cache_entry *entry_new(struct span bytes, int64_t kept_us); /* counted once */
void entry_take(const struct cache_entry *e);
void entry_drop(const struct cache_entry *e);

extern const struct store_ops memory_store;
void *memory_store_new(int64_t size_bytes);

#endif
