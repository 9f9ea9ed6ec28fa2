/* A try that the engine answers: in this process, or, from another worker, in worker 0 over its engine socket
 * (gateway/workers/engine_door.h). Always true: both give the same events, each with the exact usage so far; what an engine's refusal means
 * to the plan is decided here alone. */
#include "gateway/attempt.h"

#include "gateway/engines.h"
#include "gateway/gateway.h"
#include "gateway/workers/engine_door.h"

#include <event2/buffer.h>
#include <stdio.h>

static void on_run(void *user) {
    request_wake(user);
}

static void on_call(struct http_call *c, void *user) {
    (void)c;
    request_wake(user);
}

/* Nobody is told that the base has it when an adapter does not exist, and nobody else is asked instead. */
static void fail_unknown(struct attempt *a) {
    const struct span model = a->of->call.model;
    struct provider_error *e = &a->error;
    *e = (struct provider_error){.status = 404};
    snprintf(e->code, sizeof(e->code), "%s", err_code(ERR_MODEL));
    snprintf(e->param, sizeof(e->param), "model");
    snprintf(e->message, sizeof(e->message), "The model '%.*s' does not exist or this key may not use it.",
             (int)(model.n < 128 ? model.n : 128), model.at);
    attempt_fail(a, OUTCOME_CLIENT_FAULT, "no such adapter");
}

/* The engine does not take this call, as it stands. */
static void fail_call(struct attempt *a, enum err e, struct span field, struct span text) {
    struct provider_error *out = &a->error;
    *out = (struct provider_error){.status = 400};
    snprintf(out->code, sizeof(out->code), "%s", err_code(e));
    snprintf(out->param, sizeof(out->param), "%.*s", SPAN_ARG(field));
    snprintf(out->message, sizeof(out->message), "%.*s", SPAN_ARG(text));
    attempt_fail(a, OUTCOME_CLIENT_FAULT, "the engine does not take this call");
}

static void fail(struct attempt *a, enum err e) {
    static const struct {
        enum err err;
        enum outcome outcome;
        const char *why;
    } rows[] = {{ERR_CONTEXT, OUTCOME_CONTEXT_WINDOW, "prompt and output do not fit"},
                {ERR_BUSY, OUTCOME_NO_SLOT, "the engine's queue is full"},
                {ERR_DEADLINE, OUTCOME_TIMEOUT, "the engine had no time for it before its deadline"}};
    size_t i = 0;
    while (i < ARRAY_LEN(rows) && rows[i].err != e)
        i++;
    a->error = (struct provider_error){.status = 503};
    snprintf(a->error.message, sizeof(a->error.message), "%s", err_row(e)->text);
    if (i < ARRAY_LEN(rows))
        attempt_fail(a, rows[i].outcome, rows[i].why);
    else
        attempt_fail(a, OUTCOME_UNAVAILABLE, "the engine ended it");
}

static void fail_event(struct attempt *a, const struct event *e) {
    if (e->name.n)
        fail_call(a, e->err, e->name, e->message);
    else if (e->err == ERR_MODEL)
        fail_unknown(a);
    else
        fail(a, e->err);
}

/* "local/pirate" answered as "local/pirate@VERSION". */
static void name_version(struct attempt *a, struct span adapter) {
    if (adapter.n)
        snprintf(a->target, sizeof(a->target), "%s/%.*s", a->row->choice->backend->name, SPAN_ARG(adapter));
}

static void fill_ask(const struct attempt *a, struct decode_ask *ask) {
    const struct request *r = a->of;
    bool in_parts = r->call.stream && a->price.visible_output;
    int64_t cap = in_parts ? a->bound.full_out_tok : a->bound.out_tok;
    const char *whose = r->shadow ? r->shadow->share : r->key->team->name;
    engine_ask_for(a->row->choice->backend, a->row->choice->model, whose, ask);
    ask->cap_tok = cap < INT64_MAX ? cap : 0;
    ask->deadline_us = r->deadline_us;
}

static bool take_event(struct attempt *a, const struct event *e) {
    if (e->bits & EVENT_ERROR) {
        fail_event(a, e);
        return false;
    }
    a->used = e->usage;
    return attempt_take_event(a, e);
}

/* ---- worker 0's ---- */

static bool open_distant(struct attempt *a) {
    struct request *r = a->of;
    struct engine_words words = {.backend = a->row->choice->backend->name, .endpoint = r->call.endpoint};
    struct span *body = arena_alloc(&r->arena, 2 * sizeof(*body));
    fill_ask(a, &words.ask);
    a->distant = true;
    if (!engine_door_is_open(r->gateway)) {
        attempt_fail(a, OUTCOME_UNAVAILABLE, "the engine's process is starting");
        return false;
    }
    if (!body || !engine_words_put(&words, &r->arena, &body[0])) {
        attempt_fail(a, OUTCOME_CLIENT_FAULT, "the call is too large to write");
        return false;
    }
    body[1] = r->call.body.raw;
    a->call = engine_door_call(r->gateway, body, 2, on_call, r);
    return true;
}

/* Once: the engine has the call. */
static bool take_head(struct attempt *a, const struct http_head *head) {
    a->row->status = head->status;
    http_call_progress(a->call);
    name_version(a, http_field_get(head, ENGINE_ADAPTER_FIELD, NULL));
    if (head->status == 200)
        return true;
    attempt_fail(a, OUTCOME_UNAVAILABLE, "the engine's process does not take calls");
    return false;
}

/* Events out of what has come; false when the attempt has ended. */
static bool take_packed(struct attempt *a) {
    struct part parts[EVENT_PARTS_MAX];
    struct event e;
    size_t n;
    while (!a->parked.n && attempt_has_room(a) && (n = event_packed_bytes(str_span(&a->plain)))) {
        struct span packed = span_from(a->plain.at, n);
        if (!event_unpack(&packed, &e, parts)) {
            attempt_fail(a, OUTCOME_UNAVAILABLE, "what the engine's process gives cannot be read");
            return false;
        }
        if (!take_event(a, &e))
            return false;
        str_cut(&a->plain, n);
    }
    return true;
}

static void pump_distant(struct attempt *a) {
    const struct http_head *head = http_call_head(a->call);
    struct evbuffer *in = http_call_body(a->call);
    if (head && !a->row->status && !take_head(a, head))
        return;
    for (size_t n; (n = evbuffer_get_length(in)) && attempt_has_room(a) && !a->parked.n;) {
        str_put(&a->plain, span_from(evbuffer_pullup(in, -1), n));
        evbuffer_drain(in, n);
        http_call_took_body(a->call);
        if (!take_packed(a))
            return;
    }
    if (!take_packed(a) || a->parked.n || !attempt_has_room(a) || evbuffer_get_length(in))
        return;
    if (http_call_failed(a->call) || http_call_ended(a->call)) {
        log_info("engine lost request=%s why=%s", a->of->id, http_call_failure_text(a->call));
        attempt_fail(a, OUTCOME_UNAVAILABLE, "the engine's process ended");
    }
}

/* ---- this process's ---- */

static bool open_here(struct attempt *a, struct decode *engine) {
    struct request *r = a->of;
    struct engine_ask ask;
    struct call_fault fault;
    if (!engine_ask(&r->call, &r->arena, &ask, &fault)) {
        fail_call(a, fault.err, span_of(fault.field), span_of(fault.text));
        return false;
    }
    fill_ask(a, &ask.ask);
    enum err e = engine_start(engine, &ask, on_run, r, &a->run, &fault);
    if (e)
        fail_event(a, &(struct event){.err = e, .name = span_of(fault.field), .message = span_of(fault.text)});
    else
        name_version(a, span_of(engine_adapter(a->run)));
    return e == ERR_NONE;
}

bool attempt_open_run(struct attempt *a) {
    struct gateway *g = a->of->gateway;
    struct decode *engine = map_find(&g->engines, span_of(a->row->choice->backend->name));
    if (engine)
        return open_here(a, engine);
    if (g->worker > 0)
        return open_distant(a);
    attempt_fail(a, OUTCOME_UNAVAILABLE, "the engine is not running");
    return false;
}

void attempt_pump_run(struct attempt *a) {
    struct event e;
    if (a->distant) {
        pump_distant(a);
        return;
    }
    while (!a->parked.n && attempt_has_room(a) && engine_take(a->run, &e))
        if (!take_event(a, &e))
            return;
}
