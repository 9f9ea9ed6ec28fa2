/* Whose name puts a call on a side of its alias's experiment. */
#include "gateway/arm.h"

#include <criterion/criterion.h>
#include <stdio.h>

static struct conf_team team = {.name = "search"};
static struct conf_key key = {.id = "aaaaaaaa", .name = "prod", .team = &team};
static struct conf_alias alias = {.name = "smart",
                                  .canary = {.target = {.name = "b/new", .model = "new"}, .share = 1527}};

static enum arm_kind kind_with(const struct conf_label *labels, size_t n) {
    struct arm arm = arm_of(&(struct arm_ask){&alias, &key, labels, n});
    cr_expect_eq(arm.first != NULL, arm.kind == ARM_CANARY);
    return arm.kind;
}

Test(arm, a_team_stands_on_one_side_with_all_its_keys) {
    cr_expect_eq(kind_with(NULL, 0), ARM_CANARY, "its place is 1526");
    key.id = "bbbbbbbb";
    cr_expect_eq(kind_with(NULL, 0), ARM_CANARY);
    alias.canary.share = 1526;
    cr_expect_eq(kind_with(NULL, 0), ARM_STABLE);
}

Test(arm, an_alias_without_a_canary_has_no_arms) {
    alias.canary.target.name = NULL;
    cr_expect_eq(kind_with(NULL, 0), ARM_NONE);
}

Test(arm, by_key_a_rotated_key_stays_where_the_first_one_was) {
    int on_canary = 0;
    alias.canary.by = CANARY_BY_KEY;
    alias.canary.share = FACTOR_ONE / 2;
    for (int i = 0; i < 100; i++) {
        char first[16], id[16];
        snprintf(first, sizeof first, "first%03d", i);
        snprintf(id, sizeof id, "later%03d", i);
        key.id = first;
        key.account = NULL;
        enum arm_kind before = kind_with(NULL, 0);
        key.id = id;
        key.account = first;
        cr_assert_eq(kind_with(NULL, 0), before);
        on_canary += before == ARM_CANARY;
    }
    cr_expect(on_canary > 25 && on_canary < 75, "%d of 100 keys", on_canary);
}

Test(arm, by_label_a_call_without_the_label_stays_where_most_are) {
    const struct conf_label labels[] = {{"env", "search"}, {"feature", "search"}};
    alias.canary.by = CANARY_BY_LABEL;
    alias.canary.label = "feature";
    cr_expect_eq(kind_with(labels, 2), ARM_CANARY);
    cr_expect_eq(kind_with(labels, 1), ARM_STABLE);
    alias.canary.share = FACTOR_ONE;
    cr_expect_eq(kind_with(labels, 1), ARM_STABLE, "whatever the share");
}
