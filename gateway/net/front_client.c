/* One client connection and its states (drawn in front.h). Always true: reading is off while the user has a request whose
 * body it does not want, so a client cannot make us hold more than one input buffer; every state has a deadline except
 * BUSY with nothing to send, whose length is the user's matter. */
#include "gateway/base/clock.h"
#include "gateway/net/front.h"
#include "gateway/net/tls.h"

#include <stdlib.h>
#include <unistd.h>

static size_t input_max(const struct front *f) {
    return (size_t)f->limits.max_headers + 4096;
}

void client_set_state(struct client *c, enum client_state s) {
    c->state = s;
    c->since_us = clock_mono_us();
    if (s == CLIENT_IDLE || s == CLIENT_LINGER)
        c->passed_over = 0;
    conn_pause(&c->conn, s == CLIENT_BUSY || s == CLIENT_FLUSH);
}

void client_drop(struct client *c, bool reset) {
    struct exchange *x = c->x;
    c->x = NULL;
    if (x && x->head_bytes && !x->closed) {
        x->client = NULL; /* the user has it, and will close it */
        x->gone = true;
    } else if (x) {
        exchange_bury(x);
    }
    conn_close(&c->conn, reset);
    if (link_on_list(&c->all))
        list_remove(&c->front->clients, &c->all);
    turn_bury(&c->front->turn, &c->conn.item);
}

static bool dead(const struct client *c) {
    return c->conn.broken || c->conn.end == CONN_RESET || c->conn.end == CONN_TLS_BAD;
}

/* ---- IDLE and HEAD ---- */

static void head_came(struct client *c, size_t used) {
    struct exchange *x = c->x;
    exchange_keep_head(x, used);
    client_set_state(c, CLIENT_BUSY);
    c->front->ops.on_head(x, c->front->user);
}

static void read_head(struct client *c) {
    struct evbuffer *in = c->conn.in;
    size_t used, n = evbuffer_get_length(in);
    struct span body, bytes = {(const char *)evbuffer_pullup(in, -1), n};
    enum http1_result r = http1_read(&c->x->http, bytes, false, &used, &body);
    if (r == HTTP1_HEAD)
        head_came(c, used);
    else if (r == HTTP1_BAD)
        exchange_send_bad(c->x, c->x->http.err, c->x->http.what);
    else if (c->conn.end != CONN_OPEN)
        client_drop(c, false); /* left in the middle of a head */
    else if (clock_mono_us() - c->since_us >= c->front->limits.head_timeout_us)
        exchange_send_bad(c->x, ERR_REQUEST_TIMEOUT, "The request's head did not arrive in time.");
}

static void step_idle(struct client *c) {
    const struct front_limits *l = &c->front->limits;
    int64_t limit = c->served ? l->idle_timeout_us : l->head_timeout_us;
    if (evbuffer_get_length(c->conn.in)) {
        c->x = exchange_new(c);
        client_set_state(c, CLIENT_HEAD);
        return;
    }
    if (c->conn.end == CONN_TLS_BAD)
        conn_flush(&c->conn); /* the alert */
    if (c->conn.end != CONN_OPEN || c->front->stopping || clock_mono_us() - c->since_us >= limit)
        client_drop(c, false);
}

static void step_head(struct client *c) {
    if (dead(c))
        client_drop(c, false);
    else
        read_head(c);
}

/* ---- BUSY ---- */

static bool waits_for_body(const struct exchange *x) {
    size_t n = x->body ? evbuffer_get_length(x->body) : 0;
    return x->wanted && !x->body_ended && !x->failed && n < HTTP_WINDOW;
}

static bool stalled(const struct client *c, int64_t now_us) {
    return conn_unsent(&c->conn) && now_us - c->conn.moved_us >= c->front->limits.idle_timeout_us;
}

static void look_at_body(struct client *c, int64_t now_us) {
    struct exchange *x = c->x;
    if (!x->wanted || x->body_ended)
        return;
    exchange_take_body(x, false);
    if (waits_for_body(x) && now_us - c->since_us >= c->front->limits.body_timeout_us) {
        x->failed = ERR_REQUEST_TIMEOUT;
        x->changed = true;
    }
    conn_pause(&c->conn, !waits_for_body(x));
}

static void step_busy(struct client *c) {
    struct exchange *x = c->x;
    int64_t now_us = clock_mono_us();
    size_t unsent = conn_unsent(&c->conn);
    look_at_body(c, now_us);
    if (!x->gone && (dead(c) || c->conn.hup || c->conn.end != CONN_OPEN || stalled(c, now_us)))
        x->gone = x->changed = true;
    if (unsent < c->seen_unsent)
        x->changed = true;
    c->seen_unsent = unsent;
    if (!x->changed)
        return;
    x->changed = false;
    c->front->ops.on_change(x, c->front->user);
}

/* ---- FLUSH and LINGER ---- */

static void next_request(struct client *c) {
    exchange_bury(c->x);
    c->x = NULL;
    c->served = true;
    c->conn.in_max = input_max(c->front);
    client_set_state(c, CLIENT_IDLE);
}

static void linger(struct client *c) {
    conn_finish(&c->conn);
    client_set_state(c, CLIENT_LINGER);
}

static bool may_keep(const struct client *c) {
    const struct exchange *x = c->x;
    bool unread_promise = x->http.expect_continue && !x->wanted; /* the client may or may not send it */
    return x->keep && x->http.keep_alive && !x->failed && !unread_promise && !c->front->stopping &&
           c->conn.end == CONN_OPEN;
}

static void step_flush(struct client *c) {
    struct exchange *x = c->x;
    int64_t now_us = clock_mono_us();
    if (dead(c) || stalled(c, now_us)) {
        client_drop(c, true);
        return;
    }
    if (conn_unsent(&c->conn))
        return;
    if (!may_keep(c)) {
        linger(c);
        return;
    }
    if (x->body_ended) {
        next_request(c);
        return;
    }
    exchange_take_body(x, true);
    conn_pause(&c->conn, false);
    if (x->body_ended)
        next_request(c);
    else if (x->failed || c->passed_over > HTTP_STRANGER_DRAIN || now_us - c->since_us >= LINGER_US)
        linger(c);
}

static void step_linger(struct client *c) {
    size_t n = evbuffer_get_length(c->conn.in);
    size_t limit = c->x && c->x->wanted ? CALLER_DRAIN : HTTP_STRANGER_DRAIN;
    evbuffer_drain(c->conn.in, n);
    c->passed_over += n;
    conn_pause(&c->conn, c->passed_over > limit);
    bool left = c->conn.end != CONN_OPEN || (c->conn.paused && c->conn.hup);
    if (left || clock_mono_us() - c->since_us >= LINGER_US)
        client_drop(c, false);
}

/* ---- */

static int64_t sooner(int64_t a, int64_t b) {
    return a < b ? a : b;
}

static int64_t deadline(const struct client *c) {
    const struct front_limits *l = &c->front->limits;
    int64_t stall = conn_unsent(&c->conn) ? c->conn.moved_us + l->idle_timeout_us : INT64_MAX;
    switch (c->state) {
    case CLIENT_IDLE:
        return c->since_us + (c->served ? l->idle_timeout_us : l->head_timeout_us);
    case CLIENT_HEAD:
        return c->since_us + l->head_timeout_us;
    case CLIENT_BUSY:
        return waits_for_body(c->x) ? sooner(stall, c->since_us + l->body_timeout_us) : stall;
    case CLIENT_FLUSH:
        return stall != INT64_MAX ? stall : c->since_us + LINGER_US;
    default:
        return c->since_us + LINGER_US;
    }
}

static void run(struct turn_item *i) {
    static void (*const steps[])(struct client *) = {step_idle, step_head, step_busy, step_flush, step_linger};
    struct client *c = container_of(i, struct client, conn.item);
    enum client_state before;
    conn_io(&c->conn);
    do {
        before = c->state;
        steps[before](c);
    } while (c->conn.fd >= 0 && c->state != before);
    if (c->conn.fd < 0)
        return;
    size_t unsent = conn_unsent(&c->conn);
    conn_flush(&c->conn);
    if (unsent != conn_unsent(&c->conn))
        turn_wake(&c->front->turn, i);
    alarm_at(&c->conn.alarm, deadline(c), clock_mono_us());
}

static void dispose(struct turn_item *i) {
    free(container_of(i, struct client, conn.item));
}

void client_new(struct front *f, struct listener *l, int fd, const char *peer) {
    bool too_many = f->clients.n >= (size_t)f->limits.max_connections + OVER_LIMIT_MAX;
    SSL *ssl = l->tls && !too_many ? tls_server(l->tls) : NULL;
    if (too_many || (l->tls && !ssl)) {
        close(fd);
        return;
    }
    struct client *c = xcalloc(1, sizeof *c);
    c->front = f;
    c->loopback = l->loopback;
    memcpy(c->peer, peer, strnlen(peer, sizeof c->peer - 1));
    c->conn.item.run = run;
    c->conn.item.dispose = dispose;
    conn_init(&c->conn, &f->turn, fd, false, input_max(f));
    if (ssl)
        conn_start_tls(&c->conn, ssl, true);
    list_append(&f->clients, &c->all);
    client_set_state(c, CLIENT_IDLE);
    if (f->clients.n > (size_t)f->limits.max_connections) {
        c->x = exchange_new(c);
        exchange_send_bad(c->x, ERR_BUSY, "There are too many connections.");
    }
    turn_wake(&f->turn, &c->conn.item);
}
