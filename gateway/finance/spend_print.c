/* The report of a bill as a table, as CSV and as JSON, each with the same numbers. The table shows a column that is not of
 * every bill only where this bill has something in it; CSV and JSON have them all. */
#include "gateway/base/clock.h"
#include "gateway/base/json.h"
#include "gateway/finance/spend.h"
#include <stdio.h>
#include <stdlib.h>

#define COLUMN_MAX 60 /* a longer group text pushes its row, never the table */
#define SHARE_MAX 24

/* "3.20%" of the cost, cut towards zero; exact integers. */
static char *share(const struct spend_sums *t, char out[SHARE_MAX]) {
    int64_t cost = t->at[SPEND_cost_nanousd];
    __int128 parts = cost > 0 ? (__int128)t->at[SPEND_estimated_nanousd] * 10000 / cost : 0;
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
    if (n)
        qsort(all, n, sizeof(const char *), by_text);
    return all;
}

/* Control characters of the log never reach a terminal. */
static void put_plain(const char *text, struct str *out) {
    for (; *text; text++)
        str_putc(out, (unsigned char)*text < 0x20 || *text == 0x7F ? '?' : *text);
}

static void put_digests(const struct spend *s, struct str *out) {
    const char **all = digests(s);
    str_puts(out, "prices     ");
    for (size_t i = 0; all[i]; i++) {
        str_puts(out, i ? ", " : "");
        put_plain(all[i], out);
    }
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
    str_printf(out, "head       %llu %s%s%s\n", (unsigned long long)v->head_seq, v->head_hash, l->directory ? " " : "",
               l->directory ? l->directory : "");
    if (!l->checked)
        str_puts(out, "verified   not asked for\n");
    else if (v->clean)
        str_printf(out, "verified   yes, %llu records unsealed\n", (unsigned long long)v->unsealed);
    else
        str_printf(out, "verified   NO: %s line %lld, record %llu: %s\n", v->fault.file, (long long)v->fault.line,
                   (unsigned long long)v->fault.seq, v->fault.what);
}

void spend_print_head(const struct spend *s, const struct spend_head *head, struct str *out) {
    char first[CLOCK_TEXT_MAX], last[CLOCK_TEXT_MAX], part[SHARE_MAX];
    put_period(s, out);
    if (head->closed) {
        str_puts(out, "closed     ");
        put_plain(head->closed, out);
        str_putc(out, '\n');
    }
    if (s->records)
        str_printf(out, "log        %s to %s, %lld records\n", clock_text(s->first_us, first),
                   clock_text(s->last_us, last), (long long)s->records);
    else
        str_puts(out, "log        empty\n");
    for (size_t i = 0; i < head->n_logs; i++)
        put_log(&head->logs[i], out);
    put_digests(s, out);
    str_printf(out, "estimated  %s of the cost, %lld of %lld requests\n", share(&s->total, part),
               (long long)s->total.at[SPEND_estimated_requests], (long long)s->total.at[SPEND_requests]);
}

/* ---- table ---- */

enum form { FORM_COUNT, FORM_MONEY, FORM_IN, FORM_OUT };
struct shown {
    const char *title;
    enum form form;
    enum spend_column column, when; /* shown when this column's total is not 0 */
    int width;
};
static const struct shown shown[] = {
    {"requests", FORM_COUNT, SPEND_requests, SPEND_COLUMNS_N, 10},
    {"in_tok", FORM_IN, SPEND_in, SPEND_COLUMNS_N, 14},
    {"out_tok", FORM_OUT, SPEND_out, SPEND_COLUMNS_N, 14},
    {"usd", FORM_MONEY, SPEND_cost_nanousd, SPEND_COLUMNS_N, 20},
    {"list_usd", FORM_MONEY, SPEND_list_nanousd, SPEND_list_nanousd, 20},
    {"cached", FORM_COUNT, SPEND_cached_requests, SPEND_cached_requests, 10},
    {"saved_usd", FORM_MONEY, SPEND_saved_nanousd, SPEND_saved_nanousd, 20},
    {"degraded", FORM_COUNT, SPEND_degraded_requests, SPEND_degraded_requests, 10},
    {"degraded_usd", FORM_MONEY, SPEND_degraded_nanousd, SPEND_degraded_requests, 20},
    {"estimated", FORM_COUNT, SPEND_estimated_requests, SPEND_estimated_requests, 10},
    {"estimated_usd", FORM_MONEY, SPEND_estimated_nanousd, SPEND_estimated_requests, 20},
    {"overrun", FORM_COUNT, SPEND_overrun_requests, SPEND_overrun_requests, 10},
    {"overrun_usd", FORM_MONEY, SPEND_overrun_nanousd, SPEND_overrun_requests, 20},
    {"adjusts", FORM_COUNT, SPEND_adjusts, SPEND_adjusts, 10},
    {"adjusted_usd", FORM_MONEY, SPEND_adjusted_nanousd, SPEND_adjusts, 20},
};

static bool is_shown(const struct spend *s, const struct shown *c) {
    if (c->when == SPEND_list_nanousd)
        return s->total.at[SPEND_list_nanousd] != s->total.at[SPEND_cost_nanousd];
    return c->when == SPEND_COLUMNS_N || s->total.at[c->when] != 0;
}

static void put_shown(const struct shown *c, const struct spend_sums *t, struct str *out) {
    char money[MONEY_TEXT_MAX];
    int64_t n = c->form == FORM_IN ? spend_in_tok(t) : c->form == FORM_OUT ? spend_out_tok(t) : t->at[c->column];
    if (c->form == FORM_MONEY)
        str_printf(out, " %*s", c->width, money_text(n, money));
    else
        str_printf(out, " %*lld", c->width, (long long)n);
}

static void put_sums(const struct spend *s, const struct spend_sums *t, struct str *out) {
    for (size_t i = 0; i < ARRAY_LEN(shown); i++)
        if (is_shown(s, &shown[i]))
            put_shown(&shown[i], t, out);
    str_putc(out, '\n');
}

static int width_of(const struct spend *s, struct spend_row **rows, size_t column) {
    size_t widest = strlen(s->groups[column].title);
    for (size_t i = 0; rows[i]; i++) {
        size_t n = strlen(rows[i]->texts[column]);
        widest = n > widest ? n : widest;
    }
    return (int)(widest < COLUMN_MAX ? widest : COLUMN_MAX);
}

static void put_cell(const char *text, int width, struct str *out) {
    put_plain(text, out);
    str_printf(out, "%*s", width - (int)strlen(text) + 1 > 1 ? width - (int)strlen(text) + 1 : 1, "");
}

static void print_table(const struct spend *s, struct spend_row **rows, struct str *out) {
    int widths[SPEND_GROUPS_MAX], all = 0;
    str_putc(out, '\n');
    for (size_t c = 0; c < s->n_groups; c++) {
        widths[c] = width_of(s, rows, c);
        all += widths[c] + 1;
        put_cell(s->groups[c].title, widths[c], out);
    }
    for (size_t i = 0; i < ARRAY_LEN(shown); i++)
        if (is_shown(s, &shown[i]))
            str_printf(out, " %*s", shown[i].width, shown[i].title);
    str_putc(out, '\n');
    for (size_t i = 0; rows[i]; i++) {
        for (size_t c = 0; c < s->n_groups; c++)
            put_cell(rows[i]->texts[c], widths[c], out);
        put_sums(s, &rows[i]->sums, out);
    }
    put_cell("total", all - 1, out);
    put_sums(s, &s->total, out);
}

/* ---- CSV ---- */

/* RFC 4180; a text that a spreadsheet would run as a formula is made text. */
void spend_put_csv(const char *text, struct str *out) {
    str_putc(out, '"');
    if (text[0] && strchr("=+-@\t\r", text[0]))
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
        spend_put_csv(s->groups[c].title, out);
        str_putc(out, ',');
    }
    for (size_t i = 0; i < SPEND_COLUMNS_N; i++)
        str_printf(out, "%s,", spend_columns[i]);
    str_puts(out, "in_tok,out_tok,cost_usd\r\n");
    for (size_t i = 0; rows[i]; i++) {
        const struct spend_sums *t = &rows[i]->sums;
        for (size_t c = 0; c < s->n_groups; c++) {
            spend_put_csv(rows[i]->texts[c], out);
            str_putc(out, ',');
        }
        for (size_t c = 0; c < SPEND_COLUMNS_N; c++)
            str_printf(out, "%lld,", (long long)t->at[c]);
        str_printf(out, "%lld,%lld,%s\r\n", (long long)spend_in_tok(t), (long long)spend_out_tok(t),
                   money_text(t->at[SPEND_cost_nanousd], money));
    }
}

/* ---- JSON ---- */

static void put_sums_json(const struct spend_sums *t, struct str *out) {
    for (size_t i = 0; i < SPEND_COLUMNS_N; i++)
        json_put_i64(out, spend_columns[i], t->at[i]);
    json_put_i64(out, "in_tok", spend_in_tok(t));
    json_put_i64(out, "out_tok", spend_out_tok(t));
    money_put(out, "cost_usd", t->at[SPEND_cost_nanousd]);
    str_putc(out, '}');
}

static void put_log_json(const struct spend_log *l, struct str *out) {
    const struct audit_verdict *v = &l->verdict;
    str_puts(out, "{");
    if (l->directory)
        json_put_str(out, "directory", l->directory);
    json_put_i64(out, "head_seq", (int64_t)v->head_seq);
    json_put_str(out, "head_hash", v->head_hash);
    if (l->checked)
        json_put_bool(out, "verified", v->clean);
    else
        json_put_str(out, "verified", NULL);
    json_put_i64(out, "unsealed", (int64_t)v->unsealed);
    if (l->checked && !v->clean)
        json_put_str(out, "fault", v->fault.what);
    str_putc(out, '}');
}

static void put_digests_json(const struct spend *s, struct str *out) {
    const char **all = digests(s);
    json_put_raw(out, "price_digests", SPAN("["));
    for (size_t i = 0; all[i]; i++) {
        str_puts(out, i ? "," : "");
        json_put_text(out, span_of(all[i]));
    }
    str_putc(out, ']');
    free(all);
}

static void put_head_json(const struct spend *s, const struct spend_head *head, struct str *out) {
    char time[CLOCK_TEXT_MAX], part[SHARE_MAX];
    json_put_str(out, "from", s->from_us ? clock_text(s->from_us, time) : NULL);
    json_put_str(out, "to", s->to_us != INT64_MAX ? clock_text(s->to_us, time) : NULL);
    json_put_str(out, "timezone", zone_name(s->zone));
    json_put_str(out, "closed", head->closed);
    json_put_str(out, "log_first", s->records ? clock_text(s->first_us, time) : NULL);
    json_put_str(out, "log_last", s->records ? clock_text(s->last_us, time) : NULL);
    json_put_i64(out, "log_records", s->records);
    json_put_raw(out, "logs", SPAN("["));
    for (size_t i = 0; i < head->n_logs; i++) {
        str_puts(out, i ? "," : "");
        put_log_json(&head->logs[i], out);
    }
    str_putc(out, ']');
    put_digests_json(s, out);
    json_put_str(out, "share_estimated", share(&s->total, part));
}

static void print_json(const struct spend *s, const struct spend_head *head, struct spend_row **rows, struct str *out) {
    str_putc(out, '{');
    put_head_json(s, head, out);
    json_put_raw(out, "rows", SPAN("["));
    for (size_t i = 0; rows[i]; i++) {
        str_puts(out, i ? ",{" : "{");
        for (size_t c = 0; c < s->n_groups; c++)
            json_put_str(out, s->groups[c].title, rows[i]->texts[c]);
        put_sums_json(&rows[i]->sums, out);
    }
    str_putc(out, ']');
    json_put_raw(out, "total", SPAN("{"));
    put_sums_json(&s->total, out);
    str_puts(out, "}\n");
}

void spend_print(const struct spend *s, const struct spend_head *head, enum spend_format format, struct str *out) {
    struct spend_row **rows = spend_sorted(s);
    if (format == SPEND_JSON)
        print_json(s, head, rows, out);
    if (format == SPEND_CSV)
        print_csv(s, rows, out);
    if (format == SPEND_FOCUS)
        spend_print_focus(s, out);
    if (format == SPEND_TABLE) {
        spend_print_head(s, head, out);
        print_table(s, rows, out);
    }
    free(rows);
}
