/* Periods where clocks change: against a table made by another implementation, and as properties. */
#include "gateway/base/zone.h"

#include <criterion/criterion.h>

#include "tests/unit/zone_table.h"

#define US INT64_C(1000000)

Test(zone, periods_agree_with_another_implementation) {
    for (size_t i = 0; i < ARRAY_LEN(zone_table); i++) {
        const struct zone_row *r = &zone_table[i];
        const struct zone *z = zone_get(r->zone);
        cr_assert_not_null(z, "%s", r->zone);
        int64_t from, to, at = r->at_s * US + 999999;
        zone_period(z, r->period, at, &from, &to);
        cr_assert(from == r->from_s * US && to == r->to_s * US, "%s %s at %lld: %lld..%lld", r->zone,
                  period_names[r->period], (long long)r->at_s, (long long)(from / US), (long long)(to / US));
        cr_assert_eq(zone_offset_s(z, at), r->offset_s, "%s at %lld", r->zone, (long long)r->at_s);
    }
}

static const char *const places[] = {"UTC",          "Europe/Berlin",       "America/New_York",  "Asia/Kathmandu",
                                     "Pacific/Apia", "Australia/Lord_Howe", "America/Sao_Paulo", "America/Havana"};

/* Walks period by period from an instant: each holds its own first and last microsecond and touches the next. */
static int walk(const struct zone *z, enum period p, int64_t at, int64_t until) {
    int n = 0;
    while (at < until) {
        int64_t from, to, again_from, again_to;
        zone_period(z, p, at, &from, &to);
        cr_assert(from <= at && at < to, "%s %s", zone_name(z), period_names[p]);
        zone_period(z, p, to - 1, &again_from, &again_to);
        cr_assert(again_from == from && again_to == to, "%s %s %lld", zone_name(z), period_names[p], (long long)at);
        zone_period(z, p, to, &again_from, &again_to);
        cr_assert_eq(again_from, to, "%s %s: a gap or an overlap", zone_name(z), period_names[p]);
        at = to;
        n++;
    }
    return n;
}

Test(zone, periods_follow_each_other_without_gap_or_overlap) {
    const int64_t y2010 = 1262304000 * US, day = 86400 * US;
    for (size_t i = 0; i < ARRAY_LEN(places); i++) {
        const struct zone *z = zone_get(places[i]);
        int days = walk(z, PERIOD_DAY, y2010 + 1, y2010 + 3652 * day);
        cr_assert(days >= 3651 && days <= 3653, "%s: %d days", places[i], days);
        walk(z, PERIOD_WEEK, y2010 + 1, y2010 + 3652 * day);
        cr_assert_geq(walk(z, PERIOD_MONTH, y2010 + 1, y2010 + 3652 * day), 120);
        walk(z, PERIOD_HOUR, y2010 + 1, y2010 + 366 * day);
    }
}

Test(zone, an_hour_is_never_longer_than_an_hour) {
    static const struct {
        const char *zone;
        int64_t at_s, from_s, to_s;
    } rows[] = {{"Europe/Berlin", 1792888200, 1792886400, 1792890000},       /* 2026-10-25, first 02:30 */
                {"Europe/Berlin", 1792891800, 1792890000, 1792893600},       /* second 02:30 */
                {"Asia/Kathmandu", 1767225600, 1767222900, 1767226500},      /* 05:45 is in the hour from 05:00 */
                {"Australia/Lord_Howe", 1775314800, 1775314800, 1775316600}, /* half an hour is repeated */
                {"UTC", 3599, 0, 3600}};
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        int64_t from, to;
        zone_period(zone_get(rows[i].zone), PERIOD_HOUR, rows[i].at_s * US, &from, &to);
        cr_assert(from == rows[i].from_s * US && to == rows[i].to_s * US, "%s %lld: %lld..%lld", rows[i].zone,
                  (long long)rows[i].at_s, (long long)(from / US), (long long)(to / US));
    }
}

Test(zone, a_total_never_ends) {
    int64_t from, to;
    zone_period(zone_get("UTC"), PERIOD_TOTAL, 5, &from, &to);
    cr_assert(from == 0 && to == INT64_MAX);
    zone_period(zone_get("Europe/Berlin"), PERIOD_MONTH, INT64_MAX, &from, &to);
    cr_assert(from < to && to == INT64_MAX, "the last instant still has a period");
}

Test(zone, a_name_reaches_only_the_database) {
    static const char *const bad[] = {"",
                                      "/etc/passwd",
                                      "../../../etc/passwd",
                                      "Europe/../../../../etc/passwd",
                                      "Europe",
                                      "Europe/",
                                      "Europe//Berlin",
                                      "Europe/Berlin ",
                                      "zone.tab",
                                      "tzdata.zi",
                                      "leapseconds",
                                      "Europe/Nowhere",
                                      "right/UTC",
                                      "right/Europe/Berlin",
                                      "CET-1CEST",
                                      "Europe\\Berlin"};
    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        cr_assert_null(zone_get(bad[i]), "%s", bad[i]);
    char long_name[200];
    memset(long_name, 'A', sizeof long_name - 1);
    long_name[sizeof long_name - 1] = '\0';
    cr_assert_null(zone_get(long_name));
}

Test(zone, a_zone_is_made_once) {
    const struct zone *z = zone_get("Europe/Berlin");
    cr_assert_eq(zone_get("Europe/Berlin"), z);
    cr_assert_str_eq(zone_name(z), "Europe/Berlin");
    cr_assert_str_eq(zone_name(zone_get("UTC")), "UTC");
    cr_assert_str_eq(period_names[PERIOD_TOTAL], "total");
}
