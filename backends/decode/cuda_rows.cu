/* What is done to one row at a time: looking it up, norms, positions into angles, and the gate of the feed-forward part. */
#include "backends/decode/cuda_kernel.h"

DEVICE float weight_at(const struct cuda_embed &a, int64_t row, int32_t i) {
    int64_t at = row * a.cols + i;
    if (a.type == CUDA_F32)
        return load<CUDA_F32>(a.w, at);
    if (a.type == CUDA_F16)
        return load<CUDA_F16>(a.w, at);
    if (a.type == CUDA_BF16)
        return load<CUDA_BF16>(a.w, at);
    int64_t groups = (a.cols + CUDA_INT8_GROUP - 1) / CUDA_INT8_GROUP;
    return load<CUDA_INT8>(a.w, row * groups * CUDA_INT8_GROUP + i) * a.scales[row * groups + i / CUDA_INT8_GROUP];
}

KERNEL(embed_rows, CUDA_ROW_THREADS, struct cuda_embed) {
    int32_t t = static_cast<int32_t>(blockIdx.x);
    if (t >= a.step->n_tok)
        return;
    int64_t row = ints(a.step, a.step->ids)[t];
    for (int32_t i = static_cast<int32_t>(threadIdx.x); i < a.cols; i += static_cast<int32_t>(blockDim.x))
        a.x[static_cast<int64_t>(t) * a.cols + i] = weight_at(a, row, i);
}

KERNEL(norm_rows, CUDA_ROW_THREADS, struct cuda_norm) {
    SHARED(float, room, CUDA_ROW_THREADS / CUDA_WARP);
    int64_t r = static_cast<int64_t>(blockIdx.x);
    if (r >= rows_of(a.step, a.wanted))
        return;
    int64_t from = (a.wanted ? ints(a.step, a.step->want)[r] : r) * a.n, to = r * a.n;
    float sum = 0;
    for (int32_t i = static_cast<int32_t>(threadIdx.x); i < a.n; i += static_cast<int32_t>(blockDim.x)) {
        float v = a.x[from + i];
        if (a.add) {
            v += a.bias ? a.add[from + i] + a.bias[i] : a.add[from + i];
            a.x[from + i] = v;
        }
        sum = fmaf(v, v, sum);
    }
    float scale = 1.0f / sqrtf(block_sum(sum, room) / static_cast<float>(a.n) + a.eps);
    for (int32_t i = static_cast<int32_t>(threadIdx.x); i < a.n; i += static_cast<int32_t>(blockDim.x))
        store(a.out, a.out_type, to + i, a.x[from + i] * scale * a.w[i]);
}

DEVICE void add_to(float *head, const float *bias, int32_t n) {
    for (int32_t i = lane_of(); i < n; i += CUDA_WARP)
        head[i] += bias[i];
}

DEVICE void norm_head(float *head, const float *w, float eps, int32_t n) {
    float sum = 0;
    for (int32_t i = lane_of(); i < n; i += CUDA_WARP)
        sum = fmaf(head[i], head[i], sum);
    float scale = 1.0f / sqrtf(warp_sum(sum) / static_cast<float>(n) + eps);
    for (int32_t i = lane_of(); i < n; i += CUDA_WARP)
        head[i] = head[i] * scale * w[i];
}

/* Pairs (i, i + half), as Hugging Face lays heads out. */
DEVICE void turn(float *head, const float *cos, const float *sin, int32_t half) {
    for (int32_t i = lane_of(); i < half; i += CUDA_WARP) {
        float x = head[i], y = head[i + half];
        head[i] = x * cos[i] - y * sin[i];
        head[i + half] = y * cos[i] + x * sin[i];
    }
}

/* A warp takes a head from its product to its place; lanes meet between steps, since a pair is of two lanes' numbers. */
DEVICE void place_head(const struct cuda_rope &a, int32_t t, int32_t head) {
    int32_t d = a.head_dim, all = a.heads + 2 * a.kv_heads, pos = ints(a.step, a.step->pos)[t];
    float *at = a.qkv + (static_cast<int64_t>(t) * all + head) * d;
    bool is_q = head < a.heads, is_v = head >= a.heads + a.kv_heads;
    const float *norm = is_q ? a.q_norm : a.k_norm;
    if (a.bias)
        add_to(at, a.bias + static_cast<int64_t>(head) * d, d);
    if (!is_v && norm)
        norm_head(at, norm, a.eps, d);
    __syncwarp();
    if (!is_v)
        turn(at, a.cos + static_cast<int64_t>(pos) * (d / 2), a.sin + static_cast<int64_t>(pos) * (d / 2), d / 2);
    __syncwarp();
    if (is_q)
        return;
    int32_t kv = is_v ? head - a.heads - a.kv_heads : head - a.heads;
    int64_t block = ints(a.step, ints(a.step, a.step->tables)[ints(a.step, a.step->seq)[t]])[pos / CUDA_BLOCK_TOK];
    int64_t to = ((block * a.kv_heads + kv) * CUDA_BLOCK_TOK + pos % CUDA_BLOCK_TOK) * d;
    for (int32_t i = lane_of(); i < d; i += CUDA_WARP)
        store(is_v ? a.v : a.k, a.kv_type, to + i, at[i]);
}

KERNEL(rope_cache, CUDA_ROW_THREADS, struct cuda_rope) {
    int32_t t = static_cast<int32_t>(blockIdx.x);
    if (t >= a.step->n_tok)
        return;
    for (int32_t head = warp_of(); head < a.heads + 2 * a.kv_heads; head += CUDA_ROW_THREADS / CUDA_WARP)
        place_head(a, t, head);
}

KERNEL(silu_mul, CUDA_ROW_THREADS, struct cuda_silu) {
    int64_t t = static_cast<int64_t>(blockIdx.x);
    int32_t i = static_cast<int32_t>(blockIdx.y * blockDim.x + threadIdx.x);
    if (t >= a.step->n_tok || i >= a.n)
        return;
    float gate = a.gate_up[t * 2 * a.n + i], up = a.gate_up[t * 2 * a.n + a.n + i];
    if (a.bias) {
        gate += a.bias[i];
        up += a.bias[a.n + i];
    }
    store(a.out, a.out_type, t * a.n + i, gate / (1.0f + expf(-gate)) * up);
}
