/* Where bodies are sealed and a thread that writes them, beside the writer of records and never in its way.
 *
 *     loop: vault_put -> pack, seal, place known -> queue -> thread: the file's key (synced), then frames
 *
 * The loop is never made to wait; what cannot be written is told by vault_failed. */
#ifndef TOLLGATE_AUDIT_VAULT_H
#define TOLLGATE_AUDIT_VAULT_H

#include "audit/content.h"
#include <sys/types.h>

/* Frames that wait for the disk. */
#define VAULT_QUEUE_MAX ((size_t)32 << 20)
/* Failures that wait to be taken; further ones are told without their request. */
#define VAULT_FAILURES_MAX 64
#define VAULT_FILE_MAX (INT64_C(1) << 30) /* then the team's day goes on in another file */
#define VAULT_TEAMS_MAX 4096              /* files begun at a time; the rest of a larger house waits for the next day */

struct vault_calls { /* what the disk is asked; replaced where a test needs a disk that fails */
    ssize_t (*pwrite)(int fd, const void *bytes, size_t n, off_t at);
};
extern const struct vault_calls vault_disk;

struct vault;
struct vault *vault_open(const char *directory, const uint8_t key[SEAL_KEY_BYTES], const struct vault_calls *calls);
void vault_close(struct vault *v); /* writes what waits; a disk that refuses loses it */
void vault_tune(struct vault *v, const uint8_t key[SEAL_KEY_BYTES]);
must_check bool vault_put(struct vault *v, const struct audit_content *c, struct audit_stored_at *place,
                          int64_t now_us);
must_check bool vault_failed(struct vault *v, char request[AUDIT_REQUEST_MAX], char why[160]);
/* How many keys; -1 with a sentence: also when the thread is in the disk's hands for longer than VAULT_PATIENCE_MS. */
#define VAULT_PATIENCE_MS 2000
int64_t vault_shred(struct vault *v, const char *team, int64_t day, struct str *why);

#endif
