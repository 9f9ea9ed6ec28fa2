/* Pieces of grammars. Always true: an index is of a node that is there, also when the grammar is full, so that whoever builds can
 * look at `full` once, at the end. */
#include "backends/decode/grammar.h"

#include <stdlib.h>

static int32_t node(struct grammar *g, struct grammar_node n) {
    if (g->n_nodes == GRAMMAR_NODES_MAX) {
        g->full = true;
        return g->end;
    }
    if (g->n_nodes == g->capacity) {
        g->capacity = g->capacity ? 2 * g->capacity : 256;
        g->nodes = xrealloc(g->nodes, (size_t)g->capacity * sizeof *g->nodes);
    }
    g->nodes[g->n_nodes] = n;
    return g->n_nodes++;
}

void grammar_init(struct grammar *g) {
    *g = (struct grammar){0};
    g->rules = xcalloc(GRAMMAR_RULES_MAX, sizeof *g->rules);
    g->end = node(g, (struct grammar_node){.kind = NODE_END});
    grammar_rule(g);
}

void grammar_fini(struct grammar *g) {
    free(g->nodes);
    free(g->rules);
    *g = (struct grammar){0};
}

int32_t grammar_rule(struct grammar *g) {
    if (g->n_rules == GRAMMAR_RULES_MAX) {
        g->full = true;
        return 0;
    }
    g->rules[g->n_rules] = g->end;
    return g->n_rules++;
}

int32_t put_bytes(struct grammar *g, uint8_t lo, uint8_t hi, int32_t next) {
    return node(g, (struct grammar_node){.kind = NODE_BYTES, .lo = lo, .hi = hi, .a = next});
}

int32_t put_split(struct grammar *g, int32_t a, int32_t b) {
    return node(g, (struct grammar_node){.kind = NODE_SPLIT, .a = a, .b = b});
}

int32_t put_call(struct grammar *g, int32_t rule, int32_t next) {
    return node(g, (struct grammar_node){.kind = NODE_CALL, .a = rule, .b = next});
}

int32_t put_literal(struct grammar *g, struct span text, int32_t next) {
    while (text.n--)
        next = put_bytes(g, (uint8_t)text.at[text.n], (uint8_t)text.at[text.n], next);
    return next;
}

static int32_t put_one(struct grammar *g, int32_t rule, int32_t between, int32_t next) {
    next = put_call(g, rule, next);
    return between < 0 ? next : put_call(g, between, next);
}

/* Without end: whatever follows the last one, or another one. */
static int32_t put_loop(struct grammar *g, int32_t rule, int32_t between, int32_t next) {
    int32_t again = put_split(g, next, next), one = put_one(g, rule, between, again);
    g->nodes[again].a = one;
    return again;
}

int32_t put_repeat(struct grammar *g, int32_t rule, int64_t least, int64_t most, int32_t between, int32_t next) {
    int64_t n = most < 0 ? (least > 1 ? least : 1) : most;
    int32_t rest = most < 0 ? put_loop(g, rule, between, next) : next;
    if (n == 0)
        return next;
    for (int64_t i = n; i > 1 && !g->full; i--) {
        rest = put_one(g, rule, between, rest);
        if (i > least)
            rest = put_split(g, rest, next);
    }
    rest = put_call(g, rule, rest);
    return least > 0 ? rest : put_split(g, rest, next);
}

const struct decode_form *grammar_form(const struct grammar *g, struct arena *a) {
    struct decode_form *f = g->full ? NULL : arena_alloc(a, sizeof *f);
    struct grammar_node *nodes = f ? arena_alloc(a, (size_t)g->n_nodes * sizeof *nodes) : NULL;
    int32_t *rules = nodes ? arena_alloc(a, (size_t)g->n_rules * sizeof *rules) : NULL;
    if (!rules)
        return NULL;
    memcpy(nodes, g->nodes, (size_t)g->n_nodes * sizeof *nodes);
    memcpy(rules, g->rules, (size_t)g->n_rules * sizeof *rules);
    *f = (struct decode_form){nodes, rules, g->n_nodes, g->n_rules};
    return f;
}
