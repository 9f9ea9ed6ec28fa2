/* What a stream said. Always true: what it counts into all_bytes it takes off again, and a stream that grew past a bound
 * holds nothing any more. */
#include "gateway/content.h"

#include "backends/backends.h"

#include <stdlib.h>

struct strand { /* one text that comes in pieces */
    enum part_kind kind;
    int choice, tool;
    struct str text, id, name;
};
struct spoken {
    int64_t *all_bytes; /* borrowed */
    int64_t bytes;
    struct strand *strands; /* owned */
    size_t n;
    bool over;
};

#define ID_MAX 256

struct spoken *spoken_new(int64_t *all_bytes) {
    struct spoken *s = xcalloc(1, sizeof *s);
    s->all_bytes = all_bytes;
    return s;
}

static void forget(struct spoken *s) {
    for (size_t i = 0; i < s->n; i++) {
        str_fini(&s->strands[i].text);
        str_fini(&s->strands[i].id);
        str_fini(&s->strands[i].name);
    }
    free(s->strands);
    s->strands = NULL;
    s->n = 0;
    *s->all_bytes -= s->bytes;
    s->bytes = 0;
}

void spoken_free(struct spoken *s) {
    if (!s)
        return;
    forget(s);
    free(s);
}

static enum part_kind strand_kind(enum part_kind k) {
    return k == PART_TOOL_OPEN ? PART_TOOL_ARGS : k;
}

static struct strand *strand_of(struct spoken *s, const struct part *p) {
    enum part_kind kind = strand_kind(p->kind);
    for (size_t i = s->n; i-- > 0;) /* the one that goes on is mostly the last */
        if (s->strands[i].kind == kind && s->strands[i].choice == p->choice && s->strands[i].tool == p->tool)
            return &s->strands[i];
    if (s->n == SPOKEN_STRANDS_MAX)
        return NULL;
    if ((s->n & (s->n - 1)) == 0) /* at each power of two */
        s->strands = xrealloc(s->strands, (s->n ? 2 * s->n : 1) * sizeof *s->strands);
    struct strand *t = &s->strands[s->n++];
    *t = (struct strand){.kind = kind, .choice = p->choice, .tool = p->tool};
    str_init(&t->text, CONTENT_BODY_MAX);
    str_init(&t->id, ID_MAX);
    str_init(&t->name, ID_MAX);
    return t;
}

static bool add(struct spoken *s, const struct part *p) {
    int64_t n = (int64_t)(p->text.n + p->id.n + p->name.n);
    struct strand *t = strand_of(s, p);
    if (!t || s->bytes + n > (int64_t)CONTENT_BODY_MAX || *s->all_bytes + n > SPOKEN_ALL_MAX)
        return false;
    s->bytes += n;
    *s->all_bytes += n;
    str_put(&t->text, p->text);
    str_put(&t->id, p->id);
    str_put(&t->name, p->name);
    return !t->text.over && !t->id.over && !t->name.over;
}

void spoken_add(struct spoken *s, const struct event *e) {
    for (size_t i = 0; i < e->n_parts && !s->over; i++)
        if (e->parts[i].kind != PART_ROLE && e->parts[i].kind != PART_LOGPROBS && !add(s, &e->parts[i])) {
            s->over = true;
            forget(s);
        }
}

/* ---- the document ---- */

static void put_texts(const struct spoken *s, int choice, struct str *out) {
    static const char *const names[] = {
        [PART_TEXT] = "content", [PART_REASONING] = "reasoning", [PART_REFUSAL] = "refusal"};
    for (size_t i = 0; i < s->n; i++) {
        const struct strand *t = &s->strands[i];
        if (t->choice == choice && t->kind < ARRAY_LEN(names) && names[t->kind])
            json_put_span(out, names[t->kind], span_from(t->text.at ? t->text.at : "", t->text.n));
    }
}

static void put_tools(const struct spoken *s, int choice, struct str *out) {
    bool any = false;
    for (size_t i = 0; i < s->n; i++) {
        const struct strand *t = &s->strands[i];
        if (t->choice != choice || t->kind != PART_TOOL_ARGS)
            continue;
        if (!any)
            json_put_name(out, "tool_calls");
        str_puts(out, any ? ",{" : "[{");
        any = true;
        json_put_span(out, "id", str_span(&t->id));
        json_put_raw(out, "function", SPAN("{"));
        json_put_span(out, "name", str_span(&t->name));
        json_put_span(out, "arguments", span_from(t->text.at ? t->text.at : "", t->text.n));
        str_puts(out, "}}");
    }
    if (any)
        str_putc(out, ']');
}

static void put_choice(const struct spoken *s, int choice, struct str *out) {
    str_putc(out, '{');
    json_put_i64(out, "index", choice);
    json_put_raw(out, "message", SPAN("{"));
    put_texts(s, choice, out);
    put_tools(s, choice, out);
    str_putc(out, '}');
    for (size_t i = 0; i < s->n; i++)
        if (s->strands[i].choice == choice && s->strands[i].kind == PART_FINISH)
            json_put_span(out, "finish_reason", str_span(&s->strands[i].text));
    str_putc(out, '}');
}

/* Whether an earlier strand is of the same choice. */
static bool was_put(const struct spoken *s, size_t i) {
    for (size_t k = 0; k < i; k++)
        if (s->strands[k].choice == s->strands[i].choice)
            return true;
    return false;
}

bool spoken_put(const struct spoken *s, struct str *out) {
    bool any = false;
    str_puts(out, "{\"choices\":[");
    for (size_t i = 0; i < s->n; i++) {
        if (was_put(s, i))
            continue;
        if (any)
            str_putc(out, ',');
        any = true;
        put_choice(s, s->strands[i].choice, out);
    }
    str_puts(out, "]}");
    return !s->over && !out->over;
}
