/* Who has had how much. Every team, and every adapter within a team, has an account of the tokens that were computed for it
 * (input once, output twice). Whoever has had least goes first, so that neither a team nor an adapter can starve another.
 * Who was away comes back at the level of those who are here: time away is not saved up. */
#ifndef TOLLGATE_DECODE_SHARE_H
#define TOLLGATE_DECODE_SHARE_H

#include "gateway/base/map.h"

#define SHARES_MAX 4096 /* idle accounts are forgotten beyond this many */
#define SHARE_INPUT 1
#define SHARE_OUTPUT 2

struct share {
    struct share *team; /* NULL: this is a team's own */
    int64_t had;
    int64_t here;    /* runs that wait or step */
    int64_t running; /* of those, the stepping ones */
};
struct shares {
    struct map accounts; /* of struct share; owned */
};

void shares_init(struct shares *s);
void shares_fini(struct shares *s);
/* The account of an adapter in a team; one more run is here. */
struct share *share_enter(struct shares *s, struct span team, struct span adapter);
void share_leave(struct share *a);
void share_run(struct share *a, int64_t more); /* +1: steps from now on, -1: no more */
void share_charge(struct share *a, int64_t input_tok, int64_t output_tok);
/* Negative: a goes before b. Teams first, then adapters of one team. */
int share_compare(const struct share *a, const struct share *b);

#endif
