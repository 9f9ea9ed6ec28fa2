#include "gateway/cli/arguments.h"
#include <criterion/criterion.h>
#include <stdlib.h>

Test(arguments, take_values_flags_and_words) {
    const char *month = NULL, *n = NULL, *words[2];
    bool follow = false;
    size_t n_words;
    const struct argument table[] = {{"--month", &month, NULL}, {"-n", &n, NULL}, {"-f", NULL, &follow}};
    char *good[] = {(char[]){"tail"}, (char[]){"one"}, (char[]){"--month=2026-11"}, (char[]){"-f"}, (char[]){"-n"},
                    (char[]){"-5"},   (char[]){"two"}};
    cr_assert_eq(arguments_read(7, good, table, 3, words, 2, &n_words), ARGUMENTS_GOOD);
    cr_assert(n_words == 2 && follow && strcmp(month, "2026-11") == 0 && strcmp(n, "-5") == 0);
    cr_assert_str_eq(words[1], "two");
    cr_assert_eq(arguments_read(7, good, table, 3, words, 1, &n_words), ARGUMENTS_BAD, "one word too many");
    static const char *const wrong[] = {"--moth", "-x", "--month", "-f=1", "--"};
    for (size_t i = 0; i < ARRAY_LEN(wrong); i++) {
        char copy[16];
        strcpy(copy, wrong[i]);
        char *bad[] = {(char[]){"tail"}, copy};
        cr_assert_eq(arguments_read(2, bad, table, 3, words, 2, &n_words), ARGUMENTS_BAD, "%s", wrong[i]);
    }
    char *help[] = {(char[]){"tail"}, (char[]){"-h"}};
    cr_assert_eq(arguments_read(2, help, table, 3, words, 2, &n_words), ARGUMENTS_HELP);
}

Test(arguments, a_directory_is_given_without_a_conf) {
    char *directory = argument_audit_directory(NULL);
    cr_assert_str_eq(directory, "var/audit");
    free(directory);
}
