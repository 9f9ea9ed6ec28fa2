/* The memory store: bytes, age, use. */
#include "cache/store.h"

#include <criterion/criterion.h>

#define COST 1024 /* of an entry of 768 bytes */
static char filler[1 << 20];

static void keep(void *m, int key, size_t n, int64_t ttl_us, int64_t now_us) {
    uint8_t k[SHA256_BYTES] = {(uint8_t)key, (uint8_t)(key >> 8)};
    int64_t until_us = ttl_us < INT64_MAX - now_us ? now_us + ttl_us : INT64_MAX;
    const struct cache_entry *e = entry_new(span_from(filler, n), now_us, until_us, until_us);
    memory_store.keep(m, k, e, now_us);
    entry_drop(e);
}

static const struct cache_entry *find(void *m, int key, int64_t now_us) {
    const uint8_t k[1][SHA256_BYTES] = {{(uint8_t)key, (uint8_t)(key >> 8)}};
    const struct cache_entry *found;
    struct store_op op = {.keys = k, .n = 1, .entries = &found, .now_us = now_us};
    cr_assert_eq(memory_store.find(m, &op), PROGRESS_DONE);
    return found;
}

static bool has(void *m, int key, int64_t now_us) {
    const struct cache_entry *e = find(m, key, now_us);
    entry_drop(e);
    return e != NULL;
}

static struct cache_stats stats(void *m) {
    struct cache_stats s = {0};
    memory_store.count(m, &s);
    return s;
}

Test(store_memory, never_holds_more_bytes_than_its_size) {
    void *m = memory_store_new(10 * COST);
    uint64_t random = 9;
    for (int i = 0; i < 5000; i++) {
        keep(m, (int)(random_next(&random) % 64), random_next(&random) % 4000, 1000, i);
        cr_assert_leq(stats(m).bytes, 10 * COST);
        cr_assert_leq(stats(m).entries, 40);
    }
    cr_expect_gt(stats(m).evicted, 1000);
    memory_store.free(m);
}

Test(store_memory, the_least_recently_used_goes_first) {
    void *m = memory_store_new(3 * COST);
    for (int i = 0; i < 3; i++)
        keep(m, i, 768, 1000, 0);
    cr_expect(has(m, 0, 1));
    keep(m, 3, 768, 1000, 2);
    cr_expect(has(m, 0, 3) && !has(m, 1, 3) && has(m, 2, 3) && has(m, 3, 3));
    cr_expect_eq(stats(m).evicted, 1);
    memory_store.free(m);
}

Test(store_memory, an_entry_past_its_time_is_gone) {
    void *m = memory_store_new(10 * COST);
    keep(m, 1, 768, 1000, 50);
    cr_expect(has(m, 1, 1049));
    cr_expect_not(has(m, 1, 1050));
    cr_expect_eq(stats(m).bytes, 0);
    keep(m, 2, 768, INT64_MAX, 50);
    cr_expect(has(m, 2, INT64_MAX - 1));
    memory_store.free(m);
}

Test(store_memory, an_entry_that_is_read_survives_its_eviction) {
    void *m = memory_store_new(COST);
    memset(filler, 'a', 768);
    keep(m, 1, 768, 1000, 0);
    const struct cache_entry *read = find(m, 1, 1);
    cr_assert_not_null(read);
    memset(filler, 'b', 768);
    keep(m, 2, 768, 1000, 2);
    cr_expect_not(has(m, 1, 3));
    cr_expect_eq(read->bytes.at[767], 'a');
    memory_store.free(m);
    cr_expect_eq(read->bytes.at[0], 'a', "even the store itself may go");
    entry_drop(read);
}

Test(store_memory, the_same_key_again_replaces_and_costs_once) {
    void *m = memory_store_new(10 * COST);
    keep(m, 1, 768, 1000, 0);
    keep(m, 1, 512, 1000, 500);
    cr_expect_eq(stats(m).entries, 1);
    cr_expect_eq(stats(m).bytes, COST - 256);
    cr_expect(has(m, 1, 1400), "the time begins anew");
    cr_expect_eq(stats(m).evicted, 0);
    memory_store.free(m);
}

Test(store_memory, what_is_larger_than_the_store_is_not_kept_and_pushes_nothing_out) {
    void *m = memory_store_new(2 * COST);
    keep(m, 1, 768, 1000, 0);
    keep(m, 2, 2 * COST, 1000, 0);
    cr_expect(has(m, 1, 1) && !has(m, 2, 1));
    memory_store.free(m);
    m = memory_store_new(0);
    keep(m, 1, 1, 1000, 0);
    cr_expect_not(has(m, 1, 1));
    memory_store.free(m);
}

Test(store_memory, a_smaller_size_takes_effect_at_once) {
    void *m = memory_store_new(8 * COST);
    for (int i = 0; i < 8; i++)
        keep(m, i, 768, 1000, 0);
    memory_store.resize(m, 3 * COST);
    cr_expect_eq(stats(m).entries, 3);
    cr_expect(has(m, 7, 1) && !has(m, 0, 1));
    memory_store.resize(m, -5);
    cr_expect_eq(stats(m).bytes, 0);
    memory_store.free(m);
}
