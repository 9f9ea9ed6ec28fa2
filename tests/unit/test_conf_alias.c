/* Aliases: short forms, ladders, patterns and what they capture. */
#include "tests/support/conf_text.h"

#include "gateway/base/clock.h"

static const char yaml[] = "backends:\n"
                           "  a: {protocol: openai, url: \"http://h/v1\"}\n"
                           "  b: {protocol: anthropic, url: \"http://h\"}\n"
                           "aliases:\n"
                           "  one: a/m\n"
                           "  two: [a/m, b/n]\n"
                           "  full:\n"
                           "    ladder:\n"
                           "      - {targets: [{target: a/m, weight: 3}, b/org/n]}\n"
                           "      - {targets: [b/n], degraded: true, only_for: [budget, timeout]}\n"
                           "    attempts: 2\n"
                           "    deadline: 30s\n"
                           "    cache: {ttl: 5m, scope: key, seeded: true}\n"
                           "  gpt-5: b/exact\n"
                           "  \"gpt-*\": a/gpt-*\n"
                           "  \"gpt-*-mini\": a/*-small\n"
                           "  \"*\": b/*\n";

Test(conf_alias, short_forms_become_ladders) {
    struct conf *c = load_good(yaml);
    const struct conf_alias *one = &c->aliases[0], *two = &c->aliases[1], *full = &c->aliases[2];
    cr_expect_eq(one->n_rungs, 1);
    cr_expect_str_eq(one->rungs[0].targets[0].model, "m");
    cr_expect_eq(one->rungs[0].targets[0].backend, &c->backends[0]);
    cr_expect_eq(one->rungs[0].targets[0].weight, 1);
    cr_expect_eq(one->attempts, 4);
    cr_expect_eq(one->deadline_us, 10 * US_PER_MIN);
    cr_expect_not(one->cache.said);
    cr_expect_eq(two->n_rungs, 2);
    cr_expect_eq(two->rungs[1].targets[0].backend, &c->backends[1]);
    cr_expect_eq(two->rungs[1].only_for, REASON_BIT(REASON_UNAVAILABLE) | REASON_BIT(REASON_RATE_LIMITED) |
                                             REASON_BIT(REASON_TIMEOUT) | REASON_BIT(REASON_CONTEXT_WINDOW));
    cr_expect_eq(full->rungs[0].targets[0].weight, 3);
    cr_expect_str_eq(full->rungs[0].targets[1].model, "org/n");
    cr_expect(full->rungs[1].degraded);
    cr_expect_eq(full->rungs[1].only_for, REASON_BIT(REASON_BUDGET) | REASON_BIT(REASON_TIMEOUT));
    cr_expect_eq(full->attempts, 2);
    cr_expect_eq(full->deadline_us, 30 * US_PER_S);
    cr_expect(full->cache.said && full->cache.enabled && full->cache.scope_key && full->cache.seeded);
    cr_expect_not(full->cache.replay);
    cr_expect_eq(full->cache.ttl_us, 5 * US_PER_MIN);
    conf_drop(c);
}

static void expect_found(const struct conf *c, const char *model, const char *alias, const char *captured) {
    struct span matched;
    const struct conf_alias *a = conf_find_alias(c, span_of(model), &matched);
    cr_expect_str_eq(a ? a->name : "none", alias, "%s", model);
    cr_expect(captured ? span_is(matched, captured) : !matched.at, "%s captured '%.*s'", model, SPAN_ARG(matched));
}

Test(conf_alias, exact_beats_the_most_literal_pattern) {
    struct conf *c = load_good(yaml);
    expect_found(c, "gpt-5", "gpt-5", NULL);
    expect_found(c, "gpt-6", "gpt-*", "6");
    expect_found(c, "gpt-6-mini", "gpt-*-mini", "6");
    expect_found(c, "gpt-", "gpt-*", "");
    expect_found(c, "gpt-*", "gpt-*", "*");
    expect_found(c, "else", "*", "else");
    expect_found(c, "", "*", "");
    conf_drop(c);
    c = load_good("backends: {a: {protocol: openai, url: \"http://h\"}}\naliases: {x: a/x}\n");
    expect_found(c, "y", "none", NULL);
    conf_drop(c);
}

Test(conf_alias, patterns_of_one_and_of_many_stars) {
    static const struct {
        const char *pattern, *text;
        bool one, many;
    } rows[] = {
        {"a*b", "ab", true, true},
        {"a*b", "axxb", true, true},
        {"a*b", "a", false, false},
        {"aa*aa", "aaa", false, false},
        {"*", "", true, true},
        {"x", "x", true, true},
        {"x", "xx", false, false},
        {"", "", true, true},
        {"*-pro*", "gpt-pro-2", false, true},
        {"*-pro*", "gpt-2", false, false},
        {"*a*b*c", "xxaybzc", false, true},
        {"*ab", "aab", true, true},
    };
    struct span captured;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct span p = span_of(rows[i].pattern), t = span_of(rows[i].text);
        bool single = !memchr(p.at, '*', p.n) || memchr(p.at, '*', p.n) == memrchr(p.at, '*', p.n);
        if (single)
            cr_expect_eq(pattern_match(p, t, &captured), rows[i].one, "%s %s", rows[i].pattern, rows[i].text);
        cr_expect_eq(glob_match(p, t), rows[i].many, "%s %s", rows[i].pattern, rows[i].text);
    }
}

Test(conf_alias, reasons_have_the_names_of_the_header) {
    cr_expect_str_eq(reason_names[REASON_UNAVAILABLE], "unavailable");
    cr_expect_str_eq(reason_names[REASON_BUDGET], "budget");
}

Test(conf_alias, a_canary_is_a_target_and_a_share) {
    struct conf *c = load_good("backends: {a: {protocol: openai, url: \"http://h/v1\"}}\n"
                               "aliases:\n"
                               "  plain: a/m\n"
                               "  half: {ladder: [{targets: [a/m]}], canary: {target: a/n, percent: 0.5}}\n"
                               "  all: {ladder: [{targets: [a/m]}], canary: {target: a/o, percent: 100, by: key}}\n"
                               "  \"x-*\": {ladder: [{targets: [a/m]}],\n"
                               "    canary: {target: a/y-*, percent: 25, by: label, label: feature}}\n");
    const struct conf_canary *half = &c->aliases[1].canary, *all = &c->aliases[2].canary, *x = &c->aliases[3].canary;
    cr_expect_null(c->aliases[0].canary.target.name);
    cr_expect_eq(half->target.backend, &c->backends[0]);
    cr_expect_str_eq(half->target.model, "n");
    cr_expect(half->share == FACTOR_ONE / 200 && half->by == CANARY_BY_TEAM);
    cr_expect(all->share == FACTOR_ONE && all->by == CANARY_BY_KEY);
    cr_expect(x->share == FACTOR_ONE / 4 && x->by == CANARY_BY_LABEL);
    cr_expect_str_eq(x->label, "feature");
    conf_drop(c);
}

Test(conf_alias, a_hedge_is_a_time_without_content) {
    struct conf *c = load_good("backends: {a: {protocol: openai, url: \"http://h/v1\"}}\n"
                               "aliases: {plain: a/m, slow: {ladder: [{targets: [a/m, a/n]}], hedge: {after: 20s}}}\n");
    cr_expect_eq(c->aliases[0].hedge_us, 0);
    cr_expect_eq(c->aliases[1].hedge_us, 20 * US_PER_S);
    conf_drop(c);
}

Test(conf_alias, a_shadow_has_a_target_a_share_and_a_key_of_the_gateways_own) {
    struct conf *c = load_good("backends: {a: {protocol: openai, url: \"http://h/v1\"}}\n"
                               "aliases:\n"
                               "  plain: a/m\n"
                               "  m: {ladder: [{targets: [a/m]}],\n"
                               "    shadow: {target: a/n, percent: 5, budget: 50 USD/month}}\n"
                               "  \"x-*\": {ladder: [{targets: [a/m]}],\n"
                               "    shadow: {target: a/y-*, percent: 0.5, budget: {limit: 1 USD, period: day}}}\n");
    const struct conf_shadow *m = &c->aliases[1].shadow, *x = &c->aliases[2].shadow;
    cr_expect_null(c->aliases[0].shadow.target.name);
    cr_expect(m->share == FACTOR_ONE / 20 && x->share == FACTOR_ONE / 200);
    cr_expect(m->budget->limit_nanousd == INT64_C(50000000000) && m->budget->period == PERIOD_MONTH);
    cr_expect(x->budget->limit_nanousd == INT64_C(1000000000) && x->budget->period == PERIOD_DAY);
    cr_expect_str_eq(m->key->id, "shadow:m");
    cr_expect_str_eq(m->key->team->name, CONF_GATEWAY_TEAM);
    cr_expect_eq(conf_key_of_id(c, SPAN("shadow:x-*")), x->key);
    cr_expect_null(map_find(&c->keys_by_id, SPAN("shadow:m")), "no list of keys has it");
    cr_expect(m->as->n_rungs == 1 && m->as->rungs[0].targets == &m->target && m->as->attempts == 1);
    cr_expect_eq(m->target.backend, &c->backends[0]);
    conf_drop(c);
}
