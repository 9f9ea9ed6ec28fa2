#include "audit/vault.h"

#include "gateway/base/clock.h"
#include "tests/support/chain_kit.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static const uint8_t wrap[SEAL_KEY_BYTES] = {4, 5, 6};
#define DAY (KIT_NOW / US_PER_DAY)

static bool put(struct vault *v, const char *team, const char *request, struct audit_stored_at *at, int64_t now_us) {
    struct audit_content c = {.kind = AUDIT_SETTLE, .request = request, .team = team, .asked = SPAN("{\"a\":[1,2,3]}")};
    return vault_put(v, &c, at, now_us);
}

static enum audit_stored look(struct kit *k, const struct audit_stored_at *at, const char *request,
                              const uint8_t *key) {
    struct audit_place p = {request, "settle", at->file, at->digest, at->offset, at->bytes};
    struct str out, why;
    str_init(&out, 1 << 20);
    str_init(&why, 4096);
    enum audit_stored got = audit_stored_read(k->directory, &p, key, &out, &why);
    cr_assert_eq(got == AUDIT_STORED_WHOLE, out.n > 0);
    cr_assert_eq(got == AUDIT_STORED_WHOLE, why.n == 0);
    str_fini(&out);
    str_fini(&why);
    return got;
}

Test(vault, frames_are_where_their_places_say_and_every_cut_and_flip_of_the_file_is_named) {
    struct kit k;
    struct audit_stored_at at[3];
    uint8_t other[SEAL_KEY_BYTES] = {0};
    size_t n;
    struct stat st;
    char path[512];
    kit_init(&k);
    struct vault *v = vault_open(k.directory, wrap, &vault_disk);
    cr_assert(put(v, "a", "r0", &at[0], KIT_NOW) && put(v, "b", "r1", &at[1], KIT_NOW) &&
              put(v, "a", "r2", &at[2], KIT_NOW));
    vault_close(v);
    cr_assert_str_eq(at[0].file, at[2].file);
    cr_assert_eq(at[2].offset, at[0].bytes);
    static const char *const names[] = {"r0", "r1", "r2"};
    for (size_t i = 0; i < 3; i++)
        cr_assert_eq(look(&k, &at[i], names[i], wrap), AUDIT_STORED_WHOLE);
    cr_assert_eq(look(&k, &at[0], "r0", other), AUDIT_STORED_BAD, "another key");
    cr_assert_eq(look(&k, &at[0], "r2", wrap), AUDIT_STORED_BAD, "another record's");
    stat(kit_path(&k, at[0].file, path), &st);
    cr_assert_eq(st.st_mode & 0777, 0600);
    char *bytes = kit_read(&k, at[0].file, &n);
    for (size_t cut = 0; cut < n; cut++) {
        kit_write(&k, at[0].file, bytes, cut);
        cr_assert_eq(look(&k, &at[2], "r2", wrap), AUDIT_STORED_BAD, "cut at %zu", cut);
        cr_assert_eq(look(&k, &at[0], "r0", wrap), cut < (size_t)at[0].bytes ? AUDIT_STORED_BAD : AUDIT_STORED_WHOLE);
        bytes[cut] ^= 1;
        kit_write(&k, at[0].file, bytes, n);
        bool second = cut >= (size_t)at[0].bytes;
        cr_assert_eq(look(&k, &at[2], "r2", wrap), second ? AUDIT_STORED_BAD : AUDIT_STORED_WHOLE, "byte %zu", cut);
        bytes[cut] ^= 1;
    }
    free(bytes);
    unlink(path);
    cr_assert_eq(look(&k, &at[0], "r0", wrap), AUDIT_STORED_GONE);
    kit_fini(&k);
}

Test(vault, shredding_a_day_of_a_team_ends_that_alone_and_what_comes_later_has_another_key) {
    struct kit k;
    struct audit_stored_at a, b, later, next;
    kit_init(&k);
    struct vault *v = vault_open(k.directory, wrap, &vault_disk);
    cr_assert(put(v, "a", "r0", &a, KIT_NOW) && put(v, "b", "r1", &b, KIT_NOW) &&
              put(v, "a", "r3", &next, KIT_NOW + US_PER_DAY));
    for (int i = 0; i < 20000 && look(&k, &next, "r3", wrap) != AUDIT_STORED_WHOLE; i++)
        usleep(200);
    cr_assert_eq(vault_shred(v, "a", DAY, &k.why), 1, "%s", k.why.at);
    cr_assert(put(v, "a", "r2", &later, KIT_NOW));
    cr_assert_str_neq(later.file, a.file);
    cr_assert_eq(vault_shred(v, "nobody", DAY, &k.why), 0);
    vault_close(v);
    cr_assert_eq(look(&k, &a, "r0", wrap), AUDIT_STORED_SHREDDED);
    cr_assert_eq(look(&k, &b, "r1", wrap), AUDIT_STORED_WHOLE);
    cr_assert_eq(look(&k, &next, "r3", wrap), AUDIT_STORED_WHOLE);
    cr_assert_eq(look(&k, &later, "r2", wrap), AUDIT_STORED_WHOLE);
    kit_fini(&k);
}

static atomic_bool full;

static ssize_t pwrite_or_full(int fd, const void *bytes, size_t n, off_t at) {
    if (!full)
        return pwrite(fd, bytes, n, at);
    errno = ENOSPC;
    return -1;
}

static void await_failure(struct vault *v, const char *request, const char *part_of_why) {
    char got[AUDIT_REQUEST_MAX], why[160];
    bool failed = false;
    for (int i = 0; i < 20000 && !(failed = vault_failed(v, got, why)); i++)
        usleep(200);
    cr_assert(failed);
    cr_assert_str_eq(got, request);
    cr_assert(strstr(why, part_of_why), "%s", why);
}

Test(vault, a_full_disk_and_a_key_that_is_gone_lose_what_was_under_way_and_nothing_after_it) {
    static const struct vault_calls calls = {pwrite_or_full};
    struct kit k;
    struct audit_stored_at at, second, third;
    char name[CONTENT_NAME_MAX], path[512];
    kit_init(&k);
    struct vault *v = vault_open(k.directory, wrap, &calls);
    full = true;
    cr_assert(put(v, "a", "r0", &at, KIT_NOW), "the loop hears of it later");
    await_failure(v, "r0", "No space");
    cr_assert_eq(look(&k, &at, "r0", wrap), AUDIT_STORED_GONE, "no key without its file, no file without its key");
    full = false;
    cr_assert(put(v, "a", "r1", &second, KIT_NOW));
    for (int i = 0; i < 20000 && look(&k, &second, "r1", wrap) != AUDIT_STORED_WHOLE; i++)
        usleep(200);
    cr_assert_str_neq(second.file, at.file);
    cr_assert(content_name(second.file, ".key", name));
    unlink(kit_path(&k, name, path)); /* by hand, or by another process that shreds */
    cr_assert(put(v, "a", "r2", &third, KIT_NOW));
    await_failure(v, "r2", "key is not there");
    cr_assert(put(v, "a", "r3", &third, KIT_NOW));
    vault_close(v);
    cr_assert_eq(look(&k, &third, "r3", wrap), AUDIT_STORED_WHOLE);
    kit_fini(&k);
}

Test(vault, old_days_go_keys_and_files_and_others_stay) {
    struct kit k;
    struct audit_stored_at old, young;
    kit_init(&k);
    struct vault *v = vault_open(k.directory, wrap, &vault_disk);
    cr_assert(put(v, "a", "r0", &old, KIT_NOW - 2 * US_PER_DAY) && put(v, "a", "r1", &young, KIT_NOW));
    vault_close(v);
    content_remove_old(k.directory, KIT_NOW - US_PER_DAY);
    cr_assert_eq(look(&k, &old, "r0", wrap), AUDIT_STORED_GONE);
    cr_assert_eq(look(&k, &young, "r1", wrap), AUDIT_STORED_WHOLE);
    kit_fini(&k);
}

Test(vault, a_team_that_is_no_part_of_a_name_and_a_full_queue_are_refused_at_once) {
    struct kit k;
    struct audit_stored_at at;
    kit_init(&k);
    struct vault *v = vault_open(k.directory, wrap, &vault_disk);
    cr_assert(!put(v, "../a", "r0", &at, KIT_NOW));
    struct audit_content c = {.kind = AUDIT_SETTLE, .request = "r", .team = "a"};
    c.asked = span_from("", VAULT_QUEUE_MAX + 1); /* never read: it is refused by its length */
    cr_assert(!vault_put(v, &c, &at, KIT_NOW));
    vault_close(v);
    kit_fini(&k);
}

Test(vault, another_operators_key_begins_other_files) {
    static const uint8_t other[SEAL_KEY_BYTES] = {8};
    struct kit k;
    struct audit_stored_at a, b;
    kit_init(&k);
    struct vault *v = vault_open(k.directory, wrap, &vault_disk);
    cr_assert(put(v, "a", "r0", &a, KIT_NOW));
    vault_tune(v, other);
    cr_assert(put(v, "a", "r1", &b, KIT_NOW));
    vault_close(v);
    cr_assert_eq(look(&k, &a, "r0", wrap), AUDIT_STORED_WHOLE);
    cr_assert_eq(look(&k, &b, "r1", other), AUDIT_STORED_WHOLE);
    kit_fini(&k);
}
