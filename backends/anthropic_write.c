/* Writes the Anthropic Messages API. Every event has its `event:` line; message_delta and message_stop wait until
 * writer_end, so that the cost stands in the usage and settling comes first. No [DONE], no types of our own. */
#include "backends/dialect.h"

static bool put_event(struct writer *w, const struct event *e, const struct writer_extra *x, struct str *out) {
    struct edits edits;
    bool delta = e->bits & EVENT_FINISH;
    if (e->bits & EVENT_PLAIN)
        return anthropic_cut_end(w, e, x, out);
    str_clear(&w->tail);
    if (delta)
        writer_tell(w, x, &w->tail);
    writer_edits(w, e, x, delta ? USAGE_PRICED : USAGE_KEEP, &edits);
    put_frame(w, out, e->name, e->data, &edits);
    return true;
}

bool anthropic_write(struct writer *w, const struct event *e, const struct writer_extra *x, struct str *out) {
    if (!e->data.n)
        return false; /* nothing but a provider of this dialect answers here */
    writer_see(w, e);
    if (!w->o.stream)
        return e->bits & EVENT_PLAIN ? writer_hold(w, e, x) : anthropic_gather(w, e);
    if (e->bits & EVENT_PLAIN)
        return anthropic_cut(w, e, x, out) && writer_hold(w, e, x);
    if (e->bits & EVENT_LAST)
        return writer_hold(w, e, x);
    if (w->n_held && !writer_release(w, x, put_event, out))
        return false;
    return e->bits & EVENT_FINISH ? writer_hold(w, e, x) : put_event(w, e, x, out);
}

bool anthropic_end(struct writer *w, const struct usage *u, const struct writer_extra *x, struct str *out) {
    (void)u;
    if (w->o.stream)
        return w->n_held && writer_release(w, x, put_event, out);
    return w->n_held ? writer_release(w, x, put_plain, out) : anthropic_gathered(w, x, out);
}

static void fail_stream(struct writer *w, enum err e, const char *message, const char *request_id, struct str *out) {
    struct error_body body = {.err = e, .message = message, .request_id = request_id};
    str_clear(&w->scratch);
    anthropic_error_put(&body, &w->scratch);
    put_frame(w, out, SPAN("error"), str_span(&w->scratch), NULL);
}

static void cut_put(const struct reader *r, const struct usage *u, struct str *out) {
    if (r->open_block)
        str_printf(out, "{\"type\":\"content_block_stop\",\"index\":%lld}\n", (long long)r->open_block - 1);
    str_printf(out,
               "{\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"max_tokens\",\"stop_sequence\":null},"
               "\"usage\":{\"output_tokens\":%lld}}\n{\"type\":\"message_stop\"}\n",
               (long long)usage_out_tok(u));
}

const struct dialect_ops anthropic_ops = {
    .name = "anthropic",
    .heartbeat = "event: ping\ndata: {\"type\":\"ping\"}\n\n",
    .parse = anthropic_call,
    .read_frame = anthropic_frame,
    .read_plain = anthropic_plain,
    .write_event = anthropic_write,
    .write_end = anthropic_end,
    .write_fail = fail_stream,
    .error_put = anthropic_error_put,
    .cut_put = cut_put,
    .id_prefix = "msg_",
};
