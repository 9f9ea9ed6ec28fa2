/* Summing settle records by groups. Always true here: the total is the sum of the rows; money is never a double; a group
 * that a record does not name is (none). */
#include "gateway/base/clock.h"
#include "gateway/base/json.h"
#include "gateway/cli/spend.h"
#include <stdio.h>
#include <stdlib.h>

#define NONE "(none)"
#define RECORD_ARENA_MAX ((size_t)8 << 20)
/* The longest text of a group, against a label of a megabyte. */
#define GROUP_TEXT_MAX 1024
#define GROUP_END '\x1f'

/* Members of a settle that name a group, in the order of enum spend_by; NULL: computed. */
static const struct {
    const char *word, *member;
    size_t time_chars; /* of a local RFC 3339 time */
} by[] = {
    [BY_TEAM] = {"team", "team", 0},
    [BY_KEY] = {"key", "key_id", 0},
    [BY_OWNER] = {"owner", "owner", 0},
    [BY_ALIAS] = {"alias", "alias", 0},
    [BY_TARGET] = {"target", "target", 0},
    [BY_MODEL] = {"model", "model", 0},
    [BY_ENDPOINT] = {"endpoint", "endpoint", 0},
    [BY_DAY] = {"day", NULL, 10},
    [BY_MONTH] = {"month", NULL, 7},
    [BY_HOUR] = {"hour", NULL, 13},
};

enum { KIND, TIME, ADMITTED, COST, ESTIMATED, USAGE, LABELS, PRICE, PICKED };
static const char *const picked[PICKED] = {"kind",      "time",  "admitted", "cost_nanousd",
                                           "estimated", "usage", "labels",   "price_digest"};

static bool read_group(struct span word, struct spend_group *out) {
    static const char label[] = "label:";
    *out = (struct spend_group){.title = word.at};
    if (span_starts(word, label)) {
        out->by = BY_LABEL;
        return word.n > sizeof label - 1;
    }
    for (size_t i = 0; i < ARRAY_LEN(by); i++)
        if (span_is(word, by[i].word)) {
            out->by = (enum spend_by)i;
            return true;
        }
    return false;
}

bool spend_groups(struct spend *s, const char *text, struct span *bad) {
    struct span rest = span_of(text), word;
    while (span_cut(&rest, ',', &word)) {
        *bad = word;
        if (s->n_groups == SPEND_GROUPS_MAX || !read_group(word, &s->groups[s->n_groups]))
            return false;
        struct spend_group *g = &s->groups[s->n_groups++];
        g->title = xstrndup(word.at, word.n);
        g->label = g->by == BY_LABEL ? g->title + strlen("label:") : NULL;
    }
    return s->n_groups > 0;
}

void spend_init(struct spend *s) {
    *s = (struct spend){.from_us = 0, .to_us = INT64_MAX, .first_us = INT64_MAX, .zone = zone_get("UTC")};
    map_init(&s->rows);
    map_init(&s->price_digests);
}

void spend_fini(struct spend *s) {
    for (struct map_entry *e = map_next(&s->rows, NULL); e; e = map_next(&s->rows, e)) {
        struct spend_row *row = e->value;
        for (size_t i = 0; i < s->n_groups; i++)
            free(row->groups[i]);
        free(row);
    }
    for (size_t i = 0; i < s->n_groups; i++)
        free((void *)(uintptr_t)s->groups[i].title);
    map_fini(&s->rows);
    map_fini(&s->price_digests);
}

/* One record while it is read. */
struct settle {
    struct json root, got[PICKED];
    int64_t admitted_us;
    struct arena arena;
};

static struct span local_time(const struct spend *s, int64_t us, size_t chars, struct arena *arena) {
    char text[CLOCK_TEXT_MAX];
    clock_text(us + zone_offset_s(s->zone, us) * US_PER_S, text);
    char *kept = arena_strdup(arena, span_from(text, chars));
    return kept ? span_of(kept) : SPAN(NONE);
}

static struct span group_text(const struct spend *s, const struct spend_group *g, struct settle *r) {
    if (g->by != BY_LABEL && !by[g->by].member)
        return local_time(s, r->admitted_us, by[g->by].time_chars, &r->arena);
    struct json v = g->by == BY_LABEL ? json_get(r->got[LABELS], g->label) : json_get(r->root, by[g->by].member);
    struct span text = json_text(v, &r->arena);
    if (v.kind != JSON_STRING || !text.at || text.n == 0)
        return SPAN(NONE);
    return span_from(text.at, text.n < GROUP_TEXT_MAX ? text.n : GROUP_TEXT_MAX);
}

static struct spend_row *find_row(struct spend *s, struct settle *r) {
    struct span texts[SPEND_GROUPS_MAX];
    struct str key;
    str_init(&key, SPEND_GROUPS_MAX * (GROUP_TEXT_MAX + 1));
    for (size_t i = 0; i < s->n_groups; i++) {
        texts[i] = group_text(s, &s->groups[i], r);
        str_put(&key, texts[i]);
        str_putc(&key, GROUP_END);
    }
    struct spend_row *row = map_find(&s->rows, str_span(&key));
    if (!row) {
        row = xcalloc(1, sizeof *row);
        for (size_t i = 0; i < s->n_groups; i++)
            row->groups[i] = xstrndup(texts[i].at, texts[i].n);
        map_put(&s->rows, str_span(&key), row);
    }
    str_fini(&key);
    return row;
}

static int64_t number(struct json v) {
    int64_t n;
    return json_i64(v, &n) ? n : 0;
}

static void plus(struct spend *s, int64_t *to, int64_t n) {
    if (__builtin_add_overflow(*to, n, to))
        s->overflow = true;
}

static void add_sums(struct spend *s, struct spend_sums *to, const struct spend_sums *one) {
    plus(s, &to->requests, one->requests);
    plus(s, &to->cost_nanousd, one->cost_nanousd);
    plus(s, &to->estimated, one->estimated);
    plus(s, &to->estimated_nanousd, one->estimated_nanousd);
    plus(s, &to->in_tok, one->in_tok);
    plus(s, &to->out_tok, one->out_tok);
}

static struct usage read_usage(struct json v) {
    struct usage u = {0};
#define X(name) u.name = number(json_get(v, #name));
    USAGE_LINES(X)
#undef X
    return u;
}

static struct spend_sums sums_of(const struct settle *r) {
    struct usage u = read_usage(r->got[USAGE]);
    struct spend_sums one = {
        .requests = 1, .cost_nanousd = number(r->got[COST]), .in_tok = usage_in_tok(&u), .out_tok = usage_out_tok(&u)};
    one.estimated = r->got[ESTIMATED].kind == JSON_TRUE;
    one.estimated_nanousd = one.estimated ? one.cost_nanousd : 0;
    return one;
}

static bool instant(struct json v, int64_t *us) {
    return v.kind == JSON_STRING && clock_parse(span_from(v.raw.at + 1, v.raw.n - 2), us);
}

static void count(struct spend *s, struct settle *r) {
    struct span digest = json_text(r->got[PRICE], &r->arena);
    struct spend_sums one = sums_of(r);
    add_sums(s, &find_row(s, r)->sums, &one);
    add_sums(s, &s->total, &one);
    if (digest.n && one.cost_nanousd)
        map_put(&s->price_digests, digest, s);
}

static void see_range(struct spend *s, int64_t time_us) {
    s->records++;
    s->first_us = time_us < s->first_us ? time_us : s->first_us;
    s->last_us = time_us > s->last_us ? time_us : s->last_us;
}

bool spend_see(const struct audit_line *l, void *user) {
    struct spend *s = user;
    struct settle r;
    struct json_fault fault;
    int64_t time_us = 0;
    if (!json_check(l->text, JSON_DEPTH_MAX, &r.root, &fault) || r.root.kind != JSON_OBJECT)
        return true; /* the verdict says so */
    json_pick(r.root, picked, r.got, PICKED);
    if (instant(r.got[TIME], &time_us))
        see_range(s, time_us);
    if (!json_is(r.got[KIND], "settle"))
        return true;
    if (!instant(r.got[ADMITTED], &r.admitted_us)) /* a cached answer was never admitted */
        r.admitted_us = time_us;
    if (r.admitted_us < s->from_us || r.admitted_us >= s->to_us)
        return true;
    arena_init(&r.arena, RECORD_ARENA_MAX);
    count(s, &r);
    arena_fini(&r.arena);
    return true;
}

static int by_groups(const void *left, const void *right) {
    const struct spend_row *a = *(struct spend_row *const *)left, *b = *(struct spend_row *const *)right;
    for (size_t i = 0; i < SPEND_GROUPS_MAX && a->groups[i]; i++) {
        int order = strcmp(a->groups[i], b->groups[i]);
        if (order)
            return order;
    }
    return 0;
}

struct spend_row **spend_sorted(const struct spend *s) {
    struct spend_row **rows = xcalloc(s->rows.n + 1, sizeof(struct spend_row *));
    size_t n = 0;
    for (struct map_entry *e = map_next(&s->rows, NULL); e; e = map_next(&s->rows, e))
        rows[n++] = e->value;
    qsort(rows, n, sizeof(struct spend_row *), by_groups);
    return rows;
}
