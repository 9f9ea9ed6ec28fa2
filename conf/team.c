/* Teams and keys: values taken from team_defaults and tier, ids, and who may call what. A key belongs to exactly one
 * team; its id and its digest stand once in the whole conf. */
#include "conf/directives.h"

#include <stdlib.h>

#define KEY_ID_CHARS 8

static void unknown_tier(struct reader *r, const struct node *tier) {
    const struct node *tiers = node_get(r->root, "tiers");
    size_t n = tiers && tiers->kind == NODE_MAP ? tiers->n : 0;
    const char **names = tree_alloc(&r->conf->arena, (n + 1) * sizeof *names);
    for (size_t i = 0; i < n; i++)
        names[i] = tiers->keys[i]->text.at;
    problem_at(r->report, tier, "there is no tier '%.*s'%s", SPAN_ARG(tier->text),
               guess_text(&r->report->arena, tier->text, names, n));
}

/* team_defaults, then the tier, then the team itself; every value keeps the place where it was written. */
const struct node *team_shape(struct reader *r, const struct node *n) {
    if (n->kind != NODE_MAP)
        return n;
    const struct node *under = node_get(r->root, "team_defaults"), *named = node_get(n, "tier"), *tier = NULL;
    if (named && named->kind == NODE_SCALAR) {
        tier = node_get(node_get(r->root, "tiers"), named->text.at);
        if (!tier)
            unknown_tier(r, named);
    }
    under = under && under->kind == NODE_MAP ? under : NULL;
    if (tier && tier->kind == NODE_MAP)
        under = node_merge(&r->conf->arena, under, tier);
    return node_merge(&r->conf->arena, under, n);
}

static bool id_ok(const char *id) {
    struct span s = span_of(id);
    return s.n == KEY_ID_CHARS && value_name_ok(s, false) && !strpbrk(id, "._-");
}

void key_done(struct reader *r, const struct node *n, void *into) {
    struct conf_key *k = into;
    char hex[SHA256_HEX_MAX];
    if (!node_get(n, "expires"))
        k->expires_us = INT64_MAX;
    if (!k->id)
        k->id = tree_strdup(&r->conf->arena, (struct span){hex_put(k->sha256, SHA256_BYTES, hex), KEY_ID_CHARS});
    else if (!id_ok(k->id))
        problem_at(r->report, node_get(n, "id"), "an id is 8 letters and digits");
}

/* Said: it may be used. Not said: all zero, and nothing may be made. */
void self_service_done(struct reader *r, const struct node *n, void *into) {
    (void)r;
    if (!n)
        *(struct conf_self_service *)into = (struct conf_self_service){0};
}

static void check_allow(struct reader *r, void *into, const struct node *n) {
    const char *word = into;
    const struct conf *c = r->conf;
    struct span name = span_of(word), captured;
    if (strpbrk(word, "*!") || conf_find_alias(c, name, &captured))
        return;
    const char **names = tree_alloc(&r->conf->arena, (c->n_aliases + 1) * sizeof *names);
    for (size_t i = 0; i < c->n_aliases; i++)
        names[i] = c->aliases[i].name;
    warning_at(r->report, n, "no alias is called '%s'%s", word,
               guess_text(&r->report->arena, name, names, c->n_aliases));
}

static void check_allow_later(struct reader *r, const struct node *list) {
    for (size_t i = 0; list && list->kind == NODE_LIST && i < list->n; i++)
        if (list->items[i]->kind == NODE_SCALAR)
            read_later(r, check_allow, (void *)(uintptr_t)list->items[i]->text.at, list->items[i]);
}

static void check_require(struct reader *r, void *into, const struct node *n) {
    const char *tag = into;
    for (size_t i = 0; i < r->conf->n_backends; i++)
        for (size_t k = 0; k < r->conf->backends[i].n_tags; k++)
            if (!strcmp(r->conf->backends[i].tags[k], tag))
                return;
    warning_at(r->report, n, "no backend has the tag '%s': with it nothing can be reached", tag);
}

static void check_require_later(struct reader *r, const struct node *list) {
    for (size_t i = 0; list && list->kind == NODE_LIST && i < list->n; i++)
        if (list->items[i]->kind == NODE_SCALAR)
            read_later(r, check_require, (void *)(uintptr_t)list->items[i]->text.at, list->items[i]);
}

static void key_join(struct reader *r, void *into, const struct node *n) {
    struct conf_key *k = into;
    if (map_put(&r->conf->keys_by_id, span_of(k->id), k))
        problem_at(r->report, n, "two keys have the id '%s'", k->id);
    else if (map_put(&r->conf->keys_by_sha256, span_from(k->sha256, SHA256_BYTES), k))
        problem_at(r->report, n, "two keys have the same sha256");
}

void team_done(struct reader *r, const struct node *n, void *into) {
    struct conf_team *t = into;
    const struct node *keys = node_get(n, "keys");
    if (strcmp(t->name, CONF_GATEWAY_TEAM) == 0)
        problem_at(r->report, n, "'" CONF_GATEWAY_TEAM "' is the gateway's own team");
    check_allow_later(r, node_get(n, "allow"));
    check_require_later(r, node_get(n, "require"));
    for (size_t i = 0; i < t->n_keys; i++) {
        t->keys[i].team = t;
        check_allow_later(r, node_get(keys->items[i], "allow"));
        check_require_later(r, node_get(keys->items[i], "require"));
        if (t->keys[i].id && node_get(keys->items[i], "sha256"))
            read_later(r, key_join, &t->keys[i], keys->items[i]);
    }
}

/* --- finds --- */

const struct conf_key *conf_find_key(const struct conf *c, const uint8_t sha256_of_key[SHA256_BYTES]) {
    return map_find(&c->keys_by_sha256, span_from(sha256_of_key, SHA256_BYTES));
}

const struct conf_key *conf_key_of_id(const struct conf *c, struct span id) {
    const struct conf_key *key = map_find(&c->keys_by_id, id);
    return key ? key : map_find(&c->gateway_keys, id);
}

const struct conf_team *conf_find_team(const struct conf *c, struct span name) {
    for (size_t i = 0; i < c->n_teams; i++)
        if (span_is(name, c->teams[i].name))
            return &c->teams[i];
    return NULL;
}

struct conf_key conf_key_plain(const struct conf_team *team, const char *id, const char *name) {
    return (struct conf_key){.id = id,
                             .name = name,
                             .team = team,
                             .expires_us = INT64_MAX,
                             .limits = {CONF_UNLIMITED, CONF_UNLIMITED, CONF_UNLIMITED},
                             .max_cost_per_call = CONF_UNLIMITED};
}

static bool allowed(const char **patterns, size_t n, struct span model) {
    bool yes = false;
    for (size_t i = 0; i < n; i++) {
        bool not = patterns[i][0] == '!';
        if (!glob_match(span_of(patterns[i] + not ), model))
            continue;
        if (not )
            return false;
        yes = true;
    }
    return yes;
}

bool conf_may_call(const struct conf_key *key, struct span model) {
    if (!allowed(key->team->allow, key->team->n_allow, model))
        return false;
    return !key->allow || allowed(key->allow, key->n_allow, model);
}
