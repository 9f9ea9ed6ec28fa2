/* Money leased in advance, so that a busy process need not ask Redis for every call. Always true here: what the calls of a
 * slice hold and have spent is at most what Redis surely granted to it; a slice is made smaller, or ended, only while no
 * question about it is under way; it is held from only while its lease lives for certain, and while its budgets stand
 * within the limits that this process has now. */
#include "budget/redis_rates.h"
#include "budget/redis_script.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>

__extension__ typedef __int128 wide;

#define SLICE_NAME_BOOT 16 /* of the boot's name, so that no earlier life's slice has this one's */

static struct redis_script script = {.name = "hold", .text = lua_hold};

static int64_t least(int64_t a, int64_t b) {
    return a < b ? a : b;
}

static int64_t in_use(const struct slice *s) {
    return s->spent + s->spending + s->used;
}

static int64_t unused(const struct slice *s) {
    return s->granted - in_use(s);
}

/* --- which one --- */

static struct slice *slice_at(struct link *k) {
    return container_of(k, struct slice, in_slices);
}

/* Whether it stands in all the budgets of an ask, and no others, as they are now. */
static bool covers(const struct slice *s, const struct ledger_ask *ask) {
    for (int i = 0; i < ask->n && s->call.n == ask->n; i++) {
        const struct tally *t = s->call.at[i];
        const char *name = ask->scopes[i].name;
        size_t n = strlen(name);
        if (strncmp(t->account, name, n) != 0 || t->account[n] != '/' || strchr(t->account + n + 1, '/') ||
            ask->now_us < t->from_us || ask->now_us >= t->to_us)
            return false;
    }
    return s->call.n == ask->n && strcmp(s->call.owners[LEVEL_TEAM], ask->owners[LEVEL_TEAM].name) == 0;
}

struct slice *slice_find(const struct redis_ledger *l, const struct ledger_ask *ask) {
    struct slice *s = map_find(&l->slice_of, span_of(ask->owners[LEVEL_KEY].name));
    return s && covers(s, ask) ? s : NULL;
}

static void retire(struct redis_ledger *l, struct slice *s) {
    map_remove(&l->slice_of, span_of(s->call.owners[LEVEL_KEY]));
    s->retired = true;
}

static struct slice *slice_new(struct redis_ledger *l, const struct ledger_ask *ask) {
    static uint64_t number;
    struct slice *s = xcalloc(1, sizeof *s);
    s->call.is_slice = s->call.leased = true;
    snprintf(s->call.request_id, sizeof s->call.request_id, "slice-%.*s-%" PRIu64, SLICE_NAME_BOOT, l->boot, ++number);
    call_stand(l, &s->call, ask);
    s->used_us = ask->now_us;
    map_put(&l->calls, span_of(s->call.request_id), &s->call);
    struct slice *before = map_put(&l->slice_of, span_of(ask->owners[LEVEL_KEY].name), s);
    if (before)
        before->retired = true;
    list_append(&l->slices, &s->in_slices);
    return s;
}

/* Its lease goes, and what its calls spent comes, in one batch. */
static void slice_end(struct redis_ledger *l, struct slice *s) {
    if (!s->retired)
        retire(l, s);
    list_remove(&l->slices, &s->in_slices);
    if (s->untold)
        list_remove(&l->untold, &s->in_untold);
    settle_enqueue(l, &s->call);
}

static bool can_end(const struct slice *s) {
    return s->n_calls == 0 && s->n_asked == 0;
}

static void end_unwanted(struct redis_ledger *l, struct slice *s) {
    if ((s->retired || l->resting) && can_end(s))
        slice_end(l, s);
}

/* --- holding from it --- */

bool instant_lives(const struct instant *since, int64_t now_us) {
    int64_t age_us = now_us - since->wall_us;
    return since->wall_us > 0 && age_us >= 0 && age_us < SLICE_LIVES_US &&
           clock_mono_us() - since->mono_us < SLICE_LIVES_US;
}

/* A limit that was lowered, or an overrun, closes a budget to slices as it does to Redis. */
static bool within_limits(const struct slice *s, const struct ledger_ask *ask) {
    for (int i = 0; i < ask->n && !ask->free; i++) {
        const struct tally *t = call_place(&s->call, &ask->scopes[i]);
        struct ledger_sums sums;
        if (!t || ask->scopes[i].limit_nanousd == CONF_UNLIMITED)
            continue;
        sums = sums_said(t);
        if (ledger_room(&sums, ask->scopes[i].limit_nanousd) < 0)
            return false;
    }
    return true;
}

static bool can_take(const struct redis_ledger *l, const struct slice *s, const struct ledger_ask *ask, int64_t more) {
    bool allowed = l->state == LEDGER_READY || l->when_down == WHEN_DOWN_LEASED;
    return allowed && !s->less && more <= unused(s) && instant_lives(&s->renewed, ask->now_us) && within_limits(s, ask);
}

static void tell(struct redis_ledger *l, const struct slice *s, const struct ledger_ask *ask, struct hold_op *op) {
    struct ledger_sums sums[LEASE_SCOPES_MAX] = {0};
    struct tally *at[LEASE_SCOPES_MAX];
    for (int i = 0; i < ask->n; i++) {
        const struct ledger_scope *scope = &ask->scopes[i];
        at[i] = call_place(&s->call, scope);
        if (!at[i])
            continue;
        if (at[i]->terms.limit_nanousd != scope->limit_nanousd)
            news_terms(at[i], scope, ask->owners[scope->level].name);
        sums[i] = sums_said(at[i]);
    }
    ledger_tell(ask, sums, op);
    for (int i = 0; i < ask->n; i++) {
        if (at[i])
            news_passed(l, at[i]);
    }
}

static void take(struct slice *s, struct open_call *c, const struct ledger_ask *ask) {
    s->used += ask->nanousd - c->nanousd;
    c->nanousd = ask->nanousd;
    s->used_us = ask->now_us;
}

bool slice_hold(struct redis_ledger *l, const struct ledger_ask *ask, struct hold_op *op) {
    struct slice *s = ask->slice > 0 && !call_find(l, ask->request_id) ? slice_find(l, ask) : NULL;
    if (!s || !can_take(l, s, ask, ask->nanousd))
        return false;
    memory_follow(l, ask, op);
    if (op->err != ERR_NONE)
        return true;
    struct open_call *c = call_new(l, ask);
    c->in = s;
    c->nanousd = 0;
    s->n_calls++;
    take(s, c, ask);
    tell(l, s, ask, op);
    return true;
}

bool slice_raise(struct redis_ledger *l, const struct ledger_ask *ask, struct hold_op *op) {
    struct open_call *c = call_find(l, ask->request_id);
    if (!c || !c->in || !can_take(l, c->in, ask, ask->nanousd - c->nanousd))
        return false;
    memory_follow(l, ask, op);
    if (op->err != ERR_NONE)
        return true;
    take(c->in, c, ask);
    tell(l, c->in, ask, op);
    return true;
}

void slice_moved(struct redis_ledger *l, const struct ledger_ask *ask) {
    struct open_call *c = call_find(l, ask->request_id);
    if (c && c->in)
        take(c->in, c, ask);
    else if (c)
        c->nanousd = ask->nanousd;
}

void slice_settle(struct redis_ledger *l, struct open_call *c, int64_t cost) {
    struct slice *s = c->in;
    int64_t over = cost > c->nanousd ? cost - c->nanousd : 0;
    for (int i = 0; i < c->n_spend; i++)
        tally_add(c->spend[i], cost, 0);
    s->used -= c->nanousd;
    s->spending += cost - over;
    s->n_calls--;
    call_add(&s->call, cost, over);
    slice_untold(l, s);
    if (over > 0)
        slices_close(l, &s->call);
    call_free(l, c);
    end_unwanted(l, s);
    if (over > 0)
        settle_send(l);
}

/* --- how large it is to be --- */

static bool stands_in(const struct slice *s, const struct tally *t) {
    for (int i = 0; i < s->call.n; i++) {
        if (s->call.at[i] == t)
            return true;
    }
    return false;
}

static int64_t unused_in(const struct redis_ledger *l, const struct tally *t) {
    int64_t sum = 0;
    for (struct link *k = list_first(&l->slices); k; k = list_next(&l->slices, k)) {
        if (stands_in(slice_at(k), t))
            sum += unused(slice_at(k));
    }
    return sum;
}

/* How much of one budget may lie unused in a slice, as far as this process knows; `s` NULL: in a new one. All slices of a
 * process together are within conf's share of the limit. */
static int64_t goal_in(const struct redis_ledger *l, const struct slice *s, const struct tally *t,
                       const struct ledger_scope *scope, int64_t share) {
    struct ledger_sums sums = sums_said(t);
    if (scope->limit_nanousd == CONF_UNLIMITED)
        return INT64_MAX;
    int64_t idle = unused_in(l, t), room = ledger_room(&sums, scope->limit_nanousd);
    if (!t->seen || room <= 0)
        return 0;
    int64_t most = (int64_t)((wide)scope->limit_nanousd * share / FACTOR_ONE);
    most = least(most, room / SLICE_OF_LEFT + idle / SLICE_OF_LEFT);
    if (scope->share_nanousd != CONF_UNLIMITED)
        most = least(most, scope->share_nanousd / SLICE_OF_SHARE);
    return most - (idle - (s ? unused(s) : 0));
}

/* Of no bounded budget there is nothing to lease. */
static int64_t goal_of(struct redis_ledger *l, const struct slice *s, const struct ledger_ask *ask) {
    int64_t goal = INT64_MAX;
    for (int i = 0; i < ask->n; i++) {
        const struct ledger_scope *scope = &ask->scopes[i];
        const struct tally *t =
            s ? s->call.at[i] : tally_get(l, l->own, scope->name, scope->period, scope->zone, ask->now_us);
        goal = least(goal, goal_in(l, s, t, scope, ask->slice));
    }
    return goal == INT64_MAX || goal < 0 ? 0 : goal;
}

static int64_t goal_now(const struct redis_ledger *l, const struct slice *s) {
    int64_t goal = INT64_MAX;
    for (int i = 0; i < s->call.n; i++)
        goal = least(goal, goal_in(l, s, s->call.at[i], &s->call.at[i]->terms, s->share));
    return goal < 0 ? 0 : goal;
}

/* --- growing --- */

int64_t slice_ask_more(struct slice *s, int64_t more) {
    int64_t base = s->n_asked > 0 && s->asked > s->granted ? s->asked : s->granted;
    if (__builtin_add_overflow(base, more, &s->asked))
        s->asked = INT64_MAX;
    s->n_asked++;
    return s->asked;
}

void slice_answered(struct redis_ledger *l, struct slice *s, bool granted, int64_t target, const struct instant *sent) {
    assert(s->n_asked > 0);
    s->n_asked--;
    if (!granted) {
        s->retry_us = l->now_us + SLICE_RETRY_US;
        return;
    }
    s->granted = target > s->granted ? target : s->granted;
    if (sent->wall_us > s->renewed.wall_us)
        s->renewed = *sent;
}

static void see_accounts(const struct slice *s, const struct redis_value *reply, size_t at) {
    for (int i = 0; i < s->call.n; i++) {
        reply_told(reply, at + TOLD_WORDS * (size_t)i, &s->call.at[i]->said);
        s->call.at[i]->seen = true;
    }
}

static void on_grown(struct redis_call *call, const struct redis_value *reply) {
    struct job *j = (struct job *)(void *)call;
    struct redis_ledger *l = j->l;
    struct slice *s = j->slice;
    bool good = answer_good(l, call, j->op, reply);
    if (j->rates)
        rate_question_answered(j->rates, good && reply->n > 0 ? &reply->items[reply->n - 1] : NULL);
    if (good && reply_is(reply, "OK"))
        see_accounts(s, reply, 2);
    else if (good && reply_is(reply, "NO"))
        see_accounts(s, reply, 4);
    slice_answered(l, s, good && reply_is(reply, "OK"), j->target, &j->sent);
    job_end(j);
    end_unwanted(l, s);
}

static void grow(struct redis_ledger *l, struct slice *s, const struct ledger_ask *ask, int64_t more) {
    struct words w;
    struct job *j = job_new(l, JOB_SLICE, 0, on_grown);
    for (int i = 0; i < ask->n; i++)
        news_terms(s->call.at[i], &ask->scopes[i], ask->owners[ask->scopes[i].level].name);
    j->slice = s;
    j->target = slice_ask_more(s, more);
    j->rates = rates_shared_want(l->rates, ask->owners[LEVEL_KEY].name);
    words_begin(&w, l, ask->now_us);
    j->op = l->op;
    j->sent = (struct instant){ask->now_us, clock_mono_us()};
    question_put(&w, l, ask, s->call.request_id, j->target, "slice", j->rates);
    job_send(j, &w, &script);
}

static bool is_enough(const struct slice *s) {
    return s && s->goal > 0 && unused(s) >= s->goal / 2;
}

void slice_want(struct redis_ledger *l, const struct ledger_ask *ask) {
    struct slice *s = slice_find(l, ask);
    if (ask->slice == 0 || ask->nanousd == 0 || l->resting || l->state != LEDGER_READY || is_enough(s))
        return;
    int64_t goal = goal_of(l, s, ask);
    if (goal / SLICE_CALLS < ask->nanousd || (!s && l->slices.n >= SLICES_MAX))
        return;
    if (!s)
        s = slice_new(l, ask);
    s->share = ask->slice;
    s->goal = goal;
    if (s->n_asked == 0 && !s->less && ask->now_us >= s->retry_us && goal > unused(s))
        grow(l, s, ask, goal - unused(s));
}

/* --- giving back --- */

static bool leave_unused(struct redis_ledger *l, struct slice *s, int64_t most) {
    s->less = s->n_asked > 0;
    if (s->less || unused(s) <= most)
        return false;
    s->granted = in_use(s) + most;
    slice_untold(l, s);
    return true;
}

bool slices_give_back(struct redis_ledger *l, const struct ledger_ask *ask) {
    struct slice *of[BATCH_SLICES];
    size_t n = 0;
    for (struct link *k = list_first(&l->slices); k && n < BATCH_SLICES; k = list_next(&l->slices, k)) {
        struct slice *s = slice_at(k);
        bool shared = false;
        for (int i = 0; i < ask->n && !shared; i++)
            shared = call_place(&s->call, &ask->scopes[i]) != NULL;
        if (shared && leave_unused(l, s, 0))
            of[n++] = s;
    }
    if (n > 0)
        settle_less(l, of, n);
    return n > 0;
}

void slices_close(struct redis_ledger *l, const struct open_call *c) {
    for (struct link *k = list_first(&l->slices); k; k = list_next(&l->slices, k)) {
        for (int i = 0; i < c->n; i++) {
            if (stands_in(slice_at(k), c->at[i]))
                (void)leave_unused(l, slice_at(k), 0);
        }
    }
}

void slice_leave(struct redis_ledger *l, struct open_call *c) {
    struct slice *s = c->in;
    s->used -= c->nanousd;
    s->n_calls--;
    c->in = NULL;
    c->leased = false;
    (void)leave_unused(l, s, 0);
}

static void tend(struct redis_ledger *l, struct slice *s) {
    bool idle = l->now_us - s->used_us >= SLICE_IDLE_US;
    if (idle || s->retired || l->resting || s->less) {
        (void)leave_unused(l, s, 0);
        if (!s->less && idle && can_end(s))
            slice_end(l, s);
        else
            end_unwanted(l, s);
        return;
    }
    s->goal = goal_now(l, s);
    if (s->n_asked == 0 && unused(s) > 2 * s->goal)
        (void)leave_unused(l, s, s->goal);
}

void slices_tick(struct redis_ledger *l) {
    for (struct link *k = list_first(&l->slices), *next; k; k = next) {
        struct slice *s = slice_at(k);
        next = list_next(&l->slices, k);
        tend(l, s);
    }
}

void slices_rest(struct redis_ledger *l) {
    l->resting = true;
    slices_tick(l);
}
