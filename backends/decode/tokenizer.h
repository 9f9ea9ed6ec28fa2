/* Text to tokens and back, from tokenizer.json. Text that comes from outside cannot become a control token: those are put by
 * id, or where a template wrote all of their bytes. */
#ifndef TOLLGATE_DECODE_TOKENIZER_H
#define TOLLGATE_DECODE_TOKENIZER_H

#include "backends/decode/bpe.h"
#include "backends/decode/model_config.h"
#include "backends/decode/pretoken.h"
#include "backends/decode/tokenizer_added.h"
#include "gateway/base/map.h"

#define ADDED_TOKENS_MAX 65536
#define FRAME_TOKENS_MAX 8 /* what a post-processor puts before and after a text */
#define MERGES_MAX (1 << 22)

enum prefix { PREFIX_NEVER, PREFIX_FIRST, PREFIX_ALWAYS, PREFIX_EXACT };

struct tokenizer {
    struct file file; /* stays mapped: names without escapes are borrowed from it */
    struct arena text;
    struct span *bytes; /* [size] what a token stands for; at NULL: there is no such token */
    bool *control;      /* [size] never made from text, never shown as text */
    int64_t size;
    struct map ids; /* of pieces as they are written in the vocabulary; value: id + 1 */
    struct merges merges;
    enum pretoken_style style;
    bool digits, byte_level, byte_fallback, fuse_unk, ignore_merges;
    bool spaces;           /* SentencePiece: ' ' is written U+2581 */
    bool split_spaces;     /* SentencePiece: a word begins at every U+2581 */
    bool strips;           /* the first space of a decoded text is not part of it */
    enum prefix prefix;    /* a space put before a text */
    int32_t unk;           /* -1: none */
    int32_t byte_ids[256]; /* byte_level: the byte's token; byte_fallback: <0xHH>; -1: none */
    bool nfc;              /* text is brought into normal form C first */
    struct added *added;   /* owned */
    size_t n_added;
    struct added_tree as_written, as_normal; /* where they are looked for */
    int32_t before[FRAME_TOKENS_MAX], after[FRAME_TOKENS_MAX];
    size_t n_before, n_after;
};

must_check struct tokenizer *tokenizer_open(const char *directory, const struct model_config *c, struct str *why);
void tokenizer_close(struct tokenizer *t);
/* Appends the tokens of a text; `first`: nothing stands before it. */
void tokenizer_encode(const struct tokenizer *t, struct span text, bool first, struct tokens *out);
/* marks[i] is 1 where byte i came from a user; the rest may become control tokens. NULL: all came from one. */
void tokenizer_encode_marked(const struct tokenizer *t, struct span text, const uint8_t *marks, bool first,
                             struct tokens *out);
/* The form in which words are looked for, without a prefix. */
void tokenizer_normal_form(const struct tokenizer *t, struct span text, struct str *out);
int32_t tokenizer_find(const struct tokenizer *t, struct span piece); /* -1: there is none */
void tokenizer_set_control(struct tokenizer *t, int32_t id);
/* The bytes of a token in running text; empty for control tokens. They need not be whole characters. */
struct span tokenizer_bytes(const struct tokenizer *t, int32_t id);

/* The character that stands for a byte in a byte-level vocabulary, and back (-1: none). */
uint32_t byte_level_char(uint8_t byte);
int byte_level_byte(uint32_t c);

#endif
