/* Each operation's way back against central differences of its way there. The loss is the dot product of the output
 * with fixed random numbers, summed in double precision. */
#include "tests/models/tiny.h"

#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

#define ROWS 7
#define WIDE 16 /* two heads of eight */
#define KV 8    /* one head of eight */
#define STEP 4e-3f

static const int START[ROWS] = {0, 0, 0, 3, 3, 3, 3}; /* two dialogues */
static float x[3][ROWS * WIDE], dx[3][ROWS * WIDE], dy[ROWS * WIDE], y[ROWS * WIDE];
static float turn[TINY_SEGMENT_MAX * 8], probs[ROWS * 2 * TINY_SEGMENT_MAX], inv[ROWS];
static struct tiny_heads heads = {ROWS, 2, 1, 8, START, turn};

static void setup(void) {
    struct tiny_rng rng = {7};
    for (int i = 0; i < 3 * ROWS * WIDE; i++)
        x[i / (ROWS * WIDE)][i % (ROWS * WIDE)] = tiny_rng_normal(&rng);
    for (int i = 0; i < ROWS * WIDE; i++)
        dy[i] = tiny_rng_normal(&rng);
    memset(dx, 0, sizeof dx);
    tiny_turns(turn, 8, 100);
}

static double loss(void (*forward)(void)) {
    double sum = 0;
    forward();
    for (int i = 0; i < ROWS * WIDE; i++)
        sum += (double)y[i] * dy[i];
    return sum;
}

static void check(void (*forward)(void), int input, int n) {
    for (int i = 0; i < n; i++) {
        float *at = &x[input][i], kept = *at;
        *at = kept + STEP;
        double up = loss(forward);
        *at = kept - STEP;
        double down = loss(forward);
        *at = kept;
        double slope = (up - down) / (2 * STEP);
        cr_assert_lt(fabs(slope - dx[input][i]), 2e-3 * (1 + fabs(slope)), "input %d, element %d: %g, not %g", input, i,
                     slope, dx[input][i]);
    }
}

static void norm(void) {
    tiny_norm(y, inv, x[0], x[1], ROWS, WIDE, 1e-5f);
}

Test(tiny_ops, norm_back_is_the_slope_of_norm, .init = setup) {
    norm();
    tiny_norm_back(dx[0], dx[1], dy, x[0], x[1], inv, ROWS, WIDE);
    check(norm, 0, ROWS * WIDE);
    check(norm, 1, WIDE);
}

static void rope(void) {
    memcpy(y, x[0], sizeof y);
    tiny_rope(y, &heads, 2, 1);
}

Test(tiny_ops, rope_turned_back_is_its_slope_and_the_first_place_stands_still, .init = setup) {
    memcpy(dx[0], dy, sizeof dy);
    tiny_rope(dx[0], &heads, 2, -1);
    check(rope, 0, ROWS * WIDE);
    rope();
    cr_assert_arr_eq(y, x[0], WIDE * sizeof *y);
    cr_assert_arr_eq(y + 3 * WIDE, x[0] + 3 * WIDE, WIDE * sizeof *y);
    cr_assert_float_eq(y[WIDE], x[0][WIDE] * cosf(1) - x[0][WIDE + 4] * sinf(1), 1e-6, "halves, not neighbours");
}

static void attend(void) {
    tiny_attend(y, probs, x[0], x[1], x[2], &heads);
}

Test(tiny_ops, attend_back_is_the_slope_of_attend, .init = setup) {
    attend();
    tiny_attend_back(dx[0], dx[1], dx[2], dy, probs, x[0], x[1], x[2], &heads);
    check(attend, 0, ROWS * WIDE);
    check(attend, 1, ROWS * KV);
    check(attend, 2, ROWS * KV);
}

Test(tiny_ops, a_dialogue_does_not_see_the_one_before_it, .init = setup) {
    attend();
    float kept[ROWS * WIDE];
    memcpy(kept, y, sizeof y);
    for (int i = 0; i < 3 * KV; i++)
        x[1][i] += 1, x[2][i] += 1;
    attend();
    cr_assert_arr_eq(y + 3 * WIDE, kept + 3 * WIDE, 4 * WIDE * sizeof *y);
    cr_assert_neq(y[0], kept[0]);
}

static void swiglu(void) {
    tiny_swiglu(y, x[0], x[1], ROWS * WIDE);
}

Test(tiny_ops, swiglu_back_is_the_slope_of_swiglu, .init = setup) {
    tiny_swiglu_back(dx[0], dx[1], dy, x[0], x[1], ROWS * WIDE);
    check(swiglu, 0, ROWS * WIDE);
    check(swiglu, 1, ROWS * WIDE);
}

Test(tiny_ops, cross_entropy_is_minus_the_log_of_the_probability_and_leaves_its_slope, .init = setup) {
    float at[WIDE], grad[WIDE];
    memcpy(grad, x[0], sizeof grad);
    double loss0 = tiny_cross_entropy(grad, WIDE, 5, 1), sum = 0, total = 0;
    for (int i = 0; i < WIDE; i++)
        total += exp(x[0][i]);
    cr_assert_float_eq(loss0, -log(exp(x[0][5]) / total), 1e-5);
    for (int i = 0; i < WIDE; i++) {
        memcpy(at, x[0], sizeof at);
        at[i] += 0.01f;
        double up = tiny_cross_entropy(at, WIDE, 5, 1);
        memcpy(at, x[0], sizeof at);
        at[i] -= 0.01f;
        double slope = (up - tiny_cross_entropy(at, WIDE, 5, 1)) / 0.02;
        cr_assert_float_eq(slope, grad[i], 1e-4, "element %d: %g, not %g", i, slope, grad[i]);
        sum += grad[i];
    }
    cr_assert_float_eq(sum, 0, 1e-6);
}
