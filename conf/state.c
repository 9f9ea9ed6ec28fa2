/* State: keys admitted at run time, ends and tombstones, one act a line in state.directory/keys.jsonl. An act is in force
 * once its line and newline are on the disk; a line without a newline was never promised to anybody and is passed
 * over, and cut before the next act is written. A tombstone holds for ever, whatever stands before or after it; a line
 * that cannot be read stops the start, since it may be a tombstone. */
#include "conf/state.h"

#include "gateway/base/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define ACT_BYTES_MAX (64 << 10)

static char *state_path(struct arena *a, const struct conf *c) {
    return tree_printf(a, "%s/" STATE_FILE, c->state_directory);
}

/* --- reading --- */

/* By its id and by its digest: a conf that lists the same key under another id does not bring it back. */
static void bury(struct reader *r, const struct act *act) {
    struct conf_key *k = map_find(&r->conf->keys_by_id, span_of(act->id));
    struct conf_key *same = map_find(&r->conf->keys_by_sha256, span_from(act->sha256, SHA256_BYTES));
    if (k)
        k->revoked = true;
    if (act->digested && same)
        same->revoked = true;
}

static void shorten(struct conf_key *k, int64_t expires_us) {
    if (k && expires_us < k->expires_us)
        k->expires_us = expires_us;
}

static void end(struct reader *r, const struct act *act) {
    shorten(map_find(&r->conf->keys_by_id, span_of(act->id)), act->expires_us);
    if (act->digested)
        shorten(map_find(&r->conf->keys_by_sha256, span_from(act->sha256, SHA256_BYTES)), act->expires_us);
}

static void admit(struct reader *r, const struct act *act, const char *from) {
    struct conf *c = r->conf;
    if (!act->key) {
        warning_at(r->report, NULL, "the run-time key %s belongs to team '%s', which conf no longer has", act->id,
                   act->team);
        return;
    }
    act->key->from = from;
    struct conf_key *there = map_find(&c->keys_by_id, span_of(act->id));
    if (there && !there->runtime) /* conf's own word stands */
        return;
    if (there)
        map_remove(&c->keys_by_sha256, span_from(there->sha256, SHA256_BYTES));
    map_put(&c->keys_by_id, span_of(act->id), act->key);
    map_put(&c->keys_by_sha256, span_from(act->key->sha256, SHA256_BYTES), act->key);
}

/* All that widens comes before all that narrows, whatever their order in the file. */
static void take_acts(struct reader *r, struct source *source, bool narrowing) {
    struct span rest = source->bytes, line;
    int number = 0;
    while (memchr(rest.at, '\n', rest.n) && span_cut(&rest, '\n', &line)) {
        struct act act = {0};
        const char *why = NULL;
        number++;
        if (!line.n)
            continue;
        if (!act_read(r, line, &act, &why))
            problem_in(r->report, source, number, 1, "not an act on keys: %s", why);
        else if (act.kind == ACT_REVOKE && narrowing)
            bury(r, &act);
        else if (act.kind == ACT_EXPIRE && narrowing)
            end(r, &act);
        else if (act.kind == ACT_ADD && !narrowing)
            admit(r, &act, tree_printf(&r->conf->arena, "%s:%d by %s", source->file, number, act.who ? act.who : "?"));
    }
}

void state_join(struct reader *r) {
    struct arena *a = &r->conf->arena;
    struct source *source = tree_alloc(a, sizeof *source);
    const char *why = NULL;
    source->file = state_path(a, r->conf);
    if (access(source->file, F_OK) && errno == ENOENT)
        return;
    source->bytes = file_bytes(a, source->file, STATE_FILE_BYTES_MAX, &why);
    if (!source->bytes.at) {
        problem_in(r->report, source, 0, 0, "the state %s", why);
        return;
    }
    const char *last = memrchr(source->bytes.at, '\n', source->bytes.n);
    r->conf->state_bytes = last ? last + 1 - source->bytes.at : 0;
    if (source->bytes.n && source->bytes.at[source->bytes.n - 1] != '\n')
        warning_at(r->report, NULL, "%s: the last line is torn and counts for nothing", source->file);
    take_acts(r, source, false);
    take_acts(r, source, true);
}

/* --- writing --- */

static bool make_folders(const char *path) {
    char *copy = xstrdup(path);
    bool ok = true;
    for (char *at = copy + 1; ok && *at; at++)
        if (*at == '/') {
            *at = 0;
            ok = !mkdir(copy, 0700) || errno == EEXIST;
            *at = '/';
        }
    ok = ok && (!mkdir(copy, 0700) || errno == EEXIST);
    free(copy);
    return ok;
}

static bool sync_folder(const char *path) {
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    bool ok = fd >= 0 && !fsync(fd);
    if (fd >= 0)
        close(fd);
    return ok;
}

/* Where the last whole line ends; -1: the file cannot be read. */
static off_t whole_lines(int fd) {
    off_t end = lseek(fd, 0, SEEK_END);
    char byte;
    while (end > 0) {
        if (pread(fd, &byte, 1, end - 1) != 1)
            return -1;
        if (byte == '\n')
            return end;
        end--;
    }
    return end;
}

static bool write_all(int fd, struct span bytes) {
    while (bytes.n) {
        ssize_t n = write(fd, bytes.at, bytes.n);
        if (n < 0 && errno != EINTR)
            return false;
        if (n > 0)
            bytes = (struct span){bytes.at + n, bytes.n - (size_t)n};
    }
    return true;
}

/* Whether the line stands in the file already. */
static bool stands(int fd, off_t end, struct span line) {
    char *bytes = xcalloc(1, (size_t)end + 1);
    bool found = false;
    ssize_t n = pread(fd, bytes, (size_t)end, 0);
    struct span rest = span_from(bytes, n > 0 ? (size_t)n : 0), one;
    line.n--; /* its newline */
    while (!found && span_cut(&rest, '\n', &one))
        found = span_equal(one, line);
    free(bytes);
    return found;
}

static bool append(const char *folder, const char *path, struct span line, bool once) {
    if (!make_folders(folder))
        return false;
    int fd = open(path, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (fd < 0)
        return false;
    off_t end = flock(fd, LOCK_EX) ? -1 : whole_lines(fd); /* the command line and a gateway may write at once */
    bool ok = end >= 0;
    if (ok && !(once && stands(fd, end, line)))
        ok = !ftruncate(fd, end) && write_all(fd, line) && !fdatasync(fd);
    close(fd);
    return ok && sync_folder(folder);
}

bool conf_state_append(const struct conf *c, const char *file, struct span line) {
    struct arena a;
    arena_init(&a, ACT_BYTES_MAX);
    bool ok = append(c->state_directory, tree_printf(&a, "%s/%s", c->state_directory, file), line, false);
    arena_fini(&a);
    return ok;
}

bool conf_state_replace(const struct conf *c, const char *file, struct span bytes) {
    struct arena a;
    arena_init(&a, ACT_BYTES_MAX);
    const char *path = tree_printf(&a, "%s/%s", c->state_directory, file), *next = tree_printf(&a, "%s.new", path);
    int fd = make_folders(c->state_directory) ? open(next, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600) : -1;
    bool ok = fd >= 0 && write_all(fd, bytes) && !fdatasync(fd);
    if (fd >= 0)
        close(fd);
    ok = ok && !rename(next, path) && sync_folder(c->state_directory);
    arena_fini(&a);
    return ok;
}

static enum err append_act(const struct conf *c, struct str *act, bool once) {
    struct arena a;
    arena_init(&a, ACT_BYTES_MAX);
    str_putc(act, '\n');
    bool ok = !act->over && append(c->state_directory, state_path(&a, c), str_span(act), once);
    arena_fini(&a);
    str_fini(act);
    return ok ? ERR_NONE : ERR_INTERNAL;
}

enum err conf_state_add_key(const struct conf *c, const struct conf_key *key, const char *who) {
    if (!c->state_writable_keys)
        return ERR_TARGET_FORBIDDEN;
    if (!key->team || !key->id || map_find(&c->keys_by_id, span_of(key->id)) || conf_find_key(c, key->sha256))
        return ERR_CONFLICT;
    struct str act;
    str_init(&act, ACT_BYTES_MAX);
    act_write_add(key, who, clock_wall_us(), &act);
    return append_act(c, &act, false);
}

enum err conf_state_revoke_key(const struct conf *c, const char *id, const char *who, const char *reason) {
    const struct conf_key *key = map_find(&c->keys_by_id, span_of(id));
    if (!key)
        return ERR_NOT_FOUND;
    struct str act;
    str_init(&act, ACT_BYTES_MAX);
    act_write_revoke(key, who, reason, clock_wall_us(), &act);
    return append_act(c, &act, false);
}

enum err conf_state_expire_key(const struct conf *c, const char *id, int64_t expires_us, const char *who,
                               const char *reason) {
    const struct conf_key *key = map_find(&c->keys_by_id, span_of(id));
    if (!key)
        return ERR_NOT_FOUND;
    struct str act;
    str_init(&act, ACT_BYTES_MAX);
    act_write_expire(key, expires_us, who, reason, clock_wall_us(), &act);
    return append_act(c, &act, false);
}

enum err conf_state_apply(const struct conf *c, struct span line) {
    struct conf scratch = {.n_teams = 0};
    struct reader r = {.conf = &scratch};
    struct act act = {0};
    const char *why = NULL;
    arena_init(&scratch.arena, CONF_ARENA_BYTES);
    bool good = line.n < ACT_BYTES_MAX && !memchr(line.at, '\n', line.n) && act_read(&r, line, &act, &why);
    arena_fini(&scratch.arena);
    if (!good)
        return ERR_INVALID;
    struct str kept;
    str_init(&kept, ACT_BYTES_MAX);
    str_put(&kept, line);
    return append_act(c, &kept, true);
}

char *conf_state_path(const struct conf *c, char out[CONF_STATE_PATH_MAX]) {
    snprintf(out, CONF_STATE_PATH_MAX, "%s/" STATE_FILE, c->state_directory);
    return out;
}

int64_t conf_state_read(const struct conf *c, int64_t from, void (*see)(struct span line, void *user), void *user) {
    char path[CONF_STATE_PATH_MAX];
    struct arena a;
    const char *why = NULL;
    arena_init(&a, STATE_FILE_BYTES_MAX + CONF_STATE_PATH_MAX);
    struct span bytes = file_bytes(&a, conf_state_path(c, path), STATE_FILE_BYTES_MAX, &why), line;
    int64_t at = from <= (int64_t)bytes.n ? from : 0; /* a shorter file is another file */
    if (bytes.at) {
        struct span rest = {bytes.at + at, bytes.n - (size_t)at};
        while (rest.n && memchr(rest.at, '\n', rest.n) && span_cut(&rest, '\n', &line)) {
            at += (int64_t)line.n + 1;
            if (line.n)
                see(line, user);
        }
    }
    arena_fini(&a);
    return bytes.at ? at : -1;
}
