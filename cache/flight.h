/* Private to cache/: look-ups and flights, and how they stand to each other.
 *
 *     a look-up finds all it wants fresh .................................................... HIT
 *     else by its key:  no flight ......... it begins one:   CLAIMING --ours---> LED      it has the LEAD
 *                                                               | ^   (and looks once more, for who led before may
 *                                                        theirs v |    have kept it meanwhile: then all have a HIT)
 *                                                              AWAY     another process leads: look again each POLL_US
 *                       a flight that is LED ................................................ JOIN
 *                       any other flight .................. it waits with the flight's own look-up
 *
 * A flight is one key on which this process works or waits; once LED it is the lead that cache.h speaks of. */
#ifndef TOLLGATE_CACHE_FLIGHT_H
#define TOLLGATE_CACHE_FLIGHT_H

#include "cache/store.h"
#include "gateway/base/list.h"

#define POLL_US (100 * US_PER_MS) /* how often one look-up a process asks whether another process is done */

struct cache {
    const struct store_ops *ops;
    void *store;          /* owned */
    struct map flights;   /* key -> struct cache_lead * */
    struct list all;      /* the same */
    struct list look_ups; /* struct search: all that run */
    int64_t timeout_us;   /* of one request with Redis; 0: the store's own */
    struct cache_stats stats;
};

enum flight_state { FLIGHT_CLAIMING, FLIGHT_AWAY, FLIGHT_LED };

struct cache_lead {
    struct cache *cache;
    struct link in_all;
    enum flight_state state;
    uint8_t key[SHA256_BYTES];
    struct search *owner; /* NULL once LED */
    struct list waiting;  /* struct search */
    struct store_claim claim;
    int64_t asked_us;   /* monotone: since when the store is being asked for it; 0: it is not */
    bool claimed;       /* over all processes: to be renewed and released */
    int64_t next_us;    /* monotone: AWAY: to look again; LED: to be renewed */
    int64_t give_up_us; /* monotone: AWAY, of the first that waited; 0: nobody has waited yet */
    void *published;    /* the leader's; NULL: nothing to join yet, or no more */
};

/* One look-up, from the call to its answer. */
struct search {
    struct store_op store; /* first member: a store wakes it */
    struct link in_all, in_waiting;
    struct cache *cache;
    struct cache_op *op;       /* the caller's: it stays where it is until it is woken */
    struct cache_lead *flight; /* whose owner it is, or with which it waits; NULL: neither */
    uint8_t key[SHA256_BYTES];
    bool no_keep;
    int64_t max_age_us, stale_us, patience_us;
    int64_t began_us;      /* monotone */
    int64_t began_wall_us; /* of the same instant */
    int64_t asked_us;      /* monotone: since when the store is being asked */
    bool calling;          /* inside cache_find: its end is told by what that answers */
    bool over;
    bool followed;
};

struct search *search_new(struct cache *c, const struct cache_rule *rule, int64_t now_us, struct cache_op *op);
void search_free(struct search *s);
void search_run(struct search *s, bool look); /* look: in the store, first */
void search_give_back(struct search *s);      /* what it has found */

void flight_end(struct cache_lead *f);                     /* LED, or nobody waits with it */
void flight_leave(struct cache_lead *f, struct search *s); /* s waits, and the flight is not being asked for by it */
void flight_tick(struct cache_lead *f, int64_t mono_us);

#endif
