/* Decisions in words and JSON. Always true here: nothing is decided; what is printed is what the steps left in the request,
 * and names that the caller may not see are in none of it. */
#include "gateway/explain.h"

#include "gateway/gateway.h"

#include <inttypes.h>
#include <stdio.h>

/* ---- money ---- */

struct levels {
    const struct request *r;
    const struct explain_sees *sees;
    struct str *out;
    bool json, first;
};

static const char *owner_at(const struct request *r, enum budget_level level) {
    return level == LEVEL_KEY ? conf_key_account(r->key) : level == LEVEL_TEAM ? r->key->team->name : "organization";
}

/* What the explanation itself holds for a moment is nobody's spending. */
static int64_t held_by_others(const struct request *r, const struct budget_view *v) {
    for (int i = 0; r->hold.lease.open && i < r->hold.lease.n; i++)
        if (strcmp(r->hold.lease.scopes[i].name, v->name) == 0)
            return v->held_nanousd - r->hold.lease.nanousd;
    return v->held_nanousd;
}

static void put_level(const struct budget_view *v, void *user) {
    struct levels *l = user;
    char limit[MONEY_TEXT_MAX], spent[MONEY_TEXT_MAX], held[MONEY_TEXT_MAX];
    if (!l->sees->budgets[v->level] || v->limit_nanousd == CONF_UNLIMITED ||
        strcmp(v->scope, owner_at(l->r, v->level)) != 0)
        return;
    int64_t others = held_by_others(l->r, v);
    if (!l->json) {
        str_printf(l->out, "  %s, a %s: %s USD, of which %s are spent and %s held\n", budget_level_names[v->level],
                   period_names[v->period], money_text(v->limit_nanousd, limit), money_text(v->settled_nanousd, spent),
                   money_text(others, held));
        return;
    }
    str_puts(l->out, l->first ? "{" : ",{");
    l->first = false;
    json_put_str(l->out, "level", budget_level_names[v->level]);
    json_put_str(l->out, "period", period_names[v->period]);
    money_put(l->out, "limit", v->limit_nanousd);
    money_put(l->out, "spent", v->settled_nanousd);
    money_put(l->out, "held", others);
    str_putc(l->out, '}');
}

static void each_level(const struct request *r, const struct explain_sees *sees, bool json, struct str *out) {
    struct levels l = {r, sees, out, json, true};
    budget_each(r->gateway->budget, r->conf, clock_wall_us(), put_level, &l);
}

static bool may_name_prices(const struct explain_sees *sees) {
    return sees->cost;
}

static void bound_of(const struct request *r, const struct choice *c, struct price *price, struct bound *out) {
    struct conf_model facts = conf_model_facts(r->conf, c->backend, c->model);
    *price = conf_price(r->conf, c->backend, c->model, r->began_wall_us);
    budget_bound(r->conf, price, &r->call.size, &facts, out);
}

static void words_of_bounds(const struct request *r, const struct explain_sees *sees, struct str *out) {
    char text[MONEY_TEXT_MAX];
    struct price price;
    struct bound bound;
    for (int i = 0; i < r->plan.n && may_name_prices(sees); i++) {
        bound_of(r, &r->plan.choices[i], &price, &bound);
        str_printf(out, "hold on %s: ", sees->plan.targets ? r->plan.choices[i].target : "a target");
        if (bound.why[0])
            str_printf(out, "no bound: %s; refused with 403 price_unknown where a budget applies\n", bound.why);
        else
            str_printf(out, "at most %s USD (%" PRId64 " input and %" PRId64 " output tokens; price %s)\n",
                       money_text(bound.nanousd, text), bound.in_tok, bound.out_tok, price.digest);
    }
}

static void put_hold(const struct request *r, struct str *out) {
    str_putc(out, '{');
    money_put(out, "usd", r->hold.lease.nanousd);
    json_put_i64(out, "nanousd", r->hold.lease.nanousd);
    json_put_i64(out, "input_tokens", r->bound.in_tok);
    json_put_i64(out, "output_tokens", r->bound.out_tok);
    json_put_str(out, "price", r->price.known ? r->price.digest : NULL);
    str_putc(out, '}');
}

/* ---- the whole ---- */

static const struct choice *chosen(const struct request *r) {
    return r->err || r->at < 0 || r->plan.n == 0 ? NULL : &r->plan.choices[r->at];
}

static void words_of_verdict(const struct request *r, const struct explain_sees *sees, struct str *out) {
    const struct choice *c = chosen(r);
    if (r->err)
        str_printf(out, "refused: %d %s\n  %s\n", error_status(r->dialect, r->err), err_code(r->err),
                   r->message[0] ? r->message : err_row(r->err)->text);
    else if (c && sees->plan.targets)
        str_printf(out, "tried first: %s\n", c->target);
    if (!r->err && r->down != REASON_N)
        str_printf(out, "degraded: %s\n", reason_names[r->down]);
    if (!r->err && r->call.clamped_tok)
        str_printf(out, "clamped: max_tokens=%" PRId64 "\n", r->call.clamped_tok);
}

static void words_of_cache(const struct request *r, struct str *out) {
    char ttl[CLOCK_TEXT_MAX];
    if (r->cache_rule.may)
        str_printf(out, "cache: yes, for %s\n", clock_duration_text(r->cache_rule.ttl_us, ttl));
    else if (r->cache_rule.why)
        str_printf(out, "cache: no, %s\n", r->cache_rule.why);
}

static void words_of_limits(const struct request *r, struct str *out) {
    const struct rate_limit_view *v = &r->rate.view;
    if (v->limit_requests >= 0)
        str_printf(out, "requests a minute: %" PRId64 " of %" PRId64 " are left\n", v->remaining_requests,
                   v->limit_requests);
    if (v->limit_tokens >= 0)
        str_printf(out, "tokens a minute: %" PRId64 " of %" PRId64 " are left\n", v->remaining_tokens, v->limit_tokens);
}

static void put_words(const struct request *r, const struct explain_sees *sees, struct str *out) {
    char money[MONEY_TEXT_MAX];
    str_printf(out, "alias: %s\n", r->alias->name);
    plan_print(&r->plan, &sees->plan, false, out);
    words_of_verdict(r, sees, out);
    words_of_bounds(r, sees, out);
    if (!r->err && sees->cost)
        str_printf(out, "held: %s USD\n", money_text(r->hold.lease.nanousd, money));
    each_level(r, sees, false, out);
    words_of_cache(r, out);
    words_of_limits(r, out);
}

static void put_limits(const struct request *r, struct str *out) {
    const struct rate_limit_view *v = &r->rate.view;
    str_putc(out, '{');
    json_put_i64(out, "requests", v->limit_requests);
    json_put_i64(out, "requests_left", v->remaining_requests);
    json_put_i64(out, "tokens", v->limit_tokens);
    json_put_i64(out, "tokens_left", v->remaining_tokens);
    str_putc(out, '}');
}

static void put_verdict(const struct request *r, const struct explain_sees *sees, struct str *out) {
    const struct choice *c = chosen(r);
    json_put_str(out, "decision", r->err ? "refused" : "served");
    json_put_i64(out, "status", r->err ? error_status(r->dialect, r->err) : 200);
    if (r->err) {
        json_put_str(out, "code", err_code(r->err));
        json_put_str(out, "message", r->message[0] ? r->message : err_row(r->err)->text);
        return;
    }
    if (sees->plan.targets)
        json_put_str(out, "target", c ? c->target : NULL);
    if (sees->plan.keys)
        json_put_str(out, "upstream_key", c && c->key ? c->key->name : NULL);
    json_put_i64(out, "choice", r->at + 1);
    json_put_str(out, "degraded", r->down != REASON_N ? reason_names[r->down] : NULL);
    json_put_i64(out, "clamped", r->call.clamped_tok);
}

static void put_cache(const struct request *r, struct str *out) {
    str_putc(out, '{');
    json_put_bool(out, "may", r->cache_rule.may);
    json_put_str(out, "why", r->cache_rule.may ? NULL : r->cache_rule.why);
    json_put_i64(out, "ttl_s", r->cache_rule.may ? r->cache_rule.ttl_us / US_PER_S : 0);
    str_putc(out, '}');
}

void explain_put(const struct request *r, const struct explain_sees *sees, struct str *out) {
    struct str words;
    str_init(&words, EXPLAIN_MAX / 2);
    put_words(r, sees, &words);
    str_putc(out, '{');
    json_put_str(out, "object", "tollgate.explanation");
    json_put_str(out, "alias", r->alias->name);
    json_put_str(out, "arm", arm_names[r->plan.arm.kind]);
    put_verdict(r, sees, out);
    json_put_name(out, "plan");
    plan_print(&r->plan, &sees->plan, true, out);
    json_put_name(out, "cache");
    put_cache(r, out);
    if (!r->err && sees->cost) {
        json_put_name(out, "hold");
        put_hold(r, out);
    }
    json_put_raw(out, "budgets", SPAN("["));
    each_level(r, sees, true, out);
    str_putc(out, ']');
    json_put_name(out, "limits");
    put_limits(r, out);
    json_put_span(out, "words", str_span(&words));
    str_puts(out, "}\n");
    str_fini(&words);
}

enum walk explain_answer(struct request *r) {
    bool all = !r->client;
    const struct conf *c = r->conf;
    struct explain_sees sees = {{c->disclose.target, false},
                                c->disclose.cost,
                                {c->disclose.budget_key, c->disclose.budget_team, c->disclose.budget_organization}};
    str_clear(&r->out);
    explain_put(r, all ? &EXPLAIN_ALL : &sees, &r->out);
    r->err = ERR_NONE;
    r->status = 200;
    r->retry_after_us = 0;
    r->no_retry = false;
    r->content_type = "application/json";
    return go(r, STATE_SETTLE);
}
