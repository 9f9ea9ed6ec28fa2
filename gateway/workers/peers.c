/* Questions between workers. Always true here: an answer is made from the house as it is when the question is read, in one
 * go; a question is answered once, with whatever came in time. */
#include "gateway/workers/peers.h"

#include "gateway/admin/admin.h"
#include "gateway/admin/sums.h"
#include "gateway/workers/engine_door.h"
#include "gateway/workers/worker.h"

#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/event.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#define ACCEPTS_MAX 16 /* a turn */
#define OPEN_MAX 64    /* questions that are being answered: more wait in the socket's queue */

_Static_assert(ARRAY_LEN(((struct answers *)0)->of) == CONF_WORKERS_MAX, "one answer a worker");

struct peers {
    struct gateway *gateway;
    struct event *on_ask;
    struct list open;    /* struct answering */
    struct list waiting; /* struct asking */
    int64_t page_us;
    struct log_gate too_large;
};

bool peer_address(const struct conf *c, int worker, char out[PEER_ADDRESS_MAX], struct str *why) {
    char name[32];
    if (worker >= 0)
        snprintf(name, sizeof name, "worker-%d", worker);
    else
        snprintf(name, sizeof name, "%s", worker == PEER_ENGINE ? "engine" : "parent");
    int n = snprintf(out, PEER_ADDRESS_MAX, "unix:%s/%s.sock", c->state_directory, name);
    if (n > 0 && n < PEER_ADDRESS_MAX)
        return true;
    str_printf(why, "state.directory %.200s is too long a path for sockets, which several workers need in it\n",
               c->state_directory);
    return false;
}

/* ---- answering ---- */

struct answering {
    struct peers *peers;
    struct link in_open;
    struct bufferevent *socket; /* owned */
};

static void answer_ok(struct str *out) {
    str_puts(out, "ok\n");
}

static void do_prepare(struct gateway *g, struct span rest, struct str *out) {
    struct str report;
    (void)rest;
    str_init(&report, PEER_ANSWER_MAX / 2);
    if (gateway_prepare(g, &report))
        str_printf(out, "ok %s\n", g->prepared->digest);
    else
        str_put(out, str_span(&report));
    str_fini(&report);
}

static void do_take(struct gateway *g, struct span rest, struct str *out) {
    (void)rest;
    if (!g->prepared)
        return;
    gateway_take_prepared(g);
    answer_ok(out);
}

static void do_drop(struct gateway *g, struct span rest, struct str *out) {
    (void)rest;
    gateway_drop_prepared(g);
    answer_ok(out);
}

static void do_cancel(struct gateway *g, struct span id, struct str *out) {
    struct request *r = map_find(&g->by_id, id);
    if (r && request_cancel(r))
        answer_ok(out);
}

static void do_requests(struct gateway *g, struct span rest, struct str *out) {
    (void)rest;
    admin_put_requests(g, out);
}

static void do_targets(struct gateway *g, struct span rest, struct str *out) {
    (void)rest;
    admin_put_targets(g, out);
}

static void do_budgets(struct gateway *g, struct span rest, struct str *out) {
    (void)rest;
    admin_put_budgets(g, out);
}

static void do_head(struct gateway *g, struct span rest, struct str *out) {
    (void)rest;
    admin_put_audit_head(g, out);
}

static const struct {
    const char *word;
    void (*answer)(struct gateway *g, struct span rest, struct str *out);
} questions[] = {{"requests", do_requests}, {"targets", do_targets}, {"budgets", do_budgets}, {"head", do_head},
                 {"cancel", do_cancel},     {"prepare", do_prepare}, {"take", do_take},       {"drop", do_drop}};

static void answering_free(struct answering *a) {
    list_remove(&a->peers->open, &a->in_open);
    bufferevent_free(a->socket);
    free(a);
}

static void on_answer_sent(struct bufferevent *socket, void *arg) {
    (void)socket;
    answering_free(arg);
}

static void on_answer_event(struct bufferevent *socket, short what, void *arg) {
    (void)socket, (void)what;
    answering_free(arg);
}

static void on_question(struct bufferevent *socket, void *arg) {
    struct answering *a = arg;
    size_t n;
    char *line = evbuffer_readln(bufferevent_get_input(socket), &n, EVBUFFER_EOL_LF);
    if (!line)
        return;
    struct span rest = span_from(line, n), word = SPAN_NONE;
    struct str out;
    span_cut(&rest, ' ', &word);
    str_init(&out, PEER_ANSWER_MAX);
    for (size_t i = 0; i < ARRAY_LEN(questions); i++)
        if (span_is(word, questions[i].word))
            questions[i].answer(a->peers->gateway, rest, &out);
    bufferevent_disable(socket, EV_READ);
    bufferevent_setcb(socket, NULL, on_answer_sent, on_answer_event, a);
    if (out.over || !out.n || bufferevent_write(socket, out.at, out.n) < 0)
        answering_free(a);
    str_fini(&out);
    free(line);
}

/* The folder keeps others out; so does this, should somebody have opened the folder. */
static bool is_ours(int fd) {
    struct ucred who;
    socklen_t n = sizeof who;
    return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &n) == 0 && who.uid == geteuid();
}

static void on_ask(evutil_socket_t listening, short what, void *arg) {
    struct peers *p = arg;
    struct timeval patience = {.tv_sec = PEER_WAIT_US / US_PER_S};
    (void)what;
    for (int i = 0; i < ACCEPTS_MAX && p->open.n < OPEN_MAX; i++) {
        int fd = accept4(listening, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd < 0)
            return;
        if (!is_ours(fd)) {
            close(fd);
            continue;
        }
        struct answering *a = xcalloc(1, sizeof *a);
        a->peers = p;
        a->socket = bufferevent_socket_new(loop_base(p->gateway->loop), fd, BEV_OPT_CLOSE_ON_FREE);
        bufferevent_setwatermark(a->socket, EV_READ, 0, PEER_LINE_MAX);
        bufferevent_set_timeouts(a->socket, &patience, &patience);
        bufferevent_setcb(a->socket, on_question, NULL, on_answer_event, a);
        bufferevent_enable(a->socket, EV_READ);
        list_append(&p->open, &a->in_open);
    }
}

/* ---- asking ---- */

struct asking {
    struct peers *peers;
    struct link in_waiting;
    struct event *due;
    int n, left;
    struct one {
        struct asking *asking;
        struct bufferevent *socket; /* owned; NULL: it is over */
        struct str text;            /* owned */
        bool whole;
    } of[CONF_WORKERS_MAX];
    void (*done)(const struct answers *a, void *user);
    void *user;
};

static void asking_end(struct asking *a) {
    struct answers all = {.n = a->n};
    list_remove(&a->peers->waiting, &a->in_waiting);
    event_free(a->due);
    for (int i = 0; i < a->n; i++)
        if (a->of[i].whole)
            all.of[i] = str_span(&a->of[i].text);
    a->done(&all, a->user);
    for (int i = 0; i < a->n; i++) {
        if (a->of[i].socket)
            bufferevent_free(a->of[i].socket);
        str_fini(&a->of[i].text);
    }
    free(a);
}

static void on_due(evutil_socket_t fd, short what, void *arg) {
    (void)fd, (void)what;
    asking_end(arg);
}

static void one_ends(struct one *o, bool whole) {
    struct asking *a = o->asking;
    bufferevent_free(o->socket);
    o->socket = NULL;
    o->whole = whole && !o->text.over && o->text.n;
    if (--a->left == 0)
        event_active(a->due, EV_TIMEOUT, 0); /* never inside peers_ask: its caller goes on first */
}

static void on_answer(struct bufferevent *socket, void *arg) {
    struct one *o = arg;
    struct evbuffer *in = bufferevent_get_input(socket);
    size_t n = evbuffer_get_length(in);
    str_put(&o->text, span_from(evbuffer_pullup(in, -1), n));
    evbuffer_drain(in, n);
}

static void on_asked_event(struct bufferevent *socket, short what, void *arg) {
    (void)socket;
    if (!(what & BEV_EVENT_CONNECTED))
        one_ends(arg, what & BEV_EVENT_EOF);
}

static struct asking *asking_new(struct gateway *g, int n, int64_t us, void (*done)(const struct answers *, void *),
                                 void *user) {
    struct timeval wait = {.tv_sec = us / US_PER_S, .tv_usec = us % US_PER_S};
    struct asking *a = xcalloc(1, sizeof *a);
    a->peers = g->peers;
    a->n = n;
    a->done = done;
    a->user = user;
    a->left = 1; /* our own, so that it does not end before all are asked */
    a->due = evtimer_new(loop_base(g->loop), on_due, a);
    evtimer_add(a->due, &wait);
    list_append(&g->peers->waiting, &a->in_waiting);
    for (int i = 0; i < n; i++)
        str_init(&a->of[i].text, PEER_ANSWER_MAX);
    return a;
}

static void ask_one(struct asking *a, int slot, int worker, const char *line) {
    const struct gateway *g = a->peers->gateway;
    struct one *o = &a->of[slot];
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    char address[PEER_ADDRESS_MAX];
    struct str why;
    str_init(&why, 512);
    bool good = peer_address(g->conf, worker, address, &why);
    str_fini(&why);
    snprintf(to.sun_path, sizeof to.sun_path, "%s", good ? address + strlen("unix:") : "");
    a->left++;
    o->asking = a;
    o->socket = bufferevent_socket_new(loop_base(g->loop), -1, BEV_OPT_CLOSE_ON_FREE | BEV_OPT_DEFER_CALLBACKS);
    bufferevent_setcb(o->socket, on_answer, NULL, on_asked_event, o);
    if (bufferevent_socket_connect(o->socket, (struct sockaddr *)&to, sizeof to) < 0) {
        one_ends(o, false);
        return;
    }
    bufferevent_write(o->socket, line, strlen(line));
    bufferevent_enable(o->socket, EV_READ);
}

static void all_asked(struct asking *a) {
    if (--a->left == 0)
        event_active(a->due, EV_TIMEOUT, 0);
}

void peers_ask(struct gateway *g, const char *line, void (*done)(const struct answers *a, void *user), void *user) {
    struct asking *a = asking_new(g, g->workers, PEER_WAIT_US, done, user);
    for (int i = 0; i < g->workers; i++)
        if (i != g->worker && atomic_load(&g->start->pages[i].ready))
            ask_one(a, i, i, line);
    all_asked(a);
}

void peers_ask_parent(struct gateway *g, const char *line, void (*done)(const struct answers *a, void *user),
                      void *user) {
    struct asking *a = asking_new(g, 1, PEER_RELOAD_US, done, user);
    ask_one(a, 0, PEER_PARENT, line);
    all_asked(a);
}

/* ---- pages ---- */

static void write_page(struct gateway *g) {
    struct worker_page *page = &g->start->pages[g->worker];
    struct str text;
    uint64_t swallowed;
    str_init(&text, WORKER_METRICS_MAX);
    metrics_print(g, &text);
    if (text.over && log_gate_open(&g->peers->too_large, clock_mono_us(), &swallowed))
        log_warn("the metrics of worker %d are too large to be added to the others'", g->worker);
    atomic_fetch_add(&page->version, 1);
    atomic_thread_fence(memory_order_seq_cst);
    page->in_flight = requests_in_flight(g);
    page->audit_lag = audit_lag(g->audit);
    page->audit_healthy = audit_healthy(g->audit);
    page->draining = g->draining;
    memcpy(page->conf_digest, g->conf->digest, sizeof page->conf_digest);
    page->n = text.over ? 0 : text.n;
    if (!text.over && text.n)
        memcpy(page->metrics, text.at, text.n);
    atomic_thread_fence(memory_order_seq_cst);
    atomic_fetch_add(&page->version, 1);
    str_fini(&text);
}

#define READS_MAX 100 /* of a page that is being written */

/* A copy in which nothing is half written; false: its writer died on the way. */
static bool read_page(const struct worker_page *page, struct worker_page *out) {
    for (int i = 0; i < READS_MAX; i++) {
        unsigned before = atomic_load(&page->version);
        atomic_thread_fence(memory_order_seq_cst);
        size_t n = page->n < WORKER_METRICS_MAX ? page->n : 0;
        memcpy(out, page, offsetof(struct worker_page, metrics) + n);
        out->n = n;
        atomic_thread_fence(memory_order_seq_cst);
        if (before % 2 == 0 && atomic_load(&page->version) == before)
            return true;
        usleep(100);
    }
    return false;
}

void peers_tick(struct gateway *g, int64_t mono_us) {
    if (!g->peers || mono_us < g->peers->page_us)
        return;
    g->peers->page_us = mono_us + PEER_PAGE_US;
    write_page(g);
    engine_page_write(g);
}

bool peers_are_done(const struct gateway *g) {
    if (!g->start || g->worker > 0 || getppid() != g->start->parent)
        return true;
    for (int i = 1; i < g->workers; i++)
        if (atomic_load(&g->start->pages[i].pid))
            return false;
    return true;
}

void peers_metrics(struct gateway *g, struct span own, struct str *out) {
    struct worker_page *copy = xcalloc(1, sizeof *copy);
    struct sums sums;
    sums_init(&sums);
    sums_add(&sums, own, false);
    for (int i = 0; i < g->workers; i++)
        if (i != g->worker && read_page(&g->start->pages[i], copy))
            sums_add(&sums, span_from(copy->metrics, copy->n), !atomic_load(&g->start->pages[i].pid));
    sums_print(&sums, out);
    sums_fini(&sums);
    free(copy);
}

static void put_worker(const struct worker_page *page, int worker, struct worker_page *copy, struct str *json) {
    bool up = atomic_load(&page->ready) && read_page(page, copy);
    str_puts(json, worker ? ",{" : "{");
    json_put_i64(json, "worker", worker);
    json_put_i64(json, "pid", atomic_load(&page->pid));
    json_put_bool(json, "up", up);
    if (up) {
        json_put_bool(json, "draining", copy->draining);
        json_put_bool(json, "audit_healthy", copy->audit_healthy);
        json_put_i64(json, "audit_lag_records", copy->audit_lag);
        json_put_i64(json, "in_flight", copy->in_flight);
        json_put_str(json, "conf_digest", copy->conf_digest);
    }
    str_puts(json, "}");
}

void peers_put(const struct gateway *g, struct str *json) {
    if (!g->peers)
        return;
    struct worker_page *copy = xcalloc(1, sizeof *copy);
    json_put_name(json, "workers");
    str_puts(json, "[");
    for (int i = 0; i < g->workers; i++)
        put_worker(&g->start->pages[i], i, copy, json);
    str_puts(json, "]");
    free(copy);
}

/* ---- life ---- */

/* The one before of this number may have died while it wrote: then its counters begin anew. */
static void take_over(struct gateway *g) {
    struct worker_page *page = &g->start->pages[g->worker], *copy = xcalloc(1, sizeof *copy);
    if (atomic_load(&page->version) % 2)
        atomic_fetch_add(&page->version, 1);
    else if (read_page(page, copy))
        metrics_restore(&g->metrics, span_from(copy->metrics, copy->n));
    free(copy);
}

void peers_open(struct gateway *g) {
    if (!g->start)
        return;
    struct peers *p = xcalloc(1, sizeof *p);
    p->gateway = g;
    list_init(&p->open);
    list_init(&p->waiting);
    p->on_ask = event_new(loop_base(g->loop), g->start->ask->fd, EV_READ | EV_PERSIST, on_ask, p);
    event_add(p->on_ask, NULL);
    g->peers = p;
    take_over(g);
    write_page(g);
}

void peers_close(struct gateway *g) {
    struct peers *p = g->peers;
    if (!p)
        return;
    for (struct link *k; (k = list_first(&p->waiting));)
        asking_end(container_of(k, struct asking, in_waiting));
    for (struct link *k; (k = list_first(&p->open));)
        answering_free(container_of(k, struct answering, in_open));
    event_free(p->on_ask);
    free(p);
    g->peers = NULL;
}
