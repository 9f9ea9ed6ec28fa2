/* ${NAME}, ${NAME:-text}, ${file:PATH}: where they are expanded, and where they are not. */
#include "tests/support/conf_text.h"
#include "tests/support/temp_folder.h"

static struct conf *load_token(const char *token) {
    char yaml[512];
    snprintf(yaml, sizeof yaml, "admin: {token: \"%s\"}\n" NO_STATE, token);
    return load_good(yaml);
}

static void expect_token(const char *token, const char *value) {
    struct conf *c = load_token(token);
    cr_expect_str_eq(c->admin_token, value);
    conf_drop(c);
}

Test(conf_expand, names_defaults_and_files) {
    struct temp_folder t = temp_new();
    char written[300];
    temp_write(&t, "secret", "s3cret\r\n\n");
    setenv("TOLLGATE_T1", "one", 1);
    setenv("TOLLGATE_EMPTY", "", 1);
    unsetenv("TOLLGATE_NONE");
    expect_token("${TOLLGATE_T1}", "one");
    expect_token("a${TOLLGATE_T1}b${TOLLGATE_T1}c", "aonebonec");
    expect_token("${TOLLGATE_NONE:-other}", "other");
    expect_token("${TOLLGATE_EMPTY:-other}", "other");
    expect_token("$TOLLGATE_T1", "$TOLLGATE_T1");
    snprintf(written, sizeof written, "${file:%s}", t.file);
    expect_token(written, "s3cret");
    temp_free(&t);
}

Test(conf_expand, a_file_is_found_beside_the_conf) {
    struct temp_folder t = temp_new();
    temp_write(&t, "secret", "s3cret");
    temp_write(&t, "main.yaml", "admin: {token: \"${file:secret}\"}\n" NO_STATE);
    struct loaded l = load_text(t.file, NULL);
    cr_assert_not_null(l.conf, "%s", l.text.at);
    cr_expect_str_eq(l.conf->admin_token, "s3cret");
    unload(&l);
    temp_free(&t);
}

Test(conf_expand, the_environment_does_not_leak_into_other_fields) {
    setenv("TOLLGATE_T1", "one", 1);
    struct loaded l = load_text("t.yaml", "teams: {a: {contact: \"${TOLLGATE_T1}\"}}\n" NO_STATE);
    cr_assert_not_null(l.conf, "%s", l.text.at);
    cr_expect_str_eq(l.conf->teams[0].contact, "${TOLLGATE_T1}");
    cr_expect(strstr(l.text.at, "t.yaml:1:22: warning: ${...} is not expanded here"), "%s", l.text.at);
    unload(&l);
}

Test(conf_expand, a_backend_without_any_key_is_off_and_one_with_some_is_not) {
    unsetenv("TOLLGATE_NONE");
    setenv("TOLLGATE_T1", "one", 1);
    struct loaded l =
        load_text("t.yaml", "backends:\n"
                            "  a: {protocol: openai, url: \"http://h\", api_keys: [\"${TOLLGATE_NONE}\"]}\n"
                            "  b: {protocol: openai, url: \"http://h\", api_keys: [\"${TOLLGATE_NONE}\", {name: x, "
                            "value: \"${TOLLGATE_T1}\", weight: 3}]}\n"
                            "  c: {protocol: openai, url: \"http://h\", api_keys: [\"${file:/nonexistent/f}\"]}\n"
                            "  d: {protocol: openai, url: \"http://h\"}\n" NO_STATE);
    cr_assert_not_null(l.conf, "%s", l.text.at);
    const struct conf_backend *b = l.conf->backends;
    cr_expect(b[0].off && b[2].off);
    cr_expect_str_eq(b[0].off_reason, "TOLLGATE_NONE is not set");
    cr_expect_not(b[1].off || b[3].off);
    cr_expect_eq(b[1].n_keys, 1);
    cr_expect_str_eq(b[1].keys[0].name, "x");
    cr_expect_eq(b[1].keys[0].weight, 3);
    cr_expect(strstr(l.text.at, "t.yaml:2:52: warning: backend 'a' is off: TOLLGATE_NONE is not set"), "%s", l.text.at);
    cr_expect(strstr(l.text.at, "warning: backend 'b' does without a key"), "%s", l.text.at);
    cr_expect_eq(l.n, 3);
    unload(&l);
}

Test(conf_expand, a_key_that_would_break_a_header_is_refused) {
    setenv("TOLLGATE_T1", "one\r\nx: y", 1);
    struct loaded l =
        load_text("t.yaml", "backends: {a: {protocol: openai, url: \"http://h\", api_keys: [\"${TOLLGATE_T1}\"]}}\n");
    cr_expect_null(l.conf);
    cr_expect(strstr(l.text.at, "error: the secret holds a space or a control character"), "%s", l.text.at);
    unload(&l);
}
