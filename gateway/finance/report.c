/* From words to the bytes of a report. The chain is checked on a thread beside the one that adds up, so that a report says
 * whether what it adds is true and takes little longer for it. */
#include "gateway/finance/report.h"
#include "gateway/finance/books.h"
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
        return complain(why, "--by takes at most fourteen words", "");
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

/* Sums of one directory are made apart, since the second reading of a log whose beginning is gone takes the first back. */
static bool add_up(struct spend *s, const char *directory, struct str *why) {
    return audit_read(directory, spend_see, s, why);
}

/* A closed month of which some chain's settles are gone is told by its rollups; one that the report wants a part of is told
 * to be impossible. */
static bool take_closed(struct spend *s, const struct books *books, struct spend_period **out, size_t *n,
                        struct str *why) {
    *out = xcalloc(books->n + 1, sizeof **out);
    for (size_t i = 0; i < books->n; i++) {
        const struct book *b = &books->all[i];
        if (b->from_us >= s->cut_us || b->to_us <= s->from_us || b->from_us >= s->to_us)
            continue;
        if (b->from_us < s->from_us || b->to_us > s->to_us) {
            str_printf(why, "%s is closed and its settles are gone: ask for whole months", b->month);
            return false;
        }
        (*out)[(*n)++] = (struct spend_period){b->from_us, b->to_us};
    }
    return true;
}

static bool tell_book(const struct book *b, struct spend *s, struct str *closed_by, struct str *why) {
    str_printf(closed_by, "%s%s is told by its rollups", closed_by->n ? "; " : "", b->month);
    return book_add(b, s, why);
}

static bool add_closed(struct spend *s, const struct books *books, const char *directory, struct str *closed_by,
                       struct str *why) {
    struct spend_period *closed = NULL;
    size_t n = 0;
    bool good = take_closed(s, books, &closed, &n, why);
    if (good && n) {
        spend_clear(s);
        s->closed = closed;
        s->n_closed = n;
        good = add_up(s, directory, why);
        for (size_t i = 0; good && i < books->n; i++)
            for (size_t k = 0; good && k < n; k++)
                if (books->all[i].from_us == closed[k].from_us)
                    good = tell_book(&books->all[i], s, closed_by, why);
    }
    s->closed = NULL;
    s->n_closed = 0;
    free(closed);
    return good;
}

bool report_sum(struct spend *s, const char *directory, struct str *closed, struct str *why) {
    struct books books;
    if (!add_up(s, directory, why))
        return false;
    if (!s->cut_us)
        return true;
    if (!books_read(directory, NULL, &books, why))
        return false;
    bool good = add_closed(s, &books, directory, closed, why);
    books_free(&books);
    return good;
}

/* Both at once; where no thread can be had, one after the other. */
static bool read_log(struct report *r, const char *directory, struct spend *s, struct spend_log *log,
                     struct str *closed, struct str *why) {
    struct checking c = {.directory = directory, .good = true};
    pthread_t thread;
    str_init(&c.why, WHY_MAX);
    bool beside = r->verify && pthread_create(&thread, NULL, check, &c) == 0;
    bool good = report_sum(s, directory, closed, why);
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

/* A month that was closed, in the words that its rollups have: nothing else of the log is looked at. */
static bool read_book(struct report *r, const char *directory, struct spend *s, struct spend_log *log,
                      struct str *closed, bool *told, struct str *why) {
    struct books books;
    struct str missing;
    *told = false;
    if (!r->month[0])
        return true;
    if (!books_read(directory, r->month, &books, why))
        return false;
    str_init(&missing, WHY_MAX);
    const struct book *b = books_find(&books, r->month, zone_name(s->zone));
    bool good = true;
    if (b && book_has_words(b, s, &missing)) {
        good = book_add(b, s, why);
        str_puts(closed, closed->n ? "; " : "");
        book_head(b, s, log, closed);
        *told = good;
    }
    str_fini(&missing);
    books_free(&books);
    return good;
}

static bool read_directory(struct report *r, size_t i, struct spend_log *log, struct str *closed, struct str *why) {
    struct spend one = r->spend; /* the question; sums of its own */
    bool told;
    map_init(&one.rows);
    map_init(&one.price_digests);
    spend_clear(&one);
    bool good = read_book(r, r->directories[i], &one, log, closed, &told, why) &&
                (told || read_log(r, r->directories[i], &one, log, closed, why));
    if (good)
        spend_join(&r->spend, &one);
    spend_clear(&one);
    return good;
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

static bool print(struct report *r, const struct spend_head *told, struct str *out, struct str *head, struct str *why) {
    spend_print(&r->spend, told, r->format, out);
    if (r->format == SPEND_CSV || r->format == SPEND_FOCUS)
        spend_print_head(&r->spend, told, head);
    if (out->over)
        str_puts(why, "the report is larger than can be printed");
    return !out->over;
}

bool report_run(struct report *r, struct str *out, struct str *head, struct str *why) {
    struct spend_log *logs = xcalloc(r->n_directories + 1, sizeof *logs);
    struct str closed;
    bool good = true;
    str_init(&closed, (size_t)REPORT_DIRECTORIES_MAX * 4096);
    for (size_t i = 0; good && i < r->n_directories; i++)
        good = read_directory(r, i, &logs[i], &closed, why);
    struct spend_head told = {logs, r->n_directories, closed.n ? closed.at : NULL};
    good = good && is_usable(r, why) && print(r, &told, out, head, why);
    str_fini(&closed);
    free(logs);
    return good;
}
