/* Turns Anthropic answers between their two forms. Strings are joined as the provider escaped them and blocks keep every
 * member, so signatures and halves of characters survive; inputs of tools are put together from their fragments. */
#include "backends/dialect.h"

#include <stdio.h>

/* --- a stream gathered --- */
static void join(struct str *to, struct json text) {
    if (text.kind == JSON_STRING)
        str_put(to, (struct span){text.raw.at + 1, text.raw.n - 2});
}

/* Fragments of an input are JSON inside strings: here they are wanted as the JSON itself. */
static bool join_decoded(struct str *to, struct json text) {
    struct arena a;
    arena_init(&a, READER_ARENA_MAX);
    struct span s = json_text(text, &a);
    str_put(to, s.at ? s : SPAN_NONE);
    arena_fini(&a);
    return s.at != NULL;
}

static bool gather_delta(struct gather *g, struct json v) {
    struct gather_slot *s = gather_find(g, 0, (int)usage_tok(v, "index", 0));
    struct json d = json_member(v, "delta"), citation = json_member(d, "citation");
    if (!s)
        return false;
    join(&s->text, json_member(d, "text"));
    join(&s->reasoning, json_member(d, "thinking"));
    join(&s->refusal, json_member(d, "signature"));
    if (json_is(json_member(d, "type"), "input_json_delta") && !join_decoded(&s->id, json_member(d, "partial_json")))
        return false;
    if (citation.kind == JSON_OBJECT) {
        str_puts(&s->finish, s->finish.n ? "," : "");
        str_put(&s->finish, citation.raw);
    }
    return !s->text.over && !s->reasoning.over && !s->refusal.over && !s->id.over && !s->finish.over;
}

static bool gather_start(struct gather *g, struct json v) {
    int64_t index = usage_tok(v, "index", 0);
    struct json block = json_member(v, "content_block");
    struct gather_slot *s = index < GATHER_SLOTS_MAX ? gather_slot(g, 0, (int)index) : NULL;
    if (!s || s->name.n)
        return false;
    str_put(&s->name, block.raw);
    join(&s->text, json_member(block, "text"));
    join(&s->reasoning, json_member(block, "thinking"));
    join(&s->refusal, json_member(block, "signature"));
    return block.kind == JSON_OBJECT && !s->name.over;
}

bool anthropic_gather(struct writer *w, const struct event *e) {
    struct gather *g = writer_gather(w);
    struct json v;
    if (!event_json(e, &v))
        return false;
    if (span_is(e->name, "message_start"))
        str_put(&g->base, json_member(v, "message").raw);
    else if (span_is(e->name, "content_block_start"))
        return gather_start(g, v);
    else if (span_is(e->name, "content_block_delta"))
        return gather_delta(g, v);
    else if (span_is(e->name, "message_delta")) {
        str_clear(&g->end);
        str_put(&g->end, v.raw);
    }
    return !g->base.over && !g->end.over;
}

static void put_joined(struct str *out, const char *name, const struct str *raw) {
    json_put_name(out, name);
    str_putc(out, '"');
    str_put(out, str_span(raw));
    str_putc(out, '"');
}

/* Fragments that make no JSON object (an answer cut by its length) are kept as text under _raw. */
static void put_input(const struct gather_slot *s, struct json input, struct str *out) {
    struct json whole = input;
    struct json_fault fault;
    if (!s->id.n || (json_check(str_span(&s->id), JSON_DEPTH_MAX, &whole, &fault) && whole.kind == JSON_OBJECT)) {
        json_put_raw(out, "input", whole.raw);
        return;
    }
    str_puts(out, ",\"input\":{");
    json_put_span(out, "_raw", str_span(&s->id));
    str_putc(out, '}');
}

static void put_block(const struct gather_slot *s, struct str *out) {
    static const char *const joined[] = {"text", "thinking", "signature", "input", "citations"};
    struct json block, input, citations;
    struct json_fault fault;
    if (!json_check(str_span(&s->name), JSON_DEPTH_MAX, &block, &fault))
        return;
    str_putc(out, '{');
    put_members(out, block, joined, ARRAY_LEN(joined));
    if (json_member(block, "text").kind)
        put_joined(out, "text", &s->text);
    if (json_member(block, "thinking").kind)
        put_joined(out, "thinking", &s->reasoning);
    if (json_member(block, "signature").kind || s->refusal.n)
        put_joined(out, "signature", &s->refusal);
    input = json_get(block, "input");
    if (input.kind != JSON_NONE)
        put_input(s, input, out);
    citations = json_get(block, "citations");
    if (s->finish.n) {
        str_puts(out, ",\"citations\":[");
        str_put(out, str_span(&s->finish));
        str_putc(out, ']');
    } else if (citations.kind != JSON_NONE)
        json_put_raw(out, "citations", citations.raw);
    str_putc(out, '}');
}

/* First the members that only `first` has, then those of `second` that say something. */
static void put_merged(struct str *out, struct json first, struct json second) {
    struct json_walk walk;
    struct span name;
    struct json v, *both[] = {&first, &second};
    char text[64];
    str_putc(out, '{');
    for (size_t i = 0; i < 2; i++) {
        json_walk_init(&walk, *both[i]);
        while (json_walk_next(&walk, &name, &v)) {
            snprintf(text, sizeof text, "%.*s", SPAN_ARG(name));
            bool later = json_member(second, text).kind != JSON_NONE;
            if (i == 0 ? later : !later)
                continue;
            json_put_raw(out, text, v.raw);
        }
    }
    str_putc(out, '}');
}

static void put_gathered_head(struct writer *w, struct json base, struct str *out) {
    static const char *const apart[] = {"id", "model", "content", "stop_reason", "stop_sequence", "usage"};
    json_put_raw(out, "id", writer_id(w));
    json_put_raw(out, "model", str_span(&w->model));
    put_members(out, base, apart, ARRAY_LEN(apart));
    str_puts(out, ",\"content\":[");
}

bool anthropic_gathered(struct writer *w, const struct writer_extra *x, struct str *out) {
    struct gather *g = w->gather;
    struct json base, end;
    struct json_fault fault;
    bool any = false;
    if (!g || !json_check(str_span(&g->base), JSON_DEPTH_MAX, &base, &fault) ||
        !json_check(str_span(&g->end), JSON_DEPTH_MAX, &end, &fault))
        return false;
    struct json delta = json_member(end, "delta"), reason = json_member(delta, "stop_reason");
    struct json sequence = json_member(delta, "stop_sequence");
    str_putc(out, '{');
    put_gathered_head(w, base, out);
    for (int i = 0; i < GATHER_SLOTS_MAX; i++) {
        const struct gather_slot *s = gather_find(g, 0, i);
        if (!s)
            continue;
        str_puts(out, any ? "," : "");
        any = true;
        put_block(s, out);
    }
    str_putc(out, ']');
    json_put_raw(out, "stop_reason", reason.kind ? reason.raw : SPAN("null"));
    json_put_raw(out, "stop_sequence", sequence.kind ? sequence.raw : SPAN("null"));
    str_clear(&w->usage);
    put_merged(&w->usage, json_member(base, "usage"), json_member(end, "usage"));
    json_put_name(out, "usage");
    put_priced(out, str_span(&w->usage), x);
    writer_tell(w, x, out);
    str_putc(out, '}');
    return !w->usage.over;
}

/* --- a message cut --- */
static void frame(struct writer *w, const char *type, struct str *out) {
    out->over |= w->scratch.over;
    put_frame(w, out, span_of(type), str_span(&w->scratch), NULL);
}

static void cut_start(struct writer *w, struct json m, struct str *out) {
    static const char *const apart[] = {"id",    "model",       "content", "stop_reason", "stop_sequence",
                                        "usage", "stop_details"};
    static const char *const counted[] = {"output_tokens"};
    struct str *s = &w->scratch;
    str_clear(s);
    str_puts(s, "{\"type\":\"message_start\",\"message\":{");
    json_put_raw(s, "id", writer_id(w));
    json_put_raw(s, "model", str_span(&w->model));
    put_members(s, m, apart, ARRAY_LEN(apart));
    str_puts(s, ",\"content\":[],\"stop_reason\":null,\"stop_sequence\":null,\"usage\":{\"output_tokens\":0");
    put_members(s, json_member(m, "usage"), counted, 1);
    str_puts(s, "}}}");
    frame(w, "message_start", out);
}

static void cut_delta(struct writer *w, int64_t index, const char *type, const char *field, struct span raw,
                      struct str *out) {
    struct str *s = &w->scratch;
    str_clear(s);
    str_printf(s, "{\"type\":\"content_block_delta\",\"index\":%lld,\"delta\":{", (long long)index);
    json_put_str(s, "type", type);
    json_put_raw(s, field, raw);
    str_puts(s, "}}");
    frame(w, "content_block_delta", out);
}

static void cut_input(struct writer *w, int64_t index, struct json input, struct str *out) {
    struct str text;
    if (input.kind != JSON_OBJECT || !json_count(input))
        return; /* no fragment at all means {} */
    str_init(&text, WRITER_GATHER_MAX);
    json_put_text(&text, input.raw);
    out->over |= text.over;
    cut_delta(w, index, "input_json_delta", "partial_json", str_span(&text), out);
    str_fini(&text);
}

/* What of a block comes in deltas: the member, its delta, and how it opens. */
static const struct {
    const char *member, *delta, *opens;
} STREAMED[] = {{"text", "text_delta", "\"\""},
                {"thinking", "thinking_delta", "\"\""},
                {"signature", "signature_delta", "\"\""},
                {"input", NULL, "{}"}};

static void cut_block_start(struct writer *w, int64_t index, struct json b, struct str *out) {
    static const char *const apart[] = {"text", "thinking", "signature", "input", "citations"};
    struct str *s = &w->scratch;
    str_clear(s);
    str_printf(s, "{\"type\":\"content_block_start\",\"index\":%lld,\"content_block\":{", (long long)index);
    put_members(s, b, apart, ARRAY_LEN(apart));
    for (size_t i = 0; i < ARRAY_LEN(STREAMED); i++)
        if (json_member(b, STREAMED[i].member).kind)
            json_put_raw(s, STREAMED[i].member, span_of(STREAMED[i].opens));
    str_puts(s, "}}");
    frame(w, "content_block_start", out);
}

static void cut_block(struct writer *w, int64_t index, struct json b, struct str *out) {
    struct json_walk walk;
    struct json citation;
    cut_block_start(w, index, b, out);
    for (size_t i = 0; i < ARRAY_LEN(STREAMED); i++) {
        struct json v = json_member(b, STREAMED[i].member);
        if (STREAMED[i].delta && v.kind == JSON_STRING && v.raw.n > 2)
            cut_delta(w, index, STREAMED[i].delta, STREAMED[i].member, v.raw, out);
    }
    cut_input(w, index, json_member(b, "input"), out);
    json_walk_init(&walk, json_member(b, "citations"));
    while (json_walk_next(&walk, NULL, &citation))
        cut_delta(w, index, "citations_delta", "citation", citation.raw, out);
    str_clear(&w->scratch);
    str_printf(&w->scratch, "{\"type\":\"content_block_stop\",\"index\":%lld}", (long long)index);
    frame(w, "content_block_stop", out);
}

bool anthropic_cut(struct writer *w, const struct event *e, const struct writer_extra *x, struct str *out) {
    struct json v, block;
    struct json_walk walk;
    (void)x;
    if (!event_json(e, &v))
        return false;
    cut_start(w, v, out);
    json_walk_init(&walk, json_member(v, "content"));
    for (int64_t i = 0; json_walk_next(&walk, NULL, &block); i++)
        cut_block(w, i, block, out);
    return true;
}

bool anthropic_cut_end(struct writer *w, const struct event *e, const struct writer_extra *x, struct str *out) {
    static const char *const told[] = {"stop_reason", "stop_sequence", "stop_details"};
    struct json v, usage;
    struct str *s = &w->scratch;
    if (!event_json(e, &v))
        return false;
    usage = json_member(v, "usage");
    str_clear(s);
    str_puts(s, "{\"type\":\"message_delta\",\"delta\":{");
    for (size_t i = 0; i < ARRAY_LEN(told); i++) {
        struct json m = json_get(v, told[i]);
        if (m.kind != JSON_NONE || i < 2)
            json_put_raw(s, told[i], m.kind ? m.raw : SPAN("null"));
    }
    str_puts(s, "}");
    json_put_name(s, "usage");
    put_priced(s, usage.kind == JSON_OBJECT ? usage.raw : SPAN("{\"output_tokens\":0}"), x);
    writer_tell(w, x, s);
    str_putc(s, '}');
    frame(w, "message_delta", out);
    str_clear(s);
    str_puts(s, "{\"type\":\"message_stop\"}");
    frame(w, "message_stop", out);
    return true;
}
