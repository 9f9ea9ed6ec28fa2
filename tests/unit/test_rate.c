/* Requests, tokens and slots of key and team, as one step. */
#include "budget/rate.h"
#include "budget/window.h"

#include <criterion/criterion.h>
#include <stdio.h>

#include "tests/support/budget_house.h"

#define NONE                                                                                                           \
    { CONF_UNLIMITED, CONF_UNLIMITED, CONF_UNLIMITED }

static enum err step(struct budget_house *h, int k, int64_t tokens, int64_t now_us, struct rate_op *op) {
    cr_assert_eq(budget_rate(h->b, &h->conf, &h->keys[k], tokens, now_us, op), PROGRESS_DONE);
    return op->err;
}

static void end(struct budget_house *h, struct rate_op *op, int64_t used, int64_t now_us) {
    budget_rate_end(h->b, &op->slip, used, now_us);
    cr_assert_not(op->slip.open);
}

Test(rate, exactly_as_many_requests_as_the_limit_in_a_minute) {
    struct budget_house h;
    struct rate_op op = {0};
    int passed = 0;
    house_init(&h);
    h.keys[0].limits.requests_per_minute = 60;
    for (int i = 0; i < 300; i++) {
        if (step(&h, 0, 0, HOUSE_NOW_US + i * US_PER_S / 30, &op) == ERR_NONE) {
            passed++;
            end(&h, &op, -1, HOUSE_NOW_US);
        }
    }
    cr_assert_eq(passed, 60);
    cr_assert(op.err == ERR_RATE && op.limit_value == 60);
    cr_assert_str_eq(op.limit, "requests_per_minute");
    cr_assert_str_eq(op.level, "key");
    house_fini(&h);
}

Test(rate, the_wait_is_true) {
    struct budget_house h;
    struct rate_op op = {0};
    house_init(&h);
    h.teams[0].limits.requests_per_minute = 2;
    cr_assert_eq(step(&h, 0, 0, HOUSE_NOW_US, &op), ERR_NONE);
    end(&h, &op, -1, HOUSE_NOW_US);
    cr_assert_eq(step(&h, 1, 0, HOUSE_NOW_US + 10 * US_PER_S, &op), ERR_NONE, "the team's other key");
    end(&h, &op, -1, HOUSE_NOW_US);
    cr_assert_eq(step(&h, 0, 0, HOUSE_NOW_US + 20 * US_PER_S, &op), ERR_RATE);
    cr_assert_eq(op.retry_after_us, 40 * US_PER_S);
    cr_assert_str_eq(op.level, "team");
    cr_assert_eq(step(&h, 0, 0, HOUSE_NOW_US + 60 * US_PER_S - 1, &op), ERR_RATE);
    cr_assert_eq(op.retry_after_us, 1);
    cr_assert_eq(step(&h, 2, 0, HOUSE_NOW_US + 20 * US_PER_S, &op), ERR_NONE, "another team is not concerned");
    end(&h, &op, -1, HOUSE_NOW_US);
    cr_assert_eq(step(&h, 0, 0, HOUSE_NOW_US + 60 * US_PER_S, &op), ERR_NONE);
    end(&h, &op, -1, HOUSE_NOW_US);
    house_fini(&h);
}

Test(rate, a_refused_call_uses_nothing_up) {
    struct budget_house h;
    struct rate_op op = {0};
    house_init(&h);
    h.keys[0].limits = (struct conf_limits){10, 1000, CONF_UNLIMITED};
    h.teams[0].limits = (struct conf_limits){CONF_UNLIMITED, 500, 5};
    for (int i = 0; i < 50; i++)
        cr_assert_eq(step(&h, 0, 501, HOUSE_NOW_US, &op), ERR_RATE, "the team's tokens");
    cr_assert_eq(op.retry_after_us, INT64_MAX, "more than the limit can never pass");
    cr_assert_eq(op.view.remaining_requests, 10);
    cr_assert_eq(op.view.remaining_tokens, 500);
    struct rate_op held[5] = {0};
    for (int i = 0; i < 5; i++)
        cr_assert_eq(step(&h, 0, 100, HOUSE_NOW_US, &held[i]), ERR_NONE);
    cr_assert_eq(held[4].view.remaining_requests, 5);
    cr_assert_eq(held[4].view.limit_tokens, 500);
    cr_assert_eq(held[4].view.remaining_tokens, 0);
    cr_assert_eq(step(&h, 0, 1, HOUSE_NOW_US, &op), ERR_RATE);
    cr_assert_str_eq(op.limit, "tokens_per_minute", "named is the limit that takes longest");
    cr_assert_eq(op.retry_after_us, RATE_WINDOW_US);
    cr_assert_eq(step(&h, 0, 0, HOUSE_NOW_US, &op), ERR_RATE);
    cr_assert_str_eq(op.limit, "in_flight");
    for (int i = 0; i < 5; i++)
        end(&h, &held[i], -1, HOUSE_NOW_US);
    house_fini(&h);
}

Test(rate, tokens_are_corrected_to_what_was_used) {
    struct budget_house h;
    struct rate_op op = {0}, next = {0};
    house_init(&h);
    h.keys[0].limits.tokens_per_minute = 1000;
    cr_assert_eq(step(&h, 0, 900, HOUSE_NOW_US, &op), ERR_NONE);
    cr_assert_eq(step(&h, 0, 200, HOUSE_NOW_US, &next), ERR_RATE);
    end(&h, &op, 100, HOUSE_NOW_US + US_PER_S);
    cr_assert_eq(step(&h, 0, 200, HOUSE_NOW_US + US_PER_S, &next), ERR_NONE, "800 came back");
    cr_assert_eq(next.view.remaining_tokens, 700);
    end(&h, &next, 1500, HOUSE_NOW_US + 2 * US_PER_S);
    cr_assert_eq(step(&h, 0, 0, HOUSE_NOW_US + 2 * US_PER_S, &op), ERR_RATE,
                 "used beyond the limit is paid by waiting");
    cr_assert_eq(op.view.remaining_tokens, 0);
    cr_assert_eq(step(&h, 0, 0, HOUSE_NOW_US + 62 * US_PER_S, &op), ERR_NONE);
    end(&h, &op, 0, HOUSE_NOW_US + 62 * US_PER_S);
    cr_assert_eq(step(&h, 0, 1000, HOUSE_NOW_US + 63 * US_PER_S, &op), ERR_NONE);
    end(&h, &op, -1, HOUSE_NOW_US + 200 * US_PER_S);
    house_fini(&h);
}

/* The slot of a call that failed, was cut off or hit the cache was not given back, until the key was locked out. */
Test(rate, slots_leak_on_no_way_out) {
    struct budget_house h;
    struct rate_op a = {0}, b = {0}, c = {0};
    house_init(&h);
    h.keys[0].limits.in_flight = 2;
    h.teams[0].limits.in_flight = 2;
    for (int round = 0; round < 50; round++) {
        cr_assert_eq(step(&h, 0, 10, HOUSE_NOW_US, &a), ERR_NONE);
        cr_assert_eq(step(&h, 0, 10, HOUSE_NOW_US, &b), ERR_NONE);
        cr_assert_eq(step(&h, 0, 10, HOUSE_NOW_US, &c), ERR_RATE);
        cr_assert_not(c.slip.open);
        end(&h, &c, -1, HOUSE_NOW_US);
        end(&h, &a, round % 3 - 1, HOUSE_NOW_US);
        end(&h, &a, -1, HOUSE_NOW_US);
        cr_assert_eq(step(&h, 1, 10, HOUSE_NOW_US, &a), ERR_NONE, "ending twice gives one slot back");
        cr_assert_eq(step(&h, 1, 10, HOUSE_NOW_US, &c), ERR_RATE);
        end(&h, &a, -1, HOUSE_NOW_US);
        end(&h, &b, -1, HOUSE_NOW_US);
    }
    house_fini(&h);
}

Test(rate, slots_outlive_a_change_of_limits) {
    struct budget_house h;
    struct rate_op op[3] = {0}, more = {0};
    house_init(&h);
    for (int i = 0; i < 3; i++)
        cr_assert_eq(step(&h, 0, 5, HOUSE_NOW_US, &op[i]), ERR_NONE);
    h.keys[0].limits.in_flight = 3;
    cr_assert_eq(step(&h, 0, 5, HOUSE_NOW_US, &more), ERR_RATE, "calls from before the limit count");
    h.keys[0].limits.in_flight = 0;
    cr_assert_eq(step(&h, 0, 5, HOUSE_NOW_US, &more), ERR_RATE);
    cr_assert_eq(more.retry_after_us, INT64_MAX);
    h.keys[0].limits.in_flight = CONF_UNLIMITED;
    for (int i = 0; i < 3; i++)
        end(&h, &op[i], 5, HOUSE_NOW_US);
    house_fini(&h);
}

Test(rate, a_limit_that_is_lifted_for_an_hour_still_counts_rightly) {
    struct budget_house h;
    struct rate_op op = {0};
    house_init(&h);
    h.keys[0].limits.requests_per_minute = 5;
    cr_assert_eq(step(&h, 0, 5, HOUSE_NOW_US, &op), ERR_NONE);
    h.keys[0].limits.requests_per_minute = CONF_UNLIMITED;
    for (int i = 0; i < 500; i++) {
        end(&h, &op, -1, HOUSE_NOW_US);
        cr_assert_eq(step(&h, 0, 5, HOUSE_NOW_US + i * 7 * US_PER_S, &op), ERR_NONE);
        cr_assert_eq(op.view.limit_requests, -1);
    }
    h.keys[0].limits.requests_per_minute = 9;
    end(&h, &op, -1, HOUSE_NOW_US);
    cr_assert_eq(step(&h, 0, 5, HOUSE_NOW_US + 499 * 7 * US_PER_S, &op), ERR_RATE, "nine within the last minute");
    house_fini(&h);
}

Test(rate, keys_that_are_gone_take_no_memory) {
    struct rates *r = rates_new();
    struct rate_ask ask = {.team = "search", .of_key = {10, CONF_UNLIMITED, CONF_UNLIMITED}, .of_team = NONE};
    for (int i = 0; i < 5000; i++) {
        struct rate_op op = {0};
        snprintf(ask.key_id, sizeof ask.key_id, "k%07d", i);
        ask.now_us = HOUSE_NOW_US + i * US_PER_S;
        rates_step(r, &ask, &op);
        cr_assert_eq(op.err, ERR_NONE);
        rates_end(r, &op.slip, -1, ask.now_us);
    }
    cr_assert_lt(rates_kept(r), 200, "%zu limiters", rates_kept(r));
    rates_free(r);
}
