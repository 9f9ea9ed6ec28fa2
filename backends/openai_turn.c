/* Turns OpenAI answers between their two forms: a whole answer cut into chunks that the official clients accept (role
 * first, then the content, then the finish reason), and a stream gathered into a whole answer. Members that Tollgate
 * does not know are carried along. */
#include "backends/dialect.h"

static void put_tool_calls(struct str *s, struct json calls) {
    static const char *const index[] = {"index"};
    struct json_walk walk;
    struct json call;
    json_put_name(s, "tool_calls");
    str_putc(s, '[');
    json_walk_init(&walk, calls);
    for (size_t i = 0; json_walk_next(&walk, NULL, &call); i++) {
        str_printf(s, "%s{\"index\":%zu", i ? "," : "", i);
        put_members(s, call, index, 1);
        str_putc(s, '}');
    }
    str_putc(s, ']');
}

static void put_choice(struct writer *w, int64_t index, const char *delta, struct json logprobs, struct json finish,
                       struct json like, struct str *out) {
    struct str choice;
    str_init(&choice, WRITER_GATHER_MAX);
    str_printf(&choice, "{\"index\":%lld,", (long long)index);
    str_puts(&choice, delta);
    json_put_raw(&choice, "logprobs", logprobs.kind ? logprobs.raw : SPAN("null"));
    json_put_raw(&choice, "finish_reason", finish.kind ? finish.raw : SPAN("null"));
    str_putc(&choice, '}');
    out->over |= choice.over;
    openai_chunk(w, str_span(&choice), like, NULL, out);
    str_fini(&choice);
}

static void cut_message(struct writer *w, int64_t index, struct json choice, struct json like, struct str *out) {
    static const char *const apart[] = {"role", "tool_calls"};
    struct json m = json_member(choice, "message"), calls = json_member(m, "tool_calls");
    struct json none = {0}, role = json_member(m, "role");
    struct str *s = &w->scratch;
    str_clear(s);
    str_puts(s, "\"delta\":{");
    json_put_raw(s, "role", role.kind ? role.raw : SPAN("\"assistant\""));
    str_puts(s, ",\"content\":\"\"}");
    put_choice(w, index, s->at, none, none, like, out);
    str_clear(s);
    str_puts(s, "\"delta\":{");
    put_members(s, m, apart, ARRAY_LEN(apart));
    if (calls.kind == JSON_ARRAY && json_count(calls))
        put_tool_calls(s, calls);
    str_putc(s, '}');
    put_choice(w, index, s->over ? "\"delta\":{}" : s->at, json_member(choice, "logprobs"), none, like, out);
    out->over |= s->over;
    put_choice(w, index, "\"delta\":{}", none, json_member(choice, "finish_reason"), like, out);
}

static void cut_text(struct writer *w, int64_t index, struct json choice, struct json like, struct str *out) {
    struct json none = {0}, text = json_member(choice, "text");
    struct str *s = &w->scratch;
    str_clear(s);
    json_put_raw(s, "text", text.kind ? text.raw : SPAN("\"\""));
    put_choice(w, index, s->at, json_member(choice, "logprobs"), none, like, out);
    put_choice(w, index, "\"text\":\"\"", none, json_member(choice, "finish_reason"), like, out);
}

bool openai_cut(struct writer *w, const struct event *e, struct str *out) {
    struct json v, choice;
    struct json_walk walk;
    if (!event_json(e, &v))
        return false;
    json_walk_init(&walk, json_member(v, "choices"));
    for (int64_t i = 0; json_walk_next(&walk, NULL, &choice); i++) {
        int64_t index = usage_tok(choice, "index", i);
        if (w->o.endpoint == ENDPOINT_CHAT)
            cut_message(w, index, choice, v, out);
        else
            cut_text(w, index, choice, v, out);
    }
    return true;
}

static bool gather_part(struct gather *g, const struct part *p) {
    struct gather_slot *s;
    bool tool = p->kind == PART_TOOL_OPEN || p->kind == PART_TOOL_ARGS;
    if (!gather_slot(g, p->choice, -1))
        return false;
    s = gather_slot(g, p->choice, tool ? p->tool : -1);
    if (!s)
        return false;
    struct str *to[] = {[PART_ROLE] = NULL,           [PART_TEXT] = &s->text,        [PART_REASONING] = &s->reasoning,
                        [PART_REFUSAL] = &s->refusal, [PART_TOOL_OPEN] = NULL,       [PART_TOOL_ARGS] = &s->text,
                        [PART_FINISH] = &s->finish,   [PART_LOGPROBS] = &s->logprobs};
    if (p->kind == PART_TOOL_OPEN) {
        str_put(&s->id, p->id);
        str_put(&s->name, p->name);
    }
    if (p->kind == PART_LOGPROBS && s->logprobs.n)
        str_putc(&s->logprobs, ',');
    if (to[p->kind])
        str_put(to[p->kind], p->text);
    return !s->text.over && !s->reasoning.over && !s->refusal.over && !s->id.over && !s->name.over && !s->finish.over &&
           !s->logprobs.over;
}

bool openai_gather(struct writer *w, const struct event *e) {
    struct gather *g = writer_gather(w);
    if (e->bits & EVENT_CUT)
        return false;
    if (!g->base.n && e->data.n && !span_is(e->data, "[DONE]"))
        str_put(&g->base, e->data);
    for (size_t i = 0; i < e->n_parts; i++)
        if (!gather_part(g, &e->parts[i]))
            return false;
    return !g->base.over;
}

static void put_str_or_null(struct str *out, const char *name, const struct str *s, bool null) {
    json_put_span(out, name, null ? SPAN_NONE : s->n ? str_span(s) : SPAN(""));
}

static void put_gathered_tools(struct gather *g, int choice, struct str *out) {
    bool any = false;
    for (int tool = 0; tool < GATHER_SLOTS_MAX; tool++) {
        const struct gather_slot *s = gather_find(g, choice, tool);
        if (!s)
            break;
        if (!s->id.n && !any) { /* the deprecated form has no id */
            str_puts(out, ",\"function_call\":{");
            put_str_or_null(out, "name", &s->name, false);
            put_str_or_null(out, "arguments", &s->text, false);
            str_putc(out, '}');
            return;
        }
        str_puts(out, any ? ",{" : ",\"tool_calls\":[{");
        any = true;
        put_str_or_null(out, "id", &s->id, false);
        str_puts(out, ",\"type\":\"function\",\"function\":{");
        put_str_or_null(out, "name", &s->name, false);
        put_str_or_null(out, "arguments", &s->text, false);
        str_puts(out, "}}");
    }
    if (any)
        str_putc(out, ']');
}

static void put_gathered(struct writer *w, const struct gather_slot *s, struct str *out) {
    struct gather *g = w->gather;
    bool tools = gather_find(g, s->choice, 0) != NULL;
    str_printf(out, "{\"index\":%d,", s->choice);
    if (w->o.endpoint == ENDPOINT_CHAT) {
        str_puts(out, "\"message\":{\"role\":\"assistant\"");
        put_str_or_null(out, "content", &s->text, tools && !s->text.n);
        put_str_or_null(out, "refusal", &s->refusal, !s->refusal.n);
        if (s->reasoning.n)
            put_str_or_null(out, "reasoning_content", &s->reasoning, false);
        put_gathered_tools(g, s->choice, out);
        str_putc(out, '}');
    } else
        put_str_or_null(out, "text", &s->text, false);
    int64_t offset = 0;
    openai_logprobs_put(w->o.endpoint, str_span(&s->logprobs), &offset, out);
    put_str_or_null(out, "finish_reason", &s->finish, !s->finish.n);
    str_putc(out, '}');
}

static void put_gathered_usage(struct writer *w, const struct usage *u, const struct writer_extra *x, struct str *out) {
    writer_usage(w, u, &w->usage);
    if (!w->usage.n)
        return;
    json_put_name(out, "usage");
    put_priced(out, str_span(&w->usage), x);
}

bool openai_gathered(struct writer *w, const struct usage *u, const struct writer_extra *x, struct str *out) {
    static const char *const ours[] = {"id", "object", "created", "model", "choices", "usage", "obfuscation", "x_groq"};
    struct gather *g = w->gather;
    struct json base = {0};
    struct json_fault fault;
    bool any = false;
    if (!g || !g->n)
        return false;
    str_putc(out, '{');
    json_put_raw(out, "id", writer_id(w));
    json_put_str(out, "object", w->o.endpoint == ENDPOINT_CHAT ? "chat.completion" : "text_completion");
    json_put_raw(out, "created", writer_created(w));
    json_put_raw(out, "model", str_span(&w->model));
    str_puts(out, ",\"choices\":[");
    for (int i = 0; i < READER_CHOICES_MAX; i++) {
        const struct gather_slot *s = gather_find(g, i, -1);
        if (!s)
            continue;
        str_puts(out, any ? "," : "");
        any = true;
        put_gathered(w, s, out);
    }
    str_putc(out, ']');
    if (g->base.n && json_check(str_span(&g->base), JSON_DEPTH_MAX, &base, &fault))
        put_members(out, base, ours, ARRAY_LEN(ours));
    put_gathered_usage(w, u, x, out);
    writer_tell(w, x, out);
    str_putc(out, '}');
    return true;
}
