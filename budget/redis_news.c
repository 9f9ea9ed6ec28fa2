/* What somebody should hear of, with numbers of all processes. Always true here: a share that was passed and a first refusal
 * are told by one process, once a period and budget, because the mark of it stands in Redis. */
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
    if (answer_good(j->l, call, j->op, reply) && reply_i64(reply, 1) == 1)
        tell(j->l, j->carried[0], j->ends ? BUDGET_LIMIT : BUDGET_WARN, 0);
    job_end(j);
}

static void mark(struct redis_ledger *l, struct tally *t, bool limit, int64_t value) {
    struct words w;
    struct job *j = job_new(l, JOB_MARK, 1, on_marked);
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
    mark(l, t, false, passed);
}

void news_refused(struct redis_ledger *l, struct tally *t) {
    if (t->refused)
        return;
    t->refused = true;
    mark(l, t, true, 1);
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
