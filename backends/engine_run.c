/* Turns what the engine gives into neutral events: one run a choice, each with its text looked through for calls of tools. Always
 * true: the role of a choice comes once and first, its finish once and last; every event tells the usage of all choices so far, with
 * the prompt counted once; the last event is an EVENT_LAST or an EVENT_ERROR. */
#include "backends/dialect.h"

#include <stdio.h>
#include <stdlib.h>

#define FORM_BYTES_MAX (8 << 20)
#define SEED_STEP UINT64_C(0x9e3779b97f4a7c15) /* from one choice's seed to the next one's */

struct engine_run {
    enum endpoint endpoint;
    bool one_call;
    int n, next, left; /* choices; where to look first; not over yet */
    struct parts parts;
    char adapter[160];
    struct engine_choice choices[]; /* n */
};

/* --- starting --- */

static bool fail(struct call_fault *f, const char *field, const char *text) {
    f->err = ERR_UNSUPPORTED;
    snprintf(f->field, sizeof f->field, "%.90s", field);
    snprintf(f->text, sizeof f->text, "%.90s %.150s", field, text);
    return false;
}

/* The tools that may be called: all, or the one that was named. */
static size_t tools_of(const struct engine_ask *ask, struct json *out, struct arena *a) {
    struct json_walk w;
    struct json tool;
    size_t n = 0;
    for (json_walk_init(&w, ask->tools); json_walk_next(&w, NULL, &tool);) {
        struct span name = json_text(json_get(json_get(tool, "function"), "name"), a);
        if (ask->tool_choice == TOOLS_REQUIRED || span_equal(name, ask->tool_name))
            out[n++] = tool;
    }
    return n;
}

/* A call that has to be made gives its answers their form. */
static bool add_form(enum decode_calls how, const struct engine_ask *ask, struct arena *a, struct decode_ask *out,
                     struct call_fault *f) {
    struct decode_fault fault;
    if (ask->tools.kind && how == CALLS_NONE)
        return fail(f, "tools", "cannot be told to this model: its chat template has no place for them.");
    if (!ask->tools.kind || ask->tool_choice == TOOLS_AUTO)
        return true;
    struct json *tools = arena_alloc(a, (json_count(ask->tools) + 1) * sizeof *tools);
    bool several = ask->tool_choice == TOOLS_REQUIRED && !ask->one_call;
    if (!tools)
        return fail(f, "tools", "are too large.");
    out->form = decode_form_of_tools(how, tools, tools_of(ask, tools, a), several, a, &fault);
    return out->form || fail(f, fault.field, fault.text);
}

static enum err start_all(struct engine_run *r, struct decode *d, struct decode_ask *ask, enum decode_calls how,
                          void (*on_ready)(void *user), void *user) {
    for (int i = 0; i < r->n; i++) {
        struct engine_choice *c = &r->choices[i];
        tool_text_init(&c->text, how, i);
        enum err e = decode_start(d, ask, on_ready, user, &c->run);
        if (e)
            return e;
        r->left++;
        ask->seed += SEED_STEP;
    }
    snprintf(r->adapter, sizeof r->adapter, "%s", decode_run_adapter(r->choices[0].run));
    return ERR_NONE;
}

enum err engine_start(struct decode *d, const struct engine_ask *ask, void (*on_ready)(void *user), void *user,
                      struct engine_run **out, struct call_fault *fault) {
    struct decode_ask each = ask->ask;
    struct arena a;
    enum decode_calls how = decode_calls(d);
    *out = NULL;
    *fault = (struct call_fault){0};
    arena_init(&a, FORM_BYTES_MAX);
    if (each.cap_tok > 0) { /* held for all of them */
        each.cap_tok = each.cap_tok / ask->choices;
        each.cap_tok = each.cap_tok ? each.cap_tok : 1;
    }
    enum err e = add_form(how, ask, &a, &each, fault) ? ERR_NONE : ERR_UNSUPPORTED;
    if (!e) {
        struct engine_run *r = xcalloc(1, sizeof *r + (size_t)ask->choices * sizeof r->choices[0]);
        r->endpoint = ask->endpoint;
        r->n = ask->choices;
        r->one_call = ask->one_call;
        e = start_all(r, d, &each, ask->tools.kind ? how : CALLS_NONE, on_ready, user);
        if (e == ERR_UNSUPPORTED)
            fail(fault, "messages", "are not taken by the model's chat template.");
        if (e)
            engine_end(r);
        else
            *out = r;
    }
    arena_fini(&a);
    return e;
}

const char *engine_adapter(const struct engine_run *r) {
    return r->adapter;
}

static void end_choice(struct engine_choice *c) {
    if (c->run)
        decode_end(c->run);
    c->run = NULL;
}

void engine_end(struct engine_run *r) {
    for (int i = 0; i < r->n; i++) {
        end_choice(&r->choices[i]);
        tool_text_fini(&r->choices[i].text);
    }
    parts_fini(&r->parts);
    free(r);
}

/* --- events --- */

static void put_error(enum err e, struct event *out) {
    out->bits |= EVENT_ERROR;
    out->err = e;
    out->status = error_status(DIALECT_OPENAI, e);
    out->message = span_of(err_row(e)->text);
}

static void put_finish(struct engine_choice *c, const char *finish, struct parts *parts, struct event *out) {
    bool length = strcmp(finish, "length") == 0, tools = !length && c->text.calls;
    struct part part = {.kind = PART_FINISH, .choice = c->text.choice, .text = span_of(tools ? "tool_calls" : finish)};
    tool_text_end(&c->text, parts);
    parts_put(parts, &part);
    out->finish = length ? FINISH_LENGTH : tools ? FINISH_TOOLS : FINISH_STOP;
    out->bits |= EVENT_FINISH;
}

/* What can be seen of the parts. */
static void measure(struct event *out) {
    for (size_t i = 0; i < out->n_parts; i++) {
        enum part_kind kind = out->parts[i].kind;
        if (kind != PART_TEXT && kind != PART_TOOL_OPEN && kind != PART_TOOL_ARGS)
            continue;
        out->bits |= EVENT_CONTENT;
        out->text_bytes += (int64_t)out->parts[i].text.n;
    }
    if (!out->n_parts && !out->bits)
        out->bits = EVENT_SILENT;
}

void engine_event(enum endpoint e, struct engine_choice *c, const struct decode_piece *piece, struct parts *parts,
                  struct event *out) {
    struct part role = {.kind = PART_ROLE, .choice = c->text.choice, .text = SPAN("assistant")};
    struct part logprobs = {.kind = PART_LOGPROBS, .choice = c->text.choice, .text = piece->logprobs};
    parts_clear(parts);
    *out = (struct event){0};
    c->usage = piece->usage;
    if (!c->began && e == ENDPOINT_CHAT)
        parts_put(parts, &role);
    c->began = true;
    if (piece->logprobs.n)
        parts_put(parts, &logprobs);
    tool_text_put(&c->text, piece->text, parts);
    if (piece->last && piece->err)
        put_error(piece->err, out);
    else if (piece->last)
        put_finish(c, piece->finish, parts, out);
    parts_close(parts);
    out->parts = parts->at;
    out->n_parts = parts->n;
    measure(out);
}

static struct usage usage_of(const struct engine_run *r) {
    struct usage sum = r->choices[0].usage;
    for (int i = 1; i < r->n; i++)
        sum.out += r->choices[i].usage.out;
    return sum;
}

static bool is_over(const struct engine_run *r, const struct engine_choice *c, const struct decode_piece *p) {
    return p->last || (r->one_call && c->text.calls && c->text.at == TOOL_TEXT);
}

/* A piece of whoever has one, each in his turn; one that has called its only tool ends with it. */
static bool take_piece(struct engine_run *r, struct engine_choice **of, struct decode_piece *piece) {
    for (int i = 0; i < r->n; i++) {
        struct engine_choice *c = &r->choices[(r->next + i) % r->n];
        if (!c->run || !decode_take(c->run, piece))
            continue;
        r->next = (r->next + i + 1) % r->n;
        *of = c;
        return true;
    }
    return false;
}

bool engine_take(struct engine_run *r, struct event *out) {
    struct decode_piece piece;
    struct engine_choice *c;
    if (!take_piece(r, &c, &piece))
        return false;
    engine_event(r->endpoint, c, &piece, &r->parts, out);
    if (!piece.last && is_over(r, c, &piece)) {
        put_finish(c, "stop", &r->parts, out);
        parts_close(&r->parts);
        out->parts = r->parts.at;
        out->n_parts = r->parts.n;
        out->bits &= ~(unsigned)EVENT_SILENT; /* the closing tag alone said nothing */
    }
    if (is_over(r, c, &piece)) {
        end_choice(c);
        r->left--;
    }
    out->usage = usage_of(r);
    if (!r->left && !(out->bits & EVENT_ERROR))
        out->bits |= EVENT_LAST | EVENT_USAGE;
    return true;
}
