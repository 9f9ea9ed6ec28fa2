/* Alerts on their way out. Always true: a delivery is on the list until it is delivered or given up; it names its webhook
 * by url and looks it up in the running conf at each try, so that a reload takes effect at once; its call, if it has one,
 * is closed before it is freed. */
#include "gateway/alerts/alert.h"

#include "gateway/gateway.h"

#include <event2/buffer.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#define ID_MAX 40                    /* "evt_" and 32 hexadecimal digits */
#define SIGNED_MAX 128               /* what stands before a body in what is signed */
#define ANSWER_MAX_BYTES (64 * 1024) /* of a webhook's answer, which nobody reads */
#define STATUS_GONE 410

struct delivery {
    struct link link;
    struct gateway *gateway; /* not owned */
    enum alert_event event;
    char id[ID_MAX];
    char *url, *body; /* owned */
    int tries;
    int64_t due_us; /* mono */
    size_t answer_bytes;
    struct http_call *call; /* owned; NULL between tries */
    struct redis_call claim;
    bool claiming; /* another process may have told it: Redis is asked */
};

struct alerts {
    struct list open;
    struct map said; /* "event scope mark" -> int64_t * (owned): wall, until when it is not told again */
};

struct alerts *alerts_new(void) {
    struct alerts *a = xcalloc(1, sizeof(*a));
    list_init(&a->open);
    map_init(&a->said);
    return a;
}

static void delivery_free(struct delivery *d) {
    if (d->call)
        http_call_close(d->call);
    if (d->claiming)
        redis_forget(d->gateway->redis, &d->claim);
    free(d->url);
    free(d->body);
    free(d);
}

void alerts_free(struct alerts *a) {
    if (a->open.n)
        log_warn("%zu alerts were not delivered before the end", a->open.n);
    for (struct link *k; (k = list_shift(&a->open));)
        delivery_free(container_of(k, struct delivery, link));
    for (struct map_entry *e = map_next(&a->said, NULL); e; e = map_next(&a->said, e))
        free(e->value);
    map_fini(&a->said);
    free(a);
}

size_t alerts_open(const struct alerts *a) {
    return a->open.n;
}

static void count(struct gateway *g, enum alert_event event, const char *result) {
    metrics_add(&g->metrics, METRIC_ALERTS, 1, "event=\"%s\",result=\"%s\"", alert_event_names[event], result);
}

/* ---- one try ---- */

static const struct conf_alert *find_webhook(const struct conf *c, const char *url) {
    for (size_t i = 0; i < c->n_alerts; i++)
        if (strcmp(c->alerts[i].url, url) == 0)
            return &c->alerts[i];
    return NULL;
}

static void end_delivery(struct delivery *d, const char *result) {
    count(d->gateway, d->event, result);
    list_remove(&d->gateway->alerts->open, &d->link);
    delivery_free(d);
}

static int64_t wait_of(int tries) {
    int64_t wait_us = ALERT_FIRST_WAIT_US;
    for (int i = 1; i < tries && wait_us < ALERT_LONGEST_WAIT_US; i++)
        wait_us *= 2;
    return wait_us < ALERT_LONGEST_WAIT_US ? wait_us : ALERT_LONGEST_WAIT_US;
}

/* Up to a quarter more, so that many gateways do not come back to a webhook at the same instant. */
static int64_t with_jitter(int64_t wait_us) {
    return wait_us + (int64_t)(random_u64() % (uint64_t)(wait_us / 4 + 1));
}

static void try_again(struct delivery *d, int status, const char *why) {
    http_call_close(d->call);
    d->call = NULL;
    bool over = d->tries >= ALERT_TRIES_MAX || status == STATUS_GONE;
    log_warn("an alert was not taken event=%s id=%s try=%d status=%d%s%s%s", alert_event_names[d->event], d->id,
             d->tries, status, why ? " why=" : "", why ? why : "", over ? ": given up" : "");
    if (over) {
        end_delivery(d, "failed");
        return;
    }
    count(d->gateway, d->event, "retried");
    d->due_us = clock_mono_us() + with_jitter(wait_of(d->tries));
}

/* The answer's body is read past, so that the connection can be used again; a long one is not waited for. */
static bool read_past(struct delivery *d) {
    struct evbuffer *in = http_call_body(d->call);
    size_t n = evbuffer_get_length(in);
    evbuffer_drain(in, n);
    d->answer_bytes += n;
    if (n)
        http_call_took_body(d->call);
    return http_call_ended(d->call) || d->answer_bytes > ANSWER_MAX_BYTES;
}

static void on_change(struct http_call *call, void *user) {
    struct delivery *d = user;
    struct gateway *g = d->gateway;
    const struct http_head *head = http_call_head(call);
    enum http_failure failure = http_call_failed(call);
    if (!failure && (!head || !read_past(d)))
        return;
    if (failure || head->status < 200 || head->status > 299)
        try_again(d, head ? head->status : 0, failure ? http_failure_names[failure] : NULL);
    else
        end_delivery(d, "delivered");
    alerts_tick(g, clock_mono_us()); /* the next one to this webhook */
}

static void sign(const struct conf_alert *w, const struct delivery *d, const char *timestamp,
                 char out[BASE64_MAX(SHA256_BYTES) + 3]) {
    struct str text, key;
    uint8_t mac[SHA256_BYTES];
    struct span secret = span_of(w->secret);
    str_init(&text, ALERT_BODY_MAX + SIGNED_MAX);
    str_init(&key, secret.n + 1);
    str_printf(&text, "%s.%s.%s", d->id, timestamp, d->body);
    if (!span_starts(secret, ALERT_SECRET_PREFIX) ||
        !base64_read(span_from(secret.at + strlen(ALERT_SECRET_PREFIX), secret.n - strlen(ALERT_SECRET_PREFIX)), &key))
        str_put(&key, secret);
    hmac_sha256(str_span(&key), str_span(&text), mac);
    memcpy(out, "v1,", 3);
    base64_put(mac, sizeof(mac), out + 3);
    str_fini(&text);
    str_fini(&key);
}

static void start_try(struct delivery *d, const struct conf_alert *w) {
    char timestamp[24], signature[BASE64_MAX(SHA256_BYTES) + 3], path[2 * HTTP_TARGET_MAX];
    struct span body = span_of(d->body);
    snprintf(timestamp, sizeof(timestamp), "%" PRId64, clock_wall_us() / US_PER_S);
    snprintf(path, sizeof(path), "%s%s", w->path[0] == '/' ? "" : "/", w->path);
    sign(w, d, timestamp, signature);
    const struct http_field fields[] = {{SPAN("content-type"), SPAN("application/json")},
                                        {SPAN("user-agent"), SPAN("tollgate/" TOLLGATE_VERSION)},
                                        {SPAN("webhook-id"), span_of(d->id)},
                                        {SPAN("webhook-timestamp"), span_of(timestamp)},
                                        {SPAN("webhook-signature"), span_of(signature)}};
    d->tries++;
    d->answer_bytes = 0;
    d->call =
        http_call_open(d->gateway->pool, &(struct http_call_options){.target = {w->tls, w->host, w->port, NULL, NULL},
                                                                     .method = SPAN("POST"),
                                                                     .path = span_of(path),
                                                                     .fields = fields,
                                                                     .n_fields = ARRAY_LEN(fields),
                                                                     .body = &body,
                                                                     .n_body = 1,
                                                                     .connect_us = ALERT_CALL_US,
                                                                     .first_us = ALERT_CALL_US,
                                                                     .idle_us = ALERT_CALL_US,
                                                                     .total_us = ALERT_CALL_US,
                                                                     .on_change = on_change,
                                                                     .user = d});
}

static int running_to(const struct alerts *a, const char *url) {
    int n = 0;
    for (struct link *k = list_first(&a->open); k; k = list_next(&a->open, k)) {
        const struct delivery *d = container_of(k, struct delivery, link);
        n += d->call && strcmp(d->url, url) == 0;
    }
    return n;
}

void alerts_tick(struct gateway *g, int64_t mono_us) {
    struct alerts *a = g->alerts;
    for (struct link *k = list_first(&a->open), *next; k; k = next) {
        struct delivery *d = container_of(k, struct delivery, link);
        next = list_next(&a->open, k);
        if (d->call || d->claiming || mono_us < d->due_us || running_to(a, d->url) >= ALERT_RUNNING_MAX)
            continue;
        const struct conf_alert *w = find_webhook(g->conf, d->url);
        if (w)
            start_try(d, w);
        else
            end_delivery(d, "dropped"); /* conf names this webhook no more */
    }
}

/* ---- one of several processes tells ---- */

#define CLAIM_KEY_MAX 512
#define CLAIM_MAX_US (400 * US_PER_DAY) /* of a budget without an end */

/* Without an answer of Redis everybody tells: twice is better than never. */
static void on_claimed(struct redis_call *call, const struct redis_value *reply) {
    struct delivery *d = container_of(call, struct delivery, claim);
    struct gateway *g = d->gateway;
    d->claiming = false;
    if (reply && reply->kind == REDIS_NIL)
        end_delivery(d, "elsewhere");
    alerts_tick(g, clock_mono_us());
}

/* A key of Redis for the event and its webhook, which the first one makes and which is gone when it may be told again. */
static void claim(struct delivery *d, const struct alert *alert, int64_t now_us) {
    struct redis *r = d->gateway->redis;
    char name[2 * ALERT_TEXT_MAX], hex[SHA256_HEX_MAX], key[CLAIM_KEY_MAX], ms[24];
    uint8_t digest[SHA256_BYTES];
    int64_t until_us = alert->until_us ? alert->until_us : now_us + ALERT_QUIET_US;
    if (!r || alert->event == ALERT_AUDIT_HEAD || until_us <= now_us)
        return;
    snprintf(name, sizeof(name), "%s %s %s ", alert_event_names[alert->event], alert->scope,
             alert->mark ? alert->mark : "");
    struct sha256 *sha = sha256_new();
    sha256_add(sha, span_of(name));
    sha256_add(sha, span_of(d->url));
    sha256_end(sha, digest);
    snprintf(key, sizeof(key), "%salert:%s", r->prefix, hex_put(digest, sizeof(digest), hex));
    if (until_us - now_us > CLAIM_MAX_US)
        until_us = now_us + CLAIM_MAX_US;
    snprintf(ms, sizeof(ms), "%" PRId64, (until_us - now_us) / US_PER_MS + 1);
    const struct span argv[] = {SPAN("SET"), span_of(key), span_of(d->gateway->chain),
                                SPAN("NX"),  SPAN("PX"),   span_of(ms)};
    d->claim = (struct redis_call){.done = on_claimed};
    d->claiming = redis_send(r, &d->claim, ARRAY_LEN(argv), argv);
}

/* ---- raising ---- */

static void forget_the_past(struct alerts *a, int64_t now_us) {
    struct map_entry *next;
    for (struct map_entry *e = map_next(&a->said, NULL); e; e = next) {
        int64_t *until_us = e->value;
        next = map_next(&a->said, e);
        if (*until_us > now_us)
            continue;
        map_remove(&a->said, span_from(e->key, e->n));
        free(until_us);
    }
}

/* Whether it was told within its period; when not, it counts as told from now on. */
static bool was_said(struct alerts *a, const struct alert *alert, int64_t now_us) {
    char name[ALERT_TEXT_MAX];
    snprintf(name, sizeof(name), "%s %s %s", alert_event_names[alert->event], alert->scope,
             alert->mark ? alert->mark : "");
    int64_t *until_us = map_find(&a->said, span_of(name));
    if (until_us && *until_us > now_us)
        return true;
    if (!until_us && a->said.n >= ALERT_SAID_MAX)
        forget_the_past(a, now_us);
    if (!until_us && a->said.n >= ALERT_SAID_MAX)
        return true; /* names are conf's, so this is a conf of thousands of budgets all at their limits */
    if (!until_us) {
        until_us = xcalloc(1, sizeof(*until_us));
        map_put(&a->said, span_of(name), until_us);
    }
    *until_us = alert->until_us ? alert->until_us : now_us + ALERT_QUIET_US;
    return false;
}

static void write_body(const struct gateway *g, const struct alert *alert, const char *id, int64_t now_us,
                       struct str *out) {
    char when[CLOCK_TEXT_MAX];
    str_puts(out, "{");
    json_put_str(out, "id", id);
    json_put_str(out, "event", alert_event_names[alert->event]);
    json_put_str(out, "time", clock_text(now_us, when));
    json_put_str(out, "node", g->conf->node);
    json_put_str(out, "scope", alert->scope);
    if (alert->mark)
        json_put_str(out, "mark", alert->mark);
    json_put_str(out, "text", alert->text);
    json_put_name(out, "figures");
    str_printf(out, "{%s}}", alert->figures ? alert->figures : "");
}

static void queue(struct gateway *g, const struct conf_alert *w, const struct alert *alert, const char *id,
                  const struct str *body, int64_t now_us) {
    static struct log_gate gate;
    uint64_t swallowed;
    if (g->alerts->open.n >= ALERT_DELIVERIES_MAX) {
        count(g, alert->event, "dropped");
        if (log_gate_open(&gate, clock_mono_us(), &swallowed))
            log_error("%d alerts wait for their webhooks; new ones are dropped (%" PRIu64 " before this)",
                      ALERT_DELIVERIES_MAX, swallowed);
        return;
    }
    struct delivery *d = xcalloc(1, sizeof(*d));
    d->gateway = g;
    d->event = alert->event;
    d->url = xstrdup(w->url);
    d->body = xstrndup(body->at, body->n);
    snprintf(d->id, sizeof(d->id), "%s", id);
    list_append(&g->alerts->open, &d->link);
    claim(d, alert, now_us);
}

void alert_raise(struct gateway *g, const struct alert *alert) {
    int64_t now_us = clock_wall_us();
    char id[ID_MAX] = "evt_";
    uint8_t random[16];
    struct str body;
    if (was_said(g->alerts, alert, now_us))
        return;
    /* A head comes every few seconds and is no fault. */
    log_line(alert->event == ALERT_AUDIT_HEAD ? LOG_DEBUG : LOG_WARN, "alert event=%s scope=%s %s",
             alert_event_names[alert->event], alert->scope, alert->text);
    random_bytes(random, sizeof(random));
    hex_put(random, sizeof(random), id + strlen(id));
    str_init(&body, ALERT_BODY_MAX);
    write_body(g, alert, id, now_us, &body);
    for (size_t i = 0; i < g->conf->n_alerts && !body.over; i++)
        if (g->conf->alerts[i].events & (1u << alert->event))
            queue(g, &g->conf->alerts[i], alert, id, &body, now_us);
    str_fini(&body);
    alerts_tick(g, clock_mono_us());
}
