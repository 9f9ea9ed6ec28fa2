/* One request, from its head to its last record.
 *
 *   HEAD > AUTH > BODY > EXPAND > RATE > ROUTE > CACHE > HOLD > ADMIT > SEND > STREAM --+--> SETTLE > RELEASE > DONE
 *     |      |      |      |       |       |       |\___________(hit)___________^       |
 *     '------'------'------'-------'-------'-------'------'----> REFUSE ----------------'   SEND > HOLD > SEND: another
 *                                                                                try, only before the first content byte
 *
 *   true in ...     what request_check asserts
 *   HEAD, AUTH      nothing is lent; no conf; a client is there
 *   BODY..          conf and key are set (own and open paths leave from AUTH to SETTLE)
 *   after RATE      slip is open until RELEASE, or its rates are owed until HOLD (of a call that no cache can answer)
 *   after HOLD      lease is open until RELEASE
 *   SEND, STREAM    an answer is there; in SEND no content has been sent; a second try runs only before STREAM
 *   SETTLE..        status, usage and cost do not change any more; no attempt runs
 *   DONE            nothing is lent: no slip, lease, lead, attempt, answer, conf, client, idempotency key
 *
 * A step is one short function. It answers MORE (the state has moved on), WAIT (something will call request_wake) or
 * DONE. Callbacks only queue: request_wake puts the request on the ready list and the turn runs it. */
#ifndef TOLLGATE_GATEWAY_REQUEST_H
#define TOLLGATE_GATEWAY_REQUEST_H

#include "audit/audit.h"
#include "backends/backends.h"
#include "budget/budget.h"
#include "cache/cache.h"
#include "gateway/answer.h"
#include "gateway/base/clock.h"
#include "gateway/base/list.h"
#include "gateway/base/log.h"
#include "gateway/net/http.h"
#include "routing/routing.h"

/* name, what people read, the states it may move to */
#define STATE_TABLE(X)                                                                                                 \
    X(HEAD, head, TO(AUTH) | TO(SETTLE) | TO(REFUSE))                                                                  \
    X(AUTH, auth, TO(BODY) | TO(SETTLE) | TO(REFUSE))                                                                  \
    X(BODY, body, TO(EXPAND) | TO(SETTLE) | TO(REFUSE))                                                                \
    X(EXPAND, expand, TO(RATE) | TO(REFUSE))                                                                           \
    X(RATE, rate, TO(ROUTE) | TO(REFUSE))                                                                              \
    X(ROUTE, route, TO(CACHE) | TO(REFUSE))                                                                            \
    X(CACHE, cache, TO(HOLD) | TO(STREAM) | TO(REFUSE))                                                                \
    X(HOLD, hold, TO(ADMIT) | TO(SEND) | TO(SETTLE) | TO(REFUSE))                                                      \
    X(ADMIT, admit, TO(SEND) | TO(REFUSE))                                                                             \
    X(SEND, send, TO(STREAM) | TO(HOLD) | TO(REFUSE))                                                                  \
    X(STREAM, stream, TO(SETTLE))                                                                                      \
    X(REFUSE, refuse, TO(SETTLE))                                                                                      \
    X(SETTLE, settle, TO(RELEASE))                                                                                     \
    X(RELEASE, release, TO(DONE))                                                                                      \
    X(DONE, done, 0)
enum state {
#define X(name, word, next) STATE_##name,
    STATE_TABLE(X)
#undef X
        STATE_N
};
extern const char *const state_names[STATE_N];

enum walk { WALK_MORE, WALK_WAIT, WALK_DONE };

#define REQUEST_ID_MAX 40 /* "req_" and 32 hexadecimal digits */
#define REQUEST_ID_BYTES 16
#define REQUEST_ARENA_MAX (8 << 20) /* what one request may make of its body: against bodies of a million parts */
#define REQUEST_MESSAGE_MAX 640     /* bytes of the sentence in an error body: a provider's 512 and our own words */
#define FORWARDED_FIELDS_MAX 4      /* header fields that may pass to a provider */
#define REQUEST_LABELS_MAX 16       /* labels of a record */
#define END_USER_MAX 33             /* 32 hexadecimal digits of a keyed digest and a NUL */
#define REPLY_FIELDS_MAX 32         /* header fields of a reply */
#define CLIENT_WINDOW (32 * 1024)   /* unsent bytes above which nothing more is written to a client */

struct route;
struct shadow;
struct sketch;

/* A stream that is held in parts asks for more before it passes what is held (gateway/topup.c). */
enum topup {
    TOPUP_NONE,
    TOPUP_ASKED,  /* the ledger is asked for a part more */
    TOPUP_REST,   /* ... and, since that did not fit, for what does */
    TOPUP_WRITING /* the hold record is being written */
};

/* One try as it is remembered: how it went, when and at what cost. */
struct try_row {
    const struct choice *choice;          /* in the plan */
    enum reason down;                     /* why it was tried below a better rung; REASON_N: it was not */
    bool hedged;                          /* it was begun beside another */
    bool won;                             /* ... and one of the two was quicker: this one */
    enum outcome outcome;                 /* once it has ended */
    const char *why;                      /* static: why it ended */
    int status;                           /* HTTP, 0 if none came */
    int64_t began_us, first_us, ended_us; /* since the request began; first_us -1: no content */
    int64_t retry_after_us;               /* the provider's wish; 0: none */
    struct usage usage;
    struct price price;
};

struct request {
    struct gateway *gateway; /* not owned */
    enum state state;
    struct link in_state, in_ready;
    const char *doing; /* in words, for the log and /admin/requests; static */
    char id[REQUEST_ID_MAX];
    int64_t began_us; /* monotone */
    int64_t began_wall_us;
    int64_t state_us;        /* when it entered its state */
    bool asking;             /* a room that may wait was asked and has not answered: its op must stay */
    bool asked;              /* ... and has answered, in this state */
    struct exchange *client; /* lent by the front until exchange_close; NULL: gone */
    bool client_left;        /* it went before its answer was whole */
    bool cancelled;          /* an operator wants it to end */
    struct arena arena;      /* owned */

    /* HEAD */
    const struct route *route; /* NULL: no such path */
    enum dialect dialect;      /* of the reply, errors too */
    struct span rest;          /* of the path, behind the route: a model id */
    /* AUTH */
    struct conf *conf;          /* counted */
    const struct conf_key *key; /* in conf */
    /* BODY */
    struct str body;     /* owned */
    size_t body_counted; /* bytes of it in gateway->buffered_bytes */
    struct llm_call call;
    const struct conf_alias *alias;
    struct span captured;
    enum fallback fallback; /* x-tollgate-fallback */
    bool explain;           /* x-tollgate-explain: told what would happen; nothing goes upstream */
    char *idempotency;      /* owned; its place in gateway->idempotent */
    struct conf_label labels[REQUEST_LABELS_MAX];
    size_t n_labels;
    /* RATE .. HOLD */
    struct rate_op rate;
    struct plan plan;
    enum err unrouted; /* why there is no plan */
    int at;            /* the plan's choice that is being tried, last or by the try that won; -1: none yet */
    enum reason down;  /* why a better rung was passed over; REASON_N: it was not */
    struct cache_rule cache_rule;
    struct cache_op cache;
    const char *cache_word; /* "hit", "miss", "shared", "stale", "bypass" */
    int64_t cache_age_us;
    struct price price; /* of the choice that is being tried */
    struct bound bound; /* what is held for it: of a stream that is held in parts, so far */
    struct hold_op hold;
    int64_t held_us;      /* wall: when it was held */
    int clamp_at, clamps; /* the choice for which call.clamped_tok was found, and how often */
    enum topup topup;     /* of a stream that is held in parts */
    int64_t asked_tok;    /* output tokens, altogether, that it asks for */
    /* ADMIT */
    struct audit_op admitted;
    int64_t admitted_us; /* wall; 0: no admit record */
    /* SEND, STREAM */
    struct answer *answer; /* counted; shared with followers and the cache */
    struct answer_reader reader;
    struct attempt *attempt;          /* owned; NULL: none runs */
    struct attempt *hedge;            /* owned; a second one beside it, before content only; NULL: none */
    int n_tries;                      /* that were begun */
    struct try_row *last;             /* in tries: the one that ended last; NULL: none has */
    struct provider_error last_error; /* of the last try that failed */
    bool forwarded_read;
    struct http_field forwarded[FORWARDED_FIELDS_MAX]; /* of the caller's head, for providers; in the arena */
    size_t n_forwarded;
    struct span require;      /* x-tollgate-require, in the arena; empty: none */
    const char *query;        /* "?beta=true" without credentials; "" */
    int64_t deadline_us;      /* monotone; until the first content byte */
    int64_t not_before_us;    /* monotone; back-off before the next try */
    int64_t hedge_at_us;      /* monotone; when a second try begins beside the one that runs; INT64_MAX: none does */
    int hedge_from;           /* choices up to here are not looked at for it */
    bool hedging;             /* `at` is the choice of a second try that is being held for */
    struct writer *writer;    /* owned */
    struct str out;           /* owned: client bytes made and not yet given to the exchange */
    int64_t first_content_us; /* since the request began; -1: none */
    int64_t last_sent_us;     /* monotone: for heartbeats */
    int64_t relayed_bytes;    /* generated text given to the client */
    bool head_sent;           /* committed */
    struct usage relayed;     /* of the answer given, as far as its events said */
    bool whole;               /* the answer ended well */
    enum finish finish;
    /* REFUSE .. */
    enum err err;
    int status; /* what the client was told */
    char message[REQUEST_MESSAGE_MAX];
    char param[96], code[64]; /* empty: the table's */
    struct str details;       /* owned: JSON members of the error object */
    int64_t retry_after_us;   /* 0: none */
    bool no_retry;            /* x-should-retry: false */
    /* SETTLE .. */
    struct usage usage;
    int64_t cost_nanousd, saved_nanousd;
    bool estimated, overrun;
    struct audit_op settled;
    const char *content_type;    /* of a whole reply */
    const char *client_text;     /* the client's address, in the arena; kept for records after it left */
    const char *client_family;   /* static */
    char end_user[END_USER_MAX]; /* "": the call names none */
    bool end_user_sought;
    struct str upstream_id;            /* owned */
    struct hmac *answer_sum;           /* owned; of what the client was given; NULL: nothing yet, or not asked for */
    struct spoken *spoken;             /* owned; of a stream that is stored, what it said; NULL: nothing yet */
    struct audit_stored_at *stored_at; /* owned; where the bodies are; 0 bytes: nowhere; NULL: not looked at */
    struct shadow *shadow;             /* owned; of a copy of another request's call; NULL: a client's own */
    struct sketch *sketch;             /* owned; of what was said, where it will be compared; NULL: it will not */
    enum { SHADOW_UNDECIDED, SHADOW_CHOSEN, SHADOW_PASSED } shadow_choice; /* whether it is to be copied */
    char request_digest[SHA256_HEX_MAX], answer_digest[SHA256_HEX_MAX];    /* "": none */
    struct try_row tries[PLAN_MAX]; /* last: written as far as n_tries counts, and not touched beyond */
};

/* What of the head decides the answer, as "name: value", in the arena, for the cache key: header values and the query that
 * go to a provider, and the tags that a target must have. False when the arena is full. */
#define FORWARDED_LINES_MAX (FORWARDED_FIELDS_MAX + 2)
must_check bool attempt_forwarded(struct request *r, struct span out[FORWARDED_LINES_MAX], size_t *n);

struct request *request_new(struct gateway *g, struct exchange *client);
struct request *request_make(struct gateway *g, enum state begins); /* without a client */
void request_make_id(struct gateway *g, char id[REQUEST_ID_MAX]);   /* also for a head that never became a request */
void request_wake(struct request *r);
void request_run(struct request *r); /* until it waits or is done */
void request_free(struct request *r);
void request_go(struct request *r, enum state to); /* the one writer of r->state */
void request_check(const struct request *r);
/* Looks at the client: when it has left, the request goes on without it. True when it has. */
bool request_client_gone(struct request *r);

/* `return refuse(r, ERR_...)`: notes the failure and moves to REFUSE, or to SETTLE when content has been sent. */
enum walk refuse(struct request *r, enum err e);
enum walk go(struct request *r, enum state to); /* request_go, answering MORE */
/* For a door that may wait. A step asks once in its state: `if (request_asks(r)) request_answer(r, room_verb(...));
 * if (r->asking) return WALK_WAIT;` and then reads the op. */
bool request_asks(struct request *r);
void request_answer(struct request *r, enum progress p);
/* Takes what a look-up gave, at the very moment it gives it: until the request's next step its leader may end, or others
 * may look for the same. */
void request_looked_up(struct request *r);
/* Whether others read what this request writes: then a leader goes on without its client. */
bool request_has_readers(const struct request *r);
/* Ends it where it stands: with an error, or after content with an error event; billed and recorded like any other. Those
 * who read along with it go on. False: it is over already. */
bool request_cancel(struct request *r);
int64_t request_age_us(const struct request *r);
/* Where bodies and held answers are counted, and how many there may be: those of clients, or those of copies. */
struct buffers {
    int64_t *bytes, most;
};
struct buffers request_buffers(const struct request *r);
/* What all tries cost so far, rounded up once. */
int64_t request_spent_nanousd(const struct request *r);
/* A field of its client's head; none without a client. */
struct span request_field(const struct request *r, const char *name);
enum walk refuse_saying(struct request *r, enum err e, const char *format, ...) printf_like(3, 4);

/* The steps, one a state. */
#define X(name, word, next) enum walk step_##word(struct request *r);
STATE_TABLE(X)
#undef X

/* gateway/kept.c: answers that are given again. */
enum walk refuse_or_stale(struct request *r,
                          enum err e);    /* an expired answer, if there is one, instead of the failure */
bool kept_gives(const struct request *r); /* its answer is one that was kept, or another request's */
bool kept_is_stale(const struct request *r);
int64_t kept_saved_nanousd(const struct request *r); /* what it would have cost */
void kept_leave(struct request *r);                  /* whoever went away waits for no other process's leader */
void kept_let_go(struct request *r, enum err e);     /* it fails before content: its followers go by themselves */
void kept_end(struct request *r);                    /* RELEASE */
enum walk refuse_unrouted(struct request *r);        /* gateway/steps.c: in ROUTE's words */

/* gateway/steps.c: 429, in the words of the limit that said no. */
enum walk refuse_rate(struct request *r);
/* gateway/hold.c: what one more try, or a longer one, may cost after a refusal. */
int64_t hold_room_nanousd(const struct request *r);

/* gateway/reply.c: heads and error bodies. */
bool reply_is_stream(const struct request *r);                /* a good answer that leaves as events */
void reply_commit(struct request *r, int64_t content_length); /* sends the head of a good answer */
void reply_whole(struct request *r);                          /* head and r->out as the whole body */
void reply_error_body(struct request *r);                     /* r->err as a body in r->out, r->status set */
void reply_bad_head(struct gateway *g, struct exchange *x, enum err e, const char *what, struct str *body);

/* gateway/record.c: what the audit log is told. */
void record_of(struct request *r, struct audit_record *record); /* fills what every record of a request has */
uint64_t record_hold(struct request *r);                        /* its admit, or the hold record of a raise */
uint64_t record_settle(struct request *r);                      /* the one settle or refuse record: its seq */

/* gateway/content.c: what records say of bodies. */
void content_given(struct request *r, struct span bytes);   /* of the answer's body, to the client */
void content_saw(struct request *r, const struct event *e); /* of an answer to a stream */
void content_put(struct request *r, struct audit_record *record, bool ends);
void content_free(struct request *r);

/* gateway/stream.c: the relay from answer to client. */
enum walk relay_run(struct request *r);
void relay_heartbeat(struct request *r, int64_t now_us); /* from the tick */
void relay_fail(struct request *r);                      /* the head is out: the dialect's error event into r->out */

#endif
