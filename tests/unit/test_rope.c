/* Fields of rope_scaling: what each kind needs, what it refuses, and that positions beyond all scaling stay what they were. */
#include "backends/decode/rope.h"

#include <criterion/criterion.h>
#include <math.h>

static const struct {
    const char *json, *sentence;
} rows[] = {
    {"null", NULL},
    {"{\"rope_type\":\"default\",\"rope_theta\":5e5}", NULL},
    {"{\"type\":\"linear\",\"factor\":2}", NULL},
    {"{\"type\":\"dynamic\",\"factor\":2.5}", NULL},
    {"{\"rope_type\":\"yarn\",\"factor\":4,\"beta_fast\":16,\"beta_slow\":2,\"attention_factor\":1.2}", NULL},
    {"7", "f: x must be null or an object"},
    {"{\"rope_type\":\"longrope\",\"factor\":2}",
     "f: x.rope_type = \"longrope\" is not supported; default, linear, dynamic, llama3 and yarn are"},
    {"{\"type\":\"linear\"}", "f: x.factor is missing, which rope_type linear needs"},
    {"{\"type\":\"linear\",\"factor\":-1}", "f: x.factor must be a positive number"},
    {"{\"type\":\"linear\",\"factor\":2,\"beta_fast\":3}", "f: x.beta_fast is not supported with rope_type linear"},
    {"{\"factor\":2}", "f: x.factor is not supported with rope_type default"},
    {"{\"type\":\"yarn\",\"factor\":2,\"mscale\":1}", "f: x.mscale = 1 is not supported"},
    {"{\"type\":\"llama3\",\"factor\":2,\"low_freq_factor\":1,\"high_freq_factor\":4}",
     "f: x.original_max_position_embeddings is missing, which rope_type llama3 needs"},
    {"{\"type\":\"llama3\",\"factor\":2,\"low_freq_factor\":4,\"high_freq_factor\":4,"
     "\"original_max_position_embeddings\":64}",
     "f: x.high_freq_factor must be over low_freq_factor"},
    {"{\"type\":\"yarn\",\"factor\":2,\"original_max_position_embeddings\":0}",
     "f: x.original_max_position_embeddings must be a positive whole number"},
};

Test(rope, a_field_that_is_missing_or_means_nothing_is_named) {
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct rope r = {.theta = 10000};
        struct json v;
        struct json_fault fault;
        struct str why;
        str_init(&why, 1000);
        cr_assert(json_check(span_of(rows[i].json), JSON_DEPTH_MAX, &v, &fault));
        bool ok = rope_read("f", SPAN("x"), v, &r, &why);
        cr_expect_eq(ok, !rows[i].sentence, "%s", rows[i].json);
        cr_expect_str_eq(why.n ? why.at : "", rows[i].sentence ? rows[i].sentence : "");
        str_fini(&why);
    }
}

Test(rope, fast_pairs_stay_and_slow_ones_are_stretched) {
    const struct rope plain = {.theta = 10000};
    const struct rope llama3 = {ROPE_LLAMA3, 10000, 8, 1, 4, 0, 0, 0, 8192};
    const struct rope yarn = {ROPE_YARN, 10000, 4, 0, 0, 0, 0, 0, 4096};
    double was[64], is[64];
    cr_expect_eq(rope_turns(&plain, 128, 8192, was), 1);
    cr_expect(fabs(was[32] - 0.01) < 1e-12);
    cr_expect_eq(rope_turns(&llama3, 128, 131072, is), 1);
    cr_expect(is[0] == was[0] && fabs(is[63] * 8 - was[63]) < 1e-12);
    cr_expect(is[40] < was[40] || is[45] < was[45]);
    cr_expect(fabs(rope_turns(&yarn, 128, 16384, is) - (0.1 * log(4) + 1)) < 1e-12);
    cr_expect(is[0] == was[0] && fabs(is[63] * 4 - was[63]) < 1e-12);
    for (int i = 1; i < 64; i++)
        cr_expect(is[i] < is[i - 1]);
}
