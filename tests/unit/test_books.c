/* A closed month is told by its rollups: the same bytes for ever, whatever is corrected, carried or deleted afterwards. */
#include "gateway/finance/books.h"
#include "gateway/finance/report.h"
#include "gateway/finance/reprice.h"
#include "tests/support/chain_kit.h"
#include "tests/support/conf_text.h"
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define DAY_US INT64_C(86400000000)
#define CONF                                                                                                           \
    "teams: {search: {allow: [\"*\"]}}\n"                                                                              \
    "backends: {a: {protocol: openai, url: \"http://127.0.0.1:1/v1\", models: {x: {price: {input: %s, output: "        \
    "0}}}},\n"                                                                                                         \
    "           b: {protocol: openai, url: \"http://127.0.0.1:1/v1\", price_factor: 0.5, models: {y: {price: {input: " \
    "4 USD/1M, output: 0}}}}}\n"

/* Each settle has a failed try at a/x of 100 tokens and a good one at b/y of 1,000: at 1 USD/1M and 4 USD/1M less half
 * 100,000 and 2,000,000 nano-dollars, at list 4,100,000. */
static void settle(struct audit *a, int number, int64_t at_us) {
    char request[32];
    snprintf(request, sizeof request, "req_%d", number);
    struct conf_label label = {"feature", number % 2 ? "chat" : "x\"y"};
    struct audit_attempt tries[] = {
        {.target = "a/x", .upstream_key = "k", .pico = "100000000", .usage = {.in = 100}},
        {.target = "b/y", .upstream_key = "k", .pico = "2000000000", .list_pico = "4000000000", .usage = {.in = 1000}}};
    struct audit_record r = {.kind = AUDIT_ADMIT, .request = request, .team = "search", .key_id = "key1"};
    audit_add(a, &r, at_us);
    r = (struct audit_record){.kind = AUDIT_SETTLE,
                              .request = request,
                              .team = "search",
                              .key_id = "key1",
                              .owner = "anna",
                              .alias = "m",
                              .target = "b/y",
                              .labels = &label,
                              .n_labels = 1,
                              .attempts = tries,
                              .n_attempts = 2,
                              .usage = {.in = 1100},
                              .cost_nanousd = 2100000,
                              .list_nanousd = 4100000,
                              .price_digest = "abcd",
                              .admitted_us = at_us};
    audit_add(a, &r, at_us + 1000);
}

#define SETTLES 40
#define MONTH_NANOUSD (SETTLES * INT64_C(2100000))
/* Forty settles in October, one in November; files of about ten records. */
static void make_log(struct kit *k, int64_t *now_us) {
    int64_t october_us;
    cr_assert(clock_parse(SPAN("2026-10-01T08:00:00Z"), &october_us));
    kit_init(k);
    k->tuning.segment_max_bytes = 8000;
    struct audit *a = kit_open(k, october_us);
    for (int i = 0; i < SETTLES; i++)
        settle(a, i, october_us + i * DAY_US / 2);
    settle(a, 1000, october_us + 40 * DAY_US);
    audit_close(a, october_us + 40 * DAY_US + 5000);
    *now_us = october_us + 40 * DAY_US + 10000;
}

static void write_all(struct kit *k, struct finance_records *r, int64_t now_us) {
    struct finance_act act = {"anna", "operator", "end of \"month\""};
    struct audit *a = kit_open(k, now_us);
    cr_assert_not_null(a, "%s", k->why.at);
    for (int i = 0; i < 10000 && !finance_records_write(r, a, &act, now_us, NULL, NULL); i++)
        usleep(500);
    cr_assert_eq(r->written, r->n);
    audit_close(a, now_us);
}

static void close_month(struct kit *k, const char *month, int64_t now_us) {
    struct finance_records records = {0};
    struct spend_sums total;
    struct books_ask ask = {.directory = k->directory, .month = month, .zone = zone_get("UTC"), .now_us = now_us};
    cr_assert(books_close(&ask, &records, &total, &k->why), "%s", k->why.at);
    cr_assert_eq(records.all[records.n - 1].kind, AUDIT_CLOSE);
    write_all(k, &records, now_us);
    finance_records_free(&records);
}

static char *report(struct kit *k, const char *month, const char *by, const char *format) {
    struct report r;
    struct report_words w = {.month = month, .by = by, .format = format};
    struct str out, head;
    str_init(&out, 1 << 20);
    str_init(&head, 1 << 20);
    str_clear(&k->why);
    cr_assert(report_init(&r, &w, &k->why), "%s", k->why.at);
    r.directories[r.n_directories++] = k->directory;
    bool good = report_run(&r, &out, &head, &k->why);
    report_fini(&r);
    str_fini(&head);
    char *bytes = good ? str_release(&out) : NULL;
    str_fini(&out);
    return bytes;
}

static int64_t total_of(const char *json, const char *column) {
    struct json root;
    struct json_fault fault;
    int64_t n = -1;
    cr_assert(json && json_check(span_of(json), 64, &root, &fault), "%s", json ? json : "none");
    return json_i64(json_get(json_get(root, "total"), column), &n) ? n : -1;
}

static struct reprice_result reprice(struct kit *k, const char *price, const char *model, int64_t now_us) {
    char text[2048];
    struct reprice_result r;
    snprintf(text, sizeof text, CONF, price);
    struct conf *c = load_good(text);
    struct reprice_ask ask = {.directory = k->directory,
                              .conf = c,
                              .model = model,
                              .to_us = INT64_MAX,
                              .now_us = now_us,
                              .zone = zone_get("UTC")};
    cr_assert(reprice_run(&ask, &r, &k->why), "%s", k->why.at);
    conf_drop(c);
    return r;
}

static void delete_first_files(struct kit *k, size_t keep) {
    char name[256], path[512];
    for (size_t n = kit_segments(k); n > keep; n--)
        unlink(kit_path(k, kit_segment(k, 0, name), path));
}

Test(books, a_closed_month_prints_the_same_bytes_after_corrections_restarts_and_deletion) {
    static const char *const by[] = {"team", "target,upstream_key", "label:feature,day", "backend,month",
                                     "labels,alias"};
    struct kit k;
    int64_t now_us;
    char *before[ARRAY_LEN(by)][2], *open[ARRAY_LEN(by)];
    make_log(&k, &now_us);
    for (size_t i = 0; i < ARRAY_LEN(by); i++)
        open[i] = report(&k, "2026-10", by[i], "csv");
    close_month(&k, "2026-10", now_us);
    for (size_t i = 0; i < ARRAY_LEN(by); i++) {
        before[i][0] = report(&k, "2026-10", by[i], "table");
        before[i][1] = report(&k, "2026-10", by[i], "csv");
        cr_assert_str_eq(before[i][1], open[i], "rollups have what the settles had");
    }
    cr_assert(strstr(before[0][0], "closed     2026-11-10T") &&
                  strstr(before[0][0], "by anna: end of \"month\"; told by 1 rollups"),
              "%s", before[0][0]);
    cr_assert(strstr(before[0][0], "verified   yes"));
    struct reprice_result r = reprice(&k, "3 USD/1M", NULL, now_us); /* two dollars a million more: 200,000 a settle */
    cr_assert_eq(r.adjusts.n, SETTLES + 1);
    write_all(&k, &r.adjusts, now_us);
    reprice_fini(&r);
    char *november = report(&k, "2026-11", "charge", "json");
    cr_assert_eq(total_of(november, "cost_nanousd"), 2100000 + (SETTLES + 1) * INT64_C(200000), "%s", november);
    cr_assert_eq(total_of(november, "adjusts"), SETTLES + 1, "corrections of October land in November");
    cr_assert(strstr(november, "\"charge\":\"correction\""));
    free(november);
    for (int deleted = 0; deleted < 2; deleted++) {
        for (size_t i = 0; i < ARRAY_LEN(by); i++)
            for (int f = 0; f < 2; f++) {
                char *after = report(&k, "2026-10", by[i], f ? "csv" : "table");
                cr_assert_str_eq(after, before[i][f], "%s", by[i]);
                free(after);
            }
        /* From all of the log: October by its rollups once its settles are gone. */
        char *all = report(&k, NULL, "team", "json");
        cr_assert_eq(total_of(all, "cost_nanousd"), (SETTLES + 1) * INT64_C(2300000), "%s", all);
        cr_assert_eq(total_of(all, "requests"), SETTLES + 1);
        cr_assert_eq(strstr(all, "2026-10 is told by its rollups") != NULL, deleted == 1);
        free(all);
        delete_first_files(&k, kit_segments(&k) - 5);
    }
    cr_assert_null(report(&k, NULL, "hour", "json"));
    cr_assert(strstr(k.why.at, "do not have the word hour"), "%s", k.why.at);
    for (size_t i = 0; i < ARRAY_LEN(by); i++) {
        free(before[i][0]);
        free(before[i][1]);
        free(open[i]);
    }
    kit_fini(&k);
}

Test(books, what_may_still_change_is_not_closed) {
    struct kit k;
    int64_t now_us;
    struct finance_records records = {0};
    struct spend_sums total;
    make_log(&k, &now_us);
    struct books_ask ask = {.directory = k.directory, .month = "2026-11", .zone = zone_get("UTC"), .now_us = now_us};
    cr_assert_not(books_close(&ask, &records, &total, &k.why));
    cr_assert(strstr(k.why.at, "2026-11 is not over yet"));
    struct audit *a = kit_open(&k, now_us);
    kit_admit(a, 7, 100, now_us - 20 * DAY_US);
    audit_flush(a);
    for (int i = 0; i < 1000 && audit_lag(a); i++)
        usleep(500);
    ask.month = "2026-10";
    str_clear(&k.why);
    cr_assert_not(books_close(&ask, &records, &total, &k.why));
    cr_assert(strstr(k.why.at, "1 requests of 2026-10 are not settled yet"), "%s", k.why.at);
    audit_close(a, now_us);
    a = kit_open(&k, now_us); /* settles it */
    audit_close(a, now_us);
    close_month(&k, "2026-10", now_us);
    str_clear(&k.why);
    cr_assert_not(books_close(&ask, &records, &total, &k.why));
    cr_assert(strstr(k.why.at, "is closed already"), "%s", k.why.at);
    cr_assert_eq(records.n, 0);
    kit_fini(&k);
}

Test(books, a_log_that_does_not_verify_is_not_closed_and_a_rollup_that_was_changed_is_not_told) {
    struct kit k;
    int64_t now_us;
    size_t n;
    char name[256];
    make_log(&k, &now_us);
    char *bytes = kit_read(&k, kit_segment(&k, 0, name), &n);
    strstr(bytes, "\"cost_nanousd\":2100000")[16] = '3';
    kit_write(&k, name, bytes, n);
    struct finance_records records = {0};
    struct spend_sums total;
    struct books_ask ask = {.directory = k.directory, .month = "2026-10", .zone = zone_get("UTC"), .now_us = now_us};
    cr_assert_not(books_close(&ask, &records, &total, &k.why));
    cr_assert(strstr(k.why.at, "does not verify"), "%s", k.why.at);
    free(bytes);
    kit_fini(&k);
    make_log(&k, &now_us);
    close_month(&k, "2026-10", now_us);
    char *rows = NULL;
    for (size_t i = kit_segments(&k); !rows && i > 0; i--) {
        bytes = kit_read(&k, kit_segment(&k, i - 1, name), &n);
        rows = strstr(bytes, "\"rows\":[[[");
        if (!rows)
            free(bytes);
    }
    cr_assert_not_null(rows);
    *strpbrk(strstr(rows, "\"],["), "123456789") = '7';
    kit_write(&k, name, bytes, n);
    cr_assert_null(report(&k, "2026-10", "team", "table"));
    cr_assert(strstr(k.why.at, "do not agree with their close"), "%s", k.why.at);
    free(bytes);
    kit_fini(&k);
}

Test(books, repricing_twice_writes_nothing_new_and_each_try_keeps_its_own_price) {
    struct kit k;
    int64_t now_us;
    make_log(&k, &now_us);
    struct reprice_result r = reprice(&k, "1 USD/1M", NULL, now_us);
    cr_assert_eq(r.adjusts.n, 0, "the prices are those of the settles");
    cr_assert_eq(r.requests, SETTLES + 1);
    reprice_fini(&r);
    static const struct {
        const char *price, *model;
        int64_t a_nanousd; /* of each request, at a/x */
    } steps[] = {{"3 USD/1M", "x", 300000},
                 {"3 USD/1M", "y", 300000},
                 {"0.5 USD/1M", "a/x", 50000},
                 {"0.5 USD/1M", NULL, 50000}};
    for (size_t i = 0; i < ARRAY_LEN(steps); i++) {
        r = reprice(&k, steps[i].price, steps[i].model, now_us);
        cr_assert_eq(r.adjusts.n, i % 2 ? 0u : SETTLES + 1u, "step %zu: %zu", i, r.adjusts.n);
        write_all(&k, &r.adjusts, now_us);
        reprice_fini(&r);
        r = reprice(&k, steps[i].price, steps[i].model, now_us);
        cr_assert_eq(r.adjusts.n, 0, "twice");
        reprice_fini(&r);
        char *all = report(&k, NULL, "target", "json");
        cr_assert_eq(total_of(all, "cost_nanousd"), (SETTLES + 1) * (2000000 + steps[i].a_nanousd), "%s", all);
        cr_assert_eq(total_of(all, "list_nanousd"), (SETTLES + 1) * (4000000 + steps[i].a_nanousd), "%s", all);
        char want[64];
        snprintf(want, sizeof want, "\"cost_nanousd\":%lld,", (long long)((SETTLES + 1) * steps[i].a_nanousd));
        cr_assert(strstr(strstr(all, "\"a/x\""), want), "the correction stands at its target: %s", all);
        free(all);
    }
    struct audit *a = kit_open(&k, now_us);
    cr_assert_eq(k.told_nanousd, (SETTLES + 1) * INT64_C(2050000), "a start tells the ledger of corrections too: %lld",
                 (long long)k.told_nanousd);
    audit_close(a, now_us);
    cr_assert(kit_verify(&k).clean);
    kit_fini(&k);
}

Test(books, a_target_that_conf_does_not_price_is_left_and_counted) {
    struct kit k;
    int64_t now_us;
    make_log(&k, &now_us);
    struct conf *c = load_good("teams: {search: {allow: [\"*\"]}}\nbackends: {a: {protocol: openai, url: "
                               "\"http://127.0.0.1:1/v1\", models: {x: {price: {input: 3 USD/1M, output: 0}}}}}\n");
    struct reprice_ask ask = {
        .directory = k.directory, .conf = c, .to_us = INT64_MAX, .now_us = now_us, .zone = zone_get("UTC")};
    struct reprice_result r;
    cr_assert(reprice_run(&ask, &r, &k.why));
    cr_assert_eq(r.unknown, SETTLES + 1);
    cr_assert_eq(r.adjusts.n, 0);
    reprice_fini(&r);
    conf_drop(c);
    kit_fini(&k);
}
