/* A thin cover over OpenSSL's AES-256-GCM. Always true: what does not open leaves no byte of itself behind. */
#include "gateway/base/seal.h"

#include "gateway/base/hash.h"

#include <assert.h>
#include <limits.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>

#define KEY_TEXT_MAX 128 /* of a key as text: what is longer is no key */

static EVP_CIPHER_CTX *begin(const uint8_t *key, const uint8_t *nonce, struct span with, int closes) {
    EVP_CIPHER_CTX *c = EVP_CIPHER_CTX_new();
    int n = 0, ok = c && with.n <= INT_MAX && EVP_CipherInit_ex2(c, EVP_aes_256_gcm(), key, nonce, closes, NULL) == 1;
    ok = ok && (!with.n || EVP_CipherUpdate(c, NULL, &n, (const uint8_t *)with.at, (int)with.n) == 1);
    assert(ok);
    return c;
}

void seal_close(const uint8_t key[SEAL_KEY_BYTES], const uint8_t nonce[SEAL_NONCE_BYTES], struct span with,
                struct span plain, uint8_t *out) {
    int n = 0, last = 0;
    EVP_CIPHER_CTX *c = begin(key, nonce, with, 1);
    int ok =
        plain.n <= INT_MAX && (!plain.n || EVP_CipherUpdate(c, out, &n, (const uint8_t *)plain.at, (int)plain.n) == 1);
    ok = ok && EVP_CipherFinal_ex(c, out + n, &last) == 1 &&
         EVP_CIPHER_CTX_ctrl(c, EVP_CTRL_AEAD_GET_TAG, SEAL_TAG_BYTES, out + plain.n) == 1;
    assert(ok);
    EVP_CIPHER_CTX_free(c);
}

bool seal_open(const uint8_t key[SEAL_KEY_BYTES], const uint8_t nonce[SEAL_NONCE_BYTES], struct span with,
               struct span sealed, uint8_t *out) {
    uint8_t tag[SEAL_TAG_BYTES];
    int n = 0, last = 0;
    if (sealed.n < SEAL_TAG_BYTES || sealed.n > INT_MAX)
        return false;
    size_t bytes = sealed.n - SEAL_TAG_BYTES;
    memcpy(tag, sealed.at + bytes, sizeof tag);
    EVP_CIPHER_CTX *c = begin(key, nonce, with, 0);
    bool good = (!bytes || EVP_CipherUpdate(c, out, &n, (const uint8_t *)sealed.at, (int)bytes) == 1) &&
                EVP_CIPHER_CTX_ctrl(c, EVP_CTRL_AEAD_SET_TAG, SEAL_TAG_BYTES, tag) == 1 &&
                EVP_CipherFinal_ex(c, out + n, &last) == 1;
    EVP_CIPHER_CTX_free(c);
    if (!good)
        seal_forget(out, bytes);
    return good;
}

static struct span trimmed(struct span s) {
    while (s.n && strchr(" \t\r\n", s.at[s.n - 1]))
        s.n--;
    while (s.n && strchr(" \t\r\n", s.at[0]))
        s.at++, s.n--;
    return s;
}

bool seal_key_read(struct span text, uint8_t key[SEAL_KEY_BYTES]) {
    struct str bytes;
    text = trimmed(text);
    if (hex_read(text, key, SEAL_KEY_BYTES))
        return true;
    str_init(&bytes, KEY_TEXT_MAX);
    bool good = text.n <= KEY_TEXT_MAX && base64_read(text, &bytes) && bytes.n == SEAL_KEY_BYTES;
    if (good)
        memcpy(key, bytes.at, SEAL_KEY_BYTES);
    if (bytes.at)
        seal_forget(bytes.at, bytes.n);
    str_fini(&bytes);
    return good;
}

void seal_forget(void *secret, size_t n) {
    OPENSSL_cleanse(secret, n);
}
