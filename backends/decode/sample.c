/* Sampling in double precision. The random number of a token is a hash of seed and place (a counter, not a stream), so an
 * answer can be repeated whatever else was in the batch. NaN logits lose every comparison and are never chosen unless
 * nothing else is there. */
#include "backends/decode/sample.h"

#include "gateway/base/mem.h"

#include <math.h>
#include <stdlib.h>

void sampler_init(struct sampler *s, int64_t vocabulary) {
    *s = (struct sampler){xcalloc((size_t)vocabulary, sizeof *s->candidates), vocabulary};
}

void sampler_fini(struct sampler *s) {
    free(s->candidates);
    s->candidates = NULL;
}

static uint64_t scramble(uint64_t x) {
    x += UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    return x ^ x >> 31;
}

double sample_uniform(uint64_t seed, int64_t place) {
    return (double)(scramble(scramble(seed) + (uint64_t)place) >> 11) * 0x1p-53;
}

static int32_t most_likely(const float *logits, int64_t n) {
    int32_t best = 0;
    for (int32_t i = 1; i < n; i++)
        if (logits[i] > logits[best] || (isnan(logits[best]) && !isnan(logits[i])))
            best = i;
    return best;
}

/* Weights relative to the largest, which is 1. Returns their sum. */
static double weigh(struct sampler *s, const float *logits, float top, double temperature) {
    double sum = 0;
    for (int32_t i = 0; i < s->vocabulary; i++) {
        double p = exp(((double)logits[i] - (double)top) / temperature);
        s->candidates[i] = (struct candidate){p > 0 ? p : 0, i};
        sum += s->candidates[i].p;
    }
    return sum;
}

static bool before(const struct candidate *a, const struct candidate *b) {
    return a->p > b->p || (a->p == b->p && a->id < b->id);
}

static void sift_down(struct candidate *c, int64_t i, int64_t n) {
    for (;;) {
        int64_t first = i, left = 2 * i + 1, right = left + 1;
        if (left < n && before(&c[left], &c[first]))
            first = left;
        if (right < n && before(&c[right], &c[first]))
            first = right;
        if (first == i)
            return;
        struct candidate swap = c[i];
        c[i] = c[first];
        c[first] = swap;
        i = first;
    }
}

/* The smallest set of the most likely tokens that reaches top_p. A heap, since the set is small and the vocabulary is
 * not. The kept ones end up at the back, the most likely last; returns how many, and their sum in *kept. */
static int64_t keep_top(struct sampler *s, double enough, double *kept) {
    int64_t n = s->vocabulary;
    *kept = 0;
    for (int64_t i = n / 2; i-- > 0;)
        sift_down(s->candidates, i, n);
    do {
        struct candidate top = s->candidates[0];
        s->candidates[0] = s->candidates[--n];
        sift_down(s->candidates, 0, n);
        s->candidates[n] = top;
        *kept += top.p;
    } while (n > 0 && *kept < enough);
    return s->vocabulary - n;
}

int32_t sampler_pick(struct sampler *s, const float *logits, const struct sample_options *o, int64_t place) {
    int32_t best = most_likely(logits, s->vocabulary);
    if (!(o->temperature > 0) || !isfinite(logits[best]))
        return best;
    double sum = weigh(s, logits, logits[best], o->temperature);
    int64_t n = s->vocabulary;
    if (o->top_p < 1)
        n = keep_top(s, o->top_p * sum, &sum);
    const struct candidate *last = &s->candidates[s->vocabulary - 1];
    double at = sample_uniform(o->seed, place) * sum;
    int32_t chosen = best;
    for (int64_t i = 0; i < n; i++) {
        const struct candidate *c = o->top_p < 1 ? last - i : &s->candidates[i];
        if (c->p <= 0)
            continue;
        chosen = c->id;
        at -= c->p;
        if (at < 0)
            break;
    }
    return chosen;
}
