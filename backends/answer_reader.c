/* What the readers of all dialects share: parts, splices, usage, errors and the bounds of each. Always true: an event
 * that was given is true to its bytes until the reader's next call, its splices ascend and do not overlap, and nothing
 * that a provider sends makes the reader hold more than its constants say. */
#include "backends/dialect.h"

#include <stdlib.h>

struct reader *reader_new(enum conf_protocol p, enum endpoint e) {
    struct reader *r = xrealloc(NULL, sizeof *r);
    memset(r, 0, offsetof(struct reader, tools));
    (void)p; /* same dialect on both ends: the endpoint says it */
    r->endpoint = e;
    r->ops = dialect_ops(endpoint_row(e)->dialect);
    arena_init(&r->arena, READER_ARENA_MAX);
    str_init(&r->repaired, READER_ARENA_MAX);
    str_init(&r->begun, READER_BEGUN_MAX);
    r->told = (struct usage_parts){
        .in = -1, .read = -1, .write = -1, .write_5m = -1, .write_1h = -1, .out = -1, .thinking = -1, .web_search = -1};
    return r;
}

void reader_free(struct reader *r) {
    if (!r)
        return;
    arena_fini(&r->arena);
    str_fini(&r->repaired);
    str_fini(&r->begun);
    response_items_free(r->items);
    free(r->parts);
    free(r);
}

const struct usage *reader_usage(const struct reader *r) {
    return &r->usage;
}

bool reader_finished(const struct reader *r) {
    bool any = false;
    if (r->last)
        return true;
    for (int i = 0; i < READER_CHOICES_MAX; i++) {
        if (r->choice_open[i] && !r->choice_done[i])
            return false;
        any |= r->choice_open[i];
    }
    return any;
}

static void reader_begin(struct reader *r, struct event *out) {
    memset(out, 0, sizeof *out);
    arena_fini(&r->arena);
    arena_init(&r->arena, READER_ARENA_MAX);
    r->n_parts = 0;
    r->cut = false;
}

void reader_part(struct reader *r, const struct part *p) {
    if (r->n_parts == READER_PARTS_MAX) {
        r->cut = true;
        return;
    }
    if (r->n_parts == r->parts_capacity) {
        r->parts_capacity = r->parts_capacity ? r->parts_capacity * 2 : 8;
        r->parts = xrealloc(r->parts, r->parts_capacity * sizeof *r->parts);
    }
    r->parts[r->n_parts++] = *p;
}

struct span reader_text(struct reader *r, struct json v) {
    struct span text = v.kind == JSON_STRING ? json_text(v, &r->arena) : SPAN_NONE;
    if (v.kind == JSON_STRING && !text.at)
        r->cut = true;
    return text.at ? text : SPAN_NONE;
}

void reader_say(struct reader *r, enum part_kind kind, int choice, int tool, struct json v) {
    struct span text = v.kind == JSON_OBJECT ? v.raw : reader_text(r, v);
    if (text.n)
        reader_part(r, &(struct part){.kind = kind, .choice = choice, .tool = tool, .text = text});
}

void reader_finish(struct reader *r, int choice, struct json word, enum finish finish, struct event *out) {
    if (choice >= 0 && choice < READER_CHOICES_MAX)
        r->choice_open[choice] = r->choice_done[choice] = true;
    out->bits |= EVENT_FINISH;
    out->finish = finish;
    reader_part(r, &(struct part){.kind = PART_FINISH, .choice = choice, .text = reader_text(r, word)});
}

void reader_close(struct reader *r, struct event *out) {
    static const bool seen[] = {[PART_TEXT] = true,      [PART_REASONING] = true, [PART_REFUSAL] = true,
                                [PART_TOOL_OPEN] = true, [PART_TOOL_ARGS] = true, [PART_FINISH] = false};
    for (size_t i = 0; i < r->n_parts; i++) {
        const struct part *p = &r->parts[i];
        if (!seen[p->kind])
            continue;
        out->bits |= EVENT_CONTENT;
        out->text_bytes += (int64_t)(p->text.n + p->name.n);
    }
    out->parts = r->parts;
    out->n_parts = r->n_parts;
    if (r->cut || r->n_parts > EVENT_PARTS_MAX)
        out->bits |= EVENT_CUT | EVENT_NO_STORE;
    r->last |= (out->bits & EVENT_LAST) != 0;
}

void event_splice(struct event *e, enum splice_what what, struct json v) {
    int i = e->n_splices;
    if (v.kind == JSON_NONE || i == EVENT_SPLICES_MAX)
        return;
    size_t at = (size_t)(v.raw.at - e->data.at);
    for (; i > 0 && e->splices[i - 1].at > at; i--)
        e->splices[i] = e->splices[i - 1];
    e->splices[i] = (struct splice){what, at, v.raw.n};
    e->n_splices++;
}

struct reader_tool *reader_tool(struct reader *r, int choice, int key) {
    for (int i = r->n_tools - 1; i >= 0; i--)
        if (r->tools[i].choice == choice && r->tools[i].key == key)
            return &r->tools[i];
    return NULL;
}

struct reader_tool *reader_tool_new(struct reader *r, int choice, int key) {
    int tool = 0;
    if (r->n_tools == READER_TOOLS_MAX)
        return NULL;
    for (int i = 0; i < r->n_tools; i++)
        tool += r->tools[i].choice == choice;
    r->tools[r->n_tools] = (struct reader_tool){.choice = choice, .key = key, .tool = tool};
    return &r->tools[r->n_tools++];
}

int64_t usage_tok(struct json object, const char *name, int64_t otherwise) {
    struct json v = json_member(object, name);
    int64_t n;
    if (v.kind != JSON_NUMBER || !json_i64(v, &n) || n < 0 || n > USAGE_TOK_MAX)
        return otherwise;
    return n;
}

int64_t usage_ceil(struct json object, const char *name, int64_t otherwise) {
    struct json v = json_member(object, name);
    double n;
    if (v.kind != JSON_NUMBER || !json_f64(v, &n) || !(n >= 0 && n <= (double)USAGE_TOK_MAX))
        return otherwise;
    return (int64_t)n + (n > (double)(int64_t)n);
}

void reader_error(struct reader *r, struct json v, struct event *out) {
    struct provider_error e = {0};
    error_extract(v, &e);
    char *message = arena_strdup(&r->arena, span_of(e.message[0] ? e.message : "The provider reported an error."));
    out->bits |= EVENT_ERROR;
    out->err = e.context_window ? ERR_CONTEXT : e.content_filter ? ERR_FILTERED : ERR_UPSTREAM;
    out->status = e.status;
    out->message = span_of(message);
}

static enum err bad_json(const char **why, const char *what) {
    *why = what;
    return ERR_UPSTREAM;
}

enum err reader_frame(struct reader *r, struct span name, struct span data, struct event *out, const char **why) {
    struct json v;
    struct json_fault fault;
    reader_begin(r, out);
    data = span_trim(data);
    out->name = name;
    out->data = data;
    if (!data.n) {
        out->bits = EVENT_SILENT;
        return ERR_NONE;
    }
    if (r->ops == &openai_ops && span_is(data, "[DONE]")) {
        out->bits = EVENT_LAST;
        r->last = true;
        return ERR_NONE;
    }
    if (!json_check(data, JSON_DEPTH_MAX, &v, &fault))
        return bad_json(why, "An event of the provider's stream is not JSON.");
    if (v.kind != JSON_OBJECT)
        return bad_json(why, "An event of the provider's stream is not a JSON object.");
    out->data = v.raw;
    if (span_is(name, "error") && json_member(v, "error").kind == JSON_NONE)
        reader_error(r, v, out);
    else {
        enum err err = r->ops->read_frame(r, v, out, why);
        if (err)
            return err;
    }
    reader_close(r, out);
    return ERR_NONE;
}

static bool is_error(struct json v) {
    struct json error = json_member(v, "error");
    return error.kind == JSON_OBJECT || error.kind == JSON_STRING || json_is(json_member(v, "object"), "error") ||
           json_is(json_member(v, "type"), "error");
}

enum err reader_plain(struct reader *r, struct span body, struct event *out, const char **why) {
    struct json v;
    struct json_fault fault;
    reader_begin(r, out);
    if (!json_check(body, JSON_DEPTH_MAX, &v, &fault))
        return bad_json(why, "The provider's answer is not JSON.");
    out->data = v.raw;
    if (is_error(v) && !(r->ops == &responses_ops && json_is(json_member(v, "object"), "response"))) {
        reader_error(r, v, out);
        reader_close(r, out);
        return ERR_NONE;
    }
    if (v.kind != JSON_OBJECT)
        return bad_json(why, "The provider's answer is not a JSON object.");
    out->bits = EVENT_PLAIN | EVENT_LAST;
    enum err err = r->ops->read_plain(r, v, out, why);
    if (err)
        return err;
    reader_close(r, out);
    return ERR_NONE;
}

enum err reader_typed(struct reader *r, struct json v, const struct typed_event *rows, size_t n, struct event *out,
                      bool *known, const char **why) {
    struct json type = json_member(v, "type");
    *known = type.kind == JSON_NONE && json_member(v, "error").kind != JSON_NONE;
    if (*known) {
        reader_error(r, v, out);
        return ERR_NONE;
    }
    out->name = reader_text(r, type);
    if (!out->name.n) {
        *why = "An event of the provider's stream has no type.";
        return ERR_UPSTREAM;
    }
    for (size_t i = 0; i < n && !*known; i++)
        if ((*known = json_is(type, rows[i].type)))
            rows[i].read(r, v, out);
    return ERR_NONE;
}
