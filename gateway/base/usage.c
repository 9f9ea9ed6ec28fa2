/* Sums of what calls used. Always true here: a sum never wraps; a count that would pass the largest int64 stays there,
 * since a provider's numbers are a stranger's numbers. */
#include "gateway/base/usage.h"

const char *const usage_tier_names[TIER_N] = {"standard", "batch", "flex", "priority", "fast"};

static int64_t sum(int64_t a, int64_t b) {
    int64_t out;
    if (__builtin_add_overflow(a, b, &out))
        return a > 0 ? INT64_MAX : INT64_MIN;
    return out;
}

void usage_add(struct usage *to, const struct usage *more) {
#define X(name) to->name = sum(to->name, more->name);
    USAGE_LINES(X)
#undef X
    to->reasoning = sum(to->reasoning, more->reasoning);
    to->tier = to->tier > more->tier ? to->tier : more->tier;
    to->regional = to->regional || more->regional;
    to->reported = to->reported || more->reported;
    to->estimated = to->estimated || more->estimated;
}

int64_t usage_in_tok(const struct usage *u) {
    int64_t written = sum(u->cache_write_5m, u->cache_write_1h);
    int64_t fresh = sum(u->in, sum(u->in_audio, u->in_image));
    return sum(fresh, sum(sum(u->cache_read, u->cache_read_audio), written));
}

int64_t usage_out_tok(const struct usage *u) {
    return sum(u->out, sum(u->out_audio, u->out_image));
}
