/* Private to conf: the directive table and the reader that walks it.
 *
 *     section = rows + the struct they fill          row = name, type, default, bounds, live or restart, prose, where
 *
 * Rows name sections, so the whole conf is one nested table: what is not in it does not exist. A section may turn its
 * shorthand into the long form before it is read (`shape`), and look at the filled struct afterwards (`done`). */
#ifndef TOLLGATE_CONF_DIRECTIVES_H
#define TOLLGATE_CONF_DIRECTIVES_H

#include "conf/tree.h"

#include <stddef.h>

enum type {
    TYPE_BOOL,
    TYPE_COUNT,       /* int64_t */
    TYPE_WEIGHT,      /* int */
    TYPE_AUTO,        /* int64_t; the word auto is 0 */
    TYPE_LIMIT,       /* int64_t; the word none is CONF_UNLIMITED */
    TYPE_SIZE,        /* int64_t bytes */
    TYPE_DURATION,    /* int64_t microseconds */
    TYPE_DURATIONS,   /* two of them, [first, last]: at offset and at count_offset */
    TYPE_PERCENT,     /* int64_t over FACTOR_ONE */
    TYPE_OF_HUNDRED,  /* the same, written 5 or 0.5 */
    TYPE_PERCENTS,    /* int64_t *, ascending, and their size_t count */
    TYPE_FACTOR,      /* int64_t over FACTOR_ONE, written 0.85 */
    TYPE_MONEY,       /* int64_t nano-dollars */
    TYPE_MONEY_LIMIT, /* the same; none is CONF_UNLIMITED */
    TYPE_PRICE,       /* int64_t pico-dollars a unit */
    TYPE_DATE,        /* int64_t microseconds since 1970 */
    TYPE_WORD,        /* int: the index among the row's words */
    TYPE_SWITCH,      /* bool: the second of the row's two words is true */
    TYPE_CAP,         /* a bool that sets `bit` in two unsigned: said at offset, has at count_offset */
    TYPE_TEXT,        /* const char * */
    TYPE_NAME,        /* const char *: letters, digits, . _ - */
    TYPE_MODEL,       /* const char *: what clients may write as a model; printable, no spaces */
    TYPE_SECRET,      /* const char *; expanded, masked */
    TYPE_PATH,        /* const char *; expanded */
    TYPE_URL,         /* const char *; expanded; http or https */
    TYPE_ADDRESS,     /* const char *: host:port, [v6]:port, unix:/path */
    TYPE_SHA256,      /* uint8_t[32] */
    TYPE_ZONE,        /* const struct zone * */
    TYPE_TEXTS,       /* const char **, and their size_t count */
    TYPE_REASONS,     /* unsigned: REASON_BITs */
    TYPE_LABELS,      /* struct conf_label *, and their size_t count */
    TYPE_SECTION,     /* a struct in place */
    TYPE_LIST,        /* an array of a section's structs, and its size_t count */
    TYPE_MAP,         /* the same; each struct begins with its name */
    TYPE_CUSTOM,      /* the row's own reader */
    TYPE_N
};

enum {
    RESTART = 1 << 0, /* a changed value needs a restart; otherwise it is live */
    NOT_YET = 1 << 1, /* known, and refused by name */
    REQUIRED = 1 << 2,
    YET_ABOVE = 1 << 3, /* values above `max` are refused as not built, not as wrong */
    FROM_CWD = 1 << 4,  /* a path the gateway writes: relative to the working directory, not to the conf */
    LINES = 1 << 5,     /* a secret of several lines */
    MAY_LACK = 1 << 6,  /* a secret that may be unset: the value stays NULL */
    URL_USER = 1 << 7,  /* a secret that is a url: what stands before its '@' is hidden, the rest is shown */
};

#define NOWHERE SIZE_MAX /* checked, but not stored */

struct reader;
struct section;
struct directive {
    const char *name;
    enum type type;
    unsigned flags;
    size_t offset, count_offset;
    const char *fallback;     /* read like any value; NULL: zero, or an empty list */
    int64_t min, max;         /* in the type's unit; both 0: none */
    unsigned bit;             /* TYPE_CAP */
    const char *const *words; /* NULL-ended; a leading '!' marks a word that is not supported yet */
    const struct section *section;
    bool (*read)(struct reader *r, const struct directive *d, const struct node *n, void *into); /* TYPE_CUSTOM */
    const char *schema; /* TYPE_CUSTOM: JSON Schema of the value, without the braces */
    const char *prose;
};

struct section {
    const char *name;
    const struct directive *rows;
    size_t n;
    size_t size; /* of the struct it fills */
    /* NULL where the section has no shorthand; returns what is to be read instead */
    const struct node *(*shape)(struct reader *r, const struct node *n);
    const char *shorthand; /* JSON Schema of the short forms, for anyOf; NULL: none */
    void (*done)(struct reader *r, const struct node *n, void *into); /* n may be NULL: all defaults */
    bool (*name_check)(struct reader *r, const struct node *key);     /* TYPE_MAP: NULL: a TYPE_NAME */
};

extern const struct section root_section, prices_section, price_section, band_section, backend_section,
    upstream_key_section, alias_section, tier_section, team_section, key_section, budget_section;

/* How rows are written (directives.c, directives_names.c). */
#define AT(type, member) .offset = offsetof(struct type, member)
#define LIST_AT(type, member) .offset = offsetof(struct type, member), .count_offset = offsetof(struct type, n_##member)
#define LATER(word, text)                                                                                              \
    { .name = word, .type = TYPE_TEXT, .flags = NOT_YET, .offset = NOWHERE, .prose = text }
#define ROWS(rows_) .rows = rows_, .n = ARRAY_LEN(rows_)
#define WORDS(...)                                                                                                     \
    .words = (const char *const[]) {                                                                                   \
        __VA_ARGS__, NULL                                                                                              \
    }

struct later; /* work for when everything is read: names that point at other names */
struct reader {
    struct conf *conf;
    struct conf_report *report;
    const struct node *root;
    const char *folder; /* of the main file */
    struct sha256 *digest;
    char path[256]; /* where we are: "teams.search.keys[0]" */
    struct later *later;
    struct span *secrets; /* to be hidden in source lines */
    size_t n_secrets, secrets_capacity;
};

/* read.c */
void read_section(struct reader *r, const struct section *s, const struct node *n, void *into);
bool read_value(struct reader *r, const struct directive *d, const struct node *n, void *into);
void read_later(struct reader *r, void (*run)(struct reader *r, void *into, const struct node *n), void *into,
                const struct node *n);
void run_later(struct reader *r);
void hide_secret(struct reader *r, struct span secret);

/* Scalars (value.c): into the right place; false with a problem in the report. */
bool value_read(struct reader *r, const struct directive *d, const struct node *n, void *at, void *count_at);
bool value_is_scalar(struct reader *r, const struct node *n, const char *expected);
bool value_name_ok(struct span text, bool model); /* model: anything printable without spaces */
bool value_word_chars(struct span text);          /* letters, digits, dots, dashes, underscores */
const char *type_name(enum type t);
const char *type_schema(enum type t); /* members of a JSON Schema */
void type_print_bound(enum type t, int64_t v, struct str *out);

/* expand.c: ${NAME}, ${NAME:-text}, ${file:PATH}. NULL: a problem, or unset with *lacking set (then no problem yet). */
const char *expand_text(struct reader *r, const struct node *n, const char **lacking);

/* url.c: a url that a TYPE_URL has read; `query`: one may follow its path. False with the problem said. */
struct url_parts {
    bool tls;
    const char *host; /* without brackets */
    int port;
    const char *path; /* without a trailing slash; "" if none */
};
bool url_take(struct reader *r, const char *url, const struct node *at, bool query, struct url_parts *out);

/* words.c: our word for another gateway's, as a hint; NULL: not known there either. */
const char *foreign_word(struct span word);

/* Hooks of sections, each in the file of its noun. */
const struct node *upstream_key_shape(struct reader *r, const struct node *n);
void upstream_key_done(struct reader *r, const struct node *n, void *into);
void backend_done(struct reader *r, const struct node *n, void *into);
void model_done(struct reader *r, const struct node *n, void *into);
const struct node *alias_shape(struct reader *r, const struct node *n);
void alias_done(struct reader *r, const struct node *n, void *into);
bool alias_name_check(struct reader *r, const struct node *key);
bool model_name_check(struct reader *r, const struct node *key);
const struct node *target_shape(struct reader *r, const struct node *n);
void target_done(struct reader *r, const struct node *n, void *into);
void rung_done(struct reader *r, const struct node *n, void *into);
void shadow_done(struct reader *r, const struct node *n, void *into);
void canary_done(struct reader *r, const struct node *n, void *into);
void cache_rule_done(struct reader *r, const struct node *n, void *into);
const struct node *team_shape(struct reader *r, const struct node *n);
void team_done(struct reader *r, const struct node *n, void *into);
void self_service_done(struct reader *r, const struct node *n, void *into);
void key_done(struct reader *r, const struct node *n, void *into);
void band_done(struct reader *r, const struct node *n, void *into);
void price_done(struct reader *r, const struct node *n, void *into);
bool read_backend_price(struct reader *r, const struct directive *d, const struct node *n, void *into);
bool read_price(struct reader *r, const struct directive *d, const struct node *n, void *into);
bool read_price_files(struct reader *r, const struct directive *d, const struct node *n, void *into);
bool read_price_models(struct reader *r, const struct directive *d, const struct node *n, void *into);
bool read_price_unknown(struct reader *r, const struct directive *d, const struct node *n, void *into);
bool read_shadow_budget(struct reader *r, const struct directive *d, const struct node *n, void *into);
bool read_disclose_budget(struct reader *r, const struct directive *d, const struct node *n, void *into);
bool read_content_store(struct reader *r, const struct directive *d, const struct node *n, void *into);
bool read_writable(struct reader *r, const struct directive *d, const struct node *n, void *into);
bool read_alert_events(struct reader *r, const struct directive *d, const struct node *n, void *into);
void alert_done(struct reader *r, const struct node *n, void *into);
void root_done(struct reader *r, const struct node *n, void *into);
void redis_done(struct reader *r, const struct node *n, void *into);
void content_done(struct reader *r, const struct node *n, void *into);
void anchor_done(struct reader *r, const struct node *n, void *into);
void tls_done(struct reader *r, const struct node *n, void *into);
void prices_done(struct reader *r, const struct node *n, void *into);
void aliases_join(struct reader *r);

/* prices.c */
void price_digest(struct price *p);
void price_finish(struct price *p); /* known, free, digest, once the lines are filled */
void price_unsaid(struct price *p);
void price_bands(struct price *p, struct price_band *bands, size_t n); /* the row borrows them, in order */

/* alias.c */
bool pattern_match(struct span pattern, struct span text, struct span *captured); /* at most one '*' */
bool glob_match(struct span pattern, struct span text);                           /* any number of '*' */

/* state.c: joins runtime keys and tombstones into a conf that is read. */
void state_join(struct reader *r);

/* load.c: as conf_load, from bytes; relative names are found beside `path`. */
must_check struct conf *conf_load_text(const char *path, struct span text, struct conf_report *report);

#endif
