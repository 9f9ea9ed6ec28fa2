/* Private to zone.c: the rules of one time zone, as RFC 8536 files hold them. A table of past changes, then a rule in
 * POSIX TZ form for all years after the table. */
#ifndef TOLLGATE_BASE_TZIF_H
#define TOLLGATE_BASE_TZIF_H

#include "gateway/base/span.h"

/* The day and second of a year on which a POSIX rule changes the clock. */
struct tz_change {
    char form;            /* 'M' month.week.day, 'J' day 1-365 without 29 February, 'n' day 0-365 */
    int month, week, day; /* 'M' uses all three, the others `day` */
    int32_t time_s;       /* local seconds after midnight; may be negative or over a day */
};
struct tz_rule {
    bool said, dst; /* dst: the clock changes twice a year */
    int32_t std_s, dst_s;
    struct tz_change start, end; /* of DST */
};

struct tzif {
    int64_t *at_s;     /* owned; instants of change, rising */
    int32_t *offset_s; /* owned; local minus UTC from at_s[i] on */
    size_t n;
    int32_t first_s; /* before at_s[0] */
    struct tz_rule rule;
};

/* Reads a whole file of version 2 or later; false when it is not one or has leap seconds. Owns nothing on false. */
must_check bool tzif_read(struct span file, struct tzif *out);
void tzif_fini(struct tzif *t);
int64_t tzif_offset_s(const struct tzif *t, int64_t utc_s);
/* "CET-1CEST,M3.5.0,M10.5.0/3"; also for tests. */
must_check bool tz_rule_read(struct span text, struct tz_rule *out);

int64_t days_from_civil(int64_t year, int month, int day); /* days since 1970-01-01, proleptic Gregorian */
void civil_from_days(int64_t days, int64_t *year, int *month, int *day);
int64_t floor_div(int64_t a, int64_t b); /* b > 0 */

#endif
