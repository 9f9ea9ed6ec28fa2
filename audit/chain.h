/* The inside of struct audit, for the files of this room. */
#ifndef TOLLGATE_AUDIT_CHAIN_H
#define TOLLGATE_AUDIT_CHAIN_H

#include "audit/audit.h"
#include "audit/chores.h"
#include "audit/recover.h"
#include "audit/sign.h"
#include "audit/tree.h"
#include "audit/vault.h"
#include "audit/writer.h"
#include <pthread.h>

/* A turn that writes more goes to the writer in pieces, so that no batch grows without bound. */
#define CHAIN_BATCH_BYTES ((size_t)1 << 20)

#define CHAIN_ANCHORS_MAX 8

struct audit_tuning { /* constants that a test may need otherwise */
    int64_t segment_max_bytes;
    size_t queue_max_bytes; /* what new calls may fill; what ends a call may take twice that */
    const struct writer_calls *calls;
    int64_t retry_us, patience_us; /* ask a refusing disk again; wait for it at open and close */
    int64_t stall_us;              /* a disk that has not answered for so long counts as refusing */
};
extern const struct audit_tuning audit_tuning_default;
must_check struct audit *audit_open_tuned(const struct audit_options *o, const struct audit_tuning *t,
                                          struct loop *loop, int64_t now_us, struct str *why);

/* A message from the writer's thread. It outlives the audit when it is under way at the close. */
struct moved {
    struct loop_job job;
    pthread_mutex_t lock;
    bool posted;         /* under the lock */
    int64_t now_us;      /* under the lock */
    struct audit *audit; /* the loop's; NULL: closed */
};

struct price_kept {
    struct price price;
    char *model, *target, *source, *from; /* owned; may be NULL */
    struct price_band *bands;             /* owned; NULL: none */
    int64_t segment;                      /* number of the last file that has it */
};

struct audit {
    char *directory, *chain; /* owned */
    int64_t head_every, head_interval_us;
    struct audit_tuning tuning;
    struct loop *loop;
    int lock_fd;
    struct sign_key *key; /* owned; NULL: heads are not signed */
    struct writer *writer;
    struct moved *moved;
    char boot[33];
    int64_t opened_mono_us;

    /* the chain's head, and the file its next record goes into */
    uint64_t seq;
    char hash[SHA256_HEX_MAX];
    char segment[SEGMENT_NAME_MAX];
    int64_t number, day, size_bytes;
    bool opens; /* the next batch is the first of its file */
    struct str batch;
    uint64_t since_head;
    int64_t head_us;
    struct tree tree; /* of the records since the last tree; kept where heads are signed */

    /* beside the writing; chores NULL: a chain that is only finished */
    struct chores *chores;
    char *anchors[CHAIN_ANCHORS_MAX]; /* owned: files */
    size_t n_anchors;
    void (*on_anchor)(struct span line, void *user);
    void *user;
    bool records_others;
    char *others;        /* owned: heads of the other chains, for the next head; NULL: none */
    struct str anchor;   /* the last head's line, which is not durable yet */
    uint64_t anchor_seq; /* 0: there is none */
    int64_t keep_us, unrolled_us, content_keep_us;
    struct vault *vault;   /* owned; NULL: no bodies are stored */
    int64_t totals_number; /* of the last file that begins with totals; 0: none does */
    struct removal removal;
    uint64_t removal_seq; /* of the note that tells of it; 0: there is none */

    struct map open;   /* request -> number of the file with its admit, as a pointer */
    struct map prices; /* digest -> struct price_kept */
    struct totals totals;
    struct audit_op *waiting, **waiting_end;             /* by seq */
    int64_t away, away_kind[AUDIT_KINDS], away_since_us; /* records not taken since the last note */
};

/* append.c: a record at the head of the chain, whatever the disk says. */
uint64_t chain_append(struct audit *a, const struct audit_record *r, struct span extra, int64_t now_us);
void chain_place(struct audit *a, int64_t now_us); /* a new file when the day or the size asks for one */
void chain_begin(struct audit *a, int64_t now_us); /* a new file now */
void chain_head(struct audit *a, bool totals, int64_t now_us);
void chain_tree(struct audit *a, int64_t now_us); /* the note with the root over what has no root yet */
bool chain_head_is_due(const struct audit *a, int64_t now_us);
void chain_retain(struct audit *a, int64_t now_us); /* looks for files that are older than they are kept */
void chain_price(struct audit *a, const struct audit_record *r, int64_t now_us); /* its row, once a file */
void chain_prices_free(struct audit *a);

/* written.c */
void chain_on_moved(void *audit); /* the writer's thread */
void chain_wake(struct audit *a);
void chain_note_away(struct audit *a, int64_t now_us); /* a record of the records that were not taken */
void chain_moved_new(struct audit *a);
void chain_moved_free(struct audit *a);
void chain_anchor(struct audit *a); /* the last head, when it is durable */

#endif
