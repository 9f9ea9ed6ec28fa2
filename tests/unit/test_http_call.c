/* Calls to providers that answer by script: every way an answer can end, be late or be cut. */
#include "tests/unit/call_rig.h"

#include <sys/resource.h>

TestSuite(call, .init = begin, .fini = end, .timeout = 40);

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

/* The last bytes and the RST behind them stand in the socket before the loop looks: one edge tells of both. */
Test(call, s07_a_reset_that_comes_with_the_last_bytes_is_seen_at_once) {
    struct caller a = {0};
    open_call(&a, options("127.0.0.1", port, "/"));
    int fd = raw_accept(&rig, listening);
    cr_assert(raw_hear(&rig, fd, &asked, "GET", 1000));
    raw_say(fd, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n");
    raw_leave(fd, true);
    expect_failure(&a, HTTP_FAIL_RESET, 1000);
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
