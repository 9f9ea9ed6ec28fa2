/* A report over directories of the log: what is asked, and its bytes. Used by the command line and, on a thread of its own,
 * by the admin port; nothing here knows either. */
#ifndef TOLLGATE_FINANCE_REPORT_H
#define TOLLGATE_FINANCE_REPORT_H

#include "gateway/finance/spend.h"

#define REPORT_DIRECTORIES_MAX 64
#define REPORT_MAX_BYTES ((size_t)1 << 30)

/* Words as they were given; NULL: not said. */
struct report_words {
    const char *month, *from, *to, *by, *format, *zone;
};
struct report {
    struct spend spend;
    enum spend_format format;
    char month[8];                                   /* "2026-11"; "": the period is no calendar month */
    const char *directories[REPORT_DIRECTORIES_MAX]; /* borrowed */
    size_t n_directories;
    bool verify;
};

/* Reads the words; false with a sentence in `why`. Finds the zone, so it is for the loop's thread. */
must_check bool report_init(struct report *r, const struct report_words *w, struct str *why);
void report_fini(struct report *r);
/* The report into `out`, and into `head` what stands beside it where the format has no place for it. False with a
 * sentence: the log cannot be read, or the report would be wrong. */
must_check bool report_run(struct report *r, struct str *out, struct str *head, struct str *why);

/* Adds up one directory for what is asked in `s`. `closed` says which months are told by their rollups, since settles of
 * them are gone. */
must_check bool report_sum(struct spend *s, const char *directory, struct str *closed, struct str *why);

#endif
