/* Prices: exact decimals, who wins over whom, what is unknown and what is free. */
#include "tests/support/conf_text.h"
#include "tests/support/temp_folder.h"

#define NOW_US (INT64_C(1796083200) * 1000000) /* 2026-12-01 */

static const char file_a[] =
    "{\"sample_spec\": {\"input_cost_per_token\": \"see below\"},\n"
    " \"m1\": {\"input_cost_per_token\": 2.5e-06, \"output_cost_per_token\": 0.000015, "
    "\"cache_read_input_token_cost\": 2.5E-7,\n"
    "   \"cache_creation_input_token_cost\": 3.125e-06, \"cache_creation_input_token_cost_above_1hr\": 5e-06,\n"
    "   \"input_cost_per_audio_token\": 4e-05, \"output_cost_per_audio_token\": 8e-05,\n"
    "   \"search_context_cost_per_query\": {\"search_context_size_medium\": 0.01},\n"
    "   \"max_input_tokens\": 1000000, \"max_output_tokens\": 128000, \"supports_vision\": true, "
    "\"supports_pdf_input\": false,\n"
    "   \"source\": \"https://x\", \"effective_from\": \"2026-11-30\"},\n"
    " \"openai/m2\": {\"input_cost_per_token\": \"1e-06\", \"output_cost_per_token\": 2e-06},\n"
    " \"a/m2\": {\"input_cost_per_token\": 3e-06, \"output_cost_per_token\": 4e-06},\n"
    " \"long\": {\"input_cost_per_token\": 1e-06, \"output_cost_per_token\": 1e-06, \"max_input_tokens\": 900000,\n"
    "   \"input_cost_per_token_above_200k_tokens\": 2e-06},\n"
    " \"embed\": {\"mode\": \"embedding\", \"input_cost_per_token\": 2e-08},\n"
    " \"image\": {\"mode\": \"image_generation\", \"input_cost_per_pixel\": 1e-08},\n"
    " \"half\": {\"input_cost_per_token\": 1e-06},\n"
    " \"tiny\": {\"input_cost_per_token\": 1e-12, \"output_cost_per_token\": 0}}\n";

static const char main_yaml[] = "prices:\n"
                                "  files: [a.json, b.json]\n"
                                "  models: {m3: {input: 0.05 USD/1M, output: 0.20 USD/1K}, a/m4: {input: 0, output: "
                                "0}, m4: {input: 1 USD/1, output: 1 USD/1}}\n"
                                "backends:\n"
                                "  a: {protocol: openai, url: \"http://h\", models: {own: {price: {input: 7 USD/1M, "
                                "output: 8 USD/1M}}, \"p-*\": {context: 5}}}\n"
                                "  b: {protocol: anthropic, url: \"http://h\", price_factor: 0.85}\n" NO_STATE;

struct priced {
    struct temp_folder t;
    struct loaded l;
    const struct conf_backend *a, *b;
};

static struct priced priced_new(const char *b_json, const char *yaml) {
    struct priced p = {.t = temp_new()};
    temp_write(&p.t, "a.json", file_a);
    temp_write(&p.t, "b.json", b_json);
    temp_write(&p.t, "main.yaml", yaml);
    p.l = load_text(p.t.file, NULL);
    if (p.l.conf) {
        p.a = &p.l.conf->backends[0];
        p.b = &p.l.conf->backends[1];
    }
    return p;
}

static void priced_free(struct priced *p) {
    unload(&p->l);
    temp_free(&p->t);
}

Test(conf_price, every_line_of_a_row_is_exact) {
    struct priced p = priced_new("{}", main_yaml);
    cr_assert_not_null(p.l.conf, "%s", p.l.text.at);
    struct price m1 = conf_price(p.l.conf, p.a, SPAN("m1"), NOW_US);
    cr_expect(m1.known && !m1.free);
    cr_expect_eq(m1.in, 2500000);
    cr_expect_eq(m1.out, 15000000);
    cr_expect_eq(m1.cache_read, 250000);
    cr_expect_eq(m1.cache_write_5m, 3125000);
    cr_expect_eq(m1.cache_write_1h, 5000000);
    cr_expect_eq(m1.in_audio, 40000000);
    cr_expect_eq(m1.out_audio, 80000000);
    cr_expect_eq(m1.web_search, INT64_C(10000000000));
    cr_expect_eq(m1.call, 0);
    cr_expect_eq(m1.factor, FACTOR_ONE);
    cr_expect_str_eq(m1.source, "https://x");
    cr_expect_str_eq(m1.from, "2026-11-30");
    cr_expect_eq(strlen(m1.digest), 16);
    cr_expect_eq(conf_price(p.l.conf, p.a, SPAN("tiny"), NOW_US).in, 1);
    cr_expect_eq(conf_price(p.l.conf, p.a, SPAN("embed"), NOW_US).in, 20000);
    cr_expect_eq(conf_price(p.l.conf, p.a, SPAN("embed"), NOW_US).out, 0);
    struct conf_model facts = conf_model_facts(p.l.conf, p.a, SPAN("m1"));
    cr_expect_eq(facts.context_tok, 1000000);
    cr_expect_eq(facts.max_output_tok, 128000);
    cr_expect_eq(facts.caps_said, (unsigned)(CAP_VISION | CAP_DOCUMENTS));
    cr_expect_eq(facts.caps, (unsigned)CAP_VISION);
    priced_free(&p);
}

Test(conf_price, models_without_a_row_cost_nothing_only_when_somebody_said_so) { /* B-03 */
    struct priced p = priced_new("{}", main_yaml);
    cr_assert_not_null(p.l.conf, "%s", p.l.text.at);
    cr_expect_not(conf_price(p.l.conf, p.a, SPAN("nobody"), NOW_US).known);
    cr_expect_not(conf_price(p.l.conf, p.a, SPAN("image"), NOW_US).known);
    cr_expect_not(conf_price(p.l.conf, p.a, SPAN("half"), NOW_US).known, "a row without an output price is no price");
    cr_expect_not(conf_price(p.l.conf, p.a, SPAN("sample_spec"), NOW_US).known);
    struct price zero = conf_price(p.l.conf, p.a, SPAN("m4"), NOW_US);
    cr_expect(zero.known && zero.free);
    cr_expect_not(conf_price(p.l.conf, p.b, SPAN("m4"), NOW_US).free);
    priced_free(&p);
}

Test(conf_price, the_nearest_word_wins) {
    struct priced p = priced_new("{\"m3\": {\"input_cost_per_token\": 9e-06, \"output_cost_per_token\": 9e-06},"
                                 " \"m1\": {\"input_cost_per_token\": 1e-06, \"output_cost_per_token\": 1e-06}}",
                                 main_yaml);
    cr_assert_not_null(p.l.conf, "%s", p.l.text.at);
    cr_expect_eq(conf_price(p.l.conf, p.a, SPAN("own"), NOW_US).in, 7000000);
    cr_expect_eq(conf_price(p.l.conf, p.a, SPAN("m3"), NOW_US).in, 50000, "prices.models wins over files");
    cr_expect_eq(conf_price(p.l.conf, p.a, SPAN("m3"), NOW_US).out, 200000000);
    cr_expect_eq(conf_price(p.l.conf, p.a, SPAN("m1"), NOW_US).in, 1000000, "a later file wins");
    cr_expect_eq(conf_price(p.l.conf, p.a, SPAN("m2"), NOW_US).in, 3000000, "backend/model");
    cr_expect_not(conf_price(p.l.conf, p.b, SPAN("m2"), NOW_US).known, "openai/m2 is no price of an anthropic backend");
    priced_free(&p);
}

Test(conf_price, the_factor_of_a_backend_is_part_of_its_digest) {
    struct priced p = priced_new("{}", main_yaml);
    cr_assert_not_null(p.l.conf, "%s", p.l.text.at);
    struct price a = conf_price(p.l.conf, p.a, SPAN("m1"), NOW_US), b = conf_price(p.l.conf, p.b, SPAN("m1"), NOW_US);
    cr_expect_eq(b.factor, 8500);
    cr_expect_eq(b.in, a.in);
    cr_expect_str_neq(a.digest, b.digest);
    cr_expect_str_eq(b.digest, conf_price(p.l.conf, p.b, SPAN("m1"), NOW_US).digest);
    priced_free(&p);
}

/* Long prompts were refused at the lower band's edge, since a row could not say what they cost. */
Test(conf_price, a_price_that_rises_with_the_prompt_is_a_band) {
    struct priced p = priced_new("{}", main_yaml);
    cr_assert_not_null(p.l.conf, "%s", p.l.text.at);
    cr_expect_eq(conf_model_facts(p.l.conf, p.a, SPAN("long")).context_tok, 900000);
    cr_expect_eq(conf_model_facts(p.l.conf, p.a, SPAN("p-1")).context_tok, 5);
    cr_expect_eq(conf_model_facts(p.l.conf, p.a, SPAN("nobody")).context_tok, -1);
    struct price price = conf_price(p.l.conf, p.a, SPAN("long"), NOW_US);
    cr_assert_eq(price.n_bands, 1);
    cr_expect(price.bands[0].above_tok == 200000 && price.bands[0].tier == TIER_STANDARD);
    cr_expect(price.bands[0].each[LINE_in] == 2000000 && price.bands[0].each[LINE_out] == -1);
    priced_free(&p);
}

Test(conf_price, every_suffix_of_the_public_layout_is_a_band) {
    struct priced p = priced_new(
        "{\"x\": {\"input_cost_per_token\": 5e-06, \"output_cost_per_token\": 3e-05,\n"
        " \"input_cost_per_token_priority\": 1e-05, \"output_cost_per_token_flex\": 1.5e-05,\n"
        " \"cache_read_input_token_cost_batches\": 2.5e-07,\n"
        " \"input_cost_per_token_above_272k_tokens_priority\": 2e-05,\n"
        " \"cache_creation_input_token_cost_above_1hr_above_200k_tokens\": 1.2e-05,\n"
        " \"output_cost_per_reasoning_token\": 4e-05, \"input_cost_per_image_token\": 8e-06,\n"
        " \"cache_read_input_audio_token_cost\": 3e-07, \"output_cost_per_image\": 0.04,\n"
        " \"file_search_cost_per_1k_calls\": 2.5, \"code_interpreter_cost_per_session\": 0.03,\n"
        " \"provider_specific_entry\": {\"fast\": 6.0, \"us\": 1.1}},\n"
        " \"w\": {\"mode\": \"audio_transcription\", \"input_cost_per_second\": 0.0001, \"output_cost_per_second\": "
        "0},\n"
        " \"s\": {\"mode\": \"audio_speech\", \"input_cost_per_character\": 1.5e-05},\n"
        " \"t\": {\"tiered_pricing\": [{\"range\": [0, 32000], \"input_cost_per_token\": 4e-07, "
        "\"output_cost_per_token\": 1e-06}, {\"range\": [32000, 128000], \"input_cost_per_token\": 8e-07}]}}",
        main_yaml);
    cr_assert_not_null(p.l.conf, "%s", p.l.text.at);
    struct price x = conf_price(p.l.conf, p.a, SPAN("x"), NOW_US);
    static const struct {
        enum usage_tier tier;
        int64_t above;
        enum price_line line;
        int64_t picousd;
    } bands[] = {{TIER_BATCH, 0, LINE_cache_read, 250000},
                 {TIER_FLEX, 0, LINE_out, 15000000},
                 {TIER_PRIORITY, 0, LINE_in, 10000000},
                 {TIER_STANDARD, 200000, LINE_cache_write_1h, 12000000},
                 {TIER_PRIORITY, 272000, LINE_in, 20000000}};
    cr_assert_eq(x.n_bands, ARRAY_LEN(bands));
    for (size_t i = 0; i < ARRAY_LEN(bands); i++)
        cr_expect(x.bands[i].tier == bands[i].tier && x.bands[i].above_tok == bands[i].above &&
                      x.bands[i].each[bands[i].line] == bands[i].picousd,
                  "band %zu", i);
    cr_expect(x.reasoning == 40000000 && x.in_image == 8000000 && x.cache_read_audio == 300000);
    cr_expect(x.images == INT64_C(40000000000) && x.file_search == INT64_C(2500000000));
    cr_expect(x.code_session == INT64_C(30000000000) && x.tier_factor[TIER_FAST] == 60000 && x.region_factor == 11000);
    cr_expect_eq(conf_price(p.l.conf, p.a, SPAN("w"), NOW_US).seconds, 100000000);
    cr_expect_eq(conf_price(p.l.conf, p.a, SPAN("s"), NOW_US).characters, 15000000);
    struct price t = conf_price(p.l.conf, p.a, SPAN("t"), NOW_US);
    cr_expect(t.in == 400000 && t.n_bands == 1 && t.bands[0].above_tok == 32000 && t.bands[0].each[LINE_in] == 800000);
    priced_free(&p);
}

/* A row has a day from which it holds: calls before it have the row before it. */
Test(conf_price, the_row_in_force_at_an_instant_is_the_price) {
    struct priced p = priced_new("{\"x\": [{\"input_cost_per_token\": 2e-06, \"output_cost_per_token\": 2e-06, "
                                 "\"effective_from\": \"2026-12-01\"},\n"
                                 " {\"input_cost_per_token\": 1e-06, \"output_cost_per_token\": 1e-06, "
                                 "\"effective_from\": \"2026-06-01\"}]}",
                                 main_yaml);
    cr_assert_not_null(p.l.conf, "%s", p.l.text.at);
    struct price before = conf_price(p.l.conf, p.a, SPAN("x"), NOW_US - 1);
    struct price after = conf_price(p.l.conf, p.a, SPAN("x"), NOW_US);
    cr_expect(before.in == 1000000 && after.in == 2000000);
    cr_expect_str_eq(before.from, "2026-06-01");
    cr_expect_str_neq(before.digest, after.digest);
    cr_expect_eq(conf_price(p.l.conf, p.a, SPAN("x"), 0).in, 1000000, "before its first day a model has its first row");
    priced_free(&p);
}

struct heard {
    char text[4096];
};

static void hear_row(void *user, const struct conf_price_row *row, struct json raw) {
    (void)user, (void)row, (void)raw;
}

static void hear_note(void *user, const struct price_note *n) {
    struct heard *h = user;
    size_t at = strlen(h->text);
    snprintf(h->text + at, sizeof h->text - at, "%d %d %s %s;", (int)n->kind, n->line, n->model, n->field);
}

Test(conf_price, what_cannot_be_used_is_noted_by_name) {
    static const char json[] =
        "{\"a\": {\"input_cost_per_token\": 1e-06, \"output_cost_per_token\": 1e-06,\n"
        "\"regional_processing_uplift_multiplier_eu\": 1.1,\n \"off_peak_pricing\": {\"x\": 1},\n"
        "\"input_cost_per_video_per_second\": 0.1, \"output_cost_per_pixel\": 0.0, \"supports_vision\": true,\n"
        "\"provider_specific_entry\": {\"other\": 3}, \"input_cost_per_image\": 0.001},\n"
        "\"b\": {\"ocr_cost_per_page\": 0.001}}";
    struct arena a;
    struct heard h = {""};
    const struct price_see see = {hear_row, hear_note, &h};
    arena_init(&a, 1 << 20);
    cr_assert(conf_price_rows(SPAN(json), "x.json", 1, &a, &see));
    cr_expect_str_eq(h.text, "2 2 a regional_processing_uplift_multiplier_eu;2 3 a off_peak_pricing;"
                             "2 4 a input_cost_per_video_per_second;2 5 a provider_specific_entry.other;"
                             "2 5 a input_cost_per_image;2 6 b ocr_cost_per_page;3 6 b ;");
    arena_fini(&a);
}

Test(conf_price, conf_writes_bands_tiers_and_days) {
    static const char yaml[] =
        "prices:\n  models:\n"
        "    m: {input: 2 USD/1M, output: 10 USD/1M, web_search: 10 USD/1K, fast: 6, regional: 1.1, effective_from: "
        "2026-12-01,\n"
        "        bands: [{above: 272000, input: 4 USD/1M}, {tier: flex, input: 1 USD/1M, output: 5 USD/1M}]}\n"
        "backends: {a: {protocol: openai, url: \"http://h\", service_tier: priority}}\n" NO_STATE;
    struct loaded l = load_text("prices.yaml", yaml);
    cr_assert_not_null(l.conf, "%s", l.text.at);
    struct price m = conf_price(l.conf, &l.conf->backends[0], SPAN("m"), NOW_US);
    cr_assert_eq(m.n_bands, 2);
    cr_expect(m.bands[0].tier == TIER_FLEX && m.bands[0].each[LINE_out] == 5000000);
    cr_expect(m.bands[1].above_tok == 272000 && m.bands[1].each[LINE_in] == 4000000 && m.bands[1].each[LINE_out] == -1);
    cr_expect(m.tier_factor[TIER_FAST] == 60000 && m.region_factor == 11000 && m.from_us == NOW_US);
    cr_expect_eq(m.unasked_tiers, 1u << TIER_PRIORITY);
    unload(&l);
    l = load_text("prices.yaml", "prices: {models: {m: {input: 0, output: 0, bands: [{input: 1 USD/1M}]}}}\n" NO_STATE);
    cr_expect(!l.conf && strstr(l.text.at, "a band needs a tier or an edge"), "%s", l.text.at);
    unload(&l);
}

Test(conf_price, wrong_files_are_named) {
    static const struct {
        const char *json, *said;
    } rows[] = {
        {"[", "main.yaml:2:19: error: /tmp/"},
        {"[]", "b.json:1: expected an object"},
        {"{\"x\": {\"input_cost_per_token\": -1e-06, \"output_cost_per_token\": 0}}",
         "b.json:1: the row 'x': input_cost_per_token must be a decimal of at least 0"},
        {"{\"x\": {\"input_cost_per_token\": true, \"output_cost_per_token\": 0}}",
         "b.json:1: the row 'x': input_cost_per_token must be"},
        {"{\"x\": {\"input_cost_per_token\": 1, \"output_cost_per_token\": 0}, \"x\": {\"input_cost_per_token\": 2, "
         "\"output_cost_per_token\": 0}}",
         "main.yaml:2:10: error: a price file has two rows for 'x' from one day"},
        {"{\n \"x\": {\n  \"input_cost_per_token\": 1e-06, \"output_cost_per_token\": 0,\n  \"effective_from\": "
         "\"soon\"}}",
         "b.json:4: the row 'x': effective_from must be a date"},
        {"{\"x\": {\"tiered_pricing\": [{\"input_cost_per_token\": 1e-06}]}}",
         "b.json:1: the row 'x': tiered_pricing needs a range"},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct priced p = priced_new(rows[i].json, main_yaml);
        cr_expect_null(p.l.conf);
        cr_expect(strstr(p.l.text.at, rows[i].said), "wanted %s\nsaid %s", rows[i].said, p.l.text.at);
        priced_free(&p);
    }
}

Test(conf_price, digits_past_a_pico_dollar_are_told) {
    struct priced p =
        priced_new("{\"x\": {\"input_cost_per_token\": 1.00000075e-06, \"output_cost_per_token\": 0}}", main_yaml);
    cr_assert_not_null(p.l.conf, "%s", p.l.text.at);
    cr_expect_eq(conf_price(p.l.conf, p.a, SPAN("x"), NOW_US).in, 1000001);
    cr_expect(strstr(p.l.text.at, "b.json: 1 prices have digits past a pico-dollar"), "%s", p.l.text.at);
    priced_free(&p);
}

Test(conf_price, unknown_takes_a_default) {
    struct conf *c = load_good("prices: {unknown: {input: 1 USD/1M, output: 2 USD/1M}}\n" MOCK_BACKEND NO_STATE);
    struct price p = conf_price(c, &c->backends[0], SPAN("whatever"), NOW_US);
    cr_expect(p.known);
    cr_expect_eq(p.out, 2000000);
    conf_drop(c);
}

Test(conf_price, the_shipped_table_has_a_source_and_a_date_on_every_row) {
    struct conf *c = load_good("prices: {files: [conf/prices.json]}\n" MOCK_BACKEND NO_STATE);
    cr_expect_geq(c->n_prices, 40);
    for (size_t i = 0; i < c->n_prices; i++) {
        const struct price *p = &c->prices[i].price;
        cr_expect(!strncmp(p->source, "https://", 8), "%s", c->prices[i].model);
        cr_expect(p->from && strlen(p->from) == 10 && !strncmp(p->from, "2026-", 5), "%s", c->prices[i].model);
        cr_expect(p->known && !p->free, "%s", c->prices[i].model);
    }
    struct price p = conf_price(c, &c->backends[0], SPAN("gpt-5.4-mini"), NOW_US);
    cr_expect_eq(p.in, 750000);
    cr_expect_eq(p.cache_read, 75000);
    cr_expect_eq(p.out, 4500000);
    conf_drop(c);
}
