/* Keys that owners make for their team, within what conf says of self_service. Always true: what is made here is a member's
 * key of the owner's own team, ends by max_expiry, and is bounded to key_budget a month; what was not made here cannot be
 * ended here; another team's keys are as good as absent. */
#include "gateway/gateway.h"
#include "gateway/routes.h"
#include "gateway/state/keys.h"

#include <inttypes.h>
#include <stdio.h>

#define SELF_BODY_MAX (64 * 1024)
#define SELF_WHO_MAX 64
#define SELF_REASON "ended by its team's owner"

static void say(struct request *r, enum err e, const char *format, ...) printf_like(3, 4);
static void say(struct request *r, enum err e, const char *format, ...) {
    va_list args;
    va_start(args, format);
    vsnprintf(r->message, sizeof(r->message), format, args);
    va_end(args);
    r->status = 0;
    r->err = e;
}

static bool may_serve(struct request *r) {
    if (r->key->role == KEY_OWNER && r->key->team->self_service.max_keys > 0)
        return true;
    say(r, ERR_TARGET_FORBIDDEN,
        "Only a key of role owner may do that, and only where conf gives its team self_service.");
    snprintf(r->code, sizeof(r->code), "not_an_owner");
    return false;
}

static bool is_made_here(const struct request *r, const struct conf_key *k) {
    return k->made_by && k->team == conf_find_team(r->gateway->conf, span_of(r->key->team->name));
}

static bool is_alive(const struct request *r, const struct conf_key *k) {
    return !keys_is_revoked(r->gateway, k) && k->expires_us > r->began_wall_us;
}

static int64_t count_alive(const struct request *r) {
    const struct map *all = &r->gateway->conf->keys_by_id;
    int64_t n = 0;
    for (struct map_entry *e = map_next(all, NULL); e; e = map_next(all, e))
        n += is_made_here(r, e->value) && is_alive(r, e->value);
    return n;
}

static void record(struct request *r, const char *what, const char *id) {
    char who[SELF_WHO_MAX];
    snprintf(who, sizeof(who), "key %s", r->key->id);
    audit_add(r->gateway->audit,
              &(struct audit_record){.kind = AUDIT_ADMIN,
                                     .who = who,
                                     .role = "owner",
                                     .what = what,
                                     .after = id,
                                     .client = exchange_client(r->client)},
              clock_wall_us());
    gateway_turn_soon(r->gateway);
}

/* ---- making ---- */

static bool bound_life(struct request *r, struct conf_key *k) {
    int64_t latest_us = r->began_wall_us + r->key->team->self_service.max_expiry_us;
    char when[CLOCK_TEXT_MAX];
    if (k->expires_us == INT64_MAX)
        k->expires_us = latest_us;
    if (k->expires_us <= latest_us && k->expires_us > r->began_wall_us)
        return true;
    say(r, ERR_INVALID, "expires: a key that is made here ends after now and by %s.", clock_text(latest_us, when));
    snprintf(r->param, sizeof(r->param), "expires");
    return false;
}

/* Its own budgets within key_budget, and one of a month where it asks for none. */
static bool bound_spend(struct request *r, struct conf_wish *w) {
    int64_t most = r->key->team->self_service.key_budget_nanousd;
    bool monthly = most == CONF_UNLIMITED;
    char text[MONEY_TEXT_MAX];
    struct conf_key *k = &w->key;
    for (size_t i = 0; i < k->n_budgets && most != CONF_UNLIMITED; i++) {
        monthly = monthly || k->budgets[i].period == PERIOD_MONTH;
        if (k->budgets[i].limit_nanousd <= most)
            continue;
        say(r, ERR_INVALID, "budgets: a key that is made here may spend %s USD at most.", money_text(most, text));
        snprintf(r->param, sizeof(r->param), "budgets");
        return false;
    }
    if (!monthly)
        conf_wish_add_budget(w, most);
    return true;
}

static bool names_tag(const struct conf_key *k, const char *tag) {
    for (size_t i = 0; i < k->n_require; i++)
        if (strcmp(k->require[i], tag) == 0)
            return true;
    return false;
}

/* Where an owner's key may not go, no key of its making goes. The tags are the conf's, which outlives the making. */
static bool bound_tags(struct request *r, struct conf_key *key) {
    for (size_t i = 0; key->n_require && i < r->key->n_require; i++)
        if (!names_tag(key, r->key->require[i])) {
            say(r, ERR_INVALID, "require: a key that is made here has its owner's tag '%s' too.", r->key->require[i]);
            return false;
        }
    if (key->n_require == 0) {
        key->require = r->key->require;
        key->n_require = r->key->n_require;
    }
    return true;
}

static bool is_within(struct request *r, struct conf_wish *w) {
    if (w->key.team != conf_find_team(r->gateway->conf, span_of(r->key->team->name)))
        say(r, ERR_INVALID, "team: a key that is made here is of its owner's team.");
    else if (w->key.role != KEY_MEMBER)
        say(r, ERR_INVALID, "role: a key that is made here is a member's.");
    else if (count_alive(r) >= r->key->team->self_service.max_keys)
        say(r, ERR_CONFLICT, "The team has its %" PRId64 " keys already; end one first.",
            r->key->team->self_service.max_keys);
    else
        return bound_life(r, &w->key) && bound_spend(r, w) && bound_tags(r, &w->key);
    return false;
}

static void make(struct request *r, struct conf_wish *w) {
    bool in_force = false;
    char who[SELF_WHO_MAX];
    snprintf(who, sizeof(who), "key %s", r->key->id);
    w->key.made_by = conf_key_account(r->key);
    enum err e = keys_add(r->gateway, &w->key, who, &in_force);
    if (e) {
        say(r, e, e == ERR_TARGET_FORBIDDEN ? "Keys cannot be made at run time here." : "The key cannot be kept.");
        return;
    }
    record(r, "key added", w->key.id);
    r->status = 201;
    str_puts(&r->out, "{");
    json_put_str(&r->out, "id", w->key.id);
    json_put_str(&r->out, "key", w->text);
    json_put_bool(&r->out, "in_force", in_force);
    str_puts(&r->out, "}\n");
}

/* The body without a team is of the owner's. */
static bool with_team(const struct request *r, struct str *out) {
    struct json body;
    if (!json_check(str_span(&r->body), JSON_DEPTH_MAX, &body, NULL) || body.kind != JSON_OBJECT)
        return false;
    if (json_get(body, "team").kind != JSON_NONE) {
        str_put(out, body.raw);
        return !out->over;
    }
    struct span rest = span_trim(span_from(body.raw.at + 1, body.raw.n - 2));
    str_puts(out, "{");
    json_put_str(out, "team", r->key->team->name);
    str_puts(out, json_count(body) ? "," : "");
    str_put(out, rest);
    str_puts(out, "}");
    return !out->over;
}

static void post_key(struct request *r) {
    struct conf_wish wish;
    struct str json, why;
    str_init(&json, SELF_BODY_MAX);
    str_init(&why, REQUEST_MESSAGE_MAX);
    if (!with_team(r, &json))
        say(r, ERR_INVALID, "The body is a JSON object of at most %d bytes with name, expires, allow, budgets.",
            SELF_BODY_MAX);
    else if (!conf_wish_read(r->gateway->conf, str_span(&json), &wish, &why))
        say(r, ERR_INVALID, "%s", why.n && !why.over ? why.at : "This is no key.");
    else {
        if (is_within(r, &wish))
            make(r, &wish);
        conf_wish_free(&wish);
    }
    str_fini(&json);
    str_fini(&why);
}

/* ---- the door ---- */

static void list_keys(struct request *r) {
    const struct map *all = &r->gateway->conf->keys_by_id;
    bool first = true;
    str_puts(&r->out, "{\"keys\":[");
    for (struct map_entry *e = map_next(all, NULL); e; e = map_next(all, e)) {
        if (!is_made_here(r, e->value))
            continue;
        str_puts(&r->out, first ? "" : ",");
        first = false;
        keys_put(r->gateway, e->value, &r->out);
    }
    str_puts(&r->out, "]}\n");
    r->status = 200;
}

void answer_keys(struct request *r) {
    if (!may_serve(r))
        return;
    if (span_is(exchange_head(r->client)->method, "POST"))
        post_key(r);
    else
        list_keys(r);
}

void answer_key_end(struct request *r) {
    if (!may_serve(r))
        return;
    const struct conf_key *k = map_find(&r->gateway->conf->keys_by_id, r->rest);
    char who[SELF_WHO_MAX], id[16];
    if (!k || !is_made_here(r, k)) {
        say(r, ERR_NOT_FOUND, "No key of this team that was made here has this id.");
        return;
    }
    snprintf(who, sizeof(who), "key %s", r->key->id);
    snprintf(id, sizeof(id), "%s", k->id);
    if (keys_revoke(r->gateway, id, who, SELF_REASON)) {
        say(r, ERR_INTERNAL, "The key's end cannot be kept.");
        return;
    }
    record(r, "key revoked", id);
    r->status = 200;
    str_puts(&r->out, "{\"revoked\":true}\n");
}
