/* The registry, its tiers and its loader thread. Always true: used_bytes is the weights in memory and those being loaded; weights
 * with a reference or a slot in use are never freed; a version that is not listed takes no new run. */
#include "backends/decode/push.h"

#include "gateway/base/log.h"
#include "gateway/base/map.h"
#include "gateway/base/mem.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <time.h>

const char *const adapter_tier_names[] = {"disk", "loading", "memory", "broken"};

/* --- the loader thread --- */

static struct adapter_version *next_load(struct adapters *a) {
    for (struct link *k = list_first(&a->versions); k; k = list_next(&a->versions, k)) {
        struct adapter_version *v = container_of(k, struct adapter_version, link);
        if (v->tier == TIER_LOADING)
            return v;
    }
    return NULL;
}

/* Under the lock, which is let go while files are read; the version stays, since loading is a reason to stay. */
static void load(struct adapters *a, struct adapter_version *v) {
    struct str why;
    str_init(&why, 2000);
    pthread_mutex_unlock(&a->lock);
    struct adapter *got = adapter_open(v->directory, a->options.directory, a->model, a->options.rank_max, &why);
    if (got && memcmp(got->digest, v->digest, SHA256_BYTES) != 0) {
        complain(&why, v->directory, "its files are others than those that were listed");
        adapter_close(got);
        got = NULL;
    }
    pthread_mutex_lock(&a->lock);
    v->weights = got;
    v->tier = got ? TIER_MEMORY : TIER_BROKEN;
    a->loads += got != NULL;
    if (!got) {
        a->used_bytes -= v->bytes;
        v->listed = false;
        log_warn("adapter lost name=%s version=%s why=%s", v->name, v->version, why.at);
        str_put(&v->why, str_span(&why));
    }
    str_fini(&why);
    a->poke(a->user);
}

/* Under the lock, which is let go meanwhile. Who came before the look began is answered after it. */
static void look(struct adapters *a) {
    size_t n = a->looks.n;
    a->look_now = false;
    pthread_mutex_unlock(&a->lock);
    adapters_scan(a);
    adapters_keep(a);
    a->poke(a->user);
    pthread_mutex_lock(&a->lock);
    while (n--)
        loop_post(a->loop, &container_of(list_shift(&a->looks), struct adapter_look, link)->job);
}

static void await(struct adapters *a) {
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += (time_t)(a->options.watch_us / 1000000);
    until.tv_nsec += (long)(a->options.watch_us % 1000000 * 1000);
    if (until.tv_nsec >= 1000000000) {
        until.tv_nsec -= 1000000000;
        until.tv_sec++;
    }
    if (pthread_cond_timedwait(&a->wake, &a->lock, &until) == ETIMEDOUT)
        a->look_now = true;
}

static void *loader_main(void *arg) {
    struct adapters *a = arg;
    pthread_mutex_lock(&a->lock);
    while (!a->stop) {
        struct adapter_version *v = next_load(a);
        if (v)
            load(a, v);
        else if (a->look_now) {
            look(a);
        } else
            await(a);
    }
    pthread_mutex_unlock(&a->lock);
    return NULL;
}

/* --- opening and closing --- */

void adapters_init(struct adapters *a, const struct adapters_options *o, const struct model *m, int64_t n_slots,
                   struct loop *loop, void (*poke)(void *user), void *user) {
    *a = (struct adapters){.options = *o, .model = m, .loop = loop, .poke = poke, .user = user, .n_slots = n_slots};
    list_init(&a->looks);
    a->options.directory = o->directory ? xstrdup(o->directory) : NULL;
    a->options.history = o->history ? xstrdup(o->history) : NULL;
    pthread_mutex_init(&a->lock, NULL);
    pthread_cond_init(&a->wake, NULL);
    list_init(&a->versions);
    a->slots = xcalloc((size_t)n_slots + 1, sizeof(struct adapter_version *));
    names_init(a);
    if (!o->directory)
        return;
    push_clean(o->directory);
    adapters_scan(a);
    a->threaded = pthread_create(&a->thread, NULL, loader_main, a) == 0;
    if (!a->threaded)
        log_error("adapters: no thread can be started; what is in memory is served, nothing else is loaded");
}

void adapters_fini(struct adapters *a) {
    if (!a->slots)
        return;
    pthread_mutex_lock(&a->lock);
    a->stop = true;
    pthread_cond_signal(&a->wake);
    pthread_mutex_unlock(&a->lock);
    if (a->threaded)
        pthread_join(a->thread, NULL);
    assert(list_empty(&a->looks)); /* the house waits for them first */
    for (struct link *k; (k = list_shift(&a->versions));) {
        struct adapter_version *v = container_of(k, struct adapter_version, link);
        assert(v->refs == 0);
        version_free(v);
    }
    names_fini(a);
    pthread_cond_destroy(&a->wake);
    pthread_mutex_destroy(&a->lock);
    free((void *)(uintptr_t)a->options.directory);
    free((void *)(uintptr_t)a->options.history);
    free((void *)a->slots);
    a->slots = NULL;
}

/* --- the loop --- */

/* What "name" or "name@version" means; under the lock. */
static struct adapter_version *look_up(struct adapters *a, struct span name) {
    struct span rest = name, base, version = SPAN_NONE;
    if (memchr(name.at, '@', name.n) && span_cut(&rest, '@', &base)) {
        version = rest;
        name = base;
    }
    if (version.at)
        return version_find(a, name, version);
    if (name.n >= ADAPTER_NAME_BYTES_MAX)
        return NULL;
    char copy[ADAPTER_NAME_BYTES_MAX] = "";
    memcpy(copy, name.at, name.n);
    const char *points = name_points_at(a, copy);
    return points ? version_find(a, name, span_of(points)) : NULL;
}

bool adapters_digest(struct adapters *a, struct span name, uint8_t digest[SHA256_BYTES]) {
    pthread_mutex_lock(&a->lock);
    const struct adapter_version *v = name.n ? look_up(a, name) : NULL;
    if (v)
        memcpy(digest, v->digest, SHA256_BYTES);
    pthread_mutex_unlock(&a->lock);
    return v != NULL;
}

struct adapter_version *adapters_take(struct adapters *a, struct span name) {
    pthread_mutex_lock(&a->lock);
    struct adapter_version *v = look_up(a, name);
    if (v) {
        v->refs++;
        v->used = ++a->ticks;
    }
    pthread_mutex_unlock(&a->lock);
    return v;
}

void adapters_drop(struct adapters *a, struct adapter_version *v) {
    pthread_mutex_lock(&a->lock);
    v->refs--;
    pthread_mutex_unlock(&a->lock);
}

void adapters_count(struct adapters *a, struct decode_view *out) {
    pthread_mutex_lock(&a->lock);
    for (struct link *k = list_first(&a->versions); k; k = list_next(&a->versions, k)) {
        const struct adapter_version *v = container_of(k, struct adapter_version, link);
        out->adapters += v->listed;
        out->adapters_in_memory += v->tier == TIER_MEMORY;
    }
    out->adapter_bytes = a->used_bytes;
    out->adapter_loads = a->loads;
    out->adapter_evictions = a->evictions;
    pthread_mutex_unlock(&a->lock);
}

/* --- the step thread --- */

static bool pinned(const struct adapters *a, const struct adapter_version *v) {
    for (size_t i = 0; i < a->options.n_pins; i++)
        if (strcmp(a->options.pins[i], v->name) == 0)
            return v->listed;
    return false;
}

static void give_up_slot(struct adapters *a, const struct compute_ops *ops, struct compute *c,
                         struct adapter_version *v) {
    if (v->slot < 0)
        return;
    bool cleared = ops->place(c, v->slot, NULL);
    assert(cleared);
    a->slots[v->slot] = NULL;
    v->slot = -1;
}

static void evict(struct adapters *a, const struct compute_ops *ops, struct compute *c, struct adapter_version *v) {
    give_up_slot(a, ops, c, v);
    adapter_close(v->weights);
    v->weights = NULL;
    v->tier = TIER_DISK;
    a->used_bytes -= v->bytes;
    a->evictions++;
}

static struct adapter_version *least_used(struct adapters *a) {
    struct adapter_version *least = NULL;
    for (struct link *k = list_first(&a->versions); k; k = list_next(&a->versions, k)) {
        struct adapter_version *v = container_of(k, struct adapter_version, link);
        if (v->tier == TIER_MEMORY && v->refs == 0 && !pinned(a, v) && (!least || v->used < least->used))
            least = v;
    }
    return least;
}

enum adapter_tier adapters_ready(struct adapters *a, const struct compute_ops *ops, struct compute *c,
                                 struct adapter_version *v) {
    pthread_mutex_lock(&a->lock);
    if (v->tier == TIER_DISK) {
        struct adapter_version *old;
        while (a->used_bytes + v->bytes > a->options.memory && (old = least_used(a)))
            evict(a, ops, c, old);
        if (a->used_bytes + v->bytes <= a->options.memory) {
            v->tier = TIER_LOADING;
            a->used_bytes += v->bytes;
            pthread_cond_signal(&a->wake);
        }
    }
    enum adapter_tier tier = v->tier;
    pthread_mutex_unlock(&a->lock);
    return tier;
}

void adapters_leave(struct adapters *a, const struct compute_ops *ops, struct compute *c) {
    pthread_mutex_lock(&a->lock);
    for (int64_t i = 0; i < a->n_slots; i++)
        if (a->slots[i])
            give_up_slot(a, ops, c, a->slots[i]);
    pthread_mutex_unlock(&a->lock);
}

/* Gives up the slot that was least lately used of those that nobody steps with; -1: everybody does. */
static int32_t give_up_idle(struct adapters *a, const struct compute_ops *ops, struct compute *c) {
    struct adapter_version *least = NULL;
    pthread_mutex_lock(&a->lock);
    for (int64_t i = 0; i < a->n_slots; i++) {
        struct adapter_version *v = a->slots[i];
        if (v && !v->stepping && (!least || v->used < least->used))
            least = v;
    }
    int32_t slot = least ? least->slot : -1;
    if (least)
        give_up_slot(a, ops, c, least);
    pthread_mutex_unlock(&a->lock);
    return slot;
}

static int32_t free_slot(struct adapters *a, const struct compute_ops *ops, struct compute *c) {
    for (int32_t i = 0; i < a->n_slots; i++)
        if (!a->slots[i])
            return i;
    int32_t slot = give_up_idle(a, ops, c);
    assert(slot >= 0); /* there are as many slots as sequences */
    return slot;
}

/* Whoever is idle makes way while the device has no room. Under no lock: a copy to a device takes its time. */
static bool place(struct adapters *a, const struct compute_ops *ops, struct compute *c, struct adapter_version *v) {
    int32_t slot = free_slot(a, ops, c);
    while (!ops->place(c, slot, v->weights))
        if (give_up_idle(a, ops, c) < 0)
            return false;
    a->slots[slot] = v;
    v->slot = slot;
    return true;
}

int32_t adapters_begin(struct adapters *a, const struct compute_ops *ops, struct compute *c,
                       struct adapter_version *v) {
    if (v->slot < 0 && !place(a, ops, c, v))
        return -1;
    v->stepping++;
    return v->slot;
}

void adapters_end(struct adapter_version *v) {
    v->stepping--;
}

/* Versions that nobody can ask for and nobody uses are forgotten. */
void adapters_sweep(struct adapters *a, const struct compute_ops *ops, struct compute *c) {
    pthread_mutex_lock(&a->lock);
    for (struct link *k = list_first(&a->versions), *next; k; k = next) {
        struct adapter_version *v = container_of(k, struct adapter_version, link);
        next = list_next(&a->versions, k);
        if (v->listed || v->refs || v->tier == TIER_LOADING)
            continue;
        if (v->tier == TIER_MEMORY)
            evict(a, ops, c, v);
        if (v->remembered)
            continue;
        list_remove(&a->versions, &v->link);
        version_free(v);
    }
    pthread_mutex_unlock(&a->lock);
}
