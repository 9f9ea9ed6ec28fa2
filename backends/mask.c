/* Foreign words made fit to be shown and logged: bounded, cut at a character, control characters gone, and without
 * what could open something: keys by their known beginnings, whatever follows `Bearer` or `key=`, long mixed strings,
 * and addresses. Always true: what comes out is valid UTF-8 and fits, and masking it again changes nothing that could
 * uncover more. */
#include "backends/dialect.h"

#include <ctype.h>
#include <strings.h>

#define SECRET_RUN_MIN 24 /* a run this long of mixed classes is taken for a key */
#define HEX_KEY_CHARS 32  /* Azure keys are bare hex */

static bool is_word(char c) {
    return isalnum((unsigned char)c) || c == '-' || c == '_' || c == '.' || c == '+' || c == '/' || c == '*' ||
           c == '~' || c == '%';
}

static bool starts_nocase(struct span s, const char *prefix) {
    size_t n = strlen(prefix);
    return s.n >= n && strncasecmp(s.at, prefix, n) == 0;
}

static bool known_key(struct span word) {
    static const char *const starts[] = {"sk-",  "sk_",  "AIza",  "gsk_", "xai-", "pplx-",  "hf_",
                                         "AKIA", "ASIA", "ya29.", "eyJ",  "ghp_", "nvapi-", "r8_"};
    for (size_t i = 0; i < ARRAY_LEN(starts); i++)
        if (word.n > strlen(starts[i]) + 3 && strncmp(word.at, starts[i], strlen(starts[i])) == 0)
            return true;
    return false;
}

/* One run without punctuation: names of models are words and numbers with dashes, keys are not. */
static bool run_is_random(struct span run) {
    size_t upper = 0, lower = 0, digit = 0, hex = 0;
    for (size_t i = 0; i < run.n; i++) {
        unsigned char c = (unsigned char)run.at[i];
        upper += isupper(c) != 0;
        lower += islower(c) != 0;
        digit += isdigit(c) != 0;
        hex += isxdigit(c) != 0;
    }
    if (hex == run.n && digit && run.n >= HEX_KEY_CHARS)
        return true;
    return run.n >= SECRET_RUN_MIN && upper && lower && digit;
}

static bool looks_random(struct span word) {
    for (size_t at = 0; at < word.n;) {
        size_t end = at;
        while (end < word.n && (isalnum((unsigned char)word.at[end]) || word.at[end] == '_' || word.at[end] == '+'))
            end++;
        if (run_is_random((struct span){word.at + at, end - at}))
            return true;
        at = end + 1;
    }
    return false;
}

/* After one of these the next word is a secret, whatever it looks like. */
static bool announces(struct span before) {
    static const char *const ends[] = {
        "bearer ", "basic ",          "key=",    "key:",      "key: ",     "token=", "token: ",
        "secret=", "authorization: ", "apikey ", "password=", "signature="};
    for (size_t i = 0; i < ARRAY_LEN(ends); i++) {
        size_t n = strlen(ends[i]);
        if (before.n >= n && strncasecmp(before.at + before.n - n, ends[i], n) == 0)
            return true;
    }
    return false;
}

static size_t word_end(struct span text, size_t at) {
    while (at < text.n && is_word(text.at[at]))
        at++;
    return at;
}

static size_t address_end(struct span text, size_t at) {
    while (at < text.n && (unsigned char)text.at[at] > ' ' && !strchr("\"'<>()[]{}", text.at[at]))
        at++;
    return at;
}

/* Length of the valid UTF-8 character at `at`, 0 if there is none. */
static size_t character(struct span text, size_t at) {
    unsigned char c = (unsigned char)text.at[at];
    size_t n = c < 0x80 ? 1 : c >= 0xC2 && c < 0xE0 ? 2 : c >= 0xE0 && c < 0xF0 ? 3 : c >= 0xF0 && c < 0xF5 ? 4 : 0;
    if (!n || at + n > text.n)
        return 0;
    for (size_t i = 1; i < n; i++)
        if (((unsigned char)text.at[at + i] & 0xC0) != 0x80)
            return 0;
    unsigned char d = n > 1 ? (unsigned char)text.at[at + 1] : 0;
    bool bad = (c == 0xE0 && d < 0xA0) || (c == 0xED && d > 0x9F) || (c == 0xF0 && d < 0x90) || (c == 0xF4 && d > 0x8F);
    return bad ? 0 : n;
}

struct sink {
    char *at;
    size_t n, size;
};

static bool sink_put(struct sink *s, const char *bytes, size_t n) {
    if (s->n + n >= s->size)
        return false;
    memcpy(s->at + s->n, bytes, n);
    s->n += n;
    return true;
}

/* Takes one unit of text; returns how far it went, or text.n when the sink is full. */
static size_t mask_step(struct span text, size_t at, struct sink *s) {
    struct span rest = {text.at + at, text.n - at};
    size_t end = word_end(text, at), n = character(text, at);
    struct span word = {rest.at, end - at};
    if (starts_nocase(rest, "http://") || starts_nocase(rest, "https://") || starts_nocase(rest, "wss://"))
        return sink_put(s, "[address]", 9) ? address_end(text, at) : text.n;
    if (word.n && (known_key(word) || looks_random(word) || announces((struct span){text.at, at})))
        return sink_put(s, "[masked]", 8) ? end : text.n;
    if (word.n)
        return sink_put(s, word.at, word.n) ? end : text.n;
    if ((unsigned char)text.at[at] < ' ' || text.at[at] == 0x7F)
        return sink_put(s, " ", 1) ? at + 1 : text.n;
    if (!n)
        return sink_put(s, "?", 1) ? at + 1 : text.n;
    return sink_put(s, rest.at, n) ? at + n : text.n;
}

void error_mask(struct span text, char *out, size_t size) {
    struct sink s = {out, 0, size};
    text = span_trim(text);
    for (size_t at = 0; at < text.n;)
        at = mask_step(text, at, &s);
    out[s.n] = 0;
}
