/* Keeping what retention would take: months that nobody closed are closed, closes and rollups that are about to go are
 * written again at the end of the log. Always true here: what a step says may go is told by rollups that stand in what
 * stays, or is older than the ledger is kept. */
#include "gateway/finance/books.h"
#include <stdio.h>
#include <stdlib.h>

#define MONTHS_MAX 2400 /* of a century, each of them in two pieces */

struct keeping {
    const struct books_keep *ask;
    const struct books *books;
    int64_t since_us; /* what is older is let go */
    int64_t edge_us;  /* what is older is about to go */
    struct books_kept *out;
    struct str *why;
};

static int64_t smaller(int64_t a, int64_t b) {
    return a < b ? a : b;
}

static int64_t larger(int64_t a, int64_t b) {
    return a > b ? a : b;
}

/* ---- records that are about to go ---- */

/* The members of a record that are not its frame, as they stand; with what it was when it was first written. */
static void put_again(struct span text, struct str *out) {
    enum { SEQ, TIME, UPTIME, KIND, PREV, HASH, CARRIED, N };
    static const struct span frame[N] = {SPAN("seq"),  SPAN("time"), SPAN("uptime_us"), SPAN("kind"),
                                         SPAN("prev"), SPAN("hash"), SPAN("carried")};
    struct json v, of[N];
    struct span rest = text, name;
    audit_pick(text, frame, of, N);
    while (audit_next(&rest, &name, &v)) {
        size_t i = 0;
        while (i < CARRIED && !span_is(name, frame[i].at))
            i++;
        if (i == CARRIED)
            str_printf(out, "%s\"%.*s\":%.*s", out->n ? "," : "", SPAN_ARG(name), SPAN_ARG(v.raw));
    }
    if (of[CARRIED].kind == JSON_NONE)
        str_printf(out, ",\"carried\":{\"seq\":%.*s,\"time\":%.*s,\"hash\":%.*s}", SPAN_ARG(of[SEQ].raw),
                   SPAN_ARG(of[TIME].raw), SPAN_ARG(of[HASH].raw));
}

#define CARRIED_MORE_BYTES 1024 /* what `carried` adds to a record */

static void carry(struct keeping *k, enum audit_kind kind, const char *record, size_t n) {
    struct str text;
    str_init(&text, n + CARRIED_MORE_BYTES);
    put_again(span_from(record, n), &text);
    finance_records_put(&k->out->records, (struct finance_record){.kind = kind}, &text);
}

static bool carry_book(struct keeping *k, const struct book *wanted) {
    struct books whole;
    const struct book *b = NULL;
    snprintf(k->out->month, sizeof k->out->month, "%s", wanted->month);
    if (!books_read(k->ask->directory, wanted->month, &whole, k->why))
        return false;
    for (size_t i = 0; i < whole.n; i++)
        if (strcmp(whole.all[i].id, wanted->id) == 0)
            b = &whole.all[i];
    bool good = b && book_is_whole(b, k->why);
    for (size_t i = 0; good && i < b->n_parts; i++)
        carry(k, AUDIT_ROLLUP, b->parts[i].text, b->parts[i].n);
    if (good)
        carry(k, AUDIT_CLOSE, b->close, b->n_close);
    books_free(&whole);
    return good;
}

/* The one that goes first of those that are still to be kept. */
static const struct book *first_leaving(const struct keeping *k) {
    const struct book *first = NULL;
    for (size_t i = 0; i < k->books->n; i++) {
        const struct book *b = &k->books->all[i];
        if (b->to_us > k->since_us && (!first || b->written_us < first->written_us))
            first = b;
    }
    return first;
}

/* ---- months that nobody closed ---- */

/* The first instant from `us` on that no book tells. */
static int64_t first_open(const struct books *books, int64_t us) {
    for (int n = 0; n < MONTHS_MAX; n++) {
        const struct book *telling = NULL;
        for (size_t i = 0; i < books->n && !telling; i++)
            if (us >= books->all[i].from_us && us < books->all[i].to_us)
                telling = &books->all[i];
        if (!telling)
            break;
        us = telling->to_us;
    }
    return us;
}

/* Months go on in the zone of the books before them, else of those after: months of two zones overlap. */
static const struct zone *zone_at(const struct books *books, int64_t us) {
    const struct book *near = NULL;
    for (size_t i = 0; i < books->n; i++) {
        const struct book *b = &books->all[i];
        bool before = b->to_us <= us, near_before = near && near->to_us <= us;
        if (!near || (before && (!near_before || b->to_us > near->to_us)) ||
            (!before && !near_before && b->from_us < near->from_us))
            near = b;
    }
    const struct zone *z = near ? zone_get(near->zone) : NULL;
    return z ? z : zone_get("UTC");
}

static bool close_month(struct keeping *k, int64_t open_us) {
    char text[CLOCK_TEXT_MAX];
    struct spend_sums total;
    struct books_ask one = {.directory = k->ask->directory,
                            .month = k->out->month,
                            .zone = zone_at(k->books, open_us),
                            .now_us = k->ask->now_us,
                            .stop = k->ask->stop};
    spend_local(one.zone, open_us, text);
    snprintf(k->out->month, sizeof k->out->month, "%.7s", text);
    if (!spend_month(one.zone, one.month, &one.from_us, &one.to_us))
        return false;
    for (size_t i = 0; i < k->books->n; i++) {
        const struct book *b = &k->books->all[i];
        if (b->to_us <= open_us)
            one.from_us = larger(one.from_us, b->to_us);
        else
            one.to_us = smaller(one.to_us, b->from_us);
    }
    k->out->closes = true;
    return books_close(&one, &k->out->records, &total, k->why);
}

/* ---- a step ---- */

static bool step(struct keeping *k, int64_t oldest_us) {
    const struct book *leaving = first_leaving(k);
    int64_t open_us = first_open(k->books, larger(oldest_us, k->since_us));
    k->out->unrolled_us = leaving ? smaller(open_us, leaving->written_us) : open_us;
    if (k->ask->looks || k->out->unrolled_us >= k->edge_us)
        return true;
    return leaving && leaving->written_us < k->edge_us ? carry_book(k, leaving) : close_month(k, open_us);
}

bool books_keep_is_due(int64_t unrolled_us, int64_t now_us, int64_t audit_keep_us) {
    return now_us - audit_keep_us + BOOKS_AHEAD_US > unrolled_us;
}

bool books_keep_step(const struct books_keep *ask, struct books_kept *out, struct str *why) {
    int64_t oldest_us;
    struct books books;
    struct keeping k = {.ask = ask,
                        .books = &books,
                        .since_us = ask->now_us - ask->ledger_keep_us,
                        .edge_us = ask->now_us - ask->audit_keep_us + BOOKS_AHEAD_US,
                        .out = out,
                        .why = why};
    *out = (struct books_kept){.unrolled_us = 1}; /* 0 would be no bound */
    if (!audit_oldest(ask->directory, &oldest_us, why))
        return false;
    if (oldest_us >= k.edge_us) {
        out->unrolled_us = smaller(oldest_us, ask->now_us);
        return true;
    }
    if (!books_read(ask->directory, "", &books, why))
        return false;
    bool good = step(&k, oldest_us);
    books_free(&books);
    return good;
}
