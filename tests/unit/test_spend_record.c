/* A record as entries of the bill: whatever is asked for, the entries add up to the record and the rows to the total. */
#include "gateway/finance/report.h"
#include "tests/support/chain_kit.h"
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>

#define HOUR_US INT64_C(3600000000)

static struct spend asked(const char *by, const char *zone) {
    struct spend s;
    struct span bad;
    spend_init(&s);
    if (zone)
        s.zone = zone_get(zone);
    cr_assert(s.zone && spend_groups(&s, by, &bad), "%s", by);
    return s;
}

static void see(struct spend *s, const char *line) {
    struct audit_line l = {span_of(line), "f", 1};
    spend_see(&l, s);
}

static int64_t cell(const struct spend *s, enum spend_column column, const char *const *texts) {
    struct spend_row **rows = spend_sorted(s);
    int64_t n = INT64_MIN;
    for (size_t i = 0; rows[i]; i++) {
        bool same = true;
        for (size_t g = 0; g < s->n_groups; g++)
            same = same && strcmp(rows[i]->texts[g], texts[g]) == 0;
        n = same ? rows[i]->sums.at[column] : n;
    }
    free(rows);
    return n;
}
#define ROW(...) ((const char *const[]){__VA_ARGS__})

#define FRAME "{\"seq\":1,\"time\":\"2026-11-30T12:00:01.000000Z\",\"uptime_us\":1,\"kind\":\"%s\",\"prev\":\"%064d\","
#define TAIL ",\"hash\":\"%064d\"}"

static const char *record(const char *kind, const char *members) {
    static char line[8192];
    snprintf(line, sizeof line, FRAME "%s" TAIL, kind, 0, members, 0);
    return line;
}

/* 0.4 + 0.4 + 700.4 nano-dollars are 702 when each is rounded up, and 701.2, so 702, together; at list twice that. */
#define THREE_TRIES                                                                                                    \
    "\"team\":\"search\",\"client\":\"10.0.0.1:51234\",\"alias\":\"m\",\"target\":\"b/"                                \
    "y@3\",\"labels\":{\"f\":\"a\\\"b\"},"                                                                             \
    "\"admitted\":\"2026-11-30T12:00:00.000000Z\",\"attempts\":["                                                      \
    "{\"target\":\"a/"                                                                                                 \
    "x\",\"upstream_key\":\"k1\",\"pico\":\"400\",\"list_pico\":\"800\",\"usage\":{\"in\":1,\"out\":0}},"              \
    "{\"target\":\"a/"                                                                                                 \
    "x\",\"upstream_key\":\"k2\",\"pico\":\"400\",\"list_pico\":\"800\",\"usage\":{\"in\":2,\"out\":0}},"              \
    "{\"target\":\"b/y@3\",\"pico\":\"700400\",\"list_pico\":\"1400800\",\"usage\":{\"in\":4,\"out\":5}}],"            \
    "\"usage\":{\"in\":7,\"cache_read\":0,\"out\":5,\"reasoning\":3,\"reported\":true},\"cost_nanousd\":702,"          \
    "\"list_nanousd\":1403,\"estimated\":true,\"degraded\":\"timeout\""

Test(spend_record, a_failed_try_is_paid_where_it_was_made) {
    struct spend s = asked("target,upstream_key", NULL);
    see(&s, record("settle", THREE_TRIES));
    cr_expect_eq(s.rows.n, 3);
    cr_expect_eq(cell(&s, SPEND_cost_nanousd, ROW("a/x", "k1")), 1);
    cr_expect_eq(cell(&s, SPEND_cost_nanousd, ROW("a/x", "k2")), 0, "0.8 in all: nothing is rounded up twice");
    cr_expect_eq(cell(&s, SPEND_cost_nanousd, ROW("b/y@3", "(none)")), 701);
    cr_expect_eq(cell(&s, SPEND_list_nanousd, ROW("b/y@3", "(none)")), 1401);
    cr_expect_eq(cell(&s, SPEND_requests, ROW("a/x", "k1")), 0);
    cr_expect_eq(cell(&s, SPEND_tries, ROW("a/x", "k1")), 1);
    cr_expect_eq(cell(&s, SPEND_in, ROW("a/x", "k2")), 2);
    cr_expect_eq(cell(&s, SPEND_in, ROW("b/y@3", "(none)")), 4);
    cr_expect_eq(cell(&s, SPEND_estimated_nanousd, ROW("a/x", "k1")), 1);
    cr_expect_eq(cell(&s, SPEND_degraded_nanousd, ROW("b/y@3", "(none)")), 701);
    cr_expect_eq(s.total.at[SPEND_cost_nanousd], 702);
    cr_expect_eq(s.total.at[SPEND_list_nanousd], 1403);
    cr_expect_eq(s.total.at[SPEND_tries], 3);
    cr_expect_eq(s.total.at[SPEND_reasoning], 3);
    spend_fini(&s);
}

Test(spend_record, words_of_a_record) {
    static const struct {
        const char *by, *text;
    } rows[] = {{"team", "search"},    {"client", "10.0.0.1"},          {"alias", "m"},
                {"owner", "(none)"},   {"end_user", "(none)"},          {"label:f", "a\"b"},
                {"label:g", "(none)"}, {"degraded", "timeout"},         {"charge", "usage"},
                {"month", "2026-11"},  {"day", "2026-11-30"},           {"hour", "2026-11-30T12:00Z"},
                {"cache", "(none)"},   {"labels", "{\"f\":\"a\\\"b\"}"}};
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct spend s = asked(rows[i].by, NULL);
        see(&s, record("settle", THREE_TRIES));
        cr_expect_eq(cell(&s, SPEND_cost_nanousd, ROW(rows[i].text)), 702, "%s", rows[i].by);
        spend_fini(&s);
    }
    struct spend s = asked("adapter,backend", NULL);
    see(&s, record("settle", THREE_TRIES));
    cr_expect_eq(cell(&s, SPEND_tries, ROW("(none)", "a")), 2);
    cr_expect_eq(cell(&s, SPEND_requests, ROW("y@3", "b")), 1);
    spend_fini(&s);
}

Test(spend_record, a_correction_is_money_without_a_request) {
    struct spend s = asked("charge,day", NULL);
    see(&s, record("settle", THREE_TRIES));
    see(&s, record("adjust", "\"team\":\"search\",\"admitted\":\"2026-11-30T12:00:00.000000Z\",\"cost_nanousd\":-2,"
                             "\"list_nanousd\":-3,\"estimated\":true"));
    see(&s, record("adjust", "\"admitted\":\"2026-10-30T12:00:00.000000Z\",\"booked\":\"2026-11-29T12:00:00.000000Z\","
                             "\"cost_nanousd\":10,\"list_nanousd\":10,\"concerns\":\"2026-10\""));
    cr_expect_eq(cell(&s, SPEND_cost_nanousd, ROW("usage", "2026-11-30")), 700);
    cr_expect_eq(cell(&s, SPEND_list_nanousd, ROW("usage", "2026-11-30")), 1400);
    cr_expect_eq(cell(&s, SPEND_requests, ROW("usage", "2026-11-30")), 1);
    cr_expect_eq(cell(&s, SPEND_estimated_requests, ROW("usage", "2026-11-30")), 1);
    cr_expect_eq(cell(&s, SPEND_estimated_nanousd, ROW("usage", "2026-11-30")), 700);
    cr_expect_eq(cell(&s, SPEND_adjusted_nanousd, ROW("usage", "2026-11-30")), -2);
    cr_expect_eq(cell(&s, SPEND_cost_nanousd, ROW("correction", "2026-11-29")), 10, "in the month that was open");
    cr_expect_eq(s.total.at[SPEND_adjusts], 2);
    spend_fini(&s);
}

Test(spend_record, an_hour_that_the_clock_runs_through_twice_is_two_hours) {
    struct spend hours = asked("hour", "Europe/Berlin"), days = asked("day", "Europe/Berlin");
    int64_t first_us;
    cr_assert(clock_parse(SPAN("2026-10-24T22:00:00Z"), &first_us)); /* midnight in Berlin: a day of 25 hours */
    for (int i = 0; i < 26; i++) {
        char members[256], time[CLOCK_TEXT_MAX];
        snprintf(members, sizeof members, "\"admitted\":\"%s\",\"cost_nanousd\":1",
                 clock_text(first_us + i * HOUR_US, time));
        see(&hours, record("settle", members));
        see(&days, record("settle", members));
    }
    cr_expect_eq(hours.rows.n, 26);
    cr_expect_eq(cell(&hours, SPEND_cost_nanousd, ROW("2026-10-25T02:00+02:00")), 1);
    cr_expect_eq(cell(&hours, SPEND_cost_nanousd, ROW("2026-10-25T02:00+01:00")), 1);
    cr_expect_eq(cell(&days, SPEND_cost_nanousd, ROW("2026-10-25")), 25);
    cr_expect_eq(cell(&days, SPEND_cost_nanousd, ROW("2026-10-26")), 1);
    spend_fini(&hours);
    spend_fini(&days);
}

/* ---- properties over a log made by chance ---- */

static uint64_t chance = 88172645463325252u;

static const char *one_of(const char *const *words, size_t n) {
    return words[random_next(&chance) % n];
}

static void random_settle(struct audit *a, int64_t from_us) {
    static const char *const teams[] = {"search", "legal", NULL}, *const targets[] = {"a/x", "a/y", "b/z@2"},
                             *const keys[] = {"k1", "k2", NULL}, *const words[] = {"hit", "miss", "bypass"};
    struct conf_label label = {"feature", one_of((const char *const[]){"chat", "\"quoted\"", "tab\there"}, 3)};
    struct audit_attempt tries[4] = {0};
    struct price p = {.in = 333333, .out = 1234567, .factor = 8500, .known = true};
    struct audit_record r = {.kind = AUDIT_SETTLE, .attempts = tries, .labels = &label, .n_labels = 1};
    struct price_use uses[4];
    r.n_attempts = random_next(&chance) % 5;
    for (size_t i = 0; i < r.n_attempts; i++) {
        tries[i].target = one_of(targets, 3);
        tries[i].upstream_key = one_of(keys, 3);
        tries[i].usage =
            (struct usage){.in = (int64_t)(random_next(&chance) % 100), .out = (int64_t)(random_next(&chance) % 9)};
        price_pico_text(&p, &tries[i].usage, tries[i].pico);
        uses[i] = (struct price_use){&p, &tries[i].usage};
        usage_add(&r.usage, &tries[i].usage);
    }
    r.cost_nanousd = price_cost_sum(uses, r.n_attempts);
    r.target = r.n_attempts ? tries[r.n_attempts - 1].target : NULL;
    r.team = one_of(teams, 3);
    r.alias = "m";
    r.cache = one_of(words, 3);
    r.estimated = random_next(&chance) % 4 == 0;
    r.admitted_us = from_us + (int64_t)(random_next(&chance) % (uint64_t)(60 * 24 * HOUR_US));
    audit_add(a, &r, r.admitted_us);
}

static void sum_rows(const struct spend *s, struct spend_sums *out) {
    struct spend_row **rows = spend_sorted(s);
    *out = (struct spend_sums){0};
    for (size_t i = 0; rows[i]; i++)
        for (size_t c = 0; c < SPEND_COLUMNS_N; c++)
            out->at[c] += rows[i]->sums.at[c];
    free(rows);
}

Test(spend_record, rows_add_up_to_the_same_total_whatever_is_asked) {
    static const char *const zones[] = {"UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe"};
    struct kit k;
    int64_t from_us;
    cr_assert(clock_parse(SPAN("2026-10-01"), &from_us)); /* a change of the clock in each of these zones */
    kit_init(&k);
    struct audit *a = kit_open(&k, from_us);
    for (int i = 0; i < 600; i++)
        random_settle(a, from_us);
    audit_close(a, from_us + 61 * 24 * HOUR_US);
    struct spend plain = asked("team", NULL);
    cr_assert(audit_read(k.directory, spend_see, &plain, &k.why));
    cr_assert_eq(plain.total.at[SPEND_requests], 600);
    for (size_t w = 0; w < BY_N; w++)
        for (size_t z = 0; z < ARRAY_LEN(zones); z++) {
            struct spend s = asked(w == BY_LABEL ? "label:feature" : spend_words[w], zones[z]);
            struct spend_sums sum;
            cr_assert(audit_read(k.directory, spend_see, &s, &k.why));
            sum_rows(&s, &sum);
            for (size_t c = 0; c < SPEND_COLUMNS_N; c++) {
                cr_assert_eq(sum.at[c], s.total.at[c], "%s %s", spend_words[w], spend_columns[c]);
                cr_assert_eq(s.total.at[c], plain.total.at[c], "%s %s", spend_words[w], spend_columns[c]);
            }
            spend_fini(&s);
        }
    spend_fini(&plain);
    kit_fini(&k);
}

/* Days made of their hours: what is asked by day is what the hours of that day add up to. */
Test(spend_record, hours_add_up_to_their_day_in_every_zone) {
    static const char *const zones[] = {"Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Asia/Kathmandu"};
    for (size_t z = 0; z < ARRAY_LEN(zones); z++) {
        struct spend hours = asked("day,hour", zones[z]), days = asked("day", zones[z]);
        int64_t from_us;
        cr_assert(clock_parse(SPAN("2026-10-01"), &from_us));
        for (int i = 0; i < 60 * 24 * 4; i++) {
            char members[256], time[CLOCK_TEXT_MAX];
            snprintf(members, sizeof members, "\"admitted\":\"%s\",\"cost_nanousd\":%d",
                     clock_text(from_us + i * HOUR_US / 4, time), i);
            see(&hours, record("settle", members));
            see(&days, record("settle", members));
        }
        struct spend_row **by_day = spend_sorted(&days), **by_hour = spend_sorted(&hours);
        for (size_t d = 0; by_day[d]; d++) {
            int64_t sum = 0;
            for (size_t h = 0; by_hour[h]; h++) {
                bool inside = strcmp(by_hour[h]->texts[0], by_day[d]->texts[0]) == 0;
                cr_assert(!inside || strncmp(by_hour[h]->texts[1], by_day[d]->texts[0], 10) == 0);
                sum += inside ? by_hour[h]->sums.at[SPEND_cost_nanousd] : 0;
            }
            cr_assert_eq(sum, by_day[d]->sums.at[SPEND_cost_nanousd], "%s %s", zones[z], by_day[d]->texts[0]);
        }
        free(by_day);
        free(by_hour);
        spend_fini(&hours);
        spend_fini(&days);
    }
}

Test(spend_record, broken_amounts_make_no_report) {
    struct spend s = asked("team", NULL);
    see(&s, record("settle", "\"cost_nanousd\":9223372036854775807"));
    see(&s, record("settle", "\"cost_nanousd\":1"));
    cr_expect(s.overflow);
    spend_fini(&s);
    s = asked("labels,target", NULL);
    see(&s, "{\"seq\":1");
    see(&s, record("settle",
                   "\"labels\":{\"a\x1f\":1},\"attempts\":[7,{\"pico\":\"x\"},{}],\"usage\":[],\"cost_nanousd\":5"));
    cr_expect_eq(s.total.at[SPEND_cost_nanousd], 5);
    spend_fini(&s);
}
