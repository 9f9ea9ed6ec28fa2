/* One rendering, and what functions of the interpreter ask of each other. A failure is kept in the run; whoever evaluates
 * goes on with nothing in its hand until it is seen, so each loop looks at `failed`. */
#ifndef TOLLGATE_DECODE_JINJA_RUN_H
#define TOLLGATE_DECODE_JINJA_RUN_H

#include "backends/decode/jinja_node.h"

#define JINJA_ARGS_MAX 16

struct jinja_scope {
    struct jinja_scope *outer; /* NULL: the template's own */
    struct jinja_binding {
        struct jinja_binding *next;
        struct span name;
        struct jinja_value value;
        const struct jinja_node *macro; /* when the value is callable and not ours */
    } * first;
};
struct jinja_run {
    const struct jinja *program;
    struct arena arena;
    struct jinja_scope *scope, *outermost;
    struct marked *out;
    int64_t steps, now_s;
    int depth, calls, line;
    bool failed;
    enum { FLOW_ON, FLOW_BREAK, FLOW_CONTINUE } flow;
    struct str *why;
};

/* Arguments, the value that a filter, test or method works on first. */
struct jinja_args {
    struct jinja_value at[JINJA_ARGS_MAX];
    struct span names[JINJA_ARGS_MAX]; /* n 0: by position */
    size_t n;
};
/* The argument at a position or by a name; JINJA_VOID: not given. */
struct jinja_value jinja_arg(const struct jinja_args *a, size_t at, const char *name);

void jinja_fail(struct jinja_run *r, const char *format, ...) printf_like(2, 3); /* the first one stays */
/* Counts work; false when the run has failed or had its share. */
bool jinja_step(struct jinja_run *r, size_t bytes);
void *jinja_alloc(struct jinja_run *r, size_t n); /* NULL after a failure */

struct jinja_value jinja_eval(struct jinja_run *r, const struct jinja_node *e);
void jinja_exec(struct jinja_run *r, const struct jinja_node *list);
struct jinja_binding *jinja_lookup(struct jinja_run *r, struct span name);
struct jinja_binding *jinja_bind(struct jinja_run *r, struct span name, struct jinja_value v);
void jinja_scope_push(struct jinja_run *r, struct jinja_scope *s);
void jinja_scope_pop(struct jinja_run *r);
bool jinja_args_eval(struct jinja_run *r, const struct jinja_node *args, struct jinja_args *out);
struct jinja_value jinja_call(struct jinja_run *r, const struct jinja_node *call);

struct jinja_known {
    const char *name;
    struct jinja_value (*run)(struct jinja_run *r, const struct jinja_args *a);
};
/* NULL: there is no such thing. */
const struct jinja_known *jinja_filter_find(struct span name);
const struct jinja_known *jinja_test_find(struct span name);
const struct jinja_known *jinja_method_find(struct span name);
const struct jinja_known *jinja_global_find(struct span name);

/* --- work on text that filters and methods share --- */
enum { STRIP_LEFT = 1, STRIP_RIGHT = 2 };
struct jinja_text jinja_strip(struct jinja_text t, struct span set, int sides); /* set.at NULL: white space */
struct jinja_value jinja_replace(struct jinja_run *r, struct jinja_text t, struct span from, struct jinja_text to,
                                 int64_t most);
enum jinja_case { CASE_UPPER, CASE_LOWER, CASE_TITLE, CASE_CAPITAL };
#define JINJA_CASES(X) /* as filters and as methods */                                                                 \
    X(upper, CASE_UPPER) X(lower, CASE_LOWER) X(title, CASE_TITLE) X(capitalize, CASE_CAPITAL)
struct jinja_value jinja_recase(struct jinja_run *r, struct jinja_text t, enum jinja_case how);
struct jinja_value jinja_items(struct jinja_run *r, struct jinja_value map, bool keys, bool values);
struct jinja_value jinja_characters(struct jinja_run *r, struct jinja_text t);
/* What a loop or list() goes over, as a list; fails for what cannot be gone over. */
struct jinja_value jinja_iterated(struct jinja_run *r, struct jinja_value v);
struct jinja_value jinja_member(struct jinja_run *r, struct jinja_value of, struct jinja_value key);

#endif
