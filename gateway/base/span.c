/* Spans and strs. Always true here: a str never holds more than its maximum, and once `over` is set its bytes stay as
 * they were before the write that did not fit. */
#include "gateway/base/mem.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

#define STR_FIRST_BYTES 64 /* the first allocation of a str */
#define GUESS_WORD_MAX 64  /* longer words are not compared: the table below lives on the stack */
#define GUESS_SLIPS_MAX 3  /* a word further away is no slip of the hand */

static char lower(char c) {
    return c >= 'A' && c <= 'Z' ? (char)(c + 32) : c;
}

bool span_equal(struct span a, struct span b) {
    return a.n == b.n && (a.n == 0 || memcmp(a.at, b.at, a.n) == 0);
}

bool span_is(struct span a, const char *text) {
    return span_equal(a, span_of(text));
}

bool span_is_nocase(struct span a, const char *text) {
    if (strlen(text) != a.n)
        return false;
    for (size_t i = 0; i < a.n; i++)
        if (lower(a.at[i]) != lower(text[i]))
            return false;
    return true;
}

bool span_starts(struct span a, const char *prefix) {
    size_t n = strlen(prefix);
    return a.n >= n && memcmp(a.at, prefix, n) == 0;
}

static bool is_blank(char c) {
    return c == ' ' || c == '\t';
}

struct span span_trim(struct span a) {
    while (a.n && is_blank(a.at[0]))
        a.at++, a.n--;
    while (a.n && is_blank(a.at[a.n - 1]))
        a.n--;
    return a;
}

#define LINE_STEP 1024 /* bytes looked through for one kind of line end before the other: against lines of one byte */

size_t span_line(struct span a) {
    for (size_t i = 0; i < a.n; i += LINE_STEP) {
        size_t n = a.n - i < LINE_STEP ? a.n - i : LINE_STEP;
        const char *at = a.at + i, *cr = memchr(at, '\r', n);
        const char *lf = memchr(at, '\n', cr ? (size_t)(cr - at) : n);
        if (lf || cr)
            return (size_t)((lf ? lf : cr) - a.at);
    }
    return a.n;
}

bool span_cut(struct span *rest, char sep, struct span *part) {
    if (!rest->at)
        return false;
    const char *end = memchr(rest->at, sep, rest->n);
    if (!end) {
        *part = *rest;
        *rest = SPAN_NONE;
        return true;
    }
    *part = span_from(rest->at, (size_t)(end - rest->at));
    *rest = span_from(end + 1, rest->n - part->n - 1);
    return true;
}

bool span_to_i64(struct span a, int64_t *out) {
    int64_t v = 0;
    if (a.n == 0)
        return false;
    for (size_t i = 0; i < a.n; i++) {
        if (a.at[i] < '0' || a.at[i] > '9')
            return false;
        if (__builtin_mul_overflow(v, 10, &v) || __builtin_add_overflow(v, a.at[i] - '0', &v))
            return false;
    }
    *out = v;
    return true;
}

static int min3(int a, int b, int c) {
    int m = a < b ? a : b;
    return m < c ? m : c;
}

/* Levenshtein's distance over two rows, with case folded. */
int span_distance(struct span a, struct span b) {
    int row[GUESS_WORD_MAX + 1];
    if (a.n > GUESS_WORD_MAX || b.n > GUESS_WORD_MAX)
        return GUESS_WORD_MAX;
    for (size_t j = 0; j <= b.n; j++)
        row[j] = (int)j;
    for (size_t i = 1; i <= a.n; i++) {
        int diagonal = row[0];
        row[0] = (int)i;
        for (size_t j = 1; j <= b.n; j++) {
            int above = row[j];
            int differs = lower(a.at[i - 1]) != lower(b.at[j - 1]);
            row[j] = min3(row[j - 1] + 1, above + 1, diagonal + differs);
            diagonal = above;
        }
    }
    return row[b.n];
}

const char *span_guess(struct span word, const char *const *words, size_t n) {
    const char *best = NULL;
    int limit = (int)word.n / 3 + 1;
    int best_distance = (limit < GUESS_SLIPS_MAX ? limit : GUESS_SLIPS_MAX) + 1;
    for (size_t i = 0; i < n; i++) {
        int d = span_distance(word, span_of(words[i]));
        if (d < best_distance) {
            best_distance = d;
            best = words[i];
        }
    }
    return best;
}

void str_init(struct str *s, size_t max) {
    *s = (struct str){.max = max};
}

void str_fini(struct str *s) {
    free(s->at);
    *s = (struct str){.max = s->max};
}

void str_clear(struct str *s) {
    s->n = 0;
    s->over = false;
    if (s->at)
        s->at[0] = '\0';
}

/* Takes memory for n more bytes and a NUL; false (and `over`) when the maximum or memory does not allow it. */
static bool grow(struct str *s, size_t n) {
    if (s->over || n > s->max - s->n) {
        s->over = true;
        return false;
    }
    size_t needed = s->n + n + 1, capacity = s->capacity ? s->capacity : STR_FIRST_BYTES;
    while (capacity < needed)
        capacity *= 2;
    char *at = mem_grow(s->at, capacity);
    if (!at) {
        s->over = true;
        return false;
    }
    s->at = at;
    s->capacity = capacity;
    return true;
}

/* Room for n more bytes and a NUL. */
static inline bool make_room(struct str *s, size_t n) {
    bool there = !s->over && n <= s->max - s->n && n < s->capacity - s->n;
    return there || grow(s, n);
}

bool str_reserve(struct str *s, size_t n) {
    bool over = s->over, good = make_room(s, n);
    s->over = over;
    return good;
}

void str_put(struct str *s, struct span bytes) {
    if (!make_room(s, bytes.n))
        return;
    if (bytes.n)
        memcpy(s->at + s->n, bytes.at, bytes.n);
    s->n += bytes.n;
    s->at[s->n] = '\0';
}

void str_puts(struct str *s, const char *text) {
    str_put(s, span_of(text));
}

void str_putc(struct str *s, char c) {
    if (!make_room(s, 1))
        return;
    s->at[s->n++] = c;
    s->at[s->n] = '\0';
}

/* Written where there is room already; only text that is longer than that is made twice. */
void str_vprintf(struct str *s, const char *format, va_list args) {
    va_list again;
    va_copy(again, args);
    size_t room = s->over ? 0 : s->capacity - s->n;
    int n = vsnprintf(room ? s->at + s->n : NULL, room, format, args);
    assert(n >= 0);
    bool fitted = (size_t)n < room && (size_t)n <= s->max - s->n;
    if (room && !fitted)
        s->at[s->n] = '\0';
    if (fitted || make_room(s, (size_t)n)) {
        if (!fitted)
            vsnprintf(s->at + s->n, (size_t)n + 1, format, again);
        s->n += (size_t)n;
    }
    va_end(again);
}

void str_printf(struct str *s, const char *format, ...) {
    va_list args;
    va_start(args, format);
    str_vprintf(s, format, args);
    va_end(args);
}

void str_cut(struct str *s, size_t from_start) {
    assert(from_start <= s->n);
    if (from_start == 0)
        return;
    memmove(s->at, s->at + from_start, s->n - from_start + 1);
    s->n -= from_start;
}

char *str_release(struct str *s) {
    char *at = s->at;
    *s = (struct str){.max = s->max};
    return at;
}
