/* Teams and keys: what is taken from whom, who may call what, and ids. */
#include "tests/support/conf_text.h"

#define HEX_A "00000000000000000000000000000000000000000000000000000000000000aa"
#define HEX_B "bbbbbbbbbbbbbbbb0000000000000000000000000000000000000000000000bb"

static const char yaml[] = MOCK_BACKEND
    "aliases: {smart: mock/s, \"gpt-*\": mock/*}\n"
    "team_defaults: {rate_limits: {in_flight: 200, requests_per_minute: 10}, contact: everybody, "
    "max_cost_per_call: 5 USD}\n"
    "tiers: {bronze: {rate_limits: {requests_per_minute: 60}, labels: {class: b}}}\n"
    "teams:\n"
    "  search:\n"
    "    tier: bronze\n"
    "    allow: [smart, \"gpt-*\", \"!*-pro*\"]\n"
    "    rate_limits: {tokens_per_minute: 7}\n"
    "    caller_labels: [feature, env]\n"
    "    keys:\n"
    "      - {id: abcdEFGH, name: prod, sha256: " HEX_A
    ", owner: \"anna@x\", expires: 2027-06-30, allow: [smart], max_cost_per_call: 1 USD,\n"
    "         budgets: [{limit: 1 USD, period: day, warn: [95%, 50%, 80.5%]}], rate_limits: {in_flight: 64}}\n"
    "      - {name: dev, sha256: " HEX_B "}\n"
    "  plain: {max_cost_per_call: none}\n";

Test(conf_team, tier_and_defaults_fill_what_the_team_leaves_out) {
    struct conf *c = load_good(yaml);
    const struct conf_team *t = &c->teams[0];
    cr_expect_eq(t->limits.in_flight, 200);
    cr_expect_eq(t->limits.requests_per_minute, 60);
    cr_expect_eq(t->limits.tokens_per_minute, 7);
    cr_expect_str_eq(t->contact, "everybody");
    cr_expect_eq(t->n_labels, 1);
    cr_expect_str_eq(t->labels[0].value, "b");
    cr_expect_eq(t->n_caller_labels, 2);
    cr_expect_eq(t->max_cost_per_call, 5 * NANO_PER_USD);
    const struct conf_budget *b = t->keys[0].budgets;
    cr_expect(b->n_warn == 3 && b->warn[0] == 5000 && b->warn[1] == 8050 && b->warn[2] == 9500, "in ascending order");
    cr_expect(b->at_limit == AT_LIMIT_REFUSE);
    cr_expect_eq(c->teams[1].limits.requests_per_minute, 10);
    cr_expect_eq(c->teams[1].limits.tokens_per_minute, CONF_UNLIMITED);
    cr_expect_eq(c->teams[1].max_cost_per_call, CONF_UNLIMITED);
    conf_drop(c);
}

Test(conf_team, keys_are_found_by_digest_and_by_id) {
    struct conf *c = load_good(yaml);
    uint8_t digest[SHA256_BYTES] = {0};
    digest[31] = 0xaa;
    const struct conf_key *k = conf_find_key(c, digest);
    cr_assert_not_null(k);
    cr_expect_str_eq(k->id, "abcdEFGH");
    cr_expect_eq(k->team, &c->teams[0]);
    cr_expect_str_eq(k->owner, "anna@x");
    cr_expect_eq(k->expires_us, INT64_C(1814313600000000));
    cr_expect_eq(k->max_cost_per_call, NANO_PER_USD);
    cr_expect_eq(k->limits.in_flight, 64);
    cr_expect_eq(k->n_budgets, 1);
    cr_expect_not(k->revoked || k->runtime || k->demo);
    const struct conf_key *dev = map_find(&c->keys_by_id, SPAN("bbbbbbbb"));
    cr_assert_not_null(dev);
    cr_expect_eq(dev->expires_us, INT64_MAX);
    cr_expect_eq(dev->max_cost_per_call, CONF_UNLIMITED);
    cr_expect_null(dev->allow);
    digest[31] = 0xab;
    cr_expect_null(conf_find_key(c, digest));
    conf_drop(c);
}

Test(conf_team, a_call_needs_the_team_and_the_key) {
    struct conf *c = load_good(yaml);
    const struct conf_key *prod = map_find(&c->keys_by_id, SPAN("abcdEFGH"));
    const struct conf_key *dev = map_find(&c->keys_by_id, SPAN("bbbbbbbb"));
    cr_expect(conf_may_call(dev, SPAN("smart")));
    cr_expect(conf_may_call(dev, SPAN("gpt-6")));
    cr_expect_not(conf_may_call(dev, SPAN("gpt-6-pro")));
    cr_expect_not(conf_may_call(dev, SPAN("gpt-6-pro-2")));
    cr_expect_not(conf_may_call(dev, SPAN("other")));
    cr_expect(conf_may_call(prod, SPAN("smart")));
    cr_expect_not(conf_may_call(prod, SPAN("gpt-6")));
    struct conf_key nobody = {.team = &c->teams[1]};
    cr_expect_not(conf_may_call(&nobody, SPAN("smart")), "a team without allow may call nothing");
    conf_drop(c);
}

Test(conf_team, names_that_lead_nowhere_are_warned_of) {
    struct loaded l =
        load_text("t.yaml", MOCK_BACKEND "aliases: {smart: mock/s}\nteams: {a: {allow: [smrt], require: [eu]}}\n");
    cr_assert_not_null(l.conf, "%s", l.text.at);
    cr_expect(strstr(l.text.at, "t.yaml:3:21: warning: no alias is called 'smrt'; did you mean 'smart'?"), "%s",
              l.text.at);
    cr_expect(strstr(l.text.at, "t.yaml:3:38: warning: no backend has the tag 'eu'"), "%s", l.text.at);
    unload(&l);
}
