/* What is drained takes no new calls, by whichever of its names. */
#include "tests/support/hand_conf.h"

#include <criterion/criterion.h>

static struct hand *make(void) {
    struct hand *h = hand_new(1);
    hand_target(h, 0, hand_backend(h, "a", 2), "m", 1);
    hand_target(h, 0, &h->backends[0], "n", 1);
    hand_target(h, 1, hand_backend(h, "b", 0), "m", 1);
    return h;
}

static int planned(struct hand *h) {
    return hand_plan(h) == ERR_NONE ? h->plan.n : 0;
}

Test(drain, a_backend_a_target_a_key_and_a_lane_each_by_its_name) {
    static const struct {
        struct span target, key;
        int left;
    } rows[] = {{SPAN("a"), SPAN_NONE, 1},      {SPAN("a/m"), SPAN_NONE, 3},       {SPAN("a"), SPAN("key1"), 3},
                {SPAN("a/m"), SPAN("key1"), 4}, {SPAN("b"), SPAN_NONE, 4},         {SPAN("b/m"), SPAN_NONE, 4},
                {SPAN("a/x"), SPAN_NONE, 5},    {SPAN("nobody"), SPAN("key1"), 5}, {SPAN("a/m"), SPAN("key3"), 5}};
    struct hand *h = make();
    cr_assert_eq(planned(h), 5);
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        routing_drain(h->routing, rows[i].target, rows[i].key, h->now_us + HAND_SECOND);
        cr_expect_eq(planned(h), rows[i].left, "row %zu", i);
        routing_resume(h->routing, rows[i].target, rows[i].key);
        cr_expect_eq(planned(h), 5, "row %zu resumed", i);
    }
    hand_free(h);
}

Test(drain, is_over_by_itself_and_says_how_long_in_words) {
    struct hand *h = make();
    routing_drain(h->routing, SPAN("a"), SPAN_NONE, h->now_us + 90 * HAND_SECOND);
    cr_assert_eq(planned(h), 1);
    cr_expect_str_eq(h->plan.choices[0].target, "b/m");
    cr_expect_eq(h->plan.skipped, REASON_BIT(REASON_UNAVAILABLE));
    cr_expect_str_eq(hand_why_out(h, "a/n"), "key key1: drained by an operator for 1m30s");
    routing_drain(h->routing, SPAN("b"), SPAN_NONE, INT64_MAX);
    cr_expect_eq(hand_plan(h), ERR_NO_TARGET);
    cr_expect_eq(h->plan.retry_after_us, 90 * HAND_SECOND, "the first that is back");
    cr_expect_str_eq(hand_why_out(h, "b/m"), "drained by an operator");
    h->now_us += 90 * HAND_SECOND;
    cr_expect_eq(planned(h), 4);
    hand_free(h);
}

Test(drain, a_plan_made_before_begins_no_call_and_a_running_one_ends_well) {
    struct hand *h = make();
    cr_assert_eq(planned(h), 5);
    const struct choice *running = &h->plan.choices[0], *next = &h->plan.choices[1];
    cr_assert(routing_begin(h->routing, running, h->now_us));
    routing_drain(h->routing, SPAN("a"), SPAN_NONE, INT64_MAX);
    cr_expect_not(routing_begin(h->routing, next, h->now_us));
    hand_learn(h, running, OUTCOME_OK, 0);
    routing_end(h->routing, running);
    routing_resume(h->routing, SPAN("a"), SPAN_NONE);
    cr_expect(routing_begin(h->routing, next, h->now_us));
    routing_end(h->routing, next);
    hand_free(h);
}

Test(drain, a_name_of_any_length_is_no_harm) {
    char name[3000];
    struct hand *h = make();
    memset(name, 'x', sizeof name);
    routing_drain(h->routing, span_from(name, sizeof name), span_from(name, sizeof name), INT64_MAX);
    cr_expect_eq(planned(h), 5);
    routing_resume(h->routing, span_from(name, sizeof name), span_from(name, sizeof name));
    hand_free(h);
}
