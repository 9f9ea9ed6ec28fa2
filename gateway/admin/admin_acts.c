/* A budget raised, a team paused, for a while. Always true here: a raise stays within what conf allows. */
#include "gateway/admin/act.h"
#include "gateway/gateway.h"

#include <stdio.h>

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
    bool team = act_text(a, "team", s->scope, sizeof(s->scope)), key = false;
    bool organization = json_get(a->body, "organization").kind == JSON_TRUE;
    if (!team)
        key = act_text(a, "key", s->scope, sizeof(s->scope));
    s->level = team ? LEVEL_TEAM : key ? LEVEL_KEY : LEVEL_ORGANIZATION;
    s->period = -1;
    if (team + key + organization != 1)
        return act_decline(a, ERR_INVALID, "Say whose budget: one of team, key (its id) and organization.");
    if (json_get(a->body, "period").kind == JSON_NONE)
        return true;
    if (act_text(a, "period", period, sizeof(period)))
        for (int p = PERIOD_HOUR; p <= PERIOD_TOTAL; p++)
            if (strcmp(period, period_names[p]) == 0)
                s->period = p;
    return s->period >= 0 || act_decline(a, ERR_INVALID, "period: hour, day, week, month or total.");
}

static bool find_budget(struct act *a, struct sought *s) {
    if (!read_scope(a, s))
        return false;
    budget_each(a->call->gateway->budget, a->call->gateway->conf, a->to.since_us, seek, s);
    if (s->n == 0)
        return act_decline(a, ERR_NOT_FOUND, "There is no such budget.");
    return s->n == 1 || act_decline(a, ERR_INVALID, "There are several budgets: say which, with period.");
}

/* "50 USD", "50USD" or "20%" of conf's limit. */
static bool read_amount(struct act *a, int64_t base_nanousd, int64_t *out) {
    char text[64];
    int64_t share = 0;
    bool good = act_text(a, "by", text, sizeof(text));
    struct span s = span_trim(span_of(good ? text : ""));
    if (s.n && s.at[s.n - 1] == '%') {
        s.n--;
        good = money_decimal(span_trim(s), 2, &share, NULL) && share <= 100 * FACTOR_ONE;
        *out = base_nanousd / FACTOR_ONE * share + base_nanousd % FACTOR_ONE * share / FACTOR_ONE;
    } else {
        good = s.n > 3 && span_is(span_from(s.at + s.n - 3, 3), "USD") &&
               money_decimal(span_trim(span_from(s.at, s.n - 3)), 9, out, NULL);
    }
    return good || act_decline(a, ERR_INVALID, "by: money like 50 USD, or a share like 20%; 0% ends a raise.");
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
        return act_decline(a, ERR_TARGET_FORBIDDEN,
                           "conf does not let budgets be raised: state.writable lacks budgets.");
    if (by <= most)
        return true;
    snprintf(text, sizeof(text), "conf's raise_limit lets this budget be raised by %s USD at the most.",
             money_text(most, money));
    return act_decline(a, ERR_TARGET_FORBIDDEN, text);
}

static void say_raised(struct act *a, const struct sought *s, int64_t base) {
    struct str *out = &a->call->out;
    str_puts(out, "{");
    json_put_str(out, "budget", s->name);
    money_put(out, "before", s->found.limit_nanousd);
    money_put(out, "limit", base + a->to.number);
    money_put(out, "conf_limit", base);
    act_say_until(a);
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
    money_text(s.found.limit_nanousd, before);
    money_text(base + a->to.number, after);
    a->team = s.level == LEVEL_TEAM ? s.scope : NULL;
    a->scope = s.name;
    if (a->to.number ? act_do(a, "budget raised", before, after) : act_undo(a, "budget raised", before, after))
        say_raised(a, &s, base);
}

void admin_post_raise(struct admin_call *c) {
    struct act a;
    if (act_begin(c, &a, ACT_FOR_A_WHILE))
        raise_budget(&a);
    act_fini(&a);
}

/* ---- teams ---- */

static void turn_team(struct act *a, const char *team, bool pause) {
    bool before = overrides_find(a->call->gateway->overrides, a->to.name, a->to.since_us) != NULL;
    const char *was = before ? "paused" : "running";
    a->team = team;
    if (!(pause ? act_do(a, "team paused", was, "paused") : act_undo(a, "team resumed", was, "running")))
        return;
    str_puts(&a->call->out, "{");
    json_put_str(&a->call->out, "team", team);
    json_put_bool(&a->call->out, "paused", pause);
    act_say_until(a);
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
    if (act_begin(c, &a, ACT_MAY_STAY)) {
        snprintf(a.to.name, sizeof(a.to.name), OVERRIDE_PAUSE "%s", team->name);
        turn_team(&a, team->name, pause);
    }
    act_fini(&a);
}
