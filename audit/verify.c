/* Checking chains from their first record to their head. Always true here: `seq` and `hash` are those of the last record
 * found true; the first fault ends the chain's check and is named by where it is and what it must have been. */
#include "audit/line.h"
#include "audit/segment.h"
#include "audit/sign.h"
#include "gateway/base/json.h"
#include "gateway/base/map.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

struct checking {
    const char *directory;
    const struct sign_key *key; /* NULL: signatures are not checked */
    const struct segment *segment, *before;
    bool last; /* this is the chain's last file */
    int64_t line;
    uint64_t seq, sealed_seq;
    char hash[SHA256_HEX_MAX];
    struct map open;
    struct audit_verdict *out;
};

static bool fault(struct checking *c, uint64_t seq, const char *format, ...) printf_like(3, 4);
static bool fault(struct checking *c, uint64_t seq, const char *format, ...) {
    struct audit_fault *f = &c->out->fault;
    va_list args;
    va_start(args, format);
    vsnprintf(f->what, sizeof f->what, format, args);
    va_end(args);
    snprintf(f->file, sizeof f->file, "%s", c->segment->name);
    f->line = c->line;
    f->seq = seq;
    c->out->clean = false;
    return false;
}

/* Whether the record that should stand here stands further down in the same file. */
static bool stands_later(const struct checking *c, uint64_t seq) {
    struct lines l;
    struct span line;
    struct line_frame f;
    bool found = false;
    if (!lines_open(&l, c->directory, c->segment->name))
        return false;
    while (!found && lines_next(&l, &line) == LINES_LINE)
        found = l.line > c->line && line_read(line, &f) && f.seq == seq;
    lines_close(&l);
    return found;
}

static bool fault_missing(struct checking *c, uint64_t seq) {
    unsigned long long from = c->seq + 1, to = seq - 1;
    if (stands_later(c, c->seq + 1))
        return fault(c, seq, "reordered: record %llu should stand here and stands further down", from);
    if (c->line == 1 && c->before && c->segment->number > c->before->number + 1)
        return fault(c, seq,
                     "deleted: records %llu to %llu are missing, and so are files between numbers %lld and %lld", from,
                     to, (long long)c->before->number, (long long)c->segment->number);
    return fault(c, seq, "deleted: records %llu to %llu are missing before this one", from, to);
}

static bool check_place(struct checking *c, const struct line_frame *f) {
    if (f->seq > c->seq + 1)
        return fault_missing(c, f->seq);
    if (f->seq < c->seq + 1)
        return fault(c, f->seq, "repeated or reordered: record %llu stood before, and %llu should stand here",
                     (unsigned long long)f->seq, (unsigned long long)c->seq + 1);
    if (!span_is(f->prev, c->hash))
        return fault(c, f->seq, "fork: the record follows another record %llu than the one before it",
                     (unsigned long long)c->seq);
    return true;
}

static bool check_head(struct checking *c, const struct line_frame *f, struct span line) {
    static const char *const names[] = {"chain", "head_seq", "head_hash", "head_time", "signature"};
    struct json root, got[ARRAY_LEN(names)];
    struct json_fault why;
    int64_t seq;
    if (!json_check(line, JSON_DEPTH_MAX, &root, &why))
        return fault(c, f->seq, "edited: the head is no JSON");
    json_pick(root, names, got, ARRAY_LEN(names));
    if (!json_i64(got[1], &seq) || (uint64_t)seq != c->seq || !json_is(got[2], c->hash) ||
        !json_is(got[0], c->segment->chain))
        return fault(c, f->seq, "fork: the head names another chain or record than the one before it");
    if (got[4].kind != JSON_STRING)
        return true;
    struct span time = span_from(got[3].raw.at + 1, got[3].kind == JSON_STRING ? got[3].raw.n - 2 : 0);
    struct span signature = span_from(got[4].raw.at + 1, got[4].raw.n - 2);
    struct sign_head head = {c->segment->chain, c->seq, span_of(c->hash), time};
    if (c->key && !sign_check(c->key, &head, signature))
        return fault(c, f->seq, "forged: the head's signature is not of this key");
    c->sealed_seq = f->seq;
    return true;
}

static void count_open(struct checking *c, const struct line_frame *f, int kind) {
    if (kind == AUDIT_ADMIT)
        map_put(&c->open, f->request, c);
    else if (kind == AUDIT_SETTLE || kind == AUDIT_REFUSE)
        map_remove(&c->open, f->request);
}

static bool check_line(struct checking *c, struct span line) {
    struct line_frame f;
    if (!line_read(line, &f))
        return fault(c, 0, "edited: the line is not a record (record %llu should stand here)",
                     (unsigned long long)c->seq + 1);
    if (!line_hash_is_true(&f))
        return fault(c, f.seq, "edited: the bytes of the line do not give its hash (kind %.*s)",
                     (int)(f.kind.n < 32 ? f.kind.n : 32), f.kind.at);
    int kind = line_kind(f.kind);
    if (!check_place(c, &f) || (kind == AUDIT_HEAD && !check_head(c, &f, line)))
        return false;
    count_open(c, &f, kind);
    c->seq = f.seq;
    memcpy(c->hash, f.hash.at, f.hash.n);
    c->out->records++;
    return true;
}

/* A write that is going on looks like a torn line; nobody writes when the chain's lock is free. */
static bool check_torn(struct checking *c) {
    if (!c->last)
        return fault(c, c->seq + 1, "truncated: the file ends inside a line, and another follows it");
    if (segment_is_locked(c->directory, c->segment->chain))
        return true;
    return fault(c, c->seq + 1, "torn: the last line is cut; the next start cuts it off and says so");
}

static bool check_lines(struct checking *c, struct lines *l) {
    struct span line;
    for (;;) {
        enum lines_got got = lines_next(l, &line);
        c->line = l->line;
        if (got == LINES_END)
            return true;
        if (got == LINES_TORN)
            return check_torn(c);
        if (got == LINES_LONG)
            return fault(c, 0, "edited: the line is longer than any record");
        if (got == LINES_FAILED)
            return fault(c, 0, "cannot be read: %s", strerror(errno));
        if (!check_line(c, line))
            return false;
    }
}

static bool check_segment(struct checking *c) {
    struct lines l;
    c->line = 0;
    if (!lines_open(&l, c->directory, c->segment->name))
        return fault(c, 0, "cannot be read: %s", strerror(errno));
    bool good = check_lines(c, &l);
    lines_close(&l);
    return good;
}

/* Segments [from, to) are one chain. */
static bool check_chain(struct checking *c, const struct segments *all, size_t from, size_t to) {
    bool good = true;
    map_init(&c->open);
    c->seq = c->sealed_seq = 0;
    c->before = NULL;
    memcpy(c->hash, LINE_ZERO_HASH, sizeof c->hash);
    for (size_t i = from; good && i < to; i++) {
        c->segment = &all->all[i];
        c->last = i + 1 == to;
        good = check_segment(c);
        c->before = c->segment;
    }
    c->out->chains++;
    c->out->open_admits += c->open.n;
    c->out->unsealed += c->seq - c->sealed_seq;
    map_fini(&c->open);
    return good;
}

/* One chain: its head. Several: one hash over all heads, so that a single value names the state of the log. */
static void put_head(struct checking *c, struct str *heads) {
    struct audit_verdict *v = c->out;
    uint8_t digest[SHA256_BYTES];
    str_printf(heads, "%s %llu %s\n", c->segment->chain, (unsigned long long)c->seq, c->hash);
    if (c->seq > v->head_seq)
        v->head_seq = c->seq;
    if (v->chains == 1) {
        memcpy(v->head_hash, c->hash, sizeof v->head_hash);
        return;
    }
    sha256(str_span(heads), digest);
    hex_put(digest, sizeof digest, v->head_hash);
}

static void check_all(struct checking *c, const struct segments *all) {
    struct str heads;
    str_init(&heads, (size_t)1 << 24);
    for (size_t at = 0, end; at < all->n && c->out->clean; at = end) {
        end = segments_chain_end(all, at);
        if (check_chain(c, all, at, end))
            put_head(c, &heads);
    }
    str_fini(&heads);
}

bool audit_verify(const char *directory, const char *public_key, struct audit_verdict *out, struct str *why) {
    struct segments all;
    struct checking c = {.directory = directory, .out = out};
    *out = (struct audit_verdict){.clean = true, .head_hash = LINE_ZERO_HASH};
    struct sign_key *key = public_key ? sign_key_public(public_key, why) : NULL;
    if (public_key && !key)
        return false;
    c.key = key;
    bool read = segments_list(directory, NULL, &all, why);
    if (read)
        check_all(&c, &all);
    segments_free(&all);
    sign_key_free(key);
    return read;
}
