/* Always true here: a tree that grew leaf by leaf and one that is built at once have the same root, since both join the
 * largest whole halves first (as RFC 6962 does). */
#include "audit/tree.h"
#include <assert.h>

static void join(const uint8_t *left, const uint8_t *right, uint8_t out[SHA256_BYTES]) {
    uint8_t bytes[1 + 2 * SHA256_BYTES] = {1};
    memcpy(bytes + 1, left, SHA256_BYTES);
    memcpy(bytes + 1 + SHA256_BYTES, right, SHA256_BYTES);
    sha256(span_from(bytes, sizeof bytes), out);
}

void tree_add(struct tree *t, const uint8_t leaf[SHA256_BYTES]) {
    uint8_t sum[SHA256_BYTES];
    size_t level = 0;
    memcpy(sum, leaf, sizeof sum);
    for (; t->n >> level & 1; level++)
        join(t->whole[level], sum, sum);
    assert(level < TREE_LEVELS_MAX);
    memcpy(t->whole[level], sum, sizeof sum);
    t->n++;
}

void tree_root(const struct tree *t, uint8_t out[SHA256_BYTES]) {
    bool any = false;
    for (size_t level = 0; level < TREE_LEVELS_MAX; level++) {
        if (!(t->n >> level & 1))
            continue;
        if (any)
            join(t->whole[level], out, out);
        else
            memcpy(out, t->whole[level], SHA256_BYTES);
        any = true;
    }
}

void tree_build(uint8_t (*nodes)[SHA256_BYTES], size_t n) {
    for (; n > 1; nodes += n, n = (n + 1) / 2) {
        for (size_t i = 0; i + 1 < n; i += 2)
            join(nodes[i], nodes[i + 1], nodes[n + i / 2]);
        if (n % 2)
            memcpy(nodes[n + n / 2], nodes[n - 1], SHA256_BYTES);
    }
}

size_t tree_path(uint8_t (*nodes)[SHA256_BYTES], size_t n, size_t at, struct tree_step out[TREE_LEVELS_MAX]) {
    size_t steps = 0;
    for (; n > 1; nodes += n, n = (n + 1) / 2, at /= 2) {
        size_t other = at ^ 1;
        if (other >= n)
            continue;
        out[steps].left = other < at;
        memcpy(out[steps++].other, nodes[other], SHA256_BYTES);
    }
    return steps;
}

void tree_climb(const uint8_t leaf[SHA256_BYTES], const struct tree_step *steps, size_t n, uint8_t out[SHA256_BYTES]) {
    memcpy(out, leaf, SHA256_BYTES);
    for (size_t i = 0; i < n; i++) {
        if (steps[i].left)
            join(steps[i].other, out, out);
        else
            join(out, steps[i].other, out);
    }
}
