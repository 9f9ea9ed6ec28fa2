/* One packed answer, counted. Always true here: its bytes never change, and they live until the last reader lets go. */
#include "cache/store.h"

#include <assert.h>
#include <stdlib.h>

struct entry {
    struct cache_entry seen; /* what readers see */
    int refs;
    char bytes[];
};

static struct entry *entry_of(const struct cache_entry *e) {
    return (struct entry *)(uintptr_t)e; /* seen is its first member */
}

const struct cache_entry *entry_new(struct span bytes, int64_t kept_us, int64_t until_us, int64_t drop_us) {
    assert(bytes.n <= CACHE_ENTRY_MAX);
    struct entry *e = xcalloc(1, sizeof *e + bytes.n);
    if (bytes.n)
        memcpy(e->bytes, bytes.at, bytes.n);
    e->seen = (struct cache_entry){span_from(e->bytes, bytes.n), kept_us, until_us, drop_us};
    e->refs = 1;
    return &e->seen;
}

const struct cache_entry *entry_take(const struct cache_entry *e) {
    if (e)
        entry_of(e)->refs++;
    return e;
}

void entry_drop(const struct cache_entry *e) {
    if (!e)
        return;
    struct entry *own = entry_of(e);
    assert(own->refs > 0);
    if (--own->refs == 0)
        free(own);
}
