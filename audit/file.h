/* One file while it is written. Shared by the thread that writes and the thread that syncs, under the writer's lock:
 * its batches that are not durable, the writing thread and a sync that runs are its users, the last of whom closes it. */
#ifndef TOLLGATE_AUDIT_FILE_H
#define TOLLGATE_AUDIT_FILE_H

#include "audit/segment.h"
#include <sys/types.h>

struct writer_calls { /* what the disk is asked; replaced where a test needs a disk that fails */
    ssize_t (*pwrite)(int fd, const void *bytes, size_t n, off_t at);
    int (*fdatasync)(int fd);
};
extern const struct writer_calls writer_disk;

struct file {
    int fd;
    char name[SEGMENT_NAME_MAX];
    int64_t end; /* of what is in it; the writing thread's */
    int users;   /* under the writer's lock */
};

/* Opens `name` to go on with it; `begins`: makes it, empty, and its directory durable. NULL with errno. */
must_check struct file *file_open(const char *directory, const char *name, bool begins);
/* All n bytes at `at`, whatever a write takes at once. False with errno: how far it came is not known. */
must_check bool file_write(struct file *f, const struct writer_calls *calls, const char *bytes, size_t n, int64_t at);
/* Makes what is in it durable and looks whether readers will find it, up to `end`. False with errno. */
must_check bool file_sync(const struct file *f, const struct writer_calls *calls, const char *directory, int64_t end);
void file_free(struct file *f);

#endif
