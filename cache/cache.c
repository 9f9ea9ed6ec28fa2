/* The room's door: what is asked for goes to flight.c and comes back as hit, lead or join; leads end here. Always true
 * here: at most one lead a key; a lead ends exactly once, by cache_keep or cache_drop; only a lead keeps, so what a
 * no-store call fetched is never kept. */
#include "cache/flight.h"

#include <assert.h>
#include <stdlib.h>

struct cache *cache_new_on(const struct store_ops *ops, void *store) {
    struct cache *c = xcalloc(1, sizeof *c);
    c->ops = ops;
    c->store = store;
    map_init(&c->flights);
    list_init(&c->all);
    list_init(&c->look_ups);
    return c;
}

struct cache *cache_new(int64_t size_bytes) {
    return cache_new_on(&stack_store, stack_store_new(size_bytes));
}

void cache_share(struct cache *c, struct redis *r, int64_t timeout_us, enum conf_cache_store where) {
    if (c->ops != &stack_store) /* a test's own */
        return;
    c->timeout_us = timeout_us;
    stack_store_share(c->store, r, timeout_us, where);
}

/* Look-ups whose callers went away with the house. */
static void drop_look_ups(struct cache *c) {
    for (struct link *k; (k = list_first(&c->look_ups));) {
        struct search *s = container_of(k, struct search, in_all);
        search_give_back(s);
        search_free(s);
    }
    for (struct link *k; (k = list_first(&c->all));) {
        struct cache_lead *f = container_of(k, struct cache_lead, in_all);
        assert(f->state != FLIGHT_LED); /* its leader would end it in freed memory */
        list_init(&f->waiting);
        flight_end(f);
    }
}

void cache_free(struct cache *c) {
    if (!c)
        return;
    drop_look_ups(c);
    c->ops->free(c->store);
    map_fini(&c->flights);
    free(c);
}

void cache_resize(struct cache *c, int64_t size_bytes) {
    c->ops->resize(c->store, size_bytes);
}

void cache_tick(struct cache *c, int64_t mono_us) {
    for (struct link *k = list_first(&c->all), *next; k; k = next) {
        next = list_next(&c->all, k);
        flight_tick(container_of(k, struct cache_lead, in_all), mono_us);
    }
}

enum progress cache_find(struct cache *c, const struct cache_rule *rule, int64_t now_us, struct cache_op *op) {
    assert(rule->may && rule->n_parts <= CACHE_PARTS_MAX && (!rule->n_parts || op->parts));
    op->entry = NULL;
    op->lead = NULL;
    op->published = NULL;
    struct search *s = search_new(c, rule, now_us, op);
    op->inside = s;
    s->calling = true;
    search_run(s, !rule->no_find);
    s->calling = false;
    if (!s->over)
        return PROGRESS_WAIT;
    search_free(s);
    return PROGRESS_DONE;
}

bool cache_leave(struct cache *c, struct cache_op *op) {
    struct search *s = op->inside;
    (void)c;
    if (!s || !s->flight || (s == s->flight->owner && s->flight->asked_us))
        return false;
    flight_leave(s->flight, s);
    search_give_back(s);
    search_free(s);
    return true;
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

/* Sums of times, of which conf's are at most a year, do not overflow. */
static void keep_one(struct cache *c, const uint8_t key[SHA256_BYTES], const struct cache_rule *rule, struct span bytes,
                     int64_t now_us) {
    int64_t until_us = now_us + rule->ttl_us;
    if (!bytes.at || bytes.n > CACHE_ENTRY_MAX || rule->ttl_us <= 0)
        return;
    const struct cache_entry *e = entry_new(bytes, now_us, until_us, until_us + rule->stale_us);
    c->ops->keep(c->store, key, e, now_us);
    entry_drop(e);
    c->stats.kept++;
}

void cache_keep(struct cache *c, struct cache_lead *lead, const struct cache_rule *rule, const struct span *bytes,
                int64_t now_us) {
    assert(lead->cache == c && lead->state == FLIGHT_LED);
    for (size_t i = 0; i < rule->n_parts; i++)
        keep_one(c, rule->parts[i], rule, bytes[i], now_us);
    if (!rule->n_parts)
        keep_one(c, lead->key, rule, bytes[0], now_us);
    flight_end(lead);
}

void cache_drop(struct cache *c, struct cache_lead *lead) {
    assert(lead->cache == c && lead->state == FLIGHT_LED);
    flight_end(lead);
}

void cache_stats(const struct cache *c, struct cache_stats *out) {
    *out = c->stats;
    for (struct link *k = list_first(&c->all); k; k = list_next(&c->all, k))
        out->leads += container_of(k, struct cache_lead, in_all)->state == FLIGHT_LED;
    c->ops->count(c->store, out);
}
