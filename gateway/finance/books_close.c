/* Closing a month: its rows by as many words as fit, cut into rollups, and the close that names their digest. Always true
 * here: nothing is closed that may still change, that is a month which is not over, has requests in flight, or stands in a
 * log that does not verify. */
#include "gateway/base/hash.h"
#include "gateway/finance/books.h"
#include <stdio.h>
#include <stdlib.h>

/* The words of rollups, finest first: the first set whose rows are not too many is taken. Budgets are told by the last. */
#define KEY_WORDS "team,key,owner,alias,model,target,upstream_key,charge,cache,degraded"
static const char *const word_sets[] = {"day," KEY_WORDS ",client_family,endpoint,labels",
                                        KEY_WORDS ",client_family,endpoint,labels",
                                        "day," KEY_WORDS,
                                        KEY_WORDS,
                                        "team,key,alias,target",
                                        "team,key"};

/* ---- whether it may be closed ---- */

struct opens {
    struct map open; /* requests admitted before the month's end */
    int64_t to_us;
    const atomic_bool *stop;
};

static bool see_open(const struct audit_line *l, void *user) {
    struct opens *o = user;
    struct audit_frame f;
    int64_t us;
    if (!audit_frame(l->text, &f))
        return true;
    if (f.kind == AUDIT_ADMIT && clock_parse(f.time, &us) && us < o->to_us)
        map_put(&o->open, f.request, o);
    if (f.kind == AUDIT_SETTLE || f.kind == AUDIT_REFUSE)
        map_remove(&o->open, f.request);
    return !(o->stop && atomic_load(o->stop));
}

static bool none_open(const struct books_ask *ask, struct str *why) {
    struct opens o = {.to_us = ask->to_us, .stop = ask->stop};
    map_init(&o.open);
    bool good = audit_read(ask->directory, see_open, &o, why);
    if (good && o.open.n) {
        str_printf(why, "%zu requests of %s are not settled yet: nothing is closed", o.open.n, ask->month);
        good = false;
    }
    map_fini(&o.open);
    return good;
}

static bool is_open(const struct books_ask *ask, struct str *why) {
    struct books books;
    bool good = true;
    if (!books_read(ask->directory, "", &books, why))
        return false;
    for (size_t i = 0; good && i < books.n; i++) {
        good = books.all[i].to_us <= ask->from_us || books.all[i].from_us >= ask->to_us;
        if (!good)
            str_printf(why, "%s (%s) is closed already", books.all[i].month, books.all[i].zone);
    }
    books_free(&books);
    return good;
}

static bool verifies(const struct books_ask *ask, struct audit_verdict *v, struct str *why) {
    if (!audit_verify(ask->directory, NULL, v, why))
        return false;
    if (!v->clean)
        str_printf(why, "the log does not verify, nothing is closed: %s line %lld, record %llu: %s", v->fault.file,
                   (long long)v->fault.line, (unsigned long long)v->fault.seq, v->fault.what);
    return v->clean;
}

/* ---- its rows ---- */

static bool add_up(const struct books_ask *ask, const char *words, struct spend *s, struct str *why) {
    struct span bad;
    spend_init(s);
    s->zone = ask->zone;
    s->stop = ask->stop;
    s->from_us = ask->from_us;
    s->to_us = ask->to_us;
    s->counted_sha = sha256_new();
    return spend_groups(s, words, &bad) && audit_read(ask->directory, spend_see, s, why);
}

static void end_sum(struct spend *s, uint8_t digest[SHA256_BYTES]) {
    sha256_end(s->counted_sha, digest);
    s->counted_sha = NULL;
}

/* False: the log cannot be read, or even the coarsest set has too many rows. */
static bool sum_month(const struct books_ask *ask, struct spend *s, char counted[SHA256_HEX_MAX], struct str *why) {
    uint8_t digest[SHA256_BYTES];
    for (size_t i = 0; i < ARRAY_LEN(word_sets); i++) {
        bool good = add_up(ask, word_sets[i], s, why);
        end_sum(s, digest);
        bool fits = !s->too_many && s->rows.n <= BOOKS_ROWS_MAX;
        if (good && fits && !s->overflow) {
            hex_put(digest, sizeof digest, counted);
            return true;
        }
        bool too_large = s->overflow;
        spend_fini(s);
        if (good && !too_large)
            continue;
        if (good)
            str_puts(why, "a sum is too large to be added exactly");
        return false;
    }
    str_printf(why, "%s has more than %zu rows by team and key", ask->month, BOOKS_ROWS_MAX);
    return false;
}

static void put_numbers(const struct spend_sums *t, struct str *out) {
    str_putc(out, '[');
    for (size_t i = 0; i < SPEND_COLUMNS_N; i++)
        str_printf(out, "%s%lld", i ? "," : "", (long long)t->at[i]);
    str_putc(out, ']');
}

static void put_row(const struct spend *s, const struct spend_row *row, struct str *out) {
    str_puts(out, "[[");
    for (size_t i = 0; i < s->n_groups; i++) {
        str_puts(out, i ? "," : "");
        json_put_text(out, span_of(row->texts[i]));
    }
    str_puts(out, "],");
    put_numbers(&row->sums, out);
    str_putc(out, ']');
}

/* ---- records ---- */

struct closing {
    const struct books_ask *ask;
    const struct spend *spend;
    char id[BOOKS_ID_MAX];
    struct sha256 *rows_sha;
    size_t parts;
    struct finance_records *out;
};

static void put_part(struct closing *c, struct str *rows) {
    struct str text;
    str_init(&text, 2 * BOOKS_PART_BYTES);
    json_put_str(&text, "close", c->id);
    json_put_str(&text, "month", c->ask->month);
    json_put_i64(&text, "part", (int64_t)c->parts++);
    str_putc(rows, ']');
    json_put_raw(&text, "rows", str_span(rows));
    sha256_add(c->rows_sha, str_span(rows));
    str_clear(rows);
    finance_records_put(c->out, (struct finance_record){.kind = AUDIT_ROLLUP}, &text);
}

static void put_parts(struct closing *c) {
    struct spend_row **rows = spend_sorted(c->spend);
    struct str text;
    str_init(&text, BOOKS_PART_BYTES + (size_t)SPEND_GROUPS_MAX * 6 * SPEND_TEXT_MAX + 4096);
    for (size_t i = 0; rows[i]; i++) {
        str_putc(&text, text.n ? ',' : '[');
        put_row(c->spend, rows[i], &text);
        if (text.n >= BOOKS_PART_BYTES || !rows[i + 1])
            put_part(c, &text);
    }
    str_fini(&text);
    free(rows);
}

static void put_list(struct str *out, const char *name, const char *const *texts, size_t n) {
    json_put_raw(out, name, SPAN("["));
    for (size_t i = 0; i < n; i++) {
        str_puts(out, i ? "," : "");
        json_put_text(out, span_of(texts[i]));
    }
    str_putc(out, ']');
}

static void put_shape(const struct spend *s, struct str *out) {
    const char *words[SPEND_GROUPS_MAX], **prices = xcalloc(s->price_digests.n + 1, sizeof(const char *));
    size_t n = 0;
    for (size_t i = 0; i < s->n_groups; i++)
        words[i] = s->groups[i].title;
    for (struct map_entry *e = map_next(&s->price_digests, NULL); e; e = map_next(&s->price_digests, e))
        prices[n++] = e->key;
    put_list(out, "price_digests", prices, n);
    put_list(out, "words", words, s->n_groups);
    put_list(out, "columns", spend_columns, SPEND_COLUMNS_N);
    json_put_raw(out, "total", SPAN_NONE);
    put_numbers(&s->total, out);
    free(prices);
}

static void put_log(const struct spend *s, const struct audit_verdict *v, struct str *out) {
    char time[CLOCK_TEXT_MAX];
    json_put_raw(out, "log", SPAN("{"));
    json_put_str(out, "first", s->records ? clock_text(s->first_us, time) : NULL);
    json_put_str(out, "last", s->records ? clock_text(s->last_us, time) : NULL);
    json_put_i64(out, "records", s->records);
    json_put_i64(out, "head_seq", (int64_t)v->head_seq);
    json_put_str(out, "head_hash", v->head_hash);
    json_put_i64(out, "unsealed", (int64_t)v->unsealed);
    str_putc(out, '}');
}

static void put_close(struct closing *c, const struct audit_verdict *v, const char *counted) {
    const struct spend *s = c->spend;
    char time[CLOCK_TEXT_MAX], rows[SHA256_HEX_MAX];
    uint8_t digest[SHA256_BYTES];
    struct str text;
    str_init(&text, (size_t)1 << 20);
    sha256_end(c->rows_sha, digest);
    json_put_str(&text, "close", c->id);
    json_put_str(&text, "month", c->ask->month);
    json_put_str(&text, "timezone", zone_name(s->zone));
    json_put_str(&text, "from", clock_text(s->from_us, time));
    json_put_str(&text, "to", clock_text(s->to_us, time));
    json_put_str(&text, "closed_at", clock_text(c->ask->now_us, time));
    put_log(s, v, &text);
    json_put_i64(&text, "counted", s->counted);
    json_put_str(&text, "counted_digest", counted);
    put_shape(s, &text);
    json_put_i64(&text, "parts", (int64_t)c->parts);
    json_put_str(&text, "rows_digest", hex_put(digest, sizeof digest, rows));
    finance_records_put(c->out, (struct finance_record){.kind = AUDIT_CLOSE}, &text);
}

static bool make_records(const struct books_ask *ask, const struct audit_verdict *v, struct finance_records *out,
                         struct spend_sums *total, struct str *why) {
    struct spend s;
    char counted[SHA256_HEX_MAX];
    uint8_t id[16];
    if (!sum_month(ask, &s, counted, why))
        return false;
    struct closing c = {.ask = ask, .spend = &s, .rows_sha = sha256_new(), .out = out};
    random_bytes(id, sizeof id);
    hex_put(id, sizeof id, c.id);
    put_parts(&c);
    put_close(&c, v, counted);
    *total = s.total;
    spend_fini(&s);
    return true;
}

bool books_close(const struct books_ask *ask, struct finance_records *out, struct spend_sums *total, struct str *why) {
    struct audit_verdict v;
    struct books_ask asked = *ask;
    if (!asked.to_us && !spend_month(ask->zone, ask->month, &asked.from_us, &asked.to_us)) {
        str_printf(why, "--month takes YYYY-MM, not %s", ask->month);
        return false;
    }
    if (asked.now_us < asked.to_us) {
        str_printf(why, "%s is not over yet", ask->month);
        return false;
    }
    return is_open(&asked, why) && none_open(&asked, why) && verifies(&asked, &v, why) &&
           make_records(&asked, &v, out, total, why);
}
