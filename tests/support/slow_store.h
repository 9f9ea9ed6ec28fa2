/* A store that is always late: every look-up answers WAIT, so that what runs on memory can be run again on something
 * slow. With a loop the answer comes by loop_post; without one, when the test says so. */
#ifndef TOLLGATE_TESTS_SLOW_STORE_H
#define TOLLGATE_TESTS_SLOW_STORE_H

#include "cache/store.h"
#include "gateway/base/loop.h"

extern const struct store_ops slow_store;
/* `store` with its `ops` does the work and belongs to the slow store. loop may be NULL. */
void *slow_store_new(const struct store_ops *ops, void *store, struct loop *loop);
/* Without a loop: answers the oldest look-up; false when none waits. */
bool slow_store_step(void *slow);

#endif
