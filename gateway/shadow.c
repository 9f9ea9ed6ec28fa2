/* Shadows: a share of an alias's calls asked again of another target, once their clients were served. Always true: a copy
 * begins after the last byte of its client's answer was given to the connection; what it holds is counted in
 * gateway->shadows and nowhere else; one that never began leaves a count, and no record. */
#include "gateway/shadow.h"

#include "gateway/attempt.h"
#include "gateway/gateway.h"
#include "gateway/needs.h"
#include "gateway/routes.h"

#include <stdio.h>
#include <stdlib.h>

void shadows_open(struct shadows *s, struct loop *loop) {
    list_init(&s->all);
    s->pool = pool_new(loop);
}

void shadows_close(struct shadows *s) {
    pool_free(s->pool);
}

static void count(struct request *r, const char *result) {
    metrics_add(&r->gateway->metrics, METRIC_SHADOWS, 1, "alias=\"%s\",result=\"%s\"", r->alias->name, result);
}

/* ---- which calls ---- */

/* By the id, so that it is the same share whoever asks, and known from the first word on. */
static bool is_chosen(struct request *r) {
    const struct conf_shadow *s = r->alias ? &r->alias->shadow : NULL;
    if (r->shadow_choice == SHADOW_UNDECIDED) {
        bool chosen = s && s->target.name && !r->shadow && arm_holds(r->alias->name, span_of(r->id), s->share);
        r->shadow_choice = chosen ? SHADOW_CHOSEN : SHADOW_PASSED;
    }
    return r->shadow_choice == SHADOW_CHOSEN;
}

static struct sketch *sketch_new(void) {
    struct sketch *s = xcalloc(1, sizeof *s);
    sketch_init(s);
    return s;
}

static void put_words(struct sketch *s, const struct event *e) {
    for (size_t i = 0; i < e->n_parts; i++) {
        const struct part *p = &e->parts[i];
        if (p->kind == PART_TEXT || p->kind == PART_TOOL_ARGS)
            sketch_add(s, p->text);
        else if (p->kind == PART_TOOL_OPEN)
            sketch_add(s, p->name);
    }
}

void shadow_saw(struct request *r, const struct event *e) {
    if (!r->call.traits.temperature_zero || !is_chosen(r))
        return;
    if (!r->sketch)
        r->sketch = sketch_new();
    put_words(r->sketch, e);
}

/* A provider that acts for the call, or keeps something of it, would do so twice. */
static bool may_be_copied(const struct request *r) {
    bool ours = r->cache_word && (strcmp(r->cache_word, "miss") == 0 || strcmp(r->cache_word, "bypass") == 0);
    bool harmless = !r->call.traits.server_tools && !r->call.traits.stored;
    return ours && harmless && r->whole && !r->err && r->body.n && r->call.endpoint != ENDPOINT_COUNT_TOKENS;
}

static int64_t bytes_of(const struct request *r) {
    return (int64_t)(r->body.n + r->arena.used);
}

static bool has_room(const struct gateway *g, int64_t bytes) {
    return g->shadows.all.n < SHADOWS_MAX && g->shadows.bytes + bytes <= SHADOW_BYTES_MAX;
}

/* ---- the copy ---- */

static struct shadow_figures figures_of(const struct request *r) {
    struct shadow_figures f = {.status = r->status,
                               .finish = r->finish,
                               .text_bytes = r->relayed_bytes,
                               .first_us = r->first_content_us,
                               .duration_us = request_age_us(r),
                               .cost_nanousd = r->cost_nanousd};
    snprintf(f.target, sizeof f.target, "%s", r->answer ? r->answer->target : "");
    return f;
}

static struct shadow *shadow_new(struct request *copy, struct request *r) {
    struct shadow *s = xcalloc(1, sizeof *s);
    s->request = copy;
    s->key = r->key;
    s->require = r->require;
    snprintf(s->share, sizeof s->share, CONF_GATEWAY_TEAM "/%s", r->key->team->name);
    memcpy(s->of, r->id, sizeof s->of);
    s->client = figures_of(r);
    s->alike = r->sketch != NULL;
    if (s->alike) {
        sketch_end(r->sketch);
        s->said = *r->sketch;
        copy->sketch = sketch_new();
    }
    return s;
}

/* The call with all that it points into goes over; its client is done with it. */
static void take_call(struct request *to, struct request *from) {
    to->arena = from->arena;
    to->body = from->body;
    to->call = from->call;
    to->call.clamped_tok = 0;
    arena_init(&from->arena, REQUEST_ARENA_MAX);
    str_init(&from->body, 0);
    to->body_counted = (size_t)bytes_of(to);
    to->gateway->shadows.bytes += (int64_t)to->body_counted;
    to->captured = from->captured;
    to->route = from->route;
    to->dialect = from->dialect;
    memcpy(to->forwarded, from->forwarded, sizeof to->forwarded);
    to->n_forwarded = from->n_forwarded;
    to->query = from->query;
    to->forwarded_read = true;
    from->call = (struct llm_call){0};
    from->client_text = NULL;
}

void shadow_after(struct request *r) {
    struct gateway *g = r->gateway;
    if (!r->route || r->route->kind != ROUTE_CALL || !is_chosen(r) || !may_be_copied(r))
        return;
    if (g->draining || !has_room(g, bytes_of(r))) {
        count(r, "dropped");
        return;
    }
    struct request *s = request_make(g, STATE_ROUTE);
    s->shadow = shadow_new(s, r);
    s->conf = conf_take(r->conf);
    s->key = r->alias->shadow.key;
    s->alias = r->alias->shadow.as;
    s->fallback = FALLBACK_NONE;
    s->end_user_sought = true; /* it is nobody's call */
    take_call(s, r);
    s->doing = "waiting for its turn as a shadow";
    list_append(&g->shadows.all, &s->shadow->link);
    request_wake(s);
}

/* An engine with a queue is left to those who stand in it. */
static bool engine_is_busy(const struct request *r) {
    const struct decode *engine = map_find(&r->gateway->engines, span_of(r->alias->rungs[0].targets[0].backend->name));
    struct decode_view v;
    if (!engine)
        return false;
    decode_view(engine, &v);
    return v.queued > 0;
}

static bool begins(struct request *r) {
    struct shadows *all = &r->gateway->shadows;
    if (r->shadow->runs)
        return true;
    if (all->running == SHADOWS_AT_ONCE || engine_is_busy(r))
        return false;
    r->shadow->runs = true;
    all->running++;
    return true;
}

/* Within the boundaries of the call that was copied, to its one target; a target that is ill is left alone. */
enum walk shadow_route(struct request *r) {
    if (!begins(r))
        return WALK_WAIT;
    struct needs needs = {.conf = r->conf,
                          .key = r->shadow->key,
                          .alias = r->alias,
                          .captured = r->captured,
                          .wall_us = r->began_wall_us,
                          .require = r->shadow->require,
                          .fallback = FALLBACK_NONE};
    needs_of_call(&r->call, r->gateway->budget, &needs);
    enum err e = routing_plan(r->gateway->routing, &needs, clock_mono_us(), &r->arena, &r->plan);
    if (e)
        return refuse(r, e);
    r->at = 0;
    r->deadline_us = clock_mono_us() + r->alias->deadline_us;
    return go(r, STATE_CACHE);
}

void shadows_tick(struct gateway *g, int64_t now_us) {
    for (struct link *k = list_first(&g->shadows.all); k; k = list_next(&g->shadows.all, k)) {
        struct request *r = container_of(k, struct shadow, link)->request;
        if (now_us - r->began_us > SHADOW_LIFE_US)
            request_cancel(r);
        else if (!r->shadow->runs)
            request_wake(r);
    }
}

void shadows_stop(struct gateway *g) {
    for (struct link *k = list_first(&g->shadows.all); k; k = list_next(&g->shadows.all, k))
        request_cancel(container_of(k, struct shadow, link)->request);
}

/* ---- its answer ---- */

static void see(struct request *r, const struct event *e) {
    if (e->bits & (EVENT_CONTENT | EVENT_PLAIN) && r->first_content_us < 0)
        r->first_content_us = request_age_us(r);
    if (e->bits & EVENT_FINISH)
        r->finish = e->finish;
    r->relayed_bytes += e->text_bytes;
    if (r->shadow->alike)
        put_words(r->sketch, e);
}

static enum walk end(struct request *r, enum err err, const char *why) {
    attempts_cancel(r, OUTCOME_CANCELLED, why);
    r->err = err;
    return go(r, STATE_SETTLE);
}

/* Nobody is sent anything: what comes is looked at and let go. */
enum walk shadow_read(struct request *r) {
    struct part parts[EVENT_PARTS_MAX];
    struct event e;
    if (r->cancelled || r->client_left)
        return end(r, ERR_CANCELLED, "a shadow ends with the house");
    bool moved = true;
    while (moved) {
        attempts_pump(r);
        for (moved = false; answer_next(&r->reader, &e, parts); moved = true)
            see(r, &e);
    }
    if (!r->answer->ended || !answer_read_all(&r->reader))
        return WALK_WAIT;
    r->whole = !r->answer->err;
    r->err = r->answer->err;
    r->status = r->err ? error_status(r->dialect, r->err) : 200;
    return go(r, STATE_SETTLE);
}

static const char *result_of(const struct request *r) {
    if (r->whole)
        return "served";
    if (r->err == ERR_BUDGET)
        return "over_budget";
    return r->err == ERR_CANCELLED || r->client_left ? "cancelled" : "failed";
}

void shadow_end(struct request *r) {
    struct gateway *g = r->gateway;
    struct shadow *s = r->shadow;
    count(r, result_of(r));
    metrics_add(&g->metrics, METRIC_COST, r->cost_nanousd, "team=\"%s\"", r->key->team->name);
    g->shadows.running -= s->runs;
    list_remove(&g->shadows.all, &s->link);
    free(s);
    r->shadow = NULL;
    shadows_tick(g, 0);
}

/* ---- its records ---- */

static void put_figures(struct str *out, const char *name, const struct shadow_figures *f) {
    json_put_raw(out, name, SPAN("{"));
    json_put_str(out, "target", f->target);
    json_put_i64(out, "status", f->status);
    json_put_str(out, "finish", finish_names[f->finish]);
    json_put_i64(out, "text_bytes", f->text_bytes);
    if (f->first_us >= 0)
        json_put_i64(out, "first_us", f->first_us);
    json_put_i64(out, "duration_us", f->duration_us);
    json_put_i64(out, "cost_nanousd", f->cost_nanousd);
    str_putc(out, '}');
}

struct span shadow_members(struct request *r, bool ends, char out[SHADOW_MEMBERS_MAX]) {
    struct str s;
    str_init(&s, SHADOW_MEMBERS_MAX - 1);
    json_put_str(&s, "shadow_of", r->shadow->of);
    if (ends) {
        struct shadow_figures own = figures_of(r);
        json_put_raw(&s, "pair", SPAN("{"));
        put_figures(&s, "client", &r->shadow->client);
        put_figures(&s, "shadow", &own);
        if (r->shadow->alike && r->whole) {
            sketch_end(r->sketch);
            json_put_i64(&s, "likeness_ppm", sketch_likeness(&r->shadow->said, r->sketch));
        }
        str_putc(&s, '}');
    }
    size_t n = s.over ? 0 : s.n;
    if (n)
        memcpy(out, s.at, n);
    str_fini(&s);
    return span_from(out, n);
}
