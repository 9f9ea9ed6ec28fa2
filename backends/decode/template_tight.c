/* The tight spelling of a Jinja template, by the rules that chat templates are rendered under (trim_blocks and
 * lstrip_blocks on). Strings come out between the bytes 1 and 2 with their escapes resolved, everything else without white
 * space; text between tags comes out as the string that it is. */
#include "backends/decode/template.h"

#define OPEN "\x01"
#define CLOSE "\x02"

static bool is_white(char c) {
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

static bool at_tag(struct span s, size_t i) {
    return i + 1 < s.n && s.at[i] == '{' && strchr("{%#", s.at[i + 1]) && s.at[i + 1];
}

/* lstrip_blocks: blanks between the start of a line and a block vanish. */
static size_t strip_blanks(struct span text) {
    size_t n = text.n;
    while (n && (text.at[n - 1] == ' ' || text.at[n - 1] == '\t'))
        n--;
    return n == 0 || text.at[n - 1] == '\n' ? n : text.n;
}

static void put_text(struct span text, char before, bool before_minus, char after, bool after_minus, struct str *out) {
    if (before && before != '{' && !before_minus && text.n && text.at[0] == '\n')
        text = span_from(text.at + 1, text.n - 1);
    while (before_minus && text.n && is_white(text.at[0]))
        text = span_from(text.at + 1, text.n - 1);
    while (after_minus && text.n && is_white(text.at[text.n - 1]))
        text.n--;
    if (after && after != '{' && !after_minus)
        text.n = strip_blanks(text);
    if (text.n == 0)
        return;
    str_puts(out, "{{" OPEN);
    str_put(out, text);
    str_puts(out, CLOSE "}}");
}

/* A string literal from its quote on; returns its length. */
static size_t put_string(struct span s, struct str *out) {
    char quote = s.at[0];
    size_t i = 1;
    str_puts(out, OPEN);
    for (; i < s.n && s.at[i] != quote; i++) {
        char c = s.at[i];
        if (c == '\\' && i + 1 < s.n) {
            c = s.at[++i];
            c = c == 'n' ? '\n' : c == 't' ? '\t' : c == 'r' ? '\r' : c;
        }
        str_putc(out, c);
    }
    str_puts(out, CLOSE);
    return i < s.n ? i + 1 : i;
}

/* message.role is message['role'] */
static size_t put_member(struct span s, struct str *out) {
    static const char *const names[] = {".role", ".content"};
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        if (!span_starts(s, names[i]))
            continue;
        str_puts(out, "[" OPEN);
        str_puts(out, names[i] + 1);
        str_puts(out, CLOSE "]");
        return strlen(names[i]);
    }
    str_putc(out, s.at[0]);
    return 1;
}

/* The inside of a tag up to its closing pair, which is not taken; returns the bytes read. */
static size_t put_inside(struct span s, const char *close, struct str *out) {
    size_t i = 0;
    while (i < s.n && !span_starts(span_from(s.at + i, s.n - i), close)) {
        struct span rest = span_from(s.at + i, s.n - i);
        if (rest.at[0] == '\'' || rest.at[0] == '"')
            i += put_string(rest, out);
        else if (rest.at[0] == '.')
            i += put_member(rest, out);
        else if (is_white(rest.at[0]) || (rest.at[0] == '-' && span_starts(span_from(rest.at + 1, rest.n - 1), close)))
            i++;
        else {
            str_putc(out, rest.at[0]);
            i++;
        }
    }
    return i;
}

/* Takes `from` out of s wherever it stands and puts `to` there. */
static void replace(struct str *s, const char *from, const char *to) {
    struct str out;
    struct span rest = str_span(s);
    str_init(&out, s->max);
    for (const char *at; rest.n && (at = memmem(rest.at, rest.n, from, strlen(from)));) {
        str_put(&out, span_from(rest.at, (size_t)(at - rest.at)));
        str_puts(&out, to);
        size_t n = (size_t)(at - rest.at) + strlen(from);
        rest = span_from(rest.at + n, rest.n - n);
    }
    str_put(&out, rest);
    bool over = s->over || out.over;
    str_fini(s);
    *s = out;
    s->over = over;
}

/* One tag from its brace on; returns its length and what the text behind it must know. */
static size_t put_tag(struct span s, char *kind, bool *minus, struct str *out) {
    static const char *const closes[] = {"}}", "%}", "#}"};
    struct str inside;
    *kind = s.at[1];
    const char *close = closes[*kind == '{' ? 0 : *kind == '%' ? 1 : 2];
    size_t from = s.n > 2 && s.at[2] == '-' ? 3 : 2;
    str_init(&inside, out->max);
    size_t n = from + put_inside(span_from(s.at + from, s.n - from), close, &inside);
    *minus = n < s.n && s.at[n - 1] == '-';
    if (*kind != '#') {
        str_put(out, span_from(s.at, 2));
        str_put(out, str_span(&inside));
        str_puts(out, close);
    }
    out->over = out->over || inside.over;
    str_fini(&inside);
    return n + 2 < s.n ? n + 2 : s.n;
}

void template_tighten(struct span jinja, struct str *out) {
    char before = 0, kind;
    bool before_minus = false;
    size_t i = 0;
    while (i < jinja.n) {
        size_t from = i;
        while (i < jinja.n && !at_tag(jinja, i))
            i++;
        bool tag = i < jinja.n, after_minus = tag && i + 2 < jinja.n && jinja.at[i + 2] == '-';
        put_text(span_from(jinja.at + from, i - from), before, before_minus, tag ? jinja.at[i + 1] : 0, after_minus,
                 out);
        if (!tag)
            break;
        i += put_tag(span_from(jinja.at + i, jinja.n - i), &kind, &before_minus, out);
        before = kind;
    }
    replace(out, "}}{{", "+");
    replace(out, CLOSE "+" OPEN, "");
}
