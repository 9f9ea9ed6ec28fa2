/* A hash map from bytes to a pointer. It copies its keys and owns no values. The hash is seeded per process. */
#ifndef TOLLGATE_BASE_MAP_H
#define TOLLGATE_BASE_MAP_H

#include "gateway/base/span.h"

struct map_entry {
    struct map_entry *next; /* in its bucket */
    void *value;
    uint64_t hash;
    size_t n;
    char key[]; /* n bytes and a NUL */
};

struct map {
    struct map_entry **buckets;
    size_t n_buckets, n;
};

void map_init(struct map *m);
void map_fini(struct map *m); /* frees the entries, not the values */
void *map_find(const struct map *m, struct span key);
/* Returns the value that stood there before, or NULL. */
void *map_put(struct map *m, struct span key, void *value);
void *map_remove(struct map *m, struct span key);
/* Walks all entries in no order: for (e = map_next(m, NULL); e; e = map_next(m, e)). Removing e itself ends the walk. */
struct map_entry *map_next(const struct map *m, const struct map_entry *after);

#endif
