/* One try on one lane: it writes a call, reads an answer, and ends once, with an outcome.
 *
 *     start -> early events -> first content: it wins -> it writes the request's answer -> end
 *                         '---> end: what it said is forgotten, and another try may follow
 *
 * A request has one try at a time, r->attempt, or, before content, a second one beside it, r->hedge. The first of them
 * that has content to give wins, at which the other is cancelled; when one of two ends, the other is r->attempt. What a
 * try says before it wins is its own, so nothing that lost was ever in an answer. */
#ifndef TOLLGATE_GATEWAY_ATTEMPT_H
#define TOLLGATE_GATEWAY_ATTEMPT_H

#include "gateway/request.h"

#define ERROR_BODY_MAX (64 * 1024)  /* bytes of a provider's error body that are read */
#define PLAIN_ANSWER_MAX (64 << 20) /* bytes of a plain answer: it is held whole, so that settle precedes it */
#define SIGN_MAX 4096               /* bytes of a credential header */

#define NO_SLOT_TEXT "Every target is at its limit of calls in flight."

enum form { FORM_UNKNOWN, FORM_FRAMES, FORM_PLAIN, FORM_ERROR };

struct attempt {
    struct request *of;  /* not owned */
    struct try_row *row; /* in of->tries: what will be remembered */
    struct price price;  /* of its choice, when it was held */
    struct bound bound;
    int64_t clamped_tok;    /* 0: asked for as the caller said */
    char target[160];       /* that answers: an adapter with its version */
    struct http_call *call; /* owned; NULL for an engine in this process */
    struct engine_run *run; /* owned; NULL for HTTP */
    struct reader *reader;  /* owned; NULL for an engine */
    struct frame_reader frames;
    struct str early;   /* owned: packed events, until it writes the answer */
    struct str plain;   /* owned: a plain answer or an error body */
    struct str parked;  /* owned: a packed event that is worth more than is held; nothing more is taken meanwhile */
    int64_t parked_tok; /* that event's output tokens at the most */
    int64_t worth_tok;  /* output tokens at the most of what it said */
    struct str sign;    /* owned; secret */
    enum form form;
    bool distant; /* `call` goes to the engine of worker 0 and gives packed events */
    bool beaten;  /* the other one won: it is we who do not wait for it */
    bool wins;    /* it has content to give: no other try runs any more */
    bool writes;  /* what it says is in the answer */
    bool again;   /* sent a second time, without asking for usage */
    bool unasked;
    int64_t retry_after_us;
    struct usage used; /* of an engine, so far */
    struct provider_error error;
};

/* Begins the try of r->plan.choices[r->at], for which routing_begin has said yes; beside r->attempt when that runs. False
 * when it cannot even begin: then it has ended, too. */
bool attempt_start(struct request *r);
/* Moves what has come into the answer, as far as there is room. Ends attempts whose sources have ended. */
void attempts_pump(struct request *r);
/* Ends all of them before their time: the client left, the deadline passed, the answer broke. */
void attempts_cancel(struct request *r, enum outcome outcome, const char *why);
/* The one place that decides: after the last running try failed before content, the state to go to. */
enum walk attempt_next_or_give_up(struct request *r);

/* A choice that could not even be tried (no slot, no money): goes on to the one that may follow it; false: there is none. */
must_check bool attempt_pass_over(struct request *r, enum outcome outcome);

/* gateway/hedge.c. A second try beside a slow one: true when it is time for it. */
must_check bool hedge_is_due(const struct request *r, int64_t now_us);
/* While a try runs without content: what a second one asks for next. */
enum walk hedge_step(struct request *r, int64_t now_us);
/* It could not be held for, or not be recorded: the first one goes on alone. */
enum walk hedge_refused(struct request *r);
int64_t hedge_time(const struct request *r, int64_t began_us); /* when a try that begins now is slow */

/* gateway/topup.c. Of a stream that is held in parts, an event that would pass what is held is parked; true: it is. */
must_check bool topup_park(struct attempt *a, const struct event *e);
/* Moves the hold on for what is parked. True: the attempt waits; false: it goes on, or has been cut. */
must_check bool topup_waits(struct request *r);
/* Ends the try and its answer as at a maximum of tokens. */
void attempt_cut(struct attempt *a, const char *why);
/* What came for an attempt before it was parked is taken now. */
void attempt_unpark(struct attempt *a);

/* How far the walk has come, for what may follow. */
struct walked attempt_walked(const struct request *r, enum outcome last);
/* For its parts: attempt.c begins, ends and decides; attempt_call.c and attempt_run.c open its source; source.c reads it. */
must_check bool attempt_open_call(struct attempt *a);
must_check bool attempt_open_run(struct attempt *a);
void attempt_pump_run(struct attempt *a);
bool attempt_has_room(const struct attempt *a); /* for another event */
/* One event of its source; false: the attempt has ended with it. */
must_check bool attempt_take_event(struct attempt *a, const struct event *e);
/* The provider refused what we, not the caller, put into the call: the same try once more, without. False: not so. */
must_check bool attempt_again_unasked(struct attempt *a);
/* The request is where this try is: its choice, price and bound, and the reason for which it came down. */
void attempt_stand(struct attempt *a);
/* The last choice that was begun: a second try may have gone beyond the first, which ended after it. */
int attempt_farthest(const struct request *r);
/* It has content to give: any other try ends, and the request stands where this one does. */
void attempt_win(struct attempt *a);
/* From now on it writes the answer; what it said before goes first. */
void attempt_write(struct attempt *a);
void attempt_succeed(struct attempt *a);
/* Before content what it said is forgotten; after it everybody sees the same error. */
void attempt_fail(struct attempt *a, enum outcome outcome, const char *why);
void attempt_cancel(struct attempt *a, enum outcome outcome, const char *why);

#endif
