/* Each matcher tries the alternatives of its expression in their order, as a backtracking engine would, and always takes at
 * least one character. Time is linear: a run of white space is looked at twice at most. */
#include "backends/decode/pretoken.h"

#include "backends/decode/unicode.h"

enum class { LETTER, NUMBER, SPACE, OTHER };

static enum class class_of(uint32_t c) {
    return unicode_is_letter(c)   ? LETTER
           : unicode_is_number(c) ? NUMBER
           : unicode_is_space(c)  ? SPACE
                                  : OTHER;
}

static enum class class_at(struct span s, size_t i) {
    uint32_t c; utf8_next(s.at + i, s.n - i, &c); return class_of(c);
}

/* Bytes of the run of `what` from i on, of at most `most` characters. */
static size_t run(struct span s, size_t i, enum class what, size_t most) {
    size_t from = i;
    for (uint32_t c; i < s.n && most; most--) {
        size_t n = utf8_next(s.at + i, s.n - i, &c);
        if (class_of(c) != what)
            break;
        i += n;
    }
    return i - from;
}

#define ALL ((size_t)-1)

static bool same(const char *at, const char *word, size_t n, bool fold) {
    for (size_t i = 0; i < n; i++) {
        char c = fold && at[i] >= 'A' && at[i] <= 'Z' ? (char)(at[i] + 32) : at[i];
        if (c != word[i])
            return false;
    }
    return true;
}

/* 's 't 're 've 'm 'll 'd; 0 when it is none. Folding case, the long s is an s. */
static size_t contraction(struct span s, bool fold) {
    static const char *const words[] = {"s", "t", "re", "ve", "m", "ll", "d"};
    if (s.n < 2 || s.at[0] != '\'')
        return 0;
    for (size_t i = 0; i < ARRAY_LEN(words); i++) {
        size_t n = strlen(words[i]);
        if (s.n > n && same(s.at + 1, words[i], n, fold))
            return n + 1;
    }
    return fold && s.n >= 3 && memcmp(s.at + 1, "\xc5\xbf", 2) == 0 ? 3 : 0;
}

/* \s+(?!\S)|\s+ : all of it at the end of the text, else all but the last character, but at least one. */
static size_t white_space(struct span s) {
    size_t n = 0, last = 0;
    for (uint32_t c; n < s.n; n += last) {
        size_t bytes = utf8_next(s.at + n, s.n - n, &c);
        if (!unicode_is_space(c))
            return n > last ? n - last : n;
        last = bytes;
    }
    return n;
}

static size_t gpt2(struct span s) {
    size_t n = contraction(s, false), skip = s.at[0] == ' ';
    if (n)
        return n;
    if (skip < s.n) {
        enum class what = class_at(s, skip);
        if (what != SPACE)
            return skip + run(s, skip, what, ALL);
    }
    return white_space(s);
}

static size_t line_ends(struct span s, size_t i) {
    size_t from = i;
    while (i < s.n && (s.at[i] == '\r' || s.at[i] == '\n'))
        i++;
    return i - from;
}

/* \s*[\r\n]+ : up to the last line end of the run; 0 when there is none. */
static size_t blank_lines(struct span s) {
    size_t n = run(s, 0, SPACE, ALL);
    while (n && s.at[n - 1] != '\r' && s.at[n - 1] != '\n')
        n--;
    return n;
}

static size_t llama3(struct span s, size_t digits) {
    size_t n = contraction(s, true), skip = s.at[0] == ' ';
    uint32_t c;
    if (n)
        return n;
    size_t first = utf8_next(s.at, s.n, &c);
    enum class what = class_of(c);
    if (what == LETTER)
        return run(s, 0, LETTER, ALL);
    if (what == NUMBER)
        return run(s, 0, NUMBER, digits);
    if (c != '\r' && c != '\n' && first < s.n && class_at(s, first) == LETTER)
        return first + run(s, first, LETTER, ALL);
    if (skip < s.n && class_at(s, skip) == OTHER) {
        n = skip + run(s, skip, OTHER, ALL);
        return n + line_ends(s, n);
    }
    n = blank_lines(s);
    return n ? n : white_space(s);
}

static size_t word_bytes(enum pretoken_style style, struct span s) {
    switch (style) {
    case PRETOKEN_GPT2:
        return gpt2(s);
    case PRETOKEN_LLAMA3:
        return llama3(s, 3);
    case PRETOKEN_QWEN2:
        return llama3(s, 1);
    case PRETOKEN_NONE:
        break;
    }
    return s.n;
}

bool pretoken_style_of(struct span regex, enum pretoken_style *out) {
#define TAIL "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define HEAD "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|"
    static const struct {
        const char *regex;
        enum pretoken_style style;
    } rows[] = {
        {"'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+", PRETOKEN_GPT2},
        {HEAD "\\p{N}{1,3}" TAIL, PRETOKEN_LLAMA3},
        {HEAD "\\p{N}" TAIL, PRETOKEN_QWEN2},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        *out = rows[i].style;
        if (span_is(regex, rows[i].regex))
            return true;
    }
    return false;
}

void pretoken_walk_init(struct pretoken_walk *w, struct span text, enum pretoken_style style, bool digits) {
    *w = (struct pretoken_walk){text, digits ? 0 : text.n, style, digits};
}

/* Up to the next number character; that character alone when it is one. */
static size_t section_bytes(struct span s) {
    uint32_t c;
    size_t n = utf8_next(s.at, s.n, &c);
    if (unicode_is_number(c))
        return n;
    for (size_t more; n < s.n; n += more) {
        more = utf8_next(s.at + n, s.n - n, &c);
        if (unicode_is_number(c))
            break;
    }
    return n;
}

bool pretoken_walk_next(struct pretoken_walk *w, struct span *word) {
    if (w->rest.n == 0)
        return false;
    if (w->section == 0)
        w->section = section_bytes(w->rest);
    size_t n = word_bytes(w->style, span_from(w->rest.at, w->section));
    *word = span_from(w->rest.at, n);
    w->rest = span_from(w->rest.at + n, w->rest.n - n);
    w->section -= n;
    return true;
}
