/* Reading closed months back. Always true here: what is added of a month has the digest that its close names, so a rollup
 * that was changed, lost or doubled is told and never counted. */
#include "gateway/finance/books.h"
#include "gateway/base/hash.h"
#include <stdio.h>
#include <stdlib.h>

#define PARTS_MAX 4096

enum {
    C_ID,
    C_MONTH,
    C_ZONE,
    C_FROM,
    C_TO,
    C_AT,
    C_WHO,
    C_REASON,
    C_LOG,
    C_COUNTED,
    C_COUNTED_DIGEST,
    C_PRICES,
    C_WORDS,
    C_COLUMNS,
    C_PARTS,
    C_ROWS_DIGEST,
    C_PART,
    C_ROWS,
    C_PICKED
};
static const struct span members[C_PICKED] = {[C_ID] = SPAN("close"),
                                              [C_MONTH] = SPAN("month"),
                                              [C_ZONE] = SPAN("timezone"),
                                              [C_FROM] = SPAN("from"),
                                              [C_TO] = SPAN("to"),
                                              [C_AT] = SPAN("closed_at"),
                                              [C_WHO] = SPAN("who"),
                                              [C_REASON] = SPAN("reason"),
                                              [C_LOG] = SPAN("log"),
                                              [C_COUNTED] = SPAN("counted"),
                                              [C_COUNTED_DIGEST] = SPAN("counted_digest"),
                                              [C_PRICES] = SPAN("price_digests"),
                                              [C_WORDS] = SPAN("words"),
                                              [C_COLUMNS] = SPAN("columns"),
                                              [C_PARTS] = SPAN("parts"),
                                              [C_ROWS_DIGEST] = SPAN("rows_digest"),
                                              [C_PART] = SPAN("part"),
                                              [C_ROWS] = SPAN("rows")};

static void text_of(struct json v, char *out, size_t n) {
    char space[SPEND_TEXT_MAX];
    struct span text = spend_text(v, space);
    snprintf(out, n, "%.*s", SPAN_ARG(text));
}

/* ---- from the log ---- */

struct reading {
    struct books *books;
    const char *month;
    struct str *why;
    bool good;
};

static struct book *find_id(struct books *b, const char *id) {
    for (size_t i = 0; i < b->n; i++)
        if (strcmp(b->all[i].id, id) == 0)
            return &b->all[i];
    b->all = xrealloc(b->all, (b->n + 1) * sizeof *b->all);
    b->all[b->n] = (struct book){0};
    snprintf(b->all[b->n].id, BOOKS_ID_MAX, "%s", id);
    return &b->all[b->n++];
}

static bool copy_line(struct reading *g, struct span text, char **to, size_t *n) {
    g->books->bytes += text.n;
    if (g->books->bytes > BOOKS_BYTES_MAX) {
        str_puts(g->why, "the closed months of the log are larger than can be read at once: ask for one month");
        return g->good = false;
    }
    *to = xstrndup(text.at, text.n);
    *n = text.n;
    return true;
}

static int64_t later(int64_t a, int64_t b) {
    return a > b ? a : b;
}

static bool keep_close(struct reading *g, struct span text, const struct json *got, struct book *b, int64_t time_us) {
    b->written_us = later(b->written_us, time_us);
    if (b->close) /* carried into a later file of the log: the same close */
        return true;
    text_of(got[C_MONTH], b->month, sizeof b->month);
    text_of(got[C_ZONE], b->zone, sizeof b->zone);
    if (!spend_instant(got[C_FROM], &b->from_us) || !spend_instant(got[C_TO], &b->to_us))
        b->from_us = b->to_us = 0;
    if (!spend_instant(got[C_AT], &b->closed_us))
        b->closed_us = time_us;
    return copy_line(g, text, &b->close, &b->n_close);
}

static struct book_part *part_of(struct book *b, size_t part) {
    if (part >= b->n_parts)
        b->parts = xrealloc(b->parts, (part + 1) * sizeof *b->parts);
    for (; b->n_parts <= part; b->n_parts++)
        b->parts[b->n_parts] = (struct book_part){0};
    return &b->parts[part];
}

static bool keep_part(struct reading *g, struct span text, const struct json *got, struct book *b, int64_t time_us) {
    char month[8];
    int64_t number = spend_number(got[C_PART]);
    if (number < 0 || number >= PARTS_MAX)
        return true;
    struct book_part *part = part_of(b, (size_t)number);
    part->written_us = later(part->written_us, time_us);
    text_of(got[C_MONTH], month, sizeof month);
    bool wanted = !part->text && (!g->month || strcmp(month, g->month) == 0);
    return wanted ? copy_line(g, text, &part->text, &part->n) : true;
}

static bool see(const struct audit_line *l, void *user) {
    struct reading *g = user;
    struct audit_frame frame;
    struct json got[C_PICKED];
    char id[BOOKS_ID_MAX];
    int64_t time_us;
    if (!audit_frame(l->text, &frame) || (frame.kind != AUDIT_CLOSE && frame.kind != AUDIT_ROLLUP) ||
        !clock_parse(frame.time, &time_us))
        return true;
    audit_pick(l->text, members, got, C_PICKED);
    text_of(got[C_ID], id, sizeof id);
    struct book *b = find_id(g->books, id);
    return (frame.kind == AUDIT_CLOSE ? keep_close : keep_part)(g, l->text, got, b, time_us);
}

static void free_book(struct book *b) {
    for (size_t i = 0; i < b->n_parts; i++)
        free(b->parts[i].text);
    free(b->parts);
    free(b->close);
}

static int by_closing(const void *left, const void *right) {
    const struct book *a = left, *b = right;
    int order = (a->closed_us > b->closed_us) - (a->closed_us < b->closed_us);
    return order ? order : strcmp(a->id, b->id);
}

static bool overlaps(const struct book *some, size_t n, const struct book *one) {
    for (size_t i = 0; i < n; i++)
        if (some[i].from_us < one->to_us && one->from_us < some[i].to_us)
            return true;
    return false;
}

/* Rollups of a close that was never written go; of a month that two processes closed at once the first counts. */
static void put_in_order(struct books *b) {
    size_t n = 0;
    if (b->n)
        qsort(b->all, b->n, sizeof *b->all, by_closing);
    for (size_t i = 0; i < b->n; i++) {
        struct book *one = &b->all[i];
        for (size_t p = 0; p < one->n_parts; p++)
            if (one->parts[p].written_us < one->written_us)
                one->written_us = one->parts[p].written_us;
        if (one->close && !overlaps(b->all, n, one))
            b->all[n++] = *one;
        else
            free_book(one);
    }
    b->n = n;
}

bool books_read(const char *directory, const char *month, struct books *out, struct str *why) {
    struct reading g = {out, month, why, true};
    *out = (struct books){0};
    bool good = audit_read(directory, see, &g, why) && g.good;
    put_in_order(out);
    if (!good)
        books_free(out);
    return good;
}

void books_free(struct books *b) {
    for (size_t i = 0; i < b->n; i++)
        free_book(&b->all[i]);
    free(b->all);
    *b = (struct books){0};
}

const struct book *books_find(const struct books *b, const char *month, const char *zone) {
    const struct zone *z = zone_get(zone);
    int64_t from_us, to_us;
    if (!z || !spend_month(z, month, &from_us, &to_us))
        return NULL;
    for (size_t i = 0; i < b->n; i++)
        if (b->all[i].from_us == from_us && b->all[i].to_us == to_us && strcmp(b->all[i].zone, zone) == 0)
            return &b->all[i];
    return NULL;
}

/* ---- into a bill ---- */

#define WORDS_MAX 16

struct adding {
    const struct book *book;
    struct spend *spend;
    int places[BY_N];                 /* of a word among the rollup's; -1: it has no such word */
    int columns[2 * SPEND_COLUMNS_N]; /* of the rollup: ours; -1: none of ours */
    size_t n_words, n_columns;
};

static int index_of(struct json v, const char *const *names, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (v.kind == JSON_STRING && span_is(span_from(v.raw.at + 1, v.raw.n - 2), names[i]))
            return (int)i;
    return -1;
}

static void read_shape(struct adding *a, const struct json *got) {
    struct span rest = got[C_WORDS].raw, name;
    struct json v;
    for (size_t i = 0; i < BY_N; i++)
        a->places[i] = -1;
    while (a->n_words < WORDS_MAX && audit_next(&rest, &name, &v)) {
        int word = index_of(v, spend_words, BY_N);
        if (word >= 0)
            a->places[word] = (int)a->n_words;
        a->n_words++;
    }
    rest = got[C_COLUMNS].raw;
    while (a->n_columns < ARRAY_LEN(a->columns) && audit_next(&rest, &name, &v))
        a->columns[a->n_columns++] = index_of(v, spend_columns, SPEND_COLUMNS_N);
}

/* The rollup's word from which a word of the report can be told. */
static enum spend_by source_of(enum spend_by by) {
    if (by == BY_BACKEND || by == BY_ADAPTER)
        return BY_TARGET;
    if (by == BY_LABEL)
        return BY_LABELS;
    return by == BY_MONTH ? BY_DAY : by;
}

static bool has_words(const struct adding *a, const struct spend *s, struct str *why) {
    for (size_t i = 0; i < s->n_groups; i++) {
        const struct spend_group *g = &s->groups[i];
        if (source_of(g->by) == BY_DAY && strcmp(a->book->zone, zone_name(s->zone)) != 0) {
            str_printf(why, "the books of %s are closed in the time zone %s: ask for its days and months there",
                       a->book->month, a->book->zone);
            return false;
        }
        if (g->by == BY_MONTH || a->places[source_of(g->by)] >= 0)
            continue;
        str_printf(why, "the books of %s are closed and their rollups do not have the word %s", a->book->month,
                   g->title);
        return false;
    }
    return true;
}

static struct span derived(const struct adding *a, const struct spend_group *g, struct span text,
                           char space[SPEND_TEXT_MAX]) {
    struct json labels = {JSON_OBJECT, text}, v;
    struct span wanted = span_of(g->label ? g->label : "");
    if (g->by == BY_MONTH)
        return span_of(a->book->month);
    if (g->by == BY_BACKEND || g->by == BY_ADAPTER)
        return spend_part_of_target(g->by, text);
    if (g->by != BY_LABEL)
        return text;
    if (text.n == 0 || text.at[0] != '{')
        return text;
    audit_pick(labels.raw, &wanted, &v, 1);
    return spend_text(v, space);
}

static void add_row(struct adding *a, struct json row) {
    char space[WORDS_MAX][SPEND_TEXT_MAX], more[SPEND_GROUPS_MAX][SPEND_TEXT_MAX];
    struct span words[WORDS_MAX], texts[SPEND_GROUPS_MAX], rest = row.raw, name;
    struct spend_sums sums = {0};
    struct json texts_at, sums_at, v;
    size_t n = 0, c = 0;
    if (!audit_next(&rest, &name, &texts_at) || !audit_next(&rest, &name, &sums_at))
        return;
    for (rest = texts_at.raw; n < a->n_words && audit_next(&rest, &name, &v); n++)
        words[n] = spend_text(v, space[n]);
    for (rest = sums_at.raw; c < a->n_columns && audit_next(&rest, &name, &v); c++)
        if (a->columns[c] >= 0)
            sums.at[a->columns[c]] = spend_number(v);
    for (size_t i = 0; i < a->spend->n_groups; i++) {
        const struct spend_group *g = &a->spend->groups[i];
        int place = a->places[source_of(g->by)];
        texts[i] = derived(a, g, place >= 0 && (size_t)place < n ? words[place] : SPAN(SPEND_NONE), more[i]);
    }
    spend_add(a->spend, texts, &sums);
}

static bool agrees(const struct book *b, const struct json *got) {
    struct sha256 *sha = sha256_new();
    uint8_t digest[SHA256_BYTES];
    char hex[SHA256_HEX_MAX];
    struct json part[C_PICKED];
    for (size_t i = 0; i < b->n_parts; i++) {
        audit_pick(span_from(b->parts[i].text, b->parts[i].n), members, part, C_PICKED);
        sha256_add(sha, part[C_ROWS].raw);
    }
    sha256_end(sha, digest);
    return (int64_t)b->n_parts == spend_number(got[C_PARTS]) &&
           json_is(got[C_ROWS_DIGEST], hex_put(digest, sizeof digest, hex));
}

bool book_is_whole(const struct book *b, struct str *why) {
    struct json got[C_PICKED];
    audit_pick(span_from(b->close, b->n_close), members, got, C_PICKED);
    bool whole = agrees(b, got);
    if (!whole)
        str_printf(why, "the rollups of %s do not agree with their close: they were changed, or one is missing",
                   b->month);
    return whole;
}

bool book_has_words(const struct book *b, const struct spend *s, struct str *why) {
    struct adding a = {.book = b};
    struct json got[C_PICKED];
    audit_pick(span_from(b->close, b->n_close), members, got, C_PICKED);
    read_shape(&a, got);
    return has_words(&a, s, why);
}

bool book_add(const struct book *b, struct spend *s, struct str *why) {
    struct adding a = {.book = b, .spend = s};
    struct json got[C_PICKED], part[C_PICKED], row;
    struct span rest, name;
    audit_pick(span_from(b->close, b->n_close), members, got, C_PICKED);
    read_shape(&a, got);
    if (!has_words(&a, s, why) || !book_is_whole(b, why))
        return false;
    for (size_t i = 0; i < b->n_parts; i++) {
        audit_pick(span_from(b->parts[i].text, b->parts[i].n), members, part, C_PICKED);
        for (rest = part[C_ROWS].raw; audit_next(&rest, &name, &row);)
            add_row(&a, row);
    }
    return true;
}

/* ---- its head ---- */

static void read_log(const struct json *got, struct spend *s, struct spend_log *log) {
    static const struct span names[] = {SPAN("first"),    SPAN("last"),      SPAN("records"),
                                        SPAN("head_seq"), SPAN("head_hash"), SPAN("unsealed")};
    struct json v[ARRAY_LEN(names)];
    int64_t first_us, last_us;
    audit_pick(got[C_LOG].kind == JSON_OBJECT ? got[C_LOG].raw : SPAN_NONE, names, v, ARRAY_LEN(names));
    if (spend_instant(v[0], &first_us) && first_us < s->first_us)
        s->first_us = first_us;
    if (spend_instant(v[1], &last_us) && last_us > s->last_us)
        s->last_us = last_us;
    s->records += spend_number(v[2]);
    *log = (struct spend_log){.checked = true, .verdict = {.clean = true}};
    log->verdict.head_seq = (uint64_t)spend_number(v[3]);
    text_of(v[4], log->verdict.head_hash, sizeof log->verdict.head_hash);
    log->verdict.unsealed = (uint64_t)spend_number(v[5]);
}

void book_head(const struct book *b, struct spend *s, struct spend_log *log, struct str *out) {
    char at[CLOCK_TEXT_MAX], who[SPEND_TEXT_MAX], reason[SPEND_TEXT_MAX], rows[SHA256_HEX_MAX], counted[SHA256_HEX_MAX];
    char space[SPEND_TEXT_MAX];
    struct json got[C_PICKED], v;
    struct span rest, name;
    audit_pick(span_from(b->close, b->n_close), members, got, C_PICKED);
    read_log(got, s, log);
    for (rest = got[C_PRICES].raw; audit_next(&rest, &name, &v);)
        map_put(&s->price_digests, spend_text(v, space), s);
    text_of(got[C_AT], at, sizeof at);
    text_of(got[C_WHO], who, sizeof who);
    text_of(got[C_REASON], reason, sizeof reason);
    text_of(got[C_ROWS_DIGEST], rows, sizeof rows);
    text_of(got[C_COUNTED_DIGEST], counted, sizeof counted);
    str_printf(out, "%s by %s: %s; told by %zu rollups %s, made of %lld records %s", at, who, reason, b->n_parts, rows,
               (long long)spend_number(got[C_COUNTED]), counted);
}
