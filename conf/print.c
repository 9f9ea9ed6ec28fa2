/* The effective conf as text: every directive that is obeyed, its value and where it was said; and what differs
 * between two confs that only a restart can change. Both walk the table beside the tree. A secret is shown as it is
 * written when that is a ${...}, and hidden when it is not. */
#include "conf/directives.h"

#include <stdio.h>
#include <stdlib.h>

#define PATH_MAX_BYTES 512

struct printing {
    struct reader r; /* for the shapes: a conf of its own, so that nothing touches the one that is printed */
    struct str *out;
    char path[PATH_MAX_BYTES];
};

static void print_section(struct printing *p, const struct section *s, const struct node *n);

static size_t go(struct printing *p, const char *name, size_t index) {
    size_t n = strlen(p->path);
    if (name)
        snprintf(p->path + n, sizeof p->path - n, "%s%s", n ? "." : "", name);
    else
        snprintf(p->path + n, sizeof p->path - n, "[%zu]", index);
    return n;
}

/* Of a url with a user and a password in it, all but these. */
static void print_secret(const struct directive *d, const struct node *n, struct str *out) {
    const char *at = memrchr(n->text.at, '@', n->text.n), *host = strstr(n->text.at, "://");
    if (!(d->flags & URL_USER))
        str_puts(out, "(hidden)");
    else if (!at)
        node_print(n, out);
    else
        str_printf(out, "%.*s(hidden)%s", host ? (int)(host + 3 - n->text.at) : 0, n->text.at, at);
}

static void print_value(struct printing *p, const struct directive *d, const struct node *n) {
    if (!n && !d->fallback)
        return;
    str_printf(p->out, "%s: ", p->path);
    bool open_secret = n && n->kind == NODE_SCALAR && span_starts(n->text, "${");
    if (!n)
        str_puts(p->out, d->fallback);
    else if (d->type == TYPE_SECRET && !open_secret)
        print_secret(d, n, p->out);
    else
        node_print(n, p->out);
    if (n && n->source)
        str_printf(p->out, "  # %s:%d\n", n->source->file, n->line);
    else
        str_puts(p->out, "  # default\n");
}

static void print_items(struct printing *p, const struct section *s, const struct node *n) {
    if (!n || n->kind < NODE_LIST)
        return;
    for (size_t i = 0; i < n->n; i++) {
        size_t cut = go(p, n->kind == NODE_MAP ? n->keys[i]->text.at : NULL, i);
        print_section(p, s, n->items[i]);
        p->path[cut] = 0;
    }
}

static void print_row(struct printing *p, const struct directive *d, const struct node *n) {
    if (d->type == TYPE_LIST || d->type == TYPE_MAP)
        print_items(p, d->section, n);
    else if (d->type != TYPE_SECTION)
        print_value(p, d, n);
    else if (n || !(d->section->rows[0].flags & REQUIRED))
        print_section(p, d->section, n);
}

static void print_section(struct printing *p, const struct section *s, const struct node *n) {
    if (n && s->shape)
        n = s->shape(&p->r, n);
    for (size_t i = 0; i < s->n; i++) {
        const struct directive *d = &s->rows[i];
        if (d->flags & NOT_YET)
            continue;
        size_t cut = go(p, d->name, 0);
        print_row(p, d, node_get(n, d->name));
        p->path[cut] = 0;
    }
}

static int by_id(const void *a, const void *b) {
    return strcmp((*(const struct conf_key *const *)a)->id, (*(const struct conf_key *const *)b)->id);
}

/* What state adds and takes away. */
static void print_overlay(const struct conf *c, struct str *out) {
    const struct conf_key **keys = xcalloc(c->keys_by_id.n + 1, sizeof *keys);
    size_t n = 0;
    for (struct map_entry *e = map_next(&c->keys_by_id, NULL); e; e = map_next(&c->keys_by_id, e))
        keys[n++] = e->value;
    qsort(keys, n, sizeof *keys, by_id);
    for (size_t i = 0; i < n; i++) {
        const struct conf_key *k = keys[i];
        if (k->runtime)
            str_printf(out, "teams.%s.keys.%s: %s%s  # %s\n", k->team->name, k->id, k->name,
                       k->revoked ? " (revoked)" : "", k->from);
        else if (k->revoked)
            str_printf(out, "teams.%s.keys.%s: %s (revoked)  # state\n", k->team->name, k->id, k->name);
    }
    free(keys);
}

void conf_print_effective(const struct conf *c, struct str *out) {
    struct conf scratch = {0};
    struct conf_report report;
    arena_init(&scratch.arena, CONF_ARENA_BYTES);
    conf_report_init(&report);
    struct printing *p = xcalloc(1, sizeof *p);
    p->out = out;
    p->r = (struct reader){.conf = &scratch, .report = &report, .root = c->tree->root};
    print_section(p, &root_section, c->tree->root);
    print_overlay(c, out);
    free(p);
    conf_report_fini(&report);
    arena_fini(&scratch.arena);
}

/* --- what needs a restart --- */

static bool same(const struct directive *d, const struct node *a, const struct node *b) {
    struct str x, y;
    str_init(&x, 2 * CONF_FILE_BYTES_MAX);
    str_init(&y, 2 * CONF_FILE_BYTES_MAX);
    const char *otherwise = d->fallback ? d->fallback : "(default)";
    if (a)
        node_print(a, &x);
    else
        str_puts(&x, otherwise);
    if (b)
        node_print(b, &y);
    else
        str_puts(&y, otherwise);
    bool equal = span_equal(str_span(&x), str_span(&y));
    str_fini(&x);
    str_fini(&y);
    return equal;
}

static void compare(const char *path, const struct section *s, const struct node *a, const struct node *b,
                    struct str *out);

static void compare_named(const char *path, const struct section *s, const struct node *a, const struct node *b,
                          struct str *out) {
    char below[PATH_MAX_BYTES];
    if (!a || !b || a->kind != NODE_MAP || b->kind != NODE_MAP)
        return;
    for (size_t i = 0; i < b->n; i++) {
        const struct node *was = node_get(a, b->keys[i]->text.at);
        int n = snprintf(below, sizeof below, "%s.%s", path, b->keys[i]->text.at);
        if (was && n > 0)
            compare(below, s, was, b->items[i], out);
    }
}

static void compare_row(const char *path, const struct directive *d, const struct node *a, const struct node *b,
                        struct str *out) {
    if (d->type == TYPE_SECTION)
        compare(path, d->section, a, b, out);
    else if (d->type == TYPE_MAP)
        compare_named(path, d->section, a, b, out);
    else if ((d->flags & RESTART) && !same(d, a, b)) {
        const struct node *at = b ? b : a;
        str_printf(out, "%s has changed and needs a restart", path);
        if (at->source)
            str_printf(out, " (%s:%d)", at->source->file, at->line);
        str_putc(out, '\n');
    }
}

static void compare(const char *path, const struct section *s, const struct node *a, const struct node *b,
                    struct str *out) {
    char below[PATH_MAX_BYTES];
    for (size_t i = 0; i < s->n; i++) {
        int n = snprintf(below, sizeof below, "%s%s%s", path, *path ? "." : "", s->rows[i].name);
        if (n > 0) /* a path too long for the sentence is cut, which harms nobody */
            compare_row(below, &s->rows[i], node_get(a, s->rows[i].name), node_get(b, s->rows[i].name), out);
    }
}

static void compare_engines(const struct conf *a, const struct conf *b, const char *what, struct str *out) {
    for (size_t i = 0; i < b->n_backends; i++) {
        const struct conf_backend *now = &b->backends[i], *then = conf_find_backend(a, span_of(now->name));
        if (now->protocol == PROTOCOL_DECODE && (!then || then->protocol != PROTOCOL_DECODE))
            str_printf(out, "the embedded backend '%s' %s: that needs a restart\n", now->name, what);
    }
}

void conf_restart_needed(const struct conf *running, const struct conf *next, struct str *out) {
    compare("", &root_section, running->tree->root, next->tree->root, out);
    compare_engines(running, next, "is new", out);
    compare_engines(next, running, "is gone", out);
}
