/* Adding up printed metrics. Always true here: sums are exact decimals over 10^9; a gauge that is a yes or no, or that every
 * process reads from the same ledger, is not added: the least stands for all. */
#include "gateway/admin/sums.h"

#include "gateway/base/mem.h"
#include "gateway/base/money.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#define NANO INT64_C(1000000000)

struct sum {
    struct sum *next;
    __int128 nano;
    char series[];
};

struct sum_family {
    struct sum_family *next;
    struct sum *first, *last;
    char *name, *help; /* owned; help: both comment lines */
    bool gauge, least;
};

static const char *const least_of[] = {"tollgate_target_up", "tollgate_redis_up", "tollgate_budget_remaining_usd"};

void sums_init(struct sums *s) {
    *s = (struct sums){0};
    map_init(&s->by_key);
    map_init(&s->by_family);
}

void sums_fini(struct sums *s) {
    for (struct sum_family *f = s->families, *after; f; f = after) {
        after = f->next;
        for (struct sum *one = f->first, *next; one; one = next) {
            next = one->next;
            free(one);
        }
        free(f->name);
        free(f->help);
        free(f);
    }
    map_fini(&s->by_key);
    map_fini(&s->by_family);
}

/* ---- reading ---- */

/* "12", "0.000585", "-3": over 10^9, which may be more than 64 bits hold. */
static bool read_number(struct span text, __int128 *out) {
    __int128 whole = 0, unit = NANO;
    bool negative = text.n && text.at[0] == '-', point = false;
    if (text.n == (size_t)negative || text.n > 30)
        return false;
    for (size_t i = negative; i < text.n; i++) {
        char c = text.at[i];
        if (c == '.' && !point) {
            point = true;
            continue;
        }
        if (c < '0' || c > '9' || (point && unit == 1))
            return false;
        whole = whole * 10 + (c - '0');
        if (point)
            unit /= 10;
    }
    *out = negative ? -whole * unit : whole * unit;
    return true;
}

/* "name{labels} value": labels may hold spaces, the value none. */
static bool read_line(struct span line, struct span *series, __int128 *nano) {
    const char *space = line.n ? memrchr(line.at, ' ', line.n) : NULL;
    if (!space || line.at[0] == '#')
        return false;
    *series = span_from(line.at, (size_t)(space - line.at));
    return read_number(span_from(space + 1, line.n - series->n - 1), nano);
}

/* "# TYPE name type" */
static bool read_type(struct span line, struct span *name, bool *gauge) {
    struct span word;
    if (!span_starts(line, "# TYPE "))
        return false;
    line = span_from(line.at + 7, line.n - 7);
    if (!span_cut(&line, ' ', name) || !span_cut(&line, ' ', &word))
        return false;
    *gauge = span_is(word, "gauge");
    return true;
}

/* ---- adding ---- */

static struct sum_family *family_of(struct sums *s, struct span name, bool gauge, struct span help, struct span type) {
    struct sum_family *f = map_find(&s->by_family, name);
    if (f)
        return f;
    f = xcalloc(1, sizeof *f);
    f->name = xstrndup(name.at, name.n);
    f->gauge = gauge;
    f->help = xcalloc(1, help.n + type.n + 3);
    snprintf(f->help, help.n + type.n + 3, "%.*s\n%.*s\n", SPAN_ARG(help), SPAN_ARG(type));
    for (size_t i = 0; i < ARRAY_LEN(least_of); i++)
        f->least |= strcmp(f->name, least_of[i]) == 0;
    *(s->last ? &s->last->next : &s->families) = f;
    s->last = f;
    map_put(&s->by_family, name, f);
    return f;
}

static void add(struct sums *s, struct sum_family *f, struct span series, __int128 nano) {
    struct sum *one = map_find(&s->by_key, series);
    if (one) {
        one->nano = !f->least ? one->nano + nano : nano < one->nano ? nano : one->nano;
        return;
    }
    one = xcalloc(1, sizeof *one + series.n + 1);
    memcpy(one->series, series.at, series.n);
    one->nano = nano;
    *(f->last ? &f->last->next : &f->first) = one;
    f->last = one;
    map_put(&s->by_key, series, one);
}

void sums_add(struct sums *s, struct span text, bool gone) {
    struct span line, series, name, help = SPAN_NONE;
    struct sum_family *f = NULL;
    __int128 nano;
    bool gauge;
    while (span_cut(&text, '\n', &line)) {
        if (span_starts(line, "# HELP "))
            help = line;
        else if (read_type(line, &name, &gauge))
            f = family_of(s, name, gauge, help, line);
        else if (f && !(gone && f->gauge) && read_line(line, &series, &nano))
            add(s, f, series, nano);
    }
}

void sums_each_counter(struct span text, void (*see)(struct span series, __int128 nano, void *user), void *user) {
    struct span line, series, name;
    __int128 nano;
    bool gauge = true;
    while (span_cut(&text, '\n', &line))
        if (!read_type(line, &name, &gauge) && !gauge && read_line(line, &series, &nano) && nano >= 0)
            see(series, nano, user);
}

/* ---- printing ---- */

static void print_number(__int128 nano, struct str *out) {
    unsigned __int128 size = nano < 0 ? -(unsigned __int128)nano : (unsigned __int128)nano;
    uint64_t part = (uint64_t)(size % NANO);
    int digits = 9;
    str_printf(out, "%s%" PRIu64, nano < 0 ? "-" : "", (uint64_t)(size / NANO));
    if (!part)
        return;
    for (; part % 10 == 0; digits--)
        part /= 10;
    str_printf(out, ".%0*" PRIu64, digits, part);
}

void sums_print(const struct sums *s, struct str *out) {
    for (const struct sum_family *f = s->families; f; f = f->next) {
        str_puts(out, f->help);
        for (const struct sum *one = f->first; one; one = one->next) {
            str_printf(out, "%s ", one->series);
            print_number(one->nano, out);
            str_putc(out, '\n');
        }
    }
}
