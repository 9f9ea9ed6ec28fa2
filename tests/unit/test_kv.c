/* Blocks: promised before they are given, each in one place only, all back at the end. */
#include "backends/decode/kv.h"

#include <criterion/criterion.h>

Test(kv, a_promise_is_kept_and_nothing_is_promised_twice) {
    struct kv_pool p;
    struct kv_seq a, b = {0}, c;
    bool seen[4] = {false};
    kv_init(&p, 4);
    cr_assert(kv_admit(&p, &a, 33)); /* three blocks */
    cr_expect_not(kv_admit(&p, &b, 17));
    cr_assert(kv_admit(&p, &c, 16));
    cr_expect_eq(p.n_free, 4);
    kv_grow(&p, &a, 1);
    kv_grow(&p, &a, 16);
    cr_expect_eq(a.n, 1);
    kv_grow(&p, &a, 33);
    kv_grow(&p, &c, 16);
    cr_expect_eq(p.n_free, 0);
    for (int i = 0; i < 3; i++)
        seen[a.blocks[i]] = true;
    cr_expect(seen[c.blocks[0]] == false && p.promised == 0);
    kv_drop(&p, &a);
    kv_drop(&p, &a);
    cr_expect_eq(p.n_free, 3);
    cr_assert(kv_admit(&p, &b, 40));
    kv_grow(&p, &b, 20);
    kv_drop(&p, &b); /* with a block promised and not given */
    kv_drop(&p, &c);
    cr_expect(p.n_free == 4 && p.promised == 0);
    kv_fini(&p);
}
