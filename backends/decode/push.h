/* A version of an adapter that is pushed: a tar comes in piece by piece, a thread of its own writes, checks and publishes it.
 *
 *     .push-XXXXXX/ (locked) -> files synced -> linked to .blobs/SHA256 -> every tensor understood -> renamed to NAME/VERSION
 *
 * Until the rename nobody sees anything of it; what a crash leaves is a folder without a lock, which the next start removes. */
#ifndef TOLLGATE_DECODE_PUSH_H
#define TOLLGATE_DECODE_PUSH_H

#include "backends/decode/adapters.h"
#include "backends/decode/push_tar.h"

#define PUSH_STAGE ".push-"
#define PUSH_BLOBS ".blobs"
#define PUSH_MARK ".pushed" /* in a version's folder: it came by a push, and may go by keep_versions */

/* One file or folder is durable; its folder is another's work. */
must_check bool push_sync(const char *path, struct str *why);
/* What lies in a folder of an adapter, and the folder; blobs that nobody else holds go too. */
void push_remove(const char *root, const char *directory);
/* What crashed pushes left in the folder of adapters. */
void push_clean(const char *root);

#endif
