/* The bill: settle records summed by groups. Exact nano-dollars; nothing but settle records counts. */
#ifndef TOLLGATE_CLI_SPEND_H
#define TOLLGATE_CLI_SPEND_H

#include "audit/audit.h"

#define SPEND_GROUPS_MAX 8 /* columns of --by */

enum spend_by {
    BY_TEAM,
    BY_KEY,
    BY_OWNER,
    BY_ALIAS,
    BY_TARGET,
    BY_MODEL,
    BY_ENDPOINT,
    BY_DAY,
    BY_MONTH,
    BY_HOUR,
    BY_LABEL
};
struct spend_group {
    enum spend_by by;
    const char *title; /* "team", "label:feature"; borrowed */
    const char *label; /* BY_LABEL: its name */
};
struct spend_sums {
    int64_t requests, cost_nanousd, estimated, estimated_nanousd, in_tok, out_tok;
};
struct spend_row {
    char *groups[SPEND_GROUPS_MAX]; /* owned */
    struct spend_sums sums;
};
struct spend {
    struct spend_group groups[SPEND_GROUPS_MAX];
    size_t n_groups;
    const struct zone *zone;
    int64_t from_us, to_us; /* half-open; by the instant of the admit */

    struct map rows; /* group texts -> struct spend_row */
    struct spend_sums total;
    struct map price_digests;           /* of the settles counted */
    int64_t first_us, last_us, records; /* of the log; first_us INT64_MAX: empty */
    bool overflow;                      /* a sum left int64: the report is not to be used */
};

/* Reads "team,label:feature"; false with the bad word in *bad (borrowed from text). */
must_check bool spend_groups(struct spend *s, const char *text, struct span *bad);
void spend_init(struct spend *s);
void spend_fini(struct spend *s);
bool spend_see(const struct audit_line *l, void *spend); /* for audit_read */
struct spend_row **spend_sorted(const struct spend *s);  /* by group texts; the array is the caller's */

/* What the report says of the log itself. */
struct spend_log {
    const char *directory;
    struct audit_verdict verdict;
};
enum spend_format { SPEND_TABLE, SPEND_CSV, SPEND_JSON };
/* Appends the report. CSV has no head: spend_print_head gives it for standard error. */
void spend_print(const struct spend *s, const struct spend_log *logs, size_t n_logs, enum spend_format format,
                 struct str *out);
void spend_print_head(const struct spend *s, const struct spend_log *logs, size_t n_logs, struct str *out);

#endif
