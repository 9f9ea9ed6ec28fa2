#include "audit/segment.h"
#include "tests/support/chain_kit.h"
#include <criterion/criterion.h>
#include <unistd.h>

Test(segment, names_go_there_and_back) {
    static const struct {
        const char *name, *chain;
        int64_t number;
    } rows[] = {
        {"audit-node.0-20261130-000001.jsonl", "node.0", 1},
        {"audit-a-b-c.12-20261130-1000000.jsonl", "a-b-c.12", 1000000},
        {"audit-web-20250101-000002.3-20261130-000007.jsonl", "web-20250101-000002.3", 7},
        {"audit-node.0-2026113-000001.jsonl", NULL, 0},
        {"audit-node.0-20261130-00001.jsonl", NULL, 0},
        {"audit-node.0-20261130-000001.json", NULL, 0},
        {"audit--20261130-000001.jsonl", NULL, 0},
        {"audit-20261130-000001.jsonl", NULL, 0},
        {"audit-.hidden-20261130-000001.jsonl", NULL, 0},
        {"audit-no/de-20261130-000001.jsonl", NULL, 0},
        {"audit-node.0.lock", NULL, 0},
        {"", NULL, 0},
    };
    struct segment s;
    char name[SEGMENT_NAME_MAX];
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        cr_assert_eq(segment_parse(rows[i].name, &s), rows[i].chain != NULL, "%s", rows[i].name);
        if (!rows[i].chain)
            continue;
        cr_assert_str_eq(s.chain, rows[i].chain);
        cr_assert_eq(s.number, rows[i].number);
        segment_name(name, s.chain, KIT_NOW, s.number);
        cr_assert_str_eq(name, rows[i].name);
    }
}

Test(segment, lists_chains_in_order_and_nothing_that_is_not_ours) {
    static const char *const names[] = {"audit-b.0-20261130-000002.jsonl",
                                        "audit-a.0-20261201-1000000.jsonl",
                                        "audit-a.0-20261130-999999.jsonl",
                                        "audit-b.0-20261129-000001.jsonl",
                                        "notes.txt",
                                        "audit-a.0.lock"};
    struct kit k;
    struct segments all;
    kit_init(&k);
    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        kit_write(&k, names[i], "", 0);
    cr_assert(segments_list(k.directory, NULL, &all, &k.why));
    cr_assert_eq(all.n, 4);
    cr_assert_str_eq(all.all[0].name, names[2]);
    cr_assert_str_eq(all.all[1].name, names[1]);
    cr_assert_str_eq(all.all[2].name, names[3]);
    cr_assert_eq(segments_chain_end(&all, 0), 2);
    segments_free(&all);
    cr_assert(segments_list(k.directory, "b.0", &all, &k.why));
    cr_assert_eq(all.n, 2);
    segments_free(&all);
    kit_fini(&k);
}

Test(segment, a_lock_is_one_holders_until_it_lets_go) {
    struct kit k;
    int fd, other;
    kit_init(&k);
    cr_assert(!segment_is_locked(k.directory, "a.0"));
    cr_assert_eq(segment_lock(k.directory, "a.0", &fd), SEGMENT_LOCKED);
    cr_assert_eq(segment_lock(k.directory, "a.0", &other), SEGMENT_BUSY);
    cr_assert(segment_is_locked(k.directory, "a.0"));
    close(fd);
    cr_assert_eq(segment_lock(k.directory, "a.0", &fd), SEGMENT_LOCKED);
    close(fd);
    cr_assert_eq(segment_lock("/nowhere", "a.0", &fd), SEGMENT_LOCK_FAILED);
    kit_fini(&k);
}
