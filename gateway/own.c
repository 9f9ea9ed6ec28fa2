/* The gateway's own answers: alive, ready, the models a key may call, the key itself. Free, and open when a budget is gone. */
#include "gateway/gateway.h"
#include "gateway/lookup.h"
#include "gateway/recent.h"
#include "gateway/routes.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

void answer_alive(struct request *r) {
    r->content_type = "text/plain";
    r->status = 200;
    str_puts(&r->out, "ok\n");
}

void answer_ready(struct request *r) {
    bool ready = gateway_ready(r->gateway, NULL);
    r->content_type = "text/plain";
    r->status = ready ? 200 : 503;
    str_puts(&r->out, ready ? "ready\n" : "draining\n");
}

/* ---- models ---- */

struct model_list {
    const struct request *r;
    struct map seen;    /* name -> the alias it reaches */
    const char **names; /* owned array, borrowed names */
    size_t n, capacity;
};

static void add_model(struct model_list *l, const char *name) {
    struct span captured;
    const struct conf_alias *alias = conf_find_alias(l->r->conf, span_of(name), &captured);
    if (!alias || !conf_may_call(l->r->key, span_of(name)) || map_put(&l->seen, span_of(name), (void *)(uintptr_t)1))
        return;
    if (l->n == l->capacity) {
        l->capacity = l->capacity ? 2 * l->capacity : 32;
        l->names = xrealloc(l->names, l->capacity * sizeof(*l->names));
    }
    l->names[l->n++] = name;
}

static int name_order(const void *a, const void *b) {
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Aliases by name; patterns are never listed as such but by the names of the price table that they reach. */
static void list_models(struct model_list *l, const struct request *r) {
    *l = (struct model_list){.r = r};
    for (size_t i = 0; i < r->conf->n_aliases; i++)
        if (!r->conf->aliases[i].pattern)
            add_model(l, r->conf->aliases[i].name);
    for (size_t i = 0; i < r->conf->n_prices; i++)
        add_model(l, r->conf->prices[i].model);
    if (l->n)
        qsort(l->names, l->n, sizeof(*l->names), name_order);
}

static void free_models(struct model_list *l) {
    map_fini(&l->seen);
    free(l->names);
}

/* An adapter says what it is and what it stands on, as vLLM's list does. */
static void put_origin(struct str *out, const struct request *r, const char *name) {
    struct span captured;
    const struct conf_alias *a = conf_find_alias(r->conf, span_of(name), &captured);
    const struct conf_target *t = a && a->n_rungs ? &a->rungs[0].targets[0] : NULL;
    if (!t || a->pattern || t->backend->protocol != PROTOCOL_DECODE || !r->conf->disclose.target)
        return;
    json_put_str(out, "root", t->name);
    json_put_str(out, "parent", strcmp(t->model, t->backend->decode.name) == 0 ? NULL : t->backend->decode.name);
}

/* One object that the SDKs of both vendors read. */
static void put_model(struct str *out, const struct request *r, const char *name) {
    char when[CLOCK_TEXT_MAX];
    int64_t created_us = r->gateway->started_us;
    str_puts(out, "{");
    json_put_str(out, "id", name);
    json_put_str(out, "object", "model");
    json_put_str(out, "type", "model");
    json_put_i64(out, "created", created_us / US_PER_S);
    json_put_str(out, "owned_by", "tollgate");
    json_put_str(out, "display_name", name);
    json_put_str(out, "created_at", clock_text(created_us / US_PER_S * US_PER_S, when));
    put_origin(out, r, name);
    str_puts(out, "}");
}

void answer_models(struct request *r) {
    struct model_list l;
    list_models(&l, r);
    str_puts(&r->out, "{\"object\":\"list\",\"data\":[");
    for (size_t i = 0; i < l.n; i++) {
        str_puts(&r->out, i ? "," : "");
        put_model(&r->out, r, l.names[i]);
    }
    str_puts(&r->out, "]");
    json_put_bool(&r->out, "has_more", false);
    json_put_str(&r->out, "first_id", l.n ? l.names[0] : NULL);
    json_put_str(&r->out, "last_id", l.n ? l.names[l.n - 1] : NULL);
    str_puts(&r->out, "}");
    r->status = 200;
    free_models(&l);
}

void answer_model(struct request *r) {
    struct span captured;
    if (conf_find_alias(r->conf, r->rest, &captured) && conf_may_call(r->key, r->rest)) {
        put_model(&r->out, r, r->rest.at);
        r->status = 200;
        return;
    }
    r->err = ERR_MODEL;
    snprintf(r->message, sizeof(r->message), "The model '%.*s' does not exist or this key may not use it.",
             (int)(r->rest.n < 128 ? r->rest.n : 128), r->rest.at);
    snprintf(r->param, sizeof(r->param), "model");
}

/* ---- the key ---- */

static void put_models(struct request *r) {
    struct model_list l;
    list_models(&l, r);
    for (size_t i = 0; i < l.n; i++) {
        str_puts(&r->out, i ? "," : "");
        json_put_text(&r->out, span_of(l.names[i]));
    }
    free_models(&l);
}

struct key_view {
    struct request *r;
    bool first;
};

static bool is_callers(const struct request *r, const struct budget_view *v) {
    if (v->level == LEVEL_KEY)
        return strcmp(v->scope, conf_key_account(r->key)) == 0;
    return v->level == LEVEL_TEAM && strcmp(v->scope, r->key->team->name) == 0;
}

static void put_budget(const struct budget_view *v, void *user) {
    struct key_view *view = user;
    struct str *out = &view->r->out;
    char when[CLOCK_TEXT_MAX];
    if (v->limit_nanousd == CONF_UNLIMITED || !is_callers(view->r, v))
        return;
    int64_t left = v->limit_nanousd - v->settled_nanousd - v->held_nanousd;
    str_puts(out, view->first ? "{" : ",{");
    view->first = false;
    json_put_str(out, "level", budget_level_names[v->level]);
    json_put_str(out, "period", period_names[v->period]);
    money_put(out, "limit", v->limit_nanousd);
    money_put(out, "spent", v->settled_nanousd);
    money_put(out, "held", v->held_nanousd);
    money_put(out, "remaining", left > 0 ? left : 0);
    json_put_str(out, "resets", v->period_to_us == INT64_MAX ? NULL : clock_text(v->period_to_us, when));
    str_puts(out, "}");
}

static void put_spend(struct str *out, const char *name, const struct spend_view *v) {
    json_put_name(out, name);
    str_puts(out, "{");
    money_put(out, "day", v->day_nanousd);
    money_put(out, "week", v->week_nanousd);
    money_put(out, "month", v->month_nanousd);
    money_put(out, "total", v->total_nanousd);
    str_puts(out, "}");
}

/* The tightest budget of key and team, for a reader that wants two numbers. */
struct tightest {
    const struct request *r;
    const char *period;
    int64_t limit, spent, left, resets_us;
};

static void see_tightest(const struct budget_view *v, void *user) {
    struct tightest *t = user;
    int64_t left = v->limit_nanousd - v->settled_nanousd - v->held_nanousd;
    if (v->limit_nanousd == CONF_UNLIMITED || !is_callers(t->r, v) || (t->period && left >= t->left))
        return;
    *t = (struct tightest){
        t->r, period_names[v->period], v->limit_nanousd, v->settled_nanousd, left > 0 ? left : 0, v->period_to_us};
}

static struct tightest tightest_of(const struct request *r) {
    struct tightest t = {.r = r};
    budget_each(r->gateway->budget, r->conf, r->began_wall_us, see_tightest, &t);
    return t;
}

static void put_count(struct str *out, const char *name, int64_t limit) {
    if (limit == CONF_UNLIMITED)
        json_put_str(out, name, NULL);
    else
        json_put_i64(out, name, limit);
}

static void put_rates(struct str *out, const char *name, const struct conf_limits *l) {
    json_put_name(out, name);
    str_puts(out, "{");
    put_count(out, "requests_per_minute", l->requests_per_minute);
    put_count(out, "tokens_per_minute", l->tokens_per_minute);
    put_count(out, "in_flight", l->in_flight);
    str_puts(out, "}");
}

static void put_standing(struct request *r) {
    struct tightest t = tightest_of(r);
    json_put_str(&r->out, "owner", r->key->owner);
    json_put_str(&r->out, "role", r->key->role == KEY_OWNER ? "owner" : "member");
    if (t.period) {
        money_put(&r->out, "limit", t.limit);
        money_put(&r->out, "remaining", t.left);
    } else {
        json_put_str(&r->out, "limit", NULL);
        json_put_str(&r->out, "remaining", NULL);
    }
    put_rates(&r->out, "rate_limits", &r->key->limits);
    put_rates(&r->out, "team_rate_limits", &r->key->team->limits);
}

void answer_key(struct request *r) {
    struct spend_view of_key, of_team;
    struct key_view view = {r, true};
    char when[CLOCK_TEXT_MAX];
    budget_spend(r->gateway->budget, span_of(conf_key_account(r->key)), span_of(r->key->team->name), r->began_wall_us,
                 &of_key, &of_team);
    str_puts(&r->out, "{");
    json_put_str(&r->out, "id", r->key->id);
    json_put_str(&r->out, "name", r->key->name);
    json_put_str(&r->out, "team", r->key->team->name);
    json_put_str(&r->out, "expires", r->key->expires_us == INT64_MAX ? NULL : clock_text(r->key->expires_us, when));
    put_standing(r);
    put_spend(&r->out, "usage", &of_key);
    put_spend(&r->out, "team_usage", &of_team);
    json_put_name(&r->out, "budgets");
    str_puts(&r->out, "[");
    budget_each(r->gateway->budget, r->conf, r->began_wall_us, put_budget, &view);
    str_puts(&r->out, "]");
    json_put_name(&r->out, "models");
    str_puts(&r->out, "[");
    put_models(r);
    str_puts(&r->out, "]}");
    r->status = 200;
}

/* ---- the key, as LiteLLM tells of one: dashboards that read that read this ---- */

/* How LiteLLM writes the length of a budget. */
static const char *duration_of(const char *period) {
    static const struct {
        const char *period, *duration;
    } rows[] = {{"hour", "1h"}, {"day", "1d"}, {"week", "7d"}, {"month", "1mo"}};
    for (size_t i = 0; period && i < ARRAY_LEN(rows); i++)
        if (strcmp(period, rows[i].period) == 0)
            return rows[i].duration;
    return NULL;
}

static void put_max_budget(struct request *r, const struct spend_view *spend) {
    struct tightest t = tightest_of(r);
    char when[CLOCK_TEXT_MAX];
    bool resets = t.period && t.resets_us != INT64_MAX;
    money_put(&r->out, "spend", t.period ? t.spent : spend->total_nanousd);
    if (t.period)
        money_put(&r->out, "max_budget", t.limit);
    else
        json_put_str(&r->out, "max_budget", NULL);
    json_put_str(&r->out, "budget_duration", duration_of(t.period));
    json_put_str(&r->out, "budget_reset_at", resets ? clock_text(t.resets_us, when) : NULL);
}

static void put_info(struct request *r) {
    struct spend_view of_key, of_team;
    char when[CLOCK_TEXT_MAX];
    budget_spend(r->gateway->budget, span_of(conf_key_account(r->key)), span_of(r->key->team->name), r->began_wall_us,
                 &of_key, &of_team);
    json_put_str(&r->out, "key_name", r->key->id);
    json_put_str(&r->out, "key_alias", r->key->name);
    json_put_str(&r->out, "team_id", r->key->team->name);
    json_put_str(&r->out, "user_id", r->key->owner);
    put_max_budget(r, &of_key);
    json_put_str(&r->out, "expires", r->key->expires_us == INT64_MAX ? NULL : clock_text(r->key->expires_us, when));
    put_count(&r->out, "tpm_limit", r->key->limits.tokens_per_minute);
    put_count(&r->out, "rpm_limit", r->key->limits.requests_per_minute);
    put_count(&r->out, "max_parallel_requests", r->key->limits.in_flight);
    json_put_bool(&r->out, "blocked", false);
    json_put_raw(&r->out, "metadata", SPAN("{}"));
    json_put_name(&r->out, "models");
    str_puts(&r->out, "[");
    put_models(r);
    str_puts(&r->out, "]");
}

/* Only the caller's own: a ?key= that asks for another is not looked at further. */
void answer_key_info(struct request *r) {
    struct span query = exchange_head(r->client)->query, part;
    uint8_t digest[SHA256_BYTES];
    while (span_cut(&query, '&', &part)) {
        if (!span_starts(part, "key="))
            continue;
        sha256(span_from(part.at + 4, part.n - 4), digest);
        if (bytes_equal_secret(digest, r->key->sha256, SHA256_BYTES) ||
            span_is(span_from(part.at + 4, part.n - 4), r->key->id))
            continue;
        r->err = ERR_NOT_FOUND;
        return;
    }
    str_puts(&r->out, "{");
    json_put_str(&r->out, "key", r->key->id);
    json_put_name(&r->out, "info");
    str_puts(&r->out, "{");
    put_info(r);
    str_puts(&r->out, "}}");
    r->status = 200;
}

/* ---- what became of a request ---- */

static bool is_own(const struct request *r, const struct request *other) {
    return other && other->key && other->route->kind == ROUTE_CALL &&
           strcmp(conf_key_account(other->key), conf_key_account(r->key)) == 0;
}

static void put_running(struct str *out, const struct request *other) {
    char when[CLOCK_TEXT_MAX];
    str_puts(out, "{");
    json_put_str(out, "id", other->id);
    json_put_str(out, "state", "running");
    json_put_str(out, "doing", other->doing);
    json_put_str(out, "received", clock_text(other->began_wall_us, when));
    json_put_i64(out, "duration_ms", request_age_us(other) / US_PER_MS);
    str_puts(out, "}");
}

void answer_request(struct request *r) {
    const struct request *other = map_find(&r->gateway->by_id, r->rest);
    struct span known = recent_find(r->gateway->recent, r->rest, conf_key_account(r->key), r->began_wall_us);
    r->status = 200;
    if (known.n) {
        str_put(&r->out, known);
    } else if (is_own(r, other)) {
        put_running(&r->out, other);
    } else if (!other && lookup_is_id(r->rest)) {
        r->status = 0;
        lookup_start(r);
    } else {
        r->status = 0;
        r->err = ERR_NOT_FOUND;
        snprintf(r->message, sizeof(r->message), "No request of this key in the last 24 hours has this id.");
    }
}
