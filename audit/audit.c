/* The room's door while a chain is open. Always true here: a record that was given a seq is in the chain and will be in
 * the file, in order; when the log cannot promise that it says 0 and counts, and the count is itself recorded when the
 * disk is back. */
#include "audit/chain.h"
#include "audit/line.h"
#include "gateway/base/clock.h"
#include <assert.h>

/* What ends something that the log already has, and what says how it went, is taken while there is any room. */
static bool finishes(const struct audit_record *r) {
    return r->kind == AUDIT_SETTLE || r->kind == AUDIT_NOTE || (r->kind == AUDIT_REFUSE && r->admitted_us);
}

static bool takes(const struct audit *a, const struct audit_record *r) {
    struct writer_marks marks;
    writer_marks(a->writer, &marks);
    size_t queued = marks.queued_bytes + a->batch.n;
    if (finishes(r))
        return queued < 2 * a->tuning.queue_max_bytes;
    return marks.healthy && queued < a->tuning.queue_max_bytes;
}

static void turn_away(struct audit *a, const struct audit_record *r, int64_t now_us) {
    if (a->away++ == 0)
        a->away_since_us = now_us;
    a->away_kind[r->kind]++;
}

/* What the record means for requests that are open and money that is spent. */
static void account(struct audit *a, const struct audit_record *r, int64_t now_us) {
    struct span request = span_of(r->request);
    if (r->kind == AUDIT_ADMIT)
        map_put(&a->open, request, (void *)(intptr_t)a->number);
    if (r->kind == AUDIT_SETTLE || r->kind == AUDIT_REFUSE)
        map_remove(&a->open, request);
    if (r->kind == AUDIT_SETTLE || r->kind == AUDIT_ADJUST)
        totals_add(&a->totals, span_of(r->team), span_of(r->key_id), r->admitted_us ? r->admitted_us : now_us,
                   r->cost_nanousd);
}

uint64_t audit_add(struct audit *a, const struct audit_record *r, int64_t now_us) {
    assert(r->kind != AUDIT_START && r->kind != AUDIT_STOP && r->kind != AUDIT_HEAD);
    if (!takes(a, r) || !str_reserve(&a->batch, LINE_USUAL_BYTES + r->members.n)) {
        turn_away(a, r, now_us);
        return 0;
    }
    chain_place(a, now_us);
    chain_price(a, r, now_us);
    if (r->kind == AUDIT_PRICE)
        return a->seq;
    uint64_t seq = chain_append(a, r, SPAN_NONE, now_us);
    account(a, r, now_us);
    if (chain_head_is_due(a, now_us))
        chain_head(a, false, now_us);
    if (a->batch.n >= CHAIN_BATCH_BYTES)
        audit_flush(a);
    return seq;
}

/* A disk that does not answer tells nobody anything: who waits for it is told by the turn. */
static void wake_stalled(struct audit *a) {
    if (a->waiting && !audit_healthy(a))
        chain_wake(a);
}

void audit_flush(struct audit *a) {
    wake_stalled(a);
    if (a->batch.n == 0)
        return;
    struct batch *b = xcalloc(1, sizeof *b);
    memcpy(b->segment, a->segment, sizeof b->segment);
    b->opens = a->opens;
    b->n = a->batch.n;
    b->bytes = str_release(&a->batch);
    b->last_seq = a->seq;
    a->opens = false;
    writer_put(a->writer, b);
}

bool audit_healthy(const struct audit *a) {
    struct writer_marks marks;
    writer_marks(a->writer, &marks);
    return marks.healthy;
}

int64_t audit_lag(const struct audit *a) {
    struct writer_marks marks;
    writer_marks(a->writer, &marks);
    return (int64_t)(a->seq - marks.written_seq);
}

void audit_head(const struct audit *a, uint64_t *seq, char hash[SHA256_HEX_MAX]) {
    *seq = a->seq;
    memcpy(hash, a->hash, sizeof a->hash);
}

bool audit_store(struct audit *a, const struct audit_content *c, struct audit_stored_at *place, int64_t now_us) {
    return a->vault && vault_put(a->vault, c, place, now_us);
}

bool audit_store_failed(struct audit *a, char request[AUDIT_REQUEST_MAX], char why[160]) {
    return a->vault && vault_failed(a->vault, request, why);
}

int64_t audit_shred(struct audit *a, const char *team, int64_t day, struct str *why) {
    return a->vault ? vault_shred(a->vault, team, day, why) : content_shred(a->directory, team, day, why);
}
