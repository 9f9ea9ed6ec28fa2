/* Byte-level BPE, made here: bytes first, then merges in the order they were found. The text is cut into words as GPT-2
 * does (`'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+`) and no token crosses a word.
 * The training text is ASCII, for which the classes below are exact; other bytes count as marks and still come back. */
#include "tests/models/tiny.h"

#include "gateway/base/mem.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

const char *const TINY_SPECIAL_TEXT[TINY_SPECIALS] = {"<|endoftext|>", "<|im_start|>", "<|im_end|>"};

enum letter { LETTER, DIGIT, SPACE, MARK };

static enum letter kind_of(char c) {
    if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'))
        return LETTER;
    if (c >= '0' && c <= '9')
        return DIGIT;
    return c == ' ' || (c >= '\t' && c <= '\r') ? SPACE : MARK;
}

static size_t contraction(const char *text, size_t n) {
    static const char *const ends[] = {"'s", "'t", "'re", "'ve", "'m", "'ll", "'d"};
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
        if (n >= strlen(ends[i]) && memcmp(text, ends[i], strlen(ends[i])) == 0)
            return strlen(ends[i]);
    return 0;
}

size_t tiny_word(const char *text, size_t n) {
    size_t end = contraction(text, n);
    if (end)
        return end;
    size_t from = text[0] == ' ' && n > 1 && kind_of(text[1]) != SPACE ? 1 : 0;
    enum letter kind = kind_of(text[from]);
    for (end = from; end < n && kind_of(text[end]) == kind; end++)
        ;
    if (kind == SPACE && end < n && end > 1)
        end--; /* the last space of a run belongs to the word behind it */
    return end;
}

void tiny_bpe_init(struct tiny_bpe *b) {
    memset(b, 0, sizeof *b);
    b->merged = xcalloc((size_t)TINY_VOCAB_MAX * TINY_VOCAB_MAX, sizeof *b->merged);
    b->n = TINY_SPECIALS + 256;
    for (int i = 0; i < 256; i++) {
        b->n_bytes[TINY_BYTE(i)] = 1;
        b->bytes[TINY_BYTE(i)][0] = (char)i;
    }
}

void tiny_bpe_fini(struct tiny_bpe *b) {
    free(b->merged);
    memset(b, 0, sizeof *b);
}

void tiny_bpe_add(struct tiny_bpe *b, int left, int right) {
    assert(b->n < TINY_VOCAB_MAX && b->n_bytes[left] + b->n_bytes[right] <= TINY_PIECE_MAX);
    int n = b->n++;
    b->left[n] = left;
    b->right[n] = right;
    b->n_bytes[n] = b->n_bytes[left] + b->n_bytes[right];
    memcpy(b->bytes[n], b->bytes[left], b->n_bytes[left]);
    memcpy(b->bytes[n] + b->n_bytes[left], b->bytes[right], b->n_bytes[right]);
    b->merged[left * TINY_VOCAB_MAX + right] = (uint16_t)n;
}

/* Replaces every left, right by `to`, leftmost first; the new length. */
static int merge(int *token, int n, int left, int right, int to) {
    int kept = 0;
    for (int i = 0; i < n; i++) {
        bool both = i + 1 < n && token[i] == left && token[i + 1] == right;
        token[kept++] = both ? to : token[i];
        i += both;
    }
    return kept;
}

/* Merged tokens are numbered in the order of merges, so the lowest number is the merge to do first. */
static int encode_word(const struct tiny_bpe *b, const char *word, size_t n, int *out) {
    int count = (int)n;
    for (size_t i = 0; i < n; i++)
        out[i] = TINY_BYTE(word[i]);
    for (;;) {
        int best = 0;
        for (int i = 0; i + 1 < count; i++) {
            int to = b->merged[out[i] * TINY_VOCAB_MAX + out[i + 1]];
            best = to && (!best || to < best) ? to : best;
        }
        if (!best)
            return count;
        count = merge(out, count, b->left[best], b->right[best], best);
    }
}

int tiny_bpe_encode(const struct tiny_bpe *b, const char *text, size_t n, int *out) {
    int count = 0;
    for (size_t at = 0, step; at < n; at += step) {
        step = tiny_word(text + at, n - at);
        count += encode_word(b, text + at, step, out + count);
    }
    return count;
}

size_t tiny_bpe_decode(const struct tiny_bpe *b, int token, char out[TINY_PIECE_MAX]) {
    memcpy(out, b->bytes[token], b->n_bytes[token]);
    return b->n_bytes[token];
}

/* --- training --- */
struct word {
    int at, n, count; /* its tokens in a common array; how often it stands in the text */
};
struct words {
    struct word *word; /* owned */
    int *token;        /* owned */
    int n, n_token;
    int *pair_count; /* owned, [TINY_VOCAB_MAX][TINY_VOCAB_MAX] */
};

static void words_add(struct words *w, const char *text, size_t n) {
    for (int i = 0; i < w->n; i++) {
        struct word *old = &w->word[i];
        if (old->n != (int)n)
            continue;
        size_t same = 0;
        while (same < n && w->token[old->at + (int)same] == TINY_BYTE(text[same]))
            same++;
        if (same == n) {
            old->count++;
            return;
        }
    }
    w->word[w->n++] = (struct word){w->n_token, (int)n, 1};
    for (size_t i = 0; i < n; i++)
        w->token[w->n_token++] = TINY_BYTE(text[i]);
}

static void words_count(struct words *w, int sign) {
    for (int i = 0; i < w->n; i++)
        for (int j = 0; j + 1 < w->word[i].n; j++) {
            const int *t = w->token + w->word[i].at + j;
            w->pair_count[t[0] * TINY_VOCAB_MAX + t[1]] += sign * w->word[i].count;
        }
}

/* The pair that stands most often; the lower one on a tie, so that the outcome is one. -1: none stands twice. */
static int words_best(const struct words *w, const struct tiny_bpe *b) {
    int best = -1, most = 1;
    for (int i = 0; i < b->n * TINY_VOCAB_MAX; i++)
        if (w->pair_count[i] > most &&
            b->n_bytes[i / TINY_VOCAB_MAX] + b->n_bytes[i % TINY_VOCAB_MAX] <= TINY_PIECE_MAX) {
            most = w->pair_count[i];
            best = i;
        }
    return best;
}

void tiny_bpe_train(struct tiny_bpe *b, const char *text, int vocab) {
    size_t n = strlen(text);
    struct words w = {.word = xcalloc(n + 1, sizeof *w.word), .token = xcalloc(n + 1, sizeof *w.token)};
    w.pair_count = xcalloc((size_t)TINY_VOCAB_MAX * TINY_VOCAB_MAX, sizeof *w.pair_count);
    for (size_t at = 0, step; at < n; at += step) {
        step = tiny_word(text + at, n - at);
        words_add(&w, text + at, step);
    }
    while (b->n < vocab) {
        words_count(&w, 1);
        int best = words_best(&w, b);
        words_count(&w, -1);
        if (best < 0)
            break;
        tiny_bpe_add(b, best / TINY_VOCAB_MAX, best % TINY_VOCAB_MAX);
        for (int i = 0; i < w.n; i++)
            w.word[i].n =
                merge(w.token + w.word[i].at, w.word[i].n, best / TINY_VOCAB_MAX, best % TINY_VOCAB_MAX, b->n - 1);
    }
    free(w.word), free(w.token), free(w.pair_count);
}
