/* What a chain's files say when it is opened: its head, its open requests, its money, and whether its end is torn. */
#ifndef TOLLGATE_AUDIT_RECOVER_H
#define TOLLGATE_AUDIT_RECOVER_H

#include "audit/audit.h"
#include "audit/segment.h"
#include "audit/totals.h"
#include "audit/tree.h"
#include "gateway/base/map.h"

struct open_admit { /* a request without its end; owned by the map */
    uint64_t seq;
    int64_t hold_nanousd; /* the largest recorded */
    size_t n;
    char line[]; /* its admit record */
};

struct recovered {
    uint64_t seq; /* of the chain's last record; 0: the chain is new */
    char hash[SHA256_HEX_MAX];
    char segment[SEGMENT_NAME_MAX]; /* the last file; "" when there is none */
    int64_t number, size_bytes;     /* of the last file, after the cut */
    int64_t totals_number;          /* the last file that begins with totals; 0: none does */
    int64_t cut_bytes, cut_line;    /* 0: nothing was torn */
    uint64_t since_head;            /* records after the last head */
    struct tree tree;               /* of the records that have no root yet; empty where heads are not signed */
    struct map open;                /* request -> struct open_admit */
    struct totals totals;
};

/* Reads from the last file whose first record carries totals (and from older ones where requests were still open) and
 * cuts a torn end. Tells every settle read. False with a sentence: a chain that is damaged before its end. */
must_check bool recover_chain(const struct audit_options *o, struct recovered *out, struct str *why);
void recover_free(struct recovered *r);

/* Fills the settle of one open request; text lives in the arena. */
void recover_settle(const struct open_admit *open, struct arena *arena, struct audit_record *out);

#endif
