/* The two arms of an experiment, out of the audit log. */
#ifndef TOLLGATE_FINANCE_COMPARE_H
#define TOLLGATE_FINANCE_COMPARE_H

#include "gateway/base/span.h"

#define COMPARE_SAMPLES_MAX ((size_t)1 << 20) /* first tokens remembered an arm; calls beyond them only count */
#define COMPARE_CALLS_MIN 30                  /* of each arm: below that nothing is said of a difference */

enum compare_arm { COMPARE_STABLE, COMPARE_CANARY, COMPARE_ARMS };

struct compare;
/* `alias` is borrowed. Records of calls that ended at since_us or later. */
struct compare *compare_new(const char *alias, int64_t since_us);
void compare_free(struct compare *c);
/* A record's line; of any kind, alias and time. */
void compare_see(struct compare *c, struct span line);
void compare_print(struct compare *c, bool json, struct str *out);

#endif
