#include "gateway/cli/cli.h"
#include "gateway/finance/report.h"
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

/* A number of the row whose groups are these texts ("" ends them), or of the total; -1: no such row. */
static int64_t cell(const char *out, const char *column, const char *const *texts) {
    struct json root, row;
    struct json_fault fault;
    struct json_walk walk;
    struct span name;
    int64_t n = -1;
    cr_assert(json_check(span_of(out), 64, &root, &fault), "%s", out);
    if (!texts)
        return json_i64(json_get(json_get(root, "total"), column), &n) ? n : -1;
    for (json_walk_init(&walk, json_get(root, "rows")); json_walk_next(&walk, &name, &row);) {
        bool same = true;
        for (size_t i = 0; texts[i]; i += 2)
            same = same && json_is(json_get(row, texts[i]), texts[i + 1]);
        if (same && json_i64(json_get(row, column), &n))
            return n;
    }
    return -1;
}
#define ROW(...) ((const char *const[]){__VA_ARGS__, NULL})

Test(spend, is_the_sum_of_settles_by_hand) {
    struct kit k;
    char *out;
    kit_init(&k);
    make_bill(&k);
    cr_assert_eq(run_verb(&k, cli_spend, "spend DIR --month 2026-11 --by team --format json", &out), 0);
    cr_assert_eq(cell(out, "cost_nanousd", ROW("team", "legal")), 125);
    cr_assert_eq(cell(out, "requests", ROW("team", "legal")), 2);
    cr_assert_eq(cell(out, "estimated_requests", ROW("team", "legal")), 1);
    cr_assert_eq(cell(out, "estimated_nanousd", ROW("team", "legal")), 25);
    cr_assert_eq(cell(out, "in_tok", ROW("team", "legal")), 26);
    cr_assert_eq(cell(out, "cache_read", ROW("team", "legal")), 6);
    cr_assert_eq(cell(out, "out_tok", ROW("team", "legal")), 8);
    cr_assert_eq(cell(out, "reasoning", ROW("team", "legal")), 4);
    cr_assert_eq(cell(out, "cost_nanousd", ROW("team", "search")), INT64_C(9007199254741000));
    free(out);
    cr_assert_eq(run_verb(&k, cli_spend, "spend DIR --from 2026-11-30 --to 2026-12-01 --by team --format csv", &out),
                 0);
    cr_assert(strstr(out, "\"team\",requests,tries,in,") == out && strstr(out, "\"legal\",2,0,20,6,"), "%s", out);
    cr_assert(strstr(out, ",26,8,0.000000125\r\n"), "the same day as the month holds");
    free(out);
    cr_assert_eq(run_verb(&k, cli_spend, "spend DIR --month 2026-11 --timezone Europe/Berlin --format json", &out), 0);
    cr_assert_eq(cell(out, "cost_nanousd", ROW("team", "legal")), 25, "23:00 UTC is December in Berlin: %s", out);
    free(out);
    cr_assert_eq(run_verb(&k, cli_spend, "spend DIR --by owner,label:feature,day --format json", &out), 0);
    cr_assert_eq(cell(out, "cost_nanousd", ROW("owner", "(none)", "label:feature", "(none)", "day", "2026-11-30")),
                 100);
    cr_assert_eq(cell(out, "requests", ROW("owner", "anna@x", "label:feature", "search", "day", "2026-11-30")), 2);
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

/* Column by name in a CSV row of plain fields; quotes are left out. */
static void csv_field(const char *out, int row, const char *column, char field[256]) {
    const char *line = out, *head = out;
    int at = 0;
    for (; strncmp(head, column, strlen(column)) != 0 || !strchr(",\r", head[strlen(column)]); at++) {
        head = strchr(head, ',');
        cr_assert_not_null(head, "%s", column);
        head++;
    }
    for (int i = 0; i < row; i++)
        line = strstr(line, "\r\n") + 2;
    for (; at > 0; at--) {
        for (bool quoted = false; *line != ',' || quoted; line++)
            quoted = quoted != (*line == '"');
        line++;
    }
    size_t n = 0;
    for (bool quoted = false; (!strchr(",\r", *line) || quoted) && n < 255; line++) {
        quoted = quoted != (*line == '"');
        if (*line != '"')
            field[n++] = *line;
    }
    field[n] = 0;
}

Test(spend, focus_rows_have_the_mandatory_columns_and_the_same_money) {
    static const char *const mandatory[] = {
        "BilledCost",         "BillingAccountId",  "BillingAccountName", "BillingCurrency",   "BillingPeriodEnd",
        "BillingPeriodStart", "ChargeCategory",    "ChargeClass",        "ChargeDescription", "ChargePeriodEnd",
        "ChargePeriodStart",  "ContractedCost",    "EffectiveCost",      "InvoiceIssuerName", "ListCost",
        "PricingQuantity",    "PricingUnit",       "ProviderName",       "PublisherName",     "ServiceCategory",
        "ServiceName",        "ServiceSubcategory"};
    struct kit k;
    char *out, field[256];
    kit_init(&k);
    struct audit *a = kit_open(&k, KIT_NOW);
    struct conf_label feature = {"feature", "search"};
    struct audit_attempt tries[] = {
        {.target = "azure/gpt", .upstream_key = "prod", .pico = "850000", .list_pico = "1000000"}};
    struct audit_record r = {.kind = AUDIT_SETTLE,
                             .team = "search",
                             .key_id = "k",
                             .alias = "=cmd",
                             .target = "azure/gpt",
                             .attempts = tries,
                             .n_attempts = 1,
                             .cost_nanousd = 850,
                             .list_nanousd = 1000,
                             .labels = &feature,
                             .n_labels = 1,
                             .admitted_us = KIT_NOW,
                             .usage = {.in = 7, .out = 3}};
    audit_add(a, &r, KIT_NOW);
    audit_close(a, KIT_NOW);
    cr_assert_eq(run_verb(&k, cli_spend, "spend DIR --format focus --timezone Europe/Berlin", &out), 0);
    for (size_t i = 0; i < ARRAY_LEN(mandatory); i++)
        csv_field(out, 0, mandatory[i], field);
    static const char *const want[][2] = {{"BilledCost", "0.00000085"},
                                          {"ListCost", "0.000001"},
                                          {"EffectiveCost", "0.00000085"},
                                          {"BillingCurrency", "USD"},
                                          {"BillingPeriodStart", "2026-10-31T23:00:00Z"},
                                          {"BillingPeriodEnd", "2026-11-30T23:00:00Z"},
                                          {"ChargePeriodStart", "2026-11-29T23:00:00Z"},
                                          {"ChargeCategory", "Usage"},
                                          {"ChargeClass", ""},
                                          {"ProviderName", "azure"},
                                          {"ResourceName", "gpt"},
                                          {"SkuId", "azure/gpt"},
                                          {"SubAccountId", "search"},
                                          {"PricingQuantity", "10"},
                                          {"PricingUnit", "Tokens"},
                                          {"Tags", "{feature:search}"},
                                          {"x_Alias", "'=cmd"},
                                          {"x_UpstreamKey", "prod"},
                                          {"ServiceCategory", "AI and Machine Learning"}};
    for (size_t i = 0; i < ARRAY_LEN(want); i++) {
        csv_field(out, 1, want[i][0], field);
        cr_expect_str_eq(field, want[i][1], "%s: %s", want[i][0], field);
    }
    free(out);
    kit_fini(&k);
}

Test(spend, refuses_by_name_what_it_does_not_know) {
    static const char *const wrong[] = {
        "spend DIR --format fokus",
        "spend DIR --format focus --by team",
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
        "spend DIR --by team,key,team,key,team,key,team,key,team,key,team,key,team,key,team",
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
    cr_assert(strstr(out, "\"fault\":{\"wrong\":\"edited\",\"file\":"), "%s", out);
    free(out);
    free(bytes);
    kit_fini(&k);
}
