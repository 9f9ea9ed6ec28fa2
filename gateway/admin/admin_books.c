/* Corrections and closed months over the admin port: made on a thread from the log, written on the loop in slices. Always
 * true here: one such job at a time, so that what is written follows from the log it was made from; the ledger is told of
 * each correction at the moment its record is in the chain. */
#include "gateway/admin/admin_finance.h"

#include "gateway/gateway.h"
#include "gateway/keeper.h"

#include <event2/event.h>
#include <stdio.h>
#include <stdlib.h>

#define SLICE_US (5 * US_PER_MS)    /* between two slices that are written */
#define PATIENCE_US (15 * US_PER_S) /* a log that takes nothing for so long ends the job */
#define REASON_MAX 512

/* ---- writing ---- */

static void write_on(struct finance_job *j);

static void on_slice(evutil_socket_t fd, short what, void *arg) {
    (void)fd, (void)what;
    write_on(arg);
}

static void again(struct finance_job *j) {
    struct timeval wait = {0, SLICE_US};
    event_base_once(loop_base(j->call->gateway->loop), -1, EV_TIMEOUT, on_slice, j, &wait);
}

static void fail(struct finance_job *j, enum err e, const char *what) {
    j->good = false;
    j->refused = e;
    str_clear(&j->why);
    str_printf(&j->why, "%s %zu of %zu records were written; what is missing is written when this is done again.", what,
               j->result.adjusts.written, j->result.adjusts.n);
    finance_conclude(j);
}

static void on_adjust(const struct finance_record *one, void *user) {
    struct gateway *g = user;
    budget_replay(g->budget, g->conf, span_of(one->key_id), span_of(one->team), one->admitted_us, one->cost_nanousd);
}

static void on_written(struct waiter *w) {
    struct finance_job *j = container_of(container_of(w, struct audit_op, waiter), struct finance_job, written);
    if (j->written.err)
        fail(j, ERR_AUDIT, "The log could not be written.");
    else
        finance_conclude(j);
}

void finance_give_up(struct finance_job *j) {
    audit_forget(j->call->gateway->audit, &j->written);
    fail(j, ERR_BUSY, "The gateway stops.");
}

/* All are in the chain: the caller is told when they are in the file. */
static void await_file(struct finance_job *j) {
    char hash[SHA256_HEX_MAX], what[64];
    struct gateway *g = j->call->gateway;
    snprintf(what, sizeof(what), "%zu records", j->result.adjusts.n);
    admin_record(j->call, j->month && !j->ask.conf ? "month closed" : "repriced", j->reason, what);
    j->written = (struct audit_op){.waiter = {on_written}};
    audit_head(g->audit, &j->written.seq, hash);
    j->waiting = audit_written(g->audit, &j->written) == PROGRESS_WAIT;
    if (!j->waiting)
        on_written(&j->written.waiter);
}

static void write_on(struct finance_job *j) {
    static const char *const roles[] = {"operator", "finance", "auditor", "viewer", "metrics"};
    struct gateway *g = j->call->gateway;
    struct finance_act act = {j->call->who, roles[j->call->role], j->reason};
    size_t before = j->result.adjusts.written;
    if (atomic_load(&j->stop)) {
        fail(j, ERR_BUSY, "The gateway stops.");
        return;
    }
    if (finance_records_write(&j->result.adjusts, g->audit, &act, clock_wall_us(), on_adjust, g)) {
        await_file(j);
        return;
    }
    if (j->result.adjusts.written > before || !j->patience_us)
        j->patience_us = clock_mono_us() + PATIENCE_US;
    if (clock_mono_us() < j->patience_us)
        again(j);
    else
        fail(j, ERR_AUDIT, "The log takes no records.");
}

static void go_on(struct finance_job *j) {
    if (j->dry_run || j->result.adjusts.n == 0)
        finance_conclude(j);
    else
        write_on(j);
}

/* ---- the question ---- */

static char *word_of(struct json body, const char *name, size_t max) {
    struct arena arena;
    struct json v = json_get(body, name);
    arena_init(&arena, ADMIN_BODY_MAX);
    struct span text = v.kind == JSON_STRING ? json_text(v, &arena) : SPAN_NONE;
    char *word = text.n && text.n <= max && !memchr(text.at, 0, text.n) ? xstrndup(text.at, text.n) : NULL;
    arena_fini(&arena);
    return word;
}

static const struct zone *zone_of(struct json body) {
    char *name = word_of(body, "timezone", REASON_MAX);
    const struct zone *z = json_get(body, "timezone").kind == JSON_NONE ? zone_get("UTC")
                           : name                                       ? zone_get(name)
                                                                        : NULL;
    free(name);
    return z;
}

static void free_words(struct finance_job *j) {
    free(j->month);
    free(j->model);
    free(j->reason);
    reprice_fini(&j->result);
}

bool finance_writes(const struct gateway *g) {
    for (struct link *k = list_first(&g->finance_jobs); k; k = list_next(&g->finance_jobs, k))
        if (container_of(k, struct finance_job, link)->writes)
            return true;
    return false;
}

/* What both have: an object with a reason and a zone, and nobody else who corrects at this time. NULL: the caller is told. */
static struct finance_job *begin(struct admin_call *c, struct json *body, const struct zone **zone) {
    struct json_fault fault;
    if (!json_check(str_span(&c->body), JSON_DEPTH_MAX, body, &fault) || body->kind != JSON_OBJECT) {
        admin_say(c, ERR_INVALID, "The body is a JSON object.");
        return NULL;
    }
    *zone = zone_of(*body);
    if (!*zone) {
        admin_say(c, ERR_INVALID, "timezone: there is no such time zone.");
        return NULL;
    }
    if (finance_writes(c->gateway) || keeper_is_busy(c->gateway->keeper)) {
        admin_say(c, ERR_BUSY,
                  finance_writes(c->gateway) ? "Another correction is being made; come again when it is done."
                                             : "Months are being rolled up; come again in a while.");
        return NULL;
    }
    struct finance_job *j = finance_job_new(c);
    if (!j)
        return NULL;
    j->writes = true;
    j->go_on = go_on;
    j->month = word_of(*body, "month", 7);
    j->model = word_of(*body, "model", REASON_MAX);
    j->reason = word_of(*body, "reason", REASON_MAX);
    j->dry_run = json_get(*body, "dry_run").kind == JSON_TRUE;
    return j;
}

static void refuse_words(struct finance_job *j, const char *what) {
    admin_say(j->call, ERR_INVALID, what);
    free_words(j);
    finance_job_free(j);
}

/* ---- POST /admin/close ---- */

static void work_close(struct finance_job *j) {
    j->good = books_close(&j->books, &j->result.adjusts, &j->total, &j->why);
}

static void end_close(struct finance_job *j) {
    struct str *out = &j->call->out;
    if (j->good) {
        str_puts(out, "{");
        json_put_str(out, "closed", j->month);
        json_put_i64(out, "rollups", (int64_t)j->result.adjusts.n - 1);
        json_put_i64(out, "requests", j->total.at[SPEND_requests]);
        json_put_i64(out, "cost_nanousd", j->total.at[SPEND_cost_nanousd]);
        money_put(out, "cost_usd", j->total.at[SPEND_cost_nanousd]);
        str_puts(out, "}\n");
    }
    free_words(j);
}

void admin_post_close(struct admin_call *c) {
    struct json body;
    const struct zone *zone;
    struct finance_job *j = begin(c, &body, &zone);
    if (!j)
        return;
    if (!j->month || !j->reason) {
        refuse_words(j, "month (YYYY-MM) and reason are needed.");
        return;
    }
    j->books = (struct books_ask){
        .directory = j->directory, .month = j->month, .zone = zone, .now_us = clock_wall_us(), .stop = &j->stop};
    j->work = work_close;
    j->end = end_close;
    finance_job_start(j);
}

/* ---- POST /admin/reprice ---- */

static void work_reprice(struct finance_job *j) {
    j->good = reprice_run(&j->ask, &j->result, &j->why);
}

static void end_reprice(struct finance_job *j) {
    struct str *out = &j->call->out;
    if (j->good) {
        str_puts(out, "{");
        reprice_print(&j->result, out);
        json_put_bool(out, "dry_run", j->dry_run);
        str_puts(out, "}\n");
    }
    free_words(j);
}

static bool read_days(struct json body, const struct zone *zone, const char *month, struct reprice_ask *ask) {
    char *from = word_of(body, "from", 10), *to = word_of(body, "to", 10);
    bool good = month ? !from && !to && spend_month(zone, month, &ask->from_us, &ask->to_us)
                      : from && to && spend_day(zone, from, &ask->from_us) && spend_day(zone, to, &ask->to_us) &&
                            ask->from_us < ask->to_us;
    free(from);
    free(to);
    return good;
}

void admin_post_reprice(struct admin_call *c) {
    struct json body;
    const struct zone *zone;
    struct finance_job *j = begin(c, &body, &zone);
    if (!j)
        return;
    j->ask = (struct reprice_ask){.directory = j->directory,
                                  .conf = c->conf, /* counted by the call */
                                  .model = j->model,
                                  .now_us = clock_wall_us(),
                                  .zone = zone,
                                  .stop = &j->stop};
    if (!read_days(body, zone, j->month, &j->ask)) {
        refuse_words(j, "month (YYYY-MM), or from and to (YYYY-MM-DD, from before to), are needed.");
        return;
    }
    if (!j->reason && !j->dry_run) {
        refuse_words(j, "reason is needed: it stands in every record of the correction.");
        return;
    }
    j->work = work_reprice;
    j->end = end_reprice;
    finance_job_start(j);
}
