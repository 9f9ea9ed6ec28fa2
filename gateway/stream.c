/* The relay: events from an answer become client bytes, at the client's own pace. Pull: nothing is read from the answer,
 * and so in the end nothing from the provider, while the client has more than CLIENT_WINDOW bytes unsent. The last bytes
 * of a good answer stay in r->out until the settle record is written. */
#include "gateway/attempt.h"
#include "gateway/gateway.h"

#include <inttypes.h>
#include <stdio.h>

#define MARKER_MAX 256 /* bytes of the member "tollgate" */

static bool can_take(const struct request *r) {
    return !r->client || exchange_unsent(r->client) < CLIENT_WINDOW;
}

static void make_writer(struct request *r) {
    if (r->writer)
        return;
    r->writer = writer_new(&(struct writer_options){.endpoint = r->call.endpoint,
                                                    .stream = r->call.stream,
                                                    .include_usage = r->call.include_usage,
                                                    .model = r->call.model,
                                                    .id = r->id + 4,
                                                    .created_s = r->began_wall_us / US_PER_S,
                                                    .fresh = kept_gives(r)});
}

/* Gives what is in r->out to the client; the head goes first. Plain answers leave whole, in SETTLE. */
static void flush(struct request *r) {
    if (!r->call.stream || r->out.n == 0)
        return;
    reply_commit(r, -1);
    content_given(r, str_span(&r->out));
    if (r->client)
        exchange_send(r->client, str_span(&r->out));
    str_clear(&r->out);
    r->last_sent_us = clock_mono_us();
}

/* What its tries cost and will have cost; an answer that is given again is none of them. */
static int64_t cost_with(const struct request *r, const struct usage *u) {
    return request_spent_nanousd(r) + (r->attempt ? price_cost(&r->price, u) : 0);
}

/* What the body says of an answer that is not what was asked for: the JSON of its member "tollgate"; NULL: nothing. */
static const char *marker(const struct request *r, char out[MARKER_MAX]) {
    struct str s;
    str_init(&s, MARKER_MAX - 1);
    if (r->down != REASON_N)
        json_put_str(&s, "degraded", reason_names[r->down]);
    if (r->answer->clamped_tok) {
        char clamped[40];
        snprintf(clamped, sizeof(clamped), "max_tokens=%" PRId64, r->answer->clamped_tok);
        json_put_str(&s, "clamped", clamped);
    }
    if (r->answer->cut)
        json_put_str(&s, "cut", "budget");
    if (kept_is_stale(r))
        json_put_i64(&s, "stale", r->cache_age_us / US_PER_S);
    snprintf(out, MARKER_MAX, "{%s}", s.n ? s.at : "");
    bool any = s.n > 0;
    str_fini(&s);
    return any ? out : NULL;
}

static bool write_event(struct request *r, const struct event *e) {
    char mark[MARKER_MAX];
    struct writer_extra extra = {.cost_nanousd = -1, .tollgate = marker(r, mark)};
    if (r->conf->disclose.cost && r->call.stream) /* a whole reply says it in its head */
        extra.cost_nanousd = cost_with(r, e->bits & EVENT_USAGE ? &e->usage : &r->answer->usage);
    if (e->bits & EVENT_CONTENT && r->first_content_us < 0)
        r->first_content_us = request_age_us(r);
    if (e->bits & EVENT_FINISH)
        r->finish = e->finish;
    if (e->bits & EVENT_USAGE)
        r->relayed = e->usage;
    r->relayed_bytes += e->text_bytes;
    if (e->bits & EVENT_LAST)
        flush(r); /* what stands before the terminator may go; the terminator itself waits for the settle record */
    content_saw(r, e);
    shadow_saw(r, e);
    bool good = writer_event(r->writer, e, &extra, &r->out);
    if (good && !(e->bits & EVENT_LAST))
        flush(r);
    return good;
}

static void end_well(struct request *r) {
    char mark[MARKER_MAX];
    struct writer_extra extra = {.cost_nanousd =
                                     r->conf->disclose.cost && r->call.stream ? cost_with(r, &r->answer->usage) : -1,
                                 .tollgate = marker(r, mark)};
    r->whole = writer_end(r->writer, &r->answer->usage, &extra, &r->out);
    if (r->whole)
        return;
    r->err = ERR_UPSTREAM;
    snprintf(r->message, sizeof(r->message), "The provider's answer cannot be given in the form that was asked for.");
    str_clear(&r->out);
    if (r->head_sent)
        relay_fail(r);
    else
        reply_error_body(r);
}

static void end_badly(struct request *r, enum err e, const char *message) {
    r->err = e;
    snprintf(r->message, sizeof(r->message), "%s", message);
    attempts_cancel(r, OUTCOME_UNAVAILABLE, message);
    answer_end(r->answer, e, message);
    if (r->head_sent) {
        relay_fail(r);
        return;
    }
    str_clear(&r->out);
    reply_error_body(r);
}

void relay_fail(struct request *r) {
    make_writer(r);
    writer_fail(r->writer, r->err, r->message[0] ? r->message : err_row(r->err)->text, r->id, &r->out);
}

/* The client is gone: its reader leaves. A leader goes on while others read; else the try ends now. */
static enum walk go_on_alone(struct request *r) {
    answer_leave(&r->reader);
    if (r->attempt && answer_readers(r->answer) > 0)
        attempts_pump(r);
    if (r->attempt && answer_readers(r->answer) > 0)
        return WALK_WAIT;
    if (r->attempt) {
        attempts_cancel(r, OUTCOME_CANCELLED, "the client left");
        answer_end(r->answer, ERR_CLIENT_GONE, NULL);
    }
    r->err = ERR_CLIENT_GONE;
    return go(r, STATE_SETTLE);
}

/* An operator ends it: the client is told, and whoever reads along is not disturbed. */
static enum walk end_cancelled(struct request *r) {
    make_writer(r);
    answer_leave(&r->reader);
    r->err = ERR_CANCELLED;
    if (r->head_sent)
        relay_fail(r);
    else
        reply_error_body(r);
    if (r->attempt && answer_readers(r->answer) > 0) { /* a leader goes on for the others, its own client served */
        if (!r->head_sent)
            reply_whole(r);
        else
            exchange_send(r->client, str_span(&r->out));
        str_clear(&r->out);
        exchange_end(r->client, false);
        exchange_close(r->client);
        r->client = NULL;
        return go_on_alone(r);
    }
    if (r->attempt) {
        attempts_cancel(r, OUTCOME_CANCELLED, "cancelled by an operator");
        answer_end(r->answer, ERR_CANCELLED, NULL);
    }
    return go(r, STATE_SETTLE);
}

/* Events into client bytes while the client has room; false when one could not be written. */
static bool relay_events(struct request *r, bool *moved) {
    struct part parts[EVENT_PARTS_MAX];
    struct event e;
    *moved = false;
    while (can_take(r) && answer_next(&r->reader, &e, parts)) {
        *moved = true;
        if (!write_event(r, &e))
            return false;
    }
    return true;
}

enum walk relay_run(struct request *r) {
    bool moved;
    if (!r->client)
        return go_on_alone(r);
    if (r->cancelled)
        return end_cancelled(r);
    make_writer(r);
    if (!r->reader.of && !answer_join(r->answer, &r->reader)) {
        end_badly(r, ERR_INTERNAL, "The answer cannot be read from its start.");
        return go(r, STATE_SETTLE);
    }
    do {
        attempts_pump(r);
        if (!relay_events(r, &moved)) {
            end_badly(r, ERR_UPSTREAM, "An event of the provider's answer cannot be passed on.");
            return go(r, STATE_SETTLE);
        }
    } while (moved && can_take(r));
    if (!r->answer->ended || !answer_read_all(&r->reader))
        return WALK_WAIT;
    if (r->answer->err)
        end_badly(r, r->answer->err, r->answer->message);
    else
        end_well(r);
    return go(r, STATE_SETTLE);
}

void relay_heartbeat(struct request *r, int64_t now_us) {
    int64_t since_us = r->head_sent ? r->last_sent_us : r->began_us;
    bool waits =
        r->state == STATE_SEND || r->state == STATE_STREAM || r->state == STATE_CACHE || r->state == STATE_HOLD;
    if (!waits || !r->call.stream || !r->client || now_us - since_us < r->conf->http.heartbeat_us)
        return;
    bool keeps_up = exchange_unsent(r->client) == 0; /* a client that does not read gets no pile of comments */
    reply_commit(r, -1);
    if (keeps_up) {
        content_given(r, span_of(dialect_heartbeat(r->dialect)));
        exchange_send(r->client, span_of(dialect_heartbeat(r->dialect)));
    }
    r->last_sent_us = now_us;
}
