/* Signatures over heads, by OpenSSL. What is signed is text, so that anyone can check it with common tools. */
#include "audit/sign.h"
#include "gateway/base/mem.h"
#include <assert.h>
#include <openssl/bio.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <stdio.h>
#include <stdlib.h>

#define SIGN_BYTES 64

struct sign_key {
    EVP_PKEY *key; /* owned */
};

/* A key under a pass phrase is refused; the default would ask on the terminal. */
static int no_phrase(char *buffer, int size, int writing, void *user) {
    (void)buffer, (void)size, (void)writing, (void)user;
    return -1;
}

static EVP_PKEY *read_pem(const char *pem, EVP_PKEY *(*read)(BIO *, EVP_PKEY **, pem_password_cb *, void *)) {
    BIO *bio = BIO_new_mem_buf(pem, -1);
    EVP_PKEY *key = bio ? read(bio, NULL, no_phrase, NULL) : NULL;
    BIO_free(bio);
    return key;
}

static struct sign_key *wrap(EVP_PKEY *key, struct str *why) {
    if (!key || EVP_PKEY_id(key) != EVP_PKEY_ED25519) {
        EVP_PKEY_free(key);
        str_puts(why, "the key that signs heads is not an Ed25519 key in PEM");
        return NULL;
    }
    struct sign_key *k = xcalloc(1, sizeof *k);
    k->key = key;
    return k;
}

struct sign_key *sign_key_private(const char *pem, struct str *why) {
    return wrap(read_pem(pem, PEM_read_bio_PrivateKey), why);
}

struct sign_key *sign_key_public(const char *pem, struct str *why) {
    EVP_PKEY *key = read_pem(pem, PEM_read_bio_PUBKEY);
    return wrap(key ? key : read_pem(pem, PEM_read_bio_PrivateKey), why);
}

void sign_key_free(struct sign_key *k) {
    if (k)
        EVP_PKEY_free(k->key);
    free(k);
}

struct span sign_text(const struct sign_head *h, char out[SIGN_TEXT_MAX]) {
    int n = snprintf(out, SIGN_TEXT_MAX, "tollgate audit head\n%s\n%llu\n%.*s\n%.*s\n", h->chain,
                     (unsigned long long)h->seq, SPAN_ARG(h->hash), SPAN_ARG(h->time));
    return span_from(out, n < 0 || n >= SIGN_TEXT_MAX ? 0 : (size_t)n);
}

void sign_make(const struct sign_key *k, const struct sign_head *h, char out[SIGN_HEX_MAX]) {
    char text[SIGN_TEXT_MAX];
    uint8_t bytes[SIGN_BYTES];
    size_t n = sizeof bytes;
    struct span s = sign_text(h, text);
    EVP_MD_CTX *c = EVP_MD_CTX_new();
    int good = s.n && c && EVP_DigestSignInit(c, NULL, NULL, NULL, k->key) == 1 &&
               EVP_DigestSign(c, bytes, &n, (const unsigned char *)s.at, s.n) == 1;
    EVP_MD_CTX_free(c);
    assert(good && n == sizeof bytes);
    hex_put(bytes, n, out);
}

bool sign_check(const struct sign_key *k, const struct sign_head *h, struct span hex) {
    char text[SIGN_TEXT_MAX];
    uint8_t bytes[SIGN_BYTES];
    struct span s = sign_text(h, text);
    if (!s.n || !hex_read(hex, bytes, sizeof bytes))
        return false;
    EVP_MD_CTX *c = EVP_MD_CTX_new();
    bool good = c && EVP_DigestVerifyInit(c, NULL, NULL, NULL, k->key) == 1 &&
                EVP_DigestVerify(c, bytes, sizeof bytes, (const unsigned char *)s.at, s.n) == 1;
    EVP_MD_CTX_free(c);
    return good;
}
