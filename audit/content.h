/* Bodies beside the log: sealed frames in files of their own, and the key of each file.
 *
 *     content-YYYYMMDD-<team>-<8 hex>.sealed    frames one after another; a process begins a file a team and day
 *     content-YYYYMMDD-<team>-<8 hex>.key       its data key, sealed by the operator's; without it the file is noise
 *     frame = "TGC1", nonce, AES-256-GCM(zstd(document)), tag; bound to request, kind of record, team and day
 *
 * A record says which bytes of which file, and their SHA-256, so that a change is seen without any key. */
#ifndef TOLLGATE_AUDIT_CONTENT_H
#define TOLLGATE_AUDIT_CONTENT_H

#include "audit/audit.h"
#include "gateway/base/seal.h"

#define CONTENT_NAME_MAX AUDIT_CONTENT_NAME_MAX
#define CONTENT_KEY_FILE_MAX 1024
#define CONTENT_DAY_MAX 9
#define CONTENT_FRAME_EXTRA ((size_t)4 + SEAL_NONCE_BYTES + SEAL_TAG_BYTES)

struct content_key { /* of one file; the loop's */
    uint8_t key[SEAL_KEY_BYTES];
    uint64_t frames; /* sealed with it: each has its number as nonce */
    int64_t offset;  /* where the next goes */
    int64_t day;     /* since 1970 */
    char file[CONTENT_NAME_MAX];
};

/* A fresh key and its file's text, to be kept before any frame; false: the team's name is no part of a file's name. */
must_check bool content_key_new(const uint8_t wrap[SEAL_KEY_BYTES], const char *team, int64_t day,
                                struct content_key *out, struct str *file_text);
must_check bool content_key_open(const uint8_t wrap[SEAL_KEY_BYTES], const char *name, struct span file_text,
                                 uint8_t key[SEAL_KEY_BYTES]);
/* "content-...-xxxxxxxx" + `suffix` from either name of a file. False: it is none of ours. */
bool content_name(const char *file, const char *suffix, char out[CONTENT_NAME_MAX]);
/* Team and day of either name. */
bool content_name_read(const char *file, struct span *team, int64_t *day);

/* Adds a frame to `out`. False: it cannot be packed. */
must_check bool content_pack(struct content_key *k, const struct audit_content *c, struct str *out);
/* The document of a frame. False with a sentence. */
must_check bool content_unpack(const uint8_t key[SEAL_KEY_BYTES], const struct audit_place *p, struct span frame,
                               struct str *out, struct str *why);

/* Overwrites and removes what `wants` says yes to, keys before content. The number of keys gone; -1 with a sentence. */
int64_t content_remove(const char *directory, bool (*wants)(struct span team, int64_t day, const void *user),
                       const void *user, bool files_too, struct str *why);
int64_t content_shred(const char *directory, const char *team, int64_t day, struct str *why);
void content_remove_old(const char *directory, int64_t cut_us); /* days that ended before; faults are logged */

#endif
