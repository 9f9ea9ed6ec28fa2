/* Scripts that are under way for the ledger itself. Always true here: what a job carries is told when it is answered well,
 * and waits to be told again otherwise; nothing is freed while it is under way. */
#include "budget/redis_ledger.h"

#include <stdlib.h>

struct job *job_new(struct redis_ledger *l, enum job_kind kind, size_t most,
                    void (*done)(struct redis_call *call, const struct redis_value *reply)) {
    struct job *j = xcalloc(1, sizeof *j + most * sizeof(struct tally *));
    j->l = l;
    j->kind = kind;
    j->call.done = done;
    list_append(&l->under_way, &j->in_under_way);
    l->jobs[kind]++;
    return j;
}

void job_send(struct job *j, struct words *w, struct redis_script *script) {
    if (words_run(j->l, w, script, &j->call))
        return;
    j->call.fault = REDIS_DOWN;
    j->call.done(&j->call, NULL);
}

void job_end(struct job *j) {
    for (size_t i = 0; i < j->n; i++)
        j->carried[i]->refs--;
    list_remove(&j->l->under_way, &j->in_under_way);
    j->l->jobs[j->kind]--;
    free(j->rates);
    free(j);
}

void jobs_free(struct redis_ledger *l) {
    for (struct link *k; (k = list_first(&l->under_way));) {
        struct job *j = container_of(k, struct job, in_under_way);
        redis_forget(l->redis, &j->call);
        job_end(j);
    }
}

void put_dirty(struct job *j, struct log_of *log, size_t most, struct words *w) {
    size_t n = log->dirty.n < most ? log->dirty.n : most;
    j->log = log;
    words_i64(w, (int64_t)n);
    for (size_t i = 0; i < n; i++) {
        struct tally *t = container_of(list_shift(&log->dirty), struct tally, in_dirty);
        t->dirty = false;
        t->refs++;
        j->carried[j->n++] = t;
        words_puts(w, t->account);
        words_i64(w, t->settled);
        words_i64(w, t->overrun);
        words_i64(w, t->lowered);
        words_puts(w, tally_keep_s(t));
    }
}

void job_told(struct job *j, bool good, const struct redis_value *reply, size_t at) {
    for (size_t i = 0; i < j->n; i++) {
        struct tally *t = j->carried[i];
        if (!good)
            tally_dirty(t);
        else if (at)
            reply_told(reply, at + TOLD_WORDS * i, &t->said);
        t->seen = t->seen || (good && at);
    }
}

/* Whether Redis did what it was asked, by the first word of its answer. */
static bool was_done(const struct redis_value *reply) {
    static const char *const words[] = {"OK", "NO", "GONE", "FULL", "CLOSED", "LIVE", "LIMIT"};
    for (size_t i = 0; i < ARRAY_LEN(words); i++) {
        if (reply_is(reply, words[i]))
            return true;
    }
    return false;
}

static void complain(struct redis_ledger *l, const struct redis_value *reply) {
    uint64_t swallowed;
    if (log_gate_open(&l->bad_gate, l->now_us, &swallowed))
        log_error("the Redis ledger was refused: %.*s others=%llu", SPAN_ARG(reply->text),
                  (unsigned long long)swallowed);
}

bool answer_good(struct redis_ledger *l, struct redis_call *call, int64_t op, const struct redis_value *reply) {
    if (call->fault != REDIS_OK || !reply) {
        if (!redis_up(l->redis))
            sync_down(l);
        return false;
    }
    if (was_done(reply)) {
        l->op_answered = op > l->op_answered ? op : l->op_answered;
        return true;
    }
    if (reply->kind == REDIS_ERROR)
        complain(l, reply);
    if (reply_is(reply, "EPOCH"))
        sync_epoch(l);
    return false;
}
