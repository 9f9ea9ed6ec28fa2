/* What somebody should hear of, with numbers of all processes. Always true here: a share that was passed and a first refusal
 * are told by one process, once a period and budget, because the mark of it stands in Redis; a Redis that has lost its
 * marks is given them again before anything is held. */
#include "budget/redis_ledger.h"
#include "budget/redis_script.h"

static struct redis_script script = {.name = "mark", .text = lua_mark};

struct ledger_sums sums_said(const struct tally *t) {
    return (struct ledger_sums){.stands = t->seen,
                                .settled_nanousd = t->said.settled,
                                .held_nanousd = t->said.held,
                                .overrun_nanousd = t->said.overrun,
                                .from_us = t->from_us,
                                .to_us = t->to_us};
}

static void tell(const struct redis_ledger *l, const struct tally *t, enum budget_event event, int64_t over_nanousd) {
    struct ledger_sums sums = sums_said(t);
    struct budget_news news = ledger_news(&t->terms, t->owner, &sums, event);
    news.share = event == BUDGET_WARN ? t->warned : 0;
    news.over_nanousd = over_nanousd;
    if (l->see)
        l->see(&news, l->user);
}

static void on_marked(struct redis_call *call, const struct redis_value *reply) {
    struct job *j = (struct job *)(void *)call;
    struct tally *t = j->carried[0];
    if (!answer_good(j->l, call, j->op, reply))
        *(j->ends ? &t->refused_mark : &t->warned) = 0; /* the next one that sees it asks again */
    else if (reply_i64(reply, 1) == 1)
        tell(j->l, t, j->ends ? BUDGET_LIMIT : BUDGET_WARN, 0);
    job_end(j);
}

static void on_marked_again(struct redis_call *call, const struct redis_value *reply) {
    struct job *j = (struct job *)(void *)call;
    (void)answer_good(j->l, call, j->op, reply);
    job_end(j);
}

static void mark(struct redis_ledger *l, struct tally *t, bool limit, int64_t value,
                 void (*done)(struct redis_call *call, const struct redis_value *reply)) {
    struct words w;
    struct job *j = job_new(l, JOB_MARK, 1, done);
    j->ends = limit;
    j->carried[j->n++] = t;
    t->refs++;
    words_begin(&w, l, l->now_us);
    j->op = l->op;
    words_puts(&w, t->account);
    words_puts(&w, limit ? "r" : "w");
    words_i64(&w, value);
    job_send(j, &w, &script);
}

void news_terms(struct tally *t, const struct ledger_scope *scope, const char *owner) {
    t->terms = *scope;
    t->terms.owner = NULL; /* of a conf that may go */
    memcpy(t->owner, owner, strlen(owner) + 1);
}

void news_passed(struct redis_ledger *l, struct tally *t) {
    struct ledger_sums sums = sums_said(t);
    int64_t passed = t->terms.n_warn ? ledger_passed(&t->terms, &sums) : 0;
    if (passed <= t->warned)
        return;
    t->warned = passed;
    mark(l, t, false, passed, on_marked);
}

void news_refused(struct redis_ledger *l, struct tally *t) {
    if (t->refused_mark)
        return;
    t->refused_mark = 1;
    mark(l, t, true, 1, on_marked);
}

void news_mark_again(struct redis_ledger *l) {
    for (struct link *k = list_first(&l->tallies); k; k = list_next(&l->tallies, k)) {
        struct tally *t = container_of(k, struct tally, in_all);
        if (t->warned > 0)
            mark(l, t, false, t->warned, on_marked_again);
        if (t->refused_mark)
            mark(l, t, true, 1, on_marked_again);
    }
}

/* The memory ledger sees overruns of this process's calls; what it says of an account is one process's part. */
void news_of_memory(const struct budget_news *n, void *user) {
    const struct redis_ledger *l = user;
    struct budget_news all = *n;
    const struct tally *t = tally_said(l, n->name, n->period_from_us);
    if (t && t->owner[0]) {
        all.limit_nanousd = t->terms.limit_nanousd;
        all.settled_nanousd = t->said.settled;
        all.held_nanousd = t->said.held;
    }
    if (l->see)
        l->see(&all, l->user);
}

/* --- views --- */

struct view {
    const struct redis_ledger *l;
    void (*see)(const struct ledger_account *a, void *user);
    void *user;
};

static void see_shared(const struct ledger_account *a, void *user) {
    const struct view *v = user;
    struct ledger_account all = *a;
    struct tally *t = tally_said(v->l, a->name, a->from_us);
    if (t) {
        t->shown = true;
        all.settled_nanousd = t->said.settled;
        all.held_nanousd = t->said.held;
        all.overrun_nanousd = t->said.overrun;
        all.charged_nanousd = t->said.charged;
        all.in_flight = t->said.calls;
    }
    v->see(&all, v->user);
}

/* Budgets of which this process has held nothing yet, and others have. */
static void see_others(const struct tally *t, const struct view *v) {
    struct ledger_account a = {.owner = t->owner,
                               .level = t->terms.level,
                               .period = t->terms.period,
                               .from_us = t->from_us,
                               .to_us = t->to_us,
                               .settled_nanousd = t->said.settled,
                               .held_nanousd = t->said.held,
                               .overrun_nanousd = t->said.overrun,
                               .charged_nanousd = t->said.charged,
                               .in_flight = t->said.calls};
    memcpy(a.name, t->terms.name, sizeof a.name);
    v->see(&a, v->user);
}

void views_each(void *store, int64_t now_us, void (*see)(const struct ledger_account *a, void *user), void *user) {
    struct redis_ledger *l = store;
    struct view v = {l, see, user};
    ledger_memory_ops.each(l->memory, now_us, see_shared, &v);
    for (struct link *k = list_first(&l->tallies); k; k = list_next(&l->tallies, k)) {
        struct tally *t = container_of(k, struct tally, in_all);
        if (!t->shown && t->log->own && t->seen && t->owner[0] && now_us < t->to_us)
            see_others(t, &v);
        t->shown = false;
    }
}
