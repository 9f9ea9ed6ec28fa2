/* What outcomes mean. */
#include "routing/outcome.h"

#include <criterion/criterion.h>

Test(outcome, every_outcome_has_a_name_and_a_reason_exactly_when_another_try_may_follow) {
    for (enum outcome o = 0; o < OUTCOME_N; o++) {
        const struct outcome_row *row = outcome_row(o);
        cr_expect(outcome_names[o] && outcome_names[o][0], "outcome %d has no name", o);
        cr_expect_eq(row->follow == FOLLOW_NONE, row->reason == REASON_N, "%s", outcome_names[o]);
        cr_expect_eq(outcome_reason(o), row->reason);
        for (enum outcome other = 0; other < o; other++)
            cr_expect_str_neq(outcome_names[o], outcome_names[other]);
    }
}

Test(outcome, a_part_at_fault_is_never_proved_well_by_the_same_outcome) {
    for (enum outcome o = 0; o < OUTCOME_N; o++) {
        const struct outcome_row *row = outcome_row(o);
        if (row->fault != PART_N)
            cr_expect_eq(row->proves & PART_BIT(row->fault), 0, "%s", outcome_names[o]);
    }
}

Test(outcome, the_fault_of_a_client_or_of_a_full_house_is_charged_to_nobody) {
    static const enum outcome nobody[] = {
        OUTCOME_OK,      OUTCOME_CLIENT_FAULT, OUTCOME_CANCELLED,      OUTCOME_CONTEXT_WINDOW,
        OUTCOME_NO_SLOT, OUTCOME_OVER_BUDGET,  OUTCOME_CONTENT_FILTER, OUTCOME_LOCAL};
    for (size_t i = 0; i < ARRAY_LEN(nobody); i++)
        cr_expect_eq(outcome_row(nobody[i])->fault, PART_N, "%s", outcome_names[nobody[i]]);
    cr_expect_eq(outcome_row(OUTCOME_CONNECT)->fault, PART_BACKEND);
    cr_expect_eq(outcome_row(OUTCOME_AUTH)->fault, PART_KEY);
    cr_expect_eq(outcome_row(OUTCOME_UNAVAILABLE)->fault, PART_TARGET);
    cr_expect_eq(outcome_row(OUTCOME_TIMEOUT)->fault, PART_TARGET);
    cr_expect_eq(outcome_row(OUTCOME_MODEL_MISSING)->fault, PART_TARGET);
    cr_expect_eq(outcome_row(OUTCOME_RATE_LIMITED)->fault, PART_LANE);
}
