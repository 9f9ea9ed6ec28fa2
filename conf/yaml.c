/* YAML into a tree, through libyaml's events. Bounded in depth, in aliases and in what aliases stand for; a duplicate
 * key, a merge key, a tag and a second document are errors. An alias names the very node of its anchor: nothing is
 * copied, and the weight that a reader would walk is counted before the alias is accepted. */
#include "conf/tree.h"

#include <yaml.h>

#define BYTE_ORDER_MARK "\xef\xbb\xbf"

struct loading {
    yaml_parser_t parser;
    yaml_event_t event;
    struct arena *arena;
    struct conf_report *report;
    const struct source *source;
    struct map anchors; /* name -> struct node *; absent while the node is open */
    size_t aliases, weight;
    bool failed; /* the file is given up: what follows would be noise */
};

static void fail(struct loading *l, const char *text) {
    problem_in(l->report, l->source, (int)l->event.start_mark.line + 1, (int)l->event.start_mark.column + 1, "%s",
               text);
    l->failed = true;
}

static void syntax_problem(struct loading *l) {
    const yaml_parser_t *p = &l->parser;
    int line = (int)p->problem_mark.line + 1, column = (int)p->problem_mark.column + 1;
    const char *what = p->problem ? p->problem : "the file cannot be read";
    if (p->error == YAML_READER_ERROR) {
        struct span before = {l->source->bytes.at, p->problem_offset};
        line = column = 1;
        for (size_t i = 0; i < before.n && i < l->source->bytes.n; i++) {
            column = before.at[i] == '\n' ? 1 : column + 1;
            line += before.at[i] == '\n';
        }
    }
    if (p->context && p->context_mark.line + 1 != (size_t)line)
        problem_in(l->report, l->source, line, column, "%s (%s on line %zu)", what, p->context,
                   p->context_mark.line + 1);
    else
        problem_in(l->report, l->source, line, column, "%s", what);
    l->failed = true;
}

/* The next event stands in l->event until the next call. */
static bool next(struct loading *l) {
    if (l->failed)
        return false;
    yaml_event_delete(&l->event);
    if (yaml_parser_parse(&l->parser, &l->event))
        return true;
    syntax_problem(l);
    return false;
}

static struct node *here(struct loading *l, enum node_kind kind) {
    const yaml_mark_t *m = &l->event.start_mark;
    if (++l->weight > CONF_NODES_MAX)
        fail(l, "the file holds too many values");
    return node_new(l->arena, l->source, kind, (int)m->line + 1, (int)m->column + 1);
}

static void remember(struct loading *l, const char *anchor, struct node *n) {
    if (anchor && map_put(&l->anchors, span_of(anchor), n)) {
        problem_at(l->report, n, "the anchor is set twice in this file");
        l->failed = true;
    }
}

static bool null_word(struct span text) {
    return !text.n || span_is(text, "~") || span_is(text, "null") || span_is(text, "Null") || span_is(text, "NULL");
}

static struct node *scalar(struct loading *l) {
    struct node *n = here(l, NODE_SCALAR);
    struct span text = {(const char *)l->event.data.scalar.value, l->event.data.scalar.length};
    n->text = (struct span){tree_strdup(l->arena, text), text.n};
    n->quoted = l->event.data.scalar.style != YAML_PLAIN_SCALAR_STYLE;
    if (memchr(text.at, 0, text.n))
        fail(l, "the text holds a NUL");
    if (l->event.data.scalar.tag)
        fail(l, "tags (!...) are not used here");
    if (!n->quoted && null_word(text))
        n->kind = NODE_NULL;
    remember(l, (const char *)l->event.data.scalar.anchor, n);
    return n;
}

static struct node *alias(struct loading *l, int depth) {
    struct node *n = map_find(&l->anchors, span_of((const char *)l->event.data.alias.anchor));
    if (!n) {
        fail(l, "the alias names no anchor that is complete above it");
        return NULL;
    }
    l->weight += n->weight;
    if (++l->aliases > CONF_ALIASES_MAX || l->weight > CONF_NODES_MAX)
        fail(l, "too many aliases");
    if (depth + n->height > CONF_DEPTH_MAX)
        fail(l, "nested too deeply");
    return n;
}

static struct node *value(struct loading *l, int depth);

static struct node *list(struct loading *l, int depth) {
    struct node *n = here(l, NODE_LIST);
    char *anchor = NULL;
    if (l->event.data.sequence_start.anchor)
        anchor = tree_strdup(l->arena, span_of((const char *)l->event.data.sequence_start.anchor));
    if (l->event.data.sequence_start.tag)
        fail(l, "tags (!...) are not used here");
    while (next(l) && l->event.type != YAML_SEQUENCE_END_EVENT) {
        struct node *item = value(l, depth + 1);
        if (item)
            node_add(l->arena, n, NULL, item);
    }
    remember(l, anchor, n);
    return n;
}

/* Reads a key; NULL: not to be used, its value is read and dropped. */
static struct node *key(struct loading *l, struct map *seen, int depth) {
    if (l->event.type != YAML_SCALAR_EVENT) {
        fail(l, "a key must be a plain word");
        return NULL;
    }
    struct node *k = value(l, depth);
    k->kind = NODE_SCALAR; /* a key spelt null is a name */
    if (span_is(k->text, "<<") && !k->quoted) {
        problem_at(l->report, k, "merge keys (<<) are not supported: tiers and team_defaults share values");
        return NULL;
    }
    const struct node *first = map_find(seen, k->text);
    if (first) {
        problem_at(l->report, k, "'%.*s' stands twice; first on line %d", SPAN_ARG(k->text), first->line);
        return NULL;
    }
    map_put(seen, k->text, k);
    return k;
}

static struct node *mapping(struct loading *l, int depth) {
    struct node *n = here(l, NODE_MAP);
    char *anchor = NULL;
    if (l->event.data.mapping_start.anchor)
        anchor = tree_strdup(l->arena, span_of((const char *)l->event.data.mapping_start.anchor));
    if (l->event.data.mapping_start.tag)
        fail(l, "tags (!...) are not used here");
    struct map seen;
    map_init(&seen);
    while (next(l) && l->event.type != YAML_MAPPING_END_EVENT) {
        struct node *k = key(l, &seen, depth + 1);
        struct node *item = next(l) ? value(l, depth + 1) : NULL;
        if (k && item)
            node_add(l->arena, n, k, item);
    }
    map_fini(&seen);
    remember(l, anchor, n);
    return n;
}

static struct node *value(struct loading *l, int depth) {
    if (depth > CONF_DEPTH_MAX) {
        fail(l, "nested too deeply");
        return NULL;
    }
    if (l->event.type == YAML_ALIAS_EVENT)
        return alias(l, depth);
    if (l->event.type == YAML_SCALAR_EVENT)
        return scalar(l);
    return l->event.type == YAML_SEQUENCE_START_EVENT ? list(l, depth) : mapping(l, depth);
}

static struct node *document(struct loading *l) {
    struct node *root = NULL;
    while (next(l) && l->event.type != YAML_STREAM_END_EVENT) {
        if (l->event.type == YAML_STREAM_START_EVENT || l->event.type == YAML_DOCUMENT_END_EVENT)
            continue;
        if (l->event.type != YAML_DOCUMENT_START_EVENT)
            root = value(l, 1);
        else if (root)
            fail(l, "a second document begins here; a conf file holds one");
    }
    return root ? root : node_new(l->arena, l->source, NODE_MAP, 1, 1);
}

struct node *yaml_tree(struct arena *a, struct conf_report *report, const struct source *source) {
    struct loading l = {.arena = a, .report = report, .source = source};
    if (!yaml_parser_initialize(&l.parser)) {
        problem_in(report, source, 0, 0, "out of memory");
        return NULL;
    }
    struct span text = source->bytes;
    if (span_starts(text, BYTE_ORDER_MARK)) /* as editors of Windows put it; libyaml takes it for text */
        text = span_from(text.at + strlen(BYTE_ORDER_MARK), text.n - strlen(BYTE_ORDER_MARK));
    yaml_parser_set_encoding(&l.parser, YAML_UTF8_ENCODING);
    yaml_parser_set_input_string(&l.parser, (const unsigned char *)text.at, text.n);
    map_init(&l.anchors);
    struct node *root = document(&l);
    map_fini(&l.anchors);
    yaml_event_delete(&l.event);
    yaml_parser_delete(&l.parser);
    return l.failed ? NULL : root;
}
