/* AdamW over one flat array, with the gradient's norm clipped first. The first n_decay floats (matrices) lose a little
 * weight each step; norms do not. */
#include "tests/models/tiny.h"

#include "gateway/base/mem.h"

#include <math.h>
#include <stdlib.h>

#define BETA1 0.9f
#define BETA2 0.98f
#define EPSILON 1e-8f
#define NORM_MAX 1.0

void tiny_adamw_init(struct tiny_adamw *o, size_t n, size_t n_decay, float decay) {
    *o = (struct tiny_adamw){.n = n, .n_decay = n_decay, .decay = decay};
    o->m = xcalloc(n, sizeof *o->m);
    o->v = xcalloc(n, sizeof *o->v);
}

void tiny_adamw_fini(struct tiny_adamw *o) {
    free(o->m);
    free(o->v);
    *o = (struct tiny_adamw){0};
}

static float clip(const float *grad, size_t n) {
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += (double)grad[i] * grad[i];
    return sum > NORM_MAX * NORM_MAX ? (float)(NORM_MAX / sqrt(sum)) : 1;
}

void tiny_adamw_step(struct tiny_adamw *o, float *at, float *grad, float rate) {
    o->step++;
    float factor = clip(grad, o->n);
    float fix1 = 1 / (1 - powf(BETA1, (float)o->step)), fix2 = 1 / (1 - powf(BETA2, (float)o->step));
    for (size_t i = 0; i < o->n; i++) {
        float g = grad[i] * factor;
        o->m[i] = BETA1 * o->m[i] + (1 - BETA1) * g;
        o->v[i] = BETA2 * o->v[i] + (1 - BETA2) * g * g;
        float decay = i < o->n_decay ? o->decay * at[i] : 0;
        at[i] -= rate * (o->m[i] * fix1 / (sqrtf(o->v[i] * fix2) + EPSILON) + decay);
        grad[i] = 0;
    }
}

float tiny_rate(int step, int steps, float peak) {
    int warm = steps / 20 + 1;
    if (step < warm)
        return peak * (float)(step + 1) / (float)warm;
    double part = (double)(step - warm) / (steps - warm);
    return peak * (float)(0.05 + 0.95 * 0.5 * (1 + cos(3.141592653589793 * part)));
}
