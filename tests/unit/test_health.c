/* Health of one part, and the book of all of them. Now is a number. */
#include "routing/health.h"

#include <criterion/criterion.h>
#include <stdio.h>

#define S INT64_C(1000000)
static const int64_t start_us = 1000 * S;
static const struct fault transient = {.reason = REASON_UNAVAILABLE};
static const struct part_names names = {{"openai", 6}, {"openai/gpt", 10}, {"key1", 4}};

static struct conf *make_conf(void) {
    static struct conf conf;
    conf.health.window_us = 30 * S;
    conf.health.errors = FACTOR_ONE / 2;
    conf.health.samples = 20;
    conf.health.cool_down_us = 2 * S;
    conf.health.cool_down_max_us = 300 * S;
    return &conf;
}

static struct health *make_part(struct health_book *b) {
    health_book_init(b, 16);
    return health_get(b, PART_TARGET, &names);
}

Test(health, one_transient_fault_changes_nothing) {
    struct health_book b;
    struct health *h = make_part(&b);
    health_fault(h, make_conf(), &transient, start_us);
    cr_expect_eq(health_state(h, start_us), HEALTH_CLOSED);
    health_book_fini(&b);
}

Test(health, a_streak_makes_shy_and_one_good_try_ends_it) {
    struct health_book b;
    struct health *h = make_part(&b);
    for (int i = 0; i < HEALTH_STREAK; i++)
        health_fault(h, make_conf(), &transient, start_us);
    cr_expect_eq(health_state(h, start_us), HEALTH_SHY);
    health_good(h, make_conf(), false, start_us);
    cr_expect_eq(health_state(h, start_us), HEALTH_CLOSED);
    health_book_fini(&b);
}

Test(health, the_error_ratio_needs_its_floor_of_samples) {
    struct health_book b;
    struct health *h = make_part(&b);
    struct conf *conf = make_conf();
    for (int i = 0; i < 9; i++) { /* 9 of 18 bad, never three in a row */
        health_fault(h, conf, &transient, start_us);
        health_good(h, conf, false, start_us);
    }
    cr_expect_eq(health_state(h, start_us), HEALTH_CLOSED, "half of 18 is bad, but 18 are too few");
    health_fault(h, conf, &transient, start_us);
    cr_expect_eq(health_state(h, start_us), HEALTH_CLOSED);
    health_fault(h, conf, &transient, start_us);
    cr_expect_eq(health_state(h, start_us), HEALTH_SHUT, "11 of 20");
    health_good(h, conf, false, start_us);
    cr_expect_eq(health_state(h, start_us), HEALTH_SHUT, "a try that began before does not open it");
    health_book_fini(&b);
}

Test(health, old_errors_are_forgotten) {
    struct health_book b;
    struct health *h = make_part(&b);
    struct conf *conf = make_conf();
    for (int i = 0; i < 9; i++) {
        health_fault(h, conf, &transient, start_us);
        health_good(h, conf, false, start_us);
    }
    int64_t later_us = start_us + 300 * S; /* ten windows */
    for (int i = 0; i < 2; i++) {
        health_fault(h, conf, &transient, later_us);
        health_good(h, conf, false, later_us);
    }
    cr_expect_eq(health_state(h, later_us), HEALTH_CLOSED);
    cr_expect_lt(h->good + h->bad, 4.01);
    health_book_fini(&b);
}

Test(health, cool_downs_grow_by_a_quarter_between_their_bounds_and_start_over_after_a_good_probe) {
    struct health_book b;
    struct health *h = make_part(&b);
    struct conf *conf = make_conf();
    int64_t now_us = start_us;
    for (int i = 0; i < HEALTH_STREAK - 1; i++)
        health_fault(h, conf, &transient, now_us);
    int64_t wanted_us = 2 * S;
    for (int i = 0; i < 30; i++) {
        health_fault(h, conf, &transient, now_us);
        cr_assert_eq(h->open_until_us - now_us, wanted_us, "cool-down %d is %ld", i, (long)(h->open_until_us - now_us));
        wanted_us = wanted_us * 5 / 4 < 300 * S ? wanted_us + wanted_us / 4 : 300 * S;
        now_us = h->open_until_us;
        cr_assert_eq(health_state(h, now_us - 1), HEALTH_SHY);
        cr_assert_eq(health_state(h, now_us), HEALTH_HALF_OPEN);
    }
    health_good(h, conf, false, now_us);
    cr_assert_eq(health_state(h, now_us), HEALTH_CLOSED);
    for (int i = 0; i < HEALTH_STREAK; i++)
        health_fault(h, conf, &transient, now_us);
    cr_assert_eq(h->open_until_us - now_us, 2 * S);
    health_book_fini(&b);
}

Test(health, a_burst_of_faults_grows_a_cool_down_once) {
    struct health_book b;
    struct health *h = make_part(&b);
    for (int i = 0; i < 15; i++)
        health_fault(h, make_conf(), &transient, start_us + i);
    cr_expect_eq(h->level, 1);
    cr_expect_lt(h->open_until_us, start_us + 3 * S);
    health_book_fini(&b);
}

Test(health, R_02_retry_after_ignored) {
    static const struct {
        int64_t asked_us, waits_us;
    } table[] = {{2 * S, 2 * S}, {50000, 50000}, {3600 * S, 3600 * S}, {INT64_MAX, RETRY_AFTER_MAX_US}};
    for (size_t i = 0; i < ARRAY_LEN(table); i++) {
        struct health_book b;
        struct health *h = make_part(&b);
        struct fault asked = {REASON_RATE_LIMITED, true, table[i].asked_us};
        health_fault(h, make_conf(), &asked, start_us);
        cr_expect_eq(health_state(h, start_us), HEALTH_SHUT, "one is enough when the provider says so");
        cr_expect_eq(h->open_until_us, start_us + table[i].waits_us);
        struct fault longer = {REASON_RATE_LIMITED, true, 3000 * S};
        health_fault(h, make_conf(), &longer, start_us + 1);
        cr_expect_geq(h->open_until_us, start_us + 3000 * S, "a later wish is obeyed too");
        cr_expect_geq(h->open_until_us, start_us + table[i].waits_us, "and never shortens an earlier one");
        health_book_fini(&b);
    }
}

Test(health, a_rate_limit_without_a_time_makes_shy_at_once) {
    struct health_book b;
    struct health *h = make_part(&b);
    struct fault limited = {REASON_RATE_LIMITED, true, 0};
    health_fault(h, make_conf(), &limited, start_us);
    cr_expect_eq(health_state(h, start_us), HEALTH_SHY);
    cr_expect_eq(h->reason, REASON_RATE_LIMITED);
    health_good(h, make_conf(), false, start_us);
    cr_expect_eq(health_state(h, start_us), HEALTH_SHY, "others still in flight prove nothing about the limit");
    health_book_fini(&b);
}

Test(health, a_clock_that_goes_back_adds_nothing) {
    struct health_book b;
    struct health *h = make_part(&b);
    health_fault(h, make_conf(), &transient, start_us);
    health_good(h, make_conf(), false, start_us - 3600 * S);
    cr_expect_lt(h->good + h->bad, 2.01);
    cr_expect_eq(h->decayed_us, start_us);
    health_book_fini(&b);
}

Test(health_book, parts_of_one_choice_are_four_and_are_found_again_by_name) {
    struct health_book b;
    health_book_init(&b, 16);
    struct health *parts[PART_N];
    for (enum part p = 0; p < PART_N; p++)
        parts[p] = health_get(&b, p, &names);
    for (enum part p = 0; p < PART_N; p++) {
        cr_expect_eq(health_find(&b, p, &names), parts[p]);
        for (enum part q = 0; q < p; q++)
            cr_expect_neq(parts[p], parts[q]);
    }
    struct part_names other_key = {names.backend, names.target, SPAN("key2")};
    cr_expect_eq(health_find(&b, PART_TARGET, &other_key), parts[PART_TARGET]);
    cr_expect_null(health_find(&b, PART_LANE, &other_key));
    cr_expect_null(health_find(&b, PART_KEY, &other_key));
    health_book_fini(&b);
}

Test(health_book, strangers_who_make_up_models_do_not_grow_it_nor_push_out_what_is_in_flight_or_ill) {
    struct health_book b;
    health_book_init(&b, 16);
    struct health *busy = health_get(&b, PART_TARGET, &names);
    busy->in_flight = 1;
    struct part_names ill_names = {names.backend, SPAN("openai/ill"), names.key};
    struct health *ill = health_get(&b, PART_TARGET, &ill_names);
    ill->open = true;
    for (int i = 0; i < 1000; i++) {
        char text[32];
        snprintf(text, sizeof text, "openai/made-up-%d", i);
        struct part_names made_up = {names.backend, span_of(text), names.key};
        cr_assert_not_null(health_get(&b, PART_TARGET, &made_up));
        cr_assert_leq(b.recent.n, 16);
        cr_assert_eq(b.recent.n, b.by_name.n);
    }
    cr_expect_eq(health_find(&b, PART_TARGET, &names), busy);
    cr_expect_eq(health_find(&b, PART_TARGET, &ill_names), ill);
    health_book_fini(&b);
}

Test(health_book, when_all_are_in_flight_the_next_is_not_remembered) {
    struct health_book b;
    health_book_init(&b, 1);
    health_get(&b, PART_TARGET, &names)->in_flight = 1;
    struct part_names more = {names.backend, SPAN("openai/more"), names.key};
    cr_expect_null(health_get(&b, PART_TARGET, &more));
    health_book_fini(&b);
}

Test(health_book, a_name_that_is_too_long_is_not_remembered) {
    struct health_book b;
    char text[2 * HEALTH_NAME_MAX];
    memset(text, 'x', sizeof text);
    health_book_init(&b, 4);
    struct part_names endless = {names.backend, span_from(text, sizeof text), names.key};
    cr_expect_null(health_get(&b, PART_TARGET, &endless));
    cr_expect_null(health_find(&b, PART_TARGET, &endless));
    struct part_names longest = {names.backend, span_from(text, HEALTH_NAME_MAX - 2), names.key};
    cr_expect_not_null(health_get(&b, PART_TARGET, &longest));
    health_book_fini(&b);
}
