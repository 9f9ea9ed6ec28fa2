/* One file of a chain, line by line. Always true here: `seq` and `hash` are those of the last record found true; the
 * first fault ends the piece and names the record that is wrong, not the one that shows it. */
#include "audit/verify.h"
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

const char *const audit_wrong_names[AUDIT_WRONGS] = {
    [AUDIT_EDITED] = "edited",
    [AUDIT_INSERTED] = "inserted",
    [AUDIT_DELETED] = "deleted",
    [AUDIT_REORDERED] = "reordered",
    [AUDIT_TRUNCATED] = "truncated",
    [AUDIT_TORN] = "torn",
    [AUDIT_FORK] = "fork",
    [AUDIT_FORGED] = "forged",
    [AUDIT_MISSING_FILE] = "missing file",
    [AUDIT_MISSING_CHAIN] = "missing chain",
    [AUDIT_UNREADABLE] = "unreadable",
};

bool piece_fault(struct piece *p, enum audit_wrong wrong, int64_t line, uint64_t seq, const char *format, ...) {
    struct audit_fault *f = &p->fault;
    va_list args;
    size_t n = (size_t)snprintf(f->what, sizeof f->what, "%s: ", audit_wrong_names[wrong]);
    va_start(args, format);
    vsnprintf(f->what + n, sizeof f->what - n, format, args);
    va_end(args);
    snprintf(f->file, sizeof f->file, "%s", p->segment->name);
    f->wrong = wrong;
    f->line = line;
    f->seq = seq;
    p->faulty = true;
    return false;
}

/* The first line of this file after `from` and before `to` that has this seq; its hash, where it is wanted. */
static bool find_line(const struct piece *p, int64_t from, int64_t to, uint64_t seq, char hash[SHA256_HEX_MAX]) {
    struct lines l;
    struct span text;
    struct line_frame f;
    bool found = false;
    if (!lines_open(&l, p->directory, p->segment->name))
        return false;
    while (!found && lines_next(&l, &text) == LINES_LINE && l.line < to)
        found = l.line > from && line_read(text, &f) && f.seq == seq;
    if (found && hash) {
        memcpy(hash, f.hash.at, f.hash.n);
        hash[f.hash.n] = 0;
    }
    lines_close(&l);
    return found;
}

bool piece_holds_later(const struct piece *p, int64_t line, uint64_t seq) {
    return find_line(p, line, INT64_MAX, seq, NULL);
}

static bool stood_before(const struct piece *p, uint64_t seq, char hash[SHA256_HEX_MAX]) {
    return find_line(p, 0, p->line, seq, hash);
}

#define U(n) ((unsigned long long)(n))

static bool fault_again(struct piece *p, const struct line_frame *f, struct lines *l) {
    char before[SHA256_HEX_MAX];
    struct span next;
    struct line_frame after;
    if (stood_before(p, f->seq, before) && span_is(f->hash, before))
        return piece_fault(p, AUDIT_INSERTED, p->line, f->seq, "record %llu stands here a second time", U(f->seq));
    if (f->seq != p->seq || !span_is(f->prev, p->prev))
        return piece_fault(p, AUDIT_REORDERED, p->line, f->seq, "record %llu should stand here", U(p->seq) + 1);
    char hash[SHA256_HEX_MAX];
    memcpy(hash, f->hash.at, SHA256_HEX_MAX - 1); /* the line goes away with the next */
    hash[SHA256_HEX_MAX - 1] = 0;
    bool goes_on = lines_next(l, &next) == LINES_LINE && line_read(next, &after) && span_is(after.prev, p->hash);
    return piece_fault(p, AUDIT_INSERTED, goes_on ? p->line : p->seq_line, p->seq,
                       "two records %llu stand here, and the log goes on from the %s", U(p->seq),
                       goes_on ? "first" : "second");
}

static bool check_place(struct piece *p, const struct line_frame *f, struct lines *l) {
    if (p->records == 0)
        return true; /* asked by the join */
    if (f->seq > p->seq + 1 && piece_holds_later(p, p->line, p->seq + 1))
        return piece_fault(p, AUDIT_REORDERED, p->line, f->seq, "record %llu should stand here and stands further down",
                           U(p->seq) + 1);
    if (f->seq > p->seq + 1)
        return piece_fault(p, AUDIT_DELETED, p->line, f->seq, "records %llu to %llu are missing before this one",
                           U(p->seq) + 1, U(f->seq) - 1);
    if (f->seq <= p->seq)
        return fault_again(p, f, l);
    if (!span_is(f->prev, p->hash))
        return piece_fault(p, AUDIT_EDITED, p->seq_line, p->seq,
                           "record %llu was written anew: the record after it follows another one", U(p->seq));
    return true;
}

void claims_add(struct claims *c, const struct claim *one) {
    if (c->n == c->capacity) {
        c->capacity = c->capacity ? c->capacity * 2 : 16;
        c->all = xrealloc(c->all, c->capacity * sizeof *c->all);
    }
    c->all[c->n++] = *one;
}

static struct span inner(struct json v) {
    return v.kind == JSON_STRING ? span_from(v.raw.at + 1, v.raw.n - 2) : SPAN_NONE;
}

static bool read_claim(struct json chain, struct json seq, struct json hash, struct claim *out) {
    int64_t n;
    struct span name = inner(chain);
    if (name.n == 0 || name.n >= sizeof out->chain || !json_i64(seq, &n) || n < 0 ||
        !hex_read(inner(hash), out->head.hash, sizeof out->head.hash))
        return false;
    memcpy(out->chain, name.at, name.n);
    out->chain[name.n] = 0;
    out->head.seq = (uint64_t)n;
    return true;
}

bool claims_of_head(struct json root, const struct claim *from, struct claims *own, struct claims *others) {
    struct json_walk walk;
    struct json one;
    struct span name;
    struct claim c = *from;
    if (!read_claim(json_get(root, "chain"), json_get(root, "head_seq"), json_get(root, "head_hash"), &c))
        return false;
    if (own)
        claims_add(own, &c);
    for (json_walk_init(&walk, json_get(root, "others")); json_walk_next(&walk, &name, &one);) {
        if (!read_claim(json_get(one, "chain"), json_get(one, "seq"), json_get(one, "hash"), &c))
            return false;
        claims_add(others, &c);
    }
    return true;
}

static void keep_head(struct piece *p, const struct claim *c) {
    if (p->n_heads == p->heads_capacity) {
        p->heads_capacity = p->heads_capacity ? p->heads_capacity * 2 : 64;
        p->heads = xrealloc(p->heads, p->heads_capacity * sizeof *p->heads);
    }
    p->heads[p->n_heads++] = c->head;
}

static bool check_signature(struct piece *p, const struct line_frame *f, struct json root) {
    struct json signature = json_get(root, "signature");
    struct sign_head head = {p->segment->chain, f->seq - 1, f->prev, inner(json_get(root, "head_time"))};
    if (!p->key)
        return true;
    if (signature.kind != JSON_STRING) {
        if (p->sealed_seq)
            return piece_fault(p, AUDIT_FORGED, p->line, f->seq,
                               "the head bears no signature, and heads before it do: records after %llu are not what "
                               "was signed",
                               U(p->sealed_seq));
        if (!p->unsigned_seq) {
            p->unsigned_seq = f->seq;
            p->unsigned_line = p->line;
        }
        return true;
    }
    if (!sign_check(p->key, &head, inner(signature)))
        return piece_fault(p, AUDIT_FORGED, p->line, f->seq,
                           "the head's signature is not of this key: a record after %llu is not what was signed",
                           U(p->sealed_seq ? p->sealed_seq : p->first_seq - 1));
    p->sealed_seq = f->seq;
    p->signatures++;
    return true;
}

static bool check_head(struct piece *p, const struct line_frame *f, struct span line) {
    struct json root;
    struct json_fault why;
    struct claim at = {.line = p->line, .at_seq = f->seq};
    struct claims own = {0};
    memcpy(at.file, p->segment->name, sizeof at.file);
    bool good = json_check(line, JSON_DEPTH_MAX, &root, &why) && claims_of_head(root, &at, &own, &p->claims);
    char prev[SHA256_HEX_MAX];
    good = good && own.all[0].head.seq == f->seq - 1 && strcmp(own.all[0].chain, p->segment->chain) == 0 &&
           span_is(f->prev, hex_put(own.all[0].head.hash, SHA256_BYTES, prev));
    if (good)
        keep_head(p, &own.all[0]);
    free(own.all);
    if (!good)
        return piece_fault(p, AUDIT_FORK, p->line, f->seq,
                           "the head names another chain or record than the one before it");
    return check_signature(p, f, root);
}

static void see_note(struct piece *p, struct span line) {
    struct json root;
    struct json_fault why;
    int64_t until;
    if (json_check(line, JSON_DEPTH_MAX, &root, &why) && json_is(json_get(root, "what"), "removed") &&
        json_i64(json_get(root, "removed_until_seq"), &until) && until > 0 && (uint64_t)until > p->removed_until)
        p->removed_until = (uint64_t)until;
}

/* What ends here and began in a file before says so by the instant of its admit. */
static void count_open(struct piece *p, const struct line_frame *f, int kind) {
    static const char admitted[] = ",\"admitted\":\"";
    if (kind == AUDIT_ADMIT)
        map_put(&p->open, f->request, p);
    else if ((kind == AUDIT_SETTLE || kind == AUDIT_REFUSE) && !map_remove(&p->open, f->request) &&
             memmem(f->body.at, f->body.n, admitted, sizeof admitted - 1))
        map_put(&p->ended, f->request, p);
}

static bool check_line(struct piece *p, struct span line, struct lines *l) {
    struct line_frame f;
    if (!line_read(line, &f))
        return piece_fault(p, AUDIT_EDITED, p->line, p->records ? p->seq + 1 : 0, "the line is not a record");
    if (!line_hash_is_true_with(&f, p->digest))
        return piece_fault(p, AUDIT_EDITED, p->line, f.seq, "the bytes of the line do not give its hash (kind %.*s)",
                           (int)(f.kind.n < 32 ? f.kind.n : 32), f.kind.at);
    int kind = line_kind(f.kind);
    if (p->records == 0) {
        p->has_first = true;
        p->begins_with_head = kind == AUDIT_HEAD;
        p->first_seq = f.seq;
        memcpy(p->first_prev, f.prev.at, f.prev.n);
    }
    if (!check_place(p, &f, l) || (kind == AUDIT_HEAD && !check_head(p, &f, line)))
        return false;
    if (kind == AUDIT_NOTE)
        see_note(p, line);
    count_open(p, &f, kind);
    p->seq = f.seq;
    p->seq_line = p->line;
    memcpy(p->hash, f.hash.at, f.hash.n);
    memcpy(p->prev, f.prev.at, f.prev.n);
    p->records++;
    return true;
}

/* A write that is going on looks like a torn line; nobody writes when the chain's lock is free. */
static bool check_torn(struct piece *p) {
    if (!p->last)
        return piece_fault(p, AUDIT_TRUNCATED, p->line, p->seq + 1,
                           "the file ends inside a line, and another follows it");
    if (segment_is_locked(p->directory, p->segment->chain))
        return true;
    return piece_fault(p, AUDIT_TORN, p->line, p->seq + 1,
                       "the last line is cut; the next start cuts it off and says so");
}

static bool check_lines(struct piece *p, struct lines *l) {
    struct span line;
    for (;;) {
        enum lines_got got = lines_next(l, &line);
        p->line = l->line;
        if (got == LINES_END)
            return true;
        if (got == LINES_TORN)
            return check_torn(p);
        if (got == LINES_LONG)
            return piece_fault(p, AUDIT_EDITED, p->line, 0, "the line is longer than any record");
        if (got == LINES_FAILED)
            return piece_fault(p, AUDIT_UNREADABLE, p->line, 0, "%s", strerror(errno));
        if (!check_line(p, line, l))
            return false;
    }
}

void piece_check(struct piece *p) {
    struct lines l;
    map_init(&p->open);
    map_init(&p->ended);
    if (!lines_open(&l, p->directory, p->segment->name)) {
        piece_fault(p, AUDIT_UNREADABLE, 0, 0, "%s", strerror(errno));
        return;
    }
    p->digest = sha256_new();
    check_lines(p, &l);
    p->bytes = l.offset;
    sha256_free(p->digest);
    lines_close(&l);
}

void piece_free(struct piece *p) {
    free(p->heads);
    free(p->claims.all);
    map_fini(&p->open);
    map_fini(&p->ended);
}
