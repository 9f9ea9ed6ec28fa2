/* Choosing: greedy ties, the share of each token, the nucleus, and a seed's place-by-place numbers. */
#include "backends/decode/sample.h"

#include <criterion/criterion.h>
#include <math.h>

Test(sample, greedy_takes_the_lowest_of_equals_and_no_nan) {
    struct sampler s;
    float logits[] = {NAN, 1, 3, 3, -INFINITY};
    struct sample_options o = {0, 1, 7};
    sampler_init(&s, 5);
    cr_expect_eq(sampler_pick(&s, logits, &o, 0), 2);
    o.temperature = 1e-9; /* so cold that only equals are left */
    int32_t got = sampler_pick(&s, (float[]){0, 1, 9, 3, -INFINITY}, &o, 3);
    cr_expect_eq(got, 2);
    cr_expect_eq(sampler_pick(&s, (float[]){NAN, NAN, NAN, NAN, NAN}, &o, 0), 0);
    sampler_fini(&s);
}

Test(sample, shares_follow_the_softmax_and_top_p_cuts_the_tail) {
    static const double shares[] = {0.5, 0.25, 0.15, 0.1};
    static const struct {
        double top_p, want[4];
    } rows[] = {{1, {0.5, 0.25, 0.15, 0.1}},
                {0.75, {2.0 / 3, 1.0 / 3, 0, 0}},
                {0.8, {0.5 / 0.9, 0.25 / 0.9, 0.15 / 0.9, 0}},
                {0.01, {1, 0, 0, 0}},
                {0, {1, 0, 0, 0}}};
    struct sampler s;
    float logits[4];
    sampler_init(&s, 4);
    for (int i = 0; i < 4; i++)
        logits[i] = 2 * (float)log(shares[i]);
    for (size_t r = 0; r < ARRAY_LEN(rows); r++) {
        struct sample_options o = {2.0, rows[r].top_p, 42};
        int counts[4] = {0}, n = 20000;
        for (int i = 0; i < n; i++)
            counts[sampler_pick(&s, logits, &o, i)]++;
        for (int i = 0; i < 4; i++)
            cr_expect_float_eq((double)counts[i] / n, rows[r].want[i], 0.015, "row %zu token %d", r, i);
    }
    sampler_fini(&s);
}

Test(sample, a_seed_and_a_place_give_one_number) {
    double sum = 0;
    for (int i = 0; i < 1000; i++) {
        double u = sample_uniform(9, i);
        cr_assert(u >= 0 && u < 1 && u == sample_uniform(9, i) && u != sample_uniform(10, i));
        sum += u;
    }
    cr_expect_float_eq(sum / 1000, 0.5, 0.05);
}
