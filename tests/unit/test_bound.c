/* The most a call can cost, worked out by hand; and that no honest usage costs more. */
#include "budget/budget.h"
#include "gateway/base/hash.h"

#include <criterion/criterion.h>

static struct conf conf_small(void) {
    struct conf c = {0};
    c.hold.output_cap_tok = 8192;
    return c;
}

/* USD a million: 3 in, 0.30 read, 3.75 and 6 written, 15 out. */
static const struct price model = {.in = 3000000,
                                   .cache_read = 300000,
                                   .cache_write_5m = 3750000,
                                   .cache_write_1h = 6000000,
                                   .in_audio = -1,
                                   .out = 15000000,
                                   .out_audio = -1,
                                   .web_search = -1,
                                   .factor = FACTOR_ONE,
                                   .known = true};

Test(bound, worst_case_of_input_is_bytes_and_constants) {
    struct call_size s = {.text_bytes = 1000, .messages = 3, .choices = 1};
    cr_assert_eq(budget_in_bound_tok(&s), 64 + 1000 + 3 * 16);
    s.tools = 2;
    cr_assert_eq(budget_in_bound_tok(&s), 64 + 1000 + 3 * 16 + 2 * 64 + 600);
    s.images = 2;
    s.documents = 1;
    s.audios = 1;
    cr_assert_eq(budget_in_bound_tok(&s), 1840 + 2 * 14400 + 300000 + 115200);
    cr_assert_eq(budget_in_bound_tok(&(struct call_size){.token_inputs = 50}), 64 + 50);
}

Test(bound, a_token_may_be_a_single_byte) {
    struct call_size s = {.text_bytes = 4000, .messages = 1};
    cr_assert_geq(budget_in_bound_tok(&s), 4000, "text of rare characters has a token for every byte");
    cr_assert_lt(budget_in_expect_tok(&s), 4000);
}

Test(bound, money_is_the_dearest_line_of_each_side) {
    struct conf c = conf_small();
    struct bound b;
    struct call_size s = {.text_bytes = 920, .messages = 1, .max_output_tok = 100, .choices = 1};
    budget_bound(&c, &model, &s, -1, &b);
    cr_assert(b.in_tok == 1000 && b.out_tok == 100 && !b.output_capped);
    cr_assert_eq(b.nanousd, 1000 * 6000 + 100 * 15000, "all input may be written to the hour's cache");
    s.choices = 4;
    budget_bound(&c, &model, &s, -1, &b);
    cr_assert(b.out_tok == 400 && b.nanousd == 1000 * 6000 + 400 * 15000);
    struct price sound = model;
    sound.in_audio = 40000000;
    sound.out_audio = 80000000;
    s = (struct call_size){.text_bytes = 920, .messages = 1, .audios = 1, .max_output_tok = 10, .choices = 1};
    budget_bound(&c, &sound, &s, -1, &b);
    cr_assert_eq(b.nanousd, INT64_C(1000) * 6000 + INT64_C(115200) * 40000 + 10 * 80000);
}

Test(bound, output_is_what_the_call_says_or_a_cap) {
    static const struct {
        int64_t asked, model_max, want;
        bool capped;
    } rows[] = {{100, -1, 100, false},     {100000, -1, 100000, false}, {100000, 4096, 4096, true},
                {4096, 4096, 4096, false}, {-1, -1, 8192, true},        {-1, 4096, 4096, true},
                {-1, 128000, 8192, true},  {0, 4096, 0, false},         {128000, 128000, 128000, false}};
    struct conf c = conf_small();
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct bound b;
        struct call_size s = {.max_output_tok = rows[i].asked, .choices = 1};
        budget_bound(&c, &model, &s, rows[i].model_max, &b);
        cr_assert(b.out_tok == rows[i].want && b.output_capped == rows[i].capped, "row %zu: %lld", i,
                  (long long)b.out_tok);
    }
}

Test(bound, embeddings_price_no_output) {
    struct conf c = conf_small();
    struct price p = {.in = 20000, .out = -1, .factor = FACTOR_ONE, .known = true};
    struct bound b;
    budget_bound(&c, &p, &(struct call_size){.text_bytes = 936, .max_output_tok = -1, .choices = 0}, -1, &b);
    cr_assert(b.out_tok == 0 && b.nanousd == 1000 * 20);
}

Test(bound, what_cannot_be_bounded_says_so) {
    struct conf c = conf_small();
    struct bound b;
    struct price p = model;
    struct call_size s = {.text_bytes = 10, .messages = 1, .max_output_tok = 10, .choices = 1};
    p.known = false;
    budget_bound(&c, &p, &s, -1, &b);
    cr_assert_eq(b.nanousd, INT64_MAX);
    p = model;
    p.out = -1;
    budget_bound(&c, &p, &s, -1, &b);
    cr_assert_eq(b.nanousd, INT64_MAX, "output without a price");
    s.text_bytes = INT64_MAX;
    budget_bound(&c, &model, &s, -1, &b);
    cr_assert(b.in_tok == INT64_MAX && b.nanousd == INT64_MAX);
    s = (struct call_size){.text_bytes = 1, .max_output_tok = INT64_MAX / 2, .choices = 3};
    budget_bound(&c, &model, &s, -1, &b);
    cr_assert_eq(b.nanousd, INT64_MAX);
}

Test(bound, a_free_model_is_bounded_by_nothing) {
    struct conf c = conf_small();
    struct price p = {.factor = FACTOR_ONE, .known = true, .free = true};
    struct bound b;
    budget_bound(&c, &p, &(struct call_size){.text_bytes = 99999, .max_output_tok = -1, .choices = 1}, -1, &b);
    cr_assert_eq(b.nanousd, 0);
}

/* Any way in which a provider may honestly split up to in_tok and out_tok over the lines costs no more than the bound. */
Test(bound, honest_usage_never_costs_more) {
    struct conf c = conf_small();
    uint64_t dice = 88172645463325252u;
    for (int i = 0; i < 5000; i++) {
        struct price p = {.known = true, .factor = (int64_t)(random_next(&dice) % 20000)};
        int64_t *lines[] = {&p.in,       &p.cache_read, &p.cache_write_5m, &p.cache_write_1h,
                            &p.in_audio, &p.out,        &p.out_audio};
        for (size_t l = 0; l < ARRAY_LEN(lines); l++)
            *lines[l] = (int64_t)(random_next(&dice) % 50000000) - 1;
        p.in = p.in < 0 ? 0 : p.in;
        p.out = p.out < 0 ? 0 : p.out;
        p.call = (int64_t)(random_next(&dice) % 1000000);
        struct call_size s = {.text_bytes = (int64_t)(random_next(&dice) % 100000),
                              .messages = (int64_t)(random_next(&dice) % 9),
                              .max_output_tok = (int64_t)(random_next(&dice) % 5000),
                              .choices = (int64_t)(random_next(&dice) % 3)};
        struct bound b;
        budget_bound(&c, &p, &s, -1, &b);
        struct usage u = {.cache_read = (int64_t)(random_next(&dice) % (uint64_t)(b.in_tok / 4)),
                          .cache_write_5m = (int64_t)(random_next(&dice) % (uint64_t)(b.in_tok / 4)),
                          .cache_write_1h = (int64_t)(random_next(&dice) % (uint64_t)(b.in_tok / 4))};
        u.in = b.in_tok - u.cache_read - u.cache_write_5m - u.cache_write_1h;
        u.out_audio = b.out_tok ? (int64_t)(random_next(&dice) % (uint64_t)b.out_tok) : 0;
        u.out = b.out_tok - u.out_audio;
        cr_assert_leq(price_cost(&p, &u), b.nanousd);
    }
}

Test(bound, likely_tokens_are_near_the_rule_of_thumb) {
    cr_assert_eq(budget_text_expect_tok(0), 0);
    cr_assert_eq(budget_text_expect_tok(-5), 0);
    cr_assert_eq(budget_text_expect_tok(1), 1);
    cr_assert_eq(budget_text_expect_tok(3600), 1000);
    cr_assert_eq(budget_text_expect_tok(3601), 1001);
    cr_assert_eq(budget_text_expect_tok(INT64_MAX), INT64_MAX / 36 * 10 + 2);
    struct call_size s = {.text_bytes = 360, .messages = 2, .tools = 1, .images = 1};
    cr_assert_eq(budget_in_expect_tok(&s), 3 + 100 + 2 * 4 + 12 + 350 + 1100);
}

Test(bound, a_part_is_held_where_all_output_is_seen) {
    struct conf c = conf_small();
    struct bound b;
    struct call_size s = {.text_bytes = 920, .messages = 1, .max_output_tok = 100000, .choices = 2};
    budget_bound(&c, &model, &s, -1, &b);
    cr_assert(b.out_tok == 200000 && b.full_out_tok == 200000);
    budget_bound_part(&c, &model, &s, &b);
    cr_assert(b.out_tok == 2 * 8192 && b.full_out_tok == 200000);
    cr_assert_eq(b.nanousd, 1000 * 6000 + 2 * 8192 * 15000);
    budget_bound_move(&model, &s, 300000, &b);
    cr_assert(b.out_tok == 200000 && b.nanousd == 1000 * 6000 + INT64_C(200000) * 15000, "never above what may come");
    s.max_output_tok = 50;
    budget_bound(&c, &model, &s, -1, &b);
    budget_bound_part(&c, &model, &s, &b);
    cr_assert_eq(b.out_tok, 100, "what is less than a part is held whole");
    s.max_output_tok = -1;
    budget_bound(&c, &model, &s, -1, &b);
    cr_assert_eq(b.full_out_tok, INT64_MAX, "nobody says where it ends");
}

Test(bound, what_fits_is_exact) {
    struct conf c = conf_small();
    struct bound b;
    struct call_size s = {.text_bytes = 920, .messages = 1, .max_output_tok = 1000, .choices = 1};
    budget_bound(&c, &model, &s, -1, &b);
    static const struct {
        int64_t nanousd, tok;
    } rows[] = {{6000000 - 1, -1},
                {6000000, 0},
                {6000000 + 15000 - 1, 0},
                {6000000 + 15000, 1},
                {6000000 + 999 * 15000, 999},
                {INT64_MAX - 1, 1000},
                {-5, -1}};
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        cr_expect_eq(budget_fit_tok(&model, &s, &b, rows[i].nanousd), rows[i].tok, "row %zu", i);
}
