/* What the disk is asked for one file. Always true here: a file that was removed, replaced or cut behind our back takes
 * every write without an error, so each sync also looks whether the file is where readers look for it. */
#include "audit/file.h"
#include "gateway/base/mem.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define PATH_BYTES 4096

const struct writer_calls writer_disk = {pwrite, fdatasync};

static bool path_of(const char *directory, const char *name, char path[PATH_BYTES]) {
    int n = snprintf(path, PATH_BYTES, "%s/%s", directory, name);
    if (n >= 0 && n < PATH_BYTES)
        return true;
    errno = ENAMETOOLONG;
    return false;
}

/* A new file is durable only when its directory is. */
static bool sync_directory(const char *directory) {
    int fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return false;
    bool done = fsync(fd) == 0 || errno == EINVAL; /* some file systems know no fsync of directories */
    int error = errno;
    close(fd);
    errno = error;
    return done;
}

void file_free(struct file *f) {
    int error = errno;
    if (f->fd >= 0)
        close(f->fd);
    free(f);
    errno = error;
}

/* Only what begins a file makes it: one that should be there and is not was taken away. */
struct file *file_open(const char *directory, const char *name, bool begins) {
    char path[PATH_BYTES];
    if (!path_of(directory, name, path))
        return NULL;
    struct file *f = xcalloc(1, sizeof *f);
    memcpy(f->name, name, strnlen(name, SEGMENT_NAME_MAX - 1));
    f->fd = open(path, O_RDWR | O_CLOEXEC | (begins ? O_CREAT : 0), 0640);
    f->end = f->fd < 0 ? -1 : begins ? 0 : (int64_t)lseek(f->fd, 0, SEEK_END);
    if (f->end >= 0 && (!begins || sync_directory(directory)))
        return f;
    file_free(f);
    return NULL;
}

/* A file that was cut behind our back must not get a hole in the place of records. */
static bool reaches(const struct file *f, int64_t at) {
    struct stat st;
    if (fstat(f->fd, &st) == 0 && st.st_size >= at)
        return true;
    errno = EIO;
    return false;
}

bool file_write(struct file *f, const struct writer_calls *calls, const char *bytes, size_t n, int64_t at) {
    if (!reaches(f, at))
        return false;
    for (size_t done = 0; done < n;) {
        ssize_t took = calls->pwrite(f->fd, bytes + done, n - done, (off_t)(at + (int64_t)done));
        if (took < 0 && errno == EINTR)
            continue;
        if (took == 0)
            errno = ENOSPC;
        if (took <= 0)
            return false;
        done += (size_t)took;
    }
    f->end = at + (int64_t)n;
    return true;
}

static bool still_there(const struct file *f, const char *directory, int64_t end) {
    char path[PATH_BYTES];
    struct stat ours, named;
    if (!path_of(directory, f->name, path) || fstat(f->fd, &ours) || stat(path, &named))
        return false;
    bool same = ours.st_dev == named.st_dev && ours.st_ino == named.st_ino;
    errno = same ? EIO : ESTALE;
    return same && named.st_size >= end;
}

bool file_sync(const struct file *f, const struct writer_calls *calls, const char *directory, int64_t end) {
    int failed;
    do
        failed = calls->fdatasync(f->fd);
    while (failed && errno == EINTR);
    return !failed && still_there(f, directory, end);
}
