/* Aliases: their short forms, their ladders, and how a model name finds one. Whatever names something is resolved once
 * all files are read, so that order in the files means nothing. Two patterns of the same weight that could match one
 * name are an error here, so that finding never has to choose. */
#include "conf/directives.h"

#include <stdio.h>
#include <stdlib.h>

#define SHADOW_KEY "shadow:" /* and the alias: an id that no key of a client has */

const char *const reason_names[REASON_N] = {
#define X(name, text) [REASON_##name] = (text),
    REASON_TABLE(X)
#undef X
};

static struct node *map_with(struct arena *a, const struct node *at, const char *name, const struct node *item) {
    struct node *map = node_like(a, at, NODE_MAP);
    node_add(a, map, node_scalar(a, at, name), (struct node *)(uintptr_t)item);
    return map;
}

static struct node *list_with(struct arena *a, const struct node *item) {
    struct node *list = node_like(a, item, NODE_LIST);
    node_add(a, list, NULL, (struct node *)(uintptr_t)item);
    return list;
}

/* "a/b" -> {ladder: [{targets: [a/b]}]}; [a/b, c/d] -> a rung each. */
const struct node *alias_shape(struct reader *r, const struct node *n) {
    struct arena *a = &r->conf->arena;
    if (n->kind == NODE_SCALAR)
        n = list_with(a, n);
    if (n->kind != NODE_LIST)
        return n;
    struct node *ladder = node_like(a, n, NODE_LIST);
    for (size_t i = 0; i < n->n; i++)
        node_add(a, ladder, NULL, map_with(a, n->items[i], "targets", list_with(a, n->items[i])));
    return map_with(a, n, "ladder", ladder);
}

const struct node *target_shape(struct reader *r, const struct node *n) {
    return n->kind == NODE_SCALAR ? map_with(&r->conf->arena, n, "target", n) : n;
}

static size_t stars(struct span text) {
    size_t n = 0;
    for (size_t i = 0; i < text.n; i++)
        n += text.at[i] == '*';
    return n;
}

static bool name_check(struct reader *r, const struct node *key, const char *what) {
    if (!value_name_ok(key->text, true)) {
        problem_at(r->report, key, "'%.*s' is no name for %s: it holds a space, or is too long", SPAN_ARG(key->text),
                   what);
        return false;
    }
    if (stars(key->text) <= 1)
        return true;
    problem_at(r->report, key, "'%.*s' has more than one '*'", SPAN_ARG(key->text));
    return false;
}

bool alias_name_check(struct reader *r, const struct node *key) {
    return name_check(r, key, "an alias");
}

bool model_name_check(struct reader *r, const struct node *key) {
    return name_check(r, key, "a model");
}

/* --- targets --- */

static void no_backend(struct reader *r, const struct node *n, struct span name) {
    struct conf *c = r->conf;
    const char **names = tree_alloc(&c->arena, (c->n_backends + 1) * sizeof *names);
    for (size_t i = 0; i < c->n_backends; i++)
        names[i] = c->backends[i].name;
    problem_at(r->report, n, "there is no backend '%.*s'%s", SPAN_ARG(name),
               guess_text(&r->report->arena, name, names, c->n_backends));
}

static void no_slash(struct reader *r, const struct conf_target *t, const struct node *n) {
    for (size_t i = 0; i < r->conf->n_aliases; i++)
        if (!strcmp(r->conf->aliases[i].name, t->name)) {
            problem_at(r->report, n, "'%s' is an alias; a target is backend/model", t->name);
            return;
        }
    problem_at(r->report, n, "'%s' names no model: a target is backend/model", t->name);
}

static void target_join(struct reader *r, void *into, const struct node *n) {
    struct conf_target *t = into;
    const char *slash = strchr(t->name, '/');
    if (!slash || !slash[1]) {
        no_slash(r, t, n);
        return;
    }
    struct span name = {t->name, (size_t)(slash - t->name)};
    t->model = slash + 1;
    t->backend = conf_find_backend(r->conf, name);
    if (!t->backend) {
        no_backend(r, n, name);
        return;
    }
    const struct conf_backend *b = t->backend;
    if (b->protocol == PROTOCOL_DECODE && !b->decode.adapters && b->decode.name &&
        strcmp(t->model, b->decode.name) != 0 && strcmp(t->model, "*") != 0)
        problem_at(r->report, n, "'%s' holds one model, '%s'; adapters need 'adapters: {directory: ...}'", b->name,
                   b->decode.name);
}

void target_done(struct reader *r, const struct node *n, void *into) {
    struct conf_target *t = into;
    const struct node *at = node_get(n, "target");
    if (!t->name)
        return;
    if (stars(span_of(t->name)) > 1)
        problem_at(r->report, at, "a target has at most one '*'");
    read_later(r, target_join, t, at);
}

void rung_done(struct reader *r, const struct node *n, void *into) {
    const struct conf_rung *rung = into;
    const struct node *list = node_get(n, "targets");
    if (!list)
        return;
    if (list->kind == NODE_LIST && !list->n)
        problem_at(r->report, list, "the rung has no targets");
    for (size_t i = 0; i < rung->n_targets; i++)
        for (size_t k = 0; k < i; k++)
            if (rung->targets[i].name && rung->targets[k].name && !strcmp(rung->targets[i].name, rung->targets[k].name))
                problem_at(r->report, list->items[i], "'%s' stands twice in the rung; use 'weight'",
                           rung->targets[i].name);
}

void canary_done(struct reader *r, const struct node *n, void *into) {
    struct conf_canary *canary = into;
    const struct node *label = node_get(n, "label");
    if (!n)
        return;
    canary->target.weight = 1;
    target_done(r, n, &canary->target);
    if (canary->by == CANARY_BY_LABEL && !label)
        problem_at(r->report, n, "'label' is missing in %s: by label says not which", r->path);
    else if (canary->by != CANARY_BY_LABEL && label)
        problem_at(r->report, node_key(n, "label"), "'label' is for 'by: label'");
}

void shadow_done(struct reader *r, const struct node *n, void *into) {
    struct conf_shadow *shadow = into;
    if (!n)
        return;
    shadow->target.weight = 1;
    target_done(r, n, &shadow->target);
}

/* "50 USD/month" is {limit: 50 USD, period: month}. */
bool read_shadow_budget(struct reader *r, const struct directive *d, const struct node *n, void *into) {
    struct arena *a = &r->conf->arena;
    struct conf_budget *budget = tree_alloc(a, sizeof *budget);
    const struct node *said = n;
    struct span limit, period = n->text;
    if (n->kind == NODE_SCALAR) {
        if (!span_cut(&period, '/', &limit) || period.n == 0) {
            problem_at(r->report, n, "%s is an amount and a period, as 50 USD/month", d->name);
            return false;
        }
        struct node *map = map_with(a, n, "limit", node_scalar(a, n, tree_strdup(a, limit)));
        node_add(a, map, node_scalar(a, n, "period"), node_scalar(a, n, tree_strdup(a, period)));
        said = map;
    }
    read_section(r, &budget_section, said, budget);
    memcpy((char *)into + d->offset, &budget, sizeof budget);
    return true;
}

void cache_rule_done(struct reader *r, const struct node *n, void *into) {
    struct conf_cache_rule *rule = into;
    (void)r;
    rule->said = n != NULL;
    if (!n)
        rule->enabled = false;
}

/* --- ladders --- */

static void check_capture(struct reader *r, const struct conf_alias *a, const char *target, const struct node *at) {
    if (target && !a->pattern && strchr(target, '*'))
        problem_at(r->report, at, "'%s' has a '*', but the alias '%s' has none that it could stand for", target,
                   a->name);
}

static void check_captures(struct reader *r, const struct conf_alias *a, const struct node *ladder) {
    for (size_t i = 0; i < a->n_rungs; i++)
        for (size_t k = 0; k < a->rungs[i].n_targets; k++)
            check_capture(r, a, a->rungs[i].targets[k].name, node_get(ladder->items[i], "targets")->items[k]);
}

static void check_hedge(struct reader *r, const struct conf_alias *a, const struct node *hedge) {
    if (hedge && a->hedge_us >= a->deadline_us)
        problem_at(r->report, hedge, "no second try would ever begin: 'deadline' comes before 'after'");
}

void alias_done(struct reader *r, const struct node *n, void *into) {
    struct conf_alias *a = into;
    const struct node *ladder = node_get(n, "ladder");
    a->pattern = strchr(a->name, '*') != NULL;
    check_capture(r, a, a->canary.target.name, node_get(n, "canary"));
    check_capture(r, a, a->shadow.target.name, node_get(n, "shadow"));
    check_hedge(r, a, node_get(n, "hedge"));
    if (!ladder || ladder->kind != NODE_LIST)
        return;
    if (!ladder->n)
        problem_at(r->report, ladder, "the ladder has no rungs");
    else if (node_get(ladder->items[0], "only_for"))
        problem_at(r->report, node_key(ladder->items[0], "only_for"),
                   "'only_for' on the first rung: nothing stands above it to come down from");
    check_captures(r, a, ladder);
}

/* --- patterns --- */

static void split(struct span pattern, struct span *before, struct span *after) {
    const char *star = memchr(pattern.at, '*', pattern.n);
    *before = (struct span){pattern.at, (size_t)(star - pattern.at)};
    *after = (struct span){star + 1, pattern.n - before->n - 1};
}

bool pattern_match(struct span pattern, struct span text, struct span *captured) {
    struct span before, after;
    if (!memchr(pattern.at, '*', pattern.n)) {
        *captured = SPAN_NONE;
        return span_equal(pattern, text);
    }
    split(pattern, &before, &after);
    if (text.n < before.n + after.n || memcmp(text.at, before.at, before.n) != 0 ||
        memcmp(text.at + text.n - after.n, after.at, after.n) != 0)
        return false;
    *captured = (struct span){text.at + before.n, text.n - before.n - after.n};
    return true;
}

bool glob_match(struct span pattern, struct span text) {
    size_t p = 0, t = 0, star = SIZE_MAX, mark = 0;
    while (t < text.n) {
        if (p < pattern.n && pattern.at[p] == '*') {
            star = p++;
            mark = t;
        } else if (p < pattern.n && pattern.at[p] == text.at[t]) {
            p++;
            t++;
        } else if (star != SIZE_MAX) { /* the last star takes one byte more */
            p = star + 1;
            t = ++mark;
        } else {
            return false;
        }
    }
    while (p < pattern.n && pattern.at[p] == '*')
        p++;
    return p == pattern.n;
}

static bool compatible(struct span a, struct span b, bool at_end) {
    size_t n = a.n < b.n ? a.n : b.n;
    return !n || !memcmp(at_end ? a.at + a.n - n : a.at, at_end ? b.at + b.n - n : b.at, n);
}

/* Whether some name matches both, with as many literal bytes: two ends that agree can always be joined into one. */
static bool tied(const char *a, const char *b) {
    struct span a_before, a_after, b_before, b_after;
    if (strlen(a) != strlen(b))
        return false;
    split(span_of(a), &a_before, &a_after);
    split(span_of(b), &b_before, &b_after);
    return compatible(a_before, b_before, false) && compatible(a_after, b_after, true);
}

static void check_ties(struct reader *r, const struct node *map) {
    const struct conf *c = r->conf;
    for (size_t i = 0; i < c->n_aliases; i++)
        for (size_t k = 0; k < i && c->aliases[i].pattern; k++)
            if (c->aliases[k].pattern && tied(c->aliases[i].name, c->aliases[k].name))
                problem_at(r->report, node_key(map, c->aliases[i].name),
                           "'%s' and '%s' could match the same name, and neither is more exact", c->aliases[k].name,
                           c->aliases[i].name);
}

/* What copies of an alias's calls are routed by and booked to: its target alone, and a key that nobody can show. */
static void shadow_join(struct conf *c, struct conf_alias *a) {
    struct conf_shadow *s = &a->shadow;
    struct conf_key *key = tree_alloc(&c->arena, sizeof *key);
    struct conf_rung *rung = tree_alloc(&c->arena, sizeof *rung);
    size_t n = strlen(SHADOW_KEY) + strlen(a->name) + 1;
    char *id = tree_alloc(&c->arena, n);
    snprintf(id, n, SHADOW_KEY "%s", a->name);
    *key = conf_key_plain(&c->gateway_team, id, "shadow");
    key->budgets = s->budget;
    key->n_budgets = s->budget ? 1 : 0;
    *rung = (struct conf_rung){.targets = &s->target, .n_targets = 1, .policy = POLICY_WEIGHTED};
    s->key = key;
    s->as = tree_alloc(&c->arena, sizeof *s->as);
    *s->as = (struct conf_alias){.name = a->name,
                                 .pattern = a->pattern,
                                 .rungs = rung,
                                 .n_rungs = 1,
                                 .attempts = 1,
                                 .deadline_us = a->deadline_us};
    map_put(&c->gateway_keys, span_of(id), key);
}

void aliases_join(struct reader *r) {
    struct conf *c = r->conf;
    for (size_t i = 0; i < c->n_aliases; i++)
        if (c->aliases[i].shadow.target.name)
            shadow_join(c, &c->aliases[i]);
    for (size_t i = 0; i < c->n_aliases; i++)
        if (!c->aliases[i].pattern)
            map_put(&c->aliases_by_name, span_of(c->aliases[i].name), &c->aliases[i]);
    const struct node *map = node_get(r->root, "aliases");
    if (map && map->kind == NODE_MAP)
        check_ties(r, map);
}

const struct conf_alias *conf_find_alias(const struct conf *c, struct span model, struct span *captured) {
    const struct conf_alias *best = map_find(&c->aliases_by_name, model);
    *captured = SPAN_NONE;
    size_t literal = 0;
    if (best)
        return best;
    for (size_t i = 0; i < c->n_aliases; i++) {
        struct span matched, name = span_of(c->aliases[i].name);
        if (!c->aliases[i].pattern || (best && name.n <= literal) || !pattern_match(name, model, &matched))
            continue;
        best = &c->aliases[i];
        literal = name.n;
        *captured = matched;
    }
    return best;
}
