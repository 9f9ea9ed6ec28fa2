/* Sampling in double precision. The random number of a token is a hash of seed and place (a counter, not a stream), so an
 * answer can be repeated whatever else was in the batch. NaN logits lose every comparison and are never chosen unless
 * nothing else is there. */
#include "backends/decode/sample.h"

#include "gateway/base/mem.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>

void sampler_init(struct sampler *s, int64_t vocabulary) {
    *s = (struct sampler){xcalloc((size_t)vocabulary, sizeof *s->candidates),
                          xcalloc((size_t)vocabulary, sizeof *s->counts), vocabulary};
}

void sampler_fini(struct sampler *s) {
    free(s->candidates);
    free(s->counts);
    *s = (struct sampler){0};
}

/* Each token of a stretch of the past, once: `by` is told how often it is there. */
static void each_token(struct sampler *s, const int32_t *ids, int64_t n, float *logits, const struct sample_options *o,
                       void (*by)(float *logit, const struct sample_options *o, int32_t count)) {
    for (int64_t i = 0; i < n; i++)
        s->counts[ids[i]]++;
    for (int64_t i = 0; i < n; i++) {
        if (s->counts[ids[i]])
            by(&logits[ids[i]], o, s->counts[ids[i]]);
        s->counts[ids[i]] = 0;
    }
}

static void repeat_less(float *logit, const struct sample_options *o, int32_t count) {
    (void)count;
    *logit = (float)(*logit > 0 ? (double)*logit / o->repetition : (double)*logit * o->repetition);
}

static void said_before(float *logit, const struct sample_options *o, int32_t count) {
    *logit = (float)((double)*logit - o->presence - o->frequency * (double)count);
}

void sampler_adjust(struct sampler *s, float *logits, const struct sample_options *o, const struct sample_past *past) {
    if (o->repetition > 0 && o->repetition != 1)
        each_token(s, past->ids, past->n, logits, o, repeat_less);
    if (o->presence != 0 || o->frequency != 0)
        each_token(s, past->ids + past->n_prompt, past->n - past->n_prompt, logits, o, said_before);
    for (size_t i = 0; i < o->n_biases; i++)
        if (o->biases[i].id >= 0 && o->biases[i].id < s->vocabulary)
            logits[o->biases[i].id] += (float)o->biases[i].more;
}

static bool is_among(const int64_t *ids, size_t n, int64_t id) {
    for (size_t i = 0; i < n; i++)
        if (ids[i] == id)
            return true;
    return false;
}

bool sampler_allow(const struct sampler *s, float *logits, const uint64_t *mask, const int64_t *ends, size_t n_ends) {
    bool any = false;
    for (int64_t i = 0; i < s->vocabulary; i++) {
        bool allowed = (mask && mask[i / 64] >> i % 64 & 1) || (n_ends && is_among(ends, n_ends, i));
        any |= allowed;
        if (!allowed)
            logits[i] = -INFINITY;
        else if (!isfinite(logits[i]))
            logits[i] = -FLT_MAX;
    }
    return any;
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

/* Weights relative to the largest, which is 1; what is below min_p has none. Returns their sum. */
static double weigh(struct sampler *s, const float *logits, float top, double temperature, double min_p) {
    double sum = 0;
    for (int32_t i = 0; i < s->vocabulary; i++) {
        double p = exp(((double)logits[i] - (double)top) / temperature);
        s->candidates[i] = (struct candidate){p > 0 && p >= min_p ? p : 0, i};
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

/* The `most` most likely tokens, or fewer once they reach `enough`. A heap, since the set is small and the vocabulary is not.
 * The kept ones end up at the back, the most likely last; returns how many, and their sum in *kept. */
static int64_t keep_top(struct sampler *s, int64_t most, double enough, double *kept) {
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
    } while (n > 0 && *kept < enough && s->vocabulary - n < most);
    return s->vocabulary - n;
}

/* top_k first, then top_p of what is left. */
static int64_t cut_tail(struct sampler *s, const struct sample_options *o, double *sum) {
    int64_t most = o->top_k > 0 && o->top_k < s->vocabulary ? o->top_k : s->vocabulary;
    if (most == s->vocabulary)
        return keep_top(s, most, o->top_p * *sum, sum);
    int64_t n = keep_top(s, most, INFINITY, sum), i = 0;
    double enough = o->top_p * *sum, kept = 0;
    while (i < n && (i == 0 || kept < enough))
        kept += s->candidates[s->vocabulary - 1 - i++].p;
    *sum = kept;
    return i;
}

int32_t sampler_pick(struct sampler *s, const float *logits, const struct sample_options *o, int64_t place) {
    int32_t best = most_likely(logits, s->vocabulary);
    if (!(o->temperature > 0) || !isfinite(logits[best]))
        return best;
    double sum = weigh(s, logits, logits[best], o->temperature, o->min_p);
    bool cut = o->top_p < 1 || o->top_k > 0;
    int64_t n = cut ? cut_tail(s, o, &sum) : s->vocabulary;
    const struct candidate *last = &s->candidates[s->vocabulary - 1];
    double at = sample_uniform(o->seed, place) * sum;
    int32_t chosen = best;
    for (int64_t i = 0; i < n; i++) {
        const struct candidate *c = cut ? last - i : &s->candidates[i];
        if (c->p <= 0)
            continue;
        chosen = c->id;
        at -= c->p;
        if (at < 0)
            break;
    }
    return chosen;
}
