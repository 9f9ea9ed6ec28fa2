/* One row a family. Families differ in what their code does without being told: biases on q, k and v, norms on heads, which
 * layers are windowed, and what a field means that is left out. */
#include "backends/decode/model_family.h"

#define CONFIG_FILE "config.json"
#define MISTRAL_WINDOW 4096 /* what its code takes when the field is left out */

const char *const model_family_names[] = {"Llama", "Mistral", "Qwen2", "Qwen3"};

static const struct row {
    const char *type, *architecture;
    bool qkv_bias, qk_norm, needs_kv_heads, needs_head_dim;
    enum { NO_WINDOW, ALL_LAYERS, UPPER_LAYERS } window;
} rows[] = {
    [FAMILY_LLAMA] = {"llama", "LlamaForCausalLM", false, false, false, false, NO_WINDOW},
    [FAMILY_MISTRAL] = {"mistral", "MistralForCausalLM", false, false, true, false, ALL_LAYERS},
    [FAMILY_QWEN2] = {"qwen2", "Qwen2ForCausalLM", true, false, true, false, UPPER_LAYERS},
    [FAMILY_QWEN3] = {"qwen3", "Qwen3ForCausalLM", false, true, true, true, UPPER_LAYERS},
};

#define SHOWN(v) (int)((v).raw.n < 60 ? (v).raw.n : 60), (v).raw.at ? (v).raw.at : "missing"

bool model_family_find(struct json root, struct model_config *c, struct str *why) {
    struct json type = json_get(root, "model_type"), kinds = json_get(root, "architectures");
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        if (!json_is(type, rows[i].type))
            continue;
        c->family = (enum model_family)i;
        if (kinds.kind == JSON_NONE || kinds.kind == JSON_NULL ||
            (json_count(kinds) == 1 && json_is(json_at(kinds, 0), rows[i].architecture)))
            return true;
        return complain(why, CONFIG_FILE, "architectures = %.*s is not supported; it must be [\"%s\"]", SHOWN(kinds),
                        rows[i].architecture);
    }
    return complain(why, CONFIG_FILE, "model_type = %.*s is not supported; llama, mistral, qwen2 and qwen3 are",
                    SHOWN(type));
}

static bool given(struct json v) {
    return v.kind != JSON_NONE && v.kind != JSON_NULL;
}

static bool read_count(struct json root, const char *name, int64_t least, int64_t otherwise, int64_t *out,
                       struct str *why) {
    struct json v = json_get(root, name);
    *out = otherwise;
    return !given(v) || (json_i64(v, out) && *out >= least && *out <= MODEL_CONTEXT_MAX) ||
           complain(why, CONFIG_FILE, "%s must be a whole number from %lld to %d", name, (long long)least,
                    MODEL_CONTEXT_MAX);
}

static bool read_layer_types(struct json types, struct model_config *c, struct str *why) {
    if (types.kind != JSON_ARRAY || json_count(types) != (size_t)c->layers)
        return complain(why, CONFIG_FILE, "layer_types must be a list with a word for each of the %lld layers",
                        (long long)c->layers);
    struct json_walk w;
    struct span name;
    struct json one;
    int64_t i = 0;
    for (json_walk_init(&w, types); json_walk_next(&w, &name, &one); i++) {
        c->windowed[i] = json_is(one, "sliding_attention");
        if (!c->windowed[i] && !json_is(one, "full_attention"))
            return complain(why, CONFIG_FILE, "layer_types[%lld] = %.*s is not supported", (long long)i, SHOWN(one));
    }
    return true;
}

static bool read_window(struct json root, const struct row *row, struct model_config *c, struct str *why) {
    struct json use = json_get(root, "use_sliding_window"), window = json_get(root, "sliding_window");
    struct json types = json_get(root, "layer_types");
    int64_t from = 0;
    if (row->window == NO_WINDOW && (given(window) || use.kind == JSON_TRUE))
        return complain(why, CONFIG_FILE, "sliding_window = %.*s is not supported in a %s", SHOWN(window),
                        model_family_names[c->family]);
    if (!read_count(root, "sliding_window", 1, 0, &c->window, why) ||
        !read_count(root, "max_window_layers", 0, 0, &from, why))
        return false;
    if (row->window == ALL_LAYERS && window.kind == JSON_NONE)
        c->window = MISTRAL_WINDOW;
    if (row->window == UPPER_LAYERS && use.kind == JSON_TRUE && !c->window)
        return complain(why, CONFIG_FILE, "use_sliding_window is true but sliding_window is missing");
    if (row->window == UPPER_LAYERS && use.kind == JSON_TRUE && !given(types) &&
        !given(json_get(root, "max_window_layers")))
        return complain(why, CONFIG_FILE, "use_sliding_window is true but max_window_layers is missing");
    if (row->window == UPPER_LAYERS && use.kind != JSON_TRUE)
        c->window = 0;
    for (int64_t i = 0; i < c->layers; i++)
        c->windowed[i] = row->window == ALL_LAYERS || i >= from;
    if (given(types) && !read_layer_types(types, c, why))
        return false;
    for (int64_t i = 0; i < c->layers; i++)
        c->windowed[i] = c->windowed[i] && c->window;
    return true;
}

/* With yarn most configurations keep the length before the scaling in max_position_embeddings. */
static bool read_positions(struct model_config *c, struct str *why) {
    double stretched = (double)c->rope.original * c->rope.factor;
    if (c->rope.kind != ROPE_YARN || stretched <= (double)c->max_positions)
        return true;
    if (stretched > MODEL_CONTEXT_MAX)
        return complain(why, CONFIG_FILE, "rope_scaling gives %.0f positions; at most %d are supported", stretched,
                        MODEL_CONTEXT_MAX);
    c->max_positions = (int64_t)stretched;
    return true;
}

bool model_family_apply(struct json root, struct model_config *c, struct str *why) {
    const struct row *row = &rows[c->family];
    if (row->needs_kv_heads && !given(json_get(root, "num_key_value_heads")))
        return complain(why, CONFIG_FILE, "num_key_value_heads is missing");
    if (row->needs_head_dim && !given(json_get(root, "head_dim")))
        return complain(why, CONFIG_FILE, "head_dim is missing");
    if (c->o_bias && (c->family == FAMILY_MISTRAL || c->family == FAMILY_QWEN2))
        return complain(why, CONFIG_FILE, "attention_bias = true is not supported in a %s",
                        model_family_names[c->family]);
    if (c->mlp_bias && c->family != FAMILY_LLAMA)
        return complain(why, CONFIG_FILE, "mlp_bias = true is not supported in a %s", model_family_names[c->family]);
    c->qkv_bias = row->qkv_bias || c->o_bias;
    c->qk_norm = row->qk_norm;
    return read_positions(c, why) && read_window(root, row, c, why);
}
