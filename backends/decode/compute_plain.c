/* The specification: every kernel in scalar C, each sum in the order that cpu.h names, so that what a faster table gives
 * can be compared bit for bit. Also the twin of machines that have nothing better. */
#include "backends/decode/cpu.h"

#include <math.h>

static float fold(const float lane[CPU_LANES]) {
    return ((lane[0] + lane[4]) + (lane[2] + lane[6])) + ((lane[1] + lane[5]) + (lane[3] + lane[7]));
}

static float dot(const uint8_t *w, enum dtype d, const float *x, int64_t n) {
    float lane[CPU_LANES] = {0};
    for (int64_t i = 0; i < n; i++)
        lane[i % CPU_LANES] = fmaf(dtype_get(w, d, i), x[i], lane[i % CPU_LANES]);
    return fold(lane);
}

static void plain_matmul(const struct tensor *w, int64_t row0, int64_t row1, const float *x, int64_t x_stride,
                         int64_t n_tok, float *y, int64_t y_stride) {
    int64_t row_bytes = w->cols * (int64_t)dtype_bytes(w->dtype);
    for (int64_t r = row0; r < row1; r++)
        for (int64_t t = 0; t < n_tok; t++)
            y[t * y_stride + r] = dot(w->at + r * row_bytes, w->dtype, x + t * x_stride, w->cols);
}

static void plain_norm(const float *x, const float *w, float eps, int64_t n, float *y) {
    float lane[CPU_LANES] = {0};
    for (int64_t i = 0; i < n; i++)
        lane[i % CPU_LANES] = fmaf(x[i], x[i], lane[i % CPU_LANES]);
    float scale = 1.0f / sqrtf(fold(lane) / (float)n + eps);
    for (int64_t i = 0; i < n; i++)
        y[i] = x[i] * scale * w[i];
}

static float exp_of(float x) {
    x = x < CPU_EXP_LO ? CPU_EXP_LO : x;
    x = x > CPU_EXP_HI ? CPU_EXP_HI : x;
    float n = fmaf(x, CPU_EXP_LOG2E, CPU_EXP_ROUND) - CPU_EXP_ROUND;
    float r = fmaf(n, -CPU_EXP_LN2_LO, fmaf(n, -CPU_EXP_LN2_HI, x));
    float p = CPU_EXP_C0;
    p = fmaf(p, r, CPU_EXP_C1);
    p = fmaf(p, r, CPU_EXP_C2);
    p = fmaf(p, r, CPU_EXP_C3);
    p = fmaf(p, r, CPU_EXP_C4);
    p = fmaf(p, r, CPU_EXP_C5);
    p = fmaf(p, r * r, r) + 1.0f;
    uint32_t bits = (uint32_t)((int32_t)n + 127) << 23;
    float two_n;
    memcpy(&two_n, &bits, sizeof two_n);
    return p * two_n;
}

static const float *cached(const struct attend *a, const float *cache, int64_t pos) {
    pos += a->first;
    return cache + a->blocks[pos / KV_BLOCK_TOK] * a->block_stride + a->head_offset + pos % KV_BLOCK_TOK * a->head_dim;
}

/* Scores become weights that add up to *sum; the largest is 1. */
static float softmax(float *s, int64_t n) {
    float most = s[0], lane[CPU_LANES] = {0};
    for (int64_t i = 1; i < n; i++)
        most = s[i] > most ? s[i] : most;
    for (int64_t i = 0; i < n; i++) {
        s[i] = exp_of(s[i] - most);
        lane[i % CPU_LANES] += s[i];
    }
    return fold(lane);
}

static void plain_attend(const struct attend *a) {
    for (int64_t g = 0; g < a->group; g++) {
        const float *q = a->q + g * a->head_dim;
        float *out = a->out + g * a->head_dim;
        for (int64_t p = 0; p < a->n; p++)
            a->scores[p] = dot((const uint8_t *)cached(a, a->k, p), DTYPE_F32, q, a->head_dim) * a->scale;
        float inverse = 1.0f / softmax(a->scores, a->n);
        for (int64_t i = 0; i < a->head_dim; i++) {
            float sum = 0;
            for (int64_t p = 0; p < a->n; p++)
                sum = fmaf(a->scores[p], cached(a, a->v, p)[i], sum);
            out[i] = sum * inverse;
        }
    }
}

static void plain_silu_mul(float *gate, const float *up, int64_t n) {
    for (int64_t i = 0; i < n; i++)
        gate[i] = gate[i] / (1.0f + exp_of(-gate[i])) * up[i];
}

static const struct cpu_kernels kernels = {plain_matmul, plain_norm, plain_attend, plain_silu_mul};

static bool usable(void) {
    return true;
}

static struct compute *open_plain(const struct model *m, const struct compute_limits *l, struct str *why) {
    return cpu_open(m, l, &kernels, why);
}

const struct compute_ops compute_plain = {"cpu plain", usable,           open_plain, cpu_forward, cpu_place,
                                          cpu_close,   cpu_kv_tok_bytes, NULL,       NULL};
