/* Words of a command line against a table of options. */
#ifndef TOLLGATE_CLI_ARGUMENTS_H
#define TOLLGATE_CLI_ARGUMENTS_H

#include "gateway/base/span.h"

struct conf;

struct argument {     /* one of value and flag */
    const char *name; /* "--month" or "-f" */
    const char **value;
    bool *flag;
};

enum arguments_got { ARGUMENTS_GOOD, ARGUMENTS_HELP, ARGUMENTS_BAD };
/* Reads argv[1..]; `words` takes what is no option, at most max. -h and --help give HELP; what is wrong is said on
 * standard error with a guess. */
enum arguments_got arguments_read(int argc, char **argv, const struct argument *table, size_t n, const char **words,
                                  size_t max, size_t *n_words);
/* For verbs that take options alone. False: the verb ends now with *status: 0 after -h, which prints `usage`;
 * ARGUMENTS_WRONG after wrong words. */
#define ARGUMENTS_WRONG 1
bool arguments_only(int argc, char **argv, const struct argument *table, size_t n, const char *usage, int *status);
/* Whether `word` is one of the n; if not, says so on standard error, with a guess. `of`: what the words are. */
bool argument_is_one_of(const char *word, const char *const *words, size_t n, const char *of);
/* The conf of a file; NULL when it is wrong (said). To be dropped. */
struct conf *argument_conf(const char *conf_file);
/* The audit directory: of the conf file when one is given, else var/audit. NULL when the conf is wrong (said). To be
 * freed. */
char *argument_audit_directory(const char *conf_file);

#endif
