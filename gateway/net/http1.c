/* HTTP/1.1 framing without sockets: bytes in, a head or spans of body out.
 *
 * Always true: every LF stands behind a CR; the result depends on the bytes alone, never on how they were cut, because
 * each fault is tied to one byte: limits and bare LFs to the byte that shows them, the start line to its end, the
 * other lines to the end of the head. After HTTP1_BAD nothing more is read. */
#include "gateway/net/http1_head.h"

#include <assert.h>

#define CHUNK_LINE_MAX 256  /* bytes of a chunk's size and extensions: against one-byte chunks in kilobytes of line */
#define CHUNK_DIGITS_MAX 15 /* hexadecimal digits: fits int64 */
#define TRAILER_MAX (8 * 1024) /* bytes of all trailer lines, which are read and dropped */

enum state {
    HEAD,
    LENGTH,      /* `left` body bytes to come */
    UNTIL_CLOSE, /* all that comes */
    CHUNK_SIZE,
    CHUNK_EXT, /* nothing of the name yet */
    CHUNK_EXT_NAME,
    CHUNK_EXT_EQUALS, /* nothing of the value yet */
    CHUNK_EXT_VALUE,
    CHUNK_SIZE_LF,
    CHUNK_DATA,
    CHUNK_CR,
    CHUNK_LF,
    TRAILER_START,
    TRAILER_NAME,
    TRAILER_VALUE,
    TRAILER_LF,
    LAST_LF,
    DONE,
    BAD,
};

void http1_init(struct http1 *h, bool response, size_t max_head) {
    memset(h, 0, offsetof(struct http1, fields));
    h->response = response;
    h->max_head = max_head;
    h->state = HEAD;
    h->head.content_length = -1;
    h->head.fields = h->fields; /* also a head that is refused half-way may be asked for its fields */
    h->left = 0;
    h->line_bytes = h->scanned = 0;
}

static enum http1_result bad(struct http1 *h, enum err err, const char *what) {
    if (what)
        http1_fail(h, err, what);
    h->state = BAD;
    h->keep_alive = false;
    return HTTP1_BAD;
}

static enum state body_state(const struct http1 *h) {
    if (!h->head.has_body)
        return DONE;
    if (h->head.chunked)
        return CHUNK_SIZE;
    return h->head.content_length < 0 ? UNTIL_CLOSE : LENGTH;
}

/* All lines of a head that is known to end: fields point into these bytes. */
static bool parse_lines(struct http1 *h, struct span head) {
    bool first = true;
    h->head.n_fields = 0;
    while (head.n > 2) {
        const char *lf = memchr(head.at, '\n', head.n);
        struct span line = {head.at, (size_t)(lf - head.at) - 1};
        if (!(first ? http1_start_line(h, line) : http1_field_line(h, line)))
            return false;
        first = false;
        head.at += line.n + 2;
        head.n -= line.n + 2;
    }
    return http1_settle_head(h);
}

static bool head_over(struct http1 *h, size_t bytes) {
    bool start = h->line_bytes == 0;
    if (start && bytes > HTTP1_START_MAX && HTTP1_START_MAX <= h->max_head)
        return !http1_fail(h, ERR_URI_TOO_LONG, "The request target is too long.");
    if (bytes > h->max_head)
        return !http1_fail(h, ERR_HEADERS, "The header section is too large.");
    return false;
}

/* One empty line before a request is forgiven (RFC 9112 section 2.2). */
static size_t head_begin(const struct http1 *h, struct span bytes) {
    return !h->response && bytes.n >= 2 && bytes.at[0] == '\r' && bytes.at[1] == '\n' ? 2 : 0;
}

static bool first_bytes_good(const struct http1 *h, struct span bytes) {
    if (h->response || !bytes.n)
        return true;
    if (bytes.at[0] == '\r')
        return bytes.n < 2 || (bytes.at[1] == '\n' && (bytes.n < 3 || http1_token_char((unsigned char)bytes.at[2])));
    return http1_token_char((unsigned char)bytes.at[0]);
}

static enum http1_result head_found(struct http1 *h, struct span bytes, size_t begin, size_t end, size_t *used) {
    if (!parse_lines(h, (struct span){bytes.at + begin, end - begin}))
        return bad(h, h->err, NULL);
    *used = end;
    h->state = (int)body_state(h);
    h->left = h->state == LENGTH ? h->head.content_length : h->state == UNTIL_CLOSE ? -1 : 0;
    h->line_bytes = 0;
    return HTTP1_HEAD;
}

/* The bytes may lie elsewhere than in the call that read the start line: whoever answers a refused head asks for its
 * path. */
static void find_start_line(struct http1 *h, struct span bytes, size_t begin) {
    const char *lf = h->line_bytes ? memchr(bytes.at + begin, '\n', bytes.n - begin) : NULL;
    if (!lf)
        return;
    bool again = http1_start_line(h, (struct span){bytes.at + begin, (size_t)(lf - bytes.at) - begin - 1});
    assert(again);
    (void)again;
}

/* `scanned` bytes are known to hold no fault; line_bytes is where the unfinished line begins (0: the start line). */
static enum http1_result read_head(struct http1 *h, struct span bytes, size_t *used) {
    size_t begin = head_begin(h, bytes);
    if (!first_bytes_good(h, bytes))
        return bad(h, ERR_BAD_REQUEST, "This does not begin like a request.");
    if (h->scanned < begin)
        h->scanned = begin;
    find_start_line(h, bytes, begin);
    while (h->scanned < bytes.n) {
        const char *lf = memchr(bytes.at + h->scanned, '\n', bytes.n - h->scanned);
        size_t at = lf ? (size_t)(lf - bytes.at) : bytes.n - 1; /* the last byte looked at */
        if (head_over(h, at + 1))
            return bad(h, h->err, NULL);
        h->scanned = at + 1;
        if (!lf)
            break;
        if (at == 0 || bytes.at[at - 1] != '\r')
            return bad(h, ERR_BAD_REQUEST, "A line ends without a carriage return.");
        size_t line = h->line_bytes ? h->line_bytes : begin;
        if (h->line_bytes && at - line == 1)
            return head_found(h, bytes, begin, at + 1, used);
        if (!h->line_bytes && !http1_start_line(h, (struct span){bytes.at + line, at - line - 1}))
            return bad(h, h->err, NULL);
        h->line_bytes = at + 1;
    }
    return HTTP1_MORE;
}

static int hex_digit(unsigned char c) {
    if (c >= '0' && c <= '9')
        return c - '0';
    c |= 0x20;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static int step_size(struct http1 *h, unsigned char c) {
    int d = hex_digit(c);
    if (d >= 0) {
        if (h->line_bytes > CHUNK_DIGITS_MAX)
            return BAD;
        h->left = h->left * 16 + d;
        return CHUNK_SIZE;
    }
    if (h->line_bytes == 1)
        return BAD; /* no digit at all */
    return c == '\r' ? CHUNK_SIZE_LF : c == ';' ? CHUNK_EXT : BAD;
}

/* Extensions, `;name` or `;name=value`, are dropped; a quoted value could hide a line end from another reader and is refused,
 * as is what the grammar has no place for: no other reader may see another size in it. */
static int step_ext(const struct http1 *h, unsigned char c) {
    if (h->line_bytes > CHUNK_LINE_MAX)
        return BAD;
    if (http1_token_char(c))
        return h->state == CHUNK_EXT || h->state == CHUNK_EXT_NAME ? CHUNK_EXT_NAME : CHUNK_EXT_VALUE;
    if (h->state == CHUNK_EXT || h->state == CHUNK_EXT_EQUALS)
        return BAD; /* nothing stands there */
    if (c == '=')
        return h->state == CHUNK_EXT_NAME ? CHUNK_EXT_EQUALS : BAD;
    return c == ';' ? CHUNK_EXT : c == '\r' ? CHUNK_SIZE_LF : BAD;
}

static int step_size_lf(struct http1 *h, unsigned char c) {
    h->line_bytes = 0;
    return c != '\n' ? BAD : h->left ? CHUNK_DATA : TRAILER_START;
}

static int step_trailer(const struct http1 *h, unsigned char c) {
    if (h->line_bytes > TRAILER_MAX)
        return BAD;
    if (h->state == TRAILER_START)
        return c == '\r' ? LAST_LF : http1_token_char(c) ? TRAILER_NAME : BAD;
    if (h->state == TRAILER_NAME)
        return c == ':' ? TRAILER_VALUE : http1_token_char(c) ? TRAILER_NAME : BAD;
    return c == '\r' ? TRAILER_LF : http1_value_char(c) ? TRAILER_VALUE : BAD;
}

/* One byte of chunked framing: the next state. */
static int step_chunked(struct http1 *h, unsigned char c) {
    h->line_bytes++;
    switch (h->state) {
    case CHUNK_SIZE:
        return step_size(h, c);
    case CHUNK_EXT:
    case CHUNK_EXT_NAME:
    case CHUNK_EXT_EQUALS:
    case CHUNK_EXT_VALUE:
        return step_ext(h, c);
    case CHUNK_SIZE_LF:
        return step_size_lf(h, c);
    case CHUNK_CR:
        return c == '\r' ? CHUNK_LF : BAD;
    case CHUNK_LF:
        h->line_bytes = 0;
        return c == '\n' ? CHUNK_SIZE : BAD;
    case TRAILER_LF:
        return c == '\n' ? TRAILER_START : BAD;
    case LAST_LF:
        return c == '\n' ? DONE : BAD;
    default:
        return step_trailer(h, c);
    }
}

static enum http1_result give_body(struct http1 *h, struct span bytes, size_t from, size_t *used, struct span *body) {
    size_t n = bytes.n - from;
    if (h->left >= 0 && (int64_t)n > h->left)
        n = (size_t)h->left;
    *body = (struct span){bytes.at + from, n};
    *used = from + n;
    if (h->left < 0)
        return HTTP1_BODY;
    h->left -= (int64_t)n;
    if (!h->left)
        h->state = h->state == LENGTH ? DONE : CHUNK_CR;
    return HTTP1_BODY;
}

static enum http1_result read_body(struct http1 *h, struct span bytes, bool eof, size_t *used, struct span *body) {
    size_t at = 0;
    while (at < bytes.n && h->state != DONE) {
        if (h->state == LENGTH || h->state == UNTIL_CLOSE || h->state == CHUNK_DATA)
            return give_body(h, bytes, at, used, body);
        h->state = step_chunked(h, (unsigned char)bytes.at[at++]);
        if (h->state == BAD)
            return bad(h, ERR_BAD_REQUEST, "The chunked body is malformed.");
    }
    *used = at;
    if (h->state == UNTIL_CLOSE && eof)
        h->state = DONE;
    if (h->state == DONE)
        return HTTP1_END;
    return eof ? bad(h, ERR_BAD_REQUEST, "The body was cut short.") : HTTP1_MORE;
}

enum http1_result http1_read(struct http1 *h, struct span bytes, bool eof, size_t *used, struct span *body) {
    *used = 0;
    *body = SPAN_NONE;
    if (h->state == BAD)
        return HTTP1_BAD;
    if (h->state != HEAD)
        return read_body(h, bytes, eof, used, body);
    enum http1_result r = read_head(h, bytes, used);
    return r == HTTP1_MORE && eof ? bad(h, ERR_BAD_REQUEST, "The head was cut short.") : r;
}
