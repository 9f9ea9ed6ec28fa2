/* THE HALL: sockets, events, the walk.
 *
 * struct gateway is the house: the rooms, the loop, the requests by state. One turn runs what is ready, hands the turn's
 * audit records to the writer, then frees the dead. Rooms take values and a now; all sockets and all waiting are here.
 *
 *     main.c -> gateway_open -> gateway_run (the loop) -> gateway_close
 */
#ifndef TOLLGATE_GATEWAY_H
#define TOLLGATE_GATEWAY_H

#include "gateway/base/redis.h"
#include "gateway/metrics.h"
#include "gateway/request.h"
#include "gateway/shadow.h"
#include "gateway/state/state.h"

#define TOLLGATE_VERSION "0.1.0"
#define ADMIN_TOKEN_MAX 80
#define TICK_US (100 * US_PER_MS) /* how often clocks of waiting requests are looked at */

struct event;
struct engine_door;
struct peers;
struct worker_start;

struct gateway {
    struct loop *loop; /* owned, like all below */
    struct conf *conf; /* the one that new requests take */
    const char *conf_path;
    struct routing *routing;
    struct cache *cache;
    struct budget *budget;
    struct audit *audit;
    struct pool *pool;
    struct redis *redis; /* NULL: conf names none */
    struct acts *acts;   /* NULL: no Redis */
    struct alerts *alerts;
    struct watch *watch;
    struct keeper *keeper;                       /* of closed months */
    struct front *front, *admin, *metrics_front; /* of several workers only worker 0 has the latter two */
    int worker, workers;                         /* which one this is, of how many */
    const struct worker_start *start;            /* not owned; NULL: one process, which opens all itself */
    struct peers *peers;                         /* NULL: no other workers */
    struct engine_door *engine_door;             /* worker 0's, where others ask its engines; NULL: there are none */
    struct conf *prepared;                       /* counted: a reload that all workers are asked about; NULL */
    struct map engines;                          /* backend name -> struct decode * */
    struct list by_state[STATE_N];
    struct shadows shadows;      /* copies of calls for other targets */
    struct list ready;           /* to be run in this or the next turn */
    struct overrides *overrides; /* what operators turned for a while */
    struct keys *keys;
    struct recent *recent;
    struct map by_id;       /* request id -> struct request * */
    struct map idempotent;  /* "key id/idempotency key" -> struct request * */
    struct map unasked;     /* names of backends that refused stream_options: streams there are not asked for usage */
    int64_t spoken_bytes;   /* of streams whose content is stored, all together */
    int64_t buffered_bytes; /* request bodies and held answers, all together */
    struct event *turn, *tick, *signals[3];
    struct metrics metrics;
    char admin_token[ADMIN_TOKEN_MAX];   /* secret */
    char end_user_key[STATE_SECRET_MAX]; /* secret: makes digests of end users */
    char chain[128];                     /* of the audit log: "<node>.<worker>" */
    char replayed[128];                  /* the chain whose settles the ledger was told last, at the start */
    struct admin_call *push;             /* the one version of an adapter that is being pushed; NULL: none */
    size_t adapter_jobs;                 /* callers of the admin port who wait for a look at a folder of adapters */
    struct list lookups;                 /* gateway/lookup.c */
    struct list finance_jobs;            /* reports and corrections that threads of their own work on */
    bool draining;
    int64_t drain_until_us;
    int64_t started_us;
    int64_t stranger_second; /* flood control of refuse records */
    int64_t strangers[ERR_N];
    int64_t strangers_now;
    uint8_t id_bytes[64 * REQUEST_ID_BYTES]; /* random, for ids to come */
    size_t id_bytes_left;
};

/* Builds the house and listens. NULL with sentences in `why`. */
struct gateway *gateway_open(const char *conf_path, struct str *why);
/* The same as one of several workers (gateway/workers/parent.h); `start` outlives it. */
struct gateway *gateway_open_worker(const struct worker_start *start, struct str *why);
void gateway_run(struct gateway *g);
void gateway_close(struct gateway *g);
void gateway_turn_soon(struct gateway *g);
/* Loads the conf anew and swaps it in, or refuses it whole: false, with what is wrong in `report`. */
bool gateway_reload(struct gateway *g, bool dry_run, struct str *report);
/* The same files as the running conf read them, with what their ${file:PATH} hold now. */
bool gateway_reread(struct gateway *g, struct str *report);
/* Takes `next` in the running conf's place; `what` stands in the record of it. */
void gateway_swap(struct gateway *g, struct conf *next, const char *what);
/* The same in two steps, so that several workers take a conf together or not at all: prepared, and then taken or dropped. */
must_check bool gateway_prepare(struct gateway *g, struct str *report);
void gateway_take_prepared(struct gateway *g);
void gateway_drop_prepared(struct gateway *g);
void gateway_drain(struct gateway *g);
/* The token of the admin port: conf's, or a fresh one in its file beside the state directory. */
must_check bool admin_token_make(const struct conf *c, char token[ADMIN_TOKEN_MAX], struct str *why);
/* A refuse record for somebody without a key: in full up to STRANGERS_PER_S a second, then counted. */
#define STRANGERS_PER_S 50
void gateway_count_stranger(struct gateway *g, const char *id, const char *client, const char *endpoint, enum err e);

/* gateway/alerts/news.c: what budgets have to tell, to the log, the metrics and the audit log. */
void gateway_hear_news(struct gateway *g);
#define NEWS_SHARE_MAX 24
char *news_share(int64_t share, char out[NEWS_SHARE_MAX]); /* "80%", "99.5%"; returns out */

/* gateway/state/in_force.c: overrides that are over end; those whose value conf has changed, too. */
void overrides_tick(struct gateway *g);
void overrides_review(struct gateway *g);
void overrides_look(struct gateway *g); /* the same without an end: what conf does not bear sleeps */
void overrides_turn_off(struct gateway *g, const char *name); /* one that was ended */
/* Conf's own values that a pin and a shift of the alias stand on, as numbers. */
int64_t override_base_of_pin(const struct conf_alias *a);
int64_t override_base_of_shift(const struct conf_alias *a);
/* The target of the alias's ladder, or its canary's, that has this name; NULL: none. `degraded`: it stands on such a rung. */
const struct conf_target *override_pinned(const struct conf_alias *a, const char *name, bool *degraded);

/* gateway/alerts/anchor.c: heads of the log with those who keep them elsewhere. */
#define ANCHOR_FILES_MAX 8
void gateway_anchor(struct span head_line, void *gateway);
size_t gateway_anchor_files(const struct conf *c, const char *files[ANCHOR_FILES_MAX]);

/* gateway/admin/admin.c */
void metrics_on_head(struct exchange *x, void *gateway); /* of the port that has /metrics alone, without a token */
void admin_on_head(struct exchange *x, void *gateway);
void admin_on_change(struct exchange *x, void *gateway);
bool gateway_ready(const struct gateway *g, struct str *json); /* may be NULL */
int64_t requests_in_flight(const struct gateway *g);
/* gateway/admin/admin_finance.c */
void adapters_stop(struct gateway *g); /* waits until they are answered */
void finance_stop(struct gateway *g);  /* ends every job; its callers are told */

#endif
