/* A form at work: which tokens may come next. States are found as they are needed and kept, with the byte that leads from one to the
 * next and with the mask over the vocabulary, so that what is common to many steps and many answers is worked out once.
 *
 *     form -> automaton (shared by all answers of one form) -> walker (one answer): mask -> token -> step -> ...
 *
 * All of it belongs to the step thread. */
#ifndef TOLLGATE_DECODE_AUTOMATON_H
#define TOLLGATE_DECODE_AUTOMATON_H

#include "backends/decode/grammar.h"
#include "backends/decode/vocabulary.h"
#include "gateway/base/hash.h"
#include "gateway/base/list.h"

#define AUTOMATA_BYTES_KEPT (64 << 20)  /* of unused ones, those used last */
#define AUTOMATON_BYTES_MAX (48 << 20)  /* of one: above it what it found is forgotten, and found again */
#define AUTOMATON_BYTES_WALK (16 << 20) /* beyond that in one mask: tokens that need more are not allowed */
#define AUTOMATON_DEPTH_MAX 128         /* rules inside rules: deeper is not gone */

struct automaton;
struct automata {
    const struct vocabulary *vocabulary;
    struct list all; /* of struct automaton, the one used last behind */
};
void automata_init(struct automata *a, const struct vocabulary *v);
void automata_fini(struct automata *a);

/* A form with its nodes and rules in one block of its own. */
struct decode_form *form_copy(const struct decode_form *f);

struct walker {
    struct automaton *of; /* counted; NULL: no form */
    int32_t state;        /* -1: what was said is not of the form */
    int64_t found;        /* of which finding of states */
    struct str said;      /* owned: to find the state again */
};
void walker_init(struct walker *w, struct automata *a, const struct decode_form *f);
void walker_fini(struct walker *w, struct automata *a);
/* A bit for each token that may come next; `ends` says whether the answer may end here, `more` whether it may go on. */
const uint64_t *walker_mask(struct walker *w, bool *ends, bool *more);
void walker_step(struct walker *w, struct span bytes); /* of a token that the mask allowed */
bool walker_is_whole(struct walker *w);                /* it may end here and cannot go on */

#endif
