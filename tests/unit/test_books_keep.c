/* What retention takes is told by rollups that stay: nothing of a bill is lost, and nothing goes before. */
#include "gateway/finance/books.h"
#include "gateway/finance/report.h"
#include "tests/support/chain_kit.h"
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define KEEP_US (40 * US_PER_DAY)
#define LEDGER_US (400 * US_PER_DAY)
#define COST INT64_C(1000)
#define STEPS_MAX 100
#define EVERY_DAYS 5

static int64_t instant(const char *text) {
    int64_t us = 0;
    cr_assert(clock_parse(span_of(text), &us));
    return us;
}

static struct audit *open_log(struct kit *k, int64_t now_us) {
    struct audit *a = kit_open(k, now_us);
    cr_assert_not_null(a, "%s", k->why.at);
    return a;
}

/* Two settles every fifth day, with the words that a settle of the kit does not have. */
static void spend_days(struct kit *k, int64_t from_us, int days) {
    struct audit *a = open_log(k, from_us);
    for (int day = 0; day < days; day += EVERY_DAYS)
        for (int i = 0; i < 2; i++) {
            char request[32];
            int64_t at_us = from_us + day * US_PER_DAY;
            snprintf(request, sizeof request, "req_%lld_%d", (long long)(at_us / US_PER_DAY), i);
            struct audit_record r = {.kind = AUDIT_ADMIT, .request = request, .team = "search", .key_id = "key1"};
            audit_add(a, &r, at_us);
            r = (struct audit_record){.kind = AUDIT_SETTLE,
                                      .request = request,
                                      .team = i ? "search" : "legal",
                                      .key_id = i ? "key1" : "key2",
                                      .client_family = "openai-node",
                                      .endpoint = "/v1/chat/completions",
                                      .alias = "fast",
                                      .model = i ? "gpt" : "fast",
                                      .target = "a/x",
                                      .cache = "miss",
                                      .degraded = day % 2 ? "timeout" : NULL,
                                      .cost_nanousd = COST,
                                      .admitted_us = at_us};
            audit_add(a, &r, at_us + 5);
        }
    audit_close(a, from_us + (days - 1) * US_PER_DAY + US_PER_HOUR);
}

static void write_all(struct kit *k, struct books_kept *found, int64_t now_us) {
    struct finance_act act = {"gateway", "operator", "due"}, none = {0};
    struct audit *a = open_log(k, now_us);
    for (int i = 0;
         i < 10000 && !finance_records_write(&found->records, a, found->closes ? &act : &none, now_us, NULL, NULL); i++)
        usleep(500);
    cr_assert_eq(found->records.written, found->records.n);
    audit_close(a, now_us);
}

static struct books_keep ask_of(struct kit *k, int64_t now_us) {
    return (struct books_keep){
        .directory = k->directory, .now_us = now_us, .audit_keep_us = KEEP_US, .ledger_keep_us = LEDGER_US};
}

/* Steps until nothing is to be written; the months that were written, as "2026-08+ 2026-07= ", + closed, = carried. */
static const char *keep_all(struct kit *k, int64_t now_us, int64_t *unrolled_us) {
    static char did[STEPS_MAX * 9 + 1];
    struct books_keep ask = ask_of(k, now_us);
    struct books_kept found;
    size_t at = 0;
    did[0] = 0;
    for (int n = 0; n < STEPS_MAX; n++) {
        str_clear(&k->why);
        cr_assert(books_keep_step(&ask, &found, &k->why), "%s", k->why.at);
        *unrolled_us = found.unrolled_us;
        if (!found.records.n)
            return did;
        at += (size_t)snprintf(did + at, sizeof did - at, "%s%c ", found.month, found.closes ? '+' : '=');
        write_all(k, &found, now_us);
        finance_records_free(&found.records);
    }
    cr_assert(false, "it does not end: %s", did);
    return NULL;
}

static size_t files_until(struct kit *k, size_t at_most, struct audit *a) {
    for (int i = 0; i < 2500 && kit_segments(k) > at_most; i++) {
        audit_flush(a);
        usleep(200);
        chain_on_moved(a);
        kit_turn(k);
    }
    return kit_segments(k);
}

static size_t retain(struct kit *k, int64_t now_us, int64_t unrolled_us, size_t at_most) {
    k->options.keep_us = KEEP_US;
    k->options.unrolled_us = unrolled_us;
    struct audit *a = open_log(k, now_us);
    size_t left = files_until(k, at_most, a);
    audit_close(a, now_us);
    k->options.keep_us = k->options.unrolled_us = 0;
    return left;
}

static char *report_or_not(struct kit *k, const char *month, const char *by) {
    struct report r;
    struct report_words w = {.month = month, .by = by, .format = "csv"};
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

static char *report(struct kit *k, const char *month, const char *by) {
    char *bytes = report_or_not(k, month, by);
    cr_assert(bytes, "%s", k->why.at);
    return bytes;
}

static size_t count_of(struct kit *k, const char *word) {
    char name[256];
    size_t n, found = 0;
    for (size_t i = 0; i < kit_segments(k); i++) {
        char *bytes = kit_read(k, kit_segment(k, i, name), &n);
        for (char *at = bytes; (at = strstr(at, word)); at++)
            found++;
        free(bytes);
    }
    return found;
}

Test(books_keep, months_that_nobody_closed_are_rolled_up_before_their_records_go_and_the_bill_stays) {
    static const char *const by[] = {"team", "model,degraded,cache,key", "day,target,endpoint,client_family",
                                     "label:x,alias"};
    struct kit k;
    char *before[ARRAY_LEN(by)];
    int64_t unrolled_us, now_us = instant("2026-11-25T12:00:00Z");
    kit_init(&k);
    spend_days(&k, instant("2026-08-20T00:00:00Z"), 60);
    for (size_t i = 0; i < ARRAY_LEN(by); i++)
        before[i] = report(&k, NULL, by[i]);
    cr_assert_str_eq(keep_all(&k, now_us, &unrolled_us), "2026-08+ 2026-09+ 2026-10+ ");
    cr_assert_eq(unrolled_us, instant("2026-11-01T00:00:00Z"));
    cr_assert_str_eq(keep_all(&k, now_us, &unrolled_us), "", "once is enough");
    size_t all = kit_segments(&k);
    cr_assert_geq(retain(&k, now_us, 1, all - 1), all, "nothing goes before the keeper says so");
    cr_assert_leq(retain(&k, now_us, unrolled_us, 5), 5, "of %zu", all);
    struct audit_verdict v = kit_verify(&k);
    cr_assert(v.clean && v.complete_from > 1, "%s", v.fault.what);
    for (size_t i = 0; i < ARRAY_LEN(by); i++) {
        char *after = report(&k, NULL, by[i]);
        cr_expect_str_eq(after, before[i], "%s", by[i]);
        free(after);
        free(before[i]);
    }
    kit_fini(&k);
}

Test(books_keep, rollups_are_carried_on_member_by_member_until_the_ledger_is_kept_no_longer) {
    struct kit k;
    int64_t unrolled_us, closed_us = instant("2026-10-07T00:00:00Z"), now_us = 0;
    kit_init(&k);
    spend_days(&k, instant("2026-08-20T00:00:00Z"), 10);
    cr_assert_str_eq(keep_all(&k, closed_us, &unrolled_us), "2026-08+ ");
    char *before = report(&k, "2026-08", "team,model");
    cr_assert_eq(count_of(&k, "\"carried\":"), 0);
    for (int i = 1; i <= 3; i++) {
        now_us = closed_us + i * 100 * US_PER_DAY;
        spend_days(&k, now_us, 1);
        cr_assert(strstr(keep_all(&k, now_us + US_PER_DAY, &unrolled_us), "2026-08= "));
        retain(&k, now_us + US_PER_DAY, unrolled_us, 3);
        cr_assert_eq(count_of(&k, "\"admitted\":\"2026-08"), 0, "its settles are gone");
        cr_assert_geq(count_of(&k, "\"carried\":{\"seq\":"), 2);
        char *after = report(&k, "2026-08", "team,model");
        cr_expect_str_eq(after, before, "after %d", i);
        cr_assert(kit_verify(&k).clean);
        free(after);
    }
    for (int i = 0; i < 2; i++) {
        now_us = closed_us + (500 + i * 50) * US_PER_DAY;
        cr_expect_null(strstr(keep_all(&k, now_us, &unrolled_us), "2026-08"), "older than the ledger is kept");
    }
    retain(&k, now_us, unrolled_us, 2);
    cr_expect_eq(count_of(&k, "\"month\":\"2026-08\""), 0);
    free(before);
    kit_fini(&k);
}

Test(books_keep, a_month_that_cannot_be_closed_stays_and_so_does_all_after_it) {
    struct kit k;
    int64_t september_us = instant("2026-09-01T00:00:00Z"), now_us = instant("2026-11-25T12:00:00Z"), unrolled_us = 0;
    struct books_kept found;
    char name[256];
    size_t n;
    kit_init(&k);
    spend_days(&k, september_us - 3 * US_PER_DAY, 3);
    keep_all(&k, september_us + 60 * US_PER_DAY, &unrolled_us);
    spend_days(&k, september_us + 61 * US_PER_DAY, 20);
    char *bytes = kit_read(&k, kit_segment(&k, kit_segments(&k) - 2, name), &n);
    *strstr(bytes, "\"cost_nanousd\":1000") = '_'; /* somebody wrote into it */
    kit_write(&k, name, bytes, n);
    struct books_keep ask = ask_of(&k, now_us);
    cr_expect_not(books_keep_step(&ask, &found, &k.why));
    cr_expect(k.why.at && strstr(k.why.at, "does not verify"), "%s", k.why.at);
    cr_expect_eq(found.records.n, 0);
    cr_expect_eq(found.unrolled_us, instant("2026-10-01T00:00:00Z"), "what is rolled up may go, the rest stays");
    ask.looks = true;
    cr_expect(books_keep_step(&ask, &found, &k.why), "who only looks is not stopped by it");
    cr_expect_eq(found.unrolled_us, instant("2026-10-01T00:00:00Z"));
    free(bytes);
    kit_fini(&k);
}

Test(books_keep, rollups_that_were_changed_are_not_carried_on_as_if_they_were_true) {
    struct kit k;
    int64_t unrolled_us, now_us = instant("2026-10-07T00:00:00Z");
    struct books_kept found;
    char name[256];
    size_t n;
    kit_init(&k);
    spend_days(&k, instant("2026-08-20T00:00:00Z"), 10);
    keep_all(&k, now_us, &unrolled_us);
    for (size_t i = 0; i < kit_segments(&k); i++) {
        char *bytes = kit_read(&k, kit_segment(&k, i, name), &n), *rows = strstr(bytes, "\"rows\":[[[\"2026-08-20");
        if (rows)
            rows[strlen("\"rows\":[[[\"2026-08-2")] = '1';
        kit_write(&k, name, bytes, n);
        free(bytes);
    }
    struct books_keep ask = ask_of(&k, now_us + 100 * US_PER_DAY);
    cr_expect_not(books_keep_step(&ask, &found, &k.why));
    cr_expect(k.why.at && strstr(k.why.at, "do not agree with their close"), "%s", k.why.at);
    cr_expect_eq(found.records.n, 0);
    cr_expect_leq(found.unrolled_us, now_us, "they stay");
    kit_fini(&k);
}

static void close_by_hand(struct kit *k, const char *month, const char *zone, int64_t now_us) {
    struct books_ask one = {.directory = k->directory, .month = month, .zone = zone_get(zone), .now_us = now_us};
    struct books_kept found = {.closes = true};
    struct spend_sums total;
    cr_assert(books_close(&one, &found.records, &total, &k->why), "%s", k->why.at);
    write_all(k, &found, now_us);
    finance_records_free(&found.records);
}

Test(books_keep, months_of_two_zones_leave_no_gap_and_are_never_told_twice) {
    struct kit k;
    int64_t unrolled_us, now_us = instant("2027-01-25T12:00:00Z");
    kit_init(&k);
    spend_days(&k, instant("2026-08-30T23:00:00Z"), 91);
    close_by_hand(&k, "2026-09", "Europe/Berlin", instant("2026-11-30T00:00:00Z"));
    close_by_hand(&k, "2026-11", "UTC", instant("2026-12-01T00:00:00Z"));
    char *before = report(&k, NULL, "team,model");
    /* The eleventh: the hour that Berlin's October leaves before the world's November. */
    cr_assert_str_eq(keep_all(&k, now_us, &unrolled_us), "2026-09= 2026-11= 2026-08+ 2026-10+ 2026-11+ 2026-12+ ");
    cr_assert_geq(unrolled_us, instant("2027-01-01T00:00:00Z"));
    retain(&k, now_us, unrolled_us, 6);
    char *after = report(&k, NULL, "team,model");
    cr_expect_str_eq(after, before);
    char *november = report(&k, "2026-11", "team");
    cr_expect(strstr(november, "search"), "a whole month is found by its zone, not the hour: %s", november);
    cr_expect_null(report_or_not(&k, NULL, "team,day"), "days of two zones are not the same");
    cr_expect(strstr(k.why.at, "2026-09 are closed in the time zone Europe/Berlin"), "%s", k.why.at);
    free(before);
    free(after);
    free(november);
    kit_fini(&k);
}

Test(books_keep, a_young_log_is_not_even_read) {
    struct kit k;
    struct books_kept found;
    int64_t now_us = instant("2026-11-25T12:00:00Z"), oldest_us = now_us - 10 * US_PER_DAY;
    kit_init(&k);
    spend_days(&k, oldest_us, 2);
    struct books_keep ask = ask_of(&k, now_us);
    cr_assert(books_keep_step(&ask, &found, &k.why));
    cr_expect_eq(found.records.n, 0);
    cr_expect_eq(found.unrolled_us, oldest_us - US_PER_DAY / 2, "the day of the first file");
    cr_expect_not(books_keep_is_due(found.unrolled_us, now_us, KEEP_US));
    cr_expect(books_keep_is_due(found.unrolled_us, oldest_us + KEEP_US, KEEP_US));
    kit_fini(&k);
}
