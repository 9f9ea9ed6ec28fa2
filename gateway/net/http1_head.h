/* The lines of an HTTP/1.1 head, for http1.c alone: one line in, fields of struct http1 filled, or a fault. */
#ifndef TOLLGATE_GATEWAY_HTTP1_HEAD_H
#define TOLLGATE_GATEWAY_HTTP1_HEAD_H

#include "gateway/net/http.h"

#define HTTP1_METHOD_MAX 32 /* bytes: nothing real is longer; stops scans through megabytes of "method" */
/* A start line that has no end after this many bytes can only have too long a target. */
#define HTTP1_START_MAX (HTTP_TARGET_MAX + HTTP1_METHOD_MAX + 16)

bool http1_token_char(unsigned char c);                           /* RFC 9110 tchar */
bool http1_value_char(unsigned char c);                           /* HTAB, SP, VCHAR, obs-text */
bool http1_fail(struct http1 *h, enum err err, const char *what); /* always false */
/* Both take a line without its CRLF. False: h->err and h->what say why. */
must_check bool http1_start_line(struct http1 *h, struct span line);
must_check bool http1_field_line(struct http1 *h, struct span line);
/* All lines are there: what they say together (Host, length, coding, connection). */
must_check bool http1_settle_head(struct http1 *h);

#endif
