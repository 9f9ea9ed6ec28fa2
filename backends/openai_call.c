/* Calls of OpenAI chat, completions and embeddings: the tables of known fields, with their types and ranges, and what
 * each of them says about size, determinism and needed capabilities. */
#include "backends/dialect.h"

static bool see_stream_options(struct check *k, struct json v) {
    static const struct rule rules[] = {{"include_usage", OF_BOOL, 0, 0, 0, NULL},
                                        {"include_obfuscation", OF_BOOL, 0, 0, 0, NULL}};
    k->call->include_usage = json_get(v, "include_usage").kind == JSON_TRUE;
    return check_object(k, v, rules, ARRAY_LEN(rules), false);
}

static bool see_choices(struct check *k, struct json v) {
    int64_t n;
    if (!json_i64(v, &n))
        return true;
    if (n > k->call->size.choices)
        k->call->size.choices = n;
    k->call->traits.many = k->call->size.choices > 1;
    return true;
}

static bool see_logprobs(struct check *k, struct json v) {
    if (v.kind == JSON_TRUE || (v.kind == JSON_NUMBER && !json_is_zero(v)))
        k->call->caps |= CAP_LOGPROBS;
    return true;
}

static bool see_store(struct check *k, struct json v) {
    k->call->traits.stored = v.kind == JSON_TRUE;
    return true;
}

static bool see_modality(struct check *k, struct json v) {
    if (json_is(v, "audio")) {
        k->call->traits.audio_output = true;
        k->call->caps |= CAP_AUDIO;
    }
    return true;
}

static bool see_modalities(struct check *k, struct json v) {
    return see_strings(k, v) && check_each(k, v, see_modality);
}

static bool see_audio(struct check *k, struct json v) {
    (void)v;
    k->call->traits.audio_output = true;
    k->call->caps |= CAP_AUDIO;
    return true;
}

/* The search models of chat charge one search a call, and nothing for what they read there. */
static bool see_search(struct check *k, struct json v) {
    (void)v;
    k->call->size.web_searches = 1;
    k->call->traits.server_tools = true;
    return true;
}

static bool see_format(struct check *k, struct json v) {
    static const struct rule rules[] = {{"type", OF_STRING, RULE_REQUIRED, 0, 0, NULL},
                                        {"json_schema", OF_OBJECT, 0, 0, 0, NULL}};
    if (json_is(json_get(v, "type"), "json_schema"))
        k->call->caps |= CAP_JSON_SCHEMA;
    return check_object(k, v, rules, ARRAY_LEN(rules), false);
}

static bool see_function(struct check *k, struct json v) {
    static const struct rule rules[] = {{"name", OF_STRING, RULE_REQUIRED, 0, 0, NULL},
                                        {"description", OF_STRING, 0, 0, 0, NULL},
                                        {"parameters", OF_OBJECT, 0, 0, 0, NULL},
                                        {"strict", OF_BOOL, 0, 0, 0, NULL}};
    return check_object(k, v, rules, ARRAY_LEN(rules), false);
}

static bool see_tool(struct check *k, struct json v) {
    static const struct rule rules[] = {{"type", OF_STRING, RULE_REQUIRED, 0, 0, NULL},
                                        {"function", OF_OBJECT, 0, 0, 0, see_function},
                                        {"custom", OF_OBJECT, 0, 0, 0, NULL}};
    struct json type = json_member(v, "type");
    k->call->size.tools++;
    k->call->caps |= CAP_TOOLS;
    if (!json_is(type, "function") && !json_is(type, "custom")) {
        see_server_tool(k, type, -1, "has no bound on its calls");
        if (!check_stored(k, v))
            return false;
    }
    return check_object(k, v, rules, ARRAY_LEN(rules), false);
}

static bool see_tools(struct check *k, struct json v) {
    return check_each(k, v, see_tool);
}

static bool see_old_function(struct check *k, struct json v) {
    k->call->size.tools++;
    k->call->caps |= CAP_TOOLS;
    return see_function(k, v);
}

static bool see_functions(struct check *k, struct json v) {
    return check_each(k, v, see_old_function);
}

static bool see_image(struct check *k, struct json v) {
    static const struct rule rules[] = {{"url", OF_STRING, RULE_REQUIRED, 0, 0, NULL},
                                        {"detail", OF_STRING, 0, 0, 0, NULL}};
    k->call->size.images++;
    k->call->caps |= CAP_VISION;
    check_url(k, v.kind == JSON_STRING ? v : json_member(v, "url"));
    return v.kind == JSON_STRING || check_object(k, v, rules, ARRAY_LEN(rules), false);
}

static bool see_input_audio(struct check *k, struct json v) {
    static const struct rule rules[] = {{"data", OF_STRING, RULE_REQUIRED, 0, 0, NULL},
                                        {"format", OF_STRING, 0, 0, 0, NULL}};
    k->call->size.audios++;
    k->call->caps |= CAP_AUDIO;
    return check_object(k, v, rules, ARRAY_LEN(rules), false);
}

static bool see_file(struct check *k, struct json v) {
    static const struct rule rules[] = {{"file_id", OF_STRING, RULE_STORED, 0, 0, NULL},
                                        {"file_data", OF_STRING, 0, 0, 0, NULL},
                                        {"filename", OF_STRING, 0, 0, 0, NULL}};
    k->call->size.documents++;
    k->call->caps |= CAP_DOCUMENTS;
    return check_object(k, v, rules, ARRAY_LEN(rules), false);
}

static bool see_part(struct check *k, struct json v) {
    static const struct rule rules[] = {
        {"type", OF_STRING, RULE_REQUIRED, 0, 0, NULL},       {"text", OF_STRING, 0, 0, 0, check_text},
        {"refusal", OF_STRING, 0, 0, 0, check_text},          {"image_url", OF_OBJECT | OF_STRING, 0, 0, 0, see_image},
        {"input_audio", OF_OBJECT, 0, 0, 0, see_input_audio}, {"file", OF_OBJECT, 0, 0, 0, see_file},
        {"prompt_cache_breakpoint", OF_ANY, 0, 0, 0, NULL},   {"cache_control", OF_ANY, 0, 0, 0, NULL}};
    return check_object(k, v, rules, ARRAY_LEN(rules), true);
}

static bool see_content(struct check *k, struct json v) {
    return v.kind == JSON_STRING ? check_text(k, v) : check_each(k, v, see_part);
}

static bool see_called(struct check *k, struct json v) {
    static const struct rule rules[] = {{"name", OF_STRING, RULE_READ, 0, 0, NULL},
                                        {"arguments", OF_STRING | OF_OBJECT, RULE_READ, 0, 0, NULL}};
    return check_object(k, v, rules, ARRAY_LEN(rules), true);
}

static bool see_tool_call(struct check *k, struct json v) {
    static const struct rule rules[] = {{"id", OF_STRING, RULE_READ, 0, 0, NULL},
                                        {"type", OF_STRING, 0, 0, 0, NULL},
                                        {"function", OF_OBJECT, 0, 0, 0, see_called},
                                        {"custom", OF_OBJECT, RULE_READ, 0, 0, NULL}};
    return check_object(k, v, rules, ARRAY_LEN(rules), true);
}

static bool see_tool_calls(struct check *k, struct json v) {
    return check_each(k, v, see_tool_call);
}

static bool see_message(struct check *k, struct json v) {
    static const struct rule rules[] = {{"role", OF_STRING, RULE_REQUIRED, 0, 0, NULL},
                                        {"content", OF_STRING | OF_ARRAY, 0, 0, 0, see_content},
                                        {"name", OF_STRING, RULE_READ, 0, 0, NULL},
                                        {"refusal", OF_STRING, 0, 0, 0, check_text},
                                        {"tool_call_id", OF_STRING, RULE_READ, 0, 0, NULL},
                                        {"tool_calls", OF_ARRAY, 0, 0, 0, see_tool_calls},
                                        {"function_call", OF_OBJECT, 0, 0, 0, see_called},
                                        {"audio", OF_OBJECT, RULE_STORED, 0, 0, NULL},
                                        {"cache_control", OF_ANY, 0, 0, 0, NULL}};
    k->call->size.messages++;
    return check_object(k, v, rules, ARRAY_LEN(rules), true);
}

static bool see_messages(struct check *k, struct json v) {
    return check_each(k, v, see_message);
}

/* What the three tables share. */
#define COMMON_RULES                                                                                                   \
    {"model", OF_STRING, RULE_REQUIRED, 0, 0, see_model}, {"user", OF_STRING, 0, 0, 0, NULL},                          \
        {"safety_identifier", OF_STRING, 0, 0, 0, NULL}, {"metadata", OF_OBJECT, 0, 0, 0, NULL}, {                     \
        "service_tier", OF_STRING, 0, 0, 0, see_service_tier                                                           \
    }
#define SAMPLING_RULES                                                                                                 \
    {"stream", OF_BOOL, 0, 0, 0, see_stream}, {"stream_options", OF_OBJECT, 0, 0, 0, see_stream_options},              \
        {"temperature", OF_NUMBER, 0, 0, 2, see_temperature}, {"top_p", OF_NUMBER, 0, 0, 1, NULL},                     \
        {"frequency_penalty", OF_NUMBER, 0, -2, 2, NULL}, {"presence_penalty", OF_NUMBER, 0, -2, 2, NULL},             \
        {"logit_bias", OF_OBJECT, 0, 0, 0, NULL}, {"n", OF_NUMBER, RULE_WHOLE, 1, 128, see_choices},                   \
        {"stop", OF_STRING | OF_ARRAY, 0, 0, 0, see_strings}, {                                                        \
        "seed", OF_NUMBER, RULE_WHOLE, 0, 0, see_seed                                                                  \
    }

static const struct rule CHAT[] = {
    COMMON_RULES,
    SAMPLING_RULES,
    {"messages", OF_ARRAY, RULE_REQUIRED, 0, 0, see_messages},
    {"max_completion_tokens", OF_NUMBER, RULE_WHOLE, 1, MAX_TOK, see_max_output},
    {"max_tokens", OF_NUMBER, RULE_WHOLE, 1, MAX_TOK, see_max_output},
    {"response_format", OF_OBJECT, RULE_READ, 0, 0, see_format},
    {"tools", OF_ARRAY, RULE_READ, 0, 0, see_tools},
    {"tool_choice", OF_STRING | OF_OBJECT, RULE_READ, 0, 0, NULL},
    {"parallel_tool_calls", OF_BOOL, 0, 0, 0, NULL},
    {"functions", OF_ARRAY, RULE_READ, 0, 0, see_functions},
    {"function_call", OF_STRING | OF_OBJECT, RULE_READ, 0, 0, NULL},
    {"reasoning_effort", OF_STRING, 0, 0, 0, NULL},
    {"verbosity", OF_STRING, 0, 0, 0, NULL},
    {"logprobs", OF_BOOL, 0, 0, 0, see_logprobs},
    {"top_logprobs", OF_NUMBER, RULE_WHOLE, 0, 1000, see_logprobs},
    {"modalities", OF_ARRAY, 0, 0, 0, see_modalities},
    {"audio", OF_OBJECT, 0, 0, 0, see_audio},
    {"prediction", OF_OBJECT, RULE_READ, 0, 0, NULL},
    {"store", OF_BOOL, 0, 0, 0, see_store},
    {"prompt_cache_key", OF_STRING, 0, 0, 0, NULL},
    {"prompt_cache_options", OF_OBJECT, 0, 0, 0, NULL},
    {"prompt_cache_retention", OF_STRING, 0, 0, 0, NULL},
    {"web_search_options", OF_OBJECT, RULE_READ, 0, 0, see_search},
    {"previous_response_id", OF_STRING, RULE_STORED, 0, 0, NULL},
    {"conversation", OF_ANY, RULE_STORED, 0, 0, NULL},
    {"container", OF_ANY, RULE_STORED, 0, 0, NULL},
};

/* A prompt is text, texts, token ids, or lists of token ids. */
static bool see_tokens(struct check *k, struct json v, bool deep);
static bool see_prompt_element(struct check *k, struct json v) {
    int64_t id;
    if (v.kind == JSON_STRING)
        return check_text(k, v);
    if (v.kind == JSON_ARRAY)
        return see_tokens(k, v, false);
    if (!json_i64(v, &id) || id < 0)
        return check_fail(k, ERR_INVALID, "%s must be a string, a token id or an array of token ids.", k->path);
    k->call->size.token_inputs++;
    return true;
}

static bool see_token(struct check *k, struct json v) {
    int64_t id;
    if (!json_i64(v, &id) || id < 0)
        return check_fail(k, ERR_INVALID, "%s must be a token id.", k->path);
    k->call->size.token_inputs++;
    return true;
}

static bool see_tokens(struct check *k, struct json v, bool deep) {
    return check_each(k, v, deep ? see_prompt_element : see_token);
}

static bool see_prompt(struct check *k, struct json v) {
    if (v.kind == JSON_STRING)
        k->call->size.messages = 1;
    else
        k->call->size.messages = (int64_t)json_count(v);
    return v.kind == JSON_STRING ? check_text(k, v) : see_tokens(k, v, true);
}

static const struct rule COMPLETIONS[] = {
    COMMON_RULES,
    SAMPLING_RULES,
    {"prompt", OF_STRING | OF_ARRAY, 0, 0, 0, see_prompt},
    {"max_tokens", OF_NUMBER, RULE_WHOLE, 0, MAX_TOK, see_max_output},
    {"best_of", OF_NUMBER, RULE_WHOLE, 1, 128, see_choices},
    {"echo", OF_BOOL, 0, 0, 0, NULL},
    {"logprobs", OF_NUMBER | OF_BOOL, RULE_WHOLE, 0, 1000, see_logprobs},
    {"suffix", OF_STRING, 0, 0, 0, check_text},
};

static const struct rule EMBEDDINGS[] = {
    COMMON_RULES,
    {"input", OF_STRING | OF_ARRAY, RULE_REQUIRED, 0, 0, see_prompt},
    {"dimensions", OF_NUMBER, RULE_WHOLE, 1, MAX_TOK, NULL},
    {"encoding_format", OF_STRING, 0, 0, 0, NULL},
};

/* A list of prompts is answered n times each. */
static bool completions_call(struct check *k) {
    struct json prompt;
    if (!check_object(k, k->call->body, COMPLETIONS, ARRAY_LEN(COMPLETIONS), true))
        return false;
    prompt = json_member(k->call->body, "prompt");
    struct json first = json_at(prompt, 0);
    if (prompt.kind == JSON_ARRAY && (first.kind == JSON_STRING || first.kind == JSON_ARRAY)) {
        k->call->size.choices *= (int64_t)json_count(prompt);
        k->call->traits.many |= json_count(prompt) > 1;
    }
    return true;
}

bool openai_call(struct check *k) {
    struct llm_call *c = k->call;
    c->stream_options = json_get(c->body, "stream_options"); /* null too: it is a place to splice */
    if (c->endpoint == ENDPOINT_CHAT)
        return check_object(k, c->body, CHAT, ARRAY_LEN(CHAT), true);
    if (c->endpoint == ENDPOINT_COMPLETIONS)
        return completions_call(k);
    c->traits.always = true;
    c->size.choices = 0;
    return check_object(k, c->body, EMBEDDINGS, ARRAY_LEN(EMBEDDINGS), true);
}
