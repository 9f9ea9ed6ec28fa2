/* tollgate spend: the bill, recomputed from the audit log. The log is read twice, once to check the chain and once to
 * add up, so that the report can say whether what it adds is true. */
#include "gateway/cli/spend.h"
#include "gateway/base/clock.h"
#include "gateway/cli/arguments.h"
#include "gateway/cli/cli.h"
#include <stdio.h>
#include <stdlib.h>

#define DIRECTORIES_MAX 64
#define REPORT_MAX_BYTES ((size_t)1 << 30)
#define WHY_MAX 4096

static const char usage_text[] =
    "usage: tollgate spend [DIR...] [--month YYYY-MM | --from DAY --to DAY] [--by WORDS] [--format table|csv|json]\n"
    "                      [--timezone ZONE] [-c FILE]\n"
    "\n"
    "DIR is var/audit, or what -c FILE says. Days are half-open: --from 2026-11-01 --to 2026-12-01 is November.\n"
    "--by: team, key, owner, alias, target, model, endpoint, day, month, hour, label:NAME; several with commas.\n"
    "With csv the head of the report goes to standard error.\n";

struct asked {
    const char *month, *from, *to, *by, *format, *zone, *conf;
    const char *directories[DIRECTORIES_MAX];
    size_t n_directories;
};

static int complain(const char *what, const char *word) {
    fprintf(stderr, "tollgate: %s%s\n", what, word);
    return 1;
}

/* The first instant of a local day: its noon is inside it whatever the clocks do that night. */
static bool day_begins(const struct zone *z, const char *text, enum period period, int64_t *us) {
    int64_t midnight, to;
    if (strlen(text) != strlen("YYYY-MM-DD") || !clock_parse(span_of(text), &midnight))
        return false;
    int64_t noon = midnight + US_PER_DAY / 2;
    zone_period(z, period, noon - zone_offset_s(z, noon) * US_PER_S, us, &to);
    return true;
}

static bool month_bounds(const struct zone *z, const char *month, int64_t *from_us, int64_t *to_us) {
    char day[16];
    int64_t from;
    if (strlen(month) != strlen("YYYY-MM"))
        return false;
    snprintf(day, sizeof day, "%s-15", month);
    if (!day_begins(z, day, PERIOD_DAY, &from))
        return false;
    zone_period(z, PERIOD_MONTH, from + US_PER_DAY / 2, from_us, to_us);
    return true;
}

static int read_period(struct spend *s, const struct asked *q) {
    s->zone = zone_get(q->zone ? q->zone : "UTC");
    if (!s->zone)
        return complain("there is no time zone ", q->zone);
    if (q->month && (q->from || q->to))
        return complain("--month and --from or --to exclude each other", "");
    if (q->month && !month_bounds(s->zone, q->month, &s->from_us, &s->to_us))
        return complain("--month takes YYYY-MM, not ", q->month);
    if (q->from && !day_begins(s->zone, q->from, PERIOD_DAY, &s->from_us))
        return complain("--from takes YYYY-MM-DD, not ", q->from);
    if (q->to && !day_begins(s->zone, q->to, PERIOD_DAY, &s->to_us))
        return complain("--to takes YYYY-MM-DD, not ", q->to);
    if (q->from && q->to && s->to_us <= s->from_us)
        return complain("--to must be a later day than --from, not ", q->to);
    return 0;
}

static int read_groups(struct spend *s, const char *text) {
    static const char *const words[] = {"team",     "key", "owner", "alias", "target",    "model",
                                        "endpoint", "day", "month", "hour",  "label:NAME"};
    struct span bad = SPAN_NONE;
    if (spend_groups(s, text ? text : "team", &bad))
        return 0;
    char *word = xstrndup(bad.n ? bad.at : "", bad.n);
    if (s->n_groups == SPEND_GROUPS_MAX)
        complain("--by takes at most eight words", "");
    else
        argument_is_one_of(word, words, ARRAY_LEN(words), "word for --by called");
    free(word);
    return 1;
}

static int read_format(const char *text, enum spend_format *out) {
    static const char *const words[] = {"table", "csv", "json"};
    *out = SPEND_TABLE;
    if (!text)
        return 0;
    if (strcmp(text, "focus") == 0)
        return complain("--format focus is not supported yet", "");
    if (!argument_is_one_of(text, words, ARRAY_LEN(words), "format"))
        return 1;
    while (*out + 1u < ARRAY_LEN(words) && strcmp(words[*out], text) != 0)
        (*out)++;
    return 0;
}

static bool read_log(struct spend *s, const char *directory, struct spend_log *log) {
    struct str why;
    str_init(&why, WHY_MAX);
    log->directory = directory;
    bool good = audit_verify(directory, NULL, &log->verdict, &why) && audit_read(directory, spend_see, s, &why);
    if (!good)
        complain(why.at ? why.at : "the log cannot be read", "");
    str_fini(&why);
    return good;
}

static int report(struct spend *s, const struct spend_log *logs, size_t n, enum spend_format format) {
    struct str out, head;
    if (s->overflow)
        return complain("a sum is too large to be added exactly", "");
    str_init(&out, REPORT_MAX_BYTES);
    str_init(&head, REPORT_MAX_BYTES);
    spend_print(s, logs, n, format, &out);
    if (format == SPEND_CSV)
        spend_print_head(s, logs, n, &head);
    bool whole = !out.over && fwrite(out.at ? out.at : "", 1, out.n, stdout) == out.n && fflush(stdout) == 0;
    fputs(head.at ? head.at : "", stderr);
    str_fini(&out);
    str_fini(&head);
    return whole ? 0 : complain("the report could not be written", "");
}

static int run(struct spend *s, struct asked *q) {
    struct spend_log logs[DIRECTORIES_MAX];
    enum spend_format format;
    char *directory = NULL;
    int status = read_format(q->format, &format) || read_period(s, q) || read_groups(s, q->by);
    if (status == 0 && q->n_directories == 0) {
        directory = argument_audit_directory(q->conf);
        q->directories[q->n_directories++] = directory;
        status = directory ? 0 : 1;
    }
    for (size_t i = 0; status == 0 && i < q->n_directories; i++)
        status = read_log(s, q->directories[i], &logs[i]) ? 0 : 1;
    if (status == 0)
        status = report(s, logs, q->n_directories, format);
    free(directory);
    return status;
}

int cli_spend(int argc, char **argv) {
    struct asked q = {0};
    const struct argument table[] = {
        {"--month", &q.month, NULL},   {"--from", &q.from, NULL},     {"--to", &q.to, NULL}, {"--by", &q.by, NULL},
        {"--format", &q.format, NULL}, {"--timezone", &q.zone, NULL}, {"-c", &q.conf, NULL},
    };
    struct spend s;
    enum arguments_got got =
        arguments_read(argc, argv, table, ARRAY_LEN(table), q.directories, DIRECTORIES_MAX, &q.n_directories);
    if (got == ARGUMENTS_HELP)
        fputs(usage_text, stdout);
    if (got != ARGUMENTS_GOOD)
        return got == ARGUMENTS_HELP ? 0 : 1;
    spend_init(&s);
    int status = run(&s, &q);
    spend_fini(&s);
    return status;
}
