/* Price files: an object of rows in the public model_prices_and_context_window.json layout, extended by `source`,
 * `effective_from` and `hidden_output`, and by this: instead of one row a model may have an array of rows with different dates.
 * The conf and `tollgate prices` read them with the same code. */
#include "conf/price_row.h"

#include <stdio.h>
#include <stdlib.h>

#define PRICE_FILE_BYTES_MAX (16 << 20) /* the public table is about 2 MB */
#define PRICE_ROWS_MAX 50000

static void fault(const struct price_see *see, int line, const char *why) {
    struct price_note n = {.kind = PRICE_BAD, .why = why, .line = line};
    see->note(see->user, &n);
}

static bool check(struct span bytes, const struct price_see *see, struct json *root) {
    struct json_fault at = {0};
    char why[160];
    int line = 1;
    if (!json_check(bytes, JSON_DEPTH_MAX, root, &at)) {
        for (size_t i = 0; i < at.at && i < bytes.n; i++)
            line += bytes.at[i] == '\n';
        snprintf(why, sizeof why, "byte %zu: not JSON: %s", at.at, at.what);
        fault(see, line, why);
        return false;
    }
    if (root->kind == JSON_OBJECT && json_count(*root) <= PRICE_ROWS_MAX)
        return true;
    snprintf(why, sizeof why, "expected an object of at most %d rows", PRICE_ROWS_MAX);
    fault(see, 1, why);
    return false;
}

static void take_one(struct price_reader *r, const struct price_see *see, const char *model, struct json row) {
    struct conf_price_row to;
    enum price_row_kind kind = price_row_read(r, model, row, &to);
    struct price_note none = {PRICE_BARE, model, "", "has no price that any call could use", to.line};
    if (kind == PRICE_ROW_GOOD)
        see->row(see->user, &to, row);
    else if (kind == PRICE_ROW_BARE)
        see->note(see->user, &none);
}

static void take_model(struct price_reader *r, const struct price_see *see, struct span name, struct json v) {
    struct span model = json_text((struct json){JSON_STRING, {name.at - 1, name.n + 2}}, r->arena);
    const char *kept = model.at ? arena_strdup(r->arena, model) : NULL;
    struct json_walk w;
    struct json row;
    if (!kept || strcmp(kept, "sample_spec") == 0)
        return;
    if (v.kind == JSON_OBJECT)
        take_one(r, see, kept, v);
    json_walk_init(&w, v.kind == JSON_ARRAY ? v : (struct json){0});
    while (json_walk_next(&w, NULL, &row))
        if (row.kind == JSON_OBJECT)
            take_one(r, see, kept, row);
}

bool conf_price_rows(struct span bytes, const char *path, int number, struct arena *a, const struct price_see *see) {
    struct price_reader r = {
        .arena = a, .bytes = bytes, .path = path, .number = number, .note = see->note, .user = see->user};
    struct json_walk w;
    struct span name;
    struct json root, v;
    if (!check(bytes, see, &root))
        return false;
    json_walk_init(&w, root);
    while (json_walk_next(&w, &name, &v))
        take_model(&r, see, name, v);
    return true;
}

struct span conf_price_bytes(const char *path, struct arena *a, const char **why) {
    return file_bytes(a, path, PRICE_FILE_BYTES_MAX, why);
}

/* --- into a conf --- */

struct price_file {
    struct reader *r;
    const struct node *at; /* the conf's line that names the file */
    const char *path;
    struct conf_price_row *rows; /* owned */
    size_t n, capacity;
    size_t inexact;
};

static void see_row(void *user, const struct conf_price_row *row, struct json raw) {
    struct price_file *f = user;
    (void)raw;
    if (f->n == f->capacity) {
        f->capacity = f->capacity ? 2 * f->capacity : 256;
        f->rows = xrealloc(f->rows, f->capacity * sizeof *f->rows);
    }
    f->rows[f->n++] = *row;
}

static void see_note(void *user, const struct price_note *n) {
    struct price_file *f = user;
    f->inexact += n->kind == PRICE_INEXACT;
    if (n->kind == PRICE_BAD && n->model)
        problem_at(f->r->report, f->at, "%s:%d: the row '%s': %s %s", f->path, n->line, n->model, n->field, n->why);
    else if (n->kind == PRICE_BAD)
        problem_at(f->r->report, f->at, "%s:%d: %s", f->path, n->line, n->why);
}

static void join(struct price_file *f) {
    struct conf *c = f->r->conf;
    struct conf_price_row *all = tree_alloc(&c->arena, (c->n_prices + f->n + 1) * sizeof *all);
    if (f->n)
        memcpy(all, f->rows, f->n * sizeof *all);
    if (c->n_prices)
        memcpy(all + f->n, c->prices, c->n_prices * sizeof *all);
    c->prices = all;
    c->n_prices += f->n;
}

static void take_file(struct reader *r, const struct node *at, int number) {
    struct conf *c = r->conf;
    struct price_file f = {.r = r, .at = at};
    const struct price_see see = {see_row, see_note, &f};
    const char *why = NULL;
    f.path = *at->text.at == '/' ? at->text.at : tree_printf(&c->arena, "%s/%s", r->folder, at->text.at);
    struct span bytes = conf_price_bytes(f.path, &c->arena, &why);
    if (!bytes.at) {
        problem_at(r->report, at, "the price file %s %s", f.path, why);
        return;
    }
    sha256_add(r->digest, bytes);
    if (conf_price_rows(bytes, f.path, number, &c->arena, &see))
        join(&f);
    free(f.rows);
    if (f.inexact)
        warning_at(r->report, at, "%s: %zu prices have digits past a pico-dollar; they are rounded", f.path, f.inexact);
}

bool read_price_files(struct reader *r, const struct directive *d, const struct node *n, void *into) {
    (void)into;
    if (n->kind == NODE_SCALAR) {
        take_file(r, n, 1);
        return true;
    }
    if (n->kind != NODE_LIST) {
        problem_at(r->report, n, "%s must be a list of files, not %s", d->name, node_kind_name(n));
        return false;
    }
    for (size_t i = 0; i < n->n; i++)
        if (value_is_scalar(r, n->items[i], "a file"))
            take_file(r, n->items[i], (int)i + 1);
    return true;
}
