/* The whole sequence at once, no cache, no blocks, straight sums in double. */
#include "tests/support/reference_llama.h"

#include "gateway/base/mem.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define EPSILON 1e-5 /* as random_model writes it */
#define THETA 10000.0

struct reference {
    const struct random_model *model;
    const struct random_adapter *adapter; /* NULL: the base */
};

static const float *get(const struct random_model *m, int64_t layer, const char *name) {
    char full[96];
    snprintf(full, sizeof full, "model.layers.%lld.%s.weight", (long long)layer, name);
    const float *at = random_model_get(m, full);
    assert(at);
    return at;
}

static void multiply(const float *w, int64_t rows, int64_t cols, const double *x, double *y) {
    for (int64_t r = 0; r < rows; r++) {
        y[r] = 0;
        for (int64_t i = 0; i < cols; i++)
            y[r] += (double)w[r * cols + i] * x[i];
    }
}

static const float *bias(const struct random_model *m, int64_t layer, const char *name) {
    char full[96];
    snprintf(full, sizeof full, "model.layers.%lld.%s.bias", (long long)layer, name);
    return random_model_get(m, full);
}

/* The matrix's product, and what an adapter adds to it: s B (A x), rows rescaled to DoRA's length. */
static void product(const struct reference *r, int64_t layer, const char *name, int64_t rows, int64_t cols,
                    const double *x, double *y) {
    const struct random_part *p = r->adapter ? random_adapter_find(r->adapter, layer, name) : NULL;
    const float *w = get(r->model, layer, name);
    multiply(w, rows, cols, x, y);
    for (int64_t o = 0; p && o < rows; o++) {
        double length = 0;
        for (int64_t k = 0; k < p->rank; k++)
            for (int64_t i = 0; i < cols; i++)
                y[o] += p->scale * (double)p->b[o * p->rank + k] * (double)p->a[k * cols + i] * x[i];
        for (int64_t i = 0; p->magnitude && i < cols; i++) {
            double merged = (double)w[o * cols + i];
            for (int64_t k = 0; k < p->rank; k++)
                merged += p->scale * (double)p->b[o * p->rank + k] * (double)p->a[k * cols + i];
            length += merged * merged;
        }
        if (p->magnitude)
            y[o] *= (double)p->magnitude[o] / sqrt(length);
    }
    const float *more = bias(r->model, layer, name);
    for (int64_t o = 0; more && o < rows; o++)
        y[o] += (double)more[o];
}

static void norm(const float *w, int64_t n, const double *x, double *y) {
    double sum = 0;
    for (int64_t i = 0; i < n; i++)
        sum += x[i] * x[i];
    for (int64_t i = 0; i < n; i++)
        y[i] = x[i] / sqrt(sum / (double)n + EPSILON) * (double)w[i];
}

static bool is(const char *word, const char *other) {
    return word && strcmp(word, other) == 0;
}

/* Wave lengths under O/high stay, those over O/low are stretched, those between blend. */
static double llama3_speed(const struct model_kind *k, double speed) {
    double turns = k->original * speed / 6.283185307179586; /* in the original context */
    double keep = (turns - k->low) / (k->high - k->low);
    keep = keep < 0 ? 0 : keep > 1 ? 1 : keep;
    return keep * speed + (1 - keep) * speed / k->factor;
}

/* Pairs that turn over 32 times stay, those that turn less than once are stretched, in between a ramp by index. */
static double yarn_speed(const struct model_kind *k, double speed, int64_t i, int64_t d) {
    double step = 2 * log(THETA) / (double)d; /* speed of pair i is exp(-i step) */
    double first = floor(log(k->original / (32 * 6.283185307179586)) / step);
    double last = ceil(log(k->original / 6.283185307179586) / step);
    first = first < 0 ? 0 : first;
    last = last > (double)d - 1 ? (double)d - 1 : last;
    double stretch = ((double)i - first) / (last - first);
    stretch = stretch < 0 ? 0 : stretch > 1 ? 1 : stretch;
    return speed * (1 - stretch) + speed / k->factor * stretch;
}

static double speed_of(const struct model_kind *k, int64_t i, int64_t d) {
    double speed = pow(THETA, -2.0 * (double)i / (double)d);
    return is(k->rope, "linear")   ? speed / k->factor
           : is(k->rope, "llama3") ? llama3_speed(k, speed)
           : is(k->rope, "yarn")   ? yarn_speed(k, speed, i, d)
                                   : speed;
}

static void turn(const struct model_kind *k, double *heads, int64_t n_heads, int64_t d, int64_t pos) {
    double length = is(k->rope, "yarn") ? 0.1 * log(k->factor) + 1 : 1;
    for (int64_t h = 0; h < n_heads; h++)
        for (int64_t i = 0; i < d / 2; i++) {
            double angle = (double)pos * speed_of(k, i, d);
            double *a = &heads[h * d + i], *b = a + d / 2, x = *a, y = *b;
            *a = length * (x * cos(angle) - y * sin(angle));
            *b = length * (y * cos(angle) + x * sin(angle));
        }
}

static void norm_heads(const struct reference *r, int64_t l, const char *name, double *heads, int64_t n) {
    int64_t d = r->model->shape.head_dim;
    for (int64_t i = 0; r->model->kind.qk_norm && i < n; i++)
        norm(get(r->model, l, name), d, heads + i * d, heads + i * d);
}

/* One query head over keys and values from..pos; kv rows are `stride` apart. */
static void look(const double *q, const double *k, const double *v, int64_t stride, int64_t d, int64_t from,
                 int64_t pos, double *out) {
    double *p = xcalloc((size_t)pos + 1, sizeof *p), most = -INFINITY, sum = 0;
    for (int64_t j = from; j <= pos; j++) {
        for (int64_t i = 0; i < d; i++)
            p[j] += q[i] * k[j * stride + i];
        p[j] /= sqrt((double)d);
        most = fmax(most, p[j]);
    }
    for (int64_t j = from; j <= pos; j++)
        sum += p[j] = exp(p[j] - most);
    for (int64_t i = 0; i < d; i++) {
        out[i] = 0;
        for (int64_t j = from; j <= pos; j++)
            out[i] += p[j] / sum * v[j * stride + i];
    }
    free(p);
}

struct scratch {
    double *k, *v, *a, *q, *mixed, *gate, *up, *back;
};

static void attend(const struct reference *r, int64_t l, int64_t t, double *x, struct scratch *w) {
    const struct model_shape *s = &r->model->shape;
    int64_t h = s->hidden, d = s->head_dim, kv = s->kv_heads * d;
    norm(get(r->model, l, "input_layernorm"), h, x, w->a);
    product(r, l, "self_attn.q_proj", s->heads * d, h, w->a, w->q);
    product(r, l, "self_attn.k_proj", kv, h, w->a, w->k + t * kv);
    product(r, l, "self_attn.v_proj", kv, h, w->a, w->v + t * kv);
    const struct model_kind *kind = &r->model->kind;
    norm_heads(r, l, "self_attn.q_norm", w->q, s->heads);
    norm_heads(r, l, "self_attn.k_norm", w->k + t * kv, s->kv_heads);
    turn(kind, w->q, s->heads, d, t);
    turn(kind, w->k + t * kv, s->kv_heads, d, t);
    int64_t back = kind->window && l >= kind->window_from && t >= kind->window ? t - kind->window + 1 : 0;
    for (int64_t i = 0; i < s->heads; i++) {
        int64_t from = i / (s->heads / s->kv_heads) * d;
        look(w->q + i * d, w->k + from, w->v + from, kv, d, back, t, w->mixed + i * d);
    }
    product(r, l, "self_attn.o_proj", h, s->heads * d, w->mixed, w->back);
    for (int64_t i = 0; i < h; i++)
        x[i] += w->back[i];
}

static void think(const struct reference *r, int64_t l, double *x, struct scratch *w) {
    int64_t h = r->model->shape.hidden, f = r->model->shape.intermediate;
    norm(get(r->model, l, "post_attention_layernorm"), h, x, w->a);
    product(r, l, "mlp.gate_proj", f, h, w->a, w->gate);
    product(r, l, "mlp.up_proj", f, h, w->a, w->up);
    for (int64_t i = 0; i < f; i++)
        w->gate[i] = w->gate[i] / (1 + exp(-w->gate[i])) * w->up[i];
    product(r, l, "mlp.down_proj", h, f, w->gate, w->back);
    for (int64_t i = 0; i < h; i++)
        x[i] += w->back[i];
}

static double *doubles(int64_t n) {
    return xcalloc((size_t)n, sizeof(double));
}

static void layer(const struct reference *r, int64_t l, int64_t n, double *x) {
    const struct model_shape *s = &r->model->shape;
    int64_t q = s->heads * s->head_dim, kv = s->kv_heads * s->head_dim;
    struct scratch w = {doubles(n * kv), doubles(n * kv),          doubles(s->hidden),       doubles(q),
                        doubles(q),      doubles(s->intermediate), doubles(s->intermediate), doubles(s->hidden)};
    for (int64_t t = 0; t < n; t++) {
        attend(r, l, t, x + t * s->hidden, &w);
        think(r, l, x + t * s->hidden, &w);
    }
    double *all[] = {w.k, w.v, w.a, w.q, w.mixed, w.gate, w.up, w.back};
    for (size_t i = 0; i < ARRAY_LEN(all); i++)
        free(all[i]);
}

static void look_up(const struct reference *r, int32_t id, const float *embed, double *x) {
    const struct random_part *p = r->adapter ? random_adapter_find(r->adapter, 0, "embed_tokens") : NULL;
    int64_t h = r->model->shape.hidden, v = r->model->shape.vocabulary;
    for (int64_t i = 0; i < h; i++) {
        x[i] = (double)embed[id * h + i];
        for (int64_t k = 0; p && k < p->rank; k++)
            x[i] += p->scale * (double)p->b[i * p->rank + k] * (double)p->a[k * v + id];
    }
}

static void speak(const struct reference *r, const float *head, const double *x, double *y) {
    const struct random_part *p = r->adapter ? random_adapter_find(r->adapter, 0, "lm_head") : NULL;
    int64_t h = r->model->shape.hidden, v = r->model->shape.vocabulary;
    multiply(head, v, h, x, y);
    for (int64_t o = 0; p && o < v; o++)
        for (int64_t k = 0; k < p->rank; k++)
            for (int64_t i = 0; i < h; i++)
                y[o] += p->scale * (double)p->b[o * p->rank + k] * (double)p->a[k * h + i] * x[i];
}

void reference_logits_adapted(const struct random_model *m, const struct random_adapter *a, const int32_t *ids,
                              int64_t n, double *logits) {
    const struct model_shape *s = &m->shape;
    const struct reference r = {m, a};
    const float *embed = random_model_get(m, "model.embed_tokens.weight");
    const float *head = random_model_get(m, "lm_head.weight");
    double *x = doubles(n * s->hidden), *last = doubles(s->hidden);
    for (int64_t t = 0; t < n; t++)
        look_up(&r, ids[t], embed, x + t * s->hidden);
    for (int64_t l = 0; l < s->layers; l++)
        layer(&r, l, n, x);
    for (int64_t t = 0; t < n; t++) {
        norm(random_model_get(m, "model.norm.weight"), s->hidden, x + t * s->hidden, last);
        speak(&r, head ? head : embed, last, logits + t * s->vocabulary);
    }
    free(x);
    free(last);
}

void reference_logits(const struct random_model *m, const int32_t *ids, int64_t n, double *logits) {
    reference_logits_adapted(m, NULL, ids, n, logits);
}
