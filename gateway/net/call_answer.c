/* A call on its connection: the request goes out piece by piece, the answer comes in, its coding is taken off. Always true:
 * no more than HTTP_WINDOW decoded, CODED_MAX coded and one input buffer of bytes are held; an answer is `ended` only
 * when its own framing says so. */
#include "gateway/base/clock.h"
#include "gateway/net/fields.h"
#include "gateway/net/pool.h"

#include <stdlib.h>

#define INFLATE_BYTES 16384

static void feed(struct http_call *c) {
    struct conn *k = &c->up->conn;
    while (c->piece < c->n_body_out && evbuffer_get_length(k->out) < FEED_BYTES && !k->broken) {
        struct span s = c->body_out[c->piece];
        size_t n = s.n - c->piece_at < FEED_BYTES ? s.n - c->piece_at : FEED_BYTES;
        if (n)
            evbuffer_add_reference(k->out, s.at + c->piece_at, n, NULL, NULL);
        c->piece_at += n;
        if (c->piece_at == s.n) {
            c->piece++;
            c->piece_at = 0;
        }
    }
}

/* Goes on until the kernel takes no more: only then will an event say that there is room again. */
static void send_more(struct http_call *c) {
    struct conn *k = &c->up->conn;
    do {
        feed(c);
        conn_flush(k);
    } while (c->piece < c->n_body_out && k->writable && !k->broken && k->end == CONN_OPEN);
}

void call_talk(struct http_call *c) {
    struct conn *k = &c->up->conn;
    c->state = CALL_TALK;
    c->sent = true;
    c->sent_us = clock_mono_us();
    c->piece = c->piece_at = 0;
    c->n_read_before = k->n_read;
    http1_init(&c->http, true, ANSWER_HEAD_MAX);
    c->http.head_request = c->n_request > 5 && memcmp(c->request, "HEAD ", 5) == 0;
    evbuffer_add(k->out, c->request, c->n_request);
    send_more(c);
}

/* ---- the head ---- */

static enum coding coding_of(struct span name) {
    if (!name.n || span_is_nocase(name, "identity"))
        return CODING_NONE;
    bool known = span_is_nocase(name, "gzip") || span_is_nocase(name, "x-gzip") || span_is_nocase(name, "deflate");
    return known ? CODING_ZLIB : CODING_UNKNOWN;
}

static void look_at_coding(struct http_call *c) {
    struct http_head *h = &c->http.head;
    int n;
    struct span name = http_field_get(h, "content-encoding", &n);
    c->coding = n > 1 ? CODING_UNKNOWN : coding_of(name);
    if (c->coding == CODING_UNKNOWN && h->has_body) {
        call_fail(c, HTTP_FAIL_CODING, "the answer's content-encoding is not supported: %.*s",
                  (int)(name.n < 40 ? name.n : 40), name.at);
        return;
    }
    if (c->coding != CODING_ZLIB || !h->has_body)
        return;
    fields_drop(h, "content-encoding");
    fields_drop(h, "content-length");
    c->coded = counted_new();
    c->inflater = xcalloc(1, sizeof *c->inflater);
    if (inflateInit2(c->inflater, 15 + 32) != Z_OK)
        call_fail(c, HTTP_FAIL_LOCAL, "no memory to decode the answer");
}

static void keep_head(struct http_call *c, const char *at, size_t n) {
    c->head_bytes = xcalloc(1, n + 1);
    c->n_head = n;
    counted_add((int64_t)n);
    memcpy(c->head_bytes, at, n);
    fields_move(&c->http, at, c->head_bytes, n);
    c->changed = true;
    c->answer_read = !c->http.head.has_body;
}

static bool skip_interim(struct http_call *c) {
    if (c->http.head.status == 101 || ++c->n_interim > INTERIM_MAX) {
        call_fail(c, HTTP_FAIL_FRAMING, "an interim answer that was not asked for: %d", c->http.head.status);
        return false;
    }
    bool head_request = c->http.head_request;
    http1_init(&c->http, true, ANSWER_HEAD_MAX);
    c->http.head_request = head_request;
    return true;
}

/* False: more bytes are needed, or the call has failed. */
static bool read_head(struct http_call *c) {
    struct evbuffer *in = c->up->conn.in;
    size_t used, n = evbuffer_get_length(in);
    if (!n)
        return false;
    struct span body, bytes = {(const char *)evbuffer_pullup(in, -1), n};
    enum http1_result r = http1_read(&c->http, bytes, false, &used, &body);
    if (r == HTTP1_BAD)
        call_fail(c, HTTP_FAIL_FRAMING, "the answer's head is malformed: %s", c->http.what);
    if (r != HTTP1_HEAD)
        return false;
    bool interim = c->http.head.status < 200;
    if (!interim)
        keep_head(c, bytes.at, used);
    evbuffer_drain(in, used);
    if (interim)
        return skip_interim(c);
    look_at_coding(c); /* last: a failure closes the connection, and `in` with it */
    return !c->failure;
}

/* ---- the body ---- */

static bool has_room(const struct http_call *c) {
    if (c->coded && evbuffer_get_length(c->coded) >= CODED_MAX)
        return false;
    return evbuffer_get_length(c->body_in) < HTTP_WINDOW;
}

static bool read_body(struct http_call *c) {
    struct conn *k = &c->up->conn;
    size_t used, n = evbuffer_get_contiguous_space(k->in);
    bool eof = k->end == CONN_EOF && n == 0 && c->http.left < 0; /* only then is an end by closing whole */
    struct span got, bytes = {n ? (const char *)evbuffer_pullup(k->in, (ev_ssize_t)n) : "", n};
    enum http1_result r = http1_read(&c->http, bytes, eof, &used, &got);
    if (r == HTTP1_BODY) {
        evbuffer_add(c->coded ? c->coded : c->body_in, got.at, got.n);
        c->changed = true;
    }
    evbuffer_drain(k->in, used);
    if (r == HTTP1_BAD)
        call_fail(c, HTTP_FAIL_FRAMING, "the answer's body is malformed: %s", c->http.what);
    c->answer_read = r == HTTP1_END;
    return n && (r == HTTP1_BODY || r == HTTP1_MORE);
}

/* "deflate" should be a zlib stream; some send it bare, which shows in its first two bytes. */
static int inflate_some(struct http_call *c) {
    z_stream *z = c->inflater;
    Bytef *from = z->next_in;
    uInt n = z->avail_in;
    bool first = !c->inflater_began;
    int r = inflate(z, Z_NO_FLUSH);
    c->inflater_began = true;
    if (r != Z_DATA_ERROR || !first || z->total_out)
        return r;
    if (inflateReset2(z, -15) != Z_OK)
        return Z_DATA_ERROR;
    z->next_in = from;
    z->avail_in = n;
    return inflate(z, Z_NO_FLUSH);
}

/* Coded bytes that can be decoded now, in one piece; at the very start at least two. */
static size_t coded_ready(struct http_call *c) {
    size_t n = evbuffer_get_contiguous_space(c->coded), all = evbuffer_get_length(c->coded);
    if (c->inflater_began || n >= 2)
        return n;
    if (all >= 2)
        evbuffer_pullup(c->coded, 2);
    else if (!c->answer_read)
        return 0;
    return evbuffer_get_contiguous_space(c->coded);
}

/* One step of at most INFLATE_BYTES; false when nothing more can be done now. */
static bool decode_some(struct http_call *c) {
    static unsigned char out[INFLATE_BYTES];
    z_stream *z = c->inflater;
    size_t n = coded_ready(c);
    if ((!n && !c->inflater_full) || evbuffer_get_length(c->body_in) >= HTTP_WINDOW)
        return false;
    if (c->inflater_ended && inflateReset2(z, 15 + 32) != Z_OK)
        return false;
    z->next_in = n ? evbuffer_pullup(c->coded, (ev_ssize_t)n) : NULL;
    z->avail_in = (uInt)n;
    z->next_out = out;
    z->avail_out = sizeof out;
    int r = inflate_some(c);
    if (r != Z_OK && r != Z_STREAM_END && r != Z_BUF_ERROR) {
        call_fail(c, HTTP_FAIL_CODING, "the answer's compressed body is malformed");
        return false;
    }
    size_t made = sizeof out - z->avail_out, eaten = n - z->avail_in;
    evbuffer_add(c->body_in, out, made);
    evbuffer_drain(c->coded, eaten);
    c->inflater_ended = r == Z_STREAM_END;
    c->inflater_full = !c->inflater_ended && !z->avail_out;
    c->changed |= made > 0;
    return made || eaten;
}

static void settle_end(struct http_call *c) {
    if (!c->answer_read || c->failure)
        return;
    if (c->coded && (evbuffer_get_length(c->coded) || c->inflater_full))
        return;
    if (c->coded && c->inflater_began && !c->inflater_ended)
        call_fail(c, HTTP_FAIL_CODING, "the answer's compressed body was cut");
    else
        c->ended = c->changed = true;
}

void call_decode_rest(struct http_call *c) {
    while (c->inflater && !c->failure && decode_some(c)) {
    }
    settle_end(c);
}

static void read_answer(struct http_call *c) {
    bool more = true;
    while (!c->head_bytes && more)
        more = read_head(c);
    while (c->head_bytes && !c->failure && more) {
        more = !c->answer_read && has_room(c) && read_body(c);
        while (c->inflater && !c->failure && decode_some(c))
            more |= !c->answer_read;
    }
    if (c->head_bytes)
        settle_end(c);
}

/* ---- endings ---- */

static void broke_off(struct http_call *c) {
    struct conn *k = &c->up->conn;
    bool silent = k->n_read == c->n_read_before;
    if (silent && c->reused && !c->resent) {
        up_close(c->up);
        c->up = NULL;
        c->resent = true;
        c->state = CALL_START;
        return;
    }
    if (silent && k->end == CONN_TLS_BAD)
        call_fail(c, HTTP_FAIL_TLS, "%s", k->why);
    else
        call_fail(c, HTTP_FAIL_RESET, "%s %s", silent ? "no answer:" : "the answer was cut:", k->why);
}

static void let_go(struct http_call *c) {
    struct conn *k = &c->up->conn;
    bool whole = c->piece == c->n_body_out && !conn_unsent(k) && !evbuffer_get_length(k->in);
    bool fit = whole && c->http.keep_alive && k->end == CONN_OPEN && !k->hup && !k->broken;
    struct up *u = c->up;
    c->up = NULL;
    c->state = CALL_OVER;
    if (fit)
        up_give_back(u);
    else
        up_close(u);
}

static void mark_room(struct http_call *c) {
    bool room = !c->head_bytes || has_room(c);
    if (room && c->no_room)
        c->room_us = clock_mono_us();
    c->no_room = !room;
    conn_pause(&c->up->conn, !room);
}

void call_talk_step(struct http_call *c) {
    struct conn *k = &c->up->conn;
    send_more(c);
    read_answer(c);
    if (c->failure)
        return;
    if (c->answer_read) {
        let_go(c);
        return;
    }
    mark_room(c);
    bool all_read = !evbuffer_get_length(k->in) && !(c->coded && evbuffer_get_length(c->coded));
    bool unread_end = k->end != CONN_OPEN && (!c->head_bytes || (all_read && has_room(c)));
    if (unread_end)
        broke_off(c);
}
