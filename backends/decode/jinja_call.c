/* What can be called: functions of ours, macros of the template, and methods of strings, mappings and lists. */
#include "backends/decode/jinja_run.h"

#include <stdio.h>
#include <time.h>

#define RANGE_MAX 100000
#define TIME_BYTES_MAX 256

struct jinja_value jinja_arg(const struct jinja_args *a, size_t at, const char *name) {
    for (size_t i = 0; i < a->n; i++)
        if (a->names[i].n ? span_is(a->names[i], name) : i == at)
            return a->at[i];
    return JINJA_VOID;
}

bool jinja_args_eval(struct jinja_run *r, const struct jinja_node *args, struct jinja_args *out) {
    for (; args && !r->failed && out->n < JINJA_ARGS_MAX; args = args->next, out->n++) {
        out->names[out->n] = args->text;
        out->at[out->n] = jinja_eval(r, args->a);
    }
    return !r->failed;
}

/* --- macros --- */

static void bind_parameters(struct jinja_run *r, const struct jinja_node *macro, const struct jinja_args *a) {
    size_t at = 0;
    for (const struct jinja_node *p = macro->args; p && !r->failed; p = p->next, at++) {
        struct jinja_value v = JINJA_VOID;
        bool given = false;
        for (size_t i = 0; i < a->n && !given; i++) {
            given = a->names[i].n ? span_equal(a->names[i], p->text) : i == at;
            v = given ? a->at[i] : v;
        }
        jinja_bind(r, p->text, given || !p->a ? v : jinja_eval(r, p->a));
    }
    if (a->n > at)
        jinja_fail(r, "macro %.*s takes %zu arguments", SPAN_ARG(macro->text), at);
}

/* A macro sees its arguments and the template's own names, not those of whoever calls it. */
static struct jinja_value call_macro(struct jinja_run *r, const struct jinja_node *macro, const struct jinja_args *a) {
    struct marked text, *out = r->out;
    struct jinja_scope scope, *caller = r->scope;
    if (r->calls == JINJA_CALLS_MAX) {
        jinja_fail(r, "over %d macros call each other", JINJA_CALLS_MAX);
        return JINJA_VOID;
    }
    r->calls++;
    r->scope = r->outermost;
    jinja_scope_push(r, &scope);
    bind_parameters(r, macro, a);
    marked_init(&text, JINJA_OUTPUT_BYTES_MAX);
    r->out = &text;
    if (!r->failed)
        jinja_exec(r, macro->b);
    r->out = out;
    r->scope = caller;
    r->calls--;
    return jinja_built(r, &text);
}

struct jinja_value jinja_call(struct jinja_run *r, const struct jinja_node *call) {
    struct jinja_args args = {.n = 0};
    const struct jinja_binding *b = jinja_lookup(r, call->text);
    const struct jinja_known *known = call->known;
    if (!jinja_args_eval(r, call->args, &args))
        return JINJA_VOID;
    r->line = call->line;
    if (b && b->macro)
        return call_macro(r, b->macro, &args);
    if (known)
        return known->run(r, &args);
    jinja_fail(r, "%.*s is called before the macro is there", SPAN_ARG(call->text));
    return JINJA_VOID;
}

/* --- functions --- */

static struct jinja_value raise_exception(struct jinja_run *r, const struct jinja_args *a) {
    struct jinja_value v = jinja_arg(a, 0, "message");
    struct span text = v.kind == JINJA_STRING ? jinja_span(v.s) : SPAN("without a reason");
    jinja_fail(r, "the template refuses: %.*s", (int)(text.n < 200 ? text.n : 200), text.at);
    return JINJA_VOID;
}

static struct jinja_value strftime_now(struct jinja_run *r, const struct jinja_args *a) {
    struct jinja_value v = jinja_arg(a, 0, "format");
    char format[64], text[TIME_BYTES_MAX];
    time_t now = (time_t)r->now_s;
    struct tm tm;
    if (v.kind != JINJA_STRING || v.s.n >= sizeof format || !gmtime_r(&now, &tm)) {
        jinja_fail(r, "strftime_now needs a short format");
        return JINJA_VOID;
    }
    snprintf(format, sizeof format, "%.*s", (int)v.s.n, v.s.at);
    struct marked out;
    marked_init(&out, TIME_BYTES_MAX);
    marked_put(&out, span_from(text, strftime(text, sizeof text, format, &tm)), false);
    return jinja_built(r, &out);
}

static struct jinja_value namespace(struct jinja_run *r, const struct jinja_args *a) {
    struct jinja_value out = jinja_map_new(r);
    for (size_t i = 0; i < a->n && !r->failed; i++)
        if (a->names[i].n)
            jinja_map_put(r, out, (struct jinja_text){a->names[i].at, a->names[i].n, NULL, false}, a->at[i]);
        else
            for (size_t k = 0; a->at[i].kind == JINJA_MAP && k < a->at[i].map->n; k++)
                jinja_map_put(r, out, a->at[i].map->at[k].key, a->at[i].map->at[k].value);
    return out;
}

static struct jinja_value range(struct jinja_run *r, const struct jinja_args *a) {
    struct jinja_value first = jinja_arg(a, 0, ""), second = jinja_arg(a, 1, ""), third = jinja_arg(a, 2, "");
    int64_t from = second.kind == JINJA_INT ? first.i : 0, to = second.kind == JINJA_INT ? second.i : first.i;
    int64_t step = third.kind == JINJA_INT ? third.i : 1;
    const int64_t far = INT64_C(1) << 40;
    struct jinja_value out = jinja_list_new(r);
    if (first.kind != JINJA_INT || step == 0 || from < -far || from > far || to < -far || to > far || step < -far ||
        step > far)
        jinja_fail(r, "range needs whole numbers and a step");
    for (int64_t i = from; !r->failed && (step > 0 ? i < to : i > to); i += step) {
        if (out.list->n == RANGE_MAX)
            jinja_fail(r, "range gives over %d numbers", RANGE_MAX);
        jinja_list_put(r, out, jinja_int(i));
    }
    return out;
}

static const struct jinja_known globals[] = {
    {"raise_exception", raise_exception},
    {"strftime_now", strftime_now},
    {"namespace", namespace},
    {"dict", namespace},
    {"range", range},
};

/* --- methods; at[0] is what they are called on --- */

static bool on_text(struct jinja_run *r, const struct jinja_args *a, const char *what, size_t needs) {
    bool ok = a->at[0].kind == JINJA_STRING && a->n > needs;
    for (size_t i = 1; ok && i <= needs; i++)
        ok = a->at[i].kind == JINJA_STRING;
    if (!ok)
        jinja_fail(r, "%s of %s", what, jinja_kind_name(a->at[0].kind));
    return ok;
}

static struct jinja_value strip_by(struct jinja_run *r, const struct jinja_args *a, int sides) {
    struct jinja_value set = jinja_arg(a, 1, "chars");
    if (!on_text(r, a, "strip", 0) || !jinja_step(r, a->at[0].s.n))
        return JINJA_VOID;
    return jinja_text(jinja_strip(a->at[0].s, set.kind == JINJA_STRING ? jinja_span(set.s) : SPAN_NONE, sides));
}
static struct jinja_value strip(struct jinja_run *r, const struct jinja_args *a) {
    return strip_by(r, a, STRIP_LEFT | STRIP_RIGHT);
}
static struct jinja_value lstrip(struct jinja_run *r, const struct jinja_args *a) {
    return strip_by(r, a, STRIP_LEFT);
}
static struct jinja_value rstrip(struct jinja_run *r, const struct jinja_args *a) {
    return strip_by(r, a, STRIP_RIGHT);
}

static struct jinja_value split_words(struct jinja_run *r, struct jinja_text t, int64_t most) {
    struct jinja_value out = jinja_list_new(r);
    for (t = jinja_strip(t, SPAN_NONE, STRIP_LEFT); t.n && jinja_step(r, 0);) {
        size_t n = 0;
        while (n < t.n && jinja_strip(jinja_slice(t, n, t.n - n), SPAN_NONE, STRIP_LEFT).n == t.n - n)
            n++;
        n = most-- == 0 ? t.n : n;
        jinja_list_put(r, out, jinja_text(jinja_slice(t, 0, n)));
        t = jinja_strip(jinja_slice(t, n, t.n - n), SPAN_NONE, STRIP_LEFT);
    }
    return out;
}

static struct jinja_value split(struct jinja_run *r, const struct jinja_args *a) {
    struct jinja_value by = jinja_arg(a, 1, "sep"), limit = jinja_arg(a, 2, "maxsplit"), out;
    int64_t most = limit.kind == JINJA_INT ? limit.i : -1;
    if (!on_text(r, a, "split", 0) || !jinja_step(r, a->at[0].s.n))
        return JINJA_VOID;
    struct jinja_text t = a->at[0].s;
    if (by.kind != JINJA_STRING)
        return split_words(r, t, most);
    if (by.s.n == 0)
        return jinja_fail(r, "split by an empty text"), JINJA_VOID;
    out = jinja_list_new(r);
    for (const char *found; most != 0 && jinja_step(r, 0); most--) {
        found = memmem(t.at, t.n, by.s.at, by.s.n);
        if (!found)
            break;
        size_t n = (size_t)(found - t.at);
        jinja_list_put(r, out, jinja_text(jinja_slice(t, 0, n)));
        t = jinja_slice(t, n + by.s.n, t.n - n - by.s.n);
    }
    jinja_list_put(r, out, jinja_text(t));
    return out;
}

static struct jinja_value splitlines(struct jinja_run *r, const struct jinja_args *a) {
    struct jinja_value out = jinja_list_new(r);
    if (!on_text(r, a, "splitlines", 0) || !jinja_step(r, a->at[0].s.n))
        return JINJA_VOID;
    for (struct jinja_text t = a->at[0].s; t.n && jinja_step(r, 0);) {
        size_t n = span_line(jinja_span(t)), end = n;
        end += n + 1 < t.n && t.at[n] == '\r' && t.at[n + 1] == '\n' ? 2 : n < t.n;
        jinja_list_put(r, out, jinja_text(jinja_slice(t, 0, n)));
        t = jinja_slice(t, end, t.n - end);
    }
    return out;
}

static bool has(struct jinja_text t, struct jinja_text part, bool end) {
    return part.n <= t.n && memcmp(end ? t.at + t.n - part.n : t.at, part.at, part.n) == 0;
}

/* A string, or a list of them of which one is enough. */
static struct jinja_value edge(struct jinja_run *r, const struct jinja_args *a, bool end) {
    struct jinja_value what = jinja_arg(a, 1, "");
    if (!on_text(r, a, end ? "endswith" : "startswith", 0))
        return JINJA_VOID;
    if (what.kind == JINJA_STRING)
        return jinja_bool(has(a->at[0].s, what.s, end));
    for (size_t i = 0; what.kind == JINJA_LIST && i < what.list->n; i++)
        if (what.list->at[i].kind == JINJA_STRING && has(a->at[0].s, what.list->at[i].s, end))
            return jinja_bool(true);
    if (what.kind != JINJA_LIST)
        jinja_fail(r, "%s needs a string", end ? "endswith" : "startswith");
    return jinja_bool(false);
}
static struct jinja_value startswith(struct jinja_run *r, const struct jinja_args *a) {
    return edge(r, a, false);
}
static struct jinja_value endswith(struct jinja_run *r, const struct jinja_args *a) {
    return edge(r, a, true);
}

static struct jinja_value replace(struct jinja_run *r, const struct jinja_args *a) {
    struct jinja_value most = jinja_arg(a, 3, "count");
    if (!on_text(r, a, "replace", 2))
        return JINJA_VOID;
    return jinja_replace(r, a->at[0].s, jinja_span(a->at[1].s), a->at[2].s, most.kind == JINJA_INT ? most.i : -1);
}

static struct jinja_value recase(struct jinja_run *r, const struct jinja_args *a, enum jinja_case how) {
    return on_text(r, a, "a change of case", 0) ? jinja_recase(r, a->at[0].s, how) : JINJA_VOID;
}
#define X(name, how)                                                                                                   \
    static struct jinja_value name(struct jinja_run *r, const struct jinja_args *a) {                                  \
        return recase(r, a, how);                                                                                      \
    }
JINJA_CASES(X)
#undef X

static struct jinja_value find(struct jinja_run *r, const struct jinja_args *a) {
    if (!on_text(r, a, "find", 1) || !jinja_step(r, a->at[0].s.n))
        return JINJA_VOID;
    struct jinja_text t = a->at[0].s, what = a->at[1].s;
    const char *found = what.n ? memmem(t.at, t.n, what.at, what.n) : t.at;
    if (!found)
        return jinja_int(-1);
    return jinja_int((int64_t)jinja_length(jinja_text(jinja_slice(t, 0, (size_t)(found - t.at)))));
}

static struct jinja_value get(struct jinja_run *r, const struct jinja_args *a) {
    struct jinja_value key = jinja_arg(a, 1, "key"), otherwise = jinja_arg(a, 2, "default");
    if (a->at[0].kind != JINJA_MAP || key.kind != JINJA_STRING)
        return jinja_fail(r, "get of %s", jinja_kind_name(a->at[0].kind)), JINJA_VOID;
    struct jinja_value v = jinja_map_get(a->at[0], jinja_span(key.s));
    if (v.kind != JINJA_UNDEFINED)
        return v;
    return otherwise.kind == JINJA_UNDEFINED ? (struct jinja_value){.kind = JINJA_NONE} : otherwise;
}

static struct jinja_value items(struct jinja_run *r, const struct jinja_args *a) {
    return jinja_items(r, a->at[0], true, true);
}
static struct jinja_value keys(struct jinja_run *r, const struct jinja_args *a) {
    return jinja_items(r, a->at[0], true, false);
}
static struct jinja_value values(struct jinja_run *r, const struct jinja_args *a) {
    return jinja_items(r, a->at[0], false, true);
}

static struct jinja_value append(struct jinja_run *r, const struct jinja_args *a) {
    if (a->at[0].kind != JINJA_LIST || a->n != 2)
        jinja_fail(r, "append to %s", jinja_kind_name(a->at[0].kind));
    else
        jinja_list_put(r, a->at[0], a->at[1]);
    return (struct jinja_value){.kind = JINJA_NONE};
}

static struct jinja_value pop(struct jinja_run *r, const struct jinja_args *a) {
    struct jinja_value list = a->at[0], at = jinja_arg(a, 1, "");
    int64_t i = at.kind == JINJA_INT ? at.i : -1;
    if (list.kind != JINJA_LIST || i >= (int64_t)list.list->n || i < -(int64_t)list.list->n)
        return jinja_fail(r, "pop of %s, where nothing is", jinja_kind_name(list.kind)), JINJA_VOID;
    size_t from = (size_t)(i < 0 ? i + (int64_t)list.list->n : i);
    struct jinja_value v = list.list->at[from];
    memmove(list.list->at + from, list.list->at + from + 1, (--list.list->n - from) * sizeof v);
    return v;
}

static const struct jinja_known methods[] = {
    {"strip", strip},
    {"lstrip", lstrip},
    {"rstrip", rstrip},
    {"split", split},
    {"replace", replace},
    {"splitlines", splitlines},
    {"startswith", startswith},
    {"endswith", endswith},
#define X(name, how) {#name, name},
    JINJA_CASES(X)
#undef X
        {"find", find},
    {"get", get},
    {"items", items},
    {"keys", keys},
    {"values", values},
    {"append", append},
    {"pop", pop},
};

static const struct jinja_known *find_in(const struct jinja_known *rows, size_t n, struct span name) {
    for (size_t i = 0; i < n; i++)
        if (span_is(name, rows[i].name))
            return &rows[i];
    return NULL;
}

const struct jinja_known *jinja_method_find(struct span name) {
    return find_in(methods, ARRAY_LEN(methods), name);
}

const struct jinja_known *jinja_global_find(struct span name) {
    return find_in(globals, ARRAY_LEN(globals), name);
}
