/* Ed25519 over a chain's head: "tollgate audit head\n<chain>\n<seq>\n<hash>\n<time>\n". */
#ifndef TOLLGATE_AUDIT_SIGN_H
#define TOLLGATE_AUDIT_SIGN_H

#include "gateway/base/hash.h"

#define SIGN_HEX_MAX 129

#define SIGN_TEXT_MAX 512

struct sign_key;
struct sign_head {
    const char *chain;
    uint64_t seq;
    struct span hash, time;
};
/* PEM text of a private key, or (checking only) of a public one. NULL with a sentence when it is not Ed25519. */
must_check struct sign_key *sign_key_private(const char *pem, struct str *why);
must_check struct sign_key *sign_key_public(const char *pem, struct str *why); /* takes a private key too */
void sign_key_free(struct sign_key *k);                                        /* k may be NULL */
struct span sign_text(const struct sign_head *h, char out[SIGN_TEXT_MAX]);     /* what is signed; empty: too long */
void sign_make(const struct sign_key *k, const struct sign_head *h, char out[SIGN_HEX_MAX]);
must_check bool sign_check(const struct sign_key *k, const struct sign_head *h, struct span hex);

#endif
