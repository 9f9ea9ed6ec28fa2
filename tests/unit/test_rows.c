/* Lists of several processes made one; a process that did not answer is left out. */
#include "gateway/admin/rows.h"

#include <criterion/criterion.h>

typedef void merge(const struct span *arrays, size_t n, struct str *out);

static void expect(merge *rows, const struct span *arrays, size_t n, const char *expected) {
    struct str out;
    str_init(&out, 65536);
    rows(arrays, n, &out);
    cr_expect_str_eq(out.at, expected, "%s", out.at);
    str_fini(&out);
}

Test(rows, requests_stand_behind_one_another) {
    const struct span arrays[] = {SPAN("[{\"id\":\"a\"},{\"id\":\"b\"}]"), SPAN_NONE, SPAN("[]"),
                                  SPAN("[{\"id\":\"c\"}"), SPAN("[{\"id\":\"d\"}]")};
    expect(rows_join, arrays, ARRAY_LEN(arrays), "[{\"id\":\"a\"},{\"id\":\"b\"},{\"id\":\"d\"}]");
    expect(rows_join, arrays + 1, 1, "[]");
}

#define LANE(target, key, state, numbers)                                                                              \
    "{\"target\":\"" target "\",\"key\":" key ",\"state\":\"" state "\"," numbers "}"

Test(rows, lanes_add_up_by_target_and_key_and_one_open_is_open) {
    const struct span arrays[] = {
        SPAN("[" LANE("a/x", "\"k1\"", "closed", "\"tries\":5,\"failures\":1,\"in_flight\":2") "," LANE(
            "a/x", "null", "closed", "\"tries\":1,\"failures\":0,\"in_flight\":0") "]"),
        SPAN("[" LANE("a/x", "\"k1\"", "open", "\"tries\":7,\"failures\":6,\"in_flight\":3,\"drained\":true") "]")};
    expect(rows_targets, arrays, ARRAY_LEN(arrays),
           "[" LANE("a/x", "\"k1\"", "open", "\"tries\":12,\"failures\":7,\"in_flight\":5,\"drained\":true") "," LANE(
               "a/x", "null", "closed", "\"tries\":1,\"failures\":0,\"in_flight\":0,\"drained\":false") "]");
}

#define BUDGET(name, from, settled)                                                                                    \
    "{\"name\":\"" name "\",\"period_from\":\"" from "\",\"settled_nanousd\":" settled "}"

Test(rows, of_a_budget_the_process_that_heard_the_most_is_believed_and_periods_stay_apart) {
    const struct span arrays[] = {SPAN("[" BUDGET("t/m", "1", "0") "]"),
                                  SPAN("[" BUDGET("t/m", "1", "9") "," BUDGET("t/m", "2", "4") "]"),
                                  SPAN("[" BUDGET("t/m", "1", "7") "]")};
    expect(rows_budgets, arrays, ARRAY_LEN(arrays), "[" BUDGET("t/m", "1", "9") "," BUDGET("t/m", "2", "4") "]");
}
