/* What comes back from the writer's thread: marks, health, and time. Always true here: a message is under way at most
 * once, and waiters are woken only from the loop, in the order of their records. */
#include "audit/chain.h"
#include "audit/line.h"
#include "gateway/base/clock.h"
#include "gateway/base/json.h"
#include <stdlib.h>

void chain_note_away(struct audit *a, int64_t now_us) {
    if (a->away == 0 || !str_reserve(&a->batch, LINE_USUAL_BYTES))
        return; /* later: what was turned away stays counted */
    struct str s;
    char since[CLOCK_TEXT_MAX];
    str_init(&s, 400);
    str_printf(&s, "not taken since %s:", clock_text(a->away_since_us, since));
    for (int k = 0; k < AUDIT_KINDS; k++)
        if (a->away_kind[k])
            str_printf(&s, " %lld %s", (long long)a->away_kind[k], audit_kind_names[k]);
    struct audit_record r = {.kind = AUDIT_NOTE, .what = "turned_away", .reason = s.at, .count = a->away};
    a->away = 0;
    memset(a->away_kind, 0, sizeof a->away_kind);
    chain_append(a, &r, SPAN_NONE, now_us);
    str_fini(&s);
}

static uint64_t durable_seq(const struct audit *a) {
    struct writer_marks marks;
    writer_marks(a->writer, &marks);
    return marks.durable_seq;
}

/* What is anchored can no longer be lost with the power, or a true log would look cut. */
void chain_anchor(struct audit *a) {
    if (!a->anchor_seq || !a->chores || durable_seq(a) < a->anchor_seq)
        return;
    a->anchor_seq = 0;
    if (a->n_anchors)
        chores_anchor(a->chores, str_span(&a->anchor), (const char *const *)a->anchors, a->n_anchors);
    if (a->on_anchor)
        a->on_anchor(span_from(a->anchor.at, a->anchor.n - 1), a->user);
}

static void note_removal(struct audit *a, int64_t now_us) {
    struct str extra;
    struct removal found;
    if (!audit_healthy(a) || a->removal_seq || !chores_take_removal(a->chores, &found) ||
        !str_reserve(&a->batch, LINE_USUAL_BYTES))
        return;
    struct audit_record r = {
        .kind = AUDIT_NOTE, .what = "removed", .reason = "older than audit.keep", .count = (int64_t)found.files};
    str_init(&extra, 512);
    json_put_i64(&extra, "removed_until_seq", (int64_t)found.until_seq);
    json_put_str(&extra, "removed_until_hash", found.until_hash);
    a->removal = found;
    a->removal_seq = chain_append(a, &r, str_span(&extra), now_us);
    str_fini(&extra);
}

static void see_chores(struct audit *a, int64_t now_us) {
    char *others;
    if (!a->chores)
        return;
    if (chores_take_heads(a->chores, &others)) {
        free(a->others);
        a->others = others;
    }
    if (a->removal_seq && durable_seq(a) >= a->removal_seq) {
        chores_remove(a->chores, a->removal.before);
        a->removal_seq = 0;
    }
    note_removal(a, now_us);
    chain_anchor(a);
}

static void on_moved(struct audit *a, int64_t now_us) {
    chain_wake(a);
    see_chores(a, now_us);
    if (audit_healthy(a))
        chain_note_away(a, now_us);
    if (audit_healthy(a) && chain_head_is_due(a, now_us) && str_reserve(&a->batch, LINE_USUAL_BYTES))
        chain_head(a, false, now_us);
    audit_flush(a);
}

static void run_moved(struct loop_job *job) {
    struct moved *m = (struct moved *)(void *)job;
    pthread_mutex_lock(&m->lock);
    int64_t now_us = m->now_us;
    m->posted = false;
    pthread_mutex_unlock(&m->lock);
    if (m->audit) {
        on_moved(m->audit, now_us);
        return;
    }
    pthread_mutex_destroy(&m->lock);
    free(m);
}

void chain_on_moved(void *audit) {
    struct audit *a = audit;
    struct moved *m = a->moved;
    pthread_mutex_lock(&m->lock);
    bool post = !m->posted;
    m->posted = true;
    m->now_us = clock_wall_us();
    pthread_mutex_unlock(&m->lock);
    if (post)
        loop_post(a->loop, &m->job);
}

void chain_moved_new(struct audit *a) {
    a->moved = xcalloc(1, sizeof *a->moved);
    a->moved->job.run = run_moved;
    a->moved->audit = a;
    pthread_mutex_init(&a->moved->lock, NULL);
}

/* After the thread has ended: nobody posts any more. */
void chain_moved_free(struct audit *a) {
    a->moved->audit = NULL;
    if (a->moved->posted)
        return; /* freed when the loop runs it */
    pthread_mutex_destroy(&a->moved->lock);
    free(a->moved);
}

static bool settled_by(struct audit_op *op, const struct writer_marks *marks) {
    bool written = op->seq && marks->written_seq >= op->seq;
    op->err = written ? ERR_NONE : ERR_AUDIT;
    return written || !op->seq || !marks->healthy;
}

enum progress audit_written(struct audit *a, struct audit_op *op) {
    struct writer_marks marks;
    writer_marks(a->writer, &marks);
    if (settled_by(op, &marks))
        return PROGRESS_DONE;
    op->next = NULL;
    *a->waiting_end = op;
    a->waiting_end = &op->next;
    return PROGRESS_WAIT;
}

void audit_forget(struct audit *a, struct audit_op *op) {
    for (struct audit_op **at = &a->waiting; *at; at = &(*at)->next) {
        if (*at != op)
            continue;
        *at = op->next;
        if (!*at)
            a->waiting_end = at;
        op->next = NULL;
        return;
    }
}

static struct audit_op *first_ready(struct audit *a, const struct writer_marks *marks) {
    for (struct audit_op *op = a->waiting; op; op = op->next)
        if (settled_by(op, marks))
            return op;
    return NULL;
}

/* A waiter that is woken may forget others or wait anew, so the list is read afresh after each. */
void chain_wake(struct audit *a) {
    struct writer_marks marks;
    writer_marks(a->writer, &marks);
    for (struct audit_op *op; (op = first_ready(a, &marks));) {
        audit_forget(a, op);
        op->waiter.wake(&op->waiter);
    }
}
