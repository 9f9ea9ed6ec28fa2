/* What the house sees of itself, looked at in the tick and never on the way of a request. Always true of what is told: its
 * scope is a name that conf knows, so nobody outside can make up alerts. */
#include "gateway/alerts/watch.h"

#include "gateway/alerts/alert.h"
#include "gateway/gateway.h"
#include "gateway/state/watch_files.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#define FIGURES_MAX 512
#define WATCH_REPORT_MAX (64 * 1024)

struct watch {
    int64_t look_us, keys_us; /* mono: when it is looked at next */
    int lag_looks;            /* in a row at which the log lagged */
    struct file_watch *files; /* NULL until the first look */
};

struct watch *watch_new(void) {
    return xcalloc(1, sizeof(struct watch));
}

void watch_free(struct watch *w) {
    if (w->files)
        file_watch_free(w->files);
    free(w);
}

void watch_conf_changed(struct gateway *g, bool reloaded) {
    struct watch *w = g->watch;
    w->keys_us = 0;
    if (w->files)
        file_watch_take(w->files, g->conf->files, reloaded);
}

/* ---- targets ---- */

struct lanes {
    struct gateway *gateway;
    struct map up; /* targets of which a lane takes calls */
    bool any_down;
};

static bool is_named(const struct conf *c, const char *target) {
    for (size_t i = 0; i < c->n_aliases; i++)
        for (size_t j = 0; j < c->aliases[i].n_rungs; j++)
            for (size_t k = 0; k < c->aliases[i].rungs[j].n_targets; k++)
                if (strcmp(c->aliases[i].rungs[j].targets[k].name, target) == 0)
                    return true;
    return false;
}

static bool is_down(const struct lane_view *v) {
    return v->open_until_us && (v->reason == REASON_UNAVAILABLE || v->reason == REASON_TIMEOUT);
}

static void see_up(const struct lane_view *v, void *user) {
    struct lanes *l = user;
    if (is_down(v))
        l->any_down = true;
    else
        map_put(&l->up, span_of(v->target), l);
}

static void tell_down(const struct lane_view *v, void *user) {
    struct lanes *l = user;
    char figures[FIGURES_MAX], text[ALERT_TEXT_MAX];
    if (!is_down(v) || map_find(&l->up, span_of(v->target)) || !is_named(l->gateway->conf, v->target))
        return;
    snprintf(figures, sizeof(figures), "\"reason\":\"%s\",\"tries\":%" PRIu64 ",\"failures\":%" PRIu64,
             reason_names[v->reason], v->tries, v->failures);
    snprintf(text, sizeof(text), "%s takes no calls for now: %s.", v->target, reason_names[v->reason]);
    alert_raise(l->gateway,
                &(struct alert){.event = ALERT_TARGET_DOWN, .scope = v->target, .text = text, .figures = figures});
}

static void look_at_targets(struct gateway *g, int64_t mono_us) {
    struct lanes l = {.gateway = g};
    map_init(&l.up);
    routing_each(g->routing, mono_us, see_up, &l);
    if (l.any_down)
        routing_each(g->routing, mono_us, tell_down, &l);
    map_fini(&l.up);
}

/* ---- the log ---- */

static void look_at_log(struct gateway *g) {
    char figures[FIGURES_MAX];
    bool healthy = audit_healthy(g->audit);
    int64_t lag = audit_lag(g->audit);
    g->watch->lag_looks = lag >= WATCH_LAG_RECORDS ? g->watch->lag_looks + 1 : 0;
    if (healthy && g->watch->lag_looks < WATCH_LAG_LOOKS)
        return;
    snprintf(figures, sizeof(figures), "\"lag_records\":%" PRId64 ",\"healthy\":%s", lag, healthy ? "true" : "false");
    alert_raise(g, &(struct alert){.event = ALERT_AUDIT_LAG,
                                   .scope = g->chain,
                                   .text = healthy ? "The disk does not keep up with the audit log."
                                                   : "The audit log cannot be written.",
                                   .figures = figures});
}

/* ---- keys ---- */

/* Told when so little is left, the least first; each once. */
static const struct {
    int64_t left_us;
    const char *mark;
} expiry_marks[] = {{US_PER_DAY, "1d"}, {7 * US_PER_DAY, "7d"}, {14 * US_PER_DAY, "14d"}};

static const char *expiry_mark(int64_t left_us) {
    for (size_t i = 0; i < ARRAY_LEN(expiry_marks); i++)
        if (left_us <= expiry_marks[i].left_us)
            return expiry_marks[i].mark;
    return NULL;
}

static void tell_expiry(struct gateway *g, const struct conf_key *k, int64_t now_us) {
    char when[CLOCK_TEXT_MAX], text[ALERT_TEXT_MAX];
    struct str figures;
    bool over = now_us >= k->expires_us;
    const char *mark = over ? "over" : expiry_mark(k->expires_us - now_us);
    if (!mark || k->revoked || k->demo || now_us - k->expires_us > US_PER_DAY)
        return;
    clock_text(k->expires_us, when);
    str_init(&figures, FIGURES_MAX);
    json_put_str(&figures, "team", k->team->name);
    json_put_str(&figures, "name", k->name);
    json_put_str(&figures, "owner", k->owner);
    json_put_str(&figures, "expires", when);
    snprintf(text, sizeof(text), "The key %s (%s) of team %s %s %s.", k->id, k->name, k->team->name,
             over ? "has expired at" : "expires at", when);
    alert_raise(g, &(struct alert){.event = over ? ALERT_KEY_EXPIRED : ALERT_KEY_EXPIRING,
                                   .scope = k->id,
                                   .mark = mark,
                                   .until_us = k->expires_us + 2 * US_PER_DAY,
                                   .text = text,
                                   .figures = figures.over ? NULL : figures.at});
    str_fini(&figures);
}

static void look_at_keys(struct gateway *g) {
    int64_t now_us = clock_wall_us();
    for (struct map_entry *e = map_next(&g->conf->keys_by_id, NULL); e; e = map_next(&g->conf->keys_by_id, e))
        tell_expiry(g, e->value, now_us);
}

/* ---- files that ${file:PATH} names ---- */

static void look_at_files(struct gateway *g) {
    struct watch *w = g->watch;
    if (!w->files) {
        w->files = file_watch_new();
        file_watch_take(w->files, g->conf->files, true);
    }
    const char *changed = file_watch_look(w->files);
    if (!changed)
        return;
    char path[CONF_STATE_PATH_MAX]; /* the watch takes new files with the new conf */
    struct str report;
    snprintf(path, sizeof(path), "%s", changed);
    str_init(&report, WATCH_REPORT_MAX);
    if (gateway_reread(g, &report))
        log_info("%s has changed and was read again digest=%s", path, g->conf->digest);
    else
        log_error("%s has changed; conf refused, the running one stays: %s", path, report.at ? report.at : "");
    str_fini(&report);
}

void watch_tick(struct gateway *g, int64_t mono_us) {
    struct watch *w = g->watch;
    if (mono_us < w->look_us)
        return;
    w->look_us = mono_us + WATCH_LOOK_US;
    look_at_files(g);
    look_at_targets(g, mono_us);
    look_at_log(g);
    if (mono_us < w->keys_us)
        return;
    w->keys_us = mono_us + WATCH_KEYS_US;
    look_at_keys(g);
}

/* ---- prices ---- */

/* Under a pattern the model is a caller's word: then the alias is named. */
void watch_price_unknown(const struct request *r) {
    const struct choice *c = &r->plan.choices[r->at];
    char text[ALERT_TEXT_MAX], figures[FIGURES_MAX];
    bool pattern = r->alias->pattern;
    snprintf(text, sizeof(text), "%s %s has no price: its calls are refused where a budget applies.",
             pattern ? "A target of the alias" : "The target", pattern ? r->alias->name : c->target);
    snprintf(figures, sizeof(figures), "\"alias\":\"%s\",\"backend\":\"%s\"", r->alias->name, c->backend->name);
    alert_raise(r->gateway, &(struct alert){.event = ALERT_PRICE_UNKNOWN,
                                            .scope = pattern ? r->alias->name : c->target,
                                            .text = text,
                                            .figures = figures});
}
