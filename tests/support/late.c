/* The two delaying stores under one roof: their private headers stay out of the tests that open the hall's. */
#include "tests/support/late.h"

#include "tests/support/delay_store.h"
#include "tests/support/slow_store.h"

struct delay_store *late_ledger(struct budget *b, struct event_base *base, int64_t delay_us) {
    return delay_store_put(b, base, delay_us);
}

int late_ledger_waiting(const struct delay_store *d) {
    return d ? delay_store_waiting(d) : 0;
}

void late_ledger_break(struct delay_store *d, bool broken) {
    delay_store_break(d, broken);
}

struct cache *late_cache(int64_t size_bytes, struct loop *loop, void **store) {
    *store = slow_store_new(&memory_store, memory_store_new(size_bytes), loop);
    return cache_new_on(&slow_store, *store);
}

bool late_cache_step(void *store) {
    return slow_store_step(store);
}
