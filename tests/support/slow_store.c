/* The late store. Always true here: a look-up sees the store as it is when it is answered, not when it was asked, as with
 * a real one over a network; and it is never answered inside the call. */
#include "tests/support/slow_store.h"
#include "gateway/base/list.h"

#include <assert.h>
#include <stdlib.h>

struct slow {
    const struct store_ops *ops;
    void *store;
    struct loop *loop;   /* may be NULL */
    struct list waiting; /* oldest first */
};

struct late {
    struct loop_job job; /* first member */
    struct link link;
    struct slow *slow;
    struct store_op *op;
};

void *slow_store_new(const struct store_ops *ops, void *store, struct loop *loop) {
    struct slow *s = xcalloc(1, sizeof *s);
    s->ops = ops;
    s->store = store;
    s->loop = loop;
    list_init(&s->waiting);
    return s;
}

static void answer(struct late *late) {
    struct slow *s = late->slow;
    struct store_op *op = late->op;
    list_remove(&s->waiting, &late->link);
    free(late);
    enum progress done = s->ops->find(s->store, op);
    assert(done == PROGRESS_DONE);
    op->waiter.wake(&op->waiter);
}

static void on_job(struct loop_job *job) {
    answer((struct late *)(void *)job);
}

bool slow_store_step(void *slow) {
    struct slow *s = slow;
    struct link *first = list_first(&s->waiting);
    if (first)
        answer(container_of(first, struct late, link));
    return first != NULL;
}

static enum progress slow_find(void *store, struct store_op *op) {
    struct slow *s = store;
    struct late *late = xcalloc(1, sizeof *late);
    late->job.run = on_job;
    late->slow = s;
    late->op = op;
    list_append(&s->waiting, &late->link);
    if (s->loop)
        loop_post(s->loop, &late->job);
    return PROGRESS_WAIT;
}

static void slow_keep(void *store, const uint8_t key[SHA256_BYTES], const struct cache_entry *e, int64_t now_us) {
    struct slow *s = store;
    s->ops->keep(s->store, key, e, now_us);
}

static void slow_resize(void *store, int64_t size_bytes) {
    struct slow *s = store;
    s->ops->resize(s->store, size_bytes);
}

static void slow_count(const void *store, struct cache_stats *into) {
    const struct slow *s = store;
    s->ops->count(s->store, into);
}

static void slow_free(void *store) {
    struct slow *s = store;
    assert(list_empty(&s->waiting));
    s->ops->free(s->store);
    free(s);
}

const struct store_ops slow_store = {
    .name = "slow",
    .find = slow_find,
    .keep = slow_keep,
    .resize = slow_resize,
    .count = slow_count,
    .free = slow_free,
};
