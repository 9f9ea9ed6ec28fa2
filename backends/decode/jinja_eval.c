/* Expressions. Numbers are int64 and refuse to overflow; text keeps the marks of where it came from through every slice and
 * sum; a name or member that is not there is undefined, which is false and writes nothing. */
#include "backends/decode/jinja_run.h"
#include "backends/decode/unicode.h"

#include <math.h>

static struct jinja_value name(struct jinja_run *r, const struct jinja_node *e) {
    const struct jinja_binding *b = jinja_lookup(r, e->text);
    if (b)
        return b->value;
    return jinja_global_find(e->text) ? (struct jinja_value){.kind = JINJA_CALLABLE} : JINJA_VOID;
}

/* Where element or character i of n is, counted from the end when it is negative; false: outside. */
static bool place(int64_t i, size_t n, size_t *out) {
    int64_t at = i < 0 ? i + (int64_t)n : i;
    *out = (size_t)at;
    return at >= 0 && at < (int64_t)n;
}

struct jinja_value jinja_member(struct jinja_run *r, struct jinja_value of, struct jinja_value key) {
    size_t at;
    if (of.kind == JINJA_MAP && key.kind == JINJA_STRING)
        return jinja_map_get(of, jinja_span(key.s));
    if (of.kind == JINJA_LIST && key.kind == JINJA_INT)
        return place(key.i, of.list->n, &at) ? of.list->at[at] : JINJA_VOID;
    if (of.kind == JINJA_STRING && key.kind == JINJA_INT)
        return jinja_member(r, jinja_characters(r, of.s), key);
    return JINJA_VOID;
}

static int64_t bound(struct jinja_run *r, const struct jinja_node *e, int64_t otherwise) {
    struct jinja_value v = e ? jinja_eval(r, e) : JINJA_VOID;
    if (e && v.kind != JINJA_INT && v.kind != JINJA_NONE)
        jinja_fail(r, "a slice's bound is %s", jinja_kind_name(v.kind));
    return v.kind == JINJA_INT ? v.i : otherwise;
}

static int64_t clamp(int64_t i, int64_t n, int64_t low, int64_t high) {
    i = i < 0 && i >= INT64_MIN + n ? i + n : i;
    return i < low ? low : i > high ? high : i;
}

static struct jinja_value join_up(struct jinja_run *r, struct jinja_value list) {
    struct marked text;
    marked_init(&text, JINJA_OUTPUT_BYTES_MAX);
    for (size_t i = 0; i < list.list->n; i++)
        jinja_emit(&text, list.list->at[i].s);
    return jinja_built(r, &text);
}

static struct jinja_value slice(struct jinja_run *r, const struct jinja_node *e) {
    struct jinja_value of = jinja_eval(r, e->a), all = of, out = jinja_list_new(r);
    int64_t step = bound(r, e->d, 1);
    if (of.kind == JINJA_STRING)
        all = jinja_characters(r, of.s);
    if (!r->failed && all.kind != JINJA_LIST)
        jinja_fail(r, "%s cannot be sliced", jinja_kind_name(of.kind));
    if (!r->failed && (step == 0 || step < -INT32_MAX || step > INT32_MAX))
        jinja_fail(r, "a slice's step is %lld", (long long)step);
    if (r->failed)
        return JINJA_VOID;
    int64_t n = (int64_t)all.list->n, from = bound(r, e->b, step > 0 ? 0 : INT64_MAX);
    int64_t to = bound(r, e->c, step > 0 ? INT64_MAX : INT64_MIN);
    from = step > 0 ? clamp(from, n, 0, n) : clamp(from, n, -1, n - 1);
    to = to == INT64_MIN ? -1 : step > 0 ? clamp(to, n, 0, n) : clamp(to, n, -1, n - 1);
    for (int64_t i = from; !r->failed && (step > 0 ? i < to : i > to); i += step)
        jinja_list_put(r, out, all.list->at[i]);
    return of.kind == JINJA_STRING && !r->failed ? join_up(r, out) : out;
}

static struct jinja_value concatenate(struct jinja_run *r, struct jinja_value a, struct jinja_value b) {
    struct marked text;
    marked_init(&text, JINJA_OUTPUT_BYTES_MAX);
    jinja_put_str(r, a, &text);
    jinja_put_str(r, b, &text);
    return jinja_built(r, &text);
}

static struct jinja_value lists(struct jinja_run *r, struct jinja_value a, struct jinja_value b) {
    struct jinja_value out = jinja_list_new(r);
    for (size_t i = 0; i < a.list->n && !r->failed; i++)
        jinja_list_put(r, out, a.list->at[i]);
    for (size_t i = 0; i < b.list->n && !r->failed; i++)
        jinja_list_put(r, out, b.list->at[i]);
    return out;
}

static int64_t floored(int64_t a, int64_t b) {
    return a / b - (a % b != 0 && (a % b < 0) != (b < 0));
}

static struct jinja_value whole(struct jinja_run *r, char op, int64_t a, int64_t b) {
    int64_t out = 0;
    bool over = false;
    if ((op == '%' || op == 'f') && (b == 0 || (a == INT64_MIN && b == -1))) {
        jinja_fail(r, "a division by %lld", (long long)b);
        return JINJA_VOID;
    }
    switch (op) {
    case '+':
        over = __builtin_add_overflow(a, b, &out);
        break;
    case '-':
        over = __builtin_sub_overflow(a, b, &out);
        break;
    case '*':
        over = __builtin_mul_overflow(a, b, &out);
        break;
    default:
        out = op == 'f' ? floored(a, b) : a - floored(a, b) * b;
        break;
    }
    if (over)
        jinja_fail(r, "a number is too large");
    return jinja_int(out);
}

static struct jinja_value broken(struct jinja_run *r, char op, double a, double b) {
    struct jinja_value out = {.kind = JINJA_REAL};
    if (op == '+')
        out.d = a + b;
    else if (op == '-')
        out.d = a - b;
    else if (op == '*')
        out.d = a * b;
    else if (!(b < 0) && !(b > 0))
        jinja_fail(r, "a division by 0");
    else
        out.d = op == '/' ? a / b : op == 'f' ? floor(a / b) : a - floor(a / b) * b;
    return out;
}

static bool contains(struct jinja_run *r, struct jinja_value in, struct jinja_value what) {
    if (in.kind == JINJA_STRING && what.kind == JINJA_STRING && jinja_step(r, in.s.n))
        return what.s.n == 0 || memmem(in.s.at, in.s.n, what.s.at, what.s.n) != NULL;
    if (in.kind == JINJA_MAP && what.kind == JINJA_STRING) {
        for (size_t i = 0; i < in.map->n; i++)
            if (span_equal(jinja_span(in.map->at[i].key), jinja_span(what.s)))
                return true;
        return false;
    }
    for (size_t i = 0; in.kind == JINJA_LIST && i < in.list->n && jinja_step(r, 0); i++)
        if (jinja_equal(r, in.list->at[i], what, 0))
            return true;
    if (in.kind != JINJA_LIST && in.kind != JINJA_UNDEFINED && in.kind != JINJA_MAP)
        jinja_fail(r, "%s in %s cannot be said", jinja_kind_name(what.kind), jinja_kind_name(in.kind));
    return false;
}

static struct jinja_value compare(struct jinja_run *r, struct span op, struct jinja_value a, struct jinja_value b) {
    double x, y;
    bool numbers = jinja_number(a, &x) && jinja_number(b, &y), less, same;
    if (numbers) {
        jinja_number(b, &y);
        less = x < y;
        same = !(x < y) && !(x > y);
    } else if (a.kind == JINJA_STRING && b.kind == JINJA_STRING && jinja_step(r, a.s.n)) {
        int c = memcmp(a.s.at, b.s.at, a.s.n < b.s.n ? a.s.n : b.s.n);
        same = c == 0 && a.s.n == b.s.n;
        less = c < 0 || (c == 0 && a.s.n < b.s.n);
    } else {
        jinja_fail(r, "%s and %s have no order", jinja_kind_name(a.kind), jinja_kind_name(b.kind));
        return JINJA_VOID;
    }
    bool equal = op.n == 2;
    return jinja_bool(*op.at == '<' ? less || (equal && same) : (!less && !same) || (equal && same));
}

static struct jinja_value binary(struct jinja_run *r, const struct jinja_node *e) {
    struct jinja_value a = jinja_eval(r, e->a), b = jinja_eval(r, e->b);
    char op = span_is(e->text, "//") ? 'f' : *e->text.at;
    double x, y;
    if (r->failed)
        return JINJA_VOID;
    r->line = e->line;
    if (span_is(e->text, "==") || span_is(e->text, "!="))
        return jinja_bool(jinja_equal(r, a, b, 0) == (op == '='));
    if (span_is(e->text, "in"))
        return jinja_bool(contains(r, b, a));
    if (op == '<' || op == '>')
        return compare(r, e->text, a, b);
    if (op == '~' || (op == '+' && a.kind == JINJA_STRING && b.kind == JINJA_STRING))
        return concatenate(r, a, b);
    if (op == '+' && a.kind == JINJA_LIST && b.kind == JINJA_LIST)
        return lists(r, a, b);
    bool first = jinja_number(a, &x), second = jinja_number(b, &y);
    if (!first || !second) {
        jinja_fail(r, "%s %.*s %s cannot be computed", jinja_kind_name(a.kind), SPAN_ARG(e->text),
                   jinja_kind_name(b.kind));
        return JINJA_VOID;
    }
    bool both_whole = a.kind != JINJA_REAL && b.kind != JINJA_REAL && op != '/';
    if (!both_whole)
        return broken(r, op, x, y);
    return whole(r, op, a.kind == JINJA_BOOL ? a.yes : a.i, b.kind == JINJA_BOOL ? b.yes : b.i);
}

static struct jinja_value collection(struct jinja_run *r, const struct jinja_node *e) {
    struct jinja_value out = e->kind == NODE_LIST ? jinja_list_new(r) : jinja_map_new(r);
    for (const struct jinja_node *i = e->b; i && !r->failed; i = i->next) {
        struct jinja_value v = jinja_eval(r, i->a);
        if (e->kind == NODE_LIST) {
            jinja_list_put(r, out, v);
            continue;
        }
        i = i->next;
        if (v.kind != JINJA_STRING)
            jinja_fail(r, "a key is %s, not a string", jinja_kind_name(v.kind));
        else
            jinja_map_put(r, out, v.s, jinja_eval(r, i->a));
    }
    return out;
}

static struct jinja_value apply(struct jinja_run *r, const struct jinja_node *e) {
    const struct jinja_known *known = e->known;
    struct jinja_args args = {.at = {jinja_eval(r, e->a)}, .n = 1};
    if (!jinja_args_eval(r, e->args, &args))
        return JINJA_VOID;
    r->line = e->line;
    return known->run(r, &args);
}

static struct jinja_value negate(struct jinja_run *r, struct jinja_value v) {
    if (v.kind == JINJA_REAL)
        v.d = -v.d;
    else if (v.kind == JINJA_INT && v.i > INT64_MIN)
        v.i = -v.i;
    else
        jinja_fail(r, "minus %s", jinja_kind_name(v.kind));
    return v;
}

static struct jinja_value choose(struct jinja_run *r, const struct jinja_node *e) {
    if (jinja_truth(jinja_eval(r, e->a)))
        return jinja_eval(r, e->b);
    return e->c ? jinja_eval(r, e->c) : JINJA_VOID;
}

static struct jinja_value eval(struct jinja_run *r, const struct jinja_node *e) {
    struct jinja_value v;
    switch (e->kind) {
    case NODE_CONST:
        return e->value;
    case NODE_NAME:
        return name(r, e);
    case NODE_MEMBER:
        return jinja_member(r, jinja_eval(r, e->a),
                            jinja_text((struct jinja_text){e->text.at, e->text.n, NULL, false}));
    case NODE_INDEX:
        v = jinja_eval(r, e->a);
        return jinja_member(r, v, jinja_eval(r, e->b));
    case NODE_SLICE:
        return slice(r, e);
    case NODE_CALL:
        return jinja_call(r, e);
    case NODE_METHOD:
    case NODE_FILTER:
    case NODE_TEST:
        return apply(r, e);
    case NODE_NOT:
        return jinja_bool(!jinja_truth(jinja_eval(r, e->a)));
    case NODE_NEGATE:
        return negate(r, jinja_eval(r, e->a));
    case NODE_BINARY:
        return binary(r, e);
    case NODE_AND:
        v = jinja_eval(r, e->a);
        return jinja_truth(v) ? jinja_eval(r, e->b) : v;
    case NODE_OR:
        v = jinja_eval(r, e->a);
        return jinja_truth(v) ? v : jinja_eval(r, e->b);
    case NODE_CHOICE:
        return choose(r, e);
    case NODE_LIST:
    case NODE_DICT:
        return collection(r, e);
    default:
        break;
    }
    return JINJA_VOID;
}

struct jinja_value jinja_eval(struct jinja_run *r, const struct jinja_node *e) {
    if (!jinja_step(r, 0))
        return JINJA_VOID;
    if (r->depth > JINJA_DEPTH_MAX * 3) {
        jinja_fail(r, "expressions over %d deep in each other", JINJA_DEPTH_MAX * 3);
        return JINJA_VOID;
    }
    r->depth++;
    struct jinja_value v = eval(r, e);
    r->depth--;
    return r->failed ? JINJA_VOID : v;
}
