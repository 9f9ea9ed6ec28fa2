/* What stands behind `is`. */
#include "backends/decode/jinja_run.h"

#define KIND_TEST(name, condition)                                                                                     \
    static struct jinja_value is_##name(struct jinja_run *r, const struct jinja_args *a) {                             \
        (void)r;                                                                                                       \
        enum jinja_kind k = a->at[0].kind;                                                                             \
        return jinja_bool(condition);                                                                                  \
    }
KIND_TEST(defined, k != JINJA_UNDEFINED)
KIND_TEST(undefined, k == JINJA_UNDEFINED)
KIND_TEST(none, k == JINJA_NONE)
KIND_TEST(string, k == JINJA_STRING)
KIND_TEST(mapping, k == JINJA_MAP)
KIND_TEST(sequence, k == JINJA_LIST || k == JINJA_STRING || k == JINJA_MAP)
KIND_TEST(number, k == JINJA_INT || k == JINJA_REAL || k == JINJA_BOOL)
KIND_TEST(integer, k == JINJA_INT)
KIND_TEST(float, k == JINJA_REAL)
KIND_TEST(boolean, k == JINJA_BOOL)
KIND_TEST(callable, k == JINJA_CALLABLE)

static struct jinja_value is_true(struct jinja_run *r, const struct jinja_args *a) {
    (void)r;
    return jinja_bool(a->at[0].kind == JINJA_BOOL && a->at[0].yes);
}
static struct jinja_value is_false(struct jinja_run *r, const struct jinja_args *a) {
    (void)r;
    return jinja_bool(a->at[0].kind == JINJA_BOOL && !a->at[0].yes);
}

static struct jinja_value divisible(struct jinja_run *r, struct jinja_value v, int64_t by, int64_t rest) {
    if (v.kind != JINJA_INT || by == 0 || by == -1)
        return jinja_fail(r, "%s is divided", jinja_kind_name(v.kind)), JINJA_VOID;
    int64_t left = v.i % by;
    return jinja_bool((left < 0 ? -left : left) == rest);
}
static struct jinja_value is_odd(struct jinja_run *r, const struct jinja_args *a) {
    return divisible(r, a->at[0], 2, 1);
}
static struct jinja_value is_even(struct jinja_run *r, const struct jinja_args *a) {
    return divisible(r, a->at[0], 2, 0);
}
static struct jinja_value is_divisibleby(struct jinja_run *r, const struct jinja_args *a) {
    struct jinja_value by = jinja_arg(a, 1, "num");
    return divisible(r, a->at[0], by.kind == JINJA_INT ? by.i : 0, 0);
}

static struct jinja_value is_equal(struct jinja_run *r, const struct jinja_args *a) {
    return jinja_bool(jinja_equal(r, a->at[0], jinja_arg(a, 1, "other"), 0));
}
static struct jinja_value is_unequal(struct jinja_run *r, const struct jinja_args *a) {
    return jinja_bool(!jinja_equal(r, a->at[0], jinja_arg(a, 1, "other"), 0));
}

static struct jinja_value is_in(struct jinja_run *r, const struct jinja_args *a) {
    struct jinja_value in = jinja_arg(a, 1, "seq"), what = a->at[0];
    if (in.kind == JINJA_STRING && what.kind == JINJA_STRING)
        return jinja_bool(what.s.n == 0 || memmem(in.s.at, in.s.n, what.s.at, what.s.n));
    in = jinja_iterated(r, in);
    for (size_t i = 0; !r->failed && i < in.list->n && jinja_step(r, 0); i++)
        if (jinja_equal(r, in.list->at[i], what, 0))
            return jinja_bool(true);
    return jinja_bool(false);
}

static struct jinja_value is_case(const struct jinja_args *a, char low, char high) {
    struct jinja_value v = a->at[0];
    bool any = false, other = false;
    for (size_t i = 0; v.kind == JINJA_STRING && i < v.s.n; i++) {
        char c = v.s.at[i];
        any = any || ((c | 32) >= 'a' && (c | 32) <= 'z');
        other = other || (c >= low && c <= high);
    }
    return jinja_bool(any && !other);
}
static struct jinja_value is_upper(struct jinja_run *r, const struct jinja_args *a) {
    (void)r;
    return is_case(a, 'a', 'z');
}
static struct jinja_value is_lower(struct jinja_run *r, const struct jinja_args *a) {
    (void)r;
    return is_case(a, 'A', 'Z');
}

static const struct jinja_known tests[] = {
    {"defined", is_defined},
    {"undefined", is_undefined},
    {"none", is_none},
    {"string", is_string},
    {"mapping", is_mapping},
    {"iterable", is_sequence},
    {"sequence", is_sequence},
    {"number", is_number},
    {"integer", is_integer},
    {"float", is_float},
    {"boolean", is_boolean},
    {"callable", is_callable},
    {"true", is_true},
    {"false", is_false},
    {"odd", is_odd},
    {"even", is_even},
    {"equalto", is_equal},
    {"eq", is_equal},
    {"==", is_equal},
    {"sameas", is_equal},
    {"ne", is_unequal},
    {"in", is_in},
    {"upper", is_upper},
    {"lower", is_lower},
    {"divisibleby", is_divisibleby},
};

const struct jinja_known *jinja_test_find(struct span name) {
    for (size_t i = 0; i < ARRAY_LEN(tests); i++)
        if (span_is(name, tests[i].name))
            return &tests[i];
    return NULL;
}
