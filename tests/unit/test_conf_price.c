/* Prices: exact decimals, who wins over whom, what is unknown and what is free. */
#include "tests/support/conf_text.h"
#include "tests/support/temp_folder.h"

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
    struct price m1 = conf_price(p.l.conf, p.a, SPAN("m1"));
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
    cr_expect_eq(conf_price(p.l.conf, p.a, SPAN("tiny")).in, 1);
    cr_expect_eq(conf_price(p.l.conf, p.a, SPAN("embed")).in, 20000);
    cr_expect_eq(conf_price(p.l.conf, p.a, SPAN("embed")).out, 0);
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
    cr_expect_not(conf_price(p.l.conf, p.a, SPAN("nobody")).known);
    cr_expect_not(conf_price(p.l.conf, p.a, SPAN("image")).known);
    cr_expect_not(conf_price(p.l.conf, p.a, SPAN("half")).known, "a row without an output price is no price");
    cr_expect_not(conf_price(p.l.conf, p.a, SPAN("sample_spec")).known);
    struct price zero = conf_price(p.l.conf, p.a, SPAN("m4"));
    cr_expect(zero.known && zero.free);
    cr_expect_not(conf_price(p.l.conf, p.b, SPAN("m4")).free);
    priced_free(&p);
}

Test(conf_price, the_nearest_word_wins) {
    struct priced p = priced_new("{\"m3\": {\"input_cost_per_token\": 9e-06, \"output_cost_per_token\": 9e-06},"
                                 " \"m1\": {\"input_cost_per_token\": 1e-06, \"output_cost_per_token\": 1e-06}}",
                                 main_yaml);
    cr_assert_not_null(p.l.conf, "%s", p.l.text.at);
    cr_expect_eq(conf_price(p.l.conf, p.a, SPAN("own")).in, 7000000);
    cr_expect_eq(conf_price(p.l.conf, p.a, SPAN("m3")).in, 50000, "prices.models wins over files");
    cr_expect_eq(conf_price(p.l.conf, p.a, SPAN("m3")).out, 200000000);
    cr_expect_eq(conf_price(p.l.conf, p.a, SPAN("m1")).in, 1000000, "a later file wins");
    cr_expect_eq(conf_price(p.l.conf, p.a, SPAN("m2")).in, 3000000, "backend/model");
    cr_expect_not(conf_price(p.l.conf, p.b, SPAN("m2")).known, "openai/m2 is no price of an anthropic backend");
    priced_free(&p);
}

Test(conf_price, the_factor_of_a_backend_is_part_of_its_digest) {
    struct priced p = priced_new("{}", main_yaml);
    cr_assert_not_null(p.l.conf, "%s", p.l.text.at);
    struct price a = conf_price(p.l.conf, p.a, SPAN("m1")), b = conf_price(p.l.conf, p.b, SPAN("m1"));
    cr_expect_eq(b.factor, 8500);
    cr_expect_eq(b.in, a.in);
    cr_expect_str_neq(a.digest, b.digest);
    cr_expect_str_eq(b.digest, conf_price(p.l.conf, p.b, SPAN("m1")).digest);
    priced_free(&p);
}

Test(conf_price, a_price_that_rises_with_the_prompt_bounds_the_prompt) {
    struct priced p = priced_new("{}", main_yaml);
    cr_assert_not_null(p.l.conf, "%s", p.l.text.at);
    cr_expect_eq(conf_model_facts(p.l.conf, p.a, SPAN("long")).context_tok, 200000);
    cr_expect_eq(conf_model_facts(p.l.conf, p.a, SPAN("p-1")).context_tok, 5);
    cr_expect_eq(conf_model_facts(p.l.conf, p.a, SPAN("nobody")).context_tok, -1);
    priced_free(&p);
}

Test(conf_price, wrong_files_are_named) {
    static const struct {
        const char *json, *said;
    } rows[] = {
        {"[", "main.yaml:2:19: error: /tmp/"},
        {"[]", "b.json: expected an object"},
        {"{\"x\": {\"input_cost_per_token\": -1e-06, \"output_cost_per_token\": 0}}",
         "b.json: the row 'x' has a price that is no decimal"},
        {"{\"x\": {\"input_cost_per_token\": true, \"output_cost_per_token\": 0}}", "b.json: the row 'x' has a price"},
        {"{\"x\": {\"input_cost_per_token\": 1, \"output_cost_per_token\": 0}, \"x\": {\"input_cost_per_token\": 2, "
         "\"output_cost_per_token\": 0}}",
         "main.yaml:2:10: error: a price file has two rows for 'x'"},
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
    cr_expect_eq(conf_price(p.l.conf, p.a, SPAN("x")).in, 1000001);
    cr_expect(strstr(p.l.text.at, "b.json: 1 prices have digits past a pico-dollar"), "%s", p.l.text.at);
    priced_free(&p);
}

Test(conf_price, unknown_takes_a_default) {
    struct conf *c = load_good("prices: {unknown: {input: 1 USD/1M, output: 2 USD/1M}}\n" MOCK_BACKEND NO_STATE);
    struct price p = conf_price(c, &c->backends[0], SPAN("whatever"));
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
    struct price p = conf_price(c, &c->backends[0], SPAN("gpt-5.4-mini"));
    cr_expect_eq(p.in, 750000);
    cr_expect_eq(p.cache_read, 75000);
    cr_expect_eq(p.out, 4500000);
    conf_drop(c);
}
