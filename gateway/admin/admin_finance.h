/* Jobs of the admin port that read the whole log: what the two files that start them share.
 *
 *     finance_job_new -> finance_job_start -> work (a thread) -> go_on (the loop: writes into the log) -> end -> the caller */
#ifndef TOLLGATE_GATEWAY_ADMIN_FINANCE_H
#define TOLLGATE_GATEWAY_ADMIN_FINANCE_H

#include "gateway/admin/admin.h"

#include "gateway/base/list.h"

#include "gateway/finance/report.h"
#include "gateway/finance/reprice.h"

#include <pthread.h>

#define FINANCE_WHY_MAX 4096

struct finance_job {
    struct loop_job posted;
    struct link link;
    pthread_t thread;
    struct admin_call *call;
    atomic_bool stop;
    void (*work)(struct finance_job *j); /* on the thread */
    void (*end)(struct finance_job *j);  /* on the loop */
    struct report report;
    char *directory; /* owned: the conf may be another one before the job ends */
    struct str out, head, why;
    bool good;
    void (*go_on)(struct finance_job *j); /* on the loop after good work, before end: finance_conclude ends it; NULL */
    enum err refused;                     /* with `why`, when it is not good; ERR_NONE: the question was wrong */
    /* gateway/admin/admin_books.c */
    bool writes, dry_run;
    char *month, *model, *reason; /* owned; NULL: not said */
    struct books_ask books;
    struct reprice_ask ask;
    struct reprice_result result; /* its adjusts: what is written, also rollups and a close */
    struct spend_sums total;
    struct audit_op written;
    bool waiting;        /* for the log to have written all */
    int64_t patience_us; /* monotone: until when a log that takes nothing is asked again */
};

struct finance_job *finance_job_new(struct admin_call *c); /* NULL: the caller was told that there are too many */
void finance_job_start(struct finance_job *j);
void finance_job_free(struct finance_job *j); /* one that was not started */
void finance_give_up(struct finance_job *j);  /* one that waits for the log */
bool finance_writes(const struct gateway *g); /* a correction or a close is under way */
void finance_conclude(struct finance_job *j); /* answers the caller and frees */

#endif
