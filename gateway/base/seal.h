/* AES-256-GCM: bytes that only the key's holder reads, and that nobody changes unseen. */
#ifndef TOLLGATE_BASE_SEAL_H
#define TOLLGATE_BASE_SEAL_H

#include "gateway/base/span.h"

#define SEAL_KEY_BYTES 32
#define SEAL_NONCE_BYTES 12
#define SEAL_TAG_BYTES 16

/* Writes plain.n + SEAL_TAG_BYTES bytes. A nonce is used once a key. `with` is bound, not stored. */
void seal_close(const uint8_t key[SEAL_KEY_BYTES], const uint8_t nonce[SEAL_NONCE_BYTES], struct span with,
                struct span plain, uint8_t *out);
/* Writes sealed.n - SEAL_TAG_BYTES bytes. False: another key, nonce or `with`, or a byte was changed; out is zeroed. */
must_check bool seal_open(const uint8_t key[SEAL_KEY_BYTES], const uint8_t nonce[SEAL_NONCE_BYTES], struct span with,
                          struct span sealed, uint8_t *out);
/* 32 bytes as 64 hex digits or as base64, white space around them allowed. */
must_check bool seal_key_read(struct span text, uint8_t key[SEAL_KEY_BYTES]);
void seal_forget(void *secret, size_t n); /* zeroes, whatever the compiler thinks of it */

#endif
