/* How alike two texts are, without keeping either: the smallest hashes of their pairs of neighbouring words. */
#ifndef TOLLGATE_GATEWAY_SKETCH_H
#define TOLLGATE_GATEWAY_SKETCH_H

#include "gateway/base/span.h"

#define SKETCH_HASHES 128 /* kept of a text: likeness within some 4 points of a hundred */
#define SKETCH_ONE INT64_C(1000000)

struct sketch {
    uint64_t at[SKETCH_HASHES]; /* ascending, each once */
    size_t n;
    uint64_t word, before; /* hashes of the word that is being read, and of the one before it */
    bool in_word;
};

void sketch_init(struct sketch *s);
void sketch_add(struct sketch *s, struct span text); /* in pieces of any size */
void sketch_end(struct sketch *s);                   /* the last word is over */
/* The share of pairs of words that both texts have, of all that either has, in millionths; two empty texts are alike. */
int64_t sketch_likeness(const struct sketch *a, const struct sketch *b);

#endif
