/* Private to the rates over Redis: what a process says of its calls in flight, what it leased in advance, and how both go
 * along with a script that asks for something.
 *
 *     question  begin (the call has its slots) -> put, as often as it is sent -> answered, or nobody answers
 *     slice     of a key: lots of requests and tokens, each counted in Redis when it was leased; calls take from them
 *     slots     of a key or team: Redis counts the larger of the calls in flight and what is kept
 *
 * A lot is used for SLICE_LIVES_US after it was asked for, and Redis counts it as used at the end of that; what is unused
 * goes back then. Slots that are kept are taken while this process was heard within SLICE_LIVES_US; a process that is not
 * heard for LEASE_LIVES_US has none. Of one owner's slots, and of one key's lots, one lease at a time is under way, and
 * nothing is given back meanwhile: so what may be used is never more than Redis counts. */
#ifndef TOLLGATE_BUDGET_REDIS_RATES_H
#define TOLLGATE_BUDGET_REDIS_RATES_H

#include "budget/redis_ledger.h"

#define RATE_LEVELS 2 /* the key and its team */
#define RATE_LOTS 4   /* of a key */

struct payers { /* the key and the team of a call */
    char of[RATE_LEVELS][OWNER_NAME_MAX];
};

struct slots {
    char owner[OWNER_NAME_MAX];
    int64_t n;              /* calls of this process in flight, those that are being asked for too */
    int64_t kept;           /* Redis counts so many, whatever n is */
    int64_t peak, peak_was; /* of n, in this span of time and the one before */
    bool leasing;           /* more are asked for */
    bool untold;
    struct link in_untold, in_all;
};

struct rate_lot {
    int64_t requests, tokens; /* unused; of what nothing limits, nothing */
    int64_t at_us;            /* when it was counted, by Redis's clock; 0: no lot */
    struct instant sent;
};

struct rate_slice {
    struct payers payers;
    struct conf_limits limits[RATE_LEVELS]; /* that it was leased under */
    struct rate_lot lots[RATE_LOTS];
    bool leasing, wanted;      /* more is asked for, or is to be */
    int64_t share, tokens;     /* as asked last */
    int64_t goal[RATE_LEVELS]; /* requests and tokens that may lie unused, as judged last */
    int64_t used_us, retry_us;
    struct rate_limit_view view; /* as told last, less what was taken since */
    struct link in_all;
};

struct rate_ended { /* what was counted, and not used, or used more: told together, of one key and instant */
    struct link link;
    struct payers payers;
    int64_t requests, tokens, more, at_us;
};

/* The rates' part of a question under way: a call's, or of none, which only leases. It is answered once. */
struct rate_question {
    struct rates_shared *of;
    struct rate_ask ask;
    struct rate_op *op;                            /* the caller's; NULL: no call */
    struct rate_slice *slice;                      /* that asks for a lot; NULL: none does */
    struct slots *slots[RATE_LEVELS];              /* of the key and the team */
    int64_t wish[RATE_LEVELS], spare[RATE_LEVELS]; /* asked for in advance: requests and tokens; slots of each level */
    bool again;                                    /* asked once more, without what we had in advance */
    struct instant sent;
};

struct rates_shared {
    struct redis_ledger *l; /* not owned */
    struct map slots;       /* struct slots by owner, owned */
    struct list untold, all;
    struct list ends;    /* struct rate_ended, owned */
    struct list asked;   /* struct rate_asked, owned */
    struct map slice_of; /* struct rate_slice by key, owned */
    struct list slices;
    int64_t peaked_us; /* when peaks were looked at */
};

/* redis_rate_ask.c: a call has its slots from the question on; who is refused gives them back. */
void rate_question_begin(struct rate_question *q, struct rates_shared *s, const struct rate_ask *ask,
                         struct rate_op *op);
void rate_question_put(struct rate_question *q, struct words *w); /* as arguments of a script */
/* Refused while we hold something in advance: that is given back, and the question may be put again, once. */
bool rate_question_again(struct rate_question *q, const struct redis_value *reply);
/* NULL: nobody answered, and a call is counted by this process alone. */
void rate_question_answered(struct rate_question *q, const struct redis_value *reply);
void rate_question_undone(struct rate_question *q);

/* redis_slots.c */
struct slots *slots_get(struct rates_shared *s, const char *owner);
void slots_untold(struct rates_shared *s, struct slots *one);
void slots_add(struct rates_shared *s, const struct payers *payers, int n);
void slots_put(const struct slots *one, bool leases, struct words *w);    /* how many there are, and are kept */
bool slots_keep(struct rates_shared *s, struct slots *one, int64_t most); /* false: no fewer than before */
bool slots_are_free(const struct rates_shared *s, const struct slots *one, int64_t now_us); /* for a call more */
int64_t slots_wish(const struct slots *one, int64_t limit, int64_t share);
void slots_heard(struct rates_shared *s, const struct instant *sent); /* what was sent then is answered */
void slots_check(struct rates_shared *s, int64_t now_us);             /* that it was not too long ago */
void slots_lost(struct rates_shared *s);
void slots_tick(struct rates_shared *s);

/* redis_rate_slice.c */
bool limits_any(const struct conf_limits *c);
void payers_of(const struct rate_ask *ask, struct payers *out);
/* The call passes without asking; false: it does not. */
bool rate_slice_pass(struct rates_shared *s, const struct rate_ask *ask, struct rate_op *op);
/* What a call of a lot did not use is its lot's, as far as that lives. False: Redis is to be told. */
bool rate_slice_end(struct rates_shared *s, const struct rate_slip *slip, int64_t tokens_used);
struct rate_slice *rate_slice_of(struct rates_shared *s, const struct rate_ask *ask); /* NULL: none is to be */
/* How many requests and tokens are to be asked for now; false: none. */
bool rate_slice_wish(struct rates_shared *s, struct rate_slice *one, int64_t wish[RATE_LEVELS]);
void rate_slice_leased(struct rates_shared *s, struct rate_slice *one, int64_t requests, int64_t tokens, int64_t at_us,
                       const struct instant *sent);
void rate_slice_saw(struct rates_shared *s, const struct rate_ask *ask, const struct rate_limit_view *v);
/* More is to be asked for, and no call brought it along: for whom. */
bool rate_slice_wanted(struct rates_shared *s, struct rate_slice *one, struct rate_ask *ask);
void rate_slices_tick(struct rates_shared *s);
void rate_slices_lost(struct rates_shared *s); /* by Redis */
void rate_slices_free(struct rates_shared *s);
/* Unused lots, and slots, of this key or team are given back. False: there were none. */
bool rates_give_back(struct rates_shared *s, const struct rate_ask *ask);

/* redis_rate.c */
void rate_ended(struct rates_shared *s, const struct payers *payers, const struct rate_ended *what);
void rates_shared_send_now(struct rates_shared *s); /* what is to be told, whatever is under way */

#endif
