/* The reader: walks a section's rows and the tree's entries together. Every entry is a row's or a problem; every row
 * has its default, read by the same code as a written value; a section's own hook looks at it last. All problems of a
 * conf are found in one walk: nothing here stops at the first. */
#include "conf/directives.h"

#include <stdio.h>
#include <stdlib.h>

#define NAMES_MAX 64        /* rows of one section, for guesses */
#define OPAQUE_BYTES_MIN 24 /* a longer word under an unknown name may be a key */

struct later {
    struct later *next;
    void (*run)(struct reader *r, void *into, const struct node *n);
    void *into;
    const struct node *node;
};

void read_later(struct reader *r, void (*run)(struct reader *r, void *into, const struct node *n), void *into,
                const struct node *n) {
    struct later *l = tree_alloc(&r->conf->arena, sizeof *l), **at = &r->later;
    *l = (struct later){.next = *at, .run = run, .into = into, .node = n};
    *at = l;
}

void run_later(struct reader *r) {
    struct later *in_order = NULL;
    while (r->later) { /* it was pushed in front */
        struct later *l = r->later;
        r->later = l->next;
        l->next = in_order;
        in_order = l;
    }
    for (struct later *l = in_order; l; l = l->next)
        l->run(r, l->into, l->node);
}

void hide_secret(struct reader *r, struct span secret) {
    if (secret.n < 3)
        return;
    if (r->n_secrets == r->secrets_capacity) {
        r->secrets_capacity = r->secrets_capacity ? 2 * r->secrets_capacity : 16;
        r->secrets = xrealloc(r->secrets, r->secrets_capacity * sizeof *r->secrets);
    }
    r->secrets[r->n_secrets++] = (struct span){tree_strdup(&r->conf->arena, secret), secret.n};
}

/* Appends to the path and returns its old length, to cut it back. */
static size_t push_name(struct reader *r, const char *name) {
    size_t n = strlen(r->path);
    snprintf(r->path + n, sizeof r->path - n, "%s%s", n ? "." : "", name);
    return n;
}

static size_t push_index(struct reader *r, size_t i) {
    size_t n = strlen(r->path);
    snprintf(r->path + n, sizeof r->path - n, "[%zu]", i);
    return n;
}

static void *spare(struct reader *r, size_t size) {
    return tree_alloc(&r->conf->arena, size);
}

static void store_array(void *into, const struct directive *d, void *array, size_t n) {
    if (d->offset == NOWHERE)
        return;
    memcpy((char *)into + d->offset, &array, sizeof array);
    memcpy((char *)into + d->count_offset, &n, sizeof n);
}

static bool read_list(struct reader *r, const struct directive *d, const struct node *n, void *into) {
    if (n->kind != NODE_LIST) {
        problem_at(r->report, n, "%s must be a list, not %s", d->name, node_kind_name(n));
        return false;
    }
    char *array = spare(r, n->n * d->section->size);
    store_array(into, d, array, n->n);
    for (size_t i = 0; i < n->n; i++) {
        size_t cut = push_index(r, i);
        read_section(r, d->section, n->items[i], array + i * d->section->size);
        r->path[cut] = 0;
    }
    return true;
}

static bool entry_name_ok(struct reader *r, const struct section *s, const struct node *key) {
    if (s->name_check)
        return s->name_check(r, key);
    if (value_name_ok(key->text, false))
        return true;
    problem_at(r->report, key, "'%.*s' is no name for a %s: letters, digits, dots, dashes and underscores, up to 64",
               SPAN_ARG(key->text), s->name);
    return false;
}

static bool read_map(struct reader *r, const struct directive *d, const struct node *n, void *into) {
    if (n->kind != NODE_MAP) {
        problem_at(r->report, n, "%s must be a map of names, not %s", d->name, node_kind_name(n));
        return false;
    }
    char *array = spare(r, n->n * d->section->size);
    store_array(into, d, array, n->n);
    for (size_t i = 0; i < n->n; i++) {
        char *one = array + i * d->section->size;
        const char *name = tree_strdup(&r->conf->arena, n->keys[i]->text);
        memcpy(one, &name, sizeof name); /* every named struct begins with its name */
        entry_name_ok(r, d->section, n->keys[i]);
        size_t cut = push_name(r, name);
        read_section(r, d->section, n->items[i], one);
        r->path[cut] = 0;
    }
    return true;
}

bool read_value(struct reader *r, const struct directive *d, const struct node *n, void *into) {
    char scratch[64] = {0};
    if (d->type == TYPE_LIST)
        return read_list(r, d, n, into);
    if (d->type == TYPE_MAP)
        return read_map(r, d, n, into);
    if (d->type == TYPE_CUSTOM)
        return d->read(r, d, n, into);
    bool nowhere = d->offset == NOWHERE;
    if (d->type == TYPE_SECTION) {
        read_section(r, d->section, n, nowhere ? spare(r, d->section->size) : (char *)into + d->offset);
        return true;
    }
    void *at = nowhere ? scratch : (char *)into + d->offset;
    void *count_at = nowhere ? scratch + sizeof scratch / 2 : (char *)into + d->count_offset;
    return value_read(r, d, n, at, count_at);
}

/* Under a word that has no type here: does the value sound like somebody's key? */
static bool sounds_secret(const struct node *key, const struct node *item) {
    static const char *const words[] = {"key", "token", "secret", "pass", "auth", "credential"};
    for (size_t i = 0; i < ARRAY_LEN(words); i++)
        if (key && strcasestr(key->text.at, words[i]))
            return true;
    return item->text.n >= OPAQUE_BYTES_MIN || (strstr(item->text.at, "://") && strchr(item->text.at, '@'));
}

/* What is not read is not typed either, and its lines may be shown. */
static void hide_below(struct reader *r, const struct node *key, const struct node *item, bool all) {
    if (item->kind == NODE_SCALAR && (all || sounds_secret(key, item)))
        hide_secret(r, item->text);
    for (size_t i = 0; item->kind >= NODE_LIST && i < item->n; i++)
        hide_below(r, item->keys ? item->keys[i] : key, item->items[i], all);
}

static const struct directive *find_row(const struct section *s, struct span name) {
    for (size_t i = 0; i < s->n; i++)
        if (span_is(name, s->rows[i].name))
            return &s->rows[i];
    return NULL;
}

static void unknown(struct reader *r, const struct section *s, const struct node *key, const struct node *item) {
    const char *names[NAMES_MAX];
    size_t n = 0;
    for (; n < s->n && n < NAMES_MAX; n++)
        names[n] = s->rows[n].name;
    const char *guess = span_guess(key->text, names, n);
    hide_below(r, key, item, guess && find_row(s, span_of(guess))->type == TYPE_SECRET);
    const char *where = *r->path ? r->path : "the top level";
    const char *ours = foreign_word(key->text);
    if (ours)
        problem_at(r->report, key, "'%.*s' is another gateway's word; here: %s", SPAN_ARG(key->text), ours);
    else
        problem_at(r->report, key, "'%.*s' is not known in %s%s", SPAN_ARG(key->text), where,
                   guess_text(&r->report->arena, key->text, names, n));
}

static void read_entry(struct reader *r, const struct section *s, const struct node *key, const struct node *item,
                       void *into) {
    const struct directive *d = find_row(s, key->text);
    if (!d) {
        unknown(r, s, key, item);
        return;
    }
    if (d->flags & NOT_YET) {
        hide_below(r, key, item, false);
        problem_at(r->report, key, "'%s' is not supported yet", d->name);
        return;
    }
    if (item->kind == NODE_NULL) {
        problem_at(r->report, key, "'%s' has no value; leave it out for its default", d->name);
        return;
    }
    if (d->type == TYPE_SECRET && item->kind != NODE_SCALAR)
        hide_below(r, key, item, true);
    size_t cut = push_name(r, d->name);
    read_value(r, d, item, into);
    r->path[cut] = 0;
}

static void read_default(struct reader *r, const struct directive *d, void *into) {
    if (d->type == TYPE_SECTION && d->section->n && !(d->section->rows[0].flags & REQUIRED))
        read_section(r, d->section, NULL, d->offset == NOWHERE ? spare(r, d->section->size) : (char *)into + d->offset);
    if (!d->fallback)
        return;
    struct node n = {.kind = NODE_SCALAR, .text = span_of(d->fallback)};
    read_value(r, d, &n, into);
}

void read_section(struct reader *r, const struct section *s, const struct node *n, void *into) {
    if (n && s->shape)
        n = s->shape(r, n);
    if (n && n->kind != NODE_MAP) {
        problem_at(r->report, n, "%s must be a map, not %s", *r->path ? r->path : "the file", node_kind_name(n));
        n = NULL;
    }
    for (size_t i = 0; i < s->n; i++) {
        const struct directive *d = &s->rows[i];
        const struct node *written = node_get(n, d->name);
        if (!written || d->flags & NOT_YET || written->kind == NODE_NULL)
            read_default(r, d, into);
        if (n && !written && d->flags & REQUIRED)
            problem_at(r->report, n, "'%s' is missing in %s", d->name, r->path);
    }
    for (size_t i = 0; n && i < n->n; i++)
        read_entry(r, s, n->keys[i], n->items[i], into);
    if (s->done)
        s->done(r, n, into);
}
