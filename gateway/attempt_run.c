/* A try that the engine inside answers: its start, the version that answers, and what its refusals mean to the plan. */
#include "gateway/attempt.h"

#include "gateway/engines.h"
#include "gateway/gateway.h"

#include <stdio.h>

static void on_run(void *user) {
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

void attempt_fail_run(struct request *r, enum err e) {
    if (e == ERR_MODEL) {
        fail_unknown(r);
        return;
    }
    r->attempt->error = (struct provider_error){.status = 503};
    snprintf(r->attempt->error.message, sizeof(r->attempt->error.message), "%s", err_row(e)->text);
    enum outcome outcome = e == ERR_CONTEXT ? OUTCOME_CONTEXT_WINDOW
                           : e == ERR_BUSY  ? OUTCOME_NO_SLOT
                                            : OUTCOME_UNAVAILABLE;
    attempt_fail(r, outcome, e == ERR_BUSY ? "the engine's queue is full" : "the engine ended it");
}

/* "local/pirate" answered as "local/pirate@VERSION". */
static void name_version(struct request *r, const char *adapter) {
    if (*adapter)
        snprintf(r->answer->target, sizeof(r->answer->target), "%s/%s", attempt_choice(r)->backend->name, adapter);
}

bool attempt_open_run(struct request *r, struct attempt *a) {
    const struct conf_backend *b = attempt_choice(r)->backend;
    struct decode *engine = map_find(&r->gateway->engines, span_of(b->name));
    struct decode_ask ask = {0};
    struct call_fault fault = {0};
    a->first_piece = true;
    if (!engine) {
        attempt_fail(r, OUTCOME_UNAVAILABLE, "the engine is not running");
        return false;
    }
    if (!engine_ask(&r->call, &r->arena, &ask, &fault)) {
        a->error = (struct provider_error){.status = 400};
        snprintf(a->error.code, sizeof(a->error.code), "%s", err_code(fault.err));
        snprintf(a->error.param, sizeof(a->error.param), "%s", fault.field);
        snprintf(a->error.message, sizeof(a->error.message), "%s", fault.text);
        attempt_fail(r, OUTCOME_CLIENT_FAULT, "the engine does not take this call");
        return false;
    }
    engine_ask_for(b, attempt_choice(r)->model, r->key->team->name, &ask);
    bool in_parts = r->call.stream && r->price.visible_output;
    int64_t cap = in_parts ? r->bound.full_out_tok : r->bound.out_tok;
    ask.cap_tok = cap < INT64_MAX ? cap : 0;
    enum err e = decode_start(engine, &ask, on_run, r, &a->run);
    if (e)
        attempt_fail_run(r, e);
    else
        name_version(r, decode_run_adapter(a->run));
    return e == ERR_NONE;
}
