/* Which arm of an alias a call is on (routing/routing.h has the arms). */
#ifndef TOLLGATE_GATEWAY_ARM_H
#define TOLLGATE_GATEWAY_ARM_H

#include "routing/routing.h"

struct arm_ask {
    const struct conf_alias *alias;
    const struct conf_key *key;
    const struct conf_label *labels;
    size_t n_labels;
};
/* The alias's canary holds the caller or does not. */
struct arm arm_of(const struct arm_ask *ask);

#endif
