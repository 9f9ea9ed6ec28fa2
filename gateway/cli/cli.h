/* The verbs of the command line. argv[0] is the verb; what is returned is the exit status. */
#ifndef TOLLGATE_CLI_H
#define TOLLGATE_CLI_H

int cli_audit(int argc, char **argv);
int cli_spend(int argc, char **argv);

#endif
