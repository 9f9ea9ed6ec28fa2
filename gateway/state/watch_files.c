/* Watching by looking: a stat a file a second, and a read where that has changed. Always true: `told` is what somebody was
 * last told of, `seen` is how the file looked last. */
#include "gateway/state/watch_files.h"

#include <stdlib.h>

struct watched {
    char *path; /* owned */
    struct conf_file told, seen;
};

struct file_watch {
    struct watched *all;
    size_t n;
};

struct file_watch *file_watch_new(void) {
    return xcalloc(1, sizeof(struct file_watch));
}

static void forget(struct watched *all, size_t n) {
    for (size_t i = 0; i < n; i++)
        free(all[i].path);
    free(all);
}

void file_watch_free(struct file_watch *w) {
    forget(w->all, w->n);
    free(w);
}

static const struct watched *find(const struct file_watch *w, const char *path) {
    for (size_t i = 0; i < w->n; i++)
        if (strcmp(w->all[i].path, path) == 0)
            return &w->all[i];
    return NULL;
}

void file_watch_take(struct file_watch *w, const struct conf_file *files, bool anew) {
    struct watched *next = NULL;
    size_t n = 0;
    for (const struct conf_file *f = files; f; f = f->next, n++) {
        const struct watched *known = anew ? NULL : find(w, f->path);
        next = xrealloc(next, (n + 1) * sizeof(*next));
        next[n] = known ? *known : (struct watched){.told = *f, .seen = *f};
        next[n].path = xstrdup(f->path);
    }
    forget(w->all, w->n);
    w->all = next;
    w->n = n;
}

/* Its content is another one, and it has come to rest. */
static bool has_changed(struct watched *f) {
    struct conf_file now;
    conf_file_look(f->path, &now);
    bool rests = conf_file_looks_same(&now, &f->seen);
    f->seen = now;
    if (!rests || conf_file_looks_same(&now, &f->told))
        return false;
    conf_file_read(f->path, &now);
    bool same = memcmp(now.sha256, f->told.sha256, SHA256_BYTES) == 0;
    f->told = now;
    return !same;
}

const char *file_watch_look(struct file_watch *w) {
    const char *changed = NULL;
    for (size_t i = 0; i < w->n; i++)
        if (has_changed(&w->all[i]))
            changed = w->all[i].path;
    return changed;
}
