/* Making, comparing and writing values. Marks travel with the bytes: a slice shares them, a builder collects them. */
#include "backends/decode/jinja_run.h"
#include "backends/decode/unicode.h"

#include <math.h>
#include <stdio.h>

/* --- marked text --- */

void marked_init(struct marked *m, size_t max) {
    str_init(&m->text, max);
    str_init(&m->user, max);
}

void marked_fini(struct marked *m) {
    str_fini(&m->text);
    str_fini(&m->user);
}

void marked_clear(struct marked *m) {
    str_clear(&m->text);
    str_clear(&m->user);
}

static bool put_marks(struct marked *m, size_t n, bool user) {
    if (!str_reserve(&m->user, n) || !str_reserve(&m->text, n)) {
        m->text.over = true;
        return false;
    }
    memset(m->user.at + m->user.n, user, n);
    m->user.n += n;
    return true;
}

void marked_put(struct marked *m, struct span text, bool user) {
    if (text.n && put_marks(m, text.n, user))
        str_put(&m->text, text);
}

void jinja_emit(struct marked *out, struct jinja_text t) {
    if (!t.n || !put_marks(out, t.n, t.user))
        return;
    if (t.marks)
        memcpy(out->user.at + out->user.n - t.n, t.marks, t.n);
    str_put(&out->text, span_from(t.at, t.n));
}

struct jinja_value jinja_built(struct jinja_run *r, struct marked *m) {
    size_t n = m->text.n;
    char *at = m->text.over ? NULL : jinja_alloc(r, n * 2 + 1);
    if (m->text.over)
        jinja_fail(r, "a text has over %d bytes", JINJA_OUTPUT_BYTES_MAX);
    if (at && n) {
        memcpy(at, m->text.at, n);
        memcpy(at + n, m->user.at, n);
    }
    marked_fini(m);
    return at ? jinja_text((struct jinja_text){at, n, (const uint8_t *)at + n, false}) : JINJA_VOID;
}

struct jinja_text jinja_slice(struct jinja_text t, size_t from, size_t n) {
    return (struct jinja_text){t.at + from, n, t.marks ? t.marks + from : NULL, t.user};
}

struct span jinja_span(struct jinja_text t) {
    return span_from(t.at, t.n);
}

/* --- making --- */

struct jinja_value jinja_bool(bool yes) {
    return (struct jinja_value){.kind = JINJA_BOOL, .yes = yes};
}

struct jinja_value jinja_int(int64_t i) {
    return (struct jinja_value){.kind = JINJA_INT, .i = i};
}

struct jinja_value jinja_text(struct jinja_text t) {
    return (struct jinja_value){.kind = JINJA_STRING, .s = t};
}

struct jinja_value jinja_word(const char *literal) {
    return jinja_text((struct jinja_text){literal, strlen(literal), NULL, false});
}

struct jinja_value jinja_list_new(struct jinja_run *r) {
    struct jinja_list *list = jinja_alloc(r, sizeof *list);
    return list ? (struct jinja_value){.kind = JINJA_LIST, .list = list} : JINJA_VOID;
}

struct jinja_value jinja_map_new(struct jinja_run *r) {
    struct jinja_map *map = jinja_alloc(r, sizeof *map);
    return map ? (struct jinja_value){.kind = JINJA_MAP, .map = map} : JINJA_VOID;
}

/* Room for one more of `size` bytes; the old place stays in the arena. */
static bool grow(struct jinja_run *r, void **at, size_t n, size_t *capacity, size_t size) {
    if (n < *capacity)
        return true;
    size_t more = *capacity ? *capacity * 2 : 8;
    void *to = jinja_alloc(r, more * size);
    if (!to)
        return false;
    if (n)
        memcpy(to, *at, n * size);
    *at = to;
    *capacity = more;
    return true;
}

void jinja_list_put(struct jinja_run *r, struct jinja_value v, struct jinja_value one) {
    void *at = v.kind == JINJA_LIST ? v.list->at : NULL;
    if (v.kind != JINJA_LIST || !grow(r, &at, v.list->n, &v.list->capacity, sizeof one))
        return;
    v.list->at = at;
    v.list->at[v.list->n++] = one;
}

void jinja_map_put(struct jinja_run *r, struct jinja_value v, struct jinja_text key, struct jinja_value one) {
    void *at = v.kind == JINJA_MAP ? v.map->at : NULL;
    if (v.kind != JINJA_MAP)
        return;
    for (size_t i = 0; i < v.map->n; i++)
        if (span_equal(jinja_span(v.map->at[i].key), jinja_span(key))) {
            v.map->at[i].value = one;
            return;
        }
    if (!jinja_step(r, v.map->n) || !grow(r, &at, v.map->n, &v.map->capacity, sizeof *v.map->at))
        return;
    v.map->at = at;
    v.map->at[v.map->n++] = (struct jinja_pair){key, one};
}

struct jinja_value jinja_map_get(struct jinja_value v, struct span key) {
    for (size_t i = 0; v.kind == JINJA_MAP && i < v.map->n; i++)
        if (span_equal(jinja_span(v.map->at[i].key), key))
            return v.map->at[i].value;
    return JINJA_VOID;
}

/* --- asking --- */

const char *jinja_kind_name(enum jinja_kind k) {
    static const char *const names[] = {"undefined", "none",   "a boolean", "an integer", "a number",
                                        "a string",  "a list", "a mapping", "a function"};
    return names[k];
}

bool jinja_truth(struct jinja_value v) {
    switch (v.kind) {
    case JINJA_BOOL:
        return v.yes;
    case JINJA_INT:
        return v.i != 0;
    case JINJA_REAL:
        return v.d < 0 || v.d > 0;
    case JINJA_STRING:
        return v.s.n > 0;
    case JINJA_LIST:
        return v.list->n > 0;
    case JINJA_MAP:
        return v.map->n > 0;
    case JINJA_CALLABLE:
        return true;
    case JINJA_UNDEFINED:
    case JINJA_NONE:
        break;
    }
    return false;
}

bool jinja_number(struct jinja_value v, double *out) {
    *out = v.kind == JINJA_INT ? (double)v.i : v.kind == JINJA_REAL ? v.d : v.kind == JINJA_BOOL ? v.yes : 0;
    return v.kind == JINJA_INT || v.kind == JINJA_REAL || v.kind == JINJA_BOOL;
}

static bool lists_equal(struct jinja_run *r, const struct jinja_list *a, const struct jinja_list *b, int depth) {
    for (size_t i = 0; i < a->n && a->n == b->n; i++)
        if (!jinja_equal(r, a->at[i], b->at[i], depth + 1))
            return false;
    return a->n == b->n;
}

static bool maps_equal(struct jinja_run *r, struct jinja_value a, struct jinja_value b, int depth) {
    for (size_t i = 0; i < a.map->n && a.map->n == b.map->n; i++)
        if (!jinja_equal(r, a.map->at[i].value, jinja_map_get(b, jinja_span(a.map->at[i].key)), depth + 1))
            return false;
    return a.map->n == b.map->n;
}

bool jinja_equal(struct jinja_run *r, struct jinja_value a, struct jinja_value b, int depth) {
    double x, y;
    if (jinja_number(a, &x) && jinja_number(b, &y))
        return a.kind == JINJA_INT && b.kind == JINJA_INT ? a.i == b.i : !(x < y) && !(x > y);
    if (a.kind != b.kind || depth > JINJA_DEPTH_MAX || !jinja_step(r, 0))
        return false;
    if (a.kind == JINJA_STRING)
        return span_equal(jinja_span(a.s), jinja_span(b.s));
    if (a.kind == JINJA_LIST)
        return lists_equal(r, a.list, b.list, depth);
    if (a.kind == JINJA_MAP)
        return maps_equal(r, a, b, depth);
    return a.kind != JINJA_CALLABLE;
}

size_t jinja_length(struct jinja_value v) {
    size_t n = 0;
    uint32_t c;
    if (v.kind == JINJA_LIST)
        return v.list->n;
    if (v.kind == JINJA_MAP)
        return v.map->n;
    if (v.kind != JINJA_STRING)
        return (size_t)-1;
    for (size_t i = 0; i < v.s.n; n++)
        i += utf8_next(v.s.at + i, v.s.n - i, &c);
    return n;
}

/* --- JSON in and out --- */

static struct jinja_value from_number(struct jinja_run *r, struct json v) {
    struct jinja_value out = {.kind = JINJA_REAL};
    bool whole = true;
    for (size_t i = 0; i < v.raw.n; i++)
        whole = whole && !strchr(".eE", v.raw.at[i]);
    if (whole && json_i64(v, &out.i))
        out.kind = JINJA_INT;
    else if (!json_f64(v, &out.d))
        jinja_fail(r, "the number %.*s is too large", (int)(v.raw.n < 40 ? v.raw.n : 40), v.raw.at);
    return out;
}

static struct jinja_value from_string(struct jinja_run *r, struct json v, bool user) {
    struct span t = json_text(v, &r->arena);
    if (!t.at)
        jinja_fail(r, "the rendering takes over %d bytes of memory", JINJA_MEMORY_BYTES_MAX);
    return jinja_text((struct jinja_text){t.at, t.n, NULL, user});
}

struct jinja_value jinja_from_json(struct jinja_run *r, struct json v, bool user) {
    struct json_walk w;
    struct span name;
    struct json one;
    if (v.kind == JSON_STRING)
        return from_string(r, v, user);
    if (v.kind == JSON_NUMBER)
        return from_number(r, v);
    if (v.kind == JSON_TRUE || v.kind == JSON_FALSE)
        return jinja_bool(v.kind == JSON_TRUE);
    if (v.kind != JSON_ARRAY && v.kind != JSON_OBJECT)
        return (struct jinja_value){.kind = v.kind == JSON_NULL ? JINJA_NONE : JINJA_UNDEFINED};
    struct jinja_value out = v.kind == JSON_ARRAY ? jinja_list_new(r) : jinja_map_new(r);
    for (json_walk_init(&w, v); !r->failed && json_walk_next(&w, &name, &one);) {
        struct jinja_value item = jinja_from_json(r, one, user);
        if (v.kind == JSON_ARRAY) {
            jinja_list_put(r, out, item);
            continue;
        }
        struct json quoted = {JSON_STRING, span_from(name.at - 1, name.n + 2)};
        jinja_map_put(r, out, from_string(r, quoted, user).s, item);
    }
    return out;
}

/* The shortest digits that give the same number back, and always a sign that it is not whole. */
static void put_real(double d, struct marked *out) {
    char text[40];
    int n = 0;
    for (int digits = 15; digits <= 17; digits++) {
        n = snprintf(text, sizeof text, "%.*g", digits, d);
        double back = 0;
        struct json v = {JSON_NUMBER, span_from(text, (size_t)n)};
        if (json_f64(v, &back) && !(back < d) && !(back > d))
            break;
    }
    marked_put(out, span_from(text, (size_t)n), false);
    if (!strpbrk(text, ".eni"))
        marked_put(out, SPAN(".0"), false);
}

static void put_int(int64_t i, struct marked *out) {
    char text[24];
    int n = snprintf(text, sizeof text, "%lld", (long long)i);
    marked_put(out, span_from(text, (size_t)n), false);
}

static const char *escape_of(char c, char hex[8]) {
    static const char from[] = "\"\\\n\r\t\b\f", *const to[] = {"\\\"", "\\\\", "\\n", "\\r", "\\t", "\\b", "\\f"};
    const char *found = c ? strchr(from, c) : NULL;
    if (found)
        return to[found - from];
    if ((uint8_t)c >= 0x20)
        return NULL;
    snprintf(hex, 8, "\\u%04x", (unsigned)(uint8_t)c);
    return hex;
}

static void put_json_text(struct jinja_text t, struct marked *out) {
    char hex[8];
    size_t from = 0;
    marked_put(out, SPAN("\""), false);
    for (size_t i = 0; i < t.n; i++) {
        const char *escape = escape_of(t.at[i], hex);
        if (!escape)
            continue;
        jinja_emit(out, jinja_slice(t, from, i - from));
        marked_put(out, span_of(escape), t.marks ? t.marks[i] : t.user);
        from = i + 1;
    }
    jinja_emit(out, jinja_slice(t, from, t.n - from));
    marked_put(out, SPAN("\""), false);
}

static void put_break(int64_t indent, int depth, struct marked *out) {
    if (indent < 0)
        return;
    marked_put(out, SPAN("\n"), false);
    for (int64_t i = 0; i < indent * depth; i++)
        marked_put(out, SPAN(" "), false);
}

static void put_json(struct jinja_run *r, struct jinja_value v, int64_t indent, int depth, struct marked *out) {
    bool list = v.kind == JINJA_LIST;
    size_t n = list ? v.list->n : v.kind == JINJA_MAP ? v.map->n : 0;
    if (depth > JINJA_DEPTH_MAX)
        jinja_fail(r, "tojson: over %d levels", JINJA_DEPTH_MAX);
    if (r->failed || !jinja_step(r, v.kind == JINJA_STRING ? v.s.n : 0))
        return;
    switch (v.kind) {
    case JINJA_BOOL:
        marked_put(out, v.yes ? SPAN("true") : SPAN("false"), false);
        return;
    case JINJA_INT:
        put_int(v.i, out);
        return;
    case JINJA_REAL:
        put_real(v.d, out);
        return;
    case JINJA_STRING:
        put_json_text(v.s, out);
        return;
    case JINJA_UNDEFINED:
    case JINJA_NONE:
        marked_put(out, SPAN("null"), false);
        return;
    case JINJA_CALLABLE:
        jinja_fail(r, "tojson of a function");
        return;
    case JINJA_LIST:
    case JINJA_MAP:
        break;
    }
    marked_put(out, list ? SPAN("[") : SPAN("{"), false);
    for (size_t i = 0; i < n && !r->failed; i++) {
        if (i)
            marked_put(out, indent < 0 ? SPAN(", ") : SPAN(","), false);
        put_break(indent, depth + 1, out);
        if (!list) {
            put_json_text(v.map->at[i].key, out);
            marked_put(out, SPAN(": "), false);
        }
        put_json(r, list ? v.list->at[i] : v.map->at[i].value, indent, depth + 1, out);
    }
    if (n)
        put_break(indent, depth, out);
    marked_put(out, list ? SPAN("]") : SPAN("}"), false);
}

void jinja_put_json(struct jinja_run *r, struct jinja_value v, int64_t indent, struct marked *out) {
    put_json(r, v, indent, 0, out);
}

/* Python's repr() of a string, as lists are printed. */
static void put_repr_text(struct jinja_text t, struct marked *out) {
    struct span quote = memchr(t.at, '\'', t.n) && !memchr(t.at, '"', t.n) ? SPAN("\"") : SPAN("'");
    marked_put(out, quote, false);
    for (size_t i = 0; i < t.n; i++) {
        char c = t.at[i];
        const char *escape = c == '\n' ? "\\n" : c == '\r' ? "\\r" : c == '\t' ? "\\t" : c == '\\' ? "\\\\" : NULL;
        if (c == '\'' && *quote.at == '\'')
            escape = "\\'";
        if (escape)
            marked_put(out, span_of(escape), t.marks ? t.marks[i] : t.user);
        else
            jinja_emit(out, jinja_slice(t, i, 1));
    }
    marked_put(out, quote, false);
}

static void put_repr(struct jinja_run *r, struct jinja_value v, int depth, struct marked *out) {
    bool list = v.kind == JINJA_LIST;
    size_t n = list ? v.list->n : v.kind == JINJA_MAP ? v.map->n : 0;
    if (depth > JINJA_DEPTH_MAX)
        jinja_fail(r, "a value of over %d levels", JINJA_DEPTH_MAX);
    if (r->failed || !jinja_step(r, v.kind == JINJA_STRING ? v.s.n : 0))
        return;
    if (v.kind == JINJA_STRING && depth) {
        put_repr_text(v.s, out);
        return;
    }
    if (!list && v.kind != JINJA_MAP) {
        jinja_put_str(r, v, out);
        return;
    }
    marked_put(out, list ? SPAN("[") : SPAN("{"), false);
    for (size_t i = 0; i < n && !r->failed; i++) {
        if (i)
            marked_put(out, SPAN(", "), false);
        if (!list) {
            put_repr_text(v.map->at[i].key, out);
            marked_put(out, SPAN(": "), false);
        }
        put_repr(r, list ? v.list->at[i] : v.map->at[i].value, depth + 1, out);
    }
    marked_put(out, list ? SPAN("]") : SPAN("}"), false);
}

void jinja_put_str(struct jinja_run *r, struct jinja_value v, struct marked *out) {
    switch (v.kind) {
    case JINJA_UNDEFINED:
        return;
    case JINJA_NONE:
        marked_put(out, SPAN("None"), false);
        return;
    case JINJA_BOOL:
        marked_put(out, v.yes ? SPAN("True") : SPAN("False"), false);
        return;
    case JINJA_INT:
        put_int(v.i, out);
        return;
    case JINJA_REAL:
        put_real(v.d, out);
        return;
    case JINJA_STRING:
        jinja_emit(out, v.s);
        return;
    case JINJA_CALLABLE:
        jinja_fail(r, "a function cannot be written");
        return;
    case JINJA_LIST:
    case JINJA_MAP:
        break;
    }
    put_repr(r, v, 0, out);
}
