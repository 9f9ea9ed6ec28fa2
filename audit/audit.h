/* WHAT WAS DONE, FOR EVER.
 *
 *     audit_add(record) -> line -> chained (prev, hash) -> batch -> [writer thread] write(2), fdatasync -> written mark
 *                                                    one batch a loop turn: audit_flush
 *
 * Records are flat. A record has its place in the chain when audit_add returns; it is in the file when the written mark
 * reaches its seq (with sync: request, on the disk). Every request leaves exactly one `settle` or `refuse`. Lines and
 * files as contract: {...,"prev":"<64 hex>",...,"hash":"<64 hex>"}\n in audit-<chain>-YYYYMMDD-NNNNNN.jsonl; hash is
 * SHA-256 of the bytes from '{' up to, not including, the last ,"hash":" . */
#ifndef TOLLGATE_AUDIT_H
#define TOLLGATE_AUDIT_H

#include "conf/conf.h"
#include "gateway/base/json.h"
#include "gateway/base/loop.h"
#include "gateway/base/usage.h"

struct audit;

/* What recovery found, for the ledger and the log. */
struct audit_settled { /* one request of an open period, as the log has it */
    struct span request, key_id, team;
    const char *chain; /* in whose log it stands */
    int64_t admitted_us, nanousd;
    bool recovered; /* settled now, at its largest hold: it was open when the process died */
};
struct audit_options {
    const char *directory, *chain; /* chain: "<node>.<worker>" */
    bool sync_request;
    int64_t interval_us;
    int64_t head_every, head_interval_us;
    const char *head_key; /* PEM or NULL */
    const char *version;  /* of this program, for the start record */
    const char *conf_digest;
    const char *const *anchors; /* files that each durable head is appended to; copied */
    size_t n_anchors;
    void (*on_anchor)(struct span head_line, void *user); /* the same from the loop, for what is not a file; NULL */
    bool records_others;                                  /* heads of the directory's other chains stand in this one */
    bool alone;      /* the directory's other chains are somebody else's: neither finished nor told of at the start */
    int64_t keep_us; /* whole files that are older are removed; 0: never */
    int64_t unrolled_us;        /* records since then are kept whatever keep_us says; 0: no such bound */
    const uint8_t *content_key; /* 32 bytes that seal the keys of stored bodies; NULL: none are stored; copied */
    int64_t content_keep_us;    /* bodies and keys of older days are removed; 0: never */
    int64_t since_us;           /* settles older than this need not be told (start of the oldest open period) */
    void (*settled)(const struct audit_settled *s, void *user); /* called during open, for each */
    void *user;
};
/* Opens a chain: checks its last segment, cuts a torn last line (and says so in a record), settles each admit that has
 * no settle at its largest hold (marked), writes `start`. Other chains of the directory that no process holds are read
 * and finished likewise. NULL with a sentence in `why` (a str that may grow to 4 KiB). */
must_check struct audit *audit_open(const struct audit_options *o, struct loop *loop, int64_t now_us, struct str *why);
/* After a reload: the syncs, the heads and their key; directory and chain stay. False with a sentence: the key is no key. */
must_check bool audit_tune(struct audit *a, const struct audit_options *o, struct str *why);
/* Writes `stop`, a last head, waits for the writer, frees. */
void audit_close(struct audit *a, int64_t now_us);

enum audit_kind {
    AUDIT_START,
    AUDIT_STOP,
    AUDIT_CONF,
    AUDIT_PRICE,
    AUDIT_ADMIT,
    AUDIT_HOLD,
    AUDIT_REFUSE,
    AUDIT_SETTLE,
    AUDIT_ADMIN,
    AUDIT_HEAD,
    AUDIT_NOTE,
    AUDIT_ADJUST, /* a settle's cost corrected: the bill is the sum of settles and adjusts */
    AUDIT_CLOSE,  /* a month's books, frozen */
    AUDIT_ROLLUP, /* a part of a closed month's totals: outlives the settles that it sums up */
    AUDIT_SHRED,  /* a data key of stored content was destroyed */
    AUDIT_KINDS
};
extern const char *const audit_kind_names[AUDIT_KINDS];

/* One try, as it stands in settle and refuse records. */
struct audit_attempt {
    const char *target, *upstream_key, *outcome, *why; /* upstream_key NULL: none */
    int status;                                        /* HTTP, 0 if none came */
    int64_t began_us, first_us, ended_us;              /* monotone since the request began; first_us -1: no content */
    char pico[PICO_TEXT_MAX];                          /* cost of this try in pico-dollars, decimal */
    char list_pico[PICO_TEXT_MAX];                     /* the same at list price; empty: no other than pico */
    struct usage usage;
    bool hedged, won; /* begun beside another; of two, the one that answered */
};

/* A filled flat record. Only the members of its kind are written; NULL strings are left out. */
struct audit_record {
    enum audit_kind kind;
    const char *request; /* our id */
    const char *team, *key_id, *owner;
    const char *end_user;                 /* keyed digest of the caller's `user`: who it was does not lie in the log */
    const char *client, *client_family;   /* address; "openai-node", "anthropic", ... from user-agent */
    const char *endpoint, *alias, *model; /* model as asked */
    const char *target;                   /* that answered */
    const char *const *plan;              /* targets in order */
    size_t n_plan;
    int64_t hold_nanousd;
    const char *conf_digest;
    const struct conf_label *labels;
    size_t n_labels;
    const char *idempotency_key;
    int64_t admitted_us; /* the instant whose periods it belongs to: when it was held; 0: never admitted */
    int status;          /* what the client was told */
    const char *code;    /* err_code */
    const struct audit_attempt *attempts;
    size_t n_attempts;
    struct usage usage;
    const char *price_digest;
    int64_t cost_nanousd;  /* adjust: the difference, signed */
    int64_t list_nanousd;  /* the same at list price, without price_factor; 0: the same amount */
    int64_t saved_nanousd; /* what an answer from the cache would have cost; 0: nothing */
    bool estimated, overrun, aborted, stream;
    bool explained;       /* settle: it was told what would happen to it, and nothing did */
    const char *finish;   /* settle: why the answer ended, "stop", "length", ...; NULL: it did not say */
    const char *arm;      /* of an experiment: "stable", "canary", "pinned"; NULL: there is none */
    const char *cache;    /* "hit", "miss", "shared", "bypass" */
    const char *degraded; /* reason, NULL */
    const char *upstream_id;
    const char *request_digest, *answer_digest; /* HMAC-SHA256 hex of bodies; NULL */
    const char *content_file, *content_digest;  /* where the bodies are stored; NULL: nowhere */
    int64_t content_offset, content_bytes;
    bool content_lost;                                       /* the bodies should have been stored and were not */
    int64_t duration_us, first_content_us;                   /* -1: none */
    const struct price *price;                               /* price records: the row */
    const char *who, *role, *what, *reason, *before, *after; /* admin and note records */
    int64_t clamped_tok; /* settle: the maximum of a choice where it was lowered to fit a budget; 0: it was not */
    const char *cut;     /* settle: why the stream was ended early, "budget"; NULL: it was not */
    const char *scope;   /* admin and note records: the budget that they are about, "team/search/month@UTC" */
    int64_t count;       /* refuse records that stand for many strangers; 0: one */
    bool recovered;      /* settled at a start, at its largest hold; set by this room */
    struct span
        members; /* admit, settle, adjust, close, rollup: more members, written as they are: '"a":1,"b":2'; of our own making */
};

/* Adds a record to the chain; returns its seq (from 1), or 0 when the log cannot take it (full queue, failed disk). */
uint64_t audit_add(struct audit *a, const struct audit_record *r, int64_t now_us);
void audit_flush(struct audit *a); /* hands the turn's batch to the writer */

struct audit_op {
    struct waiter waiter;
    enum err err; /* ERR_NONE or ERR_AUDIT */
    uint64_t seq;
    struct audit_op *next; /* private */
};
/* DONE when record `op->seq` is already written; else WAIT, and the waiter is woken when it is (or can never be). */
enum progress audit_written(struct audit *a, struct audit_op *op);
void audit_forget(struct audit *a, struct audit_op *op); /* the waiter goes away */

/* Records since then are kept from now on (audit_options.unrolled_us); what may go, goes. */
void audit_unrolled(struct audit *a, int64_t unrolled_us, int64_t now_us);
bool audit_healthy(const struct audit *a); /* false: the disk refuses; new calls are refused unless when_full: serve */
int64_t audit_lag(const struct audit *a);  /* records added and not yet written */
void audit_head(const struct audit *a, uint64_t *seq, char hash[SHA256_HEX_MAX]);

/* --- bodies, sealed in files of their own beside the log (audit/content.h) --- */
struct audit_content {
    enum audit_kind kind; /* of the record that will name it */
    const char *request, *team;
    struct span asked, answered;                    /* JSON, redacted; empty: none */
    const char *asked_left_out, *answered_left_out; /* why a body is not stored; NULL: it is, or there is none */
};
/* Seals it now and hands it to a thread that writes it; `place` takes what the record says of it and outlives the
 * record. Never waits for the disk. False: it is not stored (no key, a full queue), and the record is to say so. */
#define AUDIT_CONTENT_NAME_MAX 256
struct audit_stored_at {
    char file[AUDIT_CONTENT_NAME_MAX], digest[SHA256_HEX_MAX];
    int64_t offset, bytes;
};
must_check bool audit_store(struct audit *a, const struct audit_content *c, struct audit_stored_at *place,
                            int64_t now_us);
/* One that the thread could not write, since the last call: its request in `request`; false: none. */
#define AUDIT_REQUEST_MAX 64
must_check bool audit_store_failed(struct audit *a, char request[AUDIT_REQUEST_MAX], char why[160]);
/* Destroys the keys of a team's day, whoever wrote them: how many; -1 with a sentence. The shred record is the caller's. */
int64_t audit_shred(struct audit *a, const char *team, int64_t day, struct str *why);

struct audit_place { /* what a record says */
    const char *request, *kind, *file, *digest;
    int64_t offset, bytes;
};
enum audit_stored {
    AUDIT_STORED_WHOLE,
    AUDIT_STORED_GONE,     /* its file is not there any more */
    AUDIT_STORED_SHREDDED, /* its key is not there any more */
    AUDIT_STORED_BAD,      /* cut, changed, or another key: a sentence says which */
};
enum audit_stored audit_stored_check(const char *directory, const struct audit_place *p, struct str *why);
/* `wrap`: the 32 bytes of audit_options.content_key. */
enum audit_stored audit_stored_read(const char *directory, const struct audit_place *p, const uint8_t *wrap,
                                    struct str *out, struct str *why);

/* --- reading; no struct audit needed --- */
enum audit_wrong {
    AUDIT_EDITED,   /* bytes of a record, or a whole record written anew */
    AUDIT_INSERTED, /* also: repeated */
    AUDIT_DELETED,  /* records within a file */
    AUDIT_REORDERED,
    AUDIT_TRUNCATED, /* records at the end of a file, or of a chain that a head elsewhere knows longer */
    AUDIT_TORN,      /* the very last line is cut: what a crash leaves */
    AUDIT_FORK,      /* two different histories */
    AUDIT_FORGED,    /* not what the key has signed */
    AUDIT_MISSING_FILE,
    AUDIT_MISSING_CHAIN,
    AUDIT_UNREADABLE,
    AUDIT_WRONGS
};
extern const char *const audit_wrong_names[AUDIT_WRONGS];
struct audit_fault {
    enum audit_wrong wrong;
    char file[256];
    int64_t line; /* from 1 */
    uint64_t seq;
    char what[320]; /* begins with the name of what is wrong */
};
struct audit_verdict {
    bool clean;
    struct audit_fault fault; /* the first, when not clean */
    uint64_t records, unsealed, chains;
    char head_hash[SHA256_HEX_MAX];
    uint64_t head_seq;
    uint64_t open_admits;    /* admits without settle at the end (a running gateway has some) */
    bool signatures_checked; /* else nothing counts as sealed */
    uint64_t signatures, anchors;
    uint64_t complete_from; /* 1: from the first record; else retention removed what is older */
    int64_t bytes;
};
struct audit_check {
    const char *directory;
    const char *public_key; /* PEM; NULL: signatures are not checked */
    struct span anchored;   /* head records, one a line, as an anchor keeps them; at == NULL: none */
};
/* False when the directory, the key or the anchored heads cannot be read. */
must_check bool audit_check(const struct audit_check *o, struct audit_verdict *out, struct str *why);
/* The same without anchored heads. */
must_check bool audit_verify(const char *directory, const char *public_key, struct audit_verdict *out, struct str *why);

/* Records on their own, with what proves to a third party that they stand in the log (audit/README.md has the recipe). */
struct audit_line;
struct audit_export {
    const char *directory, *into; /* a folder, made if it is not there; nothing in it is overwritten */
    bool (*wants)(const struct audit_line *l, void *user);
    void *user;
};
struct audit_exported {
    uint64_t records, proved, unsealed;
    size_t heads;
};
must_check bool audit_export(const struct audit_export *o, struct audit_exported *out, struct str *why);

/* Nothing in the directory was written before this instant; INT64_MAX: it is empty. */
must_check bool audit_oldest(const char *directory, int64_t *us, struct str *why);
/* Calls `see` for every record of every chain in file order; stops when it returns false. */
struct audit_line {
    struct span text; /* the whole line without the newline */
    const char *file; /* name */
    int64_t line;
};
must_check bool audit_read(const char *directory, bool (*see)(const struct audit_line *l, void *user), void *user,
                           struct str *why);
/* The same without files that end before `since_us`, as far as their names tell. */
must_check bool audit_read_since(const char *directory, int64_t since_us,
                                 bool (*see)(const struct audit_line *l, void *user), void *user, struct str *why);
/* The frame that every record has, read without JSON. */
struct audit_frame {
    uint64_t seq;
    int kind; /* enum audit_kind; -1: of a later version */
    struct span time, request;
    char hash[SHA256_HEX_MAX];
};
must_check bool audit_frame(struct span text, struct audit_frame *out);
/* For reports over long logs: members of an object or elements of an array one after another, without any check of what
 * they hold. Begin with the value's own bytes; an element's name is empty. A string that has escapes is checked
 * (json_check) before it is decoded. */
bool audit_next(struct span *rest, struct span *name, struct json *value);
/* Members by name in one pass, quickest when the names stand in the order of the members. */
void audit_pick(struct span object, const struct span *names, struct json *out, size_t n);
/* The last n lines of every chain; with `follow` also each line that is added later, until `see` returns false. */
must_check bool audit_tail(const char *directory, size_t n, bool follow,
                           bool (*see)(const struct audit_line *l, void *user), void *user, struct str *why);

#endif
