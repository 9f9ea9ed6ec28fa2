#include "audit/writer.h"
#include "gateway/base/log.h"
#include "tests/support/chain_kit.h"
#include <criterion/criterion.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* A disk that does what the test says. Each write takes at most `short_bytes`; errors last until they are taken back; a
 * disk that is held answers nothing until it is let go. */
static struct {
    pthread_mutex_t lock;
    pthread_cond_t let_go;
    int write_error, sync_error, interrupts;
    size_t short_bytes;
    bool hold_writes, hold_syncs;
    int writes, syncs;
} disk = {.lock = PTHREAD_MUTEX_INITIALIZER, .let_go = PTHREAD_COND_INITIALIZER};

static void disk_says(int write_error, int sync_error, size_t short_bytes) {
    pthread_mutex_lock(&disk.lock);
    disk.write_error = write_error;
    disk.sync_error = sync_error;
    disk.short_bytes = short_bytes;
    pthread_mutex_unlock(&disk.lock);
}

static void disk_holds(bool writes, bool syncs) {
    pthread_mutex_lock(&disk.lock);
    disk.hold_writes = writes;
    disk.hold_syncs = syncs;
    pthread_cond_broadcast(&disk.let_go);
    pthread_mutex_unlock(&disk.lock);
}

static int disk_count(const int *what) {
    pthread_mutex_lock(&disk.lock);
    int n = *what;
    pthread_mutex_unlock(&disk.lock);
    return n;
}

static ssize_t bad_pwrite(int fd, const void *bytes, size_t n, off_t at) {
    pthread_mutex_lock(&disk.lock);
    disk.writes++;
    while (disk.hold_writes)
        pthread_cond_wait(&disk.let_go, &disk.lock);
    int error = disk.interrupts > 0 ? EINTR : disk.write_error;
    size_t most = disk.short_bytes;
    disk.interrupts -= error == EINTR;
    pthread_mutex_unlock(&disk.lock);
    if (most && n > most && error != EINTR)
        n = most;
    else if (error) { /* a full disk takes some bytes first */
        errno = error;
        return -1;
    }
    return pwrite(fd, bytes, n, at);
}

static int bad_fdatasync(int fd) {
    pthread_mutex_lock(&disk.lock);
    disk.syncs++;
    while (disk.hold_syncs)
        pthread_cond_wait(&disk.let_go, &disk.lock);
    int error = disk.interrupts > 0 ? EINTR : disk.sync_error;
    disk.interrupts -= error == EINTR;
    pthread_mutex_unlock(&disk.lock);
    errno = error;
    return error ? -1 : fdatasync(fd);
}

static const struct writer_calls bad_disk = {bad_pwrite, bad_fdatasync};

static struct audit *open_on_bad_disk(struct kit *k) {
    kit_init(k);
    k->tuning.calls = &bad_disk;
    k->tuning.retry_us = 1000;
    k->tuning.patience_us = 200000;
    struct audit *a = kit_open(k, KIT_NOW);
    cr_assert(a, "%s", k->why.at);
    log_setup(LOG_ERROR, LOG_TEXT);
    return a;
}

static void await_health(struct kit *k, struct audit *a, bool healthy) {
    for (int i = 0; i < 20000 && audit_healthy(a) != healthy; i++) {
        kit_turn(k);
        usleep(200);
    }
    cr_assert_eq(audit_healthy(a), healthy);
}

static void await_written(struct kit *k, struct audit *a) {
    audit_flush(a);
    for (int i = 0; i < 20000 && audit_lag(a) > 0; i++) {
        kit_turn(k);
        usleep(200);
    }
    cr_assert_eq(audit_lag(a), 0);
}

static void await_durable(struct kit *k, struct audit *a) {
    struct writer_marks marks = {0};
    audit_flush(a);
    for (int i = 0; i < 20000 && marks.durable_seq < a->seq; i++) {
        kit_turn(k);
        usleep(200);
        writer_marks(a->writer, &marks);
    }
    cr_assert_eq(marks.durable_seq, a->seq);
    cr_assert_eq(marks.queued_bytes, 0);
}

Test(writer, short_and_interrupted_writes_are_gone_on_with) {
    struct kit k;
    struct audit *a = open_on_bad_disk(&k);
    disk_says(0, 0, 7);
    disk.interrupts = 5;
    for (int i = 0; i < 20; i++)
        kit_admit(a, i, 1, KIT_NOW);
    await_written(&k, a);
    cr_assert_gt(disk.writes, 100);
    disk_says(0, 0, 0);
    audit_close(a, KIT_NOW);
    cr_assert(kit_verify(&k).clean);
    kit_fini(&k);
}

static int wakes;
static void on_wake(struct waiter *w) {
    (void)w;
    wakes++;
}

static void fails_and_recovers(int write_error, int sync_error) {
    struct kit k;
    struct audit *a = open_on_bad_disk(&k);
    kit_admit(a, 1, 100, KIT_NOW);
    await_written(&k, a);
    disk_says(write_error, sync_error, write_error ? 100 : 0);
    if (write_error)
        disk_says(write_error, 0, 0);
    struct audit_op op = {.waiter = {on_wake}, .seq = kit_admit(a, 2, 100, KIT_NOW)};
    cr_assert_gt(op.seq, 0);
    audit_flush(a);
    bool waits = audit_written(a, &op) == PROGRESS_WAIT;
    await_health(&k, a, false);
    for (int i = 0; i < 20000 && waits && !wakes; i++) {
        kit_turn(&k);
        usleep(200);
    }
    cr_assert_eq(wakes, waits ? 1 : 0);
    cr_assert(op.err == ERR_AUDIT || sync_error, "who waits for a disk that refuses is told");
    cr_assert_eq(kit_admit(a, 3, 100, KIT_NOW), 0, "new calls are refused");
    cr_assert_eq(kit_admit(a, 4, 100, KIT_NOW), 0);
    cr_assert_gt(kit_settle(a, 1, 5, KIT_NOW, KIT_NOW), 0, "what ends a call that is in the log stays queued");
    audit_flush(a);
    disk_says(0, 0, 0);
    await_health(&k, a, true);
    cr_assert_gt(kit_admit(a, 5, 100, KIT_NOW), 0);
    await_written(&k, a);
    audit_close(a, KIT_NOW);
    struct audit_verdict v = kit_verify(&k);
    cr_assert(v.clean, "%s", v.fault.what);
    cr_assert_eq(v.open_admits, 2);
    char name[256];
    size_t n;
    char *bytes = kit_read(&k, kit_segment(&k, 0, name), &n);
    cr_assert(strstr(bytes, "\"what\":\"turned_away\"") && strstr(bytes, " 2 admit\""), "never a silent loss");
    cr_assert_null(strstr(bytes, "req_00000003"));
    free(bytes);
    kit_fini(&k);
}

Test(writer, a_full_disk_refuses_new_calls_and_loses_nothing) {
    fails_and_recovers(ENOSPC, 0);
}

Test(writer, an_input_output_error_refuses_new_calls_and_loses_nothing) {
    fails_and_recovers(EIO, 0);
}

Test(writer, a_failed_fdatasync_writes_again_what_was_not_durable) {
    fails_and_recovers(0, EIO);
}

Test(writer, a_half_written_line_on_a_full_disk_is_finished_later_in_place) {
    struct kit k;
    struct audit *a = open_on_bad_disk(&k);
    uint64_t seq = kit_admit(a, 1, 1, KIT_NOW);
    disk_says(ENOSPC, 0, 200); /* writes of 200 bytes go through, the rest of the line does not */
    audit_flush(a);
    await_health(&k, a, false);
    cr_assert(!kit_verify(&k).clean || audit_lag(a) > 0);
    disk_says(0, 0, 0);
    await_health(&k, a, true);
    await_written(&k, a);
    audit_close(a, KIT_NOW);
    struct audit_verdict v = kit_verify(&k);
    cr_assert(v.clean, "%s", v.fault.what);
    cr_assert_gt(v.head_seq, seq);
    kit_fini(&k);
}

/* A file that is taken away takes every write without an error: nothing would be in the directory, and nobody would know.
 * `cut`: it is emptied in its place, as a rotation of logs does that copies first. */
static void taken_away(bool cut) {
    struct kit k;
    char name[256], path[512], aside[512];
    size_t n;
    struct audit *a = open_on_bad_disk(&k);
    kit_admit(a, 1, 100, KIT_NOW);
    await_durable(&k, a); /* what is not durable would be written once more */
    kit_path(&k, kit_segment(&k, 0, name), path);
    kit_path(&k, "aside", aside);
    audit_flush(a);
    char *bytes = kit_read(&k, name, &n);
    cr_assert_eq(cut ? truncate(path, 0) : rename(path, aside), 0);
    cr_assert_gt(kit_settle(a, 1, 5, KIT_NOW, KIT_NOW), 0);
    audit_flush(a);
    await_health(&k, a, false);
    cr_assert_eq(kit_admit(a, 2, 100, KIT_NOW), 0, "new calls are refused");
    if (cut)
        kit_write(&k, name, bytes, n);
    else
        cr_assert_eq(rename(aside, path), 0);
    await_health(&k, a, true);
    cr_assert_gt(kit_admit(a, 3, 100, KIT_NOW), 0);
    await_written(&k, a);
    audit_close(a, KIT_NOW);
    struct audit_verdict v = kit_verify(&k);
    cr_assert(v.clean, "%s", v.fault.what);
    free(bytes);
    kit_fini(&k);
}

Test(writer, a_file_that_is_removed_under_the_gateway_is_missed_and_gone_on_with_when_it_is_back) {
    taken_away(false);
}

Test(writer, a_file_that_is_cut_under_the_gateway_is_missed_and_gone_on_with_when_it_is_back) {
    taken_away(true);
}

Test(writer, a_slow_disk_does_not_hold_the_loop) {
    struct kit k;
    struct audit *a = open_on_bad_disk(&k);
    await_durable(&k, a);
    disk_holds(true, false);
    int before = disk_count(&disk.writes);
    for (int i = 0; i < 200; i++) {
        cr_assert_gt(kit_admit(a, i, 1, KIT_NOW), 0);
        audit_flush(a);
    }
    cr_assert_leq(disk_count(&disk.writes) - before, 1, "the loop was through before the disk was");
    cr_assert_eq(audit_lag(a), 200, "a slow disk shows as lag");
    disk_holds(false, false);
    audit_close(a, KIT_NOW);
    cr_assert(kit_verify(&k).clean);
    kit_fini(&k);
}

Test(writer, a_slow_fdatasync_does_not_hold_the_writes_of_calls_that_did_not_ask_for_it) {
    struct kit k;
    struct audit *a = open_on_bad_disk(&k);
    await_durable(&k, a);
    disk_holds(false, true);
    int before = disk_count(&disk.syncs);
    kit_admit(a, 0, 1, KIT_NOW);
    await_written(&k, a);
    while (disk_count(&disk.syncs) == before) /* the sync has begun and does not end */
        usleep(100);
    for (int i = 1; i < 20; i++) {
        kit_admit(a, i, 1, KIT_NOW);
        await_written(&k, a);
    }
    cr_assert_eq(disk_count(&disk.syncs), before + 1);
    disk_holds(false, false);
    await_durable(&k, a);
    audit_close(a, KIT_NOW);
    cr_assert(kit_verify(&k).clean);
    kit_fini(&k);
}

Test(writer, files_that_are_left_behind_a_slow_fdatasync_become_durable_in_their_order) {
    struct kit k;
    kit_init(&k);
    k.tuning.calls = &bad_disk;
    k.tuning.segment_max_bytes = 4000;
    struct audit *a = kit_open(&k, KIT_NOW);
    await_durable(&k, a);
    disk_holds(false, true);
    for (int i = 0; i < 40; i++) {
        kit_admit(a, i, 1, KIT_NOW);
        await_written(&k, a);
    }
    cr_assert_gt(kit_segments(&k), 3);
    disk_says(0, EIO, 0); /* and the first sync fails: all files are written once more */
    disk_holds(false, false);
    await_health(&k, a, false);
    disk_says(0, 0, 0);
    await_health(&k, a, true);
    await_durable(&k, a);
    audit_close(a, KIT_NOW);
    struct audit_verdict v = kit_verify(&k);
    cr_assert(v.clean, "%s", v.fault.what);
    kit_fini(&k);
}

Test(writer, a_disk_that_does_not_answer_refuses_new_calls_and_tells_who_waits) {
    struct kit k;
    kit_init(&k);
    k.tuning.calls = &bad_disk;
    k.tuning.stall_us = 200000; /* longer than this disk needs for the start */
    k.options.sync_request = true;
    struct audit *a = kit_open(&k, KIT_NOW);
    cr_assert(a, "%s", k.why.at);
    disk_holds(false, true);
    struct audit_op op = {.waiter = {on_wake}, .seq = kit_admit(a, 1, 100, KIT_NOW)};
    audit_flush(a);
    cr_assert_eq(audit_written(a, &op), PROGRESS_WAIT);
    await_health(&k, a, false);
    audit_flush(a); /* the next turn */
    cr_assert_eq(wakes, 1);
    cr_assert_eq(op.err, ERR_AUDIT);
    cr_assert_eq(kit_admit(a, 2, 100, KIT_NOW), 0);
    disk_holds(false, false);
    await_health(&k, a, true);
    cr_assert_gt(kit_admit(a, 3, 100, KIT_NOW), 0);
    audit_close(a, KIT_NOW);
    cr_assert(kit_verify(&k).clean);
    kit_fini(&k);
}

Test(writer, a_queue_that_is_full_refuses_by_bound) {
    struct kit k;
    kit_init(&k);
    k.tuning.calls = &bad_disk;
    k.tuning.queue_max_bytes = 20000;
    struct audit *a = kit_open(&k, KIT_NOW);
    cr_assert(a);
    disk_holds(true, false);
    int taken = 0;
    while (taken < 1000 && kit_admit(a, taken, 1, KIT_NOW))
        taken++;
    cr_assert_lt(taken, 60);
    cr_assert_gt(kit_settle(a, 0, 1, KIT_NOW, KIT_NOW), 0, "settles have room of their own");
    int settles = 0;
    while (settles < 1000 && kit_settle(a, settles, 1, KIT_NOW, KIT_NOW))
        settles++;
    cr_assert_lt(settles, 60, "which is bounded too");
    disk_holds(false, false);
    audit_close(a, KIT_NOW);
    cr_assert(kit_verify(&k).clean);
    kit_fini(&k);
}

Test(writer, a_log_that_cannot_be_written_at_the_start_is_told_in_a_sentence) {
    struct kit k;
    kit_init(&k);
    k.tuning.calls = &bad_disk;
    k.tuning.patience_us = 1000000;
    disk_says(ENOSPC, 0, 0);
    cr_assert_null(kit_open(&k, KIT_NOW));
    cr_assert(strstr(k.why.at, "cannot write the audit log") && strstr(k.why.at, "No space left"), "%s", k.why.at);
    disk_says(0, 0, 0);
    k.options.directory = "/proc/nothing/here";
    cr_assert_null(kit_open(&k, KIT_NOW));
    cr_assert(strstr(k.why.at, "cannot make the directory"), "%s", k.why.at);
    kit_fini(&k);
}

Test(writer, requests_that_wait_together_share_one_fdatasync) {
    struct kit k;
    kit_init(&k);
    k.tuning.calls = &bad_disk;
    k.options.sync_request = true;
    struct audit *a = kit_open(&k, KIT_NOW);
    int before = disk_count(&disk.syncs);
    for (int i = 0; i < 100; i++)
        kit_admit(a, i, 1, KIT_NOW);
    await_written(&k, a);
    cr_assert_leq(disk_count(&disk.syncs) - before, 2);
    audit_close(a, KIT_NOW);
    kit_fini(&k);
}
