/* Who leads, who follows and who goes by itself, over two processes that share a real Redis. A command is done when it is
 * sent and answered when the test says so. */
#include "cache/store.h"
#include "gateway/base/clock.h"
#include "tests/support/real_redis.h"
#include "tests/support/sync_redis.h"

#include <criterion/criterion.h>

#define NOW_US INT64_C(1800000000000000)
#define SOON_US (200 * US_PER_MS)
#define CROWD 50

static struct real_redis server;
static struct sync_redis one, two;
static struct cache *a, *b;
static const struct cache_rule rule = {.may = true,
                                       .key = {7},
                                       .max_age_us = INT64_MAX,
                                       .ttl_us = US_PER_HOUR,
                                       .stale_us = US_PER_HOUR,
                                       .patience_us = 30 * US_PER_S};

static void begin(void) {
    real_redis_begin(&server, NULL);
    sync_redis_open(&one, server.socket, "tg:");
    sync_redis_open(&two, server.socket, "tg:");
    a = cache_new(1 << 20);
    b = cache_new(1 << 20);
    cache_share(a, &one.redis, 50 * US_PER_MS, CACHE_IN_REDIS);
    cache_share(b, &two.redis, 50 * US_PER_MS, CACHE_IN_BOTH);
}

static void end(void) {
    cache_free(a);
    cache_free(b);
    sync_redis_close(&one);
    sync_redis_close(&two);
    real_redis_end(&server);
}

TestSuite(flight, .init = begin, .fini = end);

struct asker {
    struct cache_op op; /* first member */
    int woken, answer;
};

/* As the hall does: a lead is published at the very moment it is had. */
static void on_wake(struct waiter *w) {
    struct asker *k = (struct asker *)(void *)w;
    k->woken++;
    if (k->op.result == CACHE_LEAD && k->op.lead)
        cache_publish(k->op.lead, &k->answer);
}

static enum progress ask(struct cache *c, const struct cache_rule *r, struct asker *k) {
    *k = (struct asker){.op = {.waiter = {on_wake}}};
    enum progress p = cache_find(c, r, NOW_US, &k->op);
    cr_assert_eq(k->woken, 0, "never inside the call");
    if (p == PROGRESS_DONE)
        on_wake(&k->op.waiter);
    return p;
}

static void later(struct cache *c, struct sync_redis *r, int64_t us) {
    cache_tick(c, clock_mono_us() + us);
    sync_redis_pump(r);
}

static void lead(struct cache *c, struct sync_redis *r, struct asker *k) {
    (void)ask(c, &rule, k);
    sync_redis_pump(r);
    cr_assert(k->woken == 1 && k->op.result == CACHE_LEAD && k->op.lead);
}

static void keep(struct cache *c, struct sync_redis *r, struct asker *k) {
    cache_keep(c, k->op.lead, &rule, &(struct span){"bytes", 5}, NOW_US);
    sync_redis_pump(r);
}

static void wait_for(struct cache *c, struct sync_redis *r, struct asker *k) {
    cr_assert_eq(ask(c, &rule, k), PROGRESS_WAIT);
    sync_redis_pump(r);
    cr_assert_eq(k->woken, 0, "it waits for the other process");
    later(c, r, SOON_US);
    cr_assert_eq(k->woken, 0, "still");
}

static void has_hit(struct asker *k, bool followed) {
    cr_assert(k->woken == 1 && k->op.result == CACHE_HIT && k->op.entry);
    cr_expect(span_is(k->op.entry->bytes, "bytes") && k->op.followed == followed);
    cache_entry_drop(NULL, k->op.entry);
}

static struct cache_stats stats(struct cache *c) {
    struct cache_stats s;
    cache_stats(c, &s);
    return s;
}

Test(flight, those_of_another_process_wait_for_the_finished_answer) {
    static struct asker first, others[CROWD], late;
    lead(a, &one, &first);
    wait_for(b, &two, &others[0]);
    for (int i = 1; i < CROWD; i++)
        cr_assert_eq(ask(b, &rule, &others[i]), PROGRESS_WAIT);
    sync_redis_pump(&two);
    int sent = two.sent;
    later(b, &two, SOON_US);
    cr_expect_leq(two.sent - sent, 2, "one look-up of a process asks for all: %d", two.sent - sent);
    keep(a, &one, &first);
    later(b, &two, 2 * SOON_US);
    for (int i = 0; i < CROWD; i++)
        has_hit(&others[i], true);
    cr_expect_eq(ask(b, &rule, &late), PROGRESS_DONE, "memory has it now");
    has_hit(&late, false);
    cr_expect(stats(b).followed == CROWD && stats(b).hits == 1 && stats(b).misses == 0 && stats(b).leads == 0);
}

Test(flight, a_leader_that_fails_leaves_the_lead_to_one_of_another_process) {
    static struct asker first, others[3];
    lead(a, &one, &first);
    for (int i = 0; i < 3; i++)
        (void)ask(b, &rule, &others[i]);
    sync_redis_pump(&two);
    cache_drop(a, first.op.lead);
    sync_redis_pump(&one);
    later(b, &two, SOON_US);
    cr_assert(others[0].op.result == CACHE_LEAD && others[0].op.lead);
    for (int i = 1; i < 3; i++)
        cr_expect(others[i].op.result == CACHE_JOIN && others[i].op.published == &others[0].answer,
                  "and the rest join");
    keep(b, &two, &others[0]);
    (void)ask(a, &rule, &first);
    sync_redis_pump(&one);
    has_hit(&first, false);
}

Test(flight, a_leader_that_died_is_waited_for_no_longer_than_its_lease) {
    static struct asker first, other;
    lead(a, &one, &first);
    wait_for(b, &two, &other);
    sync_redis_ask(&two, "DEL tg:lead:07%062d", 0); /* as Redis does when nobody renews it */
    later(b, &two, SOON_US);
    cr_assert(other.woken == 1 && other.op.lead);
    cache_drop(b, other.op.lead);
    cache_drop(a, first.op.lead);
}

Test(flight, a_lead_is_renewed_and_patience_ends) {
    static struct asker first, other;
    lead(a, &one, &first);
    sync_redis_ask(&one, "PEXPIRE tg:lead:07%062d 100", 0);
    later(a, &one, 2 * US_PER_S);
    int64_t ms;
    cr_assert(span_to_i64(span_of(sync_redis_ask(&one, "PTTL tg:lead:07%062d", 0)), &ms));
    cr_expect_gt(ms, 1000, "renewed");
    wait_for(b, &two, &other);
    later(b, &two, 31 * US_PER_S);
    cr_assert(other.woken == 1 && other.op.result == CACHE_LEAD && other.op.lead, "it goes by itself");
    cache_drop(b, other.op.lead);
    sync_redis_pump(&two);
    cr_expect_str_eq(sync_redis_ask(&one, "EXISTS tg:lead:07%062d", 0), "1", "and takes nothing from the leader");
    cache_drop(a, first.op.lead);
}

Test(flight, C_07_a_redis_that_goes_down_or_freezes_makes_nobody_wait_on) {
    static const enum sync_mode modes[] = {SYNC_DOWN, SYNC_UNDONE};
    for (size_t i = 0; i < ARRAY_LEN(modes); i++) {
        static struct asker first, other, next;
        lead(a, &one, &first);
        wait_for(b, &two, &other);
        two.mode = modes[i];
        later(b, &two, SOON_US);
        cr_assert(other.woken == 1 && other.op.lead, "mode %zu", i);
        (void)ask(b, &rule, &next);
        sync_redis_pump(&two);
        cr_expect(next.woken == 1 && next.op.result == CACHE_JOIN, "flights of one process go on");
        two.mode = SYNC_GOOD;
        cache_drop(b, other.op.lead);
        cache_drop(a, first.op.lead);
        sync_redis_pump(&one);
        sync_redis_pump(&two);
    }
    cr_expect_geq(stats(b).faults, 2);
}

Test(flight, one_patience_with_redis_for_the_whole_request) {
    static struct asker k;
    k = (struct asker){.op = {.waiter = {on_wake}, .waited_us = 50 * US_PER_MS}};
    struct cache_rule r = rule;
    one.mode = SYNC_UNDONE;
    int sent = one.sent;
    (void)cache_find(a, &r, NOW_US, &k.op);
    sync_redis_pump(&one);
    cr_assert(k.woken == 1 && k.op.lead && k.op.waited_us >= 50 * US_PER_MS);
    cr_expect_leq(one.sent - sent, 1, "what is used up is not asked for again");
    cache_drop(a, k.op.lead);
}

Test(flight, what_was_kept_between_a_look_and_its_claim_is_found) {
    static struct asker first, other;
    lead(a, &one, &first);
    cr_assert_eq(ask(b, &rule, &other), PROGRESS_WAIT); /* its GET is done, and found nothing */
    keep(a, &one, &first);
    sync_redis_pump(&two);
    has_hit(&other, false);
    cr_expect_str_eq(sync_redis_ask(&one, "EXISTS tg:lead:07%062d", 0), "0", "and its claim is let go");
    cr_expect_eq(stats(b).leads, 0);
}

Test(flight, whoever_goes_away_waits_no_longer) {
    static struct asker first, other, next;
    lead(a, &one, &first);
    cr_assert_eq(ask(b, &rule, &other), PROGRESS_WAIT);
    cr_expect_not(cache_leave(b, &other.op), "Redis has been asked and answers soon");
    sync_redis_pump(&two);
    (void)ask(b, &rule, &next);
    sync_redis_pump(&two);
    cr_expect(cache_leave(b, &other.op), "the one that asks for both");
    keep(a, &one, &first);
    later(b, &two, SOON_US);
    has_hit(&next, true);
    cr_expect_eq(other.woken, 0);
    struct cache_rule another = rule;
    another.key[0] = 8;
    cr_assert_eq(ask(a, &another, &first), PROGRESS_WAIT);
    sync_redis_pump(&one);
    cr_assert(first.op.lead);
    (void)ask(b, &another, &other);
    (void)ask(b, &another, &next);
    sync_redis_pump(&two);
    cr_expect(cache_leave(b, &next.op) && cache_leave(b, &other.op));
    later(b, &two, SOON_US);
    cr_expect(next.woken == 0 && other.woken == 0);
    cache_drop(a, first.op.lead);
}

Test(flight, C_06_no_store_leads_nobody_and_no_cache_waits_for_nobody) {
    static struct asker first, other;
    struct cache_rule silent = rule, fresh = rule;
    silent.no_keep = fresh.no_find = true;
    (void)ask(a, &silent, &first);
    sync_redis_pump(&one);
    cr_expect(first.woken == 1 && first.op.result == CACHE_LEAD && !first.op.lead);
    cr_expect_str_eq(sync_redis_ask(&one, "EXISTS tg:lead:07%062d", 0), "0");
    lead(a, &one, &first);
    cr_assert_eq(ask(b, &fresh, &other), PROGRESS_DONE);
    cr_assert_not_null(other.op.lead);
    keep(b, &two, &other);
    cr_expect_str_eq(sync_redis_ask(&one, "EXISTS tg:lead:07%062d", 0), "1");
    cache_drop(a, first.op.lead);
}

Test(flight, an_expired_answer_is_given_beside_the_lead_while_it_may_stand_in) {
    static struct asker k;
    struct cache_rule r = rule;
    lead(a, &one, &k);
    keep(a, &one, &k);
    static const struct {
        int64_t later_us, stale_us, max_age_us;
        bool hit, stale;
    } rows[] = {
        {US_PER_HOUR - 1, US_PER_HOUR, INT64_MAX, true, false},
        {US_PER_HOUR, US_PER_HOUR, INT64_MAX, false, true},
        {2 * US_PER_HOUR - US_PER_S, US_PER_HOUR, INT64_MAX, false, true},
        {2 * US_PER_HOUR, US_PER_HOUR, INT64_MAX, false, false},
        {US_PER_HOUR, US_PER_HOUR, US_PER_HOUR - 1, false, false},
        {US_PER_HOUR, 0, INT64_MAX, false, false},
        {US_PER_HOUR - 1, US_PER_HOUR, US_PER_MIN, false, false},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        k = (struct asker){.op = {.waiter = {on_wake}}};
        r.stale_us = rows[i].stale_us;
        r.max_age_us = rows[i].max_age_us;
        (void)cache_find(a, &r, NOW_US + rows[i].later_us, &k.op);
        sync_redis_pump(&one);
        cr_assert_eq(k.woken, 1);
        cr_expect_eq(k.op.result == CACHE_HIT, rows[i].hit, "row %zu", i);
        cr_expect_eq(k.op.result == CACHE_LEAD && k.op.entry, rows[i].stale, "row %zu", i);
        cache_entry_drop(a, k.op.entry);
        if (k.op.lead)
            cache_drop(a, k.op.lead);
        sync_redis_pump(&one);
    }
}

Test(flight, an_answer_in_parts_is_looked_up_at_once_and_kept_by_part) {
    static struct asker k;
    static const uint8_t keys[3][SHA256_BYTES] = {{11}, {12}, {13}};
    const struct cache_entry *parts[3] = {NULL};
    struct cache_rule r = rule;
    r.parts = keys;
    r.n_parts = 2;
    k = (struct asker){.op = {.waiter = {on_wake}, .parts = parts}};
    (void)cache_find(a, &r, NOW_US, &k.op);
    sync_redis_pump(&one);
    cr_assert(k.op.result == CACHE_LEAD && k.op.lead && !parts[0] && !parts[1]);
    cache_keep(a, k.op.lead, &r, (const struct span[]){SPAN("p1"), SPAN_NONE}, NOW_US);
    sync_redis_pump(&one);
    r.n_parts = 3;
    k = (struct asker){.op = {.waiter = {on_wake}, .parts = parts}};
    (void)cache_find(b, &r, NOW_US, &k.op);
    sync_redis_pump(&two);
    cr_assert(k.op.result == CACHE_LEAD && k.op.lead && parts[0] && !parts[1] && !parts[2]);
    cr_expect(span_is(parts[0]->bytes, "p1"));
    cache_entry_drop(b, parts[0]);
    cache_keep(b, k.op.lead, &r, (const struct span[]){SPAN_NONE, SPAN("p2"), SPAN("p3")}, NOW_US);
    sync_redis_pump(&two);
    memset(parts, 0, sizeof parts);
    k = (struct asker){.op = {.waiter = {on_wake}, .parts = parts}};
    (void)cache_find(a, &r, NOW_US, &k.op);
    sync_redis_pump(&one);
    cr_assert(k.op.result == CACHE_HIT && parts[0] && parts[1] && parts[2]);
    cr_expect(span_is(parts[0]->bytes, "p1") && span_is(parts[2]->bytes, "p3"));
    for (int i = 0; i < 3; i++)
        cache_entry_drop(a, parts[i]);
}

Test(flight, freed_while_look_ups_wait) {
    static struct asker first, other, next, third;
    struct cache_rule another = rule;
    another.key[0] = 9;
    lead(a, &one, &first);
    (void)ask(b, &rule, &other);
    sync_redis_pump(&two);
    (void)ask(b, &rule, &next);
    (void)ask(b, &another, &third); /* its answer is still on its way */
    cache_free(b);
    b = NULL;
    sync_redis_pump(&two);
    cr_expect(other.woken == 0 && next.woken == 0 && third.woken == 0);
    cache_drop(a, first.op.lead);
}
