/* A try that the engine inside answers: its start, the version that answers, and what its refusals mean to the plan. */
#include "gateway/attempt.h"

#include "gateway/engines.h"
#include "gateway/gateway.h"

#include <stdio.h>

static void on_run(void *user) {
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

void attempt_fail_run(struct attempt *a, enum err e) {
    if (e == ERR_MODEL) {
        fail_unknown(a);
        return;
    }
    a->error = (struct provider_error){.status = 503};
    snprintf(a->error.message, sizeof(a->error.message), "%s", err_row(e)->text);
    enum outcome outcome = e == ERR_CONTEXT ? OUTCOME_CONTEXT_WINDOW
                           : e == ERR_BUSY  ? OUTCOME_NO_SLOT
                                            : OUTCOME_UNAVAILABLE;
    attempt_fail(a, outcome, e == ERR_BUSY ? "the engine's queue is full" : "the engine ended it");
}

/* "local/pirate" answered as "local/pirate@VERSION". */
static void name_version(struct attempt *a, const char *adapter) {
    if (*adapter)
        snprintf(a->target, sizeof(a->target), "%s/%s", a->row->choice->backend->name, adapter);
}

bool attempt_open_run(struct attempt *a) {
    struct request *r = a->of;
    const struct conf_backend *b = a->row->choice->backend;
    struct decode *engine = map_find(&r->gateway->engines, span_of(b->name));
    struct decode_ask ask = {0};
    struct call_fault fault = {0};
    a->first_piece = true;
    if (!engine) {
        attempt_fail(a, OUTCOME_UNAVAILABLE, "the engine is not running");
        return false;
    }
    if (!engine_ask(&r->call, &r->arena, &ask, &fault)) {
        a->error = (struct provider_error){.status = 400};
        snprintf(a->error.code, sizeof(a->error.code), "%s", err_code(fault.err));
        snprintf(a->error.param, sizeof(a->error.param), "%s", fault.field);
        snprintf(a->error.message, sizeof(a->error.message), "%s", fault.text);
        attempt_fail(a, OUTCOME_CLIENT_FAULT, "the engine does not take this call");
        return false;
    }
    engine_ask_for(b, a->row->choice->model, r->key->team->name, &ask);
    bool in_parts = r->call.stream && a->price.visible_output;
    int64_t cap = in_parts ? a->bound.full_out_tok : a->bound.out_tok;
    ask.cap_tok = cap < INT64_MAX ? cap : 0;
    enum err e = decode_start(engine, &ask, on_run, r, &a->run);
    if (e)
        attempt_fail_run(a, e);
    else
        name_version(a, decode_run_adapter(a->run));
    return e == ERR_NONE;
}
