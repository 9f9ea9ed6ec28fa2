/* Files of a model directory come in through here and nowhere else: mapped read-only, so weights cost page cache and no
 * copy. A name is always one component: an index that says "../../etc/x" never reaches the system. */
#include "backends/decode/model_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define PATH_BYTES_MAX 4096

bool complain(struct str *why, const char *name, const char *format, ...) {
    if (why->n)
        return false;
    va_list args;
    va_start(args, format);
    str_puts(why, name);
    str_puts(why, ": ");
    str_vprintf(why, format, args);
    va_end(args);
    return false;
}

static bool path_of(const char *directory, const char *name, char path[PATH_BYTES_MAX]) {
    if (!*name || strchr(name, '/') || strcmp(name, "..") == 0 || strcmp(name, ".") == 0 ||
        strlen(name) >= FILE_NAME_MAX)
        return false;
    int n = snprintf(path, PATH_BYTES_MAX, "%s/%s", directory, name);
    return n > 0 && n < PATH_BYTES_MAX;
}

bool model_file_exists(const char *directory, const char *name) {
    char path[PATH_BYTES_MAX];
    return path_of(directory, name, path) && access(path, F_OK) == 0;
}

static bool map(struct file *f, int fd, struct str *why) {
    struct stat st;
    if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode))
        return complain(why, f->name, "is not a regular file");
    f->n = (size_t)st.st_size;
    if (f->n == 0)
        return true;
    void *at = mmap(NULL, f->n, PROT_READ, MAP_PRIVATE, fd, 0);
    if (at == MAP_FAILED)
        return complain(why, f->name, "cannot be mapped: %s", strerror(errno));
    f->at = at;
    return true;
}

bool model_file_open(struct file *f, const char *directory, const char *name, struct str *why) {
    char path[PATH_BYTES_MAX];
    *f = (struct file){0};
    if (!path_of(directory, name, path))
        return complain(why, name, "is not a plain file name inside the model directory");
    memcpy(f->name, name, strlen(name) + 1);
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return complain(why, name, "cannot be opened in %s: %s", directory, strerror(errno));
    bool ok = map(f, fd, why);
    close(fd);
    return ok;
}

void model_file_close(struct file *f) {
    if (f->at)
        munmap((void *)(uintptr_t)f->at, f->n);
    f->at = NULL;
}

static bool check_json(const struct file *f, struct json *out, struct str *why) {
    struct json_fault fault;
    if (f->n > JSON_FILE_BYTES_MAX)
        return complain(why, f->name, "has %zu bytes; at most %d are read", f->n, JSON_FILE_BYTES_MAX);
    if (!json_check(span_from(f->at, f->n), JSON_DEPTH_MAX, out, &fault))
        return complain(why, f->name, "is not JSON at byte %zu: %s", fault.at, fault.what);
    if (out->kind != JSON_OBJECT)
        return complain(why, f->name, "must hold a JSON object");
    return true;
}

bool model_file_open_json(struct file *f, const char *directory, const char *name, struct json *out, struct str *why) {
    if (!model_file_open(f, directory, name, why))
        return false;
    if (check_json(f, out, why))
        return true;
    model_file_close(f);
    return false;
}
