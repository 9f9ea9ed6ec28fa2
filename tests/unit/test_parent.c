/* The parent's back-off. */
#include "gateway/workers/parent.h"

#include <criterion/criterion.h>

Test(parent, the_wait_doubles_up_to_a_bound_whatever_the_count) {
    int64_t before_us = 0;
    cr_expect_eq(parent_wait_us(0), PARENT_WAIT_US);
    cr_expect_eq(parent_wait_us(1), 2 * PARENT_WAIT_US);
    for (int deaths = 0; deaths < 200; deaths++) {
        int64_t wait_us = parent_wait_us(deaths);
        cr_expect(wait_us >= before_us && wait_us >= PARENT_WAIT_US && wait_us <= PARENT_WAIT_MAX_US, "%d", deaths);
        before_us = wait_us;
    }
    cr_expect_eq(parent_wait_us(INT32_MAX), PARENT_WAIT_MAX_US);
}
