/* What Redis is told of slices: what their calls spent, what they are less now, that they live. Always true here: what a slice
 * spent is told in the batch that tells what is settled of it, or after it, never before; a slice stays on the list of those
 * to be told of until a batch that knew all of it was answered. */
#include "budget/redis_ledger.h"

int64_t slice_lease(const struct slice *s) {
    return s->granted - s->told;
}

void slice_untold(struct redis_ledger *l, struct slice *s) {
    s->again = true;
    if (!s->untold)
        list_append(&l->untold, &s->in_untold);
    s->untold = true;
}

static void book(struct slice *s) {
    call_book(&s->call);
    s->spent += s->spending;
    s->spending = 0;
}

/* Redis knows nothing of it: it is told what its calls hold, and what they spent before is told with what is settled. */
void slices_lost(struct redis_ledger *l) {
    for (struct link *k = list_first(&l->slices); k; k = list_next(&l->slices, k)) {
        struct slice *s = container_of(k, struct slice, in_slices);
        book(s);
        s->told = s->spent;
        s->granted = s->spent + s->used;
        s->renewed = (struct instant){0};
    }
}

void slices_book(struct redis_ledger *l) {
    size_t n = 0;
    for (struct link *k = list_first(&l->untold); k && n < BATCH_SLICES; k = list_next(&l->untold, k), n++) {
        struct slice *s = container_of(k, struct slice, in_untold);
        if (l->own->dirty.n + (size_t)s->call.n > BATCH_TALLIES)
            return;
        book(s);
    }
}

/* What it spent is told only where all that it is settled in is told by now, or in the same batch. */
static bool is_carried(const struct slice *s) {
    for (int i = 0; i < s->call.n; i++) {
        if (s->call.at[i]->dirty)
            return false;
    }
    return true;
}

void slices_put(struct redis_ledger *l, struct words *w) {
    struct slice *of[BATCH_SLICES];
    size_t n = 0;
    for (struct link *k = list_first(&l->untold); k && n < BATCH_SLICES; k = list_next(&l->untold, k)) {
        struct slice *s = container_of(k, struct slice, in_untold);
        if (is_carried(s))
            of[n++] = s;
    }
    words_i64(w, (int64_t)n);
    for (size_t i = 0; i < n; i++) {
        struct slice *s = of[i];
        s->again = false;
        s->batch_spent = s->spent;
        s->in_batch = true;
        words_puts(w, s->call.request_id);
        words_i64(w, s->spent);
        if (s->n_asked > 0)
            words_puts(w, "");
        else
            words_i64(w, s->granted);
    }
}

void slices_told(struct redis_ledger *l, bool good) {
    for (struct link *k = list_first(&l->untold), *next; k; k = next) {
        struct slice *s = container_of(k, struct slice, in_untold);
        next = list_next(&l->untold, k);
        if (!s->in_batch)
            continue;
        s->in_batch = false;
        s->told = good ? s->batch_spent : s->told;
        if (!good || s->again)
            continue;
        list_remove(&l->untold, k);
        s->untold = false;
    }
}

void slice_renewing(struct slice *s, const struct job *j) {
    s->renewing_op = j->op;
    s->renewing = j->sent;
}

void slices_renewed(struct redis_ledger *l, const struct job *j) {
    for (struct link *k = list_first(&l->slices); k; k = list_next(&l->slices, k)) {
        struct slice *s = container_of(k, struct slice, in_slices);
        if (s->renewing_op == j->op && s->call.leased && s->renewing.wall_us > s->renewed.wall_us)
            s->renewed = s->renewing;
    }
}
