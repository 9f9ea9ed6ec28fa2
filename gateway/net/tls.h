/* TLS contexts and sessions; the bytes go through conn.c. */
#ifndef TOLLGATE_GATEWAY_TLS_H
#define TOLLGATE_GATEWAY_TLS_H

#include "gateway/base/span.h"

#include <openssl/err.h>
#include <openssl/ssl.h>

/* NULL with a sentence in why. */
must_check SSL_CTX *tls_server_context(const char *certificate, const char *private_key, struct str *why);
/* ca_file NULL: the system's roots. */
must_check SSL_CTX *tls_client_context(const char *ca_file, struct str *why);
SSL *tls_server(SSL_CTX *ctx);
/* Verified against host, which is sent as SNI unless it is an address. *session (may hold NULL) is tried, and replaced
 * when the server gives a newer one; it must outlive the SSL. NULL when memory is out. */
SSL *tls_client(SSL_CTX *ctx, const char *host, SSL_SESSION **session);
void tls_error_text(SSL *ssl, char *out, size_t max); /* of the last call; also why a certificate was refused */

#endif
