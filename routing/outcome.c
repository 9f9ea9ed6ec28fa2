/* What each outcome of a try means: the reason for which a plan may go on, which part is at fault, which parts it
 * proves to be well. Always true here: an outcome that is nobody's fault never touches health, and an outcome without a
 * reason is never followed by another try. */
#include "routing/outcome.h"

#include <assert.h>

#define BACKEND PART_BIT(PART_BACKEND)
#define KEY PART_BIT(PART_KEY)

/*    outcome         name              reason           follow fault     at once certain sent  waits  proves */
#define OUTCOMES(X)                                                                                                    \
    X(OK, "ok", REASON_N, NONE, PART_N, false, false, true, false, PARTS_ALL)                                          \
    X(CLIENT_FAULT, "client_fault", REASON_N, NONE, PART_N, false, false, true, false, BACKEND)                        \
    X(CANCELLED, "cancelled", REASON_N, NONE, PART_N, false, false, true, false, PARTS_NONE)                           \
    X(CONNECT, "connect", REASON_UNAVAILABLE, ANY, PART_BACKEND, false, false, false, false, PARTS_NONE)               \
    X(CONNECT_SLOW, "connect_timeout", REASON_TIMEOUT, ANY, PART_BACKEND, false, false, false, false, PARTS_NONE)      \
    X(UNAVAILABLE, "unavailable", REASON_UNAVAILABLE, ANY, PART_TARGET, false, false, true, true, BACKEND)             \
    X(RATE_LIMITED, "rate_limited", REASON_RATE_LIMITED, ANY, PART_LANE, true, false, true, true, BACKEND)             \
    X(TIMEOUT, "timeout", REASON_TIMEOUT, ANY, PART_TARGET, false, false, true, true, PARTS_NONE)                      \
    X(AUTH, "auth", REASON_UNAVAILABLE, ANY, PART_KEY, true, true, true, false, BACKEND)                               \
    X(MODEL_MISSING, "model_missing", REASON_UNAVAILABLE, ANY, PART_TARGET, true, true, true, false, BACKEND | KEY)    \
    X(CONTEXT_WINDOW, "context_window", REASON_CONTEXT_WINDOW, DOWN, PART_N, false, false, true, false, BACKEND | KEY) \
    X(CONTENT_FILTER, "content_filter", REASON_CONTENT_FILTER, DOWN, PART_N, false, false, true, false, BACKEND | KEY) \
    X(NO_SLOT, "no_slot", REASON_RATE_LIMITED, ANY, PART_N, false, false, false, false, PARTS_NONE)                    \
    X(OVER_BUDGET, "over_budget", REASON_BUDGET, ANY, PART_N, false, false, false, false, PARTS_NONE)                  \
    X(LOCAL, "local", REASON_UNAVAILABLE, ANY, PART_N, false, false, false, true, PARTS_NONE)

static const struct outcome_row rows[OUTCOME_N] = {
#define X(outcome, name, reason, follow, fault, at_once, certain, sent, waits, proves)                                 \
    [OUTCOME_##outcome] = {reason, FOLLOW_##follow, fault, at_once, certain, sent, waits, proves},
    OUTCOMES(X)
#undef X
};

const char *const outcome_names[OUTCOME_N] = {
#define X(outcome, name, reason, follow, fault, at_once, certain, sent, waits, proves) [OUTCOME_##outcome] = name,
    OUTCOMES(X)
#undef X
};

const struct outcome_row *outcome_row(enum outcome o) {
    assert((unsigned)o < OUTCOME_N);
    return &rows[o];
}

enum reason outcome_reason(enum outcome o) {
    return outcome_row(o)->reason;
}
