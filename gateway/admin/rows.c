/* Rows of several processes. Always true here: a row stands where its first process had it. */
#include "gateway/admin/rows.h"

#include "gateway/base/map.h"

#include <stdlib.h>

#define KEY_MAX 1024

struct row {
    struct row *next;
    struct json value; /* borrowed: the row that is printed, or whose names are */
    int64_t tries, failures, in_flight, settled;
    bool open, drained;
};

struct table {
    struct map by_key;
    struct row *first, *last;
};

static void each_row(const struct span *arrays, size_t n, void (*see)(struct json row, void *user), void *user) {
    for (size_t i = 0; i < n; i++) {
        struct json all, row;
        struct json_walk w;
        struct span name;
        if (!arrays[i].at || !json_check(arrays[i], JSON_DEPTH_MAX, &all, NULL))
            continue;
        json_walk_init(&w, all);
        while (json_walk_next(&w, &name, &row))
            see(row, user);
    }
}

static void table_fini(struct table *t) {
    for (struct row *r = t->first, *next; r; r = next) {
        next = r->next;
        free(r);
    }
    map_fini(&t->by_key);
}

/* The row with the same raw values of both members; a new one where there is none. */
static struct row *row_of(struct table *t, struct json value, const char *a, const char *b) {
    struct str key;
    str_init(&key, KEY_MAX);
    str_put(&key, json_get(value, a).raw);
    str_putc(&key, ' ');
    str_put(&key, json_get(value, b).raw);
    struct row *r = map_find(&t->by_key, str_span(&key));
    if (!r) {
        r = xcalloc(1, sizeof *r);
        r->value = value;
        r->settled = -1;
        *(t->last ? &t->last->next : &t->first) = r;
        t->last = r;
        map_put(&t->by_key, str_span(&key), r);
    }
    str_fini(&key);
    return r;
}

static int64_t number_of(struct json row, const char *name) {
    int64_t n = 0;
    return json_i64(json_get(row, name), &n) ? n : 0;
}

/* ---- requests ---- */

struct joining {
    struct str *out;
    bool first;
};

static void join_one(struct json row, void *user) {
    struct joining *j = user;
    str_puts(j->out, j->first ? "" : ",");
    str_put(j->out, row.raw);
    j->first = false;
}

void rows_join(const struct span *arrays, size_t n, struct str *out) {
    struct joining j = {out, true};
    str_puts(out, "[");
    each_row(arrays, n, join_one, &j);
    str_puts(out, "]");
}

/* ---- targets ---- */

static void add_lane(struct json row, void *user) {
    struct row *r = row_of(user, row, "target", "key");
    r->tries += number_of(row, "tries");
    r->failures += number_of(row, "failures");
    r->in_flight += number_of(row, "in_flight");
    r->open |= json_is(json_get(row, "state"), "open");
    r->drained |= json_get(row, "drained").kind == JSON_TRUE;
}

void rows_targets(const struct span *arrays, size_t n, struct str *out) {
    struct table t = {0};
    map_init(&t.by_key);
    each_row(arrays, n, add_lane, &t);
    str_puts(out, "[");
    for (const struct row *r = t.first; r; r = r->next) {
        str_puts(out, r == t.first ? "{" : ",{");
        json_put_raw(out, "target", json_get(r->value, "target").raw);
        json_put_raw(out, "key", json_get(r->value, "key").raw);
        json_put_raw(out, "state", r->open ? SPAN("\"open\"") : json_get(r->value, "state").raw);
        json_put_i64(out, "tries", r->tries);
        json_put_i64(out, "failures", r->failures);
        json_put_i64(out, "in_flight", r->in_flight);
        json_put_bool(out, "drained", r->drained);
        str_puts(out, "}");
    }
    str_puts(out, "]");
    table_fini(&t);
}

/* ---- budgets ---- */

/* What is settled never goes down within a period: more is later. */
static void keep_budget(struct json row, void *user) {
    struct row *r = row_of(user, row, "name", "period_from");
    int64_t settled = number_of(row, "settled_nanousd");
    if (settled > r->settled) {
        r->settled = settled;
        r->value = row;
    }
}

void rows_budgets(const struct span *arrays, size_t n, struct str *out) {
    struct table t = {0};
    map_init(&t.by_key);
    each_row(arrays, n, keep_budget, &t);
    str_puts(out, "[");
    for (const struct row *r = t.first; r; r = r->next) {
        str_puts(out, r == t.first ? "" : ",");
        str_put(out, r->value.raw);
    }
    str_puts(out, "]");
    table_fini(&t);
}
