/* WHAT A TEAM MAY SPEND.
 *
 *     rate   : requests, tokens and in-flight slots of key and team, as one step; a refused call uses nothing up
 *     bound  : call size x price -> the most this call can cost                       budget_bound
 *     hold   : the bound is set aside at every level at once (key, team, organization), or nowhere
 *     raise  : another try: what earlier tries cost is added before the raise is used
 *     settle : the true cost replaces the hold, exactly once on every way out
 *
 * At every instant and level: settled + held <= limit, save overruns (a provider reports more than was held: booked in
 * full, marked, counted). A scope that stands above its limit, by an overrun or because the limit was lowered, takes no
 * new hold until there is room under the limit again: calls ended below their holds, the period ended, the limit was
 * raised. A request belongs to the period in which it was held. The ledger is memory, or Redis where many processes share
 * budgets (budget/redis_ledger.h); the door is asynchronous for its sake. */
#ifndef TOLLGATE_BUDGET_H
#define TOLLGATE_BUDGET_H

#include "conf/conf.h"
#include "gateway/base/usage.h"

#define LEASE_SCOPES_MAX 16 /* budgets of key + team + organization that one call can touch */

struct budget;
struct budget *budget_new(void);
void budget_free(struct budget *b);

/* --- bound --- */
#define BOUND_WHY_MAX 192
struct bound {
    int64_t in_tok, out_tok; /* worst case, output of all choices together */
    int64_t nanousd;         /* INT64_MAX: cannot be bounded */
    char why[BOUND_WHY_MAX]; /* then: the rest of "what it can cost has no bound: "; else empty */
    bool output_capped;      /* output was bounded by the model's or conf's cap, not by the call */
    int64_t full_out_tok;    /* what output may come to at the most; INT64_MAX: nobody says. Above out_tok only where
                                a part is held at a time */
};
/* facts: max_output_tok -1 is unknown, then conf->hold.output_cap_tok stands; context_tok matters to calls whose tools run
 * at the provider. No usage within the call's caps costs more: the same function prices both, over every tier that the
 * call may get and every band that its input may reach. */
void budget_bound(const struct conf *conf, const struct price *price, const struct call_size *size,
                  const struct conf_model *facts, struct bound *out);
/* For a stream whose output is all visible: no more than conf's cap of output at a time, to be moved on before it passes. */
void budget_bound_part(const struct conf *conf, const struct price *price, const struct call_size *size,
                       struct bound *b);
/* The same bound with other output; never above full_out_tok. */
void budget_bound_move(const struct price *price, const struct call_size *size, int64_t out_tok, struct bound *b);
/* The most output tokens, all choices together, whose bound is within `nanousd`; -1: not even none. */
int64_t budget_fit_tok(const struct price *price, const struct call_size *size, const struct bound *b, int64_t nanousd);
int64_t budget_in_bound_tok(const struct call_size *size);  /* worst-case input tokens */
int64_t budget_in_expect_tok(const struct call_size *size); /* likely input tokens, before any calibration */
/* Likely input tokens at a target, or of an alias: for tokens per minute, policies, counts and estimates, never for a
 * hold. Calibrated by what was learnt under that name; as above while nothing was. */
int64_t budget_expect_tok(const struct budget *b, const char *name, const struct call_size *size);
/* Likely output tokens of all choices: what calls under that name had of late, within what this one allows. */
int64_t budget_expect_out_tok(const struct budget *b, const char *name, const struct call_size *size);
/* A call settled: its reported input against what was expected, and its output. What teaches nothing is passed over. */
void budget_learn(struct budget *b, const char *name, const struct call_size *size, const struct usage *used);
#define CALIBRATION_ONE INT64_C(1000000) /* parts per million */
int64_t budget_calibrated_tok(int64_t tok, int64_t ppm);
/* Likely tokens of `bytes` of generated text: for usage that a provider did not report. */
int64_t budget_text_expect_tok(int64_t bytes);

/* --- rates --- */
struct rate_slip { /* what a passed rate step lends: ended by budget_rate_end, exactly once */
    bool open;
    char key_id[12];
    char *team;     /* owned */
    int64_t tokens; /* counted in advance; corrected at the end */
    int64_t at_us;  /* when they were counted */
    bool shared;    /* counted where all processes count */
};
struct rate_limit_view { /* for the rate-limit headers: the tightest of key and team; -1: no such limit; a reset is the
                            time from now until nothing of the limit is used any more */
    int64_t limit_requests, remaining_requests, reset_requests_us;
    int64_t limit_tokens, remaining_tokens, reset_tokens_us;
};
struct rate_op {
    struct waiter waiter;
    int64_t waited_us; /* in and out: how long this request has waited for its ledger, all in all */
    enum err err;      /* ERR_NONE, ERR_RATE, ERR_LEDGER */
    const char *limit; /* static: "requests_per_minute", "tokens_per_minute", "in_flight" */
    const char *level; /* "key" or "team" */
    int64_t limit_value;
    int64_t retry_after_us; /* true wait; INT64_MAX: this call can never pass */
    struct rate_limit_view view;
    struct rate_slip slip;
    bool may_owe; /* in: the answer may be owed until the hold, which asks for both at once */
    bool owed;    /* out: it is; neither passed nor refused */
    int64_t owed_tok;
};
enum progress budget_rate(struct budget *b, const struct conf *conf, const struct conf_key *key, int64_t tokens,
                          int64_t now_us, struct rate_op *op);
/* Gives the in-flight slots back; tokens are corrected to what was used (-1: leave). */
void budget_rate_end(struct budget *b, struct rate_slip *slip, int64_t tokens_used, int64_t now_us);

/* --- holds --- */
enum budget_level { LEVEL_KEY, LEVEL_TEAM, LEVEL_ORGANIZATION };
#define BUDGET_LEVELS 3
extern const char *const budget_level_names[];

struct scope_ref { /* one budget in one period, by name: outlives a conf */
    char name[96]; /* "team/search/month@UTC": whose, which period, in which zone */
    enum budget_level level;
    int64_t period_from_us, period_to_us;
};
struct lease {
    struct scope_ref scopes[LEASE_SCOPES_MAX];
    int n; /* budgets it stands in; may be 0 for a call without budgets */
    int64_t nanousd;
    bool open; /* false: ended, or never begun */
    char request_id[40];
};
struct refusal { /* which budget said no, for the 402 and its explanation */
    enum budget_level level;
    const char *scope; /* name of key, team or "organization" */
    enum period period;
    int64_t limit_nanousd, settled_nanousd, held_nanousd, needed_nanousd;
    int64_t resets_us;       /* INT64_MAX: never */
    int64_t overrun_nanousd; /* of this scope, within settled: what providers reported beyond what was held */
    /* What is to become of the call: the strictest word of all budgets that it does not fit, refuse before degrade before
     * clamp, since nobody's money is to be spent in a way that its owner did not choose. */
    enum conf_at_limit at_limit;
    int64_t room_nanousd; /* what fits at every level at once; below zero where a scope stands above its limit */
};
struct hold_op {
    struct waiter waiter;
    int64_t waited_us;     /* as in struct rate_op; the caller carries it over */
    enum err err;          /* ERR_NONE, ERR_BUDGET, ERR_HOLD_SHARE, ERR_PRICE, ERR_LEDGER */
    struct rate_op *rates; /* in: rates that are owed: this hold settles them, and is woken at most once for both by
                              either's waiter. What they say comes first: refused rates leave a lease that is not open, or
                              one that nothing is spent of. NULL: none. The caller's */
    struct refusal refusal;
    struct lease lease; /* open when err is ERR_NONE */
    int64_t remaining_key, remaining_team,
        remaining_organization; /* after the hold, tightest budget of each level; -1: no budget there */
    int64_t
        passed[BUDGET_LEVELS]; /* the highest `warn` share that settled + held have passed, over FACTOR_ONE; 0: none */
};
/* `price_known` false and any budget (or max_cost_per_call) applies: ERR_PRICE. An explicit zero price always fits.
 * max_cost_per_call of key and team is checked here too (ERR_BUDGET with period PERIOD_TOTAL and limit = that bound). */
enum progress budget_hold(struct budget *b, const struct conf *conf, const struct conf_key *key, const char *request_id,
                          const struct price *price, int64_t nanousd, int64_t now_us, struct hold_op *op);
/* Another try needs more: lease->nanousd becomes `nanousd` at every level, or nothing changes. */
enum progress budget_raise(struct budget *b, const struct conf *conf, const struct conf_key *key, struct lease *lease,
                           int64_t nanousd, int64_t now_us, struct hold_op *op);
/* Ends the lease at its true cost; idempotent by request id within the ledger. Returns the overrun (0 if none). */
int64_t budget_settle(struct budget *b, struct lease *lease, int64_t nanousd);

/* --- a ledger that processes share --- */
struct redis;
struct budget_redis {
    const char *log;    /* whose settles this process tells: chain and identity of its audit log; copied */
    int64_t timeout_us; /* all waits of one request together */
    enum conf_when_down when_down;
    int64_t now_us;
};
/* Before anything is replayed or held. The redis outlives the budget. */
void budget_use_redis(struct budget *b, struct redis *r, const struct budget_redis *o);
/* From time to time, ten times a second: what is to be told is told. */
void budget_tick(struct budget *b, int64_t now_us);
/* Whether holds are decided now by the ledger that they are meant for; false: as when_down says. */
bool budget_ready(const struct budget *b);
/* No new calls come: what was leased in advance is given back, and budget_settled waits for that too. */
void budget_rest(struct budget *b);
/* Whether every settle has arrived where it can; one that has not is told by the log at the next start. */
bool budget_settled(const struct budget *b);
/* How calls were decided since the start, where processes share a ledger; elsewhere all are 0. */
struct budget_counts {
    int64_t holds_asked, holds_in_slices; /* holds and raises: of Redis, or from what was leased in advance */
    int64_t rates_asked, rates_in_slices;
    int64_t both_asked; /* of those asked: rates and hold in one script */
};
void budget_counts(const struct budget *b, struct budget_counts *out);
/* Whose records budget_replay tells from now on; NULL: our own. */
void budget_replay_log(struct budget *b, const char *log);

/* --- news --- */
/* What somebody should hear of, told from the loop at the moment it happens, also inside a hold, a raise or a settle:
 * the watcher may not call back into the budget. */
enum budget_event {
    BUDGET_WARN,    /* settled + held passed a `warn` share: each once a period and budget, also over a restart */
    BUDGET_LIMIT,   /* a call did not fit: the first one of a period and budget */
    BUDGET_OVERRUN, /* a provider reported more than was held: each time */
    BUDGET_EVENT_N
};
struct budget_news {
    enum budget_event event;
    const char *name;  /* of the scope: "team/search/month@UTC"; borrowed */
    const char *scope; /* id of the key, name of the team, "organization"; borrowed */
    enum budget_level level;
    enum period period;
    int64_t limit_nanousd, settled_nanousd, held_nanousd;
    int64_t share;        /* BUDGET_WARN: the share passed, over FACTOR_ONE */
    int64_t over_nanousd; /* BUDGET_OVERRUN: of this call */
    int64_t period_from_us, period_to_us;
};
typedef void budget_watcher(const struct budget_news *n, void *user);
void budget_watch(struct budget *b, budget_watcher *see, void *user);

/* --- limits raised at run time --- */
/* The scope's limit stands `by_nanousd` higher until `until_us`; 0 ends it. Binds from the next hold on. */
void budget_lift(struct budget *b, const char *name, int64_t by_nanousd, int64_t until_us);

/* --- views and recovery --- */
struct budget_view {
    const char *name;  /* "team/search/month@UTC"; borrowed until the next call */
    const char *scope; /* borrowed until the next call */
    enum budget_level level;
    enum period period;
    int64_t
        limit_nanousd; /* of the current conf; CONF_UNLIMITED when conf has no such budget any more (it is shown while
                              calls stand in it) */
    int64_t lifted_nanousd, lifted_until_us; /* of the limit: what stands on top of conf's own; 0: nothing */
    int64_t settled_nanousd, held_nanousd, overrun_nanousd;
    int64_t charged_nanousd; /* within held: of processes that are gone and have not told how their calls ended */
    int64_t period_from_us, period_to_us;
    int in_flight;
};
void budget_each(struct budget *b, const struct conf *conf, int64_t now_us,
                 void (*see)(const struct budget_view *v, void *user), void *user);
/* Spend of a key and a team by day, week, month (UTC unless a budget names a zone), whatever budgets exist: for
 * GET /v1/key and metrics. */
struct spend_view {
    int64_t day_nanousd, week_nanousd, month_nanousd, total_nanousd;
};
void budget_spend(const struct budget *b, struct span key_id, struct span team, int64_t now_us, struct spend_view *key,
                  struct spend_view *of_team);
/* Start: tells the ledger of a settled request from the log (any order, each once). Also of a correction, which may be
 * less than nothing, when it is written. */
void budget_replay(struct budget *b, const struct conf *conf, struct span key_id, struct span team, int64_t admitted_us,
                   int64_t nanousd);

#endif
