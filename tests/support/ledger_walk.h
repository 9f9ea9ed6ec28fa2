/* A walk that a seed decides: two processes lease slices of money, requests, tokens and slots of one team over a real Redis;
 * calls pass, are held, raised and settled in any order; answers are late or lost; processes are killed and come back with
 * what their logs say. At every step no limit is passed, and Redis counts at least what the logs do; when all is quiet, Redis
 * is what the logs say, and nothing is left open. */
#ifndef TOLLGATE_TESTS_LEDGER_WALK_H
#define TOLLGATE_TESTS_LEDGER_WALK_H

#include "tests/support/ledger_kit.h"

/* What was wrong first, in words; NULL: nothing. `in_slices` is moved on by how many holds and rates were not asked. */
const char *ledger_walk(unsigned seed, int acts, int64_t *in_slices);
/* A process that spends one slice after the other: never more lies unused than one may be. */
const char *ledger_busy(int64_t *in_slices);
/* What was leased is used at the last moment: no sixty seconds, wherever they begin, hold more than a limit. */
const char *ledger_late(int64_t *in_slices);

#endif
