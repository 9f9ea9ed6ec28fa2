/* Events as bytes: what an answer keeps and the cache holds.
 *
 *     version u8 | length u32 of what follows | bits u32 | finish u8 | err u8 | status u32 | text_bytes u64
 *     usage: a u64 a line, reasoning, flags u8, tier u8 | name | data | usage_raw | message | splices | parts
 *
 * All little-endian; a span is a u32 length and its bytes. Unpacking trusts nothing: every length, kind and splice is
 * checked, so bytes from a store can be wrong but never harmful. A changed layout gets a new version and old entries
 * are misses. */
#include "backends/dialect.h"

#define EVENT_VERSION 3
#define EVENT_BITS_ALL ((1u << 10) - 1)

static void put_n(struct str *out, uint64_t v, int bytes) {
    char little[8];
    for (int i = 0; i < bytes; i++)
        little[i] = (char)(v >> (8 * i) & 0xFF);
    str_put(out, span_from(little, (size_t)bytes));
}

static void put_span(struct str *out, struct span s) {
    put_n(out, s.n, 4);
    str_put(out, s);
}

static void put_usage(struct str *out, const struct usage *u) {
#define X(name) put_n(out, (uint64_t)u->name, 8);
    USAGE_LINES(X)
#undef X
    put_n(out, (uint64_t)u->reasoning, 8);
    put_n(out, (uint64_t)(u->reported | u->estimated << 1 | u->regional << 2), 1);
    put_n(out, (uint64_t)u->tier, 1);
}

static void put_part(struct str *out, const struct part *p) {
    put_n(out, (uint64_t)p->kind, 1);
    put_n(out, (uint64_t)p->choice, 4);
    put_n(out, (uint64_t)p->tool, 4);
    put_span(out, p->text);
    put_span(out, p->id);
    put_span(out, p->name);
}

void event_pack(const struct event *e, struct str *out) {
    size_t n_parts = e->n_parts < EVENT_PARTS_MAX ? e->n_parts : EVENT_PARTS_MAX, at = out->n;
    put_n(out, EVENT_VERSION, 1);
    put_n(out, 0, 4); /* the length, filled in below */
    put_n(out, e->bits | (n_parts < e->n_parts ? EVENT_CUT | EVENT_NO_STORE : 0), 4);
    put_n(out, (uint64_t)e->finish, 1);
    put_n(out, (uint64_t)e->err, 1);
    put_n(out, (uint64_t)e->status, 4);
    put_n(out, (uint64_t)e->text_bytes, 8);
    put_usage(out, &e->usage);
    put_span(out, e->name);
    put_span(out, e->data);
    put_span(out, e->usage_raw);
    put_span(out, e->message);
    put_n(out, (uint64_t)e->n_splices, 1);
    for (int i = 0; i < e->n_splices; i++) {
        put_n(out, (uint64_t)e->splices[i].what, 1);
        put_n(out, e->splices[i].at, 4);
        put_n(out, e->splices[i].n, 4);
    }
    put_n(out, n_parts, 2);
    for (size_t i = 0; i < n_parts; i++)
        put_part(out, &e->parts[i]);
    if (out->over)
        return;
    size_t length = out->n - at - 5;
    for (int i = 0; i < 4; i++)
        out->at[at + 1 + (size_t)i] = (char)(length >> (8 * i) & 0xFF);
}

struct unpack {
    struct span rest;
    bool bad;
};

static uint64_t get_n(struct unpack *u, int bytes) {
    uint64_t v = 0;
    if (u->rest.n < (size_t)bytes) {
        u->bad = true;
        return 0;
    }
    for (int i = 0; i < bytes; i++)
        v |= (uint64_t)(unsigned char)u->rest.at[i] << (8 * i);
    u->rest.at += bytes;
    u->rest.n -= (size_t)bytes;
    return v;
}

/* A number no larger than `most`. */
static uint64_t get_most(struct unpack *u, int bytes, uint64_t most) {
    uint64_t v = get_n(u, bytes);
    u->bad |= v > most;
    return u->bad ? 0 : v;
}

static struct span get_span(struct unpack *u) {
    size_t n = get_n(u, 4);
    if (u->bad || n > u->rest.n) {
        u->bad = true;
        return SPAN_NONE;
    }
    struct span s = {n ? u->rest.at : NULL, n};
    u->rest.at += n;
    u->rest.n -= n;
    return s;
}

static void get_usage(struct unpack *u, struct usage *to) {
#define X(name) to->name = (int64_t)get_most(u, 8, (uint64_t)USAGE_TOK_MAX);
    USAGE_LINES(X)
#undef X
    to->reasoning = (int64_t)get_most(u, 8, (uint64_t)USAGE_TOK_MAX);
    uint64_t flags = get_most(u, 1, 7);
    to->reported = flags & 1;
    to->estimated = flags >> 1 & 1;
    to->regional = flags >> 2 & 1;
    to->tier = (enum usage_tier)get_most(u, 1, TIER_N - 1);
}

static void get_splices(struct unpack *u, struct event *e) {
    size_t end = 0;
    e->n_splices = (int)get_most(u, 1, EVENT_SPLICES_MAX);
    for (int i = 0; i < e->n_splices; i++) {
        struct splice *s = &e->splices[i];
        s->what = (enum splice_what)get_most(u, 1, SPLICE_USAGE);
        s->at = get_n(u, 4);
        s->n = get_n(u, 4);
        u->bad |= !s->n || s->at < end || s->at > e->data.n || s->n > e->data.n - s->at;
        end = s->at + s->n;
    }
}

static void get_parts(struct unpack *u, struct event *e, struct part *parts) {
    e->n_parts = get_most(u, 2, EVENT_PARTS_MAX);
    e->parts = parts;
    for (size_t i = 0; i < e->n_parts && !u->bad; i++) {
        struct part *p = &parts[i];
        p->kind = (enum part_kind)get_most(u, 1, PART_LOGPROBS);
        p->choice = (int)get_most(u, 4, READER_CHOICES_MAX);
        p->tool = (int)get_most(u, 4, READER_TOOLS_MAX);
        p->text = get_span(u);
        p->id = get_span(u);
        p->name = get_span(u);
    }
}

size_t event_packed_bytes(struct span bytes) {
    struct unpack u = {bytes, false};
    get_n(&u, 1);
    size_t length = get_n(&u, 4);
    return u.bad || length > u.rest.n ? 0 : length + (bytes.n - u.rest.n);
}

bool event_unpack(struct span *rest, struct event *e, struct part parts[EVENT_PARTS_MAX]) {
    struct unpack u = {*rest, false};
    memset(e, 0, sizeof *e);
    if (get_n(&u, 1) != EVENT_VERSION)
        return false;
    size_t length = get_n(&u, 4);
    if (u.bad || length > u.rest.n)
        return false;
    struct span after = {u.rest.at + length, u.rest.n - length};
    u.rest.n = length;
    e->bits = (unsigned)get_most(&u, 4, EVENT_BITS_ALL);
    e->finish = (enum finish)get_most(&u, 1, FINISH_OTHER);
    e->err = (enum err)get_most(&u, 1, ERR_N - 1);
    e->status = (int)get_most(&u, 4, 999);
    e->text_bytes = (int64_t)get_most(&u, 8, INT64_MAX);
    get_usage(&u, &e->usage);
    e->name = get_span(&u);
    e->data = get_span(&u);
    e->usage_raw = get_span(&u);
    e->message = get_span(&u);
    get_splices(&u, e);
    get_parts(&u, e, parts);
    if (u.bad || u.rest.n)
        return false;
    *rest = after;
    return true;
}
