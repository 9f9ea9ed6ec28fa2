/* How a file that ${file:PATH} names looks, and that a conf remembers each once. */
#include "conf/conf.h"

#include "tests/support/conf_text.h"
#include "tests/support/temp_folder.h"

static void put(const char *path, const char *text) {
    FILE *f = fopen(path, "w");
    cr_assert_not_null(f);
    fputs(text, f);
    fclose(f);
}

Test(secret_file, each_change_is_seen_and_no_file_is_a_state_too) {
    struct temp_folder t = temp_new();
    char path[256];
    struct conf_file none, one, two;
    snprintf(path, sizeof path, "%s", temp_name(&t, "secret"));
    conf_file_read(path, &none);
    cr_expect_eq(none.bytes, -1);
    put(path, "first");
    conf_file_read(path, &one);
    cr_expect_not(conf_file_looks_same(&none, &one));
    conf_file_look(path, &two);
    cr_expect(conf_file_looks_same(&one, &two));
    put(path, "second");
    conf_file_read(path, &two);
    cr_expect_not(conf_file_looks_same(&one, &two));
    cr_expect_neq(memcmp(one.sha256, two.sha256, SHA256_BYTES), 0);
    uint8_t digest[SHA256_BYTES];
    sha256(SPAN("second"), digest);
    cr_expect_eq(memcmp(two.sha256, digest, SHA256_BYTES), 0);
    temp_free(&t);
}

Test(secret_file, a_conf_remembers_each_file_that_it_named_once) {
    struct temp_folder t = temp_new();
    char yaml[1024], path[256];
    uint8_t digest[SHA256_BYTES];
    snprintf(path, sizeof path, "%s", temp_name(&t, "secret"));
    put(path, "value\n");
    snprintf(yaml, sizeof yaml,
             "backends:\n  up: {protocol: openai, url: \"http://127.0.0.1:1/v1\", api_keys: [\"${file:%s}\", "
             "\"${file:%s}\", \"${file:%s-not-there}\"]}\n",
             path, path, path);
    struct conf *c = load_good(yaml);
    cr_assert_not_null(c->files);
    cr_assert_not_null(c->files->next);
    cr_expect_null(c->files->next->next);
    cr_expect_eq(c->files->bytes, -1, "a file that is not there is waited for");
    cr_expect_str_eq(c->files->next->path, path);
    sha256(SPAN("value\n"), digest);
    cr_expect_eq(memcmp(c->files->next->sha256, digest, SHA256_BYTES), 0);
    conf_drop(c);
    temp_free(&t);
}
