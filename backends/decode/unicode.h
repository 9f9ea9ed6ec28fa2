/* Characters: UTF-8 in and out, and the three properties that pre-tokenisers look at (tables made by unicode.py). */
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

bool unicode_is_letter(uint32_t c); /* \p{L} */
bool unicode_is_number(uint32_t c); /* \p{N} */
bool unicode_is_space(uint32_t c);  /* \s */

/* The character at the front of n >= 1 bytes and its length. Bytes that are no UTF-8 give one byte as U+FFFD. */
size_t utf8_next(const char *at, size_t n, uint32_t *c);
size_t utf8_put(uint32_t c, char out[UTF8_BYTES_MAX]);
/* What the first bytes of n >= 1 are: the length of a whole character; 0 when they may become one with more bytes; or
 * minus the number of bytes that can never be part of one. */
int utf8_look(const char *at, size_t n);

#endif
