/* See loopback.h. The pump ticks every two milliseconds so that raw sockets, which no event watches, are looked at. */
#include "tests/support/loopback.h"

#include "gateway/base/clock.h"

#include <arpa/inet.h>
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#define UNSENT_MARK (64 * 1024)

struct visit {
    int64_t left;              /* of /stream */
    struct evbuffer *gathered; /* owned; the body so far */
    bool stream, echo;
};

static void answer(struct exchange *x, int status, struct span body, bool keep) {
    exchange_send_head(x, status, NULL, 0, (int64_t)body.n);
    exchange_send(x, body);
    exchange_end(x, keep);
}

static void let_go(struct rig *r, struct exchange *x) {
    if (r->held == x)
        r->held = NULL;
    struct visit *v = exchange_user(x);
    evbuffer_free(v->gathered);
    free(v);
    exchange_close(x);
}

static void stream_more(struct rig *r, struct exchange *x, struct visit *v) {
    static const char zeros[4096];
    while (v->left > 0 && exchange_unsent(x) < UNSENT_MARK) {
        size_t n = v->left < (int64_t)sizeof zeros ? (size_t)v->left : sizeof zeros;
        exchange_send(x, span_from(zeros, n));
        v->left -= (int64_t)n;
    }
    if (exchange_unsent(x) > r->unsent_max)
        r->unsent_max = exchange_unsent(x);
    if (v->left > 0)
        return;
    exchange_end(x, true);
    r->ended++;
    let_go(r, x);
}

static void echo(struct rig *r, struct exchange *x) {
    struct visit *v = exchange_user(x);
    struct evbuffer *b = v->gathered;
    evbuffer_add_buffer(b, exchange_body(x));
    size_t n = evbuffer_get_length(b);
    exchange_send_head(x, 200, NULL, 0, (int64_t)n);
    exchange_send(x, span_from(n ? (const char *)evbuffer_pullup(b, -1) : "", n));
    exchange_end(x, true);
    r->ended++;
    let_go(r, x);
}

static void on_change(struct exchange *x, void *user) {
    struct rig *r = user;
    struct visit *v = exchange_user(x);
    r->changes++;
    if (exchange_gone(x)) {
        r->gone++;
        let_go(r, x);
    } else if (exchange_failed(x)) {
        r->last_failed = exchange_failed(x);
        answer(x, err_row(exchange_failed(x))->status, SPAN("failed"), false);
        let_go(r, x);
    } else if (v->stream) {
        stream_more(r, x, v);
    } else if (v->echo && exchange_body_ended(x)) {
        echo(r, x);
    } else if (v->echo) {
        evbuffer_add_buffer(v->gathered, exchange_body(x));
        exchange_took_body(x);
    }
}

static void on_head(struct exchange *x, void *user) {
    struct rig *r = user;
    struct span path = exchange_head(x)->path;
    struct visit *v = calloc(1, sizeof *v);
    r->heads++;
    exchange_set_user(x, v);
    v->gathered = evbuffer_new();
    v->echo = span_is(path, "/echo");
    v->stream = span_is(path, "/stream");
    v->left = r->stream_bytes;
    if (span_is(path, "/hang") || span_is(path, "/body"))
        r->held = x;
    if (v->echo || span_is(path, "/body"))
        exchange_want_body(x);
    if (v->echo && exchange_body_ended(x)) {
        echo(r, x);
    } else if (v->stream) {
        exchange_send_head(x, 200, NULL, 0, -1);
        stream_more(r, x, v);
    } else if (span_is(path, "/refuse") || span_is(path, "/close")) {
        answer(x, 401, SPAN("who are you"), span_is(path, "/refuse"));
        let_go(r, x);
    } else if (span_is(path, "/cut")) {
        exchange_send_head(x, 200, NULL, 0, 100);
        exchange_send(x, SPAN("ten bytes."));
        exchange_end(x, true);
        let_go(r, x);
    }
}

static void on_bad(struct exchange *x, enum err err, const char *what, struct str *body, void *user) {
    struct rig *r = user;
    (void)x;
    r->bad++;
    r->last_bad = err;
    str_printf(body, "{\"bad\":\"%s\"}", what);
}

static void on_tick(evutil_socket_t fd, short what, void *arg) {
    (void)fd, (void)what, (void)arg;
}

void rig_limits(struct rig *r, int64_t head_us, int64_t idle_us, int64_t body_us, int64_t max_connections) {
    struct front_limits l = {65536, max_connections, head_us, idle_us, body_us};
    front_set_limits(r->front, &l);
}

void rig_init(struct rig *r) {
    static const struct front_ops ops = {on_head, on_bad, on_change};
    struct front_limits l = {65536, 100000, 60 * US_PER_S, 60 * US_PER_S, 60 * US_PER_S};
    struct timeval often = {0, 2000};
    *r = (struct rig){.loop = loop_new()};
    str_init(&r->why, 1024);
    r->front = front_new(r->loop, &l, &ops, r);
    r->pool = pool_new(r->loop);
    r->tick = event_new(loop_base(r->loop), -1, EV_PERSIST, on_tick, NULL);
    event_add(r->tick, &often);
    bool listening = front_listen(r->front, "127.0.0.1:0", NULL, NULL, &r->why);
    assert(listening);
}

void rig_fini(struct rig *r) {
    if (r->held)
        let_go(r, r->held);
    rig_pump(r, 5);
    pool_free(r->pool);
    front_free(r->front);
    event_free(r->tick);
    loop_free(r->loop);
    str_fini(&r->why);
}

int rig_port(const struct rig *r, size_t listener) {
    return atoi(strrchr(front_address(r->front, listener), ':') + 1);
}

bool rig_until(struct rig *r, bool (*done)(void *), void *arg, int ms) {
    int64_t until = clock_mono_us() + ms * US_PER_MS;
    while (!done(arg)) {
        if (clock_mono_us() > until)
            return false;
        event_base_loop(loop_base(r->loop), EVLOOP_ONCE);
    }
    return true;
}

static bool never(void *arg) {
    (void)arg;
    return false;
}

void rig_pump(struct rig *r, int ms) {
    (void)rig_until(r, never, NULL, ms);
}

/* ---- raw sockets ---- */

static struct sockaddr_in local(int port) {
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return a;
}

int raw_connect(int port) {
    struct sockaddr_in a = local(port);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int wrong = connect(fd, (struct sockaddr *)&a, sizeof a);
    assert(!wrong);
    fcntl(fd, F_SETFL, O_NONBLOCK);
    return fd;
}

int raw_listen(int *port) {
    struct sockaddr_in a = local(*port);
    socklen_t n = sizeof a;
    int one = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    int wrong = bind(fd, (struct sockaddr *)&a, sizeof a) || listen(fd, 16);
    assert(!wrong);
    getsockname(fd, (struct sockaddr *)&a, &n);
    *port = ntohs(a.sin_port);
    return fd;
}

struct accepting {
    int listening, fd;
};

static bool accepted(void *arg) {
    struct accepting *a = arg;
    a->fd = accept4(a->listening, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    return a->fd >= 0;
}

int raw_accept(struct rig *r, int listening) {
    struct accepting a = {listening, -1};
    (void)rig_until(r, accepted, &a, 2000);
    return a.fd;
}

void raw_say_n(int fd, const void *bytes, size_t n) {
    ssize_t sent = send(fd, bytes, n, MSG_NOSIGNAL);
    assert(sent == (ssize_t)n);
}

void raw_say(int fd, const char *text) {
    raw_say_n(fd, text, strlen(text));
}

void raw_leave(int fd, bool reset) {
    struct linger at_once = {1, 0};
    if (reset)
        setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
    close(fd);
}

struct hearing {
    int fd;
    struct str *text;
    const char *until;
    bool ended;
};

static bool heard(void *arg) {
    struct hearing *h = arg;
    static char bytes[65536];
    ssize_t n;
    while ((n = recv(h->fd, bytes, sizeof bytes, 0)) > 0)
        str_put(h->text, span_from(bytes, (size_t)n));
    h->ended = n == 0 || (errno != EAGAIN && errno != EWOULDBLOCK);
    if (h->ended || !h->until || !h->text->n)
        return h->ended;
    size_t tail = h->text->n < 2 * sizeof bytes ? 0 : h->text->n - 2 * sizeof bytes;
    return memmem(h->text->at + tail, h->text->n - tail, h->until, strlen(h->until)) != NULL;
}

bool raw_hear(struct rig *r, int fd, struct str *text, const char *until, int ms) {
    struct hearing h = {fd, text, until, false};
    (void)rig_until(r, heard, &h, ms);
    if (!until)
        return h.ended;
    return text->at && memmem(text->at, text->n, until, strlen(until));
}

/* ---- certificates ---- */

static void add_extension(X509 *cert, int nid, const char *value) {
    X509V3_CTX ctx;
    X509V3_set_ctx_nodb(&ctx);
    X509V3_set_ctx(&ctx, cert, cert, NULL, NULL, 0);
    X509_EXTENSION *e = X509V3_EXT_conf_nid(NULL, &ctx, nid, value);
    assert(e);
    X509_add_ext(cert, e, -1);
    X509_EXTENSION_free(e);
}

static void write_pem(const char *directory, const char *name, X509 *cert, EVP_PKEY *key) {
    char path[512];
    snprintf(path, sizeof path, "%s/%s", directory, name);
    FILE *f = fopen(path, "w");
    assert(f);
    int written = cert ? PEM_write_X509(f, cert) : PEM_write_PrivateKey(f, key, NULL, NULL, 0, NULL, NULL);
    assert(written);
    fclose(f);
}

void make_certificate(const char *directory, const char *host) {
    char names[300];
    unsigned char a[16];
    EVP_PKEY *key = EVP_EC_gen("P-256");
    X509 *cert = X509_new();
    assert(key && cert);
    bool address = inet_pton(AF_INET, host, a) == 1 || inet_pton(AF_INET6, host, a) == 1;
    snprintf(names, sizeof names, "%s:%s", address ? "IP" : "DNS", host);
    X509_set_version(cert, 2);
    ASN1_INTEGER_set(X509_get_serialNumber(cert), 1);
    X509_gmtime_adj(X509_getm_notBefore(cert), -3600);
    X509_gmtime_adj(X509_getm_notAfter(cert), 3600);
    X509_set_pubkey(cert, key);
    X509_NAME *name = X509_get_subject_name(cert);
    X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC, (const unsigned char *)"test", -1, -1, 0);
    X509_set_issuer_name(cert, name);
    add_extension(cert, NID_basic_constraints, "critical,CA:TRUE");
    add_extension(cert, NID_subject_alt_name, names);
    X509_sign(cert, key, EVP_sha256());
    write_pem(directory, "cert.pem", cert, NULL);
    write_pem(directory, "key.pem", NULL, key);
    X509_free(cert);
    EVP_PKEY_free(key);
}
