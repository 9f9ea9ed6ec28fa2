/* Records on their own, with what proves that they stand in the log. Always true here: the nth line of proofs.txt belongs
 * to the nth line of records.jsonl; a record whose tree or head is not in the log yet is given with "-" for a proof. */
#include "audit/line.h"
#include "audit/segment.h"
#include "audit/sign.h"
#include "audit/tree.h"
#include "gateway/base/json.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#define PATH_BYTES 4096

struct leaves {                  /* hashes of the chain's records since its last tree */
    uint8_t (*at)[SHA256_BYTES]; /* owned */
    size_t n, capacity;
    size_t *wanted; /* owned: places among them of the records that are exported */
    size_t n_wanted, wanted_capacity;
};

struct exporting {
    const struct audit_export *o;
    struct audit_exported *out;
    FILE *records, *proofs, *trees;
    struct leaves leaves;
    struct span chain;
    char file[SEGMENT_NAME_MAX];
    char *tree; /* owned: a tree's note whose head has not come yet */
    size_t tree_leaves;
    struct str *why;
    bool failed;
};

static bool fail(struct exporting *e, const char *what) {
    if (!e->failed)
        str_printf(e->why, "%s/%s: %s", e->o->into, what, strerror(errno));
    e->failed = true;
    return false;
}

static FILE *create(struct exporting *e, const char *name) {
    char path[PATH_BYTES];
    int n = snprintf(path, sizeof path, "%s/%s", e->o->into, name);
    FILE *f = n > 0 && (size_t)n < sizeof path ? fopen(path, "wxe") : NULL;
    if (!f)
        fail(e, name);
    return f;
}

static void close_file(struct exporting *e, FILE *f, const char *name) {
    if (f && fclose(f) != 0)
        fail(e, name);
}

/* ---- proofs ---- */

static void put_unproved(struct exporting *e) {
    for (size_t i = 0; i < e->leaves.n_wanted; i++)
        fputs("-\n", e->proofs);
    e->out->unsealed += e->leaves.n_wanted;
}

static void forget_leaves(struct exporting *e) {
    e->leaves.n = e->leaves.n_wanted = 0;
    free(e->tree);
    e->tree = NULL;
}

static void put_path(struct exporting *e, uint8_t (*nodes)[SHA256_BYTES], size_t n, size_t at) {
    struct tree_step steps[TREE_LEVELS_MAX];
    char hex[SHA256_HEX_MAX];
    size_t up = tree_path(nodes, n, at, steps);
    fprintf(e->proofs, "%zu", e->out->heads);
    for (size_t i = 0; i < up; i++)
        fprintf(e->proofs, " %c%s", steps[i].left ? 'L' : 'R', hex_put(steps[i].other, SHA256_BYTES, hex));
    fputc('\n', e->proofs);
}

/* The last `tree_leaves` of the leaves are the tree's; a record before them has none. */
static void put_paths(struct exporting *e) {
    struct leaves *l = &e->leaves;
    size_t n = e->tree_leaves, before = l->n - n;
    uint8_t(*nodes)[SHA256_BYTES] = xcalloc(2 * n + TREE_LEVELS_MAX, sizeof *nodes);
    memcpy(nodes, l->at + before, n * sizeof *nodes);
    tree_build(nodes, n);
    for (size_t i = 0; i < l->n_wanted; i++) {
        if (l->wanted[i] >= before) {
            put_path(e, nodes, n, l->wanted[i] - before);
            e->out->proved++;
            continue;
        }
        fputs("-\n", e->proofs);
        e->out->unsealed++;
    }
    free(nodes);
}

static bool put_signature(struct exporting *e, struct span signature) {
    uint8_t bytes[64];
    char name[64];
    if (!hex_read(signature, bytes, sizeof bytes))
        return false;
    snprintf(name, sizeof name, "head-%zu.sig", e->out->heads);
    FILE *f = create(e, name);
    if (f)
        fwrite(bytes, 1, sizeof bytes, f);
    close_file(e, f, name);
    return true;
}

static void put_signed_text(struct exporting *e, const struct line_frame *f, struct span time) {
    char name[64], chain[SEGMENT_CHAIN_MAX], text[SIGN_TEXT_MAX];
    snprintf(name, sizeof name, "head-%zu.txt", e->out->heads);
    snprintf(chain, sizeof chain, "%.*s", SPAN_ARG(e->chain));
    struct sign_head head = {chain, f->seq - 1, f->prev, time};
    struct span s = sign_text(&head, text);
    FILE *to = create(e, name);
    if (to)
        fwrite(s.at, 1, s.n, to);
    close_file(e, to, name);
}

static struct span inner(struct json v) {
    return v.kind == JSON_STRING ? span_from(v.raw.at + 1, v.raw.n - 2) : SPAN_NONE;
}

/* The head right behind a tree's note signs it. */
static void see_head(struct exporting *e, const struct line_frame *f, struct span line) {
    struct json root, signature;
    struct json_fault why;
    if (!json_check(line, JSON_DEPTH_MAX, &root, &why))
        return;
    if (e->leaves.n_wanted == 0)
        return;
    signature = json_get(root, "signature");
    if (signature.kind != JSON_STRING) {
        put_unproved(e);
        return;
    }
    e->out->heads++;
    if (put_signature(e, inner(signature))) {
        put_signed_text(e, f, inner(json_get(root, "head_time")));
        fprintf(e->trees, "%s\n", e->tree);
        put_paths(e);
    }
}

/* ---- reading ---- */

static void add_leaf(struct leaves *l, struct span hash, bool wanted) {
    if (l->n == l->capacity) {
        l->capacity = l->capacity ? l->capacity * 2 : 1024;
        l->at = xrealloc(l->at, l->capacity * sizeof *l->at);
    }
    if (wanted && l->n_wanted == l->wanted_capacity) {
        l->wanted_capacity = l->wanted_capacity ? l->wanted_capacity * 2 : 64;
        l->wanted = xrealloc(l->wanted, l->wanted_capacity * sizeof *l->wanted);
    }
    if (!hex_read(hash, l->at[l->n], SHA256_BYTES))
        return;
    if (wanted)
        l->wanted[l->n_wanted++] = l->n;
    l->n++;
}

/* How many leaves a tree's note says it has; 0: the line is no such note. */
static size_t leaves_of(const struct line_frame *f, struct span line) {
    struct json root;
    struct json_fault why;
    int64_t from, to;
    if (line_kind(f->kind) != AUDIT_NOTE || !json_check(line, JSON_DEPTH_MAX, &root, &why) ||
        !json_is(json_get(root, "what"), "tree") || !json_i64(json_get(root, "tree_from"), &from) ||
        !json_i64(json_get(root, "tree_to"), &to) || from < 1 || to < from)
        return 0;
    return (size_t)(to - from) + 1;
}

static void new_chain(struct exporting *e, const struct audit_line *l) {
    struct segment now = {.chain = ""}, before = {.chain = ""};
    bool same = e->file[0] && segment_parse(e->file, &before) && segment_parse(l->file, &now) &&
                strcmp(now.chain, before.chain) == 0;
    snprintf(e->file, sizeof e->file, "%s", l->file);
    if (same)
        return;
    put_unproved(e);
    forget_leaves(e);
}

static bool see(const struct audit_line *l, void *user) {
    struct exporting *e = user;
    struct line_frame f;
    struct segment s;
    if (!line_read(l->text, &f))
        return true; /* verify says so */
    if (strcmp(l->file, e->file) != 0)
        new_chain(e, l);
    if (e->tree) {
        if (line_kind(f.kind) == AUDIT_HEAD && segment_parse(l->file, &s)) {
            e->chain = span_of(s.chain);
            see_head(e, &f, l->text);
        } else {
            put_unproved(e);
        }
        forget_leaves(e);
    }
    size_t n = leaves_of(&f, l->text);
    if (n && n <= e->leaves.n) {
        e->tree = xstrndup(l->text.at, l->text.n);
        e->tree_leaves = n;
        return true;
    }
    bool wanted = line_kind(f.kind) != AUDIT_HEAD && e->o->wants(l, e->o->user);
    if (wanted) {
        fprintf(e->records, "%.*s\n", SPAN_ARG(l->text));
        e->out->records++;
    }
    add_leaf(&e->leaves, f.hash, wanted);
    return !e->failed;
}

bool audit_export(const struct audit_export *o, struct audit_exported *out, struct str *why) {
    struct exporting e = {.o = o, .out = out, .why = why};
    *out = (struct audit_exported){0};
    if (mkdir(o->into, 0750) != 0 && errno != EEXIST)
        return fail(&e, "");
    e.records = create(&e, "records.jsonl");
    e.proofs = create(&e, "proofs.txt");
    e.trees = create(&e, "trees.jsonl");
    bool good = !e.failed && audit_read(o->directory, see, &e, why);
    if (e.proofs)
        put_unproved(&e);
    forget_leaves(&e);
    close_file(&e, e.records, "records.jsonl");
    close_file(&e, e.proofs, "proofs.txt");
    close_file(&e, e.trees, "trees.jsonl");
    free(e.leaves.at);
    free(e.leaves.wanted);
    return good && !e.failed;
}
