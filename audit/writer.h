/* The two threads that own the files.
 *
 *     loop --batch--> queue --[writing thread] pwrite--> written --[syncing thread] fdatasync--> durable (and freed)
 *
 * Writing goes on while a sync runs, so a slow fdatasync holds up only those who asked for it. A batch belongs to one
 * file and has one place in it, so writing it again after any failure writes the same bytes at the same place: a short
 * write, a full disk or a failed fdatasync can neither lose a record nor leave a hole. */
#ifndef TOLLGATE_AUDIT_WRITER_H
#define TOLLGATE_AUDIT_WRITER_H

#include "audit/file.h"

struct batch {
    struct batch *next; /* private */
    char segment[SEGMENT_NAME_MAX];
    bool opens;  /* the first of its segment: the file begins with it */
    char *bytes; /* owned */
    size_t n;
    uint64_t last_seq;
    int64_t at;        /* private: its place in the file; -1: not yet known */
    struct file *file; /* private: where it was written; NULL: not yet */
};

struct writer_options {
    const char *directory;
    const struct writer_calls *calls;
    bool sync_request;         /* a record counts as written when it is durable */
    int64_t interval_us;       /* else: fdatasync so often while something is not durable */
    int64_t retry_us;          /* how often a disk that refused is asked again */
    int64_t stall_us;          /* a disk that has not answered for so long counts as refusing */
    int64_t tick_us;           /* `moved` is also called so often */
    void (*moved)(void *user); /* on a thread of the writer: marks, health or time have moved */
    void *user;
};

struct writer_marks {
    uint64_t written_seq; /* as sync_request means it */
    uint64_t durable_seq;
    size_t queued_bytes; /* given and not yet durable */
    bool healthy;
    int error; /* errno of the disk while not healthy */
};

struct writer *writer_open(const struct writer_options *o);
void writer_put(struct writer *w, struct batch *b); /* takes it */
/* From the next batch on. */
void writer_tune(struct writer *w, bool sync_request, int64_t interval_us, int64_t tick_us);
void writer_marks(struct writer *w, struct writer_marks *out);
/* Waits until all is durable, or until the disk has refused for patience_us; then ends the threads and frees. Returns
 * whether all is durable. */
bool writer_close(struct writer *w, int64_t patience_us);

#endif
