/* The matrix product against a plain triple loop, for every way A and B may stand and sizes that leave odd ends. */
#include "tests/models/tiny.h"

#include <criterion/criterion.h>
#include <math.h>

#define SIDE 40

static double wanted(const struct tiny_gemm *g, const float *before, int i, int j) {
    double sum = g->add ? before[i * g->c_row + j] : 0;
    for (int k = 0; k < g->k; k++)
        sum += (double)g->a[i * g->a_row + k * g->a_col] * g->b[k * g->b_row + j * g->b_col];
    return sum;
}

static double worst(struct tiny_gemm g) {
    static float c[SIDE * SIDE], before[SIDE * SIDE];
    double most = 0;
    for (int i = 0; i < SIDE * SIDE; i++)
        c[i] = before[i] = (float)i / 100;
    g.c = c;
    tiny_gemm(&g);
    for (int i = 0; i < SIDE * SIDE; i++) {
        bool inside = i / SIDE < g.m && i % SIDE < g.n;
        double want = inside ? wanted(&g, before, i / SIDE, i % SIDE) : before[i];
        most = fmax(most, fabs(want - c[i]));
    }
    return most;
}

Test(tiny_gemm, agrees_with_three_plain_loops_however_the_matrices_stand) {
    static float a[SIDE * 600], b[SIDE * 600];
    struct tiny_rng rng = {1};
    for (int i = 0; i < SIDE * 600; i++)
        a[i] = tiny_rng_normal(&rng), b[i] = tiny_rng_normal(&rng);
    static const int sizes[][3] = {{1, 1, 1}, {6, 16, 256}, {7, 17, 257}, {13, 8, 600}, {12, 32, 64}, {5, 3, 2}};
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
        for (int way = 0; way < 8; way++) {
            int m = sizes[s][0], n = sizes[s][1], k = sizes[s][2];
            struct tiny_gemm g = {
                m, n, k, a, way & 1 ? 1 : k, way & 1 ? m : 1, b, way & 2 ? 1 : n, way & 2 ? k : 1, NULL, SIDE, way & 4};
            cr_assert_lt(worst(g), 2e-4, "%dx%dx%d way %d", m, n, k, way);
        }
}
