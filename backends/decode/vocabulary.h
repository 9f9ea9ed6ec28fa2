/* A tokenizer's tokens in order of their bytes, each with how many it shares with the one before: what a walk over all of them needs
 * to look at every beginning once. Control tokens are not in it. */
#ifndef TOLLGATE_DECODE_VOCABULARY_H
#define TOLLGATE_DECODE_VOCABULARY_H

#include "backends/decode/tokenizer.h"

struct vocabulary {
    const struct tokenizer *tokenizer; /* outlives it */
    int32_t *ids;                      /* owned; [n] */
    int32_t *shared;                   /* owned; [n] bytes at the beginning; 0 of the first */
    int64_t n, size, longest;          /* size: of the tokenizer; longest: bytes */
};

void vocabulary_init(struct vocabulary *v, const struct tokenizer *t);
void vocabulary_fini(struct vocabulary *v);

#endif
