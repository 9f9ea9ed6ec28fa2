/* Rate limits over processes that share a real Redis. */
#include "tests/support/ledger_kit.h"

#include <criterion/criterion.h>
#include <stdlib.h>

TestSuite(redis_rate, .init = kit_begin, .fini = kit_end);

static void on_wake(struct waiter *w) {
    (void)w;
}

static enum err rate(struct process *p, int key, int64_t tokens, struct rate_op *op) {
    *op = (struct rate_op){.waiter.wake = on_wake};
    if (budget_rate(p->h.b, &p->h.conf, &p->h.keys[key], tokens, kit.now_us, op) == PROGRESS_WAIT)
        sync_redis_pump(&p->s);
    return op->err;
}

static void end(struct process *p, struct rate_op *op, int64_t used) {
    budget_rate_end(p->h.b, &op->slip, used, kit.now_us);
    sync_redis_pump(&p->s);
}

static void two_with(struct process *p, struct process *q, struct conf_limits limits) {
    process_start(p, "one", WHEN_DOWN_REFUSE);
    process_start(q, "two", WHEN_DOWN_REFUSE);
    p->h.teams[0].limits = q->h.teams[0].limits = limits;
    process_ready(p);
    process_ready(q);
}

static void stop_both(struct process *p, struct process *q) {
    process_stop(p);
    process_stop(q);
}

Test(redis_rate, requests_of_all_processes_count_and_a_refused_call_uses_nothing) {
    struct process p, q;
    struct rate_op op = {0};
    two_with(&p, &q, (struct conf_limits){.requests_per_minute = 3, .tokens_per_minute = 100, .in_flight = -1});
    int64_t first_us = kit.now_us;
    cr_assert_eq(rate(&p, 0, 10, &op), ERR_NONE);
    cr_assert(op.view.limit_requests == 3 && op.view.remaining_requests == 2 && op.view.remaining_tokens == 90);
    end(&p, &op, 10);
    kit_pass(10 * US_PER_S, &p, &q);
    cr_assert_eq(rate(&q, 1, 10, &op), ERR_NONE);
    end(&q, &op, 10);
    for (int i = 0; i < 5; i++) {
        cr_assert_eq(rate(&q, 1, 90, &op), ERR_RATE);
        cr_assert_str_eq(op.limit, "tokens_per_minute");
        cr_assert_not(op.slip.open);
    }
    cr_assert_eq(rate(&q, 1, 101, &op), ERR_RATE);
    cr_assert_eq(op.retry_after_us, INT64_MAX, "it can never pass");
    cr_assert_eq(rate(&p, 0, 10, &op), ERR_NONE);
    end(&p, &op, 10);
    cr_assert_eq(rate(&q, 1, 10, &op), ERR_RATE);
    cr_assert(op.limit_value == 3 && op.retry_after_us == first_us + US_PER_MIN - kit.now_us);
    cr_assert_str_eq(op.limit, "requests_per_minute");
    cr_assert_str_eq(op.level, "team");
    kit_pass(op.retry_after_us, &p, &q);
    cr_assert_eq(rate(&q, 1, 10, &op), ERR_NONE);
    end(&q, &op, 10);
    cr_assert_eq(rate(&p, 1, 10, &op), ERR_RATE);
    stop_both(&p, &q);
}

Test(redis_rate, tokens_are_corrected_where_all_see_it) {
    struct process p, q;
    struct rate_op a = {0}, b = {0};
    two_with(&p, &q, (struct conf_limits){.requests_per_minute = -1, .tokens_per_minute = 100, .in_flight = -1});
    cr_assert_eq(rate(&p, 0, 80, &a), ERR_NONE);
    cr_assert_eq(rate(&q, 0, 30, &b), ERR_RATE);
    end(&p, &a, 20);
    cr_assert_eq(rate(&q, 0, 80, &b), ERR_NONE);
    cr_assert_eq(b.view.remaining_tokens, 0);
    end(&q, &b, 120); /* it used more than was counted */
    kit_pass(59 * US_PER_S, &p, &q);
    cr_assert_eq(rate(&p, 0, 1, &a), ERR_RATE);
    kit_pass(US_PER_S, &p, &q);
    cr_assert_eq(rate(&p, 0, 100, &a), ERR_NONE);
    end(&p, &a, 0);
    stop_both(&p, &q);
}

Test(redis_rate, slots_end_with_their_process) {
    struct process p, q;
    struct rate_op a = {0}, b = {0}, c = {0};
    two_with(&p, &q, (struct conf_limits){.requests_per_minute = -1, .tokens_per_minute = -1, .in_flight = 2});
    cr_assert_eq(rate(&p, 0, 0, &a), ERR_NONE);
    cr_assert_eq(rate(&q, 0, 0, &b), ERR_NONE);
    cr_assert_eq(rate(&q, 0, 0, &c), ERR_RATE);
    cr_assert_str_eq(c.limit, "in_flight");
    cr_assert_eq(rate(&p, 0, 0, &c), ERR_RATE);
    end(&q, &b, 0);
    cr_assert_eq(rate(&q, 0, 0, &b), ERR_NONE);
    free(a.slip.team);
    process_stop(&p); /* with its call */
    cr_assert_eq(rate(&q, 0, 0, &c), ERR_RATE);
    kit_pass(5 * US_PER_S, &q, NULL);
    cr_assert_eq(rate(&q, 0, 0, &c), ERR_NONE);
    process_start(&p, "one", WHEN_DOWN_REFUSE);
    p.h.teams[0].limits = q.h.teams[0].limits;
    kit_pass(US_PER_S, &p, &q);
    cr_assert_eq(rate(&p, 0, 0, &a), ERR_RATE);
    end(&q, &c, 0);
    cr_assert_eq(rate(&p, 0, 0, &a), ERR_NONE, "what it had before it died is forgotten");
    end(&p, &a, 0);
    end(&q, &b, 0);
    stop_both(&p, &q);
}

Test(redis_rate, slots_are_told_again_after_a_loss) {
    struct process p, q;
    struct rate_op a = {0}, b = {0}, c = {0};
    two_with(&p, &q, (struct conf_limits){.requests_per_minute = -1, .tokens_per_minute = -1, .in_flight = 2});
    cr_assert_eq(rate(&p, 0, 0, &a), ERR_NONE);
    cr_assert_eq(rate(&p, 0, 0, &b), ERR_NONE);
    sync_redis_ask(&p.s, "FLUSHALL");
    kit_pass(2 * US_PER_S, &p, &q);
    cr_assert_eq(rate(&q, 0, 0, &c), ERR_RATE);
    p.s.mode = SYNC_UNDONE;
    end(&p, &a, 0);
    p.s.mode = SYNC_GOOD;
    cr_assert_eq(rate(&q, 0, 0, &c), ERR_RATE);
    process_tick(&p);
    cr_assert_eq(rate(&q, 0, 0, &c), ERR_NONE);
    end(&q, &c, 0);
    end(&p, &b, 0);
    stop_both(&p, &q);
}

Test(redis_rate, without_redis_each_process_counts_by_itself) {
    struct process p, q;
    struct rate_op a = {0};
    two_with(&p, &q, (struct conf_limits){.requests_per_minute = 2, .tokens_per_minute = -1, .in_flight = -1});
    sync_redis_break(&p.s);
    for (int i = 0; i < 2; i++) {
        cr_assert_eq(rate(&p, 0, 0, &a), ERR_NONE);
        end(&p, &a, 0);
    }
    cr_assert_eq(rate(&p, 0, 0, &a), ERR_RATE);
    p.s.mode = SYNC_UNHEARD;
    cr_assert_eq(rate(&q, 0, 0, &a), ERR_NONE);
    end(&q, &a, 0);
    stop_both(&p, &q);
}
