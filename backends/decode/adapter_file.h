/* Files of an adapter, read whole: each is inside the folder that may be read, no larger than it may be, and what the manifest
 * says of it is true. */
#ifndef TOLLGATE_DECODE_ADAPTER_FILE_H
#define TOLLGATE_DECODE_ADAPTER_FILE_H

#include "backends/decode/model_file.h"

struct adapter_files {
    char *config; /* owned, each; NUL-terminated */
    uint8_t *weights;
    size_t config_bytes, weights_bytes;
    uint8_t digest[32]; /* of config and weights */
};

/* `root`: no file may lie outside it when all links are followed; NULL: anywhere. */
must_check bool adapter_files_read(const char *directory, const char *root, struct adapter_files *out, struct str *why);
/* The digest of an adapter, from those of its two files. */
void adapter_digest(const uint8_t config[32], const uint8_t weights[32], uint8_t out[32]);
void adapter_files_free(struct adapter_files *f);
/* Letters, digits, `.`, `_` and `-`, at most 64, none of them first but a letter or digit: a name that is safe as a file's. */
bool adapter_name_ok(struct span name);

#endif
