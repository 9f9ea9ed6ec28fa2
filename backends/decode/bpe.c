/* A word is a linked row of symbols; a heap holds the neighbours that may merge, lowest rank first and leftmost among
 * equals. A merge leaves stale candidates behind; each is recognised when it comes up, because its pair of ids no longer
 * stands at its place. So a word of n symbols takes O(n log n), whoever wrote it. */
#include "backends/decode/bpe.h"

#include "gateway/base/mem.h"

#include <stdlib.h>

void tokens_put(struct tokens *t, int32_t id) {
    if (t->n == t->capacity) {
        t->capacity = t->capacity ? t->capacity * 2 : 64;
        t->at = xrealloc(t->at, t->capacity * sizeof *t->at);
    }
    t->at[t->n++] = id;
}

void tokens_fini(struct tokens *t) {
    free(t->at);
    *t = (struct tokens){0};
}

static uint64_t pair_of(int32_t left, int32_t right) {
    return (uint64_t)(uint32_t)left << 32 | (uint32_t)right;
}

static size_t slot_of(const struct merges *m, uint64_t pair) {
    uint64_t h = pair * UINT64_C(0x9e3779b97f4a7c15);
    size_t i = (size_t)(h >> 20) & (m->n_slots - 1);
    while (m->slots[i].rank >= 0 && m->slots[i].pair != pair)
        i = (i + 1) & (m->n_slots - 1);
    return i;
}

void merges_init(struct merges *m, size_t expected) {
    size_t n = 16;
    while (n < expected * 2)
        n *= 2;
    *m = (struct merges){xcalloc(n, sizeof *m->slots), 0, n};
    for (size_t i = 0; i < n; i++)
        m->slots[i].rank = -1;
}

void merges_fini(struct merges *m) {
    free(m->slots);
    *m = (struct merges){0};
}

void merges_put(struct merges *m, int32_t left, int32_t right, int32_t rank, int32_t id) {
    struct merge *slot = &m->slots[slot_of(m, pair_of(left, right))];
    if (slot->rank >= 0 || m->n + 1 >= m->n_slots)
        return;
    *slot = (struct merge){pair_of(left, right), rank, id};
    m->n++;
}

const struct merge *merges_find(const struct merges *m, int32_t left, int32_t right) {
    const struct merge *slot = &m->slots[slot_of(m, pair_of(left, right))];
    return slot->rank >= 0 ? slot : NULL;
}

void bpe_scratch_fini(struct bpe_scratch *s) {
    free(s->symbols);
    free(s->heap);
    *s = (struct bpe_scratch){0};
}

void bpe_start(struct bpe_scratch *s) {
    s->n = s->heap_n = 0;
}

void bpe_put(struct bpe_scratch *s, int32_t id) {
    if (s->n == s->capacity) {
        s->capacity = s->capacity ? s->capacity * 2 : 64;
        s->symbols = xrealloc(s->symbols, s->capacity * sizeof *s->symbols);
    }
    s->symbols[s->n] = (struct bpe_symbol){id, (int32_t)s->n - 1, -1};
    if (s->n)
        s->symbols[s->n - 1].after = (int32_t)s->n;
    s->n++;
}

static bool sooner(const struct bpe_candidate *a, const struct bpe_candidate *b) {
    return a->rank < b->rank || (a->rank == b->rank && a->at < b->at);
}

static void heap_push(struct bpe_scratch *s, struct bpe_candidate c) {
    if (s->heap_n == s->heap_capacity) {
        s->heap_capacity = s->heap_capacity ? s->heap_capacity * 2 : 64;
        s->heap = xrealloc(s->heap, s->heap_capacity * sizeof *s->heap);
    }
    size_t i = s->heap_n++;
    for (; i && sooner(&c, &s->heap[(i - 1) / 2]); i = (i - 1) / 2)
        s->heap[i] = s->heap[(i - 1) / 2];
    s->heap[i] = c;
}

static struct bpe_candidate heap_pop(struct bpe_scratch *s) {
    struct bpe_candidate top = s->heap[0], last = s->heap[--s->heap_n];
    size_t i = 0;
    for (size_t child; (child = 2 * i + 1) < s->heap_n; i = child) {
        if (child + 1 < s->heap_n && sooner(&s->heap[child + 1], &s->heap[child]))
            child++;
        if (!sooner(&s->heap[child], &last))
            break;
        s->heap[i] = s->heap[child];
    }
    s->heap[i] = last;
    return top;
}

static void consider(struct bpe_scratch *s, const struct merges *m, const bool *forbidden, int32_t at) {
    if (at < 0 || s->symbols[at].after < 0)
        return;
    int32_t left = s->symbols[at].id, right = s->symbols[s->symbols[at].after].id;
    const struct merge *found = merges_find(m, left, right);
    if (found && !forbidden[found->id])
        heap_push(s, (struct bpe_candidate){found->rank, at, found->pair});
}

static void merge_at(struct bpe_scratch *s, const struct merges *m, const bool *forbidden, int32_t at) {
    struct bpe_symbol *left = &s->symbols[at], *right = &s->symbols[left->after];
    left->id = merges_find(m, left->id, right->id)->id;
    left->after = right->after;
    right->id = -1;
    if (left->after >= 0)
        s->symbols[left->after].before = at;
    consider(s, m, forbidden, left->before);
    consider(s, m, forbidden, at);
}

void bpe_finish(struct bpe_scratch *s, const struct merges *m, const bool *forbidden, struct tokens *out) {
    if (s->n == 0)
        return;
    for (size_t i = 0; i + 1 < s->n; i++)
        consider(s, m, forbidden, (int32_t)i);
    while (s->heap_n) {
        struct bpe_candidate c = heap_pop(s);
        const struct bpe_symbol *left = &s->symbols[c.at];
        if (left->id >= 0 && left->after >= 0 && pair_of(left->id, s->symbols[left->after].id) == c.pair)
            merge_at(s, m, forbidden, c.at);
    }
    for (int32_t i = 0; i >= 0; i = s->symbols[i].after)
        tokens_put(out, s->symbols[i].id);
}
