/* Memory, Redis, or memory in front of Redis, as conf says now. Always true here: what memory has fresh is never asked of
 * Redis; what Redis gave stands in memory afterwards, as old as it was; a stale entry answers only where neither has a
 * fresh one. */
#include "cache/store.h"
#include "gateway/base/list.h"

#include <stdlib.h>

struct stack {
    void *memory; /* owned */
    void *shared; /* owned; NULL: there is no Redis */
    bool in_memory, in_redis;
    struct list open; /* struct deeper */
};

/* A look-up that went on to Redis, for the keys that memory could not answer. */
struct deeper {
    struct store_op op; /* first member; of the keys asked for */
    struct link in_open;
    struct stack *stack;
    struct store_op *asker;
    size_t *places; /* owned: of each key among the asker's */
};

void *stack_store_new(int64_t size_bytes) {
    struct stack *s = xcalloc(1, sizeof *s);
    s->memory = memory_store_new(size_bytes);
    s->in_memory = true;
    list_init(&s->open);
    return s;
}

void stack_store_share(void *stack, struct redis *r, int64_t timeout_us, enum conf_cache_store where) {
    struct stack *s = stack;
    if (r && !s->shared)
        s->shared = redis_store_new(r, timeout_us);
    s->in_redis = s->shared && where != CACHE_IN_MEMORY;
    s->in_memory = !s->in_redis || where == CACHE_IN_BOTH;
}

static bool is_fresh(const struct cache_entry *e, int64_t now_us) {
    return e && cache_fresh(e, now_us);
}

/* --- find --- */

static void deeper_free(struct deeper *d) {
    list_remove(&d->stack->open, &d->in_open);
    free((void *)(uintptr_t)d->op.keys);
    free(d->op.entries);
    free(d->places);
    free(d);
}

static struct deeper *deeper_new(struct stack *s, struct store_op *asker, size_t n) {
    struct deeper *d = xcalloc(1, sizeof *d);
    uint8_t(*keys)[SHA256_BYTES] = xcalloc(n, sizeof *keys);
    d->stack = s;
    d->asker = asker;
    d->places = xcalloc(n, sizeof *d->places);
    d->op.entries = xcalloc(n, sizeof *d->op.entries);
    d->op.now_us = asker->now_us;
    d->op.until_us = asker->until_us;
    for (size_t i = 0; i < asker->n; i++) {
        if (is_fresh(asker->entries[i], asker->now_us))
            continue;
        memcpy(keys[d->op.n], asker->keys[i], SHA256_BYTES);
        d->places[d->op.n++] = i;
    }
    d->op.keys = (const uint8_t(*)[SHA256_BYTES])keys;
    list_append(&s->open, &d->in_open);
    return d;
}

/* Of two that are there the later one counts. */
static void take_found(struct deeper *d, size_t i) {
    const struct cache_entry **at = &d->asker->entries[d->places[i]], *found = d->op.entries[i];
    if (!found)
        return;
    if (*at && (*at)->until_us >= found->until_us) {
        entry_drop(found);
        return;
    }
    entry_drop(*at);
    *at = found;
    if (d->stack->in_memory)
        memory_store.keep(d->stack->memory, d->op.keys[i], found, d->op.now_us);
}

static void take_all(struct deeper *d) {
    for (size_t i = 0; i < d->op.n; i++)
        take_found(d, i);
    d->asker->fault = d->op.fault;
    deeper_free(d);
}

static void on_found(struct waiter *w) {
    struct deeper *d = (struct deeper *)(void *)w;
    struct waiter *asker = &d->asker->waiter;
    take_all(d);
    asker->wake(asker);
}

static enum progress ask_redis(struct stack *s, struct store_op *op, size_t n) {
    struct deeper *d = deeper_new(s, op, n);
    d->op.waiter.wake = on_found;
    if (redis_store.find(s->shared, &d->op) == PROGRESS_WAIT)
        return PROGRESS_WAIT;
    take_all(d);
    return PROGRESS_DONE;
}

static enum progress stack_find(void *store, struct store_op *op) {
    struct stack *s = store;
    size_t open = 0;
    op->fault = false;
    for (size_t i = 0; i < op->n; i++)
        op->entries[i] = NULL;
    if (s->in_memory)
        (void)memory_store.find(s->memory, op);
    for (size_t i = 0; i < op->n; i++)
        open += !is_fresh(op->entries[i], op->now_us);
    return s->in_redis && open ? ask_redis(s, op, open) : PROGRESS_DONE;
}

/* --- the rest --- */

static void stack_keep(void *store, const uint8_t key[SHA256_BYTES], const struct cache_entry *e, int64_t now_us) {
    struct stack *s = store;
    if (s->in_memory)
        memory_store.keep(s->memory, key, e, now_us);
    if (s->in_redis)
        redis_store.keep(s->shared, key, e, now_us);
}

/* Nobody else can find what memory alone keeps, so everybody leads. */
static enum progress stack_claim(void *store, struct store_claim *c) {
    struct stack *s = store;
    if (s->in_redis)
        return redis_store.claim(s->shared, c);
    c->answer = CLAIM_FAULT;
    return PROGRESS_DONE;
}

static void stack_renew(void *store, const uint8_t key[SHA256_BYTES]) {
    redis_store.renew(((struct stack *)store)->shared, key);
}

static void stack_release(void *store, const uint8_t key[SHA256_BYTES]) {
    redis_store.release(((struct stack *)store)->shared, key);
}

static void stack_resize(void *store, int64_t size_bytes) {
    memory_store.resize(((struct stack *)store)->memory, size_bytes);
}

static void stack_count(const void *store, struct cache_stats *into) {
    const struct stack *s = store;
    memory_store.count(s->memory, into);
    if (s->shared)
        redis_store.count(s->shared, into);
}

static void stack_free(void *store) {
    struct stack *s = store;
    if (s->shared)
        redis_store.free(s->shared);
    for (struct link *k; (k = list_first(&s->open));) {
        struct deeper *d = container_of(k, struct deeper, in_open);
        for (size_t i = 0; i < d->op.n; i++)
            entry_drop(d->op.entries[i]);
        deeper_free(d);
    }
    memory_store.free(s->memory);
    free(s);
}

const struct store_ops stack_store = {
    .name = "stack",
    .find = stack_find,
    .keep = stack_keep,
    .claim = stack_claim,
    .renew = stack_renew,
    .release = stack_release,
    .resize = stack_resize,
    .count = stack_count,
    .free = stack_free,
};
