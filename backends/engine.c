/* The engine behind the same door: a chat or completions call becomes an ask, a piece becomes a neutral event. Always
 * true: what the engine cannot honour is refused with the field's name; nothing is taken and then ignored, save fields
 * that say nothing about the answer. */
#include "backends/dialect.h"

#include <stdio.h>

#define ENGINE_MESSAGES_MAX 4096  /* against a template of nothing but frames */
#define MORE_BYTES 128            /* of names around a message's further members, and around each tool call */
#define COMPLETION_TOK_DEFAULT 16 /* as OpenAI and vLLM do when a completion says no maximum */

static bool refuse(struct call_fault *f, enum err e, const char *field, const char *text) {
    f->err = e;
    snprintf(f->field, sizeof f->field, "%s", field);
    snprintf(f->text, sizeof f->text, "%s %s", field, text);
    return false;
}

static bool is_false(struct json v) {
    return v.kind == JSON_FALSE || json_is_zero(v);
}
static bool is_empty(struct json v) {
    return json_count(v) == 0 && (v.kind == JSON_ARRAY || v.kind == JSON_OBJECT);
}
static bool is_blank(struct json v) {
    return v.kind == JSON_STRING && json_text_bytes(v) == 0;
}
static bool is_text_only(struct json v) {
    return json_count(v) == 1 && json_is(json_at(v, 0), "text");
}
static bool is_choice_free(struct json v) {
    return json_is(v, "none") || json_is(v, "auto");
}
static bool is_none(struct json v) {
    return json_is(v, "none");
}
static bool is_any(struct json v) {
    (void)v;
    return true;
}

/* Every field that the engine knows, and the values it can honour. What has no row is refused. */
static const struct {
    const char *name;
    bool (*can)(struct json v);
} FIELDS[] = {
    {"model", is_any},
    {"messages", is_any},
    {"prompt", is_any},
    {"stream", is_any},
    {"stream_options", is_any},
    {"temperature", is_any},
    {"top_p", is_any},
    {"seed", is_any},
    {"stop", is_any},
    {"max_tokens", is_any},
    {"max_completion_tokens", is_any},
    {"user", is_any},
    {"metadata", is_any},
    {"safety_identifier", is_any},
    {"service_tier", is_any},
    {"prompt_cache_key", is_any},
    {"prompt_cache_options", is_any},
    {"prompt_cache_retention", is_any},
    {"parallel_tool_calls", is_any},
    {"store", is_false},
    {"n", is_any},
    {"best_of", is_any},
    {"echo", is_false},
    {"suffix", is_blank},
    {"logprobs", is_any},
    {"top_logprobs", is_any},
    {"frequency_penalty", is_any},
    {"presence_penalty", is_any},
    {"repetition_penalty", is_any},
    {"top_k", is_any},
    {"min_p", is_any},
    {"logit_bias", is_any},
    {"ignore_eos", is_any},
    {"priority", is_any},
    {"response_format", is_any},
    {"tools", is_any},
    {"tool_choice", is_any},
    {"functions", is_empty},
    {"function_call", is_choice_free},
    {"modalities", is_text_only},
    {"reasoning_effort", is_none},
};

static bool field_can(struct span name, struct json v) {
    if (v.kind == JSON_NULL)
        return true;
    for (size_t i = 0; i < ARRAY_LEN(FIELDS); i++)
        if (json_name_is(name, FIELDS[i].name))
            return FIELDS[i].can(v);
    return false;
}

static bool check_fields(const struct llm_call *c, struct call_fault *f) {
    struct json_walk walk;
    struct span name;
    struct json v;
    char field[64];
    json_walk_init(&walk, c->body);
    while (json_walk_next(&walk, &name, &v)) {
        if (field_can(name, v))
            continue;
        snprintf(field, sizeof field, "%.*s", SPAN_ARG(name));
        return refuse(f, ERR_UNSUPPORTED, field, "with this value is not supported yet by the embedded engine.");
    }
    return true;
}

static bool full(struct call_fault *f, const char *field) {
    return refuse(f, ERR_TOO_LARGE, field, "is too large.");
}

/* Text parts, joined. */
static bool ask_parts(struct json parts, size_t at, struct arena *a, struct span *out, struct call_fault *f) {
    struct json_walk walk;
    struct json part;
    char *text = arena_alloc(a, json_text_bytes(parts) + parts.raw.n), field[64];
    size_t n = 0;
    if (!text)
        return full(f, "messages");
    json_walk_init(&walk, parts);
    for (size_t i = 0; json_walk_next(&walk, NULL, &part); i++) {
        snprintf(field, sizeof field, "messages[%zu].content[%zu]", at, i);
        if (!json_is(json_member(part, "type"), "text"))
            return refuse(f, ERR_UNSUPPORTED, field, "is not supported yet by the embedded engine: it reads text.");
        struct span piece = json_text(json_member(part, "text"), a);
        if (!piece.at)
            return refuse(f, ERR_INVALID, field, "has no text.");
        memcpy(text + n, piece.at, piece.n);
        n += piece.n;
    }
    *out = (struct span){text, n};
    return true;
}

/* The engine's templates know these; developer is what newer clients call system. */
static const char *role_of(struct json role) {
    static const char *const known[] = {"system", "user", "assistant", "tool"};
    for (size_t i = 0; i < ARRAY_LEN(known); i++)
        if (json_is(role, known[i]))
            return known[i];
    return json_is(role, "developer") ? "system" : NULL;
}

/* Templates want arguments as the object that they are the text of. */
static void put_tool_call(struct json call, struct arena *a, struct str *out) {
    struct json f = json_member(call, "function"), arguments = json_member(f, "arguments"), v;
    struct span text = json_text(arguments, a);
    bool object = text.at && json_check(text, JSON_DEPTH_MAX, &v, NULL) && v.kind == JSON_OBJECT;
    str_puts(out, "{\"type\":\"function\"");
    if (json_member(call, "id").kind)
        json_put_raw(out, "id", json_member(call, "id").raw);
    str_puts(out, ",\"function\":{");
    json_put_raw(out, "name", json_member(f, "name").kind ? json_member(f, "name").raw : SPAN("\"\""));
    json_put_raw(out, "arguments", object ? v.raw : arguments.kind ? arguments.raw : SPAN("{}"));
    str_puts(out, "}}");
}

/* What a template may see of a message besides role and content. */
static bool ask_more(struct json m, struct arena *a, struct span *out, struct call_fault *f) {
    static const char *const names[] = {"name", "tool_call_id"};
    struct json calls = json_member(m, "tool_calls"), call;
    struct json_walk walk;
    struct str text;
    bool any = false;
    str_init(&text, m.raw.n + MORE_BYTES * (json_count(calls) + 1));
    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        if (json_member(m, names[i]).kind == JSON_STRING) {
            str_printf(&text, ",\"%s\":", names[i]);
            str_put(&text, json_member(m, names[i]).raw);
        }
    if (json_count(calls)) {
        str_puts(&text, ",\"tool_calls\":[");
        for (json_walk_init(&walk, calls); json_walk_next(&walk, NULL, &call); any = true) {
            str_puts(&text, any ? "," : "");
            put_tool_call(call, a, &text);
        }
        str_putc(&text, ']');
    }
    const char *kept = text.n ? arena_strdup(a, str_span(&text)) : "";
    *out = kept && text.n ? span_from(kept, text.n) : SPAN_NONE;
    bool good = kept && !text.over;
    str_fini(&text);
    return good || full(f, "messages");
}

static bool ask_message(struct json m, size_t at, struct arena *a, struct decode_message *out, struct call_fault *f) {
    static const char *const unread[] = {"function_call", "refusal"};
    struct json content = json_member(m, "content");
    const char *role = role_of(json_member(m, "role"));
    char field[64];
    snprintf(field, sizeof field, "messages[%zu].role", at);
    if (!role)
        return refuse(f, ERR_UNSUPPORTED, field, "is not supported yet by the embedded engine.");
    for (size_t i = 0; i < ARRAY_LEN(unread); i++) {
        snprintf(field, sizeof field, "messages[%zu].%s", at, unread[i]);
        struct json v = json_member(m, unread[i]);
        if (v.kind != JSON_NONE && !is_empty(v))
            return refuse(f, ERR_UNSUPPORTED, field, "is not supported yet by the embedded engine.");
    }
    *out = (struct decode_message){.role = span_of(role), .text = SPAN("")};
    if (!ask_more(m, a, &out->more, f))
        return false;
    if (content.kind == JSON_ARRAY)
        return ask_parts(content, at, a, &out->text, f);
    if (content.kind == JSON_STRING)
        out->text = json_text(content, a);
    return out->text.at ? true : full(f, "messages");
}

static bool ask_messages(struct json messages, struct arena *a, struct decode_ask *out, struct call_fault *f) {
    size_t n = json_count(messages), i = 0;
    struct decode_message *list;
    struct json_walk walk;
    struct json m;
    if (!n)
        return refuse(f, ERR_INVALID, "messages", "must hold at least one message.");
    if (n > ENGINE_MESSAGES_MAX)
        return full(f, "messages");
    list = arena_alloc(a, n * sizeof *list);
    if (!list)
        return full(f, "messages");
    json_walk_init(&walk, messages);
    for (; json_walk_next(&walk, NULL, &m); i++)
        if (!ask_message(m, i, a, &list[i], f))
            return false;
    out->messages = list;
    out->n_messages = n;
    return true;
}

static bool ask_prompt(struct json prompt, struct arena *a, struct decode_ask *out, struct call_fault *f) {
    if (prompt.kind == JSON_ARRAY && json_count(prompt) == 1)
        prompt = json_at(prompt, 0);
    if (prompt.kind == JSON_NONE)
        return refuse(f, ERR_INVALID, "prompt", "is required.");
    if (prompt.kind != JSON_STRING)
        return refuse(f, ERR_UNSUPPORTED, "prompt",
                      "as tokens or as a list is not supported yet by the embedded engine.");
    out->prompt = json_text(prompt, a);
    return out->prompt.at ? true : full(f, "prompt");
}

static bool ask_stop(struct json stop, struct arena *a, struct decode_ask *out, struct call_fault *f) {
    struct span text = json_text(stop, a);
    if (!text.at || !text.n)
        return refuse(f, ERR_INVALID, "stop", "must not be empty.");
    if (out->n_stops == DECODE_STOPS_MAX)
        return refuse(f, ERR_INVALID, "stop", "has too many entries: at most 16.");
    out->stops[out->n_stops++] = text;
    return true;
}

static bool ask_stops(struct json stop, struct arena *a, struct decode_ask *out, struct call_fault *f) {
    struct json_walk walk;
    struct json one;
    if (stop.kind == JSON_STRING)
        return ask_stop(stop, a, out, f);
    json_walk_init(&walk, stop);
    while (json_walk_next(&walk, NULL, &one))
        if (!ask_stop(one, a, out, f))
            return false;
    return true;
}

bool engine_ask(const struct llm_call *c, struct arena *a, struct engine_ask *engine, struct call_fault *fault) {
    bool chat = c->endpoint == ENDPOINT_CHAT;
    struct decode_ask *out = &engine->ask;
    *engine = (struct engine_ask){.endpoint = c->endpoint};
    memset(fault, 0, sizeof *fault);
    if (!chat && c->endpoint != ENDPOINT_COMPLETIONS)
        return refuse(fault, ERR_UNSUPPORTED, endpoint_row(c->endpoint)->name, "is not served by the embedded engine.");
    if (!check_fields(c, fault))
        return false;
    if (!engine_sampling(c->body, a, out, fault) || !engine_wishes(c, a, engine, fault))
        return false;
    out->max_output_tok = c->size.max_output_tok;
    if (!chat && out->max_output_tok < 0)
        out->max_output_tok = COMPLETION_TOK_DEFAULT;
    if (!ask_stops(json_member(c->body, "stop"), a, out, fault))
        return false;
    return chat ? ask_messages(json_member(c->body, "messages"), a, out, fault)
                : ask_prompt(json_member(c->body, "prompt"), a, out, fault);
}
