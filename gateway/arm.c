/* Which arm of an alias a call is on. Always true here: the same caller of the same alias is on the same arm, in every
 * process and after every start, until somebody moves the share past it. */
#include "gateway/arm.h"

#include "gateway/gateway.h"
#include "gateway/state/override.h"

#include <stdio.h>

/* By whose name the canary tells callers apart; empty: this call has none, and stays where most are. */
static struct span subject_of(const struct arm_ask *ask) {
    const struct conf_canary *canary = &ask->alias->canary;
    if (canary->by == CANARY_BY_TEAM)
        return span_of(ask->key->team->name);
    if (canary->by == CANARY_BY_KEY)
        return span_of(conf_key_account(ask->key));
    for (size_t i = 0; i < ask->n_labels; i++)
        if (strcmp(ask->labels[i].name, canary->label) == 0)
            return span_of(ask->labels[i].value);
    return SPAN_NONE;
}

static const struct override *standing(const struct arm_ask *ask, const char *prefix) {
    char name[OVERRIDE_NAME_MAX];
    if (snprintf(name, sizeof(name), "%s%s", prefix, ask->alias->name) >= (int)sizeof(name))
        return NULL;
    return overrides_find(ask->overrides, name, ask->now_us);
}

static bool find_pin(const struct arm_ask *ask, struct arm *out) {
    const struct override *pin = standing(ask, OVERRIDE_PIN);
    *out = (struct arm){.kind = ARM_PINNED};
    out->first = pin ? override_pinned(ask->alias, pin->text, &out->degraded) : NULL;
    return out->first;
}

struct arm arm_of(const struct arm_ask *ask) {
    const struct conf_canary *canary = &ask->alias->canary;
    const struct override *shift;
    struct arm pinned;
    if (find_pin(ask, &pinned))
        return pinned;
    if (!canary->target.name)
        return (struct arm){.kind = ARM_NONE};
    shift = standing(ask, OVERRIDE_SHIFT);
    struct span subject = subject_of(ask);
    if (subject.n == 0 || !arm_holds(ask->alias->name, subject, shift ? shift->number : canary->share))
        return (struct arm){.kind = ARM_STABLE};
    return (struct arm){.kind = ARM_CANARY, .first = &canary->target};
}
