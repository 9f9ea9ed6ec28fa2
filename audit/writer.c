/* The queue and its two threads. Always true here, under the lock: `first` to `next` is in its files and not yet durable;
 * `next` to the end is not yet in a file; a batch is freed only when it is durable, and only by the syncing thread or the
 * close. After a failed sync the writing thread goes back to `first`. The disk is never asked under the lock. */
#include "audit/writer.h"
#include "gateway/base/clock.h"
#include "gateway/base/log.h"
#include "gateway/base/mem.h"
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <time.h>

#define FOREVER INT64_MAX
#define BATCHES_A_WAKE 8

struct writer {
    struct writer_options o; /* of it sync_request, interval_us and tick_us under the lock */
    char *directory;         /* owned */
    pthread_t writing, syncing;
    pthread_mutex_t lock;
    pthread_cond_t to_write, to_sync;
    /* under the lock */
    struct batch *first, *next, **last; /* owned */
    struct writer_marks marks;
    int write_error, sync_error;           /* errno; 0: none */
    int64_t write_began_us, sync_began_us; /* monotone: the disk was asked and has not answered; 0: not asked */
    int64_t retry_due_us, sync_due_us;     /* monotone */
    bool go_back;                          /* what is not durable is to be written once more */
    bool closing;
    int64_t give_up_us; /* monotone; only while closing */
    int64_t tick_due_us;
    struct log_gate gate;
    /* the writing thread's own */
    struct file *file; /* NULL: none open */
};

static void lock(struct writer *w) {
    pthread_mutex_lock(&w->lock);
}

static void unlock(struct writer *w) {
    pthread_mutex_unlock(&w->lock);
}

static void wait_until(struct writer *w, pthread_cond_t *changed, int64_t mono_us) {
    int64_t left = mono_us - clock_mono_us();
    struct timespec at;
    if (mono_us == FOREVER) {
        pthread_cond_wait(changed, &w->lock);
        return;
    }
    if (left <= 0)
        return;
    clock_gettime(CLOCK_MONOTONIC, &at);
    at.tv_sec += (time_t)(left / US_PER_S);
    at.tv_nsec += (long)(left % US_PER_S) * 1000;
    if (at.tv_nsec >= 1000000000L) {
        at.tv_nsec -= 1000000000L;
        at.tv_sec++;
    }
    pthread_cond_timedwait(changed, &w->lock, &at);
}

static int64_t earliest(int64_t a, int64_t b) {
    return a < b ? a : b;
}

/* Under the lock. Returns whether it has changed. */
static bool set_health(struct writer *w) {
    uint64_t swallowed;
    int error = w->write_error ? w->write_error : w->sync_error;
    bool was = w->marks.healthy;
    w->marks.healthy = error == 0;
    w->marks.error = error;
    if (error && log_gate_open(&w->gate, clock_mono_us(), &swallowed))
        log_error("the audit log cannot be written: %s directory=%s", strerror(error), w->directory);
    if (!error && !was)
        log_warn("the audit log can be written again directory=%s", w->directory);
    return was != (error == 0);
}

/* Under the lock. */
static void drop_file(struct file *f) {
    if (f && --f->users == 0)
        file_free(f);
}

static void move(uint64_t *mark, uint64_t seq) {
    if (seq > *mark)
        *mark = seq;
}

/* Under the lock: a closing writer gives up only on a disk that goes on refusing. */
static bool finished(const struct writer *w) {
    if (!w->closing)
        return false;
    return !w->first || (!w->marks.healthy && clock_mono_us() >= w->give_up_us);
}

/* Under the lock. */
static int64_t gives_up_at(const struct writer *w) {
    return w->closing && !w->marks.healthy ? w->give_up_us : FOREVER;
}

/* ---- writing ---- */

static bool open_for(struct writer *w, const struct batch *b) {
    if (w->file && strcmp(w->file->name, b->segment) == 0)
        return true;
    struct file *opened = file_open(w->directory, b->segment, b->opens);
    if (!opened)
        return false;
    opened->users = 1;
    lock(w);
    drop_file(w->file);
    w->file = opened;
    unlock(w);
    return true;
}

static bool write_batch(struct writer *w, struct batch *b) {
    if (!open_for(w, b))
        return false;
    if (b->at < 0)
        b->at = w->file->end;
    return file_write(w->file, w->o.calls, b->bytes, b->n, b->at);
}

/* Under the lock. */
static void step_over(struct writer *w, struct batch *b) {
    b->file = w->file;
    b->file->users++;
    w->next = b->next;
    if (!w->o.sync_request)
        move(&w->marks.written_seq, b->last_seq);
    bool at_once = w->o.sync_request || w->sync_error || w->closing;
    w->sync_due_us = earliest(w->sync_due_us, clock_mono_us() + (at_once ? 0 : w->o.interval_us));
    pthread_cond_signal(&w->to_sync);
}

/* Under the lock. The kernel may have forgotten the pages of a failed sync, and a file taken away has them all. */
static void go_back(struct writer *w) {
    for (struct batch *b = w->first; b && b != w->next; b = b->next) {
        drop_file(b->file);
        b->file = NULL;
    }
    drop_file(w->file);
    w->file = NULL;
    w->next = w->first;
    w->go_back = false;
    w->sync_due_us = FOREVER;
}

/* Under the lock, which it lets go while the disk is asked: one batch. Returns whether anybody should be told. */
static bool write_one(struct writer *w) {
    struct batch *b = w->next;
    uint64_t before = w->marks.written_seq;
    w->write_began_us = clock_mono_us();
    unlock(w);
    bool good = write_batch(w, b);
    int error = errno;
    lock(w);
    w->write_began_us = 0;
    w->write_error = good ? 0 : error ? error : EIO;
    if (good) {
        step_over(w, b);
    } else { /* what is put back in its place may be another file */
        drop_file(w->file);
        w->file = NULL;
        w->retry_due_us = clock_mono_us() + w->o.retry_us;
    }
    return set_health(w) || w->marks.written_seq != before;
}

static int64_t write_due(const struct writer *w) {
    if (w->write_error || w->go_back)
        return w->retry_due_us;
    return w->next ? 0 : FOREVER;
}

/* Under the lock. The loop is woken once for several batches, and not so late that its calls wait for others' writes. */
static bool write_what_is_due(struct writer *w) {
    bool told = false;
    for (int n = 0; n < BATCHES_A_WAKE && !finished(w) && clock_mono_us() >= write_due(w); n++) {
        if (w->go_back)
            go_back(w);
        if (!w->next)
            break;
        told = write_one(w) || told;
    }
    return told;
}

static bool tick(struct writer *w) {
    if (clock_mono_us() < w->tick_due_us)
        return false;
    w->tick_due_us = clock_mono_us() + w->o.tick_us;
    return true;
}

static void *run_writing(void *user) {
    struct writer *w = user;
    lock(w);
    while (!finished(w)) {
        bool told = write_what_is_due(w);
        if (tick(w) || told) {
            unlock(w);
            w->o.moved(w->o.user);
            lock(w);
            continue;
        }
        wait_until(w, &w->to_write, earliest(earliest(write_due(w), w->tick_due_us), gives_up_at(w)));
    }
    pthread_cond_signal(&w->to_sync);
    unlock(w);
    return NULL;
}

/* ---- syncing ---- */

/* Under the lock: the last of the batches that one sync of the first one's file makes durable; NULL: there is none. */
static struct batch *last_of_file(const struct writer *w) {
    struct batch *last = NULL;
    if (w->go_back)
        return NULL;
    for (struct batch *b = w->first; b && b != w->next && b->file == w->first->file; b = b->next)
        last = b;
    return last;
}

static void free_batch(struct batch *b) {
    free(b->bytes);
    free(b);
}

/* Under the lock. */
static void drop_durable(struct writer *w, const struct batch *last) {
    for (bool more = true; more;) {
        struct batch *b = w->first;
        more = b != last;
        w->first = b->next;
        w->marks.queued_bytes -= b->n;
        move(&w->marks.durable_seq, b->last_seq);
        drop_file(b->file);
        free_batch(b);
    }
    if (!w->first)
        w->last = &w->first;
    move(&w->marks.written_seq, w->marks.durable_seq);
}

static bool sync_failed(struct writer *w, int error) {
    w->sync_error = error ? error : EIO;
    w->go_back = true;
    w->retry_due_us = clock_mono_us() + w->o.retry_us;
    pthread_cond_signal(&w->to_write);
    return set_health(w);
}

/* Under the lock, which it lets go while the disk is asked. Returns whether anybody should be told. */
static bool sync_one(struct writer *w, struct batch *last) {
    struct file *f = last->file;
    int64_t end = last->at + (int64_t)last->n;
    uint64_t before = w->marks.written_seq;
    f->users++;
    w->sync_began_us = clock_mono_us();
    unlock(w);
    bool good = file_sync(f, w->o.calls, w->directory, end);
    int error = errno;
    lock(w);
    drop_file(f);
    w->sync_began_us = 0;
    if (!good)
        return sync_failed(w, error);
    drop_durable(w, last);
    w->sync_error = 0;
    bool at_once = w->o.sync_request || w->closing || (last_of_file(w) && w->first->file != f);
    w->sync_due_us = last_of_file(w) ? clock_mono_us() + (at_once ? 0 : w->o.interval_us) : FOREVER;
    return set_health(w) || w->marks.written_seq != before;
}

static void *run_syncing(void *user) {
    struct writer *w = user;
    lock(w);
    while (!finished(w)) {
        struct batch *last = last_of_file(w);
        int64_t due = !last ? FOREVER : w->closing ? 0 : w->sync_due_us;
        if (clock_mono_us() < due) {
            wait_until(w, &w->to_sync, earliest(due, gives_up_at(w)));
            continue;
        }
        if (!sync_one(w, last))
            continue;
        unlock(w);
        w->o.moved(w->o.user);
        lock(w);
    }
    pthread_cond_signal(&w->to_write);
    unlock(w);
    return NULL;
}

/* ---- the door ---- */

static void init_cond(pthread_cond_t *c) {
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(c, &attributes);
    pthread_condattr_destroy(&attributes);
}

struct writer *writer_open(const struct writer_options *o) {
    struct writer *w = xcalloc(1, sizeof *w);
    w->o = *o;
    w->directory = xstrdup(o->directory);
    w->last = &w->first;
    w->marks.healthy = true;
    w->sync_due_us = FOREVER;
    w->tick_due_us = o->tick_us > 0 ? clock_mono_us() + o->tick_us : FOREVER;
    pthread_mutex_init(&w->lock, NULL);
    init_cond(&w->to_write);
    init_cond(&w->to_sync);
    if (pthread_create(&w->writing, NULL, run_writing, w) != 0 ||
        pthread_create(&w->syncing, NULL, run_syncing, w) != 0)
        abort();
    return w;
}

void writer_put(struct writer *w, struct batch *b) {
    b->next = NULL;
    b->at = -1;
    b->file = NULL;
    lock(w);
    *w->last = b;
    w->last = &b->next;
    if (!w->next)
        w->next = b;
    w->marks.queued_bytes += b->n;
    unlock(w);
    pthread_cond_signal(&w->to_write); /* behind the lock: a woken thread that finds it held goes to sleep again */
}

void writer_tune(struct writer *w, bool sync_request, int64_t interval_us, int64_t tick_us) {
    lock(w);
    w->o.sync_request = sync_request;
    w->o.interval_us = interval_us;
    w->o.tick_us = tick_us;
    if (tick_us > 0)
        w->tick_due_us = earliest(w->tick_due_us, clock_mono_us() + tick_us);
    pthread_cond_signal(&w->to_write);
    unlock(w);
}

static bool is_stalled(const struct writer *w, int64_t began_us, int64_t now_us) {
    return began_us && w->o.stall_us > 0 && now_us - began_us > w->o.stall_us;
}

void writer_marks(struct writer *w, struct writer_marks *out) {
    int64_t now_us = clock_mono_us();
    lock(w);
    *out = w->marks;
    /* Without sync_request a sync that takes for ever breaks no promise until the queue is full. */
    bool stalled =
        is_stalled(w, w->write_began_us, now_us) || (w->o.sync_request && is_stalled(w, w->sync_began_us, now_us));
    unlock(w);
    if (!stalled || !out->healthy)
        return;
    out->healthy = false;
    out->error = ETIMEDOUT;
}

static void free_all(struct writer *w) {
    for (struct batch *b = w->first, *next; b; b = next) {
        next = b->next;
        drop_file(b->file);
        free_batch(b);
    }
    drop_file(w->file);
    pthread_cond_destroy(&w->to_write);
    pthread_cond_destroy(&w->to_sync);
    pthread_mutex_destroy(&w->lock);
    free(w->directory);
    free(w);
}

bool writer_close(struct writer *w, int64_t patience_us) {
    lock(w);
    w->closing = true;
    w->give_up_us = clock_mono_us() + patience_us;
    pthread_cond_signal(&w->to_write);
    pthread_cond_signal(&w->to_sync);
    unlock(w);
    pthread_join(w->writing, NULL);
    pthread_join(w->syncing, NULL);
    bool all = !w->first;
    free_all(w);
    return all;
}
