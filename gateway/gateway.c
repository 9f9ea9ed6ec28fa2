/* The house: built here, run here, torn down here in reverse. Always true: requests are run, audit batches handed over and
 * the dead freed in turn() alone, never inside a callback. */
#include "gateway/gateway.h"
#include "gateway/attempt.h"
#include "gateway/house.h"
#include "gateway/ledger.h"
#include "gateway/state/override.h"

#include "gateway/engines.h"
#include "gateway/workers/engine_door.h"

#include "gateway/alerts/alert.h"
#include "gateway/alerts/watch.h"
#include "gateway/content.h"
#include "gateway/keeper.h"
#include "gateway/lookup.h"
#include "gateway/recent.h"
#include "gateway/routes.h"
#include "gateway/state/keys.h"
#include "gateway/state/shared.h"
#include "gateway/state/state.h"
#include "gateway/workers/peers.h"
#include "gateway/workers/worker.h"

#include <assert.h>
#include <event2/event.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#define HEAD_TIMEOUT_US (30 * US_PER_S) /* against heads that come a byte a minute */
#define IDLE_TIMEOUT_US (75 * US_PER_S) /* keep-alive between requests: longer than the pools of common clients */
#define BODY_TIMEOUT_US (60 * US_PER_S) /* silence inside a body */
#define ADMIN_CONNECTIONS_MAX 64
#define RUN_MAX 64 /* times one request may run in a turn before the others go on */

/* ---- the turn ---- */

static void run_ready(struct gateway *g) {
    size_t n = g->ready.n * RUN_MAX;
    for (struct link *k; n > 0 && (k = list_shift(&g->ready)); n--)
        request_run(container_of(k, struct request, in_ready));
}

static void free_dead(struct gateway *g) {
    for (struct link *k = list_first(&g->by_state[STATE_DONE]), *next; k; k = next) {
        struct request *r = container_of(k, struct request, in_state);
        next = list_next(&g->by_state[STATE_DONE], k);
        if (link_on_list(&r->in_ready))
            list_remove(&g->ready, &r->in_ready);
        request_free(r);
    }
}

static void on_turn(evutil_socket_t fd, short what, void *arg) {
    struct gateway *g = arg;
    (void)fd;
    (void)what;
    run_ready(g);
    audit_flush(g->audit);
    free_dead(g);
    if (!list_empty(&g->ready))
        gateway_turn_soon(g);
}

void gateway_turn_soon(struct gateway *g) {
    event_active(g->turn, EV_TIMEOUT, 0);
}

/* ---- clocks ---- */

static void tick_list(struct gateway *g, enum state s, int64_t now_us) {
    for (struct link *k = list_first(&g->by_state[s]); k; k = list_next(&g->by_state[s], k)) {
        struct request *r = container_of(k, struct request, in_state);
        relay_heartbeat(r, now_us);
        bool due = s == STATE_SEND &&
                   (now_us >= r->deadline_us || (!r->attempt && now_us >= r->not_before_us) || hedge_is_due(r, now_us));
        if (due || r->client_left)
            request_wake(r);
    }
}

int64_t requests_in_flight(const struct gateway *g) {
    int64_t n = 0;
    for (enum state s = 0; s < STATE_DONE; s++)
        n += (int64_t)g->by_state[s].n;
    return n;
}

/* A request that is over may have left an answer that its client is still taking. */
static bool drained(const struct gateway *g, int64_t now_us) {
    return now_us >= g->drain_until_us ||
           (requests_in_flight(g) == 0 && front_leaving(g->front) == 0 && peers_are_done(g));
}

static void flush_strangers(struct gateway *g, int64_t now_us) {
    for (enum err e = ERR_NONE + 1; e < ERR_N; e++)
        if (g->strangers[e]) {
            audit_add(
                g->audit,
                &(struct audit_record){
                    .kind = AUDIT_REFUSE, .code = err_code(e), .status = err_row(e)->status, .count = g->strangers[e]},
                now_us);
            g->strangers[e] = 0;
        }
    g->strangers_now = 0;
}

static void on_tick(evutil_socket_t fd, short what, void *arg) {
    static const enum state watched[] = {STATE_CACHE, STATE_HOLD, STATE_SEND, STATE_STREAM};
    struct gateway *g = arg;
    int64_t now_us = clock_mono_us(), second = now_us / US_PER_S;
    (void)fd;
    (void)what;
    for (size_t i = 0; i < ARRAY_LEN(watched); i++)
        tick_list(g, watched[i], now_us);
    if (second != g->stranger_second)
        flush_strangers(g, clock_wall_us());
    overrides_tick(g);
    g->stranger_second = second;
    shadows_tick(g, now_us);
    watch_tick(g, now_us);
    peers_tick(g, now_us);
    keeper_tick(g, now_us);
    keys_tick(g, now_us);
    shared_tick(g, now_us);
    cache_tick(g->cache, now_us);
    content_tick(g);
    alerts_tick(g, now_us);
    budget_tick(g->budget, clock_wall_us());
    audit_flush(g->audit);
    if (g->draining && drained(g, now_us))
        event_base_loopbreak(loop_base(g->loop));
}

void gateway_count_stranger(struct gateway *g, const char *id, const char *client, const char *endpoint, enum err e) {
    if (++g->strangers_now > STRANGERS_PER_S) {
        g->strangers[e]++;
        return;
    }
    audit_add(g->audit,
              &(struct audit_record){.kind = AUDIT_REFUSE,
                                     .request = id,
                                     .client = client,
                                     .endpoint = endpoint,
                                     .code = err_code(e),
                                     .status = err_row(e)->status},
              clock_wall_us());
    gateway_turn_soon(g);
}

/* ---- clients ---- */

static void on_head(struct exchange *x, void *user) {
    request_wake(request_new(user, x));
}

static void on_change(struct exchange *x, void *user) {
    struct request *r = exchange_user(x);
    (void)user;
    if (r)
        request_wake(r);
}

static void on_bad(struct exchange *x, enum err e, const char *what, struct str *body, void *user) {
    reply_bad_head(user, x, e, what, body);
}

static void admin_on_bad(struct exchange *x, enum err e, const char *what, struct str *body, void *user) {
    (void)x;
    (void)user;
    error_write(DIALECT_OPENAI, &(struct error_body){.err = e, .message = what}, body);
}

static const struct front_ops client_ops = {on_head, on_bad, on_change};
static const struct front_ops metrics_ops = {metrics_on_head, admin_on_bad, admin_on_change};
static const struct front_ops admin_ops = {admin_on_head, admin_on_bad, admin_on_change};

struct front_limits limits_of(const struct conf *c, int64_t connections) {
    return (struct front_limits){.max_headers = c->http.max_headers,
                                 .max_connections = connections,
                                 .head_timeout_us = HEAD_TIMEOUT_US,
                                 .idle_timeout_us = IDLE_TIMEOUT_US,
                                 .body_timeout_us = BODY_TIMEOUT_US};
}

/* ---- building ---- */

static void on_settled(const struct audit_settled *s, void *user) {
    ledger_replay(user, s);
}

/* The oldest instant at which a period that is still open can have begun: a month and a day, whatever the zone. */
#define OLDEST_OPEN_US (32 * US_PER_DAY)

struct audit_options audit_options_of(struct gateway *g, const struct conf *c, int64_t now_us,
                                      const char *files[ANCHOR_FILES_MAX]) {
    return (struct audit_options){.directory = c->audit.directory,
                                  .chain = g->chain,
                                  .sync_request = c->audit.sync_request,
                                  .interval_us = c->audit.interval_us,
                                  .head_every = c->audit.head_every,
                                  .head_interval_us = c->audit.head_interval_us,
                                  .head_key = c->audit.head_key,
                                  .anchors = files,
                                  .n_anchors = gateway_anchor_files(c, files),
                                  .on_anchor = gateway_anchor,
                                  .records_others = g->worker == 0,
                                  .alone = g->worker > 0,
                                  .keep_us = c->audit.keep_us,
                                  .unrolled_us = keeper_unrolled_us(g->keeper),
                                  .content_key = c->audit.content_full ? c->audit.content_wrap : NULL,
                                  .content_keep_us = c->audit.content_keep_us,
                                  .version = TOLLGATE_VERSION,
                                  .conf_digest = c->digest,
                                  .since_us = g->redis || state_has_total_budget(c) ? 0 : now_us - OLDEST_OPEN_US,
                                  .settled = on_settled,
                                  .user = g};
}

static bool open_audit(struct gateway *g, struct str *why) {
    int64_t now_us = clock_wall_us();
    const char *files[ANCHOR_FILES_MAX];
    struct audit_options options = audit_options_of(g, g->conf, now_us, files);
    g->audit = audit_open(&options, g->loop, now_us, why);
    if (!g->audit)
        return false;
    budget_replay_log(g->budget, NULL); /* corrections made from now on are our log's */
    conf_record(g, "loaded");
    gateway_hear_news(g);
    overrides_review(g);
    return true;
}

static bool listen_here(struct gateway *g, struct str *why) {
    const struct conf *c = g->conf;
    for (size_t i = 0; i < c->n_listen; i++)
        if (!front_listen(g->front, c->listen[i].address, c->listen[i].certificate, c->listen[i].private_key, why))
            return false;
    return front_listen(g->admin, c->admin_address, NULL, NULL, why) &&
           (!g->metrics_front || front_listen(g->metrics_front, c->metrics_address, NULL, NULL, why));
}

/* The parent holds the sockets. */
static bool listen_there(struct gateway *g, struct str *why) {
    const struct worker_start *s = g->start;
    for (size_t i = 0; i < s->n_listen; i++)
        if (!front_adopt(g->front, &s->listen[i], g->conf->listen[i].certificate, g->conf->listen[i].private_key, why))
            return false;
    return (!g->admin || front_adopt(g->admin, s->admin, NULL, NULL, why)) &&
           (!g->metrics_front || front_adopt(g->metrics_front, s->metrics, NULL, NULL, why));
}

static bool listen_all(struct gateway *g, struct str *why) {
    const struct conf *c = g->conf;
    struct front_limits limits = limits_of(c, c->http.max_connections), few = limits_of(c, ADMIN_CONNECTIONS_MAX);
    g->front = front_new(g->loop, &limits, &client_ops, g);
    if (g->worker == 0)
        g->admin = front_new(g->loop, &few, &admin_ops, g);
    if (g->worker == 0 && c->metrics_address)
        g->metrics_front = front_new(g->loop, &few, &metrics_ops, g);
    return g->start ? listen_there(g, why) : listen_here(g, why);
}

/* The admin port is never token-free: without one in conf a fresh one is made into state, for the command line to read. */
bool admin_token_make(const struct conf *c, char token[ADMIN_TOKEN_MAX], struct str *why) {
    char path[512], hex[SHA256_HEX_MAX];
    uint8_t random[SHA256_BYTES];
    if (c->admin_token) {
        snprintf(token, ADMIN_TOKEN_MAX, "%s", c->admin_token);
        return true;
    }
    random_bytes(random, sizeof(random));
    snprintf(token, ADMIN_TOKEN_MAX, "tg-admin-%.48s", hex_put(random, sizeof(random), hex));
    return state_write_word(state_admin_token_path(c, path, sizeof(path)), token, why);
}

static bool have_admin_token(struct gateway *g, struct str *why) {
    if (!g->start)
        return admin_token_make(g->conf, g->admin_token, why);
    snprintf(g->admin_token, sizeof(g->admin_token), "%s", g->start->admin_token);
    return true;
}

static bool load_overrides(struct gateway *g, struct str *why) {
    if (!overrides_load(g->overrides, g->conf, g->started_us, why))
        return false;
    if (g->worker == 0 && !overrides_compact(g->overrides, g->conf))
        log_warn("the overrides in %s could not be written anew; they stay as they are", g->conf->state_directory);
    return true;
}

static void on_signal(evutil_socket_t number, short what, void *arg) {
    struct gateway *g = arg;
    struct str report;
    (void)what;
    if (number != SIGHUP) {
        if (g->draining)
            event_base_loopbreak(loop_base(g->loop));
        gateway_drain(g);
        return;
    }
    str_init(&report, 64 * 1024);
    if (gateway_reload(g, false, &report))
        log_info("conf reloaded digest=%s", g->conf->digest);
    else
        log_error("conf refused, the running one stays: %s", report.at ? report.at : "");
    str_fini(&report);
}

/* A worker is told everything by its parent: what a terminal sends to all is not for it. */
static void start_signals(struct gateway *g) {
    static const int numbers[] = {SIGTERM, SIGINT, SIGHUP};
    size_t n = g->start ? 1 : ARRAY_LEN(numbers);
    for (size_t i = 0; i < n; i++) {
        g->signals[i] = evsignal_new(loop_base(g->loop), numbers[i], on_signal, g);
        event_add(g->signals[i], NULL);
    }
    for (size_t i = n; i < ARRAY_LEN(numbers); i++)
        signal(numbers[i], SIG_IGN);
    signal(SIGPIPE, SIG_IGN);
}

static void start_events(struct gateway *g) {
    struct event_base *base = loop_base(g->loop);
    struct timeval tick = {0, TICK_US};
    g->turn = event_new(base, -1, EV_TIMEOUT, on_turn, g);
    g->tick = event_new(base, -1, EV_PERSIST, on_tick, g);
    event_add(g->tick, &tick);
    start_signals(g);
}

static void make_rooms(struct gateway *g) {
    g->loop = loop_new();
    g->routing = routing_new(0);
    g->cache = cache_new(g->conf->cache.size_bytes);
    g->budget = budget_new();
    g->overrides = overrides_new();
    g->pool = pool_new(g->loop);
    shadows_open(&g->shadows, g->loop);
    g->alerts = alerts_new();
    g->watch = watch_new();
    g->keeper = keeper_new();
    for (enum state s = 0; s < STATE_N; s++)
        list_init(&g->by_state[s]);
    list_init(&g->ready);
    g->keys = keys_new();
    g->recent = recent_new();
    list_init(&g->finance_jobs);
    list_init(&g->lookups);
    map_init(&g->by_id);
    map_init(&g->idempotent);
    map_init(&g->unasked);
    map_init(&g->engines);
    metrics_init(&g->metrics);
}

static struct gateway *open_house(struct gateway *g, struct str *why) {
    const struct conf *conf = g->conf;
    g->started_us = clock_wall_us();
    log_setup((enum log_level)conf->log_level, (enum log_format)conf->log_format);
    snprintf(g->chain, sizeof(g->chain), "%s.%d", conf->node, g->worker);
    make_rooms(g);
    start_events(g);
    if (state_make(conf, why) && load_overrides(g, why) && have_admin_token(g, why) &&
        state_secret(conf, "end_user.key", g->end_user_key, why) && shared_open(g, why) && ledger_open(g, why) &&
        listen_all(g, why) && engines_open(g, why) && open_audit(g, why) && engine_door_open(g, why)) {
        peers_open(g);
        return g;
    }
    gateway_close(g);
    return NULL;
}

struct gateway *gateway_open(const char *conf_path, struct str *why) {
    struct conf *conf = conf_read(conf_path, why);
    if (!conf)
        return NULL;
    struct gateway *g = xcalloc(1, sizeof(*g));
    g->conf = conf;
    g->conf_path = conf_path;
    g->workers = 1;
    return open_house(g, why);
}

struct gateway *gateway_open_worker(const struct worker_start *start, struct str *why) {
    struct gateway *g = xcalloc(1, sizeof(*g));
    g->conf = conf_take(start->conf);
    g->conf_path = start->conf_path;
    g->worker = start->worker;
    g->workers = start->n_workers;
    g->start = start;
    return open_house(g, why);
}

void gateway_run(struct gateway *g) {
    event_base_dispatch(loop_base(g->loop));
}

/* ---- changing and ending ---- */

void gateway_drain(struct gateway *g) {
    if (g->draining)
        return;
    log_info("draining: no new connections, requests in flight may end");
    g->draining = true;
    g->drain_until_us = clock_mono_us() + g->conf->http.drain_us;
    front_stop_listening(g->front);
    shadows_stop(g);
}

/* After a drain that ran out of time: what is still running is cut off, billed and recorded like any other. */
static void cut_off(struct gateway *g) {
    for (enum state s = 0; s < STATE_SETTLE; s++)
        for (struct link *k = list_first(&g->by_state[s]); k; k = list_next(&g->by_state[s], k)) {
            struct request *r = container_of(k, struct request, in_state);
            if (r->client)
                exchange_close(r->client);
            r->client = NULL;
            r->client_left = true;
            request_wake(r);
        }
    int64_t until_us = clock_mono_us() + US_PER_S;
    budget_rest(g->budget);
    while ((requests_in_flight(g) || !budget_settled(g->budget)) && clock_mono_us() < until_us)
        event_base_loop(loop_base(g->loop), EVLOOP_ONCE);
}

static void free_front(struct front *f) {
    if (f)
        front_free(f);
}

void gateway_close(struct gateway *g) {
    finance_stop(g);
    keeper_stop(g);
    lookups_stop(g);
    adapters_stop(g);
    engine_door_close(g);
    peers_close(g);
    if (g->audit) {
        cut_off(g);
        audit_close(g->audit, clock_wall_us());
    }
    free_front(g->front);
    free_front(g->admin);
    free_front(g->metrics_front);
    engines_free(g);
    alerts_free(g->alerts);
    watch_free(g->watch);
    keeper_free(g->keeper);
    shadows_close(&g->shadows);
    pool_free(g->pool);
    budget_free(g->budget);
    overrides_free(g->overrides);
    cache_free(g->cache);
    shared_close(g);
    routing_free(g->routing);
    event_free(g->turn);
    event_free(g->tick);
    for (size_t i = 0; i < ARRAY_LEN(g->signals) && g->signals[i]; i++)
        event_free(g->signals[i]);
    keys_free(g->keys);
    recent_free(g->recent);
    map_fini(&g->by_id);
    map_fini(&g->idempotent);
    map_fini(&g->unasked);
    metrics_fini(&g->metrics);
    conf_drop(g->prepared);
    conf_drop(g->conf);
    loop_free(g->loop);
    free(g);
}
