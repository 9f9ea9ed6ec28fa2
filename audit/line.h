/* One record as bytes: written from one field table, taken apart by its fixed frame.
 *
 *     {"seq":N,"time":"...","uptime_us":N,"kind":"K","prev":"<64 hex>", fields ,"hash":"<64 hex>"}\n */
#ifndef TOLLGATE_AUDIT_LINE_H
#define TOLLGATE_AUDIT_LINE_H

#include "audit/audit.h"

/* No line is longer: against a file that is one endless line, and the proof that a record always fits. */
#define LINE_MAX_BYTES ((size_t)4 << 20)
#define LINE_USUAL_BYTES ((size_t)32 << 10) /* a record with all its tries, its price row and a head behind it */
/* Text of strangers is clipped to this, against model names of a megabyte in every record. */
#define LINE_TEXT_MAX 512
#define LINE_PLAN_MAX 64
#define LINE_LABELS_MAX 64
#define LINE_ATTEMPTS_MAX 32
#define LINE_ZERO_HASH "0000000000000000000000000000000000000000000000000000000000000000"

struct line_place { /* where a record stands in its chain */
    uint64_t seq;
    int64_t time_us, uptime_us;
    const char *prev; /* 64 hex digits */
};

/* Appends the line with its newline; `extra` is raw members ("a":1,"b":2) or empty. Fills hash. The str must have room
 * for LINE_MAX_BYTES. */
void line_write(struct str *out, const struct audit_record *r, const struct line_place *at, struct span extra,
                char hash[SHA256_HEX_MAX]);

struct line_frame { /* all borrowed from the line */
    uint64_t seq;
    struct span time, kind, prev, hash;
    struct span request; /* empty when the record names none */
    struct span body;    /* the bytes under the hash */
};
/* False when the bytes do not have a record's frame. Does not check the hash. */
must_check bool line_read(struct span text, struct line_frame *out);
bool line_hash_is_true(const struct line_frame *f);
bool line_hash_is_true_with(const struct line_frame *f, struct sha256 *kept); /* for many lines */
int line_kind(struct span kind);                                              /* enum audit_kind, or -1 */

#endif
