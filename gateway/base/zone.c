/* Calendar periods by the clock on the wall of a place. Always true here: the periods of one kind in one zone follow
 * each other without gap or overlap; a zone's name can only reach a file below the tz database; UTC needs no file. */
#include "gateway/base/zone.h"

#include <stdio.h>
#include <stdlib.h>

#include "gateway/base/mem.h"
#include "gateway/base/tzif.h"

#define ZONE_DIRECTORY "/usr/share/zoneinfo/"
#define ZONE_NAME_MAX 64                 /* against names as long as a conf file; the longest real one has 32 */
#define ZONE_FILE_MAX ((size_t)64 << 10) /* against a device or log file in the database's place */
#define US_PER_SECOND INT64_C(1000000)
#define HOUR_S INT64_C(3600)
#define DAY_S (24 * HOUR_S)
#define OFFSET_REACH_S (26 * HOUR_S) /* no zone is further from UTC */
#define MONDAY_SHIFT 3               /* days from Monday to Thursday, 1 January 1970 */

const char *const period_names[] = {"hour", "day", "week", "month", "total"};

struct zone {
    struct zone *next;
    char *name;
    struct tzif rules;
};

/* Filled by the thread that loads conf, which is the loop's; never emptied, since confs and leases point into it. */
static struct zone *zones;
static struct zone utc = {.name = (char[]){"UTC"}};

/* --- finding --- */

/* Words of letters, digits, '_', '+' and '-' with single slashes between: without dots nothing climbs out. */
static bool name_is_safe(const char *name) {
    size_t n = strlen(name);
    if (n == 0 || n > ZONE_NAME_MAX || name[0] == '/' || name[n - 1] == '/' || strstr(name, "//"))
        return false;
    return strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_+-/") == n;
}

static bool file_read(const char *name, char *bytes, size_t max, size_t *n) {
    char path[sizeof ZONE_DIRECTORY + ZONE_NAME_MAX];
    snprintf(path, sizeof path, ZONE_DIRECTORY "%s", name);
    FILE *f = fopen(path, "rbe");
    if (!f)
        return false;
    *n = fread(bytes, 1, max, f);
    bool whole = !ferror(f) && *n < max;
    fclose(f);
    return whole;
}

static bool rules_load(const char *name, struct tzif *rules) {
    char *bytes = xcalloc(1, ZONE_FILE_MAX);
    size_t n;
    bool good = file_read(name, bytes, ZONE_FILE_MAX, &n) && tzif_read(span_from(bytes, n), rules);
    free(bytes);
    return good;
}

const struct zone *zone_get(const char *name) {
    if (strcmp(name, utc.name) == 0)
        return &utc;
    for (struct zone *z = zones; z; z = z->next) {
        if (strcmp(z->name, name) == 0)
            return z;
    }
    struct tzif rules;
    if (!name_is_safe(name) || !rules_load(name, &rules))
        return NULL;
    struct zone *z = xcalloc(1, sizeof *z);
    *z = (struct zone){.next = zones, .name = xstrdup(name), .rules = rules};
    return zones = z;
}

const char *zone_name(const struct zone *z) {
    return z->name;
}

/* --- instants and wall clocks, in seconds --- */

static int64_t offset_at(const struct zone *z, int64_t utc_s) {
    return tzif_offset_s(&z->rules, utc_s);
}

int64_t zone_offset_s(const struct zone *z, int64_t wall_us) {
    return offset_at(z, floor_div(wall_us, US_PER_SECOND));
}

/* The instant in (low, high] at which the offset of `low` ends, given that another stands at `high`. */
static int64_t change_between(const struct zone *z, int64_t low, int64_t high) {
    int64_t before = offset_at(z, low);
    while (high - low > 1) {
        int64_t mid = low + (high - low) / 2;
        if (offset_at(z, mid) == before)
            low = mid;
        else
            high = mid;
    }
    return high;
}

/* The first instant at which the local clock has reached `local_s`: the earlier of two, or the end of a gap. */
static int64_t first_instant(const struct zone *z, int64_t local_s) {
    int64_t low = local_s - OFFSET_REACH_S, high = local_s + OFFSET_REACH_S;
    int64_t early = local_s - offset_at(z, low), late = local_s - offset_at(z, high);
    if (early > late) { /* the earlier instant first */
        int64_t swap = early;
        early = late;
        late = swap;
    }
    if (early + offset_at(z, early) == local_s)
        return early;
    if (late + offset_at(z, late) == local_s)
        return late;
    return change_between(z, low, high);
}

/* --- periods --- */

/* Days, weeks and months are numbered; a period is the time between the first instants of two numbers. */
static int64_t period_index(enum period p, int64_t local_day) {
    int64_t year;
    int month, day;
    if (p == PERIOD_DAY)
        return local_day;
    if (p == PERIOD_WEEK)
        return floor_div(local_day + MONDAY_SHIFT, 7);
    civil_from_days(local_day, &year, &month, &day);
    return year * 12 + month - 1;
}

static int64_t period_day(enum period p, int64_t index) {
    if (p == PERIOD_DAY)
        return index;
    if (p == PERIOD_WEEK)
        return index * 7 - MONDAY_SHIFT;
    int64_t year = floor_div(index, 12);
    return days_from_civil(year, (int)(index - year * 12) + 1, 1);
}

static int64_t period_start(const struct zone *z, enum period p, int64_t index) {
    return first_instant(z, period_day(p, index) * DAY_S);
}

static void calendar_period(const struct zone *z, enum period p, int64_t at_s, int64_t *from_s, int64_t *to_s) {
    int64_t index = period_index(p, floor_div(at_s + offset_at(z, at_s), DAY_S));
    *from_s = period_start(z, p, index);
    *to_s = period_start(z, p, index + 1);
    while (*to_s <= at_s) { /* the clock went back over midnight: the new period has begun all the same */
        index++;
        *from_s = *to_s;
        *to_s = period_start(z, p, index + 1);
    }
}

/* An hour on the wall, cut where the clock is changed: never longer than sixty minutes. */
static void hour_period(const struct zone *z, int64_t at_s, int64_t *from_s, int64_t *to_s) {
    int64_t offset = offset_at(z, at_s);
    *from_s = floor_div(at_s + offset, HOUR_S) * HOUR_S - offset;
    *to_s = *from_s + HOUR_S;
    if (offset_at(z, *from_s) != offset)
        *from_s = change_between(z, *from_s, at_s);
    if (offset_at(z, *to_s - 1) != offset)
        *to_s = change_between(z, at_s, *to_s - 1);
}

static int64_t to_us(int64_t at_s) {
    int64_t us;
    if (__builtin_mul_overflow(at_s, US_PER_SECOND, &us))
        return at_s < 0 ? INT64_MIN : INT64_MAX;
    return us;
}

void zone_period(const struct zone *z, enum period p, int64_t wall_us, int64_t *from_us, int64_t *to_us_out) {
    int64_t at_s = floor_div(wall_us, US_PER_SECOND), from_s, to_s;
    if (p == PERIOD_TOTAL) {
        *from_us = 0;
        *to_us_out = INT64_MAX;
        return;
    }
    if (p == PERIOD_HOUR)
        hour_period(z, at_s, &from_s, &to_s);
    else
        calendar_period(z, p, at_s, &from_s, &to_s);
    *from_us = to_us(from_s);
    *to_us_out = to_us(to_s);
}
