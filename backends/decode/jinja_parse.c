/* Statements, and the template as a whole. A tag that is not known is refused by its name and line, and so is the call of a
 * name that is neither a function of ours nor a macro of the template. */
#include "backends/decode/jinja_run.h"
#include "backends/decode/model_file.h"

#include <stdio.h>
#include <stdlib.h>

#define ARENA_BYTES_MAX (64u << 20)

bool jinja_parse_fail(struct jinja_parser *p, const char *format, ...) {
    char sentence[256];
    va_list args;
    va_start(args, format);
    vsnprintf(sentence, sizeof sentence, format, args);
    va_end(args);
    return complain(p->why, p->to->file, "line %d: %s", p->token->line, sentence);
}

struct jinja_node *jinja_node_new(struct jinja_parser *p, enum jinja_node_kind kind) {
    struct jinja_node *e = ++p->nodes > JINJA_NODES_MAX ? NULL : arena_alloc(&p->to->arena, sizeof *e);
    if (!e) {
        jinja_parse_fail(p, "the template has over %d parts", JINJA_NODES_MAX);
        return NULL;
    }
    e->kind = kind;
    e->line = p->token->line;
    return e;
}

bool jinja_is_op(const struct jinja_parser *p, const char *op) {
    return p->token->kind == TOKEN_OP && span_is(p->token->text, op);
}

bool jinja_is_name(const struct jinja_parser *p, const char *name) {
    return p->token->kind == TOKEN_NAME && span_is(p->token->text, name);
}

bool jinja_take_op(struct jinja_parser *p, const char *op) {
    bool is = jinja_is_op(p, op);
    p->token += is;
    return is;
}

bool jinja_take_name(struct jinja_parser *p, const char *name) {
    bool is = jinja_is_name(p, name);
    p->token += is;
    return is;
}

bool jinja_need_op(struct jinja_parser *p, const char *op) {
    if (jinja_take_op(p, op))
        return true;
    if (p->token->kind == TOKEN_END)
        return jinja_parse_fail(p, "'%s' is expected, not the end", op);
    return jinja_parse_fail(p, "'%s' is expected, not '%.*s'", op, SPAN_ARG(p->token->text));
}

static bool close_tag(struct jinja_parser *p) {
    if (p->token->kind != TOKEN_TAG_CLOSE)
        return jinja_parse_fail(p, "'%%}' is expected, not '%.*s'", SPAN_ARG(p->token->text));
    p->token++;
    return true;
}

/* At {% with one of the names behind it? */
static bool at_tag(const struct jinja_parser *p, const char *names) {
    struct span rest = span_of(names), one;
    if (p->token->kind != TOKEN_TAG || p->token[1].kind != TOKEN_NAME)
        return false;
    while (span_cut(&rest, ' ', &one))
        if (span_equal(p->token[1].text, one))
            return true;
    return false;
}

static bool statements(struct jinja_parser *p, const char *until, struct jinja_node **list);

/* Statements up to {% NAME, which is taken with its tag's open. */
static bool block(struct jinja_parser *p, const char *until, struct jinja_node **list) {
    if (!statements(p, until, list))
        return false;
    if (p->token->kind == TOKEN_END)
        return jinja_parse_fail(p, "the template ends before {%% %.*s %%}", (int)strcspn(until, " "), until);
    p->token++;
    return true;
}

static bool end_block(struct jinja_parser *p, const char *until, struct jinja_node **list) {
    if (!block(p, until, list))
        return false;
    p->token++;
    if (p->token->kind == TOKEN_NAME) /* {% endmacro name %} */
        p->token++;
    return close_tag(p);
}

static bool parse_if(struct jinja_parser *p, struct jinja_node *e) {
    e->kind = NODE_IF;
    e->a = jinja_parse_expression(p);
    if (!e->a || !close_tag(p) || !block(p, "endif elif else", &e->b))
        return false;
    if (jinja_take_name(p, "endif"))
        return close_tag(p);
    if (jinja_take_name(p, "else"))
        return close_tag(p) && end_block(p, "endif", &e->c);
    p->token++;
    e->c = jinja_node_new(p, NODE_IF);
    if (!e->c || p->depth == JINJA_DEPTH_MAX)
        return e->c ? jinja_parse_fail(p, "over %d elif", JINJA_DEPTH_MAX) : false;
    p->depth++;
    bool ok = parse_if(p, e->c);
    p->depth--;
    return ok;
}

/* a, b or (a, b): a chain of NODE_NAMEs. */
static bool targets(struct jinja_parser *p, struct jinja_node **to) {
    bool bracket = jinja_take_op(p, "(");
    do {
        if (p->token->kind != TOKEN_NAME)
            return jinja_parse_fail(p, "a name is expected, not '%.*s'", SPAN_ARG(p->token->text));
        *to = jinja_node_new(p, NODE_NAME);
        if (!*to)
            return false;
        (*to)->text = p->token++->text;
        to = &(*to)->next;
    } while (jinja_take_op(p, ","));
    return !bracket || jinja_need_op(p, ")");
}

static bool parse_for(struct jinja_parser *p, struct jinja_node *e) {
    e->kind = NODE_FOR;
    if (!targets(p, &e->args))
        return false;
    if (!jinja_take_name(p, "in"))
        return jinja_parse_fail(p, "'in' is expected, not '%.*s'", SPAN_ARG(p->token->text));
    e->a = jinja_parse_either(p);
    if (!e->a || (jinja_take_name(p, "if") && !(e->d = jinja_parse_expression(p))))
        return false;
    if (jinja_is_name(p, "recursive"))
        return jinja_parse_fail(p, "recursive loops are not supported");
    p->loops++;
    bool ok = close_tag(p) && block(p, "endfor else", &e->b);
    p->loops--;
    if (!ok)
        return false;
    if (jinja_take_name(p, "endfor"))
        return close_tag(p);
    p->token++;
    return close_tag(p) && end_block(p, "endfor", &e->c);
}

static bool parse_set(struct jinja_parser *p, struct jinja_node *e) {
    e->kind = NODE_SET;
    if (!targets(p, &e->args))
        return false;
    if (jinja_take_op(p, ".")) {
        if (p->token->kind != TOKEN_NAME)
            return jinja_parse_fail(p, "a name is expected behind the dot");
        e->text = p->token++->text;
    }
    if (jinja_take_op(p, "=")) {
        e->a = jinja_parse_expression(p);
        if (e->a && jinja_is_op(p, ",")) /* a, b = x, y */
            return jinja_parse_fail(p, "a tuple is written in brackets");
        return e->a && close_tag(p);
    }
    e->kind = NODE_SET_BLOCK;
    if (e->text.n || e->args->next)
        return jinja_need_op(p, "=");
    if (jinja_take_op(p, "|")) {
        struct jinja_node *hole = jinja_node_new(p, NODE_NAME);
        if (!hole)
            return false;
        hole->text = SPAN(JINJA_BLOCK_NAME);
        e->d = jinja_parse_filters(p, hole);
        if (!e->d)
            return false;
    }
    return close_tag(p) && end_block(p, "endset", &e->b);
}

static bool parse_macro(struct jinja_parser *p, struct jinja_node *e) {
    struct jinja_node **to = &e->args;
    e->kind = NODE_MACRO;
    e->text = p->token->text;
    if (p->token->kind != TOKEN_NAME)
        return jinja_parse_fail(p, "a macro needs a name");
    p->token++;
    e->c = p->macros;
    p->macros = e;
    if (!jinja_need_op(p, "("))
        return false;
    while (!jinja_take_op(p, ")")) {
        struct jinja_node *one = jinja_node_new(p, NODE_NAME);
        if (!one || p->token->kind != TOKEN_NAME)
            return one ? jinja_parse_fail(p, "a parameter needs a name") : false;
        one->text = p->token++->text;
        if (jinja_take_op(p, "=") && !(one->a = jinja_parse_expression(p)))
            return false;
        *to = one;
        to = &one->next;
        if (!jinja_take_op(p, ",") && !jinja_is_op(p, ")"))
            return jinja_need_op(p, ")");
    }
    int loops = p->loops;
    p->loops = 0;
    bool ok = close_tag(p) && end_block(p, "endmacro", &e->b);
    p->loops = loops;
    return ok;
}

static bool parse_jump(struct jinja_parser *p, struct jinja_node *e) {
    e->kind = span_is(p->token[-1].text, "break") ? NODE_BREAK : NODE_CONTINUE;
    return p->loops ? close_tag(p) : jinja_parse_fail(p, "there is no loop around it");
}

static const struct {
    const char *name;
    bool (*parse)(struct jinja_parser *p, struct jinja_node *e);
} tags[] = {
    {"if", parse_if},       {"for", parse_for},    {"set", parse_set},
    {"macro", parse_macro}, {"break", parse_jump}, {"continue", parse_jump},
};

/* Marks of a trainer around what the assistant says: they write nothing. */
static bool is_silent(struct span name) {
    return span_is(name, "generation") || span_is(name, "endgeneration");
}

static bool statement(struct jinja_parser *p, struct jinja_node **to) {
    struct span name = p->token[1].kind == TOKEN_NAME ? p->token[1].text : SPAN_NONE;
    p->token++;
    if (is_silent(name)) {
        p->token++;
        return close_tag(p);
    }
    for (size_t i = 0; i < ARRAY_LEN(tags); i++) {
        if (!span_is(name, tags[i].name))
            continue;
        *to = jinja_node_new(p, NODE_IF);
        p->token++;
        return *to && tags[i].parse(p, *to);
    }
    return jinja_parse_fail(p, "the tag {%% %.*s %%} is not supported", SPAN_ARG(p->token->text));
}

static bool print(struct jinja_parser *p, struct jinja_node **to) {
    p->token++;
    *to = jinja_node_new(p, NODE_PRINT);
    if (!*to || !((*to)->a = jinja_parse_expression(p)))
        return false;
    if (p->token->kind != TOKEN_PRINT_CLOSE)
        return jinja_parse_fail(p, "'}}' is expected, not '%.*s'", SPAN_ARG(p->token->text));
    p->token++;
    return true;
}

static bool one_statement(struct jinja_parser *p, struct jinja_node **to) {
    if (p->token->kind == TOKEN_PRINT)
        return print(p, to);
    if (p->token->kind == TOKEN_TAG)
        return statement(p, to);
    *to = jinja_node_new(p, NODE_TEXT);
    if (*to)
        (*to)->text = p->token++->text;
    return *to != NULL;
}

static bool statements(struct jinja_parser *p, const char *until, struct jinja_node **list) {
    bool ok = true;
    if (p->depth == JINJA_DEPTH_MAX)
        return jinja_parse_fail(p, "tags over %d deep in each other", JINJA_DEPTH_MAX);
    p->depth++;
    while (ok && p->token->kind != TOKEN_END && !at_tag(p, until)) {
        ok = one_statement(p, list);
        if (ok && *list)
            list = &(*list)->next;
    }
    p->depth--;
    return ok;
}

static bool check_calls(struct jinja_parser *p) {
    for (const struct jinja_node *call = p->calls; call; call = call->b) {
        const struct jinja_node *macro = p->macros;
        while (macro && !span_equal(macro->text, call->text))
            macro = macro->c;
        if (!call->known && !macro)
            return complain(p->why, p->to->file, "line %d: the function %.*s is not supported", call->line,
                            SPAN_ARG(call->text));
    }
    return true;
}

struct jinja *jinja_parse(struct span source, const char *file, struct str *why) {
    struct jinja_tokens tokens = {0};
    struct jinja *j = xcalloc(1, sizeof *j);
    struct jinja_parser p = {.to = j, .why = why};
    snprintf(j->file, sizeof j->file, "%s", file);
    arena_init(&j->arena, ARENA_BYTES_MAX);
    if (source.n > JINJA_SOURCE_BYTES_MAX) {
        complain(why, j->file, "the template has %zu bytes; at most %d are read", source.n, JINJA_SOURCE_BYTES_MAX);
        jinja_free(j);
        return NULL;
    }
    j->source = xcalloc(source.n + 1, 1);
    if (source.n)
        memcpy(j->source, source.at, source.n);
    bool ok = jinja_lex(span_from(j->source, source.n), j->file, &tokens, why);
    p.token = tokens.at;
    ok = ok && statements(&p, "", &j->body);
    ok = ok && check_calls(&p);
    free(tokens.at);
    if (ok)
        return j;
    jinja_free(j);
    return NULL;
}

void jinja_free(struct jinja *j) {
    if (!j)
        return;
    arena_fini(&j->arena);
    free(j->source);
    free(j);
}
