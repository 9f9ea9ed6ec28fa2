/* The rules of a time zone out of an RFC 8536 file, and the offset that stands at an instant. Always true here: nothing
 * is read past the end of the file, whatever its counts say; an offset is under 26 hours, as the RFC has it; and the
 * process's own TZ plays no part. */
#include "gateway/base/tzif.h"

#include <stdlib.h>

#include "gateway/base/mem.h"

#define HEADER_BYTES 44
#define COUNTS_AT 20
#define TYPE_BYTES 6
#define OFFSET_LIMIT_S (26 * 3600)
#define CHANGES_MAX 10000 /* against a file that claims to have billions of them; real ones have under 300 */
#define RULE_TIME_HOURS 167
#define RULE_OFFSET_HOURS 24
#define RULE_DEFAULT_TIME_S (2 * 3600)
#define DAY_S INT64_C(86400)

/* --- dates --- */

int64_t floor_div(int64_t a, int64_t b) {
    return a / b - (a % b < 0);
}

/* Years are counted from March, so that the day which comes and goes is the last of its year; 400 years are an era. */
int64_t days_from_civil(int64_t year, int month, int day) {
    if (month <= 2)
        year--;
    int64_t era = floor_div(year, 400), of_era = year - era * 400;
    int64_t of_year = (153 * (month + (month > 2 ? -3 : 9)) + 2) / 5 + day - 1;
    return era * 146097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719468;
}

void civil_from_days(int64_t days, int64_t *year, int *month, int *day) {
    days += 719468;
    int64_t era = floor_div(days, 146097), of_era = days - era * 146097;
    int64_t years = (of_era - of_era / 1460 + of_era / 36524 - of_era / 146096) / 365;
    int64_t of_year = of_era - (365 * years + years / 4 - years / 100);
    int64_t shifted = (5 * of_year + 2) / 153; /* March is 0 */
    *day = (int)(of_year - (153 * shifted + 2) / 5 + 1);
    *month = (int)(shifted < 10 ? shifted + 3 : shifted - 9);
    *year = years + era * 400 + (*month <= 2);
}

static bool is_leap(int64_t year) {
    return year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
}

/* --- the rule after the table --- */

static bool eat(struct span *rest, char c) {
    if (rest->n == 0 || *rest->at != c)
        return false;
    rest->at++;
    rest->n--;
    return true;
}

static bool eat_number(struct span *rest, int most, int *out) {
    size_t n = 0;
    *out = 0;
    while (n < rest->n && rest->at[n] >= '0' && rest->at[n] <= '9' && *out <= most)
        *out = *out * 10 + (rest->at[n++] - '0');
    rest->at += n;
    rest->n -= n;
    return n > 0 && *out <= most;
}

/* [+-]hh[:mm[:ss]] */
static bool eat_time(struct span *rest, int hours_max, int32_t *out) {
    int h, m = 0, s = 0;
    bool negative = eat(rest, '-');
    if (!negative)
        (void)eat(rest, '+');
    if (!eat_number(rest, hours_max, &h) || (eat(rest, ':') && !eat_number(rest, 59, &m)) ||
        (eat(rest, ':') && !eat_number(rest, 59, &s)))
        return false;
    *out = (h * 3600 + m * 60 + s) * (negative ? -1 : 1);
    return true;
}

static bool is_letter(char c) {
    return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
}

/* "CET" or "<+0545>": only skipped. */
static bool eat_name(struct span *rest) {
    size_t n = 0;
    bool quoted = eat(rest, '<');
    while (n < rest->n && (quoted ? rest->at[n] != '>' : is_letter(rest->at[n])))
        n++;
    rest->at += n;
    rest->n -= n;
    return n >= 3 && (!quoted || eat(rest, '>'));
}

static bool eat_date(struct span *rest, struct tz_change *c) {
    if (eat(rest, 'M')) {
        c->form = 'M';
        return eat_number(rest, 12, &c->month) && c->month >= 1 && eat(rest, '.') && eat_number(rest, 5, &c->week) &&
               c->week >= 1 && eat(rest, '.') && eat_number(rest, 6, &c->day);
    }
    c->form = eat(rest, 'J') ? 'J' : 'n';
    return eat_number(rest, 365, &c->day) && (c->form == 'n' || c->day >= 1);
}

static bool eat_change(struct span *rest, struct tz_change *c) {
    c->time_s = RULE_DEFAULT_TIME_S;
    return eat(rest, ',') && eat_date(rest, c) && (!eat(rest, '/') || eat_time(rest, RULE_TIME_HOURS, &c->time_s));
}

bool tz_rule_read(struct span text, struct tz_rule *out) {
    int32_t west;
    *out = (struct tz_rule){.said = true};
    if (!eat_name(&text) || !eat_time(&text, RULE_OFFSET_HOURS, &west))
        return false;
    out->std_s = -west;
    if (text.n == 0)
        return true;
    out->dst = true;
    out->dst_s = out->std_s + 3600;
    if (!eat_name(&text))
        return false;
    if (text.n && *text.at != ',') {
        if (!eat_time(&text, RULE_OFFSET_HOURS, &west))
            return false;
        out->dst_s = -west;
    }
    return eat_change(&text, &out->start) && eat_change(&text, &out->end) && text.n == 0;
}

static int64_t month_day(const struct tz_change *c, int64_t year) {
    int64_t first = days_from_civil(year, c->month, 1);
    int64_t next = c->month == 12 ? days_from_civil(year + 1, 1, 1) : days_from_civil(year, c->month + 1, 1);
    int64_t weekday = (first + 4) % 7; /* 1970-01-01 was a Thursday; Sunday is 0 */
    if (weekday < 0)
        weekday += 7;
    int64_t day = first + (c->day - weekday + 7) % 7 + INT64_C(7) * (c->week - 1);
    while (day >= next)
        day -= 7;
    return day;
}

/* Local seconds since 1970 at which the change comes in a year. */
static int64_t change_s(const struct tz_change *c, int64_t year) {
    int64_t day = days_from_civil(year, 1, 1) + c->day;
    if (c->form == 'M')
        day = month_day(c, year);
    else if (c->form == 'J')
        day += is_leap(year) && c->day >= 60 ? 0 : -1;
    return day * DAY_S + c->time_s;
}

static int64_t rule_offset_s(const struct tz_rule *r, int64_t utc_s) {
    if (!r->dst)
        return r->std_s;
    int64_t year;
    int month, day;
    civil_from_days(floor_div(utc_s + r->std_s, DAY_S), &year, &month, &day);
    int64_t start = change_s(&r->start, year) - r->std_s, end = change_s(&r->end, year) - r->dst_s;
    bool in_dst = start < end ? utc_s >= start && utc_s < end : utc_s >= start || utc_s < end;
    return in_dst ? r->dst_s : r->std_s;
}

/* --- the table --- */

static uint64_t big_endian(const char *at, size_t n) {
    uint64_t v = 0;
    for (size_t i = 0; i < n; i++)
        v = v << 8 | (uint8_t)at[i];
    return v;
}

struct counts { /* in the order of the header */
    size_t utc_flags, std_flags, leaps, changes, types, chars;
};

static bool header_read(struct span file, struct counts *c) {
    if (file.n < HEADER_BYTES || memcmp(file.at, "TZif", 4) != 0 || file.at[4] < '2')
        return false;
    size_t *to[] = {&c->utc_flags, &c->std_flags, &c->leaps, &c->changes, &c->types, &c->chars};
    for (size_t i = 0; i < ARRAY_LEN(to); i++)
        *to[i] = (size_t)big_endian(file.at + COUNTS_AT + 4 * i, 4);
    return c->changes <= CHANGES_MAX && c->types >= 1 && c->types <= 256;
}

/* Bytes of a header and what follows it; times take `time_bytes`. Counts are 32 bits, so no sum here can wrap. */
static size_t block_bytes(const struct counts *c, size_t time_bytes) {
    return HEADER_BYTES + c->changes * (time_bytes + 1) + c->types * TYPE_BYTES + c->chars +
           c->leaps * (time_bytes + 4) + c->std_flags + c->utc_flags;
}

static bool type_offset(const char *types, size_t i, int32_t *out) {
    *out = (int32_t)(uint32_t)big_endian(types + i * TYPE_BYTES, 4);
    return *out > -OFFSET_LIMIT_S && *out < OFFSET_LIMIT_S;
}

static bool table_read(const char *block, const struct counts *c, struct tzif *out) {
    const char *times = block + HEADER_BYTES, *kinds = times + 8 * c->changes, *types = kinds + c->changes;
    out->at_s = xcalloc(c->changes + 1, sizeof *out->at_s);
    out->offset_s = xcalloc(c->changes + 1, sizeof *out->offset_s);
    if (!type_offset(types, 0, &out->first_s))
        return false;
    for (out->n = 0; out->n < c->changes; out->n++) {
        size_t i = out->n, kind = (uint8_t)kinds[i];
        out->at_s[i] = (int64_t)big_endian(times + 8 * i, 8);
        if (kind >= c->types || !type_offset(types, kind, &out->offset_s[i]) ||
            (i > 0 && out->at_s[i] <= out->at_s[i - 1]))
            return false;
    }
    return true;
}

/* "\nRULE\n"; an empty rule says that the table's last offset stays. */
static bool footer_read(struct span rest, struct tz_rule *out) {
    if (!eat(&rest, '\n'))
        return false;
    const char *end = memchr(rest.at, '\n', rest.n);
    if (!end)
        return false;
    rest.n = (size_t)(end - rest.at);
    *out = (struct tz_rule){0};
    return rest.n == 0 || tz_rule_read(rest, out);
}

bool tzif_read(struct span file, struct tzif *out) {
    struct counts old = {0}, c = {0};
    *out = (struct tzif){0};
    if (!header_read(file, &old))
        return false;
    size_t skip = block_bytes(&old, 4);
    if (skip > file.n)
        return false;
    struct span block = {file.at + skip, file.n - skip};
    if (!header_read(block, &c) || c.leaps != 0 || block_bytes(&c, 8) > block.n)
        return false;
    size_t n = block_bytes(&c, 8);
    if (table_read(block.at, &c, out) && footer_read(span_from(block.at + n, block.n - n), &out->rule))
        return true;
    tzif_fini(out);
    return false;
}

void tzif_fini(struct tzif *t) {
    free(t->at_s);
    free(t->offset_s);
    *t = (struct tzif){0};
}

/* How many changes came at or before an instant. */
static size_t changes_until(const struct tzif *t, int64_t utc_s) {
    size_t low = 0, high = t->n;
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        if (t->at_s[mid] <= utc_s)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

int64_t tzif_offset_s(const struct tzif *t, int64_t utc_s) {
    size_t n = changes_until(t, utc_s);
    bool past_table = t->n == 0 || utc_s > t->at_s[t->n - 1];
    if (past_table && t->rule.said)
        return rule_offset_s(&t->rule, utc_s);
    return n ? t->offset_s[n - 1] : t->first_s;
}
