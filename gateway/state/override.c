/* Overrides in memory and in their file. Always true here: what is in force stands in the file, as a whole line; of lines
 * with one name the newest counts, in whatever order they came; a torn last line was promised to nobody; the file never
 * grows past what a start reads. */
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
    struct map by_name;  /* struct override, owned; also ended ones, until their time is over: lines may come back */
    size_t lines, bytes; /* of the file */
    struct stat seen;    /* the file when it was looked at last */
    void (*on_line)(struct span line, void *user);
    void *user;
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

static bool is_in_force(const struct override *v, int64_t now_us) {
    return !v->ended_us && !v->dormant && now_us < v->until_us;
}

/* Which of two lines with one name counts: the same in every process, whatever came first. */
static bool is_newer(const struct override *a, const struct override *b) {
    if (a->since_us != b->since_us)
        return a->since_us > b->since_us;
    if (!a->ended_us != !b->ended_us)
        return a->ended_us;
    return a->number != b->number ? a->number > b->number : strcmp(a->text, b->text) > 0;
}

/* ---- the file ---- */

static void write_line(const struct override *v, struct str *out) {
    str_putc(out, '{');
    json_put_str(out, "name", v->name);
    json_put_i64(out, "number", v->number);
    json_put_i64(out, "base", v->base);
    if (v->text[0])
        json_put_str(out, "text", v->text);
    json_put_str(out, "who", v->who);
    json_put_str(out, "reason", v->reason);
    json_put_i64(out, "since_us", v->since_us);
    json_put_i64(out, "until_us", v->until_us);
    if (v->ended_us)
        json_put_i64(out, "ended_us", v->ended_us);
    if (v->by_conf)
        json_put_bool(out, "by_conf", true);
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

/* Members that a line need not have. */
static bool read_more(struct json line, struct override *v) {
    struct json ended = json_get(line, "ended_us");
    v->by_conf = json_get(line, "by_conf").kind == JSON_TRUE;
    if (v->until_us <= v->since_us) /* as an end was written once */
        v->ended_us = v->since_us;
    return (json_get(line, "text").kind == JSON_NONE || read_text(line, "text", v->text, sizeof(v->text))) &&
           (ended.kind == JSON_NONE || (json_i64(ended, &v->ended_us) && v->ended_us > 0));
}

static bool read_line(struct span text, struct override *v) {
    struct json line;
    *v = (struct override){0};
    return json_check(text, JSON_DEPTH_MAX, &line, NULL) && line.kind == JSON_OBJECT &&
           read_text(line, "name", v->name, sizeof(v->name)) && v->name[0] &&
           read_text(line, "who", v->who, sizeof(v->who)) && read_text(line, "reason", v->reason, sizeof(v->reason)) &&
           json_i64(json_get(line, "number"), &v->number) && json_i64(json_get(line, "base"), &v->base) &&
           json_i64(json_get(line, "since_us"), &v->since_us) && json_i64(json_get(line, "until_us"), &v->until_us) &&
           json_i64(json_get(line, "seq"), &v->seq) && read_more(line, v);
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

static const struct override *first_over(const struct overrides *o, int64_t now_us) {
    for (struct map_entry *e = map_next(&o->by_name, NULL); e; e = map_next(&o->by_name, e)) {
        const struct override *v = e->value;
        if (now_us >= v->until_us)
            return v;
    }
    return NULL;
}

static void forget_over(struct overrides *o, int64_t now_us) {
    for (const struct override *v; (v = first_over(o, now_us));)
        forget(o, v->name);
}

static void keep_newest(struct overrides *o, const struct override *v) {
    const struct override *old = map_find(&o->by_name, span_of(v->name));
    if (!old || !is_newer(old, v))
        keep(o, v);
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
        else if (line.n)
            keep_newest(o, &v);
    }
    forget_over(o, now_us);
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

static void tell_gone(const struct overrides *was, const struct overrides *next, int64_t now_us,
                      void (*gone)(const struct override *v, void *user), void *user) {
    for (struct map_entry *e = map_next(&was->by_name, NULL); e; e = map_next(&was->by_name, e)) {
        const struct override *before = e->value, *after = map_find(&next->by_name, span_from(e->key, e->n));
        if (is_in_force(before, now_us) && (!after || !is_in_force(after, now_us)))
            gone(before, user);
    }
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
        tell_gone(o, next, now_us, gone, user);
        o->by_name = next->by_name;
        o->lines = next->lines;
        o->bytes = next->bytes;
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
    if (good && o->on_line && !v->by_conf)
        o->on_line(span_from(line.at, line.n - 1), o->user);
    str_fini(&line);
    return good;
}

bool overrides_set(struct overrides *o, const struct conf *c, const struct override *v) {
    struct override set = *v;
    const struct override *old = map_find(&o->by_name, span_of(v->name));
    if (!old && o->by_name.n >= OVERRIDES_MAX)
        return false;
    if (old && set.since_us <= old->since_us) /* another gateway's clock may be ahead */
        set.since_us = old->since_us + 1;
    if (!append(o, c, &set))
        return false;
    keep(o, &set);
    return true;
}

static bool end(struct overrides *o, const struct conf *c, struct override *v, int64_t now_us, bool by_conf) {
    struct override ended = *v;
    ended.ended_us = now_us > 0 ? now_us : 1;
    ended.by_conf = by_conf;
    bool good = append(o, c, &ended);
    if (good)
        *v = ended;
    return good;
}

bool overrides_end(struct overrides *o, const struct conf *c, const char *name) {
    struct override *v = map_find(&o->by_name, span_of(name));
    return !v || v->ended_us || end(o, c, v, clock_wall_us(), false);
}

/* ---- other gateways ---- */

void overrides_on_line(struct overrides *o, void (*on_line)(struct span line, void *user), void *user) {
    o->on_line = on_line;
    o->user = user;
}

void overrides_lines(const struct overrides *o, void (*see)(struct span line, void *user), void *user) {
    struct str line;
    str_init(&line, LINE_BYTES_MAX);
    for (struct map_entry *e = map_next(&o->by_name, NULL); e; e = map_next(&o->by_name, e)) {
        const struct override *v = e->value;
        if (v->by_conf)
            continue;
        str_clear(&line);
        write_line(v, &line);
        if (!line.over)
            see(span_from(line.at, line.n - 1), user);
    }
    str_fini(&line);
}

enum err overrides_take(struct overrides *o, const struct conf *c, struct span line, int64_t now_us) {
    struct override v;
    if (line.n >= LINE_BYTES_MAX || memchr(line.at, '\n', line.n) || !read_line(line, &v) || v.by_conf)
        return ERR_INVALID;
    const struct override *old = map_find(&o->by_name, span_of(v.name));
    if (old ? !is_newer(&v, old) : now_us >= v.until_us)
        return ERR_NONE;
    if (!old && o->by_name.n >= OVERRIDES_MAX) {
        log_error("there are too many overrides: one of another gateway is not taken name=%s", v.name);
        return ERR_NONE;
    }
    v.dormant = true;
    if (!append(o, c, &v))
        return ERR_INTERNAL;
    keep(o, &v);
    return ERR_NONE;
}

static void judge_one(struct overrides *o, const struct conf *c, struct override *v, int64_t now_us,
                      const struct override_judge *j) {
    bool stands = j->stands(v, j->user), wins = !stands && !v->dormant && j->ends;
    v->dormant = !stands;
    j->turn(v, stands, j->user);
    if (!wins)
        return;
    if (!end(o, c, v, now_us, true))
        log_error("an override cannot be ended in state name=%s", v->name);
    j->ended(v, j->user);
}

void overrides_judge(struct overrides *o, const struct conf *c, int64_t now_us, const struct override_judge *j) {
    for (struct map_entry *e = map_next(&o->by_name, NULL); e; e = map_next(&o->by_name, e)) {
        struct override *v = e->value;
        if (!v->ended_us && now_us < v->until_us)
            judge_one(o, c, v, now_us, j);
    }
}

/* ---- what is in force ---- */

const struct override *overrides_find(const struct overrides *o, const char *name, int64_t now_us) {
    const struct override *v = map_find(&o->by_name, span_of(name));
    return v && is_in_force(v, now_us) ? v : NULL;
}

void overrides_each(const struct overrides *o, int64_t now_us, void (*see)(const struct override *v, void *user),
                    void *user) {
    for (struct map_entry *e = map_next(&o->by_name, NULL); e; e = map_next(&o->by_name, e)) {
        const struct override *v = e->value;
        if (is_in_force(v, now_us))
            see(v, user);
    }
}

void overrides_expire(struct overrides *o, int64_t now_us, void (*see)(const struct override *v, void *user),
                      void *user) {
    for (const struct override *v; (v = first_over(o, now_us));) {
        struct override over = *v;
        forget(o, over.name);
        if (!over.ended_us && !over.dormant)
            see(&over, user);
    }
}

/* ---- in words ---- */

char *override_text(const struct override *v, char out[OVERRIDE_TEXT_MAX]) {
    char money[MONEY_TEXT_MAX];
    struct span name = span_of(v->name);
    if (span_starts(name, OVERRIDE_BUDGET))
        snprintf(out, OVERRIDE_TEXT_MAX, "%s USD on top", money_text(v->number, money));
    else if (span_starts(name, OVERRIDE_SHIFT))
        snprintf(out, OVERRIDE_TEXT_MAX, "%lld.%02lld%%", (long long)(v->number / 100), (long long)(v->number % 100));
    else if (span_starts(name, OVERRIDE_PIN))
        snprintf(out, OVERRIDE_TEXT_MAX, "%s first", v->text);
    else
        snprintf(out, OVERRIDE_TEXT_MAX, span_starts(name, OVERRIDE_DRAIN) ? "drained" : "paused");
    return out;
}

static const char *until_text(const struct override *v, char out[CLOCK_TEXT_MAX]) {
    return v->until_us == OVERRIDE_EVER_US ? NULL : clock_text(v->until_us, out);
}

struct printing {
    struct str *out;
    bool first;
};

static void print_one(const struct override *v, void *user) {
    struct printing *p = user;
    char text[OVERRIDE_TEXT_MAX], when[CLOCK_TEXT_MAX];
    const char *until = until_text(v, when);
    str_printf(p->out, "%s: %s  # admin#%lld by %s until %s: %s\n", v->name, override_text(v, text), (long long)v->seq,
               v->who, until ? until : "conf changes", v->reason);
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
    json_put_str(p->out, "until", until_text(v, when));
    json_put_i64(p->out, "admin_seq", v->seq);
    str_puts(p->out, "}");
}

void overrides_put(const struct overrides *o, int64_t now_us, struct str *out) {
    struct printing p = {out, true};
    str_puts(out, "[");
    overrides_each(o, now_us, put_one, &p);
    str_puts(out, "]");
}
