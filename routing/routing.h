/* WHO SHALL ANSWER.
 *
 *     needs -> plan: finite, ordered, each choice and each exclusion with its reason     routing_plan
 *     outcome of a try -> health of its lane, its model, its backend                     routing_learn
 *
 * A plan is made once and never grows. Its choices stand rung by rung, best first; within a rung they are drawn by the
 * rung's policy without putting one back. A lane is (target, provider key); each lane stands in a plan at most once, so
 * a plan of all lanes that are left ends. Health is keyed by names and outlives any conf. */
#ifndef TOLLGATE_ROUTING_H
#define TOLLGATE_ROUTING_H

#include "conf/conf.h"
#include "gateway/base/usage.h"

#define PLAN_MAX 32          /* choices of one plan; more lanes are cut, and the plan says so */
#define PLAN_EXCLUDED_MAX 64 /* exclusions that a plan remembers */

struct routing;
struct routing *routing_new(uint64_t seed); /* seed of all draws; 0: from the system */
void routing_free(struct routing *r);

/* On which side of an experiment a call stands. It may change the answer, so it goes into the cache key (by the ladder
 * digest), the records and the bill. */
enum arm_kind { ARM_NONE, ARM_STABLE, ARM_CANARY, ARM_PINNED, ARM_KINDS };
extern const char *const arm_names[ARM_KINDS]; /* "stable", "canary", "pinned"; NULL for ARM_NONE */
struct arm {
    enum arm_kind kind;
    const struct conf_target *first; /* CANARY, PINNED: tried before the ladder; lives as long as the request's conf */
    bool degraded;                   /* a pinned one stands on a rung that is marked so */
};
/* Whether the subject (a team's, a key's or a label's name) is among `share` (over FACTOR_ONE) of the alias's. A larger
 * share holds all subjects of a smaller one. */
bool arm_holds(const char *alias, struct span subject, int64_t share);

struct needs {
    const struct conf *conf;
    const struct conf_key *key;
    const struct conf_alias *alias;
    struct span captured;   /* what '*' matched */
    unsigned protocols;     /* bits 1 << enum conf_protocol that can serve this endpoint and dialect */
    unsigned caps;          /* enum cap bits that the call needs */
    int64_t in_bound_tok;   /* likely input; a window under half of it is too small for sure, see lanes.c */
    int64_t max_output_tok; /* -1: not said */
    struct span require;    /* further tags by header, comma separated */
    enum fallback fallback;
    struct arm arm;
    bool stream;           /* its answer comes piece by piece: waits of both kinds are not compared */
    struct usage expected; /* what it is likely to use: the policy cost prices it */
    int64_t wall_us;       /* ... at this instant */
    uint64_t affinity;     /* alike for calls that begin alike: the policy sticky; 0: none */
};
/* Whether the tags and key boundaries of the call's team, key and header let `b` see it: the one rule for plans, and for
 * whatever else would send a call somewhere. */
must_check bool routing_permits(const struct needs *needs, const struct conf_backend *b);

/* What was known of a target when the choice was made. */
struct lane_facts {
    int64_t latency_us;   /* of late, as peak EWMA of the first content, or of whole answers; -1: not known */
    int64_t cost_nanousd; /* of this call, as far as it can be foreseen; -1: not asked for or not known */
    int in_flight;        /* calls at it, from this process */
};

#define RUNG_ARM (-1) /* of the arm's own target, above the ladder */
struct choice {
    const struct conf_backend *backend;  /* lives as long as the request's conf */
    struct span model;                   /* upstream name, capture filled in; in the plan's arena */
    const char *target;                  /* "backend/model", in the plan's arena */
    const struct conf_upstream_key *key; /* NULL where the backend takes none */
    int rung;                            /* from 0; RUNG_ARM */
    bool degraded;                       /* the rung is marked so by the operator */
    unsigned only_for; /* REASON_BITs: the reasons for which this rung may be entered from one above; rung 0: all */
    const char *why;   /* static: "weighted draw", "only target", "probe after cool-down", ... */
    bool last;         /* a last resort: it is cooling down, and may be tried, or probed, when all others have failed */
    struct lane_facts facts;
};

struct exclusion {
    const char *target; /* in the arena */
    const char *why;    /* "cooling down for 1.5s", "no tag eu", "context of 8192 is too small", ... in the arena */
    enum reason reason; /* REASON_N: a boundary (tags, team), never a reason to go down */
};

struct plan {
    const struct conf_alias *alias; /* lives as long as the request's conf */
    struct arm arm;
    int n, at; /* at: the next choice to try */
    struct choice choices[PLAN_MAX];
    int n_excluded;
    struct exclusion excluded[PLAN_EXCLUDED_MAX];
    int n_forgotten;        /* exclusions past PLAN_EXCLUDED_MAX */
    int n_cut;              /* lanes that could serve but did not fit into PLAN_MAX */
    unsigned skipped;       /* REASON_BITs: why the rungs above the first choice were passed over; 0: none was */
    int64_t retry_after_us; /* when n is 0: the soonest a lane comes back; 0 unknown */
};

/* ERR_NONE with n >= 1; ERR_NO_TARGET (all cooling down or off), ERR_TARGET_FORBIDDEN (tags), ERR_CONTEXT,
 * ERR_UNSUPPORTED (no target can do what the call needs) with n == 0. Memory from `arena`. */
must_check enum err routing_plan(struct routing *r, const struct needs *needs, int64_t now_us, struct arena *arena,
                                 struct plan *out);

/* How a try ended, and so who is at fault. */
enum outcome {
    OUTCOME_OK,
    OUTCOME_CLIENT_FAULT,   /* 400, 404 of a body field, 413, 422: nobody's health */
    OUTCOME_CANCELLED,      /* the client left: nobody's health */
    OUTCOME_CONNECT,        /* refused, no route, DNS, TLS: the network or the backend; nothing was sent */
    OUTCOME_CONNECT_SLOW,   /* no connection in time: likewise */
    OUTCOME_UNAVAILABLE,    /* 5xx, reset, broken framing, empty answer: the target */
    OUTCOME_RATE_LIMITED,   /* 429: the lane */
    OUTCOME_TIMEOUT,        /* first token or idle clock: the target */
    OUTCOME_AUTH,           /* 401, 402, 403: the lane's key */
    OUTCOME_MODEL_MISSING,  /* 404: the target */
    OUTCOME_CONTEXT_WINDOW, /* the provider says the prompt is too long: nobody's health */
    OUTCOME_CONTENT_FILTER, /* nobody's health */
    OUTCOME_NO_SLOT,        /* routing_begin said no: nothing was sent, nobody's health */
    OUTCOME_OVER_BUDGET,    /* the hold was refused: nothing was sent, nobody's health */
    OUTCOME_LOCAL,          /* this machine has no socket, port or memory left: nothing was sent, nobody's health */
    OUTCOME_N
};
extern const char *const outcome_names[OUTCOME_N];
/* The reason for which a plan may go on below after this outcome; REASON_N: it may not go on at all. */
enum reason outcome_reason(enum outcome o);

/* Whether a choice stands where its arm begins: what it answers may be kept and given again. */
static inline bool plan_is_first_rung(const struct plan *p, const struct choice *c) {
    return c->rung == (p->arm.first ? RUNG_ARM : 0) && !c->degraded;
}

/* The index of the choice that follows choice `after`, which ended with `last`, or -1: the one place that decides. With
 * `after` -1 the first choice. `tried` counts tries that were sent so far (not those that ended NO_SLOT or OVER_BUDGET);
 * `attempts` is the alias's bound. Never to be called once content has gone to the client. Choices that share the part
 * at fault (the backend after CONNECT, the target after UNAVAILABLE, ...) come after those that do not, so that a bad
 * backend with many keys does not use up the attempts; a degraded rung comes after both. */
int plan_next(const struct plan *p, int after, enum outcome last, int tried, int attempts, enum fallback fallback);

/* What follows a try that failed before content, within the bounds of retries: how far the walk has come, and the choice
 * that is next, with the time to wait before it. `far` is the last choice that was begun, `at` the one that failed; a
 * further try within its rung must fit retries.budget, a share of recent calls, unless nothing was sent, so that an outage
 * is not multiplied; a rung below is bounded by attempts and the deadline alone. */
struct walked {
    int at, far;
    enum outcome last;
    int tried;
    enum fallback fallback;
    int64_t left_us; /* until the deadline */
};
struct next {
    int at; /* -1: none */
    int64_t wait_us;
};
struct next routing_next(struct routing *r, const struct conf *conf, const struct plan *p, const struct walked *w,
                         int64_t now_us);
/* Whether a further try that the caller of routing_next does not make fits retries.budget; counts it if so. */
must_check bool routing_may_retry(struct routing *r, const struct conf *conf, int64_t now_us);
/* A call was planned: it counts as traffic. */
void routing_count_call(struct routing *r, int64_t now_us);
/* How long a try may go without content: while something may follow it, half of what is left until the deadline, so that
 * a silent one does not use up the time of those below. */
int64_t routing_patience_us(const struct plan *p, const struct walked *w);

/* How a try ended. */
struct lesson {
    enum outcome outcome;
    int64_t retry_after_us; /* the provider's wish; 0: none */
    bool stream;            /* as in the needs */
    int64_t waited_us;      /* from its start to its first content, or to its end when none came */
    bool outwaited;         /* another try was quicker: this one would have taken longer still */
};
void routing_learn(struct routing *r, const struct conf *conf, const struct choice *c, const struct lesson *l,
                   int64_t now_us);
/* A choice was started / has ended: in-flight counts per backend (rate_limits.in_flight) and half-open probes. The
 * address of the choice tells tries apart: give the same one to begin, learn and end. False: no slot now; go on with
 * plan_next as after OUTCOME_NO_SLOT. Every begin that said true is ended once, after its learn. */
must_check bool routing_begin(struct routing *r, const struct choice *c, int64_t now_us);
void routing_end(struct routing *r, const struct choice *c);

/* No new calls to a backend ("b"), a target ("b/m"), a key of a backend ("b", "k") or a lane ("b/m", "k"), until then or
 * until it is resumed; what runs goes on. Keyed by names: what conf does not have is remembered too. */
void routing_drain(struct routing *r, struct span target, struct span key, int64_t until_us);
void routing_resume(struct routing *r, struct span target, struct span key);

/* One row a lane that was ever used, for /admin/targets and metrics. */
struct lane_view {
    const char *target, *key; /* borrowed until the next call */
    const char *state;        /* "closed", "open", "half-open" */
    int64_t open_until_us;    /* 0 unless open */
    enum reason reason;       /* of the fault that opened it; REASON_N unless open */
    uint64_t tries, failures;
    int in_flight;
    bool drained;
};
void routing_each(struct routing *r, int64_t now_us, void (*see)(const struct lane_view *v, void *user), void *user);

/* The plan in words (text) or JSON, for `tollgate explain` and x-tollgate-explain. */
void plan_print(const struct plan *p, bool as_json, struct str *out);

/* SHA-256 over the ladder: sorted set of (backend name, protocol, url, model) of all rungs that are not degraded,
 * without weights, policy, keys and timeouts, and the arm where it has a target of its own; part of the cache key. */
void routing_ladder_digest(const struct conf_alias *alias, struct span captured, const struct arm *arm,
                           uint8_t out[SHA256_BYTES]);

#endif
