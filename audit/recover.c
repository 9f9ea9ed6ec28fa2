/* Reading a chain back when it is opened. Always true here: what is read is one unbroken piece of the chain; a break
 * before the end is told and nothing is changed, a break with no whole record after it is a torn end and is cut. */
#include "audit/recover.h"
#include "audit/line.h"
#include "gateway/base/clock.h"
#include "gateway/base/json.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define ADMIT_ARENA_MAX ((size_t)1 << 20)

struct reading {
    const struct audit_options *o;
    struct recovered *out;
    const struct segment *segment;
    bool last;          /* this is the chain's last file */
    bool tells;         /* settles count: they are not in the totals that were read */
    int64_t good_bytes; /* of this file, that hold whole records */
    bool broken;        /* a line was no record of this chain */
    int64_t broken_line;
    struct str *why;
};

enum { REQUEST, TEAM, KEY_ID, ADMITTED, COST, HOLD, PICKED };
static const char *const picked_names[PICKED] = {"request",  "team",         "key_id",
                                                 "admitted", "cost_nanousd", "hold_nanousd"};

static int64_t number_of(struct json v) {
    int64_t n;
    return json_i64(v, &n) ? n : 0;
}

static void keep_open(struct reading *g, const struct line_frame *f, struct span line, const struct json *got,
                      struct span request) {
    struct open_admit *open = xcalloc(1, sizeof *open + line.n);
    open->seq = f->seq;
    open->hold_nanousd = number_of(got[HOLD]);
    open->n = line.n;
    memcpy(open->line, line.at, line.n);
    free(map_put(&g->out->open, request, open));
}

static void raise_hold(struct reading *g, const struct json *got, struct span request) {
    struct open_admit *open = map_find(&g->out->open, request);
    if (open && number_of(got[HOLD]) > open->hold_nanousd)
        open->hold_nanousd = number_of(got[HOLD]);
}

static void tell(struct reading *g, const struct audit_settled *s) {
    totals_add(&g->out->totals, s->team, s->key_id, s->admitted_us, s->nanousd);
    if (g->o->settled && s->admitted_us >= g->o->since_us)
        g->o->settled(s, g->o->user);
}

static void see_settle(struct reading *g, const struct line_frame *f, const struct json *got, struct span request) {
    struct arena arena;
    struct audit_settled s = {.request = request, .chain = g->o->chain, .nanousd = number_of(got[COST])};
    arena_init(&arena, LINE_MAX_BYTES);
    s.team = json_text(got[TEAM], &arena);
    s.key_id = json_text(got[KEY_ID], &arena);
    if (!clock_parse(json_text(got[ADMITTED], &arena), &s.admitted_us) && !clock_parse(f->time, &s.admitted_us))
        s.admitted_us = 0;
    tell(g, &s);
    arena_fini(&arena);
}

/* What a whole record means for what is open and what is spent. */
static void see_record(struct reading *g, const struct line_frame *f, struct span line) {
    struct json root, got[PICKED];
    struct json_fault fault;
    struct arena arena;
    int kind = line_kind(f->kind);
    g->out->since_head = kind == AUDIT_HEAD ? 0 : g->out->since_head + 1;
    if (kind != AUDIT_ADMIT && kind != AUDIT_HOLD && kind != AUDIT_SETTLE && kind != AUDIT_REFUSE &&
        kind != AUDIT_ADJUST)
        return;
    if (!json_check(line, JSON_DEPTH_MAX, &root, &fault))
        return;
    json_pick(root, picked_names, got, PICKED);
    arena_init(&arena, LINE_MAX_BYTES);
    struct span request = json_text(got[REQUEST], &arena);
    if (kind == AUDIT_ADMIT)
        keep_open(g, f, line, got, request);
    else if (kind == AUDIT_HOLD)
        raise_hold(g, got, request);
    else if (kind != AUDIT_ADJUST)
        free(map_remove(&g->out->open, request));
    if ((kind == AUDIT_SETTLE || kind == AUDIT_ADJUST) && g->tells)
        see_settle(g, f, got, request);
    arena_fini(&arena);
}

static bool follows(const struct recovered *r, const struct line_frame *f) {
    if (r->seq == 0) /* the first record that is read: of a new chain, or of the piece that is needed */
        return true;
    return f->seq == r->seq + 1 && span_is(f->prev, r->hash);
}

/* A note of a tree ends it; everything else is a leaf of the next. */
static void grow(struct reading *g, const struct line_frame *f, struct span line) {
    static const char note[] = ",\"what\":\"tree\",\"tree_from\":";
    uint8_t leaf[SHA256_BYTES];
    if (!g->o->head_key || !hex_read(f->hash, leaf, sizeof leaf))
        return;
    if (line_kind(f->kind) == AUDIT_NOTE && memmem(line.at, line.n, note, sizeof note - 1))
        g->out->tree.n = 0;
    else
        tree_add(&g->out->tree, leaf);
}

static bool take(struct reading *g, struct span line) {
    struct line_frame f;
    if (!line_read(line, &f) || !line_hash_is_true(&f) || !follows(g->out, &f))
        return false;
    see_record(g, &f, line);
    grow(g, &f, line);
    g->out->seq = f.seq;
    memcpy(g->out->hash, f.hash.at, f.hash.n);
    g->out->hash[f.hash.n] = 0;
    return true;
}

static bool damaged(struct reading *g, int64_t line, const char *what) {
    str_printf(g->why, "%s/%s line %lld: %s; `tollgate audit verify %s` says more", g->o->directory, g->segment->name,
               (long long)line, what, g->o->directory);
    return false;
}

/* A line that is no record of this chain: only bytes without any whole record may follow it. */
static bool see_line(struct reading *g, struct span line, const struct lines *l) {
    struct line_frame f;
    if (!g->broken && take(g, line)) {
        g->good_bytes = l->offset;
        return true;
    }
    if (line_read(line, &f) && line_hash_is_true(&f))
        return damaged(g, l->line, "the record does not follow the one before it");
    if (!g->broken)
        g->broken_line = l->line;
    g->broken = true;
    return true;
}

static bool read_lines(struct reading *g, struct lines *l) {
    struct span line;
    for (;;) {
        enum lines_got got = lines_next(l, &line);
        if (got == LINES_END)
            return true;
        if (got == LINES_FAILED)
            return damaged(g, l->line + 1, strerror(errno));
        if (got == LINES_LONG)
            return damaged(g, l->line, "the line is too long to be a record");
        if (got == LINES_LINE && !see_line(g, line, l))
            return false;
        if (got == LINES_TORN && !g->broken) {
            g->broken = true;
            g->broken_line = l->line;
        }
    }
}

/* Cuts the torn end off the last file, durably: new records go where it was. */
static bool cut(struct reading *g, int64_t size) {
    char path[4096];
    int n = snprintf(path, sizeof path, "%s/%s", g->o->directory, g->segment->name);
    int fd = n > 0 && (size_t)n < sizeof path ? open(path, O_WRONLY | O_CLOEXEC) : -1;
    bool done = fd >= 0 && ftruncate(fd, (off_t)g->good_bytes) == 0 && fdatasync(fd) == 0;
    if (!done)
        damaged(g, g->broken_line, strerror(errno));
    if (fd >= 0)
        close(fd);
    g->out->cut_bytes = size - g->good_bytes;
    g->out->cut_line = g->broken_line;
    return done;
}

static bool read_segment(struct reading *g) {
    struct lines l;
    g->good_bytes = 0;
    g->broken = false;
    if (!lines_open(&l, g->o->directory, g->segment->name))
        return damaged(g, 0, strerror(errno));
    bool good = read_lines(g, &l);
    int64_t size = l.offset;
    lines_close(&l);
    if (good && g->broken && !g->last)
        return damaged(g, g->broken_line, "the line is no record of this chain");
    if (good && g->broken)
        good = cut(g, size);
    memcpy(g->out->segment, g->segment->name, sizeof g->out->segment);
    g->out->number = g->segment->number;
    g->out->size_bytes = g->good_bytes;
    return good;
}

/* Where reading begins. */
struct base {
    size_t at;           /* settles count from this file on */
    size_t open_from;    /* requests may be open since this file */
    struct totals *into; /* totals that the head of `at` carries */
    int64_t number;      /* of `at`; 0: no file begins with totals */
};

/* Whether this file's first record is a head with totals, which are then read. */
static bool has_totals(const struct audit_options *o, const struct segments *all, struct base *b) {
    static const char *const names[] = {"totals", "open_segment"};
    struct lines l;
    struct span line;
    struct line_frame f;
    struct json root, got[2];
    struct json_fault fault;
    if (!lines_open(&l, o->directory, all->all[b->at].name))
        return false;
    bool has = lines_next(&l, &line) == LINES_LINE && line_read(line, &f) && line_hash_is_true(&f) &&
               line_kind(f.kind) == AUDIT_HEAD && json_check(line, JSON_DEPTH_MAX, &root, &fault);
    if (has) {
        json_pick(root, names, got, 2);
        has = totals_read(b->into, got[0]);
        int64_t from = number_of(got[1]);
        for (b->open_from = b->at; from && b->open_from > 0 && all->all[b->open_from - 1].number >= from;)
            b->open_from--;
    }
    lines_close(&l);
    return has;
}

static void find_base(const struct audit_options *o, const struct segments *all, struct base *b) {
    for (b->at = all->n; b->at-- > 0;) {
        if (has_totals(o, all, b)) {
            b->number = all->all[b->at].number;
            return;
        }
        totals_fini(b->into);
        totals_init(b->into);
    }
    b->at = b->open_from = 0;
}

static void tell_total(struct span team, struct span key_id, int64_t admitted_us, int64_t nanousd, void *user) {
    const struct audit_options *o = user;
    struct audit_settled s = {
        .team = team, .key_id = key_id, .chain = o->chain, .admitted_us = admitted_us, .nanousd = nanousd};
    if (o->settled && admitted_us >= o->since_us)
        o->settled(&s, o->user);
}

static bool read_all(const struct segments *all, struct reading *g) {
    struct base b = {.into = &g->out->totals};
    find_base(g->o, all, &b);
    g->out->totals_number = b.number;
    totals_each(b.into, tell_total, (void *)(uintptr_t)g->o);
    for (size_t i = b.open_from; i < all->n; i++) {
        g->segment = &all->all[i];
        g->last = i + 1 == all->n;
        g->tells = i >= b.at;
        if (!read_segment(g))
            return false;
    }
    return true;
}

bool recover_chain(const struct audit_options *o, struct recovered *out, struct str *why) {
    struct segments all;
    *out = (struct recovered){.hash = LINE_ZERO_HASH};
    map_init(&out->open);
    totals_init(&out->totals);
    if (!segments_list(o->directory, o->chain, &all, why))
        return false;
    struct reading g = {.o = o, .out = out, .why = why};
    bool good = all.n == 0 || read_all(&all, &g);
    segments_free(&all);
    return good;
}

void recover_free(struct recovered *r) {
    for (struct map_entry *e = map_next(&r->open, NULL); e; e = map_next(&r->open, e))
        free(e->value);
    map_fini(&r->open);
    totals_fini(&r->totals);
}
