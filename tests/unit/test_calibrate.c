/* Expectations follow what a target's provider reports; nothing it reports can make them absurd. */
#include "budget/calibrate.h"

#include <criterion/criterion.h>
#include <stdio.h>

/* 3600 bytes are 1000 tokens by the rule of thumb, and 7 of the call and its message. */
static const struct call_size page = {.text_bytes = 3600, .messages = 1};

static struct usage reported(int64_t in) {
    return (struct usage){.in = in, .reported = true};
}

Test(calibrate, an_expectation_follows_what_is_reported) {
    struct budget *b = budget_new();
    struct usage u = reported(1007 * 3 / 2);
    cr_expect_eq(budget_expect_tok(b, "a/m", &page), 1007, "nothing learnt: the rule of thumb");
    budget_learn(b, "a/m", &page, &u);
    cr_expect_eq(budget_expect_tok(b, "a/m", &page), 1509, "%lld", (long long)budget_expect_tok(b, "a/m", &page));
    cr_expect_eq(budget_expect_tok(b, "b/m", &page), 1007, "of that name alone");
    u = (struct usage){.in = 7, .cache_read = 500, .cache_write_1h = 500, .reported = true};
    for (int i = 0; i < 400; i++)
        budget_learn(b, "a/m", &page, &u);
    int64_t tok = budget_expect_tok(b, "a/m", &page);
    cr_expect(tok >= 1005 && tok <= 1009, "input is all of it, cached or not: %lld", (long long)tok);
    budget_free(b);
}

Test(calibrate, what_is_no_matter_of_a_tokenizer_teaches_nothing) {
    struct budget *b = budget_new();
    struct usage u = reported(3000);
    struct call_size s[] = {page, page, page, page, page, {.text_bytes = 30}};
    s[0].images = s[1].documents = s[2].audios = s[3].server_turns = s[4].token_inputs = 1;
    for (size_t i = 0; i < ARRAY_LEN(s); i++)
        budget_learn(b, "m", &s[i], &u);
    u.estimated = true;
    budget_learn(b, "m", &page, &u);
    budget_learn(b, "m", &page, &(struct usage){.in = 3000});
    budget_learn(b, "m", &page, &(struct usage){.out = 3000, .reported = true});
    cr_expect_eq(budget_expect_tok(b, "m", &page), 1007);
    budget_free(b);
}

Test(calibrate, no_number_makes_it_absurd) {
    struct calibration c;
    char name[32];
    struct usage u = reported(INT64_MAX);
    calibration_init(&c);
    calibration_learn(&c, "much", &page, &u);
    cr_expect_eq(calibration_ppm(&c, "much"), 4 * CALIBRATION_ONE);
    u = reported(1);
    calibration_learn(&c, "little", &page, &u);
    cr_expect_eq(calibration_ppm(&c, "little"), CALIBRATION_ONE / 4);
    cr_expect_eq(calibration_ppm(&c, NULL), CALIBRATION_ONE);
    for (int i = 0; i < 5000; i++) { /* names that callers make up */
        snprintf(name, sizeof name, "p/%d", i);
        calibration_learn(&c, name, &page, &u);
    }
    cr_expect_eq(c.by_name.n, 4096);
    cr_expect_eq(budget_calibrated_tok(INT64_MAX, 4 * CALIBRATION_ONE), INT64_MAX);
    cr_expect_eq(budget_calibrated_tok(-1, CALIBRATION_ONE), 0);
    calibration_fini(&c);
}
