/* Ways to a provider: TLS that is verified, kept and resumed, and proxies. */
#include "tests/unit/call_rig.h"

TestSuite(way, .init = begin, .fini = end, .timeout = 40);

static bool is_gone(void *arg) {
    (void)arg;
    return rig.gone > 0;
}

static bool one_head(void *arg) {
    (void)arg;
    return rig.heads > 0;
}

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

Test(way, tls_is_verified_kept_and_resumed) {
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

Test(way, tls_of_the_wrong_name_or_an_unknown_authority_is_refused) {
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

Test(way, tls_clients_that_leave_are_seen_and_slow_ones_are_bounded) {
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

Test(way, proxies_are_asked_to_connect_for_tls_and_given_whole_urls_else) {
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
