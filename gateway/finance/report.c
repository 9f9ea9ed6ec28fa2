/* From words to the bytes of a report. The chain is checked on a thread beside the one that adds up, so that a report says
 * whether what it adds is true and takes little longer for it. */
#include "gateway/finance/report.h"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#define WHY_MAX 4096

static bool complain(struct str *why, const char *what, const char *word) {
    str_printf(why, "%s%s", what, word);
    return false;
}

/* ---- words ---- */

static bool read_period(struct report *r, const struct report_words *w, struct str *why) {
    struct spend *s = &r->spend;
    s->zone = zone_get(w->zone ? w->zone : "UTC");
    if (!s->zone)
        return complain(why, "there is no time zone ", w->zone);
    if (w->month && (w->from || w->to))
        return complain(why, "--month and --from or --to exclude each other", "");
    if (w->month && !spend_month(s->zone, w->month, &s->from_us, &s->to_us))
        return complain(why, "--month takes YYYY-MM, not ", w->month);
    if (w->from && !spend_day(s->zone, w->from, &s->from_us))
        return complain(why, "--from takes YYYY-MM-DD, not ", w->from);
    if (w->to && !spend_day(s->zone, w->to, &s->to_us))
        return complain(why, "--to takes YYYY-MM-DD, not ", w->to);
    if (w->from && w->to && s->to_us <= s->from_us)
        return complain(why, "--to must be a later day than --from, not ", w->to);
    snprintf(r->month, sizeof r->month, "%s", w->month ? w->month : "");
    return true;
}

static bool unknown(struct str *why, struct span word, const char *const *words, size_t n, const char *of) {
    const char *guess = span_guess(word, words, n);
    str_printf(why, "there is no %s %.*s", of, SPAN_ARG(word));
    if (guess)
        str_printf(why, "; did you mean %s?", guess);
    return false;
}

static bool read_groups(struct report *r, const struct report_words *w, struct str *why) {
    struct span bad = SPAN_NONE;
    if (r->format == SPEND_FOCUS && w->by)
        return complain(why, "--format focus has columns of its own: --by is not taken", "");
    const char *by = r->format == SPEND_FOCUS ? SPEND_FOCUS_GROUPS : w->by ? w->by : "team";
    if (spend_groups(&r->spend, by, &bad))
        return true;
    if (r->spend.n_groups == SPEND_GROUPS_MAX)
        return complain(why, "--by takes at most eight words", "");
    return unknown(why, bad, spend_words, BY_N, "word for --by called");
}

static bool read_format(struct report *r, const struct report_words *w, struct str *why) {
    static const char *const words[] = {"table", "csv", "json", "focus"};
    for (size_t i = 0; i < ARRAY_LEN(words); i++)
        if (!w->format || strcmp(words[i], w->format) == 0) {
            r->format = (enum spend_format)i;
            return true;
        }
    return unknown(why, span_of(w->format), words, ARRAY_LEN(words), "format");
}

bool report_init(struct report *r, const struct report_words *w, struct str *why) {
    *r = (struct report){.verify = true};
    spend_init(&r->spend);
    if (read_format(r, w, why) && read_period(r, w, why) && read_groups(r, w, why))
        return true;
    spend_fini(&r->spend);
    return false;
}

void report_fini(struct report *r) {
    spend_fini(&r->spend);
}

/* ---- the log ---- */

struct checking {
    const char *directory;
    struct audit_verdict verdict;
    struct str why;
    bool good;
};

static void *check(void *arg) {
    struct checking *c = arg;
    c->good = audit_verify(c->directory, NULL, &c->verdict, &c->why);
    return NULL;
}

static bool add_up(struct report *r, const char *directory, struct str *why) {
    return audit_read(directory, spend_see, &r->spend, why);
}

/* Both at once; where no thread can be had, one after the other. */
static bool read_log(struct report *r, const char *directory, struct spend_log *log, struct str *why) {
    struct checking c = {.directory = directory, .good = true};
    pthread_t thread;
    str_init(&c.why, WHY_MAX);
    bool beside = r->verify && pthread_create(&thread, NULL, check, &c) == 0;
    bool good = add_up(r, directory, why);
    if (beside)
        pthread_join(thread, NULL);
    else if (r->verify)
        check(&c);
    if (good && !c.good)
        str_put(why, str_span(&c.why));
    str_fini(&c.why);
    *log = (struct spend_log){directory, r->verify, c.verdict};
    return good && c.good;
}

static bool is_usable(const struct report *r, struct str *why) {
    if (r->spend.overflow)
        return complain(why, "a sum is too large to be added exactly", "");
    if (!r->spend.too_many)
        return true;
    str_printf(why, "the report has more than %zu rows: fewer or coarser words for --by, or a shorter period",
               SPEND_ROWS_MAX);
    return false;
}

bool report_run(struct report *r, struct str *out, struct str *head, struct str *why) {
    struct spend_log *logs = xcalloc(r->n_directories + 1, sizeof *logs);
    struct spend_head told = {.logs = logs, .n_logs = r->n_directories};
    bool good = true;
    for (size_t i = 0; good && i < r->n_directories; i++)
        good = read_log(r, r->directories[i], &logs[i], why);
    good = good && is_usable(r, why);
    if (good) {
        spend_print(&r->spend, &told, r->format, out);
        if (r->format == SPEND_CSV || r->format == SPEND_FOCUS)
            spend_print_head(&r->spend, &told, head);
        good = !out->over;
        if (!good)
            str_puts(why, "the report is larger than can be printed");
    }
    free(logs);
    return good;
}
