/* Files that ${file:PATH} names, seen from outside: whether one is another than it was. Always true: a file that is not
 * there is as good a state as any other, and differs from every file that is. */
#include "conf/directives.h"

#include <sys/stat.h>

void conf_file_look(const char *path, struct conf_file *out) {
    struct stat st;
    *out = (struct conf_file){.path = path, .bytes = -1};
    if (stat(path, &st))
        return;
    out->bytes = st.st_size;
    out->changed = st.st_mtim;
    out->inode = st.st_ino;
}

void conf_file_read(const char *path, struct conf_file *out) {
    struct arena a;
    const char *why;
    conf_file_look(path, out);
    arena_init(&a, 2 * CONF_FILE_VALUE_MAX);
    struct span bytes = file_bytes(&a, path, CONF_FILE_VALUE_MAX, &why);
    if (bytes.at)
        sha256(bytes, out->sha256);
    arena_fini(&a);
}

bool conf_file_looks_same(const struct conf_file *a, const struct conf_file *b) {
    return a->bytes == b->bytes && a->inode == b->inode && a->changed.tv_sec == b->changed.tv_sec &&
           a->changed.tv_nsec == b->changed.tv_nsec;
}
