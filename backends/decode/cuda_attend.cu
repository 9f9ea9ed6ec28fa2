/* Looking back over a paged cache. A block of threads serves one token and up to eight query heads of one kv head, so that their
 * keys and values are read once. The past is cut into chunks at fixed positions; what chunks give is folded from the first
 * to the last, by one block in turn or by attend_merge after a block a chunk: the same steps, so the same bits. */
#include "backends/decode/cuda_kernel.h"

#define LANES_A_KEY 8
#define KEYS_AT_ONCE (CUDA_ROW_THREADS / LANES_A_KEY)

struct fold { /* of some positions: the largest score, the sum of weights, and (elsewhere) the weighted mix of values */
    float most, sum;
};

/* What each side of a fold is multiplied by, so that both stand under one maximum. */
DEVICE struct fold fold_with(const struct fold &a, const struct fold &b, float *of_a, float *of_b) {
    struct fold both;
    both.most = a.most > b.most ? a.most : b.most;
    *of_a = expf(a.most - both.most);
    *of_b = expf(b.most - both.most);
    both.sum = fmaf(a.sum, *of_a, b.sum * *of_b);
    return both;
}

DEVICE float mix_with(float a, float of_a, float b, float of_b) {
    return fmaf(a, of_a, b * of_b);
}

struct past {
    int32_t first, last; /* positions looked at, the token's own included */
    const int32_t *blocks;
    int32_t kv_head;
};

DEVICE struct past past_of(const struct cuda_attend &a, int32_t t) {
    struct past p;
    p.last = ints(a.step, a.step->pos)[t];
    p.first = a.window && p.last >= a.window ? p.last - a.window + 1 : 0;
    p.blocks = ints(a.step, ints(a.step, a.step->tables)[ints(a.step, a.step->seq)[t]]);
    p.kv_head = 0;
    return p;
}

DEVICE int64_t cached(const struct cuda_attend &a, const struct past &p, int32_t pos) {
    int64_t block = p.blocks[pos / CUDA_BLOCK_TOK];
    return ((block * a.kv_heads + p.kv_head) * CUDA_BLOCK_TOK + pos % CUDA_BLOCK_TOK) * a.head_dim;
}

/* Shared memory of a block, for `heads` query heads. */
struct room {
    float *q, *scores, *mix, *parts; /* [heads][head_dim], [heads][chunk], [heads][head_dim], [heads][threads] */
    struct fold *chunk, *so_far;     /* [heads] */
    float *of_so_far, *of_chunk;     /* [heads] what their mixes are multiplied by */
};

/* Eight lanes take a key together, two neighbouring elements a lane at a time; head_dim is even. */
template <int T>
DEVICE void score(const struct cuda_attend &a, const struct past &p, int32_t from, int32_t to, int32_t heads,
                  const struct room &m) {
    int32_t lane = lane_of() % LANES_A_KEY, key = static_cast<int32_t>(threadIdx.x) / LANES_A_KEY;
    for (int32_t at = from; at < to; at += KEYS_AT_ONCE) {
        float sum[CUDA_HEADS_A_BLOCK] = {0};
        int32_t pos = at + key;
        int64_t k = cached(a, p, pos < to ? pos : from);
        for (int32_t i = lane * 2; i < a.head_dim; i += LANES_A_KEY * 2) {
            float k0 = load<T>(a.k, k + i), k1 = load<T>(a.k, k + i + 1);
#pragma unroll
            for (int h = 0; h < CUDA_HEADS_A_BLOCK; h++)
                if (h < heads)
                    sum[h] = fmaf(m.q[h * a.head_dim + i + 1], k1, fmaf(m.q[h * a.head_dim + i], k0, sum[h]));
        }
        float mine = sum8(sum, LANES_A_KEY);
        if (pos < to && lane < heads)
            m.scores[lane * CUDA_CHUNK_TOK + pos - from] = mine * a.scale;
    }
}

/* Scores become weights, the largest 1. A warp a head. */
DEVICE void weigh(int32_t n, int32_t heads, const struct room &m) {
    for (int32_t h = warp_of(); h < heads; h += CUDA_ROW_THREADS / CUDA_WARP) {
        float *s = m.scores + h * CUDA_CHUNK_TOK, most = -INFINITE, sum = 0;
        for (int32_t i = lane_of(); i < n; i += CUDA_WARP)
            most = s[i] > most ? s[i] : most;
        most = warp_most(most);
        for (int32_t i = lane_of(); i < n; i += CUDA_WARP) {
            s[i] = expf(s[i] - most);
            sum += s[i];
        }
        sum = warp_sum(sum);
        if (lane_of() == 0) {
            m.chunk[h].most = most;
            m.chunk[h].sum = sum;
        }
    }
}

/* A thread takes one element of the values for all heads; where heads are narrower than the block, several threads share an
 * element's positions and their parts are added in order. The mix of each head ends up in `out`. */
template <int T>
DEVICE void mix(const struct cuda_attend &a, const struct past &p, int32_t from, int32_t to, int32_t heads,
                const struct room &m, float *out) {
    int32_t d = a.head_dim, me = static_cast<int32_t>(threadIdx.x),
            shares = d < CUDA_ROW_THREADS ? CUDA_ROW_THREADS / d : 1;
    for (int32_t i0 = 0; i0 < d; i0 += CUDA_ROW_THREADS) {
        int32_t i = shares > 1 ? me % d : i0 + me, share = shares > 1 ? me / d : 0;
        bool works = i < d && share < shares;
        float sum[CUDA_HEADS_A_BLOCK] = {0};
        for (int32_t pos = from + share; works && pos < to; pos += shares) {
            float v = load<T>(a.v, cached(a, p, pos) + i);
#pragma unroll
            for (int h = 0; h < CUDA_HEADS_A_BLOCK; h++)
                if (h < heads)
                    sum[h] = fmaf(m.scores[h * CUDA_CHUNK_TOK + pos - from], v, sum[h]);
        }
#pragma unroll
        for (int h = 0; h < CUDA_HEADS_A_BLOCK; h++)
            if (works && h < heads)
                m.parts[h * CUDA_ROW_THREADS + me] = sum[h];
        __syncthreads();
        for (int32_t h = 0; works && share == 0 && h < heads; h++) {
            float all = 0;
            for (int32_t s = 0; s < shares; s++)
                all += m.parts[h * CUDA_ROW_THREADS + s * d + me];
            out[h * d + i] = all;
        }
        __syncthreads();
    }
}

DEVICE struct room room_in(float *shared, int32_t heads, int32_t head_dim) {
    struct room m;
    m.q = shared;
    m.mix = m.q + heads * head_dim;
    m.scores = m.mix + heads * head_dim;
    m.parts = m.scores + heads * CUDA_CHUNK_TOK;
    m.chunk = reinterpret_cast<struct fold *>(m.parts + heads * CUDA_ROW_THREADS);
    m.so_far = m.chunk + heads;
    m.of_so_far = reinterpret_cast<float *>(m.so_far + heads);
    m.of_chunk = m.of_so_far + heads;
    return m;
}

template <int T>
DEVICE void chunk_of(const struct cuda_attend &a, const struct past &p, int32_t chunk, int32_t heads,
                     const struct room &m, float *out) {
    int32_t from = chunk * CUDA_CHUNK_TOK, to = from + CUDA_CHUNK_TOK;
    from = from < p.first ? p.first : from;
    to = to > p.last + 1 ? p.last + 1 : to;
    score<T>(a, p, from, to, heads, m);
    __syncthreads();
    weigh(to - from, heads, m);
    __syncthreads();
    mix<T>(a, p, from, to, heads, m, out);
}

DEVICE float *partial_at(const struct cuda_attend &a, int32_t t, int32_t head, int32_t chunk) {
    int64_t at = (static_cast<int64_t>(t) * a.heads + head) * a.chunks + chunk;
    return a.partial + at * (2 + a.head_dim);
}

/* One chunk's fold and mix, for attend_merge. */
template <int T>
DEVICE void one_chunk(const struct cuda_attend &a, const struct past &p, int32_t t, int32_t head0, int32_t heads,
                      const struct room &m) {
    int32_t chunk = static_cast<int32_t>(blockIdx.z);
    if (chunk < p.first / CUDA_CHUNK_TOK || chunk > p.last / CUDA_CHUNK_TOK)
        return;
    chunk_of<T>(a, p, chunk, heads, m, m.mix);
    for (int32_t i = static_cast<int32_t>(threadIdx.x); i < heads * a.head_dim; i += CUDA_ROW_THREADS) {
        float *to = partial_at(a, t, head0 + i / a.head_dim, chunk);
        to[2 + i % a.head_dim] = m.mix[i];
        if (i % a.head_dim == 0) {
            to[0] = m.chunk[i / a.head_dim].most;
            to[1] = m.chunk[i / a.head_dim].sum;
        }
    }
}

/* A head's chunk joins what is folded so far. A thread a head. */
DEVICE void fold_heads(int32_t heads, bool begins, const struct room &m) {
    int32_t h = static_cast<int32_t>(threadIdx.x);
    if (h < heads)
        m.so_far[h] = begins ? m.chunk[h] : fold_with(m.so_far[h], m.chunk[h], &m.of_so_far[h], &m.of_chunk[h]);
    __syncthreads();
}

/* All chunks in turn. What is mixed so far of element j of heads * head_dim stays with thread j mod the block's. */
#define ELEMENTS_A_THREAD 16 /* eight heads of 256 */
template <int T>
DEVICE void all_chunks(const struct cuda_attend &a, const struct past &p, int32_t t, int32_t head0, int32_t heads,
                       const struct room &m) {
    float mixed[ELEMENTS_A_THREAD];
    int32_t n = heads * a.head_dim, first = p.first / CUDA_CHUNK_TOK, me = static_cast<int32_t>(threadIdx.x);
    for (int32_t chunk = first; chunk <= p.last / CUDA_CHUNK_TOK; chunk++) {
        chunk_of<T>(a, p, chunk, heads, m, m.mix);
        fold_heads(heads, chunk == first, m);
#pragma unroll
        for (int k = 0; k < ELEMENTS_A_THREAD; k++) {
            int32_t i = me + k * CUDA_ROW_THREADS, h = i / a.head_dim;
            if (i < n)
                mixed[k] = chunk == first ? m.mix[i] : mix_with(mixed[k], m.of_so_far[h], m.mix[i], m.of_chunk[h]);
        }
        __syncthreads();
    }
#pragma unroll
    for (int k = 0; k < ELEMENTS_A_THREAD; k++) {
        int32_t i = me + k * CUDA_ROW_THREADS;
        if (i < n)
            store(a.out, a.out_type, (static_cast<int64_t>(t) * a.heads + head0) * a.head_dim + i,
                  mixed[k] / m.so_far[i / a.head_dim].sum);
    }
}

/* Grid: kv heads times slices of their query heads, tokens, chunks. */
template <int T> DEVICE void attend(const struct cuda_attend &a, float *shared) {
    int32_t t = static_cast<int32_t>(blockIdx.y), group = a.heads / a.kv_heads, d = a.head_dim;
    int32_t slices = (group + CUDA_HEADS_A_BLOCK - 1) / CUDA_HEADS_A_BLOCK, me = static_cast<int32_t>(threadIdx.x);
    if (t >= a.step->n_tok)
        return;
    struct past p = past_of(a, t);
    p.kv_head = static_cast<int32_t>(blockIdx.x) / slices;
    int32_t in_group = static_cast<int32_t>(blockIdx.x) % slices * CUDA_HEADS_A_BLOCK;
    int32_t head0 = p.kv_head * group + in_group;
    int32_t heads = group - in_group < CUDA_HEADS_A_BLOCK ? group - in_group : CUDA_HEADS_A_BLOCK;
    struct room m = room_in(shared, heads, d);
    const float *q = a.qkv + (static_cast<int64_t>(t) * (a.heads + 2 * a.kv_heads) + head0) * d;
    for (int32_t i = me; i < heads * d; i += CUDA_ROW_THREADS)
        m.q[i] = q[i];
    __syncthreads();
    if (a.chunks)
        one_chunk<T>(a, p, t, head0, heads, m);
    else
        all_chunks<T>(a, p, t, head0, heads, m);
}

KERNEL(attend_f32, CUDA_ROW_THREADS, struct cuda_attend) {
    SHARED_DYNAMIC(float, shared);
    attend<CUDA_F32>(a, shared);
}

KERNEL(attend_f16, CUDA_ROW_THREADS, struct cuda_attend) {
    SHARED_DYNAMIC(float, shared);
    attend<CUDA_F16>(a, shared);
}

KERNEL(attend_bf16, CUDA_ROW_THREADS, struct cuda_attend) {
    SHARED_DYNAMIC(float, shared);
    attend<CUDA_BF16>(a, shared);
}

/* Grid: heads, tokens. */
KERNEL(attend_merge, CUDA_ROW_THREADS, struct cuda_attend) {
    int32_t head = static_cast<int32_t>(blockIdx.x), t = static_cast<int32_t>(blockIdx.y);
    if (t >= a.step->n_tok)
        return;
    struct past p = past_of(a, t);
    int32_t first = p.first / CUDA_CHUNK_TOK, last = p.last / CUDA_CHUNK_TOK;
    for (int32_t i = static_cast<int32_t>(threadIdx.x); i < a.head_dim; i += CUDA_ROW_THREADS) {
        const float *at = partial_at(a, t, head, first);
        struct fold so_far = {at[0], at[1]};
        float mixed = at[2 + i], of_a, of_b;
        for (int32_t chunk = first + 1; chunk <= last; chunk++) {
            at = partial_at(a, t, head, chunk);
            struct fold here = {at[0], at[1]};
            so_far = fold_with(so_far, here, &of_a, &of_b);
            mixed = mix_with(mixed, of_a, at[2 + i], of_b);
        }
        store(a.out, a.out_type, (static_cast<int64_t>(t) * a.heads + head) * a.head_dim + i, mixed / so_far.sum);
    }
}
