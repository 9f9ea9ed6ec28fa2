/* Cuts a template into tokens. White space is settled here: what a '-' eats, the one line end behind a block, the indent
 * before one, and the line end at the end of the file. */
#include "backends/decode/jinja_node.h"
#include "backends/decode/model_file.h"

#include <stdlib.h>

#define TOKENS_MAX 200000
#define NEST_MAX 64

struct lexer {
    struct span source;
    const char *file;
    size_t at;
    int line;
    bool eat_all, eat_line; /* what the tag before says about the text behind it */
    struct jinja_tokens *out;
    struct str *why;
};

static bool is_space(char c) {
    return c == ' ' || (c >= '\t' && c <= '\r');
}
static bool is_word(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}
static bool is_digit(char c) {
    return c >= '0' && c <= '9';
}

static bool put(struct lexer *l, enum jinja_token_kind kind, size_t from, size_t to) {
    struct jinja_tokens *t = l->out;
    if (t->n == TOKENS_MAX)
        return complain(l->why, l->file, "line %d: the template has over %d parts", l->line, TOKENS_MAX);
    if (t->n == t->capacity) {
        t->capacity = t->capacity ? t->capacity * 2 : 256;
        t->at = xrealloc(t->at, t->capacity * sizeof *t->at);
    }
    t->at[t->n++] = (struct jinja_token){kind, l->line, span_from(l->source.at + from, to - from)};
    for (size_t i = from; i < to; i++)
        l->line += l->source.at[i] == '\n';
    return true;
}

/* Where the next tag opens; the end of the source when none does. */
static size_t next_tag(const struct lexer *l) {
    struct span s = l->source;
    for (size_t i = l->at; i + 1 < s.n; i++)
        if (s.at[i] == '{' && (s.at[i + 1] == '{' || s.at[i + 1] == '%' || s.at[i + 1] == '#'))
            return i;
    return s.n;
}

static void skip_line(struct lexer *l, size_t from, size_t to) {
    for (; from < to; from++)
        l->line += l->source.at[from] == '\n';
}

/* The text up to a tag at `to`, less the white space that the tags on both sides take. */
static bool text(struct lexer *l, size_t to) {
    const char *s = l->source.at;
    size_t from = l->at, end = to;
    bool dash = to + 2 < l->source.n && s[to + 2] == '-', plus = to + 2 < l->source.n && s[to + 2] == '+';
    if (l->eat_all)
        while (from < to && is_space(s[from]))
            from++;
    else if (l->eat_line && from < to && s[from] == '\n')
        from++;
    if (to < l->source.n && dash)
        while (end > from && is_space(s[end - 1]))
            end--;
    else if (to < l->source.n && s[to + 1] != '{' && !plus) {
        size_t start = to;
        while (start > from && (s[start - 1] == ' ' || s[start - 1] == '\t'))
            start--;
        if (start == 0 || s[start - 1] == '\n')
            end = start;
    }
    skip_line(l, l->at, from);
    if (end > from && !put(l, TOKEN_TEXT, from, end))
        return false;
    skip_line(l, end > from ? end : from, to);
    l->at = to;
    l->eat_all = l->eat_line = false;
    return true;
}

static bool comment(struct lexer *l) {
    const char *end = memmem(l->source.at + l->at + 2, l->source.n - l->at - 2, "#}", 2);
    if (!end)
        return complain(l->why, l->file, "line %d: a comment has no end", l->line);
    size_t to = (size_t)(end - l->source.at);
    l->eat_all = end[-1] == '-' && to > l->at + 2;
    l->eat_line = end[-1] != '+';
    skip_line(l, l->at, to);
    l->at = to + 2;
    return true;
}

static bool string(struct lexer *l) {
    const char *s = l->source.at;
    size_t i = l->at + 1;
    while (i < l->source.n && s[i] != s[l->at])
        i += s[i] == '\\' ? 2 : 1;
    if (i >= l->source.n)
        return complain(l->why, l->file, "line %d: a string has no end", l->line);
    bool ok = put(l, TOKEN_STRING, l->at, i + 1);
    l->at = i + 1;
    return ok;
}

static bool number(struct lexer *l) {
    const char *s = l->source.at;
    size_t i = l->at, n = l->source.n;
    enum jinja_token_kind kind = TOKEN_INT;
    while (i < n && is_digit(s[i]))
        i++;
    if (i + 1 < n && s[i] == '.' && is_digit(s[i + 1])) {
        kind = TOKEN_REAL;
        for (i++; i < n && is_digit(s[i]);)
            i++;
    }
    bool ok = put(l, kind, l->at, i);
    l->at = i;
    return ok;
}

static bool word(struct lexer *l) {
    size_t i = l->at;
    while (i < l->source.n && is_word(l->source.at[i]))
        i++;
    bool ok = put(l, TOKEN_NAME, l->at, i);
    l->at = i;
    return ok;
}

static bool operator(struct lexer *l, char *nest, int *depth) {
    static const char *const two[] = {"**", "//", "==", "!=", "<=", ">="};
    const char *s = l->source.at + l->at;
    size_t n = 1;
    for (size_t i = 0; i < ARRAY_LEN(two); i++)
        if (span_starts(span_from(s, l->source.n - l->at), two[i]))
            n = 2;
    if (n == 1 && !strchr("+-*/%~<>=()[]{}.,:|", *s))
        return complain(l->why, l->file, "line %d: '%c' is not understood", l->line, *s);
    if (strchr("([{", *s) && *depth == NEST_MAX)
        return complain(l->why, l->file, "line %d: over %d brackets in each other", l->line, NEST_MAX);
    if (strchr("([{", *s))
        nest[(*depth)++] = *s == '(' ? ')' : *s == '[' ? ']' : '}';
    else if (strchr(")]}", *s) && (*depth == 0 || nest[--*depth] != *s))
        return complain(l->why, l->file, "line %d: '%c' closes nothing", l->line, *s);
    bool ok = put(l, TOKEN_OP, l->at, l->at + n);
    l->at += n;
    return ok;
}

/* At the closing of a tag: how many bytes of it, with the sign before it; 0: not there. */
static size_t closes(const struct lexer *l, const char *close) {
    struct span rest = span_from(l->source.at + l->at, l->source.n - l->at);
    size_t sign = rest.n && (rest.at[0] == '-' || rest.at[0] == '+');
    rest = span_from(rest.at + sign, rest.n - sign);
    return span_starts(rest, close) ? sign + 2 : 0;
}

static bool tag(struct lexer *l) {
    char nest[NEST_MAX];
    int depth = 0;
    bool print = l->source.at[l->at + 1] == '{';
    int line = l->line;
    if (!put(l, print ? TOKEN_PRINT : TOKEN_TAG, l->at, l->at + 2))
        return false;
    l->at += 2;
    if (l->at < l->source.n && (l->source.at[l->at] == '-' || (!print && l->source.at[l->at] == '+')))
        l->at++;
    while (l->at < l->source.n) {
        char c = l->source.at[l->at];
        size_t n = depth == 0 ? closes(l, print ? "}}" : "%}") : 0;
        if (n) {
            bool ok = put(l, print ? TOKEN_PRINT_CLOSE : TOKEN_TAG_CLOSE, l->at, l->at + n);
            l->eat_all = c == '-';
            l->eat_line = !print && c != '+';
            l->at += n;
            return ok;
        }
        if (is_space(c)) {
            l->line += c == '\n';
            l->at++;
            continue;
        }
        bool ok = c == '\'' || c == '"' ? string(l)
                  : is_digit(c)         ? number(l)
                  : is_word(c)          ? word(l)
                                        :
                               operator(l, nest, &depth);
        if (!ok)
            return false;
    }
    return complain(l->why, l->file, "line %d: a tag has no end", line);
}

bool jinja_lex(struct span source, const char *file, struct jinja_tokens *out, struct str *why) {
    if (source.n && source.at[source.n - 1] == '\n')
        source.n--;
    struct lexer l = {.source = source, .file = file, .line = 1, .out = out, .why = why};
    while (l.at < source.n || l.eat_all) {
        if (!text(&l, next_tag(&l)))
            return false;
        if (l.at == source.n)
            break;
        if (!(source.at[l.at + 1] == '#' ? comment(&l) : tag(&l)))
            return false;
    }
    return put(&l, TOKEN_END, source.n, source.n);
}
