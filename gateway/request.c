/* A request's life: making, moving, running, freeing. The table of request.h becomes enum, names, legal moves and steps. */
#include "gateway/attempt.h"
#include "gateway/gateway.h"
#include "gateway/routes.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

#define TO(state) (1u << STATE_##state)
static const struct {
    enum walk (*step)(struct request *r);
    unsigned may_go_to;
} states[STATE_N] = {
#define X(name, word, next) [STATE_##name] = {step_##word, next},
    STATE_TABLE(X)
#undef X
};

const char *const state_names[STATE_N] = {
#define X(name, word, next) #word,
    STATE_TABLE(X)
#undef X
};

static void on_rate(struct waiter *w) {
    struct request *r = container_of(w, struct request, rate.waiter);
    r->asking = false;
    request_wake(r);
}

static void on_cache(struct waiter *w) {
    struct request *r = container_of(w, struct request, cache.waiter);
    request_looked_up(r);
    r->asking = false;
    request_wake(r);
}

static void on_hold(struct waiter *w) {
    struct request *r = container_of(w, struct request, hold.waiter);
    r->asking = false;
    request_wake(r);
}

static void on_admitted(struct waiter *w) {
    struct request *r = container_of(w, struct request, admitted.waiter);
    r->asking = false;
    request_wake(r);
}

static void on_settled(struct waiter *w) {
    struct request *r = container_of(w, struct request, settled.waiter);
    r->asking = false;
    request_wake(r);
}

static void on_answer(struct answer_reader *reader) {
    request_wake(container_of(reader, struct request, reader));
}

/* Sixteen bytes of a supply that the kernel fills for many requests at once. */
void request_make_id(struct gateway *g, char id[REQUEST_ID_MAX]) {
    if (g->id_bytes_left < REQUEST_ID_BYTES) {
        random_bytes(g->id_bytes, sizeof(g->id_bytes));
        g->id_bytes_left = sizeof(g->id_bytes);
    }
    g->id_bytes_left -= REQUEST_ID_BYTES;
    memcpy(id, "req_", 4);
    hex_put(g->id_bytes + g->id_bytes_left, REQUEST_ID_BYTES, id + 4);
}

struct request *request_make(struct gateway *g, enum state begins) {
    struct request *r = xrealloc(NULL, sizeof(*r));
    memset(r, 0, offsetof(struct request, tries));
    r->gateway = g;
    r->state = begins;
    r->doing = "beginning";
    r->began_us = r->state_us = clock_mono_us();
    r->began_wall_us = clock_wall_us();
    r->at = r->hedge_from = -1;
    r->hedge_at_us = INT64_MAX;
    r->down = REASON_N;
    r->clamp_at = -1;
    r->first_content_us = -1;
    r->rate.view.limit_requests = r->rate.view.limit_tokens = -1; /* until the room has said them */
    r->hold.remaining_key = r->hold.remaining_team = r->hold.remaining_organization = -1;
    r->rate.waiter.wake = on_rate;
    r->cache.waiter.wake = on_cache;
    r->hold.waiter.wake = on_hold;
    r->admitted.waiter.wake = on_admitted;
    r->settled.waiter.wake = on_settled;
    r->reader.wake = on_answer;
    request_make_id(g, r->id);
    arena_init(&r->arena, REQUEST_ARENA_MAX);
    str_init(&r->out, ANSWER_MAX);
    str_init(&r->details, REQUEST_MESSAGE_MAX);
    str_init(&r->upstream_id, 128);
    list_append(&g->by_state[begins], &r->in_state);
    map_put(&g->by_id, span_of(r->id), r);
    return r;
}

struct request *request_new(struct gateway *g, struct exchange *client) {
    struct request *r = request_make(g, STATE_HEAD);
    r->client = client;
    r->doing = "reading the head";
    if (client)
        exchange_set_user(client, r);
    return r;
}

void request_free(struct request *r) {
    request_check(r);
    assert(r->state == STATE_DONE && !link_on_list(&r->in_ready));
    list_remove(&r->gateway->by_state[STATE_DONE], &r->in_state);
    map_remove(&r->gateway->by_id, span_of(r->id));
    str_fini(&r->body);
    str_fini(&r->out);
    str_fini(&r->details);
    str_fini(&r->upstream_id);
    content_free(r);
    free(r->sketch);
    arena_fini(&r->arena);
    free(r);
}

void request_wake(struct request *r) {
    if (link_on_list(&r->in_ready) || r->state == STATE_DONE)
        return;
    list_append(&r->gateway->ready, &r->in_ready);
    gateway_turn_soon(r->gateway);
}

void request_go(struct request *r, enum state to) {
    assert(states[r->state].may_go_to & (1u << to));
    list_remove(&r->gateway->by_state[r->state], &r->in_state);
    r->state = to;
    r->state_us = clock_mono_us();
    r->asked = false;
    list_append(&r->gateway->by_state[to], &r->in_state);
#ifdef TOLLGATE_TEST
    request_check(r);
#endif
}

enum walk go(struct request *r, enum state to) {
    request_go(r, to);
    return WALK_MORE;
}

void request_check(const struct request *r) {
    bool lent = r->rate.slip.open || r->hold.lease.open || r->cache.lead || r->attempt || r->answer || r->conf ||
                r->idempotency || r->client || r->writer || r->body_counted || r->shadow;
    assert(r->state > STATE_AUTH || !(r->rate.slip.open || r->hold.lease.open || r->answer || r->attempt));
    assert(r->state < STATE_BODY || r->state >= STATE_REFUSE || (r->conf && r->key));
    assert(r->state != STATE_SEND || (r->answer && r->hold.lease.open));
    assert(r->state != STATE_STREAM || r->answer);
    assert(r->state < STATE_SETTLE || !r->attempt);
    assert(!r->hedge || (r->attempt && r->state != STATE_STREAM));
    assert(r->state != STATE_DONE || !lent);
    (void)lent;
}

bool request_asks(struct request *r) {
    if (r->asking || r->asked)
        return false;
    r->asking = r->asked = true;
    return true;
}

void request_answer(struct request *r, enum progress p) {
    if (p == PROGRESS_DONE)
        r->asking = false;
}

struct span request_field(const struct request *r, const char *name) {
    return r->client ? http_field_get(exchange_head(r->client), name, NULL) : SPAN_NONE;
}

bool request_client_gone(struct request *r) {
    if (!r->client || r->state >= STATE_RELEASE)
        return !r->client;
    if (!exchange_gone(r->client))
        return false;
    exchange_close(r->client);
    r->client = NULL;
    r->client_left = true;
    return true;
}

/* A follower has no readers: what others read is the leader's. */
bool request_has_readers(const struct request *r) {
    return r->cache.lead && r->answer && answer_readers(r->answer) > (r->reader.of == r->answer ? 1u : 0u);
}

struct buffers request_buffers(const struct request *r) {
    if (r->shadow)
        return (struct buffers){&r->gateway->shadows.bytes, SHADOW_BYTES_MAX};
    return (struct buffers){&r->gateway->buffered_bytes, r->conf ? r->conf->http.max_buffered : 0};
}

int64_t request_age_us(const struct request *r) {
    return clock_mono_us() - r->began_us;
}

/* A request without a reader has nothing more to wait for; a leader with followers goes on for them. */
static bool is_abandoned(const struct request *r) {
    bool before_answer = r->state < STATE_STREAM;
    return r->client_left && before_answer && !r->asking && !request_has_readers(r);
}

bool request_cancel(struct request *r) {
    if (r->state >= STATE_REFUSE || r->cancelled)
        return false;
    r->cancelled = r->no_retry = true;
    request_wake(r);
    return true;
}

/* Why it shall not take its next step; ERR_NONE: it may. A STREAM ends by itself. */
static enum err stopped(const struct request *r) {
    if (is_abandoned(r))
        return ERR_CLIENT_GONE;
    return r->cancelled && r->state < STATE_STREAM && !r->asking ? ERR_CANCELLED : ERR_NONE;
}

void request_run(struct request *r) {
    enum walk walk = WALK_MORE;
    while (walk == WALK_MORE) {
        request_client_gone(r);
        kept_leave(r);
        enum err e = stopped(r);
        walk = e ? refuse(r, e) : states[r->state].step(r);
    }
}

enum walk refuse(struct request *r, enum err e) {
    r->err = e;
    return go(r, STATE_REFUSE);
}

enum walk refuse_saying(struct request *r, enum err e, const char *format, ...) {
    va_list args;
    va_start(args, format);
    vsnprintf(r->message, sizeof(r->message), format, args);
    va_end(args);
    return refuse(r, e);
}
