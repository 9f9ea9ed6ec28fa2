/* The thread of chores. Always true here: each kind of work waits at most once, the newest replacing what waits; nothing
 * of the disk is asked under the lock. */
#include "audit/chores.h"
#include "audit/content.h"
#include "audit/line.h"
#include "gateway/base/clock.h"
#include "gateway/base/json.h"
#include "gateway/base/log.h"
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define PATH_BYTES 4096
/* Heads come every thousand records or so: enough of a file's end to hold one. */
#define HEAD_SEARCH_BYTES (INT64_C(4) << 20)
/* A head may be claimed when a loss of power would no longer take it away. */
#define HEAD_SETTLED_US (2 * US_PER_S)
#define OTHERS_MAX_BYTES ((size_t)256 << 10)
#define CHORES_FILES_MAX 8

struct work {
    bool seek_heads, seek_removal;
    int64_t now_us, cut_us, below_number, remove_before, content_cut_us;
    char *anchor; /* owned */
    size_t anchor_bytes, n_files;
    char *files[CHORES_FILES_MAX]; /* owned */
};

struct chores {
    struct chores_options o;
    char *directory, *chain; /* owned */
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    /* under the lock */
    struct work work;
    bool closing;
    char *heads; /* owned; NULL: nothing found since it was taken */
    bool has_removal;
    struct removal removal;
    /* the thread's own */
    struct log_gate gate;
};

static void drop_anchor(struct work *w) {
    free(w->anchor);
    for (size_t i = 0; i < w->n_files; i++)
        free(w->files[i]);
    w->anchor = NULL;
    w->n_files = 0;
}

/* ---- heads of the other chains ---- */

static bool is_settled(const struct line_frame *f, int64_t now_us) {
    int64_t time_us;
    return clock_parse(f->time, &time_us) && time_us + HEAD_SETTLED_US <= now_us;
}

/* The last settled head in the end of a file. */
static bool last_head(const char *directory, const char *name, int64_t now_us, uint64_t *seq,
                      char hash[SHA256_HEX_MAX]) {
    struct lines l;
    struct span line;
    struct line_frame f;
    struct stat st;
    bool found = false;
    if (!lines_open(&l, directory, name))
        return false;
    if (fstat(l.fd, &st) == 0 && lines_skip(&l, st.st_size > HEAD_SEARCH_BYTES ? st.st_size - HEAD_SEARCH_BYTES : 0, 0))
        while (lines_next(&l, &line) == LINES_LINE) {
            if (!line_read(line, &f) || line_kind(f.kind) != AUDIT_HEAD || !line_hash_is_true(&f) ||
                !is_settled(&f, now_us))
                continue;
            *seq = f.seq - 1;
            memcpy(hash, f.prev.at, f.prev.n);
            hash[f.prev.n] = 0;
            found = true;
        }
    lines_close(&l);
    return found;
}

static void put_other(struct str *out, const char *chain, uint64_t seq, const char *hash) {
    str_puts(out, out->n > 1 ? ",{" : "{");
    json_put_str(out, "chain", chain);
    json_put_i64(out, "seq", (int64_t)seq);
    json_put_str(out, "hash", hash);
    str_putc(out, '}');
}

static void seek_heads(struct chores *c, int64_t now_us) {
    struct segments all;
    struct str out, why;
    uint64_t seq;
    char hash[SHA256_HEX_MAX];
    str_init(&why, 1024);
    str_init(&out, OTHERS_MAX_BYTES);
    str_putc(&out, '[');
    if (segments_list(c->directory, NULL, &all, &why))
        for (size_t at = 0, end; at < all.n; at = end) {
            end = segments_chain_end(&all, at);
            if (strcmp(all.all[at].chain, c->chain) != 0 &&
                last_head(c->directory, all.all[end - 1].name, now_us, &seq, hash))
                put_other(&out, all.all[at].chain, seq, hash);
        }
    str_putc(&out, ']');
    bool any = out.n > 2 && !out.over;
    segments_free(&all);
    str_fini(&why);
    pthread_mutex_lock(&c->lock);
    free(c->heads);
    c->heads = any ? str_release(&out) : NULL;
    pthread_mutex_unlock(&c->lock);
    str_fini(&out);
}

/* ---- retention ---- */

static bool first_record(const char *directory, const char *name, struct removal *out) {
    struct lines l;
    struct span line;
    struct line_frame f;
    if (!lines_open(&l, directory, name))
        return false;
    bool good = lines_next(&l, &line) == LINES_LINE && line_read(line, &f) && line_hash_is_true(&f) && f.seq > 1;
    if (good) {
        out->until_seq = f.seq - 1;
        memcpy(out->until_hash, f.prev.at, f.prev.n);
        out->until_hash[f.prev.n] = 0;
    }
    lines_close(&l);
    return good;
}

/* A file's records are no younger than the day on which the next was begun. */
static void seek_removal(struct chores *c, int64_t cut_us, int64_t below_number) {
    struct segments all;
    struct str why;
    struct removal found = {0};
    str_init(&why, 1024);
    if (segments_list(c->directory, c->chain, &all, &why)) {
        size_t n = 0;
        while (n + 1 < all.n && all.all[n].number < below_number && segment_day(all.all[n + 1].name) >= 0 &&
               (segment_day(all.all[n + 1].name) + 1) * US_PER_DAY <= cut_us)
            n++;
        found.files = n;
        if (n && first_record(c->directory, all.all[n].name, &found))
            found.before = all.all[n].number;
    }
    segments_free(&all);
    str_fini(&why);
    pthread_mutex_lock(&c->lock);
    c->removal = found;
    c->has_removal = found.before > 0;
    pthread_mutex_unlock(&c->lock);
}

static bool path_of(const struct chores *c, const char *name, char path[PATH_BYTES]) {
    int n = snprintf(path, PATH_BYTES, "%s/%s", c->directory, name);
    return n > 0 && n < PATH_BYTES;
}

/* Oldest first: whatever ends it, what is left is the end of the chain. */
static void remove_files(struct chores *c, int64_t before) {
    struct segments all;
    struct str why;
    char path[PATH_BYTES];
    str_init(&why, 1024);
    if (segments_list(c->directory, c->chain, &all, &why))
        for (size_t i = 0; i + 1 < all.n && all.all[i].number < before; i++)
            if (!path_of(c, all.all[i].name, path) || unlink(path) != 0) {
                log_error("an old file of the audit log cannot be removed: %s file=%s", strerror(errno),
                          all.all[i].name);
                break;
            }
    segments_free(&all);
    str_fini(&why);
}

/* ---- anchors ---- */

static bool append_line(const char *path, const char *line, size_t n) {
    int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0640);
    if (fd < 0)
        return false;
    bool good = write(fd, line, n) == (ssize_t)n && fdatasync(fd) == 0;
    int error = errno;
    close(fd);
    errno = error;
    return good;
}

static void anchor(struct chores *c, const struct work *w) {
    uint64_t swallowed;
    for (size_t i = 0; i < w->n_files; i++)
        if (!append_line(w->files[i], w->anchor, w->anchor_bytes) &&
            log_gate_open(&c->gate, clock_mono_us(), &swallowed))
            log_error("a head of the audit log cannot be anchored: %s file=%s", strerror(errno), w->files[i]);
}

/* ---- the thread ---- */

static bool is_idle(const struct work *w) {
    return !w->seek_heads && !w->seek_removal && !w->remove_before && !w->content_cut_us && !w->anchor;
}

static void do_work(struct chores *c, struct work *w) {
    if (w->anchor)
        anchor(c, w);
    drop_anchor(w);
    if (w->remove_before)
        remove_files(c, w->remove_before);
    if (w->content_cut_us)
        content_remove_old(c->directory, w->content_cut_us);
    if (w->seek_heads)
        seek_heads(c, w->now_us);
    if (w->seek_removal)
        seek_removal(c, w->cut_us, w->below_number);
    if (w->seek_heads || w->seek_removal)
        c->o.moved(c->o.user);
}

static void *run(void *user) {
    struct chores *c = user;
    pthread_mutex_lock(&c->lock);
    for (;;) {
        while (is_idle(&c->work) && !c->closing)
            pthread_cond_wait(&c->changed, &c->lock);
        struct work w = c->work;
        bool closing = c->closing;
        memset(&c->work, 0, sizeof c->work);
        pthread_mutex_unlock(&c->lock);
        if (closing)
            w.seek_heads = w.seek_removal = false, w.remove_before = 0, w.content_cut_us = 0;
        do_work(c, &w);
        if (closing)
            return NULL;
        pthread_mutex_lock(&c->lock);
    }
}

struct chores *chores_open(const struct chores_options *o) {
    struct chores *c = xcalloc(1, sizeof *c);
    c->o = *o;
    c->directory = xstrdup(o->directory);
    c->chain = xstrdup(o->chain);
    pthread_mutex_init(&c->lock, NULL);
    pthread_cond_init(&c->changed, NULL);
    if (pthread_create(&c->thread, NULL, run, c) != 0)
        abort();
    return c;
}

static void wake(struct chores *c) {
    pthread_cond_signal(&c->changed);
    pthread_mutex_unlock(&c->lock);
}

void chores_close(struct chores *c) {
    pthread_mutex_lock(&c->lock);
    c->closing = true;
    wake(c);
    pthread_join(c->thread, NULL);
    drop_anchor(&c->work);
    free(c->heads);
    pthread_cond_destroy(&c->changed);
    pthread_mutex_destroy(&c->lock);
    free(c->directory);
    free(c->chain);
    free(c);
}

void chores_seek_heads(struct chores *c, int64_t now_us) {
    pthread_mutex_lock(&c->lock);
    c->work.seek_heads = true;
    c->work.now_us = now_us;
    wake(c);
}

void chores_seek_removal(struct chores *c, int64_t cut_us, int64_t below_number) {
    pthread_mutex_lock(&c->lock);
    c->work.seek_removal = true;
    c->work.cut_us = cut_us;
    c->work.below_number = below_number;
    wake(c);
}

void chores_remove(struct chores *c, int64_t before) {
    pthread_mutex_lock(&c->lock);
    c->work.remove_before = before;
    wake(c);
}

void chores_remove_content(struct chores *c, int64_t cut_us) {
    pthread_mutex_lock(&c->lock);
    c->work.content_cut_us = cut_us;
    wake(c);
}

void chores_anchor(struct chores *c, struct span line, const char *const *files, size_t n_files) {
    pthread_mutex_lock(&c->lock);
    drop_anchor(&c->work);
    c->work.anchor = xstrndup(line.at, line.n);
    c->work.anchor_bytes = line.n;
    for (size_t i = 0; i < n_files && i < CHORES_FILES_MAX; i++)
        c->work.files[c->work.n_files++] = xstrdup(files[i]);
    wake(c);
}

bool chores_take_heads(struct chores *c, char **json) {
    pthread_mutex_lock(&c->lock);
    *json = c->heads;
    c->heads = NULL;
    pthread_mutex_unlock(&c->lock);
    return *json != NULL;
}

bool chores_take_removal(struct chores *c, struct removal *out) {
    pthread_mutex_lock(&c->lock);
    bool has = c->has_removal;
    *out = c->removal;
    c->has_removal = false;
    pthread_mutex_unlock(&c->lock);
    return has;
}
