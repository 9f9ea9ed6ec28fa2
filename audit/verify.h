/* Private: a check of many files at once.
 *
 *     file -> [any thread] piece: each line by itself and by the one before it -> joined in order: pieces, chains, claims
 *
 * A piece takes its first record's place on trust and says what it was; the join asks whether the piece before ends
 * there. A claim is a head of a chain that stands elsewhere too: in another chain, or with those who anchor. */
#ifndef TOLLGATE_AUDIT_VERIFY_H
#define TOLLGATE_AUDIT_VERIFY_H

#include "audit/line.h"
#include "audit/segment.h"
#include "audit/sign.h"
#include "gateway/base/json.h"
#include "gateway/base/map.h"

struct seen_head { /* a head record says: record `seq` has this hash */
    uint64_t seq;
    uint8_t hash[SHA256_BYTES];
};
struct claim {
    char chain[SEGMENT_CHAIN_MAX];
    struct seen_head head;
    char file[SEGMENT_NAME_MAX]; /* where it stands */
    int64_t line;
    uint64_t at_seq; /* of the record that says it; 0: an anchor */
};
struct claims {
    struct claim *all; /* owned */
    size_t n, capacity;
};
void claims_add(struct claims *c, const struct claim *one);

struct piece {
    const struct segment *segment;
    const struct sign_key *key; /* NULL: signatures are not checked */
    const char *directory;
    bool last;      /* the chain's last file */
    bool has_first; /* its first line is a record */
    bool begins_with_head;
    uint64_t first_seq;
    char first_prev[SHA256_HEX_MAX];
    int64_t line, bytes;
    uint64_t seq, records, signatures; /* seq: of the last good record */
    int64_t seq_line;                  /* where it stands */
    char hash[SHA256_HEX_MAX], prev[SHA256_HEX_MAX];
    uint64_t sealed_seq;   /* the last head with a true signature; 0: none here */
    uint64_t unsigned_seq; /* the first head without one; 0: none */
    int64_t unsigned_line;
    uint64_t removed_until;  /* what its records say was removed by retention; 0: nothing */
    struct seen_head *heads; /* owned */
    size_t n_heads, heads_capacity;
    struct claims claims;
    struct map open, ended; /* admits without an end here, ends without an admit here */
    bool faulty;
    struct audit_fault fault;
    struct sha256 *digest;
};
void piece_check(struct piece *p); /* reads the whole file, or to its first fault */
void piece_free(struct piece *p);
/* Names the first fault; false, so that it can be returned. */
bool piece_fault(struct piece *p, enum audit_wrong wrong, int64_t line, uint64_t seq, const char *format, ...)
    printf_like(5, 6);
/* Whether the record that should follow stands further down in the piece's file. */
bool piece_holds_later(const struct piece *p, int64_t line, uint64_t seq);
/* The claims of one head record: its own, and those it carries of other chains. False: it is none. */
must_check bool claims_of_head(struct json root, const struct claim *from, struct claims *own, struct claims *others);

#endif
