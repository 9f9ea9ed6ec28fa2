/* Files: include, globs, cycles, names set in two files, what a team file may hold, JSON among YAML. */
#include "tests/support/conf_text.h"
#include "tests/support/temp_folder.h"

static void write_main(struct temp_folder *t, const char *text) {
    temp_write(t, "main.yaml", text);
}

static struct loaded load_main(struct temp_folder *t) {
    return load_text(temp_name(t, "main.yaml"), NULL);
}

static void expect_said(struct temp_folder *t, const char *said) {
    struct loaded l = load_main(t);
    cr_expect_null(l.conf);
    cr_expect(strstr(l.text.at, said), "wanted %s\nsaid %s", said, l.text.at);
    unload(&l);
}

Test(conf_files, globs_are_read_in_order_and_joined) {
    struct temp_folder t = temp_new();
    temp_folder_make(&t, "teams");
    temp_write(&t, "teams/b.yaml", "teams: {b: {}}\n");
    temp_write(&t, "teams/a.yaml", "teams: {a: {contact: x}}\n");
    temp_write(&t, "more.json",
               "{\"backends\": {\"m\": {\"protocol\": \"openai\", \"url\": \"http://h\"}},"
               " \"aliases\": {\"\\ud83d\\ude00\": \"m/x\"}}");
    write_main(&t, "include: [teams/*.yaml, more.json]\nteams: {own: {}}\nstate: {directory: /nonexistent/s}\n");
    struct loaded l = load_main(&t);
    cr_assert_not_null(l.conf, "%s", l.text.at);
    cr_expect_eq(l.conf->n_teams, 3);
    cr_expect_str_eq(l.conf->teams[0].name, "own");
    cr_expect_str_eq(l.conf->teams[1].name, "a");
    cr_expect_str_eq(l.conf->teams[2].name, "b");
    cr_expect_str_eq(l.conf->aliases[0].name, "\xf0\x9f\x98\x80");
    unload(&l);
    temp_free(&t);
}

Test(conf_files, a_glob_may_find_nothing_but_a_name_must_be_there) {
    struct temp_folder t = temp_new();
    write_main(&t, "include: [teams/*.yaml]\n");
    struct loaded l = load_main(&t);
    cr_expect_not_null(l.conf, "%s", l.text.at);
    unload(&l);
    write_main(&t, "include: [teams/a.yaml]\n");
    expect_said(&t, "main.yaml:1:11: error: the file /tmp/");
    temp_free(&t);
}

Test(conf_files, what_two_files_set_is_an_error_at_the_second) {
    struct temp_folder t = temp_new();
    temp_write(&t, "b.yaml", "teams: {a: {}}\nlog: {level: info}\n");
    write_main(&t, "include: b.yaml\nteams: {a: {}}\nlog: {level: warn}\n");
    expect_said(&t, "b.yaml:1:9: error: 'a' stands twice; first at /tmp/");
    expect_said(&t, "b.yaml:2:1: error: 'log' stands twice; first at /tmp/");
    temp_free(&t);
}

Test(conf_files, cycles_are_named) {
    struct temp_folder t = temp_new();
    temp_write(&t, "b.yaml", "include: [main.yaml]\n");
    write_main(&t, "include: [b.yaml]\n");
    expect_said(&t, "b.yaml:1:11: error: /tmp/");
    expect_said(&t, "main.yaml includes itself by way of /tmp/");
    write_main(&t, "include: [main.yaml]\n");
    expect_said(&t, "main.yaml includes itself\n");
    temp_write(&t, "b.yaml", "");
    write_main(&t, "include: [b.yaml, b.yaml]\n");
    expect_said(&t, "main.yaml:1:19: error: /tmp/");
    expect_said(&t, "b.yaml is included twice");
    temp_free(&t);
}

Test(conf_files, team_files_hold_only_teams_and_expand_nothing) {
    struct temp_folder t = temp_new();
    temp_folder_make(&t, "teams");
    temp_write(&t, "teams/a.yaml", "admin: {token: \"${HOME}\"}\nteams: {a: {}}\n");
    write_main(&t, "include: [teams/*.yaml]\n");
    expect_said(&t, "teams/a.yaml:1:1: error: a file in the folder teams holds only 'teams'");
    temp_free(&t);
}

Test(conf_files, broken_files_are_named_each_with_its_line) {
    struct temp_folder t = temp_new();
    temp_write(&t, "b.yaml", "log: {\n");
    temp_write(&t, "c.json", "{\"log\": {\"level\": info}}\n");
    temp_write(&t, "d.json", "{\n \"node\": \"a\",\n \"node\": \"b\"}\n");
    temp_folder_make(&t, "e.yaml");
    write_main(&t, "include: [b.yaml, c.json, d.json, e.yaml]\nbogus: 1\n");
    expect_said(&t, "b.yaml:2:1: error: ");
    expect_said(&t, "c.json:1:19: error: not JSON: ");
    expect_said(&t, "d.json:3:2: error: 'node' stands twice; first on line 2");
    expect_said(&t, "main.yaml:1:35: error: /tmp/");
    expect_said(&t, "e.yaml is no regular file");
    expect_said(&t, "main.yaml:2:1: error: 'bogus'");
    temp_free(&t);
}

Test(conf_files, a_missing_or_oversized_conf_is_one_sentence) {
    struct loaded l = load_text("/nonexistent/t.yaml", NULL);
    cr_expect_null(l.conf);
    cr_expect_str_eq(l.text.at, "/nonexistent/t.yaml: error: the file does not exist\n");
    unload(&l);
    struct temp_folder t = temp_new();
    char *big = malloc((1 << 20) + 2);
    memset(big, '#', (1 << 20) + 1);
    big[(1 << 20) + 1] = 0;
    write_main(&t, big);
    expect_said(&t, "main.yaml: error: the file is too large");
    free(big);
    temp_free(&t);
}
