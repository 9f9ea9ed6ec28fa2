/* The admin port: a token always, a role a route, Host and Origin checked. Lists and counters, printed; acts recorded. */
#include "gateway/admin/admin.h"

#include "gateway/admin/rows.h"
#include "gateway/explain.h"
#include "gateway/gateway.h"
#include "gateway/ledger.h"
#include "gateway/state/override.h"
#include "gateway/state/shared.h"
#include "gateway/workers/peers.h"

#include <event2/buffer.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#define ADMIN_REPLY_MAX (16 << 20)

#define CAN(role) (1u << ROLE_##role)
#define PULLS (1u << 31) /* beside the roles: it takes the body as it comes */
#define EVERY_ROLE (CAN(OPERATOR) | CAN(FINANCE) | CAN(AUDITOR) | CAN(VIEWER))

struct admin_route {
    const char *method, *path; /* a trailing '*' takes the rest */
    unsigned roles;            /* 0: without a token */
    void (*answer)(struct admin_call *c);
};

void admin_say(struct admin_call *c, enum err e, const char *message) {
    str_clear(&c->out);
    c->type = "application/json";
    c->status = err_row(e)->status;
    error_write(DIALECT_OPENAI, &(struct error_body){.err = e, .message = message}, &c->out);
}

/* ---- what can be read ---- */

static void get_healthz(struct admin_call *c) {
    c->type = "text/plain";
    str_puts(&c->out, "ok\n");
}

bool gateway_ready(const struct gateway *g, struct str *json) {
    bool audit = audit_healthy(g->audit);
    if (json) {
        str_puts(json, "{");
        json_put_bool(json, "draining", g->draining);
        json_put_bool(json, "audit_healthy", audit);
        json_put_i64(json, "audit_lag_records", audit_lag(g->audit));
        json_put_i64(json, "in_flight", requests_in_flight(g));
        json_put_str(json, "conf_digest", g->conf->digest);
        ledger_put(g, json);
        shared_put(g, json);
        json_put_name(json, "overrides");
        overrides_put(g->overrides, clock_wall_us(), json);
        peers_put(g, json);
        str_puts(json, "}\n");
    }
    return !g->draining && (audit || g->conf->audit.when_full_serve);
}

static void get_readyz(struct admin_call *c) {
    c->status = gateway_ready(c->gateway, &c->out) ? 200 : 503;
}

static void get_metrics(struct admin_call *c) {
    c->type = "text/plain; version=0.0.4";
    metrics_print_all(c->gateway, &c->out);
}

static void put_request(struct str *out, const struct request *r) {
    str_puts(out, "{");
    if (r->gateway->workers > 1)
        json_put_i64(out, "worker", r->gateway->worker);
    json_put_str(out, "id", r->id);
    json_put_str(out, "state", state_names[r->state]);
    json_put_str(out, "doing", r->doing);
    json_put_str(out, "team", r->key ? r->key->team->name : NULL);
    json_put_str(out, "key", r->key ? r->key->id : NULL);
    json_put_str(out, "alias", r->alias ? r->alias->name : NULL);
    json_put_str(out, "target", r->at >= 0 && r->plan.n ? r->plan.choices[r->at].target : NULL);
    json_put_i64(out, "age_ms", request_age_us(r) / US_PER_MS);
    json_put_i64(out, "tries", r->n_tries);
    json_put_i64(out, "hold_nanousd", r->hold.lease.open ? r->hold.lease.nanousd : 0);
    json_put_bool(out, "client", r->client != NULL);
    str_puts(out, "}");
}

void admin_put_requests(struct gateway *g, struct str *out) {
    bool first = true;
    str_puts(out, "[");
    for (enum state s = 0; s < STATE_DONE; s++)
        for (struct link *k = list_first(&g->by_state[s]); k; k = list_next(&g->by_state[s], k)) {
            str_puts(out, first ? "" : ",");
            first = false;
            put_request(out, container_of(k, struct request, in_state));
        }
    str_puts(out, "]");
}

static void get_requests(struct admin_call *c) {
    static const struct admin_list list = {"requests", "requests\n", admin_put_requests, rows_join};
    admin_answer_list(c, &list);
}

struct rows {
    struct str *out;
    bool first;
};

static void row_open(struct rows *rows) {
    str_puts(rows->out, rows->first ? "{" : ",{");
    rows->first = false;
}

static void put_instant(struct str *out, const char *name, int64_t us) {
    char text[CLOCK_TEXT_MAX];
    json_put_str(out, name, us > 0 && us != INT64_MAX ? clock_text(us, text) : NULL);
}

static void put_budget(const struct budget_view *v, void *user) {
    struct rows *rows = user;
    row_open(rows);
    json_put_str(rows->out, "name", v->name);
    json_put_str(rows->out, "level", budget_level_names[v->level]);
    json_put_str(rows->out, "scope", v->scope);
    json_put_str(rows->out, "period", period_names[v->period]);
    if (v->limit_nanousd == CONF_UNLIMITED)
        json_put_str(rows->out, "limit", NULL);
    else
        money_put(rows->out, "limit", v->limit_nanousd);
    if (v->lifted_nanousd) {
        char when[CLOCK_TEXT_MAX];
        money_put(rows->out, "raised_by", v->lifted_nanousd);
        json_put_str(rows->out, "raised_until", clock_text(v->lifted_until_us, when));
    }
    money_put(rows->out, "settled", v->settled_nanousd);
    money_put(rows->out, "held", v->held_nanousd);
    if (v->charged_nanousd)
        money_put(rows->out, "charged", v->charged_nanousd);
    money_put(rows->out, "overrun", v->overrun_nanousd);
    json_put_i64(rows->out, "settled_nanousd", v->settled_nanousd);
    json_put_i64(rows->out, "held_nanousd", v->held_nanousd);
    put_instant(rows->out, "period_from", v->period_from_us);
    put_instant(rows->out, "period_to", v->period_to_us);
    str_puts(rows->out, "}");
}

void admin_put_budgets(struct gateway *g, struct str *out) {
    struct rows rows = {out, true};
    str_puts(out, "[");
    budget_each(g->budget, g->conf, clock_wall_us(), put_budget, &rows);
    str_puts(out, "]");
}

static void get_budgets(struct admin_call *c) {
    static const struct admin_list list = {"budgets", "budgets\n", admin_put_budgets, rows_budgets};
    admin_answer_list(c, &list);
}

static void put_lane(const struct lane_view *v, void *user) {
    struct rows *rows = user;
    row_open(rows);
    json_put_str(rows->out, "target", v->target);
    json_put_str(rows->out, "key", v->key);
    json_put_str(rows->out, "state", v->state);
    json_put_i64(rows->out, "tries", (int64_t)v->tries);
    json_put_i64(rows->out, "failures", (int64_t)v->failures);
    json_put_i64(rows->out, "in_flight", v->in_flight);
    json_put_bool(rows->out, "drained", v->drained);
    str_puts(rows->out, "}");
}

void admin_put_targets(struct gateway *g, struct str *out) {
    struct rows rows = {out, true};
    str_puts(out, "[");
    routing_each(g->routing, clock_mono_us(), put_lane, &rows);
    str_puts(out, "]");
}

static void get_targets(struct admin_call *c) {
    static const struct admin_list list = {"targets", "targets\n", admin_put_targets, rows_targets};
    admin_answer_list(c, &list);
}

static void get_state(struct admin_call *c) {
    explain_put_state(c->gateway, &c->out);
}

static void get_config(struct admin_call *c) {
    c->type = "text/plain";
    conf_print_effective(c->gateway->conf, &c->out);
    overrides_print(c->gateway->overrides, clock_wall_us(), &c->out);
}

static void put_head(struct gateway *g, const char *chain, struct str *out) {
    char hash[SHA256_HEX_MAX];
    uint64_t seq;
    audit_head(g->audit, &seq, hash);
    str_puts(out, "{");
    if (chain)
        json_put_str(out, "chain", chain);
    json_put_i64(out, "seq", (int64_t)seq);
    json_put_str(out, "hash", hash);
    str_puts(out, "}");
}

void admin_put_audit_head(struct gateway *g, struct str *out) {
    str_puts(out, "[");
    put_head(g, g->chain, out);
    str_puts(out, "]");
}

static void get_audit_head(struct admin_call *c) {
    static const struct admin_list list = {"chains", "head\n", admin_put_audit_head, rows_join};
    if (c->gateway->peers) {
        admin_answer_list(c, &list);
        return;
    }
    put_head(c->gateway, NULL, &c->out);
    str_puts(&c->out, "\n");
}

/* ---- what can be done ---- */

const char *admin_role(const struct admin_call *c) {
    static const char *const roles[] = {"operator", "finance", "auditor", "viewer", "metrics"};
    return roles[c->role];
}

void admin_record(struct admin_call *c, const char *what, const char *reason, const char *after) {
    admin_change(c, what, reason, NULL, after);
}

void admin_change(struct admin_call *c, const char *what, const char *reason, const char *before, const char *after) {
    audit_add(c->gateway->audit,
              &(struct audit_record){.kind = AUDIT_ADMIN,
                                     .who = c->who,
                                     .role = admin_role(c),
                                     .what = what,
                                     .reason = reason,
                                     .before = before,
                                     .after = after,
                                     .client = exchange_client(c->x)},
              clock_wall_us());
    gateway_turn_soon(c->gateway);
}

void admin_say_reloaded(struct admin_call *c, bool good, bool dry, struct span report, struct span digest) {
    char after[SHA256_HEX_MAX];
    snprintf(after, sizeof(after), "%.*s", (int)(digest.n < sizeof(after) ? digest.n : sizeof(after) - 1), digest.at);
    c->status = good ? 200 : 409;
    str_puts(&c->out, "{");
    json_put_bool(&c->out, "loaded", good && !dry);
    json_put_bool(&c->out, "good", good);
    json_put_span(&c->out, "report", report);
    json_put_str(&c->out, "conf_digest", after);
    str_puts(&c->out, "}\n");
    if (!dry)
        admin_record(c, good ? "reload" : "reload refused", NULL, after);
}

static void post_reload(struct admin_call *c) {
    struct str report;
    bool dry = span_is(exchange_head(c->x)->query, "dry_run=1");
    if (c->gateway->peers) {
        admin_reload_all(c, dry);
        return;
    }
    str_init(&report, ADMIN_BODY_MAX);
    bool good = gateway_reload(c->gateway, dry, &report);
    admin_say_reloaded(c, good, dry, str_span(&report), span_of(c->gateway->conf->digest));
    str_fini(&report);
}

static const struct admin_route routes[] = {
    {"GET", "/healthz", 0, get_healthz},
    {"GET", "/readyz", EVERY_ROLE, get_readyz},
    {"GET", "/metrics", EVERY_ROLE | CAN(METRICS), get_metrics},
    {"GET", "/admin/requests", CAN(OPERATOR) | CAN(VIEWER), get_requests},
    {"GET", "/admin/spend", CAN(OPERATOR) | CAN(FINANCE) | CAN(VIEWER), admin_get_spend},
    {"GET", "/admin/budgets", CAN(OPERATOR) | CAN(FINANCE) | CAN(VIEWER), get_budgets},
    {"GET", "/admin/targets", CAN(OPERATOR) | CAN(VIEWER), get_targets},
    {"GET", "/admin/state", CAN(OPERATOR) | CAN(VIEWER), get_state},
    {"GET", "/admin/config", CAN(OPERATOR) | CAN(AUDITOR), get_config},
    {"GET", "/admin/audit/head", CAN(OPERATOR) | CAN(AUDITOR), get_audit_head},
    {"POST", "/admin/audit/shred", CAN(OPERATOR), admin_post_shred},
    {"POST", "/admin/requests/*", CAN(OPERATOR), admin_post_request},
    {"POST", "/admin/reload", CAN(OPERATOR), post_reload},
    {"POST", "/admin/reprice", CAN(OPERATOR), admin_post_reprice},
    {"POST", "/admin/close", CAN(OPERATOR), admin_post_close},
    {"POST", "/admin/budgets/raise", CAN(OPERATOR), admin_post_raise},
    {"POST", "/admin/teams/*", CAN(OPERATOR), admin_post_team},
    {"POST", "/admin/targets/*", CAN(OPERATOR), admin_post_target},
    {"POST", "/admin/aliases/*", CAN(OPERATOR), admin_post_alias},
    {"GET", "/admin/keys", CAN(OPERATOR) | CAN(AUDITOR) | CAN(VIEWER), admin_get_keys},
    {"POST", "/admin/keys", CAN(OPERATOR), admin_post_keys},
    {"POST", "/admin/keys/*", CAN(OPERATOR), admin_post_key},
    {"DELETE", "/admin/keys/*", CAN(OPERATOR), admin_delete_key},
    {"GET", "/admin/adapters", CAN(OPERATOR) | CAN(VIEWER), admin_get_adapters},
    {"GET", "/admin/adapters/*", CAN(OPERATOR) | CAN(VIEWER), admin_get_adapter},
    {"POST", "/admin/adapters", CAN(OPERATOR), admin_post_adapters},
    {"POST", "/admin/adapters/*", CAN(OPERATOR), admin_move_adapter},
    {"PUT", "/admin/adapters/*", CAN(OPERATOR) | PULLS, admin_put_adapter},
    {"DELETE", "/admin/adapters/*", CAN(OPERATOR), admin_delete_adapter},
    {"POST", "/v1/load_lora_adapter", CAN(OPERATOR), admin_post_adapters},
    {"POST", "/v1/unload_lora_adapter", CAN(OPERATOR), admin_unload_adapter},
};

/* ---- who asks ---- */

static bool token_is(const struct admin_call *c, struct span token) {
    uint8_t given[SHA256_BYTES], ours[SHA256_BYTES];
    sha256(token, given);
    sha256(span_of(c->gateway->admin_token), ours);
    return c->gateway->admin_token[0] && bytes_equal_secret(given, ours, sizeof(ours));
}

static bool find_role(struct admin_call *c) {
    struct span value = http_field_get(exchange_head(c->x), "authorization", NULL);
    uint8_t digest[SHA256_BYTES];
    if (value.n < 7 || !span_is_nocase(span_from(value.at, 7), "bearer "))
        return false;
    value = span_trim(span_from(value.at + 7, value.n - 7));
    c->who = "admin";
    c->role = ROLE_OPERATOR;
    if (token_is(c, value))
        return true;
    sha256(value, digest);
    for (size_t i = 0; i < c->conf->n_admin_tokens; i++) {
        const struct conf_admin_token *t = &c->conf->admin_tokens[i];
        if (!bytes_equal_secret(t->sha256, digest, sizeof(digest)))
            continue;
        c->who = t->name;
        c->role = t->role;
        return true;
    }
    return false;
}

/* Against pages that make a browser call this port: the host must be an address or localhost, never a name that
 * somebody else's DNS answers, and an Origin must be this very host. */
static bool is_host_ours(struct span host) {
    struct span name = host;
    if (host.n && host.at[0] == '[')
        return true;
    span_cut(&host, ':', &name);
    bool address = name.n > 0;
    for (size_t i = 0; i < name.n; i++)
        address = address && ((name.at[i] >= '0' && name.at[i] <= '9') || name.at[i] == '.');
    return address || span_is_nocase(name, "localhost");
}

static bool is_origin_ours(struct span origin, struct span host) {
    char http[300], https[300];
    if (!origin.at)
        return true;
    snprintf(http, sizeof(http), "http://%.*s", (int)(host.n < 256 ? host.n : 256), host.at);
    snprintf(https, sizeof(https), "https://%.*s", (int)(host.n < 256 ? host.n : 256), host.at);
    return span_is_nocase(origin, http) || span_is_nocase(origin, https);
}

static bool path_matches(const struct admin_route *row, struct span path, struct span *rest) {
    size_t n = strlen(row->path);
    *rest = SPAN_NONE;
    if (row->path[n - 1] != '*')
        return span_is(path, row->path);
    if (path.n < n || memcmp(path.at, row->path, n - 1) != 0)
        return false;
    *rest = span_from(path.at + n - 1, path.n - n + 1);
    return true;
}

static enum err find_route(struct admin_call *c) {
    const struct http_head *head = exchange_head(c->x);
    enum err e = ERR_NOT_FOUND;
    struct span method = span_is(head->method, "HEAD") ? SPAN("GET") : head->method;
    for (size_t i = 0; i < ARRAY_LEN(routes); i++) {
        if (!path_matches(&routes[i], head->path, &c->rest))
            continue;
        e = ERR_METHOD;
        if (!span_is(method, routes[i].method))
            continue;
        c->route = &routes[i];
        return ERR_NONE;
    }
    return e;
}

/* Deny by default: an unknown path says 401 to a stranger, so that nobody learns what stands here. */
static bool admit(struct admin_call *c) {
    const struct http_head *head = exchange_head(c->x);
    struct span host = http_field_get(head, "host", NULL);
    enum err missing = find_route(c);
    if (!is_host_ours(host) || !is_origin_ours(http_field_get(head, "origin", NULL), host)) {
        admin_say(c, ERR_TARGET_FORBIDDEN, "This Host or Origin is not served by the admin port.");
        return false;
    }
    if (c->route && c->route->roles == 0)
        return true;
    if (!find_role(c)) {
        admin_say(c, ERR_KEY, "The admin token is missing or wrong.");
        return false;
    }
    if (missing)
        admin_say(c, missing, NULL);
    else if (!(c->route->roles & (1u << c->role)))
        admin_say(c, ERR_TARGET_FORBIDDEN, "This token's role does not allow that.");
    else
        return true;
    return false;
}

/* ---- the exchange ---- */

void admin_finish(struct admin_call *c) {
    struct http_field fields[] = {{SPAN("content-type"), span_of(c->type ? c->type : "application/json")},
                                  {SPAN("cache-control"), SPAN("no-store")},
                                  {SPAN("x-content-type-options"), SPAN("nosniff")}};
    exchange_send_head(c->x, c->status ? c->status : 200, fields, ARRAY_LEN(fields), (int64_t)c->out.n);
    exchange_send(c->x, str_span(&c->out));
    exchange_end(c->x, true);
    exchange_close(c->x);
    str_fini(&c->body);
    str_fini(&c->out);
    conf_drop(c->conf);
    free(c);
}

static void answer(struct admin_call *c) {
    c->route->answer(c);
    if (!c->later)
        admin_finish(c);
}

static struct admin_call *call_new(struct exchange *x, struct gateway *g) {
    struct admin_call *c = xcalloc(1, sizeof(*c));
    c->gateway = g;
    c->conf = conf_take(g->conf);
    c->x = x;
    str_init(&c->body, ADMIN_BODY_MAX);
    str_init(&c->out, ADMIN_REPLY_MAX);
    return c;
}

/* The port that holds /metrics alone: it asks for no token, so nothing else stands there. */
void metrics_on_head(struct exchange *x, void *user) {
    struct admin_call *c = call_new(x, user);
    enum err missing = span_is(exchange_head(x)->path, "/metrics") ? find_route(c) : ERR_NOT_FOUND;
    if (missing)
        admin_say(c, missing, NULL);
    else
        get_metrics(c);
    admin_finish(c);
}

void admin_on_head(struct exchange *x, void *user) {
    struct admin_call *c = call_new(x, user);
    exchange_set_user(x, c);
    if (!admit(c)) {
        admin_finish(c);
    } else if (c->route->roles & PULLS) {
        answer(c);
    } else if (exchange_head(x)->has_body) {
        exchange_want_body(x);
        admin_on_change(x, user);
    } else {
        answer(c);
    }
}

void admin_on_change(struct exchange *x, void *user) {
    struct admin_call *c = exchange_user(x);
    (void)user;
    if (c && c->pull)
        c->pull(c);
    if (!c || c->later) /* who left meanwhile is seen when the job ends */
        return;
    struct evbuffer *in = exchange_body(x);
    size_t n = evbuffer_get_length(in);
    str_put(&c->body, span_from(n ? evbuffer_pullup(in, -1) : NULL, n));
    evbuffer_drain(in, n);
    exchange_took_body(x);
    bool whole = exchange_body_ended(x);
    if (!c->body.over && !exchange_failed(x) && !exchange_gone(x) && !whole)
        return;
    if (whole && !c->body.over && !exchange_failed(x)) {
        answer(c);
        return;
    }
    if (c->body.over || exchange_failed(x))
        admin_say(c, c->body.over ? ERR_TOO_LARGE : exchange_failed(x), NULL);
    admin_finish(c);
}
