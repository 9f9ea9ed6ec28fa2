/* Directories that are wrong. The sentence names the file and the tensor or field, so that an operator knows what to fix. */
#include "backends/decode/model.h"
#include "tests/support/random_model.h"

#include <criterion/criterion.h>
#include <stdio.h>

static void expect(const struct random_model *m, const char *sentence) {
    struct str why;
    str_init(&why, 4000);
    struct model *got = model_open(m->directory, "auto", &why);
    if (!sentence)
        cr_expect(got, "%s", why.at);
    else
        cr_expect(!got && why.n && strstr(why.at, sentence), "wanted: %s\n   got: %s", sentence,
                  why.n ? why.at : "no complaint");
    model_close(got);
    str_fini(&why);
}

static const struct {
    const char *file, *from, *to, *sentence;
} rows[] = {
    {"config.json", "\"hidden_size\":44", "\"hidden_size\":48",
     "model.safetensors: tensor model.embed_tokens.weight: shape is [283, 44], config.json asks for [283, 48]"},
    {"config.json", "\"num_hidden_layers\":2", "\"num_hidden_layers\":3",
     "model.safetensors: tensor model.layers.2.self_attn.q_proj.weight is missing"},
    {"config.json", "\"num_hidden_layers\":2", "\"num_hidden_layers\":1",
     "model.safetensors: tensor model.layers.1.self_attn.q_proj.weight: is not part of a Llama"},
    {"config.json", "\"tie_word_embeddings\":true", "\"tie_word_embeddings\":false",
     "model.safetensors: tensor lm_head.weight is missing"},
    {"config.json", "\"intermediate_size\":92", "\"intermediate_size\":90",
     "model.layers.0.mlp.gate_proj.weight: shape is [92, 44], config.json asks for [90, 44]"},
    {"model.safetensors", "layers.1.input_layernorm", "layers.1.input_layerMorm",
     "tensor model.layers.1.input_layernorm.weight is missing"},
    {"model.safetensors", "\"dtype\":\"F32\",\"shape\":[44]", "\"dtype\":\"I32\",\"shape\":[44]",
     "input_layernorm.weight: dtype I32 is not supported"},
    {"model.safetensors", "\"shape\":[44]", "\"shape\":[40]", "input_layernorm.weight: its shape needs 160 bytes"},
    {"config.json", "\"model_type\":\"llama\"", "\"model_type\":\"qwen2\"",
     "config.json: architectures = [\"LlamaForCausalLM\"] is not supported; it must be [\"Qwen2ForCausalLM\"]"},
    {"config.json", "\"model_type\":\"llama\"", "\"model_type\":\"mamba\"",
     "config.json: model_type = \"mamba\" is not supported; llama, mistral, qwen2 and qwen3 are"},
    {"config.json", "\"rope_scaling\":null", "\"rope_parameters\":{\"rope_type\":\"default\",\"rope_theta\":5e5}",
     NULL},
    {"config.json", "\"rope_scaling\":null", "\"frobnicate\":3", "config.json: field frobnicate is not known"},
    {"config.json", "\"attention_bias\":false", "\"attention_bias\":true",
     "model.safetensors: tensor model.layers.0.self_attn.q_proj.bias is missing"},
    {"config.json", "\"mlp_bias\":false", "\"mlp_bias\":true",
     "model.safetensors: tensor model.layers.0.mlp.gate_proj.bias is missing"},
    {"config.json", "\"mlp_bias\":false", "\"mlp_bias\":1", "config.json: mlp_bias must be true or false"},
    {"config.json", "\"mlp_bias\":false", "\"sliding_window\":64",
     "config.json: sliding_window = 64 is not supported in a Llama"},
    {"config.json", "\"mlp_bias\":false", "\"layer_types\":[\"full_attention\"]",
     "config.json: layer_types must be a list with a word for each of the 2 layers"},
    {"config.json", "\"mlp_bias\":false", "\"layer_types\":[\"full_attention\",\"linear_attention\"]",
     "config.json: layer_types[1] = \"linear_attention\" is not supported"},
    {"config.json", "\"hidden_act\":\"silu\"", "\"hidden_act\":\"gelu\"",
     "config.json: hidden_act = \"gelu\" is not supported"},
    {"config.json", "\"rope_scaling\":null", "\"quantization_config\":{\"bits\":4}",
     "config.json: quantization_config = {\"bits\":4} is not supported"},
    {"config.json", "\"num_hidden_layers\":2", "\"num_hidden_layers\":1000000000",
     "config.json: num_hidden_layers must be a whole number from 1 to 512"},
    {"config.json", "\"num_attention_heads\":6", "\"num_attention_heads\":5",
     "config.json: num_attention_heads must be a multiple of num_key_value_heads"},
    {"config.json", "\"head_dim\":10", "\"head_dim\":9", "config.json: head_dim must be even"},
    {"config.json", "\"vocab_size\":283,", "", "config.json: vocab_size is missing"},
    {"config.json", "\"eos_token_id\":0", "\"eos_token_id\":\"x\"", "config.json: eos_token_id must be a token id"},
    {"config.json", "{", "", "config.json: is not JSON at byte"},
};

Test(model, a_wrong_directory_gets_a_sentence_with_file_and_name) {
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct random_model m;
        random_model_write(&m, &shape_small);
        random_file_edit(&m, rows[i].file, rows[i].from, rows[i].to);
        expect(&m, rows[i].sentence);
        random_model_remove(&m);
    }
}

Test(model, missing_files_are_named) {
    struct random_model m;
    char path[RANDOM_MODEL_PATH_MAX + 64];
    random_model_write(&m, &shape_small);
    snprintf(path, sizeof path, "%s/model.safetensors", m.directory);
    remove(path);
    expect(&m, "model.safetensors: is not in ");
    snprintf(path, sizeof path, "%s/config.json", m.directory);
    remove(path);
    expect(&m, "config.json: cannot be opened in ");
    random_model_remove(&m);
}

Test(model, shards_are_found_by_the_index_and_names_stay_in_the_directory) {
    static const struct {
        const char *index, *sentence;
    } index[] = {
        {"{\"weight_map\":{\"model.norm.weight\":\"a.safetensors\"}}", NULL},
        {"{\"weight_map\":{\"model.norm.weight\":\"../a.safetensors\"}}", "../a.safetensors: is not a plain file name"},
        {"{\"weight_map\":{\"model.norm.weight\":\"..\"}}", "..: is not a plain file name"},
        {"{\"weight_map\":{\"model.norm.weight\":7}}", "must give a file name for each tensor"},
        {"{\"weight_map\":{\"ghost\":\"a.safetensors\"}}", "a.safetensors: tensor ghost: "},
        {"{}", "model.safetensors.index.json: has no weight_map"},
    };
    struct random_model m;
    struct str bytes;
    char path[RANDOM_MODEL_PATH_MAX + 64];
    random_model_write(&m, &shape_small);
    str_init(&bytes, 1 << 24);
    random_file_load(&m, "model.safetensors", &bytes);
    random_file_save(&m, "a.safetensors", str_span(&bytes));
    snprintf(path, sizeof path, "%s/model.safetensors", m.directory);
    remove(path);
    for (size_t i = 0; i < ARRAY_LEN(index); i++) {
        random_file_save(&m, "model.safetensors.index.json", span_of(index[i].index));
        expect(&m, index[i].sentence);
    }
    str_fini(&bytes);
    random_model_remove(&m);
}

Test(model, ends_come_from_both_files_and_types_can_be_turned) {
    struct random_model m;
    struct str why;
    str_init(&why, 1000);
    random_model_write(&m, &shape_small);
    struct model *got = model_open(m.directory, "bf16", &why);
    cr_assert(got, "%s", why.at);
    cr_expect(model_config_is_end(&got->config, 0) && model_config_is_end(&got->config, 2));
    cr_expect_not(model_config_is_end(&got->config, 1));
    cr_expect_eq(got->embed.dtype, DTYPE_BF16);
    float exact = random_model_get(&m, "model.embed_tokens.weight")[5];
    float turned = dtype_get(got->embed.at, DTYPE_BF16, 5);
    cr_expect(turned - exact <= exact * 0x1p-8f + 1e-6f && exact - turned <= (exact < 0 ? -exact : exact) * 0x1p-8f);
    model_close(got);
    cr_expect_null(model_open(m.directory, "int4", &why));
    cr_expect_str_eq(why.at, "dtype: must be auto, f32 or bf16, not int4");
    str_fini(&why);
    random_model_remove(&m);
}

Test(model, stored_halves_mean_what_they_say) {
    static const struct {
        uint16_t half;
        float value;
    } halves[] = {{0x3c00, 1}, {0xc000, -2}, {0x7bff, 65504}, {0x0001, 0x1p-24f}, {0x83ff, -0x1.ff8p-15f}, {0, 0}};
    for (size_t i = 0; i < ARRAY_LEN(halves); i++)
        cr_expect_eq(f16_to_f32(halves[i].half), halves[i].value, "%zu", i);
    cr_expect(f16_to_f32(0x7e01) != f16_to_f32(0x7e01));
    cr_expect(f16_to_f32(0x7c00) > 3e38f && f16_to_f32(0xfc00) < -3e38f);
    cr_expect_eq(f32_to_bf16(1.00390625f), 0x3f80); /* half way: to even */
    cr_expect_eq(f32_to_bf16(1.01171875f), 0x3f82);
    cr_expect_eq(f32_to_bf16(-2), 0xc000);
}
