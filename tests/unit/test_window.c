/* A sliding minute: exact against a list of everything that happened. */
#include "budget/window.h"
#include "gateway/base/hash.h"

#include <criterion/criterion.h>

#define T0 (INT64_C(1796040000) * US_PER_S)

Test(window, a_burst_leaves_after_exactly_a_minute) {
    struct window w = {0};
    cr_assert_eq(window_wait_us(&w, 60, 1, T0), 0);
    window_add(&w, 60, T0);
    cr_assert_eq(window_wait_us(&w, 60, 1, T0), RATE_WINDOW_US);
    window_forget(&w, T0 + RATE_WINDOW_US - 1);
    cr_assert_eq(window_wait_us(&w, 60, 1, T0 + RATE_WINDOW_US - 1), 1);
    window_forget(&w, T0 + RATE_WINDOW_US);
    cr_assert_eq(window_wait_us(&w, 60, 60, T0 + RATE_WINDOW_US), 0);
    cr_assert_eq(window_empty_us(&w, T0 + RATE_WINDOW_US), 0);
}

Test(window, the_wait_is_for_as_many_as_must_leave) {
    struct window w = {0};
    window_add(&w, 10, T0);
    window_add(&w, 20, T0 + 5 * US_PER_S);
    window_add(&w, 30, T0 + 10 * US_PER_S);
    int64_t now = T0 + 20 * US_PER_S;
    cr_assert_eq(window_wait_us(&w, 60, 10, now), 40 * US_PER_S);
    cr_assert_eq(window_wait_us(&w, 60, 11, now), 45 * US_PER_S);
    cr_assert_eq(window_wait_us(&w, 60, 31, now), 50 * US_PER_S);
    cr_assert_eq(window_wait_us(&w, 60, 61, now), INT64_MAX, "more than the limit never fits");
    cr_assert_eq(window_wait_us(&w, 60, 0, now), 0);
    cr_assert_eq(window_empty_us(&w, now), 50 * US_PER_S);
}

Test(window, counts_are_taken_back_where_they_were_made) {
    struct window w = {0};
    window_add(&w, 100, T0);
    window_add(&w, 50, T0 + 3 * US_PER_S);
    window_take_back(&w, 60, T0);
    cr_assert_eq(w.sum, 90);
    window_take_back(&w, 60, T0);
    cr_assert_eq(w.sum, 50, "no more than stands there");
    window_take_back(&w, 10, T0 + US_PER_S);
    cr_assert_eq(w.sum, 50, "nothing was counted then");
    window_add(&w, INT64_MAX, T0 + 4 * US_PER_S);
    cr_assert_eq(w.sum, INT64_MAX);
    window_forget(&w, T0 + 64 * US_PER_S);
    cr_assert_eq(w.sum, 0);
}

Test(window, a_clock_set_back_locks_nobody_out) {
    struct window w = {0};
    window_add(&w, 60, T0);
    int64_t back = T0 - US_PER_HOUR;
    window_forget(&w, back);
    cr_assert_eq(window_wait_us(&w, 60, 1, back), RATE_WINDOW_US, "used up for a minute, not for an hour");
    window_forget(&w, back + RATE_WINDOW_US);
    cr_assert_eq(window_wait_us(&w, 60, 1, back + RATE_WINDOW_US), 0);
    window_add(&w, 1, back + RATE_WINDOW_US);
    window_add(&w, 1, back + RATE_WINDOW_US - 500);
    cr_assert_eq(w.sum, 2, "a hair's breadth back is the same instant");
}

#define EVENTS 4000

/* Random arrivals, let in whenever the window says so: no minute ever holds more than the limit, and a refused one gets
 * in exactly when it was told to come back. */
Test(window, no_minute_holds_more_than_the_limit) {
    static int64_t at[EVENTS], count[EVENTS];
    struct window w = {0};
    uint64_t dice = 424242;
    int64_t now = T0, in_minute = 0;
    int n = 0, oldest = 0, refused = 0;
    while (n < EVENTS) {
        now += (int64_t)(random_next(&dice) % (random_next(&dice) % 50 == 0 ? 90000000 : 900000));
        int64_t need = 1 + (int64_t)(random_next(&dice) % 7);
        window_forget(&w, now);
        int64_t wait = window_wait_us(&w, 100, need, now);
        if (wait > 0) {
            refused++;
            window_forget(&w, now + wait - 1);
            cr_assert_gt(window_wait_us(&w, 100, need, now + wait - 1), 0, "the wait is no longer than it must be");
            now += wait;
            window_forget(&w, now);
            cr_assert_eq(window_wait_us(&w, 100, need, now), 0, "the wait is long enough");
        }
        window_add(&w, need, now);
        cr_assert_leq(w.n, 62);
        at[n] = now;
        count[n++] = need;
        in_minute += need;
        while (at[oldest] <= now - RATE_WINDOW_US)
            in_minute -= count[oldest++];
        cr_assert_leq(in_minute, 100);
    }
    cr_assert_gt(refused, 100);
}
