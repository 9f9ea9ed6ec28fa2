/* Cuts text into the words that BPE then merges within: hand-written matchers of the regular expressions that models come
 * with. A model with another expression is refused, since a nearly right cut is silently wrong text. */
#ifndef TOLLGATE_DECODE_PRETOKEN_H
#define TOLLGATE_DECODE_PRETOKEN_H

#include "gateway/base/span.h"

enum pretoken_style {
    PRETOKEN_NONE, /* the whole text is one word */
    PRETOKEN_GPT2,
    PRETOKEN_LLAMA3, /* numbers by up to three digits */
    PRETOKEN_QWEN2,  /* numbers by single digits */
};
/* The style of a regular expression; false when it is none of those. */
must_check bool pretoken_style_of(struct span regex, enum pretoken_style *out);

struct pretoken_walk {
    struct span rest;
    size_t section; /* bytes left before the next cut that `digits` makes */
    enum pretoken_style style;
    bool digits; /* first every number character stands alone, then the style within what is between */
};
void pretoken_walk_init(struct pretoken_walk *w, struct span text, enum pretoken_style style, bool digits);
bool pretoken_walk_next(struct pretoken_walk *w, struct span *word);

#endif
