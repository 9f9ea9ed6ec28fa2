/* The door of gateway/base/redis.h over the loop. Always true: a call is open exactly while its ask points at it, it ends
 * once, and what went wrong at a Redis is said once and then counted. */
#include "gateway/redis/redis.h"

#include "gateway/base/json.h"
#include "gateway/base/mem.h"
#include "gateway/net/tls.h"
#include "gateway/redis/redis_link.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#define GUIDE_US (US_PER_S / 2) /* how often sentinels are asked, and the age of the map looked at */

const char *const redis_fault_names[] = {"ok", "down", "late", "lost"};

bool link_up(const struct redis_link *l) {
    if (l->cluster.on && !l->cluster.mapped)
        return false;
    for (size_t i = 0; i < l->n_nodes; i++)
        if (node_usable(l->nodes[i]))
            return true;
    return false;
}

/* ---- what an error says of the server ---- */

static const struct {
    const char *starts, *means;
    bool reconnect; /* another server may answer there by now */
} error_kinds[ERROR_KINDS] = {
    {"LOADING", "it is still loading its data", false},
    {"READONLY", "it is a replica and takes no writes", true},
    {"OOM", "it is out of memory (maxmemory)", false},
    {"NOAUTH", "it wants a password", true},
    {"NOPERM", "its user may not do what the gateway needs", false},
    {"MISCONF", "it cannot save and takes no writes", false},
    {"MASTERDOWN", "it is a replica without its master", true},
    {"CLUSTERDOWN", "the cluster has slots that nobody serves", false},
    {"BUSY", "a script runs on it and does not end", false},
};

static void note_error(struct redis_link *l, struct redis_node *n, const struct redis_value *reply) {
    char name[REDIS_WHY_MAX];
    uint64_t swallowed;
    for (size_t i = 0; i < ERROR_KINDS; i++) {
        if (!span_starts(reply->text, error_kinds[i].starts))
            continue;
        if (log_gate_open(&l->errors[i], clock_mono_us(), &swallowed))
            log_warn("redis %s: %s (%s) more=%" PRIu64, node_name(n, name), error_kinds[i].means, error_kinds[i].starts,
                     swallowed);
        if (error_kinds[i].reconnect)
            node_doom(n, "%s", error_kinds[i].means);
        return;
    }
}

/* ---- calls ---- */

static enum redis_keep end_call(struct redis_ask *a, enum redis_fault fault, const struct redis_value *reply) {
    struct redis_call *call = a->call;
    a->call = NULL;
    if (!call)
        return REDIS_DROP;
    call->inside = NULL;
    call->open = false;
    call->fault = fault;
    call->done(call, reply);
    return REDIS_DROP;
}

/* Redis has lost the script (a restart, SCRIPT FLUSH): its text goes once more, under the same call. */
static enum redis_keep send_text(struct redis_node *n, struct redis_ask *a) {
    char *eval = redis_command_eval(a->script, span_from(a->bytes, a->n_bytes), &a->n_bytes);
    free(a->bytes);
    a->bytes = eval;
    a->script = NULL;
    if (a->asked)
        cluster_asking(n);
    return node_send(n, a) ? REDIS_KEEP : end_call(a, REDIS_DOWN, NULL);
}

enum redis_keep link_call_answered(struct redis_node *n, struct redis_ask *a, const struct redis_value *reply) {
    if (!reply)
        return end_call(a, REDIS_LOST, NULL);
    if (reply->kind != REDIS_ERROR)
        return end_call(a, REDIS_OK, reply);
    if (a->script && a->call && span_starts(reply->text, "NOSCRIPT"))
        return send_text(n, a);
    if (cluster_redirect(n, a, reply))
        return REDIS_KEEP;
    note_error(n->owner, n, reply);
    return end_call(a, REDIS_OK, reply);
}

/* key at NULL: it is about none. */
static bool send_ask(struct redis_link *l, struct redis_call *call, struct redis_ask *a, struct span key) {
    int64_t now_us = clock_mono_us();
    struct redis_node *n = l->nodes[0];
    if (l->cluster.on)
        n = cluster_node(l, key.at ? cluster_slot(key) : -1);
    a->until_us = call->until_us ? call->until_us : now_us + l->timeout_us;
    a->answered = link_call_answered;
    a->call = call;
    call->fault = REDIS_OK;
    if (n && a->until_us > now_us && node_send(n, a)) {
        call->open = true;
        call->inside = a;
        return true;
    }
    call->fault = REDIS_DOWN;
    ask_free(a);
    return false;
}

static bool on_send(struct redis *r, struct redis_call *call, size_t argc, const struct span *argv) {
    struct redis_link *l = (struct redis_link *)r;
    assert(!call->open && argc > 0);
    if (!link_up(l)) {
        call->fault = REDIS_DOWN;
        return false;
    }
    return send_ask(l, call, ask_new(argc, argv), argc > 1 ? argv[1] : SPAN_NONE);
}

static bool on_run(struct redis *r, struct redis_call *call, struct redis_script *script, size_t n_keys, size_t argc,
                   const struct span *argv) {
    struct redis_link *l = (struct redis_link *)r;
    assert(!call->open && n_keys <= argc);
    if (!link_up(l)) {
        call->fault = REDIS_DOWN;
        return false;
    }
    struct redis_ask *a = ask_new_script(script, n_keys, argc, argv);
    return send_ask(l, call, a, n_keys ? argv[0] : SPAN_NONE);
}

static void on_forget(struct redis *r, struct redis_call *call) {
    struct redis_ask *a = call->inside;
    (void)r;
    if (!call->open)
        return;
    call->open = false;
    call->inside = NULL;
    a->call = NULL;
    a->until_us = INT64_MAX;
}

/* ---- watchers ---- */

void link_tell(struct redis_link *l, bool up) {
    for (struct link *k = list_first(&l->watchers), *next; k; k = next) {
        struct redis_watcher *w = container_of(k, struct redis_watcher, in_watchers);
        next = list_next(&l->watchers, k);
        void (*tell)(struct redis_watcher *) = up ? w->on_up : w->on_down;
        if (tell)
            tell(w);
    }
}

static void on_watch(struct redis *r, struct redis_watcher *w) {
    struct redis_link *l = (struct redis_link *)r;
    list_append(&l->watchers, &w->in_watchers);
    if (link_up(l) && w->on_up)
        w->on_up(w);
}

static void on_unwatch(struct redis *r, struct redis_watcher *w) {
    list_remove(&((struct redis_link *)r)->watchers, &w->in_watchers);
}

static bool is_up(const struct redis *r) {
    return link_up((const struct redis_link *)r);
}

static const struct redis_ops ops = {on_send, on_run, on_forget, on_watch, on_unwatch, is_up};

/* ---- nodes ---- */

static void on_node_up(struct redis_node *n) {
    char name[REDIS_WHY_MAX];
    log_info("redis %s is up", node_name(n, name));
    n->said = (struct log_gate){0};
    if (((struct redis_link *)n->owner)->cluster.on)
        cluster_node_up(n);
    else
        link_tell(n->owner, true);
}

static void on_node_down(struct redis_node *n, bool was_up) {
    char name[REDIS_WHY_MAX];
    uint64_t swallowed;
    if (log_gate_open(&n->said, clock_mono_us(), &swallowed))
        log_warn("redis %s is %s: %s; the gateway goes on without it more=%" PRIu64, node_name(n, name),
                 was_up ? "down" : "not to be had", n->why, swallowed);
    struct redis_link *l = n->owner;
    l->cluster.dirty = true;
    if (was_up && !link_up(l)) /* of a cluster, the other nodes still serve */
        link_tell(l, false);
}

static const struct redis_node_ops node_ops = {NULL, link_greet, on_node_up, on_node_down},
                                   master_ops = {sentinel_locate, link_greet, on_node_up, on_node_down};

struct redis_node *link_new_node(struct redis_link *l, const struct redis_place *at,
                                 const struct redis_node_ops *its_ops) {
    struct redis_node *n = xcalloc(1, sizeof *n);
    node_init(n, &l->turn, l->resolver, its_ops, l);
    n->at = *at;
    n->tls = l->tls;
    n->timeout_us = l->timeout_us;
    n->connect_us = l->connect_us;
    return n;
}

struct redis_node *link_add_node(struct redis_link *l, const struct redis_place *at) {
    if (l->n_nodes == NODES_MAX)
        return NULL;
    struct redis_node *n = l->nodes[l->n_nodes++] = link_new_node(l, at, l->sentinel.master ? &master_ops : &node_ops);
    node_start(n);
    return n;
}

/* ---- building ---- */

bool place_of(struct span host, struct span port, struct redis_place *out) {
    int64_t number;
    *out = (struct redis_place){0};
    if (!host.n || host.n >= sizeof out->host || memchr(host.at, 0, host.n) || !span_to_i64(port, &number) ||
        number < 1 || number > 65535)
        return false;
    memcpy(out->host, host.at, host.n);
    out->port = (int)number;
    return true;
}

bool place_read(struct span text, struct redis_place *out) {
    const char *colon = text.n ? memrchr(text.at, ':', text.n) : NULL;
    *out = (struct redis_place){0};
    if (text.n && text.at[0] == '/') {
        snprintf(out->host, sizeof out->host, "%.*s", SPAN_ARG(text));
        return text.n < sizeof out->host;
    }
    if (!colon)
        return false;
    struct span host = span_from(text.at, (size_t)(colon - text.at));
    struct span port = span_from(colon + 1, text.n - host.n - 1);
    if (host.n > 2 && host.at[0] == '[' && host.at[host.n - 1] == ']')
        host = span_from(host.at + 1, host.n - 2);
    return place_of(host, port, out);
}

bool place_equal(const struct redis_place *a, const struct redis_place *b) {
    return a->port == b->port && !strcmp(a->host, b->host);
}

static char *copy(const char *text) {
    return text ? xstrdup(text) : NULL;
}

static struct redis_link *link_new(struct loop *loop, const struct redis_options *o) {
    struct redis_link *l = xcalloc(1, sizeof *l);
    l->base.ops = &ops;
    l->base.prefix = l->prefix = copy(o->prefix ? o->prefix : "");
    l->user = copy(o->user);
    l->password = copy(o->password);
    l->name = copy(o->name ? o->name : "tollgate");
    l->database = o->database;
    l->timeout_us = o->timeout_us;
    l->connect_us = o->connect_us;
    l->sentinel.master = o->n_sentinels ? copy(o->master) : NULL;
    l->sentinel.user = copy(o->sentinel_user);
    l->sentinel.password = copy(o->sentinel_password);
    l->cluster.on = o->cluster;
    memset(l->cluster.slots, NO_NODE, sizeof l->cluster.slots);
    list_init(&l->watchers);
    turn_init(&l->turn, loop_base(loop));
    l->resolver = resolver_new(loop);
    return l;
}

static void on_tick(evutil_socket_t fd, short what, void *arg) {
    struct redis_link *l = arg;
    (void)fd, (void)what;
    sentinel_tick(l);
    if (l->cluster.on)
        cluster_tick(l);
}

/* Those who know where the others are. False: an address is wrong, or there are too many. */
static bool add_guides(struct redis_link *l, struct loop *loop, const struct redis_options *o) {
    struct timeval tick = {GUIDE_US / US_PER_S, GUIDE_US % US_PER_S};
    struct redis_place at;
    for (size_t i = 0; i < o->n_sentinels; i++)
        if (!sentinel_add(l, span_of(o->sentinels[i])))
            return false;
    for (size_t i = 0; l->cluster.on && i < o->n_seeds; i++)
        if (!place_read(span_of(o->seeds[i]), &at) || (!place_equal(&at, &l->nodes[0]->at) && !link_add_node(l, &at)))
            return false;
    if (!o->n_sentinels && !o->cluster)
        return true;
    l->tick = event_new(loop_base(loop), -1, EV_PERSIST, on_tick, l);
    event_add(l->tick, &tick);
    return true;
}

struct redis *redis_open(struct loop *loop, const struct redis_options *o, struct str *why) {
    struct redis_link *l = link_new(loop, o);
    struct redis_place at;
    if (o->tls && !(l->tls = tls_client_context(o->ca_file, why)))
        goto fail;
    if (!place_read(span_of(o->address), &at)) {
        str_puts(why, "redis: the address cannot be read\n");
        goto fail;
    }
    link_add_node(l, &at);
    if (add_guides(l, loop, o))
        return &l->base;
    str_puts(why, "redis: an address of a sentinel or a node cannot be read, or there are too many\n");
fail:
    redis_close(&l->base);
    return NULL;
}

void redis_close(struct redis *r) {
    struct redis_link *l = (struct redis_link *)r;
    if (!l)
        return;
    for (size_t i = 0; i < l->n_nodes; i++) {
        node_fini(l->nodes[i]);
        free(l->nodes[i]);
    }
    for (size_t i = 0; i < l->sentinel.n; i++) {
        node_fini(l->sentinel.nodes[i]);
        free(l->sentinel.nodes[i]);
    }
    if (l->tick)
        event_free(l->tick);
    turn_fini(&l->turn);
    resolver_free(l->resolver);
    SSL_CTX_free(l->tls);
    free(l->user);
    free(l->password);
    free(l->name);
    free(l->prefix);
    free(l->sentinel.master);
    free(l->sentinel.user);
    free(l->sentinel.password);
    free(l);
}

void redis_put(const struct redis *r, struct str *json) {
    const struct redis_link *l = (const struct redis_link *)r;
    char name[REDIS_WHY_MAX];
    bool up = link_up(l);
    int64_t late = 0, lost = 0, refused = 0;
    for (size_t i = 0; i < l->n_nodes; i++) {
        late += (int64_t)l->nodes[i]->n_late;
        lost += (int64_t)l->nodes[i]->n_lost;
        refused += (int64_t)l->nodes[i]->n_refused;
    }
    json_put_str(json, "state", up ? "up" : "down");
    json_put_str(json, "server", node_name(l->nodes[0], name));
    json_put_str(json, "why", up ? NULL : l->nodes[0]->why);
    json_put_i64(json, "late", late);
    json_put_i64(json, "lost", lost);
    json_put_i64(json, "refused", refused);
}
