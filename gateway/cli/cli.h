/* The verbs of the command line, one file each. argv[0] is the verb; the result is the exit status: 0 it went well,
 * 1 it did not, 2 the words were wrong. */
#ifndef TOLLGATE_CLI_H
#define TOLLGATE_CLI_H

#include <stdbool.h>
#include <stddef.h>

#define CLI_CONF_DEFAULT "conf/tollgate.yaml"
#define CLI_USAGE 2

int cli_check(int argc, char **argv);
int cli_config(int argc, char **argv);
int cli_schema(int argc, char **argv);
int cli_key(int argc, char **argv);

/* Options of a verb: `--name VALUE`, `--name=VALUE` or, without a value, `--name`. -h and -c FILE are options too. */
struct cli_option {
    const char *name;   /* "--team" */
    const char **value; /* NULL where it takes none */
    bool *flag;         /* set to true when it is there; may be NULL where value is not */
};
/* False: the verb ends now, with *status (0 after -h, which prints `usage`; CLI_USAGE after wrong words). */
bool cli_options(int argc, char **argv, const struct cli_option *options, size_t n, const char *usage, int *status);

#endif
