/* The policies: what holds of each, and the weights. */
#include "routing/policy.h"

#include <criterion/criterion.h>
#include <math.h>

#define DRAWS 100000
/* Five standard deviations of a share: a right draw fails one time in millions, and the seed is fixed. */
static double tolerance(double share) {
    return 5 * sqrt(share * (1 - share) / DRAWS);
}

struct shape {
    size_t n;
    struct {
        size_t nth_target;
        int target_weight, key_weight;
    } lanes[6];
    double shares[6]; /* of first places */
};

static const struct shape shapes[] = {
    {1, {{0, 7, 1}}, {1}},
    {2, {{0, 1, 1}, {1, 9, 1}}, {0.1, 0.9}},
    {2, {{0, 3, 1}, {1, 1, 1}}, {0.75, 0.25}},
    {4, {{0, 1, 1}, {0, 1, 1}, {0, 1, 1}, {1, 1, 1}}, {1 / 6.0, 1 / 6.0, 1 / 6.0, 0.5}},
    {3, {{0, 1, 3}, {0, 1, 1}, {1, 1, 5}}, {0.375, 0.125, 0.5}},
    {3, {{0, 0, 1}, {1, 1, 1}, {2, 1, 1}}, {0, 0.5, 0.5}},
    {2, {{0, 0, 1}, {1, 0, 1}}, {1, 0}},
    {3, {{0, 1, 0}, {0, 1, 1}, {1, 1, 0}}, {0, 0.5, 0.5}},
    {2, {{0, 2147483647, 1}, {1, 2147483647, 1}}, {0.5, 0.5}},
};

static void fill(const struct shape *s, struct lane *lanes) {
    for (size_t i = 0; i < s->n; i++)
        lanes[i] = (struct lane){.nth_target = s->lanes[i].nth_target,
                                 .target_weight = s->lanes[i].target_weight,
                                 .key_weight = s->lanes[i].key_weight};
}

Test(policy, R_10_weights_are_kept_over_many_draws) {
    uint64_t random = 20261130;
    const struct policy_row *weighted = policy_row(POLICY_WEIGHTED);
    for (size_t s = 0; s < ARRAY_LEN(shapes); s++) {
        int firsts[6] = {0};
        struct lane lanes[6];
        for (int i = 0; i < DRAWS; i++) {
            fill(&shapes[s], lanes);
            firsts[weighted->pick(lanes, shapes[s].n, &random)]++;
        }
        for (size_t i = 0; i < shapes[s].n; i++) {
            double share = (double)firsts[i] / DRAWS, wanted = shapes[s].shares[i];
            cr_expect_leq(fabs(share - wanted), tolerance(wanted), "shape %zu lane %zu: %f instead of %f", s, i, share,
                          wanted);
        }
    }
}

Test(policy, every_policy_draws_each_lane_once_and_says_why) {
    uint64_t random = 7;
    for (enum conf_policy p = POLICY_WEIGHTED; p <= POLICY_WEIGHTED; p++)
        for (size_t s = 0; s < ARRAY_LEN(shapes); s++) {
            struct lane lanes[6];
            fill(&shapes[s], lanes);
            for (size_t i = 0; i < shapes[s].n; i++) {
                size_t at = policy_row(p)->pick(lanes, shapes[s].n, &random);
                cr_assert_lt(at, shapes[s].n);
                cr_assert_not(lanes[at].taken, "%s drew a lane twice", policy_row(p)->name);
                cr_assert_not_null(lanes[at].why);
                lanes[at].taken = true;
            }
        }
}

Test(policy, a_reason_that_stands_already_is_kept) {
    uint64_t random = 7;
    struct lane lane = {.target_weight = 1, .key_weight = 1, .why = "probe after cool-down"};
    policy_row(POLICY_WEIGHTED)->pick(&lane, 1, &random);
    cr_expect_str_eq(lane.why, "probe after cool-down");
}

Test(policy, what_weighs_nothing_comes_last_in_the_order_of_the_conf) {
    uint64_t random = 7;
    for (int i = 0; i < 200; i++) {
        struct lane lanes[4];
        fill(&(struct shape){4, {{0, 0, 1}, {1, 0, 1}, {2, 1, 1}, {3, 5, 1}}, {0}}, lanes);
        size_t order[4];
        for (int k = 0; k < 4; k++) {
            order[k] = policy_row(POLICY_WEIGHTED)->pick(lanes, 4, &random);
            lanes[order[k]].taken = true;
        }
        cr_assert(order[2] == 0 && order[3] == 1);
    }
}
