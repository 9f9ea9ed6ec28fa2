/* Patterns: what fits, what does not, and what is said to be beyond understanding. */
#include "backends/decode/adapter_config.h"

#include <criterion/criterion.h>
#include <math.h>

Test(adapter_config, a_pattern_fits_as_a_python_regular_expression_would) {
    static const struct {
        const char *key, *path;
        int want;
    } rows[] = {
        {"q_proj", "model.layers.0.self_attn.q_proj", 1},
        {"self_attn.q_proj", "model.layers.0.self_attn.q_proj", 1},
        {"proj", "model.layers.0.self_attn.q_proj", 0},
        {"q_pro", "model.layers.0.self_attn.q_proj", 0},
        {"model.layers.0.self_attn.q_proj", "model.layers.0.self_attn.q_proj", 1},
        {"^model\\\\.layers\\\\.\\\\d+\\\\.self_attn\\\\.q_proj", "model.layers.10.self_attn.q_proj", 1},
        {"^layers\\\\.0.*", "model.layers.0.self_attn.q_proj", 0},
        {"layers\\\\.[0-9]+\\\\.mlp\\\\.(gate|up)_proj", "model.layers.12.mlp.up_proj", 1},
        {"layers\\\\.[0-9]+\\\\.mlp\\\\.(gate|up)_proj", "model.layers.12.mlp.down_proj", 0},
        {"layers.1.*v_proj$", "model.layers.1.self_attn.v_proj", 1},
        {"layers.1.*v_proj", "model.layers.2.self_attn.v_proj", 0},
        {"layers.*.q_pro?j", "model.layers.3.self_attn.q_prj", 1},
        {"q(?=_)proj", "model.layers.0.self_attn.q_proj", -1},
        {"[a-z]+", "q", -1},
        {"(a.b)", "a", -1},
        {"(q|v)*", "q", -1},
        {"a{2}", "aa", -1},
        {"", "q", -1},
        {"(q", "q", -1},
        {".*.*.*.*.*.*.*.*.*.*.*.*.*.*.*.*x", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", -1},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        cr_expect_eq(adapter_pattern_match(span_of(rows[i].key), span_of(rows[i].path)), rows[i].want, "%s on %s",
                     rows[i].key, rows[i].path);
}

Test(adapter_config, scales_follow_the_paper_and_the_patterns) {
    struct adapter_config c;
    struct str why;
    int64_t rank;
    float scale;
    str_init(&why, 1000);
    cr_assert(adapter_config_read(SPAN("{\"peft_type\":\"LORA\",\"r\":16,\"lora_alpha\":32,\"use_rslora\":true,\"rank_"
                                       "pattern\":{\"q_proj\":4},"
                                       "\"alpha_pattern\":{\"v_proj\":8,\"q_proj\":2}}"),
                                  &c, &why),
              "%s", why.n ? why.at : "");
    cr_assert(adapter_config_module(&c, "model.layers.0.self_attn.q_proj", &rank, &scale, &why));
    cr_expect(rank == 4 && fabsf(scale - 1.0f) < 1e-6f);
    cr_assert(adapter_config_module(&c, "model.layers.0.self_attn.v_proj", &rank, &scale, &why));
    cr_expect(rank == 16 && fabsf(scale - 2.0f) < 1e-6f);
    cr_assert(adapter_config_module(&c, "model.layers.0.mlp.up_proj", &rank, &scale, &why));
    cr_expect(rank == 16 && fabsf(scale - 8.0f) < 1e-6f);
    str_fini(&why);
}
