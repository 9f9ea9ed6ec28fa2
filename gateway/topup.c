/* Streams that are held in parts. Always true here: what was put into the answer is worth no more than what is held, since
 * a token is at least a byte of what is shown; the raise stands in the ledger, and its record in the log, before the
 * event that needs it goes on; while they are waited for nothing more is taken from the provider than that one event. */
#include "gateway/attempt.h"
#include "gateway/gateway.h"

#define EVENT_TOK 1 /* besides its text: an end of turn, a byte of a character that is not whole yet */
#define TOOL_TOK 64 /* wrapping of one tool call besides its name and arguments */

static bool is_in_parts(const struct request *r) {
    return r->call.stream && r->price.visible_output && r->bound.out_tok < r->bound.full_out_tok;
}

static int64_t worth_of(const struct event *e) {
    int64_t tok = e->text_bytes;
    if (e->bits & (EVENT_CONTENT | EVENT_FINISH))
        tok += EVENT_TOK;
    for (size_t i = 0; i < e->n_parts; i++)
        tok += e->parts[i].kind == PART_TOOL_OPEN ? TOOL_TOK + (int64_t)e->parts[i].name.n : 0;
    return tok;
}

/* What comes before content is not given to anybody yet. */
bool topup_park(struct attempt *a, const struct event *e) {
    const struct request *r = a->of;
    int64_t worth = worth_of(e);
    if (!a->wins || !is_in_parts(r) || a->worth_tok + worth <= r->bound.out_tok) {
        a->worth_tok += worth;
        return false;
    }
    event_pack(e, &a->parked);
    a->parked_tok = worth;
    return true;
}

/* Asks for output of `out_tok` tokens altogether. */
static void ask(struct request *r, enum topup as, int64_t out_tok) {
    struct bound b = r->bound;
    int64_t needed;
    budget_bound_move(&r->price, &r->call.size, out_tok, &b);
    if (__builtin_add_overflow(b.nanousd, request_spent_nanousd(r), &needed))
        needed = INT64_MAX;
    r->topup = as;
    r->asked_tok = b.out_tok;
    r->asking = true;
    request_answer(
        r, budget_raise(r->gateway->budget, r->conf, r->key, &r->hold.lease, needed, clock_wall_us(), &r->hold));
}

static int64_t least_tok(const struct request *r) {
    return r->attempt->worth_tok + r->attempt->parked_tok;
}

static void begin(struct request *r) {
    int64_t part = r->conf->hold.output_cap_tok, most = least_tok(r);
    if (__builtin_add_overflow(most, part, &most))
        most = INT64_MAX;
    ask(r, TOPUP_ASKED, most);
}

static void cut(struct request *r, const char *why) {
    r->topup = TOPUP_NONE;
    attempt_cut(r->attempt, why);
}

/* A whole part does not fit: what is left is used up before the stream ends. */
static void refused(struct request *r) {
    int64_t fits = budget_fit_tok(&r->price, &r->call.size, &r->bound, hold_room_nanousd(r));
    bool money = r->hold.err == ERR_BUDGET && r->hold.refusal.room_nanousd > 0;
    if (r->topup == TOPUP_ASKED && money && fits >= least_tok(r))
        ask(r, TOPUP_REST, fits);
    else
        cut(r, "its hold could not be raised");
}

static void write_it(struct request *r) {
    r->topup = TOPUP_WRITING;
    r->admitted.err = ERR_AUDIT;
    r->admitted.seq = record_hold(r);
    r->asking = r->admitted.seq != 0;
    if (r->asking)
        request_answer(r, audit_written(r->gateway->audit, &r->admitted));
}

static void written(struct request *r) {
    if (r->admitted.err && !r->conf->audit.when_full_serve) {
        cut(r, "its raised hold could not be recorded");
        return;
    }
    r->topup = TOPUP_NONE;
    budget_bound_move(&r->price, &r->call.size, r->asked_tok, &r->bound);
    attempt_unpark(r->attempt);
}

/* One step of it; false when nothing is to be done any more. */
static bool move_on(struct request *r) {
    if (!r->attempt || !r->attempt->parked.n)
        return false;
    if (r->topup == TOPUP_NONE)
        begin(r);
    else if (r->topup == TOPUP_WRITING)
        written(r);
    else if (r->hold.err)
        refused(r);
    else
        write_it(r);
    return true;
}

bool topup_waits(struct request *r) {
    while (!r->asking && move_on(r))
        ;
    return r->asking;
}
