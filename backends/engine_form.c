/* What a call wishes of the engine's answer besides how it is drawn: how many there are, what form they have, which tools may be called.
 * Always true: what cannot be kept is refused with the field's name, so that an answer that is given has what was asked for. */
#include "backends/dialect.h"

#include <stdio.h>

#define TOP_LOGPROBS_MAX 20
#define TOOLS_MAX 128

static bool bad(struct call_fault *f, enum err e, const char *field, const char *text) {
    f->err = e;
    snprintf(f->field, sizeof f->field, "%s", field);
    snprintf(f->text, sizeof f->text, "%.90s %.150s", field, text);
    return false;
}

static bool bad_form(struct call_fault *f, const struct decode_fault *of) {
    char field[sizeof f->field];
    snprintf(field, sizeof field, "%.*s", (int)sizeof field - 1, of->field);
    return bad(f, ERR_UNSUPPORTED, field, of->text);
}

static bool is_said(struct json v) {
    return v.kind != JSON_NONE && v.kind != JSON_NULL;
}

static bool choices(struct json body, struct engine_ask *out, struct call_fault *f) {
    int64_t n = 1, best = 1;
    struct json said = json_member(body, "n"), of = json_member(body, "best_of");
    if (is_said(said) && (!json_i64(said, &n) || n < 1 || n > READER_CHOICES_MAX))
        return bad(f, ERR_INVALID, "n", "must be a whole number from 1 to 128.");
    if (is_said(of) && (!json_i64(of, &best) || best != n))
        return bad(f, ERR_UNSUPPORTED, "best_of", "other than n is not supported yet by the embedded engine.");
    out->choices = (int)n;
    return true;
}

static bool logprobs(const struct llm_call *c, struct engine_ask *out, struct call_fault *f) {
    struct json said = json_member(c->body, "logprobs"), top = json_member(c->body, "top_logprobs");
    bool chat = c->endpoint == ENDPOINT_CHAT;
    const char *field = chat ? "top_logprobs" : "logprobs";
    struct json many = chat ? top : said;
    out->ask.logprobs = chat ? said.kind == JSON_TRUE : said.kind == JSON_NUMBER;
    if (is_said(many) && many.kind == JSON_NUMBER &&
        (!json_i64(many, &out->ask.top_logprobs) || out->ask.top_logprobs < 0 ||
         out->ask.top_logprobs > TOP_LOGPROBS_MAX))
        return bad(f, ERR_INVALID, field, "must be a whole number from 0 to 20.");
    if (chat && out->ask.top_logprobs > 0 && !out->ask.logprobs)
        return bad(f, ERR_INVALID, "top_logprobs", "needs logprobs: true.");
    return true;
}

static bool form(struct json body, struct arena *a, struct engine_ask *out, struct call_fault *f) {
    struct json format = json_member(body, "response_format"), type = json_member(format, "type");
    struct json schema = json_member(json_member(format, "json_schema"), "schema");
    struct decode_fault fault;
    if (!is_said(format) || json_is(type, "text"))
        return true;
    if (json_is(type, "json_object"))
        schema = (struct json){0};
    else if (!json_is(type, "json_schema"))
        return bad(f, ERR_UNSUPPORTED, "response_format.type", "is text, json_object or json_schema.");
    else if (schema.kind != JSON_OBJECT)
        return bad(f, ERR_INVALID, "response_format.json_schema.schema", "must be a schema.");
    if (is_said(json_member(body, "stop")))
        return bad(f, ERR_UNSUPPORTED, "stop", "beside a JSON response_format would cut it.");
    out->ask.form = decode_form_of_schema(schema, a, "response_format.json_schema.schema", &fault);
    return out->ask.form || bad_form(f, &fault);
}

/* --- tools --- */

static bool tool_is_function(struct json tool) {
    return json_is(json_member(tool, "type"), "function") &&
           json_member(json_member(tool, "function"), "name").kind == JSON_STRING;
}

static bool has_tool(struct json tools, struct span name, struct arena *a) {
    struct json_walk w;
    struct json tool;
    for (json_walk_init(&w, tools); json_walk_next(&w, NULL, &tool);)
        if (span_equal(json_text(json_member(json_member(tool, "function"), "name"), a), name))
            return true;
    return false;
}

static bool tool_choice(struct json choice, struct arena *a, struct engine_ask *out, struct call_fault *f) {
    if (!is_said(choice) || json_is(choice, "auto"))
        return true;
    if (json_is(choice, "none")) {
        out->tools = (struct json){0};
        out->ask.tools = SPAN_NONE;
        return true;
    }
    out->tool_choice = json_is(choice, "required") ? TOOLS_REQUIRED : TOOLS_NAMED;
    if (out->tool_choice == TOOLS_REQUIRED)
        return true;
    out->tool_name = json_text(json_member(json_member(choice, "function"), "name"), a);
    return (out->tool_name.at && has_tool(out->tools, out->tool_name, a)) ||
           bad(f, ERR_INVALID, "tool_choice", "must be none, auto, required or one of the tools.");
}

static bool tools(struct json body, struct arena *a, struct engine_ask *out, struct call_fault *f) {
    struct json list = json_member(body, "tools"), tool, choice = json_member(body, "tool_choice");
    struct json_walk w;
    char field[32];
    if (!is_said(list) || !json_count(list))
        return !is_said(choice) || json_is(choice, "none") || json_is(choice, "auto") ||
               bad(f, ERR_INVALID, "tool_choice", "needs tools.");
    if (json_count(list) > TOOLS_MAX)
        return bad(f, ERR_INVALID, "tools", "has more than 128 entries.");
    json_walk_init(&w, list);
    for (size_t i = 0; json_walk_next(&w, NULL, &tool); i++) {
        snprintf(field, sizeof field, "tools[%zu]", i);
        if (!tool_is_function(tool))
            return bad(f, ERR_UNSUPPORTED, field, "is not a function: the embedded engine calls no others.");
    }
    out->tools = list;
    out->ask.tools = list.raw;
    out->one_call = json_member(body, "parallel_tool_calls").kind == JSON_FALSE;
    if (!tool_choice(choice, a, out, f))
        return false;
    if (out->ask.form && out->tool_choice != TOOLS_AUTO)
        return bad(f, ERR_UNSUPPORTED, "tool_choice",
                   "that calls a tool cannot be kept beside a JSON response_format.");
    if (out->tool_choice != TOOLS_AUTO && is_said(json_member(body, "stop")))
        return bad(f, ERR_UNSUPPORTED, "stop", "beside a tool_choice that calls a tool would cut the call.");
    return true;
}

bool engine_wishes(const struct llm_call *c, struct arena *a, struct engine_ask *out, struct call_fault *f) {
    return choices(c->body, out, f) && logprobs(c, out, f) &&
           (c->endpoint != ENDPOINT_CHAT || (form(c->body, a, out, f) && tools(c->body, a, out, f)));
}
