/* Bodies beside the log, for tollgate audit: what records name, read with the operator's key. */
#ifndef TOLLGATE_CLI_AUDIT_CONTENT_H
#define TOLLGATE_CLI_AUDIT_CONTENT_H

#include "audit/audit.h"

#define STORED_KEY_BYTES 32

struct stored_reader {
    const char *directory; /* borrowed */
    uint8_t key[STORED_KEY_BYTES];
    struct arena arena;
    struct stored_shred *shreds; /* in the arena, newest first */
    int64_t whole, gone, shredded, lost, bad;
};
/* Reads the key file and the log's shred records. False, and said, when it cannot. `key_file` NULL: bytes are only
 * compared with their digests. */
must_check bool stored_open(struct stored_reader *s, const char *directory, const char *key_file);
void stored_close(struct stored_reader *s);
/* Prints what a record names, or why it cannot be read; nothing for a record that names nothing. */
void stored_print(struct stored_reader *s, struct json record, bool as_json);
/* Compares every record's bytes with their digest; the number that do not match, each printed. */
int64_t stored_verify(struct stored_reader *s, bool as_json);

struct shred_words {
    const char *team, *day, *reason, *conf, *admin, *directory;
};
int shred_run(const struct shred_words *w); /* an exit status */

#endif
