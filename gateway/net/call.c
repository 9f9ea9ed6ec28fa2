/* A call: one request to a provider, its clocks and its end. Always true: the user is told at most once a turn and never
 * inside a call of its own; a call that failed or ended holds no connection; whoever is late is named by the clock that
 * ran out. */
#include "gateway/base/clock.h"
#include "gateway/net/pool.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

const char *const http_failure_names[] = {
    "none",         "resolve",       "connect", "tls",     "connect_timeout", "first_timeout",
    "idle_timeout", "total_timeout", "reset",   "framing", "coding",          "local",
};

static void dispose(struct turn_item *i) {
    struct http_call *c = container_of(i, struct http_call, item);
    counted_add(-(int64_t)(c->n_request + c->n_head + sizeof *c));
    if (c->inflater)
        inflateEnd(c->inflater);
    free(c->inflater);
    counted_free(c->coded);
    counted_free(c->body_in);
    free(c->request);
    free(c->body_out);
    free(c->head_bytes);
    free(c);
}

static void run_item(struct turn_item *i) {
    call_run(container_of(i, struct http_call, item));
}

struct http_call *http_call_open(struct pool *p, const struct http_call_options *o) {
    struct http_call *c = xcalloc(1, sizeof *c);
    c->item.run = run_item;
    c->item.dispose = dispose;
    alarm_init(&c->alarm, &p->turn, &c->item);
    c->pool = p;
    c->origin = origin_get(p, &o->target);
    c->origin->n_calls++;
    c->on_change = o->on_change;
    c->user = o->user;
    c->body_in = counted_new();
    c->connect_us = o->connect_us;
    c->first_us = o->first_us;
    c->idle_us = o->idle_us;
    c->total_us = o->total_us;
    c->opened_us = clock_mono_us();
    counted_add((int64_t)sizeof *c);
    list_append(&p->calls, &c->all);
    call_write_request(c, o);
    turn_wake(&p->turn, &c->item);
    return c;
}

void call_fail(struct http_call *c, enum http_failure f, const char *format, ...) {
    va_list args;
    if (c->failure)
        return;
    c->failure = f;
    va_start(args, format);
    vsnprintf(c->why, sizeof c->why, format, args);
    va_end(args);
    resolver_cancel(&c->lookup);
    if (c->up)
        up_close(c->up);
    c->up = NULL;
    c->state = CALL_OVER;
    c->changed = true;
}

/* ---- clocks ---- */

/* The nearest deadline; *kind says which clock it is. */
static int64_t deadline(const struct http_call *c, enum http_failure *kind) {
    int64_t at = INT64_MAX, idle_from = 0;
    if (c->up)
        idle_from = c->up->conn.moved_us > c->room_us ? c->up->conn.moved_us : c->room_us;
    bool talking = c->state == CALL_TALK;
    const struct {
        bool runs;
        int64_t from_us, for_us;
        enum http_failure kind;
    } clocks[] = {
        {!c->ended, c->opened_us, c->total_us, HTTP_FAIL_TOTAL_TIMEOUT},
        {c->state > CALL_START && c->state < CALL_TALK, c->try_us, c->connect_us, HTTP_FAIL_CONNECT_TIMEOUT},
        {talking && !c->progressed, c->sent_us, c->first_us, HTTP_FAIL_FIRST_TIMEOUT},
        {talking && c->head_bytes && !c->no_room, idle_from, c->idle_us, HTTP_FAIL_IDLE_TIMEOUT},
    };
    for (size_t i = 0; i < ARRAY_LEN(clocks); i++) {
        if (!clocks[i].runs || !clocks[i].for_us || clocks[i].from_us + clocks[i].for_us >= at)
            continue;
        at = clocks[i].from_us + clocks[i].for_us;
        *kind = clocks[i].kind;
    }
    return at;
}

static void look_at_clocks(struct http_call *c) {
    static const char *const what[] = {
        [HTTP_FAIL_TOTAL_TIMEOUT] = "the whole call took too long",
        [HTTP_FAIL_CONNECT_TIMEOUT] = "no connection in time",
        [HTTP_FAIL_FIRST_TIMEOUT] = "no content in time",
        [HTTP_FAIL_IDLE_TIMEOUT] = "the answer fell silent",
    };
    enum http_failure kind = HTTP_FAIL_NONE;
    int64_t now_us = clock_mono_us(), at = deadline(c, &kind);
    if (now_us >= at) {
        call_fail(c, kind, "%s", what[kind]);
        return;
    }
    if (c->state == CALL_CONNECT && c->address_us < at)
        at = c->address_us;
    alarm_at(&c->alarm, at, now_us);
}

/* ---- the turn ---- */

static void start(struct http_call *c) {
    c->up = c->resent ? NULL : up_borrow(c->origin, c);
    if (!c->up) {
        call_connect(c);
        return;
    }
    c->reused = true;
    call_talk(c);
}

static void step(struct http_call *c) {
    if (c->state == CALL_START)
        start(c);
    else if (c->state < CALL_TALK)
        call_connect_step(c);
    else if (c->state == CALL_TALK)
        call_talk_step(c);
    else
        call_decode_rest(c);
}

void call_run(struct http_call *c) {
    enum call_state before;
    turn_rest(&c->pool->turn, &c->item);
    do {
        before = c->state;
        if (!c->failure && !c->ended)
            step(c);
    } while (c->state != before);
    if (!c->failure && !c->ended)
        look_at_clocks(c);
    if (!c->changed)
        return;
    c->changed = false;
    c->on_change(c, c->user);
}

/* ---- for the user ---- */

const struct http_head *http_call_head(const struct http_call *c) {
    return c->head_bytes ? &c->http.head : NULL;
}

struct evbuffer *http_call_body(struct http_call *c) {
    return c->body_in;
}

static void wake(struct http_call *c) {
    turn_wake(&c->pool->turn, &c->item);
}

void http_call_took_body(struct http_call *c) {
    wake(c);
}

bool http_call_ended(const struct http_call *c) {
    return c->ended;
}

enum http_failure http_call_failed(const struct http_call *c) {
    return c->failure;
}

const char *http_call_failure_text(const struct http_call *c) {
    return c->why;
}

bool http_call_sent(const struct http_call *c) {
    return c->sent;
}

void http_call_progress(struct http_call *c) {
    c->progressed = true;
}

void http_call_close(struct http_call *c) {
    assert(!c->closed);
    c->closed = true;
    resolver_cancel(&c->lookup);
    if (c->up)
        up_close(c->up);
    c->up = NULL;
    alarm_fini(&c->alarm);
    c->origin->n_calls--;
    list_remove(&c->pool->calls, &c->all);
    turn_bury(&c->pool->turn, &c->item);
}
