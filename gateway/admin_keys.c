/* Keys over the admin port: made and revoked in state, then read with the conf anew. Always true: a key that was said to be
 * revoked is refused from that moment on, also while the conf on disk cannot be loaded. */
#include "gateway/admin.h"

#include "gateway/gateway.h"

#include <stdio.h>

#define REVOKE_REASON "revoked over the admin port"

static const struct conf_team *team_of(struct admin_call *c, struct json name) {
    for (size_t i = 0; i < c->gateway->conf->n_teams; i++)
        if (json_is(name, c->gateway->conf->teams[i].name))
            return &c->gateway->conf->teams[i];
    return NULL;
}

/* What a run-time key may say of itself; it may only narrow what its team may. */
static bool read_key(struct admin_call *c, struct arena *a, struct json body, struct conf_key *key) {
    struct json name = json_get(body, "name"), owner = json_get(body, "owner"), expires = json_get(body, "expires");
    key->team = team_of(c, json_get(body, "team"));
    key->name = name.kind == JSON_STRING ? arena_strdup(a, json_text(name, a)) : "unnamed";
    key->owner = owner.kind == JSON_STRING ? arena_strdup(a, json_text(owner, a)) : NULL;
    key->expires_us = INT64_MAX;
    if (!key->team)
        admin_say(c, ERR_INVALID, "team: there is no such team.");
    else if (expires.kind != JSON_NONE && !clock_parse(json_text(expires, a), &key->expires_us))
        admin_say(c, ERR_INVALID, "expires: a date like 2027-06-30 or an RFC 3339 time.");
    else
        return true;
    return false;
}

static bool reload_keys(struct admin_call *c) {
    struct str report;
    str_init(&report, ADMIN_BODY_MAX);
    bool good = gateway_reload(c->gateway, false, &report);
    if (!good)
        log_error("a key was changed in state, but the conf cannot be loaded anew: %s", report.at ? report.at : "");
    str_fini(&report);
    return good;
}

static void add_key(struct admin_call *c, const struct conf_key *key, const char *text) {
    if (conf_state_add_key(c->gateway->conf, key, c->who)) {
        admin_say(c, ERR_INTERNAL, "The state directory cannot be written.");
        return;
    }
    admin_record(c, "key added", NULL, key->id);
    bool in_force = reload_keys(c);
    c->status = 201;
    str_puts(&c->out, "{");
    json_put_str(&c->out, "id", key->id);
    json_put_str(&c->out, "key", text);
    json_put_bool(&c->out, "in_force", in_force); /* else when the conf on disk can be loaded again */
    str_puts(&c->out, "}\n");
}

void admin_post_keys(struct admin_call *c) {
    struct json body;
    struct arena arena;
    char text[CONF_KEY_TEXT_MAX], id[9];
    struct conf_key key = {.limits = {CONF_UNLIMITED, CONF_UNLIMITED, CONF_UNLIMITED},
                           .max_cost_per_call = CONF_UNLIMITED};
    if (!json_check(str_span(&c->body), JSON_DEPTH_MAX, &body, NULL) || body.kind != JSON_OBJECT) {
        admin_say(c, ERR_INVALID, "The body is a JSON object with team and, if you like, name, owner, expires.");
        return;
    }
    arena_init(&arena, ADMIN_BODY_MAX);
    conf_key_make(text);
    conf_key_id(span_of(text), id);
    key.id = id;
    sha256(span_of(text), key.sha256);
    if (read_key(c, &arena, body, &key))
        add_key(c, &key, text);
    arena_fini(&arena);
}

void admin_delete_key(struct admin_call *c) {
    char id[16];
    snprintf(id, sizeof(id), "%.*s", (int)(c->rest.n < 15 ? c->rest.n : 15), c->rest.at);
    if (!map_find(&c->gateway->conf->keys_by_id, span_of(id))) {
        admin_say(c, ERR_NOT_FOUND, "There is no key with this id.");
        return;
    }
    if (conf_state_revoke_key(c->gateway->conf, id, c->who, REVOKE_REASON)) {
        admin_say(c, ERR_INTERNAL, "The state directory cannot be written.");
        return;
    }
    admin_record(c, "key revoked", REVOKE_REASON, id);
    map_put(&c->gateway->revoked, span_of(id), c->gateway);
    (void)reload_keys(c); /* the tombstone is in state; here it holds already */
    str_puts(&c->out, "{\"revoked\":true}\n");
}
