/* The tree of a template: made by the parser, read by the interpreter. Everything lies in the arena of the template. */
#ifndef TOLLGATE_DECODE_JINJA_NODE_H
#define TOLLGATE_DECODE_JINJA_NODE_H

#include "backends/decode/jinja_value.h"

enum jinja_token_kind {
    TOKEN_TEXT,
    TOKEN_PRINT,       /* {{ */
    TOKEN_PRINT_CLOSE, /* }} */
    TOKEN_TAG,         /* {% */
    TOKEN_TAG_CLOSE,   /* %} */
    TOKEN_NAME,
    TOKEN_INT,
    TOKEN_REAL,
    TOKEN_STRING, /* with its quotes */
    TOKEN_OP,
    TOKEN_END,
};
struct jinja_token {
    enum jinja_token_kind kind;
    int line;
    struct span text;
};
struct jinja_tokens {
    struct jinja_token *at; /* owned */
    size_t n, capacity;
};
/* The last token is TOKEN_END. False with a sentence; the tokens made so far are to be freed in any case. */
must_check bool jinja_lex(struct span source, const char *file, struct jinja_tokens *out, struct str *why);

/* What the filters of {% set x | f %} find the block's text by; no template can say it. */
#define JINJA_BLOCK_NAME "(block)"

enum jinja_node_kind {
    NODE_TEXT,
    NODE_PRINT,     /* a */
    NODE_IF,        /* a ? b... : c... */
    NODE_FOR,       /* over a, where d, do b..., else c...; names: the targets */
    NODE_SET,       /* names = a; with text: names.text = a */
    NODE_SET_BLOCK, /* names = what b... writes, through the filters d */
    NODE_MACRO,     /* text(params) b...; c: the macro before it */
    NODE_BREAK,
    NODE_CONTINUE,
    NODE_CONST,
    NODE_NAME,
    NODE_MEMBER, /* a.text */
    NODE_INDEX,  /* a[b] */
    NODE_SLICE,  /* a[b:c:d] */
    NODE_CALL,   /* text(args); b: the call before it in the template */
    NODE_METHOD, /* a.text(args), known to the parser */
    NODE_FILTER, /* a | text(args) */
    NODE_TEST,   /* a is text(args) */
    NODE_NOT,
    NODE_NEGATE,
    NODE_BINARY, /* a op b */
    NODE_AND,
    NODE_OR,
    NODE_CHOICE, /* b if a else c */
    NODE_LIST,   /* b... */
    NODE_DICT,   /* b: key, value, key, value... */
};
struct jinja_node {
    enum jinja_node_kind kind;
    int line;
    struct span text;
    struct jinja_value value;
    struct jinja_node *a, *b, *c, *d;
    struct jinja_node *args; /* in order; an argument by name has its name in text of a NODE_SET around it */
    struct jinja_node *next; /* in its list */
    const void *known;       /* the row of a filter, test, method */
};

struct jinja {
    char *source; /* owned */
    char file[64];
    struct arena arena;
    struct jinja_node *body;
};

struct jinja_parser {
    struct jinja *to;
    const struct jinja_token *token;
    size_t nodes;
    int depth, loops;
    struct jinja_node *calls, *macros; /* all so far, by b and by c */
    struct str *why;
};
/* All of the parser's functions give NULL after a complaint. */
struct jinja_node *jinja_parse_expression(struct jinja_parser *p);
struct jinja_node *jinja_parse_either(struct jinja_parser *p); /* without "x if y" around it */
struct jinja_node *jinja_parse_unary(struct jinja_parser *p);  /* with postfixes and filters, without operators */
struct jinja_node *jinja_parse_filters(struct jinja_parser *p, struct jinja_node *of);
struct jinja_node *jinja_node_new(struct jinja_parser *p, enum jinja_node_kind kind);
bool jinja_parse_fail(struct jinja_parser *p, const char *format, ...) printf_like(2, 3); /* false */
bool jinja_is_op(const struct jinja_parser *p, const char *op);
bool jinja_is_name(const struct jinja_parser *p, const char *name);
bool jinja_take_op(struct jinja_parser *p, const char *op);
bool jinja_take_name(struct jinja_parser *p, const char *name);
must_check bool jinja_need_op(struct jinja_parser *p, const char *op);
/* Arguments behind an open bracket, which is taken already. */
must_check bool jinja_parse_args(struct jinja_parser *p, struct jinja_node **args);

#endif
