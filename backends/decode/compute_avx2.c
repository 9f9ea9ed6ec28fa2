/* The same kernels in AVX2, FMA and F16C, chosen by what the machine says at run time. One vector register is the eight
 * lanes of cpu.h, so each result has the bits of the plain table; speed comes from holding several rows and tokens in
 * registers at once: a weight is loaded and widened once and used for three tokens. */
#if defined(__x86_64__)
#include "backends/decode/cpu.h"

#include <cpuid.h>
#include <immintrin.h>
#include <math.h>

#define ROWS_ONE 8 /* rows in flight for a single token: enough chains to hide the latency of an FMA */
#define ROWS 4
#define TOKENS 3      /* 4 x 3 sums and 3 inputs fill the sixteen registers */
#define TOKEN_TILE 24 /* a multiple of TOKENS */
#define ALWAYS static inline __attribute__((always_inline))

static __m256i tail_mask(int64_t n) {
    static const int32_t ones[2 * CPU_LANES] = {-1, -1, -1, -1, -1, -1, -1, -1};
    return _mm256_loadu_si256((const __m256i *)(const void *)(ones + CPU_LANES - n));
}

ALWAYS float fold(__m256 v) {
    __m128 s = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
    s = _mm_add_ps(s, _mm_movehl_ps(s, s));
    return _mm_cvtss_f32(_mm_add_ss(s, _mm_movehdup_ps(s)));
}

ALWAYS __m256 widen(__m128i h, enum dtype d) {
    if (d == DTYPE_F16)
        return _mm256_cvtph_ps(h);
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(h), 16));
}

ALWAYS __m256 load(const uint8_t *at, enum dtype d) {
    if (d == DTYPE_F32)
        return _mm256_loadu_ps((const float *)(const void *)at);
    return widen(_mm_loadu_si128((const __m128i *)(const void *)at), d);
}

/* The last n < 8 weights, zeros behind them; reads not one byte past them. */
ALWAYS __m256 load_tail(const uint8_t *at, enum dtype d, int64_t n) {
    uint8_t buffer[CPU_LANES * 4] = {0};
    memcpy(buffer, at, (size_t)n * dtype_bytes(d));
    return load(buffer, d);
}

/* R rows by T tokens; all of R, T and d are constants where this is used. */
ALWAYS void block(const uint8_t *w, int64_t row_bytes, int64_t n, enum dtype d, const float *x, int64_t x_stride,
                  float *y, int64_t y_stride, int R, int T) {
    __m256 sum[ROWS_ONE * 1 > ROWS * TOKENS ? ROWS_ONE : ROWS * TOKENS];
    int64_t size = d == DTYPE_F32 ? 4 : 2, whole = n / CPU_LANES * CPU_LANES;
#pragma GCC unroll 12
    for (int k = 0; k < R * T; k++)
        sum[k] = _mm256_setzero_ps();
    for (int64_t i = 0; i < whole; i += CPU_LANES) {
        __m256 in[TOKENS];
#pragma GCC unroll 3
        for (int t = 0; t < T; t++)
            in[t] = _mm256_loadu_ps(x + t * x_stride + i);
#pragma GCC unroll 8
        for (int r = 0; r < R; r++) {
            __m256 weight = load(w + r * row_bytes + i * size, d);
#pragma GCC unroll 3
            for (int t = 0; t < T; t++)
                sum[r * T + t] = _mm256_fmadd_ps(weight, in[t], sum[r * T + t]);
        }
    }
    for (int r = 0; whole < n && r < R; r++) {
        __m256 weight = load_tail(w + r * row_bytes + whole * size, d, n - whole);
        for (int t = 0; t < T; t++)
            sum[r * T + t] = _mm256_fmadd_ps(weight, _mm256_maskload_ps(x + t * x_stride + whole, tail_mask(n - whole)),
                                             sum[r * T + t]);
    }
#pragma GCC unroll 8
    for (int r = 0; r < R; r++)
#pragma GCC unroll 3
        for (int t = 0; t < T; t++)
            y[t * y_stride + r] = fold(sum[r * T + t]);
}

/* R rows, all tokens. Nothing here changes the order of any sum, only which sums are under way together. */
ALWAYS void strip(const uint8_t *w, int64_t row_bytes, int64_t n, enum dtype d, const float *x, int64_t x_stride,
                  int64_t n_tok, float *y, int64_t y_stride, int R) {
    int64_t t = 0;
    for (; t + TOKENS <= n_tok; t += TOKENS)
        block(w, row_bytes, n, d, x + t * x_stride, x_stride, y + t * y_stride, y_stride, R, TOKENS);
    if (n_tok - t == 2)
        block(w, row_bytes, n, d, x + t * x_stride, x_stride, y + t * y_stride, y_stride, R, 2);
    else if (n_tok - t == 1)
        block(w, row_bytes, n, d, x + t * x_stride, x_stride, y + t * y_stride, y_stride, R, 1);
}

ALWAYS void rows_of(const struct tensor *w, enum dtype d, int64_t row, int64_t row1, const float *x, int64_t x_stride,
                    int64_t n_tok, float *y, int64_t y_stride) {
    int64_t n = w->cols, row_bytes = n * (d == DTYPE_F32 ? 4 : 2);
    for (; n_tok == 1 && row + ROWS_ONE <= row1; row += ROWS_ONE)
        block(w->at + row * row_bytes, row_bytes, n, d, x, x_stride, y + row, y_stride, ROWS_ONE, 1);
    for (; row + ROWS <= row1; row += ROWS)
        strip(w->at + row * row_bytes, row_bytes, n, d, x, x_stride, n_tok, y + row, y_stride, ROWS);
    for (; row < row1; row++)
        strip(w->at + row * row_bytes, row_bytes, n, d, x, x_stride, n_tok, y + row, y_stride, 1);
}

/* Tokens in tiles whose inputs stay in the cache while all rows of the chunk pass over them. */
ALWAYS void matmul_of(const struct tensor *w, enum dtype d, int64_t row, int64_t row1, const float *x, int64_t x_stride,
                      int64_t n_tok, float *y, int64_t y_stride) {
    for (int64_t t = 0; t < n_tok; t += TOKEN_TILE)
        rows_of(w, d, row, row1, x + t * x_stride, x_stride, n_tok - t < TOKEN_TILE ? n_tok - t : TOKEN_TILE,
                y + t * y_stride, y_stride);
}

static void avx2_matmul(const struct tensor *w, int64_t row0, int64_t row1, const float *x, int64_t x_stride,
                        int64_t n_tok, float *y, int64_t y_stride) {
    if (w->dtype == DTYPE_F32)
        matmul_of(w, DTYPE_F32, row0, row1, x, x_stride, n_tok, y, y_stride);
    else if (w->dtype == DTYPE_F16)
        matmul_of(w, DTYPE_F16, row0, row1, x, x_stride, n_tok, y, y_stride);
    else
        matmul_of(w, DTYPE_BF16, row0, row1, x, x_stride, n_tok, y, y_stride);
}

static void avx2_norm(const float *x, const float *w, float eps, int64_t n, float *y) {
    float sum;
    block((const uint8_t *)x, 0, n, DTYPE_F32, x, 0, &sum, 0, 1, 1);
    float scale = 1.0f / sqrtf(sum / (float)n + eps);
    int64_t i = 0;
    for (; i + CPU_LANES <= n; i += CPU_LANES)
        _mm256_storeu_ps(
            y + i, _mm256_mul_ps(_mm256_mul_ps(_mm256_loadu_ps(x + i), _mm256_set1_ps(scale)), _mm256_loadu_ps(w + i)));
    for (; i < n; i++)
        y[i] = x[i] * scale * w[i];
}

ALWAYS __m256 exp_of(__m256 x) {
    x = _mm256_max_ps(x, _mm256_set1_ps(CPU_EXP_LO));
    x = _mm256_min_ps(x, _mm256_set1_ps(CPU_EXP_HI));
    __m256 round = _mm256_set1_ps(CPU_EXP_ROUND);
    __m256 n = _mm256_sub_ps(_mm256_fmadd_ps(x, _mm256_set1_ps(CPU_EXP_LOG2E), round), round);
    __m256 r = _mm256_fmadd_ps(n, _mm256_set1_ps(-CPU_EXP_LN2_HI), x);
    r = _mm256_fmadd_ps(n, _mm256_set1_ps(-CPU_EXP_LN2_LO), r);
    __m256 p = _mm256_set1_ps(CPU_EXP_C0);
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(CPU_EXP_C1));
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(CPU_EXP_C2));
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(CPU_EXP_C3));
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(CPU_EXP_C4));
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(CPU_EXP_C5));
    p = _mm256_add_ps(_mm256_fmadd_ps(p, _mm256_mul_ps(r, r), r), _mm256_set1_ps(1.0f));
    __m256i bits = _mm256_slli_epi32(_mm256_add_epi32(_mm256_cvtps_epi32(n), _mm256_set1_epi32(127)), 23);
    return _mm256_mul_ps(p, _mm256_castsi256_ps(bits));
}

static const float *cached(const struct attend *a, const float *cache, int64_t pos) {
    pos += a->first;
    return cache + a->blocks[pos / KV_BLOCK_TOK] * a->block_stride + a->head_offset + pos % KV_BLOCK_TOK * a->head_dim;
}

/* Scores of one query head, a block of the cache at a time: its sixteen keys lie one behind the other. */
static void score(const struct attend *a, const float *q) {
    int64_t row_bytes = a->head_dim * 4, rows;
    for (int64_t p = 0; p < a->n; p += rows) {
        struct tensor keys = {(const uint8_t *)cached(a, a->k, p), DTYPE_F32, KV_BLOCK_TOK, a->head_dim, NULL};
        int64_t left = KV_BLOCK_TOK - (p + a->first) % KV_BLOCK_TOK, r = 0;
        rows = a->n - p < left ? a->n - p : left;
        for (; r + ROWS_ONE <= rows; r += ROWS_ONE)
            block(keys.at + r * row_bytes, row_bytes, a->head_dim, DTYPE_F32, q, 0, a->scores + p + r, 0, ROWS_ONE, 1);
        for (; r < rows; r++)
            block(keys.at + r * row_bytes, row_bytes, a->head_dim, DTYPE_F32, q, 0, a->scores + p + r, 0, 1, 1);
    }
    for (int64_t p = 0; p < a->n; p++)
        a->scores[p] *= a->scale;
}

static float softmax(float *s, int64_t n) {
    float most = s[0];
    for (int64_t i = 1; i < n; i++)
        most = s[i] > most ? s[i] : most;
    __m256 sum = _mm256_setzero_ps(), top = _mm256_set1_ps(most);
    int64_t i = 0;
    for (; i + CPU_LANES <= n; i += CPU_LANES) {
        __m256 e = exp_of(_mm256_sub_ps(_mm256_loadu_ps(s + i), top));
        _mm256_storeu_ps(s + i, e);
        sum = _mm256_add_ps(sum, e);
    }
    if (i < n) {
        __m256i mask = tail_mask(n - i);
        __m256 e = exp_of(_mm256_sub_ps(_mm256_maskload_ps(s + i, mask), top));
        e = _mm256_and_ps(e, _mm256_castsi256_ps(mask));
        _mm256_maskstore_ps(s + i, mask, e);
        sum = _mm256_add_ps(sum, e);
    }
    return fold(sum);
}

/* Up to four vectors of the output at a time, positions ascending. */
ALWAYS void mix(const struct attend *a, int64_t i, int width, float inverse, float *out) {
    __m256 sum[4];
#pragma GCC unroll 4
    for (int k = 0; k < width; k++)
        sum[k] = _mm256_setzero_ps();
    for (int64_t p = 0; p < a->n; p++) {
        const float *v = cached(a, a->v, p) + i;
        __m256 weight = _mm256_set1_ps(a->scores[p]);
#pragma GCC unroll 4
        for (int k = 0; k < width; k++)
            sum[k] = _mm256_fmadd_ps(weight, _mm256_loadu_ps(v + k * CPU_LANES), sum[k]);
    }
#pragma GCC unroll 4
    for (int k = 0; k < width; k++)
        _mm256_storeu_ps(out + i + k * CPU_LANES, _mm256_mul_ps(sum[k], _mm256_set1_ps(inverse)));
}

static void mix_tail(const struct attend *a, int64_t i, float inverse, float *out) {
    __m256i mask = tail_mask(a->head_dim - i);
    __m256 sum = _mm256_setzero_ps();
    for (int64_t p = 0; p < a->n; p++)
        sum = _mm256_fmadd_ps(_mm256_set1_ps(a->scores[p]), _mm256_maskload_ps(cached(a, a->v, p) + i, mask), sum);
    _mm256_maskstore_ps(out + i, mask, _mm256_mul_ps(sum, _mm256_set1_ps(inverse)));
}

static void avx2_attend(const struct attend *a) {
    for (int64_t g = 0; g < a->group; g++) {
        float *out = a->out + g * a->head_dim;
        score(a, a->q + g * a->head_dim);
        float inverse = 1.0f / softmax(a->scores, a->n);
        int64_t i = 0;
        for (; i + 4 * CPU_LANES <= a->head_dim; i += 4 * CPU_LANES)
            mix(a, i, 4, inverse, out);
        for (; i + CPU_LANES <= a->head_dim; i += CPU_LANES)
            mix(a, i, 1, inverse, out);
        if (i < a->head_dim)
            mix_tail(a, i, inverse, out);
    }
}

ALWAYS __m256 silu_mul(__m256 g, __m256 u) {
    __m256 e = exp_of(_mm256_xor_ps(g, _mm256_set1_ps(-0.0f)));
    return _mm256_mul_ps(_mm256_div_ps(g, _mm256_add_ps(_mm256_set1_ps(1.0f), e)), u);
}

static void avx2_silu_mul(float *gate, const float *up, int64_t n) {
    int64_t i = 0;
    for (; i + CPU_LANES <= n; i += CPU_LANES)
        _mm256_storeu_ps(gate + i, silu_mul(_mm256_loadu_ps(gate + i), _mm256_loadu_ps(up + i)));
    if (i < n) {
        __m256i mask = tail_mask(n - i);
        __m256 y = silu_mul(_mm256_maskload_ps(gate + i, mask), _mm256_maskload_ps(up + i, mask));
        _mm256_maskstore_ps(gate + i, mask, y);
    }
}

static const struct cpu_kernels kernels = {avx2_matmul, avx2_norm, avx2_attend, avx2_silu_mul};

/* Older clangs do not know F16C by name, so its bit is read; the other two also say that the kernel keeps the registers. */
static bool usable(void) {
    unsigned a, b, c, d;
    return __get_cpuid(1, &a, &b, &c, &d) && (c & bit_F16C) && __builtin_cpu_supports("avx2") &&
           __builtin_cpu_supports("fma");
}

static struct compute *open_avx2(const struct model *m, const struct compute_limits *l, struct str *why) {
    return cpu_open(m, l, &kernels, why);
}

const struct compute_ops compute_avx2 = {"cpu avx2", usable,           open_avx2, cpu_forward, cpu_place,
                                         cpu_close,  cpu_kv_tok_bytes, NULL,      NULL};
#else
typedef int compute_avx2_is_for_x86_64; /* a translation unit may not be empty */
#endif
