/* One server: its connection, the queue of what it was asked, the breaker. Always true: answers are matched by order
 * alone, so a connection whose order is in doubt is closed; callers are told from node_run, never from node_send; and a
 * node that is down has a time at which it tries again, unless it is closing. */
#include "gateway/redis/redis_node.h"

#include "gateway/base/hash.h"
#include "gateway/net/tls.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define IN_BYTES_MAX (256 * 1024)

static void node_fail(struct redis_node *n);

/* ---- asks ---- */

static struct redis_ask *make_ask(void) {
    struct redis_ask *a = xcalloc(1, sizeof *a);
    a->until_us = INT64_MAX;
    a->slot = -1;
    return a;
}

struct redis_ask *ask_new(size_t argc, const struct span *argv) {
    struct redis_ask *a = make_ask();
    a->bytes = redis_command(argc, argv, &a->n_bytes);
    return a;
}

struct redis_ask *ask_new_script(struct redis_script *script, size_t n_keys, size_t argc, const struct span *argv) {
    struct redis_ask *a = make_ask();
    a->script = script;
    a->bytes = redis_command_evalsha(script, n_keys, argc, argv, &a->n_bytes);
    return a;
}

void ask_free(struct redis_ask *a) {
    if (a->call)
        a->call->inside = NULL;
    free(a->bytes);
    free(a);
}

static void put_ask(struct redis_node *n, struct redis_ask *a) {
    evbuffer_add(n->conn.out, a->bytes, a->n_bytes);
    list_append(&n->queue, &a->in_queue);
    if (a->until_us < n->next_due_us)
        n->next_due_us = a->until_us;
    alarm_at(&n->alarm, a->until_us, clock_mono_us());
    turn_wake(n->turn, &n->conn.item);
}

bool node_send(struct redis_node *n, struct redis_ask *a) {
    if (!node_usable(n) || n->doomed || n->queue.n >= QUEUE_MAX || conn_unsent(&n->conn) > QUEUE_BYTES_MAX) {
        n->n_refused++;
        return false;
    }
    put_ask(n, a);
    return true;
}

void node_park(struct redis_node *n, struct redis_ask *a) {
    if (n->state == NODE_UP && !n->doomed) {
        put_ask(n, a);
        return;
    }
    list_append(&n->parked, &a->in_queue);
    alarm_at(&n->alarm, a->until_us, clock_mono_us());
}

static enum redis_keep answered(struct redis_node *n, struct redis_ask *a, const struct redis_value *reply) {
    return a->answered ? a->answered(n, a, reply) : REDIS_DROP;
}

static void end_all(struct redis_node *n, struct list *from) {
    struct list ended;
    list_init(&ended);
    for (struct link *k; (k = list_shift(from));) /* whoever is told may ask again, and not into this list */
        list_append(&ended, k);
    for (struct link *k; (k = list_shift(&ended));) {
        struct redis_ask *a = container_of(k, struct redis_ask, in_queue);
        n->n_lost += a->call != NULL;
        if (answered(n, a, NULL) == REDIS_DROP)
            ask_free(a);
    }
}

/* ---- late ---- */

static void trip(struct redis_node *n, int64_t now_us) {
    if (n->tripped || n->state != NODE_UP)
        return;
    n->tripped = true;
    n->probe_us = now_us;
    snprintf(n->why, sizeof n->why, "it does not answer in time");
    n->ops->down(n, true);
}

static void late_one(struct redis_node *n, struct redis_ask *a, int64_t now_us) {
    struct redis_call *call = a->call;
    a->late = true;
    a->until_us = INT64_MAX;
    a->call = NULL;
    n->n_late++;
    n->late_in_row++;
    if (n->late_in_row >= BREAKER_LATE || !call)
        trip(n, now_us);
    if (!call)
        return;
    call->fault = REDIS_LATE;
    call->open = false;
    call->inside = NULL;
    call->done(call, NULL);
}

/* Whoever is told may forget other calls, but asks leave the queue only by their answers, so the walk holds. */
static void look_for_late(struct redis_node *n, struct list *in, int64_t now_us) {
    for (struct link *k = list_first(in); k; k = list_next(in, k)) {
        struct redis_ask *a = container_of(k, struct redis_ask, in_queue);
        if (a->until_us <= now_us)
            late_one(n, a, now_us);
        if (a->until_us < n->next_due_us)
            n->next_due_us = a->until_us;
    }
}

/* ---- PING ---- */

static enum redis_keep ping_answered(struct redis_node *n, struct redis_ask *a, const struct redis_value *reply) {
    n->pinging = false;
    n->probe_us = clock_mono_us() + PROBE_US;
    if (!reply || a->late || !n->tripped || n->state != NODE_UP)
        return REDIS_DROP;
    n->tripped = false;
    n->late_in_row = 0;
    n->ops->up(n);
    return REDIS_DROP;
}

static void ping(struct redis_node *n, int64_t now_us) {
    static const struct span argv[] = {{"PING", 4}};
    int64_t quiet_us = n->tripped ? n->probe_us : n->late_in_row ? now_us : n->heard_us + PING_IDLE_US;
    if (n->state != NODE_UP || n->pinging || n->doomed)
        return;
    if (now_us < quiet_us) {
        alarm_at(&n->alarm, quiet_us, now_us);
        return;
    }
    struct redis_ask *a = ask_new(ARRAY_LEN(argv), argv);
    a->answered = ping_answered;
    a->until_us = now_us + n->timeout_us;
    n->pinging = true;
    put_ask(n, a);
}

/* ---- up and down ---- */

void node_doom(struct redis_node *n, const char *format, ...) {
    va_list args;
    if (n->doomed)
        return;
    va_start(args, format);
    vsnprintf(n->why, sizeof n->why, format, args);
    va_end(args);
    n->doomed = true;
    turn_wake(n->turn, &n->conn.item);
}

static void back_off(struct redis_node *n) {
    if (n->up_us && clock_mono_us() - n->up_us > BACKOFF_MAX_US) /* it was up for a while: the trouble is a new one */
        n->backoff_us = BACKOFF_FIRST_US;
    n->up_us = 0;
    int64_t wait_us = n->backoff_us / 2 + (int64_t)(random_next(&n->random) % (uint64_t)n->backoff_us);
    n->backoff_us = n->backoff_us * 2 < BACKOFF_MAX_US ? n->backoff_us * 2 : BACKOFF_MAX_US;
    n->retry_us = clock_mono_us() + wait_us;
    alarm_at(&n->alarm, n->retry_us, clock_mono_us());
}

static void node_fail(struct redis_node *n) {
    bool was_up = n->state == NODE_UP && !n->tripped;
    if (n->state == NODE_RESOLVE)
        resolver_cancel(&n->lookup);
    conn_close(&n->conn, false);
    redis_reader_free(n->reader);
    n->reader = NULL;
    n->state = NODE_DOWN;
    n->doomed = n->tripped = n->pinging = false;
    n->next_due_us = INT64_MAX;
    back_off(n);
    n->ops->down(n, was_up);
    end_all(n, &n->queue);
    end_all(n, &n->parked);
}

static void fail(struct redis_node *n, const char *format, ...) printf_like(2, 3);
static void fail(struct redis_node *n, const char *format, ...) {
    va_list args;
    va_start(args, format);
    vsnprintf(n->why, sizeof n->why, format, args);
    va_end(args);
    node_fail(n);
}

static void node_is_up(struct redis_node *n) {
    n->state = NODE_UP;
    n->up_us = clock_mono_us();
    n->late_in_row = 0;
    n->ops->up(n);
    for (struct link *k; (k = list_shift(&n->parked));) {
        struct redis_ask *a = container_of(k, struct redis_ask, in_queue);
        if (a->late)
            ask_free(a);
        else
            put_ask(n, a);
    }
}

/* ---- connecting ---- */

static void got_socket(struct redis_node *n, int fd) {
    socket_setup(fd, true);
    conn_init(&n->conn, n->turn, fd, true, IN_BYTES_MAX);
    n->conn.end = CONN_OPEN;
    n->conn.readable = n->conn.writable = n->conn.hup = n->conn.broken = n->conn.handshaking = n->conn.paused = false;
    n->conn.why[0] = '\0';
    n->conn.error = 0;
    n->reader = redis_reader_new();
    n->state = NODE_CONNECT;
    turn_wake(n->turn, &n->conn.item);
}

static int connect_to(const struct sockaddr *at, socklen_t size) {
    int fd = socket(at->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd >= 0 && connect(fd, at, size) != 0 && errno != EINPROGRESS) {
        int error = errno;
        close(fd);
        errno = error;
        fd = -1;
    }
    return fd;
}

static void connect_unix(struct redis_node *n) {
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    size_t length = strlen(n->at.host);
    int fd = -1;
    errno = ENAMETOOLONG;
    if (length < sizeof at.sun_path) {
        memcpy(at.sun_path, n->at.host, length);
        fd = connect_to((struct sockaddr *)&at, sizeof at);
    }
    if (fd < 0)
        fail(n, "cannot connect: %s", strerror(errno));
    else
        got_socket(n, fd);
}

static void connect_next(struct redis_node *n, const char *why) {
    while (n->address < n->lookup.found.n) {
        union address *a = &n->lookup.found.at[n->address++];
        bool v6 = a->any.sa_family == AF_INET6;
        if (v6)
            a->v6.sin6_port = htons((uint16_t)n->at.port);
        else
            a->v4.sin_port = htons((uint16_t)n->at.port);
        int fd = connect_to(&a->any, v6 ? sizeof a->v6 : sizeof a->v4);
        if (fd >= 0) {
            got_socket(n, fd);
            return;
        }
        why = strerror(errno);
    }
    fail(n, "cannot connect: %s", why);
}

static void resolved(struct redis_node *n) {
    n->address = 0;
    if (n->lookup.found.n)
        connect_next(n, "there is no address");
    else
        fail(n, "cannot be resolved: %s", n->lookup.why);
}

static void on_resolved(struct lookup *l) {
    resolved(container_of(l, struct redis_node, lookup));
}

static void begin(struct redis_node *n) {
    const char *why = NULL;
    int64_t now_us = clock_mono_us();
    n->give_up_us = now_us + n->connect_us;
    alarm_at(&n->alarm, n->give_up_us, now_us);
    if (n->ops->locate && !n->ops->locate(n, &why)) {
        fail(n, "%s", why);
    } else if (n->at.host[0] == '/') {
        connect_unix(n);
    } else {
        n->state = NODE_RESOLVE;
        n->lookup.done = on_resolved;
        if (resolver_find(n->resolver, n->at.host, &n->lookup))
            resolved(n);
    }
}

static void greet(struct redis_node *n) {
    n->state = NODE_GREET;
    n->heard_us = clock_mono_us();
    n->ops->greet(n);
}

void node_greet(struct redis_node *n, size_t argc, const struct span *argv,
                enum redis_keep (*on_answer)(struct redis_node *n, struct redis_ask *a,
                                             const struct redis_value *reply)) {
    struct redis_ask *a = ask_new(argc, argv);
    a->answered = on_answer;
    n->n_greetings++;
    put_ask(n, a);
}

static void secure(struct redis_node *n) {
    SSL *ssl = n->tls ? tls_client(n->tls, n->at.host, &n->session) : NULL;
    if (!n->tls || n->at.host[0] == '/') {
        SSL_free(ssl);
        greet(n);
    } else if (!ssl) {
        node_doom(n, "TLS cannot be set up for this host");
    } else {
        conn_start_tls(&n->conn, ssl, false);
        n->state = NODE_SECURE;
    }
}

static void step_connect(struct redis_node *n) {
    if (n->conn.end == CONN_REFUSED) {
        char why[sizeof n->conn.why];
        snprintf(why, sizeof why, "%s", n->conn.why);
        conn_close(&n->conn, false);
        redis_reader_free(n->reader);
        n->reader = NULL;
        connect_next(n, why);
    } else if (!n->conn.connecting) {
        secure(n);
    }
}

/* ---- answers ---- */

static void take_answer(struct redis_node *n, const struct redis_value *reply) {
    struct link *k = list_shift(&n->queue);
    if (!k) {
        node_doom(n, "it sent an answer that nobody asked for");
        return;
    }
    struct redis_ask *a = container_of(k, struct redis_ask, in_queue);
    bool greeting = n->n_greetings > 0;
    n->heard_us = clock_mono_us();
    if (!a->late)
        n->late_in_row = 0;
    if (answered(n, a, reply) == REDIS_DROP)
        ask_free(a);
    if (greeting && --n->n_greetings == 0 && !n->doomed)
        node_is_up(n);
}

static void take_answers(struct redis_node *n) {
    struct redis_value *reply;
    const char *why;
    enum redis_read got = REDIS_READ_MORE;
    while (!n->doomed && (got = redis_reader_next(n->reader, &reply, &why)) == REDIS_READ_VALUE) {
        take_answer(n, reply);
        redis_value_free(reply);
    }
    if (!n->doomed && got == REDIS_READ_BROKEN)
        node_doom(n, "its answer cannot be read: %s", why);
}

static void take_bytes(struct redis_node *n) {
    size_t got;
    while (!n->doomed && (got = evbuffer_get_contiguous_space(n->conn.in)) > 0) {
        redis_reader_feed(n->reader, span_from(evbuffer_pullup(n->conn.in, (ev_ssize_t)got), got));
        evbuffer_drain(n->conn.in, got);
        take_answers(n);
    }
    conn_pause(&n->conn, false);
}

static const char *why_ended(const struct redis_node *n) {
    if (n->conn.why[0])
        return n->conn.why;
    return n->conn.error ? strerror(n->conn.error) : "the connection broke";
}

static void look_at_connection(struct redis_node *n) {
    conn_io(&n->conn);
    if (n->state == NODE_CONNECT)
        step_connect(n);
    if (n->state == NODE_SECURE && !n->conn.handshaking && n->conn.end == CONN_OPEN)
        greet(n);
    if (n->state >= NODE_GREET)
        take_bytes(n);
    if (n->state >= NODE_CONNECT && (n->conn.end != CONN_OPEN || n->conn.broken) && !n->doomed)
        node_doom(n, "%s", why_ended(n));
}

static void look_at_clock(struct redis_node *n) {
    int64_t now_us = clock_mono_us();
    if (now_us >= n->next_due_us || !list_empty(&n->parked)) {
        n->next_due_us = INT64_MAX;
        look_for_late(n, &n->queue, now_us);
        look_for_late(n, &n->parked, now_us);
    }
    if (n->state > NODE_DOWN && n->state < NODE_UP && now_us >= n->give_up_us && !n->doomed)
        node_doom(n, n->state == NODE_GREET ? "it does not answer" : "it cannot be connected to in time");
    if (n->tripped && now_us - n->heard_us >= SILENT_US && !n->doomed)
        node_doom(n, "it has not answered for %d s", (int)(SILENT_US / US_PER_S));
    ping(n, now_us);
    alarm_at(&n->alarm, n->next_due_us, now_us);
    if (n->state > NODE_DOWN && n->state < NODE_UP)
        alarm_at(&n->alarm, n->give_up_us, now_us);
    if (n->tripped)
        alarm_at(&n->alarm, n->heard_us + SILENT_US, now_us);
}

static void node_run(struct turn_item *item) {
    struct redis_node *n = container_of(container_of(item, struct conn, item), struct redis_node, conn);
    if (n->closing)
        return;
    if (n->state == NODE_DOWN && n->retired && list_empty(&n->parked))
        return;
    if (n->state == NODE_DOWN && clock_mono_us() >= n->retry_us)
        begin(n);
    else if (n->state == NODE_DOWN)
        alarm_at(&n->alarm, n->retry_us, clock_mono_us());
    if (n->state >= NODE_CONNECT)
        look_at_connection(n);
    look_at_clock(n);
    if (n->doomed)
        node_fail(n);
    else
        conn_flush(&n->conn);
}

/* ---- life ---- */

void node_init(struct redis_node *n, struct turn *turn, struct resolver *resolver, const struct redis_node_ops *ops,
               void *owner) {
    n->turn = turn;
    n->resolver = resolver;
    n->ops = ops;
    n->owner = owner;
    n->conn.fd = -1;
    n->conn.item.run = node_run;
    n->next_due_us = INT64_MAX;
    n->backoff_us = BACKOFF_FIRST_US;
    n->random = random_u64() | 1;
    list_init(&n->queue);
    list_init(&n->parked);
    alarm_init(&n->alarm, turn, &n->conn.item);
}

void node_start(struct redis_node *n) {
    turn_wake(n->turn, &n->conn.item);
}

static void drop_all(struct list *from) {
    for (struct link *k; (k = list_shift(from));)
        ask_free(container_of(k, struct redis_ask, in_queue));
}

void node_fini(struct redis_node *n) {
    n->closing = true;
    if (n->state == NODE_RESOLVE)
        resolver_cancel(&n->lookup);
    conn_close(&n->conn, false);
    redis_reader_free(n->reader);
    drop_all(&n->queue);
    drop_all(&n->parked);
    SSL_SESSION_free(n->session);
    alarm_fini(&n->alarm);
    turn_rest(n->turn, &n->conn.item);
}

const char *node_name(const struct redis_node *n, char out[REDIS_WHY_MAX]) {
    if (n->at.host[0] == '/')
        snprintf(out, REDIS_WHY_MAX, "unix:%.180s", n->at.host);
    else
        snprintf(out, REDIS_WHY_MAX, strchr(n->at.host, ':') ? "[%.180s]:%d" : "%.180s:%d", n->at.host, n->at.port);
    return out;
}
