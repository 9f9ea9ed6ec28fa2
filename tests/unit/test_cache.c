/* Hit, lead or join; on the memory store, and again on one that is always late. */
#include "cache/store.h"
#include "tests/support/slow_store.h"

#include <criterion/criterion.h>
#include <event2/event.h>

struct house {
    struct cache *cache;
    void *slow; /* NULL: memory */
    struct loop *loop;
};
struct asker {
    struct cache_op op; /* first member: it is woken by its first member */
    int woken;
};

enum kind { MEMORY, LATE, LATE_BY_LOOP, KINDS };

static struct house make(enum kind kind) {
    struct house h = {0};
    if (kind == MEMORY) {
        h.cache = cache_new(1 << 20);
        return h;
    }
    h.loop = kind == LATE_BY_LOOP ? loop_new() : NULL;
    h.slow = slow_store_new(&memory_store, memory_store_new(1 << 20), h.loop);
    h.cache = cache_new_on(&slow_store, h.slow);
    return h;
}

static void unmake(struct house *h) {
    cache_free(h->cache);
    if (h->loop)
        loop_free(h->loop);
}

static void on_wake(struct waiter *w) {
    ((struct asker *)(void *)w)->woken++;
}

static struct cache_rule rule_of(uint8_t key) {
    return (struct cache_rule){.may = true, .key = {key}, .max_age_us = INT64_MAX, .ttl_us = 1000};
}

static void finish(struct house *h) {
    if (h->loop)
        event_base_loop(loop_base(h->loop), EVLOOP_ONCE);
    else
        cr_assert(slow_store_step(h->slow));
}

/* Asks, and lets a late store answer. */
static struct cache_op ask(struct house *h, const struct cache_rule *rule, int64_t now_us) {
    struct asker a = {.op.waiter = {on_wake}};
    enum progress p = cache_find(h->cache, rule, now_us, &a.op);
    cr_assert_eq(a.woken, 0, "never inside the call");
    cr_assert_eq(p, h->slow && !rule->no_find ? PROGRESS_WAIT : PROGRESS_DONE);
    if (p == PROGRESS_WAIT) {
        finish(h);
        cr_assert_eq(a.woken, 1);
    }
    return a.op;
}

static void keep(struct cache *c, struct cache_lead *lead, struct span bytes, int64_t ttl_us, int64_t now_us) {
    struct cache_rule r = {.may = true, .ttl_us = ttl_us};
    cache_keep(c, lead, &r, &bytes, now_us);
}

static struct cache_stats stats(struct house *h) {
    struct cache_stats s;
    cache_stats(h->cache, &s);
    return s;
}

Test(cache, the_first_leads_the_next_join_and_the_later_hit) {
    for (enum kind kind = 0; kind < KINDS; kind++) {
        struct house h = make(kind);
        struct cache_rule r = rule_of(1);
        int answer;
        struct cache_op first = ask(&h, &r, 10), early = ask(&h, &r, 11);
        cr_assert_eq(first.result, CACHE_LEAD);
        cr_assert_not_null(first.lead);
        cr_expect(early.result == CACHE_LEAD && !early.lead, "nothing is published yet: it fetches for itself");
        cache_publish(first.lead, &answer);
        struct cache_op joined = ask(&h, &r, 12);
        cr_expect(joined.result == CACHE_JOIN && joined.published == &answer && !joined.lead && !joined.entry);
        cache_withdraw(first.lead);
        cr_expect_eq(ask(&h, &r, 13).result, CACHE_LEAD, "what was withdrawn cannot be joined");
        keep(h.cache, first.lead, SPAN("bytes"), r.ttl_us, 20);
        struct cache_op hit = ask(&h, &r, 21);
        cr_assert_eq(hit.result, CACHE_HIT);
        cr_expect(span_is(hit.entry->bytes, "bytes") && hit.entry->kept_us == 20 && !hit.lead && !hit.published);
        cache_entry_drop(h.cache, hit.entry);
        struct cache_stats s = stats(&h);
        cr_expect(s.hits == 1 && s.misses == 3 && s.joined == 1 && s.kept == 1 && s.leads == 0 && s.entries == 1);
        unmake(&h);
    }
}

Test(cache, C_03_a_dropped_lead_leaves_nothing_behind) {
    for (enum kind kind = 0; kind < KINDS; kind++) {
        struct house h = make(kind);
        struct cache_rule r = rule_of(1);
        struct cache_op a = ask(&h, &r, 10);
        cache_drop(h.cache, a.lead);
        struct cache_op b = ask(&h, &r, 11);
        cr_expect_eq(b.result, CACHE_LEAD);
        cr_expect_not_null(b.lead, "and the next may lead");
        cache_drop(h.cache, b.lead);
        cr_expect(stats(&h).kept == 0 && stats(&h).entries == 0 && stats(&h).leads == 0);
        unmake(&h);
    }
}

Test(cache, C_06_no_cache_and_no_store_and_max_age_are_honoured) {
    for (enum kind kind = 0; kind < KINDS; kind++) {
        struct house h = make(kind);
        struct cache_rule r = rule_of(1), fresh = r, silent = r, young = r;
        fresh.no_find = true;
        silent.no_keep = true;
        young.max_age_us = 5;
        struct cache_op missed = ask(&h, &silent, 0);
        cr_expect(missed.result == CACHE_LEAD && !missed.lead, "no-store: there is nothing to keep");
        struct cache_op lead = ask(&h, &r, 0);
        cache_publish(lead.lead, &h);
        cr_expect_eq(ask(&h, &fresh, 1).result, CACHE_LEAD, "no-cache does not read along either");
        cr_expect_eq(ask(&h, &silent, 1).result, CACHE_JOIN);
        keep(h.cache, lead.lead, SPAN("old"), 1000, 10);
        struct cache_op again = ask(&h, &fresh, 11);
        cr_expect(again.result == CACHE_LEAD && again.lead, "no-cache fetches, and keeps what it got");
        keep(h.cache, again.lead, SPAN("new"), 1000, 12);
        struct cache_op hit = ask(&h, &silent, 13);
        cr_assert_eq(hit.result, CACHE_HIT);
        cr_expect(span_is(hit.entry->bytes, "new"));
        cache_entry_drop(h.cache, hit.entry);
        hit = ask(&h, &young, 17);
        cr_assert_eq(hit.result, CACHE_HIT, "five old is not older than five");
        cache_entry_drop(h.cache, hit.entry);
        struct cache_op old = ask(&h, &young, 18);
        cr_assert_eq(old.result, CACHE_LEAD);
        cache_drop(h.cache, old.lead);
        hit = ask(&h, &r, 18);
        cr_assert_eq(hit.result, CACHE_HIT, "too old for one is not too old for all");
        cache_entry_drop(h.cache, hit.entry);
        struct cache_op late = ask(&h, &r, 1012);
        cr_assert_eq(late.result, CACHE_LEAD);
        cache_drop(h.cache, late.lead);
        unmake(&h);
    }
}

Test(cache, C_09_a_stampede_of_equal_calls_has_one_lead) {
    struct house h = make(LATE);
    static struct asker askers[100];
    struct cache_rule r = rule_of(7);
    for (size_t i = 0; i < ARRAY_LEN(askers); i++) {
        askers[i] = (struct asker){.op.waiter = {on_wake}};
        cr_assert_eq(cache_find(h.cache, &r, 1, &askers[i].op), PROGRESS_WAIT);
    }
    int leads = 0, joins = 0, answer;
    for (size_t i = 0; i < ARRAY_LEN(askers); i++) {
        cr_assert(slow_store_step(h.slow));
        if (askers[i].op.result == CACHE_LEAD && askers[i].op.lead) {
            cache_publish(askers[i].op.lead, &answer);
            leads++;
        }
        joins += askers[i].op.result == CACHE_JOIN && askers[i].op.published == &answer;
        cr_assert_eq(askers[i].woken, 1);
    }
    cr_expect_not(slow_store_step(h.slow));
    cr_expect(leads == 1 && joins == 99);
    keep(h.cache, askers[0].op.lead, SPAN("x"), 1000, 2);
    unmake(&h);
}

Test(cache, a_lead_that_ends_while_a_look_up_is_under_way_is_a_hit) {
    struct house h = make(LATE);
    struct cache_rule r = rule_of(7);
    struct cache_op lead = ask(&h, &r, 1);
    struct asker waiting = {.op.waiter = {on_wake}};
    cr_assert_eq(cache_find(h.cache, &r, 2, &waiting.op), PROGRESS_WAIT);
    keep(h.cache, lead.lead, SPAN("x"), 1000, 3);
    cr_assert(slow_store_step(h.slow));
    cr_assert_eq(waiting.op.result, CACHE_HIT);
    cache_entry_drop(h.cache, waiting.op.entry);
    unmake(&h);
}

Test(cache, what_is_too_large_or_has_no_time_is_not_kept) {
    static char large[CACHE_ENTRY_MAX + 1];
    struct cache *c = cache_new(INT64_C(64) << 20);
    struct cache_rule r = rule_of(1);
    static const struct {
        size_t n;
        int64_t ttl_us;
        bool kept;
    } table[] = {{CACHE_ENTRY_MAX, 1000, true}, {CACHE_ENTRY_MAX + 1, 1000, false}, {1, 0, false}, {1, -1, false}};
    for (size_t i = 0; i < ARRAY_LEN(table); i++) {
        struct cache_op op;
        r.key[1] = (uint8_t)i;
        cr_assert_eq(cache_find(c, &r, 1, &op), PROGRESS_DONE);
        keep(c, op.lead, span_from(large, table[i].n), table[i].ttl_us, 1);
        cr_assert_eq(cache_find(c, &r, 2, &op), PROGRESS_DONE);
        cr_expect_eq(op.result == CACHE_HIT, table[i].kept, "row %zu", i);
        if (op.result == CACHE_HIT)
            cache_entry_drop(c, op.entry);
        else
            cache_drop(c, op.lead);
    }
    struct cache_stats s;
    cache_stats(c, &s);
    cr_expect_eq(s.kept, 1);
    cache_free(c);
    cache_free(NULL);
}

Test(cache, a_smaller_size_after_a_reload_evicts) {
    struct cache *c = cache_new(1 << 20);
    struct cache_rule r = rule_of(1);
    struct cache_op op;
    cr_assert_eq(cache_find(c, &r, 1, &op), PROGRESS_DONE);
    keep(c, op.lead, SPAN("x"), 1000, 1);
    cache_resize(c, 10);
    struct cache_stats s;
    cache_stats(c, &s);
    cr_expect(s.entries == 0 && s.bytes == 0 && s.evicted == 1);
    cache_free(c);
}
