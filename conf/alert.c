/* Alerts: which events a webhook is told, and its url taken apart. */
#include "conf/directives.h"

const char *const alert_event_names[ALERT_EVENTS] = {
#define X(name, text) text,
    ALERT_EVENT_TABLE(X)
#undef X
};

static bool add_event(struct reader *r, const struct node *n, unsigned *events) {
    if (!value_is_scalar(r, n, "the name of an event"))
        return false;
    for (enum alert_event e = 0; e < ALERT_EVENTS; e++)
        if (span_is(n->text, alert_event_names[e])) {
            *events |= 1u << e;
            return true;
        }
    problem_at(r->report, n, "'%.*s' is no event%s", SPAN_ARG(n->text),
               guess_text(&r->report->arena, n->text, alert_event_names, ALERT_EVENTS));
    return false;
}

bool read_alert_events(struct reader *r, const struct directive *d, const struct node *n, void *into) {
    struct conf_alert *a = into;
    bool good = true;
    if (!n->source) {                                                       /* the default */
        a->events = ((1u << ALERT_EVENTS) - 1) & ~(1u << ALERT_AUDIT_HEAD); /* every ten seconds: for who asks */
        return true;
    }
    if (n->kind != NODE_LIST || !n->n) {
        problem_at(r->report, n, "%s is a list of one event or more", d->name);
        return false;
    }
    for (size_t i = 0; i < n->n; i++)
        good &= add_event(r, n->items[i], &a->events);
    return good;
}

/* A secret of the field's own form must decode, or no receiver could check a signature. */
static void check_secret(struct reader *r, const struct conf_alert *a, const struct node *n) {
    struct str key;
    if (!a->secret || !span_starts(span_of(a->secret), ALERT_SECRET_PREFIX))
        return;
    str_init(&key, strlen(a->secret) + 1);
    if (!base64_read(span_of(a->secret + strlen(ALERT_SECRET_PREFIX)), &key) || !key.n)
        problem_at(r->report, n, "behind " ALERT_SECRET_PREFIX " stands no base64");
    str_fini(&key);
}

void alert_done(struct reader *r, const struct node *n, void *into) {
    struct conf_alert *a = into;
    struct url_parts parts;
    check_secret(r, a, node_get(n, "secret"));
    if (!a->url || !url_take(r, a->url, node_get(n, "url"), true, &parts))
        return;
    a->tls = parts.tls;
    a->host = parts.host;
    a->port = parts.port;
    a->path = parts.path;
}
