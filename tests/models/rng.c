/* Random numbers of the trainer: splitmix64, so that the same seed gives the same model on every machine. Nothing here
 * depends on the C library but the two functions of the normal distribution. */
#include "tests/models/tiny.h"

#include <math.h>

uint64_t tiny_rng_next(struct tiny_rng *r) {
    uint64_t z = r->state += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

int tiny_rng_below(struct tiny_rng *r, int n) {
    return (int)((tiny_rng_next(r) >> 33) % (uint64_t)n);
}

static double unit(struct tiny_rng *r) {
    return ((double)(tiny_rng_next(r) >> 11) + 0.5) / 9007199254740992.0;
}

float tiny_rng_normal(struct tiny_rng *r) {
    double radius = sqrt(-2.0 * log(unit(r)));
    return (float)(radius * cos(6.283185307179586 * unit(r)));
}

void tiny_rng_shuffle(struct tiny_rng *r, int *order, int n) {
    for (int i = n - 1; i > 0; i--) {
        int j = tiny_rng_below(r, i + 1);
        int swap = order[i];
        order[i] = order[j];
        order[j] = swap;
    }
}
