/* Content on the disk: read for who has the key, compared with what records say, destroyed. Always true: a key is
 * overwritten before its name goes, and the folder is synced before anybody says that it is gone. */
#include "audit/content.h"

#include "gateway/base/clock.h"
#include "gateway/base/hash.h"
#include "gateway/base/log.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define PATH_BYTES 4096
#define FRAME_MAX ((int64_t)64 << 20)

static bool path_of(const char *directory, const char *name, char path[PATH_BYTES]) {
    int n = snprintf(path, PATH_BYTES, "%s/%s", directory, name);
    return n > 0 && n < PATH_BYTES;
}

/* ---- reading ---- */

static bool read_at(int fd, struct str *out, size_t n, int64_t offset) {
    while (n) {
        ssize_t got = pread(fd, out->at + out->n, n, (off_t)offset);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return false;
        out->n += (size_t)got;
        n -= (size_t)got;
        offset += got;
    }
    return true;
}

/* The frame's bytes, as whole as their digest. */
static enum audit_stored read_frame(const char *directory, const struct audit_place *p, struct str *out,
                                    struct str *why) {
    char path[PATH_BYTES], name[CONTENT_NAME_MAX], hex[SHA256_HEX_MAX];
    uint8_t sum[SHA256_BYTES];
    if (!content_name(p->file, ".sealed", name) || strcmp(name, p->file) != 0 || !path_of(directory, name, path) ||
        p->offset < 0 || p->bytes <= 0 || p->bytes > FRAME_MAX || !str_reserve(out, (size_t)p->bytes)) {
        str_puts(why, "the record names no place of content");
        return AUDIT_STORED_BAD;
    }
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0) {
        str_printf(why, "%s: %s", p->file, strerror(errno));
        return errno == ENOENT ? AUDIT_STORED_GONE : AUDIT_STORED_BAD;
    }
    bool whole = read_at(fd, out, (size_t)p->bytes, p->offset);
    close(fd);
    if (!whole) {
        str_printf(why, "%s is cut: it ends before byte %lld", p->file, (long long)(p->offset + p->bytes));
        return AUDIT_STORED_BAD;
    }
    sha256(str_span(out), sum);
    if (strcmp(hex_put(sum, sizeof sum, hex), p->digest) == 0)
        return AUDIT_STORED_WHOLE;
    str_printf(why, "%s: bytes %lld..%lld are not those whose digest the record has", p->file, (long long)p->offset,
               (long long)(p->offset + p->bytes - 1));
    return AUDIT_STORED_BAD;
}

enum audit_stored audit_stored_check(const char *directory, const struct audit_place *p, struct str *why) {
    struct str frame;
    str_init(&frame, FRAME_MAX + 1);
    enum audit_stored got = read_frame(directory, p, &frame, why);
    str_fini(&frame);
    return got;
}

static enum audit_stored read_key(const char *directory, const struct audit_place *p, const uint8_t *wrap,
                                  uint8_t key[SEAL_KEY_BYTES], struct str *why) {
    char path[PATH_BYTES], name[CONTENT_NAME_MAX];
    struct str text;
    if (!content_name(p->file, ".key", name) || !path_of(directory, name, path))
        return AUDIT_STORED_BAD;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0) {
        str_printf(why, "%s: %s", name, strerror(errno));
        return errno == ENOENT ? AUDIT_STORED_SHREDDED : AUDIT_STORED_BAD;
    }
    str_init(&text, CONTENT_KEY_FILE_MAX + 1);
    bool good = str_reserve(&text, CONTENT_KEY_FILE_MAX);
    ssize_t n = good ? pread(fd, text.at, CONTENT_KEY_FILE_MAX, 0) : -1;
    text.n = n > 0 ? (size_t)n : 0;
    close(fd);
    good = content_key_open(wrap, p->file, str_span(&text), key);
    str_fini(&text);
    if (!good)
        str_printf(why, "%s is not sealed by this key, or was changed", name);
    return good ? AUDIT_STORED_WHOLE : AUDIT_STORED_BAD;
}

enum audit_stored audit_stored_read(const char *directory, const struct audit_place *p, const uint8_t *wrap,
                                    struct str *out, struct str *why) {
    uint8_t key[SEAL_KEY_BYTES];
    struct str frame;
    str_init(&frame, FRAME_MAX + 1);
    enum audit_stored got = read_frame(directory, p, &frame, why);
    if (got == AUDIT_STORED_WHOLE)
        got = read_key(directory, p, wrap, key, why);
    if (got == AUDIT_STORED_WHOLE && !content_unpack(key, p, str_span(&frame), out, why))
        got = AUDIT_STORED_BAD;
    seal_forget(key, sizeof key);
    str_fini(&frame);
    return got;
}

/* ---- destroying ---- */

/* The bytes themselves, as far as the disk lets anybody say that: see audit/README.md. */
static bool destroy(const char *path) {
    static const char zeros[CONTENT_KEY_FILE_MAX];
    struct stat st;
    int fd = open(path, O_WRONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0)
        return errno == ENOENT;
    bool good = fstat(fd, &st) == 0;
    for (off_t at = 0; good && at < st.st_size; at += (off_t)sizeof zeros)
        good = pwrite(fd, zeros, sizeof zeros, at) == (ssize_t)sizeof zeros;
    good = fsync(fd) == 0 && good;
    close(fd);
    return good && unlink(path) == 0;
}

static bool sync_folder(const char *directory) {
    int fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    bool good = fd >= 0 && fsync(fd) == 0;
    if (fd >= 0)
        close(fd);
    return good;
}

struct removing {
    const char *directory;
    bool (*wants)(struct span team, int64_t day, const void *user);
    const void *user;
    bool keys, good;
    int64_t n;
};

static void remove_one(struct removing *r, const char *name) {
    char path[PATH_BYTES], same[CONTENT_NAME_MAX];
    struct span team;
    int64_t day;
    if (!content_name_read(name, &team, &day) || !r->wants(team, day, r->user) ||
        !content_name(name, r->keys ? ".key" : ".sealed", same) || strcmp(same, name) != 0 ||
        !path_of(r->directory, name, path))
        return;
    bool gone = r->keys ? destroy(path) : unlink(path) == 0 || errno == ENOENT;
    r->good = r->good && gone;
    r->n += gone;
}

static void remove_all(struct removing *r) {
    DIR *d = opendir(r->directory);
    r->good = r->good && d;
    for (struct dirent *e; d && (e = readdir(d));)
        remove_one(r, e->d_name);
    if (d)
        closedir(d);
}

int64_t content_remove(const char *directory, bool (*wants)(struct span team, int64_t day, const void *user),
                       const void *user, bool files_too, struct str *why) {
    struct removing r = {.directory = directory, .wants = wants, .user = user, .keys = true, .good = true};
    remove_all(&r);
    int64_t n = r.n;
    if (files_too && r.good) {
        r.keys = false;
        remove_all(&r);
    }
    r.good = r.good && (!r.n || sync_folder(directory));
    if (!r.good)
        str_printf(why, "not every key in %s could be destroyed: %s", directory, strerror(errno));
    return r.good ? n : -1;
}

static bool is_old(struct span team, int64_t day, const void *cut_us) {
    (void)team;
    return (day + 1) * US_PER_DAY <= *(const int64_t *)cut_us;
}

void content_remove_old(const char *directory, int64_t cut_us) {
    struct str why;
    str_init(&why, PATH_BYTES + 256);
    int64_t n = content_remove(directory, is_old, &cut_us, true, &why);
    if (n < 0)
        log_error("old content cannot be removed: %s", why.at);
    else if (n)
        log_info("old content removed: %lld files directory=%s", (long long)n, directory);
    str_fini(&why);
}

struct shredding {
    struct span team;
    int64_t day;
};

static bool is_theirs(struct span team, int64_t day, const void *user) {
    const struct shredding *s = user;
    return day == s->day && span_equal(team, s->team);
}

int64_t content_shred(const char *directory, const char *team, int64_t day, struct str *why) {
    struct shredding s = {span_of(team), day};
    return content_remove(directory, is_theirs, &s, false, why);
}
