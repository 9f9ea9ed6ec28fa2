/* The peak EWMA: up at once, down with quick answers, and slowly by itself. */
#include "routing/latency.h"

#include <criterion/criterion.h>

#define S INT64_C(1000000)

Test(latency, goes_up_at_once_and_comes_down_with_quick_answers) {
    struct latency l = {0};
    cr_expect_eq(latency_now(&l, 5 * S), -1, "nothing is known");
    latency_saw(&l, S / 2, 10 * S);
    cr_expect_eq(latency_now(&l, 10 * S), S / 2);
    latency_saw(&l, 8 * S, 11 * S);
    cr_expect_eq(latency_now(&l, 11 * S), 8 * S);
    for (int i = 1; i <= 40; i++)
        latency_saw(&l, S / 2, 11 * S + i * S);
    int64_t now = latency_now(&l, 51 * S);
    cr_expect(now > S / 2 && now < S, "%lld", (long long)now);
}

Test(latency, fades_while_nothing_is_heard_and_never_rises_by_itself) {
    struct latency l = {0};
    latency_saw(&l, 6 * S, 1 * S);
    int64_t last = 6 * S;
    for (int64_t at = 1 * S; at < 1200 * S; at += 7 * S) {
        int64_t now = latency_now(&l, at);
        cr_assert(now <= last && now >= 0);
        last = now;
    }
    cr_expect_lt(last, S / 10);
}

Test(latency, a_clock_that_goes_back_and_a_wait_below_zero_do_no_harm) {
    struct latency l = {0};
    latency_saw(&l, -5, 100 * S);
    cr_expect_eq(latency_now(&l, 100 * S), 0);
    latency_saw(&l, 2 * S, 50 * S);
    cr_expect_eq(latency_now(&l, 50 * S), 2 * S);
    cr_expect_eq(l.at_us, 100 * S);
}
