/* Reads adapter_config.json by one table of fields, as config.json is read: a field that would change the arithmetic must have
 * the one value that is computed here, a field without a row is refused. Half-honoured scaling gives fluent, wrong text. */
#include "backends/decode/adapter_config.h"

#include "backends/decode/adapter.h"

#include <math.h>

enum rule { RANK, ALPHA, RSLORA, DORA, PATTERN_RANK, PATTERN_ALPHA, TARGETS, MUST, SKIP };
static const struct {
    const char *name;
    enum rule rule;
    const char *must; /* MUST: the JSON texts allowed, separated by '|'; null always is */
} fields[] = {
    {"peft_type", MUST, "\"LORA\""},
    {"task_type", MUST, "\"CAUSAL_LM\""},
    {"r", RANK, NULL},
    {"lora_alpha", ALPHA, NULL},
    {"use_rslora", RSLORA, NULL},
    {"use_dora", DORA, NULL},
    {"rank_pattern", PATTERN_RANK, NULL},
    {"alpha_pattern", PATTERN_ALPHA, NULL},
    {"target_modules", TARGETS, NULL},
    {"bias", MUST, "\"none\""},
    {"lora_bias", MUST, "false"},
    {"modules_to_save", MUST, "[]"},
    {"trainable_token_indices", MUST, "[]|{}"},
    {"fan_in_fan_out", MUST, "false"},
    {"alora_invocation_tokens", MUST, "[]"},
    {"layer_replication", MUST, "[]"},
    {"use_qalora", MUST, "false"},
    {"target_parameters", MUST, "[]"},
    {"use_bdlora", MUST, "false|{}"},
    {"arrow_config", MUST, ""},
    {"kasa_config", MUST, ""},
    {"velora_config", MUST, ""},
    {"monteclora_config", MUST, ""},
    {"corda_config", MUST, ""},
    {"eva_config", MUST, "|{}"},
    {"loftq_config", MUST, "{}"},
    {"lora_ga_config", MUST, ""},
    {"megatron_config", MUST, ""},
    {"init_lora_weights", MUST, "true|false|\"gaussian\"|\"orthogonal\"|\"eva\""},
    {"exclude_modules", SKIP, NULL},
    {"layers_to_transform", SKIP, NULL},
    {"layers_pattern", SKIP, NULL},
    {"ensure_weight_tying", MUST, "false"},
    {"qalora_group_size", SKIP, NULL},
    {"lora_dropout", SKIP, NULL},
    {"inference_mode", SKIP, NULL},
    {"megatron_core", SKIP, NULL},
    {"auto_mapping", SKIP, NULL},
    {"base_model_name_or_path", SKIP, NULL},
    {"revision", SKIP, NULL},
    {"peft_version", SKIP, NULL},
    {"runtime_config", SKIP, NULL},
};

static bool bad(struct str *why, const char *field, struct json v, const char *must) {
    return complain(why, ADAPTER_CONFIG_FILE, "%s = %.*s is not supported; it must be %s", field,
                    (int)(v.raw.n < 60 ? v.raw.n : 60), v.raw.at, must);
}

static bool must_is(struct json v, const char *allowed) {
    struct span rest = span_of(allowed), one;
    while (v.kind != JSON_NULL && span_cut(&rest, '|', &one))
        if (one.n && span_equal(one, v.raw))
            return true;
    return v.kind == JSON_NULL;
}

static bool read_bool(const char *name, struct json v, bool *out, struct str *why) {
    *out = v.kind == JSON_TRUE;
    return v.kind == JSON_TRUE || v.kind == JSON_FALSE || v.kind == JSON_NULL || bad(why, name, v, "true or false");
}

static bool read_pattern(const char *name, struct json v, bool ranks, struct json *out, struct str *why) {
    struct json_walk w;
    struct span key;
    struct json one;
    double number;
    if (v.kind == JSON_NULL)
        return true;
    if (v.kind != JSON_OBJECT)
        return bad(why, name, v, "an object of patterns and numbers");
    for (json_walk_init(&w, v); json_walk_next(&w, &key, &one);) {
        int64_t rank;
        if (ranks ? !json_i64(one, &rank) || rank < 1 || rank > ADAPTER_RANK_MAX
                  : !json_f64(one, &number) || !isfinite(number))
            return complain(why, ADAPTER_CONFIG_FILE, "%s.%.*s must be a number%s", name, SPAN_ARG(key),
                            ranks ? " from 1 to 1024" : "");
        if (adapter_pattern_match(key, SPAN("model.layers.0.self_attn.q_proj")) < 0)
            return complain(why, ADAPTER_CONFIG_FILE, "%s.%.*s: this pattern is not supported", name, SPAN_ARG(key));
    }
    *out = v;
    return true;
}

static bool read_field(enum rule rule, const char *name, const char *must, struct json v, struct adapter_config *c,
                       struct str *why) {
    switch (rule) {
    case RANK:
        return (json_i64(v, &c->rank) && c->rank >= 1 && c->rank <= ADAPTER_RANK_MAX) ||
               bad(why, name, v, "a whole number from 1 to 1024");
    case ALPHA:
        return (json_f64(v, &c->alpha) && isfinite(c->alpha)) || bad(why, name, v, "a number");
    case RSLORA:
        return read_bool(name, v, &c->rslora, why);
    case DORA:
        return read_bool(name, v, &c->dora, why);
    case PATTERN_RANK:
        return read_pattern(name, v, true, &c->rank_pattern, why);
    case PATTERN_ALPHA:
        return read_pattern(name, v, false, &c->alpha_pattern, why);
    case TARGETS: /* what is adapted is what has tensors; each of those has to be known */
        return v.kind == JSON_ARRAY || v.kind == JSON_STRING || v.kind == JSON_NULL ||
               bad(why, name, v, "a list or a pattern");
    case MUST:
        return must_is(v, must) || bad(why, name, v, *must ? must : "null");
    case SKIP:
        return true;
    }
    return false;
}

static bool read_row(struct span name, struct json v, struct adapter_config *c, struct str *why) {
    for (size_t i = 0; i < ARRAY_LEN(fields); i++)
        if (json_name_is(name, fields[i].name))
            return read_field(fields[i].rule, fields[i].name, fields[i].must, v, c, why);
    return complain(why, ADAPTER_CONFIG_FILE, "field %.*s is not known, so it cannot be honoured", SPAN_ARG(name));
}

bool adapter_config_read(struct span text, struct adapter_config *out, struct str *why) {
    struct json root, v;
    struct json_fault fault;
    struct json_walk w;
    struct span name;
    *out = (struct adapter_config){.alpha = NAN};
    if (!json_check(text, JSON_DEPTH_MAX, &root, &fault))
        return complain(why, ADAPTER_CONFIG_FILE, "is not JSON at byte %zu: %s", fault.at, fault.what);
    if (root.kind != JSON_OBJECT)
        return complain(why, ADAPTER_CONFIG_FILE, "does not hold an object");
    if (!json_is(json_get(root, "peft_type"), "LORA"))
        return complain(why, ADAPTER_CONFIG_FILE, "peft_type must be \"LORA\"; other kinds are not supported");
    for (json_walk_init(&w, root); json_walk_next(&w, &name, &v);)
        if (!read_row(name, v, out, why))
            return false;
    if (!out->rank)
        return complain(why, ADAPTER_CONFIG_FILE, "r is missing");
    if (isnan(out->alpha))
        return complain(why, ADAPTER_CONFIG_FILE, "lora_alpha is missing");
    return true;
}

/* The first pattern that fits, as PEFT looks them up. */
static struct json pattern_find(struct json patterns, const char *path) {
    struct json_walk w;
    struct span key;
    struct json v;
    for (json_walk_init(&w, patterns); json_walk_next(&w, &key, &v);)
        if (adapter_pattern_match(key, span_of(path)) == 1)
            return v;
    return (struct json){0};
}

bool adapter_config_module(const struct adapter_config *c, const char *path, int64_t *rank, float *scale,
                           struct str *why) {
    struct json r = pattern_find(c->rank_pattern, path), a = pattern_find(c->alpha_pattern, path);
    double alpha = c->alpha;
    *rank = c->rank;
    if ((r.kind && !json_i64(r, rank)) || (a.kind && !json_f64(a, &alpha)))
        return complain(why, ADAPTER_CONFIG_FILE, "the pattern of %s gives no number", path);
    *scale = (float)(alpha / (c->rslora ? sqrt((double)*rank) : (double)*rank));
    return true;
}
