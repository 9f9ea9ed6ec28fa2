/* Expressions, by descent, loosest operators first. Filters, tests and methods are looked up here, so that a template which
 * needs one that does not exist is refused when the model is loaded and not when somebody asks. */
#include "backends/decode/jinja_run.h"
#include "backends/decode/unicode.h"

#include <stdlib.h>

static struct jinja_node *enter(struct jinja_parser *p, struct jinja_node *(*rule)(struct jinja_parser *)) {
    if (p->depth == JINJA_DEPTH_MAX) {
        jinja_parse_fail(p, "expressions over %d deep in each other", JINJA_DEPTH_MAX);
        return NULL;
    }
    p->depth++;
    struct jinja_node *e = rule(p);
    p->depth--;
    return e;
}

static struct jinja_node *pair(struct jinja_parser *p, enum jinja_node_kind kind, struct span op, struct jinja_node *a,
                               struct jinja_node *b) {
    struct jinja_node *e = a && b ? jinja_node_new(p, kind) : NULL;
    if (e) {
        e->text = op;
        e->a = a;
        e->b = b;
    }
    return e;
}

/* --- literals --- */

static int hex_value(struct span digits) {
    int v = 0;
    for (size_t i = 0; i < digits.n; i++) {
        char c = digits.at[i];
        int d = c >= '0' && c <= '9' ? c - '0' : (c | 32) >= 'a' && (c | 32) <= 'f' ? (c | 32) - 'a' + 10 : -1;
        if (d < 0)
            return -1;
        v = v * 16 + d;
    }
    return v;
}

/* What stands behind a backslash at s.at[*i]; advances over it. */
static size_t unescape(struct span s, size_t *i, char *out) {
    static const char from[] = "nrtbfv0", to[] = "\n\r\t\b\f\v";
    char c = s.at[*i];
    size_t digits = c == 'u' ? 4 : c == 'x' ? 2 : 0;
    const char *known = strchr(from, c);
    int value = digits && *i + digits < s.n ? hex_value(span_from(s.at + *i + 1, digits)) : -1;
    *i += 1;
    if (value >= 0) {
        *i += digits;
        return utf8_put((uint32_t)value >= 0xd800 && value < 0xe000 ? UNICODE_REPLACEMENT : (uint32_t)value, out);
    }
    if (known || strchr("\\'\"", c)) {
        out[0] = known ? to[known - from] : c;
        return 1;
    }
    out[0] = '\\';
    out[1] = c;
    return c == '\n' ? 0 : 2;
}

static bool string_of(struct jinja_parser *p, struct span quoted, struct jinja_value *v) {
    struct span s = span_from(quoted.at + 1, quoted.n - 2);
    char *out = arena_alloc(&p->to->arena, s.n + 4);
    size_t n = 0;
    if (!out)
        return jinja_parse_fail(p, "the template is too large");
    for (size_t i = 0; i < s.n;)
        if (s.at[i] == '\\' && i + 1 < s.n) {
            i++;
            n += unescape(s, &i, out + n);
        } else
            out[n++] = s.at[i++];
    *v = jinja_text((struct jinja_text){out, n, NULL, false});
    return true;
}

static struct jinja_node *constant(struct jinja_parser *p, struct jinja_value v) {
    struct jinja_node *e = jinja_node_new(p, NODE_CONST);
    if (e)
        e->value = v;
    return e;
}

static struct jinja_node *literal(struct jinja_parser *p) {
    struct span t = p->token->text;
    struct jinja_value v = {.kind = JINJA_INT};
    enum jinja_token_kind kind = p->token++->kind;
    struct json number = {JSON_NUMBER, t};
    if (kind == TOKEN_INT && !span_to_i64(t, &v.i))
        return jinja_parse_fail(p, "the number %.*s is too large", SPAN_ARG(t)), NULL;
    if (kind == TOKEN_REAL) {
        v.kind = JINJA_REAL;
        if (!json_f64(number, &v.d))
            return jinja_parse_fail(p, "the number %.*s is not understood", SPAN_ARG(t)), NULL;
    }
    if (kind == TOKEN_STRING && !string_of(p, t, &v))
        return NULL;
    return constant(p, v);
}

static bool is_keyword(struct span t) {
    static const char *const keywords[] = {"and", "or", "not", "in", "is", "if", "else"};
    for (size_t i = 0; i < ARRAY_LEN(keywords); i++)
        if (span_is(t, keywords[i]))
            return true;
    return false;
}

static struct jinja_node *word(struct jinja_parser *p) {
    static const struct {
        const char *name;
        struct jinja_value value;
    } words[] = {
        {"true", {.kind = JINJA_BOOL, .yes = true}},
        {"True", {.kind = JINJA_BOOL, .yes = true}},
        {"false", {.kind = JINJA_BOOL, .yes = false}},
        {"False", {.kind = JINJA_BOOL, .yes = false}},
        {"none", {.kind = JINJA_NONE}},
        {"None", {.kind = JINJA_NONE}},
    };
    if (is_keyword(p->token->text))
        return jinja_parse_fail(p, "an expression is expected, not '%.*s'", SPAN_ARG(p->token->text)), NULL;
    struct span t = p->token++->text;
    for (size_t i = 0; i < ARRAY_LEN(words); i++)
        if (span_is(t, words[i].name))
            return constant(p, words[i].value);
    struct jinja_node *e = jinja_node_new(p, NODE_NAME);
    if (e)
        e->text = t;
    return e;
}

/* Elements up to a closing bracket, commas between; dictionaries give keys and values in turn. */
static bool elements(struct jinja_parser *p, const char *close, bool pairs, struct jinja_node **first, bool *comma) {
    struct jinja_node **to = first;
    *comma = false;
    while (!jinja_take_op(p, close)) {
        for (int part = 0; part < (pairs ? 2 : 1); part++) {
            if (part && !jinja_need_op(p, ":"))
                return false;
            struct jinja_node *one = jinja_parse_expression(p);
            struct jinja_node *cell = one ? jinja_node_new(p, NODE_SET) : NULL;
            if (!cell)
                return false;
            cell->a = one;
            *to = cell;
            to = &cell->next;
        }
        if (jinja_take_op(p, ","))
            *comma = true;
        else if (!jinja_is_op(p, close))
            return jinja_need_op(p, close);
    }
    return true;
}

static struct jinja_node *bracketed(struct jinja_parser *p) {
    bool list = jinja_is_op(p, "["), map = jinja_is_op(p, "{"), comma;
    struct jinja_node *first = NULL;
    p->token++;
    if (!elements(p, list ? "]" : map ? "}" : ")", map, &first, &comma))
        return NULL;
    if (!list && !map && !comma && first)
        return first->a;
    struct jinja_node *e = jinja_node_new(p, map ? NODE_DICT : NODE_LIST);
    if (e)
        e->b = first;
    return e;
}

static struct jinja_node *primary(struct jinja_parser *p) {
    switch (p->token->kind) {
    case TOKEN_INT:
    case TOKEN_REAL:
    case TOKEN_STRING:
        return literal(p);
    case TOKEN_NAME:
        return word(p);
    default:
        break;
    }
    if (jinja_is_op(p, "(") || jinja_is_op(p, "[") || jinja_is_op(p, "{"))
        return enter(p, bracketed);
    jinja_parse_fail(p, "an expression is expected, not '%.*s'", SPAN_ARG(p->token->text));
    return NULL;
}

/* --- postfixes --- */

bool jinja_parse_args(struct jinja_parser *p, struct jinja_node **args) {
    size_t n = 0;
    while (!jinja_take_op(p, ")")) {
        bool named = p->token->kind == TOKEN_NAME && p->token[1].kind == TOKEN_OP && span_is(p->token[1].text, "=");
        struct jinja_node *cell = jinja_node_new(p, NODE_SET);
        if (!cell)
            return false;
        if (named) {
            cell->text = p->token->text;
            p->token += 2;
        }
        cell->a = jinja_parse_expression(p);
        *args = cell;
        args = &cell->next;
        if (!cell->a)
            return false;
        if (++n > JINJA_ARGS_MAX - 2)
            return jinja_parse_fail(p, "over %d arguments", JINJA_ARGS_MAX - 2);
        if (!jinja_take_op(p, ",") && !jinja_is_op(p, ")"))
            return jinja_need_op(p, ")");
    }
    return true;
}

static struct jinja_node *member(struct jinja_parser *p, struct jinja_node *of) {
    if (p->token->kind != TOKEN_NAME && p->token->kind != TOKEN_INT)
        return jinja_parse_fail(p, "a name is expected behind the dot"), NULL;
    struct jinja_node *e = jinja_node_new(p, NODE_MEMBER);
    if (!e)
        return NULL;
    e->a = of;
    e->text = p->token++->text;
    if (!jinja_is_op(p, "("))
        return e;
    p->token++;
    e->kind = NODE_METHOD;
    e->known = jinja_method_find(e->text);
    if (!e->known)
        return jinja_parse_fail(p, "the method %.*s is not supported", SPAN_ARG(e->text)), NULL;
    return jinja_parse_args(p, &e->args) ? e : NULL;
}

static struct jinja_node *subscript(struct jinja_parser *p, struct jinja_node *of) {
    struct jinja_node *e = jinja_node_new(p, NODE_INDEX), **parts[3];
    int n = 0;
    if (!e)
        return NULL;
    e->a = of;
    parts[0] = &e->b;
    parts[1] = &e->c;
    parts[2] = &e->d;
    while (!jinja_take_op(p, "]")) {
        if (jinja_take_op(p, ":")) {
            e->kind = NODE_SLICE;
            if (++n == 3)
                return jinja_parse_fail(p, "a slice has at most three parts"), NULL;
            continue;
        }
        if (*parts[n]) {
            jinja_parse_fail(p, "']' is expected, not '%.*s'", SPAN_ARG(p->token->text));
            return NULL;
        }
        *parts[n] = jinja_parse_expression(p);
        if (!*parts[n])
            return NULL;
    }
    if (e->kind == NODE_INDEX && !e->b)
        return jinja_parse_fail(p, "an index is expected"), NULL;
    return e;
}

static struct jinja_node *call(struct jinja_parser *p, struct jinja_node *of) {
    struct jinja_node *e = jinja_node_new(p, NODE_CALL);
    if (!e)
        return NULL;
    if (of->kind != NODE_NAME)
        return jinja_parse_fail(p, "only a function or macro by its name can be called"), NULL;
    e->text = of->text;
    e->b = p->calls;
    p->calls = e;
    e->known = jinja_global_find(of->text); /* a macro may come later: looked at when all is read */
    return jinja_parse_args(p, &e->args) ? e : NULL;
}

static struct jinja_node *postfixes(struct jinja_parser *p) {
    struct jinja_node *e = primary(p);
    while (e) {
        if (jinja_take_op(p, "."))
            e = member(p, e);
        else if (jinja_take_op(p, "["))
            e = subscript(p, e);
        else if (jinja_take_op(p, "("))
            e = call(p, e);
        else
            break;
    }
    return e;
}

/* A name in the first argument of map, select and the like is looked up here too. */
static bool check_inner(struct jinja_parser *p, struct jinja_node *e) {
    bool map = span_is(e->text, "map"), attr = span_is(e->text, "selectattr") || span_is(e->text, "rejectattr");
    bool plain = span_is(e->text, "select") || span_is(e->text, "reject");
    const struct jinja_node *name = attr && e->args ? e->args->next : map || plain ? e->args : NULL;
    if (!name || name->text.n || name->a->kind != NODE_CONST || name->a->value.kind != JINJA_STRING)
        return true;
    struct span word = jinja_span(name->a->value.s);
    if (map ? !!jinja_filter_find(word) : !!jinja_test_find(word))
        return true;
    return jinja_parse_fail(p, "the %s %.*s is not supported", map ? "filter" : "test", SPAN_ARG(word));
}

struct jinja_node *jinja_parse_filters(struct jinja_parser *p, struct jinja_node *of) {
    do {
        struct jinja_node *e = jinja_node_new(p, NODE_FILTER);
        if (!e)
            return NULL;
        e->a = of;
        e->text = p->token->text;
        e->known = p->token->kind == TOKEN_NAME ? jinja_filter_find(e->text) : NULL;
        if (!e->known)
            return jinja_parse_fail(p, "the filter %.*s is not supported", SPAN_ARG(e->text)), NULL;
        p->token++;
        if (jinja_take_op(p, "(") && !jinja_parse_args(p, &e->args))
            return NULL;
        if (!check_inner(p, e))
            return NULL;
        of = e;
    } while (jinja_take_op(p, "|"));
    return of;
}

/* One argument may follow a test without brackets. */
static bool bare_argument(struct jinja_parser *p, struct jinja_node *e) {
    enum jinja_token_kind kind = p->token->kind;
    if (kind != TOKEN_INT && kind != TOKEN_REAL && kind != TOKEN_STRING && !jinja_is_op(p, "[") &&
        (kind != TOKEN_NAME || is_keyword(p->token->text)))
        return true;
    e->args = jinja_node_new(p, NODE_SET);
    if (e->args)
        e->args->a = postfixes(p);
    return e->args && e->args->a;
}

static struct jinja_node *test(struct jinja_parser *p, struct jinja_node *of) {
    bool negated = jinja_take_name(p, "not");
    struct jinja_node *e = jinja_node_new(p, NODE_TEST);
    if (!e)
        return NULL;
    e->a = of;
    e->text = p->token->text;
    e->known = p->token->kind == TOKEN_NAME || jinja_is_op(p, "==") ? jinja_test_find(e->text) : NULL;
    if (!e->known)
        return jinja_parse_fail(p, "the test %.*s is not supported", SPAN_ARG(e->text)), NULL;
    p->token++;
    if (!(jinja_take_op(p, "(") ? jinja_parse_args(p, &e->args) : bare_argument(p, e)))
        return NULL;
    struct jinja_node *not = negated ? jinja_node_new(p, NODE_NOT) : NULL;
    if (not )
        not ->a = e;
    return negated ? not : e;
}

static struct jinja_node *unary(struct jinja_parser *p) {
    struct jinja_node *e;
    if (jinja_take_op(p, "-")) {
        struct jinja_node *of = jinja_parse_unary(p);
        e = of ? jinja_node_new(p, NODE_NEGATE) : NULL;
        if (e)
            e->a = of;
        return e;
    }
    if (jinja_take_op(p, "+"))
        return jinja_parse_unary(p);
    e = postfixes(p);
    while (e && (jinja_is_op(p, "|") || jinja_is_name(p, "is"))) {
        bool filter = jinja_is_op(p, "|");
        p->token++;
        e = filter ? jinja_parse_filters(p, e) : test(p, e);
    }
    return e;
}

struct jinja_node *jinja_parse_unary(struct jinja_parser *p) {
    return enter(p, unary);
}

/* --- operators --- */

static struct jinja_node *chain(struct jinja_parser *p, const char *const *ops, size_t n,
                                struct jinja_node *(*below)(struct jinja_parser *)) {
    struct jinja_node *e = below(p);
    for (size_t i = 0; e && i < n; i++) {
        if (!jinja_is_op(p, ops[i]))
            continue;
        struct span op = p->token++->text;
        e = pair(p, NODE_BINARY, op, e, below(p));
        i = (size_t)-1; /* look through them all again */
    }
    return e;
}

static struct jinja_node *product(struct jinja_parser *p) {
    static const char *const ops[] = {"*", "/", "//", "%"};
    return chain(p, ops, ARRAY_LEN(ops), jinja_parse_unary);
}

static struct jinja_node *joined(struct jinja_parser *p) {
    static const char *const ops[] = {"~"};
    return chain(p, ops, ARRAY_LEN(ops), product);
}

static struct jinja_node *sum(struct jinja_parser *p) {
    static const char *const ops[] = {"+", "-"};
    return chain(p, ops, ARRAY_LEN(ops), joined);
}

static struct jinja_node *comparison(struct jinja_parser *p) {
    static const char *const ops[] = {"==", "!=", "<=", ">=", "<", ">"};
    struct jinja_node *e = chain(p, ops, ARRAY_LEN(ops), sum);
    while (e) {
        bool negated = jinja_is_name(p, "not") && p->token[1].kind == TOKEN_NAME && span_is(p->token[1].text, "in");
        if (!negated && !jinja_is_name(p, "in"))
            break;
        p->token += negated ? 2 : 1;
        e = pair(p, NODE_BINARY, SPAN("in"), e, chain(p, ops, ARRAY_LEN(ops), sum));
        struct jinja_node *not = e && negated ? jinja_node_new(p, NODE_NOT) : NULL;
        if (not )
            not ->a = e;
        e = negated ? not : e;
    }
    return e;
}

static struct jinja_node *negation(struct jinja_parser *p) {
    if (!jinja_take_name(p, "not"))
        return comparison(p);
    struct jinja_node *of = enter(p, negation), *e = of ? jinja_node_new(p, NODE_NOT) : NULL;
    if (e)
        e->a = of;
    return e;
}

static struct jinja_node *both(struct jinja_parser *p) {
    struct jinja_node *e = negation(p);
    while (e && jinja_take_name(p, "and"))
        e = pair(p, NODE_AND, SPAN("and"), e, negation(p));
    return e;
}

static struct jinja_node *either(struct jinja_parser *p) {
    struct jinja_node *e = both(p);
    while (e && jinja_take_name(p, "or"))
        e = pair(p, NODE_OR, SPAN("or"), e, both(p));
    return e;
}

struct jinja_node *jinja_parse_either(struct jinja_parser *p) {
    return enter(p, either);
}

static struct jinja_node *choice(struct jinja_parser *p) {
    struct jinja_node *e = either(p);
    while (e && jinja_take_name(p, "if")) {
        struct jinja_node *all = jinja_node_new(p, NODE_CHOICE);
        if (!all)
            return NULL;
        all->b = e;
        all->a = either(p);
        if (!all->a)
            return NULL;
        if (jinja_take_name(p, "else")) {
            all->c = jinja_parse_expression(p);
            if (!all->c)
                return NULL;
        }
        e = all;
    }
    return e;
}

struct jinja_node *jinja_parse_expression(struct jinja_parser *p) {
    return enter(p, choice);
}
