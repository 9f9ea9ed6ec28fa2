/* HAVE WE ANSWERED THIS BEFORE.
 *
 *                         .-- CACHE_HIT   here are the bytes
 *     key -> cache_find --+-- CACHE_LEAD  nobody has it: you fetch it, then cache_keep or cache_drop, exactly once
 *                         '-- CACHE_JOIN  somebody is fetching it: here is what the leader published (its answer)
 *
 * The room holds bytes it does not understand (backends packs and unpacks them) and, while a lead runs, a counted
 * pointer that the leader published for others to read along. It knows nothing of money: auth, allow-list and limits
 * come before the look-up. */
#ifndef TOLLGATE_CACHE_H
#define TOLLGATE_CACHE_H

#include "conf/conf.h"
#include "gateway/base/json.h"
#include "gateway/base/usage.h"

#define CACHE_ENTRY_MAX (8 << 20) /* bytes of one packed answer */

struct cache;
struct cache *cache_new(int64_t size_bytes);
void cache_free(struct cache *c);
void cache_resize(struct cache *c, int64_t size_bytes); /* after a reload */

struct cache_ask {
    const struct conf_alias *alias;
    const struct call_traits *traits;
    const char *scope;          /* "team:NAME" or "key:ID" */
    const char *endpoint;       /* "chat", "completions", "embeddings", "messages", "responses", "count_tokens" */
    const char *dialect;        /* "openai", "anthropic" */
    struct json body;           /* the client's own JSON, checked */
    const struct span *headers; /* forwarded request headers as "name: value", in no order */
    size_t n_headers;
    const uint8_t *ladder;     /* SHA256_BYTES: routing_ladder_digest */
    struct span cache_control; /* the client's cache-control header, or empty */
};

/* Whether this call may be answered from and kept in the cache, and its key. When not, *why is the static reason that
 * x-tollgate-cache shows: "bypass; reason=...". `no_find`: keep only (no-cache). `no_keep`: find only (no-store).
 * `max_age_us`: the oldest entry that may answer; INT64_MAX if not said. */
struct cache_rule {
    bool may;
    const char *why;
    uint8_t key[SHA256_BYTES];
    bool no_find, no_keep;
    int64_t max_age_us;
    int64_t ttl_us;
};
void cache_decide(const struct conf *conf, const struct cache_ask *ask, struct cache_rule *out);
/* Without making a key, by alias, endpoint and traits alone; false: cache_decide would say no too. */
bool cache_may(const struct cache_ask *ask);

enum cache_result { CACHE_HIT, CACHE_LEAD, CACHE_JOIN };

struct cache_op {
    struct waiter waiter; /* filled by the caller: a Redis store answers WAIT */
    enum cache_result result;
    const struct cache_entry *entry; /* HIT: counted, given back by cache_entry_drop */
    struct cache_lead *lead;         /* LEAD: ended by cache_keep or cache_drop */
    void *published;                 /* JOIN: what the leader published (never NULL) */
};
struct cache_entry {
    struct span bytes; /* owned by the entry */
    int64_t kept_us;
};

enum progress cache_find(struct cache *c, const struct cache_rule *rule, int64_t now_us, struct cache_op *op);
void cache_entry_drop(struct cache *c, const struct cache_entry *e);

/* The leader shows its answer to those who come while it runs. Until this call others are told CACHE_LEAD without a
 * lead (op->lead == NULL): they fetch for themselves. `published` is not touched by the room; the leader withdraws it. */
void cache_publish(struct cache_lead *lead, void *published);
void cache_withdraw(struct cache_lead *lead);
/* Ends the lead: the answer is kept (bytes are copied) or not. */
void cache_keep(struct cache *c, struct cache_lead *lead, struct span bytes, int64_t ttl_us, int64_t now_us);
void cache_drop(struct cache *c, struct cache_lead *lead);

struct cache_stats {
    uint64_t hits, misses, joined, kept, evicted;
    int64_t bytes, entries, leads;
};
void cache_stats(const struct cache *c, struct cache_stats *out);

#endif
