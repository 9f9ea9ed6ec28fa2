/* The step HOLD: the first remaining choice whose bound fits at every level at once. What becomes of a call that does not
 * fit is decided here and nowhere else: each budget it does not fit has its word (at_limit), the strictest counts (refuse
 * before degrade before clamp), and then
 *
 *     any       another target of the same rung, when its bound fits
 *     any       a lower rung that lists `budget`, when its price is explicitly zero: it takes nothing from anybody
 *     degrade   a lower rung that lists `budget`, when its bound fits
 *     clamp     the same target with fewer output tokens, as many as fit and at least hold.floor, where a cut answer is
 *               still an answer; not below the rung's own targets
 *
 * and else 402. A bound that money does not limit (hold shares, a price that is unknown, a ledger that cannot promise)
 * has none of these ways. */
#include "gateway/alerts/watch.h"
#include "gateway/attempt.h"
#include "gateway/gateway.h"

#include <stdio.h>

#define CLAMPS_MAX 3 /* times a call is clamped anew for one target: others may take what was left meanwhile */

static enum walk refuse_budget(struct request *r) {
    const struct refusal *no = &r->hold.refusal;
    char limit[MONEY_TEXT_MAX], spent[MONEY_TEXT_MAX], held[MONEY_TEXT_MAX], needed[MONEY_TEXT_MAX],
        overrun[MONEY_TEXT_MAX], reset[CLOCK_TEXT_MAX];
    const char *contact = r->key->team->contact;
    bool resets = no->resets_us != INT64_MAX && no->resets_us > 0;
    r->no_retry = r->hold.err == ERR_BUDGET;
    r->retry_after_us =
        r->no_retry || r->hold.err == ERR_PRICE ? 0 : US_PER_S; /* a share or a ledger comes back soon */
    if (r->hold.err == ERR_PRICE && r->bound.why[0])
        return refuse_saying(r, ERR_PRICE, "A budget applies, and what this call can cost has no bound: %s.",
                             r->bound.why);
    if (r->hold.err != ERR_BUDGET && r->hold.err != ERR_HOLD_SHARE)
        return refuse(r, r->hold.err);
    str_putc(&r->details, ',');
    json_put_str(&r->details, "level", budget_level_names[no->level]);
    json_put_raw(&r->details, "limit", span_of(money_text(no->limit_nanousd, limit)));
    json_put_raw(&r->details, "spent", span_of(money_text(no->settled_nanousd, spent)));
    json_put_raw(&r->details, "held", span_of(money_text(no->held_nanousd, held)));
    json_put_raw(&r->details, "needed", span_of(money_text(no->needed_nanousd, needed)));
    if (no->overrun_nanousd)
        json_put_raw(&r->details, "overrun", span_of(money_text(no->overrun_nanousd, overrun)));
    json_put_str(&r->details, "period", period_names[no->period]);
    json_put_str(&r->details, "resets", resets ? clock_text(no->resets_us, reset) : NULL);
    json_put_str(&r->details, "contact", contact);
    return refuse_saying(
        r, r->hold.err,
        "%s The %s %s has %s USD a %s; %s USD are spent and %s USD are held; this call needs up to %s USD.%s%s%s%s",
        err_row(r->hold.err)->text, budget_level_names[no->level], no->scope, limit, period_names[no->period], spent,
        held, needed, resets ? " It resets at " : "", resets ? reset : "", contact ? " Contact: " : "",
        contact ? contact : "");
}

static enum progress ask_ledger(struct request *r, int64_t needed) {
    struct budget *b = r->gateway->budget;
    r->hold.waited_us += r->rate.waited_us; /* one patience with the ledger for the whole request */
    r->rate.waited_us = 0;
    if (r->hold.lease.open)
        return budget_raise(b, r->conf, r->key, &r->hold.lease, needed, clock_wall_us(), &r->hold);
    r->hold.rates = r->rate.owed ? &r->rate : NULL;
    return budget_hold(b, r->conf, r->key, r->id, &r->price, needed, r->held_us, &r->hold);
}

/* The call's size with what was clamped. */
static struct call_size size_of(const struct request *r) {
    struct call_size size = r->call.size;
    if (r->call.clamped_tok > 0)
        size.max_output_tok = r->call.clamped_tok;
    return size;
}

/* A provider's stream that shows all it charges for is held piece by piece; the gateway can end it at any event. */
static bool is_held_in_parts(const struct request *r) {
    return r->call.stream && r->price.visible_output;
}

/* All tries of a call are priced at the instant of its admit record, which is that of its hold. */
static int64_t priced_us(const struct request *r) {
    return r->admitted_us ? r->admitted_us : r->held_us;
}

static bool is_free(const struct request *r, const struct choice *c) {
    struct price p = conf_price(r->conf, c->backend, c->model, priced_us(r));
    return p.known && p.free;
}

/* What is held for a try that goes on beside this one. */
static int64_t beside_nanousd(const struct request *r) {
    return r->attempt ? r->attempt->bound.nanousd : 0;
}

static int64_t price_choice(struct request *r) {
    const struct choice *c = &r->plan.choices[r->at];
    int64_t needed;
    if (r->clamp_at != r->at) {
        r->call.clamped_tok = 0;
        r->clamps = 0;
        r->clamp_at = r->at;
    }
    struct call_size size = size_of(r);
    r->price = conf_price(r->conf, c->backend, c->model, priced_us(r));
    if (!r->price.known)
        watch_price_unknown(r);
    struct conf_model facts = conf_model_facts(r->conf, c->backend, c->model);
    budget_bound(r->conf, &r->price, &size, &facts, &r->bound);
    if (is_held_in_parts(r))
        budget_bound_part(r->conf, &r->price, &size, &r->bound);
    if (__builtin_add_overflow(r->bound.nanousd, request_spent_nanousd(r), &needed) ||
        __builtin_add_overflow(needed, beside_nanousd(r), &needed))
        return INT64_MAX;
    return needed;
}

/* What this try may cost at the most: the room that is left, and what the lease holds already and earlier tries left. */
int64_t hold_room_nanousd(const struct request *r) {
    int64_t room = r->hold.refusal.room_nanousd;
    int64_t held = r->hold.lease.open ? r->hold.lease.nanousd : 0;
    if (__builtin_add_overflow(room, held - request_spent_nanousd(r), &room))
        return INT64_MAX;
    return room;
}

/* Fewer output tokens, as many as fit. */
static bool clamp(struct request *r) {
    struct call_size size = size_of(r);
    int64_t choices = r->call.size.choices, all = budget_fit_tok(&r->price, &size, &r->bound, hold_room_nanousd(r));
    int64_t each = choices > 0 ? all / choices : 0;
    if (r->clamps == CLAMPS_MAX || each < r->conf->hold.floor_tok || !call_may_clamp(&r->call, each))
        return false;
    r->clamps++;
    r->call.clamped_tok = each;
    return true;
}

/* The next choice that the budgets' word lets this call try; the request stands where it stood when there is none. */
static bool pass_on(struct request *r, enum conf_at_limit word) {
    int at = r->at, rung = r->plan.choices[at].rung;
    enum reason down = r->down;
    while (attempt_pass_over(r, OUTCOME_OVER_BUDGET)) {
        const struct choice *c = &r->plan.choices[r->at];
        if (c->rung == rung || word == AT_LIMIT_DEGRADE || is_free(r, c))
            return true;
    }
    r->at = at;
    r->down = down;
    return false;
}

static bool goes_on(struct request *r) {
    enum conf_at_limit word = r->hold.refusal.at_limit;
    if (r->hold.err != ERR_BUDGET)
        return false;
    return (word == AT_LIMIT_CLAMP && clamp(r)) || pass_on(r, word);
}

enum walk step_hold(struct request *r) {
    r->doing = "setting its worst-case cost aside";
    if (request_asks(r)) {
        if (!r->hold.lease.open)
            r->held_us =
                clock_wall_us(); /* one instant for price, period and record: midnight falls into none of them */
        int64_t needed = price_choice(r);
        if (r->hold.lease.open && needed <= r->hold.lease.nanousd) {
            r->asking = false;
            return go(r, STATE_SEND);
        }
        request_answer(r, ask_ledger(r, needed));
    }
    if (r->asking)
        return WALK_WAIT;
    if (r->rate.err) /* they were owed */
        return refuse_rate(r);
    if (!r->hold.err)
        return go(r, STATE_ADMIT);
    if (r->hedging)
        return hedge_refused(r);
    if (!goes_on(r))
        return refuse_budget(r);
    r->asked = false;
    return WALK_MORE;
}
