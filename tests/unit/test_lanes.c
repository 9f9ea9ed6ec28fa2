/* Which lanes may serve, and the words for those that may not. */
#include "tests/support/hand_conf.h"

#include <criterion/criterion.h>

static const char *require_eu[] = {"eu"};
static const char *tags_us[] = {"us"}, *tags_eu_zdr[] = {"eu", "zdr"};

static struct hand *two_targets(struct conf_backend **first, struct conf_backend **second) {
    struct hand *h = hand_new(1);
    *first = hand_backend(h, "first", 1);
    *second = hand_backend(h, "second", 1);
    hand_target(h, 0, *first, "m", 1);
    hand_target(h, 0, *second, "m", 1);
    return h;
}

Test(lanes, a_target_without_a_required_tag_never_enters_the_plan) {
    struct conf_backend *a, *b;
    struct hand *h = two_targets(&a, &b);
    a->tags = tags_us;
    a->n_tags = 1;
    b->tags = tags_eu_zdr;
    b->n_tags = 2;
    h->team.require = require_eu;
    h->team.n_require = 1;
    cr_assert_eq(hand_plan(h), ERR_NONE);
    cr_expect_eq(h->plan.n, 1);
    cr_expect_str_eq(h->plan.choices[0].target, "second/m");
    cr_expect_str_eq(hand_why_out(h, "first/m"), "no tag eu");
    cr_expect_eq(h->plan.excluded[0].reason, REASON_N, "a boundary is no reason to go down");
    h->needs.require = SPAN(" zdr , ,eu");
    cr_expect_eq(hand_plan(h), ERR_NONE);
    h->needs.require = SPAN("zdr,mars");
    cr_expect_eq(hand_plan(h), ERR_TARGET_FORBIDDEN, "a call may only add tags");
    cr_expect_str_eq(hand_why_out(h, "second/m"), "no tag mars");
    cr_expect_eq(h->plan.n, 0);
    hand_free(h);
}

Test(lanes, a_call_cannot_take_away_a_tag_that_its_team_requires) {
    struct conf_backend *a, *b;
    struct hand *h = two_targets(&a, &b);
    a->tags = tags_us;
    a->n_tags = 1;
    h->team.require = require_eu;
    h->team.n_require = 1;
    h->needs.require = SPAN("us");
    cr_expect_eq(hand_plan(h), ERR_TARGET_FORBIDDEN);
    hand_free(h);
}

Test(lanes, a_key_may_require_tags_besides_its_team) {
    static const char *zdr[] = {"zdr"};
    struct conf_backend *a, *b;
    struct hand *h = two_targets(&a, &b);
    a->tags = require_eu;
    a->n_tags = 1;
    b->tags = tags_eu_zdr;
    b->n_tags = 2;
    h->team.require = require_eu;
    h->team.n_require = 1;
    h->key.require = zdr;
    h->key.n_require = 1;
    cr_assert_eq(hand_plan(h), ERR_NONE);
    cr_expect_eq(h->plan.n, 1);
    cr_expect_str_eq(hand_why_out(h, "first/m"), "no tag zdr");
    cr_expect(!routing_permits(&h->needs, a) && routing_permits(&h->needs, b), "one rule for whoever sends a call");
    h->needs.require = SPAN("mars");
    cr_expect_not(routing_permits(&h->needs, b));
    cr_expect_eq(hand_plan(h), ERR_TARGET_FORBIDDEN);
    hand_free(h);
}

Test(lanes, a_backend_with_keys_of_other_teams_alone_is_permitted_to_nobody_else) {
    static const char *billing[] = {"billing"};
    struct hand *h = hand_new(1);
    struct conf_backend *a = hand_backend(h, "first", 1);
    cr_expect(routing_permits(&h->needs, a));
    a->keys[0].teams = billing;
    a->keys[0].n_teams = 1;
    cr_expect_not(routing_permits(&h->needs, a));
    a->n_keys = 0;
    cr_expect(routing_permits(&h->needs, a), "one that takes no key is for all");
    hand_free(h);
}

Test(lanes, policies_see_waits_calls_in_flight_and_what_this_call_would_cost) {
    static const struct price dear = {.in = 2000000, .out = 2000000, .factor = FACTOR_ONE, .known = true},
                              cheap = {.in = 1000000, .out = 1000000, .factor = FACTOR_ONE, .known = true};
    struct conf_backend *a, *b;
    struct hand *h = two_targets(&a, &b);
    hand_model(h, a, "m")->price = &dear;
    hand_model(h, b, "m")->price = &cheap;
    h->rungs[0].policy = POLICY_COST;
    h->needs.expected = (struct usage){.in = 1000, .out = 500};
    cr_assert_eq(hand_plan(h), ERR_NONE);
    cr_expect_str_eq(h->plan.choices[0].target, "second/m");
    cr_expect_eq(h->plan.choices[0].facts.cost_nanousd, 1500000);
    cr_expect_eq(h->plan.choices[1].facts.cost_nanousd, 3000000);
    cr_expect_str_eq(h->plan.choices[0].why, "cheapest for this call");
    cr_expect_eq(h->plan.choices[0].facts.latency_us, -1);

    struct choice c = h->plan.choices[0];
    h->rungs[0].policy = POLICY_LATENCY;
    cr_assert(routing_begin(h->routing, &c, h->now_us));
    routing_learn(h->routing, &h->conf, &c,
                  &(struct lesson){.outcome = OUTCOME_OK, .stream = true, .waited_us = 700000}, h->now_us);
    cr_assert_eq(hand_plan(h), ERR_NONE);
    cr_expect_eq(hand_choice(h, "second/m")->facts.in_flight, 1);
    cr_expect_eq(hand_choice(h, "second/m")->facts.latency_us, -1, "a stream's wait says nothing of a whole answer");
    h->needs.stream = true;
    cr_assert_eq(hand_plan(h), ERR_NONE);
    cr_expect_eq(hand_choice(h, "second/m")->facts.latency_us, 700000);
    cr_expect_eq(hand_choice(h, "second/m")->facts.cost_nanousd, -1, "nobody asks");
    routing_learn(h->routing, &h->conf, &c,
                  &(struct lesson){.outcome = OUTCOME_UNAVAILABLE, .stream = true, .waited_us = 900000}, h->now_us);
    cr_assert_eq(hand_plan(h), ERR_NONE);
    cr_expect_eq(hand_choice(h, "second/m")->facts.latency_us, 700000, "a refusal is no wait");
    routing_end(h->routing, &c);
    hand_free(h);
}

Test(lanes, another_dialect_is_a_boundary) {
    struct conf_backend *a, *b;
    struct hand *h = two_targets(&a, &b);
    a->protocol = PROTOCOL_ANTHROPIC;
    cr_assert_eq(hand_plan(h), ERR_NONE);
    cr_expect_eq(h->plan.n, 1);
    cr_expect_str_eq(hand_why_out(h, "first/m"), "protocol anthropic does not serve this endpoint");
    b->protocol = PROTOCOL_ANTHROPIC;
    cr_expect_eq(hand_plan(h), ERR_UNSUPPORTED);
    h->needs.protocols = 1u << PROTOCOL_ANTHROPIC;
    cr_expect_eq(hand_plan(h), ERR_NONE);
    cr_expect_eq(h->plan.n, 2);
    hand_free(h);
}

Test(lanes, a_backend_without_keys_that_needs_some_is_off) {
    struct conf_backend *a, *b;
    struct hand *h = two_targets(&a, &b);
    a->off = true;
    a->off_reason = "OPENAI_API_KEY is not set";
    cr_assert_eq(hand_plan(h), ERR_NONE);
    cr_expect_str_eq(hand_why_out(h, "first/m"), "backend first is off: OPENAI_API_KEY is not set");
    b->off = true;
    cr_expect_eq(hand_plan(h), ERR_NO_TARGET);
    hand_free(h);
}

Test(lanes, a_model_that_lacks_what_the_call_needs_is_out_and_an_unknown_one_is_not) {
    struct conf_backend *a, *b;
    struct hand *h = two_targets(&a, &b);
    struct conf_model *m = hand_model(h, a, "m");
    m->caps_said = CAP_TOOLS | CAP_VISION;
    m->caps = CAP_VISION;
    h->needs.caps = CAP_VISION | CAP_LOGPROBS;
    cr_assert_eq(hand_plan(h), ERR_NONE);
    cr_expect_eq(h->plan.n, 2);
    h->needs.caps = CAP_VISION | CAP_TOOLS;
    cr_assert_eq(hand_plan(h), ERR_NONE);
    cr_expect_eq(h->plan.n, 1);
    cr_expect_str_eq(hand_why_out(h, "first/m"), "no tools");
    cr_expect_eq(h->plan.excluded[0].reason, REASON_CAPABILITY);
    b->off = true;
    cr_expect_eq(hand_plan(h), ERR_NO_TARGET, "the one that could is merely off");
    b->off = false;
    *hand_model(h, b, "m") = *m;
    cr_expect_eq(hand_plan(h), ERR_UNSUPPORTED);
    hand_free(h);
}

Test(lanes, a_window_is_too_small_only_when_that_is_sure) {
    struct conf_backend *a, *b;
    struct hand *h = two_targets(&a, &b);
    hand_model(h, a, "m")->context_tok = 8192;
    hand_model(h, b, "m")->context_tok = 128000;
    h->needs.in_bound_tok = 8192 * 2 + 1;
    cr_assert_eq(hand_plan(h), ERR_NONE);
    cr_expect_eq(h->plan.n, 2, "a guess of 16,385 may be 8,192 tokens");
    h->needs.in_bound_tok = 8193 * 2;
    cr_assert_eq(hand_plan(h), ERR_NONE);
    cr_expect_eq(h->plan.n, 1);
    cr_expect_str_eq(hand_why_out(h, "first/m"), "context of 8192 is too small");
    h->needs.in_bound_tok = INT64_MAX;
    cr_expect_eq(hand_plan(h), ERR_CONTEXT);
    h->needs.in_bound_tok = 1;
    h->needs.max_output_tok = 8193;
    cr_assert_eq(hand_plan(h), ERR_NONE);
    cr_expect_str_eq(hand_why_out(h, "first/m"), "context of 8192 is too small for 8193 of output");
    hand_free(h);
}

Test(lanes, a_key_of_another_team_makes_no_lane) {
    static const char *billing[] = {"billing"}, *search[] = {"billing", "search"};
    struct hand *h = hand_new(1);
    struct conf_backend *a = hand_backend(h, "first", 3);
    hand_target(h, 0, a, "m", 1);
    a->keys[0].teams = billing;
    a->keys[0].n_teams = 1;
    a->keys[1].teams = search;
    a->keys[1].n_teams = 2;
    for (int i = 0; i < 50; i++) {
        cr_assert_eq(hand_plan(h), ERR_NONE);
        cr_assert_eq(h->plan.n, 2);
        cr_assert_neq(h->plan.choices[0].key, &a->keys[0]);
        cr_assert_neq(h->plan.choices[1].key, &a->keys[0]);
    }
    cr_expect_str_eq(hand_why_out(h, "first/m"), "key key1: not for team search");
    a->keys[1].teams = a->keys[2].teams = billing;
    a->keys[1].n_teams = a->keys[2].n_teams = 1;
    cr_expect_eq(hand_plan(h), ERR_TARGET_FORBIDDEN);
    cr_expect_str_eq(hand_why_out(h, "first/m"), "no key of backend first is for team search");
    hand_free(h);
}

Test(lanes, the_capture_is_filled_into_the_upstream_name) {
    struct hand *h = hand_new(1);
    struct conf_backend *a = hand_backend(h, "first", 0);
    hand_target(h, 0, a, "ft-*-v1", 1);
    h->alias.pattern = true;
    h->needs.captured = SPAN("5.4-mini");
    cr_assert_eq(hand_plan(h), ERR_NONE);
    cr_expect_str_eq(h->plan.choices[0].target, "first/ft-5.4-mini-v1");
    cr_expect(span_is(h->plan.choices[0].model, "ft-5.4-mini-v1"));
    cr_expect_null(h->plan.choices[0].key);
    h->needs.captured = SPAN_NONE;
    cr_assert_eq(hand_plan(h), ERR_NONE);
    cr_expect_str_eq(h->plan.choices[0].target, "first/ft--v1");
    h->alias.pattern = false;
    cr_assert_eq(hand_plan(h), ERR_NONE);
    cr_expect_str_eq(h->plan.choices[0].target, "first/ft-*-v1", "a star is one only in a pattern");
    hand_free(h);
}

Test(lanes, a_model_name_that_does_not_fit_the_arena_is_an_error_and_no_crash) {
    struct hand *h = hand_new(1);
    hand_target(h, 0, hand_backend(h, "first", 1), "*", 1);
    h->alias.pattern = true;
    static char endless[1 << 16];
    memset(endless, 'x', sizeof endless);
    h->needs.captured = span_from(endless, sizeof endless);
    struct arena small;
    arena_init(&small, 4096);
    cr_expect_eq(routing_plan(h->routing, &h->needs, h->now_us, &small, &h->plan), ERR_INTERNAL);
    cr_expect_eq(h->plan.n, 0);
    arena_fini(&small);
    hand_free(h);
}

Test(lanes, cooling_down_is_said_with_part_time_and_reason) {
    struct conf_backend *a, *b;
    struct hand *h = two_targets(&a, &b);
    cr_assert_eq(hand_plan(h), ERR_NONE);
    struct choice first = *hand_choice(h, "first/m"), second = *hand_choice(h, "second/m");
    hand_learn(h, &first, OUTCOME_RATE_LIMITED, 1500000);
    cr_assert_eq(hand_plan(h), ERR_NONE);
    cr_expect_eq(h->plan.n, 1);
    cr_expect_str_eq(hand_why_out(h, "first/m"), "lane cooling down for 1s500ms (rate_limited)");
    hand_learn(h, &second, OUTCOME_UNAVAILABLE, 4 * HAND_SECOND);
    cr_expect_eq(hand_plan(h), ERR_NO_TARGET);
    cr_expect_eq(h->plan.retry_after_us, 1500000, "the soonest");
    h->now_us += 1500000;
    cr_assert_eq(hand_plan(h), ERR_NONE);
    cr_expect_str_eq(h->plan.choices[0].target, "first/m");
    cr_expect_str_eq(h->plan.choices[0].why, "probe after cool-down");
    hand_free(h);
}

Test(lanes, every_exclusion_has_its_reason_in_words) {
    struct conf_backend *a, *b;
    struct hand *h = two_targets(&a, &b);
    struct conf_backend *c = hand_backend(h, "third", 40);
    c->off = true; /* and no reason given */
    hand_target(h, 0, c, "m", 1);
    a->protocol = PROTOCOL_ANTHROPIC;
    struct choice busy = {.backend = b, .target = "second/m", .key = &b->keys[0]};
    cr_assert(routing_begin(h->routing, &busy, h->now_us));
    b->in_flight = 1;
    cr_assert_eq(hand_plan(h), ERR_NO_TARGET);
    cr_expect_eq(h->plan.n_excluded, 3, "an exclusion of a whole backend is said once a target, not once a key");
    cr_expect_str_eq(hand_why_out(h, "first/m"), "protocol anthropic does not serve this endpoint");
    cr_expect_str_eq(hand_why_out(h, "second/m"), "all 1 slots of backend second are in use");
    cr_expect_str_eq(hand_why_out(h, "third/m"), "backend third is off: no key");
    routing_end(h->routing, &busy);
    hand_free(h);
}

Test(lanes, R_04_a_lane_that_is_named_twice_is_one_lane) {
    struct conf_backend *a, *b;
    struct hand *h = two_targets(&a, &b);
    hand_target(h, 0, a, "m", 5);
    hand_target(h, 1, b, "m", 1);
    cr_assert_eq(hand_plan(h), ERR_NONE);
    cr_expect_eq(h->plan.n, 2);
    cr_expect_str_eq(hand_why_out(h, "second/m"), "stands in the plan already");
    hand_free(h);
}
