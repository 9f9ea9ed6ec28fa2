/* Calls of the Anthropic Messages API and its token count. Betas and unknown fields pass; what names an object kept at
 * the provider (container, file_id, thread) is refused by name, and so is `fallbacks`, which would let the provider
 * answer with a model that neither the key's list nor the price of the call knows. */
#include "backends/dialect.h"

static bool see_block(struct check *k, struct json v);

static bool see_blocks(struct check *k, struct json v) {
    return v.kind == JSON_STRING ? check_text(k, v) : check_each(k, v, see_block);
}

static bool see_url(struct check *k, struct json v) {
    check_url(k, v);
    return true;
}

static bool see_document_data(struct check *k, struct json source) {
    if (json_is(json_member(source, "type"), "text"))
        return check_text(k, json_member(source, "data"));
    return true;
}

static bool see_source(struct check *k, struct json v) {
    static const struct rule rules[] = {{"type", OF_STRING, RULE_REQUIRED, 0, 0, NULL},
                                        {"media_type", OF_STRING, 0, 0, 0, NULL},
                                        {"data", OF_STRING, 0, 0, 0, NULL},
                                        {"url", OF_STRING, 0, 0, 0, see_url},
                                        {"file_id", OF_STRING, RULE_STORED, 0, 0, NULL},
                                        {"content", OF_STRING | OF_ARRAY, 0, 0, 0, see_blocks}};
    if (v.kind == JSON_STRING) /* search_result: a name */
        return check_text(k, v);
    return check_object(k, v, rules, ARRAY_LEN(rules), true) && see_document_data(k, v);
}

static void count_block(struct check *k, struct json type) {
    if (json_is(type, "image")) {
        k->call->size.images++;
        k->call->caps |= CAP_VISION;
    } else if (json_is(type, "document")) {
        k->call->size.documents++;
        k->call->caps |= CAP_DOCUMENTS;
    } else if (json_is(type, "tool_use")) {
        k->call->caps |= CAP_TOOLS;
    }
}

static bool see_block(struct check *k, struct json v) {
    static const struct rule rules[] = {{"type", OF_STRING, RULE_REQUIRED, 0, 0, NULL},
                                        {"text", OF_STRING, 0, 0, 0, check_text},
                                        {"source", OF_OBJECT | OF_STRING, 0, 0, 0, see_source},
                                        {"content", OF_ANY, 0, 0, 0, NULL},
                                        {"thinking", OF_STRING, 0, 0, 0, check_text},
                                        {"id", OF_STRING, RULE_READ, 0, 0, NULL},
                                        {"name", OF_STRING, RULE_READ, 0, 0, NULL},
                                        {"tool_use_id", OF_STRING, RULE_READ, 0, 0, NULL},
                                        {"is_error", OF_BOOL, 0, 0, 0, NULL},
                                        {"file_id", OF_STRING, RULE_STORED, 0, 0, NULL},
                                        {"cache_control", OF_ANY, 0, 0, 0, NULL}};
    struct json type = json_member(v, "type"), content = json_member(v, "content");
    count_block(k, type);
    if (!check_object(k, v, rules, ARRAY_LEN(rules), true))
        return false;
    size_t mark = check_in(k, ".content");
    bool ours = json_is(type, "tool_result") || json_is(type, "search_result");
    if (ours && content.kind != JSON_NONE && content.kind != JSON_STRING && content.kind != JSON_ARRAY)
        return check_fail(k, ERR_INVALID, "%s must be a string or an array.", k->path);
    if (!(ours ? see_blocks(k, content) : check_reads(k, content)))
        return false;
    check_out(k, mark);
    return true;
}

static bool see_message(struct check *k, struct json v) {
    static const struct rule rules[] = {{"role", OF_STRING, RULE_REQUIRED, 0, 0, NULL},
                                        {"content", OF_STRING | OF_ARRAY, RULE_REQUIRED, 0, 0, see_blocks}};
    k->call->size.messages++;
    return check_object(k, v, rules, ARRAY_LEN(rules), true);
}

static bool see_messages(struct check *k, struct json v) {
    return check_each(k, v, see_message);
}

/* Tools that the caller runs; every other typed tool runs at the provider. */
static bool runs_here(struct check *k, struct json type) {
    static const char *const ours[] = {"custom", "bash_", "text_editor_", "computer_", "memory_"};
    struct span name = type.kind == JSON_NONE ? SPAN("custom") : json_text(type, k->arena);
    for (size_t i = 0; i < ARRAY_LEN(ours); i++)
        if (name.at && span_starts(name, ours[i]))
            return true;
    return false;
}

static bool see_tool(struct check *k, struct json v) {
    static const struct rule rules[] = {{"name", OF_STRING, 0, 0, 0, NULL},
                                        {"type", OF_STRING, 0, 0, 0, NULL},
                                        {"description", OF_STRING, 0, 0, 0, NULL},
                                        {"input_schema", OF_OBJECT, 0, 0, 0, NULL}};
    k->call->size.tools++;
    k->call->caps |= CAP_TOOLS;
    if (!check_object(k, v, rules, ARRAY_LEN(rules), false))
        return false;
    int64_t most = -1;
    if (!json_i64(json_get(v, "max_uses"), &most))
        most = -1;
    if (!runs_here(k, json_member(v, "type")))
        see_server_tool(k, json_member(v, "type"), most, "has no max_uses");
    return check_stored(k, v);
}

static bool see_tools(struct check *k, struct json v) {
    return check_each(k, v, see_tool);
}

static bool see_servers(struct check *k, struct json v) {
    const struct json type = {JSON_STRING, SPAN("\"mcp\"")};
    if (json_count(v) > 0)
        see_server_tool(k, type, -1, "may be called without end");
    return true;
}

static bool see_thinking(struct check *k, struct json v) {
    static const struct rule rules[] = {{"type", OF_STRING, RULE_REQUIRED, 0, 0, NULL},
                                        {"budget_tokens", OF_NUMBER, RULE_WHOLE, 0, MAX_TOK, NULL}};
    return check_object(k, v, rules, ARRAY_LEN(rules), false);
}

static bool see_config(struct check *k, struct json v) {
    static const struct rule rules[] = {{"effort", OF_STRING, 0, 0, 0, NULL}, {"format", OF_OBJECT, 0, 0, 0, NULL}};
    if (json_is(json_member(json_member(v, "format"), "type"), "json_schema"))
        k->call->caps |= CAP_JSON_SCHEMA;
    return check_object(k, v, rules, ARRAY_LEN(rules), false);
}

static bool see_fallbacks(struct check *k, struct json v) {
    (void)v;
    return check_fail(k, ERR_UNSUPPORTED,
                      "fallbacks is not supported: the alias's own ladder says which model may answer instead.");
}

#define MESSAGE_RULES                                                                                                  \
    {"model", OF_STRING, RULE_REQUIRED, 0, 0, see_model}, {"messages", OF_ARRAY, RULE_REQUIRED, 0, 0, see_messages},   \
        {"system", OF_STRING | OF_ARRAY, 0, 0, 0, see_blocks}, {"tools", OF_ARRAY, RULE_READ, 0, 0, see_tools},        \
        {"tool_choice", OF_OBJECT, RULE_READ, 0, 0, NULL}, {"thinking", OF_OBJECT, 0, 0, 0, see_thinking},             \
        {"output_config", OF_OBJECT, RULE_READ, 0, 0, see_config},                                                     \
        {"mcp_servers", OF_ARRAY, RULE_READ, 0, 0, see_servers}, {"metadata", OF_OBJECT, 0, 0, 0, NULL},               \
        {"cache_control", OF_OBJECT, 0, 0, 0, NULL}, {"container", OF_ANY, RULE_STORED, 0, 0, NULL},                   \
        {"thread", OF_ANY, RULE_STORED, 0, 0, NULL}, {                                                                 \
        "fallbacks", OF_ANY, 0, 0, 0, see_fallbacks                                                                    \
    }

static const struct rule MESSAGES[] = {
    MESSAGE_RULES,
    {"max_tokens", OF_NUMBER, RULE_WHOLE | RULE_REQUIRED, 0, MAX_TOK, see_max_output},
    {"stream", OF_BOOL, 0, 0, 0, see_stream},
    {"temperature", OF_NUMBER, 0, 0, 1, see_temperature},
    {"top_p", OF_NUMBER, 0, 0, 1, NULL},
    {"top_k", OF_NUMBER, RULE_WHOLE, 0, MAX_TOK, NULL},
    {"stop_sequences", OF_ARRAY, 0, 0, 0, see_strings},
    {"service_tier", OF_STRING, 0, 0, 0, NULL},
    {"speed", OF_STRING, 0, 0, 0, see_speed},
    {"inference_geo", OF_STRING, 0, 0, 0, see_geo},
};
static const struct rule COUNT[] = {MESSAGE_RULES};

bool anthropic_call(struct check *k) {
    struct llm_call *c = k->call;
    see_cache_writes(k);
    if (c->endpoint == ENDPOINT_MESSAGES)
        return check_object(k, c->body, MESSAGES, ARRAY_LEN(MESSAGES), true);
    c->traits.always = true;
    c->size.choices = 0;
    return check_object(k, c->body, COUNT, ARRAY_LEN(COUNT), true);
}
