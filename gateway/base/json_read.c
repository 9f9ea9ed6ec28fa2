/* Reading in place what json_check has accepted. Nothing here can run past a value: the grammar is known to hold. */
#include "gateway/base/json.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#define NUMBER_TEXT_MAX 400 /* longer decimal text is refused by json_f64: no double needs it */
#define EXPONENT_MAX 400    /* beyond it no int64 is left */

static size_t skip_space(const char *at, size_t i, size_t n) {
    while (i < n && (at[i] == ' ' || at[i] == '\t' || at[i] == '\n' || at[i] == '\r'))
        i++;
    return i;
}

static bool is_escaped(const char *first, const char *quote) {
    const char *from = quote;
    while (from > first && from[-1] == '\\')
        from--;
    return (quote - from) & 1;
}

/* From quote to quote: strings are most of the bytes, and every walk over an object steps over them again. */
static size_t skip_string(const char *at, size_t i) {
    const char *first = at + i + 1, *quote = rawmemchr(first, '"');
    while (is_escaped(first, quote))
        quote = rawmemchr(quote + 1, '"');
    return (size_t)(quote - at) + 1;
}

static size_t skip_nest(const char *at, size_t i) {
    for (size_t depth = 0;; i++) {
        if (at[i] == '"')
            i = skip_string(at, i) - 1;
        else if (at[i] == '{' || at[i] == '[')
            depth++;
        else if ((at[i] == '}' || at[i] == ']') && --depth == 0)
            return i + 1;
    }
}

static bool ends_scalar(char c) {
    return c == ',' || c == '}' || c == ']' || c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

static size_t skip_scalar(const char *at, size_t i, size_t n) {
    while (i < n && !ends_scalar(at[i]))
        i++;
    return i;
}

static struct json value_at(const char *at, size_t i, size_t n) {
    size_t end;
    enum json_kind kind;
    switch (at[i]) {
    case '"':
        kind = JSON_STRING, end = skip_string(at, i);
        break;
    case '{':
    case '[':
        kind = at[i] == '{' ? JSON_OBJECT : JSON_ARRAY, end = skip_nest(at, i);
        break;
    default:
        kind = at[i] == 't' ? JSON_TRUE : at[i] == 'f' ? JSON_FALSE : at[i] == 'n' ? JSON_NULL : JSON_NUMBER;
        end = skip_scalar(at, i, n);
    }
    return (struct json){kind, span_from(at + i, end - i)};
}

void json_walk_init(struct json_walk *w, struct json of) {
    *w = (struct json_walk){.object = of.kind == JSON_OBJECT};
    if (of.kind == JSON_OBJECT || of.kind == JSON_ARRAY)
        w->rest = span_from(of.raw.at + 1, of.raw.n - 2);
}

bool json_walk_next(struct json_walk *w, struct span *name, struct json *value) {
    const char *at = w->rest.at;
    size_t n = w->rest.n, i = skip_space(at, 0, n);
    struct span unused = SPAN_NONE;
    name = name ? name : &unused;
    *name = SPAN_NONE;
    if (i < n && at[i] == ',')
        i = skip_space(at, i + 1, n);
    if (i >= n)
        return false;
    if (w->object) {
        size_t end = skip_string(at, i);
        *name = span_from(at + i + 1, end - i - 2);
        i = skip_space(at, skip_space(at, end, n) + 1, n);
    }
    *value = value_at(at, i, n);
    size_t used = i + value->raw.n;
    w->rest = span_from(at + used, n - used);
    return true;
}

static unsigned hex4(const char *at) {
    unsigned v = 0;
    for (int k = 0; k < 4; k++) {
        char c = at[k];
        v = v << 4 | (unsigned)(c <= '9' ? c - '0' : (c | 32) - 'a' + 10);
    }
    return v;
}

static size_t utf8_put(unsigned code, char out[4]) {
    if (code < 0x80) {
        out[0] = (char)code;
        return 1;
    }
    size_t n = code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    for (size_t k = n - 1; k > 0; k--, code >>= 6)
        out[k] = (char)(0x80 | (code & 0x3F));
    out[0] = (char)((0xF00 >> n) | code);
    return n;
}

/* Decodes one escape at `at` (behind the backslash); a pair of surrogates is one character, a lone one is U+FFFD. */
static size_t unescape(const char *at, size_t left, char out[4], size_t *written) {
    static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
    if (at[0] != 'u') {
        out[0] = to[strchr(from, at[0]) - from];
        *written = 1;
        return 1;
    }
    unsigned code = hex4(at + 1);
    size_t used = 5;
    if (code >= 0xD800 && code <= 0xDBFF && left >= 11 && at[5] == '\\' && at[6] == 'u') {
        unsigned low = hex4(at + 7);
        if (low >= 0xDC00 && low <= 0xDFFF) {
            code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
            used = 11;
        }
    }
    if (code >= 0xD800 && code <= 0xDFFF)
        code = 0xFFFD;
    *written = utf8_put(code, out);
    return used;
}

/* Decodes the inside of a string into `out` (NULL: only counts); the result is never longer than the input. */
static size_t decode(struct span raw, char *out) {
    size_t n = 0;
    for (size_t i = 0; i < raw.n;) {
        char piece[4];
        const char *from = raw.at + i, *escape = memchr(from, '\\', raw.n - i);
        size_t written = escape ? (size_t)(escape - from) : raw.n - i;
        i += written;
        if (written == 0) {
            i += 1 + unescape(raw.at + i + 1, raw.n - i - 1, piece, &written);
            from = piece;
        }
        if (out)
            memcpy(out + n, from, written);
        n += written;
    }
    return n;
}

static struct span inside(struct json v) {
    return span_from(v.raw.at + 1, v.raw.n - 2);
}

bool json_name_is(struct span raw_name, const char *text) {
    if (span_is(raw_name, text))
        return true;
    if (raw_name.n == 0 || !memchr(raw_name.at, '\\', raw_name.n))
        return false;
    char *copy = malloc(raw_name.n + 1);
    if (!copy)
        return false;
    bool same = span_is(span_from(copy, decode(raw_name, copy)), text);
    free(copy);
    return same;
}

struct json json_get(struct json object, const char *name) {
    struct json found = {0}, value;
    struct json_walk w;
    struct span at;
    if (object.kind != JSON_OBJECT)
        return found;
    json_walk_init(&w, object);
    while (json_walk_next(&w, &at, &value))
        if (json_name_is(at, name))
            found = value;
    return found;
}

const char *json_pick(struct json object, const char *const *names, struct json *out, size_t n) {
    const char *twice = NULL;
    struct json value;
    struct json_walk w;
    struct span at;
    memset(out, 0, n * sizeof(*out));
    if (object.kind != JSON_OBJECT)
        return NULL;
    json_walk_init(&w, object);
    while (json_walk_next(&w, &at, &value)) {
        bool escaped = at.n && memchr(at.at, '\\', at.n);
        for (size_t i = 0; i < n; i++)
            if (escaped ? json_name_is(at, names[i]) : span_is(at, names[i])) {
                if (out[i].kind != JSON_NONE && !twice)
                    twice = names[i];
                out[i] = value;
            }
    }
    return twice;
}

struct json json_at(struct json array, size_t i) {
    struct json value;
    struct json_walk w;
    json_walk_init(&w, array);
    while (json_walk_next(&w, NULL, &value))
        if (i-- == 0)
            return value;
    return (struct json){0};
}

size_t json_count(struct json v) {
    size_t n = 0;
    struct json value;
    struct json_walk w;
    json_walk_init(&w, v);
    while (json_walk_next(&w, NULL, &value))
        n++;
    return n;
}

struct span json_text(struct json v, struct arena *a) {
    if (v.kind != JSON_STRING)
        return SPAN_NONE;
    struct span raw = inside(v);
    if (!memchr(raw.at, '\\', raw.n))
        return raw;
    char *copy = arena_alloc(a, raw.n + 1);
    if (!copy)
        return SPAN_NONE;
    return span_from(copy, decode(raw, copy));
}

size_t json_text_bytes(struct json v) {
    return v.kind == JSON_STRING ? decode(inside(v), NULL) : 0;
}

bool json_is(struct json v, const char *text) {
    return v.kind == JSON_STRING && json_name_is(inside(v), text);
}

/* A JSON number as digits and a decimal exponent: value = sign * digits * 10^exponent, zeros stripped at both ends. */
struct decimal {
    bool negative;
    struct span whole, fraction; /* the digits, in two pieces */
    int64_t exponent;            /* of the last digit of both pieces together */
};

static struct decimal decimal_of(struct span raw) {
    struct decimal d = {.negative = raw.at[0] == '-'};
    size_t i = d.negative, from = i;
    while (i < raw.n && raw.at[i] >= '0' && raw.at[i] <= '9')
        i++;
    d.whole = span_from(raw.at + from, i - from);
    if (i < raw.n && raw.at[i] == '.') {
        from = ++i;
        while (i < raw.n && raw.at[i] >= '0' && raw.at[i] <= '9')
            i++;
        d.fraction = span_from(raw.at + from, i - from);
    }
    if (i < raw.n) {
        bool minus = raw.at[i + 1] == '-';
        i += 1 + (minus || raw.at[i + 1] == '+');
        for (; i < raw.n; i++)
            if (d.exponent <= EXPONENT_MAX)
                d.exponent = d.exponent * 10 + raw.at[i] - '0';
        d.exponent = minus ? -d.exponent : d.exponent;
    }
    d.exponent -= (int64_t)d.fraction.n;
    return d;
}

static char digit_of(const struct decimal *d, size_t i) {
    return i < d->whole.n ? d->whole.at[i] : d->fraction.at[i - d->whole.n];
}

bool json_i64(struct json v, int64_t *out) {
    if (v.kind != JSON_NUMBER)
        return false;
    struct decimal d = decimal_of(v.raw);
    size_t n = d.whole.n + d.fraction.n;
    for (; n && digit_of(&d, n - 1) == '0'; n--)
        d.exponent++;
    int64_t value = 0;
    for (size_t i = 0; i < n; i++)
        if (__builtin_mul_overflow(value, 10, &value) || __builtin_sub_overflow(value, digit_of(&d, i) - '0', &value))
            return false;
    if (value != 0 && d.exponent < 0)
        return false;
    for (; value != 0 && d.exponent > 0; d.exponent--)
        if (__builtin_mul_overflow(value, 10, &value))
            return false;
    if (!d.negative && value == INT64_MIN)
        return false;
    *out = d.negative ? value : -value;
    return true;
}

bool json_f64(struct json v, double *out) {
    char text[NUMBER_TEXT_MAX];
    if (v.kind != JSON_NUMBER || v.raw.n >= sizeof(text))
        return false;
    memcpy(text, v.raw.at, v.raw.n);
    text[v.raw.n] = '\0';
    errno = 0;
    *out = strtod(text, NULL);
    return errno == 0 || *out == 0;
}

bool json_is_zero(struct json v) {
    if (v.kind != JSON_NUMBER)
        return false;
    struct decimal d = decimal_of(v.raw);
    for (size_t i = 0; i < d.whole.n + d.fraction.n; i++)
        if (digit_of(&d, i) != '0')
            return false;
    return true;
}
