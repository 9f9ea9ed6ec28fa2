/* A folder of a test's own, removed with all that is in it. */
#ifndef TOLLGATE_TESTS_TEMP_FOLDER_H
#define TOLLGATE_TESTS_TEMP_FOLDER_H

#include <criterion/criterion.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

struct temp_folder {
    char path[64];
    char file[256]; /* the last name made */
};

static inline struct temp_folder temp_new(void) {
    struct temp_folder t = {.path = "/tmp/tollgate-test-XXXXXX"};
    cr_assert_not_null(mkdtemp(t.path));
    return t;
}

static inline int temp_remove_one(const char *path, const struct stat *st, int type, struct FTW *walk) {
    (void)st, (void)type, (void)walk;
    return remove(path);
}

static inline void temp_free(struct temp_folder *t) {
    nftw(t->path, temp_remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

static inline const char *temp_name(struct temp_folder *t, const char *name) {
    snprintf(t->file, sizeof t->file, "%s/%s", t->path, name);
    return t->file;
}

static inline void temp_folder_make(struct temp_folder *t, const char *name) {
    cr_assert_eq(mkdir(temp_name(t, name), 0700), 0);
}

/* Returns the file's path, good until the next call. */
static inline const char *temp_write(struct temp_folder *t, const char *name, const char *text) {
    FILE *f = fopen(temp_name(t, name), "w");
    cr_assert_not_null(f);
    fputs(text, f);
    fclose(f);
    return t->file;
}

#endif
