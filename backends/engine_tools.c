/* Calls of tools in what a model writes. Always true: every byte comes out once, as text, as the name or the arguments of a call, or is
 * the wrapping of one; what turns out to be no call comes out as text, as it was written; and arguments come as they are written, as
 * soon as the name is known. */
#include "backends/dialect.h"

#include "gateway/base/hash.h"

#include <stdio.h>
#include <stdlib.h>

#define HELD_BYTES_MAX (8 << 20)
#define SAID_BYTES_MAX (96 << 20)
#define CALL_ID_BYTES 12
#define TAG_OPEN "<tool_call>"
#define TAG_CLOSE "</tool_call>"

/* --- parts --- */

void parts_clear(struct parts *p) {
    p->n = 0;
    if (!p->said.max)
        str_init(&p->said, SAID_BYTES_MAX);
    str_clear(&p->said);
}

void parts_fini(struct parts *p) {
    free(p->at);
    str_fini(&p->said);
    *p = (struct parts){0};
}

/* Only lengths for now: the bytes may move. */
static struct span keep(struct parts *p, struct span s) {
    str_put(&p->said, s);
    return (struct span){NULL, s.n};
}

void parts_put(struct parts *p, const struct part *part) {
    if (p->n == p->capacity) {
        p->capacity = p->capacity ? 2 * p->capacity : 8;
        p->at = xrealloc(p->at, p->capacity * sizeof *p->at);
    }
    struct part *to = &p->at[p->n++];
    *to = *part;
    to->text = keep(p, part->text);
    to->id = keep(p, part->id);
    to->name = keep(p, part->name);
}

void parts_close(struct parts *p) {
    const char *at = p->said.at ? p->said.at : "";
    for (size_t i = 0; i < p->n; i++) {
        struct span *all[] = {&p->at[i].text, &p->at[i].id, &p->at[i].name};
        for (size_t k = 0; k < ARRAY_LEN(all); k++) {
            all[k]->at = at;
            at += all[k]->n;
        }
    }
}

/* --- text --- */

void tool_text_init(struct tool_text *t, enum decode_calls how, int choice) {
    *t = (struct tool_text){.how = how, .choice = choice};
    str_init(&t->held, HELD_BYTES_MAX);
}

void tool_text_fini(struct tool_text *t) {
    str_fini(&t->held);
}

static bool is_blank(char c) {
    return c == ' ' || c == '\n' || c == '\r' || c == '\t';
}

static size_t blanks(struct span s) {
    size_t n = 0;
    while (n < s.n && is_blank(s.at[n]))
        n++;
    return n;
}

static void give_text(struct tool_text *t, size_t n, struct parts *out) {
    struct part part = {.kind = PART_TEXT, .choice = t->choice, .text = span_from(t->held.at, n)};
    if (n)
        parts_put(out, &part);
    t->any |= n > 0;
    str_cut(&t->held, n);
}

/* How much of the end may be the beginning of a tag. */
static size_t begins(struct span s, const char *tag) {
    size_t n = strlen(tag) - 1;
    for (n = n < s.n ? n : s.n; n > 0; n--)
        if (memcmp(s.at + s.n - n, tag, n) == 0)
            return n;
    return 0;
}

/* A call begins behind the first `n` bytes that are held, which are dropped. */
static void open_call(struct tool_text *t, size_t n) {
    str_cut(&t->held, n);
    t->at = TOOL_HEAD;
    t->depth = 0;
    t->quoted = t->escaped = false;
}

/* False: what is held has been looked at. */
static bool look_for_tag(struct tool_text *t, struct parts *out) {
    struct span held = str_span(&t->held);
    const char *tag = held.n ? memmem(held.at, held.n, TAG_OPEN, sizeof TAG_OPEN - 1) : NULL;
    size_t before = tag ? (size_t)(tag - held.at) : held.n - begins(held, TAG_OPEN);
    while (before && is_blank(held.at[before - 1])) /* next to a call they are not worth being text */
        before--;
    give_text(t, before, out);
    if (!tag)
        return false;
    open_call(t, blanks(str_span(&t->held)) + sizeof TAG_OPEN - 1);
    return true;
}

/* The whole answer is a call, or a list of them; whatever does not begin like one is text. */
static bool look_at_beginning(struct tool_text *t, struct parts *out) {
    struct span held = str_span(&t->held);
    size_t n = blanks(held);
    if (t->any) {
        give_text(t, held.n, out);
        return false;
    }
    while (n < held.n && (is_blank(held.at[n]) || (t->calls && (held.at[n] == ';' || held.at[n] == ','))))
        n++;
    if (n == held.n)
        return false;
    if (held.at[n] == '[' && !t->array && !t->calls) {
        t->array = true;
        str_cut(&t->held, n + 1);
        return true;
    }
    if (held.at[n] == ']' && t->array && t->calls) {
        str_cut(&t->held, n + 1);
        return true;
    }
    if (held.at[n] == '{') {
        open_call(t, n);
        return true;
    }
    if (t->array && !t->calls) { /* the list was none */
        struct part bracket = {.kind = PART_TEXT, .choice = t->choice, .text = SPAN("[")};
        parts_put(out, &bracket);
        t->any = true;
    }
    give_text(t, held.n, out);
    return false;
}

/* --- a call --- */

static bool skip(struct span *s, const char *word) {
    size_t n = strlen(word);
    *s = span_from(s->at + blanks(*s), s->n - blanks(*s));
    if (s->n < n || memcmp(s->at, word, n) != 0)
        return false;
    *s = span_from(s->at + n, s->n - n);
    return true;
}

static bool take_string(struct span *s, struct span *quoted) {
    size_t n = 1;
    *s = span_from(s->at + blanks(*s), s->n - blanks(*s));
    if (!s->n || s->at[0] != '"')
        return false;
    while (n < s->n && s->at[n] != '"')
        n += s->at[n] == '\\' ? 2 : 1;
    if (n >= s->n)
        return false;
    *quoted = span_from(s->at, n + 1);
    *s = span_from(s->at + n + 1, s->n - n - 1);
    return true;
}

/* `{"name": N, "arguments": {`: then what is held before the last brace is dropped. */
static bool read_head(struct span held, struct span *name, size_t *used) {
    struct span rest = held;
    if (!skip(&rest, "{") || !skip(&rest, "\"name\"") || !skip(&rest, ":") || !take_string(&rest, name) ||
        !skip(&rest, ",") || !(skip(&rest, "\"arguments\"") || skip(&rest, "\"parameters\"")) || !skip(&rest, ":"))
        return false;
    rest = span_from(rest.at + blanks(rest), rest.n - blanks(rest));
    *used = (size_t)(rest.at - held.at);
    return rest.n && rest.at[0] == '{';
}

static void put_open(struct tool_text *t, struct json name, struct arena *a, struct parts *out) {
    uint8_t random[CALL_ID_BYTES];
    char hex[2 * CALL_ID_BYTES + 1], id[8 + 2 * CALL_ID_BYTES];
    random_bytes(random, sizeof random);
    snprintf(id, sizeof id, "call_%s", hex_put(random, sizeof random, hex));
    struct part part = {
        .kind = PART_TOOL_OPEN, .choice = t->choice, .tool = t->calls++, .id = span_of(id), .name = json_text(name, a)};
    parts_put(out, &part);
}

static void put_arguments(struct tool_text *t, struct span text, struct parts *out) {
    struct part part = {.kind = PART_TOOL_ARGS, .choice = t->choice, .tool = t->calls - 1, .text = text};
    if (text.n)
        parts_put(out, &part);
}

/* Bytes up to the end of the value that the brackets are of; all of them when it does not end here. */
static size_t value_bytes(struct tool_text *t, struct span s, bool *ends) {
    *ends = false;
    for (size_t i = 0; i < s.n; i++) {
        char c = s.at[i];
        if (t->escaped)
            t->escaped = false;
        else if (t->quoted && c == '\\')
            t->escaped = true;
        else if (c == '"')
            t->quoted = !t->quoted;
        else if (!t->quoted && (c == '{' || c == '['))
            t->depth++;
        else if (!t->quoted && (c == '}' || c == ']') && --t->depth == 0) {
            *ends = true;
            return i + 1;
        }
    }
    return s.n;
}

/* A call whose members stand in another order is looked at when it is whole. False: it is none. */
static bool whole_call(struct tool_text *t, struct span text, struct arena *a, struct parts *out) {
    struct json v, name, arguments;
    if (!json_check(text, JSON_DEPTH_MAX, &v, NULL))
        return false;
    name = json_get(v, "name");
    arguments = json_get(v, json_get(v, "arguments").kind ? "arguments" : "parameters");
    if (name.kind != JSON_STRING)
        return false;
    put_open(t, name, a, out);
    put_arguments(t,
                  arguments.kind == JSON_STRING   ? json_text(arguments, a)
                  : arguments.kind == JSON_OBJECT ? arguments.raw
                                                  : SPAN("{}"),
                  out);
    return true;
}

/* No call after all: from here on everything is text. */
static void give_up(struct tool_text *t, struct parts *out) {
    if (t->how == CALLS_TAGGED) {
        struct part tag = {.kind = PART_TEXT, .choice = t->choice, .text = SPAN(TAG_OPEN)};
        parts_put(out, &tag);
    }
    t->at = TOOL_TEXT;
    give_text(t, t->held.n, out);
}

static bool read_whole(struct tool_text *t, struct parts *out) {
    struct arena a;
    bool ends, good;
    t->depth = 0;
    t->quoted = t->escaped = false;
    size_t n = value_bytes(t, str_span(&t->held), &ends);
    if (!ends)
        return false;
    arena_init(&a, HELD_BYTES_MAX);
    good = whole_call(t, span_from(t->held.at, n), &a, out);
    arena_fini(&a);
    if (good) {
        str_cut(&t->held, n);
        t->at = TOOL_TAIL;
        t->depth = 0;
    } else
        give_up(t, out);
    return good;
}

static bool read_call(struct tool_text *t, struct parts *out) {
    struct span held = str_span(&t->held), name;
    struct arena a;
    size_t used;
    if (blanks(held) < held.n && held.at[blanks(held)] != '{') {
        give_up(t, out);
        return false;
    }
    if (!read_head(held, &name, &used))
        return read_whole(t, out);
    arena_init(&a, HELD_BYTES_MAX);
    put_open(t, (struct json){JSON_STRING, name}, &a, out);
    arena_fini(&a);
    str_cut(&t->held, used);
    t->at = TOOL_ARGUMENTS;
    t->depth = 0;
    t->quoted = t->escaped = false;
    return true;
}

static bool read_arguments(struct tool_text *t, struct parts *out) {
    bool ends;
    size_t n = value_bytes(t, str_span(&t->held), &ends);
    put_arguments(t, span_from(t->held.at, n), out);
    str_cut(&t->held, n);
    if (ends) {
        t->at = TOOL_TAIL;
        t->depth = 1; /* the call's own brace is still open */
    }
    return ends;
}

/* What stands behind a call: its brace, and its tag. */
static bool read_tail(struct tool_text *t) {
    struct span held = str_span(&t->held), rest = held;
    if (t->depth && blanks(held) < held.n && !skip(&rest, "}"))
        t->depth = 0; /* something else, which is not missed */
    else if (t->depth && rest.n < held.n) {
        t->depth = 0;
        str_cut(&t->held, held.n - rest.n);
        held = rest = str_span(&t->held);
    }
    if (t->depth)
        return false;
    if (t->how != CALLS_TAGGED) {
        t->at = TOOL_TEXT;
        return true;
    }
    size_t n = blanks(held), tag = sizeof TAG_CLOSE - 1;
    size_t there = held.n - n < tag ? held.n - n : tag;
    if (there && memcmp(held.at + n, TAG_CLOSE, there) != 0) {
        t->at = TOOL_TEXT; /* the tag is missing */
        return true;
    }
    if (there < tag)
        return false;
    str_cut(&t->held, n + tag);
    t->at = TOOL_TEXT;
    return true;
}

static bool move(struct tool_text *t, struct parts *out) {
    switch (t->at) {
    case TOOL_TEXT:
        return t->how == CALLS_TAGGED ? look_for_tag(t, out) : look_at_beginning(t, out);
    case TOOL_HEAD:
        return read_call(t, out);
    case TOOL_ARGUMENTS:
        return read_arguments(t, out);
    case TOOL_TAIL:
        return read_tail(t);
    }
    return false;
}

void tool_text_put(struct tool_text *t, struct span text, struct parts *out) {
    str_put(&t->held, text);
    if (t->how == CALLS_NONE) {
        give_text(t, t->held.n, out);
        return;
    }
    while (t->held.n && move(t, out))
        ;
}

void tool_text_end(struct tool_text *t, struct parts *out) {
    if (t->at == TOOL_HEAD)
        give_up(t, out);
    else if (t->at == TOOL_TEXT && t->array && !t->calls && !t->any) {
        struct part bracket = {.kind = PART_TEXT, .choice = t->choice, .text = SPAN("[")};
        parts_put(out, &bracket);
    }
    if (t->at == TOOL_TEXT && !(t->calls && blanks(str_span(&t->held)) == t->held.n))
        give_text(t, t->held.n, out);
    str_clear(&t->held);
}
