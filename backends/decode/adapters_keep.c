/* keep_versions: of a name's pushed versions the newest stay, and with them what the name points at, what a rollback would bring
 * back, and what a run uses. The rest goes from disk, unlisted first, so that no new run finds it half gone. The loader thread. */
#include "backends/decode/push.h"

#include "gateway/base/log.h"
#include "gateway/base/map.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

/* When it was pushed; 0: it came otherwise and is not ours to remove. */
static int64_t pushed_ns(const struct adapter_version *v) {
    char path[PATH_MAX];
    struct stat st;
    int n = snprintf(path, sizeof path, "%s/" PUSH_MARK, v->directory);
    if (v->flat || n < 0 || n >= (int)sizeof path || stat(path, &st) != 0)
        return 0;
    return (int64_t)st.st_mtim.tv_sec * 1000000000 + st.st_mtim.tv_nsec;
}

static bool pointed_at(const struct adapters *a, const struct adapter_version *v) {
    const struct adapter_name *n = map_find(a->names, span_of(v->name));
    for (size_t i = n && n->n > 2 ? n->n - 2 : 0; n && i < n->n; i++)
        if (strcmp(n->was[i], v->version) == 0)
            return true;
    return false;
}

static int64_t newer_than(struct adapters *a, const struct adapter_version *v, int64_t at_ns) {
    int64_t n = 0;
    for (struct link *k = list_first(&a->versions); k; k = list_next(&a->versions, k)) {
        const struct adapter_version *o = container_of(k, struct adapter_version, link);
        n += o != v && o->listed && strcmp(o->name, v->name) == 0 && pushed_ns(o) > at_ns;
    }
    return n;
}

/* A version that is too many, unlisted; NULL: none is. */
static char *unlist_one(struct adapters *a) {
    for (struct link *k = list_first(&a->versions); k; k = list_next(&a->versions, k)) {
        struct adapter_version *v = container_of(k, struct adapter_version, link);
        int64_t at_ns = v->listed && !v->refs && !pointed_at(a, v) ? pushed_ns(v) : 0;
        if (!at_ns || newer_than(a, v, at_ns) < a->options.keep_versions)
            continue;
        v->listed = v->remembered = false;
        log_info("adapter version removed by keep_versions name=%s version=%s", v->name, v->version);
        return xstrdup(v->directory);
    }
    return NULL;
}

void adapters_keep(struct adapters *a) {
    char away[PATH_MAX];
    for (;;) {
        pthread_mutex_lock(&a->lock);
        char *directory = unlist_one(a);
        pthread_mutex_unlock(&a->lock);
        if (!directory)
            return;
        int n = snprintf(away, sizeof away, "%s/" PUSH_STAGE "away-XXXXXX", a->options.directory);
        bool moved = n < (int)sizeof away && mkdtemp(away) && rename(directory, away) == 0;
        push_remove(a->options.directory, moved ? away : directory);
        free(directory);
    }
}
