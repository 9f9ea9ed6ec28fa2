/* Thin covers over OpenSSL and zlib: digests, randomness, encodings. */
#include "gateway/base/hash.h"

#include "gateway/base/mem.h"

#include <assert.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/random.h>
#include <zlib.h>

struct sha256 {
    EVP_MD_CTX *context; /* owned */
};

/* Fetched once: EVP_sha256() is looked up among the providers anew for each digest. Lives as long as the process. */
static EVP_MD *method;
static pthread_once_t method_once = PTHREAD_ONCE_INIT;

static void fetch_method(void) {
    method = EVP_MD_fetch(NULL, "SHA256", NULL);
    assert(method);
}

static const EVP_MD *sha256_method(void) {
    pthread_once(&method_once, fetch_method);
    return method;
}

void sha256(struct span bytes, uint8_t out[SHA256_BYTES]) {
    int ok = EVP_Digest(bytes.n ? bytes.at : "", bytes.n, out, NULL, sha256_method(), NULL);
    assert(ok == 1);
}

void hmac_sha256(struct span key, struct span bytes, uint8_t out[SHA256_BYTES]) {
    size_t n = 0;
    const unsigned char *made =
        EVP_Q_mac(NULL, "HMAC", NULL, "SHA256", NULL, key.n ? key.at : "", key.n,
                  (const unsigned char *)(bytes.n ? bytes.at : ""), bytes.n, out, SHA256_BYTES, &n);
    assert(made && n == SHA256_BYTES);
    (void)made;
}

struct sha256 *sha256_new(void) {
    struct sha256 *s = xcalloc(1, sizeof(*s));
    s->context = EVP_MD_CTX_new();
    assert(s->context);
    int ok = EVP_DigestInit_ex(s->context, sha256_method(), NULL);
    assert(ok == 1);
    return s;
}

void sha256_add(struct sha256 *s, struct span bytes) {
    if (bytes.n) {
        int ok = EVP_DigestUpdate(s->context, bytes.at, bytes.n);
        assert(ok == 1);
    }
}

void sha256_end(struct sha256 *s, uint8_t out[SHA256_BYTES]) {
    int ok = EVP_DigestFinal_ex(s->context, out, NULL);
    assert(ok == 1);
    EVP_MD_CTX_free(s->context);
    free(s);
}

char *base64_put(const uint8_t *bytes, size_t n, char *out) {
    out[EVP_EncodeBlock((uint8_t *)out, bytes, (int)n)] = '\0';
    return out;
}

static int base64_digit(char c) {
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const char *at = c ? strchr(digits, c) : NULL;
    return at ? (int)(at - digits) : -1;
}

bool base64_read(struct span text, struct str *out) {
    unsigned bits = 0;
    int n_bits = 0, padding = 0;
    for (; text.n && text.at[text.n - 1] == '=' && padding < 2; padding++)
        text.n--;
    for (size_t i = 0; i < text.n; i++) {
        int digit = base64_digit(text.at[i]);
        if (digit < 0)
            return false;
        bits = (bits << 6 | (unsigned)digit) & 0xffff;
        n_bits += 6;
        if (n_bits >= 8)
            str_putc(out, (char)(bits >> (n_bits -= 8)));
    }
    bool whole = padding == 0 || (text.n + (size_t)padding) % 4 == 0;
    return whole && text.n % 4 != 1 && !(bits & ((1u << n_bits) - 1)) && !out->over;
}

void sha256_one(struct sha256 *s, struct span bytes, uint8_t out[SHA256_BYTES]) {
    int ok = EVP_DigestInit_ex2(s->context, NULL, NULL);
    assert(ok == 1);
    sha256_add(s, bytes);
    ok = EVP_DigestFinal_ex(s->context, out, NULL);
    assert(ok == 1);
}

void sha256_free(struct sha256 *s) {
    EVP_MD_CTX_free(s->context);
    free(s);
}

#define HMAC_BLOCK_BYTES 64

struct hmac {
    struct sha256 *inner; /* owned */
    uint8_t outer[HMAC_BLOCK_BYTES];
};

struct hmac *hmac_new(struct span key) {
    struct hmac *h = xcalloc(1, sizeof(*h));
    uint8_t block[HMAC_BLOCK_BYTES] = {0};
    if (key.n > sizeof(block))
        sha256(key, block);
    else if (key.n)
        memcpy(block, key.at, key.n);
    for (size_t i = 0; i < sizeof(block); i++) {
        h->outer[i] = block[i] ^ 0x5c;
        block[i] ^= 0x36;
    }
    h->inner = sha256_new();
    sha256_add(h->inner, span_from(block, sizeof(block)));
    return h;
}

void hmac_add(struct hmac *h, struct span bytes) {
    sha256_add(h->inner, bytes);
}

void hmac_end(struct hmac *h, uint8_t out[SHA256_BYTES]) {
    uint8_t inner[SHA256_BYTES];
    sha256_end(h->inner, inner);
    struct sha256 *s = sha256_new();
    sha256_add(s, span_from(h->outer, sizeof(h->outer)));
    sha256_add(s, span_from(inner, sizeof(inner)));
    sha256_end(s, out);
    free(h);
}

char *hex_put(const uint8_t *bytes, size_t n, char *out) {
    static const char digits[] = "0123456789abcdef";
    for (size_t i = 0; i < n; i++) {
        out[2 * i] = digits[bytes[i] >> 4];
        out[2 * i + 1] = digits[bytes[i] & 15];
    }
    out[2 * n] = '\0';
    return out;
}

static int nibble(char c) {
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

bool hex_read(struct span text, uint8_t *out, size_t n) {
    if (text.n != 2 * n)
        return false;
    for (size_t i = 0; i < n; i++) {
        int high = nibble(text.at[2 * i]), low = nibble(text.at[2 * i + 1]);
        if (high < 0 || low < 0)
            return false;
        out[i] = (uint8_t)(high << 4 | low);
    }
    return true;
}

bool bytes_equal_secret(const void *a, const void *b, size_t n) {
    return CRYPTO_memcmp(a, b, n) == 0;
}

void random_bytes(void *out, size_t n) {
    for (size_t done = 0; done < n;) {
        ssize_t got = getrandom((char *)out + done, n - done, 0);
        if (got < 0)
            abort();
        done += (size_t)got;
    }
}

uint64_t random_u64(void) {
    uint64_t v;
    random_bytes(&v, sizeof(v));
    return v;
}

/* xorshift64*, Vigna 2016. */
uint64_t random_next(uint64_t *state) {
    assert(*state != 0);
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    return *state * UINT64_C(2685821657736338717);
}

uint32_t crc32_of(struct span bytes) {
    return (uint32_t)crc32_z(0, (const unsigned char *)bytes.at, bytes.n);
}
