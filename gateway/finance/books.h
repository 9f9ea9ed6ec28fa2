/* BOOKS: months that were closed.
 *
 *     close M -> rollup, rollup, ... (rows of the month by BOOKS_WORDS) -> close (totals, digests, what the log was then)
 *
 * A closed month is told by its rollups for ever after, also when its settles are gone; a correction that comes later is
 * booked in the open month. A rollup counts only with its close. */
#ifndef TOLLGATE_FINANCE_BOOKS_H
#define TOLLGATE_FINANCE_BOOKS_H

#include "gateway/finance/records.h"
#include "gateway/finance/spend.h"

#define BOOKS_ID_MAX 33
#define BOOKS_ROWS_MAX ((size_t)40000)       /* of one month; with more a coarser set of words is taken */
#define BOOKS_BYTES_MAX ((size_t)256 << 20)  /* of all closes and rollups that are read at once */
#define BOOKS_PART_BYTES ((size_t)256 << 10) /* of one rollup */

struct book_part { /* a rollup's record */
    char *text;    /* owned; NULL: it was not asked for, or is missing */
    size_t n;
    int64_t written_us; /* its newest copy */
};
struct book {
    char id[BOOKS_ID_MAX], month[8], zone[64];
    int64_t from_us, to_us, closed_us;
    int64_t written_us; /* the oldest of the newest copies of its records */
    char *close;        /* owned: the record */
    size_t n_close;
    struct book_part *parts; /* owned; by their numbers */
    size_t n_parts;
};
struct books {
    struct book *all; /* owned; by when they were closed; no two of them overlap */
    size_t n;
    size_t bytes;
};
/* All closed months of a directory; with a month only that one's rollups are kept, and with "" nobody's. */
must_check bool books_read(const char *directory, const char *month, struct books *out, struct str *why);
void books_free(struct books *b);
/* A whole month of the zone. */
const struct book *books_find(const struct books *b, const char *month, const char *zone);
/* Whether its rollups are those that its close names; else a sentence. */
must_check bool book_is_whole(const struct book *b, struct str *why);

/* Whether its rollups can tell the words of a report; else a sentence. */
bool book_has_words(const struct book *b, const struct spend *s, struct str *why);
/* Adds the rows of a closed month; false with a sentence: a word that its rollups do not have, or rollups that do not
 * agree with their close. */
must_check bool book_add(const struct book *b, struct spend *s, struct str *why);
/* What the report's head says of it: its log, prices and range go into `s` and `log`, a sentence into `out`. */
void book_head(const struct book *b, struct spend *s, struct spend_log *log, struct str *out);

/* The records that close a month: the last one is the close. False with a sentence: not over, closed already, requests of
 * it still open, or a log that does not verify. */
struct books_ask {
    const char *directory, *month;
    const struct zone *zone;
    int64_t now_us;
    const atomic_bool *stop;
    int64_t from_us, to_us; /* what books of another zone leave of the month; both 0: all of it */
};
must_check bool books_close(const struct books_ask *ask, struct finance_records *out, struct spend_sums *total,
                            struct str *why);

/* What retention would take, one step at a time: each step says what is to be written into the log, or that nothing is.
 *
 *     step -> records: they are written, and a step again | none: there is nothing to do until `unrolled_us` is due
 *
 * Months that nobody closed are closed; closes and rollups that are about to go are written again, member by member, until
 * the ledger is kept no longer. Whatever becomes of a step, all before its `unrolled_us` may go: what stands from there on
 * tells it, or it is older than the ledger is kept. */
#define BOOKS_AHEAD_US (3 * US_PER_DAY) /* before retention reaches a record */
struct books_keep {
    const char *directory;
    int64_t now_us, audit_keep_us, ledger_keep_us;
    bool looks; /* somebody else writes: only `unrolled_us` is asked for */
    const atomic_bool *stop;
};
struct books_kept {
    struct finance_records records;
    bool closes; /* the records close `month`; else they carry it on, and say themselves who closed it */
    char month[8];
    int64_t unrolled_us;
};
/* Whether a step has something to do, as far as is known without the log. */
bool books_keep_is_due(int64_t unrolled_us, int64_t now_us, int64_t audit_keep_us);
/* False with a sentence: a month could not be closed, or the log not be read. */
must_check bool books_keep_step(const struct books_keep *ask, struct books_kept *out, struct str *why);

#endif
