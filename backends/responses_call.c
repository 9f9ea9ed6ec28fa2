/* Calls of the OpenAI Responses API. Items that hold their own content pass; items and fields that only name what a
 * provider keeps (item_reference, previous_response_id, conversation, prompt, file and container ids) are refused by
 * name, since the gateway's account there is shared by all teams. */
#include "backends/dialect.h"

static bool see_image_url(struct check *k, struct json v) {
    check_url(k, v);
    return true;
}

static bool see_file_url(struct check *k, struct json v) {
    (void)v;
    k->call->traits.remote_content = true;
    return true;
}

static void count_part(struct check *k, struct json type) {
    if (json_is(type, "input_image") || json_is(type, "computer_screenshot")) {
        k->call->size.images++;
        k->call->caps |= CAP_VISION;
    } else if (json_is(type, "input_file")) {
        k->call->size.documents++;
        k->call->caps |= CAP_DOCUMENTS;
    } else if (json_is(type, "input_audio")) {
        k->call->size.audios++;
        k->call->caps |= CAP_AUDIO;
    }
}

static bool see_part(struct check *k, struct json v) {
    static const struct rule rules[] = {
        {"type", OF_STRING, RULE_REQUIRED, 0, 0, NULL}, {"text", OF_STRING, 0, 0, 0, check_text},
        {"refusal", OF_STRING, 0, 0, 0, check_text},    {"image_url", OF_STRING, 0, 0, 0, see_image_url},
        {"detail", OF_STRING, 0, 0, 0, NULL},           {"file_id", OF_STRING, RULE_STORED, 0, 0, NULL},
        {"file_data", OF_STRING, 0, 0, 0, NULL},        {"file_url", OF_STRING, 0, 0, 0, see_file_url},
        {"filename", OF_STRING, RULE_READ, 0, 0, NULL}, {"input_audio", OF_OBJECT, 0, 0, 0, NULL}};
    count_part(k, json_member(v, "type"));
    return check_object(k, v, rules, ARRAY_LEN(rules), true);
}

static bool see_content(struct check *k, struct json v) {
    return v.kind == JSON_STRING ? check_text(k, v) : check_each(k, v, see_part);
}

static bool see_output(struct check *k, struct json v) {
    if (v.kind == JSON_OBJECT)
        return see_part(k, v);
    return see_content(k, v);
}

static bool is_reference(struct json item) {
    struct json type = json_member(item, "type");
    if (json_is(type, "item_reference"))
        return true;
    return type.kind == JSON_NONE && json_member(item, "role").kind == JSON_NONE &&
           json_member(item, "id").kind != JSON_NONE;
}

static bool see_item(struct check *k, struct json v) {
    static const struct rule rules[] = {{"type", OF_STRING, 0, 0, 0, NULL},
                                        {"role", OF_STRING, 0, 0, 0, NULL},
                                        {"content", OF_STRING | OF_ARRAY, 0, 0, 0, see_content},
                                        {"output", OF_STRING | OF_ARRAY | OF_OBJECT, 0, 0, 0, see_output},
                                        {"call_id", OF_STRING, RULE_READ, 0, 0, NULL},
                                        {"name", OF_STRING, RULE_READ, 0, 0, NULL},
                                        {"arguments", OF_STRING, RULE_READ, 0, 0, NULL},
                                        {"id", OF_STRING, 0, 0, 0, NULL},
                                        {"status", OF_STRING, 0, 0, 0, NULL}};
    if (is_reference(v)) {
        check_in(k, ".item_reference");
        return check_fail(k, ERR_UNSUPPORTED,
                          "item_reference is not supported: send the item itself (with \"store\": false clients do).");
    }
    k->call->size.messages++;
    return check_object(k, v, rules, ARRAY_LEN(rules), true) && check_stored(k, v);
}

static bool see_input(struct check *k, struct json v) {
    if (v.kind == JSON_STRING) {
        k->call->size.messages = 1;
        return check_text(k, v);
    }
    return check_each(k, v, see_item);
}

/* Tools that the caller runs; all others run at the provider, and max_tool_calls bounds them together. */
static bool runs_here(struct json type) {
    static const char *const ours[] = {"function",    "custom",      "computer", "computer_use_preview",
                                       "local_shell", "apply_patch", "namespace"};
    for (size_t i = 0; i < ARRAY_LEN(ours); i++)
        if (json_is(type, ours[i]))
            return true;
    return false;
}

static bool see_tool(struct check *k, struct json v) {
    static const struct rule rules[] = {{"type", OF_STRING, RULE_REQUIRED, 0, 0, NULL},
                                        {"name", OF_STRING, 0, 0, 0, NULL},
                                        {"description", OF_STRING, 0, 0, 0, NULL},
                                        {"parameters", OF_OBJECT, 0, 0, 0, NULL},
                                        {"strict", OF_BOOL, 0, 0, 0, NULL}};
    struct json type = json_member(v, "type");
    int64_t most = -1;
    k->call->size.tools++;
    k->call->caps |= CAP_TOOLS;
    if (!json_i64(json_get(k->call->body, "max_tool_calls"), &most))
        most = -1;
    if (!runs_here(type))
        see_server_tool(k, type, most, "may be called without end: max_tool_calls is not set");
    return check_object(k, v, rules, ARRAY_LEN(rules), false) && check_stored(k, v);
}

static bool see_tools(struct check *k, struct json v) {
    return check_each(k, v, see_tool);
}

static bool see_text(struct check *k, struct json v) {
    static const struct rule rules[] = {{"format", OF_OBJECT, 0, 0, 0, NULL}, {"verbosity", OF_STRING, 0, 0, 0, NULL}};
    if (json_is(json_member(json_member(v, "format"), "type"), "json_schema"))
        k->call->caps |= CAP_JSON_SCHEMA;
    return check_object(k, v, rules, ARRAY_LEN(rules), false);
}

static bool see_reasoning(struct check *k, struct json v) {
    static const struct rule rules[] = {{"effort", OF_STRING, 0, 0, 0, NULL}, {"summary", OF_STRING, 0, 0, 0, NULL}};
    return check_object(k, v, rules, ARRAY_LEN(rules), false);
}

static bool see_stream_options(struct check *k, struct json v) {
    k->call->stream_options = v;
    return true;
}

static bool see_logprobs(struct check *k, struct json v) {
    k->call->caps |= json_is_zero(v) ? 0 : CAP_LOGPROBS;
    return true;
}

static const struct rule RESPONSES[] = {
    {"model", OF_STRING, RULE_REQUIRED, 0, 0, see_model},
    {"input", OF_STRING | OF_ARRAY, 0, 0, 0, see_input},
    {"instructions", OF_STRING | OF_ARRAY, RULE_READ, 0, 0, NULL},
    {"stream", OF_BOOL, 0, 0, 0, see_stream},
    {"stream_options", OF_OBJECT, 0, 0, 0, see_stream_options},
    {"temperature", OF_NUMBER, 0, 0, 2, see_temperature},
    {"top_p", OF_NUMBER, 0, 0, 1, NULL},
    {"seed", OF_NUMBER, RULE_WHOLE, 0, 0, see_seed},
    {"top_logprobs", OF_NUMBER, RULE_WHOLE, 0, 1000, see_logprobs},
    {"max_output_tokens", OF_NUMBER, RULE_WHOLE, 1, MAX_TOK, see_max_output},
    {"max_tool_calls", OF_NUMBER, RULE_WHOLE, 0, MAX_TOK, NULL},
    {"tools", OF_ARRAY, RULE_READ, 0, 0, see_tools},
    {"tool_choice", OF_STRING | OF_OBJECT, RULE_READ, 0, 0, NULL},
    {"parallel_tool_calls", OF_BOOL, 0, 0, 0, NULL},
    {"text", OF_OBJECT, RULE_READ, 0, 0, see_text},
    {"reasoning", OF_OBJECT, 0, 0, 0, see_reasoning},
    {"include", OF_ARRAY, 0, 0, 0, see_strings},
    {"truncation", OF_STRING, 0, 0, 0, NULL},
    {"metadata", OF_OBJECT, 0, 0, 0, NULL},
    {"store", OF_BOOL, 0, 0, 0, NULL},
    {"user", OF_STRING, 0, 0, 0, NULL},
    {"safety_identifier", OF_STRING, 0, 0, 0, NULL},
    {"service_tier", OF_STRING, 0, 0, 0, see_service_tier},
    {"prompt_cache_key", OF_STRING, 0, 0, 0, NULL},
    {"prompt_cache_options", OF_OBJECT, 0, 0, 0, NULL},
    {"prompt_cache_retention", OF_STRING, 0, 0, 0, NULL},
    {"previous_response_id", OF_STRING, RULE_STORED, 0, 0, NULL},
    {"conversation", OF_ANY, RULE_STORED, 0, 0, NULL},
    {"background", OF_BOOL, RULE_STORED, 0, 0, NULL},
    {"prompt", OF_ANY, RULE_STORED, 0, 0, NULL},
    {"container", OF_ANY, RULE_STORED, 0, 0, NULL},
};

bool responses_call(struct check *k) {
    /* Not said means true there. What is stored lies in the gateway's account and no client can reach it by id. */
    k->call->traits.stored = json_get(k->call->body, "store").kind != JSON_FALSE;
    return check_object(k, k->call->body, RESPONSES, ARRAY_LEN(RESPONSES), true);
}
