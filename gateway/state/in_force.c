/* Overrides in force: what each kind moves, and which of conf's values it stands on. A new kind is one row. Always true
 * here: what conf has changed since is in force no more, and worker 0 says so in state, log and audit log; being told that
 * an override is in force when it is changes nothing. */
#include "gateway/gateway.h"
#include "gateway/state/override.h"

#include <stdio.h>

/* ---- budgets ---- */

struct base { /* of the budget that is looked at; CONF_UNLIMITED: conf has it no more */
    int64_t nanousd;
    const char *name;
};

static void find_base(const struct budget_view *v, void *user) {
    struct base *b = user;
    if (strcmp(v->name, b->name) == 0 && v->limit_nanousd != CONF_UNLIMITED)
        b->nanousd = v->limit_nanousd - v->lifted_nanousd;
}

static bool budget_stands(struct gateway *g, const char *name, const struct override *v) {
    struct base base = {CONF_UNLIMITED, name};
    if (!g->conf->state_writable_budgets)
        return false;
    budget_each(g->budget, g->conf, clock_wall_us(), find_base, &base);
    return base.nanousd == v->base;
}

static void budget_turn(struct gateway *g, const char *name, const struct override *v, bool on) {
    budget_lift(g->budget, name, on ? v->number : 0, on ? v->until_us : 0);
}

/* ---- targets ---- */

/* "BACKEND[/MODEL][ KEY]" */
static struct span target_of(const char *name, struct span *key) {
    struct span rest = span_of(name), target;
    span_cut(&rest, ' ', &target);
    *key = rest;
    return target;
}

static bool drain_stands(struct gateway *g, const char *name, const struct override *v) {
    struct span key, target = target_of(name, &key), backend;
    (void)v;
    span_cut(&target, '/', &backend);
    return conf_find_backend(g->conf, backend) != NULL;
}

/* Routing counts monotone time. */
static void drain_turn(struct gateway *g, const char *name, const struct override *v, bool on) {
    struct span key, target = target_of(name, &key);
    bool ever = v->until_us == OVERRIDE_EVER_US;
    int64_t until_us = ever ? INT64_MAX : clock_mono_us() + v->until_us - clock_wall_us();
    if (on)
        routing_drain(g->routing, target, key, until_us);
    else
        routing_resume(g->routing, target, key);
}

/* ---- aliases ---- */

static int64_t number_of(struct sha256 *s) {
    uint8_t digest[SHA256_BYTES];
    uint64_t n = 0;
    sha256_end(s, digest);
    for (int i = 0; i < 8; i++)
        n = n << 8 | digest[i];
    return (int64_t)(n >> 1);
}

static void add_text(struct sha256 *s, const char *text) {
    sha256_add(s, span_from(text, strlen(text) + 1));
}

int64_t override_base_of_pin(const struct conf_alias *a) {
    struct sha256 *s = sha256_new();
    for (size_t i = 0; i < a->n_rungs; i++) {
        add_text(s, a->rungs[i].degraded ? "degraded" : "rung");
        for (size_t k = 0; k < a->rungs[i].n_targets; k++)
            add_text(s, a->rungs[i].targets[k].name);
    }
    add_text(s, "canary");
    add_text(s, a->canary.target.name ? a->canary.target.name : "");
    return number_of(s);
}

int64_t override_base_of_shift(const struct conf_alias *a) {
    const struct conf_canary *c = &a->canary;
    char share[32];
    struct sha256 *s = sha256_new();
    snprintf(share, sizeof(share), "%lld %d", (long long)c->share, c->by);
    add_text(s, c->target.name ? c->target.name : "");
    add_text(s, share);
    add_text(s, c->label ? c->label : "");
    return number_of(s);
}

const struct conf_target *override_pinned(const struct conf_alias *a, const char *name, bool *degraded) {
    *degraded = false;
    for (size_t i = 0; i < a->n_rungs; i++)
        for (size_t k = 0; k < a->rungs[i].n_targets; k++)
            if (strcmp(a->rungs[i].targets[k].name, name) == 0) {
                *degraded = a->rungs[i].degraded;
                return &a->rungs[i].targets[k];
            }
    return a->canary.target.name && strcmp(a->canary.target.name, name) == 0 ? &a->canary.target : NULL;
}

static const struct conf_alias *alias_named(const struct conf *c, const char *name) {
    for (size_t i = 0; i < c->n_aliases; i++)
        if (strcmp(c->aliases[i].name, name) == 0)
            return &c->aliases[i];
    return NULL;
}

static bool pin_stands(struct gateway *g, const char *name, const struct override *v) {
    const struct conf_alias *a = alias_named(g->conf, name);
    bool degraded;
    return a && v->base == override_base_of_pin(a) && override_pinned(a, v->text, &degraded);
}

static bool shift_stands(struct gateway *g, const char *name, const struct override *v) {
    const struct conf_alias *a = alias_named(g->conf, name);
    return a && a->canary.target.name && g->conf->state_writable_pointers && v->base == override_base_of_shift(a);
}

/* ---- the kinds ---- */

static bool pause_stands(struct gateway *g, const char *name, const struct override *v) {
    (void)v;
    return conf_find_team(g->conf, span_of(name)) != NULL;
}

static const struct kind {
    const char *prefix;
    bool (*stands)(struct gateway *g, const char *name, const struct override *v);
    void (*turn)(struct gateway *g, const char *name, const struct override *v, bool on); /* NULL: it is looked up */
} kinds[] = {{OVERRIDE_BUDGET, budget_stands, budget_turn},
             {OVERRIDE_PAUSE, pause_stands, NULL},
             {OVERRIDE_DRAIN, drain_stands, drain_turn},
             {OVERRIDE_PIN, pin_stands, NULL},
             {OVERRIDE_SHIFT, shift_stands, NULL}};

/* NULL: of a later version; it is kept for whoever knows it. */
static const struct kind *kind_of(const struct override *v, const char **name) {
    for (size_t i = 0; i < ARRAY_LEN(kinds); i++)
        if (span_starts(span_of(v->name), kinds[i].prefix)) {
            *name = v->name + strlen(kinds[i].prefix);
            return &kinds[i];
        }
    return NULL;
}

static bool stands(const struct override *v, void *gateway) {
    const char *name;
    const struct kind *k = kind_of(v, &name);
    return k && k->stands(gateway, name, v);
}

static void turn(const struct override *v, bool on, void *gateway) {
    const char *name;
    const struct kind *k = kind_of(v, &name);
    if (k && k->turn)
        k->turn(gateway, name, v, on);
}

/* ---- what follows conf and the clock ---- */

static void note(struct gateway *g, const struct override *v, const char *what) {
    char text[OVERRIDE_TEXT_MAX];
    if (g->worker > 0) /* worker 0 says it for all */
        return;
    log_info("override ended name=%s value=%s by=%s why=%s", v->name, override_text(v, text), v->who, what);
    audit_add(g->audit,
              &(struct audit_record){
                  .kind = AUDIT_NOTE, .what = "override_ended", .scope = v->name, .before = text, .reason = what},
              clock_wall_us());
    gateway_turn_soon(g);
}

static void on_conf_won(const struct override *v, void *gateway) {
    note(gateway, v, "conf's own value changed");
}

static void on_gone(const struct override *v, void *gateway) {
    turn(v, false, gateway);
}

static void on_over(const struct override *v, void *gateway) {
    turn(v, false, gateway);
    note(gateway, v, "its time was over");
}

void overrides_turn_off(struct gateway *g, const char *name) {
    struct override v = {0};
    snprintf(v.name, sizeof(v.name), "%s", name);
    turn(&v, false, g);
}

void overrides_review(struct gateway *g) {
    /* worker 0 ends them in the file that all follow */
    struct override_judge judge = {stands, turn, on_conf_won, g->worker == 0, g};
    overrides_judge(g->overrides, g->conf, clock_wall_us(), &judge);
}

void overrides_tick(struct gateway *g) {
    int64_t now_us = clock_wall_us();
    overrides_expire(g->overrides, now_us, on_over, g);
    if (g->workers > 1 && overrides_follow(g->overrides, g->conf, now_us, on_gone, g))
        overrides_review(g);
}
