/* Arms: who is in a share, where an arm's own target stands in the plan, and what it changes in the cache key. */
#include "tests/support/hand_conf.h"

#include <criterion/criterion.h>
#include <stdio.h>

#define SUBJECTS 20000
#define TOLERANCE_PERMILLE 8 /* five standard deviations of the worst share */

static struct span name_of(int i, char out[16]) {
    snprintf(out, 16, "team-%d", i);
    return span_of(out);
}

static int held(const char *alias, int64_t share) {
    char name[16];
    int n = 0;
    for (int i = 0; i < SUBJECTS; i++)
        n += arm_holds(alias, name_of(i, name), share);
    return n;
}

Test(routing_arm, a_share_is_held_within_the_tolerance) {
    static const int64_t shares[] = {0, 1, 50, 100, 500, 2500, 5000, 9500, FACTOR_ONE};
    for (size_t i = 0; i < ARRAY_LEN(shares); i++) {
        int64_t want = SUBJECTS * shares[i] / FACTOR_ONE;
        cr_expect_leq(llabs(held("smart", shares[i]) - want), SUBJECTS * TOLERANCE_PERMILLE / 1000, "share %lld",
                      (long long)shares[i]);
    }
    cr_expect_eq(held("smart", 0), 0);
    cr_expect_eq(held("smart", FACTOR_ONE), SUBJECTS);
}

Test(routing_arm, a_larger_share_moves_nobody_back_and_aliases_choose_apart) {
    char name[16];
    int both = 0;
    for (int i = 0; i < SUBJECTS; i++) {
        bool was = false;
        name_of(i, name);
        for (int64_t share = 0; share <= FACTOR_ONE; share += 500) {
            bool is = arm_holds("smart", span_of(name), share);
            cr_assert(is || !was, "%s went back at %lld", name, (long long)share);
            was = is;
        }
        both += arm_holds("smart", span_of(name), 1000) && arm_holds("fast", span_of(name), 1000);
    }
    cr_expect_leq(llabs(both - SUBJECTS / 100), SUBJECTS * TOLERANCE_PERMILLE / 1000,
                  "a tenth of a tenth, not the same tenth");
}

Test(routing_arm,
     the_side_of_a_name_is_the_same_for_ever) { /* in every process and version: a change here moves teams */
    cr_expect(arm_holds("smart", SPAN("search"), 1527));
    cr_expect_not(arm_holds("smart", SPAN("search"), 1526));
}

static struct hand *make(struct conf_target *canary) {
    struct hand *h = hand_new(1);
    struct conf_backend *a = hand_backend(h, "a", 1), *b = hand_backend(h, "b", 2);
    hand_target(h, 0, a, "m", 1);
    hand_target(h, 1, b, "n", 1);
    *canary = (struct conf_target){.name = "b/new", .backend = b, .model = "new", .weight = 1};
    h->needs.arm = (struct arm){.kind = ARM_CANARY, .first = canary};
    return h;
}

Test(routing_arm, its_target_stands_before_the_ladder_and_the_whole_ladder_below) {
    struct conf_target canary;
    struct hand *h = make(&canary);
    cr_assert_eq(hand_plan(h), ERR_NONE);
    cr_assert_eq(h->plan.n, 5, "two keys of the canary, one of a, two of b");
    cr_expect_eq(h->plan.arm.kind, ARM_CANARY);
    for (int i = 0; i < 2; i++)
        cr_expect(h->plan.choices[i].rung == RUNG_ARM && plan_is_first_rung(&h->plan, &h->plan.choices[i]));
    cr_expect(h->plan.choices[2].rung == 0 && !plan_is_first_rung(&h->plan, &h->plan.choices[2]));
    cr_expect_eq(plan_next(&h->plan, 0, OUTCOME_CONTEXT_WINDOW, 1, 4, FALLBACK_ANY), 2, "the ladder's top takes all");
    cr_expect_eq(plan_next(&h->plan, 0, OUTCOME_UNAVAILABLE, 1, 4, FALLBACK_NONE), -1);
    hand_free(h);
}

Test(routing_arm, left_out_it_is_no_reason_to_go_down) {
    struct conf_target canary;
    struct hand *h = make(&canary);
    h->backends[1].off = true;
    cr_assert_eq(hand_plan(h), ERR_NONE);
    cr_expect_eq(h->plan.n, 1);
    cr_expect(h->plan.choices[0].rung == 0 && h->plan.skipped == 0);
    cr_expect_not(plan_is_first_rung(&h->plan, &h->plan.choices[0]),
                  "what stands in for an arm is not kept as its own");
    hand_free(h);
}

Test(routing_arm, R_boundaries_hold_for_a_canary_too) {
    static const char *eu[] = {"eu"};
    struct conf_target canary;
    struct hand *h = make(&canary);
    h->backends[0].tags = eu;
    h->backends[0].n_tags = 1;
    h->needs.require = SPAN("eu");
    cr_assert_eq(hand_plan(h), ERR_NONE);
    cr_expect_eq(h->plan.n, 1);
    cr_expect_str_eq(h->plan.choices[0].target, "a/m");
    cr_expect_str_eq(hand_why_out(h, "b/new"), "no tag eu");
    hand_free(h);
}

Test(routing_arm, a_caller_who_wants_the_same_model_may_still_fall_within_the_ladder) {
    struct conf_target canary;
    struct hand *h = make(&canary);
    h->targets[1][0].model = "m";
    h->needs.fallback = FALLBACK_SAME_MODEL;
    cr_assert_eq(hand_plan(h), ERR_NONE);
    cr_expect_eq(h->plan.n, 5, "the canary's model is not the one to insist on");
    hand_free(h);
}

Test(routing_arm, a_pinned_target_of_the_ladder_is_planned_once) {
    struct conf_target canary;
    struct hand *h = make(&canary);
    h->needs.arm = (struct arm){.kind = ARM_PINNED, .first = &h->targets[1][0], .degraded = true};
    cr_assert_eq(hand_plan(h), ERR_NONE);
    cr_expect_eq(h->plan.n, 3);
    cr_expect_str_eq(h->plan.choices[0].target, "b/n");
    cr_expect(h->plan.choices[0].degraded && h->plan.choices[0].rung == RUNG_ARM);
    cr_expect_str_eq(hand_why_out(h, "b/n"), "key key1: stands in the plan already");
    hand_free(h);
}

Test(routing_arm, is_in_the_cache_key_where_it_goes_elsewhere) {
    struct conf_target canary, other;
    struct hand *h = make(&canary);
    uint8_t none[SHA256_BYTES], stable[SHA256_BYTES], one[SHA256_BYTES], two[SHA256_BYTES], pinned[SHA256_BYTES];
    other = canary;
    other.model = "newer";
    routing_ladder_digest(&h->alias, SPAN_NONE, &(struct arm){.kind = ARM_NONE}, none);
    routing_ladder_digest(&h->alias, SPAN_NONE, &(struct arm){.kind = ARM_STABLE}, stable);
    routing_ladder_digest(&h->alias, SPAN_NONE, &h->needs.arm, one);
    routing_ladder_digest(&h->alias, SPAN_NONE, &(struct arm){.kind = ARM_CANARY, .first = &other}, two);
    routing_ladder_digest(&h->alias, SPAN_NONE, &(struct arm){.kind = ARM_PINNED, .first = &canary}, pinned);
    cr_expect_eq(memcmp(none, stable, SHA256_BYTES), 0, "the same ladder answers");
    cr_expect(memcmp(none, one, SHA256_BYTES) && memcmp(one, two, SHA256_BYTES) && memcmp(one, pinned, SHA256_BYTES));
    hand_free(h);
}
