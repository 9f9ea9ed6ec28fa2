/* What the writers of all dialects share. Always true: outside its splices an event's data leaves as the provider wrote
 * it, on one data line; what says the end or the usage waits until writer_end, so that settling comes before the
 * client's last byte and the cost is known when it is told; a write that fails leaves `out` as it was. */
#include "backends/dialect.h"

#include "gateway/base/money.h"

#include <stdio.h>
#include <stdlib.h>

#define JSON_TEXT_MAX 8192       /* our own small texts: model, id, tollgate */
#define USAGE_TEXT_MAX (1 << 20) /* a provider's usage object */

static void writer_texts(struct writer *w, const struct writer_options *o) {
    char text[160];
    str_init(&w->model, JSON_TEXT_MAX);
    str_init(&w->id, JSON_TEXT_MAX);
    str_init(&w->created, 64);
    json_put_text(&w->model, o->model);
    const char *prefix = o->endpoint == ENDPOINT_COMPLETIONS ? "cmpl-" : w->ops->id_prefix;
    snprintf(text, sizeof text, "%s%s", prefix, o->id ? o->id : "0");
    json_put_text(&w->id, span_of(text));
    str_printf(&w->created, "%lld", (long long)o->created_s);
}

struct writer *writer_new(const struct writer_options *o) {
    struct writer *w = xcalloc(1, sizeof *w);
    w->o = *o;
    w->o.id = NULL; /* what is borrowed is not kept */
    w->o.model = SPAN_NONE;
    w->ops = dialect_ops(endpoint_row(o->endpoint)->dialect);
    w->held_cost = -1;
    w->told_bytes = xcalloc(READER_CHOICES_MAX, sizeof *w->told_bytes);
    writer_texts(w, o);
    str_init(&w->seen_id, JSON_TEXT_MAX);
    str_init(&w->seen_created, 64);
    str_init(&w->usage, USAGE_TEXT_MAX);
    str_init(&w->tail, USAGE_TEXT_MAX);
    str_init(&w->scratch, WRITER_HELD_MAX);
    str_init(&w->usage_raw, USAGE_TEXT_MAX);
    str_init(&w->held, WRITER_HELD_MAX);
    str_init(&w->held_tollgate, USAGE_TEXT_MAX);
    return w;
}

void writer_free(struct writer *w) {
    if (!w)
        return;
    struct str *all[] = {&w->model, &w->id,      &w->created,   &w->seen_id, &w->seen_created, &w->usage,
                         &w->tail,  &w->scratch, &w->usage_raw, &w->held,    &w->held_tollgate};
    for (size_t i = 0; i < ARRAY_LEN(all); i++)
        str_fini(all[i]);
    gather_free(w->gather);
    free(w->parts);
    free(w->told_bytes);
    free(w);
}

static bool finish_write(struct str *out, size_t mark, bool ok) {
    if (ok && !out->over)
        return true;
    out->n = mark;
    out->over = false;
    if (out->at)
        out->at[mark] = 0;
    return false;
}

bool writer_event(struct writer *w, const struct event *e, const struct writer_extra *extra, struct str *out) {
    size_t mark = out->n;
    if (e->bits & EVENT_SILENT)
        return true;
    if (e->bits & EVENT_ERROR || out->over)
        return false;
    return finish_write(out, mark, w->ops->write_event(w, e, extra, out));
}

bool writer_end(struct writer *w, const struct usage *usage, const struct writer_extra *extra, struct str *out) {
    size_t mark = out->n;
    return !out->over && finish_write(out, mark, w->ops->write_end(w, usage, extra, out));
}

void writer_fail(struct writer *w, enum err e, const char *message, const char *request_id, struct str *out) {
    struct error_body body = {.err = e, .message = message, .request_id = request_id};
    if (w->o.stream)
        w->ops->write_fail(w, e, message, request_id, out);
    else
        w->ops->error_put(&body, out);
}

/* --- bytes --- */
/* A line end in JSON can only be white space between tokens: it leaves as a blank. */
static void put_line(struct str *out, struct span s) {
    while (s.n) {
        size_t n = span_line(s);
        str_put(out, (struct span){s.at, n});
        if (n < s.n)
            str_putc(out, ' '); /* a line end in JSON can only be white space between tokens */
        n += n < s.n;
        s.at += n;
        s.n -= n;
    }
}

void put_edited(struct str *out, struct span data, size_t from, size_t to, const struct edits *edits) {
    for (int i = 0; edits && i < edits->n; i++) {
        const struct edit *e = &edits->at[i];
        if (e->at < from || e->at + e->n > to)
            continue;
        put_line(out, (struct span){data.at + from, e->at - from});
        put_line(out, e->with);
        from = e->at + e->n;
    }
    put_line(out, (struct span){data.at + from, to - from});
}

void put_frame(struct writer *w, struct str *out, struct span name, struct span data, const struct edits *edits) {
    if (name.n) {
        str_puts(out, "event: ");
        put_line(out, name);
        str_putc(out, '\n');
    }
    str_puts(out, "data: ");
    put_edited(out, data, 0, data.n, edits);
    str_puts(out, "\n\n");
    w->frames++;
}

void put_members(struct str *out, struct json object, const char *const *except, size_t n) {
    struct json_walk walk;
    struct span name;
    struct json v;
    json_walk_init(&walk, object);
    while (json_walk_next(&walk, &name, &v)) {
        bool left_out = false;
        for (size_t i = 0; i < n; i++)
            left_out |= json_name_is(name, except[i]);
        if (left_out)
            continue;
        if (out->n && out->at[out->n - 1] != '{' && out->at[out->n - 1] != ',')
            str_putc(out, ',');
        str_putc(out, '"');
        str_put(out, name);
        str_puts(out, "\":");
        str_put(out, v.raw);
    }
}

void put_priced(struct str *out, struct span usage, const struct writer_extra *x) {
    static const char *const cost[] = {"cost"};
    char text[MONEY_TEXT_MAX];
    struct json v;
    struct json_fault fault;
    bool priced = x && x->cost_nanousd >= 0;
    if (!priced || !json_check(usage, JSON_DEPTH_MAX, &v, &fault) || v.kind != JSON_OBJECT) {
        str_put(out, usage);
        return;
    }
    struct json said = json_get(v, "cost");
    struct span price = span_of(money_text(x->cost_nanousd, text));
    if (said.kind == JSON_NONE && json_count(v)) { /* only the new member is added: the rest stays byte for byte */
        str_put(out, (struct span){v.raw.at, v.raw.n - 1});
        json_put_raw(out, "cost", price);
        str_putc(out, '}');
        return;
    }
    str_putc(out, '{');
    put_members(out, v, cost, 1);
    json_put_raw(out, "cost", price);
    str_putc(out, '}');
}

/* --- edits --- */
static size_t back_over_space(struct span data, size_t at) {
    while (at > 0 && strchr(" \t\r\n", data.at[at - 1]))
        at--;
    return at;
}

/* The member that a value belongs to, with one of its commas. */
static struct edit member_around(struct span data, size_t at, size_t n) {
    size_t from = back_over_space(data, at), to = at + n;
    if (from == 0 || data.at[from - 1] != ':')
        return (struct edit){at, n, SPAN("null")};
    from = back_over_space(data, from - 1);
    for (from = from ? from - 1 : 0; from > 0 && data.at[from - 1] != '"';)
        from--;
    from = back_over_space(data, from ? from - 1 : 0);
    if (from > 0 && data.at[from - 1] == ',')
        return (struct edit){from - 1, to - from + 1, SPAN_NONE};
    while (to < data.n && strchr(" \t\r\n", data.at[to]))
        to++;
    to += to < data.n && data.at[to] == ',';
    return (struct edit){from, to - from, SPAN_NONE};
}

static bool blank_id(struct span raw) {
    return span_is(raw, "\"\"") || span_is(raw, "null");
}

static struct edit usage_edit(struct writer *w, const struct event *e, const struct splice *s,
                              const struct writer_extra *x, enum usage_rule rule) {
    struct span raw = {e->data.at + s->at, s->n};
    if (rule == USAGE_NULL)
        return (struct edit){s->at, s->n, SPAN("null")};
    if (rule == USAGE_STRIP)
        return member_around(e->data, s->at, s->n);
    if (rule == USAGE_KEEP || !raw.n || raw.at[0] != '{')
        return (struct edit){s->at, s->n, raw};
    str_clear(&w->usage);
    put_priced(&w->usage, raw, x);
    return (struct edit){s->at, s->n, w->usage.over ? raw : str_span(&w->usage)};
}

void writer_edits(struct writer *w, const struct event *e, const struct writer_extra *x, enum usage_rule usage,
                  struct edits *out) {
    out->n = 0;
    for (int i = 0; i < e->n_splices; i++) {
        const struct splice *s = &e->splices[i];
        struct span raw = {e->data.at + s->at, s->n};
        struct edit *to = &out->at[out->n];
        *to = (struct edit){s->at, s->n, raw};
        if (s->what == SPLICE_MODEL)
            to->with = str_span(&w->model);
        else if (s->what == SPLICE_ID && (w->o.fresh || blank_id(raw)))
            to->with = str_span(&w->id);
        else if (s->what == SPLICE_CREATED && w->o.fresh)
            to->with = str_span(&w->created);
        else if (s->what == SPLICE_USAGE)
            *to = usage_edit(w, e, s, x, usage);
        out->n++;
    }
    if (w->tail.n && !w->tail.over && e->data.n && e->data.at[e->data.n - 1] == '}')
        out->at[out->n++] = (struct edit){e->data.n - 1, 0, str_span(&w->tail)};
}

/* --- what a writer remembers --- */
struct span writer_id(const struct writer *w) {
    return str_span(w->o.fresh || !w->seen_id.n ? &w->id : &w->seen_id);
}

struct span writer_created(const struct writer *w) {
    return str_span(w->o.fresh || !w->seen_created.n ? &w->created : &w->seen_created);
}

static void remember(struct str *to, struct span raw) {
    if (!to->n && raw.n < to->max)
        str_put(to, raw);
}

void writer_see(struct writer *w, const struct event *e) {
    for (int i = 0; i < e->n_splices; i++) {
        struct span raw = {e->data.at + e->splices[i].at, e->splices[i].n};
        if (e->splices[i].what == SPLICE_ID && blank_id(raw) && !w->seen_id.n)
            w->o.fresh = true; /* one id a stream: where the provider begins without, ours stands throughout */
        else if (e->splices[i].what == SPLICE_ID)
            remember(&w->seen_id, raw);
        else if (e->splices[i].what == SPLICE_CREATED && raw.n && raw.at[0] >= '0' && raw.at[0] <= '9')
            remember(&w->seen_created, raw);
    }
    if (!(e->bits & EVENT_USAGE))
        return;
    w->usage_seen = e->usage;
    w->has_usage = true;
    str_clear(&w->usage_raw);
    str_put(&w->usage_raw, e->usage_raw);
}

bool writer_hold(struct writer *w, const struct event *e, const struct writer_extra *x) {
    event_pack(e, &w->held);
    w->n_held++;
    if (x && x->cost_nanousd >= 0)
        w->held_cost = x->cost_nanousd;
    if (x && x->tollgate) {
        str_clear(&w->held_tollgate);
        str_puts(&w->held_tollgate, x->tollgate);
    }
    return !w->held.over;
}

bool writer_release(struct writer *w, const struct writer_extra *x, event_put *put, struct str *out) {
    struct writer_extra known = {.cost_nanousd = w->held_cost,
                                 .tollgate = w->held_tollgate.n ? w->held_tollgate.at : NULL};
    struct span rest = str_span(&w->held);
    struct event e;
    bool ok = !w->held.over;
    if (x && x->cost_nanousd >= 0)
        known.cost_nanousd = x->cost_nanousd;
    if (x && x->tollgate)
        known.tollgate = x->tollgate;
    if (!w->parts)
        w->parts = xcalloc(EVENT_PARTS_MAX, sizeof *w->parts);
    while (ok && rest.n)
        ok = event_unpack(&rest, &e, w->parts) && put(w, &e, &known, out);
    str_clear(&w->held);
    w->n_held = 0;
    return ok;
}

void writer_tell(struct writer *w, const struct writer_extra *x, struct str *out) {
    if (w->told || !x || !x->tollgate)
        return;
    w->told = true;
    if (out == &w->tail && !out->n)
        str_putc(out, ','); /* a tail always follows a member */
    json_put_raw(out, "tollgate", span_of(x->tollgate));
}

bool event_json(const struct event *e, struct json *out) {
    struct json_fault fault;
    return json_check(e->data, JSON_DEPTH_MAX, out, &fault) && out->kind == JSON_OBJECT;
}

/* --- gathering --- */
struct gather *writer_gather(struct writer *w) {
    if (w->gather)
        return w->gather;
    w->gather = xcalloc(1, sizeof *w->gather);
    str_init(&w->gather->base, WRITER_GATHER_MAX);
    str_init(&w->gather->end, WRITER_GATHER_MAX);
    return w->gather;
}

struct gather_slot *gather_find(struct gather *g, int choice, int tool) {
    for (size_t i = g->n; i-- > 0;)
        if (g->slots[i].choice == choice && g->slots[i].tool == tool)
            return &g->slots[i];
    return NULL;
}

struct gather_slot *gather_slot(struct gather *g, int choice, int tool) {
    struct gather_slot *s = gather_find(g, choice, tool);
    if (s || g->n == GATHER_SLOTS_MAX)
        return s;
    if (g->n == g->capacity) {
        g->capacity = g->capacity ? g->capacity * 2 : 8;
        g->slots = xrealloc(g->slots, g->capacity * sizeof *g->slots);
    }
    s = &g->slots[g->n++];
    memset(s, 0, sizeof *s);
    s->choice = choice;
    s->tool = tool;
    struct str *all[] = {&s->text, &s->reasoning, &s->refusal, &s->id, &s->name, &s->finish, &s->logprobs};
    for (size_t i = 0; i < ARRAY_LEN(all); i++)
        str_init(all[i], WRITER_GATHER_MAX);
    return s;
}

void gather_free(struct gather *g) {
    if (!g)
        return;
    for (size_t i = 0; i < g->n; i++) {
        struct gather_slot *s = &g->slots[i];
        struct str *all[] = {&s->text, &s->reasoning, &s->refusal, &s->id, &s->name, &s->finish, &s->logprobs};
        for (size_t k = 0; k < ARRAY_LEN(all); k++)
            str_fini(all[k]);
    }
    str_fini(&g->base);
    str_fini(&g->end);
    free(g->slots);
    free(g);
}

bool put_plain(struct writer *w, const struct event *e, const struct writer_extra *x, struct str *out) {
    struct edits edits;
    str_clear(&w->tail);
    writer_tell(w, x, &w->tail);
    writer_edits(w, e, x, USAGE_PRICED, &edits);
    put_edited(out, e->data, 0, e->data.n, &edits);
    return true;
}
