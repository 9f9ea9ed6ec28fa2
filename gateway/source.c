/* What comes from a try's source: frames, a whole body or an error body, turned into events of the answer as far as that has
 * room. Always true here: nothing is taken from a source that the answer cannot hold. */
#include "gateway/attempt.h"

#include "gateway/gateway.h"

#include <event2/buffer.h>
#include <stdio.h>
#include <time.h>

#define RETRY_AFTER_MAX_US US_PER_DAY /* a longer wish of a provider is cut to this */

static int64_t at_most(int64_t v, int64_t max) {
    return v < max ? v : max;
}

/* Before content a try keeps what it says to itself. */
static void put_event(struct attempt *a, const struct event *e) {
    if (a->wins)
        attempt_write(a);
    if (!a->reader && a->writes)
        a->of->answer->usage = a->used;
    if (a->writes)
        answer_put(a->of->answer, e);
    else
        event_pack(e, &a->early);
}

/* The first content decides which try goes on. */
static void see_content(struct attempt *a) {
    if (a->row->first_us >= 0)
        return;
    a->row->first_us = request_age_us(a->of);
    if (a->call)
        http_call_progress(a->call);
    attempt_win(a);
}

bool attempt_has_room(const struct attempt *a) {
    return a->writes ? answer_room(a->of->answer) : a->early.n <= ANSWER_KEEP_MAX;
}

static enum outcome outcome_of_status(const struct provider_error *e) {
    static const struct {
        int from, to;
        enum outcome outcome;
    } rows[] = {{401, 403, OUTCOME_AUTH},         {404, 404, OUTCOME_MODEL_MISSING}, {408, 408, OUTCOME_TIMEOUT},
                {429, 429, OUTCOME_RATE_LIMITED}, {400, 499, OUTCOME_CLIENT_FAULT},  {504, 504, OUTCOME_TIMEOUT},
                {500, 599, OUTCOME_UNAVAILABLE}};
    if (e->context_window)
        return OUTCOME_CONTEXT_WINDOW;
    if (e->content_filter)
        return OUTCOME_CONTENT_FILTER;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        if (e->status >= rows[i].from && e->status <= rows[i].to)
            return rows[i].outcome;
    return OUTCOME_UNAVAILABLE;
}

bool attempt_take_event(struct attempt *a, const struct event *e) {
    if (e->bits & EVENT_ERROR) {
        a->error = (struct provider_error){.status = e->status ? e->status : 500,
                                           .context_window = e->err == ERR_CONTEXT,
                                           .content_filter = e->err == ERR_FILTERED};
        snprintf(a->error.message, sizeof(a->error.message), "%.*s", SPAN_ARG(e->message));
        attempt_fail(a, outcome_of_status(&a->error), "an error in the stream");
        return false;
    }
    if (e->bits & (EVENT_CONTENT | EVENT_PLAIN))
        see_content(a);
    if (topup_park(a, e))
        return true;
    if (!(e->bits & EVENT_SILENT))
        put_event(a, e);
    if (e->bits & EVENT_LAST) {
        attempt_succeed(a);
        return false;
    }
    if (a->early.over || (a->writes && a->of->answer->ended)) {
        attempt_fail(a, OUTCOME_UNAVAILABLE, "the answer is too large");
        return false;
    }
    return true;
}

/* One frame; false when the attempt has ended with it. */
static bool take_frame(struct attempt *a) {
    struct event e;
    const char *why = "a frame that is not what the dialect says";
    if (reader_frame(a->reader, str_span(&a->frames.name), str_span(&a->frames.data), &e, &why)) {
        attempt_fail(a, OUTCOME_UNAVAILABLE, why);
        return false;
    }
    return attempt_take_event(a, &e);
}

/* Frames out of what lies in the body, as long as the answer has room; false when the attempt has ended. */
static bool take_frames(struct attempt *a, struct evbuffer *in) {
    struct evbuffer_iovec piece;
    while (!a->parked.n && attempt_has_room(a) && evbuffer_peek(in, -1, NULL, &piece, 1) > 0 && piece.iov_len > 0) {
        size_t used = 0;
        enum frame_result got = frame_read(&a->frames, span_from(piece.iov_base, piece.iov_len), &used);
        evbuffer_drain(in, used);
        if (got == FRAME_TOO_LARGE) {
            attempt_fail(a, OUTCOME_UNAVAILABLE, "an event is larger than the gateway holds");
            return false;
        }
        if (got == FRAME_READY && !take_frame(a))
            return false;
    }
    return true;
}

static bool gather(struct attempt *a, struct evbuffer *in, size_t max) {
    struct request *r = a->of;
    struct buffers held = request_buffers(r);
    size_t n = evbuffer_get_length(in);
    if (n && a->form == FORM_PLAIN)
        http_call_progress(a->call); /* a plain body that comes slowly is not one that does not come */
    bool fits_in = n <= max - a->plain.n && *held.bytes + (int64_t)n <= held.most;
    if (!fits_in && a->form == FORM_ERROR) {
        evbuffer_drain(in, n); /* the rest of an error body says nothing more */
        return true;
    }
    if (!fits_in)
        return false;
    *held.bytes += (int64_t)n;
    r->body_counted += n;
    str_put(&a->plain, span_from(evbuffer_pullup(in, -1), n));
    evbuffer_drain(in, n);
    return true;
}

/* An HTTP-date of the preferred form (RFC 9110 section 5.6.7); 0 if it is none. */
static int64_t http_date_us(struct span text) {
    char copy[64];
    struct tm tm = {0};
    if (text.n == 0 || text.n >= sizeof(copy))
        return 0;
    memcpy(copy, text.at, text.n);
    copy[text.n] = '\0';
    const char *end = strptime(copy, "%a, %d %b %Y %H:%M:%S GMT", &tm);
    return end && *end == '\0' ? (int64_t)timegm(&tm) * US_PER_S : 0;
}

static int64_t wish_of(const struct http_head *head) {
    struct span ms = http_field_get(head, "retry-after-ms", NULL), s = http_field_get(head, "retry-after", NULL);
    int64_t v;
    if (span_to_i64(ms, &v) && v < RETRY_AFTER_MAX_US / US_PER_MS)
        return v * US_PER_MS;
    if (span_to_i64(s, &v))
        return v < RETRY_AFTER_MAX_US / US_PER_S ? v * US_PER_S : RETRY_AFTER_MAX_US;
    int64_t until_us = http_date_us(s), now_us = clock_wall_us();
    return until_us > now_us ? at_most(until_us - now_us, RETRY_AFTER_MAX_US) : 0;
}

static enum form form_of(const struct http_head *head, struct evbuffer *in) {
    char first[16];
    if (head->status < 200 || head->status >= 300)
        return FORM_ERROR;
    ev_ssize_t n = evbuffer_copyout(in, first, sizeof(first));
    for (ev_ssize_t i = 0; i < n; i++)
        if (first[i] != ' ' && first[i] != '\n' && first[i] != '\r' && first[i] != '\t')
            return first[i] == '{' || first[i] == '[' ? FORM_PLAIN : FORM_FRAMES;
    return FORM_UNKNOWN;
}

static void end_frames(struct attempt *a) {
    if (frame_rest(&a->frames) && (!take_frame(a) || a->parked.n))
        return;
    if (reader_finished(a->reader))
        attempt_succeed(a);
    else
        attempt_fail(a, OUTCOME_UNAVAILABLE,
                     a->row->first_us < 0 ? "an empty stream" : "the stream ended without a finish");
}

static void end_plain(struct attempt *a) {
    struct event e;
    const char *why = "the body is not what the dialect says";
    if (reader_plain(a->reader, str_span(&a->plain), &e, &why)) {
        attempt_fail(a, OUTCOME_UNAVAILABLE, why);
        return;
    }
    if (attempt_take_event(a, &e) && !a->parked.n)
        attempt_succeed(a);
}

static void end_error(struct attempt *a) {
    if (attempt_again_unasked(a))
        return;
    provider_error_read(a->row->choice->backend->protocol, a->row->status, str_span(&a->plain), &a->error);
    attempt_fail(a, outcome_of_status(&a->error), "the provider refused");
}

static void end_unknown(struct attempt *a) {
    attempt_fail(a, OUTCOME_UNAVAILABLE, "an empty answer");
}

/* Too large by itself, or only beside all that the gateway holds for others: then it is not the provider's fault. */
static void end_too_large(struct attempt *a, struct evbuffer *in) {
    if (a->plain.n + evbuffer_get_length(in) > PLAIN_ANSWER_MAX)
        attempt_fail(a, OUTCOME_UNAVAILABLE, "the answer is larger than the gateway holds");
    else
        attempt_cancel(a, OUTCOME_LOCAL, "the gateway's buffers are full");
}

static enum outcome outcome_of_failure(enum http_failure f) {
    static const enum outcome outcomes[] = {[HTTP_FAIL_RESOLVE] = OUTCOME_CONNECT,
                                            [HTTP_FAIL_CONNECT] = OUTCOME_CONNECT,
                                            [HTTP_FAIL_TLS] = OUTCOME_CONNECT,
                                            [HTTP_FAIL_CONNECT_TIMEOUT] = OUTCOME_CONNECT_SLOW,
                                            [HTTP_FAIL_FIRST_TIMEOUT] = OUTCOME_TIMEOUT,
                                            [HTTP_FAIL_IDLE_TIMEOUT] = OUTCOME_TIMEOUT,
                                            [HTTP_FAIL_TOTAL_TIMEOUT] = OUTCOME_TIMEOUT,
                                            [HTTP_FAIL_RESET] = OUTCOME_UNAVAILABLE,
                                            [HTTP_FAIL_FRAMING] = OUTCOME_UNAVAILABLE,
                                            [HTTP_FAIL_CODING] = OUTCOME_UNAVAILABLE,
                                            [HTTP_FAIL_LOCAL] = OUTCOME_LOCAL};
    return outcomes[f];
}

static void pump_call(struct attempt *a) {
    static void (*const ends[])(struct attempt *) = {
        [FORM_UNKNOWN] = end_unknown, [FORM_FRAMES] = end_frames, [FORM_PLAIN] = end_plain, [FORM_ERROR] = end_error};
    const struct http_head *head = http_call_head(a->call);
    struct evbuffer *in = http_call_body(a->call);
    if (head) {
        a->row->status = head->status;
        a->retry_after_us = head->status >= 400 ? wish_of(head) : 0;
        a->form = a->form == FORM_UNKNOWN ? form_of(head, in) : a->form;
        if (a->form == FORM_FRAMES && !take_frames(a, in))
            return;
        bool whole_form = a->form == FORM_PLAIN || a->form == FORM_ERROR;
        if (whole_form && !gather(a, in, a->form == FORM_ERROR ? ERROR_BODY_MAX : PLAIN_ANSWER_MAX)) {
            end_too_large(a, in);
            return;
        }
        http_call_took_body(a->call);
        if (a->parked.n)
            return;
    }
    enum http_failure failure = http_call_failed(a->call);
    bool unread = a->form == FORM_FRAMES && evbuffer_get_length(in) > 0; /* frames that came before the failure stand */
    if (failure && !unread) {
        log_info("call failed request=%s why=%s", a->of->id, http_call_failure_text(a->call));
        attempt_fail(a, outcome_of_failure(failure), http_failure_names[failure]);
    } else if (http_call_ended(a->call) && evbuffer_get_length(in) == 0)
        ends[a->form](a);
}

void attempt_unpark(struct attempt *a) {
    struct part parts[EVENT_PARTS_MAX];
    struct str parked = a->parked;
    struct span rest = str_span(&parked);
    struct event e;
    str_init(&a->parked, ANSWER_MAX);
    bool plain = a->form == FORM_PLAIN;
    if (!event_unpack(&rest, &e, parts))
        attempt_fail(a, OUTCOME_LOCAL, "an event that was put aside cannot be read");
    else if (attempt_take_event(a, &e) && plain)
        attempt_succeed(a);
    str_fini(&parked);
}

static void pump(struct attempt *a) {
    if (a->reader)
        pump_call(a);
    else
        attempt_pump_run(a);
}

/* One that waits for its hold is the only one: it has won. */
void attempts_pump(struct request *r) {
    while (r->attempt && !topup_waits(r) && r->attempt) {
        pump(r->attempt);
        if (r->hedge)
            pump(r->hedge);
        if (!r->attempt || !r->attempt->parked.n)
            return;
    }
}
