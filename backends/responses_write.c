/* Writes the Responses API. Each event carries `event:` and `data:`; the response object says the model that was asked
 * for wherever it stands. A whole response is cut into the order of events that the official client insists on; a
 * stream's whole form is the response that its last event carries. */
#include "backends/dialect.h"

#include <stdio.h>

static bool put_event(struct writer *w, const struct event *e, const struct writer_extra *x, struct str *out) {
    struct edits edits;
    bool last = e->bits & EVENT_LAST;
    if (e->bits & EVENT_PLAIN)
        return responses_cut_end(w, e, x, out);
    str_clear(&w->tail);
    if (last)
        writer_tell(w, x, &w->tail);
    writer_edits(w, e, x, last ? USAGE_PRICED : USAGE_KEEP, &edits);
    put_frame(w, out, e->name, e->data, &edits);
    return true;
}

/* The whole answer: a plain body, or the response inside the stream's last event. */
static bool put_whole(struct writer *w, const struct event *e, const struct writer_extra *x, struct str *out) {
    struct edits edits;
    struct json v, response;
    if (!event_json(e, &v))
        return false;
    response = e->bits & EVENT_PLAIN ? v : json_member(v, "response");
    if (response.kind != JSON_OBJECT)
        return false;
    size_t from = (size_t)(response.raw.at - e->data.at), to = from + response.raw.n;
    str_clear(&w->tail);
    writer_edits(w, e, x, USAGE_PRICED, &edits);
    put_edited(out, e->data, from, to - 1, &edits);
    writer_tell(w, x, out);
    str_putc(out, '}');
    return true;
}

bool responses_write(struct writer *w, const struct event *e, const struct writer_extra *x, struct str *out) {
    if (!e->data.n)
        return false; /* nothing but a provider of this dialect answers here */
    writer_see(w, e);
    if (!w->o.stream)
        return e->bits & (EVENT_PLAIN | EVENT_LAST) ? writer_hold(w, e, x) : true;
    if (e->bits & EVENT_PLAIN)
        return responses_cut(w, e, x, out) && writer_hold(w, e, x);
    return e->bits & EVENT_LAST ? writer_hold(w, e, x) : put_event(w, e, x, out);
}

bool responses_end(struct writer *w, const struct usage *u, const struct writer_extra *x, struct str *out) {
    (void)u;
    if (!w->n_held)
        return false;
    return writer_release(w, x, w->o.stream ? put_event : put_whole, out);
}

/* --- a whole response cut into events --- */
struct cut {
    struct writer *w;
    struct str *out;
    struct str *s;  /* one event */
    int64_t item;   /* output_index */
    struct span id; /* item_id, raw */
};

static void cut_open(struct cut *c, const char *type) {
    str_clear(c->s);
    str_putc(c->s, '{');
    json_put_str(c->s, "type", type);
    json_put_i64(c->s, "sequence_number", c->w->frames);
}

static void cut_open_item(struct cut *c, const char *type, const char *index_name, int64_t index) {
    cut_open(c, type);
    json_put_raw(c->s, "item_id", c->id);
    json_put_i64(c->s, "output_index", c->item);
    if (index_name)
        json_put_i64(c->s, index_name, index);
}

static void cut_close(struct cut *c, const char *type) {
    str_putc(c->s, '}');
    c->out->over |= c->s->over;
    put_frame(c->w, c->out, span_of(type), str_span(c->s), NULL);
}

static void cut_begin(struct cut *c, const char *type, struct json v) {
    static const char *const apart[] = {"id", "model", "created_at", "output", "status", "usage", "incomplete_details"};
    cut_open(c, type);
    str_puts(c->s, ",\"response\":{");
    json_put_raw(c->s, "id", writer_id(c->w));
    json_put_raw(c->s, "created_at", writer_created(c->w));
    json_put_raw(c->s, "model", str_span(&c->w->model));
    json_put_str(c->s, "status", "in_progress");
    put_members(c->s, v, apart, ARRAY_LEN(apart));
    str_puts(c->s, ",\"incomplete_details\":null,\"output\":[],\"usage\":null}");
    cut_close(c, type);
}

static void cut_delta(struct cut *c, const char *stem, const char *index_name, int64_t index, const char *field,
                      struct json text) {
    char type[80];
    struct span raw = text.kind == JSON_STRING ? text.raw : SPAN("\"\"");
    bool logprobs = strcmp(field, "text") == 0 && strcmp(index_name, "content_index") == 0;
    snprintf(type, sizeof type, "%s.delta", stem);
    cut_open_item(c, type, index_name, index);
    json_put_raw(c->s, "delta", raw);
    if (logprobs)
        str_puts(c->s, ",\"logprobs\":[]");
    cut_close(c, type);
    snprintf(type, sizeof type, "%s.done", stem);
    cut_open_item(c, type, index_name, index);
    json_put_raw(c->s, field, raw);
    if (logprobs)
        str_puts(c->s, ",\"logprobs\":[]");
    cut_close(c, type);
}

static void cut_part(struct cut *c, int64_t index, struct json part) {
    static const char *const texts[] = {"text", "refusal", "logprobs", "annotations"};
    bool refusal = json_is(json_member(part, "type"), "refusal");
    const char *field = refusal ? "refusal" : "text";
    cut_open_item(c, "response.content_part.added", "content_index", index);
    str_puts(c->s, ",\"part\":{");
    put_members(c->s, part, texts, ARRAY_LEN(texts));
    json_put_str(c->s, field, "");
    str_puts(c->s, refusal ? "}" : ",\"annotations\":[],\"logprobs\":[]}");
    cut_close(c, "response.content_part.added");
    cut_delta(c, refusal ? "response.refusal" : "response.output_text", "content_index", index, field,
              json_member(part, field));
    cut_open_item(c, "response.content_part.done", "content_index", index);
    json_put_raw(c->s, "part", part.raw);
    cut_close(c, "response.content_part.done");
}

static void cut_summary(struct cut *c, int64_t index, struct json part) {
    cut_open_item(c, "response.reasoning_summary_part.added", "summary_index", index);
    str_puts(c->s, ",\"part\":{\"type\":\"summary_text\",\"text\":\"\"}");
    cut_close(c, "response.reasoning_summary_part.added");
    cut_delta(c, "response.reasoning_summary_text", "summary_index", index, "text", json_member(part, "text"));
    cut_open_item(c, "response.reasoning_summary_part.done", "summary_index", index);
    json_put_raw(c->s, "part", part.raw);
    cut_close(c, "response.reasoning_summary_part.done");
}

static void cut_arguments(struct cut *c, struct json item) {
    struct json arguments = json_member(item, "arguments"), name = json_member(item, "name");
    struct span raw = arguments.kind == JSON_STRING ? arguments.raw : SPAN("\"\"");
    cut_open_item(c, "response.function_call_arguments.delta", NULL, 0);
    json_put_raw(c->s, "delta", raw);
    cut_close(c, "response.function_call_arguments.delta");
    cut_open_item(c, "response.function_call_arguments.done", NULL, 0);
    json_put_raw(c->s, "name", name.kind ? name.raw : SPAN("\"\""));
    json_put_raw(c->s, "arguments", raw);
    cut_close(c, "response.function_call_arguments.done");
}

static void cut_each(struct cut *c, struct json list, void (*one)(struct cut *c, int64_t index, struct json part)) {
    struct json_walk walk;
    struct json part;
    json_walk_init(&walk, list);
    for (int64_t i = 0; json_walk_next(&walk, NULL, &part); i++)
        one(c, i, part);
}

/* The item as it opens: what streams in afterwards is empty. Items of hosted tools open whole. */
static void put_opening(struct cut *c, struct json item, const char *emptied, const char *empty) {
    const char *apart[] = {emptied, "status"};
    if (!emptied) {
        json_put_raw(c->s, "item", item.raw);
        return;
    }
    str_puts(c->s, ",\"item\":{");
    put_members(c->s, item, apart, ARRAY_LEN(apart));
    json_put_raw(c->s, emptied, span_of(empty));
    if (json_member(item, "status").kind)
        json_put_str(c->s, "status", "in_progress");
    str_putc(c->s, '}');
}

static void cut_item(struct cut *c, struct json item) {
    struct json type = json_member(item, "type"), id = json_member(item, "id");
    bool message = json_is(type, "message"), call = json_is(type, "function_call");
    bool reasoning = json_is(type, "reasoning");
    const char *emptied = message ? "content" : call ? "arguments" : reasoning ? "summary" : NULL;
    c->id = id.kind == JSON_STRING ? id.raw : SPAN("\"item_0\"");
    cut_open(c, "response.output_item.added");
    json_put_i64(c->s, "output_index", c->item);
    put_opening(c, item, emptied, call ? "\"\"" : "[]");
    cut_close(c, "response.output_item.added");
    if (message)
        cut_each(c, json_member(item, "content"), cut_part);
    if (reasoning)
        cut_each(c, json_member(item, "summary"), cut_summary);
    if (call)
        cut_arguments(c, item);
    cut_open(c, "response.output_item.done");
    json_put_i64(c->s, "output_index", c->item);
    json_put_raw(c->s, "item", item.raw);
    cut_close(c, "response.output_item.done");
}

bool responses_cut(struct writer *w, const struct event *e, const struct writer_extra *x, struct str *out) {
    struct cut c = {.w = w, .out = out, .s = &w->scratch};
    struct json v, item;
    struct json_walk walk;
    (void)x;
    if (!event_json(e, &v))
        return false;
    cut_begin(&c, "response.created", v);
    cut_begin(&c, "response.in_progress", v);
    json_walk_init(&walk, json_member(v, "output"));
    for (; json_walk_next(&walk, NULL, &item); c.item++)
        cut_item(&c, item);
    return true;
}

bool responses_cut_end(struct writer *w, const struct event *e, const struct writer_extra *x, struct str *out) {
    const char *type = e->finish == FINISH_STOP ? "response.completed" : "response.incomplete";
    struct cut c = {.w = w, .out = out, .s = &w->scratch};
    cut_open(&c, type);
    json_put_name(c.s, "response");
    bool ok = put_whole(w, e, x, c.s);
    cut_close(&c, type);
    return ok;
}

/* --- failing --- */
static void put_failed(struct cut *c, const char *message, const char *code) {
    cut_open(c, "response.failed");
    str_puts(c->s, ",\"response\":{");
    json_put_raw(c->s, "id", writer_id(c->w));
    json_put_str(c->s, "object", "response");
    json_put_raw(c->s, "created_at", writer_created(c->w));
    json_put_raw(c->s, "model", str_span(&c->w->model));
    str_puts(c->s, ",\"status\":\"failed\",\"error\":{");
    json_put_str(c->s, "code", code);
    json_put_str(c->s, "message", message);
    str_puts(c->s, "},\"incomplete_details\":null,\"instructions\":null,\"metadata\":{},\"output\":[],"
                   "\"parallel_tool_calls\":true,\"temperature\":null,\"top_p\":null,\"tool_choice\":\"auto\","
                   "\"tools\":[],\"usage\":null}");
    cut_close(c, "response.failed");
}

static void fail_stream(struct writer *w, enum err e, const char *message, const char *request_id, struct str *out) {
    struct error_body body = {.err = e, .message = message, .request_id = request_id};
    struct cut c = {.w = w, .out = out, .s = &w->scratch};
    const char *text, *code;
    error_words(&body, &text, &code);
    if (w->frames)
        put_failed(&c, text, code);
    cut_open(&c, "error");
    json_put_str(c.s, "code", code);
    json_put_str(c.s, "message", text);
    json_put_str(c.s, "param", NULL);
    if (request_id)
        json_put_str(c.s, "request_id", request_id);
    cut_close(&c, "error");
}

/* What was open is closed; then the response as it began, with what came and how it ended. */
static void cut_ending(const struct reader *r, const struct usage *u, struct str *out) {
    static const char *const apart[] = {"status", "incomplete_details", "output", "usage"};
    int64_t in = usage_in_tok(u), all = usage_out_tok(u);
    struct json begun;
    struct json_fault fault;
    if (r->begun.over || !json_check(str_span(&r->begun), JSON_DEPTH_MAX, &begun, &fault))
        return;
    int64_t sequence = response_items_end(r, out);
    str_putc(out, '{');
    json_put_str(out, "type", "response.incomplete");
    json_put_i64(out, "sequence_number", sequence + 1);
    str_puts(out, ",\"response\":{");
    put_members(out, begun, apart, ARRAY_LEN(apart));
    json_put_str(out, "status", "incomplete");
    str_puts(out, ",\"incomplete_details\":{\"reason\":\"max_output_tokens\"}");
    json_put_name(out, "output");
    response_items_put(r, out);
    str_puts(out, ",\"usage\":{");
    json_put_i64(out, "input_tokens", in);
    str_printf(out, ",\"input_tokens_details\":{\"cached_tokens\":%lld}", (long long)u->cache_read);
    json_put_i64(out, "output_tokens", all);
    str_printf(out, ",\"output_tokens_details\":{\"reasoning_tokens\":%lld}", (long long)u->reasoning);
    json_put_i64(out, "total_tokens", in + all);
    str_puts(out, "}}}\n");
}

const struct dialect_ops responses_ops = {
    .name = "responses",
    .heartbeat = ": ping\n\n",
    .parse = responses_call,
    .read_frame = responses_frame,
    .read_plain = responses_plain,
    .write_event = responses_write,
    .write_end = responses_end,
    .write_fail = fail_stream,
    .error_put = openai_error_put,
    .cut_put = cut_ending,
    .id_prefix = "resp_",
};
