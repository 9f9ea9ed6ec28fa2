/* Heads of the log with those who keep them elsewhere and are no files: a stream in Redis, and webhooks that ask for the
 * event audit_head. Sent once each and never waited for: the next head proves all that one that was lost would have. */
#include "gateway/alerts/alert.h"
#include "gateway/gateway.h"

#include <stdlib.h>

/* A stream keeps about this many heads: months of them at the usual pace. */
#define ANCHOR_STREAM_MAX "1000000"

struct sending {
    struct redis_call call; /* first */
};

static void on_sent(struct redis_call *call, const struct redis_value *reply) {
    if (call->fault)
        log_warn("a head of the audit log did not reach its stream: %s", redis_fault_names[call->fault]);
    else if (reply && reply->kind == REDIS_ERROR)
        log_warn("a head of the audit log did not reach its stream: %.*s", SPAN_ARG(reply->text));
    free(call);
}

static void send_to_stream(struct gateway *g, const char *stream, struct span line) {
    struct str key;
    if (!g->redis)
        return;
    str_init(&key, 512);
    str_printf(&key, "%s%s", g->redis->prefix, stream);
    const struct span argv[] = {
        SPAN("XADD"), str_span(&key), SPAN("MAXLEN"), SPAN("~"), SPAN(ANCHOR_STREAM_MAX), SPAN("*"), SPAN("head"),
        line};
    struct sending *s = xcalloc(1, sizeof(*s));
    s->call.done = on_sent;
    if (!redis_send(g->redis, &s->call, ARRAY_LEN(argv), argv))
        free(s);
    str_fini(&key);
}

static void tell_webhooks(struct gateway *g, struct span line) {
    struct str figures;
    str_init(&figures, ALERT_BODY_MAX / 2);
    str_puts(&figures, "\"head\":");
    str_put(&figures, line);
    if (!figures.over)
        alert_raise(g, &(struct alert){.event = ALERT_AUDIT_HEAD,
                                       .scope = g->chain,
                                       .until_us = 1, /* each head is another */
                                       .text = "A head of the audit log, to be kept elsewhere.",
                                       .figures = figures.at});
    str_fini(&figures);
}

void gateway_anchor(struct span head_line, void *gateway) {
    struct gateway *g = gateway;
    for (size_t i = 0; i < g->conf->audit.n_anchors; i++)
        if (g->conf->audit.anchors[i].stream)
            send_to_stream(g, g->conf->audit.anchors[i].stream, head_line);
    tell_webhooks(g, head_line);
}

size_t gateway_anchor_files(const struct conf *c, const char *files[ANCHOR_FILES_MAX]) {
    size_t n = 0;
    for (size_t i = 0; i < c->audit.n_anchors && n < ANCHOR_FILES_MAX; i++)
        if (c->audit.anchors[i].file)
            files[n++] = c->audit.anchors[i].file;
    return n;
}
