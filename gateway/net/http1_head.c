/* The lines of an HTTP/1.1 head and what they mean together (RFC 9112 sections 3 to 6, RFC 9110 section 5).
 *
 * Always true: whatever two readers of the same bytes could understand differently is refused, not repaired. A message
 * has one Host, one length, one coding, or it is no message. */
#include "gateway/net/http1_head.h"

#include <ctype.h>

#define LENGTH_DIGITS_MAX 18 /* keeps a length inside int64 without looking at its value */

bool http1_fail(struct http1 *h, enum err err, const char *what) {
    h->err = err;
    h->what = what;
    return false;
}

bool http1_token_char(unsigned char c) {
    static const char others[] = "!#$%&'*+-.^_`|~";
    if ((c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'))
        return true;
    return c && strchr(others, c);
}

bool http1_value_char(unsigned char c) {
    return c == '\t' || (c >= ' ' && c != 0x7f);
}

static bool digit(char c) {
    return c >= '0' && c <= '9';
}

static bool all_of(struct span s, bool (*is)(unsigned char)) {
    for (size_t i = 0; i < s.n; i++)
        if (!is((unsigned char)s.at[i]))
            return false;
    return true;
}

static bool target_char(unsigned char c) {
    return c > ' ' && c < 0x7f && c != '#';
}

static bool host_char(unsigned char c) {
    return c > ' ' && c < 0x7f && !strchr("\"#,/<>?@\\^`{|}", c);
}

static struct span span_after(struct span s, size_t n) {
    return (struct span){s.at + n, s.n - n};
}

/* "HTTP/1.1" in at[0..8). A well-formed version of another kind is refused by name. */
static bool read_version(struct http1 *h, struct span v) {
    if (v.n < 8 || memcmp(v.at, "HTTP/", 5) != 0 || !digit(v.at[5]) || v.at[6] != '.' || !digit(v.at[7]))
        return http1_fail(h, ERR_BAD_REQUEST, "The protocol version is malformed.");
    if (v.at[5] != '1' || v.at[7] > '1')
        return http1_fail(h, ERR_VERSION, "Only HTTP/1.1 and HTTP/1.0 are spoken here.");
    h->http10 = v.at[7] == '0';
    return true;
}

static void split_query(struct http_head *head, struct span target) {
    const char *mark = memchr(target.at, '?', target.n);
    size_t n = mark ? (size_t)(mark - target.at) : target.n;
    head->path = (struct span){target.at, n};
    head->query = mark ? span_after(target, n + 1) : (struct span){target.at + n, 0};
}

/* "http://host:port/path": the path is served; the authority must later equal Host. */
static bool absolute_target(struct http1 *h, struct span target) {
    size_t scheme = 0;
    if (target.n > 7 && span_is_nocase((struct span){target.at, 7}, "http://"))
        scheme = 7;
    else if (target.n > 8 && span_is_nocase((struct span){target.at, 8}, "https://"))
        scheme = 8;
    if (!scheme)
        return http1_fail(h, ERR_BAD_REQUEST, "The request target is neither a path nor an http URL.");
    struct span rest = span_after(target, scheme);
    size_t n = 0;
    while (n < rest.n && rest.at[n] != '/' && rest.at[n] != '?')
        n++;
    if (!n || !all_of((struct span){rest.at, n}, host_char))
        return http1_fail(h, ERR_BAD_REQUEST, "The request target has no usable authority.");
    h->authority = (struct span){rest.at, n};
    split_query(&h->head, span_after(rest, n));
    if (!h->head.path.n)
        h->head.path = SPAN("/");
    return true;
}

static bool read_target(struct http1 *h, struct span target) {
    if (target.n > HTTP_TARGET_MAX)
        return http1_fail(h, ERR_URI_TOO_LONG, "The request target is too long.");
    if (!target.n || !all_of(target, target_char))
        return http1_fail(h, ERR_BAD_REQUEST, "The request target holds a forbidden byte or is empty.");
    if (span_is(h->head.method, "CONNECT"))
        return http1_fail(h, ERR_BAD_REQUEST, "This is not a proxy.");
    if (span_is(target, "*") && span_is(h->head.method, "OPTIONS")) {
        split_query(&h->head, target);
        return true;
    }
    if (target.at[0] != '/')
        return absolute_target(h, target);
    split_query(&h->head, target);
    return true;
}

static bool request_line(struct http1 *h, struct span line) {
    size_t m = 0;
    while (m < line.n && http1_token_char((unsigned char)line.at[m]))
        m++;
    if (!m || m > HTTP1_METHOD_MAX || m == line.n || line.at[m] != ' ')
        return http1_fail(h, ERR_BAD_REQUEST, "The request line does not begin with a method and one space.");
    h->head.method = (struct span){line.at, m};
    struct span rest = span_after(line, m + 1);
    const char *space = memchr(rest.at, ' ', rest.n);
    if (!space)
        return http1_fail(h, ERR_BAD_REQUEST, "The request line has no protocol version.");
    size_t t = (size_t)(space - rest.at);
    struct span version = span_after(rest, t + 1);
    if (!read_target(h, (struct span){rest.at, t}))
        return false;
    if (version.n != 8)
        return http1_fail(h, ERR_BAD_REQUEST, "The protocol version is malformed.");
    return read_version(h, version);
}

static bool status_line(struct http1 *h, struct span line) {
    if (!read_version(h, line))
        return false;
    struct span rest = span_after(line, 8);
    if (rest.n < 4 || rest.at[0] != ' ' || !digit(rest.at[1]) || !digit(rest.at[2]) || !digit(rest.at[3]))
        return http1_fail(h, ERR_BAD_REQUEST, "The status line has no three-digit status.");
    h->head.status = (rest.at[1] - '0') * 100 + (rest.at[2] - '0') * 10 + (rest.at[3] - '0');
    if (h->head.status < 100 || (rest.n > 4 && rest.at[4] != ' '))
        return http1_fail(h, ERR_BAD_REQUEST, "The status is malformed.");
    if (!all_of(span_after(rest, 4), http1_value_char))
        return http1_fail(h, ERR_BAD_REQUEST, "The reason phrase holds a control byte.");
    return true;
}

bool http1_start_line(struct http1 *h, struct span line) {
    return h->response ? status_line(h, line) : request_line(h, line);
}

bool http1_field_line(struct http1 *h, struct span line) {
    size_t n = 0;
    while (n < line.n && http1_token_char((unsigned char)line.at[n]))
        n++;
    if (!n || n == line.n || line.at[n] != ':')
        return http1_fail(h, ERR_BAD_REQUEST, "A header line is not a name directly followed by a colon.");
    struct span value = span_after(line, n + 1);
    if (!all_of(value, http1_value_char))
        return http1_fail(h, ERR_BAD_REQUEST, "A header value holds a control byte.");
    if (h->head.n_fields == HTTP_FIELDS_MAX)
        return http1_fail(h, ERR_HEADERS, "The request has too many header fields.");
    h->fields[h->head.n_fields++] = (struct http_field){{line.at, n}, span_trim(value)};
    return true;
}

struct span http_field_get(const struct http_head *h, const char *name, int *n) {
    struct span found = SPAN_NONE;
    int count = 0;
    for (size_t i = 0; i < h->n_fields; i++) {
        if (!span_is_nocase(h->fields[i].name, name))
            continue;
        if (!count++)
            found = h->fields[i].value;
    }
    if (n)
        *n = count;
    return found;
}

/* Whether a comma list of any field of that name holds the word. */
static bool lists(const struct http_head *head, const char *name, const char *word) {
    for (size_t i = 0; i < head->n_fields; i++) {
        if (!span_is_nocase(head->fields[i].name, name))
            continue;
        struct span rest = head->fields[i].value, part;
        while (span_cut(&rest, ',', &part))
            if (span_is_nocase(span_trim(part), word))
                return true;
    }
    return false;
}

static bool span_equal_nocase(struct span a, struct span b) {
    if (a.n != b.n)
        return false;
    for (size_t i = 0; i < a.n; i++)
        if (tolower((unsigned char)a.at[i]) != tolower((unsigned char)b.at[i]))
            return false;
    return true;
}

static bool settle_host(struct http1 *h) {
    int n;
    struct span host = http_field_get(&h->head, "host", &n);
    if (n > 1 || (n == 0 && !h->http10))
        return http1_fail(h, ERR_BAD_REQUEST, "A request has exactly one Host.");
    if (n && !all_of(host, host_char))
        return http1_fail(h, ERR_BAD_REQUEST, "Host is malformed.");
    if (n && h->authority.n && !span_equal_nocase(h->authority, host))
        return http1_fail(h, ERR_BAD_REQUEST, "Host and the request target disagree.");
    return true;
}

static bool settle_length(struct http1 *h) {
    int n_length, n_coding;
    struct span length = http_field_get(&h->head, "content-length", &n_length);
    struct span coding = http_field_get(&h->head, "transfer-encoding", &n_coding);
    h->head.content_length = -1;
    if (n_coding) {
        if (n_coding > 1 || !span_is_nocase(coding, "chunked"))
            return http1_fail(h, ERR_BAD_REQUEST, "Transfer-Encoding is something else than one `chunked`.");
        if (n_length)
            return http1_fail(h, ERR_BAD_REQUEST, "Content-Length and Transfer-Encoding exclude each other.");
        if (h->http10)
            return http1_fail(h, ERR_BAD_REQUEST, "HTTP/1.0 has no Transfer-Encoding.");
        h->head.chunked = true;
        return true;
    }
    if (!n_length)
        return true;
    if (n_length > 1 || length.n > LENGTH_DIGITS_MAX || !span_to_i64(length, &h->head.content_length))
        return http1_fail(h, ERR_BAD_REQUEST, "Content-Length is not one plain decimal number.");
    return true;
}

static bool settle_expect(struct http1 *h) {
    int n;
    struct span expect = http_field_get(&h->head, "expect", &n);
    if (!n || h->http10)
        return true;
    if (n > 1 || !span_is_nocase(expect, "100-continue"))
        return http1_fail(h, ERR_EXPECT, "Only 100-continue can be expected.");
    h->expect_continue = h->head.chunked || h->head.content_length > 0;
    return true;
}

static bool bodyless(const struct http1 *h) {
    int s = h->head.status;
    return h->head_request || s < 200 || s == 204 || s == 304;
}

bool http1_settle_head(struct http1 *h) {
    struct http_head *head = &h->head;
    head->fields = h->fields;
    if (!settle_length(h))
        return false;
    if (!h->response && (!settle_host(h) || !settle_expect(h)))
        return false;
    bool close = lists(head, "connection", "close");
    h->keep_alive = !close && (!h->http10 || lists(head, "connection", "keep-alive"));
    if (!h->response) {
        head->has_body = head->chunked || head->content_length > 0;
        return true;
    }
    head->has_body = !bodyless(h) && head->content_length != 0;
    if (head->has_body && !head->chunked && head->content_length < 0)
        h->keep_alive = false;
    return true;
}
