/* The policies: what holds of each, and the weights. */
#include "routing/latency.h"
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

static struct draw draws_of(uint64_t *random) {
    return (struct draw){.random = random};
}

Test(policy, R_10_weights_are_kept_over_many_draws) {
    uint64_t random = 20261130;
    struct draw d = draws_of(&random);
    for (size_t s = 0; s < ARRAY_LEN(shapes); s++) {
        int firsts[6] = {0};
        struct lane lanes[6];
        for (int i = 0; i < DRAWS; i++) {
            fill(&shapes[s], lanes);
            firsts[policy_pick(POLICY_WEIGHTED, lanes, shapes[s].n, &d)]++;
        }
        for (size_t i = 0; i < shapes[s].n; i++) {
            double share = (double)firsts[i] / DRAWS, wanted = shapes[s].shares[i];
            cr_expect_leq(fabs(share - wanted), tolerance(wanted), "shape %zu lane %zu: %f instead of %f", s, i, share,
                          wanted);
        }
    }
}

/* Facts of all kinds, known and unknown, zero and huge. */
static void make_facts(struct lane *l, uint64_t *random) {
    static const int64_t values[] = {-1, 0, 1, 999, 1000, 12345678, INT64_MAX};
    l->facts.latency_us = values[random_next(random) % 7];
    l->facts.cost_nanousd = values[random_next(random) % 7];
    l->facts.in_flight = (int)(random_next(random) % 5);
    l->in_flight = (int)(random_next(random) % 3);
    l->target = l->nth_target == 0 ? "a/m" : l->nth_target == 1 ? "b/m" : "c/m";
}

Test(policy, every_policy_draws_each_lane_once_and_says_why) {
    uint64_t random = 7, facts = 11;
    for (enum conf_policy p = 0; p < POLICY_N; p++)
        for (size_t s = 0; s < 20 * ARRAY_LEN(shapes); s++) {
            struct lane lanes[6];
            size_t n = shapes[s % ARRAY_LEN(shapes)].n;
            struct draw d = {&random, s % 2 ? random_next(&facts) : 0};
            fill(&shapes[s % ARRAY_LEN(shapes)], lanes);
            for (size_t i = 0; i < n; i++)
                make_facts(&lanes[i], &facts);
            for (size_t i = 0; i < n; i++) {
                size_t at = policy_pick(p, lanes, n, &d);
                cr_assert_lt(at, n);
                cr_assert_not(lanes[at].taken, "%s drew a lane twice", policy_row(p)->name);
                cr_assert_not_null(lanes[at].why);
                lanes[at].taken = true;
            }
        }
}

Test(policy, a_reason_that_stands_already_is_kept) {
    uint64_t random = 7;
    struct draw d = draws_of(&random);
    struct lane lane = {.target_weight = 1, .key_weight = 1, .why = "probe after cool-down"};
    policy_pick(POLICY_WEIGHTED, &lane, 1, &d);
    cr_expect_str_eq(lane.why, "probe after cool-down");
}

Test(policy, what_weighs_nothing_comes_last_in_the_order_of_the_conf) {
    uint64_t random = 7;
    struct draw d = draws_of(&random);
    for (int i = 0; i < 200; i++) {
        struct lane lanes[4];
        fill(&(struct shape){4, {{0, 0, 1}, {1, 0, 1}, {2, 1, 1}, {3, 5, 1}}, {0}}, lanes);
        size_t order[4];
        for (int k = 0; k < 4; k++) {
            order[k] = policy_pick(POLICY_WEIGHTED, lanes, 4, &d);
            lanes[order[k]].taken = true;
        }
        cr_assert(order[2] == 0 && order[3] == 1);
    }
}

/* n targets of one lane each, called t0, t1, ... of weight 1 or of the weights given. */
#define TARGETS 8
static const char *const target_names[TARGETS] = {"a/m", "b/m", "c/m", "d/m", "e/m", "f/m", "g/m", "h/m"};
static void make_targets(struct lane *lanes, size_t n, const int *weights) {
    for (size_t i = 0; i < n; i++)
        lanes[i] = (struct lane){.target = target_names[i],
                                 .nth_target = i,
                                 .target_weight = weights ? weights[i] : 1,
                                 .key_weight = 1,
                                 .facts = {-1, -1, 0}};
}

/* Calls that last as long as each target's server takes; how many each of them got. */
static void serve(enum conf_policy p, size_t n, const int *weights, const int64_t *took_us, int calls,
                  int got[TARGETS]) {
    uint64_t random = 20261201;
    struct latency waits[TARGETS] = {0};
    int64_t ends_us[TARGETS][64] = {0};
    memset(got, 0, TARGETS * sizeof *got);
    for (int i = 1; i <= calls; i++) {
        int64_t now_us = (int64_t)i * 100000;
        struct lane lanes[TARGETS];
        make_targets(lanes, n, weights);
        for (size_t t = 0; t < n; t++) {
            lanes[t].facts.latency_us = latency_now(&waits[t], now_us);
            for (int k = 0; k < 64; k++) {
                if (ends_us[t][k] && ends_us[t][k] <= now_us) {
                    latency_saw(&waits[t], took_us[t], now_us);
                    ends_us[t][k] = 0;
                }
                lanes[t].facts.in_flight += ends_us[t][k] > 0;
            }
            lanes[t].in_flight = lanes[t].facts.in_flight;
        }
        size_t at = policy_pick(p, lanes, n, &(struct draw){&random, 0});
        got[at]++;
        for (int k = 0; k < 64; k++)
            if (ends_us[at][k] == 0) {
                ends_us[at][k] = now_us + took_us[at];
                break;
            }
    }
}

Test(policy, latency_prefers_the_quick_one_and_goes_on_trying_the_slow_one) {
    int got[TARGETS];
    static const int64_t uneven[] = {400000, 4000000}, even[] = {400000, 400000};
    serve(POLICY_LATENCY, 2, NULL, uneven, 10000, got);
    cr_expect_geq(got[0], 9300, "the quick one had %d of 10000", got[0]);
    cr_expect_geq(got[1], 10, "the slow one is never forgotten: %d", got[1]);
    serve(POLICY_LATENCY, 2, NULL, even, 10000, got);
    cr_expect(got[0] > 4000 && got[1] > 4000, "alike: %d and %d", got[0], got[1]);
}

Test(policy, latency_does_not_throw_everything_at_the_best_one) {
    int got[TARGETS];
    static const int64_t near[] = {500000, 510000, 520000, 530000};
    serve(POLICY_LATENCY, 4, NULL, near, 10000, got);
    for (int t = 0; t < 4; t++)
        cr_expect(got[t] > 1000 && got[t] < 4500, "target %d had %d of 10000", t, got[t]);
}

Test(policy, latency_tries_what_it_does_not_know_one_call_at_a_time) {
    uint64_t random = 3;
    struct draw d = draws_of(&random);
    struct lane lanes[2];
    make_targets(lanes, 2, NULL);
    lanes[0].facts.latency_us = 300000;
    lanes[0].facts.in_flight = 5;
    cr_expect_eq(policy_pick(POLICY_LATENCY, lanes, 2, &d), 1);
    lanes[1].facts.in_flight = 1;
    cr_expect_eq(policy_pick(POLICY_LATENCY, lanes, 2, &d), 0);
}

Test(policy, in_flight_levels_what_is_at_work_by_weight) {
    int got[TARGETS];
    static const int weights[] = {3, 1};
    static const int64_t alike[] = {4000000, 4000000}, uneven[] = {500000, 1500000};
    serve(POLICY_IN_FLIGHT, 2, weights, alike, 10000, got);
    cr_expect(abs(got[0] - 7500) < 300, "three quarters by weight: %d", got[0]);
    serve(POLICY_IN_FLIGHT, 2, NULL, uneven, 10000, got);
    cr_expect(abs(got[0] - 7500) < 500, "who is three times as quick does three times as much: %d", got[0]);
}

Test(policy, in_flight_spreads_over_the_keys_of_a_target) {
    uint64_t random = 3;
    struct draw d = draws_of(&random);
    struct lane lanes[3];
    make_targets(lanes, 3, NULL);
    lanes[1].nth_target = lanes[2].nth_target = 0;
    lanes[0].in_flight = 2;
    lanes[1].in_flight = 1;
    lanes[2].in_flight = 1;
    lanes[2].key_weight = 3;
    cr_expect_eq(policy_pick(POLICY_IN_FLIGHT, lanes, 3, &d), 2);
}

Test(policy, cost_takes_the_cheapest_and_what_has_no_price_last) {
    uint64_t random = 3;
    struct draw d = draws_of(&random);
    for (int i = 0; i < 100; i++) {
        struct lane lanes[4];
        make_targets(lanes, 4, NULL);
        lanes[1].facts.cost_nanousd = 500;
        lanes[2].facts.cost_nanousd = 200;
        lanes[3].facts.cost_nanousd = 200;
        size_t order[4];
        for (int k = 0; k < 4; k++) {
            order[k] = policy_pick(POLICY_COST, lanes, 4, &d);
            lanes[order[k]].taken = true;
        }
        cr_assert(order[0] + order[1] == 5 && order[2] == 1 && order[3] == 0);
    }
}

Test(policy, sticky_keeps_a_beginning_where_it_is_and_keeps_weights) {
    enum { BEGINNINGS = 20000 };
    static const int weights[] = {1, 2, 3, 4};
    uint64_t random = 9, affinities = 4711;
    int got[4] = {0};
    for (int i = 0; i < BEGINNINGS; i++) {
        struct draw d = {&random, random_next(&affinities)};
        struct lane lanes[4];
        make_targets(lanes, 4, weights);
        size_t at = policy_pick(POLICY_STICKY, lanes, 4, &d);
        got[at]++;
        for (int again = 0; again < 3; again++)
            cr_assert_eq(policy_pick(POLICY_STICKY, lanes, 4, &d), at);
    }
    for (int t = 0; t < 4; t++) {
        double wanted = weights[t] / 10.0, share = (double)got[t] / BEGINNINGS;
        cr_expect_leq(fabs(share - wanted), 5 * sqrt(wanted * (1 - wanted) / BEGINNINGS), "target %d: %f", t, share);
    }
}

Test(policy, sticky_moves_only_what_was_at_the_target_that_leaves) {
    enum { BEGINNINGS = 20000 };
    uint64_t random = 9, affinities = 42;
    int moved = 0;
    for (int i = 0; i < BEGINNINGS; i++) {
        struct draw d = {&random, random_next(&affinities)};
        struct lane all[TARGETS], fewer[TARGETS];
        make_targets(all, TARGETS, NULL);
        size_t before = policy_pick(POLICY_STICKY, all, TARGETS, &d), n = 0;
        for (size_t t = 0; t < TARGETS; t++)
            if (t != 3)
                fewer[n++] = all[t];
        const char *after = fewer[policy_pick(POLICY_STICKY, fewer, n, &d)].target;
        moved += strcmp(after, all[before].target) != 0;
        cr_assert(before == 3 || strcmp(after, all[before].target) == 0, "a call moved that had no need to");
    }
    double share = (double)moved / BEGINNINGS;
    cr_expect_leq(fabs(share - 1.0 / TARGETS), 5 * sqrt(7.0 / 64 / BEGINNINGS), "%f moved", share);
}

Test(policy, sticky_without_a_beginning_is_a_weighted_draw) {
    uint64_t random = 5;
    struct draw d = draws_of(&random);
    int got[2] = {0};
    for (int i = 0; i < 10000; i++) {
        struct lane lanes[2];
        make_targets(lanes, 2, (const int[]){9, 1});
        got[policy_pick(POLICY_STICKY, lanes, 2, &d)]++;
    }
    cr_expect(abs(got[0] - 9000) < 150, "%d", got[0]);
}
