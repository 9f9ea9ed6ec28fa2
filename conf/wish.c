/* A key as somebody asks for it at run time. Always true: it is read by the very rows that read a key in conf, so what
 * conf would refuse is refused here, and a directive that is new there is known here. Id and digest are made here. */
#include "conf/directives.h"

#include <stdlib.h>

static void begin(struct conf_wish *w) {
    *w = (struct conf_wish){.memory = xcalloc(1, sizeof *w->memory)};
    arena_init(&w->memory->arena, CONF_ARENA_BYTES);
    conf_key_make(w->text);
}

static void identify(struct conf_wish *w) {
    char id[9];
    conf_key_id(span_of(w->text), id);
    w->key.id = tree_strdup(&w->memory->arena, span_of(id));
    sha256(span_of(w->text), w->key.sha256);
}

void conf_wish_free(struct conf_wish *w) {
    if (!w->memory)
        return;
    arena_fini(&w->memory->arena);
    conf_drop(w->memory->base);
    free(w->memory);
    w->memory = NULL;
}

/* The member within which a problem was found. */
static const char *member_at(const struct node *map, const struct conf_problem *p) {
    const char *name = NULL;
    for (size_t i = 0; i < map->n; i++) {
        const struct node *k = map->keys[i];
        if (k->line < p->line || (k->line == p->line && k->column <= p->column))
            name = k->text.at;
    }
    return name;
}

static bool say(const struct node *map, const struct conf_report *report, struct str *why) {
    for (size_t i = 0; i < report->n; i++) {
        const struct conf_problem *p = &report->problems[i];
        const char *name = map ? member_at(map, p) : NULL;
        if (p->warning)
            continue;
        str_printf(why, "%s%s%s", name ? name : "", name ? ": " : "", p->text);
        return false;
    }
    return true;
}

static bool take_team(const struct conf *c, const struct node *map, struct conf_wish *out, struct str *why) {
    const struct node *team = node_get(map, "team");
    out->key.team = team && team->kind == NODE_SCALAR ? conf_find_team(c, team->text) : NULL;
    if (!out->key.team)
        str_puts(why, "team: there is no such team");
    return out->key.team;
}

/* The members that are a key's own, and what a key cannot do without. */
static struct node *own_members(struct conf_wish *w, const struct node *map) {
    struct arena *a = &w->memory->arena;
    struct node *own = node_like(a, map, NODE_MAP);
    char hex[SHA256_HEX_MAX];
    uint8_t digest[SHA256_BYTES];
    sha256(span_of(w->text), digest);
    hex_put(digest, SHA256_BYTES, hex);
    for (size_t i = 0; i < map->n; i++)
        if (!span_is(map->keys[i]->text, "team"))
            node_add(a, own, map->keys[i], map->items[i]);
    if (!node_get(map, "name"))
        node_add(a, own, node_scalar(a, map, "name"), node_scalar(a, map, "unnamed"));
    node_add(a, own, node_scalar(a, map, "sha256"), node_scalar(a, map, tree_strdup(a, span_of(hex))));
    return own;
}

static bool no_secrets(const struct node *map, struct str *why) {
    static const char *const made[] = {"id", "sha256"};
    for (size_t i = 0; i < ARRAY_LEN(made); i++)
        if (node_get(map, made[i])) {
            str_printf(why, "%s: is made here and cannot be asked for", made[i]);
            return false;
        }
    return true;
}

static bool read(const struct conf *c, struct span json, struct conf_report *report, struct conf_wish *out,
                 struct str *why) {
    struct arena *a = &out->memory->arena;
    struct source *source = tree_alloc(a, sizeof *source);
    *source = (struct source){.file = "key", .folder = ".", .bytes = json, .team_file = true};
    struct node *map = json_tree(a, report, source);
    if (!map)
        return say(NULL, report, why);
    if (map->kind != NODE_MAP) {
        str_puts(why, "a key is a JSON object with team and, if you like, name, owner, expires and what else conf has");
        return false;
    }
    if (!no_secrets(map, why) || !take_team(c, map, out, why))
        return false;
    const struct conf_team *team = out->key.team;
    struct node *own = own_members(out, map);
    struct reader r = {.conf = out->memory, .report = report, .root = c->tree->root, .folder = "."};
    read_section(&r, &key_section, own, &out->key);
    free(r.secrets);
    out->key.team = team;
    identify(out);
    return say(map, report, why);
}

bool conf_wish_read(const struct conf *c, struct span json, struct conf_wish *out, struct str *why) {
    struct conf_report report;
    begin(out);
    conf_report_init(&report);
    bool good = read(c, json, &report, out, why);
    conf_report_fini(&report);
    if (!good)
        conf_wish_free(out);
    return good;
}

void conf_wish_like(struct conf *c, const struct conf_key *key, struct conf_wish *out) {
    begin(out);
    out->memory->base = conf_take(c); /* what the key borrows from */
    out->key = *key;
    out->key.account = conf_key_account(key);
    out->key.demo = false;
    out->key.revoked = false;
    identify(out);
}

void conf_wish_add_budget(struct conf_wish *w, int64_t limit_nanousd) {
    struct conf_key *k = &w->key;
    struct conf_budget *all = tree_alloc(&w->memory->arena, (k->n_budgets + 1) * sizeof *all);
    for (size_t i = 0; i < k->n_budgets; i++)
        all[i] = k->budgets[i];
    all[k->n_budgets++] =
        (struct conf_budget){.limit_nanousd = limit_nanousd, .period = PERIOD_MONTH, .zone = zone_get("UTC")};
    k->budgets = all;
}
