/* Private to this room and its tests: what stands behind the door.
 *
 *     budget.c (conf -> asks, price and cost-per-call rules) -> ledger_ops -> memory.c + rate.c, or another store
 *
 * An ask says by name and number all that a store must know, so that it can be copied and answered later. A store that
 * answers PROGRESS_WAIT fills the op before it calls op->waiter.wake, from the loop and never inside the call. */
#ifndef TOLLGATE_BUDGET_LEDGER_H
#define TOLLGATE_BUDGET_LEDGER_H

#include "budget/budget.h"

#define SCOPE_NAME_MAX sizeof(((struct scope_ref *)NULL)->name)
#define REQUEST_ID_MAX sizeof(((struct lease *)NULL)->request_id)
#define OWNER_NAME_MAX 80

struct ledger_scope { /* one budget that a call must fit in */
    char name[SCOPE_NAME_MAX];
    enum budget_level level;
    enum period period;
    const struct zone *zone;
    const char *owner;     /* for people; borrowed from the caller's conf, which outlives the op */
    int64_t limit_nanousd; /* CONF_UNLIMITED: conf has no such budget any more */
    int64_t share_nanousd; /* the most that calls in flight of one key (team budgets) or one team (the organization's)
                              may hold of it; CONF_UNLIMITED: all */
    enum conf_at_limit at_limit;
    int n_warn;
    int64_t
        warn[CONF_WARN_MAX]; /* shares of the limit over FACTOR_ONE, ascending: a store tells each once an account */
};

struct ledger_owner {          /* who pays, for spend by day, week and month whatever budgets there are */
    char name[OWNER_NAME_MAX]; /* "key/abcd1234", "team/search", "organization" */
    const struct zone *zone;   /* in whose days it is counted */
};

#define LEDGER_OWNERS BUDGET_LEVELS /* indexed by enum budget_level */

struct rate_ask {
    char key_id[12];
    const char *team; /* borrowed from the caller's conf, which outlives the op */
    struct conf_limits of_key, of_team;
    int64_t tokens;
    int64_t now_us;
    int64_t slice; /* of a limit: what a process may lease in advance, over FACTOR_ONE */
    bool may_owe;  /* as in struct rate_op */
};

struct ledger_ask {
    char request_id[REQUEST_ID_MAX];
    int64_t nanousd;
    int64_t now_us;
    bool free;     /* the price is explicitly zero: fits a budget that is used up */
    int64_t slice; /* of a limit: what a process may lease in advance, over FACTOR_ONE */
    struct ledger_owner owners[LEDGER_OWNERS];
    struct rate_op *owed; /* a hold: rates that it is to ask for too, as `rates` says; NULL: none */
    struct rate_ask rates;
    int n;
    struct ledger_scope scopes[LEASE_SCOPES_MAX];
};

struct ledger_account { /* what a store knows of one budget in one period */
    char name[SCOPE_NAME_MAX];
    const char *owner; /* as in struct ledger_owner; borrowed until the walk goes on */
    enum budget_level level;
    enum period period;
    int64_t from_us, to_us;
    int64_t settled_nanousd, held_nanousd, overrun_nanousd;
    int64_t charged_nanousd; /* within held: of processes that are gone and have not told how their calls ended */
    int in_flight;           /* 0 in an account that only counts spend */
};

struct ledger_ops {
    enum progress (*rate)(void *store, const struct rate_ask *ask, struct rate_op *op);
    void (*rate_end)(void *store, struct rate_slip *slip, int64_t tokens_used, int64_t now_us);
    enum progress (*hold)(void *store, const struct ledger_ask *ask, struct hold_op *op);
    enum progress (*raise)(void *store, const struct ledger_ask *ask, struct lease *lease, struct hold_op *op);
    int64_t (*settle)(void *store, struct lease *lease, int64_t nanousd);
    void (*replay)(void *store, const struct ledger_ask *ask); /* ask->nanousd is a settled cost */
    void (*each)(void *store, int64_t now_us, void (*see)(const struct ledger_account *a, void *user), void *user);
    void (*spend)(void *store, const char *owner, int64_t now_us, struct spend_view *out);
    /* Whom to tell, by ledger_news and ledger_passed. A store keeps two marks an account: the highest share that was
     * told (0 at its birth; replay moves it without telling) and whether a refusal was. Of several processes the one
     * whose step moved the mark tells. */
    void (*watch)(void *store, budget_watcher *see, void *user);
    void (*free)(void *store);
    /* These may be NULL. */
    void (*tick)(void *store, int64_t now_us);
    void (*replay_log)(void *store, const char *log);
    bool (*ready)(const void *store);
    bool (*settled)(const void *store);
    void (*rest)(void *store);
    void (*counts)(const void *store, struct budget_counts *out);
};

/* judge.c: what numbers of accounts mean for an ask; the same words behind every store. */
struct ledger_sums { /* of the account that stands for a scope of the ask */
    bool stands;     /* false: the call does not stand in it (a raise under a newer conf), so it is not asked */
    int64_t settled_nanousd, held_nanousd, overrun_nanousd, from_us, to_us;
};
int64_t ledger_room(const struct ledger_sums *s, int64_t limit_nanousd); /* below zero: above the limit */
/* Whether `need` more fits every scope; else ERR_BUDGET and the refusal of the scope whose word counts. Returns that
 * scope's index, -1 when all fits. */
int ledger_judge(const struct ledger_ask *ask, const struct ledger_sums *sums, int64_t need, struct hold_op *op);
/* A refusal in the name of scope i: share and limit alike. */
void ledger_refuse(const struct ledger_ask *ask, const struct ledger_sums *sums, int i, int64_t need, enum err err,
                   struct hold_op *op);
/* What is left and what has been passed, into the op. */
void ledger_tell(const struct ledger_ask *ask, const struct ledger_sums *sums, struct hold_op *op);
/* The highest share that settled + held have passed; 0: none. */
int64_t ledger_passed(const struct ledger_scope *scope, const struct ledger_sums *s);
/* `owner`: as in struct ledger_owner. */
struct budget_news ledger_news(const struct ledger_scope *scope, const char *owner, const struct ledger_sums *s,
                               enum budget_event event);

extern const struct ledger_ops ledger_memory_ops;
void *ledger_memory_new(void);

/* Puts another store behind the door; the budget owns it from then on. Returns the one that stood there, with its ops:
 * a wrapper keeps it inside and frees it, anyone else must free it. */
void *budget_set_store(struct budget *b, const struct ledger_ops *ops, void *store, const struct ledger_ops **old_ops);

/* scope.c: asks out of a conf. False: more budgets apply than a lease has room for. */
must_check bool ledger_ask_of(const struct conf *conf, const struct conf_key *key, struct ledger_ask *ask);
/* The same for a key and a team that conf may know no more; either may be NULL. */
must_check bool ledger_ask_of_names(const struct conf *conf, struct span key_id, struct span team,
                                    struct ledger_ask *ask);
void ledger_scope_name(const char *owner, enum period period, const struct zone *zone, char out[SCOPE_NAME_MAX]);
void ledger_owner_name(enum budget_level level, struct span name, char out[OWNER_NAME_MAX]);
/* Every budget of a conf, one after the other; limits of budgets that are one account are already the tightest. */
void ledger_scopes_each(const struct conf *conf, void (*see)(const struct ledger_scope *s, void *user), void *user);

#endif
