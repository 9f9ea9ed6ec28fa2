/* Clocks and their text. Calendar arithmetic is the civil-date algorithm over days since 1970; no libc time zone is used. */
#include "gateway/base/clock.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#ifdef TOLLGATE_TEST
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

/* The mapped offset; a static zero when no file is named. */
static const volatile int64_t *false_offset(void) {
    static const int64_t none = 0;
    static const volatile int64_t *offset;
    if (offset)
        return offset;
    const char *path = getenv("TOLLGATE_CLOCK");
    int fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    void *at = fd >= 0 ? mmap(NULL, sizeof(int64_t), PROT_READ, MAP_SHARED, fd, 0) : MAP_FAILED;
    if (fd >= 0)
        close(fd);
    offset = at == MAP_FAILED ? &none : at;
    return offset;
}
#define FALSE_OFFSET (*false_offset())
#else
#define FALSE_OFFSET 0
#endif

static int64_t read_clock(clockid_t id) {
    struct timespec t;
    clock_gettime(id, &t);
    return (int64_t)t.tv_sec * US_PER_S + t.tv_nsec / 1000 + FALSE_OFFSET;
}

int64_t clock_wall_us(void) {
    return read_clock(CLOCK_REALTIME);
}

int64_t clock_mono_us(void) {
    return read_clock(CLOCK_MONOTONIC);
}

static int64_t floor_div(int64_t a, int64_t b) {
    return a / b - (a % b < 0);
}

/* Days since 1970-01-01 of a proleptic Gregorian date, eras of 400 years of 146,097 days beginning in March. */
static int64_t days_of(int64_t y, int m, int d) {
    y -= m <= 2;
    int64_t era = floor_div(y, 400);
    int64_t year_of_era = y - era * 400;
    int64_t day_of_year = (153 * (m + (m > 2 ? -3 : 9)) + 2) / 5 + d - 1;
    int64_t day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    return era * 146097 + day_of_era - 719468;
}

static void date_of(int64_t days, int64_t *y, int *m, int *d) {
    days += 719468;
    int64_t era = floor_div(days, 146097);
    int64_t doe = days - era * 146097;
    int64_t yoe = (doe - doe / 1460 + doe / 36524 - doe / 146096) / 365;
    int64_t doy = doe - (365 * yoe + yoe / 4 - yoe / 100);
    int64_t mp = (5 * doy + 2) / 153;
    *d = (int)(doy - (153 * mp + 2) / 5 + 1);
    *m = (int)(mp < 10 ? mp + 3 : mp - 9);
    *y = yoe + era * 400 + (*m <= 2);
}

char *clock_text(int64_t wall_us, char out[CLOCK_TEXT_MAX]) {
    int64_t s = floor_div(wall_us, US_PER_S), days = floor_div(s, 86400), y;
    int m, d, of_day = (int)(s - days * 86400);
    date_of(days, &y, &m, &d);
    char text[3 * CLOCK_TEXT_MAX]; /* room for any int, so that the compiler sees no cut */
    snprintf(text, sizeof(text), "%04d-%02d-%02dT%02d:%02d:%02d.%06dZ", (int)y, m, d, of_day / 3600, of_day / 60 % 60,
             of_day % 60, (int)(wall_us - s * US_PER_S));
    memcpy(out, text, CLOCK_TEXT_MAX - 1);
    out[CLOCK_TEXT_MAX - 1] = '\0';
    return out;
}

static bool digits(struct span *s, size_t n, int *out) {
    if (s->n < n)
        return false;
    *out = 0;
    for (size_t i = 0; i < n; i++) {
        if (s->at[i] < '0' || s->at[i] > '9')
            return false;
        *out = *out * 10 + s->at[i] - '0';
    }
    *s = span_from(s->at + n, s->n - n);
    return true;
}

static bool letter(struct span *s, char c) {
    if (s->n == 0 || s->at[0] != c)
        return false;
    *s = span_from(s->at + 1, s->n - 1);
    return true;
}

static bool parse_date(struct span *s, int64_t *days) {
    static const int month_days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    int y, m, d;
    if (!digits(s, 4, &y) || !letter(s, '-') || !digits(s, 2, &m) || !letter(s, '-') || !digits(s, 2, &d))
        return false;
    bool leap = (y % 4 == 0 && y % 100 != 0) || y % 400 == 0;
    if (m < 1 || m > 12 || d < 1 || d > month_days[m - 1] + (m == 2 && leap))
        return false;
    *days = days_of(y, m, d);
    return true;
}

static bool parse_fraction(struct span *s, int64_t *us) {
    *us = 0;
    if (!letter(s, '.'))
        return true;
    int64_t unit = US_PER_S;
    size_t n = 0;
    for (; s->n && s->at[0] >= '0' && s->at[0] <= '9'; n++) {
        unit /= 10;
        *us += unit * (s->at[0] - '0');
        *s = span_from(s->at + 1, s->n - 1);
    }
    return n > 0;
}

static bool parse_offset(struct span *s, int *seconds) {
    int h, m;
    *seconds = 0;
    if (letter(s, 'Z') || letter(s, 'z'))
        return true;
    int sign = letter(s, '+') ? 1 : letter(s, '-') ? -1 : 0;
    if (!sign || !digits(s, 2, &h) || !letter(s, ':') || !digits(s, 2, &m) || h > 23 || m > 59)
        return false;
    *seconds = sign * (h * 3600 + m * 60);
    return true;
}

bool clock_parse(struct span text, int64_t *wall_us) {
    int64_t days, fraction = 0;
    int h = 0, m = 0, s = 0, offset = 0;
    if (!parse_date(&text, &days))
        return false;
    if (text.n) {
        if (!letter(&text, 'T') && !letter(&text, 't') && !letter(&text, ' '))
            return false;
        if (!digits(&text, 2, &h) || !letter(&text, ':') || !digits(&text, 2, &m) || !letter(&text, ':') ||
            !digits(&text, 2, &s) || h > 23 || m > 59 || s > 60)
            return false;
        if (!parse_fraction(&text, &fraction) || !parse_offset(&text, &offset))
            return false;
    }
    if (text.n)
        return false;
    *wall_us = (days * 86400 + h * 3600 + m * 60 + s - offset) * US_PER_S + fraction;
    return true;
}

static const struct unit {
    const char *name;
    int64_t us;
} units[] = {{"d", US_PER_DAY}, {"h", US_PER_HOUR}, {"m", US_PER_MIN}, {"s", US_PER_S}, {"ms", US_PER_MS}, {"us", 1}};

static int64_t unit_us(struct span name) {
    for (size_t i = 0; i < ARRAY_LEN(units); i++)
        if (span_is(name, units[i].name))
            return units[i].us;
    return span_is(name, "y") ? 365 * US_PER_DAY : 0; /* taken and not printed: days say what it is */
}

/* One number and one unit; a fraction must come out at whole microseconds. */
static bool parse_part(struct span *s, int64_t *us) {
    int64_t whole = 0, part = 0, scale = 1, unit;
    size_t i = 0, digits_seen = 0;
    for (; i < s->n && s->at[i] >= '0' && s->at[i] <= '9'; i++, digits_seen++)
        if (__builtin_mul_overflow(whole, 10, &whole) || __builtin_add_overflow(whole, s->at[i] - '0', &whole))
            return false;
    if (digits_seen && i < s->n && s->at[i] == '.')
        for (i++; i < s->n && s->at[i] >= '0' && s->at[i] <= '9' && scale < INT64_C(1000000000); i++) {
            part = part * 10 + s->at[i] - '0';
            scale *= 10;
        }
    size_t from = i;
    while (i < s->n && s->at[i] >= 'a' && s->at[i] <= 'z')
        i++;
    unit = unit_us(span_from(s->at + from, i - from));
    if (!digits_seen || !unit || __builtin_mul_overflow(whole, unit, us))
        return false;
    __int128 fraction = (__int128)part * unit;
    if (fraction % scale || __builtin_add_overflow(*us, (int64_t)(fraction / scale), us))
        return false;
    *s = span_from(s->at + i, s->n - i);
    return true;
}

bool clock_parse_duration(struct span text, int64_t *us) {
    int64_t sum = 0, part;
    if (text.n == 0)
        return false;
    while (text.n)
        if (!parse_part(&text, &part) || __builtin_add_overflow(sum, part, &sum))
            return false;
    *us = sum;
    return true;
}

char *clock_duration_text(int64_t us, char out[CLOCK_TEXT_MAX]) {
    size_t n = 0;
    snprintf(out, CLOCK_TEXT_MAX, "0s");
    if (us <= 0)
        return out;
    for (size_t i = 0; i < ARRAY_LEN(units) && us; i++) {
        int64_t count = us / units[i].us;
        us -= count * units[i].us;
        if (count && n < CLOCK_TEXT_MAX)
            n += (size_t)snprintf(out + n, CLOCK_TEXT_MAX - n, "%ld%s", (long)count, units[i].name);
    }
    return out;
}
