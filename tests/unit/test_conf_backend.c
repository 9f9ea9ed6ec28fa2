/* Backends: urls taken apart, keys named, the embedded one's own words. */
#include "tests/support/conf_text.h"

#include "gateway/base/clock.h"

#include <stdio.h>

Test(conf_backend, urls_are_taken_apart) {
    static const struct {
        const char *url, *host, *path;
        int port;
        bool tls;
    } rows[] = {
        {"https://api.openai.com/v1", "api.openai.com", "/v1", 443, true},
        {"https://api.anthropic.com", "api.anthropic.com", "", 443, true},
        {"http://10.0.0.5:8000/v1/", "10.0.0.5", "/v1", 8000, false},
        {"http://h///", "h", "", 80, false},
        {"https://[::1]:9/a/b", "::1", "/a/b", 9, true},
        {"http://[fe80::1]", "fe80::1", "", 80, false},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        char yaml[256];
        snprintf(yaml, sizeof yaml, "backends: {a: {protocol: openai, url: \"%s\"}}\n" NO_STATE, rows[i].url);
        struct conf *c = load_good(yaml);
        const struct conf_backend *b = &c->backends[0];
        cr_expect_str_eq(b->host, rows[i].host);
        cr_expect_str_eq(b->path, rows[i].path);
        cr_expect_eq(b->port, rows[i].port, "%s", rows[i].url);
        cr_expect_eq(b->tls, rows[i].tls);
        conf_drop(c);
    }
}

Test(conf_backend, keys_limits_and_clocks) {
    struct conf *c =
        load_good("backends: {a: {protocol: anthropic, url: \"http://h\", ca_file: ca.pem, proxy: \"http://p:1\", "
                  "tags: [us, zdr],\n"
                  "  api_keys: [one, {name: prod, value: two, weight: 3, teams: [t]}, {value: xxx}],\n"
                  "  timeouts: {connect: 1s, total: 2h}, rate_limits: {in_flight: 5}, price_factor: 0.85,\n"
                  "  models: {m: {context: 10, tools: true, vision: false}}}}\nteams: {t: {}}\n" NO_STATE);
    const struct conf_backend *b = &c->backends[0];
    cr_expect_eq(b->protocol, PROTOCOL_ANTHROPIC);
    cr_expect_eq(b->n_keys, 3);
    cr_expect_str_eq(b->keys[0].name, "key1");
    cr_expect_str_eq(b->keys[0].value, "one");
    cr_expect_eq(b->keys[0].weight, 1);
    cr_expect_null(b->keys[0].teams);
    cr_expect_str_eq(b->keys[1].name, "prod");
    cr_expect_eq(b->keys[1].weight, 3);
    cr_expect_str_eq(b->keys[1].teams[0], "t");
    cr_expect_str_eq(b->keys[2].name, "key3");
    cr_expect_str_eq(b->ca_file, "./ca.pem");
    cr_expect_str_eq(b->proxy, "http://p:1");
    cr_expect_eq(b->n_tags, 2);
    cr_expect_eq(b->connect_us, US_PER_S);
    cr_expect_eq(b->first_token_us, 5 * US_PER_MIN);
    cr_expect_eq(b->idle_us, 2 * US_PER_MIN);
    cr_expect_eq(b->total_us, 2 * US_PER_HOUR);
    cr_expect_eq(b->in_flight, 5);
    cr_expect_eq(b->price_factor, 8500);
    cr_expect_eq(b->models[0].context_tok, 10);
    cr_expect_eq(b->models[0].max_output_tok, -1);
    cr_expect_eq(b->models[0].caps_said, (unsigned)(CAP_TOOLS | CAP_VISION));
    cr_expect_eq(b->models[0].caps, (unsigned)CAP_TOOLS);
    conf_drop(c);
}

Test(conf_backend, the_embedded_one) {
    struct conf *c = load_good("backends:\n  a: {protocol: decode, model: dir/tiny, price: {input: 0, output: 0}}\n"
                               "  b: {protocol: decode, model: /abs, name: base, threads: 2, device: cpu, dtype: bf16, "
                               "max_context: 32}\n" NO_STATE);
    const struct conf_backend *a = &c->backends[0], *b = &c->backends[1];
    cr_expect_str_eq(a->decode.model, "./dir/tiny");
    cr_expect_str_eq(a->decode.name, "tiny");
    cr_expect_str_eq(a->decode.device, "auto");
    cr_expect_eq(a->decode.threads, 0);
    cr_expect_eq(a->decode.max_context, 4096);
    cr_expect_eq(a->decode.max_sequences, 64);
    cr_expect_eq(a->decode.batch_tokens, 2048);
    cr_expect_null(a->url);
    struct price p = conf_price(c, a, SPAN("tiny"), 0);
    cr_expect(p.known && p.free, "an explicit zero is free");
    cr_expect_str_eq(b->decode.model, "/abs");
    cr_expect_str_eq(b->decode.name, "base");
    cr_expect_str_eq(b->decode.dtype, "bf16");
    cr_expect_eq(b->decode.threads, 2);
    cr_expect_eq(conf_model_facts(c, b, SPAN("base")).context_tok, 32);
    cr_expect_not(conf_price(c, b, SPAN("base"), 0).known, "no price is never a free one");
    conf_drop(c);
}
