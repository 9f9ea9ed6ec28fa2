/* TLS settings of both legs. Always true: nothing below TLS 1.2, peers of calls are verified by chain and by name, and a
 * session is offered again only to the target that gave it. */
#include "gateway/net/tls.h"

#include <arpa/inet.h>
#include <assert.h>
#include <openssl/x509v3.h>
#include <stdio.h>

static int session_slot = -1; /* ex_data index: where a new session is kept */

static void say(struct str *why, const char *what, const char *file) {
    char text[160];
    ERR_error_string_n(ERR_peek_error(), text, sizeof text);
    str_printf(why, "%s %s: %s", what, file, text);
    ERR_clear_error();
}

static SSL_CTX *context(const SSL_METHOD *method) {
    SSL_CTX *ctx = SSL_CTX_new(method);
    assert(ctx);
    SSL_CTX_set_min_proto_version(ctx, TLS1_2_VERSION);
    SSL_CTX_set_options(ctx, SSL_OP_NO_COMPRESSION | SSL_OP_NO_RENEGOTIATION);
    /* Idle connections give their record buffers back: tens of kilobytes each. */
    SSL_CTX_set_mode(ctx,
                     SSL_MODE_RELEASE_BUFFERS | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER | SSL_MODE_ENABLE_PARTIAL_WRITE);
    return ctx;
}

static int choose_protocol(SSL *ssl, const unsigned char **out, unsigned char *n, const unsigned char *in,
                           unsigned int in_n, void *arg) {
    static const unsigned char ours[] = "\x08http/1.1";
    unsigned char *chosen;
    (void)ssl, (void)arg;
    if (SSL_select_next_proto(&chosen, n, ours, sizeof ours - 1, in, in_n) != OPENSSL_NPN_NEGOTIATED)
        return SSL_TLSEXT_ERR_ALERT_FATAL;
    *out = chosen;
    return SSL_TLSEXT_ERR_OK;
}

SSL_CTX *tls_server_context(const char *certificate, const char *private_key, struct str *why) {
    SSL_CTX *ctx = context(TLS_server_method());
    ERR_clear_error();
    if (SSL_CTX_use_certificate_chain_file(ctx, certificate) != 1) {
        say(why, "cannot use the certificate", certificate);
    } else if (SSL_CTX_use_PrivateKey_file(ctx, private_key, SSL_FILETYPE_PEM) != 1 ||
               SSL_CTX_check_private_key(ctx) != 1) {
        say(why, "cannot use the private key", private_key);
    } else {
        SSL_CTX_set_alpn_select_cb(ctx, choose_protocol, NULL);
        return ctx;
    }
    SSL_CTX_free(ctx);
    return NULL;
}

static int keep_session(SSL *ssl, SSL_SESSION *session) {
    SSL_SESSION **slot = SSL_get_ex_data(ssl, session_slot);
    if (!slot)
        return 0;
    SSL_SESSION_free(*slot);
    *slot = session;
    return 1; /* the reference is ours now */
}

SSL_CTX *tls_client_context(const char *ca_file, struct str *why) {
    SSL_CTX *ctx = context(TLS_client_method());
    ERR_clear_error();
    if (session_slot < 0)
        session_slot = SSL_get_ex_new_index(0, NULL, NULL, NULL, NULL);
    int loaded = ca_file ? SSL_CTX_load_verify_locations(ctx, ca_file, NULL) : SSL_CTX_set_default_verify_paths(ctx);
    if (loaded != 1) {
        say(why, "cannot use the certificate authorities in", ca_file ? ca_file : "the system's store");
        SSL_CTX_free(ctx);
        return NULL;
    }
    SSL_CTX_set_verify(ctx, SSL_VERIFY_PEER, NULL);
    SSL_CTX_set_session_cache_mode(ctx, SSL_SESS_CACHE_CLIENT | SSL_SESS_CACHE_NO_INTERNAL);
    SSL_CTX_sess_set_new_cb(ctx, keep_session);
    return ctx;
}

SSL *tls_server(SSL_CTX *ctx) {
    return SSL_new(ctx);
}

static bool is_address(const char *host) {
    unsigned char a[sizeof(struct in6_addr)];
    return inet_pton(AF_INET, host, a) == 1 || inet_pton(AF_INET6, host, a) == 1;
}

SSL *tls_client(SSL_CTX *ctx, const char *host, SSL_SESSION **session) {
    SSL *ssl = SSL_new(ctx);
    if (!ssl)
        return NULL;
    bool good;
    if (is_address(host)) {
        good = X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl), host) == 1;
    } else {
        SSL_set_hostflags(ssl, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
        good = SSL_set1_host(ssl, host) == 1 && SSL_set_tlsext_host_name(ssl, host) == 1;
    }
    if (!good) {
        SSL_free(ssl);
        return NULL;
    }
    SSL_set_ex_data(ssl, session_slot, session);
    if (*session)
        SSL_set_session(ssl, *session);
    return ssl;
}

void tls_error_text(SSL *ssl, char *out, size_t max) {
    unsigned long code = ERR_peek_last_error();
    long verify = SSL_get_verify_result(ssl);
    if (verify != X509_V_OK)
        snprintf(out, max, "the certificate is refused: %s", X509_verify_cert_error_string(verify));
    else if (code)
        snprintf(out, max, "TLS: %s", ERR_reason_error_string(code) ? ERR_reason_error_string(code) : "error");
    else
        snprintf(out, max, "TLS: the connection failed");
    ERR_clear_error();
}
