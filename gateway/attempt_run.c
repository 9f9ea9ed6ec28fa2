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
static void fail_unknown(struct request *r) {
    struct provider_error *e = &r->attempt->error;
    *e = (struct provider_error){.status = 404};
    snprintf(e->code, sizeof(e->code), "%s", err_code(ERR_MODEL));
    snprintf(e->param, sizeof(e->param), "model");
    snprintf(e->message, sizeof(e->message), "The model '%.*s' does not exist or this key may not use it.",
             (int)(r->call.model.n < 128 ? r->call.model.n : 128), r->call.model.at);
    attempt_fail(r, OUTCOME_CLIENT_FAULT, "no such adapter");
}

/* The engine does not take this call, as it stands. */
static void fail_call(struct request *r, enum err e, struct span field, struct span text) {
    struct provider_error *out = &r->attempt->error;
    *out = (struct provider_error){.status = 400};
    snprintf(out->code, sizeof(out->code), "%s", err_code(e));
    snprintf(out->param, sizeof(out->param), "%.*s", SPAN_ARG(field));
    snprintf(out->message, sizeof(out->message), "%.*s", SPAN_ARG(text));
    attempt_fail(r, OUTCOME_CLIENT_FAULT, "the engine does not take this call");
}

static void fail(struct request *r, enum err e) {
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
    r->attempt->error = (struct provider_error){.status = 503};
    snprintf(r->attempt->error.message, sizeof(r->attempt->error.message), "%s", err_row(e)->text);
    if (i < ARRAY_LEN(rows))
        attempt_fail(r, rows[i].outcome, rows[i].why);
    else
        attempt_fail(r, OUTCOME_UNAVAILABLE, "the engine ended it");
}

void attempt_fail_run(struct request *r, const struct event *e) {
    if (e->name.n)
        fail_call(r, e->err, e->name, e->message);
    else if (e->err == ERR_MODEL)
        fail_unknown(r);
    else
        fail(r, e->err);
}

/* "local/pirate" answered as "local/pirate@VERSION". */
static void name_version(struct request *r, struct span adapter) {
    if (adapter.n)
        snprintf(r->answer->target, sizeof(r->answer->target), "%s/%.*s", attempt_choice(r)->backend->name,
                 SPAN_ARG(adapter));
}

static void fill_ask(const struct request *r, struct decode_ask *ask) {
    bool in_parts = r->call.stream && r->price.visible_output;
    int64_t cap = in_parts ? r->bound.full_out_tok : r->bound.out_tok;
    engine_ask_for(attempt_choice(r)->backend, attempt_choice(r)->model, r->key->team->name, ask);
    ask->cap_tok = cap < INT64_MAX ? cap : 0;
    ask->deadline_us = r->deadline_us;
}

/* ---- worker 0's ---- */

static bool open_distant(struct request *r, struct attempt *a) {
    struct engine_words words = {.backend = attempt_choice(r)->backend->name, .endpoint = r->call.endpoint};
    struct span *body = arena_alloc(&r->arena, 2 * sizeof(*body));
    fill_ask(r, &words.ask);
    a->distant = true;
    if (!engine_door_is_open(r->gateway)) {
        attempt_fail(r, OUTCOME_UNAVAILABLE, "the engine's process is starting");
        return false;
    }
    if (!body || !engine_words_put(&words, &r->arena, &body[0])) {
        attempt_fail(r, OUTCOME_CLIENT_FAULT, "the call is too large to write");
        return false;
    }
    body[1] = r->call.body.raw;
    a->call = engine_door_call(r->gateway, body, 2, on_call, r);
    return true;
}

/* Once: the engine has the call. */
static bool take_head(struct request *r, const struct http_head *head) {
    struct attempt *a = r->attempt;
    a->status = head->status;
    http_call_progress(a->call);
    name_version(r, http_field_get(head, ENGINE_ADAPTER_FIELD, NULL));
    if (head->status == 200)
        return true;
    attempt_fail(r, OUTCOME_UNAVAILABLE, "the engine's process does not take calls");
    return false;
}

static bool take_event(struct request *r, const struct event *e) {
    if (e->bits & EVENT_ERROR) {
        attempt_fail_run(r, e);
        return false;
    }
    r->answer->usage = e->usage;
    return attempt_take_event(r, e);
}

/* Events out of what has come; false when the attempt has ended. */
static bool take_packed(struct request *r) {
    struct attempt *a = r->attempt;
    struct part parts[EVENT_PARTS_MAX];
    struct event e;
    size_t n;
    while (!a->parked.n && answer_room(r->answer) && (n = event_packed_bytes(str_span(&a->plain)))) {
        struct span packed = span_from(a->plain.at, n);
        if (!event_unpack(&packed, &e, parts)) {
            attempt_fail(r, OUTCOME_UNAVAILABLE, "what the engine's process gives cannot be read");
            return false;
        }
        if (!take_event(r, &e))
            return false;
        str_cut(&a->plain, n);
    }
    return true;
}

void attempt_pump_distant(struct request *r) {
    struct attempt *a = r->attempt;
    const struct http_head *head = http_call_head(a->call);
    struct evbuffer *in = http_call_body(a->call);
    if (head && !a->status && !take_head(r, head))
        return;
    for (size_t n; (n = evbuffer_get_length(in)) && answer_room(r->answer) && !a->parked.n;) {
        str_put(&a->plain, span_from(evbuffer_pullup(in, -1), n));
        evbuffer_drain(in, n);
        http_call_took_body(a->call);
        if (!take_packed(r))
            return;
    }
    if (!take_packed(r) || a->parked.n || !answer_room(r->answer) || evbuffer_get_length(in))
        return;
    if (http_call_failed(a->call) || http_call_ended(a->call)) {
        log_info("engine lost request=%s why=%s", r->id, http_call_failure_text(a->call));
        attempt_fail(r, OUTCOME_UNAVAILABLE, "the engine's process ended");
    }
}

/* ---- this process's ---- */

static void fail_start(struct request *r, enum err e) {
    attempt_fail_run(r, &(struct event){.err = e});
}

static bool open_here(struct request *r, struct attempt *a, struct decode *engine) {
    struct engine_ask ask;
    struct call_fault fault;
    if (!engine_ask(&r->call, &r->arena, &ask, &fault)) {
        fail_call(r, fault.err, span_of(fault.field), span_of(fault.text));
        return false;
    }
    fill_ask(r, &ask.ask);
    enum err e = engine_start(engine, &ask, on_run, r, &a->run);
    if (e)
        fail_start(r, e);
    else
        name_version(r, span_of(engine_adapter(a->run)));
    return e == ERR_NONE;
}

bool attempt_open_run(struct request *r, struct attempt *a) {
    struct decode *engine = map_find(&r->gateway->engines, span_of(attempt_choice(r)->backend->name));
    if (engine)
        return open_here(r, a, engine);
    if (r->gateway->worker > 0)
        return open_distant(r, a);
    attempt_fail(r, OUTCOME_UNAVAILABLE, "the engine is not running");
    return false;
}

void attempt_pump_run(struct request *r) {
    struct attempt *a = r->attempt;
    struct event e;
    while (!a->parked.n && answer_room(r->answer) && engine_take(a->run, &e))
        if (!take_event(r, &e))
            return;
}
