/* What a name means: a stack of versions per name, the present one on top. Every move is a line of the history file, written and
 * synced before it holds, so a restart finds the pointers where they were. A torn last line is cut off at the next start. */
#include "backends/decode/adapter_file.h"
#include "backends/decode/adapters.h"

#include "gateway/base/clock.h"
#include "gateway/base/log.h"
#include "gateway/base/map.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define HISTORY_BYTES_MAX ((size_t)64 << 20)
#define LINE_BYTES_MAX 4096
#define BOTH_BYTES_MAX (ADAPTER_NAME_BYTES_MAX + ADAPTER_VERSION_BYTES_MAX)
#define NAME_VERSIONS_MAX 1000 /* a rollback goes back no further */

static struct adapter_name *name_get(struct adapters *a, const char *name) {
    struct adapter_name *n = map_find(a->names, span_of(name));
    if (n)
        return n;
    n = xcalloc(1, sizeof *n);
    map_put(a->names, span_of(name), n);
    return n;
}

static void stack_push(struct adapter_name *n, struct span version) {
    if (n->n == NAME_VERSIONS_MAX)
        memmove(n->was[0], n->was[1], --n->n * sizeof *n->was);
    if (n->n == n->capacity) {
        n->capacity = n->capacity ? 2 * n->capacity : 4;
        n->was = xrealloc(n->was, n->capacity * sizeof *n->was);
    }
    snprintf(n->was[n->n++], sizeof *n->was, "%.*s", SPAN_ARG(version));
}

const char *name_points_at(const struct adapters *a, const char *name) {
    const struct adapter_name *n = map_find(a->names, span_of(name));
    return n && n->n ? n->was[n->n - 1] : NULL;
}

/* --- the file --- */

static bool append(const char *path, struct span line, struct str *why) {
    int fd = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
    bool ok = fd >= 0 && write(fd, line.at, line.n) == (ssize_t)line.n && fdatasync(fd) == 0;
    if (!ok)
        complain(why, path, "cannot be written: %s", strerror(errno));
    if (fd >= 0)
        close(fd);
    return ok;
}

static bool record(const struct adapters *a, const char *act, const char *name, const char *version, const char *by,
                   const char *reason, struct str *why) {
    char time[CLOCK_TEXT_MAX];
    struct str line;
    if (!a->options.history)
        return true;
    str_init(&line, LINE_BYTES_MAX);
    str_putc(&line, '{');
    json_put_str(&line, "time", clock_text(clock_wall_us(), time));
    json_put_str(&line, "act", act);
    json_put_str(&line, "name", name);
    json_put_str(&line, "version", version);
    json_put_str(&line, "by", by);
    json_put_str(&line, "reason", reason);
    str_puts(&line, "}\n");
    bool ok = line.over ? complain(why, "reason", "is too long") : append(a->options.history, str_span(&line), why);
    str_fini(&line);
    return ok;
}

static bool plain(struct json v, struct span *out) {
    *out = span_from(v.raw.at + 1, v.raw.n - 2);
    return v.kind == JSON_STRING && adapter_name_ok(*out);
}

static struct span both(const char *name, const char *version, char out[BOTH_BYTES_MAX]) {
    int n = snprintf(out, BOTH_BYTES_MAX, "%s@%s", name, version);
    return span_from(out, (size_t)n);
}

static void mark(struct adapters *a, const char *name, const char *version, bool removed) {
    char text[BOTH_BYTES_MAX];
    if (removed)
        map_put(a->removed, both(name, version, text), a);
    else
        map_remove(a->removed, both(name, version, text));
}

bool name_is_removed(const struct adapters *a, const char *name, const char *version) {
    char text[BOTH_BYTES_MAX];
    return map_find(a->removed, both(name, version, text)) != NULL;
}

bool name_removed(struct adapters *a, const char *name, const char *version, bool removed, const char *by,
                  const char *reason, struct str *why) {
    if (!record(a, removed ? "remove" : "add", name, version, by, reason, why))
        return false;
    mark(a, name, version, removed);
    return true;
}

static void replay(struct adapters *a, struct span line) {
    struct json root;
    struct json_fault fault;
    struct span name, version;
    char copy[ADAPTER_NAME_BYTES_MAX];
    if (!json_check(line, JSON_DEPTH_MAX, &root, &fault) || !plain(json_get(root, "name"), &name) ||
        !plain(json_get(root, "version"), &version)) {
        log_warn("adapter history: a line that is none is passed over file=%s", a->options.history);
        return;
    }
    snprintf(copy, sizeof copy, "%.*s", SPAN_ARG(name));
    struct json act = json_get(root, "act");
    if (json_is(act, "remove") || json_is(act, "add")) {
        char of[ADAPTER_VERSION_BYTES_MAX];
        snprintf(of, sizeof of, "%.*s", SPAN_ARG(version));
        mark(a, copy, of, json_is(act, "remove"));
        return;
    }
    struct adapter_name *n = name_get(a, copy);
    if (json_is(json_get(root, "act"), "rollback") && n->n > 1)
        n->n--;
    else
        stack_push(n, version);
}

static void read_history(struct adapters *a, const char *text, size_t bytes) {
    size_t whole = bytes;
    struct span rest, line;
    while (whole && text[whole - 1] != '\n')
        whole--;
    if (whole < bytes) {
        log_warn("adapter history: a torn last line is cut off file=%s", a->options.history);
        if (truncate(a->options.history, (off_t)whole) != 0)
            log_error("adapter history: cannot be cut file=%s", a->options.history);
    }
    for (rest = span_from(text, whole); span_cut(&rest, '\n', &line);)
        if (line.n)
            replay(a, line);
}

void names_init(struct adapters *a) {
    struct stat st;
    a->names = xcalloc(1, sizeof *a->names);
    map_init(a->names);
    a->removed = xcalloc(1, sizeof *a->removed);
    map_init(a->removed);
    int fd = a->options.history ? open(a->options.history, O_RDONLY | O_CLOEXEC) : -1;
    if (fd < 0)
        return;
    if (fstat(fd, &st) == 0 && (size_t)st.st_size <= HISTORY_BYTES_MAX) {
        char *text = xcalloc((size_t)st.st_size + 1, 1);
        ssize_t got = read(fd, text, (size_t)st.st_size);
        read_history(a, text, got > 0 ? (size_t)got : 0);
        free(text);
    } else
        log_error("adapter history: too large to be read file=%s", a->options.history);
    close(fd);
}

void names_fini(struct adapters *a) {
    for (struct map_entry *e = map_next(a->names, NULL); e; e = map_next(a->names, e)) {
        struct adapter_name *n = e->value;
        free(n->was);
        free(n);
    }
    map_fini(a->names);
    free(a->names);
    map_fini(a->removed);
    free(a->removed);
}

bool name_point(struct adapters *a, const char *name, const char *version, const char *act, const char *by,
                const char *reason, struct str *why) {
    const char *at = name_points_at(a, name);
    if (at && strcmp(at, version) == 0)
        return true;
    if (!record(a, act, name, version, by, reason, why))
        return false;
    stack_push(name_get(a, name), span_of(version));
    return true;
}

bool name_point_back(struct adapters *a, const char *name, const char *by, const char *reason, struct str *why) {
    struct adapter_name *n = map_find(a->names, span_of(name));
    if (!n || n->n < 2)
        return complain(why, name, "has no version before the present one");
    struct span before = span_of(n->was[n->n - 2]);
    if (!version_find(a, span_of(name), before))
        return complain(why, name, "its version before, %.*s, is not here any more", SPAN_ARG(before));
    if (!record(a, "rollback", name, n->was[n->n - 2], by, reason, why))
        return false;
    n->n--;
    return true;
}
