/* The thread that owns the file.
 *
 *     loop --batch--> queue --pwrite--> written --fdatasync--> durable (and freed)
 *
 * A batch belongs to one segment and has one place in it, so writing it again after any failure writes the same bytes
 * at the same place: a short write, a full disk or a failed fdatasync can neither lose a record nor leave a hole. */
#ifndef TOLLGATE_AUDIT_WRITER_H
#define TOLLGATE_AUDIT_WRITER_H

#include "audit/segment.h"
#include <sys/types.h>

struct batch {
    struct batch *next; /* private */
    char segment[SEGMENT_NAME_MAX];
    bool opens;  /* the first of its segment: the file begins with it */
    char *bytes; /* owned */
    size_t n;
    uint64_t last_seq;
    int64_t at; /* private: its place in the file; -1: not yet known */
};

struct writer_calls { /* what the disk is asked; replaced where a test needs a disk that fails */
    ssize_t (*pwrite)(int fd, const void *bytes, size_t n, off_t at);
    int (*fdatasync)(int fd);
};
extern const struct writer_calls writer_disk;

struct writer_options {
    const char *directory;
    const struct writer_calls *calls;
    bool sync_request;         /* a record counts as written when it is durable */
    int64_t interval_us;       /* else: fdatasync so often while something is not durable */
    int64_t retry_us;          /* how often a disk that refused is asked again */
    int64_t tick_us;           /* `moved` is also called so often */
    void (*moved)(void *user); /* on the writer's thread: marks, health or time have moved */
    void *user;
};

struct writer_marks {
    uint64_t written_seq; /* as sync_request means it */
    size_t queued_bytes;  /* given and not yet durable */
    bool healthy;
    int error; /* errno of the disk while not healthy */
};

struct writer *writer_open(const struct writer_options *o);
void writer_put(struct writer *w, struct batch *b); /* takes it */
/* From the next batch on. */
void writer_tune(struct writer *w, bool sync_request, int64_t interval_us, int64_t tick_us);
void writer_marks(struct writer *w, struct writer_marks *out);
/* Waits until all is durable, or until the disk has refused for patience_us; then ends the thread and frees. Returns
 * whether all is durable. */
bool writer_close(struct writer *w, int64_t patience_us);

#endif
