/* See ledger_kit.h. */
#include "tests/support/ledger_kit.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

struct kit kit;

void kit_begin(void) {
    kit.now_us = HOUSE_NOW_US;
    real_redis_begin(&kit.redis, NULL);
}

void kit_end(void) {
    real_redis_end(&kit.redis);
}

void process_start(struct process *p, const char *log, enum conf_when_down when_down) {
    *p = (struct process){.log = log};
    house_init(&p->h);
    sync_redis_open(&p->s, kit.redis.socket, "tg:");
    budget_use_redis(
        p->h.b, &p->s.redis,
        &(struct budget_redis){.log = log, .timeout_us = 50 * US_PER_MS, .when_down = when_down, .now_us = kit.now_us});
}

void process_tick(struct process *p) {
    if (!p)
        return;
    budget_tick(p->h.b, kit.now_us);
    sync_redis_pump(&p->s);
}

void kit_pass(int64_t us, struct process *p, struct process *q) {
    for (int64_t until = kit.now_us + us; kit.now_us < until;) {
        kit.now_us += US_PER_S;
        process_tick(p);
        process_tick(q);
    }
}

/* A Redis that nobody knows is closed for one lease. */
void process_ready(struct process *p) {
    process_tick(p);
    kit_pass(4 * US_PER_S, p, NULL);
    assert(budget_ready(p->h.b));
}

void process_stop(struct process *p) {
    house_fini(&p->h);
    sync_redis_close(&p->s);
}

static void on_wake(struct waiter *w) {
    struct hold_op *op = (struct hold_op *)(void *)((char *)w - offsetof(struct hold_op, waiter));
    op->waited_us = -1; /* seen below: woken once */
}

static void wait_for(struct process *p, struct hold_op *op, enum progress progress) {
    if (progress == PROGRESS_DONE)
        return;
    sync_redis_pump(&p->s);
    assert(op->waited_us == -1); /* or nobody was woken */
    op->waited_us = 0;
}

enum err process_hold(struct process *p, int key, const char *id, int64_t nanousd, struct hold_op *op) {
    *op = (struct hold_op){.waiter.wake = on_wake};
    wait_for(p, op, budget_hold(p->h.b, &p->h.conf, &p->h.keys[key], id, &p->h.price, nanousd, kit.now_us, op));
    return op->err;
}

enum err process_raise(struct process *p, int key, struct hold_op *op, int64_t nanousd) {
    op->waiter.wake = on_wake;
    wait_for(p, op, budget_raise(p->h.b, &p->h.conf, &p->h.keys[key], &op->lease, nanousd, kit.now_us, op));
    return op->err;
}

void process_settle(struct process *p, struct lease *lease, int64_t nanousd) {
    (void)budget_settle(p->h.b, lease, nanousd);
    sync_redis_pump(&p->s);
}

int64_t kit_account(struct process *p, const char *owner, const char *field) {
    int64_t from_us, to_us;
    zone_period(zone_get("UTC"), PERIOD_MONTH, kit.now_us, &from_us, &to_us);
    return strtoll(
        sync_redis_ask(&p->s, "HGET tg:{money}:a:%s/month@UTC/%lld %s", owner, (long long)(from_us / US_PER_S), field),
        NULL, 10);
}
