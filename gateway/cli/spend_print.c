/* The report of a bill as a table, as CSV and as JSON, each with the same numbers. */
#include "gateway/base/clock.h"
#include "gateway/base/json.h"
#include "gateway/cli/spend.h"
#include <stdio.h>
#include <stdlib.h>

#define COLUMN_MAX 60 /* a longer group text pushes its row, never the table */
#define SHARE_MAX 24

/* "3.20%" of the cost, cut towards zero; exact integers. */
static char *share(const struct spend_sums *t, char out[SHARE_MAX]) {
    __int128 parts = t->cost_nanousd > 0 ? (__int128)t->estimated_nanousd * 10000 / t->cost_nanousd : 0;
    snprintf(out, SHARE_MAX, "%lld.%02lld%%", (long long)(parts / 100), (long long)(parts % 100));
    return out;
}

static int by_text(const void *left, const void *right) {
    return strcmp(*(const char *const *)left, *(const char *const *)right);
}

/* Sorted; the array is the caller's, the texts the map's. */
static const char **digests(const struct spend *s) {
    const char **all = xcalloc(s->price_digests.n + 1, sizeof(const char *));
    size_t n = 0;
    for (struct map_entry *e = map_next(&s->price_digests, NULL); e; e = map_next(&s->price_digests, e))
        all[n++] = e->key;
    qsort(all, n, sizeof(const char *), by_text);
    return all;
}

static void put_digests(const struct spend *s, struct str *out) {
    const char **all = digests(s);
    str_puts(out, "prices     ");
    for (size_t i = 0; all[i]; i++)
        str_printf(out, "%s%s", i ? ", " : "", all[i]);
    str_puts(out, all[0] ? "\n" : "none\n");
    free(all);
}

static void put_period(const struct spend *s, struct str *out) {
    char from[CLOCK_TEXT_MAX], to[CLOCK_TEXT_MAX];
    str_printf(out, "period     [%s, %s) %s\n", s->from_us ? clock_text(s->from_us, from) : "the beginning",
               s->to_us != INT64_MAX ? clock_text(s->to_us, to) : "now", zone_name(s->zone));
}

static void put_log(const struct spend_log *l, struct str *out) {
    const struct audit_verdict *v = &l->verdict;
    str_printf(out, "head       %llu %s %s\n", (unsigned long long)v->head_seq, v->head_hash, l->directory);
    if (v->clean)
        str_printf(out, "verified   yes, %llu records unsealed\n", (unsigned long long)v->unsealed);
    else
        str_printf(out, "verified   NO: %s line %lld, record %llu: %s\n", v->fault.file, (long long)v->fault.line,
                   (unsigned long long)v->fault.seq, v->fault.what);
}

void spend_print_head(const struct spend *s, const struct spend_log *logs, size_t n_logs, struct str *out) {
    char first[CLOCK_TEXT_MAX], last[CLOCK_TEXT_MAX], part[SHARE_MAX];
    put_period(s, out);
    if (s->records)
        str_printf(out, "log        %s to %s, %lld records\n", clock_text(s->first_us, first),
                   clock_text(s->last_us, last), (long long)s->records);
    else
        str_puts(out, "log        empty\n");
    for (size_t i = 0; i < n_logs; i++)
        put_log(&logs[i], out);
    put_digests(s, out);
    str_printf(out, "estimated  %s of the cost, %lld of %lld requests\n", share(&s->total, part),
               (long long)s->total.estimated, (long long)s->total.requests);
}

static int width_of(const struct spend *s, struct spend_row **rows, size_t column) {
    size_t widest = strlen(s->groups[column].title);
    for (size_t i = 0; rows[i]; i++) {
        size_t n = strlen(rows[i]->groups[column]);
        widest = n > widest ? n : widest;
    }
    return (int)(widest < COLUMN_MAX ? widest : COLUMN_MAX);
}

static void put_sums(const struct spend_sums *t, struct str *out) {
    char money[MONEY_TEXT_MAX];
    str_printf(out, "%10lld %14lld %14lld %20s\n", (long long)t->requests, (long long)t->in_tok, (long long)t->out_tok,
               money_text(t->cost_nanousd, money));
}

/* Control characters of the log never reach a terminal. */
static void put_plain(const char *text, struct str *out) {
    for (; *text; text++)
        str_putc(out, (unsigned char)*text < 0x20 || *text == 0x7F ? '?' : *text);
}

static void put_cell(const char *text, int width, struct str *out) {
    put_plain(text, out);
    str_printf(out, "%*s", width - (int)strlen(text) + 2 > 2 ? width - (int)strlen(text) + 2 : 2, "");
}

static void print_table(const struct spend *s, struct spend_row **rows, struct str *out) {
    int widths[SPEND_GROUPS_MAX], all = 0;
    str_putc(out, '\n');
    for (size_t c = 0; c < s->n_groups; c++) {
        widths[c] = width_of(s, rows, c);
        all += widths[c] + 2;
        put_cell(s->groups[c].title, widths[c], out);
    }
    str_printf(out, "%10s %14s %14s %20s\n", "requests", "in_tok", "out_tok", "usd");
    for (size_t i = 0; rows[i]; i++) {
        for (size_t c = 0; c < s->n_groups; c++)
            put_cell(rows[i]->groups[c], widths[c], out);
        put_sums(&rows[i]->sums, out);
    }
    put_cell("total", all - 2, out);
    put_sums(&s->total, out);
}

/* RFC 4180; a text that a spreadsheet would run as a formula is made text. */
static void put_csv_text(const char *text, struct str *out) {
    str_putc(out, '"');
    if (strchr("=+-@\t\r", text[0]) && text[0])
        str_putc(out, '\'');
    for (; *text; text++) {
        if (*text == '"')
            str_putc(out, '"');
        str_putc(out, *text);
    }
    str_putc(out, '"');
}

static void print_csv(const struct spend *s, struct spend_row **rows, struct str *out) {
    char money[MONEY_TEXT_MAX];
    for (size_t c = 0; c < s->n_groups; c++) {
        put_csv_text(s->groups[c].title, out);
        str_putc(out, ',');
    }
    str_puts(out, "requests,in_tok,out_tok,estimated_requests,cost_nanousd,cost_usd\r\n");
    for (size_t i = 0; rows[i]; i++) {
        const struct spend_sums *t = &rows[i]->sums;
        for (size_t c = 0; c < s->n_groups; c++) {
            put_csv_text(rows[i]->groups[c], out);
            str_putc(out, ',');
        }
        str_printf(out, "%lld,%lld,%lld,%lld,%lld,%s\r\n", (long long)t->requests, (long long)t->in_tok,
                   (long long)t->out_tok, (long long)t->estimated, (long long)t->cost_nanousd,
                   money_text(t->cost_nanousd, money));
    }
}

static void put_sums_json(const struct spend_sums *t, struct str *out) {
    char money[MONEY_TEXT_MAX];
    json_put_i64(out, "requests", t->requests);
    json_put_i64(out, "in_tok", t->in_tok);
    json_put_i64(out, "out_tok", t->out_tok);
    json_put_i64(out, "estimated_requests", t->estimated);
    json_put_i64(out, "estimated_nanousd", t->estimated_nanousd);
    json_put_i64(out, "cost_nanousd", t->cost_nanousd);
    json_put_str(out, "cost_usd", money_text(t->cost_nanousd, money));
    str_putc(out, '}');
}

static void put_log_json(const struct spend_log *l, struct str *out) {
    const struct audit_verdict *v = &l->verdict;
    str_puts(out, "{");
    json_put_str(out, "directory", l->directory);
    json_put_i64(out, "head_seq", (int64_t)v->head_seq);
    json_put_str(out, "head_hash", v->head_hash);
    json_put_bool(out, "verified", v->clean);
    json_put_i64(out, "unsealed", (int64_t)v->unsealed);
    if (!v->clean)
        json_put_str(out, "fault", v->fault.what);
    str_putc(out, '}');
}

static void put_head_json(const struct spend *s, const struct spend_log *logs, size_t n_logs, struct str *out) {
    char time[CLOCK_TEXT_MAX], part[SHARE_MAX];
    const char **all = digests(s);
    json_put_str(out, "from", s->from_us ? clock_text(s->from_us, time) : NULL);
    json_put_str(out, "to", s->to_us != INT64_MAX ? clock_text(s->to_us, time) : NULL);
    json_put_str(out, "timezone", zone_name(s->zone));
    json_put_str(out, "log_first", s->records ? clock_text(s->first_us, time) : NULL);
    json_put_str(out, "log_last", s->records ? clock_text(s->last_us, time) : NULL);
    json_put_i64(out, "log_records", s->records);
    json_put_raw(out, "logs", SPAN("["));
    for (size_t i = 0; i < n_logs; i++) {
        str_puts(out, i ? "," : "");
        put_log_json(&logs[i], out);
    }
    str_putc(out, ']');
    json_put_raw(out, "price_digests", SPAN("["));
    for (size_t i = 0; all[i]; i++) {
        str_puts(out, i ? "," : "");
        json_put_text(out, span_of(all[i]));
    }
    str_putc(out, ']');
    json_put_str(out, "share_estimated", share(&s->total, part));
    free(all);
}

static void print_json(const struct spend *s, struct spend_row **rows, const struct spend_log *logs, size_t n_logs,
                       struct str *out) {
    str_putc(out, '{');
    put_head_json(s, logs, n_logs, out);
    json_put_raw(out, "rows", SPAN("["));
    for (size_t i = 0; rows[i]; i++) {
        str_puts(out, i ? ",{" : "{");
        for (size_t c = 0; c < s->n_groups; c++)
            json_put_str(out, s->groups[c].title, rows[i]->groups[c]);
        put_sums_json(&rows[i]->sums, out);
    }
    str_putc(out, ']');
    json_put_raw(out, "total", SPAN("{"));
    put_sums_json(&s->total, out);
    str_puts(out, "}\n");
}

void spend_print(const struct spend *s, const struct spend_log *logs, size_t n_logs, enum spend_format format,
                 struct str *out) {
    struct spend_row **rows = spend_sorted(s);
    if (format == SPEND_JSON)
        print_json(s, rows, logs, n_logs, out);
    if (format == SPEND_CSV)
        print_csv(s, rows, out);
    if (format == SPEND_TABLE) {
        spend_print_head(s, logs, n_logs, out);
        print_table(s, rows, out);
    }
    free(rows);
}
