/* See relay.h. Always true: every event goes through its packed form on the way to the writers, so a golden text that
 * agrees also says that packing loses nothing. */
#include "tests/support/relay.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

void sse_init(struct sse *s) {
    memset(s, 0, sizeof *s);
    str_init(&s->line, 1 << 24);
    str_init(&s->name, 1 << 10);
    str_init(&s->data, 1 << 24);
}

void sse_fini(struct sse *s) {
    str_fini(&s->line);
    str_fini(&s->name);
    str_fini(&s->data);
}

static void sse_field(struct sse *s) {
    struct span line = str_span(&s->line), name;
    if (!line.n || line.at[0] == ':' || !span_cut(&line, ':', &name))
        return;
    if (line.n && line.at[0] == ' ')
        line = span_from(line.at + 1, line.n - 1);
    if (span_is(name, "event")) {
        str_clear(&s->name);
        str_put(&s->name, line);
    } else if (span_is(name, "data")) {
        if (s->has_data)
            str_putc(&s->data, '\n');
        s->has_data = true;
        str_put(&s->data, line);
    }
}

void sse_feed(struct sse *s, struct span bytes, void (*see)(struct span name, struct span data, void *user),
              void *user) {
    for (size_t i = 0; i < bytes.n; i++) {
        char c = bytes.at[i];
        bool skip = s->skip_lf && c == '\n';
        s->skip_lf = c == '\r';
        if (skip)
            continue;
        if (c != '\n' && c != '\r') {
            str_putc(&s->line, c);
            continue;
        }
        if (s->line.n) {
            sse_field(s);
            str_clear(&s->line);
            continue;
        }
        if (s->has_data)
            see(str_span(&s->name), str_span(&s->data), user);
        str_clear(&s->name);
        str_clear(&s->data);
        s->has_data = false;
    }
}

struct span file_read(const char *path, struct str *into) {
    FILE *f = fopen(path, "rb");
    char block[4096];
    size_t n;
    assert(f);
    while ((n = fread(block, 1, sizeof block, f)))
        str_put(into, span_from(block, n));
    fclose(f);
    return str_span(into);
}

static void dump_bits(unsigned bits, struct str *out) {
    static const char *const names[] = {"content", "finish", "usage",  "usage_only", "error",
                                        "last",    "plain",  "silent", "no_store",   "cut"};
    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        if (bits >> i & 1)
            str_printf(out, " %s", names[i]);
}

static void dump_usage(const struct usage *u, struct str *out) {
    str_puts(out, "usage");
#define X(name) str_printf(out, u->name ? " " #name "=%lld" : "%.0lld", (long long)u->name);
    USAGE_LINES(X)
#undef X
    str_printf(out, " reasoning=%lld%s\n", (long long)u->reasoning, u->reported ? " reported" : "");
}

static void dump_part(const struct part *p, struct str *out) {
    static const char *const kinds[] = {"role", "text", "reasoning", "refusal", "tool", "args", "finish"};
    str_printf(out, "  %s choice=%d tool=%d ", kinds[p->kind], p->choice, p->tool);
    json_put_text(out, p->text);
    if (p->kind == PART_TOOL_OPEN)
        str_printf(out, " id=%.*s name=%.*s", SPAN_ARG(p->id), SPAN_ARG(p->name));
    str_puts(out, "\n");
}

void dump_event(const struct event *e, struct str *out) {
    static const char *const whats[] = {"model", "id", "created", "usage"};
    str_puts(out, "event");
    dump_bits(e->bits, out);
    str_printf(out, " name=%.*s data=%zu text=%lld\n", SPAN_ARG(e->name), e->data.n, (long long)e->text_bytes);
    for (int i = 0; i < e->n_splices; i++)
        str_printf(out, "  splice %s %.*s\n", whats[e->splices[i].what], (int)e->splices[i].n,
                   e->data.at + e->splices[i].at);
    for (size_t i = 0; i < e->n_parts; i++)
        dump_part(&e->parts[i], out);
    if (e->bits & EVENT_FINISH)
        str_printf(out, "  finish %s\n", finish_names[e->finish]);
    if (e->bits & EVENT_USAGE) {
        str_puts(out, "  ");
        dump_usage(&e->usage, out);
    }
    if (e->bits & EVENT_ERROR)
        str_printf(out, "  error %s status=%d %.*s\n", err_code(e->err), e->status, SPAN_ARG(e->message));
}

#define CLIENTS 3
struct relay {
    struct reader *reader;
    struct writer *writers[CLIENTS];
    struct str client[CLIENTS];
    struct str *out;
    bool failed, cannot[CLIENTS];
};

static struct writer *writer_of(enum endpoint e, bool stream, bool usage) {
    return writer_new(&(struct writer_options){.endpoint = e,
                                               .stream = stream,
                                               .include_usage = usage,
                                               .model = SPAN("asked/model"),
                                               .id = "OURS",
                                               .created_s = 1790000000});
}

static void relay_event(struct relay *r, const struct event *from) {
    struct part *parts = calloc(EVENT_PARTS_MAX, sizeof *parts);
    struct str packed;
    struct event e;
    str_init(&packed, 1 << 26);
    event_pack(from, &packed);
    struct span rest = str_span(&packed);
    bool unpacked = event_unpack(&rest, &e, parts);
    assert(unpacked && rest.n == 0);
    if (r->out)
        dump_event(&e, r->out);
    for (int i = 0; i < CLIENTS; i++) {
        if (!r->writers[i] || r->cannot[i])
            continue;
        if (e.bits & EVENT_ERROR)
            writer_fail(r->writers[i], e.err, e.message.at ? "The provider failed." : NULL, "req_9", &r->client[i]);
        else
            r->cannot[i] = !writer_event(r->writers[i], &e, NULL, &r->client[i]);
    }
    r->failed |= (e.bits & EVENT_ERROR) != 0;
    str_fini(&packed);
    free(parts);
}

static void on_frame(struct span name, struct span data, void *user) {
    struct relay *r = user;
    struct event e;
    const char *why = NULL;
    if (r->failed)
        return;
    enum err err = reader_frame(r->reader, name, data, &e, &why);
    if (err == ERR_NONE) {
        relay_event(r, &e);
        return;
    }
    r->failed = true;
    if (r->out)
        str_printf(r->out, "refused: %s\n", why);
}

static void relay_end(struct relay *r) {
    static const char *const names[CLIENTS] = {"stream with usage", "stream", "plain"};
    struct writer_extra extra = {.cost_nanousd = 1234, .tollgate = "{\"degraded\":\"budget\"}"};
    if (r->out) {
        dump_usage(reader_usage(r->reader), r->out);
        str_printf(r->out, "finished=%d\n", reader_finished(r->reader));
    }
    for (int i = 0; i < CLIENTS; i++) {
        if (!r->writers[i])
            continue;
        if (!r->failed && !r->cannot[i])
            r->cannot[i] = !writer_end(r->writers[i], NULL, &extra, &r->client[i]);
        if (r->out) {
            str_printf(r->out, "--- %s%s\n", names[i], r->cannot[i] ? " (cannot)" : "");
            str_put(r->out, str_span(&r->client[i]));
            str_puts(r->out, "\n");
        }
        writer_free(r->writers[i]);
        r->writers[i] = NULL;
    }
    reader_free(r->reader);
}

static void relay_fini(struct relay *r) {
    for (int i = 0; i < CLIENTS; i++)
        str_fini(&r->client[i]);
}

static void relay_init(struct relay *r, enum endpoint e, struct str *out) {
    memset(r, 0, sizeof *r);
    r->reader = reader_new(endpoint_row(e)->dialect == DIALECT_ANTHROPIC ? PROTOCOL_ANTHROPIC : PROTOCOL_OPENAI, e);
    r->out = out;
    for (int i = 0; i < CLIENTS; i++)
        str_init(&r->client[i], 1 << 26);
}

void relay_stream(enum endpoint e, struct span stream, size_t cut, size_t piece, struct str *out) {
    struct relay r;
    struct sse s;
    relay_init(&r, e, out);
    r.writers[0] = writer_of(e, true, true);
    r.writers[1] = writer_of(e, true, false);
    r.writers[2] = writer_of(e, false, false);
    sse_init(&s);
    for (size_t at = 0; at < stream.n;) {
        size_t n = piece ? piece : stream.n;
        n = at < cut && at + n > cut ? cut - at : n;
        n = at + n > stream.n ? stream.n - at : n;
        char *copy = malloc(n); /* so that reading past a piece is seen */
        memcpy(copy, stream.at + at, n);
        sse_feed(&s, span_from(copy, n), on_frame, &r);
        free(copy);
        at += n;
    }
    sse_fini(&s);
    relay_end(&r);
    relay_fini(&r);
}

void relay_plain(enum endpoint e, struct span stream, struct str *out) {
    struct relay r;
    struct sse s;
    relay_init(&r, e, NULL);
    r.writers[2] = writer_of(e, false, false);
    sse_init(&s);
    sse_feed(&s, stream, on_frame, &r);
    sse_fini(&s);
    relay_end(&r);
    str_put(out, str_span(&r.client[2]));
    relay_fini(&r);
}

bool relay_body(enum endpoint e, struct span body, bool stream, bool include_usage, struct str *out) {
    struct relay r;
    struct event event;
    const char *why;
    relay_init(&r, e, NULL);
    r.writers[0] = writer_of(e, stream, include_usage);
    enum err err = reader_plain(r.reader, body, &event, &why);
    if (err == ERR_NONE)
        relay_event(&r, &event);
    r.failed |= err != ERR_NONE;
    bool ok = !r.failed && !r.cannot[0];
    relay_end(&r);
    str_put(out, str_span(&r.client[0]));
    relay_fini(&r);
    return ok;
}
