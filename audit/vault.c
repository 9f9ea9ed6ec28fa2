/* The thread that writes sealed bodies. Always true here: no frame is written whose key is not durable before it, and a
 * key that was destroyed is never written again. Files are the thread's; keys in memory are the loop's. */
#include "audit/vault.h"

#include "gateway/base/clock.h"
#include "gateway/base/hash.h"
#include "gateway/base/list.h"
#include "gateway/base/log.h"
#include "gateway/base/map.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define PATH_BYTES 4096
#define FRAME_MAX ((size_t)40 << 20)

const struct vault_calls vault_disk = {pwrite};

struct item { /* a frame under way */
    struct link link;
    char file[CONTENT_NAME_MAX], request[AUDIT_REQUEST_MAX];
    char *key_text; /* owned; NULL: the file's key is there already */
    char *bytes;    /* owned */
    size_t n;
    int64_t offset;
};
struct failure {
    char request[AUDIT_REQUEST_MAX], file[CONTENT_NAME_MAX], why[160];
};

struct vault {
    char *directory; /* owned */
    const struct vault_calls *calls;
    uint8_t wrap[SEAL_KEY_BYTES]; /* secret; the loop's, as are the keys */
    struct map keys;              /* team -> struct content_key * (owned) */
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed, idle;
    /* under the lock */
    struct list queue;
    size_t queued_bytes;
    bool busy, closing;
    struct failure failures[VAULT_FAILURES_MAX];
    size_t n_failures, untold;
    /* the thread's own */
    struct log_gate gate;
};

static void item_free(struct item *i) {
    free(i->key_text);
    free(i->bytes);
    free(i);
}

/* ---- the thread ---- */

static bool path_of(const struct vault *v, const char *name, char path[PATH_BYTES]) {
    int n = snprintf(path, PATH_BYTES, "%s/%s", v->directory, name);
    return n > 0 && n < PATH_BYTES;
}

static bool write_all(const struct vault *v, int fd, const char *bytes, size_t n, int64_t at) {
    while (n) {
        ssize_t did = v->calls->pwrite(fd, bytes, n, (off_t)at);
        if (did < 0 && errno == EINTR)
            continue;
        if (did <= 0)
            return false;
        bytes += did;
        n -= (size_t)did;
        at += did;
    }
    return true;
}

static bool sync_folder(const struct vault *v) {
    int fd = open(v->directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    bool good = fd >= 0 && fsync(fd) == 0;
    if (fd >= 0)
        close(fd);
    return good;
}

static bool write_key(const struct vault *v, const char *path, const char *text) {
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return false;
    bool good = write_all(v, fd, text, strlen(text), 0) && fsync(fd) == 0 && sync_folder(v);
    int error = errno;
    close(fd);
    if (!good)
        unlink(path);
    errno = error;
    return good;
}

static bool write_frame(const struct vault *v, const struct item *i, const char *path) {
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW | (i->key_text ? O_EXCL : 0), 0600);
    if (fd < 0)
        return false;
    bool good = write_all(v, fd, i->bytes, i->n, i->offset);
    int error = errno;
    close(fd);
    errno = error;
    return good;
}

/* NULL when it is written, else why not. */
static const char *write_item(struct vault *v, const struct item *i) {
    char path[PATH_BYTES], key_path[PATH_BYTES], name[CONTENT_NAME_MAX];
    if (!content_name(i->file, ".key", name) || !path_of(v, name, key_path) || !path_of(v, i->file, path))
        return "the folder's name is too long";
    if (i->key_text ? !write_key(v, key_path, i->key_text) : access(key_path, F_OK) != 0)
        return i->key_text || errno != ENOENT ? strerror(errno) : "the file of its key is not there";
    return write_frame(v, i, path) ? NULL : strerror(errno);
}

/* Under the lock. */
static void fail(struct vault *v, const struct item *i, const char *why) {
    if (v->n_failures == VAULT_FAILURES_MAX) {
        v->untold++;
        return;
    }
    struct failure *f = &v->failures[v->n_failures++];
    memcpy(f->request, i->request, sizeof f->request);
    memcpy(f->file, i->file, sizeof f->file);
    snprintf(f->why, sizeof f->why, "%s", why);
}

static void do_item(struct vault *v, struct item *i) {
    uint64_t swallowed;
    const char *why = write_item(v, i);
    if (why && log_gate_open(&v->gate, clock_mono_us(), &swallowed))
        log_error("bodies cannot be stored beside the audit log: %s file=%s swallowed=%llu", why, i->file,
                  (unsigned long long)swallowed);
    pthread_mutex_lock(&v->lock);
    v->queued_bytes -= i->n;
    if (why)
        fail(v, i, why);
    pthread_mutex_unlock(&v->lock);
    item_free(i);
}

static void *run(void *user) {
    struct vault *v = user;
    pthread_mutex_lock(&v->lock);
    for (;;) {
        while (list_empty(&v->queue) && !v->closing)
            pthread_cond_wait(&v->changed, &v->lock);
        struct link *first = list_shift(&v->queue);
        if (!first)
            break;
        v->busy = true;
        pthread_mutex_unlock(&v->lock);
        do_item(v, container_of(first, struct item, link));
        pthread_mutex_lock(&v->lock);
        v->busy = false;
        pthread_cond_broadcast(&v->idle);
    }
    pthread_mutex_unlock(&v->lock);
    return NULL;
}

/* ---- the loop ---- */

struct vault *vault_open(const char *directory, const uint8_t key[SEAL_KEY_BYTES], const struct vault_calls *calls) {
    struct vault *v = xcalloc(1, sizeof *v);
    pthread_condattr_t monotone;
    v->directory = xstrdup(directory);
    v->calls = calls;
    memcpy(v->wrap, key, sizeof v->wrap);
    map_init(&v->keys);
    list_init(&v->queue);
    pthread_mutex_init(&v->lock, NULL);
    pthread_cond_init(&v->changed, NULL);
    pthread_condattr_init(&monotone);
    pthread_condattr_setclock(&monotone, CLOCK_MONOTONIC);
    pthread_cond_init(&v->idle, &monotone);
    pthread_condattr_destroy(&monotone);
    if (pthread_create(&v->thread, NULL, run, v) != 0)
        abort();
    return v;
}

static void drop_key(struct vault *v, struct span team) {
    struct content_key *k = map_find(&v->keys, team);
    if (!k)
        return;
    map_remove(&v->keys, team);
    seal_forget(k, sizeof *k);
    free(k);
}

static void drop_keys(struct vault *v) {
    for (struct map_entry *e = map_next(&v->keys, NULL); e; e = map_next(&v->keys, e)) {
        seal_forget(e->value, sizeof(struct content_key));
        free(e->value);
    }
    map_fini(&v->keys);
    map_init(&v->keys);
}

void vault_close(struct vault *v) {
    pthread_mutex_lock(&v->lock);
    v->closing = true;
    pthread_cond_signal(&v->changed);
    pthread_mutex_unlock(&v->lock);
    pthread_join(v->thread, NULL);
    drop_keys(v);
    map_fini(&v->keys);
    pthread_cond_destroy(&v->changed);
    pthread_cond_destroy(&v->idle);
    pthread_mutex_destroy(&v->lock);
    seal_forget(v->wrap, sizeof v->wrap);
    free(v->directory);
    free(v);
}

void vault_tune(struct vault *v, const uint8_t key[SEAL_KEY_BYTES]) {
    if (memcmp(v->wrap, key, sizeof v->wrap) == 0)
        return;
    memcpy(v->wrap, key, sizeof v->wrap);
    drop_keys(v);
}

static bool has_room(struct vault *v, size_t n) {
    pthread_mutex_lock(&v->lock);
    bool room = v->queued_bytes + n <= VAULT_QUEUE_MAX;
    pthread_mutex_unlock(&v->lock);
    return room;
}

/* The key that a team's bodies are sealed with now; `fresh` gets the text of its file where it was made just now. */
static struct content_key *key_of(struct vault *v, const char *team, int64_t day, struct str *fresh) {
    struct content_key *k = map_find(&v->keys, span_of(team));
    if (k && k->day == day && k->offset < VAULT_FILE_MAX)
        return k;
    drop_key(v, span_of(team));
    if (v->keys.n >= VAULT_TEAMS_MAX)
        drop_keys(v);
    k = xcalloc(1, sizeof *k);
    if (content_key_new(v->wrap, team, day, k, fresh)) {
        map_put(&v->keys, span_of(team), k);
        return k;
    }
    free(k);
    return NULL;
}

static void queue(struct vault *v, struct item *i) {
    pthread_mutex_lock(&v->lock);
    v->queued_bytes += i->n;
    list_append(&v->queue, &i->link);
    pthread_cond_signal(&v->changed);
    pthread_mutex_unlock(&v->lock);
}

static void tell_place(struct content_key *k, const struct item *i, struct audit_stored_at *place) {
    uint8_t sum[SHA256_BYTES];
    sha256(span_from(i->bytes, i->n), sum);
    hex_put(sum, sizeof sum, place->digest);
    memcpy(place->file, k->file, sizeof place->file);
    place->offset = i->offset;
    place->bytes = (int64_t)i->n;
}

bool vault_put(struct vault *v, const struct audit_content *c, struct audit_stored_at *place, int64_t now_us) {
    struct str frame, fresh;
    if (!c->team || !has_room(v, c->asked.n + c->answered.n))
        return false;
    str_init(&fresh, CONTENT_KEY_FILE_MAX);
    str_init(&frame, FRAME_MAX);
    struct content_key *k = key_of(v, c->team, now_us / US_PER_DAY, &fresh);
    bool good = k && content_pack(k, c, &frame);
    if (good) {
        struct item *i = xcalloc(1, sizeof *i);
        snprintf(i->request, sizeof i->request, "%s", c->request);
        memcpy(i->file, k->file, sizeof i->file);
        i->offset = k->offset;
        i->n = frame.n;
        i->bytes = str_release(&frame);
        i->key_text = fresh.n ? str_release(&fresh) : NULL;
        k->offset += (int64_t)i->n;
        tell_place(k, i, place);
        queue(v, i);
    } else if (fresh.n) {
        drop_key(v, span_of(c->team)); /* its file was never begun */
    }
    str_fini(&frame);
    str_fini(&fresh);
    return good;
}

/* A file that lost a frame is not gone on with: its key may be missing, and its disk may have room again. */
static void give_up_file(struct vault *v, const char *file) {
    for (struct map_entry *e = map_next(&v->keys, NULL); e; e = map_next(&v->keys, e))
        if (strcmp(((struct content_key *)e->value)->file, file) == 0) {
            drop_key(v, span_of(e->key));
            return;
        }
}

bool vault_failed(struct vault *v, char request[AUDIT_REQUEST_MAX], char why[160]) {
    struct failure f = {.why = "the disk refuses them"};
    pthread_mutex_lock(&v->lock);
    bool any = v->n_failures || v->untold;
    if (v->n_failures) {
        f = v->failures[--v->n_failures];
    } else if (v->untold) {
        v->untold--;
    }
    pthread_mutex_unlock(&v->lock);
    if (!any)
        return false;
    if (f.file[0])
        give_up_file(v, f.file);
    memcpy(request, f.request, sizeof f.request);
    memcpy(why, f.why, sizeof f.why);
    return true;
}

/* ---- shredding ---- */

static bool is_of(const char *file, const char *team, int64_t day) {
    struct span theirs;
    int64_t on;
    return content_name_read(file, &theirs, &on) && on == day && span_is(theirs, team);
}

/* Frames of a key that goes are not written; under the lock. */
static void drop_queued(struct vault *v, const char *team, int64_t day) {
    for (struct link *k = list_first(&v->queue), *next; k; k = next) {
        struct item *i = container_of(k, struct item, link);
        next = list_next(&v->queue, k);
        if (!is_of(i->file, team, day))
            continue;
        list_remove(&v->queue, k);
        v->queued_bytes -= i->n;
        item_free(i);
    }
}

static bool await_idle(struct vault *v) {
    struct timespec until;
    int got = 0;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += VAULT_PATIENCE_MS / 1000;
    while (v->busy && got == 0)
        got = pthread_cond_timedwait(&v->idle, &v->lock, &until);
    return !v->busy;
}

int64_t vault_shred(struct vault *v, const char *team, int64_t day, struct str *why) {
    struct content_key *k = map_find(&v->keys, span_of(team));
    if (k && k->day == day)
        drop_key(v, span_of(team));
    pthread_mutex_lock(&v->lock);
    drop_queued(v, team, day);
    bool idle = await_idle(v); /* it may be writing this very key */
    int64_t n = idle ? content_shred(v->directory, team, day, why) : -1;
    pthread_mutex_unlock(&v->lock);
    if (!idle)
        str_puts(why, "the disk does not answer; the key may still be there: try again");
    return n;
}
