/* Borrowed bytes, growable bytes, and the words every room shares.
 *
 * A span borrows: it never owns, and is not NUL-terminated. A str owns its bytes and is born with its maximum; a write
 * past it is dropped whole and sets `over`, so a writer appends without checking and looks once at the end. */
#ifndef TOLLGATE_BASE_SPAN_H
#define TOLLGATE_BASE_SPAN_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define must_check __attribute__((warn_unused_result))
#define printf_like(fmt, args) __attribute__((format(printf, fmt, args)))
#define ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))

struct span {
    const char *at; /* borrowed; may be NULL when n is 0 */
    size_t n;       /* bytes */
};

#define SPAN(literal) ((struct span){(literal), sizeof(literal) - 1})
#define SPAN_NONE ((struct span){NULL, 0})
/* For printf: "%.*s". */
#define SPAN_ARG(s) (int)(s).n, (s).at

static inline struct span span_of(const char *text) {
    return (struct span){text, text ? strlen(text) : 0};
}
static inline struct span span_from(const void *at, size_t n) {
    return (struct span){at, n};
}
bool span_equal(struct span a, struct span b);
bool span_is(struct span a, const char *text);
bool span_is_nocase(struct span a, const char *text); /* ASCII only */
bool span_starts(struct span a, const char *prefix);
struct span span_trim(struct span a); /* spaces and tabs at both ends */
size_t span_line(struct span a);      /* bytes before the first CR or LF */
/* Cuts the part before the first `sep` off `rest`; false when `rest` is used up. Empty parts are given too. */
bool span_cut(struct span *rest, char sep, struct span *part);
/* Decimal digits only, no sign, no overflow; false otherwise. */
must_check bool span_to_i64(struct span a, int64_t *out);

/* The edit distance of two words, for guesses; large when either is over 64 bytes. */
int span_distance(struct span a, struct span b);
/* The nearest of n words to `word` when it is near enough to be a slip, else NULL. */
const char *span_guess(struct span word, const char *const *words, size_t n);

struct str {
    char *at;        /* owned; NUL-terminated whenever it is not NULL */
    size_t n;        /* bytes written */
    size_t capacity; /* bytes allocated */
    size_t max;      /* bytes it may ever hold */
    bool over;       /* a write did not fit: the content is not to be used */
};

void str_init(struct str *s, size_t max);
void str_fini(struct str *s);
void str_clear(struct str *s); /* keeps the memory */
void str_put(struct str *s, struct span bytes);
void str_puts(struct str *s, const char *text);
void str_putc(struct str *s, char c);
void str_printf(struct str *s, const char *format, ...) printf_like(2, 3);
void str_vprintf(struct str *s, const char *format, va_list args);
/* Room for n more bytes, so that writing them cannot fail; false, and s as it was, when there is none. */
must_check bool str_reserve(struct str *s, size_t n);
void str_cut(struct str *s, size_t from_start); /* drops bytes at the front */
static inline struct span str_span(const struct str *s) {
    return (struct span){s->at, s->n};
}
/* Gives the bytes away (to be freed by free()) and leaves s empty. */
char *str_release(struct str *s);

#endif
