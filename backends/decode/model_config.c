/* Reads the shape of a model from config.json by one table of fields. Every field of the file has a row: a number with its
 * bounds, a value that must be exactly this one, or a field known not to matter here. A field without a row is refused,
 * since an unknown field (a scaling, a window, a bias) silently ignored is a model that answers nonsense. */
#include "backends/decode/model_config.h"

#include "backends/decode/model_family.h"

#include <stddef.h>

#define CONFIG_FILE "config.json"
#define GENERATION_FILE "generation_config.json"

enum rule { COUNT, REAL, BOOL, ENDS, MUST, SKIP, ROPE, LATER };
struct field {
    const char *name;
    enum rule rule;
    size_t at;        /* COUNT, REAL, BOOL: the member */
    int64_t max;      /* COUNT: 1..max */
    const char *must; /* MUST: the JSON texts allowed, separated by '|'; null is always allowed */
};
#define MEMBER(m) offsetof(struct model_config, m)

static const struct field fields[] = {
    {"model_type", LATER, 0, 0, NULL},
    {"architectures", LATER, 0, 0, NULL},
    {"hidden_size", COUNT, MEMBER(hidden), MODEL_DIM_MAX, NULL},
    {"intermediate_size", COUNT, MEMBER(intermediate), MODEL_DIM_MAX, NULL},
    {"num_hidden_layers", COUNT, MEMBER(layers), MODEL_LAYERS_MAX, NULL},
    {"num_attention_heads", COUNT, MEMBER(heads), MODEL_DIM_MAX, NULL},
    {"num_key_value_heads", COUNT, MEMBER(kv_heads), MODEL_DIM_MAX, NULL},
    {"head_dim", COUNT, MEMBER(head_dim), MODEL_DIM_MAX, NULL},
    {"vocab_size", COUNT, MEMBER(vocabulary), MODEL_DIM_MAX, NULL},
    {"max_position_embeddings", COUNT, MEMBER(max_positions), MODEL_CONTEXT_MAX, NULL},
    {"rms_norm_eps", REAL, MEMBER(norm_eps), 0, NULL},
    {"rope_theta", REAL, MEMBER(rope.theta), 0, NULL},
    {"rope_scaling", ROPE, 0, 0, NULL},
    {"rope_parameters", ROPE, 0, 0, NULL},
    {"tie_word_embeddings", BOOL, MEMBER(tied), 0, NULL},
    {"eos_token_id", ENDS, 0, 0, NULL},
    {"hidden_act", MUST, 0, 0, "\"silu\"|\"swish\""},
    {"attention_bias", BOOL, MEMBER(o_bias), 0, NULL},
    {"mlp_bias", BOOL, MEMBER(mlp_bias), 0, NULL},
    {"rope_interleaved", MUST, 0, 0, "false"},
    {"is_llama_config", MUST, 0, 0, "true"},
    {"pretraining_tp", MUST, 0, 0, "1"},
    {"is_encoder_decoder", MUST, 0, 0, "false"},
    {"add_cross_attention", MUST, 0, 0, "false"},
    {"sliding_window", LATER, 0, 0, NULL},
    {"use_sliding_window", LATER, 0, 0, NULL},
    {"max_window_layers", LATER, 0, 0, NULL},
    {"layer_types", LATER, 0, 0, NULL},
    {"use_mrope", MUST, 0, 0, "false"},
    {"quantization_config", MUST, 0, 0, ""},
    {"bos_token_id", SKIP, 0, 0, NULL},
    {"pad_token_id", SKIP, 0, 0, NULL},
    {"unk_token_id", SKIP, 0, 0, NULL},
    {"torch_dtype", SKIP, 0, 0, NULL},
    {"dtype", SKIP, 0, 0, NULL},
    {"transformers_version", SKIP, 0, 0, NULL},
    {"transformers.js_config", SKIP, 0, 0, NULL},
    {"use_cache", SKIP, 0, 0, NULL},
    {"initializer_range", SKIP, 0, 0, NULL},
    {"attention_dropout", SKIP, 0, 0, NULL},
    {"_name_or_path", SKIP, 0, 0, NULL},
    {"_attn_implementation_autoset", SKIP, 0, 0, NULL},
    {"output_attentions", SKIP, 0, 0, NULL},
    {"output_hidden_states", SKIP, 0, 0, NULL},
    {"return_dict", SKIP, 0, 0, NULL},
    {"torchscript", SKIP, 0, 0, NULL},
    {"chunk_size_feed_forward", SKIP, 0, 0, NULL},
};

static const struct field *field_find(struct span raw_name) {
    for (size_t i = 0; i < ARRAY_LEN(fields); i++)
        if (json_name_is(raw_name, fields[i].name))
            return &fields[i];
    return NULL;
}

static bool must_is(struct json v, const char *allowed) {
    struct span rest = span_of(allowed), one;
    if (v.kind == JSON_NULL)
        return true;
    char tight[128];
    size_t n = 0;
    for (size_t i = 0; i < v.raw.n && n < sizeof tight; i++)
        if (!strchr(" \t\r\n", v.raw.at[i]))
            tight[n++] = v.raw.at[i];
    while (span_cut(&rest, '|', &one))
        if (one.n && span_equal(one, span_from(tight, n)))
            return true;
    return false;
}

bool model_config_is_end(const struct model_config *c, int64_t id) {
    for (size_t i = 0; i < c->n_ends; i++)
        if (c->ends[i] == id)
            return true;
    return false;
}

void model_config_add_end(struct model_config *c, int64_t id) {
    if (id >= 0 && c->n_ends < MODEL_ENDS_MAX && !model_config_is_end(c, id))
        c->ends[c->n_ends++] = id;
}

static bool read_ends(const char *file, struct json v, struct model_config *c, struct str *why) {
    int64_t id;
    if (v.kind == JSON_NULL)
        return true;
    if (v.kind == JSON_NUMBER && json_i64(v, &id)) {
        model_config_add_end(c, id);
        return true;
    }
    if (v.kind != JSON_ARRAY)
        return complain(why, file, "eos_token_id must be a token id or a list of them");
    struct json_walk w;
    struct span name;
    struct json one;
    for (json_walk_init(&w, v); json_walk_next(&w, &name, &one); model_config_add_end(c, id))
        if (!json_i64(one, &id))
            return complain(why, file, "eos_token_id must be a token id or a list of them");
    return true;
}

static bool read_field(const struct field *f, struct span name, struct json v, struct model_config *c,
                       struct str *why) {
    char *base = (char *)c;
    int64_t *count = (int64_t *)(void *)(base + f->at);
    double *real = (double *)(void *)(base + f->at);
    switch (f->rule) {
    case COUNT:
        if (v.kind == JSON_NULL && (f->at == MEMBER(kv_heads) || f->at == MEMBER(head_dim)))
            return true;
        if (json_i64(v, count) && *count >= 1 && *count <= f->max)
            return true;
        return complain(why, CONFIG_FILE, "%s must be a whole number from 1 to %lld", f->name, (long long)f->max);
    case REAL:
        if (json_f64(v, real) && *real > 0 && *real < 1e12)
            return true;
        return complain(why, CONFIG_FILE, "%s must be a positive number", f->name);
    case BOOL:
        *(bool *)(void *)(base + f->at) = v.kind == JSON_TRUE;
        return v.kind == JSON_TRUE || v.kind == JSON_FALSE ||
               complain(why, CONFIG_FILE, "%s must be true or false", f->name);
    case ENDS:
        return read_ends(CONFIG_FILE, v, c, why);
    case ROPE:
        return rope_read(CONFIG_FILE, name, v, &c->rope, why);
    case MUST:
        return must_is(v, f->must) ||
               complain(why, CONFIG_FILE, "%s = %.*s is not supported%s%s", f->name, (int)(v.raw.n < 60 ? v.raw.n : 60),
                        v.raw.at, *f->must ? "; it must be " : "", f->must);
    case SKIP:
    case LATER: /* with its family */
        return true;
    }
    return false;
}

static bool config_check(struct model_config *c, struct str *why) {
    const struct {
        const char *name;
        bool bad;
    } rows[] = {
        {"hidden_size is missing", !c->hidden},
        {"intermediate_size is missing", !c->intermediate},
        {"num_hidden_layers is missing", !c->layers},
        {"num_attention_heads is missing", !c->heads},
        {"vocab_size is missing", !c->vocabulary},
        {"max_position_embeddings is missing", !c->max_positions},
        {"num_attention_heads must be a multiple of num_key_value_heads", c->kv_heads && c->heads % c->kv_heads},
        {"hidden_size must be a multiple of num_attention_heads when head_dim is not given",
         c->heads && !c->head_dim && c->hidden % c->heads},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        if (rows[i].bad)
            return complain(why, CONFIG_FILE, "%s", rows[i].name);
    if (!c->kv_heads)
        c->kv_heads = c->heads;
    if (!c->head_dim)
        c->head_dim = c->hidden / c->heads;
    if (c->head_dim % 2)
        return complain(why, CONFIG_FILE, "head_dim must be even, not %lld", (long long)c->head_dim);
    if (c->heads * c->head_dim > MODEL_DIM_MAX)
        return complain(why, CONFIG_FILE, "num_attention_heads times head_dim is over %d", MODEL_DIM_MAX);
    return true;
}

static bool read_fields(struct json root, struct model_config *c, struct str *why) {
    struct json_walk w;
    struct span name;
    struct json v;
    if (!model_family_find(root, c, why))
        return false;
    for (json_walk_init(&w, root); json_walk_next(&w, &name, &v);) {
        const struct field *f = field_find(name);
        if (!f)
            return complain(why, CONFIG_FILE, "field %.*s is not known, so it cannot be honoured", SPAN_ARG(name));
        if (!read_field(f, name, v, c, why))
            return false;
    }
    return config_check(c, why) && model_family_apply(root, c, why);
}

/* Sampling defaults in it are the server's to choose, not the model's; only the end tokens are facts. */
static bool read_generation(const char *directory, struct model_config *c, struct str *why) {
    struct file f;
    struct json root;
    if (!model_file_exists(directory, GENERATION_FILE))
        return true;
    if (!model_file_open_json(&f, directory, GENERATION_FILE, &root, why))
        return false;
    struct json ends = json_get(root, "eos_token_id");
    bool ok = ends.kind == JSON_NONE || read_ends(GENERATION_FILE, ends, c, why);
    model_file_close(&f);
    return ok;
}

bool model_config_read(const char *directory, struct model_config *out, struct str *why) {
    struct file f;
    struct json root;
    *out = (struct model_config){.norm_eps = 1e-6, .rope = {.theta = 10000.0}};
    if (!model_file_open_json(&f, directory, CONFIG_FILE, &root, why))
        return false;
    bool ok = read_fields(root, out, why);
    model_file_close(&f);
    return ok && read_generation(directory, out, why);
}
