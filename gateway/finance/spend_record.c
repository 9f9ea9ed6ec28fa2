/* One record of the log as entries of the bill. Settles and adjusts count, nothing else does; a record is read where it
 * lies and nothing is allocated for it. Always true here: the entries of a record add up to the record. */
#include "gateway/base/hash.h"
#include "gateway/finance/spend.h"
#include <stdio.h>

#define TRIES_MAX 32                 /* a record has no more */
#define QUARTER_US (15 * US_PER_MIN) /* no zone changes its clock inside one */

/* In the order in which a record has them. */
enum {
    R_TEAM,
    R_KEY,
    R_OWNER,
    R_END_USER,
    R_CLIENT,
    R_FAMILY,
    R_ENDPOINT,
    R_ALIAS,
    R_ARM,
    R_MODEL,
    R_TARGET,
    R_LABELS,
    R_ADMITTED,
    R_ATTEMPTS,
    R_USAGE,
    R_PRICE,
    R_COST,
    R_LIST,
    R_SAVED,
    R_ESTIMATED,
    R_OVERRUN,
    R_CACHE,
    R_DEGRADED,
    R_BOOKED,
    R_CONCERNS,
    R_PICKED
};
static const struct span members[R_PICKED] = {
    [R_TEAM] = SPAN("team"),           [R_KEY] = SPAN("key_id"),          [R_OWNER] = SPAN("owner"),
    [R_END_USER] = SPAN("end_user"),   [R_CLIENT] = SPAN("client"),       [R_FAMILY] = SPAN("client_family"),
    [R_ENDPOINT] = SPAN("endpoint"),   [R_ALIAS] = SPAN("alias"),         [R_ARM] = SPAN("arm"),
    [R_MODEL] = SPAN("model"),         [R_TARGET] = SPAN("target"),       [R_LABELS] = SPAN("labels"),
    [R_ADMITTED] = SPAN("admitted"),   [R_ATTEMPTS] = SPAN("attempts"),   [R_USAGE] = SPAN("usage"),
    [R_PRICE] = SPAN("price_digest"),  [R_COST] = SPAN("cost_nanousd"),   [R_LIST] = SPAN("list_nanousd"),
    [R_SAVED] = SPAN("saved_nanousd"), [R_ESTIMATED] = SPAN("estimated"), [R_OVERRUN] = SPAN("overrun"),
    [R_CACHE] = SPAN("cache"),         [R_DEGRADED] = SPAN("degraded"),   [R_BOOKED] = SPAN("booked"),
    [R_CONCERNS] = SPAN("concerns")};

/* Where the plain words of a report lie among them. */
static const int plain[BY_N] = {
    [BY_TEAM] = R_TEAM,         [BY_KEY] = R_KEY,     [BY_OWNER] = R_OWNER,      [BY_FAMILY] = R_FAMILY,
    [BY_END_USER] = R_END_USER, [BY_ALIAS] = R_ALIAS, [BY_ARM] = R_ARM,          [BY_MODEL] = R_MODEL,
    [BY_ENDPOINT] = R_ENDPOINT, [BY_CACHE] = R_CACHE, [BY_DEGRADED] = R_DEGRADED};

enum { T_TARGET, T_KEY, T_PICO, T_LIST, T_USAGE, T_PICKED };
static const struct span try_members[T_PICKED] = {SPAN("target"), SPAN("upstream_key"), SPAN("pico"), SPAN("list_pico"),
                                                  SPAN("usage")};

struct record {
    bool adjust;
    int64_t at_us; /* what it belongs to */
    struct json got[R_PICKED];
    struct json target, upstream_key; /* of the try that an entry stands for */
};

/* ---- texts ---- */

static struct span client_text(struct json v, char space[SPEND_TEXT_MAX]) {
    struct span text = spend_text(v, space);
    size_t n = text.n;
    while (n > 0 && text.at[n - 1] >= '0' && text.at[n - 1] <= '9')
        n--;
    bool port = n > 1 && n < text.n && text.at[n - 1] == ':';
    return port ? span_from(text.at, n - 1) : text;
}

struct span spend_part_of_target(enum spend_by by, struct span target) {
    const char *slash = memchr(target.at, '/', target.n),
               *at = slash ? memchr(slash, '@', target.n - (size_t)(slash - target.at)) : NULL;
    if (by == BY_TARGET)
        return target;
    if (by == BY_BACKEND)
        return slash ? span_from(target.at, (size_t)(slash - target.at)) : target;
    return at ? span_from(slash + 1, target.n - (size_t)(slash + 1 - target.at)) : SPAN(SPEND_NONE);
}

static struct span time_text(struct spend *s, enum spend_by by, int64_t us, char space[SPEND_TEXT_MAX]) {
    int64_t quarter = us / QUARTER_US;
    if (quarter != s->quarter)
        spend_local(s->zone, quarter * QUARTER_US, s->local);
    s->quarter = quarter;
    if (by != BY_HOUR)
        return span_from(s->local, by == BY_DAY ? 10 : 7);
    /* The zone stands behind it: an hour that the clock runs through twice is two hours. */
    int n = snprintf(space, SPEND_TEXT_MAX, "%.13s:00%s", s->local, s->local + 19);
    return span_from(space, (size_t)n);
}

static struct span label_text(struct json labels, const char *name, char space[SPEND_TEXT_MAX]) {
    struct span wanted = span_of(name);
    struct json v;
    audit_pick(labels.kind == JSON_OBJECT ? labels.raw : SPAN_NONE, &wanted, &v, 1);
    return spend_text(v, space);
}

static struct span labels_text(struct json labels) {
    if (labels.kind != JSON_OBJECT || labels.raw.n <= 2)
        return SPAN(SPEND_NONE);
    for (size_t i = 0; i < labels.raw.n; i++)
        if ((unsigned char)labels.raw.at[i] < 0x20)
            return SPAN("(broken)");
    return labels.raw.n <= SPEND_TEXT_MAX ? labels.raw : SPAN("(many)");
}

static struct span group_text(struct spend *s, const struct spend_group *g, const struct record *r,
                              char space[SPEND_TEXT_MAX]) {
    switch (g->by) {
    case BY_CLIENT:
        return client_text(r->got[R_CLIENT], space);
    case BY_TARGET:
    case BY_ADAPTER:
    case BY_BACKEND:
        return spend_part_of_target(g->by, spend_text(r->target, space));
    case BY_UPSTREAM_KEY:
        return spend_text(r->upstream_key, space);
    case BY_CHARGE:
        return r->got[R_CONCERNS].kind == JSON_STRING ? SPAN("correction") : SPAN("usage");
    case BY_LABELS:
        return labels_text(r->got[R_LABELS]);
    case BY_LABEL:
        return label_text(r->got[R_LABELS], g->label, space);
    case BY_HOUR:
    case BY_DAY:
    case BY_MONTH:
        return time_text(s, g->by, r->at_us, space);
    default:
        return spend_text(r->got[plain[g->by]], space);
    }
}

static void add(struct spend *s, const struct record *r, const struct spend_sums *one) {
    char space[SPEND_GROUPS_MAX][SPEND_TEXT_MAX];
    struct span texts[SPEND_GROUPS_MAX];
    for (size_t i = 0; i < s->n_groups; i++)
        texts[i] = group_text(s, &s->groups[i], r, space[i]);
    spend_add(s, texts, one);
}

/* ---- amounts ---- */

static void usage_into(struct json usage, struct spend_sums *to) {
    static const struct span lines[] = {
#define X(name) SPAN(#name),
        USAGE_LINES(X)
#undef X
            SPAN("reasoning")};
    struct json got[ARRAY_LEN(lines)];
    if (usage.kind != JSON_OBJECT)
        return;
    audit_pick(usage.raw, lines, got, ARRAY_LEN(lines));
    size_t i = 0;
#define X(name) to->at[SPEND_##name] = spend_number(got[i++]);
    USAGE_LINES(X)
#undef X
    to->at[SPEND_reasoning] = spend_number(got[i]);
}

/* The marks of a request go with its amounts, so that an amount never stands without its mark. */
static void mark(const struct record *r, int64_t count, struct spend_sums *t) {
    int64_t cost = t->at[SPEND_cost_nanousd], requests = r->adjust ? 0 : count;
    bool degraded = r->got[R_DEGRADED].kind == JSON_STRING;
    t->at[SPEND_degraded_requests] = degraded ? requests : 0;
    t->at[SPEND_degraded_nanousd] = degraded ? cost : 0;
    t->at[SPEND_estimated_requests] = r->got[R_ESTIMATED].kind == JSON_TRUE ? requests : 0;
    t->at[SPEND_estimated_nanousd] = r->got[R_ESTIMATED].kind == JSON_TRUE ? cost : 0;
    t->at[SPEND_overrun_requests] = r->got[R_OVERRUN].kind == JSON_TRUE ? requests : 0;
    t->at[SPEND_overrun_nanousd] = r->got[R_OVERRUN].kind == JSON_TRUE ? cost : 0;
    t->at[SPEND_adjusts] = r->adjust ? count : 0;
    t->at[SPEND_adjusted_nanousd] = r->adjust ? cost : 0;
}

static void sums_of(const struct record *r, struct spend_sums *t) {
    const struct json *got = r->got;
    struct span cache = got[R_CACHE].raw;
    *t = (struct spend_sums){0};
    t->at[SPEND_requests] = !r->adjust;
    t->at[SPEND_cost_nanousd] = spend_number(got[R_COST]);
    t->at[SPEND_list_nanousd] = got[R_LIST].kind == JSON_NUMBER ? spend_number(got[R_LIST]) : t->at[SPEND_cost_nanousd];
    t->at[SPEND_saved_nanousd] = spend_number(got[R_SAVED]);
    t->at[SPEND_cached_requests] = !r->adjust && (span_is(cache, "\"hit\"") || span_is(cache, "\"shared\""));
    usage_into(got[R_USAGE], t);
    mark(r, 1, t);
}

/* ---- tries ---- */

struct one_try {
    struct json got[T_PICKED];
};

static size_t read_tries(struct json attempts, struct one_try tries[TRIES_MAX]) {
    struct span rest = attempts.kind == JSON_ARRAY ? attempts.raw : SPAN_NONE, name;
    struct json v;
    size_t n = 0;
    while (n < TRIES_MAX && audit_next(&rest, &name, &v))
        if (v.kind == JSON_OBJECT)
            audit_pick(v.raw, try_members, tries[n++].got, T_PICKED);
    return n;
}

/* What a try adds to a running sum that is rounded up: so parts add up to the rounded whole. */
static int64_t share_of(struct json pico, __int128 *sum) {
    __int128 scaled, before = *sum;
    if (!spend_pico(pico, &scaled))
        return 0;
    *sum += scaled;
    return spend_ceil_nano(*sum) - spend_ceil_nano(before);
}

static void less(struct spend *s, struct spend_sums *from, const struct spend_sums *part) {
    for (size_t i = 0; i < SPEND_COLUMNS_N; i++)
        if (__builtin_sub_overflow(from->at[i], part->at[i], &from->at[i]))
            s->overflow = true;
}

/* Each try but the last is its own entry; the last one is the request's, with all that is left. */
static void add_by_try(struct spend *s, struct record *r, struct spend_sums *whole) {
    struct one_try tries[TRIES_MAX];
    size_t n = read_tries(r->got[R_ATTEMPTS], tries);
    __int128 cost = 0, list = 0;
    whole->at[SPEND_tries] = r->adjust ? 0 : (int64_t)n;
    r->target = r->got[R_TARGET];
    for (size_t i = 0; i < n; i++) {
        const struct json *got = tries[i].got;
        struct spend_sums part = {0};
        r->target = got[T_TARGET];
        r->upstream_key = got[T_KEY];
        if (i + 1 == n)
            break;
        part.at[SPEND_tries] = !r->adjust;
        part.at[SPEND_cost_nanousd] = share_of(got[T_PICO], &cost);
        part.at[SPEND_list_nanousd] = share_of(got[T_LIST].kind == JSON_STRING ? got[T_LIST] : got[T_PICO], &list);
        usage_into(got[T_USAGE], &part);
        mark(r, 0, &part);
        less(s, whole, &part);
        add(s, r, &part);
    }
    add(s, r, whole);
}

/* A whole request needs no more of its tries than their number. */
static void add_whole(struct spend *s, const struct record *r, struct spend_sums *whole) {
    struct span rest = r->got[R_ATTEMPTS].kind == JSON_ARRAY ? r->got[R_ATTEMPTS].raw : SPAN_NONE, name;
    struct json v;
    while (!r->adjust && whole->at[SPEND_tries] < TRIES_MAX && audit_next(&rest, &name, &v))
        whole->at[SPEND_tries]++;
    add(s, r, whole);
}

/* ---- records ---- */

static void see_range(struct spend *s, int64_t time_us) {
    s->first_us = time_us < s->first_us ? time_us : s->first_us;
    s->last_us = time_us > s->last_us ? time_us : s->last_us;
}

static bool is_told_by_rollup(const struct spend *s, int64_t at_us) {
    for (size_t i = 0; i < s->n_closed; i++)
        if (at_us >= s->closed[i].from_us && at_us < s->closed[i].to_us)
            return true;
    return false;
}

static void note_price(struct spend *s, const struct record *r, const struct spend_sums *whole) {
    struct json digest = r->got[R_PRICE];
    if (digest.kind != JSON_STRING || digest.raw.n <= 2 || !whole->at[SPEND_cost_nanousd])
        return;
    struct span text = span_from(digest.raw.at + 1, digest.raw.n - 2);
    if (!map_find(&s->price_digests, text))
        map_put(&s->price_digests, text, s);
}

static void count(struct spend *s, struct record *r, const struct audit_frame *frame) {
    struct spend_sums whole;
    sums_of(r, &whole);
    s->counted++;
    if (s->counted_sha)
        sha256_add(s->counted_sha, span_of(frame->hash));
    note_price(s, r, &whole);
    if (s->by_try)
        add_by_try(s, r, &whole);
    else
        add_whole(s, r, &whole);
}

/* Names of one chain's files differ in their last two parts. */
static size_t chain_part(const char *file) {
    size_t n = strlen(file);
    for (int parts = 0; n > 0 && parts < 2; parts += file[n] == '-')
        n--;
    return n;
}

/* The first record of a chain is its first, or older files are gone. */
static void see_file(struct spend *s, const struct audit_line *l, uint64_t seq, int64_t time_us) {
    size_t n = chain_part(l->file);
    bool same = n == chain_part(s->chain_file) && memcmp(l->file, s->chain_file, n) == 0 && s->chain_file[0];
    if (!same && seq > 1 && time_us > s->cut_us)
        s->cut_us = time_us;
    snprintf(s->chain_file, sizeof s->chain_file, "%s", l->file);
}

bool spend_see(const struct audit_line *l, void *user) {
    struct spend *s = user;
    struct audit_frame frame;
    struct record r = {0};
    int64_t time_us = 0;
    if (!audit_frame(l->text, &frame))
        return true; /* the verdict says so */
    s->records++;
    if (clock_parse(frame.time, &time_us))
        see_range(s, time_us);
    if (l->line == 1)
        see_file(s, l, frame.seq, time_us);
    r.adjust = frame.kind == AUDIT_ADJUST;
    if (frame.kind != AUDIT_SETTLE && !r.adjust)
        return true;
    audit_pick(l->text, members, r.got, R_PICKED);
    if (!spend_instant(r.got[R_BOOKED], &r.at_us) && !spend_instant(r.got[R_ADMITTED], &r.at_us))
        r.at_us = time_us; /* a cached answer was never admitted */
    if (r.at_us >= s->from_us && r.at_us < s->to_us && !is_told_by_rollup(s, r.at_us))
        count(s, &r, &frame);
    return !s->too_many && !s->overflow && !(s->stop && atomic_load_explicit(s->stop, memory_order_relaxed));
}
