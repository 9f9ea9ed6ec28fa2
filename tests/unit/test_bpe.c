/* Merging: the heap against the definition, and a text that punishes anything quadratic. */
#include "backends/decode/bpe.h"

#include <criterion/criterion.h>
#include <stdlib.h>

#define LETTERS 4
#define MERGES 40

/* Over and over: the lowest-ranked pair, the leftmost of equals. */
static size_t by_definition(const struct merges *m, int32_t *ids, size_t n) {
    for (;;) {
        size_t best = n;
        int32_t rank = INT32_MAX, id = 0;
        for (size_t i = 0; i + 1 < n; i++) {
            const struct merge *found = merges_find(m, ids[i], ids[i + 1]);
            if (found && found->rank < rank) {
                best = i;
                rank = found->rank;
                id = found->id;
            }
        }
        if (best == n)
            return n;
        ids[best] = id;
        memmove(ids + best + 1, ids + best + 2, (n - best - 2) * sizeof *ids);
        n--;
    }
}

static void make_merges(struct merges *m, uint32_t seed) {
    merges_init(m, MERGES);
    for (int32_t i = 0; i < MERGES; i++) {
        uint32_t a = (seed = seed * 1664525 + 1013904223) >> 8, b = (seed = seed * 1664525 + 1013904223) >> 8;
        merges_put(m, (int32_t)(a % (uint32_t)(LETTERS + i)), (int32_t)(b % (uint32_t)(LETTERS + i)), i, LETTERS + i);
    }
}

Test(bpe, merges_as_the_definition_says) {
    static bool forbidden[LETTERS + MERGES];
    struct bpe_scratch scratch = {0};
    for (uint32_t seed = 1; seed <= 200; seed++) {
        struct merges m;
        struct tokens got = {0};
        int32_t ids[64];
        size_t n = seed % 61 + 1;
        uint32_t random = seed;
        make_merges(&m, seed);
        bpe_start(&scratch);
        for (size_t i = 0; i < n; i++) {
            ids[i] = (int32_t)((random = random * 1664525 + 1013904223) >> 16) % LETTERS;
            bpe_put(&scratch, ids[i]);
        }
        bpe_finish(&scratch, &m, forbidden, &got);
        n = by_definition(&m, ids, n);
        cr_assert(got.n == n && memcmp(got.at, ids, n * sizeof *ids) == 0, "seed %u", seed);
        tokens_fini(&got);
        merges_fini(&m);
    }
    bpe_scratch_fini(&scratch);
}

Test(bpe, a_forbidden_token_never_comes_out_of_a_merge) {
    bool forbidden[5] = {false, false, false, false, true};
    struct merges m;
    struct bpe_scratch scratch = {0};
    struct tokens got = {0};
    merges_init(&m, 1);
    merges_put(&m, 0, 1, 0, 4);
    merges_put(&m, 0, 1, 1, 3); /* the first stays */
    bpe_start(&scratch);
    bpe_put(&scratch, 0);
    bpe_put(&scratch, 1);
    bpe_finish(&scratch, &m, forbidden, &got);
    cr_expect(got.n == 2 && got.at[0] == 0 && got.at[1] == 1);
    tokens_fini(&got);
    bpe_scratch_fini(&scratch);
    merges_fini(&m);
}

Test(bpe, one_word_of_a_million_symbols_is_merged_in_one_go) {
    static bool forbidden[32];
    struct merges m;
    struct bpe_scratch scratch = {0};
    struct tokens got = {0};
    merges_init(&m, 20);
    for (int32_t i = 0; i < 20; i++)
        merges_put(&m, i, i, i, i + 1);
    bpe_start(&scratch);
    for (int i = 0; i < 1 << 20; i++)
        bpe_put(&scratch, 0);
    bpe_finish(&scratch, &m, forbidden, &got);
    cr_expect(got.n == 1 && got.at[0] == 20);
    tokens_fini(&got);
    bpe_scratch_fini(&scratch);
    merges_fini(&m);
}
