/* Two arms side by side. Always true here: a call counts on the arm it was put on, whoever answered it in the end, so that a
 * canary whose calls the ladder saves does not look well; answers out of the cache count nowhere. Money is exact; the tests of
 * whether a difference is more than chance are not money. */
#include "gateway/finance/compare.h"

#include "audit/audit.h"
#include "backends/backends.h"
#include "gateway/base/clock.h"
#include "gateway/base/money.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define FINISHES (FINISH_OTHER + 1)

struct side {
    int64_t calls, errors, cost_nanousd, finish[FINISHES];
    double cost_squares;
    int64_t *waits_us; /* owned; until the first token */
    size_t n, room;
};

struct compare {
    const char *alias;
    int64_t since_us;
    struct side sides[COMPARE_ARMS];
    bool sorted;
};

static const char *const arm_words[COMPARE_ARMS] = {"stable", "canary"};

struct compare *compare_new(const char *alias, int64_t since_us) {
    struct compare *c = xcalloc(1, sizeof *c);
    c->alias = alias;
    c->since_us = since_us;
    return c;
}

void compare_free(struct compare *c) {
    for (int i = 0; i < COMPARE_ARMS; i++)
        free(c->sides[i].waits_us);
    free(c);
}

/* ---- a record ---- */

enum { M_ALIAS, M_STATUS, M_ATTEMPTS, M_COST, M_ARM, M_FINISH, M_CACHE, M_FIRST, M_EXPLAINED, M_N };
static const struct span members[M_N] = {[M_ALIAS] = SPAN("alias"),
                                         [M_STATUS] = SPAN("status"),
                                         [M_ATTEMPTS] = SPAN("attempts"),
                                         [M_COST] = SPAN("cost_nanousd"),
                                         [M_ARM] = SPAN("arm"),
                                         [M_FINISH] = SPAN("finish"),
                                         [M_CACHE] = SPAN("cache"),
                                         [M_FIRST] = SPAN("first_content_us"),
                                         [M_EXPLAINED] = SPAN("explained")};

static bool says(struct json v, const char *word) {
    return v.kind == JSON_STRING && v.raw.n >= 2 && span_is(span_from(v.raw.at + 1, v.raw.n - 2), word);
}

static int64_t number(struct json v, int64_t otherwise) {
    int64_t n;
    return json_i64(v, &n) ? n : otherwise;
}

/* The first try is the arm's own target's: whether the provider failed it. */
static bool own_target_failed(struct json attempts) {
    static const struct span names[] = {SPAN("outcome")};
    static const char *const fine[] = {"ok", "cancelled", "client_fault", "over_budget"};
    struct span rest = attempts.raw, name;
    struct json first, outcome;
    if (attempts.kind != JSON_ARRAY || !audit_next(&rest, &name, &first))
        return false;
    audit_pick(first.raw, names, &outcome, 1);
    for (size_t i = 0; i < ARRAY_LEN(fine); i++)
        if (says(outcome, fine[i]))
            return false;
    return true;
}

static void note_wait(struct side *s, int64_t us) {
    if (us < 0 || s->n == COMPARE_SAMPLES_MAX)
        return;
    if (s->n == s->room) {
        s->room = s->room ? 2 * s->room : 256;
        s->waits_us = xrealloc(s->waits_us, s->room * sizeof *s->waits_us);
    }
    s->waits_us[s->n++] = us;
}

static void note_call(struct side *s, const struct json got[M_N]) {
    int64_t cost = number(got[M_COST], 0);
    s->calls++;
    s->errors += number(got[M_STATUS], 0) >= 500 || own_target_failed(got[M_ATTEMPTS]);
    s->cost_nanousd += cost;
    s->cost_squares += (double)cost * (double)cost;
    for (int f = 0; f < FINISHES; f++)
        s->finish[f] += says(got[M_FINISH], finish_names[f]);
    note_wait(s, number(got[M_FIRST], -1));
}

void compare_see(struct compare *c, struct span line) {
    struct audit_frame f;
    struct json got[M_N];
    int64_t at_us;
    if (!audit_frame(line, &f) || f.kind != AUDIT_SETTLE || !clock_parse(f.time, &at_us) || at_us < c->since_us)
        return;
    audit_pick(line, members, got, M_N);
    bool cached = says(got[M_CACHE], "hit") || says(got[M_CACHE], "shared") || says(got[M_CACHE], "stale");
    if (!says(got[M_ALIAS], c->alias) || cached || got[M_EXPLAINED].kind == JSON_TRUE)
        return;
    for (int i = 0; i < COMPARE_ARMS; i++)
        if (says(got[M_ARM], arm_words[i]))
            note_call(&c->sides[i], got);
}

/* ---- whether it is more than chance ---- */

static double of_errors(const struct side *a, const struct side *b) {
    double n = (double)a->calls, m = (double)b->calls, p = ((double)a->errors + (double)b->errors) / (n + m);
    double spread = sqrt(p * (1 - p) * (1 / n + 1 / m));
    return spread > 0 ? ((double)b->errors / m - (double)a->errors / n) / spread : 0;
}

static double variance_of_cost(const struct side *s) {
    double n = (double)s->calls, mean = (double)s->cost_nanousd / n;
    double v = (s->cost_squares - n * mean * mean) / (n - 1);
    return v > 0 ? v : 0;
}

static double of_cost(const struct side *a, const struct side *b) {
    double n = (double)a->calls, m = (double)b->calls;
    double difference = (double)b->cost_nanousd / m - (double)a->cost_nanousd / n;
    double spread = sqrt(variance_of_cost(a) / n + variance_of_cost(b) / m);
    return spread > 0 ? difference / spread : difference == 0 ? 0 : INFINITY;
}

static int by_size(const void *a, const void *b) {
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

/* Mann and Whitney: how often one of b waits longer than one of a; ties count half. Both are sorted. */
static double of_waits(const struct side *a, const struct side *b) {
    double n = (double)a->n, m = (double)b->n, wins = 0;
    size_t below = 0, upto = 0;
    for (size_t i = 0; i < b->n; i++) {
        while (below < a->n && a->waits_us[below] < b->waits_us[i])
            below++;
        upto = upto > below ? upto : below;
        while (upto < a->n && a->waits_us[upto] <= b->waits_us[i])
            upto++;
        wins += (double)below + (double)(upto - below) / 2;
    }
    return (wins - n * m / 2) / sqrt(n * m * (n + m + 1) / 12);
}

static const char *meaning(size_t n, size_t m, double z) {
    if (n < COMPARE_CALLS_MIN || m < COMPARE_CALLS_MIN)
        return "too few calls to tell";
    double size = fabs(z);
    return size >= 2.576 ? "differs (p < 0.01)" : size >= 1.960 ? "differs (p < 0.05)" : "may be chance";
}

/* ---- what is printed ---- */

static int64_t part_of(const struct side *s, size_t permille) {
    return s->n ? s->waits_us[(s->n - 1) * permille / 1000] : -1;
}

static int64_t cost_of_one(const struct side *s) {
    return s->calls ? s->cost_nanousd / s->calls : 0;
}

struct meanings {
    const char *errors, *waits, *cost;
};

static struct meanings judge(struct compare *c) {
    struct side *a = &c->sides[COMPARE_STABLE], *b = &c->sides[COMPARE_CANARY];
    for (int i = 0; i < COMPARE_ARMS; i++)
        if (c->sides[i].n)
            qsort(c->sides[i].waits_us, c->sides[i].n, sizeof(int64_t), by_size);
    bool calls = a->calls > 1 && b->calls > 1, waits = a->n && b->n;
    return (struct meanings){meaning((size_t)a->calls, (size_t)b->calls, calls ? of_errors(a, b) : 0),
                             meaning(a->n, b->n, waits ? of_waits(a, b) : 0),
                             meaning((size_t)a->calls, (size_t)b->calls, calls ? of_cost(a, b) : 0)};
}

static void put_side(const struct side *s, struct str *out) {
    str_putc(out, '{');
    json_put_i64(out, "calls", s->calls);
    json_put_i64(out, "errors", s->errors);
    json_put_i64(out, "first_token_p50_us", part_of(s, 500));
    json_put_i64(out, "first_token_p95_us", part_of(s, 950));
    json_put_i64(out, "cost_per_call_nanousd", cost_of_one(s));
    json_put_raw(out, "finish", SPAN("{"));
    for (int f = 0; f < FINISHES; f++)
        if (s->finish[f])
            json_put_i64(out, finish_names[f], s->finish[f]);
    str_puts(out, "}}");
}

static void print_json(const struct compare *c, const struct meanings *m, struct str *out) {
    char since[CLOCK_TEXT_MAX];
    str_putc(out, '{');
    json_put_str(out, "alias", c->alias);
    json_put_str(out, "since", clock_text(c->since_us, since));
    for (int i = 0; i < COMPARE_ARMS; i++) {
        json_put_name(out, arm_words[i]);
        put_side(&c->sides[i], out);
    }
    json_put_raw(out, "meaning", SPAN("{"));
    json_put_str(out, "errors", m->errors);
    json_put_str(out, "first_token", m->waits);
    json_put_str(out, "cost", m->cost);
    str_puts(out, "}}\n");
}

static void print_errors(const struct compare *c, const char *means, struct str *out) {
    char text[COMPARE_ARMS][64];
    for (int i = 0; i < COMPARE_ARMS; i++) {
        const struct side *s = &c->sides[i];
        int64_t share = s->calls ? s->errors * FACTOR_ONE / s->calls : 0;
        snprintf(text[i], sizeof text[i], "%" PRId64 " (%" PRId64 ".%02" PRId64 "%%)", s->errors, share / 100,
                 share % 100);
    }
    str_printf(out, "%-18s %-18s %-18s %s\n", "errors", text[0], text[1], means);
}

static void print_waits(const struct compare *c, const char *name, size_t permille, const char *means,
                        struct str *out) {
    char text[COMPARE_ARMS][CLOCK_TEXT_MAX] = {"-", "-"};
    for (int i = 0; i < COMPARE_ARMS; i++)
        if (c->sides[i].n)
            clock_duration_text(part_of(&c->sides[i], permille), text[i]);
    str_printf(out, "%-18s %-18s %-18s %s\n", name, text[0], text[1], means);
}

static void print_words(const struct compare *c, const struct meanings *m, struct str *out) {
    char since[CLOCK_TEXT_MAX], cost[COMPARE_ARMS][MONEY_TEXT_MAX];
    const struct side *s = c->sides;
    str_printf(out, "alias %s since %s\n%-18s %-18s %s\n", c->alias, clock_text(c->since_us, since), "", arm_words[0],
               arm_words[1]);
    str_printf(out, "%-18s %-18" PRId64 " %" PRId64 "\n", "calls", s[0].calls, s[1].calls);
    print_errors(c, m->errors, out);
    print_waits(c, "first token p50", 500, m->waits, out);
    print_waits(c, "first token p95", 950, "", out);
    str_printf(out, "%-18s %-18s %-18s %s\n", "USD a call", money_text(cost_of_one(&s[0]), cost[0]),
               money_text(cost_of_one(&s[1]), cost[1]), m->cost);
    for (int f = 0; f < FINISHES; f++)
        if (s[0].finish[f] || s[1].finish[f])
            str_printf(out, "finish %-11s %-18" PRId64 " %" PRId64 "\n", finish_names[f], s[0].finish[f],
                       s[1].finish[f]);
}

void compare_print(struct compare *c, bool json, struct str *out) {
    struct meanings m = judge(c);
    if (json)
        print_json(c, &m, out);
    else
        print_words(c, &m, out);
}
