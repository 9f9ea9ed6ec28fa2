/* Decimals at their edges. */
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
