/* Acts that turn something for a while over the admin port: a budget raised, a team paused. Always true here: the admin
 * record stands in the chain before the act is in force, and an act that cannot be kept in state is not in force. */
#include "gateway/admin/admin.h"
#include "gateway/gateway.h"
#include "gateway/state/override.h"

#include <stdio.h>

struct act {
    struct admin_call *call;
    struct arena arena;
    struct json body;
    struct override to;
};

static bool decline(struct admin_call *c, enum err e, const char *text) {
    admin_say(c, e, text);
    return false;
}

static bool take_text(struct act *a, const char *name, char *out, size_t n) {
    struct json v = json_get(a->body, name);
    struct span text = v.kind == JSON_STRING ? json_text(v, &a->arena) : SPAN_NONE;
    if (!text.at || !text.n || text.n >= n || memchr(text.at, '\n', text.n))
        return false;
    snprintf(out, n, "%.*s", SPAN_ARG(text));
    return true;
}

/* What every act says: why, and for how long. */
static bool read_act(struct admin_call *c, struct act *a) {
    char wait[CLOCK_TEXT_MAX];
    int64_t for_us = OVERRIDE_FOR_US;
    struct json asked;
    *a = (struct act){.call = c};
    arena_init(&a->arena, ADMIN_BODY_MAX);
    if (!json_check(str_span(&c->body), JSON_DEPTH_MAX, &a->body, NULL) || a->body.kind != JSON_OBJECT)
        return decline(c, ERR_INVALID, "The body is a JSON object.");
    if (!take_text(a, "reason", a->to.reason, sizeof(a->to.reason)))
        return decline(c, ERR_INVALID, "reason: say why, on one line of at most 255 bytes.");
    asked = json_get(a->body, "for");
    if (asked.kind != JSON_NONE &&
        (!take_text(a, "for", wait, sizeof(wait)) || !clock_parse_duration(span_of(wait), &for_us) || for_us <= 0 ||
         for_us > OVERRIDE_FOR_MAX_US))
        return decline(c, ERR_INVALID, "for: a time like 30m, 1h or 2d, at most 366d.");
    snprintf(a->to.who, sizeof(a->to.who), "%s", c->who);
    a->to.since_us = clock_wall_us();
    a->to.until_us = a->to.since_us + for_us;
    return true;
}

static bool record(struct act *a, const char *what, const char *team, const char *scope, const char *before,
                   const char *after) {
    struct admin_call *c = a->call;
    uint64_t seq = audit_add(c->gateway->audit,
                             &(struct audit_record){.kind = AUDIT_ADMIN,
                                                    .who = c->who,
                                                    .role = admin_role(c),
                                                    .what = what,
                                                    .team = team,
                                                    .scope = scope,
                                                    .reason = a->to.reason,
                                                    .before = before,
                                                    .after = after,
                                                    .client = exchange_client(c->x)},
                             clock_wall_us());
    gateway_turn_soon(c->gateway);
    a->to.seq = (int64_t)seq;
    return seq || decline(c, ERR_AUDIT, "The act cannot be recorded.");
}

static bool put_in_force(struct act *a) {
    struct gateway *g = a->call->gateway;
    bool kept = a->to.since_us < a->to.until_us ? overrides_set(g->overrides, g->conf, &a->to)
                                                : overrides_end(g->overrides, g->conf, a->to.name);
    return kept ||
           decline(a->call, ERR_INTERNAL, "The state directory cannot be written, or holds too many overrides.");
}

static void say_until(struct act *a) {
    char when[CLOCK_TEXT_MAX];
    bool over = a->to.since_us >= a->to.until_us;
    json_put_str(&a->call->out, "until", over ? NULL : clock_text(a->to.until_us, when));
    json_put_i64(&a->call->out, "admin_seq", a->to.seq);
    str_puts(&a->call->out, "}\n");
}

/* ---- budgets ---- */

struct sought { /* the one budget that an act means */
    enum budget_level level;
    char scope[80];
    int period; /* -1: whichever there is, if there is one */
    int n;
    struct budget_view found;
    char name[OVERRIDE_NAME_MAX - sizeof(OVERRIDE_BUDGET)];
};

static void seek(const struct budget_view *v, void *user) {
    struct sought *s = user;
    bool level = v->level == s->level && (v->level == LEVEL_ORGANIZATION || strcmp(v->scope, s->scope) == 0);
    if (!level || v->limit_nanousd == CONF_UNLIMITED || (s->period >= 0 && v->period != (enum period)s->period))
        return;
    if (s->n && strcmp(s->name, v->name) == 0)
        return; /* an older period of the same budget, in which calls still run */
    s->n++;
    s->found = *v;
    snprintf(s->name, sizeof(s->name), "%s", v->name);
}

static bool read_scope(struct act *a, struct sought *s) {
    char period[16];
    bool team = take_text(a, "team", s->scope, sizeof(s->scope)), key = false;
    bool organization = json_get(a->body, "organization").kind == JSON_TRUE;
    if (!team)
        key = take_text(a, "key", s->scope, sizeof(s->scope));
    s->level = team ? LEVEL_TEAM : key ? LEVEL_KEY : LEVEL_ORGANIZATION;
    s->period = -1;
    if (team + key + organization != 1)
        return decline(a->call, ERR_INVALID, "Say whose budget: one of team, key (its id) and organization.");
    if (json_get(a->body, "period").kind == JSON_NONE)
        return true;
    if (take_text(a, "period", period, sizeof(period)))
        for (int p = PERIOD_HOUR; p <= PERIOD_TOTAL; p++)
            if (strcmp(period, period_names[p]) == 0)
                s->period = p;
    return s->period >= 0 || decline(a->call, ERR_INVALID, "period: hour, day, week, month or total.");
}

static bool find_budget(struct act *a, struct sought *s) {
    if (!read_scope(a, s))
        return false;
    budget_each(a->call->gateway->budget, a->call->gateway->conf, a->to.since_us, seek, s);
    if (s->n == 0)
        return decline(a->call, ERR_NOT_FOUND, "There is no such budget.");
    return s->n == 1 || decline(a->call, ERR_INVALID, "There are several budgets: say which, with period.");
}

/* "50 USD", "50USD" or "20%" of conf's limit. */
static bool read_amount(struct act *a, int64_t base_nanousd, int64_t *out) {
    char text[64];
    int64_t share = 0;
    bool good = take_text(a, "by", text, sizeof(text));
    struct span s = span_trim(span_of(good ? text : ""));
    if (s.n && s.at[s.n - 1] == '%') {
        s.n--;
        good = money_decimal(span_trim(s), 2, &share, NULL) && share <= 100 * FACTOR_ONE;
        *out = base_nanousd / FACTOR_ONE * share + base_nanousd % FACTOR_ONE * share / FACTOR_ONE;
    } else {
        good = s.n > 3 && span_is(span_from(s.at + s.n - 3, 3), "USD") &&
               money_decimal(span_trim(span_from(s.at, s.n - 3)), 9, out, NULL);
    }
    return good || decline(a->call, ERR_INVALID, "by: money like 50 USD, or a share like 20%; 0% ends a raise.");
}

static int64_t raise_share(const struct conf *c, const struct sought *s) {
    const struct conf_key *key = s->level == LEVEL_KEY ? map_find(&c->keys_by_id, span_of(s->scope)) : NULL;
    const struct conf_team *team = key ? key->team : conf_find_team(c, span_of(s->scope));
    if (s->level == LEVEL_ORGANIZATION)
        return c->organization_raise_limit;
    return team ? team->raise_limit : 0;
}

static bool may_raise(struct act *a, const struct sought *s, int64_t base, int64_t by) {
    const struct conf *c = a->call->gateway->conf;
    int64_t share = raise_share(c, s), most = base / FACTOR_ONE * share + base % FACTOR_ONE * share / FACTOR_ONE;
    char text[160], money[MONEY_TEXT_MAX];
    if (!c->state_writable_budgets)
        return decline(a->call, ERR_TARGET_FORBIDDEN,
                       "conf does not let budgets be raised: state.writable lacks budgets.");
    if (by <= most)
        return true;
    snprintf(text, sizeof(text), "conf's raise_limit lets this budget be raised by %s USD at the most.",
             money_text(most, money));
    return decline(a->call, ERR_TARGET_FORBIDDEN, text);
}

static void say_raised(struct act *a, const struct sought *s, int64_t base) {
    struct str *out = &a->call->out;
    str_puts(out, "{");
    json_put_str(out, "budget", s->name);
    money_put(out, "before", s->found.limit_nanousd);
    money_put(out, "limit", base + a->to.number);
    money_put(out, "conf_limit", base);
    say_until(a);
}

static void raise_budget(struct act *a) {
    struct sought s = {0};
    char before[MONEY_TEXT_MAX], after[MONEY_TEXT_MAX];
    if (!find_budget(a, &s))
        return;
    int64_t base = s.found.limit_nanousd - s.found.lifted_nanousd;
    if (!read_amount(a, base, &a->to.number) || !may_raise(a, &s, base, a->to.number))
        return;
    a->to.base = base;
    snprintf(a->to.name, sizeof(a->to.name), OVERRIDE_BUDGET "%s", s.name);
    if (a->to.number == 0)
        a->to.until_us = a->to.since_us;
    money_text(s.found.limit_nanousd, before);
    money_text(base + a->to.number, after);
    if (!record(a, "budget raised", s.level == LEVEL_TEAM ? s.scope : NULL, s.name, before, after) || !put_in_force(a))
        return;
    budget_lift(a->call->gateway->budget, s.name, a->to.number, a->to.until_us);
    say_raised(a, &s, base);
}

void admin_post_raise(struct admin_call *c) {
    struct act a;
    if (read_act(c, &a))
        raise_budget(&a);
    arena_fini(&a.arena);
}

/* ---- teams ---- */

static void turn_team(struct act *a, const char *team, bool pause) {
    bool before = overrides_find(a->call->gateway->overrides, a->to.name, a->to.since_us) != NULL;
    if (!pause)
        a->to.until_us = a->to.since_us;
    if (!record(a, pause ? "team paused" : "team resumed", team, NULL, before ? "paused" : "running",
                pause ? "paused" : "running") ||
        !put_in_force(a))
        return;
    str_puts(&a->call->out, "{");
    json_put_str(&a->call->out, "team", team);
    json_put_bool(&a->call->out, "paused", pause);
    say_until(a);
}

void admin_post_team(struct admin_call *c) {
    struct act a;
    struct span rest = c->rest, name = SPAN_NONE;
    const struct conf_team *team = span_cut(&rest, '/', &name) ? conf_find_team(c->gateway->conf, name) : NULL;
    bool pause = span_is(rest, "pause");
    if (!pause && !span_is(rest, "resume")) {
        admin_say(c, ERR_NOT_FOUND, NULL);
        return;
    }
    if (!team) {
        admin_say(c, ERR_NOT_FOUND, "There is no such team.");
        return;
    }
    if (read_act(c, &a)) {
        snprintf(a.to.name, sizeof(a.to.name), OVERRIDE_PAUSE "%s", team->name);
        turn_team(&a, team->name, pause);
    }
    arena_fini(&a.arena);
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

static void on_gone(const struct override *v, void *user) {
    struct gateway *g = user;
    if (span_starts(span_of(v->name), OVERRIDE_BUDGET))
        budget_lift(g->budget, v->name + strlen(OVERRIDE_BUDGET), 0, 0);
}

static void on_over(const struct override *v, void *user) {
    struct gateway *g = user;
    on_gone(v, g);
    note(g, v, "its time was over");
}

void overrides_tick(struct gateway *g) {
    int64_t now_us = clock_wall_us();
    overrides_expire(g->overrides, now_us, on_over, g);
    if (g->workers > 1 && overrides_follow(g->overrides, g->conf, now_us, on_gone, g))
        overrides_review(g);
}

struct review {
    struct gateway *g;
    struct override gone[64];
    size_t n;
    int64_t base; /* of the budget that is looked at; CONF_UNLIMITED: conf has it no more */
    const char *name;
};

static void find_base(const struct budget_view *v, void *user) {
    struct review *w = user;
    if (strcmp(v->name, w->name) == 0 && v->limit_nanousd != CONF_UNLIMITED)
        w->base = v->limit_nanousd - v->lifted_nanousd;
}

static void review_one(const struct override *v, void *user) {
    struct review *w = user;
    if (!span_starts(span_of(v->name), OVERRIDE_BUDGET) || w->n == ARRAY_LEN(w->gone))
        return;
    w->name = v->name + strlen(OVERRIDE_BUDGET);
    w->base = CONF_UNLIMITED;
    budget_each(w->g->budget, w->g->conf, clock_wall_us(), find_base, w);
    bool stands = w->base == v->base && w->g->conf->state_writable_budgets;
    budget_lift(w->g->budget, w->name, stands ? v->number : 0, v->until_us);
    if (!stands)
        w->gone[w->n++] = *v;
}

void overrides_review(struct gateway *g) {
    struct review w = {.g = g};
    overrides_each(g->overrides, clock_wall_us(), review_one, &w);
    if (g->worker > 0) /* worker 0 ends them in the file that all follow */
        return;
    for (size_t i = 0; i < w.n; i++) {
        if (!overrides_end(g->overrides, g->conf, w.gone[i].name))
            log_error("an override cannot be ended in state name=%s", w.gone[i].name);
        note(g, &w.gone[i], "conf's own value changed");
    }
}
