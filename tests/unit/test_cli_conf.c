/* The verbs over conf: options, key, config, schema. */
#include "gateway/cli/arguments.h"
#include "gateway/cli/cli.h"
#include "tests/support/conf_text.h"
#include "tests/support/temp_folder.h"

#include <criterion/redirect.h>

/* Runs a verb with the words of a line. */
static int run(int (*verb)(int, char **), const char *format, ...) {
    static char line[1024];
    char *words[32], *rest = line;
    int n = 0;
    va_list args;
    va_start(args, format);
    vsnprintf(line, sizeof line, format, args);
    va_end(args);
    for (char *word; n < 31 && (word = strsep(&rest, " "));)
        words[n++] = word;
    words[n] = NULL;
    return verb(n, words);
}

static char text[1 << 16];

static const char *read_back(FILE *f) {
    size_t n = fread(text, 1, sizeof text - 1, f);
    text[n] = 0;
    return text;
}

static void capture(void) {
    cr_redirect_stdout();
    cr_redirect_stderr();
}
TestSuite(cli_conf, .init = capture);

Test(cli_conf, wrong_words_are_refused_with_a_guess) {
    cr_expect_eq(run(cli_key, "key --taem a"), 1);
    cr_expect_eq(run(cli_key, "key --name a"), 1);
    cr_expect_eq(run(cli_key, "key --team"), 1);
    cr_expect_eq(run(cli_check, "check --probe"), 1);
    fflush(stderr);
    const char *said = read_back(cr_get_redirected_stderr());
    cr_expect(strstr(said, "--taem; did you mean --team?"), "%s", said);
    cr_expect(strstr(said, "--team is needed"), "%s", said);
    cr_expect(strstr(said, "--probe is not supported yet"), "%s", said);
}

Test(cli_conf, help_is_an_answer) {
    cr_expect_eq(run(cli_key, "key -h"), 0);
    cr_expect_eq(run(cli_config, "config --help"), 0);
    fflush(stdout);
    const char *said = read_back(cr_get_redirected_stdout());
    cr_expect(strstr(said, "tollgate key --team T"), "%s", said);
    cr_expect(strstr(said, "tollgate config"), "%s", said);
}

static struct temp_folder world(char conf[128]) {
    struct temp_folder t = temp_new();
    char yaml[256];
    snprintf(yaml, sizeof yaml, "state: {directory: %s/state}\nteams: {a: {}}\n", t.path);
    temp_write(&t, "main.yaml", yaml);
    snprintf(conf, 128, "%s/main.yaml", t.path);
    return t;
}

Test(cli_conf, a_key_is_printed_with_the_line_that_admits_it) {
    char conf[128], key[CONF_KEY_TEXT_MAX], hex[SHA256_HEX_MAX];
    struct temp_folder t = world(conf);
    cr_assert_eq(run(cli_key, "key -c %s --team a --name prod", conf), 0);
    fflush(stdout);
    const char *said = read_back(cr_get_redirected_stdout());
    cr_assert_eq(sscanf(said, "%79s", key), 1);
    cr_expect_eq(conf_key_form(span_of(key)), KEY_FORM_GOOD);
    uint8_t digest[SHA256_BYTES];
    sha256(span_of(key), digest);
    cr_expect(strstr(said, hex_put(digest, SHA256_BYTES, hex)), "%s", said);
    const char *line = strstr(said, "- {id: ");
    cr_assert_not_null(line);
    char yaml[512];
    snprintf(yaml, sizeof yaml, "teams:\n  a:\n    keys:\n      %s" NO_STATE, line);
    struct conf *c = load_good(yaml);
    cr_expect_not_null(conf_find_key(c, digest), "the printed line admits the printed key");
    conf_drop(c);
    cr_expect_eq(run(cli_key, "key -c %s --team b", conf), 1);
    temp_free(&t);
}

Test(cli_conf, a_key_admitted_from_state_and_written_to_a_file) {
    char conf[128], out[128], key[CONF_KEY_TEXT_MAX];
    struct temp_folder t = world(conf);
    snprintf(out, sizeof out, "%s/a.key", t.path);
    cr_assert_eq(run(cli_key, "key -c %s --team a --state --out %s", conf, out), 0);
    cr_expect_eq(run(cli_key, "key -c %s --team a --out %s", conf, out), 1, "a key file is never overwritten");
    struct stat st;
    cr_assert_eq(stat(out, &st), 0);
    cr_expect_eq(st.st_mode & 0777, 0600);
    FILE *f = fopen(out, "r");
    cr_assert_eq(fscanf(f, "%79s", key), 1);
    fclose(f);
    struct loaded l = load_text(conf, NULL);
    uint8_t digest[SHA256_BYTES];
    sha256(span_of(key), digest);
    const struct conf_key *k = conf_find_key(l.conf, digest);
    cr_assert_not_null(k);
    cr_expect(!k->demo && k->runtime);
    fflush(stdout);
    cr_expect_null(strstr(read_back(cr_get_redirected_stdout()), "sk-tg-"), "what goes to a file is not printed too");
    unload(&l);
    temp_free(&t);
}

Test(cli_conf, config_and_schema_print_and_a_wrong_conf_is_status_1) {
    char conf[128];
    struct temp_folder t = world(conf);
    cr_expect_eq(run(cli_config, "config --effective -c %s", conf), 0);
    cr_expect_eq(run(cli_config, "config -c /nonexistent/t.yaml"), 1);
    cr_expect_eq(run(cli_schema, "schema"), 0);
    cr_expect_eq(run(cli_schema, "schema --markdown"), 0);
    fflush(stdout);
    const char *said = read_back(cr_get_redirected_stdout());
    cr_expect(strstr(said, "http.drain: 30s  # default\n"), "%.300s", said);
    cr_expect(strstr(said, "\"$schema\""));
    temp_free(&t);
}
