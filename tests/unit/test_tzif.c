/* Zone files from a stranger, and rules in POSIX form. */
#include "gateway/base/tzif.h"

#include <criterion/criterion.h>

/* Version 2, no old table; one change at second 1000 from offset 0 to 3600; then the footer. */
static const char header[] =
    "TZif2\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\1\0\0\0\1\0\0\0\0\0\0\0";

static size_t file_make(char *out, const char *footer) {
    static const char table[] = "\0\0\0\0\0\0\3\350" /* the change */
                                "\1"                 /* its type */
                                "\0\0\0\0\0\0"       /* type 0 */
                                "\0\0\16\20\0\0"     /* type 1: 3600 */
                                "A";
    size_t n = 0;
    memcpy(out, header, 44);
    out[39] = 1; /* a version 1 table of one type and one character */
    out[43] = 1;
    out[35] = 0;
    n = 44 + 6 + 1;
    memset(out + 44, 0, 7);
    memcpy(out + n, out, 44);
    out[n + 35] = 1;
    out[n + 39] = 2;
    n += 44;
    memcpy(out + n, table, sizeof table - 1);
    n += sizeof table - 1;
    size_t f = strlen(footer);
    memcpy(out + n, footer, f);
    return n + f;
}

Test(tzif, a_small_file_is_read) {
    char file[256];
    struct tzif t;
    size_t n = file_make(file, "\nXXX-2\n");
    cr_assert(tzif_read(span_from(file, n), &t));
    cr_assert_eq(tzif_offset_s(&t, 999), 0);
    cr_assert_eq(tzif_offset_s(&t, 1000), 3600);
    cr_assert_eq(tzif_offset_s(&t, 1001), 7200, "after the table the rule stands");
    tzif_fini(&t);
    n = file_make(file, "\n\n");
    cr_assert(tzif_read(span_from(file, n), &t));
    cr_assert_eq(tzif_offset_s(&t, INT64_C(1) << 40), 3600, "no rule: the last offset stays");
    tzif_fini(&t);
}

Test(tzif, a_file_cut_anywhere_is_refused) {
    char file[256];
    struct tzif t;
    size_t n = file_make(file, "\nXXX-2\n");
    for (size_t cut = 0; cut < n; cut++) {
        char *exact = malloc(cut + 1); /* so that a sanitizer sees a read past the end */
        memcpy(exact, file, cut);
        cr_assert_not(tzif_read(span_from(exact, cut), &t), "cut at %zu", cut);
        free(exact);
    }
}

Test(tzif, counts_that_lie_are_refused) {
    char file[256];
    struct tzif t;
    for (int at = 20; at < 44; at++) {
        size_t n = file_make(file, "\nXXX-2\n");
        file[at] = (char)0xff;
        cr_assert_not(tzif_read(span_from(file, n), &t), "old header, byte %d", at);
        n = file_make(file, "\nXXX-2\n");
        file[51 + at] = (char)0xff;
        cr_assert_not(tzif_read(span_from(file, n), &t), "header, byte %d", at);
    }
    size_t n = file_make(file, "\nXXX-2\n");
    file[51 + 44 + 8] = 2;
    cr_assert_not(tzif_read(span_from(file, n), &t), "a type that is not there");
    n = file_make(file, "\nXXX-2\n");
    file[4] = 0;
    cr_assert_not(tzif_read(span_from(file, n), &t), "version 1 has no rule and 32 bits");
}

Test(tzif, posix_rules_are_read) {
    struct tz_rule r;
    cr_assert(tz_rule_read(SPAN("CET-1CEST,M3.5.0,M10.5.0/3"), &r));
    cr_assert(r.dst && r.std_s == 3600 && r.dst_s == 7200);
    cr_assert(r.start.form == 'M' && r.start.month == 3 && r.start.week == 5 && r.start.day == 0);
    cr_assert(r.start.time_s == 7200 && r.end.time_s == 10800);
    cr_assert(tz_rule_read(SPAN("<+0545>-5:45"), &r));
    cr_assert(!r.dst && r.std_s == 20700);
    cr_assert(tz_rule_read(SPAN("IST-1GMT0,M10.5.0,M3.5.0/1"), &r), "winter is the exception in Dublin");
    cr_assert(r.std_s == 3600 && r.dst_s == 0);
    cr_assert(tz_rule_read(SPAN("<-02>2<-01>,M3.5.0/-1,M10.5.0/0"), &r), "a time before midnight");
    cr_assert_eq(r.start.time_s, -3600);
    cr_assert(tz_rule_read(SPAN("EST5EDT,0/0,J365/25"), &r), "DST all year");
}

Test(tzif, what_is_no_rule_is_refused) {
    static const char *const bad[] = {"",
                                      "CET",
                                      "CET-1CEST",
                                      "C-1",
                                      "CET-1CEST,M3.5.0",
                                      "CET-25",
                                      "CET-1 ",
                                      "<+05-5",
                                      "CET-1CEST,M13.5.0,M10.5.0",
                                      "CET-1:60",
                                      "CET-1CEST,M3.6.0,M10.5.0",
                                      "CET-1CEST,M3.5.7,M10.5.0",
                                      "CET--1",
                                      "CET-1CEST,J0,J365",
                                      "CET-1CEST,J366,J1",
                                      "CET-1CEST,M3.5.0/168,M10.5.0",
                                      "CET-99999999999999999999"};
    struct tz_rule r;
    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        cr_assert_not(tz_rule_read(span_of(bad[i]), &r), "%s", bad[i]);
}

/* A file without a table: the rule alone, at its own edges. */
Test(tzif, day_numbers_count_leap_days_as_posix_says) {
    struct tzif t = {0};
    cr_assert(tz_rule_read(SPAN("AAA0BBB,J60/0,J300/0"), &t.rule)); /* 1 March in every year */
    int64_t march_2024 = days_from_civil(2024, 3, 1) * 86400, march_2025 = days_from_civil(2025, 3, 1) * 86400;
    cr_assert(tzif_offset_s(&t, march_2024 - 1) == 0 && tzif_offset_s(&t, march_2024) == 3600);
    cr_assert(tzif_offset_s(&t, march_2025 - 1) == 0 && tzif_offset_s(&t, march_2025) == 3600);
    cr_assert(tz_rule_read(SPAN("AAA0BBB,59/0,300/0"), &t.rule)); /* 29 February where there is one */
    cr_assert(tzif_offset_s(&t, march_2024 - 86400) == 3600 && tzif_offset_s(&t, march_2025 - 1) == 0);
    cr_assert(tz_rule_read(SPAN("AAA0BBB,M10.1.0,M4.1.0/3"), &t.rule)); /* the south: DST over the new year */
    cr_assert_eq(tzif_offset_s(&t, days_from_civil(2026, 1, 1) * 86400), 3600);
    cr_assert_eq(tzif_offset_s(&t, days_from_civil(2026, 7, 1) * 86400), 0);
}

Test(tzif, dates_there_and_back) {
    for (int64_t day = -800000; day < 800000; day += 13) {
        int64_t year;
        int month, of_month;
        civil_from_days(day, &year, &month, &of_month);
        cr_assert_eq(days_from_civil(year, month, of_month), day);
    }
    cr_assert_eq(days_from_civil(1970, 1, 1), 0);
    cr_assert_eq(days_from_civil(2000, 2, 29), 11016);
    cr_assert_eq(floor_div(-1, 7), -1);
    cr_assert_eq(floor_div(-7, 7), -1);
}
