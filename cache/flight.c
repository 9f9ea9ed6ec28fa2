/* Look-ups and flights: who has an answer, who fetches it, who waits for whom. Always true here: a key has at most one
 * flight; a flight that is not LED has an owner, which alone speaks with the store; every look-up ends exactly once; a
 * store that cannot be asked makes nobody wait. Whoever is told only notes it, so a flight stays where it is meanwhile. */
#include "cache/flight.h"

#include "gateway/base/clock.h"

#include <assert.h>
#include <stdlib.h>

static void seek_flight(struct search *s);
static void flight_claim(struct cache_lead *f);
static void flight_lead(struct cache_lead *f);
static struct cache_lead *flight_new(struct search *owner);

/* --- a look-up --- */

struct search *search_new(struct cache *c, const struct cache_rule *rule, int64_t now_us, struct cache_op *op) {
    struct search *s = xcalloc(1, sizeof *s);
    s->cache = c;
    s->op = op;
    memcpy(s->key, rule->key, SHA256_BYTES);
    s->store.keys = rule->n_parts ? rule->parts : (const uint8_t(*)[SHA256_BYTES]) & s->key;
    s->store.n = rule->n_parts ? rule->n_parts : 1;
    s->store.entries = rule->n_parts ? op->parts : &op->entry;
    s->no_keep = rule->no_keep;
    s->max_age_us = rule->max_age_us;
    s->stale_us = rule->stale_us;
    s->patience_us = rule->patience_us;
    s->began_us = clock_mono_us();
    s->began_wall_us = now_us;
    list_append(&c->look_ups, &s->in_all);
    return s;
}

void search_free(struct search *s) {
    list_remove(&s->cache->look_ups, &s->in_all);
    s->op->inside = NULL;
    free(s);
}

void search_give_back(struct search *s) {
    for (size_t i = 0; i < s->store.n; i++) {
        entry_drop(s->store.entries[i]);
        s->store.entries[i] = NULL;
    }
}

static void finish(struct search *s, enum cache_result result) {
    struct waiter *asker = &s->op->waiter;
    s->op->result = result;
    s->op->followed = s->followed;
    s->flight = NULL;
    s->over = true;
    if (s->calling)
        return;
    search_free(s);
    asker->wake(asker);
}

static void hit(struct search *s) {
    uint64_t *n = s->followed ? &s->cache->stats.followed : &s->cache->stats.hits;
    ++*n;
    finish(s, CACHE_HIT);
}

static void miss(struct search *s, struct cache_lead *lead) {
    s->cache->stats.misses++;
    s->op->lead = lead;
    finish(s, CACHE_LEAD);
}

static void join(struct search *s, struct cache_lead *lead) {
    if (!lead->published) {
        miss(s, NULL);
        return;
    }
    search_give_back(s);
    s->cache->stats.joined++;
    s->op->published = lead->published;
    finish(s, CACHE_JOIN);
}

/* Gives back what is older than the caller wants, or too old to stand in for anything. True: all is there and fresh. */
static bool sift(struct search *s) {
    int64_t now_us = s->store.now_us;
    bool all = true;
    for (size_t i = 0; i < s->store.n; i++) {
        const struct cache_entry *e = s->store.entries[i];
        if (e && (now_us - e->kept_us > s->max_age_us || now_us - s->stale_us >= e->until_us)) {
            entry_drop(e);
            s->store.entries[i] = e = NULL;
        }
        all = all && e && cache_fresh(e, now_us);
    }
    return all;
}

/* One patience with Redis for the whole request. False: it is used up. */
static bool patience(const struct search *s, int64_t now_us, int64_t *until_us) {
    int64_t left_us = s->cache->timeout_us - s->op->waited_us;
    *until_us = s->cache->timeout_us ? now_us + left_us : 0;
    return !s->cache->timeout_us || left_us > 0;
}

/* What is asked while another process leads is not waited for: it is the leader that is. */
static void note_waited(struct search *s, int64_t since_us, bool fault) {
    if (fault || !s->followed)
        s->op->waited_us += clock_mono_us() - since_us;
}

/* --- the store is asked --- */

static void flight_over(struct cache_lead *f);

static void looked(struct search *s) {
    struct cache_lead *f = s->flight;
    bool all = sift(s);
    if (f)
        f->asked_us = 0;
    if (all && f)
        flight_over(f);
    else if (all)
        hit(s);
    else if (f && (f->claimed || s->store.fault))
        flight_lead(f);
    else if (f)
        flight_claim(f);
    else
        seek_flight(s);
}

static void on_looked(struct waiter *w) {
    struct search *s = (struct search *)(void *)w;
    note_waited(s, s->asked_us, s->store.fault);
    looked(s);
}

static void look(struct search *s) {
    s->asked_us = clock_mono_us();
    search_give_back(s);
    s->store.waiter.wake = on_looked;
    s->store.now_us = s->began_wall_us;
    if (s->flight) {
        s->store.now_us += s->asked_us - s->began_us;
        s->flight->asked_us = s->asked_us;
    }
    (void)patience(s, s->asked_us, &s->store.until_us); /* a memory store answers also without any */
    if (s->cache->ops->find(s->cache->store, &s->store) == PROGRESS_DONE)
        looked(s);
}

void search_run(struct search *s, bool look_first) {
    if (look_first) {
        look(s);
        return;
    }
    struct cache_lead *f = map_find(&s->cache->flights, span_from(s->key, SHA256_BYTES));
    if (f || s->no_keep)
        miss(s, NULL);
    else
        flight_lead(flight_new(s)); /* whoever leads elsewhere leads to what this caller does not want */
}

/* --- flights --- */

static struct cache_lead *flight_new(struct search *owner) {
    struct cache_lead *f = xcalloc(1, sizeof *f);
    f->cache = owner->cache;
    f->owner = owner;
    memcpy(f->key, owner->key, SHA256_BYTES);
    list_init(&f->waiting);
    list_append(&f->cache->all, &f->in_all);
    map_put(&f->cache->flights, span_from(f->key, SHA256_BYTES), f);
    owner->flight = f;
    return f;
}

void flight_end(struct cache_lead *f) {
    assert(list_empty(&f->waiting));
    if (f->claimed)
        f->cache->ops->release(f->cache->store, f->key);
    map_remove(&f->cache->flights, span_from(f->key, SHA256_BYTES));
    list_remove(&f->cache->all, &f->in_all);
    free(f);
}

static void seek_flight(struct search *s) {
    struct cache_lead *f = map_find(&s->cache->flights, span_from(s->key, SHA256_BYTES));
    if (f && f->state == FLIGHT_LED) {
        join(s, f);
    } else if (f) {
        s->flight = f;
        list_append(&f->waiting, &s->in_waiting);
    } else if (s->no_keep) {
        miss(s, NULL);
    } else {
        flight_claim(flight_new(s));
    }
}

/* Those who wait look at how things stand now; who of them is told may be a leader before the next one is asked. */
static void release_waiting(struct list *waiting) {
    for (struct link *k; (k = list_shift(waiting));) {
        struct search *s = container_of(k, struct search, in_waiting);
        s->flight = NULL;
        if (sift(s))
            hit(s);
        else
            seek_flight(s);
    }
}

static void take_waiting(struct cache_lead *f, struct list *to) {
    list_init(to);
    for (struct link *k; (k = list_shift(&f->waiting));)
        list_append(to, k);
}

static void flight_lead(struct cache_lead *f) {
    struct search *owner = f->owner;
    struct list waiting;
    take_waiting(f, &waiting);
    f->state = FLIGHT_LED;
    f->owner = NULL;
    f->next_us = clock_mono_us() + CLAIM_RENEW_US;
    miss(owner, f);
    release_waiting(&waiting);
}

/* The answer is there: all who wait have it. */
static void flight_over(struct cache_lead *f) {
    struct search *owner = f->owner;
    struct list waiting;
    take_waiting(f, &waiting);
    for (struct link *k = list_first(&waiting); k; k = list_next(&waiting, k)) {
        struct search *s = container_of(k, struct search, in_waiting);
        search_give_back(s);
        s->store.now_us = owner->store.now_us;
        s->followed = owner->followed;
        for (size_t i = 0; i < s->store.n && i < owner->store.n; i++)
            s->store.entries[i] = entry_take(owner->store.entries[i]);
    }
    flight_end(f);
    hit(owner);
    release_waiting(&waiting);
}

static void wait_for_theirs(struct cache_lead *f) {
    int64_t now_us = clock_mono_us();
    if (!f->give_up_us)
        f->give_up_us = now_us + f->owner->patience_us;
    f->state = FLIGHT_AWAY;
    f->owner->followed = true;
    f->next_us = now_us + POLL_US;
}

static void claimed(struct cache_lead *f) {
    f->asked_us = 0;
    f->claimed = f->claim.answer == CLAIM_OURS;
    if (f->claimed)
        look(f->owner);
    else if (f->claim.answer == CLAIM_THEIRS)
        wait_for_theirs(f);
    else
        flight_lead(f);
}

static void on_claimed(struct waiter *w) {
    struct cache_lead *f = container_of(w, struct cache_lead, claim.waiter);
    note_waited(f->owner, f->asked_us, f->claim.answer == CLAIM_FAULT);
    claimed(f);
}

static void flight_claim(struct cache_lead *f) {
    const struct store_ops *ops = f->cache->ops;
    int64_t now_us = clock_mono_us();
    f->state = FLIGHT_CLAIMING;
    f->asked_us = now_us;
    f->claim.waiter.wake = on_claimed;
    f->claim.answer = CLAIM_FAULT;
    memcpy(f->claim.key, f->key, SHA256_BYTES);
    bool asks = ops->claim && patience(f->owner, now_us, &f->claim.until_us);
    if (!asks || ops->claim(f->cache->store, &f->claim) == PROGRESS_DONE)
        claimed(f);
}

void flight_leave(struct cache_lead *f, struct search *s) {
    if (s != f->owner) {
        list_remove(&f->waiting, &s->in_waiting);
        return;
    }
    struct link *next = list_shift(&f->waiting);
    f->owner = next ? container_of(next, struct search, in_waiting) : NULL;
    if (f->owner)
        f->owner->followed = true;
    else
        flight_end(f);
}

void flight_tick(struct cache_lead *f, int64_t mono_us) {
    if (mono_us < f->next_us || f->asked_us)
        return;
    if (f->state == FLIGHT_LED && f->claimed) {
        f->next_us = mono_us + CLAIM_RENEW_US;
        f->cache->ops->renew(f->cache->store, f->key);
    } else if (f->state == FLIGHT_AWAY && mono_us >= f->give_up_us) {
        flight_lead(f);
    } else if (f->state == FLIGHT_AWAY) {
        look(f->owner);
    }
}
