/* Entries and leads in a real Redis, seen by two processes. */
#include "cache/store.h"
#include "gateway/base/clock.h"
#include "tests/support/real_redis.h"
#include "tests/support/sync_redis.h"

#include <criterion/criterion.h>

#define NOW_US INT64_C(1800000000000000)

static struct real_redis server;
static struct sync_redis one, two;
static void *a, *b; /* the stores of two processes */

static void begin(void) {
    real_redis_begin(&server, NULL);
    sync_redis_open(&one, server.socket, "tg:");
    sync_redis_open(&two, server.socket, "tg:");
    a = redis_store_new(&one.redis, 50 * US_PER_MS);
    b = redis_store_new(&two.redis, 50 * US_PER_MS);
}

static void end(void) {
    redis_store.free(a);
    redis_store.free(b);
    sync_redis_close(&one);
    sync_redis_close(&two);
    real_redis_end(&server);
}

TestSuite(store_redis, .init = begin, .fini = end);

struct asker {
    struct store_op op; /* first member */
    int woken;
};

static void on_wake(struct waiter *w) {
    ((struct asker *)(void *)w)->woken++;
}

static void find(void *store, struct sync_redis *r, struct asker *k, const uint8_t (*keys)[SHA256_BYTES], size_t n,
                 const struct cache_entry **out) {
    *k = (struct asker){.op = {.waiter = {on_wake}, .keys = keys, .n = n, .entries = out, .now_us = NOW_US}};
    enum progress p = redis_store.find(store, &k->op);
    cr_assert_eq(k->woken, 0, "never inside the call");
    if (p == PROGRESS_WAIT) {
        sync_redis_pump(r);
        cr_assert_eq(k->woken, 1, "once");
    }
}

static void keep(void *store, struct sync_redis *r, const uint8_t key[SHA256_BYTES], struct span bytes,
                 int64_t left_us) {
    const struct cache_entry *e = entry_new(bytes, NOW_US, NOW_US + left_us / 2, NOW_US + left_us);
    redis_store.keep(store, key, e, NOW_US);
    entry_drop(e);
    sync_redis_pump(r);
}

static struct cache_stats stats(void *store) {
    struct cache_stats s = {0};
    redis_store.count(store, &s);
    return s;
}

Test(store_redis, what_one_process_keeps_the_other_finds_in_one_look_up) {
    static const uint8_t keys[3][SHA256_BYTES] = {{1}, {2}, {3}};
    const struct cache_entry *out[3];
    struct asker k;
    keep(a, &one, keys[0], SPAN("first"), US_PER_HOUR);
    keep(a, &one, keys[2], SPAN("third"), US_PER_HOUR);
    find(b, &two, &k, keys, 3, out);
    cr_assert(out[0] && !out[1] && out[2] && !k.op.fault);
    cr_expect(span_is(out[0]->bytes, "first") && span_is(out[2]->bytes, "third"));
    cr_expect(out[0]->kept_us == NOW_US && out[0]->until_us == NOW_US + US_PER_HOUR / 2);
    entry_drop(out[0]);
    entry_drop(out[2]);
    const char *left = sync_redis_ask(&one, "PTTL tg:cache:01%062d", 0);
    int64_t ms;
    cr_assert(span_to_i64(span_of(left), &ms), "%s", left);
    cr_expect(ms > 3590000 && ms <= 3600000, "Redis forgets it by itself: %s", left);
    keep(a, &one, keys[1], SPAN("x"), 0);
    find(b, &two, &k, keys + 1, 1, out);
    cr_expect_null(out[0], "what has no time left is not kept");
}

Test(store_redis, a_value_that_does_not_verify_is_not_there) {
    static const uint8_t keys[1][SHA256_BYTES] = {{1}};
    const struct cache_entry *out[1];
    struct asker k;
    keep(a, &one, keys[0], SPAN("first"), US_PER_HOUR);
    sync_redis_ask(&one, "SETRANGE tg:cache:01%062d 70 X", 0);
    find(b, &two, &k, keys, 1, out);
    cr_expect(!out[0] && !k.op.fault);
    sync_redis_ask(&one, "SET tg:cache:01%062d rubbish", 0);
    find(b, &two, &k, keys, 1, out);
    cr_expect(!out[0] && stats(b).rejected == 2);
    sync_redis_ask(&one, "DEL tg:cache:01%062d", 0);
    sync_redis_ask(&one, "HSET tg:cache:01%062d a b", 0);
    find(b, &two, &k, keys, 1, out);
    cr_expect(!out[0] && k.op.fault, "an error is no answer");
}

static void on_claimed(struct waiter *w) {
    (void)w;
}

Test(store_redis, C_07_a_redis_that_is_down_or_late_is_not_waited_for_twice) {
    static const uint8_t keys[2][SHA256_BYTES] = {{1}, {2}};
    const struct cache_entry *out[2];
    struct asker k;
    one.mode = SYNC_DOWN;
    find(a, &one, &k, keys, 2, out);
    cr_expect(k.op.fault && !out[0] && !out[1] && k.woken == 0);
    keep(a, &one, keys[0], SPAN("x"), US_PER_HOUR);
    one.mode = SYNC_UNDONE;
    find(a, &one, &k, keys, 2, out);
    cr_expect(k.op.fault && !out[0] && !out[1] && k.woken == 1);
    struct store_claim c = {.waiter = {on_claimed}, .key = {9}};
    one.mode = SYNC_DOWN;
    cr_assert_eq(redis_store.claim(a, &c), PROGRESS_DONE);
    cr_expect_eq(c.answer, CLAIM_FAULT);
    one.mode = SYNC_GOOD;
    cr_expect_eq(stats(a).faults, 4, "%d", (int)stats(a).faults);
    find(a, &one, &k, keys, 2, out);
    cr_expect(!k.op.fault, "and is asked again");
}

static enum claim_answer claim(void *store, struct sync_redis *r, uint8_t key) {
    struct store_claim c = {.waiter = {on_claimed}, .key = {key}};
    cr_assert_eq(redis_store.claim(store, &c), PROGRESS_WAIT);
    sync_redis_pump(r);
    return c.answer;
}

Test(store_redis, one_process_leads_until_it_lets_go_or_dies) {
    static const uint8_t key[SHA256_BYTES] = {5};
    cr_expect_eq(claim(a, &one, 5), CLAIM_OURS);
    cr_expect_eq(claim(b, &two, 5), CLAIM_THEIRS);
    cr_expect_eq(claim(b, &two, 6), CLAIM_OURS);
    redis_store.release(b, key);
    sync_redis_pump(&two);
    cr_expect_eq(claim(b, &two, 5), CLAIM_THEIRS, "nobody lets go of another's lead");
    sync_redis_ask(&one, "PEXPIRE tg:lead:05%062d 20000", 0);
    redis_store.renew(b, key);
    redis_store.renew(a, key);
    sync_redis_pump(&two);
    sync_redis_pump(&one);
    int64_t ms;
    cr_assert(span_to_i64(span_of(sync_redis_ask(&one, "PTTL tg:lead:05%062d", 0)), &ms));
    cr_expect(ms > 0 && ms <= CLAIM_LIVES_US / US_PER_MS, "renewed for a life, no longer: %ld", (long)ms);
    redis_store.release(a, key);
    sync_redis_pump(&one);
    cr_expect_eq(claim(b, &two, 5), CLAIM_OURS);
}

Test(store_redis, freed_while_answers_are_on_their_way) {
    static const uint8_t keys[2][SHA256_BYTES] = {{1}, {2}};
    static const struct cache_entry *out[2];
    static struct asker k;
    k = (struct asker){.op = {.waiter = {on_wake}, .keys = keys, .n = 2, .entries = out, .now_us = NOW_US}};
    cr_assert_eq(redis_store.find(a, &k.op), PROGRESS_WAIT);
    redis_store.renew(a, keys[0]);
    redis_store.free(a);
    sync_redis_pump(&one);
    cr_expect_eq(k.woken, 0);
    a = redis_store_new(&one.redis, 50 * US_PER_MS);
}
