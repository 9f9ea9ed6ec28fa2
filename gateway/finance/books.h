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

struct book {
    char id[BOOKS_ID_MAX], month[8], zone[64];
    int64_t from_us, to_us;
    char *close; /* owned: the record */
    size_t n_close;
    char **parts; /* owned: the rollups' records, by part */
    size_t *n_part, n_parts;
};
struct books {
    struct book *all; /* owned; by the order of the log */
    size_t n;
    size_t bytes;
};
/* All closed months of a directory; with a month only that one's rollups are kept, and with "" nobody's. */
must_check bool books_read(const char *directory, const char *month, struct books *out, struct str *why);
void books_free(struct books *b);
const struct book *books_find(const struct books *b, const char *month, const char *zone);

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
};
must_check bool books_close(const struct books_ask *ask, struct finance_records *out, struct spend_sums *total,
                            struct str *why);

#endif
