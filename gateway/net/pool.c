/* Origins and their connections. Always true: a connection is idle in exactly one list or lent to exactly one call; an
 * idle one that says anything at all, or whose peer leaves, is closed; no list grows past its bound. */
#include "gateway/net/pool.h"

#include "gateway/base/clock.h"
#include "gateway/net/tls.h"

#include <assert.h>
#include <stdlib.h>

#define ORIGINS_MAX 1024 /* unused ones are forgotten above this: reloads must not add up for ever */

/* ---- connections ---- */

static void run(struct turn_item *i) {
    struct up *u = container_of(i, struct up, conn.item);
    conn_io(&u->conn);
    if (u->call) {
        call_run(u->call);
        return;
    }
    int64_t now_us = clock_mono_us(), until_us = u->idle_since_us + IDLE_US;
    bool quiet = u->conn.end == CONN_OPEN && !u->conn.hup && !u->conn.broken && !evbuffer_get_length(u->conn.in);
    if (quiet && now_us < until_us)
        alarm_at(&u->conn.alarm, until_us, now_us);
    else
        up_close(u);
}

static void dispose(struct turn_item *i) {
    free(container_of(i, struct up, conn.item));
}

struct up *up_new(struct origin *o, int fd, bool connecting, struct http_call *c) {
    struct up *u = xcalloc(1, sizeof *u);
    u->origin = o;
    u->call = c;
    u->conn.item.run = run;
    u->conn.item.dispose = dispose;
    conn_init(&u->conn, &o->pool->turn, fd, connecting, ANSWER_IN_MAX);
    list_append(&o->pool->ups, &u->all);
    o->n_ups++;
    return u;
}

void up_close(struct up *u) {
    struct pool *p = u->origin->pool;
    if (link_on_list(&u->idle))
        list_remove(&u->origin->idle, &u->idle);
    list_remove(&p->ups, &u->all);
    u->origin->n_ups--;
    u->call = NULL;
    conn_close(&u->conn, false);
    turn_bury(&p->turn, &u->conn.item);
}

/* The one used last: the others may grow old and go. */
struct up *up_borrow(struct origin *o, struct http_call *c) {
    while (!list_empty(&o->idle)) {
        struct up *u = container_of(o->idle.head.prev, struct up, idle);
        if (u->conn.hup || u->conn.end != CONN_OPEN) {
            up_close(u);
            continue;
        }
        list_remove(&o->idle, &u->idle);
        u->call = c;
        return u;
    }
    return NULL;
}

void up_give_back(struct up *u) {
    struct origin *o = u->origin;
    u->call = NULL;
    u->idle_since_us = clock_mono_us();
    conn_pause(&u->conn, false);
    list_append(&o->idle, &u->idle);
    if (o->idle.n > IDLE_PER_ORIGIN_MAX)
        up_close(container_of(list_first(&o->idle), struct up, idle));
    turn_wake(&o->pool->turn, &u->conn.item);
}

/* ---- origins ---- */

static void read_proxy(struct origin *o, const char *proxy) {
    const char *at = strncmp(proxy, "http://", 7) == 0 ? proxy + 7 : proxy;
    size_t n = strcspn(at, "/");
    const char *colon = memrchr(at, ':', n);
    int64_t port = 80;
    if (colon && !span_to_i64((struct span){colon + 1, n - (size_t)(colon - at) - 1}, &port))
        port = 0;
    o->proxy_port = port > 0 && port < 65536 ? (int)port : 0;
    size_t length = colon ? (size_t)(colon - at) : n;
    bool brackets = length > 2 && at[0] == '[' && at[length - 1] == ']';
    o->proxy_host = xstrndup(at + brackets, length - 2 * (size_t)brackets);
}

static void take_context(struct origin *o) {
    struct pool *p = o->pool;
    struct span key = span_of(o->to.ca_file ? o->to.ca_file : "");
    struct str why;
    o->tls = map_find(&p->contexts, key);
    if (o->tls)
        return;
    str_init(&why, 1024);
    o->tls = tls_client_context(o->to.ca_file, &why);
    if (o->tls)
        map_put(&p->contexts, key, o->tls);
    else
        o->tls_why = str_release(&why);
    str_fini(&why);
}

static struct origin *origin_new(struct pool *p, const struct http_target *t) {
    struct origin *o = xcalloc(1, sizeof *o);
    struct str authority;
    bool v6 = strchr(t->host, ':') != NULL;
    o->pool = p;
    o->to = *t;
    o->to.host = xstrdup(t->host);
    o->to.ca_file = t->ca_file ? xstrdup(t->ca_file) : NULL;
    o->to.proxy = NULL;
    o->to.path = t->path ? xstrdup(t->path) : NULL;
    list_init(&o->idle);
    if (t->proxy)
        read_proxy(o, t->proxy);
    if (t->tls)
        take_context(o);
    str_init(&authority, 1024);
    str_printf(&authority, v6 ? "[%s]" : "%s", t->host);
    if (t->port != (t->tls ? 443 : 80))
        str_printf(&authority, ":%d", t->port);
    o->authority = str_release(&authority);
    return o;
}

static void origin_free(struct origin *o) {
    SSL_SESSION_free(o->session);
    free((char *)o->to.host);
    free((char *)o->to.ca_file);
    free((char *)o->to.path);
    free(o->proxy_host);
    free(o->authority);
    free(o->tls_why);
    free(o);
}

static void forget_unused(struct pool *p) {
    struct map_entry *m = map_next(&p->origins, NULL);
    while (p->origins.n >= ORIGINS_MAX && m) {
        struct origin *o = m->value;
        if (o->n_ups || o->n_calls) {
            m = map_next(&p->origins, m);
            continue;
        }
        map_remove(&p->origins, span_from(m->key, m->n));
        origin_free(o);
        m = map_next(&p->origins, NULL);
    }
}

struct origin *origin_get(struct pool *p, const struct http_target *t) {
    struct str key;
    str_init(&key, 8192);
    str_printf(&key, "%d|%s|%d|%s|%s|%s", t->tls, t->host, t->port, t->ca_file ? t->ca_file : "",
               t->proxy ? t->proxy : "", t->path ? t->path : "");
    struct origin *o = map_find(&p->origins, str_span(&key));
    if (!o) {
        forget_unused(p);
        o = origin_new(p, t);
        map_put(&p->origins, str_span(&key), o);
    }
    str_fini(&key);
    return o;
}

/* ---- the pool ---- */

struct pool *pool_new(struct loop *loop) {
    struct pool *p = xcalloc(1, sizeof *p);
    struct event_base *base = loop_base(loop);
    int needed = EV_FEATURE_ET | EV_FEATURE_EARLY_CLOSE;
    assert((event_base_get_features(base) & needed) == needed);
    turn_init(&p->turn, base);
    p->resolver = resolver_new(loop);
    map_init(&p->origins);
    map_init(&p->contexts);
    list_init(&p->ups);
    list_init(&p->calls);
    return p;
}

void pool_free(struct pool *p) {
    while (!list_empty(&p->calls))
        http_call_close(container_of(list_first(&p->calls), struct http_call, all));
    while (!list_empty(&p->ups))
        up_close(container_of(list_first(&p->ups), struct up, all));
    turn_fini(&p->turn);
    resolver_free(p->resolver);
    for (struct map_entry *m = map_next(&p->origins, NULL); m; m = map_next(&p->origins, m))
        origin_free(m->value);
    for (struct map_entry *m = map_next(&p->contexts, NULL); m; m = map_next(&p->contexts, m))
        SSL_CTX_free(m->value);
    map_fini(&p->origins);
    map_fini(&p->contexts);
    free(p);
}
