/* The HTTP/1.1 codec on any bytes: the result must not depend on how they are cut, spans must lie inside what was given,
 * and where llhttp is installed (built strict) it must read every message that we accept as we do. The first byte says
 * how to cut and which side of a message it is. */
#include "gateway/net/http.h"

#include "tests/fuzz/llhttp_here.h"

#include <assert.h>

#define HEAD_MAX 2048
#define MESSAGES_MAX 8

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct message {
    struct str start, body;
    size_t n_fields, end; /* end: offset behind the message */
    bool whole, keep_alive, upgrade;
    enum err err;
};

static void message_init(struct message *m) {
    memset(m, 0, sizeof *m);
    str_init(&m->start, 1 << 16);
    str_init(&m->body, 1 << 20);
}

static void message_fini(struct message *m) {
    str_fini(&m->start);
    str_fini(&m->body);
}

static void inside(struct span s, const char *at, size_t n) {
    assert(!s.n || (s.at >= at && s.at + s.n <= at + n));
}

static void take_head(struct message *m, const struct http1 *h, const char *at, size_t n) {
    for (size_t i = 0; i < h->head.n_fields; i++) {
        inside(h->head.fields[i].name, at, n);
        inside(h->head.fields[i].value, at, n);
        assert(h->head.fields[i].name.n);
    }
    inside(h->head.method, at, n);
    str_printf(&m->start, "%.*s %.*s?%.*s %d %d", SPAN_ARG(h->head.method), SPAN_ARG(h->head.path),
               SPAN_ARG(h->head.query), h->head.status, h->http10);
    m->n_fields = h->head.n_fields;
    m->keep_alive = h->keep_alive;
    m->upgrade = http_field_get(&h->head, "upgrade", NULL).at || http_field_get(&h->head, "http2-settings", NULL).at;
}

/* One message from `bytes`, of which `step` more are shown each time. */
static void read_message(struct message *m, bool response, struct span bytes, size_t step) {
    struct http1 h;
    size_t at = 0, given = step < bytes.n ? step : bytes.n;
    http1_init(&h, response, HEAD_MAX);
    for (;;) {
        size_t used;
        struct span body, piece = {bytes.at + at, given - at};
        enum http1_result r = http1_read(&h, piece, given == bytes.n && at == bytes.n, &used, &body);
        assert(used <= piece.n);
        inside(body, piece.at, piece.n);
        at += used;
        if (r == HTTP1_HEAD)
            take_head(m, &h, piece.at, used);
        if (r == HTTP1_BODY)
            str_put(&m->body, body);
        if (r == HTTP1_BAD)
            assert((m->err = h.err) != ERR_NONE && h.what && !h.keep_alive);
        m->whole = r == HTTP1_END;
        m->end = at;
        if (r == HTTP1_BAD || r == HTTP1_END || (r == HTTP1_MORE && given == bytes.n && at < bytes.n))
            return;
        if (r == HTTP1_MORE && given < bytes.n)
            given = given + step < bytes.n ? given + step : bytes.n;
        else if (r == HTTP1_MORE && bytes.n == 0)
            return;
    }
}

static bool same(const struct str *a, const struct str *b) {
    return span_equal(str_span(a), str_span(b));
}

#ifdef HAVE_LLHTTP
static struct message theirs;

static int on_body(llhttp_t *p, const char *at, size_t n) {
    (void)p;
    str_put(&theirs.body, span_from(at, n));
    return 0;
}

static int on_field(llhttp_t *p) {
    theirs.n_fields += !(p->flags & F_TRAILING);
    return 0;
}

static int on_complete(llhttp_t *p) {
    (void)p;
    theirs.whole = true;
    return HPE_PAUSED;
}

/* Refusals of llhttp that are a matter of taste: it knows a list of methods and dislikes some targets. */
static bool of_taste(llhttp_errno_t e) {
    return e == HPE_INVALID_METHOD || e == HPE_INVALID_URL || e == HPE_INVALID_CONSTANT || e == HPE_INVALID_VERSION;
}

/* It takes one extension with a value a chunk and calls the second a bad size; the grammar has room for more. */
static bool of_extensions(llhttp_errno_t e, const llhttp_t *p, struct span bytes) {
    const char *at = llhttp_get_error_pos(p);
    if (e != HPE_INVALID_CHUNK_SIZE)
        return false;
    while (at > bytes.at && at[-1] != '\n' && at[-1] != ';')
        at--;
    return at > bytes.at && at[-1] == ';';
}

static void compare(const struct message *ours, bool response, struct span bytes) {
    llhttp_settings_t settings;
    llhttp_t p;
    if (!ours->whole || ours->upgrade || response)
        return;
    llhttp_settings_init(&settings);
    settings.on_body = on_body;
    settings.on_header_value_complete = on_field;
    settings.on_message_complete = on_complete;
    message_init(&theirs);
    llhttp_init(&p, HTTP_REQUEST, &settings);
    llhttp_errno_t e = llhttp_execute(&p, bytes.at, ours->end);
    /* It reads trailers as it does fields and minds framing in them; here they are dropped, and nothing of them goes on. */
    bool of_trailers = e != HPE_PAUSED && (p.flags & F_TRAILING);
    if (!of_taste(e) && !of_extensions(e, &p, bytes)) {
        assert(of_trailers || (e == HPE_PAUSED && theirs.whole));
        assert(of_trailers || (size_t)(llhttp_get_error_pos(&p) - bytes.at) >= ours->end - 1);
        assert(same(&theirs.body, &ours->body));
    }
    message_fini(&theirs);
}
#else
static void compare(const struct message *ours, bool response, struct span bytes) {
    (void)ours, (void)response, (void)bytes;
}
#endif

static size_t check_message(bool response, struct span bytes, size_t step) {
    struct message whole, cut;
    message_init(&whole);
    message_init(&cut);
    read_message(&whole, response, bytes, bytes.n);
    read_message(&cut, response, bytes, step);
    assert(whole.whole == cut.whole && whole.err == cut.err);
    assert(!whole.whole || (whole.end == cut.end && same(&whole.body, &cut.body)));
    assert(same(&whole.start, &cut.start) && whole.n_fields == cut.n_fields && whole.keep_alive == cut.keep_alive);
    compare(&whole, response, bytes);
    size_t end = whole.whole ? whole.end : 0;
    message_fini(&whole);
    message_fini(&cut);
    return end;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (!size)
        return 0;
    bool response = data[0] & 0x80;
    size_t step = (data[0] & 0x7f) + 1u;
    struct span rest = span_from(data + 1, size - 1);
    for (int i = 0; i < MESSAGES_MAX && rest.n; i++) {
        size_t n = check_message(response, rest, step);
        if (!n)
            break;
        rest = span_from(rest.at + n, rest.n - n);
    }
    return 0;
}
