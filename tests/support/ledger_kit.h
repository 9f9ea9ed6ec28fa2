/* Processes that share budgets over one real Redis, inside one test: each has a conf, a ledger and a connection of its own,
 * and time is a number. */
#ifndef TOLLGATE_TESTS_LEDGER_KIT_H
#define TOLLGATE_TESTS_LEDGER_KIT_H

#include "gateway/base/clock.h"
#include "tests/support/budget_house.h"
#include "tests/support/real_redis.h"
#include "tests/support/sync_redis.h"

struct process {
    struct budget_house h;
    struct sync_redis s;
    const char *log;
    bool woken;
};

struct kit {
    struct real_redis redis;
    int64_t now_us;
};

extern struct kit kit;

void kit_begin(void);
void kit_end(void);
void process_start(struct process *p, const char *log, enum conf_when_down when_down);
void process_ready(struct process *p); /* connected, and everything told */
void process_stop(struct process *p);  /* as kill -9 does: nothing more is told */
enum err process_hold(struct process *p, int key, const char *id, int64_t nanousd, struct hold_op *op);
enum err process_raise(struct process *p, int key, struct hold_op *op, int64_t nanousd);
void process_settle(struct process *p, struct lease *lease, int64_t nanousd);
void process_tick(struct process *p);
/* Time passes in steps of a second; the processes, NULL-ended, tick in each. */
void kit_pass(int64_t us, struct process *p, struct process *q);
/* An amount of a level's budget by the month, as Redis has it: "s", "h", "p", "k". */
int64_t kit_account(struct process *p, const char *owner, const char *field);

#endif
