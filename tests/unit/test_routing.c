/* The room as its door shows it: slots, probes, views. */
#include "tests/support/hand_conf.h"

#include <criterion/criterion.h>

static struct hand *lone(size_t n_keys) {
    struct hand *h = hand_new(1);
    hand_target(h, 0, hand_backend(h, "a", n_keys), "m", 1);
    cr_assert_eq(hand_plan(h), ERR_NONE);
    return h;
}

Test(routing, slots_of_a_backend_are_bounded_over_all_its_lanes) {
    struct hand *h = lone(2);
    h->backends[0].in_flight = 3;
    struct choice tries[4] = {h->plan.choices[0], h->plan.choices[1], h->plan.choices[0], h->plan.choices[1]};
    for (int i = 0; i < 3; i++)
        cr_assert(routing_begin(h->routing, &tries[i], h->now_us));
    cr_expect_not(routing_begin(h->routing, &tries[3], h->now_us));
    cr_expect_eq(hand_plan(h), ERR_NO_TARGET);
    cr_expect_str_eq(hand_why_out(h, "a/m"), "key key1: all 3 slots of backend a are in use");
    cr_expect_eq(h->plan.retry_after_us, HAND_SECOND, "a refusal for the want of a slot said no time to come again");
    cr_expect_eq(h->plan.skipped, REASON_BIT(REASON_RATE_LIMITED));
    routing_end(h->routing, &tries[0]);
    cr_expect_eq(hand_plan(h), ERR_NONE);
    cr_expect(routing_begin(h->routing, &tries[3], h->now_us));
    for (int i = 1; i < 4; i++)
        routing_end(h->routing, &tries[i]);
    hand_free(h);
}

Test(routing, after_a_cool_down_one_probe_goes_and_the_others_wait_for_it) {
    struct hand *h = lone(1);
    struct choice bad = h->plan.choices[0], probe = bad, other = bad;
    hand_learn(h, &bad, OUTCOME_UNAVAILABLE, 2 * HAND_SECOND);
    cr_expect_not(routing_begin(h->routing, &other, h->now_us), "it was planned before the fault was known");
    h->now_us += 2 * HAND_SECOND;
    cr_assert_eq(hand_plan(h), ERR_NONE);
    cr_assert(routing_begin(h->routing, &probe, h->now_us));
    cr_expect_eq(hand_plan(h), ERR_NO_TARGET);
    cr_expect_str_eq(hand_why_out(h, "a/m"), "target is being probed after its cool-down");
    cr_expect_not(routing_begin(h->routing, &other, h->now_us));
    hand_learn(h, &probe, OUTCOME_OK, 0);
    routing_end(h->routing, &probe);
    cr_assert_eq(hand_plan(h), ERR_NONE);
    cr_expect_str_eq(h->plan.choices[0].why, "only target");
    cr_expect(routing_begin(h->routing, &other, h->now_us));
    routing_end(h->routing, &other);
    hand_free(h);
}

Test(routing, a_probe_that_was_cancelled_gives_its_slot_back) {
    struct hand *h = lone(1);
    struct choice bad = h->plan.choices[0], probe = bad, next = bad;
    hand_learn(h, &bad, OUTCOME_UNAVAILABLE, 2 * HAND_SECOND);
    h->now_us += 2 * HAND_SECOND;
    cr_assert(routing_begin(h->routing, &probe, h->now_us));
    hand_learn(h, &probe, OUTCOME_CANCELLED, 0);
    routing_end(h->routing, &probe);
    cr_expect(routing_begin(h->routing, &next, h->now_us));
    h->now_us += 31 * HAND_SECOND;
    cr_expect(routing_begin(h->routing, &bad, h->now_us), "a probe that never ends does not lock the lane for ever");
    routing_end(h->routing, &next);
    routing_end(h->routing, &bad);
    hand_free(h);
}

Test(routing, a_bad_probe_shuts_for_longer) {
    struct hand *h = lone(1);
    struct choice c = h->plan.choices[0];
    for (int i = 0; i < 25; i++)
        hand_learn(h, &c, OUTCOME_UNAVAILABLE, 0);
    cr_assert_eq(hand_plan(h), ERR_NO_TARGET);
    cr_expect_eq(h->plan.retry_after_us, 2 * HAND_SECOND);
    h->now_us += 2 * HAND_SECOND;
    cr_assert(routing_begin(h->routing, &c, h->now_us));
    hand_learn(h, &c, OUTCOME_TIMEOUT, 0);
    routing_end(h->routing, &c);
    cr_assert_eq(hand_plan(h), ERR_NO_TARGET);
    cr_expect_not_null(strstr(hand_why_out(h, "a/m"), "cooling down for 2s500ms"), "%s", hand_why_out(h, "a/m"));
    hand_free(h);
}

Test(routing, where_nothing_else_is_left_a_cool_down_is_probed_after_its_first_length_by_one_call_at_a_time) {
    struct hand *h = lone(1);
    struct choice c = h->plan.choices[0];
    for (int i = 0; i < 25; i++)
        hand_learn(h, &c, OUTCOME_UNAVAILABLE, 0);
    for (int i = 0; i < 6; i++) { /* it stays out, and its cool-down grows to minutes */
        h->now_us += 2 * HAND_SECOND;
        cr_assert_eq(hand_plan(h), ERR_NONE, "round %d", i);
        struct choice probe = h->plan.choices[0], other = probe;
        cr_assert(routing_begin(h->routing, &probe, h->now_us));
        cr_expect_not(routing_begin(h->routing, &other, h->now_us));
        cr_expect_eq(hand_plan(h), ERR_NO_TARGET, "the others are told at once");
        cr_expect_eq(h->plan.retry_after_us, HAND_SECOND, "and when to come again");
        hand_learn(h, &probe, OUTCOME_UNAVAILABLE, 0);
        routing_end(h->routing, &probe);
        cr_assert_eq(hand_plan(h), ERR_NO_TARGET);
        cr_expect(h->plan.retry_after_us > 0 && h->plan.retry_after_us <= 2 * HAND_SECOND);
    }
    h->now_us += 2 * HAND_SECOND;
    cr_assert_eq(hand_plan(h), ERR_NONE);
    struct choice probe = h->plan.choices[0];
    cr_assert(routing_begin(h->routing, &probe, h->now_us));
    hand_learn(h, &probe, OUTCOME_OK, 0);
    routing_end(h->routing, &probe);
    cr_assert_eq(hand_plan(h), ERR_NONE, "a good probe opens it at once");
    cr_expect_str_eq(h->plan.choices[0].why, "only target");
    hand_free(h);
}

Test(routing, a_provider_that_asked_for_time_is_not_probed_before_it) {
    struct hand *h = lone(1);
    struct choice c = h->plan.choices[0];
    hand_learn(h, &c, OUTCOME_RATE_LIMITED, 60 * HAND_SECOND);
    h->now_us += 59 * HAND_SECOND;
    cr_expect_eq(hand_plan(h), ERR_NO_TARGET);
    cr_expect_eq(h->plan.retry_after_us, HAND_SECOND);
    hand_free(h);
}

Test(routing, an_end_without_a_begin_takes_no_slot_away) {
    struct hand *h = lone(1);
    h->backends[0].in_flight = 1;
    struct choice c = h->plan.choices[0], d = c;
    routing_end(h->routing, &c);
    cr_assert(routing_begin(h->routing, &c, h->now_us));
    cr_expect_not(routing_begin(h->routing, &d, h->now_us));
    routing_end(h->routing, &c);
    hand_free(h);
}

Test(routing, health_outlives_the_conf_it_was_learned_under) {
    struct hand *h = lone(1);
    struct choice c = h->plan.choices[0];
    hand_learn(h, &c, OUTCOME_RATE_LIMITED, 60 * HAND_SECOND);
    struct conf_backend again = h->backends[0]; /* as a reload makes it: other pointers, the same names */
    char name[] = "a", model[] = "m", key[] = "key1";
    struct conf_upstream_key keys[1] = {{.name = key, .weight = 1}};
    again.name = name;
    again.keys = keys;
    struct conf_target t = {.backend = &again, .model = model, .weight = 1};
    h->rungs[0].targets = &t;
    cr_expect_eq(hand_plan(h), ERR_NO_TARGET);
    hand_free(h);
}

struct seen {
    int n;
    struct lane_view last;
};
static void see(const struct lane_view *v, void *user) {
    struct seen *s = user;
    s->n++;
    s->last = *v;
}
static struct lane_view view(struct hand *h) {
    struct seen s = {0};
    routing_each(h->routing, h->now_us, see, &s);
    cr_assert_eq(s.n, 1, "one row a lane that was used");
    return s.last;
}

Test(routing, a_lane_shows_the_worst_of_its_parts) {
    struct hand *h = lone(1);
    struct choice c = h->plan.choices[0];
    cr_assert(routing_begin(h->routing, &c, h->now_us));
    cr_expect_eq(view(h).in_flight, 1);
    cr_expect_str_eq(view(h).state, "closed");
    hand_learn(h, &c, OUTCOME_AUTH, 7 * HAND_SECOND);
    routing_end(h->routing, &c);
    cr_expect_str_eq(view(h).target, "a/m");
    cr_expect_str_eq(view(h).key, "key1");
    cr_expect_str_eq(view(h).state, "open");
    cr_expect_eq(view(h).open_until_us, h->now_us + 7 * HAND_SECOND);
    cr_expect(view(h).tries == 1 && view(h).failures == 1 && view(h).in_flight == 0);
    h->now_us += 7 * HAND_SECOND;
    cr_expect_str_eq(view(h).state, "half-open");
    cr_expect_eq(view(h).open_until_us, 0);
    hand_learn(h, &c, OUTCOME_OK, 0);
    cr_expect_str_eq(view(h).state, "closed");
    cr_expect(view(h).tries == 2 && view(h).failures == 1);
    hand_learn(h, &c, OUTCOME_NO_SLOT, 0);
    hand_learn(h, &c, OUTCOME_OVER_BUDGET, 0);
    cr_expect_eq(view(h).tries, 2, "what was never sent is no try");
    hand_free(h);
}

Test(routing, a_seed_of_zero_comes_from_the_system) {
    struct routing *r = routing_new(0);
    cr_expect_not_null(r);
    routing_free(r);
    routing_free(NULL);
}
