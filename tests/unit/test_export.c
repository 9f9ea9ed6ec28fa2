#include "audit/line.h"
#include "tests/support/chain_kit.h"
#include "tests/support/temp_folder.h"
#include <criterion/criterion.h>
#include <openssl/evp.h>
#include <openssl/pem.h>

static bool wants_legal(const struct audit_line *l, void *user) {
    static const char team[] = "\"team\":\"legal\"";
    (void)user;
    return memmem(l->text.at, l->text.n, team, sizeof team - 1) != NULL;
}

static size_t lines_of(struct temp_folder *t, const char *name, char *out, size_t max) {
    FILE *f = fopen(temp_name(t, name), "r");
    cr_assert(f, "%s", name);
    size_t n = fread(out, 1, max - 1, f), lines = 0;
    out[n] = 0;
    fclose(f);
    for (size_t i = 0; i < n; i++)
        lines += out[i] == '\n';
    return lines;
}

static void put_private(char pem[2048]) {
    EVP_PKEY *key = EVP_PKEY_Q_keygen(NULL, NULL, "ED25519");
    BIO *out = BIO_new(BIO_s_mem());
    PEM_write_bio_PrivateKey(out, key, NULL, NULL, 0, NULL, NULL);
    pem[BIO_read(out, pem, 2047)] = 0;
    BIO_free(out);
    EVP_PKEY_free(key);
}

/* The root that line `at` of the proofs leads its record to. */
static void climb(char *proof, const char *record, char root[SHA256_HEX_MAX]) {
    struct tree_step steps[TREE_LEVELS_MAX];
    struct line_frame f;
    uint8_t leaf[SHA256_BYTES], sum[SHA256_BYTES];
    size_t n = 0;
    char *rest, *word = strtok_r(proof, " ", &rest);
    while ((word = strtok_r(NULL, " ", &rest))) {
        steps[n].left = word[0] == 'L';
        cr_assert(hex_read(span_of(word + 1), steps[n++].other, SHA256_BYTES));
    }
    cr_assert(line_read(span_of(record), &f) && hex_read(f.hash, leaf, sizeof leaf));
    tree_climb(leaf, steps, n, sum);
    hex_put(sum, sizeof sum, root);
}

Test(export, every_record_leads_to_a_root_that_a_head_signs) {
    struct kit k;
    struct temp_folder t = temp_new();
    static char records[1 << 18], proofs[1 << 18], trees[1 << 18];
    char pem[2048], into[300];
    struct audit_exported got;
    put_private(pem);
    kit_init(&k);
    k.options.head_key = pem;
    k.options.head_every = 13;
    k.tuning.segment_max_bytes = 9000;
    for (int boot = 0; boot < 2; boot++) { /* a tree goes on over a restart */
        struct audit *a = kit_open(&k, KIT_NOW);
        for (int i = 0; i < 30; i++) {
            kit_admit(a, boot * 100 + i, 1000, KIT_NOW);
            kit_settle(a, boot * 100 + i, 7, KIT_NOW, KIT_NOW);
        }
        audit_close(a, KIT_NOW);
    }
    cr_assert_gt(kit_segments(&k), 3);
    snprintf(into, sizeof into, "%s/out", t.path);
    struct audit_export o = {.directory = k.directory, .into = into, .wants = wants_legal};
    cr_assert(audit_export(&o, &got, &k.why), "%s", k.why.at);
    cr_assert_eq(got.records, 60);
    cr_assert_eq(got.proved, 60, "%lu", (unsigned long)got.proved);
    cr_assert_eq(lines_of(&t, "out/records.jsonl", records, sizeof records), 60);
    cr_assert_eq(lines_of(&t, "out/proofs.txt", proofs, sizeof proofs), 60);
    cr_assert_eq(lines_of(&t, "out/trees.jsonl", trees, sizeof trees), got.heads);
    char *at_record, *at_proof, *record = strtok_r(records, "\n", &at_record),
                                *proof = strtok_r(proofs, "\n", &at_proof);
    for (int i = 0; i < 60; i++) {
        char root[SHA256_HEX_MAX];
        int number = atoi(proof);
        char *tree = trees;
        while (--number > 0)
            tree = strchr(tree, '\n') + 1;
        climb(proof, record, root);
        cr_assert(memmem(tree, (size_t)(strchr(tree, '\n') - tree), root, 64), "record %d", i);
        record = strtok_r(NULL, "\n", &at_record);
        proof = strtok_r(NULL, "\n", &at_proof);
    }
    cr_assert(!audit_export(&o, &got, &k.why), "nothing is overwritten");
    temp_free(&t);
    kit_fini(&k);
}

Test(export, what_no_head_seals_yet_is_given_without_a_proof) {
    struct kit k;
    struct temp_folder t = temp_new();
    char into[300];
    struct audit_exported got;
    kit_init(&k);
    struct audit *a = kit_open(&k, KIT_NOW);
    kit_admit(a, 2, 1, KIT_NOW);
    audit_close(a, KIT_NOW);
    snprintf(into, sizeof into, "%s/out", t.path);
    struct audit_export o = {.directory = k.directory, .into = into, .wants = wants_legal};
    cr_assert(audit_export(&o, &got, &k.why), "%s", k.why.at);
    cr_assert(got.records == 1 && got.proved == 0 && got.unsealed == 1);
    temp_free(&t);
    kit_fini(&k);
}
