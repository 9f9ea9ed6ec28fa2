/* A call's way in and out. call_parse checks by the dialect's tables and notes what the other rooms need; call_write
 * gives the client's own bytes back with a few splices. Always true: outside the splices the provider gets
 * exactly the bytes that the client sent, in the client's order. */
#include "backends/dialect.h"

#define CALL_EDITS_MAX 5 /* the model, the usage, two fields of output, one added */
struct call_edits {      /* in ascending order */
    struct edit at[CALL_EDITS_MAX];
    int n;
};

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

/* --- clamping --- */

/* Where each endpoint's calls say how much may come; the first is written where none is said. */
static const char *const max_names[ENDPOINT_N][2] = {
    [ENDPOINT_CHAT] = {"max_completion_tokens", "max_tokens"},
    [ENDPOINT_COMPLETIONS] = {"max_tokens"},
    [ENDPOINT_RESPONSES] = {"max_output_tokens"},
    [ENDPOINT_MESSAGES] = {"max_tokens"},
};

static bool is_plain_form(struct json format) {
    return format.kind == JSON_NONE || json_is(json_member(format, "type"), "text");
}

bool call_may_clamp(const struct llm_call *c, int64_t to_tok) {
    int64_t thinking = 0;
    struct json body = c->body, thought = json_member(json_member(body, "thinking"), "budget_tokens");
    if (!max_names[c->endpoint][0] || to_tok <= 0 || c->caps & (CAP_TOOLS | CAP_JSON_SCHEMA) || c->size.tools > 0)
        return false;
    if (!is_plain_form(json_member(body, "response_format")) ||
        !is_plain_form(json_member(json_member(body, "text"), "format")) ||
        !is_plain_form(json_member(body, "output_format")) ||
        !is_plain_form(json_member(json_member(body, "output_config"), "format")))
        return false;
    return !json_i64(thought, &thinking) || thinking < to_tok;
}

static void edit_put(struct call_edits *edits, struct edit e) {
    int at = edits->n++;
    for (; at > 0 && edits->at[at - 1].at > e.at; at--)
        edits->at[at] = edits->at[at - 1];
    edits->at[at] = e;
}

/* Every field that says more is rewritten where it stands; where none is said, one is added. */
static bool clamp_edits(const struct llm_call *c, struct arena *a, struct call_edits *edits) {
    struct str text;
    bool said = false;
    int64_t asked;
    for (size_t i = 0; c->clamped_tok > 0 && i < ARRAY_LEN(max_names[0]) && max_names[c->endpoint][i]; i++) {
        struct json v = json_member(c->body, max_names[c->endpoint][i]);
        if (v.kind == JSON_NONE)
            continue;
        said = true;
        if (json_i64(v, &asked) && asked <= c->clamped_tok)
            continue;
        str_init(&text, 32);
        str_printf(&text, "%lld", (long long)c->clamped_tok);
        struct edit e = {(size_t)(v.raw.at - c->body.raw.at), v.raw.n, arena_str(a, &text)};
        if (!e.with.at)
            return false;
        edit_put(edits, e);
    }
    if (c->clamped_tok <= 0 || said)
        return true;
    struct json blank = json_get(c->body, max_names[c->endpoint][0]); /* null: not said, but there */
    str_init(&text, 64);
    if (blank.kind == JSON_NONE)
        str_printf(&text, ",\"%s\":", max_names[c->endpoint][0]);
    str_printf(&text, "%lld", (long long)c->clamped_tok);
    bool there = blank.kind != JSON_NONE;
    struct edit e = {there ? (size_t)(blank.raw.at - c->body.raw.at) : c->body.raw.n - 1, there ? blank.raw.n : 0,
                     arena_str(a, &text)};
    if (e.with.at)
        edit_put(edits, e);
    return e.with.at;
}

bool call_write(const struct llm_call *c, struct span upstream_model, struct arena *a, struct call_pieces *out) {
    struct span body = c->body.raw;
    struct call_edits edits = {0};
    struct edit model = {(size_t)(c->model_at.at - body.at), c->model_at.n, quoted(upstream_model, a)};
    struct edit usage = usage_edit(c);
    size_t at = 0;
    out->n = out->bytes = 0;
    edit_put(&edits, model);
    if (usage.with.n)
        edit_put(&edits, usage);
    if (!model.with.at || !clamp_edits(c, a, &edits))
        return false;
    for (int i = 0; i < edits.n; i++) {
        pieces_put(out, (struct span){body.at + at, edits.at[i].at - at});
        pieces_put(out, edits.at[i].with);
        at = edits.at[i].at + edits.at[i].n;
    }
    pieces_put(out, (struct span){body.at + at, body.n - at});
    return true;
}
