/* Looks at the folder of adapters. A folder whose files look as they did is not read again; a new one is read whole and listed
 * only when all of it can be served; one that is broken is remembered, told once, and tried again when its files change. */
#include "backends/decode/adapter_file.h"
#include "backends/decode/adapters.h"

#include "gateway/base/log.h"
#include "gateway/base/map.h"

#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#define WHY_BYTES_MAX 2000
#define FLAT_VERSION_BYTES 6 /* of the digest, shown as twice as many digits */

void version_free(struct adapter_version *v) {
    adapter_close(v->weights);
    str_fini(&v->why);
    free(v->directory);
    free(v);
}

struct adapter_version *version_find(struct adapters *a, struct span name, struct span version) {
    for (struct link *k = list_first(&a->versions); k; k = list_next(&a->versions, k)) {
        struct adapter_version *v = container_of(k, struct adapter_version, link);
        if (v->listed && span_is(name, v->name) && span_is(version, v->version))
            return v;
    }
    return NULL;
}

static bool stamp_of(const char *directory, struct adapter_stamp *out) {
    static const char *const names[ADAPTER_STAMP_FILES] = {ADAPTER_CONFIG_FILE, ADAPTER_WEIGHTS_FILE,
                                                           ADAPTER_MANIFEST_FILE};
    *out = (struct adapter_stamp){0};
    for (int i = 0; i < ADAPTER_STAMP_FILES; i++) {
        char path[PATH_MAX];
        struct stat st;
        int n = snprintf(path, sizeof path, "%s/%s", directory, names[i]);
        if (n < 0 || n >= (int)sizeof path || stat(path, &st) != 0)
            continue;
        out->of[i].ino = (int64_t)st.st_ino;
        out->of[i].size = (int64_t)st.st_size;
        out->of[i].changed_ns = (int64_t)st.st_ctim.tv_sec * 1000000000 + st.st_ctim.tv_nsec;
    }
    return out->of[0].ino != 0;
}

/* The newest entry of a folder, listed or broken; under the lock. */
static struct adapter_version *entry_of(struct adapters *a, const char *directory) {
    struct adapter_version *found = NULL;
    for (struct link *k = list_first(&a->versions); k; k = list_next(&a->versions, k)) {
        struct adapter_version *v = container_of(k, struct adapter_version, link);
        if (strcmp(v->directory, directory) == 0 && (v->listed || v->remembered))
            found = v;
    }
    return found;
}

static bool known(struct adapters *a, const char *directory, const struct adapter_stamp *stamp) {
    pthread_mutex_lock(&a->lock);
    struct adapter_version *v = entry_of(a, directory);
    bool same = v && memcmp(&v->stamp, stamp, sizeof *stamp) == 0, full = a->versions.n >= ADAPTER_VERSIONS_MAX;
    if (same)
        v->seen = true;
    pthread_mutex_unlock(&a->lock);
    return same || full;
}

static struct adapter_version *version_new(struct adapters *a, const char *name, const char *version,
                                           const char *directory, const struct adapter_stamp *stamp) {
    struct adapter_version *v = xcalloc(1, sizeof *v);
    v->slot = -1;
    v->flat = !version;
    v->stamp = *stamp;
    v->directory = xstrdup(directory);
    str_init(&v->why, WHY_BYTES_MAX);
    snprintf(v->name, sizeof v->name, "%s", name);
    v->weights = adapter_open(directory, a->options.directory, a->model, a->options.rank_max, &v->why);
    v->tier = v->weights ? TIER_MEMORY : TIER_BROKEN;
    v->remembered = !v->weights;
    if (!v->weights)
        return v;
    v->bytes = v->weights->bytes;
    v->rank = v->weights->rank_max;
    memcpy(v->digest, v->weights->digest, sizeof v->digest);
    if (version)
        snprintf(v->version, sizeof v->version, "%s", version);
    else
        hex_put(v->digest, FLAT_VERSION_BYTES, v->version);
    if (v->bytes > a->options.memory) {
        complain(&v->why, directory, "needs %lld bytes; adapter_memory is %lld", (long long)v->bytes,
                 (long long)a->options.memory);
        adapter_close(v->weights);
        v->weights = NULL;
        v->tier = TIER_BROKEN;
        v->remembered = true;
    }
    return v;
}

/* It is read already, so it stays in memory when there is room for it. Under the lock. */
static void keep_or_close(struct adapters *a, struct adapter_version *v) {
    if (a->used_bytes + v->bytes <= a->options.memory) {
        a->used_bytes += v->bytes;
        a->loads++;
        return;
    }
    adapter_close(v->weights);
    v->weights = NULL;
    v->tier = TIER_DISK;
}

/* A name without a pointer points at the first version that is seen of it; a folder without versions takes its pointer along
 * when its content changes. What is pointed at otherwise changes by promote and rollback alone. */
static void point(struct adapters *a, const struct adapter_version *v, const struct adapter_version *before) {
    struct str why;
    const char *at = name_points_at(a, v->name);
    const char *act = !at ? "first" : before && v->flat && strcmp(at, before->version) == 0 ? "replace" : NULL;
    bool stale = at && v->flat && !version_find(a, span_of(v->name), span_of(at)) && !before;
    if (!act && !stale)
        return;
    str_init(&why, WHY_BYTES_MAX);
    if (!name_point(a, v->name, v->version, act ? act : "replace", "folder", NULL, &why))
        log_warn("adapter pointer not kept name=%s why=%s", v->name, why.at);
    str_fini(&why);
}

static void enter(struct adapters *a, struct adapter_version *v) {
    pthread_mutex_lock(&a->lock);
    struct adapter_version *before = entry_of(a, v->directory);
    bool same = before && before->listed && v->weights && memcmp(before->digest, v->digest, SHA256_BYTES) == 0;
    if (same) { /* touched, not changed */
        before->stamp = v->stamp;
        before->seen = true;
        pthread_mutex_unlock(&a->lock);
        version_free(v);
        return;
    }
    v->seen = true;
    bool removed = v->weights && name_is_removed(a, v->name, v->version);
    v->listed = v->weights && !removed;
    if (removed) { /* it is there, and it is not to be served */
        v->remembered = true;
        keep_or_close(a, v); /* the step thread sweeps it out */
    } else if (v->listed) {
        point(a, v, before);
        keep_or_close(a, v);
        log_info("adapter listed name=%s version=%s bytes=%lld rank=%lld", v->name, v->version, (long long)v->bytes,
                 (long long)v->rank);
    } else
        log_warn("adapter refused directory=%s why=%s", v->directory, v->why.at);
    if (before)
        before->listed = before->remembered = false;
    list_append(&a->versions, &v->link);
    pthread_mutex_unlock(&a->lock);
}

static void look_at(struct adapters *a, const char *name, const char *version, const char *directory) {
    struct adapter_stamp stamp;
    if (!stamp_of(directory, &stamp) || known(a, directory, &stamp))
        return;
    enter(a, version_new(a, name, version, directory, &stamp));
}

/* In order of name, so that the first version of a name is the same on every machine. */
static int list_names(const char *directory, struct dirent ***out) {
    int n = scandir(directory, out, NULL, alphasort);
    return n < 0 ? 0 : n;
}

static void each_inside(struct adapters *a, const char *directory, const char *name,
                        void (*visit)(struct adapters *a, const char *name, const char *sub, const char *path)) {
    struct dirent **all = NULL;
    int n = list_names(directory, &all);
    for (int i = 0; i < n; i++) {
        char path[PATH_MAX];
        int used = snprintf(path, sizeof path, "%s/%s", directory, all[i]->d_name);
        if (adapter_name_ok(span_of(all[i]->d_name)) && used > 0 && used < (int)sizeof path)
            visit(a, name, all[i]->d_name, path);
        free(all[i]);
    }
    free((void *)all);
}

static void visit_name(struct adapters *a, const char *none, const char *name, const char *path) {
    (void)none;
    look_at(a, name, NULL, path);
    each_inside(a, path, name, look_at);
}

static void unlist_unseen(struct adapters *a) {
    for (struct link *k = list_first(&a->versions); k; k = list_next(&a->versions, k)) {
        struct adapter_version *v = container_of(k, struct adapter_version, link);
        if (!v->seen && v->listed)
            log_info("adapter gone name=%s version=%s", v->name, v->version);
        if (!v->seen)
            v->listed = v->remembered = false;
    }
}

void adapters_scan(struct adapters *a) {
    if (!a->options.directory)
        return;
    pthread_mutex_lock(&a->lock);
    for (struct link *k = list_first(&a->versions); k; k = list_next(&a->versions, k))
        container_of(k, struct adapter_version, link)->seen = false;
    pthread_mutex_unlock(&a->lock);
    each_inside(a, a->options.directory, NULL, visit_name);
    pthread_mutex_lock(&a->lock);
    unlist_unseen(a);
    pthread_mutex_unlock(&a->lock);
}
