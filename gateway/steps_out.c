/* The steps on the way out: SEND to DONE. Served, refused, aborted, cached and failed requests all leave through the
 * same SETTLE and RELEASE. */
#include "gateway/attempt.h"
#include "gateway/explain.h"
#include "gateway/gateway.h"
#include "gateway/routes.h"
#include "gateway/shadow.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

int64_t request_spent_nanousd(const struct request *r) {
    struct price_use uses[PLAN_MAX];
    for (int i = 0; i < r->n_tries; i++)
        uses[i] = (struct price_use){&r->tries[i].price, &r->tries[i].usage};
    return price_cost_sum(uses, (size_t)r->n_tries);
}

/* ---- SEND ---- */

static enum walk give_up_waiting(struct request *r, enum outcome outcome, const char *why, enum err e) {
    attempts_cancel(r, outcome, why);
    return refuse_or_stale(r, e);
}

/* Joins its own answer as a reader, so that the answer's window knows of it. */
static void read_own_answer(struct request *r) {
    if (!r->reader.of && (r->client || r->shadow)) {
        bool joined = answer_join(r->answer, &r->reader);
        assert(joined);
        (void)joined;
    }
}

/* This choice has no slot: another one is held for, or the client is told when to come again. */
static enum walk try_elsewhere(struct request *r) {
    if (attempt_pass_over(r, OUTCOME_NO_SLOT))
        return go(r, STATE_HOLD);
    r->retry_after_us = US_PER_S;
    snprintf(r->message, sizeof(r->message), "%s", NO_SLOT_TEXT);
    return refuse_or_stale(r, ERR_NO_TARGET);
}

enum walk step_send(struct request *r) {
    int64_t now_us = clock_mono_us();
    if (r->client_left && !request_has_readers(r))
        return give_up_waiting(r, OUTCOME_CANCELLED, "the client left", ERR_CLIENT_GONE);
    if (now_us >= r->deadline_us)
        return give_up_waiting(r, OUTCOME_TIMEOUT, "the alias's deadline passed", ERR_DEADLINE);
    if (!r->attempt && now_us < r->not_before_us) {
        r->doing = "backing off before another try";
        return WALK_WAIT;
    }
    read_own_answer(r);
    if (!r->attempt && !r->shadow && !routing_begin(r->gateway->routing, &r->plan.choices[r->at], now_us))
        return try_elsewhere(r);
    if (!r->attempt && !attempt_start(r))
        return attempt_next_or_give_up(r);
    r->doing = "waiting for the first content";
    attempts_pump(r);
    if (r->answer->content)
        return go(r, STATE_STREAM);
    return r->attempt ? hedge_step(r, now_us) : attempt_next_or_give_up(r);
}

enum walk step_stream(struct request *r) {
    r->doing = "relaying the answer";
    return r->shadow ? shadow_read(r) : relay_run(r);
}

/* ---- REFUSE ---- */

enum walk step_refuse(struct request *r) {
    r->doing = "refusing";
    if (r->explain && !r->client_left && !r->cancelled)
        return explain_answer(r);
    attempts_cancel(r, OUTCOME_CANCELLED, err_code(r->err));
    kept_let_go(r, r->err);
    if (r->head_sent)
        relay_fail(r);
    else
        reply_error_body(r);
    return go(r, STATE_SETTLE);
}

/* ---- SETTLE ---- */

static void fix_cost(struct request *r) {
    for (int i = 0; i < r->n_tries; i++) {
        usage_add(&r->usage, &r->tries[i].usage);
        r->estimated = r->estimated || r->tries[i].usage.estimated;
    }
    r->cost_nanousd = request_spent_nanousd(r);
    r->saved_nanousd = kept_saved_nanousd(r);
    r->overrun = r->hold.lease.open && r->cost_nanousd > r->hold.lease.nanousd;
    if (!r->status)
        r->status = 200;
}

static bool is_recorded(const struct request *r) {
    return !r->route || r->route->kind != ROUTE_OPEN;
}

/* The record could not be written: the client is not told of a success that no log knows. */
static void fail_unrecorded(struct request *r) {
    if (r->conf && r->conf->audit.when_full_serve)
        return;
    r->err = ERR_AUDIT;
    r->retry_after_us = US_PER_S;
    r->whole = false;
    r->message[0] = '\0';
    if (r->head_sent) {
        str_clear(&r->out);
        relay_fail(r);
    } else {
        r->status = 0;
        reply_error_body(r);
    }
}

static void send_last_bytes(struct request *r) {
    if (!r->client)
        return;
    if (reply_is_stream(r))
        reply_commit(r, -1); /* also when its last bytes are its only ones: an answer that came whole */
    if (!r->head_sent)
        reply_whole(r);
    else if (r->out.n)
        exchange_send(r->client, str_span(&r->out));
    exchange_end(r->client, !r->gateway->draining);
}

enum walk step_settle(struct request *r) {
    r->doing = "writing its settle record";
    if (request_asks(r)) {
        if (!is_recorded(r)) {
            r->asking = false;
        } else {
            fix_cost(r);
            r->settled.err = ERR_NONE;
            r->settled.seq = record_settle(r);
            bool wait = r->settled.seq != 0 && r->settled.seq != UINT64_MAX;
            r->settled.err = r->settled.seq ? ERR_NONE : ERR_AUDIT;
            request_answer(r, wait ? audit_written(r->gateway->audit, &r->settled) : PROGRESS_DONE);
        }
    }
    if (r->asking)
        return WALK_WAIT;
    if (r->settled.err)
        fail_unrecorded(r);
    send_last_bytes(r);
    return go(r, STATE_RELEASE);
}

/* ---- RELEASE ---- */

static void end_money(struct request *r) {
    struct budget *b = r->gateway->budget;
    int64_t used = usage_in_tok(&r->usage) + usage_out_tok(&r->usage);
    if (r->rate.slip.open)
        budget_rate_end(b, &r->rate.slip, r->n_tries ? used : 0, clock_wall_us());
    if (r->hold.lease.open)
        budget_settle(b, &r->hold.lease, r->cost_nanousd);
}

static void count_it(struct request *r) {
    struct metrics *m = &r->gateway->metrics;
    const char *alias = r->alias ? r->alias->name : "", *target = "";
    if (!r->key || r->route == NULL || r->route->kind != ROUTE_CALL || r->shadow || r->explain)
        return;
    if (r->alias && r->at >= 0) /* under a pattern the model is the caller's word: no label of ours */
        target = r->alias->pattern ? r->plan.choices[r->at].backend->name : r->plan.choices[r->at].target;
    metrics_add(m, METRIC_REQUESTS, 1, "alias=\"%s\",target=\"%s\",status=\"%d\"", alias, target, r->status);
    if (r->err)
        metrics_add(m, METRIC_REFUSED, 1, "code=\"%s\"", err_code(r->err));
    metrics_add(m, METRIC_COST, r->cost_nanousd, "team=\"%s\"", r->key->team->name);
    metrics_add(m, METRIC_TOKENS, usage_in_tok(&r->usage), "kind=\"input\"");
    metrics_add(m, METRIC_TOKENS, usage_out_tok(&r->usage), "kind=\"output\"");
    if (r->cache_word)
        metrics_add(m, METRIC_CACHE, 1, "result=\"%s\"", r->cache_word);
    if (r->saved_nanousd)
        metrics_add(m, METRIC_SAVED, r->saved_nanousd, "team=\"%s\"", r->key->team->name);
    metrics_time(m, HISTOGRAM_DURATION, request_age_us(r));
    if (r->first_content_us >= 0)
        metrics_time(m, HISTOGRAM_FIRST_TOKEN, r->first_content_us);
    if (r->n_tries)
        metrics_time(m, HISTOGRAM_OVERHEAD, r->tries[0].began_us);
}

static void end_idempotency(struct request *r) {
    if (!r->idempotency)
        return;
    map_remove(&r->gateway->idempotent, span_of(r->idempotency));
    free(r->idempotency);
    r->idempotency = NULL;
}

enum walk step_release(struct request *r) {
    end_money(r);
    kept_end(r);
    count_it(r);
    shadow_after(r);
    answer_leave(&r->reader);
    answer_drop(r->answer);
    r->answer = NULL;
    writer_free(r->writer);
    r->writer = NULL;
    end_idempotency(r);
    *request_buffers(r).bytes -= (int64_t)r->body_counted;
    r->body_counted = 0;
    if (r->shadow)
        shadow_end(r);
    conf_drop(r->conf);
    r->conf = NULL;
    r->key = NULL;
    if (r->client)
        exchange_close(r->client);
    r->client = NULL;
    return go(r, STATE_DONE);
}

enum walk step_done(struct request *r) {
    (void)r;
    return WALK_DONE;
}
