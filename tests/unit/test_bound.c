/* The most a call can cost, worked out by hand; and that no honest usage costs more. */
#include "budget/budget.h"
#include "gateway/base/hash.h"

#include <criterion/criterion.h>

/* What is known of a model besides its price. */
static struct conf_model facts_of(int64_t max_output_tok) {
    return (struct conf_model){.context_tok = 200000, .max_output_tok = max_output_tok};
}

static void bound_of(const struct conf *c, const struct price *p, const struct call_size *s, int64_t max_output_tok,
                     struct bound *b) {
    struct conf_model facts = facts_of(max_output_tok);
    budget_bound(c, p, s, &facts, b);
}

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
                                   .cache_read_audio = -1,
                                   .in_image = -1,
                                   .out_image = -1,
                                   .images_in = -1,
                                   .images = -1,
                                   .seconds = -1,
                                   .characters = -1,
                                   .file_search = -1,
                                   .code_session = -1,
                                   .reasoning = -1,
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
    bound_of(&c, &model, &s, -1, &b);
    cr_assert(b.in_tok == 1000 && b.out_tok == 100 && !b.output_capped);
    cr_assert_eq(b.nanousd, 1000 * 6000 + 100 * 15000, "all input may be written to the hour's cache");
    s.choices = 4;
    bound_of(&c, &model, &s, -1, &b);
    cr_assert(b.out_tok == 400 && b.nanousd == 1000 * 6000 + 400 * 15000);
    struct price sound = model;
    sound.in_audio = 40000000;
    sound.out_audio = 80000000;
    s = (struct call_size){.text_bytes = 920, .messages = 1, .audios = 1, .max_output_tok = 10, .choices = 1};
    bound_of(&c, &sound, &s, -1, &b);
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
        bound_of(&c, &model, &s, rows[i].model_max, &b);
        cr_assert(b.out_tok == rows[i].want && b.output_capped == rows[i].capped, "row %zu: %lld", i,
                  (long long)b.out_tok);
    }
}

Test(bound, embeddings_price_no_output) {
    struct conf c = conf_small();
    struct price p = {.in = 20000, .out = -1, .factor = FACTOR_ONE, .known = true};
    struct bound b;
    bound_of(&c, &p, &(struct call_size){.text_bytes = 936, .max_output_tok = -1, .choices = 0}, -1, &b);
    cr_assert(b.out_tok == 0 && b.nanousd == 1000 * 20);
}

Test(bound, what_cannot_be_bounded_says_so) {
    struct conf c = conf_small();
    struct bound b;
    struct price p = model;
    struct call_size s = {.text_bytes = 10, .messages = 1, .max_output_tok = 10, .choices = 1};
    p.known = false;
    bound_of(&c, &p, &s, -1, &b);
    cr_assert_eq(b.nanousd, INT64_MAX);
    p = model;
    p.out = -1;
    bound_of(&c, &p, &s, -1, &b);
    cr_assert_eq(b.nanousd, INT64_MAX, "output without a price");
    s.text_bytes = INT64_MAX;
    bound_of(&c, &model, &s, -1, &b);
    cr_assert(b.in_tok == INT64_MAX && b.nanousd == INT64_MAX);
    s = (struct call_size){.text_bytes = 1, .max_output_tok = INT64_MAX / 2, .choices = 3};
    bound_of(&c, &model, &s, -1, &b);
    cr_assert_eq(b.nanousd, INT64_MAX);
}

Test(bound, a_free_model_is_bounded_by_nothing) {
    struct conf c = conf_small();
    struct price p = {.factor = FACTOR_ONE, .known = true, .free = true};
    struct bound b;
    bound_of(&c, &p, &(struct call_size){.text_bytes = 99999, .max_output_tok = -1, .choices = 1}, -1, &b);
    cr_assert_eq(b.nanousd, 0);
}

static int64_t up_to(uint64_t *dice, int64_t most) {
    return most <= 0 ? 0 : (int64_t)(random_next(dice) % ((uint64_t)most + 1));
}

static struct price dice_price(uint64_t *dice, struct price_band bands[4], const int64_t edges[2]) {
    struct price p = {.known = true, .factor = up_to(dice, 20000), .call = up_to(dice, 1000000)};
    for (size_t l = 0; l < LINE_N; l++)
        p.each[l] = up_to(dice, 50000000) - 1;
    p.in = p.in < 0 ? 0 : p.in;
    p.out = p.out < 0 ? 0 : p.out;
    for (size_t i = 0; i < LINE_N; i++)
        p.each[i] = i >= LINE_web_search && p.each[i] < 0 && i != LINE_reasoning ? 0 : p.each[i];
    for (size_t b = 0; b < 4; b++) {
        bands[b] = (struct price_band){.tier = b % 2 ? TIER_PRIORITY : TIER_STANDARD, .above_tok = edges[b / 2]};
        for (size_t l = 0; l < LINE_N; l++) /* dearer or cheaper, said or not */
            bands[b].each[l] = random_next(dice) % 2 ? -1 : up_to(dice, 90000000);
    }
    p.bands = bands;
    p.n_bands = random_next(dice) % 2 ? 4 : 0;
    p.region_factor = random_next(dice) % 2 ? 0 : 5000 + up_to(dice, 10000);
    p.tier_factor[TIER_FAST] = random_next(dice) % 2 ? 0 : up_to(dice, 60000);
    p.unasked_tiers = random_next(dice) % 2 ? 1u << TIER_PRIORITY : 0;
    return p;
}

static struct call_size dice_size(uint64_t *dice) {
    struct call_size s = {.text_bytes = up_to(dice, 20000),
                          .messages = up_to(dice, 9),
                          .images = up_to(dice, 2),
                          .audios = up_to(dice, 30) == 0,
                          .max_output_tok = up_to(dice, 5000),
                          .choices = up_to(dice, 3),
                          .web_searches = up_to(dice, 5),
                          .file_searches = up_to(dice, 2),
                          .code_sessions = up_to(dice, 1),
                          .server_turns = random_next(dice) % 4 ? 0 : up_to(dice, 5),
                          .writes_known = random_next(dice) % 2,
                          .writes_5m = random_next(dice) % 2,
                          .region_free = random_next(dice) % 2};
    s.writes_1h = s.writes_5m && random_next(dice) % 2;
    s.tiers = random_next(dice) % 2 ? 0 : 1u << up_to(dice, TIER_N - 1);
    return s;
}

static enum usage_tier dice_tier(uint64_t *dice, const struct price *p, const struct call_size *s) {
    unsigned tiers = 1u << TIER_STANDARD | (s->tiers ? s->tiers : p->unasked_tiers);
    enum usage_tier t = (enum usage_tier)up_to(dice, TIER_N - 1);
    return tiers >> t & 1 ? t : TIER_STANDARD;
}

/* Up to in_tok over the input lines that may be, the rest of them in the last; often just at an edge. */
static struct usage dice_usage(uint64_t *dice, const struct price *p, const struct call_size *s, const struct bound *b,
                               const int64_t edges[2]) {
    int64_t near = edges[up_to(dice, 1)] + up_to(dice, 2) - 1, in = up_to(dice, 2) ? b->in_tok : up_to(dice, b->in_tok);
    struct usage u = {.images_in = s->images,
                      .images = up_to(dice, p->images >= 0 ? s->choices : 0),
                      .seconds = up_to(dice, p->seconds >= 0 ? s->audios * 3600 : 0),
                      .characters = up_to(dice, p->characters >= 0 ? s->text_bytes : 0),
                      .web_search = up_to(dice, s->web_searches),
                      .file_search = up_to(dice, s->file_searches),
                      .code_session = up_to(dice, s->code_sessions),
                      .tier = dice_tier(dice, p, s),
                      .regional = p->region_factor > FACTOR_ONE && !s->region_free && random_next(dice) % 2};
    in = near > 0 && near <= b->in_tok && random_next(dice) % 2 ? near : in;
    u.in_audio = up_to(dice, s->audios * 115200 < in ? s->audios * 115200 : in);
    u.cache_read_audio = up_to(dice, u.in_audio);
    u.in_audio -= u.cache_read_audio;
    int64_t rest = in - u.in_audio - u.cache_read_audio;
    int64_t *lines[] = {&u.cache_read, &u.cache_write_5m, &u.cache_write_1h, &u.in_image};
    const bool may[] = {true, !s->writes_known || s->writes_5m, s->writes_known ? s->writes_1h : p->cache_write_1h >= 0,
                        s->images > 0};
    for (size_t i = 0; i < ARRAY_LEN(lines); i++) {
        *lines[i] = may[i] ? up_to(dice, rest) : 0;
        rest -= *lines[i];
    }
    u.in = rest;
    int64_t out = up_to(dice, 2) ? b->out_tok : up_to(dice, b->out_tok);
    u.out_audio = up_to(dice, out);
    u.out_image = up_to(dice, out - u.out_audio);
    u.out = out - u.out_audio - u.out_image;
    u.reasoning = up_to(dice, u.out);
    return u;
}

/* Any way in which a provider may honestly split up to in_tok and out_tok over the lines, in any tier and region that the
 * call may get and on either side of every edge, costs no more than the bound. */
Test(bound, honest_usage_never_costs_more) {
    struct conf c = conf_small();
    uint64_t dice = 88172645463325252u;
    for (int i = 0; i < 20000; i++) {
        const int64_t edges[2] = {1 + up_to(&dice, 8000), 8001 + up_to(&dice, 30000)};
        struct price_band bands[4];
        struct price p = dice_price(&dice, bands, edges);
        struct call_size s = dice_size(&dice);
        struct bound b;
        bound_of(&c, &p, &s, -1, &b);
        cr_assert(!b.why[0], "round %d: %s", i, b.why);
        for (int j = 0; j < 3; j++) {
            struct usage u = dice_usage(&dice, &p, &s, &b, edges);
            cr_assert_leq(price_cost(&p, &u), b.nanousd, "round %d: %lld > %lld", i, (long long)price_cost(&p, &u),
                          (long long)b.nanousd);
        }
    }
}

/* Calls whose fees nobody could bound were held at the price of their tokens. */
Test(bound, fees_are_held_or_their_lack_is_named) {
    struct conf c = conf_small();
    struct bound b;
    struct price p = model;
    struct call_size s = {.text_bytes = 920, .messages = 1, .max_output_tok = 100, .choices = 1, .web_searches = 3};
    bound_of(&c, &p, &s, -1, &b);
    cr_assert(b.nanousd == INT64_MAX && strstr(b.why, "web_search"), "%s", b.why);
    p.web_search = INT64_C(10000000000);
    bound_of(&c, &p, &s, -1, &b);
    cr_assert(!b.why[0] && b.nanousd == 1000 * 6000 + 100 * 15000 + 3 * 10000000);
    s.server_turns = 3; /* the whole context, four times */
    bound_of(&c, &p, &s, -1, &b);
    cr_assert(b.in_tok == 800000 && b.nanousd == INT64_C(800000) * 6000 + 100 * 15000 + 3 * 10000000);
    struct conf_model unknown = {.context_tok = -1, .max_output_tok = -1};
    budget_bound(&c, &p, &s, &unknown, &b);
    cr_assert(b.nanousd == INT64_MAX && strstr(b.why, "context"));
    memcpy(s.open, "tools[0] (x)", sizeof "tools[0] (x)");
    bound_of(&c, &p, &s, -1, &b);
    cr_assert(b.nanousd == INT64_MAX && strcmp(b.why, s.open) == 0);
    p = (struct price){.known = true, .free = true, .factor = FACTOR_ONE};
    bound_of(&c, &p, &s, -1, &b);
    cr_assert(!b.why[0] && b.nanousd == 0, "a free model's tools are free");
}

/* Near an edge the estimate decides nothing: what the bound may reach is held. */
Test(bound, is_priced_at_the_band_that_its_bytes_may_reach) {
    struct conf c = conf_small();
    struct price_band band = {.above_tok = 1000};
    struct price p = model;
    struct bound b;
    struct call_size s = {.text_bytes = 920, .messages = 1, .max_output_tok = 100, .choices = 1, .writes_known = true};
    for (size_t i = 0; i < LINE_N; i++)
        band.each[i] = -1;
    band.each[LINE_in] = 6000000;
    band.each[LINE_out] = 22500000;
    p.bands = &band;
    p.n_bands = 1;
    bound_of(&c, &p, &s, -1, &b);
    cr_assert_eq(b.nanousd, 1000 * 3000 + 100 * 15000);
    s.text_bytes++;
    bound_of(&c, &p, &s, -1, &b);
    cr_assert_eq(b.nanousd, 1001 * 6000 + 100 * 22500);
    p.unasked_tiers = 1u << TIER_PRIORITY;
    bound_of(&c, &p, &s, -1, &b);
    cr_assert_eq(b.nanousd, (1001 * 6000 + 100 * 22500) * 5 / 2, "what the provider's settings may give is held");
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
    bound_of(&c, &model, &s, -1, &b);
    cr_assert(b.out_tok == 200000 && b.full_out_tok == 200000);
    budget_bound_part(&c, &model, &s, &b);
    cr_assert(b.out_tok == 2 * 8192 && b.full_out_tok == 200000);
    cr_assert_eq(b.nanousd, 1000 * 6000 + 2 * 8192 * 15000);
    budget_bound_move(&model, &s, 300000, &b);
    cr_assert(b.out_tok == 200000 && b.nanousd == 1000 * 6000 + INT64_C(200000) * 15000, "never above what may come");
    s.max_output_tok = 50;
    bound_of(&c, &model, &s, -1, &b);
    budget_bound_part(&c, &model, &s, &b);
    cr_assert_eq(b.out_tok, 100, "what is less than a part is held whole");
    s.max_output_tok = -1;
    bound_of(&c, &model, &s, -1, &b);
    cr_assert_eq(b.full_out_tok, INT64_MAX, "nobody says where it ends");
}

Test(bound, what_fits_is_exact) {
    struct conf c = conf_small();
    struct bound b;
    struct call_size s = {.text_bytes = 920, .messages = 1, .max_output_tok = 1000, .choices = 1};
    bound_of(&c, &model, &s, -1, &b);
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
