/* Writes chat, completions and embeddings. In streams every chunk has the same id; usage is told once, in a chunk of
 * its own before [DONE], and only to a client that asked (which then sees `usage: null` on the chunks before it). An
 * error ends a stream without [DONE]. */
#include "backends/dialect.h"

static const char *object_name(const struct writer *w) {
    if (w->o.endpoint == ENDPOINT_COMPLETIONS)
        return "text_completion";
    return w->o.stream ? "chat.completion.chunk" : "chat.completion";
}

static void put_head(struct writer *w, struct str *out) {
    str_putc(out, '{');
    json_put_raw(out, "id", writer_id(w));
    json_put_str(out, "object", object_name(w));
    json_put_raw(out, "created", writer_created(w));
    json_put_raw(out, "model", str_span(&w->model));
}

/* One chunk of ours; `like` lends the members that no chunk of ours has (system_fingerprint and the like). */
void openai_chunk(struct writer *w, struct span choices, struct json like, const struct writer_extra *x,
                  struct str *out) {
    static const char *const ours[] = {"id", "object", "created", "model", "choices", "usage", "obfuscation", "error"};
    struct str chunk;
    str_init(&chunk, WRITER_GATHER_MAX);
    put_head(w, &chunk);
    str_puts(&chunk, ",\"choices\":[");
    str_put(&chunk, choices);
    str_putc(&chunk, ']');
    put_members(&chunk, like, ours, ARRAY_LEN(ours));
    if (w->o.include_usage && choices.n)
        str_puts(&chunk, ",\"usage\":null");
    writer_tell(w, x, &chunk);
    str_putc(&chunk, '}');
    out->over |= chunk.over;
    put_frame(w, out, SPAN_NONE, str_span(&chunk), NULL);
    str_fini(&chunk);
}

static void put_call(struct str *s, const struct part *p) {
    bool old = !p->id.n; /* only the deprecated function_call has no id */
    if (p->kind == PART_TOOL_ARGS) {
        str_printf(s, "\"tool_calls\":[{\"index\":%d,\"function\":{", p->tool);
        json_put_span(s, "arguments", p->text);
        str_puts(s, "}}]");
        return;
    }
    if (old)
        str_puts(s, "\"function_call\":{");
    else {
        str_printf(s, "\"tool_calls\":[{\"index\":%d,", p->tool);
        json_put_span(s, "id", p->id);
        str_puts(s, ",\"type\":\"function\",\"function\":{");
    }
    json_put_span(s, "name", p->name.at ? p->name : SPAN(""));
    str_puts(s, old ? ",\"arguments\":\"\"}" : ",\"arguments\":\"\"}}]");
}

static void put_delta(struct str *s, const struct part *p) {
    static const char *const names[] = {
        [PART_TEXT] = "content", [PART_REASONING] = "reasoning_content", [PART_REFUSAL] = "refusal"};
    switch (p->kind) {
    case PART_ROLE:
        json_put_span(s, "role", p->text);
        str_puts(s, ",\"content\":\"\"");
        break;
    case PART_TEXT:
    case PART_REASONING:
    case PART_REFUSAL:
        json_put_span(s, names[p->kind], p->text);
        break;
    case PART_TOOL_OPEN:
    case PART_TOOL_ARGS:
        put_call(s, p);
        break;
    case PART_FINISH:
    case PART_LOGPROBS:
        break;
    }
}

/* A chunk for each neutral part: what the engine gives. `logprobs`: of its text; n 0: none. */
static void write_part(struct writer *w, const struct part *p, struct span logprobs, const struct writer_extra *x,
                       struct str *out) {
    struct str *s = &w->scratch;
    bool chat = w->o.endpoint == ENDPOINT_CHAT;
    if (!chat && p->kind != PART_TEXT && p->kind != PART_FINISH)
        return;
    str_clear(s);
    str_printf(s, "{\"index\":%d,", p->choice);
    if (chat) {
        str_puts(s, "\"delta\":{");
        put_delta(s, p);
        str_putc(s, '}');
    } else
        json_put_span(s, "text", p->kind == PART_TEXT ? p->text : SPAN(""));
    openai_logprobs_put(w->o.endpoint, logprobs, &w->told_bytes[p->choice % READER_CHOICES_MAX], s);
    json_put_span(s, "finish_reason", p->kind == PART_FINISH ? p->text : SPAN_NONE);
    str_putc(s, '}');
    openai_chunk(w, str_span(s), (struct json){0}, p->kind == PART_FINISH ? x : NULL, out);
}

/* Logprobs go with the text that follows them, or with an empty one. */
static void write_parts(struct writer *w, const struct event *e, const struct writer_extra *x, struct str *out) {
    for (size_t i = 0; i < e->n_parts; i++) {
        const struct part *p = &e->parts[i];
        if (p->kind != PART_LOGPROBS) {
            write_part(w, p, SPAN_NONE, x, out);
            continue;
        }
        bool follows = i + 1 < e->n_parts && p[1].kind == PART_TEXT && p[1].choice == p->choice;
        struct part none = {.kind = PART_TEXT, .choice = p->choice, .text = SPAN("")};
        write_part(w, follows ? &p[1] : &none, p->text, x, out);
        i += follows;
    }
}

static bool put_raw(struct writer *w, const struct event *e, const struct writer_extra *x, struct str *out) {
    struct edits edits;
    bool usage_there = false, only = e->bits & EVENT_USAGE_ONLY;
    for (int i = 0; i < e->n_splices; i++)
        usage_there |= e->splices[i].what == SPLICE_USAGE;
    str_clear(&w->tail);
    if (w->o.include_usage && !usage_there && !only)
        str_puts(&w->tail, ",\"usage\":null");
    if (e->bits & (EVENT_FINISH | EVENT_USAGE_ONLY))
        writer_tell(w, x, &w->tail);
    writer_edits(w, e, x, only ? USAGE_PRICED : w->o.include_usage ? USAGE_NULL : USAGE_STRIP, &edits);
    put_frame(w, out, SPAN_NONE, e->data, &edits);
    return true;
}

static bool write_stream(struct writer *w, const struct event *e, const struct writer_extra *x, struct str *out) {
    writer_see(w, e);
    if (e->bits & EVENT_PLAIN)
        return openai_cut(w, e, out);
    if (e->bits & EVENT_USAGE_ONLY) { /* told at the end, when its cost is known; the last one counts */
        if (!w->o.include_usage || !e->data.n)
            return true;
        str_clear(&w->held);
        w->n_held = 0;
        return writer_hold(w, e, x);
    }
    if (e->data.n)
        return span_is(e->data, "[DONE]") ? true : put_raw(w, e, x, out);
    write_parts(w, e, x, out);
    return true;
}

bool openai_write(struct writer *w, const struct event *e, const struct writer_extra *x, struct str *out) {
    if (w->o.stream)
        return write_stream(w, e, x, out);
    writer_see(w, e);
    return e->bits & EVENT_PLAIN ? writer_hold(w, e, x) : openai_gather(w, e);
}

void openai_usage_put(const struct usage *u, struct str *out) {
    int64_t in = usage_in_tok(u), written = u->cache_write_5m + u->cache_write_1h, all = u->out + u->out_audio;
    str_putc(out, '{');
    json_put_i64(out, "prompt_tokens", in);
    json_put_i64(out, "completion_tokens", all);
    json_put_i64(out, "total_tokens", in + all);
    str_puts(out, ",\"prompt_tokens_details\":{");
    json_put_i64(out, "cached_tokens", u->cache_read);
    if (written)
        json_put_i64(out, "cache_write_tokens", written);
    json_put_i64(out, "audio_tokens", u->in_audio);
    str_puts(out, "},\"completion_tokens_details\":{");
    json_put_i64(out, "reasoning_tokens", u->reasoning);
    json_put_i64(out, "audio_tokens", u->out_audio);
    str_puts(out, "}}");
}

/* What the provider said, byte for byte; else what we know; else nothing: zeros would be a lie. */
void writer_usage(struct writer *w, const struct usage *u, struct str *out) {
    u = u && (u->reported || u->estimated) ? u : w->has_usage ? &w->usage_seen : NULL;
    str_clear(out);
    if (w->usage_raw.n)
        str_put(out, str_span(&w->usage_raw));
    else if (u)
        openai_usage_put(u, out);
}

/* The chunk that is owed to a client that asked for usage and whose provider did not send one of its own. */
static void put_owed(struct writer *w, const struct usage *u, const struct writer_extra *x, struct str *out) {
    struct str *s = &w->usage;
    struct str chunk;
    writer_usage(w, u, s);
    if (!s->n)
        return;
    str_init(&chunk, WRITER_GATHER_MAX);
    put_head(w, &chunk);
    str_puts(&chunk, ",\"choices\":[]");
    json_put_name(&chunk, "usage");
    put_priced(&chunk, str_span(s), x);
    writer_tell(w, x, &chunk);
    str_putc(&chunk, '}');
    out->over |= chunk.over;
    put_frame(w, out, SPAN_NONE, str_span(&chunk), NULL);
    str_fini(&chunk);
}

bool openai_end(struct writer *w, const struct usage *u, const struct writer_extra *x, struct str *out) {
    if (!w->o.stream)
        return w->n_held ? writer_release(w, x, put_plain, out) : openai_gathered(w, u, x, out);
    if (w->o.include_usage && w->n_held) {
        if (!writer_release(w, x, put_raw, out))
            return false;
    } else if (w->o.include_usage)
        put_owed(w, u, x, out);
    str_puts(out, "data: [DONE]\n\n");
    return true;
}

static void fail_stream(struct writer *w, enum err e, const char *message, const char *request_id, struct str *out) {
    struct error_body body = {.err = e, .message = message, .request_id = request_id};
    str_clear(&w->scratch);
    openai_error_put(&body, &w->scratch);
    put_frame(w, out, SPAN_NONE, str_span(&w->scratch), NULL);
}

const struct dialect_ops openai_ops = {
    .name = "openai",
    .heartbeat = ": ping\n\n",
    .parse = openai_call,
    .read_frame = openai_frame,
    .read_plain = openai_plain,
    .write_event = openai_write,
    .write_end = openai_end,
    .write_fail = fail_stream,
    .error_put = openai_error_put,
    .id_prefix = "chatcmpl-",
};
