/* The command line: one table of verbs, one file a verb. A verb answers the exit status of the program. */
#ifndef TOLLGATE_GATEWAY_CLI_H
#define TOLLGATE_GATEWAY_CLI_H

#include <stdbool.h>

#define CONF_DEFAULT "conf/tollgate.yaml"

/* argv[0] is the program; finds the verb, guesses at a misspelt one. */
int cli_main(int argc, char **argv);

/* argv[0] is the verb. */
int cli_serve(int argc, char **argv);
int cli_check(int argc, char **argv);
int cli_explain(int argc, char **argv);
int cli_config(int argc, char **argv);
int cli_schema(int argc, char **argv);
int cli_key(int argc, char **argv);
bool cli_is_key_act(const char *word); /* of a running gateway */
int cli_key_act(int argc, char **argv);
int cli_requests(int argc, char **argv);
int cli_spend(int argc, char **argv);
int cli_reprice(int argc, char **argv);
int cli_close(int argc, char **argv);
int cli_audit(int argc, char **argv);
int cli_budget(int argc, char **argv);
int cli_team(int argc, char **argv);
int cli_adapter(int argc, char **argv);
int cli_target(int argc, char **argv);
int cli_alias(int argc, char **argv);
int cli_prices(int argc, char **argv);

#endif
