/* The request of a call as bytes. Always true: the head is written once, at open, so that a second sending is the same;
 * what frames the message (host, length, connection, codings) is ours and nobody else's. */
#include "gateway/net/fields.h"
#include "gateway/net/pool.h"

#include <stdlib.h>

static bool length_is_said(struct span method, size_t n_body) {
    return n_body || span_is(method, "POST") || span_is(method, "PUT") || span_is(method, "PATCH");
}

static void put_request_line(struct evbuffer *out, const struct origin *o, const struct http_call_options *opt) {
    evbuffer_add(out, opt->method.at, opt->method.n);
    evbuffer_add(out, " ", 1);
    if (o->proxy_host && !o->to.tls)
        evbuffer_add_printf(out, "http://%s", o->authority);
    evbuffer_add(out, opt->path.at, opt->path.n);
    evbuffer_add_printf(out, " HTTP/1.1\r\nhost: %s\r\n", o->authority);
}

/* A method or target with a blank or control byte would be a second request. */
static bool sound(struct span s) {
    for (size_t i = 0; i < s.n; i++)
        if ((unsigned char)s.at[i] <= ' ' || s.at[i] == 0x7f)
            return false;
    return s.n > 0;
}

static void copy_body(struct http_call *c, const struct http_call_options *o, size_t *bytes) {
    c->body_out = xcalloc(o->n_body + 1, sizeof *c->body_out);
    for (size_t i = 0; i < o->n_body; i++) {
        c->body_out[i] = o->body[i];
        *bytes += o->body[i].n;
    }
    c->n_body_out = o->n_body;
}

void call_write_request(struct http_call *c, const struct http_call_options *o) {
    static const char *const ours[] = {
        "host",       "content-length", "connection", "accept-encoding", "transfer-encoding",   "te",
        "keep-alive", "expect",         "upgrade",    "trailer",         "proxy-authorization", "proxy-connection"};
    size_t n_body = 0;
    struct evbuffer *out = counted_new();
    if (!sound(o->method) || !sound(o->path))
        call_fail(c, HTTP_FAIL_FRAMING, "the request's method or path holds a forbidden byte");
    copy_body(c, o, &n_body);
    put_request_line(out, c->origin, o);
    fields_put(out, o->fields, o->n_fields, ours, ARRAY_LEN(ours));
    /* Asked for plainly: compression by a provider would hold events back. What comes coded all the same is decoded. */
    evbuffer_add_printf(out, "accept-encoding: identity\r\n");
    if (length_is_said(o->method, o->n_body))
        evbuffer_add_printf(out, "content-length: %zu\r\n", n_body);
    evbuffer_add(out, "\r\n", 2);
    c->n_request = evbuffer_get_length(out);
    c->request = xcalloc(1, c->n_request);
    evbuffer_copyout(out, c->request, c->n_request);
    counted_free(out);
    counted_add((int64_t)c->n_request);
}
