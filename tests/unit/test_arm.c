/* Whose name puts a call on a side of its alias's experiment. */
#include "gateway/arm.h"

#include "gateway/gateway.h"
#include "gateway/state/override.h"
#include "tests/support/temp_folder.h"

#include <criterion/criterion.h>
#include <stdio.h>

#define NOW_US INT64_C(1796040000000000)

static struct conf_team team = {.name = "search"};
static struct conf_key key = {.id = "aaaaaaaa", .name = "prod", .team = &team};
static struct conf_alias alias = {.name = "smart",
                                  .canary = {.target = {.name = "b/new", .model = "new"}, .share = 1527}};

static struct overrides *overrides;

static void make(void) {
    overrides = overrides_new();
}

static void unmake(void) {
    overrides_free(overrides);
}
TestSuite(arm, .init = make, .fini = unmake);

static enum arm_kind kind_with(const struct conf_label *labels, size_t n) {
    struct arm arm = arm_of(&(struct arm_ask){overrides, &alias, &key, labels, n, NOW_US});
    cr_expect_eq(arm.first != NULL, arm.kind > ARM_STABLE);
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

static void turn(struct temp_folder *folder, const char *name, int64_t number, const char *text) {
    struct conf conf = {.state_directory = folder->path};
    struct override v = {.number = number, .since_us = NOW_US, .until_us = OVERRIDE_EVER_US};
    snprintf(v.name, sizeof v.name, "%s", name);
    snprintf(v.text, sizeof v.text, "%s", text);
    cr_assert(overrides_set(overrides, &conf, &v));
}

Test(arm, a_shift_moves_the_share_and_a_pin_goes_before_both) {
    static struct conf_target targets[] = {{.name = "a/m", .model = "m"}, {.name = "a/o", .model = "o"}};
    static struct conf_rung rungs[] = {{.targets = &targets[0], .n_targets = 1},
                                       {.targets = &targets[1], .n_targets = 1, .degraded = true}};
    struct temp_folder folder = temp_new();
    alias.rungs = rungs;
    alias.n_rungs = 2;
    alias.canary.share = 0;
    cr_expect_eq(kind_with(NULL, 0), ARM_STABLE);
    turn(&folder, "shift/smart", 1527, "");
    cr_expect_eq(kind_with(NULL, 0), ARM_CANARY);
    turn(&folder, "shift/smart", 1526, "");
    cr_expect_eq(kind_with(NULL, 0), ARM_STABLE);
    turn(&folder, "pin/smart", 0, "a/o");
    struct arm arm = arm_of(&(struct arm_ask){overrides, &alias, &key, NULL, 0, NOW_US});
    cr_expect(arm.kind == ARM_PINNED && arm.first == &targets[1] && arm.degraded);
    turn(&folder, "pin/smart", 0, "b/new");
    arm = arm_of(&(struct arm_ask){overrides, &alias, &key, NULL, 0, NOW_US});
    cr_expect(arm.kind == ARM_PINNED && arm.first == &alias.canary.target && !arm.degraded);
    turn(&folder, "pin/smart", 0, "b/other");
    cr_expect_eq(kind_with(NULL, 0), ARM_STABLE, "what the alias does not have cannot be pinned");
    temp_free(&folder);
}
