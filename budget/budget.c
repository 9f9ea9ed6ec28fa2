/* The door: from a conf's words to asks that a ledger can answer. Always true here: a price that is not known is refused
 * wherever any limit on money applies; the rules that need no ledger (price, cost of one call) are decided before one is
 * asked; which ledger answers is not known here. */
#include "budget/calibrate.h"
#include "budget/redis_ledger.h"

#include <assert.h>
#include <stdlib.h>

#include "gateway/base/log.h"

__extension__ typedef __int128 wide;

struct budget {
    const struct ledger_ops *ops;
    void *store;                /* owned, through ops->free */
    struct log_gate crowd_gate; /* more budgets than a lease has room for */
    struct calibration learnt;
    struct map lifts; /* scope name -> struct lift, owned */
    budget_watcher *see;
    void *user;
};

struct lift { /* what stands on top of a conf's limit for a while */
    int64_t by_nanousd, until_us;
};

struct budget *budget_new(void) {
    struct budget *b = xcalloc(1, sizeof *b);
    b->ops = &ledger_memory_ops;
    b->store = ledger_memory_new();
    map_init(&b->lifts);
    calibration_init(&b->learnt);
    return b;
}

void budget_free(struct budget *b) {
    if (!b)
        return;
    b->ops->free(b->store);
    for (struct map_entry *e = map_next(&b->lifts, NULL); e; e = map_next(&b->lifts, e))
        free(e->value);
    map_fini(&b->lifts);
    calibration_fini(&b->learnt);
    free(b);
}

int64_t budget_expect_tok(const struct budget *b, const char *name, const struct call_size *size) {
    return budget_calibrated_tok(budget_in_expect_tok(size), calibration_ppm(&b->learnt, name));
}

int64_t budget_expect_out_tok(const struct budget *b, const char *name, const struct call_size *size) {
    int64_t each = calibration_out_tok(&b->learnt, name);
    if (size->max_output_tok >= 0 && size->max_output_tok < each)
        each = size->max_output_tok;
    return each * size->choices;
}

void budget_learn(struct budget *b, const char *name, const struct call_size *size, const struct usage *used) {
    calibration_learn(&b->learnt, name, size, used);
}

void *budget_set_store(struct budget *b, const struct ledger_ops *ops, void *store, const struct ledger_ops **old_ops) {
    void *old = b->store;
    *old_ops = b->ops;
    b->ops = ops;
    b->store = store;
    ops->watch(store, b->see, b->user);
    return old;
}

/* --- a ledger that processes share --- */

void budget_use_redis(struct budget *b, struct redis *r, const struct budget_redis *o) {
    assert(b->ops == &ledger_memory_ops);
    b->store = ledger_redis_new(r, o, b->store);
    b->ops = &ledger_redis_ops;
    if (b->see)
        b->ops->watch(b->store, b->see, b->user);
}

void budget_tick(struct budget *b, int64_t now_us) {
    if (b->ops->tick)
        b->ops->tick(b->store, now_us);
}

bool budget_ready(const struct budget *b) {
    return !b->ops->ready || b->ops->ready(b->store);
}

void budget_rest(struct budget *b) {
    if (b->ops->rest)
        b->ops->rest(b->store);
}

bool budget_settled(const struct budget *b) {
    return !b->ops->settled || b->ops->settled(b->store);
}

void budget_counts(const struct budget *b, struct budget_counts *out) {
    *out = (struct budget_counts){0};
    if (b->ops->counts)
        b->ops->counts(b->store, out);
}

void budget_replay_log(struct budget *b, const char *log) {
    if (b->ops->replay_log)
        b->ops->replay_log(b->store, log);
}

void budget_watch(struct budget *b, budget_watcher *see, void *user) {
    b->see = see;
    b->user = user;
    b->ops->watch(b->store, see, user);
}

/* --- limits raised at run time --- */

void budget_lift(struct budget *b, const char *name, int64_t by_nanousd, int64_t until_us) {
    struct lift *lift = map_find(&b->lifts, span_of(name));
    if (by_nanousd <= 0) {
        map_remove(&b->lifts, span_of(name));
        free(lift);
        return;
    }
    if (!lift) {
        lift = xcalloc(1, sizeof *lift);
        map_put(&b->lifts, span_of(name), lift);
    }
    *lift = (struct lift){by_nanousd, until_us};
}

static const struct lift *lift_of(const struct budget *b, const char *name, int64_t now_us) {
    const struct lift *lift = map_find(&b->lifts, span_of(name));
    return lift && now_us < lift->until_us ? lift : NULL;
}

/* A share grows as its limit does. */
static void scope_lift(const struct budget *b, struct ledger_scope *s, int64_t now_us) {
    const struct lift *lift = lift_of(b, s->name, now_us);
    if (!lift || s->limit_nanousd == CONF_UNLIMITED)
        return;
    int64_t limit = s->limit_nanousd;
    if (__builtin_add_overflow(limit, lift->by_nanousd, &s->limit_nanousd))
        s->limit_nanousd = INT64_MAX;
    if (s->share_nanousd != CONF_UNLIMITED && limit > 0)
        s->share_nanousd = (int64_t)((wide)s->share_nanousd * s->limit_nanousd / limit);
}

/* --- rates --- */

static struct rate_ask rate_ask_of(const struct conf *conf, const struct conf_key *key, int64_t tokens,
                                   int64_t now_us) {
    struct rate_ask ask = {.team = key->team->name,
                           .of_key = key->limits,
                           .of_team = key->team->limits,
                           .tokens = tokens > 0 ? tokens : 0,
                           .now_us = now_us,
                           .slice = conf->hold.slice};
    const char *account = conf_key_account(key);
    assert(strlen(account) < sizeof ask.key_id);
    memcpy(ask.key_id, account, strlen(account) + 1);
    return ask;
}

enum progress budget_rate(struct budget *b, const struct conf *conf, const struct conf_key *key, int64_t tokens,
                          int64_t now_us, struct rate_op *op) {
    struct rate_ask ask = rate_ask_of(conf, key, tokens, now_us);
    ask.may_owe = op->may_owe;
    op->owed = false;
    op->owed_tok = ask.tokens;
    return b->ops->rate(b->store, &ask, op);
}

void budget_rate_end(struct budget *b, struct rate_slip *slip, int64_t tokens_used, int64_t now_us) {
    b->ops->rate_end(b->store, slip, tokens_used, now_us);
}

/* --- holds --- */

static bool cost_is_limited(const struct ledger_ask *ask, const struct conf_key *key) {
    return ask->n > 0 || key->max_cost_per_call != CONF_UNLIMITED || key->team->max_cost_per_call != CONF_UNLIMITED;
}

/* What has no bound has no price that anyone could hold: that is a price not known, not a budget spent. */
static bool price_is_known(const struct price *price, int64_t nanousd) {
    return price->known && (nanousd < INT64_MAX || price->free);
}

static bool over_call_limit(enum budget_level level, const char *scope, int64_t limit, int64_t nanousd,
                            struct hold_op *op) {
    if (limit == CONF_UNLIMITED || nanousd <= limit)
        return false;
    op->err = ERR_BUDGET;
    op->refusal = (struct refusal){.level = level,
                                   .scope = scope,
                                   .period = PERIOD_TOTAL,
                                   .limit_nanousd = limit,
                                   .needed_nanousd = nanousd,
                                   .resets_us = INT64_MAX};
    return true;
}

static bool call_costs_too_much(const struct conf_key *key, int64_t nanousd, struct hold_op *op) {
    return over_call_limit(LEVEL_KEY, key->name, key->max_cost_per_call, nanousd, op) ||
           over_call_limit(LEVEL_TEAM, key->team->name, key->team->max_cost_per_call, nanousd, op);
}

/* Starts an answer that refuses nothing and lends nothing. The waiter is the caller's and stays. */
static void op_clear(struct hold_op *op) {
    op->err = ERR_NONE;
    op->refusal = (struct refusal){0};
    op->lease = (struct lease){0};
    op->remaining_key = op->remaining_team = op->remaining_organization = -1;
    memset(op->passed, 0, sizeof op->passed);
}

static bool ask_begin(struct budget *b, const struct conf *conf, const struct conf_key *key, const char *request_id,
                      int64_t now_us, struct ledger_ask *ask) {
    uint64_t swallowed;
    size_t n = strlen(request_id);
    assert(n > 0 && n < sizeof ask->request_id);
    memcpy(ask->request_id, request_id, n + 1);
    ask->now_us = now_us;
    ask->slice = conf->hold.slice;
    ask->owed = NULL;
    if (ledger_ask_of(conf, key, ask)) {
        for (int i = 0; i < ask->n; i++)
            scope_lift(b, &ask->scopes[i], now_us);
        return true;
    }
    if (log_gate_open(&b->crowd_gate, now_us, &swallowed))
        log_error("more budgets apply to a call than can be held at once key=%s most=%d", key->id, LEASE_SCOPES_MAX);
    return false;
}

/* What the rules without a ledger say; true: they refuse. */
static bool refused_here(const struct ledger_ask *ask, const struct conf_key *key, bool known, struct hold_op *op) {
    if (!known && cost_is_limited(ask, key)) {
        op->err = ERR_PRICE;
        return true;
    }
    return call_costs_too_much(key, ask->nanousd, op);
}

enum progress budget_hold(struct budget *b, const struct conf *conf, const struct conf_key *key, const char *request_id,
                          const struct price *price, int64_t nanousd, int64_t now_us, struct hold_op *op) {
    struct ledger_ask ask;
    assert(nanousd >= 0);
    op_clear(op);
    bool known = price_is_known(price, nanousd), fits = ask_begin(b, conf, key, request_id, now_us, &ask);
    ask.free = price->known && price->free;
    ask.nanousd = ask.free || !known ? 0 : nanousd;
    if (op->rates) {
        ask.owed = op->rates;
        ask.owed->owed = false;
        ask.rates = rate_ask_of(conf, key, ask.owed->owed_tok, now_us);
    }
    if (!fits)
        op->err = ERR_LEDGER;
    else if (!refused_here(&ask, key, known, op))
        return b->ops->hold(b->store, &ask, op);
    return ask.owed ? b->ops->rate(b->store, &ask.rates, ask.owed) : PROGRESS_DONE;
}

enum progress budget_raise(struct budget *b, const struct conf *conf, const struct conf_key *key, struct lease *lease,
                           int64_t nanousd, int64_t now_us, struct hold_op *op) {
    struct ledger_ask ask;
    assert(nanousd >= 0 && lease->open);
    struct lease held = *lease; /* the op's own lease may be the one that is raised */
    op_clear(op);
    *lease = held;
    if (!ask_begin(b, conf, key, held.request_id, now_us, &ask)) {
        op->err = ERR_LEDGER;
        return PROGRESS_DONE;
    }
    ask.free = false;
    ask.nanousd = nanousd == INT64_MAX ? held.nanousd : nanousd;
    if (nanousd == INT64_MAX && cost_is_limited(&ask, key)) {
        op->err = ERR_PRICE;
        return PROGRESS_DONE;
    }
    if (call_costs_too_much(key, nanousd, op))
        return PROGRESS_DONE;
    return b->ops->raise(b->store, &ask, lease, op);
}

int64_t budget_settle(struct budget *b, struct lease *lease, int64_t nanousd) {
    assert(nanousd >= 0);
    return lease->open ? b->ops->settle(b->store, lease, nanousd) : 0;
}

/* --- recovery and spend --- */

void budget_replay(struct budget *b, const struct conf *conf, struct span key_id, struct span team, int64_t admitted_us,
                   int64_t nanousd) {
    struct ledger_ask ask = {.nanousd = nanousd, .now_us = admitted_us};
    if (nanousd == 0)
        return;
    if (!ledger_ask_of_names(conf, key_id, team, &ask))
        log_error("more budgets apply to a recorded call than can be held at once most=%d", LEASE_SCOPES_MAX);
    b->ops->replay(b->store, &ask);
}

void budget_spend(const struct budget *b, struct span key_id, struct span team, int64_t now_us, struct spend_view *key,
                  struct spend_view *of_team) {
    char owner[OWNER_NAME_MAX];
    ledger_owner_name(LEVEL_KEY, key_id, owner);
    b->ops->spend(b->store, owner, now_us, key);
    ledger_owner_name(LEVEL_TEAM, team, owner);
    b->ops->spend(b->store, owner, now_us, of_team);
}

/* --- every budget --- */

struct listed { /* a budget of the conf */
    struct ledger_scope scope;
    bool seen; /* the ledger has its current account */
};

struct listing {
    const struct budget *budget;
    struct map by_name; /* struct listed, owned */
    int64_t now_us;
    void (*see)(const struct budget_view *v, void *user);
    void *user;
};

static void list_scope(const struct ledger_scope *s, void *user) {
    struct listing *l = user;
    struct listed *one = xcalloc(1, sizeof *one);
    one->scope = *s;
    scope_lift(l->budget, &one->scope, l->now_us);
    map_put(&l->by_name, span_of(s->name), one);
}

static void view_lift(const struct listing *l, struct budget_view *v) {
    const struct lift *lift = lift_of(l->budget, v->name, l->now_us);
    if (lift && v->limit_nanousd != CONF_UNLIMITED) {
        v->lifted_nanousd = lift->by_nanousd;
        v->lifted_until_us = lift->until_us;
    }
}

static void see_account(const struct ledger_account *a, void *user) {
    struct listing *l = user;
    struct listed *one = map_find(&l->by_name, span_of(a->name));
    if (!one && a->in_flight == 0)
        return;
    if (one && l->now_us < a->to_us)
        one->seen = true;
    const char *slash = strchr(a->owner, '/');
    struct budget_view v = {.name = a->name,
                            .scope = slash ? slash + 1 : a->owner,
                            .level = a->level,
                            .period = a->period,
                            .limit_nanousd = one ? one->scope.limit_nanousd : CONF_UNLIMITED,
                            .settled_nanousd = a->settled_nanousd,
                            .held_nanousd = a->held_nanousd,
                            .overrun_nanousd = a->overrun_nanousd,
                            .charged_nanousd = a->charged_nanousd,
                            .period_from_us = a->from_us,
                            .period_to_us = a->to_us,
                            .in_flight = a->in_flight};
    if (one)
        v.scope = one->scope.owner;
    view_lift(l, &v);
    l->see(&v, l->user);
}

/* A budget that nothing was asked of in this period. */
static void see_unused(const struct listed *one, const struct listing *l) {
    struct budget_view v = {.name = one->scope.name,
                            .scope = one->scope.owner,
                            .level = one->scope.level,
                            .period = one->scope.period,
                            .limit_nanousd = one->scope.limit_nanousd};
    zone_period(one->scope.zone, v.period, l->now_us, &v.period_from_us, &v.period_to_us);
    view_lift(l, &v);
    l->see(&v, l->user);
}

void budget_each(struct budget *b, const struct conf *conf, int64_t now_us,
                 void (*see)(const struct budget_view *v, void *user), void *user) {
    struct listing l = {.budget = b, .now_us = now_us, .see = see, .user = user};
    map_init(&l.by_name);
    ledger_scopes_each(conf, list_scope, &l);
    b->ops->each(b->store, now_us, see_account, &l);
    for (struct map_entry *e = map_next(&l.by_name, NULL); e; e = map_next(&l.by_name, e)) {
        struct listed *one = e->value;
        if (!one->seen)
            see_unused(one, &l);
        free(one);
    }
    map_fini(&l.by_name);
}
