/* What the files of calls to scripted providers share: one rig a test, and a caller that notes what it was told. */
#ifndef TOLLGATE_TESTS_CALL_RIG_H
#define TOLLGATE_TESTS_CALL_RIG_H

#include "gateway/base/clock.h"
#include "gateway/net/pool.h"
#include "tests/support/loopback.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
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

static inline void begin(void) {
    rig_init(&rig);
    str_init(&text, 80 << 20);
    str_init(&asked, 80 << 20);
    port = 0;
    listening = raw_listen(&port);
}

static inline void end(void) {
    close(listening);
    rig_fini(&rig);
    str_fini(&text);
    str_fini(&asked);
    cr_expect_eq(http_buffered_bytes(), 0, "%lld bytes are still counted", (long long)http_buffered_bytes());
}

static inline void on_change(struct http_call *c, void *user) {
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

static inline struct http_call_options options(const char *host, int to, const char *path) {
    return (struct http_call_options){
        .target = {.host = host, .port = to}, .method = SPAN("GET"), .path = span_of(path), .on_change = on_change};
}

static inline void open_call(struct caller *a, struct http_call_options o) {
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

static inline void close_call(struct caller *a) {
    http_call_close(a->c);
    str_fini(&a->got);
}

static inline bool over(void *arg) {
    struct caller *a = arg;
    return http_call_ended(a->c) || http_call_failed(a->c);
}

static inline bool wait_for(struct caller *a, int ms) {
    return rig_until(&rig, over, a, ms);
}

static inline void expect_failure(struct caller *a, enum http_failure f, int ms) {
    cr_expect(wait_for(a, ms), "nothing in %d ms", ms);
    cr_expect_eq(http_call_failed(a->c), f, "%s instead of %s: %s", http_failure_names[http_call_failed(a->c)],
                 http_failure_names[f], http_call_failure_text(a->c));
    cr_expect(f == HTTP_FAIL_NONE || http_call_failure_text(a->c)[0]);
}

/* One call to a provider that hears the request and says `answer`, then leaves if `leave`. */
static inline void script(struct caller *a, const char *answer, size_t n, bool leave, enum http_failure f) {
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

static inline bool window_full(void *arg) {
    struct caller *a = arg;
    return evbuffer_get_length(http_call_body(a->c)) >= HTTP_WINDOW;
}

#endif
