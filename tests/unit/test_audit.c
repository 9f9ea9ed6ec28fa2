#include "tests/support/chain_kit.h"
#include <criterion/criterion.h>
#include <errno.h>
#include <pthread.h>
#include <unistd.h>

Test(audit, a_chain_verifies_and_goes_on_after_a_restart) {
    struct kit k;
    kit_init(&k);
    uint64_t seq;
    char hash[SHA256_HEX_MAX], again[SHA256_HEX_MAX];
    for (int boot = 0; boot < 3; boot++) {
        struct audit *a = kit_open(&k, KIT_NOW);
        cr_assert(a, "%s", k.why.at);
        for (int i = 0; i < 20; i++) {
            cr_assert_gt(kit_admit(a, boot * 100 + i, 1000, KIT_NOW), 0);
            cr_assert_gt(kit_settle(a, boot * 100 + i, 7, KIT_NOW, KIT_NOW + 5), 0);
            audit_flush(a);
        }
        audit_close(a, KIT_NOW + 10);
        cr_assert_eq(k.told, boot * 20);
        cr_assert_eq(k.told_nanousd, boot * 140);
    }
    struct audit_verdict v = kit_verify(&k);
    cr_assert(v.clean, "%s line %ld: %s", v.fault.file, (long)v.fault.line, v.fault.what);
    cr_assert_eq(v.records, 3 * (1 + 40 + 2));
    cr_assert_eq(v.head_seq, v.records);
    cr_assert_eq(v.open_admits, 0);
    cr_assert_eq(v.unsealed, v.records); /* nothing is signed */
    struct audit *a = kit_open(&k, KIT_NOW + 20);
    audit_head(a, &seq, hash);
    cr_assert_eq(seq, v.records + 1);
    audit_head(a, &seq, again);
    cr_assert_str_eq(hash, again);
    audit_close(a, KIT_NOW + 20);
    kit_fini(&k);
}

Test(audit, two_processes_on_one_chain_would_fork_it) {
    struct kit k;
    kit_init(&k);
    struct audit *a = kit_open(&k, KIT_NOW);
    cr_assert(a);
    cr_assert_null(kit_open(&k, KIT_NOW));
    cr_assert(strstr(k.why.at, "another process is writing the chain node.0"));
    k.options.chain = "node.1";
    struct audit *other = kit_open(&k, KIT_NOW);
    cr_assert(other, "another chain in the same directory is fine: %s", k.why.at);
    audit_close(other, KIT_NOW);
    k.options.chain = "../up";
    cr_assert_null(kit_open(&k, KIT_NOW));
    audit_close(a, KIT_NOW);
    cr_assert_eq(kit_verify(&k).chains, 2);
    kit_fini(&k);
}

Test(audit, a_full_file_and_a_new_day_begin_a_file_whose_head_has_the_totals) {
    struct kit k;
    char name[256];
    size_t n;
    kit_init(&k);
    k.tuning.segment_max_bytes = 20000;
    struct audit *a = kit_open(&k, KIT_NOW);
    for (int i = 0; i < 60; i++) {
        kit_admit(a, i, 1000, KIT_NOW);
        kit_settle(a, i, 11, KIT_NOW, KIT_NOW);
    }
    kit_admit(a, 1000, 5, KIT_NOW + INT64_C(86400000000));
    audit_close(a, KIT_NOW + INT64_C(86400000000));
    cr_assert(kit_verify(&k).clean);
    cr_assert_gt(kit_segments(&k), 3);
    kit_segment(&k, kit_segments(&k) - 1, name);
    cr_assert(strstr(name, "-20261201-"), "%s", name);
    char *bytes = kit_read(&k, name, &n);
    cr_assert(strstr(bytes, "\"totals\":[[") && strstr(bytes, "\"totals\":[[") < strchr(bytes, '\n'));
    free(bytes);
    /* Old files are not needed for the money: only what is open is looked for further back. */
    for (size_t i = 0; i + 1 < kit_segments(&k); i++) {
        char path[512];
        unlink(kit_path(&k, kit_segment(&k, i, name), path));
        i--;
        if (kit_segments(&k) == 1)
            break;
    }
    a = kit_open(&k, KIT_NOW + INT64_C(86400000000));
    cr_assert(a, "%s", k.why.at);
    cr_assert_eq(k.told_nanousd, 60 * 11 + 5, "%ld", (long)k.told_nanousd);
    cr_assert_eq(k.told_recovered, 1);
    audit_close(a, KIT_NOW + INT64_C(86400000000));
    kit_fini(&k);
}

Test(audit, open_requests_are_settled_at_their_largest_hold) {
    struct kit k;
    char name[256];
    size_t n;
    kit_init(&k);
    k.tuning.segment_max_bytes = 3000; /* the admits lie several files back */
    struct audit *a = kit_open(&k, KIT_NOW);
    kit_admit(a, 1, 100, KIT_NOW);
    kit_admit(a, 2, 50, KIT_NOW);
    kit_hold(a, 1, 400, KIT_NOW);
    kit_hold(a, 1, 300, KIT_NOW);
    for (int i = 10; i < 30; i++) {
        kit_admit(a, i, 1, KIT_NOW);
        kit_settle(a, i, 1, KIT_NOW, KIT_NOW);
    }
    audit_close(a, KIT_NOW);
    cr_assert_eq(kit_verify(&k).open_admits, 2);
    a = kit_open(&k, KIT_NOW + 99);
    cr_assert_eq(k.told_recovered, 2);
    cr_assert_eq(k.told_nanousd, 20 + 400 + 50);
    audit_close(a, KIT_NOW + 99);
    struct audit_verdict v = kit_verify(&k);
    cr_assert(v.clean);
    cr_assert_eq(v.open_admits, 0);
    char *bytes = kit_read(&k, kit_segment(&k, kit_segments(&k) - 2, name), &n);
    (void)n;
    free(bytes);
    a = kit_open(&k, KIT_NOW + 100);
    cr_assert_eq(k.told_recovered, 0, "settled once, not at every start");
    cr_assert_eq(k.told_nanousd, 20 + 400 + 50);
    audit_close(a, KIT_NOW + 100);
    kit_fini(&k);
}

Test(audit, a_torn_end_is_cut_at_every_byte_and_said_in_a_record) {
    struct kit k;
    char name[256];
    size_t n, from;
    kit_init(&k);
    struct audit *a = kit_open(&k, KIT_NOW);
    kit_admit(a, 1, 100, KIT_NOW);
    kit_settle(a, 1, 3, KIT_NOW, KIT_NOW);
    audit_flush(a);
    audit_close(a, KIT_NOW);
    char *bytes = kit_read(&k, kit_segment(&k, 0, name), &n);
    from = n - 1;
    for (int lines = 0; lines < 2;)
        lines += bytes[--from] == '\n';
    for (size_t at = from + 1; at < n; at++) {
        kit_write(&k, name, bytes, at);
        bool whole = bytes[at - 1] == '\n';
        cr_assert_eq(kit_verify(&k).clean, whole);
        a = kit_open(&k, KIT_NOW);
        cr_assert(a, "cut at %zu: %s", at, k.why.at);
        audit_close(a, KIT_NOW);
        struct audit_verdict v = kit_verify(&k);
        cr_assert(v.clean, "cut at %zu: %s", at, v.fault.what);
        cr_assert_eq(k.told_nanousd, 3);
        size_t after;
        char *now = kit_read(&k, name, &after);
        cr_assert_eq(strstr(now, "\"what\":\"torn_line\"") != NULL, !whole);
        free(now);
    }
    free(bytes);
    kit_fini(&k);
}

Test(audit, a_chain_damaged_before_its_end_is_not_written_to) {
    struct kit k;
    char name[256];
    size_t n, after;
    kit_init(&k);
    struct audit *a = kit_open(&k, KIT_NOW);
    kit_admit(a, 1, 100, KIT_NOW);
    audit_close(a, KIT_NOW);
    char *bytes = kit_read(&k, kit_segment(&k, 0, name), &n);
    bytes[n / 2] ^= 1;
    kit_write(&k, name, bytes, n);
    cr_assert_null(kit_open(&k, KIT_NOW));
    cr_assert(strstr(k.why.at, "tollgate audit verify"), "%s", k.why.at);
    char *same = kit_read(&k, name, &after);
    cr_assert(after == n && memcmp(bytes, same, n) == 0);
    free(same);
    free(bytes);
    kit_fini(&k);
}

static int seen_wakes;
static void on_wake(struct waiter *w) {
    (void)w;
    seen_wakes++;
}

Test(audit, a_waiter_is_woken_from_the_loop_when_its_record_is_written) {
    struct kit k;
    kit_init(&k);
    k.options.sync_request = true;
    struct audit *a = kit_open(&k, KIT_NOW);
    struct audit_op op = {.waiter = {on_wake}, .seq = kit_admit(a, 1, 1, KIT_NOW)};
    struct audit_op gone = {.waiter = {on_wake}, .seq = op.seq};
    cr_assert_eq(audit_written(a, &op), PROGRESS_WAIT);
    cr_assert_eq(audit_written(a, &gone), PROGRESS_WAIT);
    cr_assert_eq(audit_lag(a), 1);
    audit_forget(a, &gone);
    audit_flush(a);
    while (!seen_wakes)
        kit_turn(&k);
    cr_assert_eq(seen_wakes, 1);
    cr_assert_eq(op.err, ERR_NONE);
    cr_assert_eq(audit_written(a, &op), PROGRESS_DONE);
    struct audit_op none = {.waiter = {on_wake}};
    cr_assert_eq(audit_written(a, &none), PROGRESS_DONE);
    cr_assert_eq(none.err, ERR_AUDIT);
    cr_assert_eq(audit_lag(a), 0);
    audit_close(a, KIT_NOW);
    kit_fini(&k);
}

Test(audit, a_price_stands_once_in_each_file_that_needs_it) {
    struct kit k;
    kit_init(&k);
    k.tuning.segment_max_bytes = 8000;
    struct price row = {.in = 150000, .out = 600000, .known = true, .digest = "0123456789abcdef", .source = "list"};
    struct audit_record r = {.kind = AUDIT_PRICE, .model = "gpt", .target = "openai/gpt", .price = &row};
    struct audit *a = kit_open(&k, KIT_NOW);
    audit_add(a, &r, KIT_NOW);
    audit_add(a, &r, KIT_NOW);
    for (int i = 0; i < 30; i++) {
        kit_admit(a, i, 1, KIT_NOW);
        kit_settle(a, i, 1, KIT_NOW, KIT_NOW);
    }
    audit_close(a, KIT_NOW);
    cr_assert_gt(kit_segments(&k), 2);
    for (size_t i = 0; i < kit_segments(&k); i++) {
        char name[256];
        size_t n, rows = 0, settles = 0;
        char *bytes = kit_read(&k, kit_segment(&k, i, name), &n);
        for (const char *at = bytes; (at = strstr(at, "\"kind\":\"price\"")); at++)
            rows++;
        for (const char *at = bytes; (at = strstr(at, "\"kind\":\"settle\"")); at++)
            settles++;
        cr_assert_eq(rows, settles ? 1 : rows, "%s", name);
        cr_assert_leq(rows, 1);
        free(bytes);
    }
    kit_fini(&k);
}

Test(audit, a_node_that_changed_its_name_does_not_forget_what_was_spent) {
    struct kit k;
    kit_init(&k);
    struct audit *a = kit_open(&k, KIT_NOW);
    kit_admit(a, 1, 1000, KIT_NOW);
    kit_settle(a, 1, 30, KIT_NOW, KIT_NOW);
    kit_admit(a, 2, 500, KIT_NOW);
    audit_close(a, KIT_NOW);
    k.options.chain = "other.0";
    a = kit_open(&k, KIT_NOW);
    cr_assert_eq(k.told_nanousd, 530);
    cr_assert_eq(k.told_recovered, 1);
    audit_close(a, KIT_NOW);
    uint64_t records = kit_verify(&k).records;
    a = kit_open(&k, KIT_NOW);
    cr_assert_eq(k.told_nanousd, 530);
    cr_assert_eq(k.told_recovered, 0);
    audit_close(a, KIT_NOW);
    struct audit_verdict v = kit_verify(&k);
    cr_assert(v.clean && v.chains == 2 && v.open_admits == 0, "%s", v.fault.what);
    cr_assert_eq(v.records, records + 3, "a finished chain is only read");
    kit_fini(&k);
}
