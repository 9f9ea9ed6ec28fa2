/* A hash tree over the hashes of consecutive records, so that one record can be proved without showing the others.
 *
 *     leaf = the record's hash; node = SHA-256(0x01 left right); a last one without a neighbour rises as it is
 *
 * No record begins with 0x01, so nobody can pass a node off as a record. The root stands in a `note` record whose hash
 * the next head signs. */
#ifndef TOLLGATE_AUDIT_TREE_H
#define TOLLGATE_AUDIT_TREE_H

#include "gateway/base/hash.h"

#define TREE_LEVELS_MAX 40 /* more leaves than any chain has */

struct tree { /* growing: one whole subtree a bit of n */
    uint64_t n;
    uint8_t whole[TREE_LEVELS_MAX][SHA256_BYTES];
};
void tree_add(struct tree *t, const uint8_t leaf[SHA256_BYTES]);
void tree_root(const struct tree *t, uint8_t out[SHA256_BYTES]); /* t->n > 0 */

struct tree_step { /* what a path goes up by */
    bool left;     /* the other one stands to the left */
    uint8_t other[SHA256_BYTES];
};
/* All levels of the tree over the first n of `nodes`, behind them; there is room for 2n + TREE_LEVELS_MAX. */
void tree_build(uint8_t (*nodes)[SHA256_BYTES], size_t n);
/* The way from leaf `at` to the root of what was built. Returns how many steps. */
size_t tree_path(uint8_t (*nodes)[SHA256_BYTES], size_t n, size_t at, struct tree_step out[TREE_LEVELS_MAX]);
/* The root that a path leads to. */
void tree_climb(const uint8_t leaf[SHA256_BYTES], const struct tree_step *steps, size_t n, uint8_t out[SHA256_BYTES]);

#endif
