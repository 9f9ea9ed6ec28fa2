/* What an operator does with adapters. Each act holds at once for new runs and never for those under way; what has to last is in
 * the history before it holds. */
#include "backends/decode/adapters.h"

#include "gateway/base/map.h"

#include <stdlib.h>

#define WHY_BYTES_MAX 2000

static struct adapter_version *version_of(struct link *k) {
    return container_of(k, struct adapter_version, link);
}

void adapters_each(struct adapters *a, void (*see)(const struct decode_adapter *v, void *user), void *user) {
    pthread_mutex_lock(&a->lock);
    for (struct link *k = list_first(&a->versions); k; k = list_next(&a->versions, k)) {
        const struct adapter_version *v = version_of(k);
        const char *at = name_points_at(a, v->name);
        struct decode_adapter out = {.name = v->name,
                                     .version = v->version,
                                     .directory = v->directory,
                                     .tier = adapter_tier_names[v->tier],
                                     .why = v->why.n ? v->why.at : NULL,
                                     .present = v->listed && at && strcmp(at, v->version) == 0,
                                     .listed = v->listed,
                                     .bytes = v->bytes,
                                     .rank = v->rank,
                                     .runs = v->refs,
                                     .tokens = atomic_load(&v->tokens),
                                     .device_us = atomic_load(&v->device_us)};
        memcpy(out.digest, v->digest, sizeof out.digest);
        see(&out, user);
    }
    pthread_mutex_unlock(&a->lock);
}

bool adapters_promote(struct adapters *a, const char *name, const char *version, const char *by, const char *reason,
                      struct str *why) {
    pthread_mutex_lock(&a->lock);
    bool ok = version_find(a, span_of(name), span_of(version)) ||
              complain(why, name, "has no version %.64s that can be served", version);
    ok = ok && name_point(a, name, version, "promote", by, reason, why);
    pthread_mutex_unlock(&a->lock);
    return ok;
}

bool adapters_rollback(struct adapters *a, const char *name, const char *by, const char *reason, struct str *why) {
    pthread_mutex_lock(&a->lock);
    bool ok = name_point_back(a, name, by, reason, why);
    pthread_mutex_unlock(&a->lock);
    return ok;
}

bool adapters_remove(struct adapters *a, struct span name, const char *by, const char *reason, struct str *why) {
    struct span version = name, base;
    bool all = !memchr(name.at, '@', name.n), any = false, ok = true;
    base = all ? name : SPAN_NONE;
    if (!all)
        span_cut(&version, '@', &base);
    pthread_mutex_lock(&a->lock);
    for (struct link *k = list_first(&a->versions); ok && k; k = list_next(&a->versions, k)) {
        struct adapter_version *v = version_of(k);
        if (!v->listed || !span_is(base, v->name) || (!all && !span_is(version, v->version)))
            continue;
        any = true;
        ok = name_removed(a, v->name, v->version, true, by, reason, why);
        v->listed = !ok;
        v->remembered = ok;
    }
    pthread_mutex_unlock(&a->lock);
    return ok &&
           (any || complain(why, "adapter", "there is none called %.*s", (int)(name.n < 130 ? name.n : 130), name.at));
}

/* Why a version of the name is not served, or NULL when one is. Under the lock. */
static const char *why_not(struct adapters *a, const struct adapter_look *l, struct str *text) {
    const char *found = NULL;
    for (struct link *k = list_first(&a->versions); k; k = list_next(&a->versions, k)) {
        const struct adapter_version *v = version_of(k);
        if (strcmp(v->name, l->name) != 0 || (l->version[0] && v->version[0] && strcmp(v->version, l->version) != 0))
            continue;
        if (v->listed)
            return NULL;
        if (v->why.n)
            found = v->why.at;
    }
    str_puts(text, found ? found : "there is no such adapter in the folder");
    return text->at;
}

void look_answer(struct loop_job *job) {
    struct adapter_look *l = container_of(job, struct adapter_look, job);
    struct str text;
    str_init(&text, WHY_BYTES_MAX);
    pthread_mutex_lock(&l->adapters->lock);
    const char *why = why_not(l->adapters, l, &text);
    pthread_mutex_unlock(&l->adapters->lock);
    l->done(l->user, why);
    str_fini(&text);
    free(l);
}

/* What was removed may be listed again: its entry is forgotten, so the look reads it anew. */
void adapters_add(struct adapters *a, struct adapter_look *look, const char *by) {
    struct str why;
    str_init(&why, WHY_BYTES_MAX);
    look->job.run = look_answer;
    look->adapters = a;
    pthread_mutex_lock(&a->lock);
    for (struct link *k = list_first(&a->versions); k; k = list_next(&a->versions, k)) {
        struct adapter_version *v = version_of(k);
        if (strcmp(v->name, look->name) != 0 || (look->version[0] && strcmp(v->version, look->version) != 0) ||
            !name_is_removed(a, v->name, v->version))
            continue;
        if (name_removed(a, v->name, v->version, false, by, NULL, &why))
            v->remembered = false;
    }
    if (a->threaded) {
        a->look_now = true;
        list_append(&a->looks, &look->link);
        pthread_cond_signal(&a->wake);
    }
    pthread_mutex_unlock(&a->lock);
    if (!a->threaded)
        look_answer(&look->job);
    str_fini(&why);
}
