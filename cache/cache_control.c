/* The client's cache-control header (RFC 9111 section 5.2.1). Always true here: a caller may only tighten; what is not
 * understood asks for nothing, and a max-age that cannot be read is the strictest one. */
#include "cache/cache_key.h"
#include "gateway/base/clock.h"

static struct span unquoted(struct span v) {
    if (v.n >= 2 && v.at[0] == '"' && v.at[v.n - 1] == '"')
        return span_from(v.at + 1, v.n - 2);
    return v;
}

static bool all_digits(struct span v) {
    for (size_t i = 0; i < v.n; i++)
        if (v.at[i] < '0' || v.at[i] > '9')
            return false;
    return v.n > 0;
}

static int64_t read_age_us(struct span value) {
    int64_t s;
    value = unquoted(span_trim(value));
    if (!all_digits(value))
        return 0;
    if (!span_to_i64(value, &s) || s > INT64_MAX / US_PER_S) /* digits that overflow: for ever */
        return INT64_MAX;
    return s * US_PER_S;
}

static void read_directive(struct span part, struct control *out) {
    struct span name;
    if (!span_cut(&part, '=', &name))
        return;
    name = span_trim(name);
    if (span_is_nocase(name, "no-cache"))
        out->no_cache = true;
    else if (span_is_nocase(name, "no-store"))
        out->no_store = true;
    else if (span_is_nocase(name, "max-age")) {
        int64_t us = read_age_us(part);
        out->max_age_us = us < out->max_age_us ? us : out->max_age_us;
    }
}

struct control control_read(struct span cache_control) {
    struct control out = {.max_age_us = INT64_MAX};
    struct span part;
    while (span_cut(&cache_control, ',', &part))
        read_directive(span_trim(part), &out);
    if (out.max_age_us == 0)
        out.no_cache = true;
    return out;
}
