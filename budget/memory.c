/* The ledger of one process: holds and what became of them. Always true here: what an account holds is the sum of the
 * open holds that stand in it; a hold stands at all its levels or at none; a call that has ended is in no map, so that
 * telling the ledger of it twice changes nothing. */
#include "budget/ledger.h"

#include <assert.h>
#include <stdlib.h>

#include "budget/book.h"
#include "budget/rate.h"

#define PLACES_MAX (LEASE_SCOPES_MAX + LEDGER_OWNERS * SPEND_PERIODS)

struct place { /* an account that a call will settle in */
    struct account *account;
    bool held; /* a budget: the hold stands here too */
};

struct holding { /* a call in flight */
    char request_id[REQUEST_ID_MAX];
    int64_t nanousd;
    bool shared; /* its owners' sums in flight count it */
    struct owner *owners[LEDGER_OWNERS];
    int n;
    struct place places[];
};

struct memory {
    struct books books;
    struct map open; /* struct holding by request id, owned */
    struct rates *rates;
    budget_watcher *see; /* NULL: nobody */
    void *user;
};

/* --- what a call would stand in --- */

struct standing {
    struct owner *owners[LEDGER_OWNERS];
    int n;
    struct place places[PLACES_MAX];
};

static bool stands_in(const struct standing *s, const struct account *a) {
    for (int i = 0; i < s->n; i++) {
        if (s->places[i].account == a)
            return true;
    }
    return false;
}

static void stand(struct standing *s, struct account *a, bool held) {
    if (stands_in(s, a))
        return;
    assert(s->n < PLACES_MAX);
    s->places[s->n++] = (struct place){a, held};
}

/* The budgets of the ask come first and in its order: place i is scope i. */
static void standing_of(struct memory *m, const struct ledger_ask *ask, struct standing *s) {
    s->n = 0;
    for (int i = 0; i < LEDGER_OWNERS; i++)
        s->owners[i] = owner_get(&m->books, &ask->owners[i], (enum budget_level)i);
    for (int i = 0; i < ask->n; i++) {
        const struct ledger_scope *scope = &ask->scopes[i];
        struct book *book = book_get(&m->books, s->owners[scope->level], scope->name, scope->period, scope->zone);
        stand(s, book_account(book, ask->now_us), true);
    }
    for (int i = 0; i < LEDGER_OWNERS; i++) {
        for (int p = 0; p < SPEND_PERIODS; p++)
            stand(s, book_account(s->owners[i]->spend[p], ask->now_us), false);
    }
}

/* --- news --- */

static struct ledger_sums sums_of(const struct account *a) {
    if (!a)
        return (struct ledger_sums){0};
    return (struct ledger_sums){.stands = true,
                                .settled_nanousd = a->settled_nanousd,
                                .held_nanousd = a->held_nanousd,
                                .overrun_nanousd = a->overrun_nanousd,
                                .from_us = a->from_us,
                                .to_us = a->to_us};
}

static void sums_fill(const struct ledger_ask *ask, struct account *const *accounts,
                      struct ledger_sums sums[LEASE_SCOPES_MAX]) {
    for (int i = 0; i < ask->n; i++)
        sums[i] = sums_of(accounts[i]);
}

static void tell(const struct memory *m, const struct account *a, enum budget_event event, int64_t over_nanousd) {
    struct ledger_sums sums = sums_of(a);
    struct budget_news news = ledger_news(&a->terms, a->book->owner, &sums, event);
    news.share = a->warned;
    news.over_nanousd = over_nanousd;
    if (m->see)
        m->see(&news, m->user);
}

static void tell_refused(const struct memory *m, struct account *a) {
    if (a->refused)
        return;
    a->refused = true;
    tell(m, a, BUDGET_LIMIT, 0);
}

/* A share that was passed is told once, however often the sum comes back to it. */
static void look_passed(const struct memory *m, struct account *a, bool quietly) {
    struct ledger_sums sums = sums_of(a);
    int64_t passed = a->terms.n_warn ? ledger_passed(&a->terms, &sums) : 0;
    if (passed <= a->warned)
        return;
    a->warned = passed;
    if (!quietly)
        tell(m, a, BUDGET_WARN, 0);
}

static void terms_keep_one(struct account *a, const struct ledger_scope *scope) {
    a->terms = *scope;
    a->terms.owner = NULL; /* of a conf that may go */
}

static void terms_keep(const struct ledger_ask *ask, struct account *const *accounts) {
    for (int i = 0; i < ask->n; i++) {
        if (accounts[i])
            terms_keep_one(accounts[i], &ask->scopes[i]);
    }
}

static void look_all(const struct memory *m, const struct ledger_ask *ask, struct account *const *accounts) {
    for (int i = 0; i < ask->n; i++) {
        if (accounts[i])
            look_passed(m, accounts[i], false);
    }
}

/* --- whether it fits --- */

/* Whose calls in flight are limited to a share of a budget: a key's in its team's, a team's in the organization's. */
static const struct owner *sharer(struct owner *const owners[LEDGER_OWNERS], enum budget_level level) {
    return level == LEVEL_KEY ? NULL : owners[level - 1];
}

/* A call alone in flight may hold a whole budget: a share must never make a large call impossible for ever. */
static bool share_left(struct owner *const owners[LEDGER_OWNERS], const struct ledger_scope *scope, int64_t need,
                       uint64_t own) {
    const struct owner *who = sharer(owners, scope->level);
    if (!who || scope->share_nanousd == CONF_UNLIMITED || need <= 0 || who->held_nanousd == own)
        return true;
    return who->held_nanousd + (uint64_t)need <= (uint64_t)scope->share_nanousd;
}

/* A budget that says no at any level comes before a share that does. */
static bool ask_fits(struct memory *m, const struct ledger_ask *ask, struct owner *const owners[LEDGER_OWNERS],
                     struct account *const *accounts, int64_t need, uint64_t own, struct hold_op *op) {
    struct ledger_sums sums[LEASE_SCOPES_MAX];
    sums_fill(ask, accounts, sums);
    int no = ledger_judge(ask, sums, need, op);
    if (no >= 0) {
        tell_refused(m, accounts[no]);
        return false;
    }
    for (int i = 0; i < ask->n; i++) {
        if (accounts[i] && !share_left(owners, &ask->scopes[i], need, own)) {
            ledger_refuse(ask, sums, i, need, ERR_HOLD_SHARE, op);
            return false;
        }
    }
    return true;
}

/* --- what is left --- */

static void remaining_tell(const struct ledger_ask *ask, struct account *const *accounts, struct hold_op *op) {
    struct ledger_sums sums[LEASE_SCOPES_MAX];
    sums_fill(ask, accounts, sums);
    ledger_tell(ask, sums, op);
}

static void lease_tell(const struct holding *h, struct lease *lease) {
    *lease = (struct lease){.nanousd = h->nanousd, .open = true};
    memcpy(lease->request_id, h->request_id, sizeof lease->request_id);
    for (int i = 0; i < h->n; i++) {
        const struct account *a = h->places[i].account;
        if (!h->places[i].held)
            continue;
        struct scope_ref *ref = &lease->scopes[lease->n++];
        memcpy(ref->name, a->book->name, sizeof ref->name);
        ref->level = a->book->level;
        ref->period_from_us = a->from_us;
        ref->period_to_us = a->to_us;
    }
}

/* Of whom it holds, only the level's own budget tells; that is what a share is measured against where there is one. */
void ledger_memory_stand(void *store, const struct ledger_ask *ask, int i, const struct ledger_sums *sums) {
    struct standing s;
    standing_of(store, ask, &s);
    struct account *a = s.places[i].account;
    struct owner *owner = s.owners[ask->scopes[i].level];
    a->settled_nanousd = sums->settled_nanousd;
    a->held_nanousd = sums->held_nanousd;
    a->overrun_nanousd = sums->overrun_nanousd;
    owner->held_nanousd = sums->held_nanousd > 0 ? (uint64_t)sums->held_nanousd : 0;
}

/* --- hold, raise, settle --- */

static void owners_count(struct holding *h, int64_t delta, int calls) {
    for (int i = 0; i < LEDGER_OWNERS; i++) {
        h->owners[i]->held_nanousd += h->shared ? (uint64_t)delta : 0;
        h->owners[i]->in_flight += calls;
    }
}

static void holding_grow(struct holding *h, int64_t delta) {
    for (int i = 0; i < h->n; i++) {
        if (h->places[i].held)
            h->places[i].account->held_nanousd += delta;
    }
    owners_count(h, delta, 0);
    h->nanousd += delta;
}

static struct holding *holding_open(struct memory *m, const struct ledger_ask *ask, const struct standing *s) {
    struct holding *h = xcalloc(1, sizeof *h + (size_t)s->n * sizeof h->places[0]);
    memcpy(h->request_id, ask->request_id, sizeof h->request_id);
    memcpy(h->owners, s->owners, sizeof h->owners);
    h->shared = ask->n > 0;
    h->n = s->n;
    for (int i = 0; i < s->n; i++) {
        h->places[i] = s->places[i];
        account_take(s->places[i].account);
        s->places[i].account->in_flight += s->places[i].held;
    }
    owners_count(h, 0, 1);
    if (h->shared)
        holding_grow(h, ask->nanousd);
    h->nanousd = ask->nanousd;
    map_put(&m->open, span_of(h->request_id), h);
    return h;
}

/* The accounts in which an open call stands, by the scopes of an ask; NULL where it does not. */
static void accounts_of(const struct holding *h, const struct ledger_ask *ask, struct account **out) {
    for (int i = 0; i < ask->n; i++) {
        out[i] = NULL;
        for (int j = 0; j < h->n; j++) {
            struct account *a = h->places[j].account;
            if (h->places[j].held && strcmp(a->book->name, ask->scopes[i].name) == 0)
                out[i] = a;
        }
    }
}

/* Conf may know a budget no more, so that no limit bounds what is held of it; the number itself still does. */
static bool can_grow(const struct holding *h, int64_t delta) {
    for (int i = 0; i < h->n; i++) {
        if (h->places[i].held && delta > account_room(h->places[i].account, INT64_MAX))
            return false;
    }
    return true;
}

static void raise_open(struct memory *m, struct holding *h, const struct ledger_ask *ask, struct hold_op *op) {
    struct account *accounts[LEASE_SCOPES_MAX];
    accounts_of(h, ask, accounts);
    terms_keep(ask, accounts);
    int64_t delta = ask->nanousd - h->nanousd;
    uint64_t own = h->shared ? (uint64_t)h->nanousd : 0;
    op->err = can_grow(h, delta) ? ERR_NONE : ERR_LEDGER;
    if (!op->err && (delta <= 0 || ask_fits(m, ask, h->owners, accounts, delta, own, op)))
        holding_grow(h, delta);
    look_all(m, ask, accounts);
    lease_tell(h, &op->lease);
    remaining_tell(ask, accounts, op);
}

/* A hold under the id of a call that is open is that call's hold, told again. */
static void hold_again(struct memory *m, struct holding *h, const struct ledger_ask *ask, struct hold_op *op) {
    struct ledger_ask most = *ask;
    if (most.nanousd < h->nanousd)
        most.nanousd = h->nanousd;
    raise_open(m, h, &most, op);
    op->lease.open = op->err == ERR_NONE;
}

static enum progress memory_hold(void *store, const struct ledger_ask *ask, struct hold_op *op) {
    struct memory *m = store;
    struct holding *open = map_find(&m->open, span_of(ask->request_id));
    if (open) {
        hold_again(m, open, ask, op);
        return PROGRESS_DONE;
    }
    struct standing s;
    struct account *accounts[LEASE_SCOPES_MAX];
    standing_of(m, ask, &s);
    for (int i = 0; i < ask->n; i++)
        accounts[i] = s.places[i].account;
    op->err = ERR_NONE;
    op->lease = (struct lease){0};
    terms_keep(ask, accounts);
    if (ask_fits(m, ask, s.owners, accounts, ask->nanousd, 0, op))
        lease_tell(holding_open(m, ask, &s), &op->lease);
    look_all(m, ask, accounts);
    remaining_tell(ask, accounts, op);
    return PROGRESS_DONE;
}

static enum progress memory_raise(void *store, const struct ledger_ask *ask, struct lease *lease, struct hold_op *op) {
    struct memory *m = store;
    struct holding *h = map_find(&m->open, span_of(lease->request_id));
    if (!h) { /* ended elsewhere: nothing may be spent on it */
        op->err = ERR_LEDGER;
        return PROGRESS_DONE;
    }
    raise_open(m, h, ask, op);
    if (op->err == ERR_NONE)
        *lease = op->lease;
    return PROGRESS_DONE;
}

/* Only what goes beyond its hold can pass a share that the hold did not. */
static void place_overrun(const struct memory *m, struct account *a, int64_t over) {
    if (over <= 0)
        return;
    if (__builtin_add_overflow(a->overrun_nanousd, over, &a->overrun_nanousd))
        a->overrun_nanousd = INT64_MAX;
    tell(m, a, BUDGET_OVERRUN, over);
    look_passed(m, a, false);
}

static void place_settle(const struct memory *m, const struct place *p, int64_t held, int64_t cost) {
    struct account *a = p->account;
    account_settle(a, cost);
    if (p->held) {
        a->held_nanousd -= held;
        a->in_flight--;
        assert(a->held_nanousd >= 0 && a->in_flight >= 0);
        place_overrun(m, a, cost - held);
    }
    account_drop(a);
}

static int64_t memory_settle(void *store, struct lease *lease, int64_t nanousd) {
    struct memory *m = store;
    struct holding *h = map_remove(&m->open, span_of(lease->request_id));
    lease->open = false;
    if (!h)
        return 0;
    owners_count(h, -h->nanousd, -1);
    for (int i = 0; i < h->n; i++)
        place_settle(m, &h->places[i], h->nanousd, nanousd);
    int64_t overrun = nanousd > h->nanousd ? nanousd - h->nanousd : 0;
    free(h);
    return overrun;
}

/* --- recovery and views --- */

/* A record of a period that has gone by is in no account any more; one of now, or of a newer period, counts. What had
 * been passed was told by the process that wrote the record. */
static void memory_replay(void *store, const struct ledger_ask *ask) {
    struct memory *m = store;
    struct standing s;
    standing_of(m, ask, &s);
    for (int i = 0; i < s.n; i++) {
        struct account *a = s.places[i].account;
        if (!account_holds(a, ask->now_us))
            continue;
        account_settle(a, ask->nanousd);
        if (i < ask->n)
            terms_keep_one(a, &ask->scopes[i]);
        look_passed(m, a, true);
    }
}

static void memory_watch(void *store, budget_watcher *see, void *user) {
    struct memory *m = store;
    m->see = see;
    m->user = user;
}

struct walk {
    void (*see)(const struct ledger_account *a, void *user);
    void *user;
};

static void account_tell(const struct account *a, const struct walk *w) {
    struct ledger_account told = {.owner = a->book->owner,
                                  .level = a->book->level,
                                  .period = a->book->period,
                                  .from_us = a->from_us,
                                  .to_us = a->to_us,
                                  .settled_nanousd = a->settled_nanousd,
                                  .held_nanousd = a->held_nanousd,
                                  .overrun_nanousd = a->overrun_nanousd,
                                  .in_flight = a->in_flight};
    memcpy(told.name, a->book->name, sizeof told.name);
    w->see(&told, w->user);
}

static void memory_each(void *store, int64_t now_us, void (*see)(const struct ledger_account *a, void *user),
                        void *user) {
    struct memory *m = store;
    struct walk w = {see, user};
    for (struct map_entry *e = map_next(&m->books.by_name, NULL); e; e = map_next(&m->books.by_name, e)) {
        struct book *book = e->value;
        if (book->now && (now_us < book->now->to_us || book->now->in_flight > 0))
            account_tell(book->now, &w);
        for (const struct account *a = book->old; a; a = a->older) {
            if (a->in_flight > 0)
                account_tell(a, &w);
        }
    }
}

static void memory_spend(void *store, const char *owner, int64_t now_us, struct spend_view *out) {
    struct memory *m = store;
    const struct owner *o = map_find(&m->books.owners, span_of(owner));
    int64_t *to[SPEND_PERIODS] = {&out->day_nanousd, &out->week_nanousd, &out->month_nanousd, &out->total_nanousd};
    *out = (struct spend_view){0};
    for (int i = 0; o && i < SPEND_PERIODS; i++) {
        const struct account *a = o->spend[i]->now;
        if (a && now_us < a->to_us)
            *to[i] = a->settled_nanousd;
    }
}

/* --- life --- */

void *ledger_memory_new(void) {
    struct memory *m = xcalloc(1, sizeof *m);
    books_init(&m->books);
    map_init(&m->open);
    m->rates = rates_new();
    return m;
}

static void memory_free(void *store) {
    struct memory *m = store;
    for (struct map_entry *e = map_next(&m->open, NULL); e; e = map_next(&m->open, e))
        free(e->value);
    map_fini(&m->open);
    books_fini(&m->books);
    rates_free(m->rates);
    free(m);
}

static enum progress memory_rate(void *store, const struct rate_ask *ask, struct rate_op *op) {
    rates_step(((struct memory *)store)->rates, ask, op);
    return PROGRESS_DONE;
}

static void memory_rate_end(void *store, struct rate_slip *slip, int64_t tokens_used, int64_t now_us) {
    rates_end(((struct memory *)store)->rates, slip, tokens_used, now_us);
}

const struct ledger_ops ledger_memory_ops = {.rate = memory_rate,
                                             .rate_end = memory_rate_end,
                                             .hold = memory_hold,
                                             .raise = memory_raise,
                                             .settle = memory_settle,
                                             .replay = memory_replay,
                                             .each = memory_each,
                                             .spend = memory_spend,
                                             .watch = memory_watch,
                                             .free = memory_free};
