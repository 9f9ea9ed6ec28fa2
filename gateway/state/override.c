/* Overrides in memory and in their file. Always true here: what is in force stands in the file, as a whole line; the last
 * line of a name counts; a torn last line was promised to nobody; the file never grows past what a start reads. */
#include "gateway/state/override.h"

#include "gateway/base/clock.h"
#include "gateway/base/json.h"
#include "gateway/base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define FILE_NAME "overrides.jsonl"
#define FILE_BYTES_MAX (16 << 20)
#define LINE_BYTES_MAX 4096
#define LINES_FREE ((size_t)1024) /* lines that count no more, above which the file is written anew */

struct overrides {
    struct map by_name;  /* struct override, owned */
    size_t lines, bytes; /* of the file */
    struct stat seen;    /* the file when it was looked at last */
};

struct overrides *overrides_new(void) {
    struct overrides *o = xcalloc(1, sizeof(*o));
    map_init(&o->by_name);
    return o;
}

void overrides_free(struct overrides *o) {
    if (!o)
        return;
    for (struct map_entry *e = map_next(&o->by_name, NULL); e; e = map_next(&o->by_name, e))
        free(e->value);
    map_fini(&o->by_name);
    free(o);
}

static void forget(struct overrides *o, const char *name) {
    free(map_remove(&o->by_name, span_of(name)));
}

static void keep(struct overrides *o, const struct override *v) {
    struct override *copy = xcalloc(1, sizeof(*copy));
    *copy = *v;
    forget(o, v->name);
    map_put(&o->by_name, span_of(copy->name), copy);
}

/* ---- the file ---- */

static void write_line(const struct override *v, struct str *out) {
    str_putc(out, '{');
    json_put_str(out, "name", v->name);
    json_put_i64(out, "number", v->number);
    json_put_i64(out, "base", v->base);
    json_put_str(out, "who", v->who);
    json_put_str(out, "reason", v->reason);
    json_put_i64(out, "since_us", v->since_us);
    json_put_i64(out, "until_us", v->until_us);
    json_put_i64(out, "seq", v->seq);
    str_puts(out, "}\n");
}

static bool read_text(struct json line, const char *name, char *out, size_t n) {
    struct arena a;
    arena_init(&a, LINE_BYTES_MAX);
    struct span text = json_text(json_get(line, name), &a);
    bool good = text.at && text.n < n;
    if (good)
        snprintf(out, n, "%.*s", SPAN_ARG(text));
    arena_fini(&a);
    return good;
}

static bool read_line(struct span text, struct override *v) {
    struct json line;
    *v = (struct override){0};
    return json_check(text, JSON_DEPTH_MAX, &line, NULL) && line.kind == JSON_OBJECT &&
           read_text(line, "name", v->name, sizeof(v->name)) && v->name[0] &&
           read_text(line, "who", v->who, sizeof(v->who)) && read_text(line, "reason", v->reason, sizeof(v->reason)) &&
           json_i64(json_get(line, "number"), &v->number) && json_i64(json_get(line, "base"), &v->base) &&
           json_i64(json_get(line, "since_us"), &v->since_us) && json_i64(json_get(line, "until_us"), &v->until_us) &&
           json_i64(json_get(line, "seq"), &v->seq);
}

static bool read_file(const char *path, struct str *out) {
    char part[16384];
    ssize_t n = 0;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return errno == ENOENT;
    while (!out->over && (n = read(fd, part, sizeof(part))) > 0)
        str_put(out, span_from(part, (size_t)n));
    close(fd);
    return n == 0 && !out->over;
}

bool overrides_load(struct overrides *o, const struct conf *c, int64_t now_us, struct str *why) {
    char path[512];
    struct str text;
    struct span rest, line;
    struct override v;
    int64_t number = 0;
    bool good;
    snprintf(path, sizeof(path), "%s/" FILE_NAME, c->state_directory);
    str_init(&text, FILE_BYTES_MAX);
    good = read_file(path, &text);
    o->bytes = text.n;
    if (!good)
        str_printf(why, "%s: cannot be read\n", path);
    rest = str_span(&text);
    while (good && rest.n && memchr(rest.at, '\n', rest.n) && span_cut(&rest, '\n', &line)) {
        number++;
        good = line.n == 0 || read_line(line, &v);
        if (!good)
            str_printf(why, "%s:%lld: not an override\n", path, (long long)number);
        else if (line.n && now_us < v.until_us)
            keep(o, &v);
        else if (line.n)
            forget(o, v.name);
    }
    o->lines = (size_t)number;
    str_fini(&text);
    return good;
}

/* Whether it is another file, or another length, than last time. */
static bool has_changed(struct overrides *o, const struct conf *c) {
    char path[512];
    struct stat now = {0};
    snprintf(path, sizeof(path), "%s/" FILE_NAME, c->state_directory);
    if (stat(path, &now) != 0)
        now = (struct stat){0};
    bool same = now.st_ino == o->seen.st_ino && now.st_size == o->seen.st_size &&
                now.st_mtim.tv_sec == o->seen.st_mtim.tv_sec && now.st_mtim.tv_nsec == o->seen.st_mtim.tv_nsec;
    o->seen = now; /* what is written from now on is another length once more */
    return !same;
}

bool overrides_follow(struct overrides *o, const struct conf *c, int64_t now_us,
                      void (*gone)(const struct override *v, void *user), void *user) {
    struct str why;
    if (!has_changed(o, c))
        return false;
    struct overrides *next = overrides_new(), was = *o;
    str_init(&why, 1024);
    bool good = overrides_load(next, c, now_us, &why);
    if (good) {
        for (struct map_entry *e = map_next(&o->by_name, NULL); e; e = map_next(&o->by_name, e))
            if (!map_find(&next->by_name, span_from(e->key, e->n)))
                gone(e->value, user);
        *o = *next;
        o->seen = was.seen;
        next->by_name = was.by_name;
    } else {
        log_error("overrides were changed in state, but cannot be read: %s", why.at ? why.at : "");
    }
    str_fini(&why);
    overrides_free(next);
    return good;
}

/* Only the lines that count; the file as it was stays where that fails. */
static bool write_anew(struct overrides *o, const struct conf *c) {
    struct str text;
    str_init(&text, FILE_BYTES_MAX);
    for (struct map_entry *e = map_next(&o->by_name, NULL); e; e = map_next(&o->by_name, e))
        write_line(e->value, &text);
    bool good = !text.over && conf_state_replace(c, FILE_NAME, str_span(&text));
    if (good) {
        o->lines = o->by_name.n;
        o->bytes = text.n;
    }
    str_fini(&text);
    return good;
}

bool overrides_compact(struct overrides *o, const struct conf *c) {
    return o->lines <= o->by_name.n || write_anew(o, c);
}

static bool append(struct overrides *o, const struct conf *c, const struct override *v) {
    struct str line;
    bool worn = o->lines >= o->by_name.n + LINES_FREE && !write_anew(o, c);
    str_init(&line, LINE_BYTES_MAX);
    write_line(v, &line);
    bool fits = !line.over && (!worn || o->bytes + line.n <= FILE_BYTES_MAX);
    bool good = fits && conf_state_append(c, FILE_NAME, str_span(&line));
    o->lines += good;
    o->bytes += good ? line.n : 0;
    str_fini(&line);
    return good;
}

bool overrides_set(struct overrides *o, const struct conf *c, const struct override *v) {
    bool room = o->by_name.n < OVERRIDES_MAX || map_find(&o->by_name, span_of(v->name));
    if (!room || !append(o, c, v))
        return false;
    keep(o, v);
    return true;
}

bool overrides_end(struct overrides *o, const struct conf *c, const char *name) {
    const struct override *v = map_find(&o->by_name, span_of(name));
    if (!v)
        return true;
    struct override ended = *v;
    ended.until_us = ended.since_us;
    if (!append(o, c, &ended))
        return false;
    forget(o, ended.name);
    return true;
}

/* ---- what is in force ---- */

const struct override *overrides_find(const struct overrides *o, const char *name, int64_t now_us) {
    const struct override *v = map_find(&o->by_name, span_of(name));
    return v && now_us < v->until_us ? v : NULL;
}

void overrides_each(const struct overrides *o, int64_t now_us, void (*see)(const struct override *v, void *user),
                    void *user) {
    for (struct map_entry *e = map_next(&o->by_name, NULL); e; e = map_next(&o->by_name, e)) {
        const struct override *v = e->value;
        if (now_us < v->until_us)
            see(v, user);
    }
}

static const struct override *first_over(const struct overrides *o, int64_t now_us) {
    for (struct map_entry *e = map_next(&o->by_name, NULL); e; e = map_next(&o->by_name, e)) {
        const struct override *v = e->value;
        if (now_us >= v->until_us)
            return v;
    }
    return NULL;
}

void overrides_expire(struct overrides *o, int64_t now_us, void (*see)(const struct override *v, void *user),
                      void *user) {
    for (const struct override *v; (v = first_over(o, now_us));) {
        struct override ended = *v;
        forget(o, ended.name);
        see(&ended, user);
    }
}

/* ---- in words ---- */

char *override_text(const struct override *v, char out[OVERRIDE_TEXT_MAX]) {
    char money[MONEY_TEXT_MAX];
    if (span_starts(span_of(v->name), OVERRIDE_BUDGET))
        snprintf(out, OVERRIDE_TEXT_MAX, "%s USD on top", money_text(v->number, money));
    else
        snprintf(out, OVERRIDE_TEXT_MAX, "paused");
    return out;
}

struct printing {
    struct str *out;
    bool first;
};

static void print_one(const struct override *v, void *user) {
    struct printing *p = user;
    char text[OVERRIDE_TEXT_MAX], when[CLOCK_TEXT_MAX];
    str_printf(p->out, "%s: %s  # admin#%lld by %s until %s: %s\n", v->name, override_text(v, text), (long long)v->seq,
               v->who, clock_text(v->until_us, when), v->reason);
}

void overrides_print(const struct overrides *o, int64_t now_us, struct str *out) {
    struct printing p = {out, true};
    overrides_each(o, now_us, print_one, &p);
}

static void put_one(const struct override *v, void *user) {
    struct printing *p = user;
    char text[OVERRIDE_TEXT_MAX], when[CLOCK_TEXT_MAX];
    str_puts(p->out, p->first ? "{" : ",{");
    p->first = false;
    json_put_str(p->out, "name", v->name);
    json_put_str(p->out, "value", override_text(v, text));
    json_put_str(p->out, "who", v->who);
    json_put_str(p->out, "reason", v->reason);
    json_put_str(p->out, "since", clock_text(v->since_us, when));
    json_put_str(p->out, "until", clock_text(v->until_us, when));
    json_put_i64(p->out, "admin_seq", v->seq);
    str_puts(p->out, "}");
}

void overrides_put(const struct overrides *o, int64_t now_us, struct str *out) {
    struct printing p = {out, true};
    str_puts(out, "[");
    overrides_each(o, now_us, put_one, &p);
    str_puts(out, "]");
}
