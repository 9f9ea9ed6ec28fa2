/* The queue of settles. Always true here: one batch is under way at a time, and is the same until it is answered; a cost
 * counts in its tallies from the moment that the lease it replaces is in a batch, so that what a batch tells and what it
 * releases belong together. */
#include "budget/redis_ledger.h"
#include "budget/redis_script.h"

#include <stdlib.h>

static struct redis_script script = {.name = "settle", .text = lua_settle};

void call_book(struct open_call *c) {
    for (int i = 0; i < c->n; i++)
        tally_add(c->at[i], c->cost, c->overrun);
    c->cost = c->overrun = 0;
}

void settle_book_all(struct redis_ledger *l) {
    for (struct link *k = list_first(&l->queue); k; k = list_next(&l->queue, k))
        call_book(container_of(k, struct open_call, in_queue));
}

void settle_enqueue(struct redis_ledger *l, struct open_call *c) {
    c->state = CALL_ENDED;
    if (l->queue.n >= SETTLES_MAX) {
        call_book(c);
        call_free(l, c);
        return;
    }
    list_append(&l->queue, &c->in_queue);
    settle_send(l);
}

void settle_queue(struct redis_ledger *l, struct open_call *c, int64_t cost) {
    c->cost = cost;
    c->overrun = cost > c->nanousd ? cost - c->nanousd : 0;
    for (int i = 0; i < c->n_spend; i++)
        tally_add(c->spend[i], cost, 0);
    if (c->n == 0)
        call_free(l, c);
    else
        settle_enqueue(l, c);
}

void settle_nothing(struct redis_ledger *l, const char *request_id) {
    if (call_find(l, request_id))
        return;
    struct open_call *c = xcalloc(1, sizeof *c);
    memcpy(c->request_id, request_id, strlen(request_id) + 1);
    map_put(&l->calls, span_of(c->request_id), c);
    settle_enqueue(l, c);
}

/* --- slices --- */

static void on_less(struct redis_call *call, const struct redis_value *reply) {
    struct job *j = (struct job *)(void *)call;
    (void)answer_good(j->l, call, j->op, reply);
    job_end(j);
}

void settle_less(struct redis_ledger *l, struct slice *const *of, size_t n) {
    struct words w;
    struct job *j = job_new(l, JOB_SLICE, 0, on_less);
    words_begin(&w, l, l->now_us);
    j->op = l->op;
    words_puts(&w, "0");
    words_puts(&w, "0");
    words_i64(&w, (int64_t)n);
    for (size_t i = 0; i < n; i++) {
        words_puts(&w, of[i]->call.request_id);
        words_puts(&w, "0");
        words_i64(&w, of[i]->granted);
    }
    job_send(j, &w, &script);
}

/* --- batches --- */

/* How many calls go along with this batch: those that went with it before, and more. */
static size_t book_batch(struct redis_ledger *l) {
    size_t n = 0;
    for (struct link *k = list_first(&l->queue); k && n < BATCH_SETTLES; k = list_next(&l->queue, k), n++) {
        struct open_call *c = container_of(k, struct open_call, in_queue);
        if (c->state != CALL_SENT && l->own->dirty.n + (size_t)c->n > BATCH_TALLIES)
            break;
        if (c->state != CALL_SENT)
            call_book(c);
        c->state = CALL_SENT;
    }
    return n;
}

static void put_ids(struct redis_ledger *l, struct words *w, size_t n) {
    struct link *k = list_first(&l->queue);
    words_i64(w, (int64_t)n);
    for (size_t i = 0; i < n; i++, k = list_next(&l->queue, k))
        words_puts(w, container_of(k, struct open_call, in_queue)->request_id);
}

static void drop_sent(struct redis_ledger *l) {
    for (struct link *k; (k = list_first(&l->queue));) {
        struct open_call *c = container_of(k, struct open_call, in_queue);
        if (c->state != CALL_SENT)
            return;
        call_free(l, c);
    }
}

static void on_settled(struct redis_call *call, const struct redis_value *reply) {
    struct job *j = (struct job *)(void *)call;
    struct redis_ledger *l = j->l;
    bool good = answer_good(l, call, j->op, reply);
    job_told(j, good, reply, 1);
    job_end(j);
    slices_told(l, good);
    if (!good)
        return;
    drop_sent(l);
    if (l->queue.n > 0 || l->own->dirty.n > BATCH_TALLIES)
        settle_send(l);
}

static bool nothing_to_tell(const struct redis_ledger *l) {
    return l->queue.n == 0 && l->own->dirty.n == 0 && list_empty(&l->untold);
}

/* Calls that have leases of their own are told of at once, and whatever else there is at the next tick. */
void settle_send(struct redis_ledger *l) {
    struct words w;
    if (l->state != LEDGER_READY || l->jobs[JOB_SETTLE] || nothing_to_tell(l))
        return;
    struct job *j = job_new(l, JOB_SETTLE, 2 * BATCH_TALLIES, on_settled);
    words_begin(&w, l, l->now_us);
    j->op = l->op;
    put_ids(l, &w, book_batch(l));
    slices_book(l);
    put_dirty(j, l->own, 2 * BATCH_TALLIES, &w);
    slices_put(l, &w);
    job_send(j, &w, &script);
}
