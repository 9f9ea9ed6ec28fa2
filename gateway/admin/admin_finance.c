/* What the admin port does with the whole log: reports, each on a thread of its own, so that the loop never waits for a log
 * of any length. Always true here: at most JOBS_MAX threads; a job touches nothing of the house while it runs, and its
 * caller is answered on the loop, once. */
#include "gateway/admin/admin_finance.h"

#include "gateway/gateway.h"

#include <event2/event.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#define JOBS_MAX 2                          /* a third caller is told to come again */
#define WORDS_MAX 4096                      /* bytes of a query */
#define ANSWER_MAX_BYTES ((size_t)64 << 20) /* of a report over the admin port; the command line has no such limit */

/* ---- jobs ---- */

void finance_job_free(struct finance_job *j) {
    str_fini(&j->out);
    str_fini(&j->head);
    str_fini(&j->why);
    free(j->directory);
    free(j);
}

void finance_conclude(struct finance_job *j) {
    struct admin_call *c = j->call;
    list_remove(&c->gateway->finance_jobs, &j->link);
    if (!j->good)
        admin_say(c, j->refused ? j->refused : ERR_INVALID, j->why.at);
    j->end(j);
    finance_job_free(j);
    admin_finish(c);
}

static void on_end(struct loop_job *posted) {
    struct finance_job *j = container_of(posted, struct finance_job, posted);
    pthread_join(j->thread, NULL);
    if (atomic_load(&j->stop)) {
        j->good = false;
        j->refused = ERR_BUSY;
        str_clear(&j->why);
        str_puts(&j->why, "The gateway stops.");
    }
    if (j->good && j->go_on)
        j->go_on(j);
    else
        finance_conclude(j);
}

static void *run(void *arg) {
    struct finance_job *j = arg;
    j->work(j);
    loop_post(j->call->gateway->loop, &j->posted);
    return NULL;
}

/* NULL, and the caller is told, when there are too many. */
struct finance_job *finance_job_new(struct admin_call *c) {
    if (c->gateway->draining || c->gateway->finance_jobs.n >= JOBS_MAX) {
        admin_say(c, ERR_BUSY,
                  c->gateway->draining ? "The gateway stops."
                                       : "Two reports are being made already; come again when one is done.");
        return NULL;
    }
    struct finance_job *j = xcalloc(1, sizeof(*j));
    j->posted.run = on_end;
    j->call = c;
    j->directory = xstrdup(c->conf->audit.directory);
    str_init(&j->out, ANSWER_MAX_BYTES);
    str_init(&j->head, FINANCE_WHY_MAX);
    str_init(&j->why, FINANCE_WHY_MAX);
    return j;
}

void finance_job_start(struct finance_job *j) {
    struct admin_call *c = j->call;
    if (pthread_create(&j->thread, NULL, run, j)) {
        admin_say(c, ERR_BUSY, "No thread can be had for it.");
        j->end(j);
        finance_job_free(j);
        return;
    }
    c->later = true;
    list_append(&c->gateway->finance_jobs, &j->link);
}

void finance_stop(struct gateway *g) {
    g->draining = true; /* no other job begins */
    for (struct link *k = list_first(&g->finance_jobs), *next; k; k = next) {
        struct finance_job *j = container_of(k, struct finance_job, link);
        next = list_next(&g->finance_jobs, k);
        atomic_store(&j->stop, true);
        if (j->waiting)
            finance_give_up(j);
    }
    while (!list_empty(&g->finance_jobs))
        event_base_loop(loop_base(g->loop), EVLOOP_ONCE);
}

/* ---- words of a query ---- */

static int hex_digit(char c) {
    static const char digits[] = "0123456789abcdef";
    const char *at = c ? strchr(digits, c >= 'A' && c <= 'F' ? c + ('a' - 'A') : c) : NULL;
    return at ? (int)(at - digits) : -1;
}

/* Percent signs and plus undone; NULL where no memory or a sign is bad. */
static const char *decode(struct span text, struct arena *a) {
    char *out = arena_alloc(a, text.n + 1);
    size_t n = 0;
    for (size_t i = 0; out && i < text.n; i++) {
        bool sign = text.at[i] == '%';
        int high = sign && i + 2 < text.n ? hex_digit(text.at[i + 1]) : -1;
        int low = high >= 0 ? hex_digit(text.at[i + 2]) : -1;
        if (sign && (low < 0 || (high == 0 && low == 0)))
            return NULL;
        out[n++] = sign ? (char)(high * 16 + low) : text.at[i] == '+' ? ' ' : text.at[i];
        i += sign ? 2 : 0;
    }
    return out;
}

struct query_word {
    const char *name;
    const char **value;
};

/* False, with the word in *bad, for what is unknown or badly written. */
static bool read_query(struct span query, const struct query_word *words, size_t n, struct arena *a, struct span *bad) {
    struct span pair, name;
    while (query.n && span_cut(&query, '&', &pair)) {
        bool known = false;
        *bad = pair;
        struct span value = pair;
        span_cut(&value, '=', &name);
        for (size_t i = 0; i < n; i++)
            if (span_is(name, words[i].name))
                known = (*words[i].value = decode(value, a)) != NULL;
        if (!known)
            return false;
    }
    return true;
}

/* ---- GET /admin/spend ---- */

static void work_spend(struct finance_job *j) {
    j->good = report_run(&j->report, &j->out, &j->head, &j->why);
}

static void end_spend(struct finance_job *j) {
    static const char *const types[] = {"text/plain; charset=utf-8", "text/csv; charset=utf-8", "application/json",
                                        "text/csv; charset=utf-8"};
    struct admin_call *c = j->call;
    if (j->good) {
        str_fini(&c->out);
        c->out = j->out;
        str_init(&j->out, 1);
        c->type = types[j->report.format];
    }
    report_fini(&j->report);
}

static void start_spend(struct admin_call *c, const struct report_words *words, bool verify) {
    struct finance_job *j = finance_job_new(c);
    if (!j)
        return;
    if (!report_init(&j->report, words, &j->why)) {
        admin_say(c, ERR_INVALID, j->why.at);
        finance_job_free(j);
        return;
    }
    j->report.directories[0] = j->directory;
    j->report.n_directories = 1;
    j->report.verify = verify;
    j->report.spend.stop = &j->stop;
    j->work = work_spend;
    j->end = end_spend;
    finance_job_start(j);
}

void admin_get_spend(struct admin_call *c) {
    struct report_words w = {0};
    const char *verify = NULL;
    const struct query_word words[] = {{"month", &w.month},   {"from", &w.from},     {"to", &w.to},      {"by", &w.by},
                                       {"format", &w.format}, {"timezone", &w.zone}, {"verify", &verify}};
    struct arena arena;
    struct span bad;
    char text[256];
    arena_init(&arena, WORDS_MAX);
    if (read_query(exchange_head(c->x)->query, words, ARRAY_LEN(words), &arena, &bad)) {
        w.format = w.format ? w.format : "json";
        start_spend(c, &w, verify && strcmp(verify, "1") == 0);
    } else {
        snprintf(text, sizeof(text), "%.*s: the words are month, from, to, by, format, timezone and verify=1.",
                 (int)(bad.n < 100 ? bad.n : 100), bad.at);
        admin_say(c, ERR_INVALID, text);
    }
    arena_fini(&arena);
}
