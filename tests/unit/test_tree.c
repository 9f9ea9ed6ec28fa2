#include "audit/tree.h"
#include <criterion/criterion.h>
#include <stdlib.h>

static void leaf_of(size_t i, uint8_t out[SHA256_BYTES]) {
    sha256(span_from(&i, sizeof i), out);
}

Test(tree, every_leaf_of_every_small_tree_climbs_to_the_root_that_grew) {
    struct tree t = {0};
    uint8_t(*work)[SHA256_BYTES] = malloc((140 + TREE_LEVELS_MAX) * sizeof *work);
    for (size_t n = 1; n <= 70; n++) {
        uint8_t leaf[SHA256_BYTES], root[SHA256_BYTES], climbed[SHA256_BYTES];
        leaf_of(n - 1, leaf);
        tree_add(&t, leaf);
        tree_root(&t, root);
        for (size_t at = 0; at < n; at++) {
            struct tree_step steps[TREE_LEVELS_MAX];
            for (size_t i = 0; i < n; i++)
                leaf_of(i, work[i]);
            tree_build(work, n);
            size_t up = tree_path(work, n, at, steps);
            leaf_of(at, leaf);
            tree_climb(leaf, steps, up, climbed);
            cr_assert_arr_eq(climbed, root, SHA256_BYTES, "leaf %zu of %zu", at, n);
            leaf_of(at + 1, leaf);
            tree_climb(leaf, steps, up, climbed);
            cr_assert_arr_neq(climbed, root, SHA256_BYTES, "another leaf does not fit");
        }
    }
    free(work);
}
