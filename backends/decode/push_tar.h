/* A POSIX tar archive as it comes in, cut anywhere: the three files of an adapter are given on, the rest is passed over. */
#ifndef TOLLGATE_DECODE_PUSH_TAR_H
#define TOLLGATE_DECODE_PUSH_TAR_H

#include "gateway/base/span.h"

#define TAR_BLOCK 512

enum push_file { PUSH_CONFIG, PUSH_WEIGHTS, PUSH_MANIFEST, PUSH_FILES, PUSH_OTHER = PUSH_FILES };
extern const char *const push_file_names[PUSH_FILES];

struct push_tar {
    /* A file of the adapter begins (no bytes) or goes on; false with a sentence: no more. */
    bool (*take)(void *user, enum push_file f, struct span bytes, struct str *why);
    void *user;
    char head[TAR_BLOCK];
    size_t have;  /* bytes of the head */
    int64_t left; /* bytes of content that are still to come */
    size_t pad;   /* and of what fills their last block */
    enum push_file at;
    bool seen[PUSH_FILES], ended;
};
void push_tar_init(struct push_tar *t, bool (*take)(void *, enum push_file, struct span, struct str *), void *user);
must_check bool push_tar_read(struct push_tar *t, struct span bytes, struct str *why);
must_check bool push_tar_end(const struct push_tar *t, struct str *why); /* nothing more comes: is it whole? */

#endif
