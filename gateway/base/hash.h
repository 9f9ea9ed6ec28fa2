/* Digests and encodings, over OpenSSL where it has them. */
#ifndef TOLLGATE_BASE_HASH_H
#define TOLLGATE_BASE_HASH_H

#include "gateway/base/span.h"

#define SHA256_BYTES 32
#define SHA256_HEX_MAX 65 /* 64 digits and a NUL */

void sha256(struct span bytes, uint8_t out[SHA256_BYTES]);
void hmac_sha256(struct span key, struct span bytes, uint8_t out[SHA256_BYTES]); /* RFC 2104 */
struct hmac;                                                                     /* the same, running */
struct hmac *hmac_new(struct span key);
void hmac_add(struct hmac *h, struct span bytes);
void hmac_end(struct hmac *h, uint8_t out[SHA256_BYTES]); /* also frees h */
struct sha256;                                            /* running digest */
struct sha256 *sha256_new(void);
void sha256_add(struct sha256 *s, struct span bytes);
void sha256_end(struct sha256 *s, uint8_t out[SHA256_BYTES]); /* also frees s */
/* A digest of its own with a context that is kept: for many small pieces. Before anything is added. */
void sha256_one(struct sha256 *s, struct span bytes, uint8_t out[SHA256_BYTES]);
void sha256_free(struct sha256 *s);

#define BASE64_MAX(n) (((n) + 2) / 3 * 4 + 1)                       /* characters and the NUL */
char *base64_put(const uint8_t *bytes, size_t n, char *out);        /* padded, NUL-terminated; returns out */
must_check bool base64_read(struct span text, struct str *out);     /* the whole text, padded or not */
char *hex_put(const uint8_t *bytes, size_t n, char *out);           /* lower case, NUL-terminated; returns out */
must_check bool hex_read(struct span text, uint8_t *out, size_t n); /* exactly 2n digits */
bool bytes_equal_secret(const void *a, const void *b, size_t n);    /* constant time */

void random_bytes(void *out, size_t n); /* from the system; ends the process if there are none */
uint64_t random_u64(void);
/* xorshift for choices that need no secrecy; the state must not be 0. */
uint64_t random_next(uint64_t *state);

uint32_t crc32_of(struct span bytes); /* IEEE 802.3 */

#endif
