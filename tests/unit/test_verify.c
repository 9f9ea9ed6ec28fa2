#include "audit/line.h"
#include "tests/support/chain_kit.h"
#include <criterion/criterion.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#define LINES_MAX 2000

/* A log of several files, in memory. */
struct copy {
    size_t n_files;
    char name[16][256];
    char *bytes[16];
    size_t n[16];
    struct {
        size_t file;
        size_t at, n; /* with its newline */
    } lines[LINES_MAX];
    size_t n_lines;
};

static void take_copy(struct kit *k, struct copy *c) {
    *c = (struct copy){.n_files = kit_segments(k)};
    cr_assert(c->n_files >= 3 && c->n_files <= 16);
    for (size_t f = 0; f < c->n_files; f++) {
        c->bytes[f] = kit_read(k, kit_segment(k, f, c->name[f]), &c->n[f]);
        for (size_t at = 0; at < c->n[f];) {
            size_t n = (size_t)((char *)memchr(c->bytes[f] + at, '\n', c->n[f] - at) - (c->bytes[f] + at)) + 1;
            c->lines[c->n_lines].file = f;
            c->lines[c->n_lines].at = at;
            c->lines[c->n_lines++].n = n;
            at += n;
        }
    }
}

static void put_back(struct kit *k, const struct copy *c) {
    for (size_t f = 0; f < c->n_files; f++)
        kit_write(k, c->name[f], c->bytes[f], c->n[f]);
}

static void drop_copy(struct copy *c) {
    for (size_t f = 0; f < c->n_files; f++)
        free(c->bytes[f]);
}

static void make_log(struct kit *k) {
    k->tuning.segment_max_bytes = 12000;
    struct audit *a = kit_open(k, KIT_NOW);
    for (int i = 0; i < 30; i++) {
        kit_admit(a, i, 1000, KIT_NOW + i);
        kit_settle(a, i, 7, KIT_NOW + i, KIT_NOW + i);
    }
    audit_close(a, KIT_NOW + 100);
}

/* Writes a file with bytes [at, at + out) replaced. */
static void splice(struct kit *k, const struct copy *c, size_t file, size_t at, size_t out, const char *in, size_t n) {
    char *bytes = malloc(c->n[file] - out + n);
    memcpy(bytes, c->bytes[file], at);
    memcpy(bytes + at, in, n);
    memcpy(bytes + at + n, c->bytes[file] + at + out, c->n[file] - at - out);
    kit_write(k, c->name[file], bytes, c->n[file] - out + n);
    free(bytes);
}

/* Which line the first fault must be named at: its number among all lines, from 0. */
static size_t edit_bytes(struct kit *k, const struct copy *c, uint64_t *dice, int how) {
    size_t line = random_next(dice) % c->n_lines, f = c->lines[line].file;
    size_t off = random_next(dice) % c->lines[line].n, at = c->lines[line].at + off;
    char was = c->bytes[f][at], now = (char)(random_next(dice) % 256);
    if (now == was || now == '\n')
        now = was == '#' ? '$' : '#';
    if (how == 0)
        splice(k, c, f, at, 1, &now, 1);
    else if (how == 1)
        splice(k, c, f, at, 0, &now, 1);
    else
        splice(k, c, f, at, 1, "", 0);
    return line;
}

static size_t edit_lines(struct kit *k, const struct copy *c, uint64_t *dice, int how) {
    size_t line = random_next(dice) % (c->n_lines - 1), f = c->lines[line].file;
    while (c->lines[line + 1].file != f) /* a neighbour in the same file */
        f = c->lines[--line].file;
    size_t at = c->lines[line].at, n = c->lines[line].n, m = c->lines[line + 1].n;
    char *both = malloc(n + m);
    memcpy(both, c->bytes[f] + at + n, m);
    memcpy(both + m, c->bytes[f] + at, n);
    if (how == 3)
        splice(k, c, f, at, n + m, both, n + m);
    else if (how == 4)
        splice(k, c, f, at, 0, c->bytes[f] + at, n);
    else
        splice(k, c, f, at, n, "", 0);
    free(both);
    return how == 4 ? line + 1 : line; /* of a repeated line the second is the fault */
}

static const enum audit_wrong wrongs[] = {AUDIT_EDITED,    AUDIT_EDITED,   AUDIT_EDITED,
                                          AUDIT_REORDERED, AUDIT_INSERTED, AUDIT_DELETED};

static void edit_and_check(struct kit *k, const struct copy *c, uint64_t *dice, int how) {
    size_t line = how < 3 ? edit_bytes(k, c, dice, how) : edit_lines(k, c, dice, how);
    struct audit_verdict v = kit_verify(k);
    size_t f = c->lines[line].file, number = 1;
    while (line - (number - 1) > 0 && c->lines[line - number].file == f)
        number++;
    cr_assert(!v.clean, "edit %d of line %zu was not seen", how, line);
    cr_assert_str_eq(v.fault.file, c->name[f]);
    cr_assert_eq((size_t)v.fault.line, number, "edit %d: line %ld instead of %zu: %s", how, (long)v.fault.line, number,
                 v.fault.what);
    bool torn = how < 3 && line + 1 == c->n_lines && v.fault.wrong == AUDIT_TORN;
    bool cut = how < 3 && v.fault.wrong == AUDIT_TRUNCATED; /* the newline at the end of a file */
    cr_assert(torn || cut || v.fault.wrong == wrongs[how], "%s", v.fault.what);
    cr_assert_eq(strncmp(v.fault.what, audit_wrong_names[v.fault.wrong], strlen(audit_wrong_names[v.fault.wrong])), 0);
    kit_write(k, c->name[f], c->bytes[f], c->n[f]);
}

Test(verify, names_the_first_bad_record_of_900_edits) {
    struct kit k;
    struct copy c;
    uint64_t dice = 42;
    kit_init(&k);
    make_log(&k);
    take_copy(&k, &c);
    cr_assert(kit_verify(&k).clean);
    for (int i = 0; i < 900; i++)
        edit_and_check(&k, &c, &dice, i % 6);
    cr_assert(kit_verify(&k).clean, "everything is put back");
    for (size_t f = 0; f + 1 < c.n_files; f++) {
        char path[512];
        unlink(kit_path(&k, c.name[f], path));
        struct audit_verdict v = kit_verify(&k);
        cr_assert(!v.clean && v.fault.line == 1, "%zu", f);
        cr_assert_str_eq(v.fault.file, c.name[f + 1]);
        cr_assert_eq(v.fault.wrong, AUDIT_MISSING_FILE, "%s", v.fault.what);
        put_back(&k, &c);
    }
    drop_copy(&c);
    kit_fini(&k);
}

Test(verify, a_file_cut_inside_a_line_is_truncated_and_a_torn_end_is_torn) {
    struct kit k;
    struct copy c;
    kit_init(&k);
    make_log(&k);
    take_copy(&k, &c);
    kit_write(&k, c.name[0], c.bytes[0], c.n[0] - 5);
    cr_assert(strstr(kit_verify(&k).fault.what, "truncated"));
    put_back(&k, &c);
    kit_write(&k, c.name[c.n_files - 1], c.bytes[c.n_files - 1], c.n[c.n_files - 1] - 5);
    struct audit_verdict v = kit_verify(&k);
    cr_assert(!v.clean && strstr(v.fault.what, "torn"), "%s", v.fault.what);
    drop_copy(&c);
    kit_fini(&k);
}

Test(verify, a_record_written_anew_is_named_and_not_the_one_that_shows_it) {
    struct kit k;
    char name[256], hash[SHA256_HEX_MAX];
    size_t n;
    kit_init(&k);
    struct audit *a = kit_open(&k, KIT_NOW);
    kit_admit(a, 1, 1, KIT_NOW);
    audit_close(a, KIT_NOW);
    char *bytes = kit_read(&k, kit_segment(&k, 0, name), &n);
    char *second = strchr(bytes, '\n') + 1, *third = strchr(second, '\n') + 1;
    struct str forged;
    str_init(&forged, 10 * LINE_MAX_BYTES);
    str_put(&forged, span_from(bytes, (size_t)(second - bytes)));
    struct audit_record r = {.kind = AUDIT_ADMIT, .request = "req_x"};
    char prev[SHA256_HEX_MAX];
    memcpy(prev, strstr(bytes, "\"hash\":\"") + 8, 64);
    prev[64] = 0;
    struct line_place at = {2, KIT_NOW, 0, prev};
    line_write(&forged, &r, &at, SPAN_NONE, hash);
    str_puts(&forged, third);
    kit_write(&k, name, forged.at, forged.n);
    struct audit_verdict v = kit_verify(&k);
    cr_assert(!v.clean && v.fault.line == 2 && v.fault.seq == 2 && v.fault.wrong == AUDIT_EDITED, "%s", v.fault.what);
    str_cut(&forged, (size_t)(second - bytes));
    bytes[second - bytes - 1] = 0;
    struct str both; /* the forged one before the true one of the same place */
    str_init(&both, 10 * LINE_MAX_BYTES);
    str_printf(&both, "%s\n%.*s\n%s", bytes, (int)((char *)memchr(forged.at, '\n', forged.n) - forged.at), forged.at,
               second);
    kit_write(&k, name, both.at, both.n);
    v = kit_verify(&k);
    cr_assert(!v.clean && v.fault.line == 2 && v.fault.seq == 2 && v.fault.wrong == AUDIT_INSERTED, "%s", v.fault.what);
    str_fini(&both);
    str_fini(&forged);
    free(bytes);
    kit_fini(&k);
}

static void pem_pair(char private_pem[2048], char public_pem[2048]) {
    EVP_PKEY *key = EVP_PKEY_Q_keygen(NULL, NULL, "ED25519");
    BIO *out = BIO_new(BIO_s_mem());
    PEM_write_bio_PrivateKey(out, key, NULL, NULL, 0, NULL, NULL);
    private_pem[BIO_read(out, private_pem, 2047)] = 0;
    PEM_write_bio_PUBKEY(out, key);
    public_pem[BIO_read(out, public_pem, 2047)] = 0;
    BIO_free(out);
    EVP_PKEY_free(key);
}

/* What a forger without the key can do: change a record and write all that follows anew, heads too. */
static void forge_from(struct kit *k, const struct copy *c, size_t from, bool strip) {
    char prev[SHA256_HEX_MAX] = "";
    struct str file;
    str_init(&file, (size_t)1 << 22);
    for (size_t i = from, f = c->lines[from].file; i < c->n_lines; i++) {
        const char *at = c->bytes[c->lines[i].file] + c->lines[i].at;
        char *line = strndup(at, c->lines[i].n - 1);
        if (c->lines[i].file != f) {
            kit_write(k, c->name[f], file.at, file.n);
            str_clear(&file);
            f = c->lines[i].file;
        }
        if (file.n == 0)
            str_put(&file, span_from(c->bytes[f], i == from ? c->lines[i].at : 0));
        char *hash = strstr(line, ",\"hash\":\""), *old = strstr(line, "\"prev\":\"") + 8,
             *uptime = strstr(line, "uptime_us\":") + 11;
        char *head = strstr(line, "\"head_hash\":\""), *signature = strstr(line, ",\"signature\":\"");
        if (i == from)
            *uptime = *uptime == '9' ? '8' : (char)(*uptime + 1);
        if (prev[0])
            memcpy(old, prev, 64);
        if (prev[0] && head)
            memcpy(head + 13, prev, 64);
        if (strip && signature) { /* to the end of its 128 digits and the quote */
            memmove(signature, signature + 14 + 128 + 1, strlen(signature + 14 + 128 + 1) + 1);
            hash = strstr(line, ",\"hash\":\"");
        }
        uint8_t digest[SHA256_BYTES];
        sha256(span_from(line, (size_t)(hash - line)), digest);
        hex_put(digest, sizeof digest, prev);
        memcpy(hash + 9, prev, 64);
        str_puts(&file, line);
        str_putc(&file, '\n');
        free(line);
    }
    kit_write(k, c->name[c->n_files - 1], file.at, file.n);
    str_fini(&file);
}

static struct audit_verdict check_with(struct kit *k, const char *key, struct span anchored) {
    struct audit_verdict v;
    struct audit_check o = {.directory = k->directory, .public_key = key, .anchored = anchored};
    cr_assert(audit_check(&o, &v, &k->why), "%s", k->why.at);
    return v;
}

static void make_signed_log(struct kit *k, char private_pem[2048], char public_pem[2048]) {
    pem_pair(private_pem, public_pem);
    kit_init(k);
    k->options.head_key = private_pem;
    k->options.head_every = 10;
    make_log(k);
}

Test(verify, sees_100_records_forged_with_everything_after_them_written_anew) {
    struct kit k;
    struct copy c;
    uint64_t dice = 17;
    char private_pem[2048], public_pem[2048];
    make_signed_log(&k, private_pem, public_pem);
    take_copy(&k, &c);
    cr_assert(check_with(&k, public_pem, SPAN_NONE).clean);
    for (int i = 0; i < 100; i++) {
        size_t line = random_next(&dice) % (c.n_lines - 2); /* the last head seals what is before it */
        forge_from(&k, &c, line, i % 2);
        cr_assert(kit_verify(&k).clean, "without the key it is as good as true: %s", kit_verify(&k).fault.what);
        struct audit_verdict v = check_with(&k, public_pem, SPAN_NONE);
        cr_assert(!v.clean && v.fault.wrong == AUDIT_FORGED, "line %zu: %s", line, v.fault.what);
        cr_assert_gt(v.fault.seq, line, "the head that does not fit comes after it");
        cr_assert_leq(v.fault.seq, line + 1 + 14, "and is the next one");
        put_back(&k, &c);
    }
    drop_copy(&c);
    kit_fini(&k);
}

static char *line_copy(const struct copy *c, size_t i) {
    return strndup(c->bytes[c->lines[i].file] + c->lines[i].at, c->lines[i].n - 1);
}

Test(verify, a_cut_of_the_tail_is_unsealed_and_with_an_anchored_head_a_failure) {
    struct kit k;
    struct copy c;
    char private_pem[2048], public_pem[2048];
    make_signed_log(&k, private_pem, public_pem);
    take_copy(&k, &c);
    size_t head = c.n_lines - 1, f = c.n_files - 1;
    char *last = line_copy(&c, head);
    struct audit_verdict v = check_with(&k, public_pem, span_of(last));
    cr_assert(v.clean && v.unsealed == 0 && v.anchors == 1 && v.signatures > 5, "%s", v.fault.what);
    kit_write(&k, c.name[f], c.bytes[f], c.lines[head].at); /* the last head is gone, at the end of a line */
    v = check_with(&k, public_pem, SPAN_NONE);
    cr_assert(v.clean && v.unsealed > 0 && v.unsealed < 14, "%lu", (unsigned long)v.unsealed);
    v = check_with(&k, public_pem, span_of(last));
    cr_assert(!v.clean && v.fault.wrong == AUDIT_TRUNCATED, "%s", v.fault.what);
    v = check_with(&k, NULL, SPAN_NONE);
    cr_assert(v.clean && !v.signatures_checked);
    cr_assert_eq(v.unsealed, v.records, "without the key nothing counts as sealed");
    for (size_t gone = 0; gone < c.n_files; gone++) {
        char path[512];
        unlink(kit_path(&k, c.name[c.n_files - 1 - gone], path));
        v = check_with(&k, public_pem, span_of(last));
        cr_assert(!v.clean && v.fault.wrong == (gone + 1 < c.n_files ? AUDIT_TRUNCATED : AUDIT_MISSING_CHAIN), "%s",
                  v.fault.what);
    }
    put_back(&k, &c);
    forge_from(&k, &c, 3, false); /* of the same length, and another history */
    v = check_with(&k, NULL, span_of(last));
    cr_assert(!v.clean && v.fault.wrong == AUDIT_FORK, "%s", v.fault.what);
    struct audit_check bad = {.directory = k.directory, .public_key = public_pem, .anchored = SPAN("{}\n")};
    cr_assert(!audit_check(&bad, &v, &k.why));
    cr_assert(strstr(k.why.at, "no head record"), "%s", k.why.at);
    free(last);
    drop_copy(&c);
    kit_fini(&k);
}

Test(verify, signed_heads_seal_and_the_rest_is_counted) {
    struct kit k;
    struct audit_verdict v;
    char private_pem[2048], public_pem[2048], other_private[2048], other_public[2048];
    pem_pair(private_pem, public_pem);
    pem_pair(other_private, other_public);
    kit_init(&k);
    k.options.head_key = private_pem;
    k.options.head_every = 10;
    struct audit *a = kit_open(&k, KIT_NOW);
    for (int i = 0; i < 26; i++)
        kit_admit(a, i, 1, KIT_NOW);
    audit_flush(a);
    while (audit_lag(a))
        usleep(100);
    cr_assert(audit_verify(k.directory, public_pem, &v, &k.why));
    cr_assert(v.clean, "%s", v.fault.what);
    cr_assert_eq(v.unsealed, 7, "%lu", (unsigned long)v.unsealed); /* start + 9 | tree, head | 10 | tree, head | 7 */
    cr_assert_eq(v.open_admits, 26);
    cr_assert(audit_verify(k.directory, other_public, &v, &k.why));
    cr_assert(!v.clean && strstr(v.fault.what, "forged"), "%s", v.fault.what);
    audit_close(a, KIT_NOW);
    cr_assert(audit_verify(k.directory, private_pem, &v, &k.why));
    cr_assert(v.clean);
    cr_assert_eq(v.unsealed, 0);
    cr_assert(!audit_verify(k.directory, "no key", &v, &k.why));
    cr_assert(!audit_verify("/nowhere", NULL, &v, &k.why));
    k.options.head_key = "no key";
    cr_assert_null(kit_open(&k, KIT_NOW));
    kit_fini(&k);
}

static bool add_bill(const struct audit_line *l, void *user) {
    static const char cost[] = "\"cost_nanousd\":";
    const char *at = memmem(l->text.at, l->text.n, cost, sizeof cost - 1);
    *(int64_t *)user += at ? atoll(at + sizeof cost - 1) : 0;
    return true;
}

/* What the killed process does: it writes until it dies, and says when it has begun. */
static void write_until_killed(struct kit *k, int round, int begun) {
    struct audit *a = kit_open(k, KIT_NOW);
    if (!a)
        _exit(1);
    for (int i = 0;; i++) {
        kit_admit(a, round * 1000000 + i, 1000, KIT_NOW);
        if (i >= 3)
            kit_settle(a, round * 1000000 + i - 3, 7, KIT_NOW, KIT_NOW);
        if (i % 4 == 0)
            audit_flush(a);
        if (i == 20 && write(begun, "!", 1) != 1)
            _exit(1);
    }
}

Test(verify, is_clean_after_twenty_kills_under_load) {
    struct kit k;
    uint64_t dice = 7;
    kit_init(&k);
    k.tuning.segment_max_bytes = 300000;
    for (int round = 0; round < 20; round++) {
        int begun[2], status;
        char byte;
        cr_assert_eq(pipe(begun), 0);
        pid_t pid = fork();
        cr_assert_geq(pid, 0);
        if (pid == 0)
            write_until_killed(&k, round, begun[1]);
        cr_assert_eq(read(begun[0], &byte, 1), 1);
        usleep((useconds_t)(random_next(&dice) % 10000));
        close(begun[0]);
        close(begun[1]);
        kill(pid, SIGKILL);
        waitpid(pid, &status, 0);
        cr_assert(WIFSIGNALED(status));
        struct audit *a = kit_open(&k, KIT_NOW);
        cr_assert(a, "round %d: %s", round, k.why.at);
        int64_t told = k.told_nanousd, billed = 0;
        audit_close(a, KIT_NOW);
        cr_assert(audit_read(k.directory, add_bill, &billed, &k.why));
        cr_assert_eq(told, billed, "the ledger is the log to the nano-dollar");
        struct audit_verdict v = kit_verify(&k);
        cr_assert(v.clean, "round %d: %s line %ld: %s", round, v.fault.file, (long)v.fault.line, v.fault.what);
        cr_assert_eq(v.open_admits, 0);
        a = kit_open(&k, KIT_NOW);
        cr_assert_eq(k.told_nanousd, told, "the ledger hears the same sum again");
        audit_close(a, KIT_NOW);
    }
    cr_assert_gt(kit_verify(&k).records, 500);
    kit_fini(&k);
}
