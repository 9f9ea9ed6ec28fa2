/* What stands behind |. at[0] is what the filter works on. */
#include "backends/decode/jinja_run.h"

#include <math.h>

static struct jinja_value as_text(struct jinja_run *r, struct jinja_value v) {
    struct marked out;
    if (v.kind == JINJA_STRING)
        return v;
    marked_init(&out, JINJA_OUTPUT_BYTES_MAX);
    jinja_put_str(r, v, &out);
    return jinja_built(r, &out);
}

static struct jinja_value string(struct jinja_run *r, const struct jinja_args *a) {
    return as_text(r, a->at[0]);
}

static struct jinja_value trim(struct jinja_run *r, const struct jinja_args *a) {
    struct jinja_value v = as_text(r, a->at[0]), set = jinja_arg(a, 1, "chars");
    if (r->failed || !jinja_step(r, v.s.n))
        return JINJA_VOID;
    return jinja_text(
        jinja_strip(v.s, set.kind == JINJA_STRING ? jinja_span(set.s) : SPAN_NONE, STRIP_LEFT | STRIP_RIGHT));
}

static struct jinja_value recase(struct jinja_run *r, const struct jinja_args *a, enum jinja_case how) {
    struct jinja_value v = as_text(r, a->at[0]);
    return r->failed ? JINJA_VOID : jinja_recase(r, v.s, how);
}
#define X(name, how)                                                                                                   \
    static struct jinja_value name(struct jinja_run *r, const struct jinja_args *a) {                                  \
        return recase(r, a, how);                                                                                      \
    }
JINJA_CASES(X)
#undef X

static struct jinja_value replace(struct jinja_run *r, const struct jinja_args *a) {
    struct jinja_value v = as_text(r, a->at[0]), from = jinja_arg(a, 1, "old"), to = jinja_arg(a, 2, "new");
    struct jinja_value most = jinja_arg(a, 3, "count");
    if (from.kind != JINJA_STRING || to.kind != JINJA_STRING)
        return jinja_fail(r, "replace needs two strings"), JINJA_VOID;
    return r->failed ? JINJA_VOID
                     : jinja_replace(r, v.s, jinja_span(from.s), to.s, most.kind == JINJA_INT ? most.i : -1);
}

static struct jinja_value tojson(struct jinja_run *r, const struct jinja_args *a) {
    struct jinja_value indent = jinja_arg(a, 2, "indent");
    struct marked out;
    marked_init(&out, JINJA_OUTPUT_BYTES_MAX);
    for (size_t i = 1; i < a->n; i++)
        if (a->names[i].n && !span_is(a->names[i], "indent") && !span_is(a->names[i], "ensure_ascii"))
            jinja_fail(r, "tojson(%.*s) is not supported", SPAN_ARG(a->names[i]));
    if (jinja_truth(jinja_arg(a, 1, "ensure_ascii")))
        jinja_fail(r, "tojson(ensure_ascii=true) is not supported");
    if (indent.kind == JINJA_INT && (indent.i < 0 || indent.i > 16))
        jinja_fail(r, "tojson(indent=%lld) is not supported", (long long)indent.i);
    if (!r->failed)
        jinja_put_json(r, a->at[0], indent.kind == JINJA_INT ? indent.i : -1, &out);
    return jinja_built(r, &out);
}

static struct jinja_value length(struct jinja_run *r, const struct jinja_args *a) {
    size_t n = jinja_length(a->at[0]);
    if (n == (size_t)-1 && a->at[0].kind != JINJA_UNDEFINED)
        jinja_fail(r, "%s has no length", jinja_kind_name(a->at[0].kind));
    return jinja_int(a->at[0].kind == JINJA_UNDEFINED ? 0 : (int64_t)n);
}

static struct jinja_value otherwise(struct jinja_run *r, const struct jinja_args *a) {
    struct jinja_value v = jinja_arg(a, 1, "default_value"), false_too = jinja_arg(a, 2, "boolean");
    (void)r;
    if (a->at[0].kind == JINJA_UNDEFINED || (jinja_truth(false_too) && !jinja_truth(a->at[0])))
        return v.kind == JINJA_UNDEFINED ? jinja_word("") : v;
    return a->at[0];
}

static struct jinja_value itself(struct jinja_run *r, const struct jinja_args *a) {
    (void)r;
    return a->at[0];
}

/* --- lists --- */

static struct jinja_value list(struct jinja_run *r, const struct jinja_args *a) {
    struct jinja_value all = jinja_iterated(r, a->at[0]), out = jinja_list_new(r);
    for (size_t i = 0; !r->failed && i < all.list->n; i++)
        jinja_list_put(r, out, all.list->at[i]);
    return out;
}

static struct jinja_value at_end(struct jinja_run *r, const struct jinja_args *a, bool last) {
    struct jinja_value all = jinja_iterated(r, a->at[0]);
    if (r->failed || all.list->n == 0)
        return JINJA_VOID;
    return all.list->at[last ? all.list->n - 1 : 0];
}
static struct jinja_value first(struct jinja_run *r, const struct jinja_args *a) {
    return at_end(r, a, false);
}
static struct jinja_value last(struct jinja_run *r, const struct jinja_args *a) {
    return at_end(r, a, true);
}

static struct jinja_value reverse(struct jinja_run *r, const struct jinja_args *a) {
    struct jinja_value all = jinja_iterated(r, a->at[0]), out = jinja_list_new(r);
    if (a->at[0].kind == JINJA_STRING)
        return jinja_fail(r, "reverse of a string is not supported"), JINJA_VOID;
    for (size_t i = r->failed ? 0 : all.list->n; i-- > 0;)
        jinja_list_put(r, out, all.list->at[i]);
    return out;
}

static struct jinja_value join(struct jinja_run *r, const struct jinja_args *a) {
    struct jinja_value all = jinja_iterated(r, a->at[0]), by = jinja_arg(a, 1, "d"), key = jinja_arg(a, 2, "attribute");
    struct marked out;
    marked_init(&out, JINJA_OUTPUT_BYTES_MAX);
    for (size_t i = 0; !r->failed && i < all.list->n; i++) {
        if (i && by.kind == JINJA_STRING)
            jinja_emit(&out, by.s);
        struct jinja_value one = all.list->at[i];
        jinja_put_str(r, key.kind == JINJA_STRING ? jinja_member(r, one, key) : one, &out);
    }
    return jinja_built(r, &out);
}

static struct jinja_value items(struct jinja_run *r, const struct jinja_args *a) {
    if (a->at[0].kind == JINJA_UNDEFINED)
        return jinja_list_new(r);
    return jinja_items(r, a->at[0], true, true);
}

/* Insertion by key, then by nothing: equal keys keep their order. */
static struct jinja_value dictsort(struct jinja_run *r, const struct jinja_args *a) {
    struct jinja_value all = items(r, a);
    for (size_t i = 1; !r->failed && i < all.list->n; i++)
        for (size_t k = i; k > 0 && jinja_step(r, 0); k--) {
            struct jinja_value *low = &all.list->at[k - 1], *high = &all.list->at[k], swap = *low;
            struct span x = jinja_span(low->list->at[0].s), y = jinja_span(high->list->at[0].s);
            int c = memcmp(x.at, y.at, x.n < y.n ? x.n : y.n);
            if (c < 0 || (c == 0 && x.n <= y.n))
                break;
            *low = *high;
            *high = swap;
        }
    return all;
}

static struct jinja_value unique(struct jinja_run *r, const struct jinja_args *a) {
    struct jinja_value all = jinja_iterated(r, a->at[0]), out = jinja_list_new(r);
    for (size_t i = 0; !r->failed && i < all.list->n; i++) {
        bool seen = false;
        for (size_t k = 0; !seen && k < out.list->n && jinja_step(r, 0); k++)
            seen = jinja_equal(r, out.list->at[k], all.list->at[i], 0);
        if (!seen)
            jinja_list_put(r, out, all.list->at[i]);
    }
    return out;
}

/* A dotted path of members. */
static struct jinja_value attribute(struct jinja_run *r, struct jinja_value of, struct jinja_text path) {
    struct span rest = jinja_span(path), part;
    int64_t index;
    while (span_cut(&rest, '.', &part)) {
        struct jinja_value key = jinja_text((struct jinja_text){part.at, part.n, NULL, false});
        of = jinja_member(r, of, span_to_i64(part, &index) ? jinja_int(index) : key);
    }
    return of;
}

/* The arguments from `from` on, behind a value of its own. */
static struct jinja_args shifted(struct jinja_value v, const struct jinja_args *a, size_t from) {
    struct jinja_args out = {.at = {v}, .n = 1};
    for (size_t i = from; i < a->n && out.n < JINJA_ARGS_MAX; i++, out.n++) {
        out.at[out.n] = a->at[i];
        out.names[out.n] = a->names[i];
    }
    return out;
}

static struct jinja_value map(struct jinja_run *r, const struct jinja_args *a) {
    struct jinja_value all = jinja_iterated(r, a->at[0]), out = jinja_list_new(r), name = jinja_arg(a, 1, "");
    struct jinja_value path = jinja_arg(a, JINJA_ARGS_MAX, "attribute"), none = jinja_arg(a, JINJA_ARGS_MAX, "default");
    const struct jinja_known *filter = name.kind == JINJA_STRING ? jinja_filter_find(jinja_span(name.s)) : NULL;
    if (path.kind != JINJA_STRING && !filter)
        return jinja_fail(r, "map needs a filter or attribute=..."), JINJA_VOID;
    for (size_t i = 0; !r->failed && i < all.list->n && jinja_step(r, 0); i++) {
        struct jinja_args inner = shifted(all.list->at[i], a, 2);
        struct jinja_value v =
            path.kind == JINJA_STRING ? attribute(r, all.list->at[i], path.s) : filter->run(r, &inner);
        jinja_list_put(r, out, v.kind == JINJA_UNDEFINED ? none : v);
    }
    return out;
}

/* at: where the name of the test is; attribute: whether a member stands before it. */
static struct jinja_value pick(struct jinja_run *r, const struct jinja_args *a, bool by_member, bool keep) {
    struct jinja_value all = jinja_iterated(r, a->at[0]), out = jinja_list_new(r);
    struct jinja_value path = by_member ? jinja_arg(a, 1, "attr") : JINJA_VOID,
                       name = jinja_arg(a, by_member ? 2 : 1, "");
    const struct jinja_known *test = name.kind == JINJA_STRING ? jinja_test_find(jinja_span(name.s)) : NULL;
    if ((by_member && path.kind != JINJA_STRING) || (name.kind != JINJA_UNDEFINED && !test))
        return jinja_fail(r, "select needs the name of a test"), JINJA_VOID;
    for (size_t i = 0; !r->failed && i < all.list->n && jinja_step(r, 0); i++) {
        struct jinja_value one = all.list->at[i], v = by_member ? attribute(r, one, path.s) : one;
        struct jinja_args inner = shifted(v, a, by_member ? 3 : 2);
        if (jinja_truth(test ? test->run(r, &inner) : v) == keep)
            jinja_list_put(r, out, one);
    }
    return out;
}
static struct jinja_value selectattr(struct jinja_run *r, const struct jinja_args *a) {
    return pick(r, a, true, true);
}
static struct jinja_value rejectattr(struct jinja_run *r, const struct jinja_args *a) {
    return pick(r, a, true, false);
}
static struct jinja_value select(struct jinja_run *r, const struct jinja_args *a) {
    return pick(r, a, false, true);
}
static struct jinja_value reject(struct jinja_run *r, const struct jinja_args *a) {
    return pick(r, a, false, false);
}

/* --- numbers, indents --- */

static struct jinja_value integer(struct jinja_run *r, const struct jinja_args *a) {
    struct jinja_value v = a->at[0];
    double d = 0;
    int64_t i = 0;
    (void)r;
    if (v.kind == JINJA_STRING) {
        struct span t = span_trim(jinja_span(v.s));
        bool minus = span_starts(t, "-");
        return jinja_int(span_to_i64(span_from(t.at + minus, t.n - minus), &i) ? (minus ? -i : i) : 0);
    }
    if (v.kind == JINJA_INT)
        return v;
    jinja_number(v, &d);
    return jinja_int(fabs(d) < 9e18 ? (int64_t)d : 0);
}

static struct jinja_value real(struct jinja_run *r, const struct jinja_args *a) {
    struct jinja_value v = a->at[0], out = {.kind = JINJA_REAL};
    struct json number;
    struct json_fault fault;
    (void)r;
    if (v.kind != JINJA_STRING)
        jinja_number(v, &out.d);
    else if (!json_check(jinja_span(v.s), 1, &number, &fault) || !json_f64(number, &out.d))
        out.d = 0;
    return out;
}

static struct jinja_value absolute(struct jinja_run *r, const struct jinja_args *a) {
    struct jinja_value v = a->at[0];
    if (v.kind == JINJA_INT && v.i > INT64_MIN)
        v.i = v.i < 0 ? -v.i : v.i;
    else if (v.kind == JINJA_REAL)
        v.d = fabs(v.d);
    else
        jinja_fail(r, "abs of %s", jinja_kind_name(v.kind));
    return v;
}

static struct jinja_value indent(struct jinja_run *r, const struct jinja_args *a) {
    struct jinja_value v = as_text(r, a->at[0]), width = jinja_arg(a, 1, "width");
    bool whole = jinja_truth(jinja_arg(a, 2, "first")), blank = jinja_truth(jinja_arg(a, 3, "blank"));
    int64_t n = width.kind == JINJA_INT ? width.i : 4;
    struct marked out;
    if (r->failed || n < 0 || n > 64)
        return jinja_fail(r, "an indent of %lld", (long long)n), JINJA_VOID;
    marked_init(&out, JINJA_OUTPUT_BYTES_MAX);
    struct jinja_text t = v.s;
    for (bool start = true; t.n && jinja_step(r, 0); start = false) {
        const char *end = memchr(t.at, '\n', t.n);
        size_t line = end ? (size_t)(end - t.at) : t.n;
        for (int64_t i = 0; i < n && (start ? whole : line || blank); i++)
            marked_put(&out, SPAN(" "), false);
        line += end ? 1 : 0;
        jinja_emit(&out, jinja_slice(t, 0, line));
        t = jinja_slice(t, line, t.n - line);
    }
    return jinja_built(r, &out);
}

static const struct jinja_known filters[] = {
    {"trim", trim},
    {"string", string},
#define X(name, how) {#name, name},
    JINJA_CASES(X)
#undef X
        {"replace", replace},
    {"tojson", tojson},
    {"length", length},
    {"count", length},
    {"default", otherwise},
    {"d", otherwise},
    {"safe", itself},
    {"list", list},
    {"first", first},
    {"last", last},
    {"reverse", reverse},
    {"join", join},
    {"items", items},
    {"dictsort", dictsort},
    {"unique", unique},
    {"map", map},
    {"selectattr", selectattr},
    {"rejectattr", rejectattr},
    {"select", select},
    {"reject", reject},
    {"int", integer},
    {"float", real},
    {"abs", absolute},
    {"indent", indent},
};

const struct jinja_known *jinja_filter_find(struct span name) {
    for (size_t i = 0; i < ARRAY_LEN(filters); i++)
        if (span_is(name, filters[i].name))
            return &filters[i];
    return NULL;
}
