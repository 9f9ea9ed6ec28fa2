/* The front on real loopback sockets: answers in order, bodies within their window, and clients that leave in every way and
 * phase. */
#include "gateway/base/clock.h"
#include "tests/support/loopback.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#define POST(path, length) "POST " path " HTTP/1.1\r\nHost: a\r\nContent-Length: " length "\r\n\r\n"
#define GET(path) "GET " path " HTTP/1.1\r\nHost: a\r\n\r\n"

static struct rig rig;
static struct str text;

static void begin(void) {
    rig_init(&rig);
    str_init(&text, 64 << 20);
}

static void end(void) {
    rig_fini(&rig);
    str_fini(&text);
    cr_expect_eq(http_buffered_bytes(), 0, "%lld bytes are still counted", (long long)http_buffered_bytes());
}

TestSuite(front, .init = begin, .fini = end, .timeout = 30);

static bool is_gone(void *arg) {
    (void)arg;
    return rig.gone > 0;
}

static bool all_closed(void *arg) {
    (void)arg;
    return front_connections(rig.front) == 0;
}

static bool one_head(void *arg) {
    (void)arg;
    return rig.heads > 0;
}

static int count(const char *what) {
    int n = 0;
    for (const char *at = text.at; at && (at = strstr(at, what)); at += strlen(what))
        n++;
    return n;
}

Test(front, keeps_alive_and_answers_pipelined_requests_in_order) {
    int fd = raw_connect(rig_port(&rig, 0));
    raw_say(fd, POST("/echo", "3") "one" POST("/echo", "3") "two" GET("/refuse") POST("/echo", "5") "three");
    cr_expect(raw_hear(&rig, fd, &text, "three", 2000));
    const char *one = strstr(text.at, "one"), *two = strstr(text.at, "two"), *who = strstr(text.at, "who are you");
    cr_expect(one && two && who && one < two && two < who && who < strstr(text.at, "three"));
    raw_say(fd, POST("/echo", "4") "four");
    cr_expect(raw_hear(&rig, fd, &text, "four", 2000), "kept alive");
    cr_expect_eq(rig.heads, 5);
    cr_expect_eq(count("connection: close"), 0);
    raw_leave(fd, false);
    cr_expect(rig_until(&rig, all_closed, NULL, 1000));
}

Test(front, a_request_of_single_bytes_is_the_same_request) {
    static const char request[] =
        "POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2;x\r\nde\r\n0\r\n\r\n";
    int fd = raw_connect(rig_port(&rig, 0));
    for (size_t i = 0; i < sizeof request - 1; i++) {
        raw_say_n(fd, request + i, 1);
        event_base_loop(loop_base(rig.loop), EVLOOP_NONBLOCK);
    }
    cr_expect(raw_hear(&rig, fd, &text, "\r\n\r\nabcde", 2000));
    raw_leave(fd, false);
}

Test(front, expect_continue_is_answered_only_when_the_body_is_wanted) {
    int fd = raw_connect(rig_port(&rig, 0));
    raw_say(fd, "POST /refuse HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n");
    cr_expect(raw_hear(&rig, fd, &text, NULL, 3000), "closed: the body may or may not come");
    cr_expect(strstr(text.at, "HTTP/1.1 401") == text.at && strstr(text.at, "connection: close"));
    raw_leave(fd, false);
    str_clear(&text);
    fd = raw_connect(rig_port(&rig, 0));
    raw_say(fd, "POST /echo HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n");
    cr_expect(raw_hear(&rig, fd, &text, "HTTP/1.1 100 Continue\r\n\r\n", 1000));
    raw_say(fd, "abc");
    cr_expect(raw_hear(&rig, fd, &text, "\r\n\r\nabc", 1000));
    raw_leave(fd, false);
}

Test(front, head_and_http10_and_bad_framing) {
    int fd = raw_connect(rig_port(&rig, 0));
    raw_say(fd, "HEAD /refuse HTTP/1.1\r\nHost: a\r\n\r\n" GET("/refuse"));
    cr_expect(raw_hear(&rig, fd, &text, "who are you", 1000));
    cr_expect_eq(count("content-length: 11"), 2);
    cr_expect_eq(count("who are you"), 1, "no body for HEAD");
    raw_say(fd, "GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n" GET("/echo"));
    cr_expect(raw_hear(&rig, fd, &text, NULL, 1000), "closes");
    cr_expect(strstr(text.at, "HTTP/1.1 400 ") && rig.bad == 1 && rig.heads == 2);
    raw_leave(fd, false);
    str_clear(&text);
    rig.stream_bytes = 10;
    fd = raw_connect(rig_port(&rig, 0));
    raw_say(fd, "GET /stream HTTP/1.0\r\n\r\n");
    cr_expect(raw_hear(&rig, fd, &text, NULL, 1000), "HTTP/1.0: until close");
    cr_expect(!strstr(text.at, "chunked"));
    raw_leave(fd, false);
}

struct upload {
    int fd;
    size_t sent, n;
    char *bytes;
};

static bool uploaded(void *arg) {
    struct upload *u = arg;
    ssize_t n = send(u->fd, u->bytes + u->sent, u->n - u->sent, MSG_NOSIGNAL);
    if (n > 0)
        u->sent += (size_t)n;
    return u->sent == u->n;
}

Test(front, a_body_that_is_not_taken_stays_in_its_window) {
    struct upload u = {raw_connect(rig_port(&rig, 0)), 0, 32 << 20, calloc(1, 32 << 20)};
    raw_say(u.fd, POST("/body", "33554432"));
    cr_expect(!rig_until(&rig, uploaded, &u, 300), "the client is held up");
    cr_expect(http_buffered_bytes() < 2 * HTTP_WINDOW, "%lld", (long long)http_buffered_bytes());
    raw_leave(u.fd, true);
    cr_expect(rig_until(&rig, is_gone, NULL, 1000), "seen although nothing is read");
    free(u.bytes);
}

Test(front, a_slow_reader_does_not_grow_memory) {
    rig.stream_bytes = 64 << 20;
    int fd = raw_connect(rig_port(&rig, 0));
    raw_say(fd, GET("/stream"));
    rig_pump(&rig, 200);
    cr_expect(http_buffered_bytes() < 128 * 1024, "%lld", (long long)http_buffered_bytes());
    cr_expect(rig.ended == 0 && rig.unsent_max < 80 * 1024);
    rig.stream_bytes = 0;
    str_fini(&text);
    str_init(&text, 80 << 20);
    cr_expect(raw_hear(&rig, fd, &text, "\r\n0\r\n\r\n", 10000));
    cr_expect(text.n > (64u << 20));
    raw_leave(fd, false);
}

static void leaves(const char *request, bool reset, bool stream) {
    int64_t began = clock_mono_us();
    int fd = raw_connect(rig_port(&rig, 0));
    rig.gone = rig.heads = 0;
    rig.stream_bytes = stream ? 64 << 20 : 0;
    raw_say(fd, request);
    cr_assert(rig_until(&rig, one_head, NULL, 1000));
    rig_pump(&rig, 10);
    raw_leave(fd, reset);
    cr_expect(rig_until(&rig, is_gone, NULL, 1000), "%s reset %d", request, reset);
    cr_expect(clock_mono_us() - began < US_PER_S);
    cr_expect(rig_until(&rig, all_closed, NULL, 500));
}

Test(front, s05_a_client_that_leaves_is_seen_in_every_phase) {
    for (int reset = 0; reset < 2; reset++) {
        leaves(GET("/hang"), reset, false);
        leaves(POST("/hang", "100") "some", reset, false);
        leaves(POST("/echo", "100") "some", reset, false);
        leaves(POST("/body", "10") "all of it!" GET("/pipelined"), reset, false);
        leaves(GET("/stream"), reset, true);
    }
}

Test(front, s05_a_half_close_behind_the_request_counts_as_leaving) {
    int fd = raw_connect(rig_port(&rig, 0));
    raw_say(fd, GET("/hang"));
    shutdown(fd, SHUT_WR);
    cr_expect(rig_until(&rig, is_gone, NULL, 1000));
    close(fd);
}

Test(front, strangers_bodies_are_not_read_but_the_refusal_is_readable) {
    struct upload u = {raw_connect(rig_port(&rig, 0)), 0, 8 << 20, calloc(1, 8 << 20)};
    raw_say(u.fd, POST("/refuse", "8388608"));
    (void)rig_until(&rig, uploaded, &u, 100);
    cr_expect(raw_hear(&rig, u.fd, &text, "who are you", 1000));
    cr_expect(strstr(text.at, "connection: close") != NULL);
    cr_expect(http_buffered_bytes() < 2 * HTTP_STRANGER_DRAIN);
    raw_leave(u.fd, false);
    free(u.bytes);
    str_clear(&text);
    int fd = raw_connect(rig_port(&rig, 0));
    raw_say(fd, POST("/refuse", "5") "hello" POST("/echo", "2") "ok");
    cr_expect(raw_hear(&rig, fd, &text, "\r\n\r\nok", 1000), "a short unread body is passed over");
    raw_leave(fd, false);
}

Test(front, an_answer_shorter_than_announced_is_cut_not_ended) {
    int fd = raw_connect(rig_port(&rig, 0));
    raw_say(fd, GET("/cut") GET("/echo"));
    cr_expect(raw_hear(&rig, fd, &text, NULL, 1000));
    cr_expect_eq(rig.heads, 1);
    raw_leave(fd, false);
}

Test(front, clocks_of_heads_bodies_and_idle_connections) {
    rig_limits(&rig, 40 * US_PER_MS, 60 * US_PER_MS, 50 * US_PER_MS, 1000);
    int silent = raw_connect(rig_port(&rig, 0)), slow = raw_connect(rig_port(&rig, 0));
    int body = raw_connect(rig_port(&rig, 0)), idle = raw_connect(rig_port(&rig, 0));
    raw_say(slow, "GET / HT");
    raw_say(body, POST("/echo", "9") "a");
    raw_say(idle, GET("/echo"));
    cr_expect(raw_hear(&rig, silent, &text, NULL, 1000) && text.n == 0, "closed without a word");
    cr_expect(raw_hear(&rig, slow, &text, NULL, 1000) && strstr(text.at, "HTTP/1.1 408 "));
    cr_expect(rig.last_bad == ERR_REQUEST_TIMEOUT);
    str_clear(&text);
    cr_expect(raw_hear(&rig, body, &text, NULL, 1000) && strstr(text.at, "HTTP/1.1 408 "));
    cr_expect(rig.last_failed == ERR_REQUEST_TIMEOUT);
    str_clear(&text);
    cr_expect(raw_hear(&rig, idle, &text, NULL, 1000) && strstr(text.at, "HTTP/1.1 200 "));
    close(silent), close(slow), close(body), close(idle);
}

Test(front, connections_above_the_limit_are_told_so) {
    rig_limits(&rig, US_PER_S, US_PER_S, US_PER_S, 1);
    int first = raw_connect(rig_port(&rig, 0));
    raw_say(first, GET("/hang"));
    cr_assert(rig_until(&rig, one_head, NULL, 1000));
    int second = raw_connect(rig_port(&rig, 0));
    cr_expect(raw_hear(&rig, second, &text, NULL, 1000));
    cr_expect(strstr(text.at, "HTTP/1.1 503 ") && strstr(text.at, "retry-after: 1"));
    close(first), close(second);
}

Test(front, drain_closes_idle_connections_and_lets_answers_finish) {
    int idle = raw_connect(rig_port(&rig, 0)), busy = raw_connect(rig_port(&rig, 0));
    raw_say(idle, GET("/echo"));
    cr_assert(raw_hear(&rig, idle, &text, "\r\n\r\n", 1000));
    raw_say(busy, POST("/echo", "4") "ab");
    rig_pump(&rig, 10);
    front_stop_listening(rig.front);
    cr_expect(raw_hear(&rig, idle, &text, NULL, 1000));
    str_clear(&text);
    raw_say(busy, "cd");
    cr_expect(raw_hear(&rig, busy, &text, NULL, 1000) && strstr(text.at, "abcd") &&
              strstr(text.at, "connection: close"));
    close(idle), close(busy);
    cr_expect(rig_until(&rig, all_closed, NULL, 1000));
}

Test(front, r13_out_of_descriptors_pauses_accepting_instead_of_spinning) {
    struct rlimit old, few;
    int fd = raw_connect(rig_port(&rig, 0));
    raw_say(fd, GET("/echo"));
    cr_assert(raw_hear(&rig, fd, &text, "\r\n\r\n", 1000));
    getrlimit(RLIMIT_NOFILE, &old);
    int waiting = raw_connect(rig_port(&rig, 0));
    few = (struct rlimit){(rlim_t)waiting + 1, old.rlim_max};
    setrlimit(RLIMIT_NOFILE, &few);
    raw_say(waiting, GET("/refuse"));
    int turns = 0;
    for (int64_t until = clock_mono_us() + 80 * US_PER_MS; clock_mono_us() < until; turns++)
        event_base_loop(loop_base(rig.loop), EVLOOP_ONCE);
    cr_expect(turns < 200, "%d turns in 80 ms", turns);
    setrlimit(RLIMIT_NOFILE, &old);
    cr_expect(raw_hear(&rig, waiting, &text, "who are you", 1000), "accepted later");
    close(fd), close(waiting);
}

Test(front, unix_sockets_and_addresses_that_cannot_be) {
    char directory[] = "/tmp/tg-front-XXXXXX", address[100];
    cr_assert(mkdtemp(directory));
    snprintf(address, sizeof address, "unix:%s/s", directory);
    cr_expect(front_listen(rig.front, address, NULL, NULL, &rig.why), "%s", rig.why.at);
    cr_expect_str_eq(front_address(rig.front, 1), address);
    cr_expect(!front_listen(rig.front, front_address(rig.front, 0), NULL, NULL, &rig.why));
    cr_expect(strstr(rig.why.at, "in use") != NULL, "%s", rig.why.at);
    cr_expect(!front_listen(rig.front, "nonsense", NULL, NULL, &rig.why));
    cr_expect(!front_listen(rig.front, "127.0.0.1:0", "/nowhere", "/nowhere", &rig.why));
    front_stop_listening(rig.front);
    cr_expect(rmdir(directory) == 0, "the socket file is gone");
}
