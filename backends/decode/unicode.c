/* UTF-8 as RFC 3629 has it (no overlong forms, no surrogates, nothing over U+10FFFF) and look-ups in the generated
 * tables. */
#include "backends/decode/unicode.h"

size_t unicode_find(const uint32_t *key, size_t row_bytes, size_t n, uint32_t c) {
    size_t from = 0, to = n;
    while (from < to) {
        size_t middle = (from + to) / 2;
        if (c > key[middle * row_bytes / sizeof *key])
            from = middle + 1;
        else
            to = middle;
    }
    return from;
}

static bool in_table(const struct unicode_range *rows, size_t n, uint32_t c) {
    size_t at = unicode_find(&rows->last, sizeof *rows, n, c);
    return at < n && c >= rows[at].first;
}

bool unicode_is_letter(uint32_t c) {
    if (c < 0x80)
        return (c | 32) >= 'a' && (c | 32) <= 'z';
    return in_table(unicode_letters, unicode_letters_n, c);
}

bool unicode_is_number(uint32_t c) {
    if (c < 0x80)
        return c >= '0' && c <= '9';
    return in_table(unicode_numbers, unicode_numbers_n, c);
}

bool unicode_is_space(uint32_t c) {
    return in_table(unicode_spaces, unicode_spaces_n, c);
}

/* Length by the first byte, and the bounds of the second, which is where overlong forms and surrogates show. */
static int lead(uint8_t b, uint8_t *low, uint8_t *high) {
    *low = b == 0xe0 ? 0xa0 : b == 0xf0 ? 0x90 : 0x80;
    *high = b == 0xed ? 0x9f : b == 0xf4 ? 0x8f : 0xbf;
    return b < 0x80 ? 1 : b < 0xc2 ? -1 : b < 0xe0 ? 2 : b < 0xf0 ? 3 : b < 0xf5 ? 4 : -1;
}

int utf8_look(const char *at, size_t n) {
    uint8_t low, high;
    int length = lead((uint8_t)at[0], &low, &high);
    for (int i = 1; i < length; i++, low = 0x80, high = 0xbf) {
        if ((size_t)i == n)
            return 0;
        if ((uint8_t)at[i] < low || (uint8_t)at[i] > high)
            return -i;
    }
    return length;
}

size_t utf8_next(const char *at, size_t n, uint32_t *c) {
    static const uint8_t first_bits[] = {0, 0x7f, 0x1f, 0x0f, 0x07};
    int length = utf8_look(at, n);
    if (length <= 0) {
        *c = UNICODE_REPLACEMENT;
        return 1;
    }
    *c = (uint8_t)at[0] & first_bits[length];
    for (int i = 1; i < length; i++)
        *c = *c << 6 | ((uint8_t)at[i] & 0x3f);
    return (size_t)length;
}

size_t utf8_put(uint32_t c, char out[UTF8_BYTES_MAX]) {
    static const uint8_t marks[] = {0, 0, 0xc0, 0xe0, 0xf0};
    size_t n = c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
    for (size_t i = n; i-- > 1; c >>= 6)
        out[i] = (char)(0x80 | (c & 0x3f));
    out[0] = (char)(n == 1 ? c : marks[n] | c);
    return n;
}
