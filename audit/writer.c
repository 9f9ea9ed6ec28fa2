/* The writer thread. Always true here: `first` to `next` is in the file and not yet durable, all of one segment; `next`
 * to the end is not yet in the file; a batch is freed only when it is durable. The disk is never asked under the lock. */
#include "audit/writer.h"
#include "gateway/base/clock.h"
#include "gateway/base/log.h"
#include "gateway/base/mem.h"
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define FOREVER INT64_MAX
#define PATH_BYTES 4096

struct writer {
    struct writer_options o;
    char *directory; /* owned */
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    /* under the lock */
    struct writer_options wanted;       /* what a reload asked for: the syncs and the tick */
    struct batch *first, *next, **last; /* owned */
    struct writer_marks marks;
    bool closing;
    int64_t give_up_us; /* monotone; only while closing */
    /* the thread's own */
    int fd; /* -1: none open */
    char segment[SEGMENT_NAME_MAX];
    int64_t end;          /* of what is in the file */
    int64_t sync_due_us;  /* monotone; FOREVER: all is durable */
    int64_t retry_due_us; /* while not healthy */
    int64_t tick_due_us;
    struct log_gate gate;
};

const struct writer_calls writer_disk = {pwrite, fdatasync};

static bool path_of(const struct writer *w, const char *segment, char path[PATH_BYTES]) {
    int n = snprintf(path, PATH_BYTES, "%s/%s", w->directory, segment);
    if (n >= 0 && n < PATH_BYTES)
        return true;
    errno = ENAMETOOLONG;
    return false;
}

/* Only the batch that begins a file makes it: one that should be there and is not was taken away. */
static bool open_path(struct writer *w, const struct batch *b) {
    char path[PATH_BYTES];
    if (!path_of(w, b->segment, path))
        return false;
    w->fd = open(path, O_RDWR | O_CLOEXEC | (b->opens ? O_CREAT : 0), 0640);
    return w->fd >= 0;
}

/* Whether what was written is where readers look for it: a file that was removed, replaced or cut behind our back takes
 * every write without an error. */
static bool still_there(const struct writer *w) {
    char path[PATH_BYTES];
    struct stat ours, named;
    if (!path_of(w, w->segment, path) || fstat(w->fd, &ours) || stat(path, &named))
        return false;
    bool same = ours.st_dev == named.st_dev && ours.st_ino == named.st_ino;
    errno = same ? EIO : ESTALE;
    return same && named.st_size >= w->end;
}

/* A new file is durable only when its directory is. */
static bool sync_directory(const struct writer *w) {
    int fd = open(w->directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return false;
    bool done = fsync(fd) == 0 || errno == EINVAL; /* some file systems know no fsync of directories */
    int error = errno;
    close(fd);
    errno = error;
    return done;
}

static void close_segment(struct writer *w) {
    if (w->fd >= 0)
        close(w->fd);
    w->fd = -1;
    w->segment[0] = 0;
}

static bool open_segment(struct writer *w, const struct batch *b) {
    if (w->fd >= 0 && strcmp(w->segment, b->segment) == 0)
        return true;
    close_segment(w);
    if (!open_path(w, b))
        return false;
    w->end = b->opens ? 0 : (int64_t)lseek(w->fd, 0, SEEK_END);
    if (w->end < 0 || (b->opens && !sync_directory(w))) {
        int error = errno;
        close_segment(w);
        errno = error;
        return false;
    }
    memcpy(w->segment, b->segment, sizeof w->segment);
    return true;
}

/* A file that was cut behind our back must not get a hole in the place of records. */
static bool reaches(struct writer *w, int64_t at) {
    struct stat st;
    if (fstat(w->fd, &st) == 0 && st.st_size >= at)
        return true;
    close_segment(w); /* what is put back may be another file */
    errno = EIO;
    return false;
}

static bool write_batch(struct writer *w, struct batch *b) {
    if (!open_segment(w, b))
        return false;
    if (b->at < 0)
        b->at = w->end;
    if (!reaches(w, b->at))
        return false;
    for (size_t done = 0; done < b->n;) {
        ssize_t n = w->o.calls->pwrite(w->fd, b->bytes + done, b->n - done, (off_t)(b->at + (int64_t)done));
        if (n == 0)
            errno = ENOSPC;
        if (n <= 0 && errno == EINTR && n < 0)
            continue;
        if (n <= 0)
            return false;
        done += (size_t)n;
    }
    w->end = b->at + (int64_t)b->n;
    return true;
}

static void set_health(struct writer *w, int error) {
    uint64_t swallowed;
    int64_t now = clock_mono_us();
    pthread_mutex_lock(&w->lock);
    bool was = w->marks.healthy;
    w->marks.healthy = error == 0;
    w->marks.error = error;
    pthread_mutex_unlock(&w->lock);
    w->retry_due_us = now + w->o.retry_us;
    if (error && log_gate_open(&w->gate, now, &swallowed))
        log_error("the audit log cannot be written: %s directory=%s", strerror(error), w->directory);
    if (!error && !was)
        log_warn("the audit log can be written again directory=%s", w->directory);
    if (was != (error == 0))
        w->o.moved(w->o.user);
}

static void mark_written(struct writer *w, uint64_t seq) {
    pthread_mutex_lock(&w->lock);
    if (seq > w->marks.written_seq)
        w->marks.written_seq = seq;
    pthread_mutex_unlock(&w->lock);
}

/* Frees what is durable now. */
static void drop_durable(struct writer *w) {
    uint64_t seq = 0;
    pthread_mutex_lock(&w->lock);
    struct batch *done = w->first, *end = w->next;
    w->first = end;
    if (!end)
        w->last = &w->first;
    for (struct batch *b = done; b != end; b = b->next) {
        w->marks.queued_bytes -= b->n;
        seq = b->last_seq;
    }
    pthread_mutex_unlock(&w->lock);
    for (struct batch *b = done, *next; b != end; b = next) {
        next = b->next;
        free(b->bytes);
        free(b);
    }
    mark_written(w, seq);
}

/* After a failed fdatasync the kernel may have forgotten the pages, and a file taken away has them all: everything not
 * durable is written once more. */
static void rewind_to_durable(struct writer *w) {
    pthread_mutex_lock(&w->lock);
    w->next = w->first;
    pthread_mutex_unlock(&w->lock);
    close_segment(w);
}

static bool sync_segment(struct writer *w) {
    w->sync_due_us = FOREVER;
    if (w->fd < 0 || (w->o.calls->fdatasync(w->fd) == 0 && still_there(w))) {
        drop_durable(w);
        return true;
    }
    int error = errno;
    rewind_to_durable(w);
    errno = error;
    return false;
}

/* The thread's own options change between two batches, never within one. */
static struct batch *next_batch(struct writer *w) {
    pthread_mutex_lock(&w->lock);
    struct batch *b = w->next;
    w->o.sync_request = w->wanted.sync_request;
    w->o.interval_us = w->wanted.interval_us;
    w->o.tick_us = w->wanted.tick_us;
    pthread_mutex_unlock(&w->lock);
    return b;
}

static void step_over(struct writer *w, struct batch *b) {
    pthread_mutex_lock(&w->lock);
    w->next = b->next;
    pthread_mutex_unlock(&w->lock);
    if (w->sync_due_us == FOREVER)
        w->sync_due_us = clock_mono_us() + (w->o.sync_request ? 0 : w->o.interval_us);
    if (!w->o.sync_request)
        mark_written(w, b->last_seq);
}

/* Everything queued goes into the file; a segment is durable before the next is opened. */
static bool write_all(struct writer *w) {
    for (struct batch *b; (b = next_batch(w));) {
        bool turns = w->segment[0] && strcmp(w->segment, b->segment) != 0;
        if (turns && !sync_segment(w))
            return false;
        if (!write_batch(w, b))
            return false;
        step_over(w, b);
    }
    return true;
}

static void work(struct writer *w) {
    uint64_t before = w->marks.written_seq; /* only this thread writes it */
    bool good = write_all(w);
    if (good && w->sync_due_us <= clock_mono_us())
        good = sync_segment(w);
    set_health(w, good ? 0 : (errno ? errno : EIO));
    if (w->marks.written_seq != before)
        w->o.moved(w->o.user);
}

static int64_t earliest(int64_t a, int64_t b) {
    return a < b ? a : b;
}

/* Under the lock: when there is something to do. */
static int64_t due(const struct writer *w) {
    if (!w->marks.healthy)
        return w->retry_due_us;
    return w->next ? 0 : w->sync_due_us;
}

static void wait_until(struct writer *w, int64_t mono_us) {
    if (mono_us == FOREVER) {
        pthread_cond_wait(&w->changed, &w->lock);
        return;
    }
    int64_t left = mono_us - clock_mono_us();
    struct timespec at;
    if (left <= 0)
        return;
    clock_gettime(CLOCK_MONOTONIC, &at);
    at.tv_sec += (time_t)(left / US_PER_S);
    at.tv_nsec += (long)(left % US_PER_S) * 1000;
    if (at.tv_nsec >= 1000000000L) {
        at.tv_nsec -= 1000000000L;
        at.tv_sec++;
    }
    pthread_cond_timedwait(&w->changed, &w->lock, &at);
}

/* Under the lock. A closing writer makes everything durable at once and gives up only on a disk that goes on refusing. */
static bool finished(const struct writer *w) {
    if (!w->closing)
        return false;
    return !w->first || (!w->marks.healthy && clock_mono_us() >= w->give_up_us);
}

static void tick(struct writer *w) {
    if (clock_mono_us() < w->tick_due_us)
        return;
    w->tick_due_us = clock_mono_us() + w->o.tick_us;
    w->o.moved(w->o.user);
}

static void *run(void *user) {
    struct writer *w = user;
    pthread_mutex_lock(&w->lock);
    while (!finished(w)) {
        int64_t when = due(w);
        if (w->closing && w->marks.healthy)
            when = w->sync_due_us = 0;
        if (clock_mono_us() < when)
            wait_until(w, earliest(when, w->tick_due_us));
        bool now = clock_mono_us() >= due(w) || (w->closing && w->marks.healthy);
        pthread_mutex_unlock(&w->lock);
        if (now)
            work(w);
        tick(w);
        pthread_mutex_lock(&w->lock);
    }
    pthread_mutex_unlock(&w->lock);
    return NULL;
}

struct writer *writer_open(const struct writer_options *o) {
    pthread_condattr_t attributes;
    struct writer *w = xcalloc(1, sizeof *w);
    w->o = w->wanted = *o;
    w->directory = xstrdup(o->directory);
    w->last = &w->first;
    w->marks.healthy = true;
    w->fd = -1;
    w->sync_due_us = FOREVER;
    w->tick_due_us = o->tick_us > 0 ? clock_mono_us() + o->tick_us : FOREVER;
    pthread_mutex_init(&w->lock, NULL);
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&w->changed, &attributes);
    pthread_condattr_destroy(&attributes);
    if (pthread_create(&w->thread, NULL, run, w) != 0)
        abort();
    return w;
}

void writer_put(struct writer *w, struct batch *b) {
    b->next = NULL;
    b->at = -1;
    pthread_mutex_lock(&w->lock);
    *w->last = b;
    w->last = &b->next;
    if (!w->next)
        w->next = b;
    w->marks.queued_bytes += b->n;
    pthread_mutex_unlock(&w->lock);
    pthread_cond_signal(&w->changed); /* behind the lock: a woken thread that finds it held goes to sleep again */
}

void writer_tune(struct writer *w, bool sync_request, int64_t interval_us, int64_t tick_us) {
    pthread_mutex_lock(&w->lock);
    w->wanted.sync_request = sync_request;
    w->wanted.interval_us = interval_us;
    w->wanted.tick_us = tick_us;
    pthread_cond_signal(&w->changed);
    pthread_mutex_unlock(&w->lock);
}

void writer_marks(struct writer *w, struct writer_marks *out) {
    pthread_mutex_lock(&w->lock);
    *out = w->marks;
    pthread_mutex_unlock(&w->lock);
}

static void free_all(struct writer *w) {
    for (struct batch *b = w->first, *next; b; b = next) {
        next = b->next;
        free(b->bytes);
        free(b);
    }
    close_segment(w);
    pthread_cond_destroy(&w->changed);
    pthread_mutex_destroy(&w->lock);
    free(w->directory);
    free(w);
}

bool writer_close(struct writer *w, int64_t patience_us) {
    pthread_mutex_lock(&w->lock);
    w->closing = true;
    w->give_up_us = clock_mono_us() + patience_us;
    pthread_cond_signal(&w->changed);
    pthread_mutex_unlock(&w->lock);
    pthread_join(w->thread, NULL);
    bool all = !w->first;
    free_all(w);
    return all;
}
