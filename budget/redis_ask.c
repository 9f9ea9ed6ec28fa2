/* Holds and raises that Redis is asked for, with the rates that a call owes. Always true here: whoever asks waits at most for
 * what is left of the request's time for Redis; whatever Redis did with a question that was not answered is taken back
 * under the same name; what this process knows by itself (the memory ledger) follows what Redis granted. */
#include "budget/redis_rates.h"
#include "budget/redis_script.h"

#include <stdlib.h>

static struct redis_script script = {.name = "hold", .text = lua_hold};

struct asked {              /* a hold or a raise under way */
    struct redis_call call; /* first member */
    struct redis_ledger *l;
    struct link in_asked;
    struct ledger_ask ask;
    struct hold_op *op;  /* the caller's */
    struct lease *lease; /* the caller's, of a raise; NULL: a hold */
    struct slice *slice; /* that is to grow for a raise in it; NULL: the call has a lease of its own */
    int64_t target;      /* what is then granted to it */
    struct instant sent;
    int64_t number, began_us;
    int tries;
    bool again;                  /* asked once more, without slices of ours */
    struct rate_question *rates; /* owned; NULL: none, or they are answered */
};

static void asked_free(struct asked *a) {
    list_remove(&a->l->asked, &a->in_asked);
    free(a->rates);
    free(a);
}

/* --- the question --- */

/* Whose calls in flight are limited to a share of a budget. */
static const char *sharer(const struct ledger_ask *ask, const struct ledger_scope *s) {
    bool shared = s->level != LEVEL_KEY && s->share_nanousd != CONF_UNLIMITED;
    return shared ? ask->owners[s->level - 1].name : "";
}

static void put_limit(struct words *w, int64_t nanousd) {
    if (nanousd == CONF_UNLIMITED)
        words_puts(w, "");
    else
        words_i64(w, nanousd);
}

static void put_scope(struct words *w, const struct ledger_ask *ask, const struct ledger_scope *s,
                      const struct tally *t) {
    words_puts(w, t->account);
    put_limit(w, s->limit_nanousd);
    put_limit(w, s->share_nanousd);
    words_puts(w, sharer(ask, s));
    words_puts(w, tally_keep_s(t));
}

/* The account of an ask's scope: where the call stands already, or that of now. */
static struct tally *account_of(struct redis_ledger *l, const struct ledger_ask *ask, int i) {
    const struct open_call *c = call_find(l, ask->request_id);
    const struct ledger_scope *s = &ask->scopes[i];
    struct tally *t = c ? call_place(c, s) : NULL;
    if (t)
        return t;
    return tally_get(l, l->own, s->name, s->period, s->zone, ask->now_us);
}

void question_put(struct words *w, struct redis_ledger *l, const struct ledger_ask *ask, const char *id, int64_t amount,
                  const char *mode, struct rate_question *rates) {
    words_puts(w, id);
    words_i64(w, amount);
    words_i64(w, LEASE_LIVES_US);
    words_puts(w, mode);
    words_puts(w, ask->free ? "1" : "0");
    words_i64(w, ask->n);
    for (int i = 0; i < ask->n; i++)
        put_scope(w, ask, &ask->scopes[i], account_of(l, ask, i));
    words_i64(w, LEDGER_OWNERS);
    for (int i = 0; i < LEDGER_OWNERS; i++)
        words_puts(w, ask->owners[i].name);
    words_puts(w, rates ? "rates" : "");
    if (rates)
        rate_question_put(rates, w);
}

static void put_question(struct words *w, struct asked *a) {
    const struct open_call *c = a->slice ? call_find(a->l, a->ask.request_id) : NULL;
    if (!c) {
        question_put(w, a->l, &a->ask, a->ask.request_id, a->ask.nanousd, a->lease ? "raise" : "hold", a->rates);
        return;
    }
    a->target = slice_ask_more(a->slice, a->ask.nanousd - c->nanousd);
    question_put(w, a->l, &a->ask, a->slice->call.request_id, a->target, "slice", NULL);
}

/* What the answer, NULL none, means for the slice that was asked for. */
static void slice_asked(struct asked *a, const struct redis_value *reply) {
    if (a->slice)
        slice_answered(a->l, a->slice, reply && reply_is(reply, "OK"), a->target, &a->sent);
}

static bool ask_redis(struct asked *a) {
    struct words w;
    int64_t left_us = a->l->timeout_us - a->op->waited_us;
    if (left_us <= 0)
        return false;
    a->call.until_us = a->began_us + left_us;
    words_begin(&w, a->l, a->ask.now_us);
    a->number = a->l->op;
    a->sent = (struct instant){a->ask.now_us, clock_mono_us()};
    put_question(&w, a);
    if (words_run(a->l, &w, &script, &a->call))
        return true;
    slice_asked(a, NULL);
    return false;
}

/* --- the answer --- */

/* A raise under a newer conf may speak of budgets that the call does not stand in. */
static bool stands_in(const struct open_call *c, const struct tally *t) {
    for (int i = 0; c && i < c->n; i++) {
        if (c->at[i] == t)
            return true;
    }
    return !c;
}

static void see_accounts(struct asked *a, const struct redis_value *reply, size_t at,
                         struct ledger_sums sums[LEASE_SCOPES_MAX]) {
    for (int i = 0; i < a->ask.n; i++) {
        const struct ledger_scope *scope = &a->ask.scopes[i];
        struct tally *t = account_of(a->l, &a->ask, i);
        reply_told(reply, at + TOLD_WORDS * (size_t)i, &t->said);
        t->seen = true;
        news_terms(t, scope, a->ask.owners[scope->level].name);
        sums[i] = sums_said(t);
        sums[i].stands = stands_in(call_find(a->l, a->ask.request_id), t);
    }
}

static void granted(struct asked *a, const struct redis_value *reply) {
    struct redis_ledger *l = a->l;
    struct ledger_sums sums[LEASE_SCOPES_MAX];
    if (!a->slice)
        a->ask.nanousd = reply_i64(reply, 1);
    memory_follow(l, &a->ask, a->op);
    struct open_call *c = call_find(l, a->ask.request_id);
    if (!c)
        c = call_new(l, &a->ask);
    c->leased = true;
    slice_moved(l, &a->ask);
    see_accounts(a, reply, 2, sums);
    ledger_tell(&a->ask, sums, a->op);
    for (int i = 0; i < a->ask.n; i++)
        news_passed(l, account_of(l, &a->ask, i));
}

static void refused(struct asked *a, const struct redis_value *reply) {
    struct ledger_sums sums[LEASE_SCOPES_MAX];
    int i = (int)reply_i64(reply, 1) - 1;
    int64_t need = reply_i64(reply, 3);
    bool share = span_is(reply_text(reply, 2), "share");
    a->op->err = ERR_LEDGER;
    if (i < 0 || i >= a->ask.n)
        return;
    see_accounts(a, reply, 4, sums);
    if (share)
        ledger_refuse(&a->ask, sums, i, need, ERR_HOLD_SHARE, a->op);
    else if ((i = ledger_judge(&a->ask, sums, need, a->op)) >= 0)
        news_refused(a->l, account_of(a->l, &a->ask, i));
    ledger_tell(&a->ask, sums, a->op);
}

/* Nobody knows whether it was done: what a hold may have set aside is given back, what a raise may have is in its lease. */
static void unanswered(struct asked *a) {
    struct redis_ledger *l = a->l;
    if (a->ask.owed && a->ask.owed->err != ERR_NONE)
        a->op->err = a->ask.owed->err;
    else if (a->lease)
        (void)down_raise(l, &a->ask, a->lease, a->op);
    else
        (void)down_hold(l, &a->ask, a->op);
    if (!a->lease)
        settle_nothing(l, a->ask.request_id);
}

static void answered(struct asked *a, const struct redis_value *reply) {
    if (reply_is(reply, "OK"))
        granted(a, reply);
    else if (reply_is(reply, "NO"))
        refused(a, reply);
    else if (reply_is(reply, "GONE") || reply_is(reply, "FULL"))
        a->op->err = ERR_LEDGER;
    else
        unanswered(a);
}

/* Before a call is refused, what is unused of this process's slices is given back, once. */
static bool ask_without_slices(struct asked *a) {
    if (a->again || !slices_give_back(a->l, &a->ask))
        return false;
    a->again = true;
    return ask_redis(a);
}

/* The rates that a hold owes are answered first, and once. True: they are asked again, without what we had of them. */
static bool rates_first(struct asked *a, const struct redis_value *reply) {
    const struct redis_value *rates = reply && reply->n > 0 ? &reply->items[reply->n - 1] : NULL;
    if (!a->rates)
        return false;
    if (rates && rate_question_again(a->rates, rates) && ask_redis(a))
        return true;
    rate_question_answered(a->rates, rates);
    free(a->rates);
    a->rates = NULL;
    return false;
}

static bool ask_anew(struct asked *a, bool done, const struct redis_value *reply) {
    if (!done)
        return a->call.fault == REDIS_OK && reply_is(reply, "STALE") && a->tries++ < STALE_TRIES && ask_redis(a);
    return rates_first(a, reply) || (reply_is(reply, "NO") && ask_without_slices(a));
}

static void end(struct asked *a, const struct redis_value *reply) {
    (void)rates_first(a, NULL); /* or they are answered */
    if (!reply)
        unanswered(a);
    else if (reply_is(reply, "LIMIT"))
        a->op->err = ERR_RATE;
    else
        answered(a, reply);
    if (a->lease && a->op->err == ERR_NONE)
        *a->lease = a->op->lease;
}

static void on_asked(struct redis_call *call, const struct redis_value *reply) {
    struct asked *a = (struct asked *)(void *)call;
    struct hold_op *op = a->op;
    int64_t now_us = clock_mono_us();
    op->waited_us += now_us - a->began_us;
    a->began_us = now_us;
    bool done = answer_good(a->l, call, a->number, reply);
    slice_asked(a, done ? reply : NULL);
    if (ask_anew(a, done, reply))
        return;
    end(a, done ? reply : NULL);
    asked_free(a);
    op->waiter.wake(&op->waiter);
}

static void owe(struct asked *a) {
    a->rates = xcalloc(1, sizeof *a->rates);
    a->ask.owed->err = ERR_NONE;
    rate_question_begin(a->rates, a->l->rates, &a->ask.rates, a->ask.owed);
}

bool ask_later(struct redis_ledger *l, const struct ledger_ask *ask, struct lease *lease, struct hold_op *op) {
    struct asked *a = xcalloc(1, sizeof *a);
    a->call.done = on_asked;
    a->l = l;
    a->ask = *ask;
    a->op = op;
    a->lease = lease;
    const struct open_call *c = call_find(l, ask->request_id);
    a->slice = c ? c->in : NULL;
    a->began_us = clock_mono_us();
    list_append(&l->asked, &a->in_asked);
    if (ask->owed)
        owe(a);
    l->counts.holds_asked++;
    l->counts.both_asked += a->rates != NULL;
    if (ask_redis(a))
        return true;
    if (a->rates)
        rate_question_undone(a->rates);
    asked_free(a);
    return false;
}

void asks_forget(struct redis_ledger *l) {
    for (struct link *k; (k = list_first(&l->asked));) {
        struct asked *a = container_of(k, struct asked, in_asked);
        redis_forget(l->redis, &a->call);
        asked_free(a);
    }
}
