/* What follows a failed try: how soon, how often, and how long a silent one is borne. */
#include "routing/inside.h"
#include "tests/support/hand_conf.h"

#include <criterion/criterion.h>

static struct hand *make(void) {
    struct hand *h = hand_new(1);
    h->conf.retries.budget = FACTOR_ONE / 10;
    h->conf.retries.backoff_us = 50000;
    h->conf.retries.backoff_max_us = HAND_SECOND;
    hand_target(h, 0, hand_backend(h, "a", 1), "m", 1);
    hand_target(h, 0, hand_backend(h, "b", 1), "m", 1);
    hand_target(h, 1, hand_backend(h, "c", 1), "n", 1);
    cr_assert_eq(hand_plan(h), ERR_NONE);
    return h;
}

static struct next after(struct hand *h, int at, enum outcome last, int tried, int64_t left_us) {
    struct walked w = {.at = at, .far = at, .last = last, .tried = tried, .left_us = left_us};
    return routing_next(h->routing, &h->conf, &h->plan, &w, h->now_us);
}

Test(retry, R_02_a_further_try_in_a_rung_waits_and_one_below_does_not) {
    struct hand *h = make();
    int64_t least = INT64_MAX, most = 0;
    for (int i = 0; i < 100; i++) {
        h->now_us += HAND_SECOND;
        struct next n = after(h, 0, OUTCOME_UNAVAILABLE, 1, 60 * HAND_SECOND);
        cr_assert(n.at == 1 && n.wait_us >= 25000 && n.wait_us <= 50000, "%lld", (long long)n.wait_us);
        least = n.wait_us < least ? n.wait_us : least;
        most = n.wait_us > most ? n.wait_us : most;
    }
    cr_expect(most - least > 10000, "with jitter: %lld to %lld", (long long)least, (long long)most);
    h->alias.attempts = 32;
    cr_expect_geq(after(h, 0, OUTCOME_UNAVAILABLE, 3, 60 * HAND_SECOND).wait_us, 100000, "it doubles");
    cr_expect_leq(after(h, 0, OUTCOME_UNAVAILABLE, 20, 60 * HAND_SECOND).wait_us, HAND_SECOND, "up to its bound");
    cr_expect_leq(after(h, 0, OUTCOME_UNAVAILABLE, 20, 400000).wait_us, 200000, "and ends within the deadline");
    cr_expect_eq(after(h, 1, OUTCOME_UNAVAILABLE, 2, 60 * HAND_SECOND).at, 2);
    cr_expect_eq(after(h, 1, OUTCOME_UNAVAILABLE, 2, 60 * HAND_SECOND).wait_us, 0);
    hand_free(h);
}

Test(retry, a_key_a_model_and_a_connection_that_fail_make_nobody_else_wait) {
    static const enum outcome at_once[] = {OUTCOME_AUTH, OUTCOME_MODEL_MISSING, OUTCOME_CONNECT, OUTCOME_CONNECT_SLOW};
    struct hand *h = make();
    for (size_t i = 0; i < ARRAY_LEN(at_once); i++) {
        struct next n = after(h, 0, at_once[i], 1, 60 * HAND_SECOND);
        cr_expect(n.at == 1 && n.wait_us == 0, "%s", outcome_names[at_once[i]]);
    }
    hand_free(h);
}

Test(retry, an_outage_is_not_multiplied_within_a_rung_and_the_rung_below_is_always_open) {
    struct hand *h = make();
    int again = 0, below = 0;
    for (int i = 0; i < 2000; i++) {
        routing_count_call(h->routing, h->now_us);
        struct next n = after(h, 0, OUTCOME_UNAVAILABLE, 1, 60 * HAND_SECOND);
        again += n.at == 1;
        below += n.at == 2;
    }
    cr_expect(again >= 290 && again <= 301, "a tenth of 2000 calls and 100 free ones: %d", again);
    cr_expect_eq(again + below, 2000, "no call is given up for it");
    h->now_us += 100 * HAND_SECOND;
    cr_expect_eq(after(h, 0, OUTCOME_UNAVAILABLE, 1, 60 * HAND_SECOND).at, 1, "and it comes back");
    hand_free(h);
}

Test(retry, R_07_what_was_never_sent_is_tried_again_freely) {
    struct hand *h = make();
    for (int i = 0; i < 2000; i++)
        cr_assert_eq(after(h, 0, OUTCOME_CONNECT, 1, 60 * HAND_SECOND).at, 1);
    hand_free(h);
}

Test(retry, R_04_attempts_and_the_deadline_bound_every_walk) {
    struct hand *h = make();
    h->alias.attempts = 2;
    cr_expect_eq(after(h, 1, OUTCOME_UNAVAILABLE, 2, 60 * HAND_SECOND).at, -1);
    cr_expect_eq(after(h, 0, OUTCOME_UNAVAILABLE, 1, 0).at, -1, "no time is left");
    cr_expect_eq(after(h, 0, OUTCOME_CLIENT_FAULT, 1, 60 * HAND_SECOND).at, -1, "R-01: a 400 is not tried again");
    hand_free(h);
}

Test(retry, a_silent_try_leaves_half_of_the_time_to_those_that_may_follow) {
    struct hand *h = make();
    struct walked w = {.at = 0, .far = 0, .tried = 1, .left_us = 20 * HAND_SECOND};
    cr_expect_eq(routing_patience_us(&h->plan, &w), 10 * HAND_SECOND);
    w = (struct walked){.at = 2, .far = 2, .tried = 3, .left_us = 5 * HAND_SECOND};
    cr_expect_eq(routing_patience_us(&h->plan, &w), 5 * HAND_SECOND, "nothing follows: all of it");
    w = (struct walked){.at = 0, .far = 0, .tried = 4, .left_us = 5 * HAND_SECOND};
    cr_expect_eq(routing_patience_us(&h->plan, &w), 5 * HAND_SECOND, "no attempt is left");
    w = (struct walked){.at = 0, .far = 0, .tried = 1, .left_us = 8 * HAND_SECOND, .fallback = FALLBACK_NONE};
    cr_expect_eq(routing_patience_us(&h->plan, &w), 8 * HAND_SECOND, "the caller wants no other");
    hand_free(h);
}
