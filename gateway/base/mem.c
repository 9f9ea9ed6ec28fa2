/* Allocation for the house and the arena. Always true here: an arena hands out zeroed bytes and never more than its
 * ceiling; what it handed out lives until arena_fini. */
#include "gateway/base/mem.h"

#include "gateway/base/log.h"

#include <stdalign.h>
#include <stdlib.h>

#define ARENA_FIRST_BYTES 1024 /* most arenas hold a few short strings: one event's, one small call's */
#define ARENA_BLOCK_BYTES 4096 /* more comes in pages */

struct arena_block {
    struct arena_block *next;
    size_t used, size;
    alignas(max_align_t) char bytes[];
};

static void *or_die(void *at) {
    if (at)
        return at;
    log_error("out of memory");
    abort();
}

void *xcalloc(size_t n, size_t size) {
    return or_die(calloc(n ? n : 1, size ? size : 1));
}

void *xrealloc(void *at, size_t size) {
    return or_die(realloc(at, size ? size : 1));
}

char *xstrndup(const char *text, size_t n) {
    char *copy = xcalloc(n + 1, 1);
    if (n)
        memcpy(copy, text, n);
    return copy;
}

char *xstrdup(const char *text) {
    return xstrndup(text, strlen(text));
}

#ifdef TOLLGATE_TEST
bool (*mem_refuses)(size_t size);

static bool refused(size_t size) {
    return mem_refuses && mem_refuses(size);
}
#else
static bool refused(size_t size) {
    (void)size;
    return false;
}
#endif

void *mem_grow(void *at, size_t size) {
    return refused(size) ? NULL : realloc(at, size);
}

void arena_init(struct arena *a, size_t max) {
    *a = (struct arena){.max = max};
}

void arena_fini(struct arena *a) {
    while (a->head) {
        struct arena_block *next = a->head->next;
        free(a->head);
        a->head = next;
    }
    a->used = 0;
}

static struct arena_block *block_new(struct arena *a, size_t size) {
    size_t least = a->head ? ARENA_BLOCK_BYTES : ARENA_FIRST_BYTES, room = size > least ? size : least;
    struct arena_block *b = refused(room) ? NULL : calloc(1, sizeof(*b) + room);
    if (!b)
        return NULL;
    b->size = room;
    b->next = a->head;
    a->head = b;
    return b;
}

void *arena_alloc(struct arena *a, size_t size) {
    const size_t unit = alignof(max_align_t);
    if (size > a->max || a->used > a->max - size)
        return NULL;
    size_t rounded = (size + unit - 1) / unit * unit;
    struct arena_block *b = a->head;
    if (!b || b->size - b->used < rounded)
        b = block_new(a, rounded);
    if (!b)
        return NULL;
    void *at = b->bytes + b->used;
    b->used += rounded;
    a->used += rounded;
    return at;
}

char *arena_strdup(struct arena *a, struct span text) {
    char *copy = arena_alloc(a, text.n + 1);
    if (copy && text.n)
        memcpy(copy, text.at, text.n);
    return copy;
}
