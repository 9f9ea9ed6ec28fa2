/* Characters: UTF-8 in and out, the three properties that pre-tokenisers look at, and NFC (tables made by unicode.py). */
#ifndef TOLLGATE_DECODE_UNICODE_H
#define TOLLGATE_DECODE_UNICODE_H

#include "gateway/base/span.h"

#define UTF8_BYTES_MAX 4
#define UNICODE_REPLACEMENT 0xfffdu

struct unicode_range {
    uint32_t first, last;
};
extern const struct unicode_range unicode_letters[], unicode_numbers[], unicode_spaces[];
extern const size_t unicode_letters_n, unicode_numbers_n, unicode_spaces_n;

struct unicode_class {
    uint32_t first, last;
    uint8_t combining;
};
struct unicode_parts {
    uint32_t whole, parts[4]; /* 0 behind the last */
};
struct unicode_pair {
    uint32_t first, second, whole;
};
extern const struct unicode_class unicode_classes[];
extern const struct unicode_parts unicode_parts[];
extern const struct unicode_pair unicode_pairs[];
extern const size_t unicode_classes_n, unicode_parts_n, unicode_pairs_n;

/* The first of n rows, in the order of a member of theirs, whose member is not below c; n: none. `key` is the first row's
 * member, and rows are whole numbers of it. */
size_t unicode_find(const uint32_t *key, size_t row_bytes, size_t n, uint32_t c);
bool unicode_is_letter(uint32_t c); /* \p{L} */
bool unicode_is_number(uint32_t c); /* \p{N} */
bool unicode_is_space(uint32_t c);  /* \s */

/* The character at the front of n >= 1 bytes and its length. Bytes that are no UTF-8 give one byte as U+FFFD. */
size_t utf8_next(const char *at, size_t n, uint32_t *c);
size_t utf8_put(uint32_t c, char out[UTF8_BYTES_MAX]);
/* What the first bytes of n >= 1 are: the length of a whole character; 0 when they may become one with more bytes; or
 * minus the number of bytes that can never be part of one. */
int utf8_look(const char *at, size_t n);
#define UNICODE_NFC_GROWTH 3 /* no text grows to more than this many times its bytes */
/* Appends the text in normal form C; bytes that are no UTF-8 stay as they are. O(n log n). */
void unicode_nfc(struct span text, struct str *out);

#endif
