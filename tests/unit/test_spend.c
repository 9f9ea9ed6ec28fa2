#include "gateway/cli/cli.h"
#include "gateway/cli/spend.h"
#include "tests/support/chain_kit.h"
#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#define DAY INT64_C(86400000000)
#define HOUR INT64_C(3600000000)

/* Runs a verb with its standard output in a file of the kit's directory. */
static int run_verb(struct kit *k, int (*verb)(int, char **), const char *words, char **out) {
    char path[512], copy[512], *argv[16];
    size_t n;
    int argc = 0;
    snprintf(copy, sizeof copy, "%s", words);
    for (char *word = strtok(copy, " "); word; word = strtok(NULL, " "))
        argv[argc++] = strcmp(word, "DIR") == 0 ? k->directory : word;
    fflush(stdout);
    int saved = dup(1), fd = open(kit_path(k, "out", path), O_RDWR | O_CREAT | O_TRUNC, 0600);
    dup2(fd, 1);
    int status = verb(argc, argv);
    fflush(stdout);
    dup2(saved, 1);
    close(saved);
    close(fd);
    *out = kit_read(k, "out", &n);
    return status;
}

static void settle(struct audit *a, const char *team, const char *owner, int64_t nanousd, int64_t admitted_us,
                   bool estimated) {
    struct conf_label feature = {"feature", "search"};
    struct audit_record r = {.kind = AUDIT_SETTLE,
                             .request = "req",
                             .team = team,
                             .owner = owner,
                             .alias = "fast",
                             .cost_nanousd = nanousd,
                             .admitted_us = admitted_us,
                             .price_digest = nanousd > 100 ? "aaaa" : "bbbb",
                             .estimated = estimated};
    if (owner)
        r.labels = &feature, r.n_labels = 1;
    r.usage = (struct usage){.in = 10, .cache_read = 3, .out = 4, .reasoning = 2};
    audit_add(a, &r, admitted_us + 5);
}

/* 2026-11-30T12:00Z and after. By hand: legal 100 + 25 = 125 (of them 25 estimated), search 9007199254740993 + 7,
 * and one record of a day later. */
static void make_bill(struct kit *k) {
    struct audit *a = kit_open(k, KIT_NOW);
    settle(a, "search", "anna@x", INT64_C(9007199254740993), KIT_NOW, false); /* no double holds it */
    settle(a, "legal", NULL, 100, KIT_NOW + 11 * HOUR, false);                /* 23:00Z: a new day in Berlin */
    settle(a, "legal", "bob@x", 25, KIT_NOW + HOUR, true);
    settle(a, "search", "anna@x", 7, KIT_NOW + 2 * HOUR, false);
    settle(a, "search", NULL, 1000, KIT_NOW + DAY, false);
    kit_admit(a, 1, 777777, KIT_NOW + DAY); /* a hold is no bill */
    audit_close(a, KIT_NOW + DAY);
}

Test(spend, is_the_sum_of_settles_by_hand) {
    struct kit k;
    char *out;
    kit_init(&k);
    make_bill(&k);
    cr_assert_eq(run_verb(&k, cli_spend, "spend DIR --month 2026-11 --by team --format csv", &out), 0);
    cr_assert_str_eq(out, "\"team\",requests,in_tok,out_tok,estimated_requests,cost_nanousd,cost_usd\r\n"
                          "\"legal\",2,26,8,1,125,0.000000125\r\n"
                          "\"search\",2,26,8,0,9007199254741000,9007199.254741\r\n");
    free(out);
    cr_assert_eq(run_verb(&k, cli_spend, "spend DIR --from 2026-11-30 --to 2026-12-01 --by team --format csv", &out),
                 0);
    cr_assert(strstr(out, "\"legal\",2,26,8,1,125,"), "the same day as the month holds");
    free(out);
    cr_assert_eq(run_verb(&k, cli_spend, "spend DIR --month 2026-11 --timezone Europe/Berlin --format csv", &out), 0);
    cr_assert(strstr(out, "\"legal\",1,13,4,1,25,"), "23:00 UTC is December in Berlin: %s", out);
    free(out);
    cr_assert_eq(run_verb(&k, cli_spend, "spend DIR --by owner,label:feature,day --format csv", &out), 0);
    cr_assert(strstr(out, "\"(none)\",\"(none)\",\"2026-11-30\",1,13,4,0,100,"), "%s", out);
    cr_assert(strstr(out, "\"anna@x\",\"search\",\"2026-11-30\",2,"), "%s", out);
    free(out);
    kit_fini(&k);
}

Test(spend, says_what_it_is_made_of) {
    struct kit k;
    char *out, name[256];
    size_t n;
    kit_init(&k);
    make_bill(&k);
    cr_assert_eq(run_verb(&k, cli_spend, "spend DIR --to 2026-12-01 --by month,hour", &out), 0);
    cr_assert(strstr(out, "verified   yes, 11 records unsealed") || strstr(out, "verified   yes"), "%s", out);
    cr_assert(strstr(out, "prices     aaaa, bbbb\n"));
    cr_assert(strstr(out, "log        2026-11-30T12:00:00.000000Z to 2026-12-01T12:00:00.000005Z, "), "%s", out);
    cr_assert(strstr(out, "estimated  0.00% of the cost, 1 of 4 requests"));
    cr_assert(strstr(out, "2026-11-30T23"));
    free(out);
    cr_assert_eq(run_verb(&k, cli_spend, "spend DIR --format=json --by team", &out), 0);
    struct json root;
    struct json_fault fault;
    cr_assert(json_check(span_of(out), 64, &root, &fault), "%s", out);
    int64_t total;
    cr_assert(json_i64(json_get(json_get(root, "total"), "cost_nanousd"), &total));
    cr_assert_eq(total, INT64_C(9007199254740993) + 100 + 25 + 7 + 1000);
    cr_assert_eq(json_get(json_at(json_get(root, "logs"), 0), "verified").kind, JSON_TRUE);
    free(out);
    char *bytes = kit_read(&k, kit_segment(&k, 0, name), &n);
    strstr(bytes, "9007199254740993")[15] = '4';
    kit_write(&k, name, bytes, n);
    cr_assert_eq(run_verb(&k, cli_spend, "spend DIR", &out), 0);
    cr_assert(strstr(out, "verified   NO: audit-node.0-20261130-000001.jsonl line 2"), "%s", out);
    free(out);
    free(bytes);
    kit_fini(&k);
}

Test(spend, refuses_by_name_what_it_does_not_know) {
    static const char *const wrong[] = {
        "spend DIR --format focus",
        "spend DIR --by tema",
        "spend DIR --month 2026-13",
        "spend DIR --month 2026-11 --to 2026-12-01",
        "spend DIR --from yesterday",
        "spend DIR --from 2026-12-01 --to 2026-12-01",
        "spend DIR --timezone Mars/Base",
        "spend DIR --mont 2026-11",
        "spend DIR --by label:",
        "spend /nowhere",
        "spend DIR --month",
        "spend DIR --by team,team,team,team,team,team,team,team,team",
    };
    struct kit k;
    char *out;
    kit_init(&k);
    make_bill(&k);
    for (size_t i = 0; i < ARRAY_LEN(wrong); i++) {
        cr_assert_eq(run_verb(&k, cli_spend, wrong[i], &out), 1, "%s", wrong[i]);
        cr_assert_str_eq(out, "");
        free(out);
    }
    cr_assert_eq(run_verb(&k, cli_spend, "spend -h", &out), 0);
    free(out);
    kit_fini(&k);
}

Test(spend, audit_show_filters_and_verify_names_the_fault) {
    struct kit k;
    char *out, name[256];
    size_t n;
    kit_init(&k);
    make_bill(&k);
    cr_assert_eq(run_verb(&k, cli_audit, "audit verify DIR", &out), 0);
    cr_assert(strstr(out, "clean: ") && strstr(out, "open: 1 admits"), "%s", out);
    free(out);
    cr_assert_eq(run_verb(&k, cli_audit, "audit show DIR --team legal --format json", &out), 0);
    cr_assert(strstr(out, "\"team\":\"legal\"") && !strstr(out, "\"team\":\"search\""));
    free(out);
    cr_assert_eq(run_verb(&k, cli_audit, "audit show DIR --kind admit", &out), 0);
    cr_assert(strstr(out, " admit ") && strstr(out, "request=req_00000001") && strstr(out, "hold_nanousd=777777"), "%s",
              out);
    free(out);
    cr_assert_eq(run_verb(&k, cli_audit, "audit show DIR --since 2026-12-01 --kind settle", &out), 0);
    cr_assert(strstr(out, "cost_nanousd=1000") && !strstr(out, "cost_nanousd=25"), "%s", out);
    free(out);
    cr_assert_eq(run_verb(&k, cli_audit, "audit tail DIR -n 2", &out), 0);
    cr_assert(strstr(out, " stop ") && strstr(out, " head ") && !strstr(out, " settle "), "%s", out);
    free(out);
    cr_assert_eq(run_verb(&k, cli_audit, "audit export DIR", &out), 1);
    free(out);
    cr_assert_eq(run_verb(&k, cli_audit, "audit shwo DIR", &out), 1);
    free(out);
    cr_assert_eq(run_verb(&k, cli_audit, "audit show DIR --status abc", &out), 1);
    free(out);
    cr_assert_eq(run_verb(&k, cli_audit, "audit show DIR --status 4xx", &out), 0);
    free(out);
    char *bytes = kit_read(&k, kit_segment(&k, 0, name), &n);
    strstr(bytes, "anna@x")[0] = 'A';
    kit_write(&k, name, bytes, n);
    cr_assert_eq(run_verb(&k, cli_audit, "audit verify DIR", &out), 1);
    cr_assert(strstr(out, "audit-node.0-20261130-000001.jsonl:2: record 2: edited"), "%s", out);
    free(out);
    cr_assert_eq(run_verb(&k, cli_audit, "audit verify DIR --format json", &out), 1);
    cr_assert(strstr(out, "\"fault\":{\"file\":"), "%s", out);
    free(out);
    free(bytes);
    kit_fini(&k);
}
