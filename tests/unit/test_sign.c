#include "audit/sign.h"
#include <criterion/criterion.h>
#include <openssl/evp.h>
#include <openssl/pem.h>

/* The first key of RFC 8032 section 7.1, in PEM. */
static const char private_pem[] = "-----BEGIN PRIVATE KEY-----\n"
                                  "MC4CAQAwBQYDK2VwBCIEIJ1hsZ3v/VpguoRK9JLsLMREScVpezJpGXA7rAMcrn9g\n"
                                  "-----END PRIVATE KEY-----\n";

Test(sign, a_signature_is_of_one_chain_seq_hash_and_time) {
    struct str why;
    char hex[SIGN_HEX_MAX];
    str_init(&why, 200);
    struct sign_key *key = sign_key_private(private_pem, &why), *check = sign_key_public(private_pem, &why);
    cr_assert(key && check, "%s", why.at);
    struct sign_head head = {"node.0", 7, SPAN("abcd"), SPAN("2026-11-30T12:00:00Z")};
    sign_make(key, &head, hex);
    cr_assert_eq(strlen(hex), SIGN_HEX_MAX - 1);
    cr_assert(sign_check(check, &head, span_of(hex)));
    struct sign_head others[] = {head, head, head, head};
    others[0].chain = "node.1";
    others[1].seq = 8;
    others[2].hash = SPAN("abce");
    others[3].time = SPAN("2026-11-30T12:00:01Z");
    for (size_t i = 0; i < ARRAY_LEN(others); i++)
        cr_assert(!sign_check(check, &others[i], span_of(hex)), "%zu", i);
    hex[5] = hex[5] == '0' ? '1' : '0';
    cr_assert(!sign_check(check, &head, span_of(hex)));
    cr_assert(!sign_check(check, &head, SPAN("")));
    sign_key_free(key);
    sign_key_free(check);
    str_fini(&why);
}

Test(sign, only_an_ed25519_key_signs) {
    struct str why;
    char pem[4096];
    EVP_PKEY *other = EVP_PKEY_Q_keygen(NULL, NULL, "X25519");
    BIO *out = BIO_new(BIO_s_mem());
    PEM_write_bio_PrivateKey(out, other, NULL, NULL, 0, NULL, NULL);
    pem[BIO_read(out, pem, sizeof pem - 1)] = 0;
    BIO_free(out);
    EVP_PKEY_free(other);
    str_init(&why, 200);
    cr_assert_null(sign_key_private(pem, &why));
    cr_assert(strstr(why.at, "Ed25519"));
    cr_assert_null(sign_key_private("", &why));
    cr_assert_null(sign_key_public("-----BEGIN PUBLIC KEY-----", &why));
    str_fini(&why);
}
