/* Writing JSON: our own small documents, and the canonical form of others' from which keys are made. */
#include "gateway/base/json.h"

#include <stdlib.h>

#define EXPONENT_MAX INT64_C(1000000000000)
#define CANONICAL_ARENA_MAX (64 << 20) /* decoded strings of one document */

static size_t utf8_ok(const unsigned char *at, size_t n) {
    size_t length = at[0] < 0x80                     ? 1
                    : at[0] >= 0xC2 && at[0] < 0xE0  ? 2
                    : (at[0] & 0xF0) == 0xE0         ? 3
                    : at[0] >= 0xF0 && at[0] <= 0xF4 ? 4
                                                     : 0;
    if (length == 0 || length > n)
        return 0;
    for (size_t i = 1; i < length; i++)
        if ((at[i] & 0xC0) != 0x80)
            return 0;
    bool overlong = (at[0] == 0xE0 && at[1] < 0xA0) || (at[0] == 0xF0 && at[1] < 0x90);
    bool outside = (at[0] == 0xED && at[1] > 0x9F) || (at[0] == 0xF4 && at[1] > 0x8F);
    return overlong || outside ? 0 : length;
}

static void put_escaped(struct str *out, unsigned char c) {
    static const char from[] = "\"\\\b\f\n\r\t", to[] = "\"\\bfnrt";
    const char *at = c ? strchr(from, c) : NULL;
    if (at)
        str_printf(out, "\\%c", to[at - from]);
    else
        str_printf(out, "\\u%04x", c);
}

void json_put_text(struct str *out, struct span text) {
    const unsigned char *at = (const unsigned char *)text.at;
    size_t from = 0, i = json_plain_bytes(text.at, text.n);
    str_putc(out, '"');
    while (i < text.n) {
        size_t length = utf8_ok(at + i, text.n - i);
        if (length > 1 || (length == 1 && at[i] >= 0x20 && at[i] != '"' && at[i] != '\\')) {
            i += length;
            continue;
        }
        str_put(out, span_from(text.at + from, i - from));
        if (length == 1)
            put_escaped(out, at[i]);
        else
            str_puts(out, "\xEF\xBF\xBD");
        from = ++i;
    }
    if (from < text.n) /* an empty span may have no place to count from */
        str_put(out, span_from(text.at + from, text.n - from));
    str_putc(out, '"');
}

void json_put_name(struct str *out, const char *name) {
    char last = out->n ? out->at[out->n - 1] : '{';
    if (last != '{' && last != '[' && last != ':' && last != ',')
        str_putc(out, ',');
    json_put_text(out, span_of(name));
    str_putc(out, ':');
}

/* By hand: a record has thirty numbers, and a format string costs ten times as much. */
static void put_number_text(struct str *out, int64_t v) {
    char digits[24];
    size_t at = sizeof(digits);
    uint64_t left = v < 0 ? 0 - (uint64_t)v : (uint64_t)v;
    do
        digits[--at] = (char)('0' + left % 10);
    while (left /= 10);
    if (v < 0)
        digits[--at] = '-';
    str_put(out, span_from(digits + at, sizeof(digits) - at));
}

void json_put_i64(struct str *out, const char *name, int64_t v) {
    json_put_name(out, name);
    put_number_text(out, v);
}

void json_put_bool(struct str *out, const char *name, bool v) {
    json_put_name(out, name);
    str_puts(out, v ? "true" : "false");
}

void json_put_str(struct str *out, const char *name, const char *text) {
    json_put_span(out, name, span_of(text));
}

void json_put_span(struct str *out, const char *name, struct span text) {
    json_put_name(out, name);
    if (text.at)
        json_put_text(out, text);
    else
        str_puts(out, "null");
}

void json_put_raw(struct str *out, const char *name, struct span raw) {
    json_put_name(out, name);
    str_put(out, raw);
}

/* ---- canonical form ---- */

struct canon {
    struct str *out;
    struct arena arena;
    const char *const *skip, *const *skip_deep;
    size_t n_skip, n_skip_deep;
    bool bad;
};

struct member {
    struct span name; /* decoded */
    struct json value;
};

static int member_order(const void *a, const void *b) {
    const struct member *x = a, *y = b;
    size_t n = x->name.n < y->name.n ? x->name.n : y->name.n;
    int order = n ? memcmp(x->name.at, y->name.at, n) : 0;
    return order ? order : (x->name.n > y->name.n) - (x->name.n < y->name.n);
}

static bool among(struct span name, const char *const *words, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (span_is(name, words[i]))
            return true;
    return false;
}

/* Saturates: two exponents beyond any number's use may look alike, and no provider can tell them apart either. */
static int64_t exponent_of(struct span raw) {
    int64_t v = 0;
    bool minus = raw.at[0] == '-';
    for (size_t i = minus || raw.at[0] == '+'; i < raw.n; i++)
        v = v < EXPONENT_MAX ? v * 10 + raw.at[i] - '0' : v;
    return minus ? -v : v;
}

/* "-12.50e3" -> "-125e2": sign, significant digits, exponent when it is not 0; every zero is "0". */
static void put_number(struct str *out, struct span raw) {
    size_t i = raw.at[0] == '-', mantissa_end = i, lead = 0;
    struct str digits;
    int64_t exponent = 0, shift = 0;
    str_init(&digits, raw.n);
    while (mantissa_end < raw.n && raw.at[mantissa_end] != 'e' && raw.at[mantissa_end] != 'E')
        mantissa_end++;
    for (bool point = false; i < mantissa_end; i++) {
        if (raw.at[i] == '.')
            point = true;
        else
            str_putc(&digits, raw.at[i]), shift += point;
    }
    if (mantissa_end < raw.n)
        exponent = exponent_of(span_from(raw.at + mantissa_end + 1, raw.n - mantissa_end - 1));
    while (digits.n && digits.at[digits.n - 1] == '0')
        digits.n--, shift--;
    while (lead < digits.n && digits.at[lead] == '0')
        lead++;
    if (lead == digits.n) {
        str_putc(out, '0');
    } else {
        str_puts(out, raw.at[0] == '-' ? "-" : "");
        str_put(out, span_from(digits.at + lead, digits.n - lead));
        if (exponent - shift != 0)
            str_printf(out, "e%lld", (long long)(exponent - shift));
    }
    str_fini(&digits);
}

static void put_canonical(struct canon *c, struct json v, bool outermost);

static bool is_surrogate(struct span raw, size_t i, char low, char high) {
    if (i + 6 > raw.n || raw.at[i] != '\\' || raw.at[i + 1] != 'u' || (raw.at[i + 2] | 32) != 'd')
        return false;
    char digit = (char)(raw.at[i + 3] | 32);
    return digit >= low && digit <= high;
}

/* Lone surrogates all decode to U+FFFD, so two texts that differ would get one key: such a document has none. */
static bool has_lone_surrogate(struct span raw) {
    for (size_t i = 0; i < raw.n; i++) {
        if (raw.at[i] != '\\')
            continue;
        bool high = is_surrogate(raw, i, '8', '9') || is_surrogate(raw, i, 'a', 'b');
        if (high && is_surrogate(raw, i + 6, 'c', 'f')) {
            i += 11;
            continue;
        }
        if (high || is_surrogate(raw, i, 'c', 'f'))
            return true;
        i++;
    }
    return false;
}

static struct span name_text(struct canon *c, struct span raw_name) {
    struct json as_string = {JSON_STRING, span_from(raw_name.at - 1, raw_name.n + 2)};
    return json_text(as_string, &c->arena);
}

static struct member *members_of(struct canon *c, struct json v, size_t *n) {
    struct member *list = arena_alloc(&c->arena, (json_count(v) + 1) * sizeof(*list));
    struct json_walk w;
    struct span raw_name;
    struct json value;
    *n = 0;
    json_walk_init(&w, v);
    while (list && json_walk_next(&w, &raw_name, &value)) {
        struct span name = name_text(c, raw_name);
        c->bad = c->bad || !name.at || has_lone_surrogate(raw_name);
        list[(*n)++] = (struct member){name, value};
    }
    if (!list)
        c->bad = true;
    else
        qsort(list, *n, sizeof(*list), member_order);
    return list;
}

static bool skipped(const struct canon *c, struct span name, bool outermost) {
    return among(name, c->skip_deep, c->n_skip_deep) || (outermost && among(name, c->skip, c->n_skip));
}

static void put_object(struct canon *c, struct json v, bool outermost) {
    size_t n;
    struct member *list = members_of(c, v, &n);
    bool first = true;
    str_putc(c->out, '{');
    for (size_t i = 0; i < n && !c->bad; i++) {
        if (i && member_order(&list[i - 1], &list[i]) == 0)
            c->bad = true;
        if (skipped(c, list[i].name, outermost))
            continue;
        if (!first)
            str_putc(c->out, ',');
        first = false;
        json_put_text(c->out, list[i].name);
        str_putc(c->out, ':');
        put_canonical(c, list[i].value, false);
    }
    str_putc(c->out, '}');
}

static void put_array(struct canon *c, struct json v) {
    struct json_walk w;
    struct json value;
    bool first = true;
    str_putc(c->out, '[');
    json_walk_init(&w, v);
    while (!c->bad && json_walk_next(&w, NULL, &value)) {
        if (!first)
            str_putc(c->out, ',');
        first = false;
        put_canonical(c, value, false);
    }
    str_putc(c->out, ']');
}

static void put_string(struct canon *c, struct json v) {
    struct span text = json_text(v, &c->arena);
    if (!text.at || has_lone_surrogate(v.raw))
        c->bad = true;
    else
        json_put_text(c->out, text);
}

/* Recursion is bounded by JSON_DEPTH_MAX: json_check has accepted the document. */
static void put_canonical(struct canon *c, struct json v, bool outermost) {
    if (v.kind == JSON_OBJECT)
        put_object(c, v, outermost);
    else if (v.kind == JSON_ARRAY)
        put_array(c, v);
    else if (v.kind == JSON_STRING)
        put_string(c, v);
    else if (v.kind == JSON_NUMBER)
        put_number(c->out, v.raw);
    else
        str_put(c->out, v.raw);
}

bool json_canonical(struct json v, const char *const *skip, size_t n_skip, const char *const *skip_deep,
                    size_t n_skip_deep, struct str *out) {
    struct canon c = {.out = out, .skip = skip, .n_skip = n_skip, .skip_deep = skip_deep, .n_skip_deep = n_skip_deep};
    arena_init(&c.arena, CANONICAL_ARENA_MAX);
    put_canonical(&c, v, true);
    arena_fini(&c.arena);
    return !c.bad && !out->over;
}
