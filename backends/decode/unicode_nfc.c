/* Normal form C: take characters apart, put marks in the order of their classes, put pairs together. Text below U+0300 is
 * in that form already and is passed on as it is, up to the character before the first one that may not be. */
#include "backends/decode/unicode.h"
#include "gateway/base/mem.h"

#include <stdlib.h>

#define PLAIN_BELOW 0x300u /* no character below combines with what stands before it */
#define HANGUL 0xac00u
#define LEAD 0x1100u
#define VOWEL 0x1161u
#define TAIL 0x11a7u
#define VOWELS 21u
#define TAILS 28u
#define HANGULS 11172u
#define BAD_BYTE 0x80000000u /* with a byte that is no UTF-8 in the low bits */

struct point {
    uint32_t c;
    uint32_t at; /* keeps equal classes in order */
    uint8_t combining;
};
struct points {
    struct point *at; /* owned */
    size_t n, capacity;
};

static uint8_t class_of(uint32_t c) {
    size_t at = unicode_find(&unicode_classes->last, sizeof *unicode_classes, unicode_classes_n, c);
    return at < unicode_classes_n && c >= unicode_classes[at].first ? unicode_classes[at].combining : 0;
}

static void put(struct points *p, uint32_t c) {
    if (p->n == p->capacity) {
        p->capacity = p->capacity ? p->capacity * 2 : 64;
        p->at = xrealloc(p->at, p->capacity * sizeof *p->at);
    }
    p->at[p->n] = (struct point){c, (uint32_t)p->n, c < PLAIN_BELOW ? 0 : class_of(c)};
    p->n++;
}

static const struct unicode_parts *parts_of(uint32_t c) {
    size_t at = unicode_find(&unicode_parts->whole, sizeof *unicode_parts, unicode_parts_n, c);
    return at < unicode_parts_n && unicode_parts[at].whole == c ? &unicode_parts[at] : NULL;
}

static void take_apart(struct points *p, uint32_t c) {
    const struct unicode_parts *parts = c < 0xc0 ? NULL : parts_of(c);
    if (c - HANGUL < HANGULS) {
        uint32_t i = c - HANGUL;
        put(p, LEAD + i / (VOWELS * TAILS));
        put(p, VOWEL + i % (VOWELS * TAILS) / TAILS);
        if (i % TAILS)
            put(p, TAIL + i % TAILS);
        return;
    }
    if (!parts) {
        put(p, c);
        return;
    }
    for (size_t i = 0; i < ARRAY_LEN(parts->parts) && parts->parts[i]; i++)
        put(p, parts->parts[i]);
}

static int by_class(const void *a, const void *b) {
    const struct point *x = a, *y = b;
    if (x->combining != y->combining)
        return x->combining < y->combining ? -1 : 1;
    return x->at < y->at ? -1 : 1;
}

static void order(struct points *p) {
    for (size_t i = 0, n; i < p->n; i += n) {
        for (n = 0; i + n < p->n && p->at[i + n].combining; n++)
            ;
        if (n > 1)
            qsort(p->at + i, n, sizeof *p->at, by_class);
        n += n == 0;
    }
}

/* What two characters are together; 0: nothing. */
static uint32_t together(uint32_t a, uint32_t b) {
    if (a - LEAD < 19 && b - VOWEL < VOWELS)
        return HANGUL + ((a - LEAD) * VOWELS + (b - VOWEL)) * TAILS;
    if (a - HANGUL < HANGULS && (a - HANGUL) % TAILS == 0 && b - TAIL - 1 < TAILS - 1)
        return a + (b - TAIL);
    size_t from = 0, to = unicode_pairs_n;
    while (from < to) {
        size_t middle = (from + to) / 2;
        const struct unicode_pair *m = &unicode_pairs[middle];
        if (a > m->first || (a == m->first && b > m->second))
            from = middle + 1;
        else
            to = middle;
    }
    const struct unicode_pair *m = &unicode_pairs[from];
    return from < unicode_pairs_n && m->first == a && m->second == b ? m->whole : 0;
}

/* A mark joins the last starter unless one of its own class or higher stands between them. */
static void compose(struct points *p) {
    size_t n = 0, starter = (size_t)-1;
    int last = -1; /* class of what was kept behind the starter; -1: nothing */
    for (size_t i = 0; i < p->n; i++) {
        struct point one = p->at[i];
        uint32_t whole = starter != (size_t)-1 && last < one.combining ? together(p->at[starter].c, one.c) : 0;
        if (whole) {
            p->at[starter].c = whole;
            continue;
        }
        if (one.combining == 0) {
            starter = n;
            last = -1;
        } else
            last = one.combining;
        p->at[n++] = one;
    }
    p->n = n;
}

static void emit(const struct points *p, struct str *out) {
    char bytes[UTF8_BYTES_MAX];
    for (size_t i = 0; i < p->n; i++)
        if (p->at[i].c & BAD_BYTE)
            str_putc(out, (char)p->at[i].c);
        else
            str_put(out, span_from(bytes, utf8_put(p->at[i].c, bytes)));
}

/* Bytes at the front that nothing behind them changes. */
static size_t plain_bytes(struct span s) {
    size_t last = 0, i = 0;
    for (uint32_t c; i < s.n;) {
        size_t n = utf8_next(s.at + i, s.n - i, &c);
        if (c >= PLAIN_BELOW)
            return last;
        last = i;
        i += n;
    }
    return i;
}

void unicode_nfc(struct span text, struct str *out) {
    struct points p = {0};
    size_t plain = plain_bytes(text);
    str_put(out, span_from(text.at, plain));
    for (size_t i = plain, n; i < text.n; i += n) {
        uint32_t c;
        n = utf8_next(text.at + i, text.n - i, &c);
        if (n == 1 && (uint8_t)text.at[i] >= 0x80)
            put(&p, BAD_BYTE | (uint8_t)text.at[i]);
        else
            take_apart(&p, c);
    }
    order(&p);
    compose(&p);
    emit(&p, out);
    free(p.at);
}
