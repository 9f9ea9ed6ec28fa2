/* Private to routing/: the health of every part that was ever used.
 *
 *              faults in a row, error ratio,              cool-down over
 *     CLOSED --- Retry-After, 401, 404, 429 ---> SHUT ----------------------> HALF_OPEN (one probe)
 *       ^                                       |SHY                            |      |
 *       '------------- a good try --------------'<------- the probe is good ----'      '- the probe is bad: SHUT or
 *                                                                                        SHY, a quarter longer
 * SHY is shut for as long as something else can serve: it was not the error ratio nor the provider's own Retry-After
 * that shut it, so one who has nothing else is not sent away for it. And where nothing else can serve, what the error
 * ratio shut is probed after the first cool-down already, however long the present one is. */
#ifndef TOLLGATE_ROUTING_HEALTH_H
#define TOLLGATE_ROUTING_HEALTH_H

#include "gateway/base/list.h"
#include "routing/latency.h"
#include "routing/outcome.h"

#define HEALTH_MAX 4096      /* parts remembered, against strangers who make up model names */
#define HEALTH_NAME_MAX 512  /* bytes; a part with a longer name is not remembered */
#define HEALTH_EVICT_SCAN 64 /* parts looked at to find one to forget, so that forgetting stays cheap */
#define HEALTH_STREAK 3      /* transient faults in a row that make a part shy */
#define RETRY_AFTER_MAX_US INT64_C(3600000000) /* a provider may send us away for an hour, not for ever */
#define PROBE_PATIENCE_US INT64_C(30000000)    /* a probe that has not ended by then no longer stops the next one */

enum health_state { HEALTH_CLOSED, HEALTH_SHY, HEALTH_SHUT, HEALTH_HALF_OPEN };

struct health {
    struct link link; /* in book.recent */
    enum part part;
    char *target, *key;           /* owned; lanes only, for show */
    double good, bad;             /* tries of late, decayed */
    int64_t decayed_us;           /* when they were last decayed */
    int streak;                   /* faults in a row */
    bool open;                    /* SHY, SHUT or HALF_OPEN, by the time */
    bool tripped, asked, at_once; /* what opened it: the error ratio; a Retry-After; a 401, 404 or 429 */
    enum reason reason;           /* of the fault that opened it */
    int64_t open_until_us;        /* cool-down ends */
    int64_t early_us;             /* from then on it may be probed where nothing else is left */
    int level;                    /* cool-downs in a row, each longer */
    int in_flight;
    const struct choice *prober; /* holds the half-open slot; compared, never followed */
    int64_t probe_us;            /* when it took the slot */
    uint64_t tries, failures;
    struct latency waits[2]; /* of targets: whole answers, streams */
    size_t n_name;
    char name[]; /* its key in book.by_name */
};

struct health_book {
    struct map by_name;
    struct list recent; /* least recently used first */
    size_t max;
};

/* The names of a choice's parts: all that health knows of a conf. */
struct part_names {
    struct span backend, target, key;
};
struct part_names part_names(const struct choice *c);

void health_book_init(struct health_book *b, size_t max);
void health_book_fini(struct health_book *b);
/* NULL: never used, or forgotten. */
struct health *health_find(const struct health_book *b, enum part part, const struct part_names *names);
/* Found or made; NULL when the name is too long or every part that could be forgotten is in use. */
struct health *health_get(struct health_book *b, enum part part, const struct part_names *names);

enum health_state health_state(const struct health *h, int64_t now_us);
/* Whether a probe holds the half-open slot. */
bool health_probing(const struct health *h, int64_t now_us);

struct fault {
    enum reason reason;
    bool at_once;
    int64_t retry_after_us;
};
void health_fault(struct health *h, const struct conf *conf, const struct fault *f, int64_t now_us);
/* `probe`: the try held the slot of the probe. */
void health_good(struct health *h, const struct conf *conf, bool probe, int64_t now_us);
/* Whether a cool-down that the error ratio began may be cut short by one probe: its first length is over, and no
 * provider asked for the rest. */
bool health_may_early(const struct health *h, int64_t now_us);

#endif
