/* Sums of what calls used. Always true here: a sum never wraps; a count that would pass the largest int64 stays there,
 * since a provider's numbers are a stranger's numbers. */
#include "gateway/base/usage.h"

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
    to->reported = to->reported || more->reported;
    to->estimated = to->estimated || more->estimated;
}

int64_t usage_in_tok(const struct usage *u) {
    int64_t written = sum(u->cache_write_5m, u->cache_write_1h);
    return sum(sum(u->in, u->in_audio), sum(u->cache_read, written));
}

int64_t usage_out_tok(const struct usage *u) {
    return sum(u->out, u->out_audio);
}
