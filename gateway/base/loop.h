/* The one loop of a process. Helper threads (audit writer, resolver, engine) see copies only and come back by
 * loop_post: a locked queue and one wake, since waking an event from another thread coalesces. */
#ifndef TOLLGATE_BASE_LOOP_H
#define TOLLGATE_BASE_LOOP_H

#include "gateway/base/span.h"

struct event_base;

struct loop_job {
    struct loop_job *next;
    void (*run)(struct loop_job *job); /* on the loop's thread; may free the job */
};

struct loop;
struct loop *loop_new(void);
void loop_free(struct loop *l); /* runs what was posted before */
struct event_base *loop_base(struct loop *l);
void loop_post(struct loop *l, struct loop_job *job); /* from any thread */

#endif
