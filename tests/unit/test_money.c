/* Decimals at their edges, and price rows worked out by hand. */
#include "gateway/base/money.h"

#include <criterion/criterion.h>

static const struct {
    const char *text;
    int scale;
    int64_t want;
    bool inexact;
} decimals[] = {
    {"0", 12, 0, false},
    {"0.15", 12, 150000000000, false},
    {"2.5e-06", 12, 2500000, false},
    {"2.5E-06", 12, 2500000, false},
    {"1e+3", 0, 1000, false},
    {"007", 0, 7, false},
    {"0.000000000001", 12, 1, false},
    {"0.0000000000005", 12, 0, true},
    {"0.0000000000015", 12, 2, true},
    {"0.0000000000025", 12, 2, true},
    {"0.00000000000250000000000000001", 12, 3, true},
    {"0.0000000000024999", 12, 2, true},
    {"0.9999999999995", 12, 1000000000000, true},
    {"0.99999999999949", 12, 999999999999, true},
    {"3.0000000000000000000000", 0, 3, false},
    {"9223372036854775807", 0, INT64_MAX, false},
    {"9223372036854775806.5", 0, INT64_MAX - 1, true},
    {"9223372036.854775807", 9, INT64_MAX, false},
    {"9223372036.8547758069", 9, INT64_MAX, true},
    {"9.223372036854775807e18", 0, INT64_MAX, false},
    {"92233720368547758070e-1", 0, INT64_MAX, false},
    {"1e-999999999999999999999", 12, 0, true},
    {"0e999999999999999999999", 12, 0, false},
};

Test(money, decimals_become_integers_half_to_even) {
    for (size_t i = 0; i < ARRAY_LEN(decimals); i++) {
        int64_t got = -1;
        bool inexact = !decimals[i].inexact;
        cr_assert(money_decimal(span_of(decimals[i].text), decimals[i].scale, &got, &inexact), "%s", decimals[i].text);
        cr_assert_eq(got, decimals[i].want, "%s gave %lld", decimals[i].text, (long long)got);
        cr_assert_eq(inexact, decimals[i].inexact, "%s", decimals[i].text);
    }
}

Test(money, what_is_no_decimal_or_too_large_is_refused) {
    static const char *const bad[] = {"",
                                      "-1",
                                      "+1",
                                      "1.",
                                      ".5",
                                      "1e",
                                      "1e+",
                                      "0x1",
                                      "1 ",
                                      " 1",
                                      "1,5",
                                      "nan",
                                      "inf",
                                      "1.5.5",
                                      "--1",
                                      "-0",
                                      "1e5e5",
                                      "e5",
                                      "1_000",
                                      "9223372036854775808",
                                      "9223372036854775807.5",
                                      "1e19",
                                      "1e999999999999"};
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        int64_t got;
        cr_assert_not(money_decimal(span_of(bad[i]), 0, &got, NULL), "%s", bad[i]);
    }
    char long_text[2000];
    memset(long_text, '0', sizeof long_text);
    int64_t got;
    cr_assert_not(money_decimal(span_from(long_text, sizeof long_text), 0, &got, NULL));
}

Test(money, amounts_are_written_as_people_write_them) {
    int64_t got;
    cr_assert(money_parse(SPAN("500 USD"), &got) && got == 500 * NANO_PER_USD);
    cr_assert(money_parse(SPAN(" 0.000000001USD "), &got) && got == 1);
    cr_assert(money_parse(SPAN("9223372036.854775807 USD"), &got) && got == INT64_MAX);
    cr_assert_not(money_parse(SPAN("0.0000000001 USD"), &got), "finer than a nano-dollar");
    cr_assert_not(money_parse(SPAN("9223372036.854775808 USD"), &got));
    cr_assert_not(money_parse(SPAN("500"), &got));
    cr_assert_not(money_parse(SPAN("USD"), &got));
    cr_assert_not(money_parse(SPAN("500 EUR"), &got));
    cr_assert_not(money_parse(SPAN("-5 USD"), &got));
}

Test(money, prices_are_read_without_a_double) {
    int64_t got;
    bool inexact;
    cr_assert(money_parse_price(SPAN("2.50 USD/1M"), &got, &inexact) && got == 2500000 && !inexact);
    cr_assert(money_parse_price(SPAN("0.05 USD/1M"), &got, NULL) && got == 50000);
    cr_assert(money_parse_price(SPAN("0.01 USD/1"), &got, NULL) && got == 10000000000);
    cr_assert(money_parse_price(SPAN("10 USD/1K"), &got, NULL) && got == 10000000000);
    cr_assert(money_parse_price(SPAN("0.0000005 USD/1M"), &got, &inexact) && got == 0 && inexact);
    cr_assert(money_parse_price(SPAN("0.0000015 USD/1M"), &got, &inexact) && got == 2 && inexact);
    cr_assert(money_parse_price(SPAN("0"), &got, &inexact) && got == 0 && !inexact, "a bare zero is free");
    cr_assert_not(money_parse_price(SPAN("2.50"), &got, NULL));
    cr_assert_not(money_parse_price(SPAN("2.50 USD"), &got, NULL));
    cr_assert_not(money_parse_price(SPAN("2.50 USD/2M"), &got, NULL));
    cr_assert_not(money_parse_price(SPAN("1e14 USD/1K"), &got, NULL));
}

Test(money, amounts_are_printed_exactly) {
    static const struct {
        int64_t nanousd;
        const char *want;
    } rows[] = {{0, "0"},
                {1, "0.000000001"},
                {12345, "0.000012345"},
                {NANO_PER_USD, "1"},
                {100 * NANO_PER_USD, "100"},
                {1500000000, "1.5"},
                {-1, "-0.000000001"},
                {INT64_MAX, "9223372036.854775807"},
                {INT64_MIN, "-9223372036.854775808"}};
    char text[MONEY_TEXT_MAX];
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        cr_assert_str_eq(money_text(rows[i].nanousd, text), rows[i].want);
}

#define EVERY_LINE_UNKNOWN                                                                                             \
    .in = -1, .cache_read = -1, .cache_write_5m = -1, .cache_write_1h = -1, .in_audio = -1, .out = -1,                 \
    .out_audio = -1, .web_search = -1

/* USD a million: 2.50 in, 0.25 read, 3.125 and 5 written, 40 audio in, 10 out, 80 audio out; a search 0.01. */
static const struct price full = {.in = 2500000,
                                  .cache_read = 250000,
                                  .cache_write_5m = 3125000,
                                  .cache_write_1h = 5000000,
                                  .in_audio = 40000000,
                                  .out = 10000000,
                                  .out_audio = 80000000,
                                  .web_search = 10000000000,
                                  .factor = FACTOR_ONE,
                                  .known = true};

Test(price, rows_worked_out_by_hand) {
    char text[PICO_TEXT_MAX];
    /* 1000 x 2.5 + 4000 x 0.25 + 200 x 3.125 + 100 x 5 + 10 x 40 + 500 x 10 + 5 x 80 micro-dollars + 2 cents */
    struct usage u = {.in = 1000,
                      .cache_read = 4000,
                      .cache_write_5m = 200,
                      .cache_write_1h = 100,
                      .in_audio = 10,
                      .out = 500,
                      .out_audio = 5,
                      .web_search = 2,
                      .reasoning = 450};
    cr_assert_eq(price_cost(&full, &u), 2500000 + 1000000 + 625000 + 500000 + 400000 + 5000000 + 400000 + 20000000);
    cr_assert_str_eq(price_pico_text(&full, &u, text), "30425000000");
    struct usage embedding = {.in = 7};
    struct price small = {EVERY_LINE_UNKNOWN, .factor = FACTOR_ONE, .known = true};
    small.in = 20000; /* 0.02 USD/1M: 7 tokens are 140,000 pico-dollars */
    cr_assert_eq(price_cost(&small, &embedding), 140);
}

Test(price, one_ceil_over_the_whole_sum) {
    struct price p = {.in = 100, .out = 400, .factor = FACTOR_ONE, .known = true};
    struct usage u = {.in = 1, .out = 1}; /* 500 pico-dollars: half a nano-dollar */
    char text[PICO_TEXT_MAX];
    cr_assert_eq(price_cost(&p, &u), 1, "two lines of a fraction each round up once");
    u.in = 6;
    cr_assert_eq(price_cost(&p, &u), 1, "exactly one nano-dollar is not rounded");
    p.factor = 8500;
    u.in = 1; /* 500 x 0.85 */
    cr_assert_str_eq(price_pico_text(&p, &u, text), "425");
    p.factor = 8501;
    cr_assert_str_eq(price_pico_text(&p, &u, text), "425.05");
    p.factor = 1;
    u = (struct usage){.in = 1};
    cr_assert_str_eq(price_pico_text(&p, &u, text), "0.01");
    cr_assert_eq(price_cost(&p, &u), 1);
}

Test(price, a_fee_per_call_is_added_once_and_factored) {
    struct price p = {.in = 1000, .call = 5000000, .factor = 5000, .known = true};
    struct usage u = {.in = 1000};
    cr_assert_eq(price_cost(&p, &u), (1000 * 1000 + 5000000) / 2 / 1000);
}

/* A price row that lacks a line gave calls that cost nothing on that line, so that no budget ever tripped. */
Test(price, missing_line_never_costs_a_silent_zero) {
    struct price p = {EVERY_LINE_UNKNOWN, .factor = FACTOR_ONE, .known = true};
    p.in = 1000;
    p.out = 4000;
    struct usage in_lines[] = {{.cache_read = 9}, {.cache_write_5m = 9}, {.cache_write_1h = 9}, {.in_audio = 9}};
    for (size_t i = 0; i < ARRAY_LEN(in_lines); i++)
        cr_assert_eq(price_cost(&p, &in_lines[i]), 9, "input line %zu", i);
    cr_assert_eq(price_cost(&p, &(struct usage){.out_audio = 9}), 36);
    p.out = -1;
    cr_assert_eq(price_cost(&p, &(struct usage){.out = 9}), 9, "the dearest line stands in");
    p.cache_read = 0;
    cr_assert_eq(price_cost(&p, &(struct usage){.cache_read = 9}), 0, "an explicit zero stays zero");
}

Test(price, too_large_is_the_largest_never_a_wrap) {
    struct price p = {.in = INT64_MAX, .out = INT64_MAX, .out_audio = INT64_MAX, .factor = FACTOR_ONE, .known = true};
    struct usage u = {.in = INT64_MAX, .out = INT64_MAX, .out_audio = INT64_MAX};
    char text[PICO_TEXT_MAX];
    cr_assert_eq(price_cost(&p, &u), INT64_MAX);
    cr_assert_lt(strlen(price_pico_text(&p, &u, text)), PICO_TEXT_MAX);
    struct price one = {.in = 1000, .factor = FACTOR_ONE, .known = true};
    cr_assert_eq(price_cost(&one, &(struct usage){.in = INT64_MAX}), INT64_MAX);
    cr_assert_eq(price_cost(&one, &(struct usage){.in = INT64_MAX - 1}), INT64_MAX - 1);
    cr_assert_eq(price_cost(&one, &(struct usage){.in = -5}), 0, "a negative count gives nobody money");
}
