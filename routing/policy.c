/* The policies, one function and one row each: a function draws the target, and one of a few draws its key. Always true
 * here: a pick is a lane that was not taken before, so a rung of n lanes is in order after n picks; a target with three
 * keys gets no more traffic than its weight says. */
#include "routing/policy.h"

#include <assert.h>
#include <math.h>

#define LATENCY_LEAST_US 1000   /* a wait below is no difference worth a choice */
#define LATENCY_UNKNOWN_US 1e12 /* of one that is being tried for the first time, until it has answered */

/* A number below `below`, each equally likely: what would favour the small ones is drawn again. */
static uint64_t draw(uint64_t *random, uint64_t below) {
    uint64_t unfair = -below % below;
    uint64_t x;
    do
        x = random_next(random);
    while (x < unfair);
    return x % below;
}

static uint64_t weight(int w) {
    return w > 0 ? (uint64_t)w : 0;
}

static bool has_lane(const struct lane *lanes, size_t n, size_t from) {
    for (size_t i = from; i < n && lanes[i].nth_target == lanes[from].nth_target; i++)
        if (!lanes[i].taken)
            return true;
    return false;
}

/* The next target that has a lane left, from `at` on; n: there is none. */
static size_t next_target(const struct lane *lanes, size_t n, size_t at) {
    for (; at < n; at++)
        if ((at == 0 || lanes[at - 1].nth_target != lanes[at].nth_target) && has_lane(lanes, n, at))
            return at;
    return n;
}

static uint64_t sum_of_weights(const struct lane *lanes, size_t n) {
    uint64_t sum = 0;
    for (size_t i = next_target(lanes, n, 0); i < n; i = next_target(lanes, n, i + 1))
        sum += weight(lanes[i].target_weight);
    return sum;
}

/* ---- targets ---- */

static size_t by_weight(const struct lane *lanes, size_t n, const struct draw *d) {
    uint64_t sum = sum_of_weights(lanes, n);
    size_t i = next_target(lanes, n, 0);
    uint64_t x = sum ? draw(d->random, sum) : 0;
    for (; sum && x >= weight(lanes[i].target_weight); i = next_target(lanes, n, i + 1))
        x -= weight(lanes[i].target_weight);
    return i;
}

/* Whether one more of those that are alike is taken, so that each is by its weight; `alike` is their sum so far. */
static bool takes(uint64_t *alike, int w, const struct draw *d) {
    *alike += weight(w);
    return *alike > 0 && draw(d->random, *alike) < weight(w);
}

/* The target with the lowest score; of several alike each by its weight. */
static size_t lowest(const struct lane *lanes, size_t n, const struct draw *d, double (*score)(const struct lane *l)) {
    double least = INFINITY;
    size_t best = next_target(lanes, n, 0);
    uint64_t alike = 0;
    for (size_t i = best; i < n; i = next_target(lanes, n, i + 1)) {
        double s = score(&lanes[i]);
        if (s > least)
            continue;
        if (s < least)
            alike = 0;
        bool first = s < least;
        least = s;
        best = takes(&alike, lanes[i].target_weight, d) || first ? i : best;
    }
    return best;
}

static double per_weight(double load, const struct lane *l) {
    return l->target_weight > 0 ? load / l->target_weight : INFINITY;
}

static double busy(const struct lane *l) {
    return per_weight(l->facts.in_flight, l);
}

static size_t by_in_flight(const struct lane *lanes, size_t n, const struct draw *d) {
    return lowest(lanes, n, d, busy);
}

/* The wait that a further call has to expect. One that is not known is tried by one call at a time. */
static double wait(const struct lane *l) {
    double us = (double)l->facts.latency_us;
    if (l->facts.latency_us < 0)
        return per_weight(LATENCY_UNKNOWN_US * l->facts.in_flight, l);
    return per_weight((us > LATENCY_LEAST_US ? us : LATENCY_LEAST_US) * (l->facts.in_flight + 1), l);
}

/* Two are drawn and the better one is taken: whoever is best at this moment does not get everything at once. */
static size_t by_latency(const struct lane *lanes, size_t n, const struct draw *d) {
    size_t targets = 0, first, second;
    for (size_t i = next_target(lanes, n, 0); i < n; i = next_target(lanes, n, i + 1))
        targets++;
    uint64_t a = draw(d->random, targets), b = targets > 1 ? draw(d->random, targets - 1) : 0;
    b += b >= a;
    first = second = next_target(lanes, n, 0);
    for (uint64_t i = 0; i < a; i++)
        first = next_target(lanes, n, first + 1);
    for (uint64_t i = 0; targets > 1 && i < b; i++)
        second = next_target(lanes, n, second + 1);
    return targets > 1 && wait(&lanes[second]) < wait(&lanes[first]) ? second : first;
}

static double price(const struct lane *l) {
    return l->facts.cost_nanousd >= 0 ? (double)l->facts.cost_nanousd : INFINITY;
}

static size_t by_cost(const struct lane *lanes, size_t n, const struct draw *d) {
    return lowest(lanes, n, d, price);
}

/* FNV-1a over the name, then mixed: every name has its own rank for every affinity, and no two depend on each other. */
static uint64_t rank(uint64_t affinity, const char *name) {
    uint64_t x = 0xcbf29ce484222325u;
    for (const char *c = name; *c; c++)
        x = (x ^ (unsigned char)*c) * 0x100000001b3u;
    x ^= affinity;
    for (int i = 0; i < 2; i++) { /* the finalizer of splitmix64, twice: names differ in few bits */
        x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
        x = (x ^ x >> 27) * 0x94d049bb133111ebu;
        x ^= x >> 31;
    }
    return x;
}

/* Rendezvous: the highest -w / ln(u) wins, with u in (0, 1) from the hash of both. A name that leaves moves only what
 * was its own, and each weight gets its share. */
static double claim(uint64_t affinity, const char *name, int w) {
    double u = ((double)(rank(affinity, name) >> 11) + 0.5) / (double)(UINT64_C(1) << 53);
    return w > 0 ? (double)w / -log(u) : 0;
}

static size_t by_affinity(const struct lane *lanes, size_t n, const struct draw *d) {
    size_t best = next_target(lanes, n, 0);
    double most = -1;
    if (!d->affinity)
        return by_weight(lanes, n, d);
    for (size_t i = best; i < n; i = next_target(lanes, n, i + 1)) {
        double c = claim(d->affinity, lanes[i].target, lanes[i].target_weight);
        best = c > most ? i : best;
        most = c > most ? c : most;
    }
    return best;
}

/* ---- keys ---- */

static bool of_target(const struct lane *lanes, size_t n, size_t from, size_t i) {
    return i < n && lanes[i].nth_target == lanes[from].nth_target;
}

static size_t key_by_weight(const struct lane *lanes, size_t n, size_t from, const struct draw *d) {
    uint64_t sum = 0;
    for (size_t i = from; of_target(lanes, n, from, i); i++)
        sum += lanes[i].taken ? 0 : weight(lanes[i].key_weight);
    uint64_t x = sum ? draw(d->random, sum) : 0;
    for (size_t i = from; of_target(lanes, n, from, i); i++) {
        uint64_t w = lanes[i].taken ? 0 : weight(lanes[i].key_weight);
        if (!lanes[i].taken && (sum == 0 || x < w))
            return i;
        x -= w;
    }
    assert(!"a target that was drawn has a lane left");
    return n;
}

static size_t key_by_in_flight(const struct lane *lanes, size_t n, size_t from, const struct draw *d) {
    double least = INFINITY;
    size_t best = n;
    uint64_t alike = 0;
    for (size_t i = from; of_target(lanes, n, from, i); i++) {
        double s = lanes[i].key_weight > 0 ? (double)lanes[i].in_flight / lanes[i].key_weight : INFINITY;
        if (lanes[i].taken || s > least)
            continue;
        if (s < least)
            alike = 0;
        bool first = s < least || best == n;
        least = s;
        best = takes(&alike, lanes[i].key_weight, d) || first ? i : best;
    }
    assert(best < n);
    return best;
}

/* A provider's cache belongs to an account: so does a call's beginning. */
static size_t key_by_affinity(const struct lane *lanes, size_t n, size_t from, const struct draw *d) {
    double most = -1;
    size_t best = n;
    if (!d->affinity)
        return key_by_weight(lanes, n, from, d);
    for (size_t i = from; of_target(lanes, n, from, i); i++) {
        double c = claim(d->affinity, lanes[i].key ? lanes[i].key->name : "", lanes[i].key_weight);
        if (lanes[i].taken || c <= most)
            continue;
        best = i;
        most = c;
    }
    assert(best < n);
    return best;
}

static const struct policy_row rows[POLICY_N] = {
    [POLICY_WEIGHTED] = {"weighted", by_weight, key_by_weight, "weighted draw"},
    [POLICY_LATENCY] = {"latency", by_latency, key_by_in_flight, "the quicker of two that were drawn"},
    [POLICY_IN_FLIGHT] = {"in_flight", by_in_flight, key_by_in_flight, "fewest calls in flight"},
    [POLICY_COST] = {"cost", by_cost, key_by_weight, "cheapest for this call"},
    [POLICY_STICKY] = {"sticky", by_affinity, key_by_affinity, "calls that begin alike come here"},
};

const struct policy_row *policy_row(enum conf_policy p) {
    assert((size_t)p < POLICY_N);
    return &rows[p];
}

size_t policy_pick(enum conf_policy p, struct lane *lanes, size_t n, const struct draw *d) {
    const struct policy_row *row = policy_row(p);
    size_t from = row->target(lanes, n, d);
    assert(from < n);
    size_t at = row->key(lanes, n, from, d);
    assert(at < n && !lanes[at].taken);
    bool nothing = lanes[at].target_weight <= 0;
    if (!lanes[at].why)
        lanes[at].why = n == 1 ? "only target" : nothing ? "weight 0: after all others of its rung" : row->why;
    return at;
}
