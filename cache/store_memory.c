/* The store in this process's memory: least recently used out first, none past its time. Always true here: the bytes of
 * all entries, with what it costs to hold them, are at most `size`; an entry that is being read lives on after it has
 * left the store, and then costs its readers, not the store. */
#include "cache/store.h"
#include "gateway/base/list.h"

#include <stdlib.h>

#define NODE_COST 256 /* bytes counted for each entry beside its own, against a million tiny ones */

struct node {
    struct link link; /* in recent */
    uint8_t key[SHA256_BYTES];
    const struct cache_entry *entry; /* counted */
};

struct memory {
    struct map by_key;
    struct list recent; /* least recently used first */
    int64_t size_bytes, used_bytes;
    uint64_t evicted;
};

static struct span key_span(const uint8_t key[SHA256_BYTES]) {
    return span_from(key, SHA256_BYTES);
}

static int64_t cost_of(const struct node *n) {
    return (int64_t)n->entry->bytes.n + NODE_COST;
}

void *memory_store_new(int64_t size_bytes) {
    struct memory *m = xcalloc(1, sizeof *m);
    map_init(&m->by_key);
    list_init(&m->recent);
    m->size_bytes = size_bytes;
    return m;
}

static void forget(struct memory *m, struct node *n) {
    m->used_bytes -= cost_of(n);
    map_remove(&m->by_key, key_span(n->key));
    list_remove(&m->recent, &n->link);
    entry_drop(n->entry);
    free(n);
}

static void shrink_to(struct memory *m, int64_t bytes) {
    while (m->used_bytes > bytes) {
        m->evicted++;
        forget(m, container_of(list_first(&m->recent), struct node, link));
    }
}

/* What is there under one key, counted; NULL: nothing, or it is to be forgotten. */
static const struct cache_entry *find_one(struct memory *m, const uint8_t key[SHA256_BYTES], int64_t now_us) {
    struct node *n = map_find(&m->by_key, key_span(key));
    if (!n)
        return NULL;
    if (now_us >= n->entry->drop_us) {
        forget(m, n);
        return NULL;
    }
    list_remove(&m->recent, &n->link);
    list_append(&m->recent, &n->link);
    return entry_take(n->entry);
}

static enum progress memory_find(void *store, struct store_op *op) {
    for (size_t i = 0; i < op->n; i++)
        op->entries[i] = find_one(store, op->keys[i], op->now_us);
    return PROGRESS_DONE;
}

static void memory_keep(void *store, const uint8_t key[SHA256_BYTES], const struct cache_entry *e, int64_t now_us) {
    struct memory *m = store;
    int64_t cost = (int64_t)e->bytes.n + NODE_COST;
    struct node *before = map_find(&m->by_key, key_span(key));
    if (before)
        forget(m, before);
    if (cost > m->size_bytes || now_us >= e->drop_us)
        return;
    shrink_to(m, m->size_bytes - cost);
    struct node *n = xcalloc(1, sizeof *n);
    memcpy(n->key, key, SHA256_BYTES);
    n->entry = entry_take(e);
    map_put(&m->by_key, key_span(key), n);
    list_append(&m->recent, &n->link);
    m->used_bytes += cost;
}

static void memory_resize(void *store, int64_t size_bytes) {
    struct memory *m = store;
    m->size_bytes = size_bytes;
    shrink_to(m, size_bytes > 0 ? size_bytes : 0);
}

static void memory_count(const void *store, struct cache_stats *into) {
    const struct memory *m = store;
    into->evicted += m->evicted;
    into->bytes += m->used_bytes;
    into->entries += (int64_t)m->recent.n;
}

static void memory_free(void *store) {
    struct memory *m = store;
    for (struct link *k; (k = list_first(&m->recent));)
        forget(m, container_of(k, struct node, link));
    map_fini(&m->by_key);
    free(m);
}

const struct store_ops memory_store = {
    .name = "memory",
    .find = memory_find,
    .keep = memory_keep,
    .resize = memory_resize,
    .count = memory_count,
    .free = memory_free,
};
