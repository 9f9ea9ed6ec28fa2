/* A linear layer with an adapter: its output against plain loops, its gradients against central differences. */
#include "tests/models/tiny.h"

#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

#define ROWS 5
#define OUT 12
#define IN 9
#define RANK 3

static float x[ROWS * IN], w[OUT * IN], a[RANK * IN], b[OUT * RANK], dy[ROWS * OUT], y[ROWS * OUT], t[ROWS * RANK];
static float dx[ROWS * IN], dw[OUT * IN], da[RANK * IN], db[OUT * RANK];
static const struct tiny_line line = {ROWS, OUT, IN, RANK, 0.5f, w, a, b};

static void fill(struct tiny_rng *r, float *at, int n) {
    for (int i = 0; i < n; i++)
        at[i] = tiny_rng_normal(r);
}

static void setup(void) {
    struct tiny_rng rng = {21};
    fill(&rng, x, ROWS * IN), fill(&rng, w, OUT * IN), fill(&rng, a, RANK * IN);
    fill(&rng, b, OUT * RANK), fill(&rng, dy, ROWS * OUT);
}

static double loss(void) {
    double sum = 0;
    tiny_line(y, t, x, &line);
    for (int i = 0; i < ROWS * OUT; i++)
        sum += (double)y[i] * dy[i];
    return sum;
}

Test(tiny_lora, the_output_is_the_layer_plus_the_scaled_adapter, .init = setup) {
    tiny_line(y, t, x, &line);
    for (int r = 0; r < ROWS; r++)
        for (int o = 0; o < OUT; o++) {
            double want = 0;
            for (int i = 0; i < IN; i++) {
                want += (double)x[r * IN + i] * w[o * IN + i];
                for (int k = 0; k < RANK; k++)
                    want += 0.5 * x[r * IN + i] * a[k * IN + i] * b[o * RANK + k];
            }
            cr_assert_float_eq(y[r * OUT + o], want, 1e-4);
        }
}

static void check(const char *what, float *at, const float *grad, int n) {
    for (int i = 0; i < n; i++) {
        float kept = at[i];
        at[i] = kept + 0.01f;
        double up = loss();
        at[i] = kept - 0.01f;
        double slope = (up - loss()) / 0.02;
        at[i] = kept;
        cr_assert_lt(fabs(slope - grad[i]), 2e-3 * (1 + fabs(slope)), "%s[%d]: %g, not %g", what, i, slope, grad[i]);
    }
}

Test(tiny_lora, every_gradient_is_the_slope, .init = setup) {
    loss();
    tiny_line_back(&(struct tiny_line_grad){dx, dw, da, db}, dy, x, t, &line);
    check("x", x, dx, ROWS * IN);
    check("w", w, dw, OUT * IN);
    check("a", a, da, RANK * IN);
    check("b", b, db, OUT * RANK);
}
