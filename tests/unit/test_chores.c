#include "gateway/base/clock.h"
#include "tests/support/chain_kit.h"
#include <criterion/criterion.h>
#include <stdio.h>
#include <unistd.h>

#define WAITS 20000

static void settle_down(struct kit *k, struct audit *a) {
    struct writer_marks marks = {0};
    audit_flush(a);
    for (int i = 0; i < WAITS && marks.durable_seq < a->seq; i++) {
        kit_turn(k);
        usleep(200);
        writer_marks(a->writer, &marks);
    }
    cr_assert_eq(marks.durable_seq, a->seq);
}

static void fill(struct audit *a, int from, int n, int64_t now_us) {
    for (int i = from; i < from + n; i++) {
        kit_admit(a, i, 1000, now_us);
        kit_settle(a, i, 7, now_us, now_us);
    }
}

/* Turns the loop until the thread's finds are taken. */
static void await_others(struct kit *k, struct audit *a) {
    for (int i = 0; i < WAITS && !a->others; i++) {
        kit_turn(k);
        usleep(200);
    }
    cr_assert(a->others);
}

Test(chores, a_chain_records_the_heads_of_the_others_and_their_loss_is_seen) {
    struct kit k;
    char name[256], path[512];
    size_t n;
    kit_init(&k);
    k.options.chain = "node.1";
    struct audit *other = kit_open(&k, KIT_NOW);
    fill(other, 0, 5, KIT_NOW);
    audit_close(other, KIT_NOW);
    k.options.chain = "node.0";
    k.options.records_others = true;
    k.options.head_every = 4;
    struct audit *a = kit_open(&k, KIT_NOW + 10 * US_PER_S);
    fill(a, 100, 4, KIT_NOW + 10 * US_PER_S);
    await_others(&k, a);
    fill(a, 200, 4, KIT_NOW + 10 * US_PER_S);
    audit_close(a, KIT_NOW + 10 * US_PER_S);
    struct audit_verdict v = kit_verify(&k);
    cr_assert(v.clean && v.chains == 2, "%s", v.fault.what);
    char *bytes = kit_read(&k, kit_segment(&k, 1, name), &n);
    kit_path(&k, name, path);
    char *last = memrchr(bytes, '\n', n - 1); /* the other chain loses its last head */
    kit_write(&k, name, bytes, (size_t)(last - bytes) + 1);
    v = kit_verify(&k);
    cr_assert(!v.clean && v.fault.wrong == AUDIT_TRUNCATED, "%s", v.fault.what);
    unlink(path);
    v = kit_verify(&k);
    cr_assert(!v.clean && v.fault.wrong == AUDIT_MISSING_CHAIN, "%s", v.fault.what);
    cr_assert(strstr(v.fault.file, "node.0"), "named where it is told");
    free(bytes);
    kit_fini(&k);
}

Test(chores, heads_reach_their_anchor_when_they_are_durable_and_prove_the_tail) {
    struct kit k;
    struct audit_verdict v;
    char anchor[300], name[256];
    size_t n, m;
    kit_init(&k);
    snprintf(anchor, sizeof anchor, "%s/heads", k.directory);
    const char *files[] = {anchor};
    k.options.anchors = files;
    k.options.n_anchors = 1;
    k.options.head_every = 5;
    struct audit *a = kit_open(&k, KIT_NOW);
    fill(a, 0, 20, KIT_NOW);
    settle_down(&k, a);
    audit_close(a, KIT_NOW);
    char *heads = kit_read(&k, "heads", &n), *bytes = kit_read(&k, kit_segment(&k, 0, name), &m);
    struct audit_check o = {.directory = k.directory, .anchored = span_from(heads, n)};
    cr_assert(audit_check(&o, &v, &k.why), "%s", k.why.at);
    cr_assert(v.clean && v.anchors >= 1, "%s", v.fault.what);
    char *last = memrchr(bytes, '\n', m - 1);
    cr_assert(memmem(heads, n, last + 1, (size_t)(bytes + m - last - 1)), "the last head is anchored at the close");
    kit_write(&k, name, bytes, (size_t)(last - bytes) + 1);
    cr_assert(audit_check(&o, &v, &k.why));
    cr_assert(!v.clean && v.fault.wrong == AUDIT_TRUNCATED, "%s", v.fault.what);
    free(heads);
    free(bytes);
    kit_fini(&k);
}

Test(chores, retention_removes_whole_old_files_and_the_chain_stays_provable) {
    struct kit k;
    char name[256];
    kit_init(&k);
    k.options.keep_us = 40 * US_PER_DAY;
    struct audit *a = kit_open(&k, KIT_NOW);
    for (int day = 0; day < 60; day += 10) {
        fill(a, day * 100, 3, KIT_NOW + day * US_PER_DAY);
        settle_down(&k, a);
    }
    cr_assert_eq(kit_segments(&k), 6, "nothing is old enough yet");
    kit_admit(a, 9000, 1000, KIT_NOW + 55 * US_PER_DAY); /* open for long */
    fill(a, 9100, 3, KIT_NOW + 70 * US_PER_DAY);
    for (int i = 0; i < WAITS && kit_segments(&k) > 5; i++) {
        settle_down(&k, a);
        chain_on_moved(a);
    }
    audit_close(a, KIT_NOW + 70 * US_PER_DAY);
    kit_segment(&k, 0, name);
    cr_assert(strstr(name, "-000003.jsonl") || strstr(name, "-000002.jsonl"), "%s", name);
    struct audit_verdict v = kit_verify(&k);
    cr_assert(v.clean, "%s", v.fault.what);
    cr_assert_gt(v.complete_from, 1);
    a = kit_open(&k, KIT_NOW + 70 * US_PER_DAY);
    cr_assert(a, "%s", k.why.at);
    cr_assert_eq(k.told_nanousd, 7 * 3 * 7 + 1000, "the totals outlive the files: %ld", (long)k.told_nanousd);
    audit_close(a, KIT_NOW + 70 * US_PER_DAY);
    char path[512];
    cr_assert_eq(unlink(kit_path(&k, name, path)), 0); /* one more than the record says */
    kit_segment(&k, 0, name);
    v = kit_verify(&k);
    cr_assert(!v.clean && v.fault.wrong == AUDIT_MISSING_FILE && strcmp(v.fault.file, name) == 0, "%s", v.fault.what);
    kit_fini(&k);
}

Test(chores, bodies_older_than_they_are_kept_are_removed_at_a_start) {
    static const char *const names[] = {"content-20261101-a-01234567.key", "content-20261101-a-01234567.sealed",
                                        "content-20261129-a-01234567.key"};
    struct kit k;
    char path[512];
    kit_init(&k);
    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        kit_write(&k, names[i], "x", 1);
    k.options.content_keep_us = 10 * US_PER_DAY;
    struct audit *a = kit_open(&k, KIT_NOW);
    for (int i = 0; i < WAITS && access(kit_path(&k, names[1], path), F_OK) == 0; i++)
        usleep(200);
    audit_close(a, KIT_NOW);
    cr_assert_neq(access(kit_path(&k, names[0], path), F_OK), 0);
    cr_assert_neq(access(kit_path(&k, names[1], path), F_OK), 0);
    cr_assert_eq(access(kit_path(&k, names[2], path), F_OK), 0, "a day that is young enough");
    kit_fini(&k);
}
