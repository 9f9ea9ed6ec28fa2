/* The price function: rows worked out by hand, what is not said, bands and factors; and that it never wraps. Invoices of
 * each provider's usage are in test_invoice.c. */
#include "gateway/base/hash.h"
#include "gateway/base/price.h"

#include <criterion/criterion.h>

#define EVERY_LINE_UNKNOWN                                                                                             \
    .in = -1, .cache_read = -1, .cache_write_5m = -1, .cache_write_1h = -1, .in_audio = -1, .out = -1,                 \
    .out_audio = -1, .web_search = -1, .cache_read_audio = -1, .in_image = -1, .out_image = -1, .images_in = -1,       \
    .images = -1, .seconds = -1, .characters = -1, .file_search = -1, .code_session = -1, .reasoning = -1

/* USD a million: 2.50 in, 0.25 read, 3.125 and 5 written, 40 audio in, 10 out, 80 audio out; a search 0.01. */
static const struct price full = {.in = 2500000,
                                  .cache_read = 250000,
                                  .cache_write_5m = 3125000,
                                  .cache_write_1h = 5000000,
                                  .in_audio = 40000000,
                                  .out = 10000000,
                                  .out_audio = 80000000,
                                  .web_search = 10000000000,
                                  .reasoning = -1,
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
    static const struct {
        struct usage used;
        int64_t nanousd;
    } rows[] = {{{.cache_read = 9}, 9},           {{.cache_write_5m = 9}, 12}, /* 11.25, rounded up */
                {{.cache_write_1h = 9}, 18},      {{.in_audio = 9}, 9},
                {{.cache_read_audio = 9}, 9},     {{.in_image = 9}, 9},
                {{.characters = 9}, 9},           {{.seconds = 2}, 64},
                {{.out_image = 9}, 36},           {{.out = 9, .reasoning = 5}, 36},
                {{.images = 1}, 4 * 14400},       {{.images_in = 9}, 0},
                {{.web_search = 1}, 50000000},    {{.file_search = 1}, 2500000},
                {{.code_session = 1}, 1920000000}};
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        cr_assert_eq(price_cost(&p, &rows[i].used), rows[i].nanousd, "row %zu", i);
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

/* --- bands --- */

static struct price_band band(enum usage_tier tier, int64_t above, int64_t in, int64_t out) {
    struct price_band b = {.tier = tier, .above_tok = above};
    for (size_t i = 0; i < LINE_N; i++)
        b.each[i] = -1;
    b.each[LINE_in] = in;
    b.each[LINE_out] = out;
    return b;
}

static struct price plain(int64_t in, int64_t out) {
    struct price p = {EVERY_LINE_UNKNOWN, .factor = FACTOR_ONE, .known = true};
    p.in = in;
    p.out = out;
    return p;
}

/* Prompts over the edge were sold at the price below it. */
Test(price, a_whole_request_above_an_edge_has_its_prices) {
    struct price_band bands[] = {band(TIER_STANDARD, 1000, 2000, 6000), band(TIER_STANDARD, 5000, 3000, -1)};
    struct price p = plain(1000, 4000);
    p.cache_read = 100;
    p.bands = bands;
    p.n_bands = 2;
    static const struct {
        struct usage used;
        int64_t nanousd;
    } rows[] = {{{.in = 1000, .out = 10}, 1000 + 40},
                {{.in = 1001, .out = 10}, 2002 + 60},
                {{.in = 1, .cache_read = 1000}, 2 + 200}, /* 0.1 rises as input does: twofold */
                {{.in = 5000, .out = 10}, 10000 + 60},
                {{.in = 5001, .out = 10}, 15003 + 60}, /* what the higher edge leaves out is the lower's */
                {{.cache_write_5m = 999, .in_audio = 1}, 1249 + 1}}; /* 1248.75 + 1, rounded up */
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        cr_expect_eq(price_cost(&p, &rows[i].used), rows[i].nanousd, "row %zu: %lld", i,
                     (long long)price_cost(&p, &rows[i].used));
}

Test(price, the_tier_that_answered_sets_the_price) {
    struct price_band bands[] = {band(TIER_FLEX, 0, 500, 2000), band(TIER_PRIORITY, 0, 2000, 8000),
                                 band(TIER_STANDARD, 1000, 3000, 5000), band(TIER_PRIORITY, 5000, 7000, 9000)};
    struct price p = plain(1000, 4000);
    p.cache_read = 100;
    p.bands = bands;
    p.n_bands = ARRAY_LEN(bands);
    static const struct {
        struct usage used;
        int64_t nanousd;
    } rows[] = {{{.in = 10, .out = 10, .tier = TIER_STANDARD}, 10 + 40},
                {{.in = 10, .out = 10, .tier = TIER_BATCH}, 10 + 40}, /* not said: as standard */
                {{.in = 10, .out = 10, .tier = TIER_FLEX}, 5 + 20},
                {{.cache_read = 10, .tier = TIER_FLEX}, 1}, /* not said in the band: never falls */
                {{.in = 10, .out = 10, .tier = TIER_PRIORITY}, 20 + 80},
                {{.cache_read = 10, .tier = TIER_PRIORITY}, 2},              /* rises as input does */
                {{.in = 2000, .out = 10, .tier = TIER_PRIORITY}, 6000 + 80}, /* tier and edge apart: the dearer */
                {{.in = 2000, .out = 10, .tier = TIER_FLEX}, 6000 + 50},
                {{.in = 6000, .out = 10, .tier = TIER_PRIORITY}, 42000 + 90}, /* both said together */
                {{.in = 10, .out = 10, .tier = TIER_FAST}, 300}};             /* six times */
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        cr_expect_eq(price_cost(&p, &rows[i].used), rows[i].nanousd, "row %zu: %lld", i,
                     (long long)price_cost(&p, &rows[i].used));
}

Test(price, factors_of_tier_and_region_leave_fees_alone) {
    struct price p = plain(1000, 4000);
    p.web_search = 10000000;
    p.tier_factor[TIER_FAST] = 60000;
    p.region_factor = 11000;
    struct usage u = {.in = 100, .web_search = 1, .tier = TIER_FAST, .regional = true};
    cr_expect_eq(price_cost(&p, &u), 100 * 6 * 11 / 10 + 10000);
    p.factor = 5000;
    cr_expect_eq(price_cost(&p, &u), (660 + 10000) / 2);
    p = plain(1000, 4000);
    cr_expect_eq(price_cost(&p, &(struct usage){.in = 100, .tier = TIER_PRIORITY}), 250, "not said: 2.5 times");
    cr_expect_eq(price_cost(&p, &(struct usage){.in = 100, .regional = true}), 110, "not said: 1.1 times");
    p.free = true;
    cr_expect_eq(price_cost(&p, &u), 0, "an explicit zero price stays zero");
}

/* --- properties --- */

static struct price random_price(uint64_t *dice, struct price_band bands[4]) {
    struct price p = {.known = true, .factor = (int64_t)(random_next(dice) % 20000) + 1};
    for (size_t i = 0; i < LINE_N; i++)
        p.each[i] = (int64_t)(random_next(dice) % 5000000) - (random_next(dice) % 4 == 0 ? 5000000 : 0);
    p.in = p.in < 0 ? 7 : p.in;
    p.out = p.out < 0 ? 9 : p.out;
    p.reasoning = p.reasoning >= 0 && p.reasoning < p.out ? p.out : p.reasoning;
    for (size_t b = 0; b < 4; b++) { /* later edges are dearer, as everywhere */
        bands[b] = band(b % 2 ? TIER_PRIORITY : TIER_STANDARD, b < 2 ? 3000 : 9000, p.in, p.out);
        bands[b].each[LINE_in] *= b < 2 ? 2 : 3;
        bands[b].each[LINE_out] *= b < 2 ? 2 : 3;
    }
    p.bands = bands;
    p.n_bands = 4;
    return p;
}

/* More of anything never costs less, over edges too. */
Test(price, grows_with_every_line) {
    uint64_t dice = 7;
    for (int i = 0; i < 2000; i++) {
        struct price_band bands[4];
        struct price p = random_price(&dice, bands);
        struct usage u = {.tier = random_next(&dice) % 2 ? TIER_PRIORITY : TIER_STANDARD};
        int64_t *lines[] = {
#define X(name) &u.name,
            USAGE_LINES(X)
#undef X
        };
        for (size_t l = 0; l < ARRAY_LEN(lines); l++)
            *lines[l] = (int64_t)(random_next(&dice) % 3000);
        u.reasoning = u.out / 2;
        int64_t before = price_cost(&p, &u);
        *lines[random_next(&dice) % ARRAY_LEN(lines)] += 1 + (int64_t)(random_next(&dice) % 8000);
        cr_assert_geq(price_cost(&p, &u), before, "round %d", i);
    }
}

/* Saturates at every line alone and at all together, whatever the factors: it never wraps into a small amount. */
Test(price, the_largest_counts_never_look_small) {
    struct price p = {.factor = 100 * FACTOR_ONE, .known = true};
    struct price_band b = band(TIER_PRIORITY, 1, INT64_MAX, INT64_MAX);
    struct usage all = {.tier = TIER_FAST, .regional = true};
    p.tier_factor[TIER_FAST] = 100 * FACTOR_ONE;
    p.region_factor = 100 * FACTOR_ONE;
    p.call = INT64_MAX;
    p.bands = &b;
    p.n_bands = 1;
    for (size_t i = 0; i < LINE_N; i++)
        p.each[i] = INT64_MAX;
#define X(name)                                                                                                        \
    cr_expect_eq(price_cost(&p, &(struct usage){.name = INT64_MAX}), INT64_MAX, #name);                                \
    all.name = INT64_MAX;
    USAGE_LINES(X)
#undef X
    cr_expect_eq(price_cost(&p, &all), INT64_MAX);
    all.tier = TIER_PRIORITY;
    struct price_use uses[] = {{&p, &all}, {&p, &all}, {&p, &all}};
    cr_expect_eq(price_cost_sum(uses, ARRAY_LEN(uses)), INT64_MAX);
}
