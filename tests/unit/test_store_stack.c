/* Memory in front of Redis: who is asked, what stays where, and what a change of mind does. */
#include "cache/store.h"
#include "gateway/base/clock.h"
#include "tests/support/real_redis.h"
#include "tests/support/sync_redis.h"

#include <criterion/criterion.h>

#define NOW_US INT64_C(1800000000000000)

static struct real_redis server;
static struct sync_redis link_to;
static void *stack;

static void begin(void) {
    real_redis_begin(&server, NULL);
    sync_redis_open(&link_to, server.socket, "tg:");
    stack = stack_store_new(1 << 20);
}

static void end(void) {
    stack_store.free(stack);
    sync_redis_close(&link_to);
    real_redis_end(&server);
}

TestSuite(store_stack, .init = begin, .fini = end);

static void share(enum conf_cache_store where) {
    stack_store_share(stack, &link_to.redis, 50 * US_PER_MS, where);
}

static void keep(uint8_t key, struct span bytes, int64_t ttl_us) {
    const uint8_t k[SHA256_BYTES] = {key};
    const struct cache_entry *e = entry_new(bytes, NOW_US, NOW_US + ttl_us, NOW_US + 2 * ttl_us);
    stack_store.keep(stack, k, e, NOW_US);
    entry_drop(e);
    sync_redis_pump(&link_to);
}

static void on_wake(struct waiter *w) {
    (void)w;
}

/* The bytes found for each of up to 8 keys, "-" where there are none. */
static const char *find(const char *keys, int64_t now_us) {
    static char text[64];
    static uint8_t k[8][SHA256_BYTES];
    const struct cache_entry *found[8];
    size_t n = strlen(keys);
    for (size_t i = 0; i < n; i++)
        k[i][0] = (uint8_t)keys[i];
    struct store_op op = {.waiter = {on_wake}, .keys = k, .n = n, .entries = found, .now_us = now_us};
    if (stack_store.find(stack, &op) == PROGRESS_WAIT)
        sync_redis_pump(&link_to);
    text[0] = '\0';
    for (size_t i = 0; i < n; i++) {
        strncat(text, found[i] ? found[i]->bytes.at : "-", found[i] ? found[i]->bytes.n : 1);
        entry_drop(found[i]);
    }
    return text;
}

static int64_t in_memory(void) {
    struct cache_stats s = {0};
    stack_store.count(stack, &s);
    return s.entries;
}

Test(store_stack, memory_answers_first_and_learns_what_redis_knows) {
    share(CACHE_IN_REDIS);
    keep('a', SPAN("A"), US_PER_HOUR);
    cr_expect_eq(in_memory(), 0);
    share(CACHE_IN_BOTH);
    keep('b', SPAN("B"), US_PER_HOUR);
    int sent = link_to.sent;
    cr_expect_str_eq(find("bb", NOW_US), "BB");
    cr_expect_eq(link_to.sent, sent, "what memory has is not asked for");
    cr_expect_str_eq(find("cba", NOW_US), "-BA");
    cr_expect_eq(link_to.sent, sent + 2);
    cr_expect_str_eq(find("a", NOW_US), "A");
    cr_expect(link_to.sent == sent + 2 && in_memory() == 2);
    link_to.mode = SYNC_DOWN;
    cr_expect_str_eq(find("abc", NOW_US), "AB-", "memory answers without Redis");
}

Test(store_stack, of_two_that_are_there_the_fresher_counts) {
    share(CACHE_IN_BOTH);
    keep('a', SPAN("old"), US_PER_MIN);
    share(CACHE_IN_REDIS);
    keep('a', SPAN("new"), US_PER_HOUR);
    share(CACHE_IN_BOTH);
    cr_expect_str_eq(find("a", NOW_US), "old", "it is fresh");
    cr_expect_str_eq(find("a", NOW_US + US_PER_MIN), "new");
    share(CACHE_IN_MEMORY);
    cr_expect_str_eq(find("a", NOW_US + US_PER_MIN), "new", "memory has learnt it");
    keep('b', SPAN("stale"), US_PER_MIN);
    share(CACHE_IN_BOTH);
    cr_expect_str_eq(find("b", NOW_US + US_PER_MIN), "stale", "Redis knows no better");
}

Test(store_stack, without_redis_memory_is_all_there_is_and_everybody_leads) {
    struct store_claim c = {.waiter = {on_wake}, .key = {1}};
    stack_store_share(stack, NULL, US_PER_MS, CACHE_IN_BOTH);
    keep('a', SPAN("A"), US_PER_HOUR);
    cr_expect_str_eq(find("ab", NOW_US), "A-");
    cr_expect(stack_store.claim(stack, &c) == PROGRESS_DONE && c.answer != CLAIM_THEIRS);
    share(CACHE_IN_MEMORY);
    keep('b', SPAN("B"), US_PER_HOUR);
    cr_expect(find("ab", NOW_US) && link_to.sent == 0);
    share(CACHE_IN_REDIS);
    cr_expect_str_eq(find("ab", NOW_US), "--", "memory is no longer asked");
}

Test(store_stack, freed_while_a_look_up_is_on_its_way) {
    static uint8_t k[2][SHA256_BYTES] = {{'a'}, {'z'}};
    static const struct cache_entry *found[2];
    share(CACHE_IN_BOTH);
    keep('a', SPAN("A"), US_PER_HOUR);
    static struct store_op op;
    op = (struct store_op){.waiter = {on_wake}, .keys = k, .n = 2, .entries = found, .now_us = NOW_US};
    cr_assert_eq(stack_store.find(stack, &op), PROGRESS_WAIT);
    stack_store.free(stack);
    entry_drop(found[0]);
    sync_redis_pump(&link_to);
    stack = stack_store_new(1024);
}
