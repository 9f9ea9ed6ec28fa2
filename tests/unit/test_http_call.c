/* Calls to providers that answer by script: every way an answer can end, be late, be coded or be cut. */
#include "gateway/base/clock.h"
#include "gateway/pool.h"
#include "tests/support/loopback.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#define ANSWER(body, length) "HTTP/1.1 200 OK\r\nContent-Length: " length "\r\n\r\n" body

static struct rig rig;
static struct str text, asked;
static int listening, port;

struct caller {
    struct http_call *c;
    struct str got;
    struct span body;
    int changes;
    bool hold; /* the answer is not taken */
    bool progress;
};

static void begin(void) {
    rig_init(&rig);
    str_init(&text, 80 << 20);
    str_init(&asked, 80 << 20);
    port = 0;
    listening = raw_listen(&port);
}

static void end(void) {
    close(listening);
    rig_fini(&rig);
    str_fini(&text);
    str_fini(&asked);
    cr_expect_eq(http_buffered_bytes(), 0, "%lld bytes are still counted", (long long)http_buffered_bytes());
}

TestSuite(call, .init = begin, .fini = end, .timeout = 40);

static void on_change(struct http_call *c, void *user) {
    struct caller *a = user;
    struct evbuffer *b = http_call_body(c);
    a->changes++;
    if (a->hold)
        return;
    size_t n = evbuffer_get_length(b);
    if (n && a->progress)
        http_call_progress(c);
    if (n)
        str_put(&a->got, span_from((const char *)evbuffer_pullup(b, -1), n));
    evbuffer_drain(b, n);
    http_call_took_body(c);
}

static struct http_call_options options(const char *host, int to, const char *path) {
    return (struct http_call_options){
        .target = {.host = host, .port = to}, .method = SPAN("GET"), .path = span_of(path), .on_change = on_change};
}

static void open_call(struct caller *a, struct http_call_options o) {
    *a = (struct caller){.body = a->body, .hold = a->hold, .progress = a->progress};
    str_init(&a->got, 80 << 20);
    o.user = a;
    if (a->body.n) {
        o.method = SPAN("POST");
        o.body = &a->body;
        o.n_body = 1;
    }
    a->c = http_call_open(rig.pool, &o);
    cr_assert_eq(a->changes, 0, "never inside http_call_open");
}

static void close_call(struct caller *a) {
    http_call_close(a->c);
    str_fini(&a->got);
}

static bool over(void *arg) {
    struct caller *a = arg;
    return http_call_ended(a->c) || http_call_failed(a->c);
}

static bool wait_for(struct caller *a, int ms) {
    return rig_until(&rig, over, a, ms);
}

static void expect_failure(struct caller *a, enum http_failure f, int ms) {
    cr_expect(wait_for(a, ms), "nothing in %d ms", ms);
    cr_expect_eq(http_call_failed(a->c), f, "%s instead of %s: %s", http_failure_names[http_call_failed(a->c)],
                 http_failure_names[f], http_call_failure_text(a->c));
    cr_expect(f == HTTP_FAIL_NONE || http_call_failure_text(a->c)[0]);
}

/* One call to a provider that hears the request and says `answer`, then leaves if `leave`. */
static void script(struct caller *a, const char *answer, size_t n, bool leave, enum http_failure f) {
    open_call(a, options("127.0.0.1", port, "/v1/x?y=z"));
    int fd = raw_accept(&rig, listening);
    str_clear(&asked);
    cr_assert(raw_hear(&rig, fd, &asked, "\r\n\r\n", 1000));
    raw_say_n(fd, answer, n);
    if (leave)
        raw_leave(fd, false);
    expect_failure(a, f, 1000);
    if (!leave)
        raw_leave(fd, false);
}

#define SCRIPT(a, answer, leave, f) script(a, answer, sizeof(answer) - 1, leave, f)

Test(call, a_megabyte_each_way_on_one_kept_connection) {
    char *big = malloc(1 << 20);
    struct caller a = {.body = {big, 1 << 20}};
    for (size_t i = 0; i < a.body.n; i++)
        big[i] = (char)(i * 31);
    for (int i = 0; i < 3; i++) {
        open_call(&a, options("127.0.0.1", rig_port(&rig, 0), "/echo"));
        expect_failure(&a, HTTP_FAIL_NONE, 3000);
        cr_expect_eq(http_call_head(a.c)->status, 200);
        cr_expect(span_equal(str_span(&a.got), a.body));
        cr_expect(http_call_sent(a.c));
        close_call(&a);
        rig_pump(&rig, 4);
    }
    cr_expect_eq(front_connections(rig.front), 1, "reused");
    free(big);
}

Test(call, the_request_is_framed_by_us) {
    struct http_field f[] = {
        {SPAN("X-A"), SPAN("b\r\nEvil: c")}, {SPAN("Host"), SPAN("evil")}, {SPAN("connection"), SPAN("close")}};
    struct caller a = {0};
    struct http_call_options o = options("127.0.0.1", port, "/p?q");
    o.fields = f;
    o.n_fields = 3;
    open_call(&a, o);
    int fd = raw_accept(&rig, listening);
    cr_assert(raw_hear(&rig, fd, &asked, "\r\n\r\n", 1000));
    char expected[200];
    snprintf(expected, sizeof expected,
             "GET /p?q HTTP/1.1\r\nhost: 127.0.0.1:%d\r\nX-A: b  Evil: c\r\naccept-encoding: identity\r\n\r\n", port);
    cr_expect_str_eq(asked.at, expected);
    close_call(&a);
    cr_expect(raw_hear(&rig, fd, &asked, NULL, 500), "closed at once when it is let go unfinished");
    close(fd);
    o.path = SPAN("/a b");
    open_call(&a, o);
    expect_failure(&a, HTTP_FAIL_FRAMING, 1000);
    close_call(&a);
}

Test(call, answers_of_every_framing) {
    struct caller a = {0};
    SCRIPT(&a, ANSWER("hello", "5"), false, HTTP_FAIL_NONE);
    cr_expect_str_eq(a.got.at, "hello");
    close_call(&a);
    SCRIPT(&a, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n1\r\n!\r\n0\r\nT: x\r\n\r\n", false,
           HTTP_FAIL_NONE);
    cr_expect_str_eq(a.got.at, "hello!");
    close_call(&a);
    SCRIPT(&a, "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early\r\nA: b\r\n\r\n" ANSWER("x", "1"), false,
           HTTP_FAIL_NONE);
    cr_expect_str_eq(a.got.at, "x");
    close_call(&a);
    SCRIPT(&a, "HTTP/1.0 200 OK\r\n\r\nuntil close", true, HTTP_FAIL_NONE);
    cr_expect_str_eq(a.got.at, "until close");
    close_call(&a);
    SCRIPT(&a, "HTTP/1.1 204 No Content\r\n\r\n", false, HTTP_FAIL_NONE);
    close_call(&a);
    SCRIPT(&a, "HTTP/1.1 302 Found\r\nLocation: http://evil/\r\nContent-Length: 0\r\n\r\n", false, HTTP_FAIL_NONE);
    cr_expect_eq(http_call_head(a.c)->status, 302, "redirects are the user's matter");
    close_call(&a);
}

Test(call, s07_cut_and_malformed_answers_are_not_whole) {
    struct caller a = {0};
    SCRIPT(&a, ANSWER("hel", "5"), true, HTTP_FAIL_RESET);
    close_call(&a);
    SCRIPT(&a, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n", true, HTTP_FAIL_RESET);
    close_call(&a);
    SCRIPT(&a, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", false, HTTP_FAIL_FRAMING);
    close_call(&a);
    SCRIPT(&a, "HTTP/1.1 200 OK\r\nContent-Le", true, HTTP_FAIL_RESET);
    close_call(&a);
    SCRIPT(&a, "", true, HTTP_FAIL_RESET);
    close_call(&a);
    SCRIPT(&a, "SSH-2.0-x\r\n", false, HTTP_FAIL_FRAMING);
    close_call(&a);
    SCRIPT(&a, "HTTP/1.1 101 Switching Protocols\r\n\r\n", false, HTTP_FAIL_FRAMING);
    close_call(&a);
}

Test(call, a_stale_kept_connection_is_replaced_once) {
    struct caller a = {0};
    a.body = SPAN("payload");
    open_call(&a, options("127.0.0.1", port, "/1"));
    int first = raw_accept(&rig, listening);
    cr_assert(raw_hear(&rig, first, &asked, "payload", 1000));
    raw_say(first, ANSWER("one", "3"));
    expect_failure(&a, HTTP_FAIL_NONE, 1000);
    close_call(&a);
    open_call(&a, options("127.0.0.1", port, "/2"));
    cr_assert(raw_hear(&rig, first, &asked, "POST /2", 1000), "on the kept one");
    raw_leave(first, false);
    int second = raw_accept(&rig, listening);
    str_clear(&asked);
    cr_assert(raw_hear(&rig, second, &asked, "payload", 1000), "the same request again");
    cr_expect(strstr(asked.at, "POST /2") == asked.at);
    raw_leave(second, true);
    expect_failure(&a, HTTP_FAIL_RESET, 1000);
    rig_pump(&rig, 20);
    cr_expect_lt(accept(listening, NULL, NULL), 0, "not a third time");
    close_call(&a);
}

Test(call, a_fresh_connection_that_dies_is_not_tried_again) {
    struct caller a = {0};
    open_call(&a, options("127.0.0.1", port, "/"));
    int fd = raw_accept(&rig, listening);
    cr_assert(raw_hear(&rig, fd, &asked, "GET", 1000));
    raw_leave(fd, true);
    expect_failure(&a, HTTP_FAIL_RESET, 1000);
    cr_expect_lt(accept(listening, NULL, NULL), 0);
    close_call(&a);
}

Test(call, a_reused_connection_that_answered_a_byte_is_not_tried_again) {
    struct caller a = {0};
    SCRIPT(&a, ANSWER("x", "1"), true, HTTP_FAIL_NONE);
    close_call(&a);
    open_call(&a, options("127.0.0.1", port, "/1"));
    int fd = raw_accept(&rig, listening);
    cr_assert(raw_hear(&rig, fd, &asked, "/1", 1000), "the closed one was not borrowed");
    raw_say(fd, ANSWER("x", "1"));
    expect_failure(&a, HTTP_FAIL_NONE, 1000);
    close_call(&a);
    open_call(&a, options("127.0.0.1", port, "/2"));
    cr_assert(raw_hear(&rig, fd, &asked, "/2", 1000));
    raw_say(fd, "H");
    rig_pump(&rig, 5);
    raw_leave(fd, false);
    expect_failure(&a, HTTP_FAIL_RESET, 1000);
    close_call(&a);
}

Test(call, an_early_answer_is_heard_while_the_request_is_still_going_out) {
    struct caller a = {.body = {calloc(1, 16 << 20), 16 << 20}};
    open_call(&a, options("127.0.0.1", port, "/"));
    int fd = raw_accept(&rig, listening);
    raw_say(fd, "HTTP/1.1 413 Too Large\r\nContent-Length: 2\r\n\r\nno");
    expect_failure(&a, HTTP_FAIL_NONE, 1000);
    cr_expect_eq(http_call_head(a.c)->status, 413);
    close_call(&a);
    close(fd);
    open_call(&a, options("127.0.0.1", port, "/"));
    fd = raw_accept(&rig, listening);
    raw_say(fd, "HTTP/1.1 413 Too Large\r\nContent-Length: 2\r\n\r\nno");
    rig_pump(&rig, 5);
    raw_leave(fd, true);
    (void)wait_for(&a, 1000);
    close_call(&a);
    free((char *)a.body.at);
}

static void clock_case(int64_t connect_ms, int64_t first_ms, int64_t idle_ms, int64_t total_ms, bool progress,
                       const char *answer, enum http_failure f) {
    struct caller a = {.progress = progress};
    struct http_call_options o = options("127.0.0.1", port, "/");
    int64_t began = clock_mono_us();
    o.connect_us = connect_ms * US_PER_MS;
    o.first_us = first_ms * US_PER_MS;
    o.idle_us = idle_ms * US_PER_MS;
    o.total_us = total_ms * US_PER_MS;
    open_call(&a, o);
    int fd = raw_accept(&rig, listening);
    cr_assert(raw_hear(&rig, fd, &asked, "\r\n\r\n", 1000));
    if (answer)
        raw_say(fd, answer);
    expect_failure(&a, f, 1000);
    cr_expect(clock_mono_us() - began >= 40 * US_PER_MS);
    close_call(&a);
    close(fd);
}

Test(call, s10_each_clock_is_its_own) {
    clock_case(0, 50, 0, 0, false, NULL, HTTP_FAIL_FIRST_TIMEOUT);
    clock_case(0, 0, 0, 50, false, NULL, HTTP_FAIL_TOTAL_TIMEOUT);
    clock_case(0, 500, 50, 0, false, "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n", HTTP_FAIL_IDLE_TIMEOUT);
    clock_case(0, 60, 50, 0, true, "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc", HTTP_FAIL_IDLE_TIMEOUT);
    clock_case(0, 50, 500, 0, false, "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n: c\n", HTTP_FAIL_FIRST_TIMEOUT);
}

static bool window_full(void *arg) {
    struct caller *a = arg;
    return evbuffer_get_length(http_call_body(a->c)) >= HTTP_WINDOW;
}

static bool is_gone(void *arg) {
    (void)arg;
    return rig.gone > 0;
}

static bool one_head(void *arg) {
    (void)arg;
    return rig.heads > 0;
}

Test(call, s10_silence_that_is_ours_is_not_the_providers) {
    rig.stream_bytes = 8 << 20;
    struct caller a = {.hold = true};
    struct http_call_options o = options("127.0.0.1", rig_port(&rig, 0), "/stream");
    o.idle_us = 150 * US_PER_MS;
    open_call(&a, o);
    cr_expect(rig_until(&rig, window_full, &a, 2000));
    rig_pump(&rig, 300);
    cr_expect_eq(http_call_failed(a.c), HTTP_FAIL_NONE, "%s", http_call_failure_text(a.c));
    cr_expect(http_buffered_bytes() < HTTP_WINDOW + 512 * 1024, "%lld", (long long)http_buffered_bytes());
    a.hold = false;
    on_change(a.c, &a);
    expect_failure(&a, HTTP_FAIL_NONE, 3000);
    cr_expect_eq(a.got.n, 8u << 20);
    close_call(&a);
}

Test(call, failures_are_told_apart) {
    struct caller a = {0};
    int closed = port;
    close(listening);
    open_call(&a, options("127.0.0.1", closed, "/"));
    expect_failure(&a, HTTP_FAIL_CONNECT, 1000);
    cr_expect(!http_call_sent(a.c));
    close_call(&a);
    open_call(&a, options("no-such-host.invalid", closed, "/"));
    expect_failure(&a, HTTP_FAIL_RESOLVE, 9000);
    close_call(&a);
    port = 0;
    listening = raw_listen(&port);
}

Test(call, connect_clock_covers_the_handshake) {
    struct caller a = {0};
    struct http_call_options o = options("127.0.0.1", port, "/");
    o.target.tls = true;
    o.connect_us = 50 * US_PER_MS;
    open_call(&a, o);
    expect_failure(&a, HTTP_FAIL_CONNECT_TIMEOUT, 1000);
    close_call(&a);
}

Test(call, r13_running_out_of_sockets_is_our_own_failure) {
    struct rlimit old, few = {0, 0};
    struct caller a = {0};
    getrlimit(RLIMIT_NOFILE, &old);
    few.rlim_max = old.rlim_max;
    open_call(&a, options("127.0.0.1", port, "/"));
    setrlimit(RLIMIT_NOFILE, &few);
    (void)wait_for(&a, 1000);
    setrlimit(RLIMIT_NOFILE, &old);
    expect_failure(&a, HTTP_FAIL_LOCAL, 1000);
    close_call(&a);
}

Test(call, a_call_may_be_closed_in_any_phase) {
    struct caller a = {0};
    open_call(&a, options("127.0.0.1", port, "/"));
    close_call(&a);
    open_call(&a, options("localhost", port, "/"));
    event_base_loop(loop_base(rig.loop), EVLOOP_NONBLOCK);
    close_call(&a);
    open_call(&a, options("127.0.0.1", port, "/"));
    event_base_loop(loop_base(rig.loop), EVLOOP_NONBLOCK);
    close_call(&a);
    rig_pump(&rig, 20);
    cr_expect_eq(a.changes, 0);
}

/* ---- codings ---- */

static size_t compress_as(int bits, const char *bytes, size_t n, char *out, size_t max) {
    z_stream z = {0};
    deflateInit2(&z, 9, Z_DEFLATED, bits, 8, Z_DEFAULT_STRATEGY);
    z.next_in = (Bytef *)(uintptr_t)bytes;
    z.avail_in = (uInt)n;
    z.next_out = (Bytef *)out;
    z.avail_out = (uInt)max;
    deflate(&z, Z_FINISH);
    deflateEnd(&z);
    return z.total_out;
}

static void coded_case(const char *name, int bits, size_t cut, enum http_failure f) {
    static char plain[100000], out[200000];
    struct caller a = {0};
    for (size_t i = 0; i < sizeof plain; i++)
        plain[i] = (char)('a' + i * i % 26);
    int head =
        snprintf(out, sizeof out, "HTTP/1.1 200 OK\r\ncontent-encoding: %s\r\ncontent-length: 000000\r\n\r\n", name);
    size_t n = compress_as(bits, plain, sizeof plain, out + head, sizeof out - (size_t)head) - cut;
    char digits[8];
    snprintf(digits, sizeof digits, "%06zu", n);
    memcpy(out + head - 10, digits, 6);
    script(&a, out, (size_t)head + n, false, f);
    if (f == HTTP_FAIL_NONE) {
        cr_expect(span_equal(str_span(&a.got), span_from(plain, sizeof plain)), "%s", name);
        cr_expect_eq(http_call_head(a.c)->n_fields, 0, "label and length belong to the coded form");
    }
    close_call(&a);
}

Test(call, o06_codings_are_taken_off_or_refused) {
    coded_case("gzip", 15 + 16, 0, HTTP_FAIL_NONE);
    coded_case("deflate", 15, 0, HTTP_FAIL_NONE);
    coded_case("deflate", -15, 0, HTTP_FAIL_NONE);
    coded_case("gzip", 15 + 16, 5, HTTP_FAIL_CODING);
    struct caller a = {0};
    SCRIPT(&a, "HTTP/1.1 200 OK\r\ncontent-encoding: br\r\ncontent-length: 3\r\n\r\nabc", false, HTTP_FAIL_CODING);
    close_call(&a);
    SCRIPT(&a, "HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: 3\r\n\r\nabc", false, HTTP_FAIL_CODING);
    close_call(&a);
    SCRIPT(&a, "HTTP/1.1 204 No Content\r\ncontent-encoding: zstd\r\n\r\n", false, HTTP_FAIL_NONE);
    close_call(&a);
}

#define BUFFERS_BESIDE (192 << 10) /* coded bytes, one input buffer and one step of the inflater */

Test(call, o05_a_compressed_bomb_stays_in_its_window) {
    size_t n = 64 << 20, head = 0;
    char *zeros = calloc(1, n), *out = malloc(1 << 20);
    struct caller a = {.hold = true};
    head = (size_t)snprintf(out, 1000, "HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\nconnection: close\r\n\r\n");
    n = compress_as(15 + 16, zeros, n, out + head, (1 << 20) - head);
    open_call(&a, options("127.0.0.1", port, "/"));
    int fd = raw_accept(&rig, listening);
    raw_say_n(fd, out, head + n);
    raw_leave(fd, false);
    rig_pump(&rig, 50);
    cr_expect(http_buffered_bytes() < HTTP_WINDOW + BUFFERS_BESIDE, "%lld", (long long)http_buffered_bytes());
    a.hold = false;
    on_change(a.c, &a);
    expect_failure(&a, HTTP_FAIL_NONE, 9000);
    cr_expect_eq(a.got.n, 64u << 20);
    close_call(&a);
    free(zeros);
    free(out);
}

/* ---- TLS and proxies ---- */

static char directory[] = "/tmp/tg-call-XXXXXX", cert[64], key[64];

static int listen_tls(const char *host) {
    cr_assert(mkdtemp(directory));
    make_certificate(directory, host);
    snprintf(cert, sizeof cert, "%s/cert.pem", directory);
    snprintf(key, sizeof key, "%s/key.pem", directory);
    cr_assert(front_listen(rig.front, "127.0.0.1:0", cert, key, &rig.why), "%s", rig.why.at);
    return rig_port(&rig, 1);
}

static void remove_certificates(void) {
    unlink(cert);
    unlink(key);
    rmdir(directory);
}

static struct http_call_options tls_options(const char *host, int to, const char *path) {
    struct http_call_options o = options(host, to, path);
    o.target.tls = true;
    o.target.ca_file = cert;
    o.connect_us = 2 * US_PER_S;
    return o;
}

static struct up *first_up(void) {
    return container_of(list_first(&rig.pool->ups), struct up, all);
}

Test(call, tls_is_verified_kept_and_resumed) {
    int to = listen_tls("localhost");
    struct caller a = {.body = {calloc(1, 1 << 20), 1 << 20}};
    for (int i = 0; i < 2; i++) {
        open_call(&a, tls_options("localhost", to, "/echo"));
        expect_failure(&a, HTTP_FAIL_NONE, 5000);
        cr_expect(a.got.n == a.body.n);
        close_call(&a);
        rig_pump(&rig, 5);
    }
    cr_expect_eq(front_connections(rig.front), 1, "kept");
    cr_expect(!SSL_session_reused(first_up()->conn.ssl));
    up_close(first_up());
    open_call(&a, tls_options("localhost", to, "/echo"));
    expect_failure(&a, HTTP_FAIL_NONE, 5000);
    cr_expect(SSL_session_reused(first_up()->conn.ssl), "resumed");
    close_call(&a);
    free((char *)a.body.at);
    remove_certificates();
}

Test(call, tls_of_the_wrong_name_or_an_unknown_authority_is_refused) {
    int to = listen_tls("localhost");
    struct caller a = {0};
    open_call(&a, tls_options("127.0.0.1", to, "/echo"));
    expect_failure(&a, HTTP_FAIL_TLS, 2000);
    cr_expect(strstr(http_call_failure_text(a.c), "certificate") != NULL, "%s", http_call_failure_text(a.c));
    cr_expect(!http_call_sent(a.c) && rig.heads == 0);
    close_call(&a);
    struct http_call_options o = tls_options("localhost", to, "/echo");
    o.target.ca_file = NULL;
    open_call(&a, o);
    expect_failure(&a, HTTP_FAIL_TLS, 2000);
    close_call(&a);
    o.target.ca_file = "/nowhere";
    open_call(&a, o);
    expect_failure(&a, HTTP_FAIL_TLS, 2000);
    close_call(&a);
    o = tls_options("127.0.0.1", rig_port(&rig, 0), "/echo");
    open_call(&a, o);
    expect_failure(&a, HTTP_FAIL_TLS, 2000);
    close_call(&a);
    remove_certificates();
}

Test(call, tls_clients_that_leave_are_seen_and_slow_ones_are_bounded) {
    int to = listen_tls("localhost");
    struct caller a = {0};
    open_call(&a, tls_options("localhost", to, "/hang"));
    cr_assert(rig_until(&rig, one_head, NULL, 3000));
    close_call(&a);
    cr_expect(rig_until(&rig, is_gone, NULL, 1000));
    rig.stream_bytes = 8 << 20;
    a.hold = true;
    open_call(&a, tls_options("localhost", to, "/stream"));
    cr_expect(rig_until(&rig, window_full, &a, 3000));
    rig_pump(&rig, 50);
    cr_expect(http_buffered_bytes() < HTTP_WINDOW + 512 * 1024, "%lld", (long long)http_buffered_bytes());
    a.hold = false;
    on_change(a.c, &a);
    expect_failure(&a, HTTP_FAIL_NONE, 9000);
    cr_expect_eq(a.got.n, 8u << 20);
    close_call(&a);
    remove_certificates();
}

struct relay {
    struct caller *a;
    int one, two;
};

static void carry(int from, int to) {
    char bytes[65536];
    ssize_t n = recv(from, bytes, sizeof bytes, 0);
    if (n > 0)
        raw_say_n(to, bytes, (size_t)n);
}

static bool carried(void *arg) {
    struct relay *r = arg;
    carry(r->one, r->two);
    carry(r->two, r->one);
    return over(r->a);
}

Test(call, proxies_are_asked_to_connect_for_tls_and_given_whole_urls_else) {
    int to = listen_tls("localhost");
    char proxy[64], expected[64];
    snprintf(proxy, sizeof proxy, "http://127.0.0.1:%d", port);
    struct caller a = {0};
    struct http_call_options o = tls_options("localhost", to, "/refuse");
    o.target.proxy = proxy;
    open_call(&a, o);
    struct relay r = {&a, raw_accept(&rig, listening), -1};
    cr_assert(raw_hear(&rig, r.one, &asked, "\r\n\r\n", 1000));
    snprintf(expected, sizeof expected, "CONNECT localhost:%d HTTP/1.1\r\n", to);
    cr_expect(strncmp(asked.at, expected, strlen(expected)) == 0, "%s", asked.at);
    r.two = raw_connect(to);
    raw_say(r.one, "HTTP/1.1 200 Connection established\r\n\r\n");
    cr_expect(rig_until(&rig, carried, &r, 3000));
    expect_failure(&a, HTTP_FAIL_NONE, 10);
    cr_expect_eq(http_call_head(a.c)->status, 401);
    close_call(&a);
    close(r.one), close(r.two);
    rig_pump(&rig, 5);
    open_call(&a, o);
    r.one = raw_accept(&rig, listening);
    raw_say(r.one, "HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n");
    expect_failure(&a, HTTP_FAIL_CONNECT, 1000);
    close_call(&a);
    close(r.one);
    o = options("example.invalid", 80, "/x");
    o.target.proxy = proxy;
    SCRIPT(&a, "", true, HTTP_FAIL_RESET);
    close_call(&a);
    open_call(&a, o);
    r.one = raw_accept(&rig, listening);
    str_clear(&asked);
    cr_expect(
        raw_hear(&rig, r.one, &asked, "GET http://example.invalid/x HTTP/1.1\r\nhost: example.invalid\r\n", 1000));
    close_call(&a);
    close(r.one);
    remove_certificates();
}

Test(call, kept_connections_are_bounded_and_dead_ones_forgotten) {
    struct caller a = {0};
    SCRIPT(&a, ANSWER("x", "1"), true, HTTP_FAIL_NONE);
    close_call(&a);
    rig_pump(&rig, 10);
    cr_expect_eq(rig.pool->ups.n, 0, "the provider closed it");
    SCRIPT(&a, ANSWER("x", "1") "surplus", false, HTTP_FAIL_NONE);
    close_call(&a);
    rig_pump(&rig, 10);
    cr_expect_eq(rig.pool->ups.n, 0, "bytes nobody asked for");
    SCRIPT(&a, "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 1\r\n\r\nx", false, HTTP_FAIL_NONE);
    close_call(&a);
    cr_expect_eq(rig.pool->ups.n, 0);
}
