/* The room: hit, lead or join, and leads that end. Always true here: at most one lead a key; a lead ends exactly once, by
 * cache_keep or cache_drop; only a lead keeps, so what a no-store call fetched is never kept. */
#include "cache/store.h"

#include <assert.h>
#include <stdlib.h>

struct cache {
    const struct store_ops *ops;
    void *store;      /* owned */
    struct map leads; /* key -> struct cache_lead * */
    uint64_t hits, misses, joined, kept;
};

struct cache_lead {
    struct cache *cache;
    uint8_t key[SHA256_BYTES];
    void *published; /* the leader's; NULL: nothing to join yet, or no more */
};

/* One look-up, from the call to its answer. */
struct search {
    struct store_op store; /* first member: a store wakes it */
    struct cache *cache;
    struct cache_op *op; /* the caller's: it stays where it is until it is woken */
    bool no_find, no_keep;
    int64_t max_age_us;
};

struct cache *cache_new_on(const struct store_ops *ops, void *store) {
    struct cache *c = xcalloc(1, sizeof *c);
    c->ops = ops;
    c->store = store;
    map_init(&c->leads);
    return c;
}

struct cache *cache_new(int64_t size_bytes) {
    return cache_new_on(&memory_store, memory_store_new(size_bytes));
}

void cache_free(struct cache *c) {
    if (!c)
        return;
    assert(c->leads.n == 0); /* a leader would end its lead in freed memory */
    c->ops->free(c->store);
    map_fini(&c->leads);
    free(c);
}

void cache_resize(struct cache *c, int64_t size_bytes) {
    c->ops->resize(c->store, size_bytes);
}

static struct cache_lead *lead_new(struct cache *c, const uint8_t key[SHA256_BYTES]) {
    struct cache_lead *lead = xcalloc(1, sizeof *lead);
    lead->cache = c;
    memcpy(lead->key, key, SHA256_BYTES);
    map_put(&c->leads, span_from(key, SHA256_BYTES), lead);
    return lead;
}

static void lead_end(struct cache_lead *lead) {
    map_remove(&lead->cache->leads, span_from(lead->key, SHA256_BYTES));
    free(lead);
}

/* An entry older than the caller wants is as good as none. */
static const struct cache_entry *young_enough(const struct search *s) {
    const struct cache_entry *e = s->store.entry;
    if (!e || s->store.now_us - e->kept_us <= s->max_age_us)
        return e;
    entry_drop(e);
    return NULL;
}

static void decide(struct search *s) {
    struct cache *c = s->cache;
    struct cache_op *op = s->op;
    struct cache_lead *lead = map_find(&c->leads, span_from(s->store.key, SHA256_BYTES));
    op->entry = young_enough(s);
    op->lead = NULL;
    op->published = NULL;
    if (op->entry) {
        op->result = CACHE_HIT;
        c->hits++;
    } else if (!s->no_find && lead && lead->published) {
        op->result = CACHE_JOIN;
        op->published = lead->published;
        c->joined++;
    } else {
        op->result = CACHE_LEAD;
        op->lead = lead || s->no_keep ? NULL : lead_new(c, s->store.key);
        c->misses++;
    }
}

static void on_found(struct waiter *w) {
    struct search *s = (struct search *)(void *)w;
    struct waiter *asker = &s->op->waiter;
    decide(s);
    free(s);
    asker->wake(asker);
}

enum progress cache_find(struct cache *c, const struct cache_rule *rule, int64_t now_us, struct cache_op *op) {
    struct search *s = xcalloc(1, sizeof *s);
    assert(rule->may);
    *s = (struct search){
        .store = {.waiter = {on_found}, .now_us = now_us},
        .cache = c,
        .op = op,
        .no_find = rule->no_find,
        .no_keep = rule->no_keep,
        .max_age_us = rule->max_age_us,
    };
    memcpy(s->store.key, rule->key, SHA256_BYTES);
    if (!rule->no_find && c->ops->find(c->store, &s->store) == PROGRESS_WAIT)
        return PROGRESS_WAIT;
    decide(s);
    free(s);
    return PROGRESS_DONE;
}

void cache_entry_drop(struct cache *c, const struct cache_entry *e) {
    (void)c; /* an entry outlives its place in the store */
    entry_drop(e);
}

void cache_publish(struct cache_lead *lead, void *published) {
    assert(published);
    lead->published = published;
}

void cache_withdraw(struct cache_lead *lead) {
    lead->published = NULL;
}

void cache_keep(struct cache *c, struct cache_lead *lead, struct span bytes, int64_t ttl_us, int64_t now_us) {
    assert(lead->cache == c);
    if (bytes.n <= CACHE_ENTRY_MAX && ttl_us > 0) {
        c->ops->keep(c->store, lead->key, bytes, ttl_us, now_us);
        c->kept++;
    }
    lead_end(lead);
}

void cache_drop(struct cache *c, struct cache_lead *lead) {
    assert(lead->cache == c);
    lead_end(lead);
}

void cache_stats(const struct cache *c, struct cache_stats *out) {
    *out = (struct cache_stats){
        .hits = c->hits,
        .misses = c->misses,
        .joined = c->joined,
        .kept = c->kept,
        .leads = (int64_t)c->leads.n,
    };
    c->ops->count(c->store, out);
}
