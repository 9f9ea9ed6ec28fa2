/* The one check of JSON from outside: RFC 8259 grammar, valid UTF-8, a depth. Iterative: nests use bits, not the stack. */
#include "gateway/base/json.h"

#include <assert.h>

struct check {
    const unsigned char *at;
    size_t n, i;
    int depth, depth_max;
    uint64_t objects; /* bit d: the nest at depth d is an object */
    const char *what;
};

static bool fail(struct check *c, const char *what) {
    c->what = what;
    return false;
}

static void skip_space(struct check *c) {
    while (c->i < c->n && (c->at[c->i] == ' ' || c->at[c->i] == '\t' || c->at[c->i] == '\n' || c->at[c->i] == '\r'))
        c->i++;
}

static bool peek_is(const struct check *c, unsigned char b) {
    return c->i < c->n && c->at[c->i] == b;
}

static bool take(struct check *c, unsigned char b) {
    if (!peek_is(c, b))
        return false;
    c->i++;
    return true;
}

/* Length of the well-formed UTF-8 sequence at `at` (Unicode table 3-7), 0 if there is none. */
static size_t utf8_length(const unsigned char *at, size_t n) {
    unsigned char a = at[0], low = 0x80, high = 0xBF;
    size_t length = a >= 0xC2 && a <= 0xDF ? 2 : (a & 0xF0) == 0xE0 ? 3 : a >= 0xF0 && a <= 0xF4 ? 4 : 0;
    if (length == 0 || n < length)
        return 0;
    if (a == 0xE0)
        low = 0xA0;
    if (a == 0xED)
        high = 0x9F;
    if (a == 0xF0)
        low = 0x90;
    if (a == 0xF4)
        high = 0x8F;
    if (at[1] < low || at[1] > high)
        return 0;
    for (size_t i = 2; i < length; i++)
        if ((at[i] & 0xC0) != 0x80)
            return 0;
    return length;
}

static bool is_hex(unsigned char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

static bool check_escape(struct check *c) {
    if (c->i >= c->n)
        return fail(c, "unterminated string");
    unsigned char e = c->at[c->i++];
    if (e != 'u')
        return strchr("\"\\/bfnrt", e) && e ? true : fail(c, "unknown escape in a string");
    for (int k = 0; k < 4; k++)
        if (c->i >= c->n || !is_hex(c->at[c->i++]))
            return fail(c, "\\u needs four hexadecimal digits");
    return true;
}

#define EACH_BYTE(b) (UINT64_C(0x0101010101010101) * (b))

static uint64_t any_zero(uint64_t v) {
    return (v - EACH_BYTE(1)) & ~v & EACH_BYTE(0x80);
}

/* Eight bytes at a time; the last few, and those around the first that needs a look, one by one. */
size_t json_plain_bytes(const char *at, size_t n) {
    size_t i = 0;
    for (uint64_t v; n - i >= sizeof(v); i += sizeof(v)) {
        memcpy(&v, at + i, sizeof(v));
        uint64_t control = (v - EACH_BYTE(0x20)) & ~v;
        if (((v | control) & EACH_BYTE(0x80)) || any_zero(v ^ EACH_BYTE('"')) || any_zero(v ^ EACH_BYTE('\\')))
            break;
    }
    for (; i < n; i++)
        if ((unsigned char)at[i] < 0x20 || (unsigned char)at[i] >= 0x80 || at[i] == '"' || at[i] == '\\')
            break;
    return i;
}

static void skip_plain(struct check *c) {
    c->i += json_plain_bytes((const char *)c->at + c->i, c->n - c->i);
}

static bool check_string(struct check *c) {
    if (!take(c, '"'))
        return fail(c, "expected a string");
    for (skip_plain(c); c->i < c->n;) {
        unsigned char b = c->at[c->i];
        if (b == '"') {
            c->i++;
            return true;
        }
        if (b < 0x20)
            return fail(c, "control character in a string");
        if (b < 0x80) {
            c->i++;
            if (b == '\\' && !check_escape(c))
                return false;
            if (b == '\\')
                skip_plain(c);
            continue;
        }
        size_t length = utf8_length(c->at + c->i, c->n - c->i);
        if (length == 0)
            return fail(c, "invalid UTF-8");
        c->i += length;
        skip_plain(c);
    }
    return fail(c, "unterminated string");
}

static size_t take_digits(struct check *c) {
    size_t from = c->i;
    while (c->i < c->n && c->at[c->i] >= '0' && c->at[c->i] <= '9')
        c->i++;
    return c->i - from;
}

static bool check_number(struct check *c) {
    take(c, '-');
    if (!take(c, '0') && take_digits(c) == 0)
        return fail(c, "expected a value");
    if (take(c, '.') && take_digits(c) == 0)
        return fail(c, "a digit must follow the decimal point");
    if (take(c, 'e') || take(c, 'E')) {
        if (!take(c, '+'))
            take(c, '-');
        if (take_digits(c) == 0)
            return fail(c, "a digit must follow the exponent");
    }
    return true;
}

static bool check_word(struct check *c, const char *word) {
    size_t n = strlen(word);
    if (c->n - c->i < n || memcmp(c->at + c->i, word, n) != 0)
        return fail(c, "expected a value");
    c->i += n;
    return true;
}

static bool open_nest(struct check *c, bool object) {
    if (c->depth >= c->depth_max)
        return fail(c, "nested too deeply");
    c->i++;
    c->depth++;
    uint64_t bit = UINT64_C(1) << (c->depth - 1);
    c->objects = object ? c->objects | bit : c->objects & ~bit;
    return true;
}

static bool in_object(const struct check *c) {
    return c->objects >> (c->depth - 1) & 1;
}

static bool check_name(struct check *c) {
    skip_space(c);
    if (!check_string(c))
        return false;
    skip_space(c);
    return take(c, ':') ? true : fail(c, "expected ':' after a name");
}

/* A scalar, or the opening of a nest; *opened says which, and the nest is then not empty. */
static bool check_begin(struct check *c, bool *opened) {
    *opened = false;
    skip_space(c);
    if (c->i >= c->n)
        return fail(c, "unexpected end");
    unsigned char b = c->at[c->i];
    if (b == '"')
        return check_string(c);
    if (b == '-' || (b >= '0' && b <= '9'))
        return check_number(c);
    if (b != '{' && b != '[')
        return check_word(c, b == 't' ? "true" : b == 'f' ? "false" : "null");
    if (!open_nest(c, b == '{'))
        return false;
    skip_space(c);
    if (take(c, b == '{' ? '}' : ']')) {
        c->depth--;
        return true;
    }
    *opened = true;
    return b == '{' ? check_name(c) : true;
}

/* After a value: closes nests and goes on to the next value; *done when the outermost value is closed. */
static bool check_after(struct check *c, bool *done) {
    *done = false;
    while (c->depth > 0) {
        skip_space(c);
        if (take(c, ','))
            return in_object(c) ? check_name(c) : true;
        if (!take(c, in_object(c) ? '}' : ']'))
            return fail(c, in_object(c) ? "expected ',' or '}'" : "expected ',' or ']'");
        c->depth--;
    }
    *done = true;
    return true;
}

static enum json_kind kind_of(char first) {
    static const struct {
        char first;
        enum json_kind kind;
    } kinds[] = {{'{', JSON_OBJECT}, {'[', JSON_ARRAY}, {'"', JSON_STRING},
                 {'t', JSON_TRUE},   {'f', JSON_FALSE}, {'n', JSON_NULL}};
    for (size_t i = 0; i < ARRAY_LEN(kinds); i++)
        if (kinds[i].first == first)
            return kinds[i].kind;
    return JSON_NUMBER;
}

static bool check_document(struct check *c, size_t *from, size_t *to) {
    bool opened, done = false;
    skip_space(c);
    *from = c->i;
    while (!done)
        if (!check_begin(c, &opened) || (!opened && !check_after(c, &done)))
            return false;
    *to = c->i;
    skip_space(c);
    return c->i == c->n ? true : fail(c, "something stands after the value");
}

bool json_check(struct span text, int depth_max, struct json *out, struct json_fault *fault) {
    struct check c = {.at = (const unsigned char *)text.at, .n = text.n, .depth_max = depth_max};
    size_t from, to;
    assert(depth_max > 0 && depth_max <= JSON_DEPTH_MAX);
    *out = (struct json){0};
    if (!check_document(&c, &from, &to)) {
        if (fault)
            *fault = (struct json_fault){c.i, c.what};
        return false;
    }
    *out = (struct json){kind_of(text.at[from]), span_from(text.at + from, to - from)};
    return true;
}
