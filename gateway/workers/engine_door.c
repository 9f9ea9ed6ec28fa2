/* The engine's socket, both ends. Always true here: a call without the secret is not even read; a run belongs to one exchange and
 * ends with it; no more is taken from a run than its caller reads. */
#include "gateway/workers/engine_door.h"

#include "gateway/house.h"
#include "gateway/workers/worker.h"

#include <event2/buffer.h>
#include <stdio.h>
#include <stdlib.h>

#define PATH "/run"
#define SECRET_FIELD "x-secret"
#define LINE_BYTES_MAX 8192                /* of engine_words before the body */
#define TAKEN_US (10 * US_PER_S)           /* worker 0 has taken the call by then, or is as good as not there */
#define EVENT_BYTES_MAX ((size_t)96 << 20) /* one event: all the text that waited for a slow caller */

struct engine_door {
    struct front *front;
    struct list calls; /* of struct door_call */
};
struct door_call {
    struct gateway *gateway;
    struct link link;
    struct exchange *x;     /* lent until exchange_close */
    struct str body;        /* owned; counted in buffered_bytes */
    struct arena arena;     /* owned */
    struct engine_run *run; /* owned; NULL until it runs */
};

/* ---- a call ---- */

static void call_free(struct door_call *c) {
    if (c->run)
        engine_end(c->run);
    exchange_close(c->x);
    list_remove(&c->gateway->engine_door->calls, &c->link);
    c->gateway->buffered_bytes -= (int64_t)c->body.n;
    str_fini(&c->body);
    arena_fini(&c->arena);
    free(c);
}

static void send_event(struct door_call *c, const struct event *e) {
    struct str packed;
    str_init(&packed, EVENT_BYTES_MAX);
    event_pack(e, &packed);
    exchange_send(c->x, str_span(&packed));
    str_fini(&packed);
}

static void end_well(struct door_call *c) {
    exchange_end(c->x, true);
    call_free(c);
}

/* Events while the caller reads them. */
static void pump(struct door_call *c) {
    struct event e;
    while (exchange_unsent(c->x) < CLIENT_WINDOW && engine_take(c->run, &e)) {
        if (!(e.bits & EVENT_SILENT))
            send_event(c, &e);
        if (e.bits & (EVENT_LAST | EVENT_ERROR)) {
            end_well(c);
            return;
        }
    }
}

static void on_run(void *user) {
    pump(user);
}

static void send_head(struct door_call *c) {
    struct span adapter = c->run ? span_of(engine_adapter(c->run)) : SPAN_NONE;
    struct http_field fields[] = {{SPAN("content-type"), SPAN("application/octet-stream")},
                                  {SPAN(ENGINE_ADAPTER_FIELD), adapter}};
    exchange_send_head(c->x, 200, fields, adapter.n ? 2 : 1, -1);
}

static void refuse_call(struct door_call *c, enum err e, const char *field, const char *text) {
    struct event out = {
        .bits = EVENT_ERROR, .err = e, .name = span_of(field), .message = span_of(*text ? text : err_row(e)->text)};
    send_head(c);
    send_event(c, &out);
    end_well(c);
}

/* False: it has been refused. */
static bool read_call(struct door_call *c, struct engine_words *words, struct engine_ask *ask) {
    struct span body = str_span(&c->body), line;
    struct json v;
    struct llm_call call;
    struct call_fault fault = {.err = ERR_INTERNAL};
    bool good = span_cut(&body, '\n', &line) && engine_words_read(line, &c->arena, words) &&
                json_check(body, JSON_DEPTH_MAX, &v, NULL);
    if (good && call_parse(words->endpoint, v, &c->arena, &call, &fault) && engine_ask(&call, &c->arena, ask, &fault))
        return true;
    refuse_call(c, fault.err, fault.field, fault.text);
    return false;
}

static void start(struct door_call *c) {
    struct engine_words words;
    struct engine_ask ask;
    if (!read_call(c, &words, &ask))
        return;
    struct decode *engine = map_find(&c->gateway->engines, span_of(words.backend));
    ask.ask.adapter = words.ask.adapter;
    ask.ask.team = words.ask.team;
    ask.ask.shared_prefix = words.ask.shared_prefix;
    ask.ask.cap_tok = words.ask.cap_tok;
    ask.ask.deadline_us = words.ask.deadline_us;
    struct call_fault fault = {0};
    enum err e = engine ? engine_start(engine, &ask, on_run, c, &c->run, &fault) : ERR_NO_TARGET;
    if (e) {
        refuse_call(c, e, fault.field, fault.text);
        return;
    }
    send_head(c);
    pump(c);
}

/* False: it is too large, beside all others that are held. */
static bool gather(struct door_call *c) {
    struct evbuffer *in = exchange_body(c->x);
    size_t n = evbuffer_get_length(in);
    if (c->gateway->buffered_bytes + (int64_t)n > c->gateway->conf->http.max_buffered)
        return false;
    size_t before = c->body.n;
    str_put(&c->body, span_from(n ? evbuffer_pullup(in, -1) : NULL, n));
    c->gateway->buffered_bytes += (int64_t)(c->body.n - before);
    evbuffer_drain(in, n);
    exchange_took_body(c->x);
    return !c->body.over;
}

static void on_change(struct exchange *x, void *user) {
    struct door_call *c = exchange_user(x);
    (void)user;
    if (!c)
        return;
    if (exchange_gone(x) || (!c->run && exchange_failed(x)))
        call_free(c);
    else if (c->run)
        pump(c);
    else if (!gather(c))
        refuse_call(c, ERR_BUSY, "", "");
    else if (exchange_body_ended(x))
        start(c);
}

/* ---- the door ---- */

static bool knows_secret(const struct gateway *g, const struct exchange *x) {
    struct span given = http_field_get(exchange_head(x), SECRET_FIELD, NULL);
    const char *ours = g->start->engine_secret;
    return given.n == strlen(ours) && bytes_equal_secret(given.at, ours, given.n);
}

static void turn_away(struct exchange *x) {
    exchange_send_head(x, 403, NULL, 0, 0);
    exchange_end(x, false);
    exchange_close(x);
}

static void on_head(struct exchange *x, void *user) {
    struct gateway *g = user;
    if (!knows_secret(g, x) || !span_is(exchange_head(x)->path, PATH)) {
        turn_away(x);
        return;
    }
    struct door_call *c = xcalloc(1, sizeof(*c));
    c->gateway = g;
    c->x = x;
    str_init(&c->body, (size_t)g->conf->http.max_body + LINE_BYTES_MAX);
    arena_init(&c->arena, REQUEST_ARENA_MAX);
    list_append(&g->engine_door->calls, &c->link);
    exchange_set_user(x, c);
    exchange_want_body(x);
    on_change(x, user);
}

static void on_bad(struct exchange *x, enum err e, const char *what, struct str *body, void *user) {
    (void)x, (void)e, (void)user;
    str_puts(body, what);
}

bool engine_door_open(struct gateway *g, struct str *why) {
    static const struct front_ops ops = {on_head, on_bad, on_change};
    if (g->worker > 0 || !g->start || !g->start->engine)
        return true;
    struct front_limits limits = limits_of(g->conf, g->conf->http.max_connections);
    g->engine_door = xcalloc(1, sizeof(*g->engine_door));
    list_init(&g->engine_door->calls);
    g->engine_door->front = front_new(g->loop, &limits, &ops, g);
    return front_adopt(g->engine_door->front, g->start->engine, NULL, NULL, why);
}

void engine_door_close(struct gateway *g) {
    struct engine_door *d = g->engine_door;
    if (!d)
        return;
    for (struct link *k; (k = list_first(&d->calls));)
        call_free(container_of(k, struct door_call, link));
    front_free(d->front);
    free(d);
    g->engine_door = NULL;
}

/* ---- the other workers' side ---- */

bool engine_door_is_open(const struct gateway *g) {
    return g->start && g->start->engine && atomic_load(&g->start->pages[0].ready);
}

struct http_call *engine_door_call(struct gateway *g, const struct span *body, size_t n,
                                   void (*on_call)(struct http_call *c, void *user), void *user) {
    struct http_field fields[] = {{SPAN(SECRET_FIELD), span_of(g->start->engine_secret)}};
    return http_call_open(g->pool, &(struct http_call_options){
                                       .target = {.host = "localhost", .port = 80, .path = g->start->engine->path},
                                       .method = SPAN("POST"),
                                       .path = SPAN(PATH),
                                       .fields = fields,
                                       .n_fields = ARRAY_LEN(fields),
                                       .body = body,
                                       .n_body = n,
                                       .connect_us = TAKEN_US,
                                       .first_us = TAKEN_US,
                                       .on_change = on_call,
                                       .user = user});
}

/* ---- what adapters mean ---- */

static void add_adapter(const struct decode_adapter *a, void *user) {
    char marks[] = {a->listed ? 'L' : '-', a->present ? 'P' : '-', '\n'};
    if (!a->listed)
        return;
    sha256_add(user, span_from(a->name, strlen(a->name) + 1));
    sha256_add(user, span_from(a->version, strlen(a->version) + 1));
    sha256_add(user, span_from((const char *)a->digest, sizeof(a->digest)));
    sha256_add(user, span_from(marks, sizeof(marks)));
}

void engine_page_write(struct gateway *g) {
    uint8_t digest[SHA256_BYTES];
    if (!g->engine_door)
        return;
    struct engine_page *page = g->start->engine_page;
    struct sha256 *s = sha256_new();
    for (struct map_entry *e = map_next(&g->engines, NULL); e; e = map_next(&g->engines, e)) {
        sha256_add(s, span_from(e->key, e->n));
        decode_adapters_each(e->value, add_adapter, s);
    }
    sha256_end(s, digest);
    if (memcmp(page->digest, digest, sizeof(digest)) == 0)
        return;
    atomic_store(&page->version, atomic_load(&page->version) | 1); /* the one before may have died in between */
    atomic_thread_fence(memory_order_seq_cst);
    memcpy(page->digest, digest, sizeof(digest));
    atomic_thread_fence(memory_order_seq_cst);
    atomic_fetch_add(&page->version, 1);
}

#define READS_MAX 1000 /* of a page that is being written; its writer may have died: then half of it is as good */

void engine_page_read(const struct engine_page *page, uint8_t digest[SHA256_BYTES]) {
    for (int i = 0; i < READS_MAX; i++) {
        unsigned before = atomic_load(&page->version);
        atomic_thread_fence(memory_order_seq_cst);
        memcpy(digest, page->digest, SHA256_BYTES);
        atomic_thread_fence(memory_order_seq_cst);
        if (before % 2 == 0 && atomic_load(&page->version) == before)
            return;
    }
}
