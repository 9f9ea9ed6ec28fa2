/* What calls used, added up. */
#include "gateway/base/usage.h"

#include <criterion/criterion.h>

Test(usage, lines_are_added_each_to_its_own) {
    struct usage a = {.in = 1, .cache_read = 2, .cache_write_5m = 3, .cache_write_1h = 4, .in_audio = 5, .out = 6};
    struct usage b = {.in = 10, .out = 20, .out_audio = 30, .web_search = 40, .reasoning = 7, .reported = true};
    usage_add(&a, &b);
    cr_assert_eq(a.in, 11);
    cr_assert_eq(a.cache_read, 2);
    cr_assert_eq(a.out, 26);
    cr_assert_eq(a.out_audio, 30);
    cr_assert_eq(a.web_search, 40);
    cr_assert_eq(a.reasoning, 7);
    cr_assert(a.reported && !a.estimated);
    cr_assert_eq(usage_in_tok(&a), 11 + 2 + 3 + 4 + 5);
    cr_assert_eq(usage_out_tok(&a), 26 + 30, "reasoning is inside out and web searches are no tokens");
}

Test(usage, one_estimate_marks_the_sum) {
    struct usage a = {.reported = true}, b = {.estimated = true};
    usage_add(&a, &b);
    cr_assert(a.reported && a.estimated);
}

Test(usage, absurd_counts_stop_at_the_largest_number) {
    struct usage a = {.in = INT64_MAX - 1, .out = INT64_MAX}, b = {.in = 5, .out = 1, .out_audio = INT64_MAX};
    usage_add(&a, &b);
    cr_assert_eq(a.in, INT64_MAX);
    cr_assert_eq(usage_in_tok(&a), INT64_MAX);
    cr_assert_eq(usage_out_tok(&a), INT64_MAX);
}
