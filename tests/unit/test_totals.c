#include "audit/totals.h"
#include "gateway/base/clock.h"
#include <criterion/criterion.h>

#define NOW INT64_C(1796040000000000)

struct seen {
    int64_t sum, oldest_us;
    int n;
};
static void see(struct span team, struct span key_id, int64_t admitted_us, int64_t nanousd, void *user) {
    struct seen *s = user;
    cr_assert(span_is(team, "a \"b\"") || team.n == 0);
    cr_assert(span_is(key_id, "k1") || span_is(key_id, "k2"));
    s->sum += nanousd;
    s->n++;
    s->oldest_us = s->n == 1 || admitted_us < s->oldest_us ? admitted_us : s->oldest_us;
}

static struct seen look(const struct totals *t) {
    struct seen s = {0};
    totals_each(t, see, &s);
    return s;
}

static void fill(struct totals *t) {
    totals_init(t);
    for (int i = 0; i < 200; i++)
        totals_add(t, SPAN("a \"b\""), SPAN("k1"), NOW - i * US_PER_HOUR * 12, 10);
    totals_add(t, SPAN_NONE, SPAN("k2"), NOW, 7);
    totals_add(t, SPAN_NONE, SPAN("k2"), NOW + 1, 7);
    totals_add(t, SPAN_NONE, SPAN("k2"), NOW, 0);
}

Test(totals, come_back_from_their_text) {
    struct totals t, again;
    struct str text;
    struct json root;
    struct json_fault fault;
    fill(&t);
    str_init(&text, 1 << 20);
    cr_assert(totals_put(&t, 1 << 20, &text));
    cr_assert(json_check(str_span(&text), 8, &root, &fault));
    totals_init(&again);
    cr_assert(totals_read(&again, root));
    cr_assert_eq(look(&again).n, 201);
    cr_assert_eq(look(&again).sum, 2014);
    cr_assert_eq(look(&again).oldest_us, look(&t).oldest_us);
    cr_assert(!totals_read(&again, (struct json){0}), "a head without totals has none");
    str_clear(&text);
    cr_assert(!totals_put(&t, 1000, &text), "too many are left out as a whole");
    cr_assert_eq(text.n, 0);
    totals_fini(&t);
    totals_fini(&again);
    str_fini(&text);
}

Test(totals, age_joins_what_no_open_period_can_hold_and_loses_nothing) {
    struct totals t;
    fill(&t);
    totals_age(&t, NOW);
    struct seen s = look(&t);
    cr_assert_eq(s.sum, 2014);
    cr_assert_lt(s.n, 75); /* 35 days of two entries, and the joined one */
    cr_assert_lt(s.oldest_us, NOW - 34 * US_PER_DAY);
    cr_assert_gt(s.oldest_us, NOW - 36 * US_PER_DAY);
    totals_fini(&t);
}
