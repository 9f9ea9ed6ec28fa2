/* Checking chains from their first record to their head. Always true here: files are checked side by side, and what they
 * say is joined in the order of chains and files, so the fault that is named is the first. */
#include "audit/verify.h"
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define THREADS_MAX 16
#define HEADS_TEXT_MAX ((size_t)1 << 24)

#define U(n) ((unsigned long long)(n))

struct checking {
    struct segments all;
    struct piece *pieces;     /* owned; one a file */
    struct claims anchors;    /* of the head file */
    atomic_size_t next, stop; /* the next file to be checked; files from `stop` on need not be */
    struct audit_verdict *out;
};

static void *check_some(void *user) {
    struct checking *c = user;
    for (size_t i; (i = atomic_fetch_add(&c->next, 1)) < c->all.n;) {
        if (i > atomic_load(&c->stop))
            continue;
        piece_check(&c->pieces[i]);
        size_t stop = atomic_load(&c->stop);
        while (c->pieces[i].faulty && i < stop && !atomic_compare_exchange_weak(&c->stop, &stop, i)) {
        }
    }
    return NULL;
}

static void check_files(struct checking *c) {
    pthread_t threads[THREADS_MAX];
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    size_t n = 0, want = cores < 1 ? 1 : (size_t)cores;
    if (want > THREADS_MAX)
        want = THREADS_MAX;
    atomic_init(&c->next, 0);
    atomic_init(&c->stop, SIZE_MAX);
    while (n + 1 < want && n + 1 < c->all.n && pthread_create(&threads[n], NULL, check_some, c) == 0)
        n++;
    check_some(c);
    while (n > 0)
        pthread_join(threads[--n], NULL);
}

/* ---- one chain ---- */

struct chain { /* pieces [from, to) */
    struct piece *from, *to;
    uint64_t seq, sealed_seq, removed_until;
    char hash[SHA256_HEX_MAX];
    struct map open;
};

static bool fault_gap(struct piece *p, const struct piece *before) {
    if (piece_holds_later(p, 1, before->seq + 1))
        return piece_fault(p, AUDIT_REORDERED, 1, p->first_seq, "record %llu should stand here and stands further down",
                           U(before->seq) + 1);
    if (p->segment->number > before->segment->number + 1)
        return piece_fault(p, AUDIT_MISSING_FILE, 1, p->first_seq,
                           "records %llu to %llu are gone with the files between numbers %lld and %lld",
                           U(before->seq) + 1, U(p->first_seq) - 1, (long long)before->segment->number,
                           (long long)p->segment->number);
    if (p->begins_with_head)
        return piece_fault(p, AUDIT_TRUNCATED, 1, p->first_seq,
                           "records %llu to %llu are missing at the end of the file before, %.100s", U(before->seq) + 1,
                           U(p->first_seq) - 1, before->segment->name);
    return piece_fault(p, AUDIT_DELETED, 1, p->first_seq, "records %llu to %llu are missing before this one",
                       U(before->seq) + 1, U(p->first_seq) - 1);
}

/* Whether a piece goes on where the one before it ends. */
static bool check_seam(struct piece *p, struct piece *before) {
    if (p->first_seq > before->seq + 1)
        return fault_gap(p, before);
    if (p->first_seq <= before->seq)
        return piece_fault(p, AUDIT_FORK, 1, p->first_seq,
                           "record %llu stands in the file before too: two files go on from one record",
                           U(p->first_seq));
    if (strcmp(p->first_prev, before->hash) == 0)
        return true;
    piece_fault(before, AUDIT_EDITED, before->seq_line, before->seq,
                "record %llu was written anew: the record after it follows another one", U(before->seq));
    p->fault = before->fault;
    p->faulty = true;
    return false;
}

/* A chain begins with its first record, or where its retention says it does. */
static bool check_begin(const struct chain *c) {
    struct piece *p = c->from;
    if (p->first_seq == 1 && strcmp(p->first_prev, LINE_ZERO_HASH) == 0)
        return true;
    if (p->first_seq > 1 && c->removed_until >= p->first_seq - 1)
        return true;
    if (p->first_seq > 1 && piece_holds_later(p, 1, 1))
        return piece_fault(p, AUDIT_REORDERED, 1, p->first_seq, "record 1 should stand here and stands further down");
    if (p->first_seq > 1 && !p->begins_with_head)
        return piece_fault(p, AUDIT_DELETED, 1, p->first_seq, "records 1 to %llu are missing before this one",
                           U(p->first_seq) - 1);
    return piece_fault(p, AUDIT_MISSING_FILE, 1, p->first_seq,
                       "records 1 to %llu are gone, and no record says that they were removed", U(p->first_seq) - 1);
}

static bool check_signed(struct chain *c, struct piece *p) {
    if (c->sealed_seq && p->unsigned_seq)
        return piece_fault(p, AUDIT_FORGED, p->unsigned_line, p->unsigned_seq,
                           "the head bears no signature, and heads before it do: records after %llu are not what was "
                           "signed",
                           U(c->sealed_seq));
    return true;
}

/* The order in which one piece can be wrong: its first line, then what it found itself. */
static bool check_piece(struct chain *c, struct piece *p) {
    if (p->has_first && p > c->from && !check_seam(p, p - 1))
        return false;
    if (p->has_first && p == c->from && !check_begin(c))
        return false;
    return !p->faulty && check_signed(c, p);
}

static void join_open(struct chain *c, struct piece *p) {
    for (struct map_entry *e = map_next(&p->ended, NULL); e; e = map_next(&p->ended, e))
        map_remove(&c->open, span_from(e->key, e->n));
    for (struct map_entry *e = map_next(&p->open, NULL); e; e = map_next(&p->open, e))
        map_put(&c->open, span_from(e->key, e->n), p);
}

static void take_piece(struct checking *k, struct chain *c, struct piece *p) {
    join_open(c, p);
    if (p->sealed_seq)
        c->sealed_seq = p->sealed_seq;
    if (p->records) {
        c->seq = p->seq;
        memcpy(c->hash, p->hash, sizeof c->hash);
    } else if (p > c->from) { /* an empty file changes nothing: the next seam is with the one before */
        p->seq = (p - 1)->seq;
        memcpy(p->hash, (p - 1)->hash, sizeof p->hash);
    }
    k->out->records += p->records;
    k->out->bytes += p->bytes;
    k->out->signatures += p->signatures;
}

static bool check_sealed(const struct checking *k, struct chain *c) {
    if (!k->out->signatures_checked || c->sealed_seq)
        return true;
    for (struct piece *p = c->from; p < c->to; p++)
        if (p->unsigned_seq)
            return piece_fault(p, AUDIT_FORGED, p->unsigned_line, p->unsigned_seq,
                               "no head of this chain bears a signature");
    return true;
}

static bool stop_at(struct checking *k, const struct piece *p) {
    k->out->clean = false;
    k->out->fault = p->fault;
    return false;
}

static bool check_chain(struct checking *k, struct chain *c) {
    bool good = true;
    for (struct piece *p = c->from; p < c->to; p++)
        if (p->removed_until > c->removed_until)
            c->removed_until = p->removed_until;
    for (struct piece *p = c->from; good && p < c->to; p++) {
        good = check_piece(c, p) || stop_at(k, p);
        if (good)
            take_piece(k, c, p);
    }
    if (good && !check_sealed(k, c))
        for (struct piece *p = c->from; good && p < c->to; p++)
            good = !p->faulty || stop_at(k, p);
    if (c->from->first_seq > 1 && c->from->first_seq > k->out->complete_from)
        k->out->complete_from = c->from->first_seq;
    k->out->chains++;
    k->out->open_admits += c->open.n;
    k->out->unsealed += c->seq - (c->sealed_seq ? c->sealed_seq : c->from->first_seq ? c->from->first_seq - 1 : 0);
    return good;
}

/* ---- heads that stand elsewhere ---- */

static struct piece *first_of(const struct checking *k, const char *chain, size_t *n) {
    for (size_t at = 0, end; at < k->all.n; at = end) {
        end = segments_chain_end(&k->all, at);
        *n = end - at;
        if (strcmp(k->all.all[at].chain, chain) == 0)
            return &k->pieces[at];
    }
    return NULL;
}

static const struct seen_head *find_head(const struct piece *p, uint64_t seq) {
    size_t low = 0, high = p->n_heads;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (p->heads[middle].seq < seq)
            low = middle + 1;
        else
            high = middle;
    }
    return low < p->n_heads && p->heads[low].seq == seq ? &p->heads[low] : NULL;
}

static bool claim_fault(struct checking *k, const struct claim *c, enum audit_wrong wrong, const char *format, ...)
    printf_like(4, 5);
static bool claim_fault(struct checking *k, const struct claim *c, enum audit_wrong wrong, const char *format, ...) {
    struct audit_fault *f = &k->out->fault;
    va_list args;
    size_t n = (size_t)snprintf(f->what, sizeof f->what, "%s: ", audit_wrong_names[wrong]);
    va_start(args, format);
    vsnprintf(f->what + n, sizeof f->what - n, format, args);
    va_end(args);
    f->wrong = wrong;
    memcpy(f->file, c->file, sizeof f->file);
    f->line = c->line;
    f->seq = c->at_seq;
    k->out->clean = false;
    return false;
}

static bool check_claim(struct checking *k, const struct claim *c) {
    size_t n;
    const struct piece *p = first_of(k, c->chain, &n);
    const char *where = c->at_seq ? "another chain" : "the anchor";
    if (!p)
        return claim_fault(k, c, AUDIT_MISSING_CHAIN, "%s names record %llu of chain %.100s, which is not here", where,
                           U(c->head.seq), c->chain);
    if (c->head.seq < p->first_seq)
        return true; /* removed, and that was asked already */
    uint64_t end = p[n - 1].seq;
    for (size_t i = 0; i < n; i++) {
        const struct seen_head *head = find_head(&p[i], c->head.seq);
        if (!head)
            continue;
        if (memcmp(head->hash, c->head.hash, SHA256_BYTES) == 0)
            return true;
        return claim_fault(k, c, AUDIT_FORK, "%s has another record %llu of chain %.100s than the one here", where,
                           U(c->head.seq), c->chain);
    }
    if (c->head.seq >= end)
        return claim_fault(k, c, AUDIT_TRUNCATED,
                           "%s names a head over record %llu of chain %.100s, which ends here with record %llu", where,
                           U(c->head.seq), c->chain, U(end));
    return claim_fault(k, c, AUDIT_FORK, "%s names a head over record %llu of chain %.100s, and none is here", where,
                       U(c->head.seq), c->chain);
}

static bool check_claims(struct checking *k) {
    for (size_t i = 0; i < k->all.n; i++)
        for (size_t j = 0; j < k->pieces[i].claims.n; j++)
            if (!check_claim(k, &k->pieces[i].claims.all[j]))
                return false;
    for (size_t i = 0; i < k->anchors.n; i++)
        if (!check_claim(k, &k->anchors.all[i]))
            return false;
    return true;
}

/* ---- the whole ---- */

/* One chain: its head. Several: one hash over all heads, so that a single value names the state of the log. */
static void put_head(const struct checking *k, const struct chain *c, struct str *heads) {
    struct audit_verdict *v = k->out;
    uint8_t digest[SHA256_BYTES];
    str_printf(heads, "%s %llu %s\n", c->from->segment->chain, U(c->seq), c->hash);
    if (c->seq > v->head_seq)
        v->head_seq = c->seq;
    if (v->chains == 1) {
        memcpy(v->head_hash, c->hash, sizeof v->head_hash);
        return;
    }
    sha256(str_span(heads), digest);
    hex_put(digest, sizeof digest, v->head_hash);
}

static void join(struct checking *k) {
    struct str heads;
    str_init(&heads, HEADS_TEXT_MAX);
    for (size_t at = 0, end; at < k->all.n && k->out->clean; at = end) {
        end = segments_chain_end(&k->all, at);
        struct chain c = {.from = &k->pieces[at], .to = &k->pieces[end], .hash = LINE_ZERO_HASH};
        map_init(&c.open);
        if (check_chain(k, &c))
            put_head(k, &c, &heads);
        map_fini(&c.open);
    }
    str_fini(&heads);
    if (k->out->clean)
        check_claims(k);
}

static void make_pieces(struct checking *k, const char *directory, const struct sign_key *key) {
    k->pieces = xcalloc(k->all.n + 1, sizeof *k->pieces);
    for (size_t i = 0; i < k->all.n; i++) {
        k->pieces[i].segment = &k->all.all[i];
        k->pieces[i].directory = directory;
        k->pieces[i].key = key;
        k->pieces[i].last = segments_chain_end(&k->all, i) == i + 1;
    }
}

/* An anchored head is the head record itself, as it was given to whoever keeps it. */
static bool read_anchor(struct checking *k, struct span text, int64_t line, const struct sign_key *key,
                        struct str *why) {
    struct line_frame f;
    struct json root;
    struct json_fault fault;
    struct claim at = {.file = "the anchored head", .line = line};
    size_t before = k->anchors.n;
    if (!line_read(text, &f) || !line_hash_is_true(&f) || line_kind(f.kind) != AUDIT_HEAD ||
        !json_check(text, JSON_DEPTH_MAX, &root, &fault) || !claims_of_head(root, &at, &k->anchors, &k->anchors)) {
        str_printf(why, "line %lld of the anchored heads is no head record", (long long)line);
        return false;
    }
    struct json time = json_get(root, "head_time"), signature = json_get(root, "signature");
    struct sign_head head = {k->anchors.all[before].chain, f.seq - 1, f.prev,
                             time.kind == JSON_STRING ? span_from(time.raw.at + 1, time.raw.n - 2) : SPAN_NONE};
    k->out->anchors++;
    if (!key ||
        (signature.kind == JSON_STRING && sign_check(key, &head, span_from(signature.raw.at + 1, signature.raw.n - 2))))
        return true;
    str_printf(why, "line %lld of the anchored heads is not signed by this key", (long long)line);
    return false;
}

static bool read_anchors(struct checking *k, struct span text, const struct sign_key *key, struct str *why) {
    struct span line;
    int64_t number = 0;
    while (span_cut(&text, '\n', &line))
        if (number++, line.n && !read_anchor(k, line, number, key, why))
            return false;
    if (k->anchors.n)
        return true;
    str_puts(why, "there is no anchored head in the file");
    return false;
}

static bool run(struct checking *k, const struct audit_check *o, const struct sign_key *key, struct str *why) {
    if (!segments_list(o->directory, NULL, &k->all, why))
        return false;
    if (o->anchored.at && !read_anchors(k, o->anchored, key, why))
        return false;
    make_pieces(k, o->directory, key);
    check_files(k);
    join(k);
    return true;
}

bool audit_check(const struct audit_check *o, struct audit_verdict *out, struct str *why) {
    struct checking k = {.out = out};
    *out = (struct audit_verdict){.clean = true, .head_hash = LINE_ZERO_HASH, .complete_from = 1};
    struct sign_key *key = o->public_key ? sign_key_public(o->public_key, why) : NULL;
    if (o->public_key && !key)
        return false;
    out->signatures_checked = key != NULL;
    bool read = run(&k, o, key, why);
    for (size_t i = 0; k.pieces && i < k.all.n; i++)
        piece_free(&k.pieces[i]);
    free(k.pieces);
    free(k.anchors.all);
    segments_free(&k.all);
    sign_key_free(key);
    return read;
}

bool audit_verify(const char *directory, const char *public_key, struct audit_verdict *out, struct str *why) {
    return audit_check(&(struct audit_check){.directory = directory, .public_key = public_key}, out, why);
}
