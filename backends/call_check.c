/* Looks a call over by tables of rules. Always true: what has a rule has the type that the rule says, or the call is
 * refused with the path of the value; what has no rule passes untouched; and every byte that could reach a model is
 * counted, so that a bound made from the sizes is never too small. Null counts as not said. */
#include "backends/dialect.h"

#include <stdio.h>

size_t check_in(struct check *k, const char *format, ...) {
    size_t mark = k->n, room = sizeof k->path - k->n;
    va_list args;
    va_start(args, format);
    int n = vsnprintf(k->path + k->n, room, format, args);
    va_end(args);
    if (n > 0)
        k->n += (size_t)n < room ? (size_t)n : room - 1;
    return mark;
}

static void put_path(struct check *k, struct span text) {
    size_t room = sizeof k->path - 1 - k->n, n = text.n < room ? text.n : room;
    memcpy(k->path + k->n, text.at, n);
    k->n += n;
    k->path[k->n] = 0;
}

/* check_in for a member: the path is kept for each, and hardly any is ever shown. */
static size_t check_in_member(struct check *k, struct span name) {
    size_t mark = k->n;
    if (mark)
        put_path(k, SPAN("."));
    put_path(k, name);
    return mark;
}

void check_out(struct check *k, size_t mark) {
    k->n = mark;
    k->path[mark] = 0;
}

bool check_fail(struct check *k, enum err e, const char *format, ...) {
    va_list args;
    k->fault->err = e;
    memcpy(k->fault->field, k->path, sizeof k->path);
    va_start(args, format);
    vsnprintf(k->fault->text, sizeof k->fault->text, format, args);
    va_end(args);
    return false;
}

static bool fail_kind(struct check *k, unsigned kinds) {
    static const struct {
        unsigned bits;
        const char *words;
    } names[] = {{OF_STRING, "a string"},
                 {OF_BOOL, "true or false"},
                 {OF_NUMBER, "a number"},
                 {OF_ARRAY, "an array"},
                 {OF_OBJECT, "an object"}};
    char words[96] = "";
    size_t n = 0;
    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        if (kinds & names[i].bits)
            n += (size_t)snprintf(words + n, sizeof words - n, "%s%s", n ? " or " : "", names[i].words);
    return check_fail(k, ERR_INVALID, "%s must be %s.", k->n ? k->path : "The body", words);
}

static bool fail_range(struct check *k, const struct rule *rule) {
    const char *what = rule->flags & RULE_WHOLE ? "a whole number" : "a number";
    if (rule->min == 0 && rule->max == 0)
        return check_fail(k, ERR_INVALID, "%s must be %s within 64 bits.", k->path, what);
    return check_fail(k, ERR_INVALID, "%s must be %s from %.15g to %.15g.", k->path, what, rule->min, rule->max);
}

static bool check_number(struct check *k, const struct rule *rule, struct json v) {
    int64_t whole;
    double value;
    if (rule->flags & RULE_WHOLE && !json_i64(v, &whole))
        return fail_range(k, rule);
    if (!json_f64(v, &value) || !(value - value == 0))
        return fail_range(k, rule);
    if ((rule->min != 0 || rule->max != 0) && !(value >= rule->min && value <= rule->max))
        return fail_range(k, rule);
    return true;
}

static bool fail_stored(struct check *k) {
    return check_fail(k, ERR_UNSUPPORTED,
                      "%s is not supported: it names an object that a provider keeps, and the gateway's account there "
                      "is shared.",
                      k->path);
}

static bool check_value(struct check *k, const struct rule *rule, struct json v) {
    if (v.kind == JSON_NULL && !(rule->flags & RULE_REQUIRED))
        return true;
    if (rule->flags & RULE_STORED)
        return v.kind == JSON_FALSE ? true : fail_stored(k);
    if (!(rule->kinds & OF(v.kind)))
        return fail_kind(k, rule->kinds);
    if (v.kind == JSON_NUMBER && !check_number(k, rule, v))
        return false;
    if (rule->flags & RULE_READ)
        k->call->size.text_bytes += (int64_t)v.raw.n;
    return !rule->see || rule->see(k, v);
}

static int rule_find(const struct rule *rules, size_t n, struct span name) {
    for (size_t i = 0; i < n; i++)
        if (json_name_is(name, rules[i].name))
            return (int)i;
    return -1;
}

static bool check_required(struct check *k, const struct rule *rules, size_t n, uint64_t seen) {
    for (size_t i = 0; i < n; i++)
        if (rules[i].flags & RULE_REQUIRED && !(seen >> i & 1)) {
            check_in_member(k, span_of(rules[i].name));
            return check_fail(k, ERR_INVALID, "%s is required.", k->path);
        }
    return true;
}

bool check_object(struct check *k, struct json v, const struct rule *rules, size_t n, bool count_unknown) {
    struct json_walk walk;
    struct span name;
    struct json member;
    uint64_t seen = 0;
    if (v.kind != JSON_OBJECT)
        return fail_kind(k, OF_OBJECT);
    json_walk_init(&walk, v);
    while (json_walk_next(&walk, &name, &member)) {
        int i = rule_find(rules, n, name);
        if (i < 0) {
            k->call->size.text_bytes += count_unknown ? (int64_t)(name.n + member.raw.n) : 0;
            continue;
        }
        size_t mark = check_in_member(k, span_of(rules[i].name));
        if (seen >> i & 1)
            return check_fail(k, ERR_INVALID, "%s stands there twice.", k->path);
        seen |= UINT64_C(1) << i;
        if (!check_value(k, &rules[i], member))
            return false;
        check_out(k, mark);
    }
    return check_required(k, rules, n, seen);
}

bool check_each(struct check *k, struct json array, bool (*see)(struct check *k, struct json element)) {
    struct json_walk walk;
    struct span name;
    struct json element;
    json_walk_init(&walk, array);
    for (size_t i = 0; json_walk_next(&walk, &name, &element); i++) {
        size_t mark = check_in(k, "[%zu]", i);
        if (!see(k, element))
            return false;
        check_out(k, mark);
    }
    return true;
}

static bool name_among(struct span name, const char *const *names, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (json_name_is(name, names[i]))
            return true;
    return false;
}

static bool check_stored_member(struct check *k, struct span name, struct json v) {
    /* Under these stand the caller's own words and schemas: a property may be called file_id there. */
    static const char *const theirs[] = {"input",  "input_schema", "parameters",     "arguments",
                                         "schema", "json_schema",  "input_examples", "metadata"};
    static const char *const stored[] = {"file_id",         "file_ids",     "vector_store_ids",
                                         "vector_store_id", "container_id", "previous_response_id",
                                         "conversation"};
    if (v.kind == JSON_NULL || name_among(name, theirs, ARRAY_LEN(theirs)))
        return true;
    if (name_among(name, stored, ARRAY_LEN(stored)) && !(v.kind == JSON_ARRAY && json_count(v) == 0))
        return fail_stored(k);
    if (json_name_is(name, "container") && v.kind == JSON_STRING)
        return fail_stored(k);
    return check_stored(k, v);
}

bool check_stored(struct check *k, struct json v) {
    struct json_walk walk;
    struct span name;
    struct json member;
    if (v.kind == JSON_ARRAY)
        return check_each(k, v, check_stored);
    json_walk_init(&walk, v);
    while (json_walk_next(&walk, &name, &member)) {
        if (member.kind != JSON_OBJECT && member.kind != JSON_ARRAY && member.kind != JSON_STRING)
            continue;
        size_t mark = check_in_member(k, name);
        if (!check_stored_member(k, name, member))
            return false;
        check_out(k, mark);
    }
    return true;
}

bool check_text(struct check *k, struct json v) {
    k->call->size.text_bytes += (int64_t)json_text_bytes(v);
    return true;
}

bool check_reads(struct check *k, struct json v) {
    k->call->size.text_bytes += (int64_t)v.raw.n;
    return true;
}

void check_url(struct check *k, struct json url) {
    struct span raw = url.raw;
    if (url.kind != JSON_STRING)
        return;
    raw.at++; /* the opening quote */
    raw.n--;
    if (raw.n < 5 || !span_is_nocase((struct span){raw.at, 5}, "data:"))
        k->call->traits.remote_content = true;
}

struct json json_member(struct json object, const char *name) {
    struct json v = object.kind == JSON_OBJECT ? json_get(object, name) : (struct json){0};
    if (v.kind == JSON_NULL)
        v = (struct json){0};
    return v;
}

void json_members(struct json object, const char *const *names, struct json *out, size_t n) {
    (void)json_pick(object, names, out, n); /* of two of one name the last counts, as for json_member */
    for (size_t i = 0; i < n; i++)
        if (out[i].kind == JSON_NULL)
            out[i] = (struct json){0};
}

bool see_model(struct check *k, struct json v) {
    k->call->model_at = v.raw;
    k->call->model = json_text(v, k->arena);
    if (k->call->model.at && k->call->model.n && k->call->model.n <= 256)
        return true;
    return check_fail(k, ERR_INVALID, "model must be a name of 1 to 256 bytes.");
}

bool see_stream(struct check *k, struct json v) {
    k->call->stream = v.kind == JSON_TRUE;
    return true;
}

bool see_temperature(struct check *k, struct json v) {
    k->call->traits.temperature_said = true;
    k->call->traits.temperature_zero = json_is_zero(v);
    return true;
}

bool see_seed(struct check *k, struct json v) {
    (void)v;
    k->call->traits.seeded = true;
    return true;
}

bool see_max_output(struct check *k, struct json v) {
    int64_t n;
    if (json_i64(v, &n) && n > k->call->size.max_output_tok)
        k->call->size.max_output_tok = n;
    return true;
}

static bool see_string(struct check *k, struct json v) {
    return v.kind == JSON_STRING ? true : fail_kind(k, OF_STRING);
}

bool see_strings(struct check *k, struct json v) {
    return v.kind == JSON_ARRAY ? check_each(k, v, see_string) : true;
}
