/* HAVE WE ANSWERED THIS BEFORE.
 *
 *                         .-- CACHE_HIT   here are the bytes
 *     key -> cache_find --+-- CACHE_LEAD  nobody has it: you fetch it, then cache_keep or cache_drop, exactly once
 *                         '-- CACHE_JOIN  somebody is fetching it: here is what the leader published (its answer)
 *
 * The room holds bytes it does not understand (backends packs and unpacks them) and, while a lead runs, a counted
 * pointer that the leader published for others to read along. It knows nothing of money: auth, allow-list and limits
 * come before the look-up.
 *
 * With Redis a lead is one over all processes. Those of other processes wait until the leader has kept its answer, while
 * it shows that it lives and as long as their patience lasts; then one of each process goes by itself. A Redis that does
 * not answer in time costs a look-up its patience with it, once, and is then done without. */
#ifndef TOLLGATE_CACHE_H
#define TOLLGATE_CACHE_H

#include "conf/conf.h"
#include "gateway/base/json.h"
#include "gateway/base/redis.h"
#include "gateway/base/usage.h"

#define CACHE_ENTRY_MAX (8 << 20) /* bytes of one packed answer */
#define CACHE_PARTS_MAX 2048      /* keys of one call: as many inputs as an embeddings call may have */

struct cache;
struct cache *cache_new(int64_t size_bytes);
void cache_free(struct cache *c);
void cache_resize(struct cache *c, int64_t size_bytes); /* after a reload */
/* Where answers are kept from now on. `r`, NULL where conf names none, stays until cache_free; no look-up waits longer
 * than `timeout_us` for it. */
void cache_share(struct cache *c, struct redis *r, int64_t timeout_us, enum conf_cache_store where);
void cache_tick(struct cache *c, int64_t mono_us); /* several times a second */

struct cache_ask {
    const struct conf_alias *alias;
    const struct call_traits *traits;
    const char *scope;          /* "team:NAME" or "key:ID" */
    const char *endpoint;       /* "chat", "completions", "embeddings", "messages", "responses", "count_tokens" */
    const char *dialect;        /* "openai", "anthropic" */
    struct json body;           /* the client's own JSON, checked */
    const struct span *headers; /* forwarded request headers as "name: value", in no order */
    size_t n_headers;
    const uint8_t *ladder;     /* SHA256_BYTES: routing_ladder_digest, the arm of a canary included */
    struct span cache_control; /* the client's cache-control header, or empty */
};

/* Whether this call may be answered from and kept in the cache, and its key. When not, *why is the static reason that
 * x-tollgate-cache shows: "bypass; reason=...". `no_find`: keep only (no-cache). `no_keep`: find only (no-store).
 * `max_age_us`: the oldest entry that may answer; INT64_MAX if not said. */
struct cache_rule {
    bool may;
    const char *why;
    uint8_t key[SHA256_BYTES]; /* of the whole call: what is led and followed */
    /* The answer is kept in parts, a key each; n_parts 0: it is kept whole under `key`. */
    const uint8_t (*parts)[SHA256_BYTES]; /* borrowed */
    size_t n_parts;
    bool no_find, no_keep;
    int64_t max_age_us;
    int64_t ttl_us, stale_us;
    int64_t patience_us; /* with the leader of another process */
};
void cache_decide(const struct conf *conf, const struct cache_ask *ask, struct cache_rule *out);
/* Without making a key, by alias, endpoint and traits alone; false: cache_decide would say no too. */
bool cache_may(const struct cache_ask *ask);
/* The keys of the parts of a call whose answer consists of one for each element of its member `list`; a single value that
 * is no array is one element. False, and `why` is the static reason, when there can be none. */
must_check bool cache_part_keys(const struct cache_ask *ask, const char *list, const struct json *elements, size_t n,
                                uint8_t (*keys)[SHA256_BYTES], const char **why);

enum cache_result { CACHE_HIT, CACHE_LEAD, CACHE_JOIN };

struct cache_entry {
    struct span bytes; /* owned by the entry */
    int64_t kept_us;
    int64_t until_us; /* when it expires: from then on it is stale */
    int64_t drop_us;  /* when it is forgotten */
};

struct cache_op {
    struct waiter waiter; /* filled by the caller */
    int64_t waited_us;    /* in and out: how long this request has waited for Redis, all in all */
    /* In: room for rule->n_parts entries, all NULL; NULL where the answer is kept whole, in `entry`. */
    const struct cache_entry **parts;
    enum cache_result result;
    /* Counted, given back by cache_entry_drop. HIT: all are there and fresh. LEAD: those that are there; the stale ones
     * may answer when nobody else can. JOIN: none. */
    const struct cache_entry *entry;
    struct cache_lead
        *lead;       /* LEAD: ended by cache_keep or cache_drop; NULL: another leads, or nothing is to be kept */
    void *published; /* JOIN: what the leader published (never NULL) */
    bool followed;   /* HIT: another process led, and this look-up waited for it */
    void *inside;    /* private; NULL: no look-up runs */
};

enum progress cache_find(struct cache *c, const struct cache_rule *rule, int64_t now_us, struct cache_op *op);
/* Whoever asked goes away. True: the look-up is over, without a result; false: it is about to be answered. */
must_check bool cache_leave(struct cache *c, struct cache_op *op);
static inline bool cache_fresh(const struct cache_entry *e, int64_t now_us) {
    return now_us < e->until_us;
}
void cache_entry_drop(struct cache *c, const struct cache_entry *e); /* may be NULL */

/* The leader shows its answer to those who come while it runs. Until this call others are told CACHE_LEAD without a
 * lead (op->lead == NULL): they fetch for themselves. `published` is not touched by the room; the leader withdraws it. */
void cache_publish(struct cache_lead *lead, void *published);
void cache_withdraw(struct cache_lead *lead);
/* Ends the lead: the answer is kept (bytes are copied) or not. `bytes`: one, or rule->n_parts of them, of which those
 * without bytes are not kept. */
void cache_keep(struct cache *c, struct cache_lead *lead, const struct cache_rule *rule, const struct span *bytes,
                int64_t now_us);
void cache_drop(struct cache *c, struct cache_lead *lead);

struct cache_stats {
    uint64_t hits, misses, joined, followed, kept, evicted;
    uint64_t faults;   /* look-ups that Redis did not answer in time */
    uint64_t rejected; /* values in Redis that are not what was kept there */
    int64_t bytes, entries, leads;
};
void cache_stats(const struct cache *c, struct cache_stats *out);

#endif
