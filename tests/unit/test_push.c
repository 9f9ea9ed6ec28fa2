/* Pushed versions seen from the door of the registry: what arrives, what is refused and leaves nothing, what stays on disk. */
#include "backends/decode/push.h"

#include "tests/support/random_adapter.h"
#include "tests/support/temp_folder.h"

#include <criterion/criterion.h>
#include <dirent.h>
#include <event2/event.h>
#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

struct rig {
    struct random_model model;
    struct model *loaded;
    struct loop *loop;
    struct temp_folder folder, source;
    struct adapters all;
    int done;
    enum err err;
    bool unchanged, room;
    char why[300];
};

static void poke(void *user) {
    (void)user;
}

static void on_room(void *user) {
    ((struct rig *)user)->room = true;
}

static void on_done(void *user, enum err err, const char *why, bool unchanged) {
    struct rig *r = user;
    r->done++;
    r->err = err;
    r->unchanged = unchanged;
    snprintf(r->why, sizeof r->why, "%s", why ? why : "");
}

static const struct decode_push_ops ops = {on_room, on_done};

static void open_all(struct rig *r, int64_t keep) {
    struct adapters_options o = {
        .directory = r->folder.path, .memory = 1 << 20, .rank_max = 16, .watch_us = 3600000000, .keep_versions = keep};
    adapters_init(&r->all, &o, r->loaded, 4, r->loop, poke, NULL);
}

static void rig_init(struct rig *r, int64_t keep) {
    struct str why;
    *r = (struct rig){.folder = temp_new(), .source = temp_new(), .loop = loop_new()};
    str_init(&why, 2000);
    random_model_write(&r->model, &shape_small);
    r->loaded = model_open(r->model.directory, "auto", &why);
    cr_assert(r->loaded);
    str_fini(&why);
    open_all(r, keep);
}

static void rig_fini(struct rig *r) {
    adapters_fini(&r->all);
    model_close(r->loaded);
    random_model_remove(&r->model);
    loop_free(r->loop);
    temp_free(&r->folder);
    temp_free(&r->source);
}

/* A tar of a random adapter, by the machine's own tar. */
static struct str tar_of(struct rig *r, uint64_t seed, const char *more) {
    struct random_adapter a;
    struct adapter_kind kind = adapter_plain;
    char command[400], part[4096], name[32];
    struct str out;
    size_t n;
    kind.seed = seed;
    snprintf(name, sizeof name, "a%d", (int)seed);
    char *folder = xstrdup(temp_name(&r->source, name));
    random_adapter_write(&a, &r->model, &kind, folder);
    str_init(&out, 4 << 20);
    snprintf(command, sizeof command, "cd %s && echo x > README.md && %s tar -cf - .", folder, more ? more : "");
    FILE *f = popen(command, "r");
    while (f && (n = fread(part, 1, sizeof part, f)) > 0)
        str_put(&out, span_from(part, n));
    cr_assert(f && pclose(f) == 0);
    random_adapter_remove(&a);
    free(folder);
    return out;
}

static void give(struct rig *r, struct decode_push *p, struct span bytes, size_t at_once) {
    while (bytes.n && !r->done) {
        size_t n = bytes.n < at_once ? bytes.n : at_once;
        r->room = false;
        decode_push_give(p, span_from(bytes.at, n));
        bytes = span_from(bytes.at + n, bytes.n - n);
        while (!r->room && !r->done)
            event_base_loop(loop_base(r->loop), EVLOOP_ONCE);
    }
}

static enum err push_bytes(struct rig *r, const char *name, const char *version, struct span bytes, size_t at_once) {
    struct str why;
    str_init(&why, 2000);
    r->done = 0;
    struct decode_push *p = adapters_push(&r->all, name, version, &ops, r, &why);
    cr_assert(p, "%s", why.at);
    give(r, p, bytes, at_once);
    if (!r->done)
        decode_push_end(p);
    while (!r->done)
        event_base_loop(loop_base(r->loop), EVLOOP_ONCE);
    str_fini(&why);
    return r->err;
}

static enum err push_one(struct rig *r, const char *name, const char *version, uint64_t seed) {
    struct str tar = tar_of(r, seed, NULL);
    enum err e = push_bytes(r, name, version, str_span(&tar), 100000);
    str_fini(&tar);
    adapters_scan(&r->all);
    adapters_keep(&r->all);
    return e;
}

static bool serves(struct rig *r, const char *name) {
    uint8_t digest[SHA256_BYTES];
    return adapters_digest(&r->all, span_of(name), digest);
}

static int entries(struct rig *r, const char *name) {
    DIR *d = opendir(*name ? temp_name(&r->folder, name) : r->folder.path);
    int n = 0;
    for (struct dirent *e; d && (e = readdir(d));)
        n += strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0;
    if (d)
        closedir(d);
    return n;
}

Test(push, a_version_arrives_in_pieces_of_any_size_and_the_same_one_again_changes_nothing) {
    struct rig r;
    rig_init(&r, 5);
    struct str tar = tar_of(&r, 1, NULL);
    static const size_t sizes[] = {1 << 20, 511, 7};
    for (size_t i = 0; i < ARRAY_LEN(sizes); i++) {
        char version[8];
        snprintf(version, sizeof version, "%zu", i);
        size_t n = sizes[i] < 100 ? 3000 : tar.n; /* a few small cuts through the first heads, then the rest */
        struct str why;
        str_init(&why, 2000);
        r.done = 0;
        struct decode_push *p = adapters_push(&r.all, "law", version, &ops, &r, &why);
        cr_assert(p);
        give(&r, p, span_from(tar.at, n), sizes[i]);
        give(&r, p, span_from(tar.at + n, tar.n - n), 1 << 20);
        decode_push_end(p);
        while (!r.done)
            event_base_loop(loop_base(r.loop), EVLOOP_ONCE);
        cr_expect_eq(r.err, ERR_NONE, "%s", r.why);
        cr_expect(!r.unchanged);
        str_fini(&why);
    }
    adapters_scan(&r.all);
    cr_expect(serves(&r, "law") && serves(&r, "law@1") && serves(&r, "law@2"));
    cr_expect_eq(entries(&r, ".blobs"), 2, "three versions of one content share its two blobs");
    cr_expect_eq(push_bytes(&r, "law", "1", str_span(&tar), 1 << 20), ERR_NONE);
    cr_expect(r.unchanged);
    cr_expect_eq(push_one(&r, "law", "1", 2), ERR_INVALID, "another content under the same version");
    cr_expect(strstr(r.why, "is there already"), "%s", r.why);
    cr_expect_eq(entries(&r, ""), 2, "the name and the blobs, and nothing staged");
    cr_expect_eq(entries(&r, ".blobs"), 2, "what was refused left no blob");
    str_fini(&tar);
    rig_fini(&r);
}

Test(push, what_is_torn_broken_or_no_adapter_is_refused_by_name_and_leaves_nothing) {
    struct rig r;
    struct str why;
    rig_init(&r, 5);
    str_init(&why, 2000);
    static const struct {
        const char *spoil;
        size_t cut;
        const char *says;
    } rows[] = {
        {NULL, 1500, "archive: is cut off"},
        {"rm adapter_model.safetensors;", 0, "archive: holds no adapter_model.safetensors"},
        {"echo no > adapter_model.safetensors;", 0, "adapter_model.safetensors"},
        {"echo '{\"peft_type\":\"IA3\"}' > adapter_config.json;", 0, "adapter_config.json: peft_type"},
        {"ln -sf /etc/passwd adapter_config.json;", 0, "is no plain file"},
        {"mkdir two; cp adapter_config.json two/;", 0, "archive: holds adapter_config.json twice"},
        {"echo '{\"files\":{\"adapter_config.json\":\"00\",\"adapter_model.safetensors\":\"00\"}}' > manifest.json;", 0,
         "adapter_config.json: is not the file that manifest.json speaks of"},
        {"head -c 2000000 /dev/zero > manifest.json;", 0, "manifest.json: has 2000000 bytes"},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct str tar = tar_of(&r, 10 + i, rows[i].spoil);
        size_t n = rows[i].cut ? rows[i].cut : tar.n;
        cr_expect_eq(push_bytes(&r, "law", "1", span_from(tar.at, n), 1 << 20), ERR_INVALID);
        cr_expect(strstr(r.why, rows[i].says), "row %zu: %s", i, r.why);
        str_fini(&tar);
    }
    cr_expect_eq(push_bytes(&r, "law", "1", SPAN("{\"this\": \"is no archive\"}"), 100), ERR_INVALID);
    char noise[1024];
    memset(noise, 'n', sizeof noise);
    cr_expect_eq(push_bytes(&r, "law", "1", span_from(noise, sizeof noise), 100), ERR_INVALID);
    cr_expect(strstr(r.why, "is no POSIX tar"), "%s", r.why);
    static const char *const names[] = {"", "..", ".blobs", "a/b", "-x"};
    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        cr_expect_null(adapters_push(&r.all, names[i], "1", &ops, &r, &why));
    adapters_scan(&r.all);
    cr_expect(!serves(&r, "law"));
    cr_expect_eq(entries(&r, ""), 1, "only the folder of blobs");
    cr_expect_eq(entries(&r, ".blobs"), 0);
    str_fini(&why);
    rig_fini(&r);
}

Test(push, a_push_that_is_broken_off_and_one_that_a_crash_left_are_gone_and_one_of_another_process_is_not) {
    struct rig r;
    struct str why, tar;
    rig_init(&r, 5);
    str_init(&why, 2000);
    tar = tar_of(&r, 1, NULL);
    struct decode_push *p = adapters_push(&r.all, "law", "1", &ops, &r, &why);
    give(&r, p, span_from(tar.at, 2000), 1000);
    cr_expect_eq(entries(&r, ""), 1);
    decode_push_cancel(p);
    while (!r.done)
        event_base_loop(loop_base(r.loop), EVLOOP_ONCE);
    cr_expect_neq(r.err, ERR_NONE);
    cr_expect_eq(entries(&r, ""), 0);
    adapters_fini(&r.all);
    temp_folder_make(&r.folder, ".push-crashed");
    temp_write(&r.folder, ".push-crashed/adapter_config.json", "{");
    temp_folder_make(&r.folder, ".push-alive");
    int other = open(temp_name(&r.folder, ".push-alive"), O_RDONLY | O_DIRECTORY);
    cr_assert(other >= 0 && flock(other, LOCK_EX) == 0);
    temp_folder_make(&r.folder, ".blobs");
    temp_write(&r.folder, ".blobs/orphan", "of a version that is gone");
    open_all(&r, 5);
    cr_expect_eq(entries(&r, ""), 2);
    cr_expect_eq(entries(&r, ".blobs"), 0);
    cr_expect_eq(access(temp_name(&r.folder, ".push-alive"), F_OK), 0);
    close(other);
    str_fini(&tar);
    str_fini(&why);
    rig_fini(&r);
}

Test(push, of_pushed_versions_the_newest_stay_with_those_that_are_meant_or_used) {
    struct rig r;
    struct str why;
    rig_init(&r, 2);
    str_init(&why, 2000);
    cr_assert_eq(push_one(&r, "law", "1", 1), ERR_NONE);
    cr_assert_eq(push_one(&r, "law", "2", 2), ERR_NONE);
    struct adapter_version *running = adapters_take(&r.all, SPAN("law@2"));
    for (uint64_t i = 3; i <= 6; i++)
        cr_assert_eq(push_one(&r, "law", (char[]){(char)('0' + i), 0}, i), ERR_NONE);
    cr_expect(serves(&r, "law@1"), "the name means it");
    cr_expect(serves(&r, "law@2"), "it is used");
    cr_expect(!serves(&r, "law@3") && !serves(&r, "law@4"), "too many");
    cr_expect(serves(&r, "law@5") && serves(&r, "law@6"));
    cr_expect_eq(entries(&r, "law"), 4);
    cr_expect_eq(entries(&r, ".blobs"), 5, "four weights and one configuration");
    adapters_drop(&r.all, running);
    cr_assert(adapters_promote(&r.all, "law", "6", "anna", NULL, &why));
    adapters_keep(&r.all);
    cr_expect(!serves(&r, "law@2"));
    cr_expect(serves(&r, "law@1"), "a rollback goes there");
    cr_assert(adapters_rollback(&r.all, "law", "anna", NULL, &why));
    cr_expect_eq(entries(&r, ""), 2);
    str_fini(&why);
    rig_fini(&r);
}
