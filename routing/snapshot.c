/* What health knows, written down and read again. Always true here: what is read decides as what was written did, at the same
 * distance from its now; who is in flight is a number, for nobody here will end them. */
#include "routing/inside.h"

#include <stdio.h>
#include <stdlib.h>

#define NUMBER_MAX 48 /* bytes of a double in hexadecimal, which loses nothing */

static const struct choice somebody; /* who probes in the other room */

static const char *const part_words[PART_N] = {
    [PART_BACKEND] = "backend", [PART_KEY] = "key", [PART_TARGET] = "target", [PART_LANE] = "lane"};

/* A letter, the target or backend, a NUL, the key. */
static struct span base_of(const struct health *h, struct span *key) {
    struct span rest = span_from(h->name + 1, h->n_name - 1), base;
    span_cut(&rest, '\0', &base);
    *key = rest;
    return base;
}

static void put_double(struct str *out, const char *name, double v) {
    char text[NUMBER_MAX];
    snprintf(text, sizeof text, "%a", v);
    json_put_str(out, name, text);
}

/* Instants, with what they count from. */
#define INSTANTS(X)                                                                                                    \
    X(decayed_us)                                                                                                      \
    X(open_until_us)                                                                                                   \
    X(probe_us)                                                                                                        \
    X(waits[0].at_us)                                                                                                  \
    X(waits[1].at_us)
#define NUMBERS(X)                                                                                                     \
    X(streak)                                                                                                          \
    X(open)                                                                                                            \
    X(tripped)                                                                                                         \
    X(asked)                                                                                                           \
    X(at_once)                                                                                                         \
    X(reason)                                                                                                          \
    X(level)                                                                                                           \
    X(in_flight)
#define DOUBLES(X)                                                                                                     \
    X(good)                                                                                                            \
    X(bad)                                                                                                             \
    X(waits[0].us)                                                                                                     \
    X(waits[1].us)

static void put_health(const struct health *h, int64_t now_us, struct str *out) {
    struct span key, base = base_of(h, &key);
    str_putc(out, '{');
    json_put_str(out, "part", part_words[h->part]);
    json_put_span(out, "of", base);
    json_put_span(out, "key", key.n ? key : SPAN_NONE);
#define X(member)                                                                                                      \
    if (h->member)                                                                                                     \
        json_put_i64(out, #member, h->member - now_us);
    INSTANTS(X)
#undef X
#define X(member) json_put_i64(out, #member, (int64_t)h->member);
    NUMBERS(X)
#undef X
#define X(member) put_double(out, #member, h->member);
    DOUBLES(X)
#undef X
    json_put_bool(out, "probed", h->prober != NULL);
    str_putc(out, '}');
}

void routing_put_state(const struct routing *r, int64_t now_us, struct str *out) {
    bool first = true;
    str_putc(out, '[');
    for (struct link *k = list_first(&r->health.recent); k; k = list_next(&r->health.recent, k)) {
        str_puts(out, first ? "" : ",");
        first = false;
        put_health(container_of(k, struct health, link), now_us, out);
    }
    str_putc(out, ']');
}

static bool part_of(struct json v, enum part *out) {
    for (*out = 0; *out < PART_N; ++*out)
        if (json_is(json_get(v, "part"), part_words[*out]))
            return true;
    return false;
}

static int64_t number_of(struct json v, const char *name) {
    int64_t n = 0;
    return json_i64(json_get(v, name), &n) ? n : 0;
}

static int64_t instant_of(struct json v, const char *name, int64_t now_us) {
    struct json at = json_get(v, name);
    int64_t n;
    return json_i64(at, &n) && !__builtin_add_overflow(n, now_us, &n) ? n : 0;
}

static double double_of(struct json v, const char *name) {
    char text[NUMBER_MAX] = "";
    struct json at = json_get(v, name);
    if (at.kind == JSON_STRING && at.raw.n >= 2 && at.raw.n < sizeof text)
        snprintf(text, sizeof text, "%.*s", (int)at.raw.n - 2, at.raw.at + 1);
    return strtod(text, NULL);
}

static bool take_health(struct routing *r, struct json v, int64_t now_us) {
    struct arena a;
    enum part part;
    arena_init(&a, 4 * HEALTH_NAME_MAX);
    struct span of = json_text(json_get(v, "of"), &a), backend = of, rest = of;
    span_cut(&rest, '/', &backend);
    struct part_names names = {backend, of, json_text(json_get(v, "key"), &a)};
    struct health *h = part_of(v, &part) && of.n ? health_get(&r->health, part, &names) : NULL;
    arena_fini(&a);
    if (!h)
        return false;
#define X(member) h->member = instant_of(v, #member, now_us);
    INSTANTS(X)
#undef X
#define X(member) h->member = (__typeof__(h->member))number_of(v, #member);
    NUMBERS(X)
#undef X
#define X(member) h->member = double_of(v, #member);
    DOUBLES(X)
#undef X
    h->prober = json_get(v, "probed").kind == JSON_TRUE ? &somebody : NULL;
    return (unsigned)h->reason < REASON_N && h->in_flight >= 0;
}

bool routing_take_state(struct routing *r, struct json state, int64_t now_us) {
    struct json_walk w;
    struct span name;
    struct json v;
    bool good = state.kind == JSON_ARRAY;
    json_walk_init(&w, state);
    while (good && json_walk_next(&w, &name, &v))
        good = take_health(r, v, now_us);
    return good;
}
