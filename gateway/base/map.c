/* Chained hash map, doubled when full. The seed keeps strangers from choosing keys that collide. */
#include "gateway/base/map.h"

#include "gateway/base/hash.h"
#include "gateway/base/mem.h"

#include <stdlib.h>

#define MAP_FIRST_BUCKETS 16

static uint64_t seed_of_process(void) {
    static uint64_t seed;
    if (seed == 0)
        seed = random_u64() | 1;
    return seed;
}

/* FNV-1a from a secret start, then a finaliser so that low bits depend on all of them. */
static uint64_t hash_of(struct span key) {
    uint64_t h = UINT64_C(0xcbf29ce484222325) ^ seed_of_process();
    for (size_t i = 0; i < key.n; i++)
        h = (h ^ (unsigned char)key.at[i]) * UINT64_C(0x100000001b3);
    h ^= h >> 33;
    h *= UINT64_C(0xff51afd7ed558ccd);
    return h ^ (h >> 33);
}

void map_init(struct map *m) {
    *m = (struct map){0};
}

void map_fini(struct map *m) {
    for (size_t i = 0; i < m->n_buckets; i++)
        while (m->buckets[i]) {
            struct map_entry *e = m->buckets[i];
            m->buckets[i] = e->next;
            free(e);
        }
    free(m->buckets);
    *m = (struct map){0};
}

/* The place that points at the entry, or at NULL where it would stand. */
static struct map_entry **place_of(const struct map *m, struct span key, uint64_t hash) {
    struct map_entry **at = &m->buckets[hash % m->n_buckets];
    while (*at && ((*at)->hash != hash || !span_equal(span_from((*at)->key, (*at)->n), key)))
        at = &(*at)->next;
    return at;
}

void *map_find(const struct map *m, struct span key) {
    if (m->n == 0)
        return NULL;
    struct map_entry *e = *place_of(m, key, hash_of(key));
    return e ? e->value : NULL;
}

static void grow(struct map *m) {
    size_t n = m->n_buckets ? m->n_buckets * 2 : MAP_FIRST_BUCKETS;
    struct map_entry **buckets = xcalloc(n, sizeof(struct map_entry *));
    for (size_t i = 0; i < m->n_buckets; i++)
        for (struct map_entry *e = m->buckets[i], *next; e; e = next) {
            next = e->next;
            e->next = buckets[e->hash % n];
            buckets[e->hash % n] = e;
        }
    free(m->buckets);
    m->buckets = buckets;
    m->n_buckets = n;
}

void *map_put(struct map *m, struct span key, void *value) {
    if (m->n >= m->n_buckets)
        grow(m);
    uint64_t hash = hash_of(key);
    struct map_entry **at = place_of(m, key, hash);
    if (*at) {
        void *before = (*at)->value;
        (*at)->value = value;
        return before;
    }
    struct map_entry *e = xcalloc(1, sizeof(*e) + key.n + 1);
    *e = (struct map_entry){.value = value, .hash = hash, .n = key.n};
    if (key.n)
        memcpy(e->key, key.at, key.n);
    *at = e;
    m->n++;
    return NULL;
}

void *map_remove(struct map *m, struct span key) {
    if (m->n == 0)
        return NULL;
    struct map_entry **at = place_of(m, key, hash_of(key));
    struct map_entry *e = *at;
    if (!e)
        return NULL;
    void *value = e->value;
    *at = e->next;
    free(e);
    m->n--;
    return value;
}

struct map_entry *map_next(const struct map *m, const struct map_entry *after) {
    if (after && after->next)
        return after->next;
    for (size_t i = after ? after->hash % m->n_buckets + 1 : 0; i < m->n_buckets; i++)
        if (m->buckets[i])
            return m->buckets[i];
    return NULL;
}
