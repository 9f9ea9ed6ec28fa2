/* What a call says of sampling, within bounds or refused by name. */
#include "backends/dialect.h"

#include <criterion/criterion.h>

static bool ask(const char *text, struct decode_ask *out, struct call_fault *f) {
    struct json body;
    static struct arena a;
    arena_fini(&a);
    arena_init(&a, 1 << 16);
    memset(out, 0, sizeof *out);
    memset(f, 0, sizeof *f);
    cr_assert(json_check(span_of(text), JSON_DEPTH_MAX, &body, NULL), "%s", text);
    return engine_sampling(body, &a, out, f);
}

Test(engine_sampling, every_field_arrives) {
    struct decode_ask o;
    struct call_fault f;
    cr_assert(ask("{\"temperature\":0.5,\"top_p\":0.9,\"top_k\":40,\"min_p\":0.05,\"repetition_penalty\":1.1,"
                  "\"presence_penalty\":-1,"
                  "\"frequency_penalty\":2,\"logit_bias\":{\"5\":-100,\"7\":1.5},\"seed\":-1,\"ignore_eos\":true,"
                  "\"priority\":-3}",
                  &o, &f),
              "%s", f.text);
    cr_expect(o.temperature == 0.5 && o.top_p == 0.9 && o.top_k == 40 && o.min_p == 0.05 &&
              o.repetition_penalty == 1.1);
    cr_expect(o.presence_penalty == -1 && o.frequency_penalty == 2 && o.n_biases == 2 && o.biases[1].id == 7 &&
              o.biases[0].more == -100);
    cr_expect(o.seeded && o.seed == UINT64_MAX && o.ignore_ends && o.priority == -3);
    cr_assert(ask("{\"top_k\":-1,\"logit_bias\":{},\"min_p\":null}", &o, &f));
    cr_expect(o.temperature == 1 && o.top_p == 1 && o.top_k == 0 && !o.seeded && !o.ignore_ends && o.n_biases == 0);
}

Test(engine_sampling, what_is_out_of_bounds_is_refused_by_name) {
    static const char *const rows[][2] = {{"{\"temperature\":-1}", "temperature"},
                                          {"{\"top_p\":1.1}", "top_p"},
                                          {"{\"min_p\":2}", "min_p"},
                                          {"{\"repetition_penalty\":0}", "repetition_penalty"},
                                          {"{\"presence_penalty\":3}", "presence_penalty"},
                                          {"{\"frequency_penalty\":\"1\"}", "frequency_penalty"},
                                          {"{\"top_k\":-2}", "top_k"},
                                          {"{\"top_k\":1.5}", "top_k"},
                                          {"{\"logit_bias\":[1]}", "logit_bias"},
                                          {"{\"logit_bias\":{\"a\":1}}", "logit_bias"},
                                          {"{\"logit_bias\":{\"1\":101}}", "logit_bias"},
                                          {"{\"ignore_eos\":1}", "ignore_eos"},
                                          {"{\"priority\":\"high\"}", "priority"}};
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct decode_ask o;
        struct call_fault f;
        cr_expect_not(ask(rows[i][0], &o, &f), "%s", rows[i][0]);
        cr_expect_str_eq(f.field, rows[i][1]);
        cr_expect_eq(f.err, ERR_INVALID);
    }
}
