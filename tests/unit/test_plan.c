/* Plans: their order, their bounds, and where they begin. */
#include "tests/support/hand_conf.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>

static struct hand *three_rungs(void) {
    struct hand *h = hand_new(3);
    hand_target(h, 0, hand_backend(h, "best", 1), "a", 1);
    hand_target(h, 1, hand_backend(h, "good", 1), "b", 1);
    hand_target(h, 2, hand_backend(h, "local", 0), "c", 1);
    h->rungs[2].degraded = true;
    h->rungs[2].only_for = REASON_BIT(REASON_UNAVAILABLE) | REASON_BIT(REASON_BUDGET);
    return h;
}

static void knock_out(struct hand *h, const char *target, enum outcome o, int64_t for_us) {
    cr_assert_eq(hand_plan(h), ERR_NONE);
    const struct choice *c = hand_choice(h, target);
    cr_assert_not_null(c, "%s is not in the plan", target);
    struct choice copy = *c;
    hand_learn(h, &copy, o, for_us);
}

Test(plan, stands_rung_by_rung_best_first) {
    struct hand *h = three_rungs();
    cr_assert_eq(hand_plan(h), ERR_NONE);
    cr_assert_eq(h->plan.n, 3);
    for (int i = 0; i < 3; i++)
        cr_expect_eq(h->plan.choices[i].rung, i);
    cr_expect_str_eq(h->plan.choices[0].why, "only target");
    cr_expect_eq(h->plan.choices[0].only_for, REASON_BIT(REASON_N) - 1, "the first rung is entered for anything");
    cr_expect_eq(h->plan.choices[2].only_for, REASON_BIT(REASON_UNAVAILABLE) | REASON_BIT(REASON_BUDGET));
    cr_expect(h->plan.choices[2].degraded && !h->plan.choices[1].degraded);
    cr_expect_eq(h->plan.skipped, 0);
    cr_expect_eq(h->plan.alias, &h->alias);
    hand_free(h);
}

Test(plan, is_never_longer_than_its_maximum_and_holds_each_lane_once) {
    static char models[HAND_RUNGS][12][8];
    for (uint64_t seed = 1; seed <= 60; seed++) {
        struct hand *h = hand_new(seed);
        struct conf_backend *b[3] = {hand_backend(h, "x", seed % 48 + 1), hand_backend(h, "y", seed % 5),
                                     hand_backend(h, "z", 1)};
        size_t n_rungs = seed % HAND_RUNGS + 1, lanes = 0;
        for (size_t r = 0; r < n_rungs; r++)
            for (size_t t = 0; t <= seed * 7 % 11; t++) {
                snprintf(models[r][t], sizeof models[r][t], "m%zu-%zu", r, t);
                struct conf_backend *at = b[(t + r) % 3];
                hand_target(h, r, at, models[r][t], (int)(t % 4));
                lanes += at->n_keys ? at->n_keys : 1;
            }
        cr_assert_eq(hand_plan(h), ERR_NONE);
        cr_assert_leq(h->plan.n, PLAN_MAX);
        cr_assert_eq((size_t)(h->plan.n + h->plan.n_cut), lanes, "what is cut is said");
        unsigned rungs = 0;
        for (int i = 0; i < h->plan.n; i++) {
            const struct choice *c = &h->plan.choices[i];
            rungs |= 1u << c->rung;
            cr_assert(i == 0 || c->rung >= h->plan.choices[i - 1].rung);
            for (int j = 0; j < i; j++) {
                const struct choice *d = &h->plan.choices[j];
                cr_assert(c->key != d->key || strcmp(c->target, d->target) != 0);
            }
        }
        cr_assert_eq(rungs, (1u << n_rungs) - 1, "no rung is pushed out by the keys of another");
        hand_free(h);
    }
}

Test(plan, R_04_a_lane_that_stands_in_two_rungs_is_planned_once) {
    struct hand *h = hand_new(1);
    struct conf_backend *a = hand_backend(h, "a", 2), *b = hand_backend(h, "b", 1);
    hand_target(h, 0, a, "m", 1);
    hand_target(h, 0, a, "m", 1);
    hand_target(h, 1, b, "m", 1);
    hand_target(h, 2, a, "m", 1);
    cr_assert_eq(hand_plan(h), ERR_NONE);
    cr_expect_eq(h->plan.n, 3, "two keys of a, one of b");
    cr_expect_eq(h->plan.choices[2].rung, 1);
    hand_free(h);
}

Test(plan, a_plan_may_begin_lower_for_a_listed_reason) {
    struct hand *h = three_rungs();
    knock_out(h, "best/a", OUTCOME_UNAVAILABLE, 60 * HAND_SECOND);
    cr_assert_eq(hand_plan(h), ERR_NONE);
    cr_expect_eq(h->plan.n, 2);
    cr_expect_str_eq(h->plan.choices[0].target, "good/b");
    cr_expect_eq(h->plan.skipped, REASON_BIT(REASON_UNAVAILABLE));
    knock_out(h, "good/b", OUTCOME_UNAVAILABLE, 60 * HAND_SECOND);
    cr_assert_eq(hand_plan(h), ERR_NONE);
    cr_expect_eq(h->plan.n, 1);
    cr_expect(h->plan.choices[0].degraded);
    hand_free(h);
}

Test(plan, a_plan_does_not_begin_lower_for_a_reason_that_is_not_listed) {
    struct hand *h = three_rungs();
    h->rungs[1].only_for = REASON_BIT(REASON_TIMEOUT);
    knock_out(h, "best/a", OUTCOME_RATE_LIMITED, 60 * HAND_SECOND);
    cr_expect_eq(hand_plan(h), ERR_NO_TARGET);
    cr_expect_eq(h->plan.retry_after_us, 60 * HAND_SECOND);
    cr_expect_str_eq(hand_why_out(h, "good/b"), "its rung is only for timeout");
    cr_expect_str_eq(hand_why_out(h, "local/c"), "its rung is only for unavailable, budget");
    h->rungs[1].only_for = 0;
    cr_expect_eq(hand_plan(h), ERR_NO_TARGET);
    cr_expect_str_eq(hand_why_out(h, "good/b"), "its rung is only for nothing");
    hand_free(h);
}

Test(plan, a_missing_tag_makes_a_rung_absent_but_opens_no_degraded_one) {
    static const char *eu[] = {"eu"};
    struct hand *h = three_rungs();
    h->backends[1].tags = h->backends[2].tags = eu;
    h->backends[1].n_tags = h->backends[2].n_tags = 1;
    h->team.require = eu;
    h->team.n_require = 1;
    cr_assert_eq(hand_plan(h), ERR_NONE);
    cr_expect_str_eq(h->plan.choices[0].target, "good/b", "for this team the ladder begins here");
    cr_expect_eq(h->plan.skipped, 0);
    cr_expect_eq(h->plan.choices[0].only_for, REASON_BIT(REASON_N) - 1);
    h->backends[1].n_tags = 0;
    cr_expect_eq(hand_plan(h), ERR_TARGET_FORBIDDEN, "a tag is no reason to serve less");
    hand_free(h);
}

Test(plan, what_the_call_needs_or_its_length_are_reasons_to_begin_lower_where_listed) {
    struct hand *h = three_rungs();
    hand_model(h, &h->backends[0], "a")->context_tok = 10;
    h->needs.in_bound_tok = 1000;
    cr_assert_eq(hand_plan(h), ERR_NONE);
    cr_expect_str_eq(h->plan.choices[0].target, "good/b");
    cr_expect_eq(h->plan.skipped, REASON_BIT(REASON_CONTEXT_WINDOW));
    h->backends[0].models[0] = (struct conf_model){.name = "a", .context_tok = -1, .caps_said = CAP_TOOLS};
    h->needs.caps = CAP_TOOLS;
    cr_expect_eq(hand_plan(h), ERR_UNSUPPORTED, "capability is not among the default reasons");
    h->rungs[1].only_for |= REASON_BIT(REASON_CAPABILITY);
    cr_expect_eq(hand_plan(h), ERR_NONE);
    hand_free(h);
}

Test(plan, a_rung_below_one_that_cannot_serve_stands_in_for_it) {
    struct hand *h = three_rungs();
    h->rungs[2].only_for = REASON_BIT(REASON_RATE_LIMITED);
    knock_out(h, "good/b", OUTCOME_RATE_LIMITED, 60 * HAND_SECOND);
    cr_assert_eq(hand_plan(h), ERR_NONE);
    cr_assert_eq(h->plan.n, 2);
    cr_expect_str_eq(h->plan.choices[1].target, "local/c");
    cr_expect(h->plan.choices[1].only_for & REASON_BIT(REASON_TIMEOUT), "a timeout leads to rung 2, and on to rung 3");
    cr_expect_not(h->plan.choices[1].only_for & REASON_BIT(REASON_BUDGET));
    cr_expect_eq(h->plan.skipped, 0, "the first choice is of the best rung");
    hand_free(h);
}

Test(plan, one_transient_fault_never_takes_out_a_lone_target) {
    static const enum outcome transient[] = {OUTCOME_CONNECT,      OUTCOME_UNAVAILABLE, OUTCOME_TIMEOUT,
                                             OUTCOME_RATE_LIMITED, OUTCOME_AUTH,        OUTCOME_MODEL_MISSING};
    for (size_t i = 0; i < ARRAY_LEN(transient); i++) {
        struct hand *h = hand_new(1);
        hand_target(h, 0, hand_backend(h, "lone", 1), "m", 1);
        for (int n = 0; n < 5; n++)
            knock_out(h, "lone/m", transient[i], 0);
        cr_expect_eq(hand_plan(h), ERR_NONE, "%s", outcome_names[transient[i]]);
        for (int n = 0; n < 30; n++)
            hand_learn(h, &h->plan.choices[0], transient[i], 0);
        cr_expect_eq(hand_plan(h), ERR_NO_TARGET, "but a bad ratio of enough tries does");
        cr_expect_gt(h->plan.retry_after_us, 0);
        hand_free(h);
    }
}

Test(plan, what_is_shy_is_passed_over_while_others_can_serve) {
    struct hand *h = hand_new(1);
    hand_target(h, 0, hand_backend(h, "a", 1), "m", 9);
    hand_target(h, 0, hand_backend(h, "b", 1), "m", 1);
    knock_out(h, "a/m", OUTCOME_RATE_LIMITED, 0);
    cr_assert_eq(hand_plan(h), ERR_NONE);
    cr_expect(h->plan.n == 2 && !h->plan.choices[0].last && h->plan.choices[1].last);
    cr_expect_str_eq(h->plan.choices[0].target, "b/m");
    cr_expect_str_eq(h->plan.choices[1].why, "cooling down, but nothing else is left", "it stands last");
    knock_out(h, "b/m", OUTCOME_RATE_LIMITED, 0);
    cr_assert_eq(hand_plan(h), ERR_NONE);
    cr_expect_eq(h->plan.n, 2);
    cr_expect_str_eq(h->plan.choices[0].why, "cooling down, but nothing else is left");
    cr_expect_eq(h->plan.n_excluded, 0);
    hand_free(h);
}

Test(plan, what_the_error_ratio_shut_long_ago_stands_last_and_comes_after_all_rungs) {
    struct hand *h = three_rungs();
    cr_assert_eq(hand_plan(h), ERR_NONE);
    struct choice best = *hand_choice(h, "best/a");
    for (int i = 0; i < 25; i++)
        hand_learn(h, &best, OUTCOME_UNAVAILABLE, 0);
    cr_assert_eq(hand_plan(h), ERR_NONE);
    cr_expect_eq(h->plan.n, 2, "not before the first cool-down is over");
    hand_learn(h, &best, OUTCOME_UNAVAILABLE, 0);
    h->now_us += 2 * HAND_SECOND;
    cr_assert(routing_begin(h->routing, &best, h->now_us));
    hand_learn(h, &best, OUTCOME_UNAVAILABLE, 0);
    routing_end(h->routing, &best);
    h->now_us += 2 * HAND_SECOND; /* of 2.5 */
    cr_assert_eq(hand_plan(h), ERR_NONE);
    cr_assert_eq(h->plan.n, 3);
    cr_expect(h->plan.choices[2].last && strcmp(h->plan.choices[2].target, "best/a") == 0);
    cr_expect_eq(plan_next(&h->plan, 1, OUTCOME_UNAVAILABLE, 2, 4, FALLBACK_ANY), 2);
    cr_expect_eq(plan_next(&h->plan, 0, OUTCOME_UNAVAILABLE, 1, 4, FALLBACK_ANY), 1, "a degraded rung comes before it");
    hand_free(h);
}

Test(plan, a_fault_is_charged_where_it_belongs) {
    static const struct {
        enum outcome o;
        bool same_lane, other_key, other_model, other_backend; /* left in the plan */
    } table[] = {
        {OUTCOME_RATE_LIMITED, false, true, true, true},   {OUTCOME_AUTH, false, true, false, true},
        {OUTCOME_UNAVAILABLE, false, false, true, true},   {OUTCOME_MODEL_MISSING, false, false, true, true},
        {OUTCOME_TIMEOUT, false, false, true, true},       {OUTCOME_CONNECT, false, false, false, true},
        {OUTCOME_CONNECT_SLOW, false, false, false, true}, {OUTCOME_CLIENT_FAULT, true, true, true, true},
        {OUTCOME_CANCELLED, true, true, true, true},       {OUTCOME_CONTEXT_WINDOW, true, true, true, true},
        {OUTCOME_CONTENT_FILTER, true, true, true, true},  {OUTCOME_NO_SLOT, true, true, true, true},
        {OUTCOME_OVER_BUDGET, true, true, true, true},     {OUTCOME_LOCAL, true, true, true, true},
    };
    for (size_t row = 0; row < ARRAY_LEN(table); row++) {
        struct hand *h = hand_new(row + 1);
        struct conf_backend *a = hand_backend(h, "a", 2), *b = hand_backend(h, "b", 1);
        hand_target(h, 0, a, "m", 1);
        hand_target(h, 0, a, "n", 1);
        hand_target(h, 0, b, "m", 1);
        struct choice ill = {.backend = a, .target = "a/m", .model = SPAN("m"), .key = &a->keys[0]};
        for (int i = 0; i < 3; i++)
            hand_learn(h, &ill, table[row].o, 0);
        cr_assert_eq(hand_plan(h), ERR_NONE);
        bool left[4] = {false};
        for (int i = 0; i < h->plan.n && !h->plan.choices[i].last; i++) {
            const struct choice *c = &h->plan.choices[i];
            left[0] |= strcmp(c->target, "a/m") == 0 && c->key == &a->keys[0];
            left[1] |= strcmp(c->target, "a/m") == 0 && c->key == &a->keys[1];
            left[2] |= strcmp(c->target, "a/n") == 0 && c->key == &a->keys[0];
            left[3] |= strcmp(c->target, "b/m") == 0;
        }
        const char *name = outcome_names[table[row].o];
        cr_expect_eq(left[0], table[row].same_lane, "%s: the lane", name);
        cr_expect_eq(left[1], table[row].other_key, "%s: another key", name);
        cr_expect_eq(left[2], table[row].other_model, "%s: another model", name);
        cr_expect_eq(left[3], table[row].other_backend, "%s: another backend", name);
        hand_free(h);
    }
}

Test(plan, a_caller_without_fallback_is_not_led_down) {
    struct hand *h = three_rungs();
    h->needs.fallback = FALLBACK_NONE;
    cr_assert_eq(hand_plan(h), ERR_NONE);
    cr_expect_eq(h->plan.n, 1);
    cr_expect_str_eq(hand_why_out(h, "good/b"), "the caller wants no fallback");
    h->backends[0].off = true;
    cr_expect_eq(hand_plan(h), ERR_NO_TARGET);
    hand_free(h);
}

Test(plan, a_caller_who_wants_the_same_model_gets_it_elsewhere) {
    struct hand *h = three_rungs();
    hand_target(h, 1, &h->backends[2], "a", 1);
    h->needs.fallback = FALLBACK_SAME_MODEL;
    cr_assert_eq(hand_plan(h), ERR_NONE);
    cr_expect_eq(h->plan.n, 2);
    cr_expect_str_eq(h->plan.choices[1].target, "local/a");
    cr_expect_str_eq(hand_why_out(h, "good/b"), "another model, and the caller wants the same");
    h->backends[0].off = true;
    cr_assert_eq(hand_plan(h), ERR_NONE);
    cr_expect_str_eq(h->plan.choices[0].target, "local/a");
    hand_free(h);
}

Test(plan, exclusions_past_the_maximum_are_counted) {
    struct hand *h = hand_new(1);
    struct conf_backend *off = hand_backend(h, "off", 1);
    off->off = true;
    for (size_t i = 0; i < HAND_TARGETS; i++) {
        hand_target(h, 0, off, "m", 1);
        hand_target(h, h->alias.n_rungs > 1 ? 1 : h->alias.n_rungs, off, "m", 1);
    }
    cr_expect_eq(hand_plan(h), ERR_NO_TARGET);
    cr_expect_eq(h->plan.n_excluded, PLAN_EXCLUDED_MAX);
    cr_expect_eq(h->plan.n_forgotten, 2 * HAND_TARGETS - PLAN_EXCLUDED_MAX);
    hand_free(h);
}

static double share_of_first(struct hand *h, const char *target, int draws) {
    int n = 0;
    for (int i = 0; i < draws; i++) {
        struct arena a;
        arena_init(&a, 1 << 16);
        cr_assert_eq(routing_plan(h->routing, &h->needs, h->now_us, &a, &h->plan), ERR_NONE);
        n += strcmp(h->plan.choices[0].target, target) == 0;
        arena_fini(&a);
    }
    return (double)n / draws;
}

Test(plan, R_10_weights_are_skewed_after_a_cool_down) {
    struct hand *h = hand_new(20261130);
    hand_target(h, 0, hand_backend(h, "a", 1), "m", 1);
    hand_target(h, 0, hand_backend(h, "b", 3), "m", 9);
    double tolerance = 5 * sqrt(0.1 * 0.9 / 10000);
    cr_expect_leq(fabs(share_of_first(h, "a/m", 10000) - 0.1), tolerance);
    knock_out(h, "a/m", OUTCOME_UNAVAILABLE, 60 * HAND_SECOND);
    cr_expect_eq(share_of_first(h, "a/m", 1000), 0.0, "removed");
    h->now_us += 61 * HAND_SECOND;
    knock_out(h, "a/m", OUTCOME_OK, 0);
    cr_expect_leq(fabs(share_of_first(h, "a/m", 10000) - 0.1), tolerance, "and back");
    hand_free(h);
}

Test(plan, the_same_seed_draws_the_same_plans) {
    struct hand *h[2];
    for (int k = 0; k < 2; k++) {
        h[k] = hand_new(77);
        for (int i = 0; i < 4; i++)
            hand_target(h[k], 0, hand_backend(h[k], (const char *[]){"a", "b", "c", "d"}[i], 2), "m", i + 1);
    }
    for (int i = 0; i < 100; i++) {
        cr_assert_eq(hand_plan(h[0]), ERR_NONE);
        cr_assert_eq(hand_plan(h[1]), ERR_NONE);
        for (int c = 0; c < h[0]->plan.n; c++)
            cr_assert_str_eq(h[0]->plan.choices[c].target, h[1]->plan.choices[c].target);
    }
    hand_free(h[0]);
    hand_free(h[1]);
}
