/* THE BILL: what was spent, recomputed from the audit log.
 *
 *     settle, adjust --> one entry a request, or one a try where a try's own words are asked for --> rows by groups
 *     close + rollup --> rows of a month whose books are closed: the same for ever, whatever becomes of its settles
 *
 * Exact nano-dollars, no floating point. Whatever the groups are, the rows' sums are the total's: a request that had
 * several tries is cut so that the last one gets what the others leave. A settle belongs to the instant of its admit. */
#ifndef TOLLGATE_FINANCE_SPEND_H
#define TOLLGATE_FINANCE_SPEND_H

#include "audit/audit.h"
#include "gateway/base/clock.h"
#include <stdatomic.h>

#define SPEND_GROUPS_MAX 14 /* words of --by */
#define SPEND_TEXT_MAX 1024 /* bytes of one group's text: no name in a record is longer, save all labels together */
#define SPEND_ROWS_MAX ((size_t)250000) /* rows of one report: what bounds its memory */
#define SPEND_NONE "(none)"

/* Words of --by: enum, word, member of a record (NULL: computed). Those from TARGET to BACKEND are words of a try. */
#define SPEND_WORDS(X)                                                                                                 \
    X(TEAM, "team", "team")                                                                                            \
    X(KEY, "key", "key_id")                                                                                            \
    X(OWNER, "owner", "owner")                                                                                         \
    X(CLIENT, "client", "client")                                                                                      \
    X(FAMILY, "client_family", "client_family")                                                                        \
    X(END_USER, "end_user", "end_user")                                                                                \
    X(ALIAS, "alias", "alias")                                                                                         \
    X(ARM, "arm", "arm")                                                                                               \
    X(MODEL, "model", "model")                                                                                         \
    X(ENDPOINT, "endpoint", "endpoint")                                                                                \
    X(CACHE, "cache", "cache")                                                                                         \
    X(DEGRADED, "degraded", "degraded")                                                                                \
    X(TARGET, "target", NULL)                                                                                          \
    X(UPSTREAM_KEY, "upstream_key", NULL)                                                                              \
    X(ADAPTER, "adapter", NULL)                                                                                        \
    X(BACKEND, "backend", NULL)                                                                                        \
    X(CHARGE, "charge", NULL)                                                                                          \
    X(LABELS, "labels", NULL)                                                                                          \
    X(HOUR, "hour", NULL)                                                                                              \
    X(DAY, "day", NULL)                                                                                                \
    X(MONTH, "month", NULL)                                                                                            \
    X(LABEL, "label:NAME", NULL)

enum spend_by {
#define X(name, word, member) BY_##name,
    SPEND_WORDS(X)
#undef X
        BY_N
};
extern const char *const spend_words[BY_N];

struct spend_group {
    enum spend_by by;
    const char *title; /* "team", "label:feature"; owned */
    const char *label; /* BY_LABEL: its name, inside title */
};

/* What is added up. `cached`: requests answered from the cache or along with another; an amount behind degraded,
 * estimated and overrun is the whole cost of the requests so marked. */
#define SPEND_COLUMNS(X)                                                                                               \
    X(requests)                                                                                                        \
    X(tries)                                                                                                           \
    USAGE_LINES(X)                                                                                                     \
    X(reasoning)                                                                                                       \
    X(cost_nanousd)                                                                                                    \
    X(list_nanousd)                                                                                                    \
    X(saved_nanousd)                                                                                                   \
    X(cached_requests)                                                                                                 \
    X(degraded_requests)                                                                                               \
    X(degraded_nanousd)                                                                                                \
    X(estimated_requests)                                                                                              \
    X(estimated_nanousd)                                                                                               \
    X(overrun_requests)                                                                                                \
    X(overrun_nanousd)                                                                                                 \
    X(adjusts)                                                                                                         \
    X(adjusted_nanousd)
enum spend_column {
#define X(name) SPEND_##name,
    SPEND_COLUMNS(X)
#undef X
        SPEND_COLUMNS_N
};
extern const char *const spend_columns[SPEND_COLUMNS_N];
struct spend_sums {
    int64_t at[SPEND_COLUMNS_N];
};
int64_t spend_in_tok(const struct spend_sums *t);
int64_t spend_out_tok(const struct spend_sums *t);

struct spend_row {
    struct spend_sums sums;
    const char *texts[SPEND_GROUPS_MAX]; /* one a group, in `bytes` */
    char bytes[];
};

struct spend_period { /* of a month whose books are closed and whose settles are not to be counted */
    int64_t from_us, to_us;
};

struct spend {
    struct spend_group groups[SPEND_GROUPS_MAX];
    size_t n_groups;
    bool by_try; /* a group is a word of a try */
    const struct zone *zone;
    int64_t from_us, to_us; /* half-open; by the instant of the admit, of an adjust by the one it is booked at */
    const struct spend_period *closed; /* borrowed: told by rollups instead */
    size_t n_closed;

    struct map rows; /* group texts, each with a byte 1F behind it -> struct spend_row */
    struct spend_sums total;
    struct map price_digests;           /* of the settles counted */
    int64_t first_us, last_us, records; /* of the log; first_us INT64_MAX: empty */
    int64_t counted;                    /* records that were added */
    struct sha256 *counted_sha;         /* over their hashes, in order; NULL: not asked for */
    int64_t cut_us;          /* until when records of some chain are gone: told by rollups alone; 0: all are there */
    char chain_file[256];    /* the file last begun */
    bool overflow;           /* a sum left int64: the report is not to be used */
    bool too_many;           /* more rows than SPEND_ROWS_MAX: the same */
    const atomic_bool *stop; /* borrowed; NULL: nobody can stop it */
    int64_t quarter;         /* whose local time is kept in `local` */
    char local[CLOCK_TEXT_MAX];
};

/* Reads "team,label:feature"; false with the bad word in *bad (borrowed from text). */
must_check bool spend_groups(struct spend *s, const char *text, struct span *bad);
void spend_init(struct spend *s);
void spend_fini(struct spend *s);
void spend_clear(struct spend *s);                       /* the sums; what is asked stays */
bool spend_see(const struct audit_line *l, void *spend); /* for audit_read */
/* Adds to the row of these texts, and to the total. */
void spend_add(struct spend *s, const struct span *texts, const struct spend_sums *one);
/* Adds all of another's sums, made with the same question. */
void spend_join(struct spend *to, const struct spend *from);
struct spend_row **spend_sorted(const struct spend *s); /* by group texts; the array is the caller's */

/* The half-open instants of "2026-11" in a zone; of a day; false when the text is neither. */
must_check bool spend_month(const struct zone *z, const char *month, int64_t *from_us, int64_t *to_us);
must_check bool spend_day(const struct zone *z, const char *day, int64_t *from_us);
void spend_local(const struct zone *z, int64_t us, char out[CLOCK_TEXT_MAX]); /* "2026-11-30T13:05:00+01:00" */

/* Text of a member: without copying, or decoded into `space` where it has escapes; control characters become '?'. Empty
 * text, and what is no string, is (none). */
struct span spend_text(struct json v, char space[SPEND_TEXT_MAX]);
bool spend_instant(struct json v, int64_t *us);
/* "backend/model@3": all of it, its backend, or its adapter. */
struct span spend_part_of_target(enum spend_by by, struct span target);
int64_t spend_number(struct json v);
/* A try's cost as a signed number of 1/10^12 pico-dollars, from its decimal text; and such a sum in nano-dollars, rounded up. */
#define SPEND_SCALE_DIGITS 12
#define SPEND_SCALED_PER_NANO ((__int128)INT64_C(1000000000000) * PICO_PER_NANO)
must_check bool spend_pico(struct json v, __int128 *scaled);
int64_t spend_ceil_nano(__int128 scaled);

/* What the report says of the log itself. A closed month says what was true when it was closed. */
struct spend_log {
    const char *directory; /* NULL: of a closed month */
    bool checked;          /* the chain was looked at: verdict.clean counts */
    struct audit_verdict verdict;
};
struct spend_head {
    const struct spend_log *logs;
    size_t n_logs;
    const char *closed; /* a sentence of the close; NULL: the period is open */
};
enum spend_format { SPEND_TABLE, SPEND_CSV, SPEND_JSON, SPEND_FOCUS };
/* Appends the report. CSV has no head: spend_print_head gives it for standard error. */
void spend_print(const struct spend *s, const struct spend_head *head, enum spend_format format, struct str *out);
void spend_print_head(const struct spend *s, const struct spend_head *head, struct str *out);
void spend_put_csv(const char *text, struct str *out); /* quoted; a spreadsheet never takes it for a formula */
/* FOCUS has its own groups. */
#define SPEND_FOCUS_GROUPS "day,team,key,target,upstream_key,alias,charge,labels"
void spend_print_focus(const struct spend *s, struct str *out);

#endif
