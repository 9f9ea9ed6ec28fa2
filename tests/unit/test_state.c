/* Small files under var/: who may read them, where they lie, the demonstration key. */
#include "gateway/state/state.h"

#include "tests/support/conf_text.h"
#include "tests/support/temp_folder.h"

#define DEMO_TEAM "teams: {demo: {allow: [\"*\"]}}\n"

static struct conf *conf_in(struct temp_folder *t, const char *more) {
    char text[1024];
    snprintf(text, sizeof text, MOCK_BACKEND "state: {directory: %s/var/state}\naudit: {directory: %s/var/audit}\n%s",
             t->path, t->path, more);
    return load_good(text);
}

static void read_file(const char *path, char *out, size_t n) {
    FILE *f = fopen(path, "r");
    cr_assert_not_null(f, "%s", path);
    out[fread(out, 1, n - 1, f)] = '\0';
    fclose(f);
}

Test(state, directories_are_made_for_their_owner_alone) {
    struct temp_folder t = temp_new();
    struct conf *c = conf_in(&t, "");
    struct str why;
    struct stat st;
    str_init(&why, 4096);
    cr_assert(state_make(c, &why) && state_make(c, &why), "%s", why.at);
    cr_assert_eq(stat(temp_name(&t, "var/state"), &st), 0);
    cr_expect_eq(st.st_mode & 0777, 0700);
    cr_assert_eq(stat(temp_name(&t, "var/audit"), &st), 0);
    cr_expect_eq(st.st_mode & 0777, 0700);
    conf_drop(c);
    str_fini(&why);
    temp_free(&t);
}

Test(state, a_file_in_the_way_is_named) {
    struct temp_folder t = temp_new();
    struct conf *c = conf_in(&t, "");
    struct str why;
    str_init(&why, 4096);
    temp_write(&t, "var", "not a directory");
    cr_expect_not(state_make(c, &why));
    cr_expect(why.n && strstr(why.at, "/var"));
    cr_expect_not(state_write_word(temp_name(&t, "var/x"), "word", &why));
    conf_drop(c);
    str_fini(&why);
    temp_free(&t);
}

Test(state, the_admin_token_lies_beside_state_and_is_secret) {
    struct temp_folder t = temp_new();
    struct conf *c = conf_in(&t, "");
    struct str why;
    struct stat st;
    char path[512], text[64];
    str_init(&why, 4096);
    cr_assert(state_make(c, &why));
    cr_expect_str_eq(state_admin_token_path(c, path, sizeof path), temp_name(&t, "var/admin.token"));
    cr_assert(state_write_word(path, "tg-admin-1", &why) && state_write_word(path, "tg-admin-2", &why));
    cr_assert_eq(stat(path, &st), 0);
    cr_expect_eq(st.st_mode & 0777, 0600);
    read_file(path, text, sizeof text);
    cr_expect_str_eq(text, "tg-admin-2\n");
    conf_drop(c);
    str_fini(&why);
    temp_free(&t);
}

Test(state, the_demonstration_key_is_made_once_and_admitted) {
    struct temp_folder t = temp_new();
    struct conf *c = conf_in(&t, DEMO_TEAM);
    struct str why;
    char first[CONF_KEY_TEXT_MAX], second[CONF_KEY_TEXT_MAX];
    uint8_t digest[SHA256_BYTES];
    str_init(&why, 4096);
    cr_assert(state_make(c, &why) && state_demo_key(c, first, &why), "%s", why.at);
    conf_drop(c);
    c = conf_in(&t, DEMO_TEAM);
    cr_assert(state_demo_key(c, second, &why), "%s", why.at);
    cr_expect_str_eq(first, second);
    sha256(span_of(first), digest);
    const struct conf_key *key = conf_find_key(c, digest);
    cr_assert_not_null(key);
    cr_expect(key->demo && key->expires_us < INT64_MAX && strcmp(key->team->name, "demo") == 0);
    conf_drop(c);
    str_fini(&why);
    temp_free(&t);
}

Test(state, no_demonstration_key_without_its_team) {
    struct temp_folder t = temp_new();
    struct conf *c = conf_in(&t, "");
    struct str why;
    char key[CONF_KEY_TEXT_MAX];
    str_init(&why, 4096);
    cr_expect_not(state_demo_key(c, key, &why));
    cr_expect(why.n && strstr(why.at, "team 'demo'"));
    conf_drop(c);
    str_fini(&why);
    temp_free(&t);
}

Test(state, a_budget_without_end_is_seen_at_every_level) {
    static const struct {
        const char *more;
        bool total;
    } rows[] = {
        {"", false},
        {"teams: {a: {budgets: [{limit: 1 USD, period: month}]}}\n", false},
        {"teams: {a: {budgets: [{limit: 1 USD, period: month}, {limit: 9 USD, period: total}]}}\n", true},
        {"organization: {budgets: [{limit: 9 USD, period: total}]}\n", true},
        {"teams: {a: {keys: [{id: abcdefgh, name: k, sha256: "
         "0000000000000000000000000000000000000000000000000000000000000001, budgets: [{limit: 1 USD, period: "
         "total}]}]}}\n",
         true},
    };
    struct temp_folder t = temp_new();
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct conf *c = conf_in(&t, rows[i].more);
        cr_expect_eq(state_has_total_budget(c), rows[i].total, "%s", rows[i].more);
        conf_drop(c);
    }
    temp_free(&t);
}

Test(state, a_secret_is_made_once_and_read_by_all) {
    struct temp_folder t = temp_new();
    struct conf *c = conf_in(&t, "");
    char first[STATE_SECRET_MAX], again[STATE_SECRET_MAX];
    struct str why;
    struct stat st;
    str_init(&why, 4096);
    cr_assert(state_make(c, &why));
    cr_assert(state_secret(c, "end_user.key", first, &why), "%s", why.at);
    cr_assert(state_secret(c, "end_user.key", again, &why) && strlen(first) == 64);
    cr_assert_str_eq(first, again);
    cr_assert_eq(stat(temp_name(&t, "var/state/end_user.key"), &st), 0);
    cr_expect_eq(st.st_mode & 0777, 0600);
    FILE *f = fopen(temp_name(&t, "var/state/end_user.key"), "w");
    fputs("short\n", f);
    fclose(f);
    cr_assert_not(state_secret(c, "end_user.key", again, &why), "a file that holds something else is not overwritten");
    conf_drop(c);
    str_fini(&why);
    temp_free(&t);
}
