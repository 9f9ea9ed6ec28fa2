/* A story is told twice: with stores that answer at once, and with a ledger and a cache that answer later. */
#ifndef TOLLGATE_TESTS_STORY_H
#define TOLLGATE_TESTS_STORY_H

#include "tests/support/flow.h"

#include <criterion/criterion.h>
#include <stdio.h>

#define STORY(suite, name, conf)                                                                                       \
    static void tell_##name(struct flow *f);                                                                           \
    Test(suite, name) {                                                                                                \
        struct flow f;                                                                                                 \
        flow_open(&f, conf, false);                                                                                    \
        tell_##name(&f);                                                                                               \
        flow_close(&f);                                                                                                \
    }                                                                                                                  \
    Test(suite, name##_with_late_stores) {                                                                             \
        struct flow f;                                                                                                 \
        flow_open(&f, conf, true);                                                                                     \
        tell_##name(&f);                                                                                               \
        flow_close(&f);                                                                                                \
    }                                                                                                                  \
    static void tell_##name(struct flow *f)

#endif
