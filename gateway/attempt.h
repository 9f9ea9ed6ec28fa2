/* One try on one lane: it writes a call, reads an answer into r->answer, and ends once, with an outcome. */
#ifndef TOLLGATE_GATEWAY_ATTEMPT_H
#define TOLLGATE_GATEWAY_ATTEMPT_H

#include "gateway/request.h"

#define ERROR_BODY_MAX (64 * 1024)  /* bytes of a provider's error body that are read */
#define PLAIN_ANSWER_MAX (64 << 20) /* bytes of a plain answer: it is held whole, so that settle precedes it */

#define NO_SLOT_TEXT "Every target is at its limit of calls in flight."

enum form { FORM_UNKNOWN, FORM_FRAMES, FORM_PLAIN, FORM_ERROR };

struct attempt {
    struct http_call *call; /* owned; NULL for an engine in this process */
    struct engine_run *run; /* owned; NULL for HTTP */
    struct reader *reader;  /* owned */
    struct frame_reader frames;
    struct str plain;   /* owned: a plain answer or an error body */
    struct str parked;  /* owned: a packed event that is worth more than is held; nothing more is taken meanwhile */
    int64_t parked_tok; /* that event's output tokens at the most */
    int64_t worth_tok;  /* output tokens at the most of what was put into the answer */
    struct str sign;    /* owned; secret */
    enum form form;
    bool distant; /* `call` goes to the engine of worker 0 and gives packed events */
    bool again;   /* sent a second time, without asking for usage */
    int status;
    int64_t began_us, first_us; /* since the request began; first_us -1: no content yet */
    int64_t retry_after_us;
    struct provider_error error;
};

/* Begins the try of r->plan.choices[r->at], for which routing_begin has said yes. False when it cannot even begin: then it has ended, too. */
bool attempt_start(struct request *r);
/* Moves what has come into the answer, as far as there is room. Ends the attempt when its source has ended. */
void attempt_pump(struct request *r);
/* Ends it before its time: the client left, the deadline passed, the answer broke. */
void attempt_cancel(struct request *r, enum outcome outcome, const char *why);
/* The one place that decides: after a failed try before content, the state to go to. */
enum walk attempt_next_or_give_up(struct request *r);

/* A choice that could not even be tried (no slot, no money): goes on to the one that may follow it; false: there is none. */
must_check bool attempt_pass_over(struct request *r, enum outcome outcome);

/* gateway/topup.c. Of a stream that is held in parts, an event that would pass what is held is parked; true: it is. */
must_check bool topup_park(struct request *r, const struct event *e);
/* Moves the hold on for what is parked. True: the attempt waits; false: it goes on, or has been cut. */
must_check bool topup_waits(struct request *r);
/* Ends the try and its answer as at a maximum of tokens. */
void attempt_cut(struct request *r, const char *why);
/* What came for an attempt before it was parked is taken now. */
void attempt_unpark(struct request *r);

/* For the two halves: attempt.c begins, ends and decides; source.c reads what comes. */
/* The provider refused what we, not the caller, put into the call: the same try once more, without. False: not so. */
must_check bool attempt_again_unasked(struct request *r);
void attempt_succeed(struct request *r);
/* Before content the answer is begun anew by the next try; after it everybody sees the same error. */
void attempt_fail(struct request *r, enum outcome outcome, const char *why);
/* attempt_run.c: the engine inside, in this process or in worker 0. */
must_check bool attempt_open_run(struct request *r, struct attempt *a);
/* What an event of the engine means; false: the attempt has ended with it. */
bool attempt_take_event(struct request *r, const struct event *e); /* source.c */
void attempt_fail_run(struct request *r, const struct event *e);
void attempt_pump_run(struct request *r);
void attempt_pump_distant(struct request *r);
const struct choice *attempt_choice(const struct request *r);

#endif
