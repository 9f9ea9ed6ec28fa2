/* Private to the Redis ledger: one budget over many processes.
 *
 *     hold, raise -> one script over all levels -> granted, refused, or nobody answers: when_down decides
 *     settle      -> a queue -> batches, sent again until answered
 *     tick        -> renew (what is open), tell (what logs have settled), look (what others did)
 *     connected   -> hello: the same Redis with the same data? else tell everything again
 *
 * What a log has settled in an account is told as one sum that never goes down (a contribution), so that telling it twice,
 * late or after a loss of data adds nothing; an account's settled amount in Redis is the sum of its contributions. So after
 * everybody has told, Redis equals the logs, to the nano-dollar, whatever was lost before. A lease is known by its log and
 * its request; one that expires is charged until its log has spoken.
 *
 *     redis_ledger.c  the door: hold, raise, settle, views        redis_down.c   what is done without Redis
 *     redis_ask.c     a hold or a raise, and the rates it owes
 *     redis_call.c    open calls, and tallies (contributions)     redis_settle.c the queue of settles
 *     redis_rate.c    requests, tokens, slots: redis_rates.h      redis_news.c   warnings, refusals, overruns
 *     redis_sync.c    hello, telling, renewing                    redis_job.c    scripts under way
 *     redis_words.c   arguments and replies               redis_slice.c, redis_slice_tell.c: in advance
 *
 * A slice is one lease of a process for many calls of a key: it stands in Redis as held, and its process divides it. Of a
 * slice two sums that never go down are told, what was granted to it and what its calls spent, and it holds the difference;
 * so grants and settles may be told again, and in any order. What is spent is told in the script that adds it to what is
 * settled. So settled + held counts every slice, used or not, and no limit is passed; it may bind early, by at most what
 * is unused of slices. A slice that nobody renews ends as every lease does. */
#ifndef TOLLGATE_BUDGET_REDIS_LEDGER_H
#define TOLLGATE_BUDGET_REDIS_LEDGER_H

#include "budget/ledger.h"
#include "gateway/base/clock.h"
#include "gateway/base/list.h"
#include "gateway/base/log.h"
#include "gateway/base/map.h"
#include "gateway/base/redis.h"

#define LEASE_LIVES_US (3 * US_PER_S) /* a lease that nobody renews for so long is charged */
#define RENEW_US US_PER_S             /* how often open calls and contributions are told */
#define RENEW_IDS 256                 /* in one script, so that none takes long */
#define RESTORE_CALLS 32              /* likewise */
#define TELL_TALLIES 256              /* likewise */
#define LOOK_ACCOUNTS 64              /* likewise */
#define BATCH_SETTLES 64              /* likewise */
#define BATCH_TALLIES 256             /* likewise */
#define SETTLES_MAX 65536             /* that wait for Redis; beyond it leases expire by themselves and are corrected */
#define STALE_TRIES 3                 /* an operation overtaken on its way is numbered anew */
#define TALLY_KEPT_US (2 * US_PER_DAY)   /* after its period: a call may still settle in it */
#define ACCOUNT_KEPT_S (100 * 24 * 3600) /* in Redis, after the last change: sweeping, not money */
#define SLICES_MAX 256                   /* of a process; calls of more keys are held one by one */
#define BATCH_SLICES 64                  /* told in one script */
#define SLICE_LIVES_US (2 * US_PER_S)    /* since it was renewed: it is held from; a second before it is charged */
#define SLICE_IDLE_US (2 * US_PER_S)     /* unused for so long it is given back */
#define SLICE_RETRY_US US_PER_S          /* after Redis had nothing for it */
#define SLICE_OF_LEFT 8                  /* a slice is never more than this part of what is left of a limit, */
#define SLICE_OF_SHARE 8                 /* nor of what one key or team may hold, */
#define SLICE_CALLS 4                    /* and none at all where it would cover fewer calls */
#define TALLY_SWEEP 16                   /* looked at in a tick */
#define ACCOUNT_NAME_MAX (SCOPE_NAME_MAX + 24) /* "team/search/month@UTC/1793491200": a budget and its period's begin */
#define EPOCH_MAX 40
#define BASE_MAX 128

/* Arguments of one script. */
struct words {
    char *bytes; /* owned */
    size_t n_bytes, cap_bytes;
    size_t *ends; /* owned */
    size_t n, cap;
};

#define TOLD_WORDS 5
struct told { /* what Redis said of an account */
    int64_t settled, held, overrun;
    int calls;
    int64_t charged; /* within held: of calls whose process is gone, until its log has spoken */
};

struct log_of; /* a log that contributes: our own, or one of a process that is gone */

struct tally { /* what one log has settled in one account, all in all */
    char account[ACCOUNT_NAME_MAX];
    struct log_of *log; /* not owned */
    int64_t from_us, to_us;
    int64_t settled, overrun;
    int64_t lowered; /* taken back by corrections */
    int refs;        /* calls that will settle here, and jobs that carry it */
    bool dirty;
    struct link in_dirty; /* of its log */
    struct link in_all;
    bool seen; /* `said` holds */
    struct told said;
    struct ledger_scope terms; /* of the budget, as asked last; n_warn 0 where none was */
    char owner[OWNER_NAME_MAX];
    int64_t warned;       /* the highest share that we know to be told */
    int64_t refused_mark; /* 1: the first refusal is told */
    bool shown;           /* in the walk under way */
};

struct log_of {
    char *name; /* owned */
    bool own;
    bool ends;          /* to be told: none of its calls is open any more */
    int64_t known_us;   /* when it was read; wall */
    int64_t later_us;   /* not to be told before: its process was there; wall */
    struct map tallies; /* by account, owned */
    struct list dirty;  /* struct tally */
    struct link in_logs;
};

enum call_state { CALL_OPEN, CALL_ENDED, CALL_SENT /* in the batch of settles that is under way */ };

struct open_call {
    char request_id[REQUEST_ID_MAX];
    enum call_state state;
    bool leased; /* as far as we know its lease stands in Redis */
    int64_t nanousd;
    int64_t cost, overrun; /* when ended */
    char owners[LEDGER_OWNERS][OWNER_NAME_MAX];
    struct link in_queue; /* of ended ones */
    struct slice *in;     /* that it is held from; NULL: it has a lease of its own */
    bool is_slice;        /* the first member of one */
    int n, n_spend;
    struct tally *at[LEASE_SCOPES_MAX];     /* budgets; a reference each */
    struct tally *spend[LEDGER_OWNERS * 4]; /* that only count; a reference each */
};

struct instant { /* when something was sent, by both clocks */
    int64_t wall_us, mono_us;
};

struct slice {
    struct open_call
        call; /* first member: a lease like any other; its cost and overrun are of ended calls, not booked */
    struct link in_slices;
    int64_t granted;              /* in all, of which Redis surely knows */
    int64_t spent;                /* in all, by calls that ended and are booked: never more than was held for them */
    int64_t told;                 /* of it: Redis knows */
    int64_t spending;             /* by those that are not booked */
    int64_t used;                 /* by open calls */
    int n_calls;                  /* that are open */
    int64_t asked;                /* granted, if all that is under way is */
    int n_asked;                  /* questions under way; meanwhile it is neither made smaller nor ended */
    int64_t share;                /* as conf has it: struct ledger_ask */
    int64_t goal;                 /* how much of it may lie unused, as judged last */
    bool less;                    /* what is unused is to be given back, and is not used meanwhile */
    bool retired;                 /* of an older set of budgets, or period: ends with its last call */
    bool untold, in_batch, again; /* on the list, told in the batch under way, and changed meanwhile */
    struct link in_untold;
    int64_t batch_spent;       /* as that batch tells it */
    int64_t used_us, retry_us; /* wall: used last; not asked for more before */
    struct instant renewed, renewing;
    int64_t renewing_op;
};

enum ledger_state {
    LEDGER_AWAY,     /* not connected, or not greeted */
    LEDGER_GREETING, /* hello is under way */
    LEDGER_TELLING,  /* contributions and open calls are being told */
    LEDGER_READY,
};

enum job_kind {
    JOB_HELLO,
    JOB_TELL,
    JOB_RESTORE,
    JOB_SETTLE,
    JOB_RENEW,
    JOB_LOOK,
    JOB_RATE,
    JOB_RATE_LEASE,
    JOB_MARK,
    JOB_SLICE,
    JOB_KINDS
};

struct redis_ledger {
    struct redis *redis; /* not owned */
    struct redis_watcher watcher;
    char base[BASE_MAX]; /* how every key begins */
    int64_t timeout_us;
    enum conf_when_down when_down;
    void *memory; /* owned: all that this process knows by itself */
    enum ledger_state state;
    char epoch[EPOCH_MAX], boot[EPOCH_MAX]; /* names of this data in Redis, and of this process */
    int64_t op;                             /* the last operation that was sent */
    int64_t op_answered;                    /* the last that was answered */
    bool began;                             /* our leases of an earlier life are gone from Redis */
    int64_t closed_until_us;                /* others may not have told before; wall */
    struct log_of *own;                     /* in logs */
    struct log_of *replay;                  /* whose records are being told */
    struct list logs;                       /* owned */
    struct map calls;                       /* struct open_call by request id, owned */
    struct list queue;                      /* of them: ended, oldest first */
    struct list tallies;                    /* all; the next to be looked at by the sweep comes first */
    struct list asked;                      /* struct asked, owned: holds and raises under way */
    struct rates_shared *rates;             /* owned */
    struct map slice_of;                    /* struct slice in use, by its key's name; they are among the calls */
    struct list slices;                     /* all of them */
    struct list untold;                     /* of them: to be told of */
    bool resting;                           /* no new calls come */
    struct list under_way;                  /* struct job, owned */
    int jobs[JOB_KINDS];                    /* how many of each kind are */
    bool telling;                           /* since hello found another Redis, until everything was told */
    int64_t renewed_us;
    struct instant seen; /* when Redis heard of this process last, for sure */
    int64_t now_us;      /* wall, as told last */
    struct budget_counts counts;
    struct log_gate down_gate, bad_gate;
    budget_watcher *see; /* NULL: nobody */
    void *user;
};

/* redis_words.c */
void random_name(char out[EPOCH_MAX]);
void words_init(struct words *w);
void words_fini(struct words *w);
void words_put(struct words *w, struct span text);
void words_puts(struct words *w, const char *text);
void words_i64(struct words *w, int64_t n);
/* Begins the arguments of a script: the base as its key, who asks, a new operation number, epoch and time. */
void words_begin(struct words *w, struct redis_ledger *l, int64_t now_us);
must_check bool words_run(struct redis_ledger *l, struct words *w, struct redis_script *script,
                          struct redis_call *call);
bool reply_is(const struct redis_value *v, const char *word); /* an array that begins with that word */
struct span reply_text(const struct redis_value *v, size_t i);
int64_t reply_i64(const struct redis_value *v, size_t i);                 /* of decimal text too; 0 when it is none */
void reply_told(const struct redis_value *v, size_t i, struct told *out); /* TOLD_WORDS values from i on */

/* redis_call.c */
struct log_of *log_get(struct redis_ledger *l, const char *name);
void logs_free(struct redis_ledger *l);
struct tally *tally_get(struct redis_ledger *l, struct log_of *log, const char *scope, enum period period,
                        const struct zone *zone, int64_t now_us);
void tally_add(struct tally *t, int64_t nanousd, int64_t overrun);
void tally_dirty(struct tally *t);
/* Our own, when Redis has told of it; NULL otherwise. */
struct tally *tally_said(const struct redis_ledger *l, const char *scope, int64_t from_us);
void tallies_replay(struct redis_ledger *l, const struct ledger_ask *ask);
void tallies_sweep(struct redis_ledger *l, int64_t now_us);
const char *tally_keep_s(const struct tally *t); /* for EXPIRE; "" never */
struct open_call *call_new(struct redis_ledger *l, const struct ledger_ask *ask);
struct open_call *call_find(const struct redis_ledger *l, const char *request_id);
void call_free(struct redis_ledger *l, struct open_call *c);
void calls_free(struct redis_ledger *l);
/* A slice: what a call of it cost waits to be booked. */
void call_add(struct open_call *c, int64_t cost, int64_t overrun);
void call_stand(struct redis_ledger *l, struct open_call *c, const struct ledger_ask *ask); /* in its budgets */
/* Where a call stands for a scope; NULL: it does not. */
struct tally *call_place(const struct open_call *c, const struct ledger_scope *s);

/* redis_settle.c */
void settle_queue(struct redis_ledger *l, struct open_call *c, int64_t cost);
void settle_enqueue(struct redis_ledger *l, struct open_call *c); /* its cost and overrun are set */
void call_book(struct open_call *c);
/* Slices that were made smaller are told at once, and again with the next batch. */
void settle_less(struct redis_ledger *l, struct slice *const *of, size_t n);
/* The lease of an id that we know nothing of, if there is one, ends without a cost. */
void settle_nothing(struct redis_ledger *l, const char *request_id);
void settle_send(struct redis_ledger *l);     /* the next batch, when none is under way */
void settle_book_all(struct redis_ledger *l); /* what waits counts at once */

/* redis_sync.c */
void sync_up(struct redis_ledger *l);
void sync_down(struct redis_ledger *l);
void sync_epoch(struct redis_ledger *l); /* Redis says that it is another one */
void sync_tick(struct redis_ledger *l, int64_t now_us);
void sync_restore(struct redis_ledger *l);

/* redis_job.c */
struct job {                /* a script under way for the ledger itself */
    struct redis_call call; /* first member */
    struct redis_ledger *l;
    struct link in_under_way;
    enum job_kind kind;
    int64_t op;
    struct slice *slice;         /* that asks for more */
    struct rate_question *rates; /* that go along; owned; NULL: none */
    int64_t target;              /* what is then granted to it */
    struct instant sent;
    bool ends;          /* telling: the last of its log */
    struct log_of *log; /* whose tallies it tells */
    size_t n;
    struct tally *carried[]; /* a reference each */
};
void jobs_free(struct redis_ledger *l);
struct job *job_new(struct redis_ledger *l, enum job_kind kind, size_t most,
                    void (*done)(struct redis_call *call, const struct redis_value *reply));
/* Sends it; when nothing can be sent it is done at once, DOWN. */
void job_send(struct job *j, struct words *w, struct redis_script *script);
void job_end(struct job *j);
/* What an answer to operation `op` means for the ledger: true when it was done. */
bool answer_good(struct redis_ledger *l, struct redis_call *call, int64_t op, const struct redis_value *reply);
/* The tallies that a job carries were told, or will be told again; `at` is where the reply begins to speak of them. */
void job_told(struct job *j, bool good, const struct redis_value *reply, size_t at);
/* Contributions of a log that are not told, as arguments; the job carries them. */
void put_dirty(struct job *j, struct log_of *log, size_t most, struct words *w);

/* redis_rate.c: rate limits that hold over all processes; without Redis each process counts by itself. */
struct rates_shared *rates_shared_new(struct redis_ledger *l);
void rates_shared_free(struct rates_shared *s);
enum progress rates_shared_step(struct rates_shared *s, const struct rate_ask *ask, struct rate_op *op);
/* The same of Redis alone, whatever is leased. */
enum progress rates_shared_ask(struct rates_shared *s, const struct rate_ask *ask, struct rate_op *op);
void rates_shared_end(struct rates_shared *s, struct rate_slip *slip, int64_t tokens_used);
void rates_shared_send(struct rates_shared *s);   /* what is to be corrected */
void rates_shared_untold(struct rates_shared *s); /* Redis may not have it */
void rates_shared_lost(struct rates_shared *s);   /* Redis has nothing */
void rates_shared_seen(struct rates_shared *s, const struct instant *sent);
void rates_shared_tick(struct rates_shared *s);
/* What a key's rates want to lease, to go along with its money; NULL: nothing. The caller's. */
struct rate_question *rates_shared_want(struct rates_shared *s, const char *key);

/* redis_news.c */
struct ledger_sums sums_said(const struct tally *t);
void news_terms(struct tally *t, const struct ledger_scope *scope, const char *owner);
void news_passed(struct redis_ledger *l, struct tally *t);
void news_refused(struct redis_ledger *l, struct tally *t);
void news_mark_again(struct redis_ledger *l); /* Redis has lost its marks */
void news_of_memory(const struct budget_news *n, void *user);

/* Every budget with numbers of all processes, as ledger_ops.each has it. */
void views_each(void *store, int64_t now_us, void (*see)(const struct ledger_account *a, void *user), void *user);

/* redis_down.c */
enum progress down_hold(struct redis_ledger *l, const struct ledger_ask *ask, struct hold_op *op);
enum progress down_raise(struct redis_ledger *l, const struct ledger_ask *ask, struct lease *lease, struct hold_op *op);
/* The local ledger is told of what Redis granted. */
void memory_follow(struct redis_ledger *l, const struct ledger_ask *ask, struct hold_op *op);

/* redis_slice.c, redis_slice_tell.c */
bool instant_lives(const struct instant *since, int64_t now_us); /* not longer ago than a slice lives */
void slice_untold(struct redis_ledger *l, struct slice *s);      /* is to be told of */
struct slice *slice_find(const struct redis_ledger *l, const struct ledger_ask *ask);
/* Holds from a slice, or moves a hold in one, without asking. False: none covers it. */
bool slice_hold(struct redis_ledger *l, const struct ledger_ask *ask, struct hold_op *op);
bool slice_raise(struct redis_ledger *l, const struct ledger_ask *ask, struct hold_op *op);
/* A slice begins, grows or is given back, as its use and its limits say. */
void slice_want(struct redis_ledger *l, const struct ledger_ask *ask);
/* A question about a slice goes out, and is answered. */
int64_t slice_ask_more(struct slice *s, int64_t more); /* what is then granted */
void slice_answered(struct redis_ledger *l, struct slice *s, bool granted, int64_t target, const struct instant *sent);
void slice_moved(struct redis_ledger *l, const struct ledger_ask *ask); /* a raise was granted, by whom ever */
/* The call is to have a lease of its own, which Redis is told of. */
void slice_leave(struct redis_ledger *l, struct open_call *c);
void slice_settle(struct redis_ledger *l, struct open_call *c, int64_t cost);
/* What is unused of slices in these budgets goes back at once. False: nothing was. */
bool slices_give_back(struct redis_ledger *l, const struct ledger_ask *ask);
/* Nothing unused is left for new calls in the budgets of this one: it overran. */
void slices_close(struct redis_ledger *l, const struct open_call *c);
void slices_rest(struct redis_ledger *l);
void slices_tick(struct redis_ledger *l);
void slices_lost(struct redis_ledger *l); /* by Redis */
void slices_book(struct redis_ledger *l);
void slices_put(struct redis_ledger *l, struct words *w); /* into a batch of settles */
void slices_told(struct redis_ledger *l, bool good);      /* that batch is answered */
void slice_renewing(struct slice *s, const struct job *j);
void slices_renewed(struct redis_ledger *l, const struct job *j);
int64_t slice_lease(const struct slice *s); /* what its lease holds */

/* redis_ask.c: a hold or a raise is asked of Redis. */
/* The arguments of a hold script; `rates` NULL: of money alone. */
void question_put(struct words *w, struct redis_ledger *l, const struct ledger_ask *ask, const char *id, int64_t amount,
                  const char *mode, struct rate_question *rates);
bool ask_later(struct redis_ledger *l, const struct ledger_ask *ask, struct lease *lease, struct hold_op *op);
void asks_forget(struct redis_ledger *l);

/* redis_ledger.c */
extern const struct ledger_ops ledger_redis_ops;
void *ledger_redis_new(struct redis *redis, const struct budget_redis *o, void *memory);

#endif
