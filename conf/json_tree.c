/* JSON into the same tree, for conf files called *.json: through the house's own scanner, since libyaml refuses
 * surrogate pairs. Values come in the order of the bytes, so one cursor gives every line and column in a single pass. */
#include "conf/tree.h"

#include "gateway/base/json.h"

struct cursor {
    const char *at;
    int line, column;
};

struct loading {
    struct arena *arena;
    struct conf_report *report;
    const struct source *source;
    struct cursor cursor;
    size_t weight;
    bool failed;
};

static void advance(struct cursor *c, const char *to) {
    for (; c->at < to; c->at++) {
        if (*c->at == '\n') {
            c->line++;
            c->column = 1;
        } else if (((unsigned char)*c->at & 0xc0) != 0x80) {
            c->column++;
        }
    }
}

static struct node *here(struct loading *l, const char *at, enum node_kind kind) {
    advance(&l->cursor, at);
    struct node *n = node_new(l->arena, l->source, kind, l->cursor.line, l->cursor.column);
    if (++l->weight > CONF_NODES_MAX && !l->failed) {
        problem_at(l->report, n, "the file holds too many values");
        l->failed = true;
    }
    return n;
}

static void take_text(struct loading *l, struct node *n, struct json v) {
    struct span text = json_text(v, l->arena);
    n->quoted = true;
    n->text = (struct span){tree_strdup(l->arena, text), text.n};
    if (text.n && memchr(text.at, 0, text.n)) {
        problem_at(l->report, n, "the text holds a NUL");
        l->failed = true;
    }
}

static struct node *value(struct loading *l, struct json v);

static struct node *key(struct loading *l, struct span name, struct map *seen) {
    struct node *k = here(l, name.at - 1, NODE_SCALAR);
    take_text(l, k, (struct json){JSON_STRING, {name.at - 1, name.n + 2}});
    const struct node *first = map_find(seen, k->text);
    if (first)
        problem_at(l->report, k, "'%.*s' stands twice; first on line %d", SPAN_ARG(k->text), first->line);
    else
        map_put(seen, k->text, k);
    return first ? NULL : k;
}

static struct node *inner(struct loading *l, struct json v) {
    bool object = v.kind == JSON_OBJECT;
    struct node *n = here(l, v.raw.at, object ? NODE_MAP : NODE_LIST);
    struct json_walk walk;
    struct span name;
    struct json item;
    struct map seen;
    map_init(&seen);
    json_walk_init(&walk, v);
    while (!l->failed && json_walk_next(&walk, &name, &item)) {
        struct node *k = object ? key(l, name, &seen) : NULL;
        struct node *child = value(l, item);
        if (k || !object)
            node_add(l->arena, n, k, child);
    }
    map_fini(&seen);
    return n;
}

static struct node *value(struct loading *l, struct json v) {
    if (v.kind == JSON_OBJECT || v.kind == JSON_ARRAY)
        return inner(l, v);
    struct node *n = here(l, v.raw.at, v.kind == JSON_NULL ? NODE_NULL : NODE_SCALAR);
    if (v.kind == JSON_STRING)
        take_text(l, n, v);
    else
        n->text = (struct span){tree_strdup(l->arena, v.raw), v.raw.n};
    return n;
}

struct node *json_tree(struct arena *a, struct conf_report *report, const struct source *source) {
    struct loading l = {.arena = a, .report = report, .source = source, .cursor = {source->bytes.at, 1, 1}};
    struct json root;
    struct json_fault fault = {0};
    if (!json_check(source->bytes, CONF_DEPTH_MAX, &root, &fault)) {
        advance(&l.cursor, source->bytes.at + fault.at);
        problem_in(report, source, l.cursor.line, l.cursor.column, "not JSON: %s", fault.what);
        return NULL;
    }
    struct node *n = value(&l, root);
    return l.failed ? NULL : n;
}
