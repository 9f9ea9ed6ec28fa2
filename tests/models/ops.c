/* The operations of a Llama beside its matrix products, each with its way back. Rows are tokens; sums run in the order
 * of rows and columns. Every backward adds to the gradients it is given, so a value that is used twice gets both. */
#include "tests/models/tiny.h"

#include <math.h>
#include <string.h>

void tiny_norm(float *y, float *inv, const float *x, const float *w, int rows, int n, float eps) {
    for (int r = 0; r < rows; r++, x += n, y += n) {
        double sum = 0;
        for (int i = 0; i < n; i++)
            sum += (double)x[i] * x[i];
        inv[r] = (float)(1.0 / sqrt(sum / n + eps));
        for (int i = 0; i < n; i++)
            y[i] = x[i] * inv[r] * w[i];
    }
}

void tiny_norm_back(float *dx, float *dw, const float *dy, const float *x, const float *w, const float *inv, int rows,
                    int n) {
    for (int r = 0; r < rows; r++, x += n, dx += n, dy += n) {
        float dot = 0;
        for (int i = 0; i < n; i++)
            dot += dy[i] * w[i] * x[i];
        float pull = dot * inv[r] * inv[r] * inv[r] / (float)n;
        for (int i = 0; i < n; i++)
            dx[i] += dy[i] * w[i] * inv[r] - x[i] * pull;
        for (int i = 0; dw && i < n; i++)
            dw[i] += dy[i] * x[i] * inv[r];
    }
}

void tiny_turns(float *turn, int head_dim, float theta) {
    int half = head_dim / 2;
    for (int place = 0; place < TINY_SEGMENT_MAX; place++)
        for (int i = 0; i < half; i++) {
            double angle = place * pow(theta, -(double)i / half);
            turn[place * head_dim + i] = (float)cos(angle);
            turn[place * head_dim + half + i] = (float)sin(angle);
        }
}

static void rotate(float *x, const float *turn, int half, float sign) {
    for (int i = 0; i < half; i++) {
        float c = turn[i], s = turn[half + i] * sign, a = x[i], b = x[i + half];
        x[i] = a * c - b * s;
        x[i + half] = b * c + a * s;
    }
}

void tiny_rope(float *x, const struct tiny_heads *h, int heads, float sign) {
    for (int r = 0; r < h->rows; r++) {
        const float *turn = h->turn + (ptrdiff_t)(r - h->start[r]) * h->head_dim;
        for (int i = 0; i < heads; i++, x += h->head_dim)
            rotate(x, turn, h->head_dim / 2, sign);
    }
}

/* Eight partial sums in a fixed order: the compiler may keep them in one vector register. n is a multiple of eight. */
static float dot(const float *a, const float *b, int n) {
    float part[8] = {0};
    for (int i = 0; i < n; i += 8)
        for (int j = 0; j < 8; j++)
            part[j] += a[i + j] * b[i + j];
    return ((part[0] + part[4]) + (part[1] + part[5])) + ((part[2] + part[6]) + (part[3] + part[7]));
}

static void add_times(float *y, const float *x, float factor, int n) {
    for (int i = 0; i < n; i++)
        y[i] += factor * x[i];
}

static void softmax(float *x, int n) {
    float most = x[0], sum = 0;
    for (int i = 1; i < n; i++)
        most = x[i] > most ? x[i] : most;
    for (int i = 0; i < n; i++)
        sum += x[i] = expf(x[i] - most);
    for (int i = 0; i < n; i++)
        x[i] /= sum;
}

/* Where one head of one row stands in q, in k and v (at the start of its dialogue), and among the probabilities. */
struct head {
    int dim, stride, seen; /* seen: rows of the dialogue up to this one */
    size_t q, kv, probs;
    float scale;
};

static struct head head_at(const struct tiny_heads *h, int row, int head) {
    int shared = h->heads / h->kv_heads;
    return (struct head){
        .dim = h->head_dim,
        .stride = h->kv_heads * h->head_dim,
        .seen = row - h->start[row] + 1,
        .q = ((size_t)row * h->heads + head) * h->head_dim,
        .kv = ((size_t)h->start[row] * h->kv_heads + head / shared) * h->head_dim,
        .probs = ((size_t)row * h->heads + head) * TINY_SEGMENT_MAX,
        .scale = 1.0f / sqrtf((float)h->head_dim),
    };
}

void tiny_attend(float *out, float *probs, const float *q, const float *k, const float *v, const struct tiny_heads *h) {
    for (int i = 0; i < h->rows * h->heads; i++) {
        struct head at = head_at(h, i / h->heads, i % h->heads);
        float *p = probs + at.probs;
        for (int s = 0; s < at.seen; s++)
            p[s] = at.scale * dot(q + at.q, k + at.kv + (size_t)s * at.stride, at.dim);
        softmax(p, at.seen);
        memset(out + at.q, 0, at.dim * sizeof *out);
        for (int s = 0; s < at.seen; s++)
            add_times(out + at.q, v + at.kv + (size_t)s * at.stride, p[s], at.dim);
    }
}

void tiny_attend_back(float *dq, float *dk, float *dv, const float *dout, const float *probs, const float *q,
                      const float *k, const float *v, const struct tiny_heads *h) {
    float dp[TINY_SEGMENT_MAX];
    for (int i = 0; i < h->rows * h->heads; i++) {
        struct head at = head_at(h, i / h->heads, i % h->heads);
        const float *p = probs + at.probs;
        float mean = 0;
        for (int s = 0; s < at.seen; s++) {
            dp[s] = dot(dout + at.q, v + at.kv + (size_t)s * at.stride, at.dim);
            mean += dp[s] * p[s];
            add_times(dv + at.kv + (size_t)s * at.stride, dout + at.q, p[s], at.dim);
        }
        for (int s = 0; s < at.seen; s++) {
            float score = at.scale * p[s] * (dp[s] - mean);
            add_times(dq + at.q, k + at.kv + (size_t)s * at.stride, score, at.dim);
            add_times(dk + at.kv + (size_t)s * at.stride, q + at.q, score, at.dim);
        }
    }
}

void tiny_swiglu(float *y, const float *gate, const float *up, size_t n) {
    for (size_t i = 0; i < n; i++)
        y[i] = gate[i] / (1 + expf(-gate[i])) * up[i];
}

void tiny_swiglu_back(float *dgate, float *dup, const float *dy, const float *gate, const float *up, size_t n) {
    for (size_t i = 0; i < n; i++) {
        float s = 1 / (1 + expf(-gate[i]));
        dup[i] += dy[i] * gate[i] * s;
        dgate[i] += dy[i] * up[i] * s * (1 + gate[i] * (1 - s));
    }
}

double tiny_cross_entropy(float *logits, int n, int target, float weight) {
    float most = logits[0], at_target = logits[target], sum = 0;
    for (int i = 1; i < n; i++)
        most = logits[i] > most ? logits[i] : most;
    for (int i = 0; i < n; i++)
        sum += logits[i] = expf(logits[i] - most);
    for (int i = 0; i < n; i++)
        logits[i] *= weight / sum;
    logits[target] -= weight;
    return log(sum) + most - at_target;
}
