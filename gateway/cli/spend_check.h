/* The log against the ledger. */
#ifndef TOLLGATE_CLI_SPEND_CHECK_H
#define TOLLGATE_CLI_SPEND_CHECK_H

#include "conf/conf.h"

/* Prints each budget whose sum in the log is another than in the ledger of the running gateway; 0: none is. With a sentence
 * in `why` it could not be found out. `admin`: NULL: the address in conf. */
int spend_check(const struct conf *c, const char *admin, struct str *why);

#endif
