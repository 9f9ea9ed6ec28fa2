/* The HTTP/1.1 codec against a table of framings that real parsers have got wrong. Each row is followed by a marker
 * request: whoever sees it after a row that must be refused has been smuggled to. Every row is also cut at every byte. */
#include "gateway/net/http.h"

#include <criterion/criterion.h>
#include <stdio.h>

#define MARK "GET /marker HTTP/1.1\r\nHost: m\r\n\r\n"
#define H "Host: a\r\n"
#define TEXT_MAX (64 * 1024)
#define HEAD_MAX 4096
#define ROW(name, err, bytes)                                                                                          \
    { name, bytes, sizeof(bytes) - 1, err }

struct row {
    const char *name, *bytes;
    size_t n;
    enum err err; /* ERR_NONE: accepted, and the marker too */
};

static const struct row rows[] = {
    ROW("plain GET", ERR_NONE, "GET / HTTP/1.1\r\n" H "\r\n"),
    ROW("one empty line before a request", ERR_NONE, "\r\nGET / HTTP/1.1\r\n" H "\r\n"),
    ROW("two empty lines before a request", ERR_BAD_REQUEST, "\r\n\r\nGET / HTTP/1.1\r\n" H "\r\n"),
    ROW("leading space", ERR_BAD_REQUEST, " GET / HTTP/1.1\r\n" H "\r\n"),
    ROW("bare LF after the request line", ERR_BAD_REQUEST, "GET / HTTP/1.1\n" H "\r\n"),
    ROW("bare LF after a field", ERR_BAD_REQUEST, "GET / HTTP/1.1\r\nHost: a\n\r\n"),
    ROW("bare LF ends the head", ERR_BAD_REQUEST, "GET / HTTP/1.1\r\n" H "\n"),
    ROW("bare CR in a value makes no header", ERR_BAD_REQUEST, "GET / HTTP/1.1\r\n" H "A: b\rC: d\r\n\r\n"),
    ROW("CR CR LF", ERR_BAD_REQUEST, "GET / HTTP/1.1\r\n" H "A: b\r\r\n\r\n"),
    ROW("CR X instead of an empty line", ERR_BAD_REQUEST, "GET / HTTP/1.1\r\n" H "\rX\r\n\r\n"),
    ROW("HTTP/0.9", ERR_BAD_REQUEST, "GET /\r\n"),
    ROW("HTTP/0.9 with headers", ERR_BAD_REQUEST, "GET /x\r\n" H "\r\n"),
    ROW("HTTP/2.0", ERR_VERSION, "GET / HTTP/2.0\r\n" H "\r\n"),
    ROW("HTTP/1.2", ERR_VERSION, "GET / HTTP/1.2\r\n" H "\r\n"),
    ROW("lower-case http", ERR_BAD_REQUEST, "GET / http/1.1\r\n" H "\r\n"),
    ROW("version with too many digits", ERR_BAD_REQUEST, "GET / HTTP/1.10\r\n" H "\r\n"),
    ROW("space behind the version", ERR_BAD_REQUEST, "GET / HTTP/1.1 \r\n" H "\r\n"),
    ROW("two spaces before the target", ERR_BAD_REQUEST, "GET  / HTTP/1.1\r\n" H "\r\n"),
    ROW("two spaces before the version", ERR_BAD_REQUEST, "GET /  HTTP/1.1\r\n" H "\r\n"),
    ROW("tab in the request line", ERR_BAD_REQUEST, "GET\t/ HTTP/1.1\r\n" H "\r\n"),
    ROW("space in the target", ERR_BAD_REQUEST, "GET /a b HTTP/1.1\r\n" H "\r\n"),
    ROW("NUL in the target", ERR_BAD_REQUEST, "GET /a\0b HTTP/1.1\r\n" H "\r\n"),
    ROW("control byte in the target", ERR_BAD_REQUEST, "GET /a\x01 HTTP/1.1\r\n" H "\r\n"),
    ROW("raw UTF-8 in the target", ERR_BAD_REQUEST, "GET /\xc3\xa9 HTTP/1.1\r\n" H "\r\n"),
    ROW("fragment in the target", ERR_BAD_REQUEST, "GET /a#b HTTP/1.1\r\n" H "\r\n"),
    ROW("relative target", ERR_BAD_REQUEST, "GET a HTTP/1.1\r\n" H "\r\n"),
    ROW("absolute target that agrees with Host", ERR_NONE, "GET http://a/x?y HTTP/1.1\r\n" H "\r\n"),
    ROW("absolute target without a path", ERR_NONE, "GET http://A HTTP/1.1\r\n" H "\r\n"),
    ROW("absolute target of another host", ERR_BAD_REQUEST, "GET http://evil/x HTTP/1.1\r\n" H "\r\n"),
    ROW("absolute target with userinfo", ERR_BAD_REQUEST, "GET http://u@a/x HTTP/1.1\r\n" H "\r\n"),
    ROW("absolute target of another scheme", ERR_BAD_REQUEST, "GET ftp://a/x HTTP/1.1\r\n" H "\r\n"),
    ROW("CONNECT", ERR_BAD_REQUEST, "CONNECT a:443 HTTP/1.1\r\n" H "\r\n"),
    ROW("OPTIONS *", ERR_NONE, "OPTIONS * HTTP/1.1\r\n" H "\r\n"),
    ROW("GET *", ERR_BAD_REQUEST, "GET * HTTP/1.1\r\n" H "\r\n"),
    ROW("unknown method is a token", ERR_NONE, "get / HTTP/1.1\r\n" H "\r\n"),
    ROW("method with a forbidden byte", ERR_BAD_REQUEST, "GE(T / HTTP/1.1\r\n" H "\r\n"),
    ROW("endless method", ERR_BAD_REQUEST, "GETGETGETGETGETGETGETGETGETGETGETGET / HTTP/1.1\r\n" H "\r\n"),
    ROW("TLS on the plain port", ERR_BAD_REQUEST, "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"),
    ROW("no Host", ERR_BAD_REQUEST, "GET / HTTP/1.1\r\nA: b\r\n\r\n"),
    ROW("no field at all", ERR_BAD_REQUEST, "GET / HTTP/1.1\r\n\r\n"),
    ROW("two Hosts", ERR_BAD_REQUEST, "GET / HTTP/1.1\r\n" H H "\r\n"),
    ROW("two Hosts on 1.0", ERR_BAD_REQUEST, "GET / HTTP/1.0\r\n" H H "\r\n"),
    ROW("Host with userinfo", ERR_BAD_REQUEST, "GET / HTTP/1.1\r\nHost: u@a\r\n\r\n"),
    ROW("Host with a comma", ERR_BAD_REQUEST, "GET / HTTP/1.1\r\nHost: a,b\r\n\r\n"),
    ROW("Host with a path", ERR_BAD_REQUEST, "GET / HTTP/1.1\r\nHost: a/b\r\n\r\n"),
    ROW("Host of an IPv6 address", ERR_NONE, "GET / HTTP/1.1\r\nHost: [::1]:8080\r\n\r\n"),
    ROW("space before the colon", ERR_BAD_REQUEST, "GET / HTTP/1.1\r\n" H "A : b\r\n\r\n"),
    ROW("empty field name", ERR_BAD_REQUEST, "GET / HTTP/1.1\r\n" H ": b\r\n\r\n"),
    ROW("field without a colon", ERR_BAD_REQUEST, "GET / HTTP/1.1\r\n" H "Abc\r\n\r\n"),
    ROW("parenthesis in a field name", ERR_BAD_REQUEST, "GET / HTTP/1.1\r\n" H "A(: b\r\n\r\n"),
    ROW("folded field", ERR_BAD_REQUEST, "GET / HTTP/1.1\r\n" H "A: b\r\n c\r\n\r\n"),
    ROW("folded first field", ERR_BAD_REQUEST, "GET / HTTP/1.1\r\n Host: a\r\n\r\n"),
    ROW("folded Transfer-Encoding", ERR_BAD_REQUEST,
        "POST / HTTP/1.1\r\n" H "Transfer-Encoding:\r\n chunked\r\n\r\n0\r\n\r\n"),
    ROW("NUL in a value", ERR_BAD_REQUEST, "GET / HTTP/1.1\r\n" H "A: b\0c\r\n\r\n"),
    ROW("DEL in a value", ERR_BAD_REQUEST, "GET / HTTP/1.1\r\n" H "A: b\x7f\r\n\r\n"),
    ROW("obs-text and tab in a value", ERR_NONE, "GET / HTTP/1.1\r\n" H "A: b\tc\xff\r\n\r\n"),
    ROW("body by length", ERR_NONE, "POST / HTTP/1.1\r\n" H "Content-Length: 5\r\n\r\nhello"),
    ROW("length zero", ERR_NONE, "POST / HTTP/1.1\r\n" H "Content-Length: 0\r\n\r\n"),
    ROW("leading zeros of a length", ERR_NONE, "POST / HTTP/1.1\r\n" H "Content-Length: 0005\r\n\r\nhello"),
    ROW("signed length", ERR_BAD_REQUEST, "POST / HTTP/1.1\r\n" H "Content-Length: +5\r\n\r\nhello"),
    ROW("negative length", ERR_BAD_REQUEST, "POST / HTTP/1.1\r\n" H "Content-Length: -1\r\n\r\n"),
    ROW("hexadecimal length", ERR_BAD_REQUEST, "POST / HTTP/1.1\r\n" H "Content-Length: 0x5\r\n\r\nhello"),
    ROW("length list", ERR_BAD_REQUEST, "POST / HTTP/1.1\r\n" H "Content-Length: 5, 5\r\n\r\nhello"),
    ROW("length with a space inside", ERR_BAD_REQUEST, "POST / HTTP/1.1\r\n" H "Content-Length: 5 5\r\n\r\nhello"),
    ROW("empty length", ERR_BAD_REQUEST, "POST / HTTP/1.1\r\n" H "Content-Length:\r\n\r\n"),
    ROW("huge length", ERR_BAD_REQUEST, "POST / HTTP/1.1\r\n" H "Content-Length: 99999999999999999999\r\n\r\n"),
    ROW("two lengths", ERR_BAD_REQUEST, "POST / HTTP/1.1\r\n" H "Content-Length: 0\r\nContent-Length: 33\r\n\r\n"),
    ROW("two equal lengths", ERR_BAD_REQUEST,
        "POST / HTTP/1.1\r\n" H "Content-Length: 5\r\nContent-Length: 5\r\n\r\nhello"),
    ROW("length before a space and colon", ERR_BAD_REQUEST, "POST / HTTP/1.1\r\n" H "Content-Length : 5\r\n\r\nhello"),
    ROW("length and coding", ERR_BAD_REQUEST,
        "POST / HTTP/1.1\r\n" H "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
    ROW("coding and length", ERR_BAD_REQUEST,
        "POST / HTTP/1.1\r\n" H "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n"),
    ROW("chunked", ERR_NONE, "POST / HTTP/1.1\r\n" H "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n"),
    ROW("chunked in capitals", ERR_NONE,
        "POST / HTTP/1.1\r\n" H "Transfer-Encoding: CHUNKED\r\n\r\nA\r\n0123456789\r\n0\r\n\r\n"),
    ROW("chunked twice", ERR_BAD_REQUEST,
        "POST / HTTP/1.1\r\n" H "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
    ROW("chunked, chunked", ERR_BAD_REQUEST,
        "POST / HTTP/1.1\r\n" H "Transfer-Encoding: chunked, chunked\r\n\r\n0\r\n\r\n"),
    ROW("gzip, chunked", ERR_BAD_REQUEST, "POST / HTTP/1.1\r\n" H "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n"),
    ROW("chunked, identity", ERR_BAD_REQUEST,
        "POST / HTTP/1.1\r\n" H "Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n"),
    ROW("identity", ERR_BAD_REQUEST, "POST / HTTP/1.1\r\n" H "Transfer-Encoding: identity\r\n\r\n"),
    ROW("xchunked", ERR_BAD_REQUEST, "POST / HTTP/1.1\r\n" H "Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n"),
    ROW("quoted chunked", ERR_BAD_REQUEST, "POST / HTTP/1.1\r\n" H "Transfer-Encoding: \"chunked\"\r\n\r\n0\r\n\r\n"),
    ROW("vertical tab chunked", ERR_BAD_REQUEST,
        "POST / HTTP/1.1\r\n" H "Transfer-Encoding: \x0b"
        "chunked\r\n\r\n0\r\n\r\n"),
    ROW("coding before a space and colon", ERR_BAD_REQUEST,
        "POST / HTTP/1.1\r\n" H "Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n"),
    ROW("empty coding", ERR_BAD_REQUEST, "POST / HTTP/1.1\r\n" H "Transfer-Encoding:\r\n\r\n"),
    ROW("chunked on 1.0", ERR_BAD_REQUEST, "POST / HTTP/1.0\r\n" H "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
#define CHUNKED "POST / HTTP/1.1\r\n" H "Transfer-Encoding: chunked\r\n\r\n"
    ROW("chunk size 0x5", ERR_BAD_REQUEST, CHUNKED "0x5\r\nhello\r\n0\r\n\r\n"),
    ROW("chunk size +5", ERR_BAD_REQUEST, CHUNKED "+5\r\nhello\r\n0\r\n\r\n"),
    ROW("space before a chunk size", ERR_BAD_REQUEST, CHUNKED " 5\r\nhello\r\n0\r\n\r\n"),
    ROW("space behind a chunk size", ERR_BAD_REQUEST, CHUNKED "5 \r\nhello\r\n0\r\n\r\n"),
    ROW("empty chunk size", ERR_BAD_REQUEST, CHUNKED "\r\nhello\r\n0\r\n\r\n"),
    ROW("chunk size that overflows", ERR_BAD_REQUEST, CHUNKED "10000000000000005\r\nhello\r\n0\r\n\r\n"),
    ROW("bare LF behind a chunk size", ERR_BAD_REQUEST, CHUNKED "5\nhello\r\n0\r\n\r\n"),
    ROW("bare LF behind a chunk", ERR_BAD_REQUEST, CHUNKED "5\r\nhello\n0\r\n\r\n"),
    ROW("chunk longer than it says", ERR_BAD_REQUEST, CHUNKED "5\r\nhelloXX\r\n0\r\n\r\n"),
    ROW("two bytes between chunks that are no CRLF", ERR_BAD_REQUEST, CHUNKED "5\r\nhelloXX0\r\n\r\n"),
    ROW("plain chunk extension", ERR_NONE, CHUNKED "5;a=b\r\nhello\r\n0;c\r\n\r\n"),
    ROW("chunk extension without a name", ERR_BAD_REQUEST, CHUNKED "5;\r\nhello\r\n0\r\n\r\n"),
    ROW("chunk extension without a value", ERR_BAD_REQUEST, CHUNKED "5;a=\r\nhello\r\n0\r\n\r\n"),
    ROW("chunk extension with two equal signs", ERR_BAD_REQUEST, CHUNKED "5;a==b\r\nhello\r\n0\r\n\r\n"),
    ROW("two chunk extensions", ERR_NONE, CHUNKED "5;a=b;c\r\nhello\r\n0\r\n\r\n"),
    ROW("quoted chunk extension", ERR_BAD_REQUEST, CHUNKED "5;a=\"b\"\r\nhello\r\n0\r\n\r\n"),
    ROW("LF in a chunk extension", ERR_BAD_REQUEST, CHUNKED "5;a\nb\r\nhello\r\n0\r\n\r\n"),
    ROW("CR in a chunk extension", ERR_BAD_REQUEST, CHUNKED "5;a\rb\r\nhello\r\n0\r\n\r\n"),
    ROW("trailer is read and dropped", ERR_NONE, CHUNKED "5\r\nhello\r\n0\r\nA: b\r\nContent-Length: 9\r\n\r\n"),
    ROW("trailer that is no field", ERR_BAD_REQUEST, CHUNKED "0\r\nA b\r\n\r\n"),
    ROW("folded trailer", ERR_BAD_REQUEST, CHUNKED "0\r\nA: b\r\n c\r\n\r\n"),
    ROW("bare LF behind a trailer", ERR_BAD_REQUEST, CHUNKED "0\r\nA: b\n\r\n"),
    ROW("bare LF ends the body", ERR_BAD_REQUEST, CHUNKED "0\r\n\n"),
    ROW("NUL in a trailer", ERR_BAD_REQUEST, CHUNKED "0\r\nA: \0\r\n\r\n"),
    ROW("expectation", ERR_NONE, "POST / HTTP/1.1\r\n" H "Expect: 100-continue\r\nContent-Length: 2\r\n\r\nhi"),
    ROW("unknown expectation", ERR_EXPECT, "POST / HTTP/1.1\r\n" H "Expect: 200-ok\r\nContent-Length: 2\r\n\r\nhi"),
    ROW("1.0 with keep-alive", ERR_NONE, "GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n"),
};

/* What a reader saw, as text: "GET / [body] | GET /marker [] | BAD 3". */
static void read_all(struct http1 *h, bool response, const char *bytes, size_t n, size_t cut, char *text) {
    size_t at = 0, given = cut < n ? cut : n, out = 0;
    bool eof = false;
    http1_init(h, response, HEAD_MAX);
    while (at < n || eof) {
        size_t used;
        struct span body;
        enum http1_result r = http1_read(h, (struct span){bytes + at, given - at}, eof, &used, &body);
        cr_assert_leq(used, given - at);
        if (r == HTTP1_HEAD)
            out += (size_t)snprintf(text + out, TEXT_MAX - out, "%.*s %.*s?%.*s %d %zu k%d [", SPAN_ARG(h->head.method),
                                    SPAN_ARG(h->head.path), SPAN_ARG(h->head.query), h->head.status, h->head.n_fields,
                                    h->keep_alive);
        if (r == HTTP1_BODY)
            out += (size_t)snprintf(text + out, TEXT_MAX - out, "%.*s", SPAN_ARG(body));
        at += used;
        eof = response && r == HTTP1_BODY && at == n; /* an answer may end with its connection */
        if (r == HTTP1_BAD) {
            out += (size_t)snprintf(text + out, TEXT_MAX - out, "BAD %d", h->err);
            return;
        }
        if (r == HTTP1_END) {
            out += (size_t)snprintf(text + out, TEXT_MAX - out, "] | ");
            http1_init(h, response, HEAD_MAX);
        }
        if (r == HTTP1_MORE && given == n)
            return;
        if (r == HTTP1_MORE)
            given = cut == 1 ? given + 1 : n;
    }
}

static struct http1 parser;
static char whole[TEXT_MAX], pieces[TEXT_MAX];

static void check_row(const struct row *r) {
    char bytes[2048];
    size_t n = r->n;
    memcpy(bytes, r->bytes, n);
    memcpy(bytes + n, MARK, sizeof MARK - 1);
    n += sizeof MARK - 1;
    read_all(&parser, false, bytes, n, n, whole);
    bool marker = strstr(whole, "/marker") != NULL;
    if (r->err == ERR_NONE) {
        cr_expect(marker && !strstr(whole, "BAD"), "%s: refused: %s", r->name, whole);
    } else {
        cr_expect(!marker, "%s: the marker was smuggled: %s", r->name, whole);
        cr_expect(parser.err == r->err, "%s: err %d instead of %d: %s", r->name, parser.err, r->err, whole);
        cr_expect(parser.what && !parser.keep_alive, "%s: no reason, or kept alive", r->name);
    }
    for (size_t cut = 1; cut < n; cut++) {
        memset(pieces, 0, 16);
        read_all(&parser, false, bytes, n, cut, pieces);
        cr_assert(strcmp(whole, pieces) == 0 || r->err, "%s cut at %zu: %s", r->name, cut, pieces);
        cr_assert(r->err == parser.err, "%s cut at %zu: %s", r->name, cut, pieces);
        cr_assert(!r->err || !strstr(pieces, "/marker"), "%s cut at %zu smuggles", r->name, cut);
    }
}

Test(http1, framings_that_parsers_have_got_wrong) {
    cr_assert(ARRAY_LEN(rows) >= 69);
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        check_row(&rows[i]);
}

static char big[3 * 64 * 1024];

static enum err refused(const char *bytes, size_t n, size_t max_head) {
    size_t used;
    struct span body;
    http1_init(&parser, false, max_head);
    return http1_read(&parser, (struct span){bytes, n}, false, &used, &body) == HTTP1_BAD ? parser.err : ERR_NONE;
}

Test(http1, limits_of_a_head_by_their_own_errors) {
    int n = snprintf(big, sizeof big, "GET / HTTP/1.1\r\n" H);
    for (int i = 0; i < HTTP_FIELDS_MAX; i++)
        n += snprintf(big + n, sizeof big - (size_t)n, "a%d: b\r\n", i);
    snprintf(big + n, sizeof big - (size_t)n, "\r\n");
    cr_expect_eq(refused(big, strlen(big), 65536), ERR_HEADERS, "101 fields");
    memset(big, 'a', sizeof big);
    memcpy(big, "GET /", 5);
    cr_expect_eq(refused(big, 20000, 65536), ERR_URI_TOO_LONG, "a target without end");
    memcpy(big + 8400, " HTTP/1.1\r\n", 11);
    cr_expect_eq(refused(big, 9000, 65536), ERR_URI_TOO_LONG, "a target over its limit");
    memcpy(big, "GET / HTTP/1.1\r\nA: ", 19);
    cr_expect_eq(refused(big, 8000, 65536), ERR_NONE);
    memset(big + 19, 'a', sizeof big - 19);
    cr_expect_eq(refused(big, 65536, 65536), ERR_NONE);
    cr_expect_eq(refused(big, 65537, 65536), ERR_HEADERS, "a header without end");
}

/* Whoever answers a refused head asks for its path and its fields, wherever the bytes lie by then. */
Test(http1, a_head_refused_in_its_fields_can_be_asked_for_its_path) {
    static const char bytes[] = "GET /v1/messages HTTP/1.1\r\nHost: x\r\nTransfer-Encoding : chunked\r\n\r\n";
    static const char bare_lf[] = "GET /v1/messages HTTP/1.1\r\nHost: x\n";
    cr_assert_eq(refused(bytes, sizeof bytes - 1, 65536), ERR_BAD_REQUEST);
    cr_expect(span_is(parser.head.path, "/v1/messages"));
    cr_expect(span_is(http_field_get(&parser.head, "host", NULL), "x"));
    struct span body;
    size_t used, first = 30, n = sizeof bare_lf - 1;
    char *before = malloc(n), *after = malloc(n);
    memcpy(before, bare_lf, first);
    memcpy(after, bare_lf, n);
    http1_init(&parser, false, 65536);
    cr_assert_eq(http1_read(&parser, (struct span){before, first}, false, &used, &body), HTTP1_MORE);
    memset(before, '?', first);
    free(before);
    cr_assert_eq(http1_read(&parser, (struct span){after, n}, false, &used, &body), HTTP1_BAD);
    cr_expect(span_is(parser.head.path, "/v1/messages"));
    free(after);
}

Test(http1, endless_chunk_lines_and_trailers_are_refused) {
    struct span body;
    size_t used, n = sizeof CHUNKED - 1;
    memset(big, 'a', sizeof big);
    memcpy(big, CHUNKED "5;", n + 2);
    http1_init(&parser, false, 65536);
    cr_expect_eq(http1_read(&parser, (struct span){big, n}, false, &used, &body), HTTP1_HEAD);
    cr_expect_eq(http1_read(&parser, (struct span){big + n, 1000}, false, &used, &body), HTTP1_BAD, "extension");
    memcpy(big + n, "0\r\nA:", 5);
    http1_init(&parser, false, 65536);
    cr_expect_eq(http1_read(&parser, (struct span){big, n}, false, &used, &body), HTTP1_HEAD);
    cr_expect_eq(http1_read(&parser, (struct span){big + n, 10000}, false, &used, &body), HTTP1_BAD, "trailer");
}

static const struct row answers[] = {
    ROW("by length", ERR_NONE, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi"),
    ROW("chunked", ERR_NONE, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n"),
    ROW("no reason", ERR_NONE, "HTTP/1.1 200\r\nContent-Length: 2\r\n\r\nhi"),
    ROW("204 has no body", ERR_NONE, "HTTP/1.1 204 No Content\r\n\r\n"),
    ROW("304 keeps its length to itself", ERR_NONE, "HTTP/1.1 304 Not Modified\r\nContent-Length: 9\r\n\r\n"),
    ROW("interim", ERR_NONE, "HTTP/1.1 103 Early Hints\r\nLink: a\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"),
    ROW("until close", ERR_NONE, "HTTP/1.0 200 OK\r\n\r\nall that comes"),
    ROW("length and coding", ERR_BAD_REQUEST,
        "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n"),
    ROW("two lengths", ERR_BAD_REQUEST, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\n"),
    ROW("status of two digits", ERR_BAD_REQUEST, "HTTP/1.1 20 OK\r\n\r\n"),
    ROW("not HTTP", ERR_BAD_REQUEST, "SSH-2.0-OpenSSH\r\n"),
};

Test(http1, answers_however_they_are_cut) {
    for (size_t i = 0; i < ARRAY_LEN(answers); i++) {
        const struct row *r = &answers[i];
        memset(whole, 0, 16);
        read_all(&parser, true, r->bytes, r->n, r->n, whole);
        cr_expect_eq(parser.err, r->err, "%s: %s", r->name, whole);
        for (size_t cut = 1; cut < r->n; cut++) {
            memset(pieces, 0, 16);
            read_all(&parser, true, r->bytes, r->n, cut, pieces);
            cr_assert_str_eq(whole, pieces, "%s cut at %zu", r->name, cut);
        }
    }
}

Test(http1, a_body_without_its_end_is_not_whole) {
    struct span body, bytes = SPAN("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhel");
    size_t used, at = 0;
    http1_init(&parser, true, 4096);
    cr_expect_eq(http1_read(&parser, bytes, false, &used, &body), HTTP1_HEAD);
    at += used;
    cr_expect_eq(http1_read(&parser, (struct span){bytes.at + at, bytes.n - at}, false, &used, &body), HTTP1_BODY);
    cr_expect(body.n == 3);
    cr_expect_eq(http1_read(&parser, SPAN(""), true, &used, &body), HTTP1_BAD);
}

Test(http1, head_request_and_connection_words) {
    struct span body, bytes = SPAN("HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: x, Close\r\n\r\n");
    size_t used;
    http1_init(&parser, true, 4096);
    parser.head_request = true;
    cr_expect_eq(http1_read(&parser, bytes, false, &used, &body), HTTP1_HEAD);
    cr_expect(!parser.head.has_body && !parser.keep_alive && parser.head.content_length == 5);
    cr_expect_eq(http1_read(&parser, SPAN(""), false, &used, &body), HTTP1_END);
    int n;
    cr_expect(span_is(http_field_get(&parser.head, "CONTENT-LENGTH", &n), "5") && n == 1);
    cr_expect(!http_field_get(&parser.head, "absent", NULL).at);
}
