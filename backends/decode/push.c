/* Pushing a version. Always true: the loop gives one piece at a time and gets it back by `on_room`; only the thread touches files; after
 * `on_done` there is no push. A version that is there already is the same content or a refusal: a version is never replaced. */
#include "backends/decode/push.h"

#include "backends/decode/adapter_file.h"
#include "gateway/base/log.h"
#include "gateway/base/mem.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define WHY_BYTES_MAX 2000

struct decode_push {
    const struct model *model;
    int64_t rank_max;
    struct loop *loop;
    const struct decode_push_ops *ops;
    void *user;
    char root[PATH_MAX], stage[PATH_MAX], name[ADAPTER_NAME_BYTES_MAX], version[ADAPTER_VERSION_BYTES_MAX];

    /* the thread's */
    struct push_tar tar;
    int lock_fd, fd;
    enum push_file open_file;
    struct sha256 *sha; /* of the file that is open */
    uint8_t digests[PUSH_FILES][SHA256_BYTES];
    struct str why;
    enum err err;
    bool unchanged;

    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t wake;
    struct str piece; /* under the lock, as are the next three */
    bool has_piece, whole, cancelled;
    struct loop_job room, done;
};

/* --- files --- */

static bool path_in(char out[PATH_MAX], const char *folder, const char *name, struct str *why) {
    int n = snprintf(out, PATH_MAX, "%s/%s", folder, name);
    return (n > 0 && n < PATH_MAX) || complain(why, name, "its path is too long");
}

static bool failed(struct str *why, const char *path) {
    return complain(why, path, "%s", strerror(errno));
}

bool push_sync(const char *path, struct str *why) {
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    bool ok = fd >= 0 && fsync(fd) == 0;
    if (!ok)
        failed(why, path);
    if (fd >= 0)
        close(fd);
    return ok;
}

/* The blob whose only other name this file is: gone with it. */
static void remove_blob(const char *root, const struct stat *of) {
    char folder[PATH_MAX], path[PATH_MAX];
    struct str why;
    str_init(&why, WHY_BYTES_MAX);
    DIR *all = path_in(folder, root, PUSH_BLOBS, &why) ? opendir(folder) : NULL;
    for (struct dirent *e; all && (e = readdir(all));)
        if (e->d_ino == of->st_ino && path_in(path, folder, e->d_name, &why) && unlink(path) != 0)
            log_warn("adapter blob cannot be removed path=%s why=%s", path, strerror(errno));
    if (all)
        closedir(all);
    str_fini(&why);
}

static void remove_file(const char *root, const char *directory, const char *name) {
    char path[PATH_MAX];
    struct stat st;
    struct str why;
    str_init(&why, WHY_BYTES_MAX);
    if (path_in(path, directory, name, &why) && lstat(path, &st) == 0) {
        if (unlink(path) != 0)
            log_warn("adapter file cannot be removed path=%s why=%s", path, strerror(errno));
        else if (st.st_nlink == 2)
            remove_blob(root, &st);
    }
    str_fini(&why);
}

void push_remove(const char *root, const char *directory) {
    for (enum push_file f = 0; f < PUSH_FILES; f++)
        remove_file(root, directory, push_file_names[f]);
    remove_file(root, directory, PUSH_MARK);
    if (rmdir(directory) != 0 && errno != ENOENT)
        log_warn("adapter folder cannot be removed path=%s why=%s", directory, strerror(errno));
}

static void clean_one(const char *root, const char *directory) {
    int fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0) {
        log_info("adapter push that did not end is removed path=%s", directory);
        push_remove(root, directory);
    }
    if (fd >= 0)
        close(fd);
}

/* Blobs that no version holds any more. */
static void clean_blobs(const char *root) {
    char folder[PATH_MAX], path[PATH_MAX];
    struct stat st;
    struct str why;
    str_init(&why, WHY_BYTES_MAX);
    DIR *all = path_in(folder, root, PUSH_BLOBS, &why) ? opendir(folder) : NULL;
    for (struct dirent *e; all && (e = readdir(all));)
        if (path_in(path, folder, e->d_name, &why) && lstat(path, &st) == 0 && S_ISREG(st.st_mode) &&
            st.st_nlink == 1 && unlink(path) != 0)
            log_warn("adapter blob cannot be removed path=%s why=%s", path, strerror(errno));
    if (all)
        closedir(all);
    str_fini(&why);
}

void push_clean(const char *root) {
    char path[PATH_MAX];
    struct str why;
    struct dirent **all = NULL;
    int n = scandir(root, &all, NULL, alphasort);
    str_init(&why, WHY_BYTES_MAX);
    for (int i = 0; i < n; i++) {
        if (span_starts(span_of(all[i]->d_name), PUSH_STAGE) && path_in(path, root, all[i]->d_name, &why))
            clean_one(root, path);
        free(all[i]);
    }
    free((void *)all);
    str_fini(&why);
    clean_blobs(root);
}

/* --- what comes in --- */

static void end_file(struct decode_push *p) {
    if (p->sha)
        sha256_end(p->sha, p->digests[p->open_file]);
    if (p->fd >= 0)
        close(p->fd);
    p->sha = NULL;
    p->fd = -1;
}

static bool begin_file(struct decode_push *p, enum push_file f, struct str *why) {
    char path[PATH_MAX];
    end_file(p);
    if (!path_in(path, p->stage, push_file_names[f], why))
        return false;
    p->fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    p->sha = sha256_new();
    p->open_file = f;
    return p->fd >= 0 || failed(why, path);
}

static bool take(void *user, enum push_file f, struct span bytes, struct str *why) {
    struct decode_push *p = user;
    if (!bytes.n)
        return begin_file(p, f, why);
    sha256_add(p->sha, bytes);
    while (bytes.n) {
        ssize_t n = write(p->fd, bytes.at, bytes.n);
        if (n < 0 && errno != EINTR) {
            p->err = ERR_INTERNAL;
            return failed(why, push_file_names[f]);
        }
        if (n > 0)
            bytes = span_from(bytes.at + n, bytes.n - (size_t)n);
    }
    return true;
}

/* --- publishing --- */

/* The staged file becomes one with the blob of its content. */
static bool join_blob(struct decode_push *p, enum push_file f, struct str *why) {
    char folder[PATH_MAX], blob[PATH_MAX], file[PATH_MAX], hex[SHA256_HEX_MAX];
    if (!path_in(folder, p->root, PUSH_BLOBS, why) ||
        !path_in(blob, folder, hex_put(p->digests[f], SHA256_BYTES, hex), why) ||
        !path_in(file, p->stage, push_file_names[f], why) || !push_sync(file, why))
        return false;
    if (link(file, blob) == 0)
        return true;
    return (errno == EEXIST && unlink(file) == 0 && link(blob, file) == 0) || failed(why, blob);
}

static bool make_folder(const char *path, struct str *why) {
    return mkdir(path, 0700) == 0 || errno == EEXIST || failed(why, path);
}

static bool join_blobs(struct decode_push *p, struct str *why) {
    char path[PATH_MAX];
    if (!path_in(path, p->root, PUSH_BLOBS, why) || !make_folder(path, why))
        return false;
    for (enum push_file f = 0; f < PUSH_FILES; f++)
        if (p->tar.seen[f] && !join_blob(p, f, why))
            return false;
    return push_sync(path, why);
}

/* All that is staged is understood, and is what came in. */
static bool check(struct decode_push *p, uint8_t digest[SHA256_BYTES], struct str *why) {
    struct adapter *got = adapter_open(p->stage, p->root, p->model, p->rank_max, why);
    adapter_digest(p->digests[PUSH_CONFIG], p->digests[PUSH_WEIGHTS], digest);
    bool same = got && memcmp(got->digest, digest, SHA256_BYTES) == 0;
    if (got && !same)
        complain(why, PUSH_BLOBS, "a blob is not what its name says; remove it and push again");
    adapter_close(got);
    return same;
}

static bool mark_pushed(struct decode_push *p, struct str *why) {
    char path[PATH_MAX];
    if (!path_in(path, p->stage, PUSH_MARK, why))
        return false;
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0)
        return failed(why, path);
    close(fd);
    return push_sync(path, why) && push_sync(p->stage, why);
}

static bool is_there_already(struct decode_push *p, const char *at, const uint8_t digest[SHA256_BYTES],
                             struct str *why) {
    struct adapter_files files;
    struct str other;
    str_init(&other, WHY_BYTES_MAX);
    p->unchanged = adapter_files_read(at, p->root, &files, &other) && memcmp(files.digest, digest, SHA256_BYTES) == 0;
    adapter_files_free(&files);
    str_fini(&other);
    return p->unchanged || complain(why, p->version, "is there already with other content; a version is not replaced");
}

static bool publish(struct decode_push *p, struct str *why) {
    char folder[PATH_MAX], at[PATH_MAX];
    uint8_t digest[SHA256_BYTES];
    end_file(p);
    if (!push_tar_end(&p->tar, why))
        return false;
    p->err = ERR_INTERNAL;
    if (!join_blobs(p, why))
        return false;
    p->err = ERR_INVALID;
    if (!check(p, digest, why))
        return false;
    p->err = ERR_INTERNAL;
    if (!mark_pushed(p, why) || !path_in(folder, p->root, p->name, why) || !path_in(at, folder, p->version, why) ||
        !make_folder(folder, why) || !push_sync(p->root, why))
        return false;
    if (rename(p->stage, at) == 0)
        return push_sync(folder, why);
    if (errno != EEXIST && errno != ENOTEMPTY && errno != ENOTDIR)
        return failed(why, at);
    p->err = ERR_INVALID;
    return is_there_already(p, at, digest, why);
}

/* --- the thread --- */

/* The next piece into `into`; false: that was all, or it is not wanted any more. */
static bool next_piece(struct decode_push *p, struct str *into) {
    pthread_mutex_lock(&p->lock);
    while (!p->has_piece && !p->whole && !p->cancelled)
        pthread_cond_wait(&p->wake, &p->lock);
    bool got = p->has_piece && !p->cancelled;
    if (got) {
        struct str empty = *into;
        *into = p->piece;
        p->piece = empty;
        str_clear(&p->piece);
        p->has_piece = false;
    }
    pthread_mutex_unlock(&p->lock);
    return got;
}

static bool is_cancelled(struct decode_push *p) {
    pthread_mutex_lock(&p->lock);
    bool cancelled = p->cancelled;
    pthread_mutex_unlock(&p->lock);
    return cancelled;
}

static bool take_pieces(struct decode_push *p) {
    struct str piece;
    bool ok = true;
    str_init(&piece, DECODE_PUSH_PIECE_MAX);
    while (ok && next_piece(p, &piece)) {
        ok = push_tar_read(&p->tar, str_span(&piece), &p->why);
        if (ok)
            loop_post(p->loop, &p->room);
    }
    str_fini(&piece);
    if (ok && is_cancelled(p))
        ok = complain(&p->why, "push", "was broken off");
    return ok;
}

static void *push_main(void *arg) {
    struct decode_push *p = arg;
    bool ok = take_pieces(p) && publish(p, &p->why);
    end_file(p);
    if (ok)
        p->err = ERR_NONE;
    push_remove(p->root, p->stage);
    close(p->lock_fd);
    loop_post(p->loop, &p->done);
    return NULL;
}

/* --- the loop --- */

static void on_room(struct loop_job *job) {
    struct decode_push *p = container_of(job, struct decode_push, room);
    p->ops->on_room(p->user);
}

static void push_free(struct decode_push *p) {
    str_fini(&p->piece);
    str_fini(&p->why);
    pthread_mutex_destroy(&p->lock);
    pthread_cond_destroy(&p->wake);
    free(p);
}

static void on_done(struct loop_job *job) {
    struct decode_push *p = container_of(job, struct decode_push, done);
    pthread_join(p->thread, NULL);
    p->ops->on_done(p->user, p->err, p->err ? p->why.at : NULL, p->unchanged);
    push_free(p);
}

static bool open_stage(struct decode_push *p, struct str *why) {
    int n = snprintf(p->stage, sizeof p->stage, "%s/" PUSH_STAGE "XXXXXX", p->root);
    if (n >= (int)sizeof p->stage || !mkdtemp(p->stage))
        return failed(why, p->root);
    p->lock_fd = open(p->stage, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (p->lock_fd >= 0 && flock(p->lock_fd, LOCK_EX | LOCK_NB) == 0)
        return true;
    failed(why, p->stage);
    if (p->lock_fd >= 0)
        close(p->lock_fd);
    rmdir(p->stage);
    return false;
}

struct decode_push *adapters_push(struct adapters *a, const char *name, const char *version,
                                  const struct decode_push_ops *ops, void *user, struct str *why) {
    if (!adapter_name_ok(span_of(name)) || !adapter_name_ok(span_of(version))) {
        complain(why, "name and version",
                 "are letters, digits, '.', '_' and '-', at most 64, and begin with a letter or digit");
        return NULL;
    }
    struct decode_push *p = xcalloc(1, sizeof *p);
    p->model = a->model;
    p->rank_max = a->options.rank_max;
    p->loop = a->loop;
    p->ops = ops;
    p->user = user;
    p->fd = p->lock_fd = -1;
    p->err = ERR_INVALID;
    p->room.run = on_room;
    p->done.run = on_done;
    snprintf(p->root, sizeof p->root, "%s", a->options.directory);
    snprintf(p->name, sizeof p->name, "%s", name);
    snprintf(p->version, sizeof p->version, "%s", version);
    str_init(&p->piece, DECODE_PUSH_PIECE_MAX);
    str_init(&p->why, WHY_BYTES_MAX);
    pthread_mutex_init(&p->lock, NULL);
    pthread_cond_init(&p->wake, NULL);
    push_tar_init(&p->tar, take, p);
    if (open_stage(p, why)) {
        if (pthread_create(&p->thread, NULL, push_main, p) == 0)
            return p;
        complain(why, "push", "no thread can be started");
        close(p->lock_fd);
        rmdir(p->stage);
    }
    push_free(p);
    return NULL;
}

void decode_push_give(struct decode_push *p, struct span bytes) {
    pthread_mutex_lock(&p->lock);
    str_put(&p->piece, bytes);
    p->has_piece = true;
    pthread_cond_signal(&p->wake);
    pthread_mutex_unlock(&p->lock);
}

static void set(struct decode_push *p, bool *flag) {
    pthread_mutex_lock(&p->lock);
    *flag = true;
    pthread_cond_signal(&p->wake);
    pthread_mutex_unlock(&p->lock);
}

void decode_push_end(struct decode_push *p) {
    set(p, &p->whole);
}

void decode_push_cancel(struct decode_push *p) {
    set(p, &p->cancelled);
}
