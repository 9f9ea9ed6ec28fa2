/* Bottom-k sketches. Always true: `at` is ascending without doubles, and holds the smallest hashes of all that came, so that
 * it does not matter in which pieces a text comes. */
#include "gateway/sketch.h"

#define FNV_START UINT64_C(14695981039346656037)
#define FNV_PRIME UINT64_C(1099511628211)

void sketch_init(struct sketch *s) {
    *s = (struct sketch){.word = FNV_START};
}

/* FNV leaves the high bits of short words alike; what is compared by size must not. */
static uint64_t mixed(uint64_t h) {
    h ^= h >> 33;
    h *= UINT64_C(0xff51afd7ed558ccd);
    h ^= h >> 33;
    h *= UINT64_C(0xc4ceb9fe1a85ec53);
    return h ^ h >> 33;
}

static void keep(struct sketch *s, uint64_t hash) {
    size_t i = s->n;
    while (i && s->at[i - 1] > hash)
        i--;
    if ((i && s->at[i - 1] == hash) || i == SKETCH_HASHES)
        return;
    size_t moved = s->n - i - (s->n == SKETCH_HASHES);
    memmove(&s->at[i + 1], &s->at[i], moved * sizeof s->at[0]);
    s->at[i] = hash;
    s->n += s->n < SKETCH_HASHES;
}

void sketch_end(struct sketch *s) {
    if (!s->in_word)
        return;
    keep(s, mixed(s->word ^ mixed(s->before)));
    s->before = s->word;
    s->word = FNV_START;
    s->in_word = false;
}

void sketch_add(struct sketch *s, struct span text) {
    for (size_t i = 0; i < text.n; i++) {
        if ((unsigned char)text.at[i] <= ' ') {
            sketch_end(s);
            continue;
        }
        s->word = (s->word ^ (unsigned char)text.at[i]) * FNV_PRIME;
        s->in_word = true;
    }
}

int64_t sketch_likeness(const struct sketch *a, const struct sketch *b) {
    size_t i = 0, j = 0;
    int64_t all = 0, both = 0;
    while ((i < a->n || j < b->n) && all < SKETCH_HASHES) {
        bool left = j == b->n || (i < a->n && a->at[i] <= b->at[j]);
        bool right = i == a->n || (j < b->n && b->at[j] <= a->at[i]);
        both += left && right;
        all++;
        i += left;
        j += right;
    }
    return all ? both * SKETCH_ONE / all : SKETCH_ONE;
}
