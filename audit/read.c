/* Reading records for people and reports: whole lines only, nothing checked, memory bounded by one line (tail: by the
 * lines asked for). */
#include "audit/audit.h"
#include "audit/segment.h"
#include "gateway/base/clock.h"
#include "gateway/base/mem.h"
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#define FOLLOW_POLL_US 200000
#define TAIL_MAX 100000

struct reader {
    const char *directory;
    bool (*see)(const struct audit_line *l, void *user);
    void *user;
    bool stopped; /* see said so */
    struct str *why;
};

static bool failed(struct reader *r, const char *file, const char *what) {
    str_printf(r->why, "cannot read %s/%s: %s", r->directory, file, what);
    return false;
}

/* Gives the whole lines from an offset on and moves the offset past them. */
static bool read_from(struct reader *r, const char *file, int64_t *offset, int64_t *number) {
    struct lines l;
    struct span text;
    enum lines_got got = LINES_END;
    if (!lines_open(&l, r->directory, file))
        return failed(r, file, strerror(errno));
    bool good = lines_skip(&l, *offset, *number);
    while (good && !r->stopped && (got = lines_next(&l, &text)) == LINES_LINE) {
        struct audit_line line = {text, file, l.line};
        r->stopped = !r->see(&line, r->user);
        *offset = l.offset;
        *number = l.line;
    }
    int error = errno;
    lines_close(&l);
    if (!good || got == LINES_FAILED)
        return failed(r, file, strerror(error));
    return got == LINES_LONG ? failed(r, file, "a line is longer than any record") : true;
}

/* A file of a chain ends where the next one of it begins. */
static bool ends_before(const struct segments *all, size_t i, int64_t day) {
    if (i + 1 >= all->n || strcmp(all->all[i].chain, all->all[i + 1].chain) != 0)
        return false;
    int64_t next = segment_day(all->all[i + 1].name);
    return next >= 0 && next < day;
}

bool audit_read(const char *directory, bool (*see)(const struct audit_line *l, void *user), void *user,
                struct str *why) {
    return audit_read_since(directory, 0, see, user, why);
}

bool audit_read_since(const char *directory, int64_t since_us, bool (*see)(const struct audit_line *l, void *user),
                      void *user, struct str *why) {
    struct reader r = {directory, see, user, false, why};
    struct segments all;
    if (!segments_list(directory, NULL, &all, why))
        return false;
    bool good = true;
    for (size_t i = 0; good && !r.stopped && i < all.n; i++) {
        int64_t offset = 0, number = 0;
        if (!ends_before(&all, i, since_us / US_PER_DAY))
            good = read_from(&r, all.all[i].name, &offset, &number);
    }
    segments_free(&all);
    return good;
}

/* Where the tail of one chain stands. */
struct place {
    char chain[SEGMENT_CHAIN_MAX], file[SEGMENT_NAME_MAX];
    int64_t number, offset, line;
};
struct tail {
    struct reader reader;
    struct place *places; /* owned; one a chain */
    size_t n_places;
    size_t n;    /* lines asked for */
    size_t seen; /* counted in one file */
};

static bool count_line(const struct audit_line *l, void *user) {
    struct tail *t = user;
    (void)l;
    t->seen++;
    return true;
}

/* How many whole lines a file holds. */
static bool count_lines(struct tail *t, const char *file, size_t *n) {
    struct reader counting = {t->reader.directory, count_line, t, false, t->reader.why};
    int64_t offset = 0, line = 0;
    t->seen = 0;
    bool good = read_from(&counting, file, &offset, &line);
    *n = t->seen;
    return good;
}

struct skipping {
    const struct reader *to;
    size_t skip;
};

static bool see_past(const struct audit_line *l, void *user) {
    struct skipping *s = user;
    if (s->skip == 0)
        return s->to->see(l, s->to->user);
    s->skip--;
    return true;
}

static bool give_tail(struct tail *t, struct place *p, size_t skip) {
    struct skipping s = {&t->reader, skip};
    struct reader r = {t->reader.directory, see_past, &s, false, t->reader.why};
    bool good = read_from(&r, p->file, &p->offset, &p->line);
    t->reader.stopped = t->reader.stopped || r.stopped;
    return good;
}

/* Segments [from, to) are one chain: its last lines, and where they end. */
static bool tail_chain(struct tail *t, const struct segments *all, size_t from, size_t to) {
    size_t begin = to, have = 0, lines = 0;
    do {
        if (!count_lines(t, all->all[--begin].name, &lines))
            return false;
        have += lines;
    } while (begin > from && have < t->n);
    t->places = xrealloc(t->places, (t->n_places + 1) * sizeof *t->places);
    struct place *p = &t->places[t->n_places++];
    memcpy(p->chain, all->all[from].chain, sizeof p->chain);
    for (size_t i = begin; i < to && !t->reader.stopped; i++) {
        memcpy(p->file, all->all[i].name, sizeof p->file);
        p->number = all->all[i].number;
        p->offset = p->line = 0;
        if (!give_tail(t, p, i == begin && have > t->n ? have - t->n : 0))
            return false;
    }
    return true;
}

static struct place *find_place(struct tail *t, const char *chain) {
    for (size_t i = 0; i < t->n_places; i++)
        if (strcmp(t->places[i].chain, chain) == 0)
            return &t->places[i];
    t->places = xrealloc(t->places, (t->n_places + 1) * sizeof *t->places);
    struct place *p = &t->places[t->n_places++];
    *p = (struct place){.number = -1};
    memcpy(p->chain, chain, strlen(chain) + 1);
    return p;
}

/* What was added to any chain since. */
static bool poll_once(struct tail *t) {
    struct segments all;
    if (!segments_list(t->reader.directory, NULL, &all, t->reader.why))
        return false;
    bool good = true;
    for (size_t i = 0; good && !t->reader.stopped && i < all.n; i++) {
        struct place *p = find_place(t, all.all[i].chain);
        if (all.all[i].number < p->number)
            continue;
        if (all.all[i].number > p->number)
            p->offset = p->line = 0;
        p->number = all.all[i].number;
        memcpy(p->file, all.all[i].name, sizeof p->file);
        good = read_from(&t->reader, p->file, &p->offset, &p->line);
    }
    segments_free(&all);
    return good;
}

bool audit_tail(const char *directory, size_t n, bool follow, bool (*see)(const struct audit_line *l, void *user),
                void *user, struct str *why) {
    struct tail t = {.reader = {directory, see, user, false, why}, .n = n < TAIL_MAX ? n : TAIL_MAX};
    struct segments all;
    if (!segments_list(directory, NULL, &all, why))
        return false;
    bool good = true;
    for (size_t at = 0, end; good && !t.reader.stopped && at < all.n; at = end) {
        end = segments_chain_end(&all, at);
        good = tail_chain(&t, &all, at, end);
    }
    segments_free(&all);
    while (good && follow && !t.reader.stopped) {
        usleep(FOLLOW_POLL_US);
        good = poll_once(&t);
    }
    free(t.places);
    return good;
}
