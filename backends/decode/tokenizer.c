/* Encoding and decoding with a loaded tokenizer. Encoding goes: cut at added tokens that text may become, normalise, cut
 * into words, turn each word into symbols, merge. Control tokens are found only where no user wrote, and cannot come out
 * of a merge. */
#include "backends/decode/tokenizer.h"

#include "backends/decode/unicode.h"

#include <stdlib.h>

#define UNDERLINE "\xe2\x96\x81" /* U+2581, SentencePiece's space */
#define UNDERLINE_BYTES 3

struct encoder {
    const struct tokenizer *t;
    struct tokens *out;
    struct bpe_scratch scratch;
    bool last_unk; /* the word's last symbol is unk: another one may fuse with it */
};

uint32_t byte_level_char(uint8_t b) {
    if ((b >= 0x21 && b <= 0x7e) || (b >= 0xa1 && b <= 0xac) || b >= 0xae)
        return b;
    if (b <= 0x20)
        return 0x100u + b;
    return b == 0xad ? 0x143u : 0x121u + (b - 0x7fu);
}

int byte_level_byte(uint32_t c) {
    if (c < 0x100)
        return byte_level_char((uint8_t)c) == c ? (int)c : -1;
    if (c <= 0x120)
        return (int)c - 0x100;
    if (c <= 0x142)
        return (int)(c - 0x121 + 0x7f);
    return c == 0x143 ? 0xad : -1;
}

int32_t tokenizer_find(const struct tokenizer *t, struct span piece) {
    return (int32_t)(intptr_t)map_find(&t->ids, piece) - 1;
}

void tokenizer_set_control(struct tokenizer *t, int32_t id) {
    t->control[id] = true;
    if (t->unk == id)
        t->unk = -1;
}

struct span tokenizer_bytes(const struct tokenizer *t, int32_t id) {
    if (id < 0 || id >= t->size || t->control[id])
        return SPAN_NONE;
    return t->bytes[id];
}

static void put_symbol(struct encoder *e, int32_t id) {
    if (id >= 0)
        bpe_put(&e->scratch, id);
    e->last_unk = false;
}

static bool has_byte(const struct tokenizer *t, char byte) {
    int32_t id = t->byte_ids[(uint8_t)byte];
    return id >= 0 && !t->control[id];
}

static void put_unknown(struct encoder *e, struct span character) {
    const struct tokenizer *t = e->t;
    bool bytes = t->byte_fallback;
    for (size_t i = 0; i < character.n && bytes; i++)
        bytes = has_byte(t, character.at[i]);
    for (size_t i = 0; i < character.n && bytes; i++)
        put_symbol(e, t->byte_ids[(uint8_t)character.at[i]]);
    if (bytes || t->unk < 0 || (t->fuse_unk && e->last_unk))
        return;
    bpe_put(&e->scratch, t->unk);
    e->last_unk = true;
}

static void put_character(struct encoder *e, struct span character) {
    int32_t id = tokenizer_find(e->t, character);
    if (id >= 0 && !e->t->control[id])
        put_symbol(e, id);
    else
        put_unknown(e, character);
}

static void put_byte(struct encoder *e, uint8_t byte) {
    char character[UTF8_BYTES_MAX];
    if (has_byte(e->t, (char)byte))
        put_symbol(e, e->t->byte_ids[byte]);
    else
        put_unknown(e, span_from(character, utf8_put(byte_level_char(byte), character)));
}

/* A word that is a token as it stands, for models that say merges do not matter then. */
static int32_t whole_word(const struct tokenizer *t, struct span word) {
    char piece[512];
    size_t n = 0;
    if (!t->ignore_merges || word.n > sizeof piece / 2)
        return -1;
    for (size_t i = 0; i < word.n; i++)
        if (t->byte_level)
            n += utf8_put(byte_level_char((uint8_t)word.at[i]), piece + n);
        else
            piece[n++] = word.at[i];
    int32_t id = tokenizer_find(t, span_from(piece, n));
    return id >= 0 && !t->control[id] ? id : -1;
}

static void encode_word(struct encoder *e, struct span word) {
    int32_t whole = whole_word(e->t, word);
    if (whole >= 0) {
        tokens_put(e->out, whole);
        return;
    }
    bpe_start(&e->scratch);
    e->last_unk = false;
    for (size_t i = 0, n; i < word.n; i += n) {
        uint32_t c;
        n = e->t->byte_level ? 1 : utf8_next(word.at + i, word.n - i, &c);
        if (e->t->byte_level)
            put_byte(e, (uint8_t)word.at[i]);
        else
            put_character(e, span_from(word.at + i, n));
    }
    bpe_finish(&e->scratch, &e->t->merges, e->t->control, e->out);
}

static bool wants_prefix(const struct tokenizer *t, struct span text, bool first) {
    bool has_one = text.at[0] == ' ' || (t->spaces && span_starts(text, UNDERLINE));
    switch (t->prefix) {
    case PREFIX_NEVER:
        return false;
    case PREFIX_FIRST:
        return first && !has_one;
    case PREFIX_ALWAYS:
        return !has_one;
    case PREFIX_EXACT:
        break;
    }
    return true;
}

static void put_spaces(const struct tokenizer *t, struct span text, struct str *out) {
    const char *space = t->spaces ? UNDERLINE : " ";
    while (text.n) {
        const char *next = memchr(text.at, ' ', text.n);
        size_t n = next ? (size_t)(next - text.at) : text.n;
        str_put(out, span_from(text.at, n));
        if (next)
            str_puts(out, space);
        n += next ? 1 : 0;
        text = span_from(text.at + n, text.n - n);
    }
}

static void normalise(const struct tokenizer *t, struct span text, bool first, struct str *out) {
    if (wants_prefix(t, text, first))
        str_puts(out, t->spaces ? UNDERLINE : " ");
    put_spaces(t, text, out);
}

void tokenizer_normal_form(const struct tokenizer *t, struct span text, struct str *out) {
    struct str form;
    str_init(&form, text.n * UNICODE_NFC_GROWTH + UTF8_BYTES_MAX);
    if (t->nfc)
        unicode_nfc(text, &form);
    put_spaces(t, t->nfc ? str_span(&form) : text, out);
    str_fini(&form);
}

static void encode_split(struct encoder *e, struct span text) {
    while (text.n) {
        size_t from = span_starts(text, UNDERLINE) ? UNDERLINE_BYTES : 0;
        const char *next = memmem(text.at + from, text.n - from, UNDERLINE, UNDERLINE_BYTES);
        size_t n = next ? (size_t)(next - text.at) : text.n;
        encode_word(e, span_from(text.at, n));
        text = span_from(text.at + n, text.n - n);
    }
}

static void encode_normal(struct encoder *e, struct span text) {
    struct pretoken_walk w;
    struct span word;
    if (e->t->split_spaces) {
        encode_split(e, text);
        return;
    }
    pretoken_walk_init(&w, text, e->t->style, e->t->digits);
    while (pretoken_walk_next(&w, &word))
        encode_word(e, word);
}

/* Text in its normal form, in which the other added tokens are looked for. */
static void encode_normalised(struct encoder *e, struct span text) {
    struct added_walk w = {.tree = &e->t->as_normal, .all = e->t->added, .control = e->t->control};
    struct span plain;
    const struct added *token;
    for (added_walk_init(&w, text, NULL); added_walk_next(&w, &plain, &token);) {
        encode_normal(e, plain);
        if (token)
            tokens_put(e->out, token->id);
    }
}

static void encode_section(struct encoder *e, struct span text, bool first) {
    struct str form, normal;
    if (text.n == 0)
        return;
    str_init(&form, text.n * UNICODE_NFC_GROWTH + UTF8_BYTES_MAX);
    if (e->t->nfc) {
        unicode_nfc(text, &form);
        text = str_span(&form);
    }
    if (e->t->spaces || wants_prefix(e->t, text, first)) {
        str_init(&normal, text.n * UNDERLINE_BYTES + UNDERLINE_BYTES + 1);
        normalise(e->t, text, first, &normal);
        encode_normalised(e, str_span(&normal));
        str_fini(&normal);
    } else
        encode_normalised(e, text);
    str_fini(&form);
}

void tokenizer_encode_marked(const struct tokenizer *t, struct span text, const uint8_t *marks, bool first,
                             struct tokens *out) {
    struct encoder e = {.t = t, .out = out};
    struct added_walk w = {.tree = &t->as_written, .all = t->added, .control = t->control};
    struct span plain;
    const struct added *token;
    for (added_walk_init(&w, text, marks); added_walk_next(&w, &plain, &token);) {
        encode_section(&e, plain, first && plain.at == text.at);
        if (token)
            tokens_put(out, token->id);
    }
    bpe_scratch_fini(&e.scratch);
}

void tokenizer_encode(const struct tokenizer *t, struct span text, bool first, struct tokens *out) {
    tokenizer_encode_marked(t, text, NULL, first, out);
}
