/* Choosing: greedy ties, the share of each token, the nucleus, and a seed's place-by-place numbers. */
#include "backends/decode/sample.h"

#include <criterion/criterion.h>
#include <math.h>

Test(sample, greedy_takes_the_lowest_of_equals_and_no_nan) {
    struct sampler s;
    float logits[] = {NAN, 1, 3, 3, -INFINITY};
    struct sample_options o = {.top_p = 1, .seed = 7};
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
        int64_t top_k;
        double min_p;
    } rows[] = {{1, {0.5, 0.25, 0.15, 0.1}, 0, 0},
                {0.75, {2.0 / 3, 1.0 / 3, 0, 0}, 0, 0},
                {0.8, {0.5 / 0.9, 0.25 / 0.9, 0.15 / 0.9, 0}, 0, 0},
                {0.01, {1, 0, 0, 0}, 0, 0},
                {0, {1, 0, 0, 0}, 0, 0},
                {1, {0.5 / 0.9, 0.25 / 0.9, 0.15 / 0.9, 0}, 3, 0},
                {1, {1, 0, 0, 0}, 1, 0},
                {1, {0.5, 0.25, 0.15, 0.1}, 9, 0},
                {0.6, {2.0 / 3, 1.0 / 3, 0, 0}, 3, 0}, /* of the three that top_k leaves, 0.556 is not enough */
                {1, {2.0 / 3, 1.0 / 3, 0, 0}, 0, 0.4},
                {0.9, {0.5 / 0.9, 0.25 / 0.9, 0.15 / 0.9, 0}, 0, 0.29}};
    struct sampler s;
    float logits[4];
    sampler_init(&s, 4);
    for (int i = 0; i < 4; i++)
        logits[i] = 2 * (float)log(shares[i]);
    for (size_t r = 0; r < ARRAY_LEN(rows); r++) {
        struct sample_options o = {
            .temperature = 2.0, .top_p = rows[r].top_p, .top_k = rows[r].top_k, .min_p = rows[r].min_p, .seed = 42};
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

Test(sample, penalties_and_biases_change_what_they_speak_of_and_leave_no_trace) {
    static const int32_t ids[] = {0, 1, 1, 2, 2, 2, 3};
    struct sampler s;
    sampler_init(&s, 6);
    struct sample_past past = {ids, 7, 3};
    for (int twice = 0; twice < 2; twice++) {
        float logits[] = {2, -2, 4, 1, 5, 6};
        struct sample_options o = {.repetition = 2};
        sampler_adjust(&s, logits, &o, &past);
        cr_expect(logits[0] == 1 && logits[1] == -4 && logits[2] == 2 && logits[3] == 0.5f && logits[4] == 5);
        o = (struct sample_options){.presence = 1, .frequency = 0.5};
        sampler_adjust(&s, logits, &o, &past);
        cr_expect(logits[0] == 1 && logits[1] == -4 && logits[2] == -0.5f && logits[3] == -1 && logits[5] == 6);
        struct decode_bias bias[] = {{4, 100}, {5, -100}, {-1, 7}, {6, 7}};
        o = (struct sample_options){.top_p = 1, .biases = bias, .n_biases = 4};
        sampler_adjust(&s, logits, &o, &past);
        cr_expect(logits[4] == 105 && logits[5] == -94 && sampler_pick(&s, logits, &o, 0) == 4);
    }
    sampler_fini(&s);
}
