/* Reading options: every unknown word is refused by name, with the nearest known one. */
#include "gateway/cli/arguments.h"
#include "conf/conf.h"
#include <stdio.h>
#include <stdlib.h>

#define WORDS_MAX 32 /* options a verb has */
#define DIRECTORY_DEFAULT "var/audit"

bool argument_is_one_of(const char *word, const char *const *words, size_t n, const char *of) {
    for (size_t i = 0; i < n; i++)
        if (strcmp(word, words[i]) == 0)
            return true;
    const char *guess = span_guess(span_of(word), words, n);
    if (guess)
        fprintf(stderr, "tollgate: there is no %s %s; did you mean %s?\n", of, word, guess);
    else
        fprintf(stderr, "tollgate: there is no %s %s\n", of, word);
    return false;
}

static const struct argument *find(const char *word, size_t length, const struct argument *table, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (strlen(table[i].name) == length && memcmp(table[i].name, word, length) == 0)
            return &table[i];
    return NULL;
}

static bool unknown(const char *word, size_t length, const struct argument *table, size_t n) {
    const char *names[WORDS_MAX];
    char *copy = xstrndup(word, length);
    for (size_t i = 0; i < n && i < WORDS_MAX; i++)
        names[i] = table[i].name;
    argument_is_one_of(copy, names, n < WORDS_MAX ? n : WORDS_MAX, "option");
    free(copy);
    return false;
}

/* Takes one option and, where it has one, its value; moves *i past it. */
static bool take(int argc, char **argv, int *i, const struct argument *table, size_t n) {
    const char *word = argv[*i], *equals = word[1] == '-' ? strchr(word, '=') : NULL;
    size_t length = equals ? (size_t)(equals - word) : strlen(word);
    const struct argument *a = find(word, length, table, n);
    if (!a)
        return unknown(word, length, table, n);
    if (a->flag && !equals)
        return *a->flag = true;
    if (!a->flag && !equals && *i + 1 < argc)
        equals = argv[++*i] - 1;
    if (a->flag || !equals) {
        fprintf(stderr, "tollgate: the option %s takes %s\n", a->name, a->flag ? "no value" : "a value");
        return false;
    }
    *a->value = equals + 1;
    return true;
}

static bool asks_help(const char *word) {
    return strcmp(word, "-h") == 0 || strcmp(word, "--help") == 0;
}

enum arguments_got arguments_read(int argc, char **argv, const struct argument *table, size_t n, const char **words,
                                  size_t max, size_t *n_words) {
    *n_words = 0;
    for (int i = 1; i < argc; i++) {
        if (asks_help(argv[i]))
            return ARGUMENTS_HELP;
        if (argv[i][0] == '-' && argv[i][1]) {
            if (!take(argc, argv, &i, table, n))
                return ARGUMENTS_BAD;
        } else if (*n_words < max) {
            words[(*n_words)++] = argv[i];
        } else {
            fprintf(stderr, "tollgate: one word too many: %s\n", argv[i]);
            return ARGUMENTS_BAD;
        }
    }
    return ARGUMENTS_GOOD;
}

bool arguments_only(int argc, char **argv, const struct argument *table, size_t n, const char *usage, int *status) {
    size_t n_words;
    enum arguments_got got = arguments_read(argc, argv, table, n, NULL, 0, &n_words);
    if (got == ARGUMENTS_HELP)
        fputs(usage, stdout);
    *status = got == ARGUMENTS_BAD ? ARGUMENTS_WRONG : 0;
    return got == ARGUMENTS_GOOD;
}

struct conf *argument_conf(const char *conf_file) {
    struct conf_report report;
    struct str text;
    conf_report_init(&report);
    struct conf *c = conf_load(conf_file, &report);
    if (!c) {
        str_init(&text, (size_t)1 << 20);
        conf_report_print(&report, &text);
        fputs(text.at ? text.at : "", stderr);
        str_fini(&text);
    }
    conf_report_fini(&report);
    return c;
}

char *argument_audit_directory(const char *conf_file) {
    if (!conf_file)
        return xstrdup(DIRECTORY_DEFAULT);
    struct conf *c = argument_conf(conf_file);
    char *directory = c ? xstrdup(c->audit.directory) : NULL;
    conf_drop(c);
    return directory;
}
