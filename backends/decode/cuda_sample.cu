/* The next token of a row, chosen where the logits are. Weights are whole numbers (2^40 is the most likely token's), so their sums
 * are the same in whatever order threads add them, and one search serves all: find the token that holds a given place, by
 * count or by weight, among tokens in order of likelihood and then of id. top_k, top_p and the draw are three of those. */
#include "backends/decode/cuda_kernel.h"

#define ONE 1099511627776.0f /* 2^40 */
#define DIGITS 256           /* values of eight bits of a key */

typedef unsigned long long u64;

struct row {
    const float *logits;
    int32_t n;
    float top, temperature, min_p;
};
struct found {
    uint32_t key;         /* of all tokens as likely as the one that holds the place */
    u64 before, n_before; /* weight and number of the likelier ones */
    u64 each;             /* weight of each of them */
};
struct shared_room {
    u64 weight[DIGITS], count[DIGITS];
    u64 threads[CUDA_SAMPLE_THREADS];
    struct found found;
    u64 place;
    int32_t chosen;
};

/* Larger logits have larger keys; no number is the least of all. */
DEVICE uint32_t key_of(float v) {
    union cuda_bits b;
    b.f = v + 0.0f; /* -0 is 0 */
    if (v != v)
        return 0;
    return b.u & 0x80000000u ? ~b.u : b.u | 0x80000000u;
}

DEVICE u64 weight_of(const struct row &r, float v) {
    float p = expf((v - r.top) / r.temperature);
    return p > 0 && p >= r.min_p ? static_cast<u64>(p * ONE) : 0;
}

DEVICE int32_t me() {
    return static_cast<int32_t>(threadIdx.x);
}

DEVICE u64 sum_all(u64 v, struct shared_room *m) {
    m->threads[me()] = v;
    __syncthreads();
    for (int32_t half = CUDA_SAMPLE_THREADS / 2; half; half /= 2) {
        if (me() < half)
            m->threads[me()] += m->threads[me() + half];
        __syncthreads();
    }
    u64 all = m->threads[0];
    __syncthreads();
    return all;
}

/* The most likely token, the lowest id among equals. */
DEVICE int32_t most_likely(const struct row &r, struct shared_room *m) {
    u64 best = 0;
    for (int32_t i = me(); i < r.n; i += CUDA_SAMPLE_THREADS) {
        u64 here = static_cast<u64>(key_of(r.logits[i])) << 32 | ~static_cast<uint32_t>(i);
        best = here > best ? here : best;
    }
    m->threads[me()] = best;
    __syncthreads();
    for (int32_t half = CUDA_SAMPLE_THREADS / 2; half; half /= 2) {
        if (me() < half && m->threads[me() + half] > m->threads[me()])
            m->threads[me()] = m->threads[me() + half];
        __syncthreads();
    }
    best = m->threads[0];
    __syncthreads();
    return static_cast<int32_t>(~static_cast<uint32_t>(best));
}

/* Goes down the digits' sums to the one that holds the place; one thread, since each step needs the one before. */
DEVICE void narrow(struct shared_room *m, int shift, bool by_count) {
    const u64 *sums = by_count ? m->count : m->weight;
    int digit = DIGITS - 1;
    while (digit > 0 && m->place >= sums[digit]) {
        m->place -= sums[digit];
        m->found.before += m->weight[digit];
        m->found.n_before += m->count[digit];
        digit--;
    }
    m->found.key |= static_cast<uint32_t>(digit) << shift;
}

/* Who holds a place that is below the sum. Everybody gets the same answer. */
DEVICE struct found find(const struct row &r, u64 place, bool by_count, struct shared_room *m) {
    if (me() == 0) {
        m->place = place;
        m->found = {0, 0, 0, 0};
    }
    for (int shift = 24; shift >= 0; shift -= 8) {
        m->weight[me()] = m->count[me()] = 0;
        __syncthreads();
        for (int32_t i = me(); i < r.n; i += CUDA_SAMPLE_THREADS) {
            uint32_t key = key_of(r.logits[i]);
            if (shift < 24 && key >> (shift + 8) != m->found.key >> (shift + 8))
                continue;
            u64 weight = weight_of(r, r.logits[i]);
            if (weight)
                atomicAdd(&m->weight[key >> shift & 0xff], weight);
            atomicAdd(&m->count[key >> shift & 0xff], static_cast<u64>(1));
            if (shift == 0 && key == m->found.key + (key & 0xff))
                m->threads[key & 0xff] = weight; /* the same for all of one key */
        }
        __syncthreads();
        if (me() == 0) {
            narrow(m, shift, by_count);
            if (shift == 0)
                m->found.each = m->threads[m->found.key & 0xff];
        }
        __syncthreads();
    }
    struct found f = m->found;
    __syncthreads();
    return f;
}

/* The id of the j-th token, in order of ids, for which `which` says so much that j lies in it. */
DEVICE int32_t walk(const struct row &r, u64 j, bool by_weight, uint32_t key, struct shared_room *m) {
    int32_t each = (r.n + CUDA_SAMPLE_THREADS - 1) / CUDA_SAMPLE_THREADS, from = me() * each;
    int32_t to = from + each < r.n ? from + each : r.n;
    u64 mine = 0, before = 0;
    for (int32_t i = from; i < to; i++)
        mine += by_weight ? weight_of(r, r.logits[i]) : key_of(r.logits[i]) == key;
    m->threads[me()] = mine;
    __syncthreads();
    for (int32_t i = 0; i < me(); i++)
        before += m->threads[i];
    for (int32_t i = from; i < to && j >= before && j < before + mine; i++) {
        u64 here = by_weight ? weight_of(r, r.logits[i]) : key_of(r.logits[i]) == key;
        mine -= here;
        if (j < before + here) {
            m->chosen = i;
            break;
        }
        before += here;
    }
    __syncthreads();
    return m->chosen;
}

DEVICE u64 place_in(double at, u64 sum) {
    u64 place = static_cast<u64>(at * static_cast<double>(sum));
    return place < sum ? place : sum - 1;
}

/* top_k first, then top_p of what is left; the weight that is left. */
DEVICE u64 cut(const struct row &r, const struct cuda_choice &c, u64 sum, struct shared_room *m) {
    if (c.top_k > 0 && c.top_k < r.n) {
        struct found f = find(r, static_cast<u64>(c.top_k) - 1, true, m);
        sum = f.before + (static_cast<u64>(c.top_k) - f.n_before) * f.each;
    }
    if (c.top_p >= 1)
        return sum;
    double enough = static_cast<double>(c.top_p) * static_cast<double>(sum);
    u64 place = enough >= 1 ? static_cast<u64>(enough) - 1 : 0;
    struct found f = find(r, place < sum ? place : sum - 1, false, m);
    u64 more = f.each ? (place - f.before) / f.each + 1 : 1;
    u64 kept = f.before + more * f.each;
    return kept < sum ? kept : sum;
}

DEVICE int32_t draw(const struct row &r, const struct cuda_choice &c, struct shared_room *m) {
    u64 sum = 0;
    for (int32_t i = me(); i < r.n; i += CUDA_SAMPLE_THREADS)
        sum += weight_of(r, r.logits[i]);
    sum = sum_all(sum, m);
    if (c.top_p >= 1 && c.top_k <= 0)
        return walk(r, place_in(c.at, sum), true, 0, m);
    u64 place = place_in(c.at, cut(r, c, sum, m));
    struct found f = find(r, place, false, m);
    return walk(r, f.each ? (place - f.before) / f.each : 0, false, f.key, m);
}

/* Grid: wanted rows. */
KERNEL(sample_rows, CUDA_SAMPLE_THREADS, struct cuda_sample) {
    SHARED(struct shared_room, room, 1);
    int64_t i = static_cast<int64_t>(blockIdx.x);
    if (i >= a.step->n_want)
        return;
    struct cuda_choice c = reinterpret_cast<const struct cuda_choice *>(ints(a.step, a.step->choices))[i];
    struct row r = {a.logits + i * a.n, a.n, 0, c.temperature, c.min_p};
    int32_t chosen = -1;
    if (c.wanted) {
        chosen = most_likely(r, room);
        r.top = r.logits[chosen];
        if (c.temperature > 0 && r.top - r.top == 0)
            chosen = draw(r, c, room);
    }
    if (me() == 0)
        a.chosen[i] = chosen;
}
