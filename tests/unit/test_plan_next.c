/* Next or give up. */
#include "tests/support/hand_conf.h"

#include <criterion/criterion.h>

static const enum fallback modes[] = {FALLBACK_ANY, FALLBACK_SAME_MODEL, FALLBACK_NONE};

static struct hand *three_rungs(size_t n_keys) {
    struct hand *h = hand_new(5);
    struct conf_backend *a = hand_backend(h, "a", n_keys), *b = hand_backend(h, "b", 1);
    hand_target(h, 0, a, "m", 1);
    hand_target(h, 1, b, "n", 1);
    hand_target(h, 2, hand_backend(h, "local", 0), "o", 1);
    h->rungs[2].degraded = true;
    h->rungs[2].only_for |= REASON_BIT(REASON_BUDGET);
    cr_assert_eq(hand_plan(h), ERR_NONE);
    return h;
}

static int next(const struct hand *h, int after, enum outcome last, enum fallback fallback) {
    return plan_next(&h->plan, after, last, 1, h->alias.attempts, fallback);
}

Test(plan_next, the_first_choice_needs_no_outcome) {
    struct hand *h = three_rungs(1);
    cr_expect_eq(plan_next(&h->plan, -1, OUTCOME_OK, 0, 4, FALLBACK_NONE), 0);
    cr_expect_eq(plan_next(&h->plan, -1, OUTCOME_OK, 0, 0, FALLBACK_ANY), -1);
    struct plan none = {.n = 0};
    cr_expect_eq(plan_next(&none, -1, OUTCOME_OK, 0, 4, FALLBACK_ANY), -1);
    hand_free(h);
}

Test(plan_next, R_01_non_retryable_errors_are_retried) {
    struct hand *h = three_rungs(3);
    for (int after = 0; after < h->plan.n; after++) {
        cr_expect_eq(next(h, after, OUTCOME_CLIENT_FAULT, FALLBACK_ANY), -1, "400, 413, 422");
        cr_expect_eq(next(h, after, OUTCOME_CANCELLED, FALLBACK_ANY), -1);
        cr_expect_eq(next(h, after, OUTCOME_OK, FALLBACK_ANY), -1);
    }
    int after_missing = next(h, 0, OUTCOME_MODEL_MISSING, FALLBACK_ANY);
    cr_expect_str_eq(h->plan.choices[after_missing].target, "b/n", "a 404 is never sent to the same model again");
    int after_long = next(h, 0, OUTCOME_CONTEXT_WINDOW, FALLBACK_ANY);
    cr_expect_eq(h->plan.choices[after_long].rung, 1, "too long is too long for the whole rung");
    cr_expect_eq(next(h, 0, OUTCOME_CONTENT_FILTER, FALLBACK_ANY), -1, "not listed by any rung");
    hand_free(h);
}

Test(plan_next, R_01_a_refused_credential_is_used_again) {
    struct hand *h = hand_new(1);
    struct conf_backend *a = hand_backend(h, "a", 1);
    hand_target(h, 0, a, "m", 1);
    hand_target(h, 0, a, "n", 1);
    cr_assert_eq(hand_plan(h), ERR_NONE);
    cr_expect_eq(next(h, 0, OUTCOME_AUTH, FALLBACK_ANY), -1, "the same key at the same provider");
    cr_expect_eq(next(h, 0, OUTCOME_UNAVAILABLE, FALLBACK_ANY), 1);
    hand_free(h);
    h = three_rungs(2);
    cr_expect_eq(h->plan.choices[next(h, 0, OUTCOME_AUTH, FALLBACK_ANY)].rung, 0, "another key of the same target");
    hand_free(h);
}

Test(plan_next, R_02_a_limited_lane_is_followed_by_another_key_of_its_target) {
    struct hand *h = three_rungs(2);
    cr_expect_eq(next(h, 0, OUTCOME_RATE_LIMITED, FALLBACK_ANY), 1);
    cr_expect_eq(h->plan.choices[1].rung, 0);
    hand_free(h);
}

Test(plan_next, R_05_an_answer_is_glued_to_the_half_of_another) {
    struct hand *h = three_rungs(3);
    for (size_t f = 0; f < ARRAY_LEN(modes); f++)
        for (int after = 0; after < h->plan.n; after++)
            for (enum outcome o = 0; o < OUTCOME_N; o++) {
                int at = next(h, after, o, modes[f]);
                cr_expect(at == -1 || at > after, "a choice is never gone back to");
                cr_expect(at == -1 || outcome_reason(o) != REASON_N, "%s is followed by nothing", outcome_names[o]);
            }
    hand_free(h);
}

Test(plan_next, a_bad_backend_with_many_keys_does_not_use_up_the_attempts) {
    struct hand *h = three_rungs(4);
    static const enum outcome faults[] = {OUTCOME_CONNECT, OUTCOME_UNAVAILABLE, OUTCOME_TIMEOUT};
    for (size_t i = 0; i < ARRAY_LEN(faults); i++)
        cr_expect_str_eq(h->plan.choices[next(h, 0, faults[i], FALLBACK_ANY)].target, "b/n");
    h->plan.n = 4; /* only the four lanes of a are left */
    for (size_t i = 0; i < ARRAY_LEN(faults); i++)
        cr_expect_eq(next(h, 0, faults[i], FALLBACK_ANY), 1, "%s: better than nothing", outcome_names[faults[i]]);
    hand_free(h);
}

Test(plan_next, another_key_of_the_same_target_comes_before_a_degraded_rung) {
    struct hand *h = three_rungs(2);
    h->alias.n_rungs = 2;
    h->rungs[1].degraded = true;
    cr_assert_eq(hand_plan(h), ERR_NONE);
    cr_expect_eq(h->plan.choices[next(h, 0, OUTCOME_UNAVAILABLE, FALLBACK_ANY)].rung, 0);
    cr_expect_eq(h->plan.choices[next(h, 1, OUTCOME_UNAVAILABLE, FALLBACK_ANY)].rung, 1);
    hand_free(h);
}

Test(plan_next, a_rung_is_entered_only_for_a_listed_reason) {
    struct hand *h = three_rungs(1);
    cr_expect_eq(next(h, 0, OUTCOME_OVER_BUDGET, FALLBACK_ANY), 2, "past the rung that does not list budget");
    cr_expect_eq(next(h, 0, OUTCOME_TIMEOUT, FALLBACK_ANY), 1);
    cr_expect_eq(next(h, 0, OUTCOME_NO_SLOT, FALLBACK_ANY), 1);
    h->rungs[1].only_for = REASON_BIT(REASON_TIMEOUT);
    cr_assert_eq(hand_plan(h), ERR_NONE);
    cr_expect_eq(next(h, 0, OUTCOME_CONNECT, FALLBACK_ANY), 2);
    cr_expect_eq(next(h, 0, OUTCOME_TIMEOUT, FALLBACK_ANY), 1);
    hand_free(h);
}

Test(plan_next, the_caller_may_narrow_what_follows) {
    struct hand *h = hand_new(1);
    hand_target(h, 0, hand_backend(h, "a", 1), "m", 1);
    hand_target(h, 1, hand_backend(h, "b", 1), "n", 1);
    hand_target(h, 2, hand_backend(h, "c", 1), "m", 1);
    cr_assert_eq(hand_plan(h), ERR_NONE);
    cr_expect_eq(next(h, 0, OUTCOME_UNAVAILABLE, FALLBACK_ANY), 1);
    cr_expect_eq(next(h, 0, OUTCOME_UNAVAILABLE, FALLBACK_SAME_MODEL), 2);
    cr_expect_eq(next(h, 0, OUTCOME_UNAVAILABLE, FALLBACK_NONE), -1);
    hand_free(h);
}

/* A walk as the hall does it: each outcome is drawn. */
static int walk(struct hand *h, uint64_t *random, enum fallback fallback) {
    bool tried[PLAN_MAX] = {false};
    int sent = 0, at = -1, steps = 0;
    enum outcome last = OUTCOME_OK;
    while ((at = plan_next(&h->plan, at, last, sent, h->alias.attempts, fallback)) >= 0) {
        cr_assert_lt(at, h->plan.n);
        cr_assert_not(tried[at], "a lane is tried twice");
        tried[at] = true;
        last = (enum outcome)(random_next(random) % OUTCOME_N);
        sent += last != OUTCOME_NO_SLOT && last != OUTCOME_OVER_BUDGET;
        cr_assert_leq(++steps, PLAN_MAX);
    }
    return sent;
}

Test(plan_next, R_04_fallback_cycles_and_unbounded_attempts) {
    uint64_t random = 4711;
    for (int attempts = 1; attempts <= 40; attempts++) {
        struct hand *h = hand_new((uint64_t)attempts);
        struct conf_backend *b[3] = {hand_backend(h, "a", 3), hand_backend(h, "b", 0), hand_backend(h, "c", 2)};
        for (size_t rung = 0; rung < 5; rung++)
            for (size_t t = 0; t < 4; t++)
                hand_target(h, rung, b[(rung + t) % 3], t % 2 ? "m" : "n", 1);
        h->alias.attempts = attempts;
        for (int i = 0; i < 100; i++) {
            cr_assert_eq(hand_plan(h), ERR_NONE);
            for (size_t f = 0; f < ARRAY_LEN(modes); f++) {
                int sent = walk(h, &random, modes[f]);
                cr_assert_leq(sent, attempts);
                cr_assert(modes[f] != FALLBACK_NONE || sent <= 1);
            }
        }
        hand_free(h);
    }
}
