/* Sorting by bytes. Equal tokens stand in order of their ids, so that the order is one and the same always. */
#include "backends/decode/vocabulary.h"

#include "gateway/base/mem.h"

#include <stdlib.h>

struct word {
    struct span bytes;
    int32_t id;
};

static int by_bytes(const void *a, const void *b) {
    const struct word *x = a, *y = b;
    size_t n = x->bytes.n < y->bytes.n ? x->bytes.n : y->bytes.n;
    int c = memcmp(x->bytes.at, y->bytes.at, n);
    if (c || x->bytes.n != y->bytes.n)
        return c ? c : x->bytes.n < y->bytes.n ? -1 : 1;
    return x->id < y->id ? -1 : 1;
}

static int32_t in_common(struct span a, struct span b) {
    size_t n = 0;
    while (n < a.n && n < b.n && a.at[n] == b.at[n])
        n++;
    return (int32_t)n;
}

void vocabulary_init(struct vocabulary *v, const struct tokenizer *t) {
    struct word *words = xcalloc((size_t)t->size + 1, sizeof *words);
    *v = (struct vocabulary){.tokenizer = t, .size = t->size};
    for (int32_t id = 0; id < t->size; id++) {
        struct span bytes = tokenizer_bytes(t, id);
        if (bytes.n)
            words[v->n++] = (struct word){bytes, id};
        if ((int64_t)bytes.n > v->longest)
            v->longest = (int64_t)bytes.n;
    }
    qsort(words, (size_t)v->n, sizeof *words, by_bytes);
    v->ids = xcalloc((size_t)v->n + 1, sizeof *v->ids);
    v->shared = xcalloc((size_t)v->n + 1, sizeof *v->shared);
    for (int64_t i = 0; i < v->n; i++) {
        v->ids[i] = words[i].id;
        v->shared[i] = i ? in_common(words[i - 1].bytes, words[i].bytes) : 0;
    }
    free(words);
}

void vocabulary_fini(struct vocabulary *v) {
    free(v->ids);
    free(v->shared);
    *v = (struct vocabulary){0};
}
