/* Three owners of memory: an arena (a request, a conf), a count (see each counted object), the house (main.c).
 *
 * The x-functions end the process when memory is out: for the house's own start and for objects whose size is a
 * constant. Whatever a stranger can make large goes through an arena or a str, which have a ceiling and can say no. */
#ifndef TOLLGATE_BASE_MEM_H
#define TOLLGATE_BASE_MEM_H

#include "gateway/base/span.h"

void *xcalloc(size_t n, size_t size);
void *xrealloc(void *at, size_t size);
char *xstrdup(const char *text);
char *xstrndup(const char *text, size_t n);

/* realloc that may say no: for a str; NULL leaves `at` as it was. */
must_check void *mem_grow(void *at, size_t size);
#ifdef TOLLGATE_TEST
/* Where growth may say no, a test can have it say no: asked before each growth of an arena or a str; NULL: never. */
extern bool (*mem_refuses)(size_t size);
#endif

struct arena {
    struct arena_block *head; /* owned */
    size_t used;              /* bytes handed out */
    size_t max;               /* bytes it may ever hand out */
};

void arena_init(struct arena *a, size_t max);
void arena_fini(struct arena *a);
/* Zeroed, aligned for any type; NULL over the ceiling or out of memory. */
must_check void *arena_alloc(struct arena *a, size_t size);
must_check char *arena_strdup(struct arena *a, struct span text); /* NUL-terminated */

#endif
