/* For ThreadSanitizer: a loop that adds, waits and forgets, against the writer's thread, small files, a disk that refuses
 * now and then. Prints one line and ends with 0 when every waiter was told once and the chain verifies. */
#include "audit/chain.h"
#include "gateway/base/clock.h"
#include "gateway/base/log.h"
#include "tests/support/chain_kit.h"
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define ROUNDS 150
#define OPS 8

static atomic_uint calls; /* of both threads of the writer */

static ssize_t moody_pwrite(int fd, const void *bytes, size_t n, off_t at) {
    unsigned call = atomic_fetch_add(&calls, 1) + 1;
    if (call % 37 == 0) {
        errno = ENOSPC;
        return -1;
    }
    return pwrite(fd, bytes, call % 5 == 0 && n > 100 ? 100 : n, at);
}

static int moody_fdatasync(int fd) {
    if (atomic_fetch_add(&calls, 1) % 41 == 0) {
        errno = EIO;
        return -1;
    }
    return fdatasync(fd);
}

static const struct writer_calls moody = {moody_pwrite, moody_fdatasync};

static int told, waiting;
static void on_told(struct waiter *w) {
    (void)w;
    told++;
    waiting--;
}

static void add_one(struct audit *a, struct audit_op *op, int number) {
    int64_t now = clock_wall_us();
    op->waiter.wake = on_told;
    op->seq = kit_admit(a, number, 1000, now);
    if (number % 3)
        (void)kit_settle(a, number, 7, now, now);
    if (audit_written(a, op) == PROGRESS_WAIT)
        waiting++;
    if (number % 7 == 0 && op->seq && audit_lag(a) > 0 && op->err == ERR_NONE)
        (void)audit_healthy(a);
}

static void run(struct kit *k, bool sync_request) {
    struct audit_op ops[OPS];
    k->options.sync_request = sync_request;
    struct audit *a = kit_open(k, clock_wall_us());
    for (int tries = 0; !a && tries < 10; tries++) /* the disk refused the very start */
        a = kit_open(k, clock_wall_us());
    if (!a) {
        fprintf(stderr, "%s\n", k->why.at);
        exit(1);
    }
    for (int round = 0; round < ROUNDS; round++) {
        memset(ops, 0, sizeof ops);
        for (int i = 0; i < OPS; i++)
            add_one(a, &ops[i], round * OPS + i);
        audit_flush(a);
        while (waiting)
            kit_turn(k);
    }
    audit_close(a, clock_wall_us());
}

int main(void) {
    struct kit k;
    kit_init(&k);
    log_setup(LOG_ERROR, LOG_JSON);
    k.tuning.calls = &moody;
    k.tuning.retry_us = 200;
    k.tuning.segment_max_bytes = 50000;
    k.options.head_interval_us = 2000;
    run(&k, false);
    run(&k, true);
    struct audit_verdict v = kit_verify(&k);
    printf("race_audit: %llu records, %d waiters told, %s\n", (unsigned long long)v.records, told,
           v.clean ? "clean" : v.fault.what);
    kit_fini(&k);
    return v.clean ? 0 : 1;
}
