/* Warnings and refusals of a budget that processes share are told once, by one of them, with the numbers of all. */
#include "tests/support/ledger_kit.h"

#include <criterion/criterion.h>

TestSuite(redis_news, .init = kit_begin, .fini = kit_end);

struct heard {
    int n[BUDGET_EVENT_N];
    struct budget_news last;
};

static void hear(const struct budget_news *n, void *user) {
    struct heard *h = user;
    h->n[n->event]++;
    h->last = *n;
}

static void start(struct process *p, const char *log, struct heard *h) {
    static int64_t warn[] = {FACTOR_ONE / 2, FACTOR_ONE * 8 / 10};
    process_start(p, log, WHEN_DOWN_REFUSE);
    house_limit(&p->h, LEVEL_TEAM, 100);
    p->h.team_budget.n_warn = 2;
    p->h.team_budget.warn = warn;
    budget_watch(p->h.b, hear, h);
    process_ready(p);
}

Test(redis_news, each_share_and_the_first_refusal_are_told_once_over_all_processes) {
    struct process p, q;
    struct heard of_p = {0}, of_q = {0};
    struct hold_op a = {0}, b = {0}, c = {0};
    start(&p, "one", &of_p);
    start(&q, "two", &of_q);
    cr_assert_eq(process_hold(&p, 0, "a", 40, &a), ERR_NONE);
    cr_assert_eq(of_p.n[BUDGET_WARN] + of_q.n[BUDGET_WARN], 0);
    cr_assert_eq(process_hold(&q, 1, "b", 15, &b), ERR_NONE);
    cr_assert(of_q.n[BUDGET_WARN] == 1 && of_q.last.held_nanousd == 55 && of_q.last.share == FACTOR_ONE / 2);
    cr_assert_str_eq(of_q.last.name, "team/search/month@UTC");
    cr_assert_str_eq(of_q.last.scope, "search");
    cr_assert_eq(process_hold(&p, 0, "c", 1, &c), ERR_NONE);
    cr_assert_eq(of_p.n[BUDGET_WARN], 0, "the other one told it");
    process_settle(&p, &c.lease, 0);
    cr_assert_eq(process_hold(&p, 0, "d", 46, &c), ERR_BUDGET);
    cr_assert_eq(process_hold(&q, 0, "e", 46, &c), ERR_BUDGET);
    cr_assert(of_p.n[BUDGET_LIMIT] == 1 && of_q.n[BUDGET_LIMIT] == 0);
    process_settle(&q, &b.lease, 44);
    cr_assert(of_q.n[BUDGET_OVERRUN] == 1 && of_q.last.over_nanousd == 29 && of_q.last.limit_nanousd == 100);
    process_settle(&p, &a.lease, 40);
    cr_assert_eq(process_hold(&p, 0, "f", 1, &c), ERR_NONE);
    cr_assert(of_p.n[BUDGET_WARN] == 1 && of_p.last.share == FACTOR_ONE * 8 / 10);
    cr_assert_eq(c.passed[LEVEL_TEAM], FACTOR_ONE * 8 / 10);
    process_stop(&p);
    process_stop(&q);
}

/* Passed by a hold alone, which no log settles; and after Redis has lost its marks. */
Test(redis_news, nothing_is_told_again_by_a_successor_or_after_a_loss) {
    struct process p, q;
    struct heard of_p = {0}, of_q = {0};
    struct hold_op a = {0}, b = {0};
    start(&p, "one", &of_p);
    start(&q, "two", &of_q);
    cr_assert_eq(process_hold(&p, 0, "a", 90, &a), ERR_NONE);
    cr_assert_eq(process_hold(&p, 0, "b", 11, &b), ERR_BUDGET);
    cr_assert(of_p.n[BUDGET_WARN] == 1 && of_p.n[BUDGET_LIMIT] == 1);
    process_settle(&p, &a.lease, 0);
    process_stop(&q);
    start(&q, "two", &of_q);
    cr_assert_eq(process_hold(&q, 0, "c", 90, &a), ERR_NONE);
    cr_assert_eq(process_hold(&q, 0, "d", 11, &b), ERR_BUDGET);
    process_settle(&q, &a.lease, 0);
    process_stop(&q);
    sync_redis_ask(&p.s, "FLUSHALL");
    kit_pass(US_PER_S, &p, NULL);
    start(&q, "two", &of_q);
    kit_pass(4 * US_PER_S, &p, &q);
    cr_assert_eq(process_hold(&q, 0, "e", 90, &a), ERR_NONE);
    cr_assert_eq(process_hold(&q, 0, "f", 11, &b), ERR_BUDGET);
    cr_assert(of_q.n[BUDGET_WARN] == 0 && of_q.n[BUDGET_LIMIT] == 0);
    cr_assert(of_p.n[BUDGET_WARN] == 1 && of_p.n[BUDGET_LIMIT] == 1);
    process_stop(&p);
    process_stop(&q);
}

Test(redis_news, a_share_whose_mark_was_not_answered_is_told_by_the_next_hold) {
    struct process p;
    struct heard heard = {0};
    struct hold_op a = {0};
    start(&p, "one", &heard);
    budget_watch(p.h.b, hear, &heard);
    cr_assert_eq(process_hold(&p, 0, "a", 40, &a), ERR_NONE);
    sync_redis_ask(&p.s, "HSET tg:{money}:a:team/search/month@UTC/1793491200 w x"); /* what the script cannot compare */
    cr_assert_eq(process_hold(&p, 0, "b", 10, &a), ERR_NONE);
    cr_assert_eq(heard.n[BUDGET_WARN], 0);
    sync_redis_ask(&p.s, "HDEL tg:{money}:a:team/search/month@UTC/1793491200 w");
    cr_assert_eq(process_hold(&p, 0, "c", 1, &a), ERR_NONE);
    cr_assert_eq(heard.n[BUDGET_WARN], 1);
    process_stop(&p);
}
