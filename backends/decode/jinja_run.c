/* Statements: scopes, loops, output. A loop or macro opens a scope; what is set in it ends with it, save through a
 * namespace. Every node counts as a step, so a template ends, whatever it says. */
#include "backends/decode/jinja_run.h"

#include <stdio.h>

void jinja_fail(struct jinja_run *r, const char *format, ...) {
    char sentence[256];
    va_list args;
    if (r->failed)
        return;
    va_start(args, format);
    vsnprintf(sentence, sizeof sentence, format, args);
    va_end(args);
    r->failed = true;
    str_printf(r->why, "%s: line %d: %s", r->program->file, r->line, sentence);
}

bool jinja_step(struct jinja_run *r, size_t bytes) {
    r->steps += 1 + (int64_t)(bytes / 32);
    if (r->steps > JINJA_STEPS_MAX)
        jinja_fail(r, "the rendering takes over %d steps", JINJA_STEPS_MAX);
    return !r->failed;
}

void *jinja_alloc(struct jinja_run *r, size_t n) {
    void *at = r->failed || !jinja_step(r, n) ? NULL : arena_alloc(&r->arena, n);
    if (!at)
        jinja_fail(r, "the rendering takes over %d bytes of memory", JINJA_MEMORY_BYTES_MAX);
    return at;
}

struct jinja_binding *jinja_lookup(struct jinja_run *r, struct span name) {
    for (struct jinja_scope *s = r->scope; s; s = s->outer)
        for (struct jinja_binding *b = s->first; b; b = b->next)
            if (span_equal(b->name, name))
                return b;
    return NULL;
}

struct jinja_binding *jinja_bind(struct jinja_run *r, struct span name, struct jinja_value v) {
    struct jinja_binding *b = r->scope->first;
    while (b && !span_equal(b->name, name))
        b = b->next;
    if (!b) {
        b = jinja_alloc(r, sizeof *b);
        if (!b)
            return NULL;
        b->name = name;
        b->next = r->scope->first;
        r->scope->first = b;
    }
    b->value = v;
    b->macro = NULL;
    return b;
}

void jinja_scope_push(struct jinja_run *r, struct jinja_scope *s) {
    *s = (struct jinja_scope){.outer = r->scope};
    r->scope = s;
}

void jinja_scope_pop(struct jinja_run *r) {
    r->scope = r->scope->outer;
}

/* One value to one name, or the elements of a list to as many. */
static void assign(struct jinja_run *r, const struct jinja_node *names, struct jinja_value v) {
    size_t n = 0;
    for (const struct jinja_node *i = names; i; i = i->next)
        n++;
    if (n == 1) {
        jinja_bind(r, names->text, v);
        return;
    }
    if (v.kind != JINJA_LIST || v.list->n != n) {
        jinja_fail(r, "%zu names are set to %s", n, jinja_kind_name(v.kind));
        return;
    }
    for (size_t i = 0; names; names = names->next)
        jinja_bind(r, names->text, v.list->at[i++]);
}

static void exec_set(struct jinja_run *r, const struct jinja_node *n) {
    struct jinja_value v = jinja_eval(r, n->a);
    if (r->failed)
        return;
    if (!n->text.n) {
        assign(r, n->args, v);
        return;
    }
    struct jinja_binding *b = jinja_lookup(r, n->args->text);
    if (!b || b->value.kind != JINJA_MAP)
        jinja_fail(r, "%.*s is no namespace", SPAN_ARG(n->args->text));
    else
        jinja_map_put(r, b->value, (struct jinja_text){n->text.at, n->text.n, NULL, false}, v);
}

static void exec_set_block(struct jinja_run *r, const struct jinja_node *n) {
    struct marked text, *was = r->out;
    marked_init(&text, JINJA_OUTPUT_BYTES_MAX);
    r->out = &text;
    jinja_exec(r, n->b);
    r->out = was;
    struct jinja_value v = jinja_built(r, &text);
    if (n->d && !r->failed) {
        struct jinja_scope scope;
        jinja_scope_push(r, &scope);
        jinja_bind(r, SPAN(JINJA_BLOCK_NAME), v);
        v = jinja_eval(r, n->d);
        jinja_scope_pop(r);
    }
    if (!r->failed)
        jinja_bind(r, n->args->text, v);
}

static struct jinja_value filtered(struct jinja_run *r, const struct jinja_node *n, struct jinja_value all) {
    struct jinja_value kept = jinja_list_new(r);
    for (size_t i = 0; i < all.list->n && !r->failed; i++) {
        struct jinja_scope scope;
        jinja_scope_push(r, &scope);
        assign(r, n->args, all.list->at[i]);
        if (jinja_truth(jinja_eval(r, n->d)))
            jinja_list_put(r, kept, all.list->at[i]);
        jinja_scope_pop(r);
    }
    return kept;
}

static void bind_loop(struct jinja_run *r, struct jinja_value all, size_t i) {
    int64_t n = (int64_t)all.list->n, at = (int64_t)i;
    const struct {
        const char *name;
        struct jinja_value value;
    } rows[] = {
        {"index", jinja_int(at + 1)},
        {"index0", jinja_int(at)},
        {"revindex", jinja_int(n - at)},
        {"revindex0", jinja_int(n - at - 1)},
        {"first", jinja_bool(at == 0)},
        {"last", jinja_bool(at == n - 1)},
        {"length", jinja_int(n)},
        {"previtem", i ? all.list->at[i - 1] : JINJA_VOID},
        {"nextitem", i + 1 < all.list->n ? all.list->at[i + 1] : JINJA_VOID},
    };
    struct jinja_value loop = jinja_map_new(r);
    for (size_t k = 0; k < ARRAY_LEN(rows); k++)
        jinja_map_put(r, loop, jinja_word(rows[k].name).s, rows[k].value);
    jinja_bind(r, SPAN("loop"), loop);
}

static void exec_for(struct jinja_run *r, const struct jinja_node *n) {
    struct jinja_value all = jinja_iterated(r, jinja_eval(r, n->a));
    if (r->failed)
        return;
    if (n->d)
        all = filtered(r, n, all);
    for (size_t i = 0; !r->failed && i < all.list->n; i++) {
        struct jinja_scope scope;
        jinja_scope_push(r, &scope);
        bind_loop(r, all, i);
        assign(r, n->args, all.list->at[i]);
        jinja_exec(r, n->b);
        jinja_scope_pop(r);
        if (r->flow == FLOW_BREAK)
            i = all.list->n - 1;
        r->flow = FLOW_ON;
    }
    if (!r->failed && all.list->n == 0)
        jinja_exec(r, n->c);
}

static void exec_macro(struct jinja_run *r, const struct jinja_node *n) {
    struct jinja_binding *b = jinja_bind(r, n->text, (struct jinja_value){.kind = JINJA_CALLABLE});
    if (b)
        b->macro = n;
}

static void exec_one(struct jinja_run *r, const struct jinja_node *n) {
    switch (n->kind) {
    case NODE_TEXT:
        marked_put(r->out, n->text, false);
        break;
    case NODE_PRINT:
        jinja_put_str(r, jinja_eval(r, n->a), r->out);
        break;
    case NODE_IF:
        jinja_exec(r, jinja_truth(jinja_eval(r, n->a)) ? n->b : n->c);
        break;
    case NODE_FOR:
        exec_for(r, n);
        break;
    case NODE_SET:
        exec_set(r, n);
        break;
    case NODE_SET_BLOCK:
        exec_set_block(r, n);
        break;
    case NODE_MACRO:
        exec_macro(r, n);
        break;
    case NODE_BREAK:
        r->flow = FLOW_BREAK;
        break;
    case NODE_CONTINUE:
        r->flow = FLOW_CONTINUE;
        break;
    default:
        break;
    }
}

void jinja_exec(struct jinja_run *r, const struct jinja_node *list) {
    if (r->depth++ > JINJA_DEPTH_MAX * 2)
        jinja_fail(r, "over %d tags run in each other", JINJA_DEPTH_MAX * 2);
    for (; list && r->flow == FLOW_ON && jinja_step(r, 0); list = list->next) {
        r->line = list->line;
        exec_one(r, list);
        if (r->out->text.over)
            jinja_fail(r, "the text has over %d bytes", JINJA_OUTPUT_BYTES_MAX);
    }
    r->depth--;
}

bool jinja_render(const struct jinja *j, const struct jinja_var *vars, size_t n, int64_t now_s, struct marked *out,
                  struct str *why) {
    struct jinja_scope globals;
    struct jinja_run r = {.program = j, .out = out, .now_s = now_s, .why = why, .line = 1};
    arena_init(&r.arena, JINJA_MEMORY_BYTES_MAX);
    jinja_scope_push(&r, &globals);
    r.outermost = &globals;
    for (size_t i = 0; i < n && !r.failed; i++)
        if (vars[i].value.kind != JSON_NONE)
            jinja_bind(&r, span_of(vars[i].name), jinja_from_json(&r, vars[i].value, vars[i].user));
    jinja_exec(&r, j->body);
    arena_fini(&r.arena);
    return !r.failed;
}
