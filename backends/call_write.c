/* A call's way in and out. call_parse checks by the dialect's tables and notes what the other rooms need; call_write
 * gives the client's own bytes back with at most two splices. Always true: outside the splices the provider gets
 * exactly the bytes that the client sent, in the client's order. */
#include "backends/dialect.h"

bool call_parse(enum endpoint e, struct json body, struct arena *a, struct llm_call *out, struct call_fault *fault) {
    struct check k = {.arena = a, .call = out, .fault = fault};
    memset(fault, 0, sizeof *fault);
    memset(out, 0, sizeof *out);
    out->endpoint = e;
    out->body = body;
    out->size.max_output_tok = -1;
    out->size.choices = 1;
    return dialect_ops(endpoint_row(e)->dialect)->parse(&k);
}

static void pieces_put(struct call_pieces *p, struct span s) {
    if (!s.n)
        return;
    p->at[p->n++] = s;
    p->bytes += s.n;
}

static struct span arena_str(struct arena *a, struct str *s) {
    char *copy = s->over ? NULL : arena_strdup(a, str_span(s));
    struct span out = {copy, copy ? s->n : 0};
    str_fini(s);
    return out;
}

static struct span quoted(struct span text, struct arena *a) {
    struct str s;
    str_init(&s, 4096);
    json_put_text(&s, text);
    return arena_str(a, &s);
}

/* OpenAI streams: usage is always asked of a provider that can be asked, whatever the client asked of us. */
static struct edit usage_edit(const struct llm_call *c) {
    struct span body = c->body.raw, raw = c->stream_options.raw;
    bool speaks = c->endpoint == ENDPOINT_CHAT || c->endpoint == ENDPOINT_COMPLETIONS;
    if (!speaks || !c->stream || c->include_usage || c->usage_unasked)
        return (struct edit){0};
    if (c->stream_options.kind == JSON_NONE)
        return (struct edit){body.n - 1, 0, SPAN(",\"stream_options\":{\"include_usage\":true}")};
    size_t at = (size_t)(raw.at - body.at);
    if (c->stream_options.kind != JSON_OBJECT)
        return (struct edit){at, raw.n, SPAN("{\"include_usage\":true}")};
    struct json said = json_get(c->stream_options, "include_usage");
    if (said.kind != JSON_NONE)
        return (struct edit){(size_t)(said.raw.at - body.at), said.raw.n, SPAN("true")};
    if (json_count(c->stream_options))
        return (struct edit){at + 1, 0, SPAN("\"include_usage\":true,")};
    return (struct edit){at, raw.n, SPAN("{\"include_usage\":true}")};
}

bool call_write(const struct llm_call *c, struct span upstream_model, struct arena *a, struct call_pieces *out) {
    struct span body = c->body.raw;
    struct edit edits[2] = {{(size_t)(c->model_at.at - body.at), c->model_at.n, quoted(upstream_model, a)},
                            usage_edit(c)};
    size_t at = 0;
    out->n = out->bytes = 0;
    if (!edits[0].with.at)
        return false;
    if (edits[1].with.n && edits[1].at < edits[0].at) {
        struct edit first = edits[1];
        edits[1] = edits[0];
        edits[0] = first;
    }
    for (int i = 0; i < 2; i++) {
        if (!edits[i].with.n)
            continue;
        pieces_put(out, (struct span){body.at + at, edits[i].at - at});
        pieces_put(out, edits[i].with);
        at = edits[i].at + edits[i].n;
    }
    pieces_put(out, (struct span){body.at + at, body.n - at});
    return true;
}
