/* The policies, one function and one row each. Always true here: a pick is a lane that was not taken before, so a rung of
 * n lanes is in order after n picks. */
#include "routing/policy.h"

#include <assert.h>

/* A number below `below`, each equally likely: what would favour the small ones is drawn again. */
static uint64_t draw(uint64_t *random, uint64_t below) {
    uint64_t unfair = -below % below;
    uint64_t x;
    do
        x = random_next(random);
    while (x < unfair);
    return x % below;
}

static bool starts_target(const struct lane *lanes, size_t i) {
    return i == 0 || lanes[i - 1].nth_target != lanes[i].nth_target;
}

/* The sum of key weights of one target's lanes that are left; *n_left counts them. */
static uint64_t keys_left(const struct lane *lanes, size_t n, size_t from, size_t *n_left) {
    uint64_t sum = 0;
    *n_left = 0;
    for (size_t i = from; i < n && lanes[i].nth_target == lanes[from].nth_target; i++)
        if (!lanes[i].taken) {
            sum += lanes[i].key_weight > 0 ? (uint64_t)lanes[i].key_weight : 0;
            ++*n_left;
        }
    return sum;
}

static uint64_t weight_of_target(const struct lane *lanes, size_t n, size_t from) {
    size_t n_left;
    (void)keys_left(lanes, n, from, &n_left);
    return n_left && lanes[from].target_weight > 0 ? (uint64_t)lanes[from].target_weight : 0;
}

/* The first lane of the target drawn; n when only targets without weight are left. */
static size_t draw_target(const struct lane *lanes, size_t n, uint64_t *random) {
    uint64_t sum = 0;
    for (size_t i = 0; i < n; i++)
        if (starts_target(lanes, i))
            sum += weight_of_target(lanes, n, i);
    if (sum == 0)
        return n;
    uint64_t x = draw(random, sum);
    for (size_t i = 0; i < n; i++) {
        uint64_t w = starts_target(lanes, i) ? weight_of_target(lanes, n, i) : 0;
        if (x < w)
            return i;
        x -= w;
    }
    assert(!"a draw lies below the sum of weights");
    return n;
}

static size_t draw_key(const struct lane *lanes, size_t n, size_t from, uint64_t *random) {
    size_t n_left;
    uint64_t sum = keys_left(lanes, n, from, &n_left);
    uint64_t x = sum ? draw(random, sum) : 0;
    for (size_t i = from; i < n && lanes[i].nth_target == lanes[from].nth_target; i++) {
        if (lanes[i].taken)
            continue;
        uint64_t w = lanes[i].key_weight > 0 ? (uint64_t)lanes[i].key_weight : 0;
        if (sum == 0 || x < w)
            return i;
        x -= w;
    }
    assert(!"a target that was drawn has a lane left");
    return n;
}

static size_t first_left(const struct lane *lanes, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (!lanes[i].taken)
            return i;
    assert(!"a rung is not asked for more lanes than it has");
    return n;
}

/* First the target by its weight, then one of its keys by theirs: a target with three keys gets no more traffic than its
 * weight says. What weighs nothing comes last, in the order of the conf. */
static size_t pick_weighted(struct lane *lanes, size_t n, uint64_t *random) {
    size_t from = draw_target(lanes, n, random);
    size_t at = from < n ? draw_key(lanes, n, from, random) : first_left(lanes, n);
    if (!lanes[at].why)
        lanes[at].why = n == 1 ? "only target" : from < n ? "weighted draw" : "weight 0: after all others of its rung";
    return at;
}

static const struct policy_row rows[] = {
    [POLICY_WEIGHTED] = {"weighted", pick_weighted},
};

const struct policy_row *policy_row(enum conf_policy p) {
    assert((size_t)p < ARRAY_LEN(rows));
    return &rows[p];
}
