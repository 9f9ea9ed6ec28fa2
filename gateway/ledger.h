/* Which ledger the house has: memory, or Redis where conf names one. */
#ifndef TOLLGATE_GATEWAY_LEDGER_H
#define TOLLGATE_GATEWAY_LEDGER_H

#include "gateway/gateway.h"

/* Before the log is read back. False with a sentence. */
must_check bool ledger_open(struct gateway *g, struct str *why);
/* One settle of the log, for the ledger. */
void ledger_replay(struct gateway *g, const struct audit_settled *s);
/* How calls were decided, for /metrics; nothing where the ledger is memory. */
void ledger_metrics(const struct gateway *g, struct str *out);
void ledger_put(const struct gateway *g, struct str *json); /* the member "ledger" of /readyz */

#endif
