/* Joins rows of one price file into another. Always true here: bytes of rows that do not change stay as they are, a price
 * that changes keeps its past (the row that held before stays behind the new one), and no row is taken out. */
#include "gateway/cli/price_merge.h"

#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define PATTERN_MAX 256
#define PATH_BYTES_MAX 4096
#define HIDDEN "hidden_output" /* the public table does not say it */

static bool is_wanted(const char *patterns, const char *model) {
    struct span rest = span_of(patterns), one;
    char pattern[PATTERN_MAX];
    if (!patterns)
        return true;
    while (rest.n) {
        if (!span_cut(&rest, ',', &one)) {
            one = rest;
            rest.n = 0;
        }
        one = span_trim(one);
        snprintf(pattern, sizeof pattern, "%.*s", (int)(one.n < PATTERN_MAX ? one.n : 0), one.at);
        if (fnmatch(pattern, model, 0) == 0)
            return true;
    }
    return false;
}

void price_merge_init(struct price_merge *m, const struct price_book *old, const struct price_book *new,
                      const char *patterns) {
    *m = (struct price_merge){.old = old, .new = new, .steps = xcalloc(new->n + 1, sizeof *m->steps)};
    for (size_t i = 0; i < new->n; i++) {
        const struct price_entry *to = &new->entries[i], *from = price_book_find(old, to->row.model);
        if (price_book_find(new, to->row.model) != to || !is_wanted(patterns, to->row.model))
            continue;
        enum price_change change = !from                                                   ? PRICE_ADDED
                                   : price_figures_equal(&from->row.price, &to->row.price) ? PRICE_SAME
                                                                                           : PRICE_CHANGED;
        m->steps[m->n++] = (struct price_step){from, to, change};
        m->same += change == PRICE_SAME;
    }
}

void price_merge_fini(struct price_merge *m) {
    free(m->steps);
}

static int64_t from_of(const struct price_merge *m, const struct price_entry *e) {
    return e->row.price.from ? e->row.price.from_us : m->from_us;
}

const char *price_merge_backdated(const struct price_merge *m) {
    for (size_t i = 0; i < m->n; i++) {
        const struct price_step *s = &m->steps[i];
        if (s->change == PRICE_CHANGED && from_of(m, s->to) < s->from->row.price.from_us)
            return s->to->row.model;
    }
    return NULL;
}

/* A row with its source and its day, whether or not it says them, and with what only the operator knows of the model. */
static void put_row(const struct price_merge *m, const struct price_step *s, struct str *out) {
    const struct price_entry *e = s->to;
    struct span inside = span_trim(span_from(e->raw.raw.at + 1, e->raw.raw.n - 2));
    bool has_source = json_get(e->raw, "source").kind == JSON_STRING;
    str_putc(out, '{');
    str_put(out, inside);
    const char *comma = inside.n ? ", " : "";
    if (!has_source) {
        str_printf(out, "%s\"source\": ", comma);
        json_put_text(out, span_of(m->source));
        comma = ", ";
    }
    if (!e->row.price.from) {
        str_printf(out, "%s\"effective_from\": ", comma);
        json_put_text(out, span_of(m->from));
        comma = ", ";
    }
    struct json hidden = s->from ? json_get(s->from->raw, HIDDEN) : (struct json){0};
    if (hidden.kind != JSON_NONE && json_get(e->raw, HIDDEN).kind == JSON_NONE)
        str_printf(out, "%s\"" HIDDEN "\": %.*s", comma, SPAN_ARG(hidden.raw));
    str_putc(out, '}');
}

static const struct price_step *step_of(const struct price_merge *m, const char *model) {
    for (size_t i = 0; i < m->n; i++)
        if (strcmp(m->steps[i].to->row.model, model) == 0)
            return &m->steps[i];
    return NULL;
}

/* A row of the very day of the new one is replaced by it: that day's price was put right. */
static void put_past(const struct price_merge *m, const struct price_step *s, struct str *out) {
    int64_t day = from_of(m, s->to);
    for (size_t i = 0; i < m->old->n; i++) {
        const struct price_entry *e = &m->old->entries[i];
        if (strcmp(e->row.model, s->to->row.model) != 0 || e->row.price.from_us == day)
            continue;
        str_puts(out, ",\n    ");
        str_put(out, e->raw.raw);
    }
}

static void put_changed(const struct price_merge *m, const struct price_step *s, struct str *out) {
    str_puts(out, "[");
    put_row(m, s, out);
    put_past(m, s, out);
    str_puts(out, "]");
}

static void put_name(struct str *out, struct span raw_name, bool *first) {
    str_puts(out, *first ? "\n  \"" : ",\n  \"");
    str_put(out, raw_name);
    str_puts(out, "\": ");
    *first = false;
}

static void put_old(const struct price_merge *m, struct str *out, bool *first) {
    struct json root, v;
    struct json_fault fault;
    struct json_walk w;
    struct span name;
    struct arena a;
    if (!json_check(m->old->bytes, JSON_DEPTH_MAX, &root, &fault))
        return;
    arena_init(&a, m->old->bytes.n * 2 + 4096);
    json_walk_init(&w, root);
    while (json_walk_next(&w, &name, &v)) {
        struct span model = json_text((struct json){JSON_STRING, {name.at - 1, name.n + 2}}, &a);
        const struct price_entry *e = model.at ? map_find(&m->old->newest, model) : NULL;
        const struct price_step *s = e ? step_of(m, e->row.model) : NULL;
        put_name(out, name, first);
        if (s && s->change == PRICE_CHANGED)
            put_changed(m, s, out);
        else
            str_put(out, v.raw);
    }
    arena_fini(&a);
}

void price_merge_put(const struct price_merge *m, struct str *out) {
    bool first = true;
    str_puts(out, "{");
    put_old(m, out, &first);
    for (size_t i = 0; i < m->n; i++) {
        if (m->steps[i].change != PRICE_ADDED)
            continue;
        str_puts(out, first ? "\n  " : ",\n  ");
        first = false;
        json_put_text(out, span_of(m->steps[i].to->row.model));
        str_puts(out, ": ");
        put_row(m, &m->steps[i], out);
    }
    str_puts(out, "\n}\n");
}

/* --- writing --- */

static bool write_all(int fd, struct span bytes) {
    while (bytes.n) {
        ssize_t n = write(fd, bytes.at, bytes.n);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return false;
        bytes = span_from(bytes.at + n, bytes.n - (size_t)n);
    }
    return fsync(fd) == 0;
}

static bool sync_folder(const char *path) {
    char copy[PATH_BYTES_MAX];
    snprintf(copy, sizeof copy, "%s", path);
    int fd = open(dirname(copy), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    bool good = fd >= 0 && fsync(fd) == 0;
    if (fd >= 0)
        close(fd);
    return good;
}

bool price_file_replace(const char *path, struct span bytes) {
    char temporary[PATH_BYTES_MAX];
    int n = snprintf(temporary, sizeof temporary, "%s.new.%ld", path, (long)getpid());
    if (n < 0 || (size_t)n >= sizeof temporary) {
        errno = ENAMETOOLONG;
        return false;
    }
    int fd = open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    if (fd < 0)
        return false;
    bool good = write_all(fd, bytes);
    good = close(fd) == 0 && good;
    if (good && rename(temporary, path) == 0)
        return sync_folder(path);
    int why = errno;
    unlink(temporary);
    errno = why;
    return false;
}
