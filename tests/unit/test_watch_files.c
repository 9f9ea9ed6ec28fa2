/* A changed file is told once, at rest, and only for its content. */
#include "gateway/state/watch_files.h"

#include "tests/support/temp_folder.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

static void put(const char *path, const char *text, time_t at) {
    FILE *f = fopen(path, "w");
    cr_assert_not_null(f);
    fputs(text, f);
    fclose(f);
    cr_assert_eq(utimensat(AT_FDCWD, path, (struct timespec[2]){{at, 0}, {at, 0}}, 0), 0);
}

struct house {
    struct temp_folder folder;
    char path[256];
    struct conf_file file;
    struct file_watch *watch;
};

static struct house house_new(const char *text) {
    struct house h = {.folder = temp_new(), .watch = file_watch_new()};
    snprintf(h.path, sizeof h.path, "%s", temp_name(&h.folder, "secret"));
    if (text)
        put(h.path, text, 100);
    conf_file_read(h.path, &h.file);
    file_watch_take(h.watch, &h.file, true);
    return h;
}

static void house_free(struct house *h) {
    file_watch_free(h->watch);
    temp_free(&h->folder);
}

static const char *look(struct house *h) {
    return file_watch_look(h->watch);
}

Test(watch_files, a_change_is_told_once_when_it_has_come_to_rest) {
    struct house h = house_new("one");
    cr_expect_null(look(&h));
    put(h.path, "", 200); /* begun ... */
    cr_expect_null(look(&h));
    put(h.path, "two", 201); /* ... and written */
    cr_expect_null(look(&h));
    cr_assert_not_null(look(&h));
    cr_expect_null(look(&h));
    cr_expect_null(look(&h));
    house_free(&h);
}

Test(watch_files, a_touch_is_no_change_and_a_rename_is_one) {
    struct house h = house_new("one");
    char other[300];
    snprintf(other, sizeof other, "%s.new", h.path);
    put(h.path, "one", 200);
    for (int i = 0; i < 3; i++)
        cr_expect_null(look(&h));
    put(other, "two", 200); /* as long, as old: another inode */
    cr_assert_eq(rename(other, h.path), 0);
    cr_expect_null(look(&h));
    cr_expect_not_null(look(&h));
    house_free(&h);
}

Test(watch_files, one_that_goes_and_one_that_comes_are_changes) {
    struct house h = house_new("one");
    unlink(h.path);
    cr_expect_null(look(&h));
    cr_expect_not_null(look(&h));
    put(h.path, "one", 300);
    cr_expect_null(look(&h));
    cr_expect_not_null(look(&h));
    house_free(&h);
    h = house_new(NULL);
    put(h.path, "late", 300);
    cr_expect_null(look(&h));
    cr_expect_not_null(look(&h));
    house_free(&h);
}

Test(watch_files, a_conf_that_was_made_meanwhile_hides_no_change) {
    struct house h = house_new("one");
    struct conf_file later;
    put(h.path, "two", 200);
    conf_file_read(h.path, &later);
    file_watch_take(h.watch, &later, false); /* a key came: what else the file changes was not looked at */
    cr_expect_null(look(&h));
    cr_expect_not_null(look(&h));
    put(h.path, "three", 300);
    conf_file_read(h.path, &later);
    file_watch_take(h.watch, &later, true); /* a reload saw to all of it */
    for (int i = 0; i < 3; i++)
        cr_expect_null(look(&h));
    file_watch_take(h.watch, NULL, false);
    put(h.path, "four", 400);
    for (int i = 0; i < 3; i++)
        cr_expect_null(look(&h), "no conf names it now");
    house_free(&h);
}
