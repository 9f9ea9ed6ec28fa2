/* An exchange as its user sees it: head, body pulled, answer. Always true: what is written is framed by us; a user cannot
 * put a byte on the wire that ends a field or a body early; nothing here calls the user back. */
#include "gateway/base/clock.h"
#include "gateway/net/fields.h"
#include "gateway/net/front.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static void dispose(struct turn_item *i) {
    exchange_free(container_of(i, struct exchange, item));
}

struct exchange *exchange_new(struct client *c) {
    struct exchange *x = xcalloc(1, sizeof *x);
    x->item.dispose = dispose;
    x->client = c;
    x->front = c->front;
    x->loopback = c->loopback;
    x->left_out = -1;
    memcpy(x->peer, c->peer, sizeof x->peer);
    http1_init(&x->http, false, (size_t)c->front->limits.max_headers);
    counted_add((int64_t)sizeof *x);
    return x;
}

void exchange_free(struct exchange *x) {
    counted_add(-(int64_t)(x->n_head + sizeof *x));
    counted_free(x->body);
    free(x->head_bytes);
    free(x);
}

void exchange_bury(struct exchange *x) {
    x->client = NULL;
    turn_bury(&x->front->turn, &x->item);
}

/* The parser's spans point into the input; they are moved to a copy that lives as long as the exchange. */
void exchange_keep_head(struct exchange *x, size_t n) {
    struct evbuffer *in = x->client->conn.in;
    const char *from = (const char *)evbuffer_pullup(in, (ev_ssize_t)n);
    x->head_bytes = xcalloc(1, n + 1);
    x->n_head = n;
    counted_add((int64_t)n);
    memcpy(x->head_bytes, from, n);
    fields_move(&x->http, from, x->head_bytes, n);
    evbuffer_drain(in, n);
    x->body_ended = !x->http.head.has_body;
    x->swallow = span_is(x->http.head.method, "HEAD");
}

const struct http_head *exchange_head(const struct exchange *x) {
    return &x->http.head;
}

const char *exchange_client(const struct exchange *x) {
    return x->peer;
}

bool exchange_loopback(const struct exchange *x) {
    return x->loopback;
}

void exchange_set_user(struct exchange *x, void *user) {
    x->user = user;
}

void *exchange_user(const struct exchange *x) {
    return x->user;
}

/* ---- the request's body ---- */

static void wake(struct exchange *x) {
    if (x->client)
        turn_wake(&x->front->turn, &x->client->conn.item);
}

struct evbuffer *exchange_body(struct exchange *x) {
    if (!x->body)
        x->body = counted_new();
    return x->body;
}

void exchange_want_body(struct exchange *x) {
    if (x->wanted || x->body_ended)
        return;
    x->wanted = true;
    if (!x->client)
        return;
    struct conn *c = &x->client->conn;
    if (x->http.expect_continue && !x->head_sent && !evbuffer_get_length(c->in))
        evbuffer_add_printf(c->out, "HTTP/1.1 100 Continue\r\n\r\n");
    x->client->since_us = clock_mono_us();
    conn_pause(c, false);
    wake(x);
}

void exchange_took_body(struct exchange *x) {
    if (x->client)
        x->client->since_us = clock_mono_us(); /* the silence until now was ours */
    wake(x);
}

bool exchange_body_ended(const struct exchange *x) {
    return x->body_ended;
}

enum err exchange_failed(const struct exchange *x) {
    return x->failed;
}

bool exchange_gone(const struct exchange *x) {
    return x->gone;
}

static void keep_body(struct exchange *x, struct span bytes, bool drop) {
    if (drop)
        x->client->passed_over += bytes.n;
    else
        evbuffer_add(exchange_body(x), bytes.at, bytes.n);
    x->client->since_us = clock_mono_us();
    x->changed = true;
}

static size_t window(const struct exchange *x) {
    return x->body ? evbuffer_get_length(x->body) : 0;
}

/* Decodes what has been read, while there is room for it. The codec is asked also when there are no bytes: a body may
 * have ended with the last ones. */
void exchange_take_body(struct exchange *x, bool drop) {
    struct evbuffer *in = x->client->conn.in;
    while (!x->body_ended && !x->failed && (drop || window(x) < HTTP_WINDOW)) {
        size_t used, n = evbuffer_get_contiguous_space(in);
        bool eof = x->client->conn.end != CONN_OPEN && n == 0;
        struct span got, bytes = {n ? (const char *)evbuffer_pullup(in, (ev_ssize_t)n) : "", n};
        enum http1_result r = http1_read(&x->http, bytes, eof, &used, &got);
        if (r == HTTP1_BODY)
            keep_body(x, got, drop);
        evbuffer_drain(in, used);
        x->body_ended = r == HTTP1_END;
        if (r == HTTP1_BAD)
            x->failed = ERR_BAD_REQUEST;
        x->changed |= x->body_ended || x->failed;
        if (!n)
            return;
    }
}

/* ---- the answer ---- */

static const char *reason(int status) {
    static const struct {
        int status;
        const char *text;
    } rows[] = {
        {200, "OK"},
        {201, "Created"},
        {202, "Accepted"},
        {204, "No Content"},
        {304, "Not Modified"},
        {400, "Bad Request"},
        {401, "Unauthorized"},
        {402, "Payment Required"},
        {403, "Forbidden"},
        {404, "Not Found"},
        {405, "Method Not Allowed"},
        {408, "Request Timeout"},
        {409, "Conflict"},
        {413, "Content Too Large"},
        {414, "URI Too Long"},
        {415, "Unsupported Media Type"},
        {417, "Expectation Failed"},
        {422, "Unprocessable Content"},
        {429, "Too Many Requests"},
        {431, "Request Header Fields Too Large"},
        {500, "Internal Server Error"},
        {502, "Bad Gateway"},
        {503, "Service Unavailable"},
        {504, "Gateway Timeout"},
        {505, "HTTP Version Not Supported"},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        if (rows[i].status == status)
            return rows[i].text;
    return "";
}

static const char *date(void) {
    static char text[40];
    static time_t second;
    time_t now = (time_t)(clock_wall_us() / US_PER_S);
    struct tm tm;
    if (now != second) {
        strftime(text, sizeof text, "%a, %d %b %Y %H:%M:%S GMT", gmtime_r(&now, &tm));
        second = now;
    }
    return text;
}

static bool will_close(const struct exchange *x) {
    if (!x->http.keep_alive || x->front->stopping)
        return true;
    if (x->body_ended || x->wanted)
        return false;
    return x->http.expect_continue || x->http.head.content_length > HTTP_STRANGER_DRAIN;
}

/* How the body's end will be known. */
static void put_framing(struct exchange *x, struct evbuffer *out, int status, int64_t content_length) {
    if (status == 204 || status == 304 || status < 200) {
        x->swallow = true;
    } else if (content_length >= 0) {
        evbuffer_add_printf(out, "content-length: %lld\r\n", (long long)content_length);
        x->left_out = content_length;
    } else if (x->http.http10) {
        x->http.keep_alive = false;
    } else {
        evbuffer_add_printf(out, "transfer-encoding: chunked\r\n");
        x->chunked_out = true;
    }
    if (will_close(x))
        evbuffer_add_printf(out, "connection: close\r\n");
    else if (x->http.http10)
        evbuffer_add_printf(out, "connection: keep-alive\r\n");
}

/* The client's clock for taking bytes begins when there are some: an answer may have been long in coming. */
static struct evbuffer *output(struct exchange *x) {
    struct conn *c = &x->client->conn;
    if (!conn_unsent(c))
        c->moved_us = clock_mono_us();
    return c->out;
}

void exchange_send_head(struct exchange *x, int status, const struct http_field *fields, size_t n,
                        int64_t content_length) {
    static const char *const ours[] = {"date", "connection", "transfer-encoding", "content-length", "keep-alive"};
    assert(!x->head_sent && !x->ended);
    x->head_sent = true;
    if (!x->client)
        return;
    struct evbuffer *out = output(x);
    evbuffer_add_printf(out, "HTTP/1.1 %d %s\r\ndate: %s\r\n", status, reason(status), date());
    fields_put(out, fields, n, ours, ARRAY_LEN(ours));
    put_framing(x, out, status, content_length);
    evbuffer_add(out, "\r\n", 2);
    x->client->seen_unsent = conn_unsent(&x->client->conn);
    wake(x);
}

/* Never more than was announced: the rest would be read as the next answer. */
static size_t allowed(struct exchange *x, size_t n) {
    if (x->left_out < 0)
        return n;
    if ((int64_t)n > x->left_out) {
        x->http.keep_alive = false;
        n = (size_t)x->left_out;
    }
    x->left_out -= (int64_t)n;
    return n;
}

void exchange_send(struct exchange *x, struct span bytes) {
    assert(x->head_sent && !x->ended);
    if (!x->client || x->swallow || !bytes.n || x->client->conn.broken)
        return;
    struct evbuffer *out = output(x);
    char size[24];
    if (x->chunked_out)
        evbuffer_add(out, size, (size_t)snprintf(size, sizeof size, "%zx\r\n", bytes.n));
    evbuffer_add(out, bytes.at, allowed(x, bytes.n));
    if (x->chunked_out)
        evbuffer_add(out, "\r\n", 2);
    x->client->seen_unsent = conn_unsent(&x->client->conn);
    wake(x);
}

size_t exchange_unsent(const struct exchange *x) {
    return x->client ? conn_unsent(&x->client->conn) : 0;
}

void exchange_end(struct exchange *x, bool keep) {
    assert(x->head_sent && !x->ended);
    x->ended = true;
    x->keep = keep;
    if (!x->client)
        return;
    if (x->chunked_out && !x->swallow)
        evbuffer_add(output(x), "0\r\n\r\n", 5);
    x->client->seen_unsent = conn_unsent(&x->client->conn);
    wake(x);
}

/* Fewer bytes than announced cannot be told from a cut but by cutting. */
static bool incomplete(const struct exchange *x) {
    return !x->ended || (x->left_out > 0 && !x->swallow);
}

void exchange_close(struct exchange *x) {
    assert(!x->closed);
    x->closed = true;
    x->user = NULL;
    if (!x->client) {
        exchange_bury(x);
    } else if (incomplete(x)) {
        client_drop(x->client, true);
    } else {
        client_set_state(x->client, CLIENT_FLUSH);
        wake(x);
    }
}

void exchange_send_bad(struct exchange *x, enum err err, const char *what) {
    struct front *f = x->front;
    struct str body;
    struct http_field fields[] = {{SPAN("content-type"), SPAN("application/json")}, {SPAN("retry-after"), SPAN("1")}};
    str_init(&body, HTTP_STRANGER_DRAIN);
    f->ops.on_bad(x, err, what, &body, f->user);
    x->http.keep_alive = false;
    exchange_send_head(x, err_row(err)->status, fields, err == ERR_BUSY ? 2 : 1, (int64_t)body.n);
    exchange_send(x, str_span(&body));
    str_fini(&body);
    exchange_end(x, false);
    x->closed = true;
    client_set_state(x->client, CLIENT_FLUSH);
}
