/* Sums that a head carries. Always true here: the sum of all entries is the sum of all settles that were added. */
#include "audit/totals.h"
#include "gateway/base/clock.h"
#include <stdlib.h>

#define QUARTER_US (15 * US_PER_MIN)
/* Longer than the longest calendar period with an end (a month of 31 days, in any zone). */
#define AGE_US (35 * US_PER_DAY)
#define TOTAL_KEY_MAX 2048

void totals_init(struct totals *t) {
    map_init(&t->by_key);
}

void totals_fini(struct totals *t) {
    for (struct map_entry *e = map_next(&t->by_key, NULL); e; e = map_next(&t->by_key, e))
        free(e->value);
    map_fini(&t->by_key);
}

static int64_t plus(int64_t a, int64_t b) {
    int64_t sum;
    return __builtin_add_overflow(a, b, &sum) ? INT64_MAX : sum;
}

static void add(struct totals *t, struct span key, int64_t nanousd) {
    int64_t *sum = map_find(&t->by_key, key);
    if (!sum) {
        sum = xcalloc(1, sizeof *sum);
        map_put(&t->by_key, key, sum);
    }
    *sum = plus(*sum, nanousd);
}

static void add_quarter(struct totals *t, struct span team, struct span key_id, int64_t quarter, int64_t nanousd) {
    char key[TOTAL_KEY_MAX];
    size_t n = 0;
    if (team.n + key_id.n + 2 + sizeof quarter > sizeof key)
        return; /* names of that length never pass the record writer */
    if (team.n)
        memcpy(key, team.at, team.n);
    n += team.n;
    key[n++] = 0;
    if (key_id.n)
        memcpy(key + n, key_id.at, key_id.n);
    n += key_id.n;
    key[n++] = 0;
    memcpy(key + n, &quarter, sizeof quarter);
    add(t, span_from(key, n + sizeof quarter), nanousd);
}

void totals_add(struct totals *t, struct span team, struct span key_id, int64_t admitted_us, int64_t nanousd) {
    if (nanousd != 0)
        add_quarter(t, team, key_id, admitted_us / QUARTER_US, nanousd);
}

/* Takes an entry's key apart. */
static void split(const struct map_entry *e, struct span *team, struct span *key_id, int64_t *quarter) {
    *team = span_from(e->key, strlen(e->key));
    *key_id = span_from(e->key + team->n + 1, strlen(e->key + team->n + 1));
    memcpy(quarter, e->key + e->n - sizeof *quarter, sizeof *quarter);
}

void totals_age(struct totals *t, int64_t now_us) {
    int64_t oldest = (now_us - AGE_US) / QUARTER_US, quarter;
    struct span team, key_id;
    struct totals aged;
    totals_init(&aged);
    for (struct map_entry *e = map_next(&t->by_key, NULL); e; e = map_next(&t->by_key, e)) {
        split(e, &team, &key_id, &quarter);
        add_quarter(&aged, team, key_id, quarter < oldest ? oldest : quarter, *(int64_t *)e->value);
    }
    totals_fini(t);
    *t = aged;
}

bool totals_put(const struct totals *t, size_t max_bytes, struct str *out) {
    struct span team, key_id;
    int64_t quarter;
    struct str s;
    str_init(&s, max_bytes);
    str_putc(&s, '[');
    for (struct map_entry *e = map_next(&t->by_key, NULL); e; e = map_next(&t->by_key, e)) {
        split(e, &team, &key_id, &quarter);
        str_puts(&s, s.n > 1 ? ",[" : "[");
        json_put_text(&s, team);
        str_putc(&s, ',');
        json_put_text(&s, key_id);
        str_printf(&s, ",%lld,%lld]", (long long)quarter, (long long)*(int64_t *)e->value);
    }
    str_putc(&s, ']');
    bool fits = !s.over;
    if (fits)
        str_put(out, str_span(&s));
    str_fini(&s);
    return fits;
}

static bool read_one(struct totals *t, struct json v) {
    struct arena arena;
    int64_t quarter, nanousd;
    arena_init(&arena, 2 * TOTAL_KEY_MAX);
    struct span team = json_text(json_at(v, 0), &arena), key_id = json_text(json_at(v, 1), &arena);
    bool good = team.at && key_id.at && json_i64(json_at(v, 2), &quarter) && json_i64(json_at(v, 3), &nanousd);
    if (good)
        add_quarter(t, team, key_id, quarter, nanousd);
    arena_fini(&arena);
    return good;
}

bool totals_read(struct totals *t, struct json v) {
    struct json_walk walk;
    struct json one;
    struct span name;
    if (v.kind != JSON_ARRAY)
        return false;
    for (json_walk_init(&walk, v); json_walk_next(&walk, &name, &one);)
        if (one.kind != JSON_ARRAY || !read_one(t, one))
            return false;
    return true;
}

void totals_each(const struct totals *t,
                 void (*see)(struct span team, struct span key_id, int64_t admitted_us, int64_t nanousd, void *user),
                 void *user) {
    struct span team, key_id;
    int64_t quarter;
    for (struct map_entry *e = map_next(&t->by_key, NULL); e; e = map_next(&t->by_key, e)) {
        split(e, &team, &key_id, &quarter);
        see(team, key_id, quarter * QUARTER_US, *(int64_t *)e->value, user);
    }
}
