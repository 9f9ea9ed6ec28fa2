/* Blocks: each in one place, found again by their key, taken back in order of age, all there at the end. */
#include "backends/decode/kv.h"

#include <criterion/criterion.h>

#define TOK 96

static void ids_fill(int32_t *ids, int32_t from) {
    for (int32_t i = 0; i < TOK; i++)
        ids[i] = from + i;
}

static void run(struct kv_pool *p, struct kv_seq *s, const uint8_t *root, const int32_t *ids, int64_t n,
                int64_t found) {
    cr_expect_eq(kv_begin(p, s, root, ids, n), found);
    cr_assert(kv_grow(p, s, n));
    kv_keep(p, s, ids, n);
}

Test(kv, what_begins_alike_is_found_whole_blocks_only_and_never_all_of_it) {
    struct kv_pool p;
    struct kv_seq a, b, c;
    uint8_t root[SHA256_BYTES];
    int32_t ids[TOK], other[TOK];
    kv_init(&p, 12, true);
    kv_root(SPAN("team"), NULL, root);
    ids_fill(ids, 0);
    ids_fill(other, 0);
    other[20] = 7777;
    run(&p, &a, root, ids, 40, 0);
    run(&p, &b, root, ids, 40, 32);
    cr_expect(b.blocks[0] == a.blocks[0] && b.blocks[1] == a.blocks[1] && b.blocks[2] != a.blocks[2]);
    run(&p, &c, root, other, 40, 16);
    cr_expect(c.blocks[0] == a.blocks[0] && c.blocks[1] != a.blocks[1]);
    kv_drop(&p, &c);
    run(&p, &c, root, ids, 32, 16); /* the last token has to be computed */
    kv_drop(&p, &a);
    kv_drop(&p, &a);
    kv_drop(&p, &b);
    kv_drop(&p, &c);
    cr_expect_eq(kv_room(&p), 12);
    run(&p, &a, root, ids, 48, 32); /* kept although nobody used it */
    kv_drop(&p, &a);
    kv_fini(&p);
}

Test(kv, another_scope_or_another_adapter_finds_nothing) {
    struct kv_pool p;
    struct kv_seq s;
    uint8_t one[SHA256_BYTES] = {1}, two[SHA256_BYTES] = {2}, roots[5][SHA256_BYTES];
    int32_t ids[TOK];
    ids_fill(ids, 0);
    kv_init(&p, 40, true);
    kv_root(SPAN("a"), NULL, roots[0]);
    kv_root(SPAN("b"), NULL, roots[1]);
    kv_root(SPAN("a"), one, roots[2]);
    kv_root(SPAN("a"), two, roots[3]);
    kv_root(SPAN(""), one, roots[4]);
    for (int i = 0; i < 5; i++) {
        run(&p, &s, roots[i], ids, 40, 0);
        kv_drop(&p, &s);
    }
    for (int i = 0; i < 5; i++) {
        run(&p, &s, roots[i], ids, 40, 32);
        kv_drop(&p, &s);
    }
    kv_fini(&p);
    kv_init(&p, 40, false);
    for (int i = 0; i < 2; i++) {
        run(&p, &s, roots[0], ids, 40, 0);
        kv_drop(&p, &s);
    }
    kv_fini(&p);
}

Test(kv, a_full_pool_gives_up_what_was_kept_longest_and_refuses_the_rest) {
    struct kv_pool p;
    struct kv_seq a, b, c;
    uint8_t root[SHA256_BYTES];
    int32_t ids[3][TOK];
    kv_init(&p, 6, true);
    kv_root(SPAN("t"), NULL, root);
    for (int i = 0; i < 3; i++)
        ids_fill(ids[i], i * 1000);
    run(&p, &a, root, ids[0], 33, 0);
    kv_drop(&p, &a);
    run(&p, &b, root, ids[1], 33, 0);
    kv_drop(&p, &b);
    cr_expect(kv_room(&p) == 6 && p.kept.n == 4);
    run(&p, &c, root, ids[2], 48, 0); /* two free ones, then the tail of the oldest */
    cr_expect_eq(p.kept.n, 3);
    run(&p, &b, root, ids[1], 33, 32);
    cr_expect_eq(kv_begin(&p, &a, root, ids[0], 33), 0, "its first block is the last to go, and it went");
    cr_expect_not(kv_grow(&p, &a, 16));
    cr_expect(a.n == 0 && kv_room(&p) == 0);
    kv_drop(&p, &a);
    kv_drop(&p, &b);
    kv_drop(&p, &c);
    cr_expect_eq(kv_room(&p), 6);
    kv_fini(&p);
}
