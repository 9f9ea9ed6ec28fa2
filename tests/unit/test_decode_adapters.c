/* The life of adapters seen from the door: what is listed, what a name means, what changes on disk, and what lasts. */
#include "backends/decode/adapters.h"
#include "backends/decode/decode.h"
#include "tests/support/random_adapter.h"
#include "tests/support/temp_folder.h"

#include <criterion/criterion.h>

struct rig {
    struct random_model model;
    struct model *loaded;
    struct temp_folder folder, state;
    struct adapters all;
    char history[300];
};

static void poke(void *user) {
    (void)user;
}

static void rig_files(struct rig *r) {
    struct str why;
    str_init(&why, 2000);
    r->folder = temp_new();
    r->state = temp_new();
    random_model_write(&r->model, &shape_small);
    r->loaded = model_open(r->model.directory, "auto", &why);
    cr_assert(r->loaded);
    snprintf(r->history, sizeof r->history, "%s/history.jsonl", r->state.path);
    str_fini(&why);
}

static void rig_open(struct rig *r, int64_t memory) {
    struct adapters_options o = {
        .directory = r->folder.path, .history = r->history, .memory = memory, .rank_max = 16, .watch_us = 3600000000};
    adapters_init(&r->all, &o, r->loaded, 4, NULL, poke, NULL);
}

static void rig_close(struct rig *r) {
    adapters_fini(&r->all);
    model_close(r->loaded);
    random_model_remove(&r->model);
    temp_free(&r->folder);
    temp_free(&r->state);
}

static void put(struct rig *r, const char *path, uint64_t seed) {
    struct random_adapter a;
    struct adapter_kind kind = adapter_plain;
    kind.seed = seed;
    random_adapter_write(&a, &r->model, &kind, temp_name(&r->folder, path));
    for (size_t i = 0; i < a.files.n; i++)
        free(a.files.tensors[i].at);
    free(a.files.tensors);
    free(a.parts);
}

static void means(struct rig *r, const char *name, const char *version) {
    struct adapter_version *v = adapters_take(&r->all, span_of(name));
    cr_expect((v != NULL) == (version != NULL), "%s", name);
    if (v && *version)
        cr_expect_str_eq(v->version, version, "%s means %s", name, v->version);
    if (v)
        adapters_drop(&r->all, v);
}

static void spoil(struct rig *r, const char *path) {
    char name[128];
    snprintf(name, sizeof name, "%s/adapter_model.safetensors", path);
    temp_write(&r->folder, name, "nothing of the kind");
}

Test(decode_adapters, only_what_can_be_served_is_listed_and_a_name_means_one_version) {
    struct rig r;
    rig_files(&r);
    put(&r, "flat", 1);
    temp_folder_make(&r.folder, "versioned");
    put(&r, "versioned/1.0", 2);
    put(&r, "versioned/1.1", 3);
    put(&r, "broken", 4);
    spoil(&r, "broken");
    temp_folder_make(&r.folder, "empty");
    temp_folder_make(&r.folder, ".hidden");
    rig_open(&r, 1 << 20);
    means(&r, "flat", "");
    means(&r, "versioned", "1.0");
    means(&r, "versioned@1.1", "1.1");
    static const char *const nothing[] = {"broken", "empty", ".hidden", "versioned@2", "versioned@",
                                          "@1.0",   "1.0",   "",        "flat@",       "../flat"};
    for (size_t i = 0; i < ARRAY_LEN(nothing); i++)
        means(&r, nothing[i], NULL);
    rig_close(&r);
}

Test(decode_adapters, what_changes_on_disk_is_another_version_and_what_is_gone_is_not_served) {
    struct rig r;
    uint8_t before[SHA256_BYTES], after[SHA256_BYTES];
    char path[300];
    rig_files(&r);
    put(&r, "flat", 1);
    temp_folder_make(&r.folder, "v");
    put(&r, "v/1", 2);
    rig_open(&r, 1 << 20);
    cr_assert(adapters_digest(&r.all, SPAN("flat"), before));
    struct adapter_version *running = adapters_take(&r.all, SPAN("flat"));
    snprintf(path, sizeof path, "%s/flat", r.folder.path);
    cr_assert(nftw(path, temp_remove_one, 8, FTW_DEPTH | FTW_PHYS) == 0);
    put(&r, "flat", 9);
    put(&r, "v/2", 3);
    spoil(&r, "v/1");
    adapters_scan(&r.all);
    cr_assert(adapters_digest(&r.all, SPAN("flat"), after));
    cr_expect(memcmp(before, after, sizeof before) != 0, "the name means the new content");
    cr_expect(running->weights && memcmp(running->digest, before, sizeof before) == 0, "who began keeps the old");
    means(&r, "v", NULL);
    means(&r, "v@2", "2");
    adapters_sweep(&r.all, &compute_plain, NULL);
    cr_expect(running->weights, "not freed under a run");
    adapters_drop(&r.all, running);
    size_t n = r.all.versions.n;
    adapters_sweep(&r.all, &compute_plain, NULL);
    cr_expect_lt(r.all.versions.n, n);
    cr_assert(nftw(path, temp_remove_one, 8, FTW_DEPTH | FTW_PHYS) == 0);
    adapters_scan(&r.all);
    means(&r, "flat", NULL);
    rig_close(&r);
}

Test(decode_adapters, pointers_move_by_promote_and_rollback_and_survive_a_restart_and_a_torn_line) {
    struct rig r;
    struct str why;
    str_init(&why, 2000);
    rig_files(&r);
    temp_folder_make(&r.folder, "v");
    put(&r, "v/1", 1);
    put(&r, "v/2", 2);
    put(&r, "v/3", 3);
    rig_open(&r, 1 << 20);
    means(&r, "v", "1");
    pthread_mutex_lock(&r.all.lock);
    cr_expect(name_point(&r.all, "v", "2", "promote", "anna", "better", &why));
    cr_expect(name_point(&r.all, "v", "3", "promote", "anna", "best", &why));
    cr_expect(name_point_back(&r.all, "v", "ben", "worse", &why));
    pthread_mutex_unlock(&r.all.lock);
    means(&r, "v", "2");
    adapters_fini(&r.all);
    FILE *f = fopen(r.history, "a");
    fputs("{\"time\":\"2026", f);
    fclose(f);
    rig_open(&r, 1 << 20);
    means(&r, "v", "2");
    pthread_mutex_lock(&r.all.lock);
    cr_expect(name_point(&r.all, "v", "3", "promote", "anna", NULL, &why), "%s", why.n ? why.at : "");
    pthread_mutex_unlock(&r.all.lock);
    adapters_fini(&r.all);
    rig_open(&r, 1 << 20);
    means(&r, "v", "3");
    pthread_mutex_lock(&r.all.lock);
    cr_expect(name_point_back(&r.all, "v", "ben", NULL, &why) && name_point_back(&r.all, "v", "ben", NULL, &why));
    cr_expect_not(name_point_back(&r.all, "v", "ben", NULL, &why));
    cr_expect_str_eq(why.at, "v: has no version before the present one");
    pthread_mutex_unlock(&r.all.lock);
    means(&r, "v", "1");
    str_fini(&why);
    rig_close(&r);
}

Test(decode_adapters, what_is_removed_stays_removed_over_a_restart_and_comes_back_when_it_is_added) {
    struct rig r;
    struct str why;
    str_init(&why, 2000);
    rig_files(&r);
    temp_folder_make(&r.folder, "v");
    put(&r, "v/1", 1);
    put(&r, "v/2", 2);
    rig_open(&r, 1 << 20);
    cr_expect(adapters_remove(&r.all, SPAN("v@1"), "anna", "bad", &why));
    means(&r, "v@1", NULL);
    means(&r, "v", NULL);
    means(&r, "v@2", "2");
    cr_expect_not(adapters_remove(&r.all, SPAN("v@1"), "anna", NULL, &why));
    adapters_scan(&r.all);
    means(&r, "v@1", NULL);
    adapters_fini(&r.all);
    rig_open(&r, 1 << 20);
    means(&r, "v@1", NULL);
    adapters_sweep(&r.all, &compute_plain, NULL);
    cr_expect_not(adapters_promote(&r.all, "v", "1", "anna", NULL, &why));
    str_clear(&why);
    cr_expect(adapters_promote(&r.all, "v", "2", "anna", NULL, &why));
    means(&r, "v", "2");
    pthread_mutex_lock(&r.all.lock);
    cr_expect(name_removed(&r.all, "v", "1", false, "ben", NULL, &why));
    pthread_mutex_unlock(&r.all.lock);
    adapters_fini(&r.all);
    rig_open(&r, 1 << 20);
    means(&r, "v@1", "1");
    str_fini(&why);
    rig_close(&r);
}
