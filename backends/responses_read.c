/* Reads the OpenAI Responses API: events that each carry their own type, or one response object. Ids of items stay the
 * provider's; the response's own id, model, time and usage are splices wherever an event carries the response. */
#include "backends/dialect.h"

static enum err bad(const char **why, const char *what) {
    *why = what;
    return ERR_UPSTREAM;
}

static void read_response(struct reader *r, struct json response, struct event *out) {
    struct json usage = json_get(response, "usage");
    r->searches =
        usage_tok(json_member(json_member(response, "tool_usage"), "web_search"), "num_requests", r->searches);
    reader_tier(r, json_member(response, "service_tier"));
    event_splice(out, SPLICE_ID, json_get(response, "id"));
    event_splice(out, SPLICE_MODEL, json_get(response, "model"));
    event_splice(out, SPLICE_CREATED, json_get(response, "created_at"));
    event_splice(out, SPLICE_USAGE, usage);
    if (usage.kind != JSON_OBJECT)
        return;
    openai_usage(r, usage);
    out->bits |= EVENT_USAGE;
    out->usage = r->usage;
    out->usage_raw = usage.raw;
}

static enum finish finish_of(struct json response) {
    struct json reason = json_member(json_member(response, "incomplete_details"), "reason");
    if (json_is(json_member(response, "status"), "completed"))
        return FINISH_STOP;
    if (json_is(reason, "content_filter"))
        return FINISH_FILTER;
    return json_is(reason, "max_output_tokens") ? FINISH_LENGTH : FINISH_OTHER;
}

static void read_end(struct reader *r, struct json response, struct event *out) {
    read_response(r, response, out);
    out->bits |= EVENT_LAST;
    reader_finish(r, 0, json_member(response, "status"), finish_of(response), out);
}

static bool is_function(struct json type) {
    return json_is(type, "function_call") || json_is(type, "custom_tool_call");
}

/* Fees of items: a search, a file search, and the container of a code interpreter, once however often it is used. */
static void count_item(struct reader *r, struct json type) {
    r->searches += json_is(type, "web_search_call");
    r->file_searches += json_is(type, "file_search_call");
    if (json_is(type, "code_interpreter_call"))
        r->code_sessions = 1;
}

static void read_item_added(struct reader *r, struct json v, struct event *out) {
    struct json item = json_member(v, "item"), type = json_member(item, "type");
    int64_t index = usage_tok(v, "output_index", 0);
    response_items_open(r, v);
    if (json_member(item, "encrypted_content").kind != JSON_NONE)
        out->bits |= EVENT_NO_STORE;
    count_item(r, type);
    if (is_function(type)) {
        struct reader_tool *t = reader_tool_new(r, 0, (int)(index & 0xFFFFFF));
        reader_part(r, &(struct part){.kind = PART_TOOL_OPEN,
                                      .tool = t ? t->tool : 0,
                                      .id = reader_text(r, json_member(item, "call_id")),
                                      .name = reader_text(r, json_member(item, "name"))});
        r->cut |= !t;
    } else if (!json_is(type, "message") && !json_is(type, "reasoning"))
        out->bits |= EVENT_CONTENT;
}

static void read_item_done(struct reader *r, struct json v, struct event *out) {
    response_items_close(r, v);
    if (json_member(json_member(v, "item"), "encrypted_content").kind != JSON_NONE)
        out->bits |= EVENT_NO_STORE;
}

static void read_text(struct reader *r, struct json v, struct event *out) {
    (void)out;
    reader_say(r, PART_TEXT, 0, 0, json_member(v, "delta"));
}

static void read_refusal(struct reader *r, struct json v, struct event *out) {
    (void)out;
    reader_say(r, PART_REFUSAL, 0, 0, json_member(v, "delta"));
}

static void read_reasoning(struct reader *r, struct json v, struct event *out) {
    (void)out;
    reader_say(r, PART_REASONING, 0, 0, json_member(v, "delta"));
}

static void read_arguments(struct reader *r, struct json v, struct event *out) {
    struct reader_tool *t = reader_tool(r, 0, (int)(usage_tok(v, "output_index", 0) & 0xFFFFFF));
    (void)out;
    reader_say(r, PART_TOOL_ARGS, 0, t ? t->tool : 0, json_member(v, "delta"));
}

static void read_begin(struct reader *r, struct json v, struct event *out) {
    r->choice_open[0] = true;
    str_clear(&r->begun);
    str_put(&r->begun, json_member(v, "response").raw);
    read_response(r, json_member(v, "response"), out);
}

static void read_completed(struct reader *r, struct json v, struct event *out) {
    read_end(r, json_member(v, "response"), out);
}

static void read_failed(struct reader *r, struct json v, struct event *out) {
    read_response(r, json_member(v, "response"), out);
    reader_error(r, json_member(v, "response"), out);
}

static void read_error(struct reader *r, struct json v, struct event *out) {
    reader_error(r, v, out);
}

static void read_nothing(struct reader *r, struct json v, struct event *out) {
    (void)r;
    (void)v;
    out->bits |= EVENT_SILENT;
}

static const struct typed_event EVENTS[] = {
    {"response.output_text.delta", read_text},
    {"response.refusal.delta", read_refusal},
    {"response.reasoning_summary_text.delta", read_reasoning},
    {"response.reasoning_text.delta", read_reasoning},
    {"response.function_call_arguments.delta", read_arguments},
    {"response.custom_tool_call_input.delta", read_arguments},
    {"response.output_item.added", read_item_added},
    {"response.output_item.done", read_item_done},
    {"response.created", read_begin},
    {"response.queued", read_begin},
    {"response.in_progress", read_begin},
    {"response.completed", read_completed},
    {"response.incomplete", read_completed},
    {"response.failed", read_failed},
    {"response.cancelled", read_failed},
    {"error", read_error},
    {"keepalive", read_nothing},
};

enum err responses_frame(struct reader *r, struct json v, struct event *out, const char **why) {
    bool known;
    r->sequence = usage_tok(v, "sequence_number", r->sequence);
    response_items_see(r, v);
    enum err e = reader_typed(r, v, EVENTS, ARRAY_LEN(EVENTS), out, &known, why);
    if (!e && !known &&
        json_text_bytes(json_member(v, "delta"))) /* of a hosted tool: seen, but without neutral parts */
        out->bits |= EVENT_CONTENT;
    return e;
}

static void read_item(struct reader *r, struct json item, struct event *out) {
    struct json type = json_member(item, "type"), part;
    struct json_walk walk;
    count_item(r, type);
    if (json_member(item, "encrypted_content").kind != JSON_NONE)
        out->bits |= EVENT_NO_STORE;
    if (is_function(type)) {
        struct reader_tool *t = reader_tool_new(r, 0, r->n_tools);
        struct json arguments = json_member(item, "arguments");
        r->cut |= !t;
        reader_part(r, &(struct part){.kind = PART_TOOL_OPEN,
                                      .tool = t ? t->tool : 0,
                                      .id = reader_text(r, json_member(item, "call_id")),
                                      .name = reader_text(r, json_member(item, "name"))});
        reader_say(r, PART_TOOL_ARGS, 0, t ? t->tool : 0, arguments.kind ? arguments : json_member(item, "input"));
    }
    json_walk_init(&walk, json_member(item, "summary"));
    while (json_walk_next(&walk, NULL, &part))
        reader_say(r, PART_REASONING, 0, 0, json_member(part, "text"));
    json_walk_init(&walk, json_is(type, "message") ? json_member(item, "content") : (struct json){0});
    while (json_walk_next(&walk, NULL, &part)) {
        reader_say(r, PART_TEXT, 0, 0, json_member(part, "text"));
        reader_say(r, PART_REFUSAL, 0, 0, json_member(part, "refusal"));
    }
}

enum err responses_plain(struct reader *r, struct json v, struct event *out, const char **why) {
    struct json output = json_member(v, "output"), status = json_member(v, "status"), item;
    struct json_walk walk;
    if (json_is(status, "failed") || json_is(status, "cancelled")) {
        out->bits = 0;
        read_response(r, v, out);
        reader_error(r, v, out);
        return ERR_NONE;
    }
    if (output.kind != JSON_ARRAY)
        return bad(why, "The provider's answer has no output.");
    json_walk_init(&walk, output);
    while (json_walk_next(&walk, NULL, &item))
        read_item(r, item, out);
    out->bits |= EVENT_CONTENT;
    read_end(r, v, out);
    return ERR_NONE;
}
