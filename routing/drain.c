/* What takes no new calls, because somebody said so: backends, targets, keys of a backend, lanes. Always true here: what runs
 * goes on; what is not named is not touched. */
#include "routing/drain.h"

#include <stdlib.h>

static size_t put(char out[DRAIN_NAME_MAX], size_t at, struct span text) {
    size_t n = text.n < DRAIN_NAME_MAX - at ? text.n : DRAIN_NAME_MAX - at;
    if (n)
        memcpy(out + at, text.at, n);
    return at + n;
}

/* Neither backends nor keys have a space in their names, and no model has. */
static struct span name_of(struct span target, struct span key, char out[DRAIN_NAME_MAX]) {
    size_t n = put(out, 0, target);
    if (key.n)
        n = put(out, put(out, n, SPAN(" ")), key);
    return span_from(out, n);
}

void routing_drain(struct routing *r, struct span target, struct span key, int64_t until_us) {
    char space[DRAIN_NAME_MAX];
    struct span name = name_of(target, key, space);
    int64_t *until = map_find(&r->drains, name);
    if (!until) {
        until = xcalloc(1, sizeof *until);
        map_put(&r->drains, name, until);
    }
    *until = until_us;
}

void routing_resume(struct routing *r, struct span target, struct span key) {
    char space[DRAIN_NAME_MAX];
    free(map_remove(&r->drains, name_of(target, key, space)));
}

int64_t drain_until(const struct routing *r, const struct part_names *names, int64_t now_us) {
    const struct span whole[] = {names->backend, names->target};
    const struct span keys[] = {SPAN_NONE, names->key};
    char space[DRAIN_NAME_MAX];
    int64_t last = 0;
    for (size_t i = 0; r->drains.n && i < ARRAY_LEN(whole) * ARRAY_LEN(keys); i++) {
        const int64_t *until = map_find(&r->drains, name_of(whole[i / 2], keys[i % 2], space));
        if (until && *until > now_us && *until > last)
            last = *until;
    }
    return last;
}

void drains_free(struct routing *r) {
    for (struct map_entry *e = map_next(&r->drains, NULL); e; e = map_next(&r->drains, e))
        free(e->value);
    map_fini(&r->drains);
}
