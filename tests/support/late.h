/* A ledger and a cache that answer later, for a gateway that is already built. */
#ifndef TOLLGATE_TESTS_LATE_H
#define TOLLGATE_TESTS_LATE_H

#include <stdbool.h>
#include <stdint.h>

struct budget;
struct cache;
struct delay_store;
struct event_base;
struct loop;

struct delay_store *late_ledger(struct budget *b, struct event_base *base,
                                int64_t delay_us); /* belongs to the budget */
int late_ledger_waiting(const struct delay_store *d);
void late_ledger_break(struct delay_store *d, bool broken);
/* In the place of another. With a loop it answers in its next turn; with NULL when late_cache_step(*store) says so. */
struct cache *late_cache(int64_t size_bytes, struct loop *loop, void **store);
bool late_cache_step(void *store); /* false: nothing waits */

#endif
