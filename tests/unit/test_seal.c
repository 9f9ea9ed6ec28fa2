#include "gateway/base/seal.h"

#include "gateway/base/hash.h"

#include <criterion/criterion.h>

/* Test case 16 of the GCM specification (McGrew and Viega): key, nonce, associated data, text and tag. */
Test(seal, a_published_case_comes_out_to_the_byte) {
    uint8_t key[SEAL_KEY_BYTES], nonce[SEAL_NONCE_BYTES], with[20], plain[60], out[60 + SEAL_TAG_BYTES];
    char hex[2 * sizeof out + 1];
    cr_assert(hex_read(SPAN("feffe9928665731c6d6a8f9467308308feffe9928665731c6d6a8f9467308308"), key, sizeof key));
    cr_assert(hex_read(SPAN("cafebabefacedbaddecaf888"), nonce, sizeof nonce));
    cr_assert(hex_read(SPAN("feedfacedeadbeeffeedfacedeadbeefabaddad2"), with, sizeof with));
    cr_assert(
        hex_read(SPAN("d9313225f88406e5a55909c5aff5269a86a7a9531534f7da2e4c303d8a318a721c3c0c95956809532fcf0e2449a6b52"
                      "5b16aedf5aa0de657ba637b39"),
                 plain, sizeof plain));
    seal_close(key, nonce, span_from(with, sizeof with), span_from(plain, sizeof plain), out);
    cr_assert_str_eq(
        hex_put(out, sizeof out, hex),
        "522dc1f099567d07f47f37a32a84427d643a8cdcbfe5c0c97598a2bd2555d1aa8cb08e48590dbb3da7b08b1056828838c5f6"
        "1e6393ba7a0abcc9f66276fc6ece0f4e1768cddf8853bb2d551b");
}

Test(seal, every_changed_bit_every_cut_and_every_other_binding_is_refused) {
    uint8_t key[SEAL_KEY_BYTES] = {7}, nonce[SEAL_NONCE_BYTES] = {9}, out[5 + SEAL_TAG_BYTES], back[5];
    seal_close(key, nonce, SPAN("with"), SPAN("plain"), out);
    cr_assert(seal_open(key, nonce, SPAN("with"), span_from(out, sizeof out), back) && !memcmp(back, "plain", 5));
    for (size_t bit = 0; bit < 8 * sizeof out; bit++) {
        out[bit / 8] ^= (uint8_t)(1 << bit % 8);
        cr_assert(!seal_open(key, nonce, SPAN("with"), span_from(out, sizeof out), back), "bit %zu", bit);
        out[bit / 8] ^= (uint8_t)(1 << bit % 8);
    }
    for (size_t n = 0; n < sizeof out; n++)
        cr_assert(!seal_open(key, nonce, SPAN("with"), span_from(out, n), back), "%zu bytes", n);
    cr_assert(!seal_open(key, nonce, SPAN("witH"), span_from(out, sizeof out), back));
    cr_assert_eq(back[0] | back[4], 0, "nothing of it is left behind");
    key[31] = 1;
    cr_assert(!seal_open(key, nonce, SPAN("with"), span_from(out, sizeof out), back));
}

Test(seal, keys_are_32_bytes_in_hex_or_base64) {
    uint8_t key[SEAL_KEY_BYTES], zero[SEAL_KEY_BYTES] = {0};
    char text[BASE64_MAX(SEAL_KEY_BYTES)];
    cr_assert(seal_key_read(SPAN(" 0000000000000000000000000000000000000000000000000000000000000000\r\n"), key));
    cr_assert_eq(memcmp(key, zero, sizeof key), 0);
    zero[3] = 200;
    cr_assert(seal_key_read(span_of(base64_put(zero, sizeof zero, text)), key));
    cr_assert_eq(memcmp(key, zero, sizeof key), 0);
    static const char *const bad[] = {"", "00", "0000000000000000000000000000000000000000000000000000000000000",
                                      "zz00000000000000000000000000000000000000000000000000000000000000", "AAAA"};
    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        cr_assert(!seal_key_read(span_of(bad[i]), key), "%s", bad[i]);
}
