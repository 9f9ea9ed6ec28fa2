/* A house for explanations on the command line: the rooms that decide, and nobody who listens or is called. Always true here:
 * a request in it goes no further than its decision. */
#include "gateway/alerts/alert.h"
#include "gateway/alerts/watch.h"
#include "gateway/explain.h"
#include "gateway/gateway.h"
#include "gateway/routes.h"
#include "gateway/state/override.h"

#include <stdlib.h>

static const struct route asked = {.path = "", .methods = "POST", .kind = ROUTE_CALL, .name = "explain"};

struct gateway *explain_house(struct conf *c, uint64_t seed) {
    struct gateway *g = xcalloc(1, sizeof(*g));
    g->conf = conf_take(c);
    g->workers = 1;
    g->routing = routing_new(seed);
    g->cache = cache_new(0);
    g->budget = budget_new();
    g->overrides = overrides_new();
    g->alerts = alerts_new();
    g->watch = watch_new();
    for (enum state s = 0; s < STATE_N; s++)
        list_init(&g->by_state[s]);
    list_init(&g->ready);
    map_init(&g->by_id);
    map_init(&g->engines);
    metrics_init(&g->metrics);
    return g;
}

void explain_house_free(struct gateway *g) {
    alerts_free(g->alerts);
    watch_free(g->watch);
    overrides_free(g->overrides);
    budget_free(g->budget);
    cache_free(g->cache);
    routing_free(g->routing);
    map_fini(&g->by_id);
    map_fini(&g->engines);
    metrics_fini(&g->metrics);
    conf_drop(g->conf);
    free(g);
}

/* ---- a running gateway's state ---- */

struct putting {
    struct str *out;
    bool first;
};

static void put_line(struct span line, void *user) {
    struct putting *p = user;
    str_puts(p->out, p->first ? "" : ",");
    p->first = false;
    str_put(p->out, line);
}

static void put_budget(const struct budget_view *v, void *user) {
    struct putting *p = user;
    str_puts(p->out, p->first ? "{" : ",{");
    p->first = false;
    json_put_str(p->out, "name", v->name);
    json_put_i64(p->out, "settled_nanousd", v->settled_nanousd);
    json_put_i64(p->out, "held_nanousd", v->held_nanousd);
    json_put_i64(p->out, "overrun_nanousd", v->overrun_nanousd);
    json_put_i64(p->out, "period_to_us", v->period_to_us);
    str_putc(p->out, '}');
}

void explain_put_state(struct gateway *g, struct str *out) {
    struct putting lines = {out, true}, budgets = {out, true};
    str_putc(out, '{');
    json_put_str(out, "conf_digest", g->conf->digest);
    json_put_name(out, "health");
    routing_put_state(g->routing, clock_mono_us(), out);
    json_put_raw(out, "overrides", SPAN("["));
    overrides_lines(g->overrides, put_line, &lines);
    str_putc(out, ']');
    json_put_raw(out, "budgets", SPAN("["));
    budget_each(g->budget, g->conf, clock_wall_us(), put_budget, &budgets);
    str_puts(out, "]}\n");
}

static void stand_in(struct gateway *g, const struct conf_key *key, struct json v) {
    struct arena a;
    struct budget_view view = {0};
    int64_t to_us = 0;
    arena_init(&a, 4096);
    struct span name = json_text(json_get(v, "name"), &a);
    view.name = name.at ? arena_strdup(&a, name) : NULL;
    bool good = view.name && json_i64(json_get(v, "settled_nanousd"), &view.settled_nanousd) &&
                json_i64(json_get(v, "held_nanousd"), &view.held_nanousd) &&
                json_i64(json_get(v, "overrun_nanousd"), &view.overrun_nanousd) &&
                json_i64(json_get(v, "period_to_us"), &to_us);
    if (good && to_us > clock_wall_us()) /* an older period in which calls still run is another account */
        budget_stand(g->budget, g->conf, key, &view, clock_wall_us());
    arena_fini(&a);
}

bool explain_take_state(struct gateway *g, const struct conf_key *key, struct json state) {
    struct json_walk w;
    struct span name;
    struct json v;
    if (state.kind != JSON_OBJECT || !routing_take_state(g->routing, json_get(state, "health"), clock_mono_us()))
        return false;
    json_walk_init(&w, json_get(state, "overrides"));
    while (json_walk_next(&w, &name, &v))
        if (!overrides_read(g->overrides, v.raw, clock_wall_us()))
            return false;
    json_walk_init(&w, json_get(state, "budgets"));
    while (json_walk_next(&w, &name, &v))
        stand_in(g, key, v);
    overrides_look(g);
    return true;
}

/* ---- requests ---- */

struct request *explain_request(struct gateway *g, const struct conf_key *key, const struct llm_call *call,
                                const struct conf_alias *alias, struct span captured) {
    struct request *r = request_new(g, NULL);
    r->conf = conf_take(g->conf);
    r->key = key;
    r->route = &asked;
    r->call = *call;
    r->dialect = endpoint_row(call->endpoint)->dialect;
    r->alias = alias;
    r->captured = captured;
    for (enum state s = STATE_AUTH; s <= STATE_ROUTE; s++)
        request_go(r, s);
    return r;
}

void explain_walk(struct request *r) {
    enum walk walk = WALK_MORE;
    while (walk == WALK_MORE && r->state != STATE_ADMIT && r->state != STATE_SETTLE &&
           (r->state != STATE_REFUSE || r->explain))
        walk = r->state == STATE_ROUTE   ? step_route(r)
               : r->state == STATE_CACHE ? step_cache(r)
               : r->state == STATE_HOLD  ? step_hold(r)
                                         : step_refuse(r);
}

void explain_request_free(struct request *r) {
    if (r->hold.lease.open)
        budget_settle(r->gateway->budget, &r->hold.lease, 0);
    if (r->state == STATE_ADMIT)
        request_go(r, STATE_REFUSE);
    kept_let_go(r, ERR_CANCELLED);
    answer_drop(r->answer);
    r->answer = NULL;
    if (r->state == STATE_REFUSE)
        request_go(r, STATE_SETTLE);
    request_go(r, STATE_RELEASE);
    conf_drop(r->conf);
    r->conf = NULL;
    request_go(r, STATE_DONE);
    request_free(r);
}
