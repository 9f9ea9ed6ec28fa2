/* The optimiser: its first step is the rate against the gradient's sign, long gradients are clipped, and the rate rises
 * and falls. */
#include "tests/models/tiny.h"

#include <criterion/criterion.h>
#include <math.h>

Test(tiny_adamw, the_first_step_is_the_rate_and_only_matrices_decay) {
    float at[3] = {1, 1, 1}, grad[3] = {0.5f, -0.25f, 0};
    struct tiny_adamw o;
    tiny_adamw_init(&o, 3, 1, 0.1f);
    tiny_adamw_step(&o, at, grad, 0.01f);
    cr_assert_float_eq(at[0], 1 - 0.01 - 0.01 * 0.1, 1e-5);
    cr_assert_float_eq(at[1], 1 + 0.01, 1e-5);
    cr_assert_eq(at[2], 1);
    cr_assert_eq(grad[0], 0);
    tiny_adamw_fini(&o);
}

Test(tiny_adamw, a_long_gradient_is_cut_to_the_norm_of_one) {
    float at[2] = {0, 0}, grad[2] = {300, 400};
    struct tiny_adamw o;
    tiny_adamw_init(&o, 2, 0, 0);
    tiny_adamw_step(&o, at, grad, 0.01f);
    cr_assert_float_eq(o.m[0], 0.1 * 0.6, 1e-6);
    cr_assert_float_eq(o.m[1], 0.1 * 0.8, 1e-6);
    tiny_adamw_fini(&o);
}

Test(tiny_adamw, it_finds_the_bottom_of_a_bowl) {
    float at[2] = {3, -2}, grad[2];
    struct tiny_adamw o;
    tiny_adamw_init(&o, 2, 0, 0);
    for (int i = 0; i < 500; i++) {
        grad[0] = at[0] - 1, grad[1] = 4 * (at[1] - 2);
        tiny_adamw_step(&o, at, grad, tiny_rate(i, 500, 0.1f));
    }
    cr_assert_float_eq(at[0], 1, 0.05);
    cr_assert_float_eq(at[1], 2, 0.05);
    tiny_adamw_fini(&o);
}

Test(tiny_adamw, the_rate_rises_to_its_peak_and_falls_to_a_twentieth) {
    cr_assert_lt(tiny_rate(0, 1000, 1), 0.03);
    cr_assert_float_eq(tiny_rate(51, 1000, 1), 1, 1e-3);
    cr_assert_float_eq(tiny_rate(999, 1000, 1), 0.05, 1e-3);
}
