/* tollgate spend: the bill, recomputed from the audit log. */
#include "gateway/cli/arguments.h"
#include "gateway/cli/cli.h"
#include "gateway/cli/spend_check.h"
#include "gateway/finance/report.h"
#include <stdio.h>
#include <stdlib.h>

#define WHY_MAX 4096

static const char usage_text[] =
    "usage: tollgate spend [DIR...] [--month YYYY-MM | --from DAY --to DAY] [--by WORDS]\n"
    "                      [--format table|csv|json|focus] [--timezone ZONE] [--no-verify] [-c FILE]\n"
    "       tollgate spend --check [-c FILE] [--admin ADDRESS]\n"
    "\n"
    "DIR is var/audit, or what -c FILE says. Days are half-open: --from 2026-11-01 --to 2026-12-01 is November.\n"
    "--by: team, key, owner, client, client_family, end_user, alias, model, endpoint, cache, degraded, target, "
    "backend,\n"
    "upstream_key, adapter, charge, labels, label:NAME, hour, day, month; several with commas (default: team).\n"
    "By target, backend, upstream_key or adapter each try stands where it was made. focus: rows of FOCUS 1.2.\n"
    "--check compares the log with the ledger of the running gateway, budget by budget, and names each difference.\n"
    "With csv and focus the head of the report goes to standard error.\n";

static int complain(const struct str *why) {
    fprintf(stderr, "tollgate: %s\n", why->at ? why->at : "the log cannot be read");
    return 1;
}

static int print(struct report *r, struct str *why) {
    struct str out, head;
    str_init(&out, REPORT_MAX_BYTES);
    str_init(&head, REPORT_MAX_BYTES);
    bool good = report_run(r, &out, &head, why);
    if (good && (fwrite(out.at ? out.at : "", 1, out.n, stdout) != out.n || fflush(stdout) != 0)) {
        str_puts(why, "the report could not be written");
        good = false;
    }
    if (good)
        fputs(head.at ? head.at : "", stderr);
    str_fini(&out);
    str_fini(&head);
    return good ? 0 : complain(why);
}

struct asked {
    struct report_words words;
    const char *conf, *directories[REPORT_DIRECTORIES_MAX];
    size_t n_directories;
    const char *admin;
    bool no_verify, check;
};

static int run(const struct asked *q, struct str *why) {
    struct report r;
    char *directory = NULL;
    if (!report_init(&r, &q->words, why))
        return complain(why);
    r.verify = !q->no_verify;
    memcpy(r.directories, q->directories, sizeof r.directories);
    r.n_directories = q->n_directories;
    if (r.n_directories == 0)
        r.directories[r.n_directories++] = directory = argument_audit_directory(q->conf);
    int status = r.directories[0] ? print(&r, why) : 1;
    report_fini(&r);
    free(directory);
    return status;
}

static int check(const struct asked *q, struct str *why) {
    struct conf *c = argument_conf(q->conf ? q->conf : CONF_DEFAULT);
    int status = c ? spend_check(c, q->admin, why) : 1;
    if (c && why->n)
        complain(why);
    conf_drop(c);
    return status;
}

int cli_spend(int argc, char **argv) {
    struct asked q = {0};
    const struct argument table[] = {
        {"--month", &q.words.month, NULL},   {"--from", &q.words.from, NULL},
        {"--to", &q.words.to, NULL},         {"--by", &q.words.by, NULL},
        {"--format", &q.words.format, NULL}, {"--timezone", &q.words.zone, NULL},
        {"--no-verify", NULL, &q.no_verify}, {"--check", NULL, &q.check},
        {"--admin", &q.admin, NULL},         {"-c", &q.conf, NULL},
    };
    struct str why;
    enum arguments_got got =
        arguments_read(argc, argv, table, ARRAY_LEN(table), q.directories, REPORT_DIRECTORIES_MAX, &q.n_directories);
    if (got == ARGUMENTS_HELP)
        fputs(usage_text, stdout);
    if (got != ARGUMENTS_GOOD)
        return got == ARGUMENTS_HELP ? 0 : 1;
    str_init(&why, WHY_MAX);
    int status = q.check ? check(&q, &why) : run(&q, &why);
    str_fini(&why);
    return status;
}
