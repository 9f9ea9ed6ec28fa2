/* Nodes of the tree: making, finding, laying one over another, printing. A node once handed out keeps its place, so
 * that a sentence about a merged value still names the file and line where somebody wrote it. */
#include "conf/tree.h"

#include "gateway/base/json.h"

#include <assert.h>
#include <stdio.h>

#define LIST_FIRST_CAPACITY 8

void *tree_alloc(struct arena *a, size_t size) {
    void *at = arena_alloc(a, size ? size : 1);
    assert(at && "a conf within its limits fits its arena");
    return at;
}

char *tree_strdup(struct arena *a, struct span text) {
    char *at = tree_alloc(a, text.n + 1);
    if (text.n)
        memcpy(at, text.at, text.n);
    return at;
}

char *tree_printf(struct arena *a, const char *format, ...) {
    va_list args, again;
    va_start(args, format);
    va_copy(again, args);
    int n = vsnprintf(NULL, 0, format, args);
    assert(n >= 0);
    char *at = tree_alloc(a, (size_t)n + 1);
    vsnprintf(at, (size_t)n + 1, format, again);
    va_end(again);
    va_end(args);
    return at;
}

struct node *node_new(struct arena *a, const struct source *source, enum node_kind kind, int line, int column) {
    struct node *n = tree_alloc(a, sizeof *n);
    *n = (struct node){.kind = kind, .source = source, .line = line, .column = column, .weight = 1, .height = 1};
    return n;
}

struct node *node_like(struct arena *a, const struct node *place, enum node_kind kind) {
    return node_new(a, place->source, kind, place->line, place->column);
}

struct node *node_scalar(struct arena *a, const struct node *place, const char *text) {
    struct node *n = node_like(a, place, NODE_SCALAR);
    n->text = span_of(text);
    return n;
}

static void grow(struct arena *a, struct node *to) {
    size_t capacity = to->capacity ? 2 * to->capacity : LIST_FIRST_CAPACITY;
    struct node **items = tree_alloc(a, capacity * sizeof *items);
    struct node **keys = to->kind == NODE_MAP ? tree_alloc(a, capacity * sizeof *keys) : NULL;
    if (to->n)
        memcpy(items, to->items, to->n * sizeof *items);
    if (to->n && keys)
        memcpy(keys, to->keys, to->n * sizeof *keys);
    to->items = items;
    to->keys = keys;
    to->capacity = capacity;
}

void node_add(struct arena *a, struct node *to, struct node *key, struct node *item) {
    assert((to->kind == NODE_MAP) == (key != NULL));
    if (to->n == to->capacity)
        grow(a, to);
    if (key)
        to->keys[to->n] = key;
    to->items[to->n++] = item;
    to->weight += item->weight;
    if (item->height >= to->height)
        to->height = item->height + 1;
}

static size_t find(const struct node *map, const char *name) {
    if (!map || map->kind != NODE_MAP)
        return SIZE_MAX;
    for (size_t i = 0; i < map->n; i++)
        if (span_is(map->keys[i]->text, name))
            return i;
    return SIZE_MAX;
}

const struct node *node_get(const struct node *map, const char *name) {
    size_t i = find(map, name);
    return i == SIZE_MAX ? NULL : map->items[i];
}

const struct node *node_key(const struct node *map, const char *name) {
    size_t i = find(map, name);
    return i == SIZE_MAX ? NULL : map->keys[i];
}

const char *node_kind_name(const struct node *n) {
    static const char *const names[] = {"nothing", "a value", "a list", "a map"};
    return names[n->kind];
}

const struct node *node_merge(struct arena *a, const struct node *under, const struct node *over) {
    if (!under || !over)
        return over ? over : under;
    if (under->kind != NODE_MAP || over->kind != NODE_MAP)
        return over;
    struct node *both = node_like(a, over, NODE_MAP);
    for (size_t i = 0; i < over->n; i++) {
        const struct node *below = node_get(under, over->keys[i]->text.at);
        node_add(a, both, over->keys[i], (struct node *)(uintptr_t)node_merge(a, below, over->items[i]));
    }
    for (size_t i = 0; i < under->n; i++)
        if (!node_get(over, under->keys[i]->text.at))
            node_add(a, both, under->keys[i], under->items[i]);
    return both;
}

static bool plain(struct span text) {
    for (size_t i = 0; i < text.n; i++)
        if (strchr("\"'\\#{}[],\n", text.at[i]) || (text.at[i] == ':' && (i + 1 == text.n || text.at[i + 1] == ' ')))
            return false;
    return text.n > 0;
}

static void print_scalar(const struct node *n, struct str *out) {
    if (!n->quoted && plain(n->text))
        str_put(out, n->text);
    else
        json_put_text(out, n->text);
}

void node_print(const struct node *n, struct str *out) {
    if (n->kind == NODE_NULL)
        str_puts(out, "null");
    if (n->kind == NODE_SCALAR)
        print_scalar(n, out);
    if (n->kind < NODE_LIST)
        return;
    str_putc(out, n->kind == NODE_LIST ? '[' : '{');
    for (size_t i = 0; i < n->n; i++) {
        if (i)
            str_puts(out, ", ");
        if (n->keys) {
            print_scalar(n->keys[i], out);
            str_puts(out, ": ");
        }
        node_print(n->items[i], out);
    }
    str_putc(out, n->kind == NODE_LIST ? ']' : '}');
}
