/* Which arm of an alias a call is on (routing/routing.h has the arms). */
#ifndef TOLLGATE_GATEWAY_ARM_H
#define TOLLGATE_GATEWAY_ARM_H

#include "routing/routing.h"

struct overrides;
struct arm_ask {
    const struct overrides *overrides;
    const struct conf_alias *alias;
    const struct conf_key *key;
    const struct conf_label *labels;
    size_t n_labels;
    int64_t now_us; /* wall */
};
/* Pinned by an operator; else the alias's canary, at conf's share or the one it was shifted to, holds the caller or not. */
struct arm arm_of(const struct arm_ask *ask);

#endif
