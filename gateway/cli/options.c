/* Options of a verb, read from a table. An unknown one is refused with a guess; nothing is ever passed over. */
#include "gateway/cli/cli.h"

#include "gateway/base/span.h"

#include <stdio.h>

#define OPTIONS_MAX 32

static const struct cli_option *find(const struct cli_option *options, size_t n, struct span name) {
    for (size_t i = 0; i < n; i++)
        if (span_is(name, options[i].name))
            return &options[i];
    return NULL;
}

static int unknown(const char *verb, struct span name, const struct cli_option *options, size_t n) {
    const char *names[OPTIONS_MAX];
    for (size_t i = 0; i < n && i < OPTIONS_MAX; i++)
        names[i] = options[i].name;
    const char *guess = span_guess(name, names, n < OPTIONS_MAX ? n : OPTIONS_MAX);
    fprintf(stderr, "tollgate %s: unknown word '%.*s'", verb, SPAN_ARG(name));
    if (guess)
        fprintf(stderr, "; did you mean '%s'?", guess);
    fprintf(stderr, " (-h shows all)\n");
    return CLI_USAGE;
}

static int lacks(const char *verb, const char *name, const char *what) {
    fprintf(stderr, "tollgate %s: %s %s\n", verb, name, what);
    return CLI_USAGE;
}

/* Takes one option at argv[*i]; -1: go on. */
static int take(int argc, char **argv, int *i, const struct cli_option *options, size_t n) {
    const char *word = argv[*i], *equals = word[0] == '-' && word[1] == '-' ? strchr(word, '=') : NULL;
    struct span name = equals ? (struct span){word, (size_t)(equals - word)} : span_of(word);
    const struct cli_option *o = find(options, n, name);
    if (!o)
        return unknown(argv[0], name, options, n);
    if (o->flag)
        *o->flag = true;
    if (!o->value)
        return equals ? lacks(argv[0], o->name, "takes no value") : -1;
    if (!equals && *i + 1 >= argc)
        return lacks(argv[0], o->name, "needs a value");
    *o->value = equals ? equals + 1 : argv[++*i];
    return -1;
}

bool cli_options(int argc, char **argv, const struct cli_option *options, size_t n, const char *usage, int *status) {
    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "-h") || !strcmp(argv[i], "--help")) {
            fputs(usage, stdout);
            *status = 0;
            return false;
        }
        *status = take(argc, argv, &i, options, n);
        if (*status >= 0)
            return false;
    }
    *status = 0;
    return true;
}
