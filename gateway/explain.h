/* What would happen to a call and why, told by the very steps that decide: a request walks its way from ROUTE to HOLD, looks
 * at no cache and stops before anything is admitted. What it held goes back at once. */
#ifndef TOLLGATE_GATEWAY_EXPLAIN_H
#define TOLLGATE_GATEWAY_EXPLAIN_H

#include "gateway/request.h"

#define EXPLAIN_MAX (1 << 20) /* bytes of a whole explanation */

struct explain_sees {
    struct plan_sees plan;
    bool cost;
    bool budgets[BUDGET_LEVELS];
};
#define EXPLAIN_ALL                                                                                                    \
    (struct explain_sees) {                                                                                            \
        {true, true}, true, {                                                                                          \
            true, true, true                                                                                           \
        }                                                                                                              \
    }
/* The last step of a request that is explained, served or refused: its reply is the explanation, as its caller may see. */
enum walk explain_answer(struct request *r);
/* The same as JSON, with all of it in words as its member `words`. */
void explain_put(const struct request *r, const struct explain_sees *sees, struct str *out);

/* For the command line: a house that listens nowhere, with a running gateway's state when there is one. */
struct gateway *explain_house(struct conf *c, uint64_t seed);
void explain_house_free(struct gateway *g);
/* What decides calls in a running gateway: health, overrides, budgets. */
void explain_put_state(struct gateway *g, struct str *out);
must_check bool explain_take_state(struct gateway *g, const struct conf_key *key, struct json state);
/* A request that stands before ROUTE: key, call and alias are set. It walks until it is decided: in ADMIT, REFUSE, or, with
 * r->explain, in SETTLE with the explanation in r->out. */
struct request *explain_request(struct gateway *g, const struct conf_key *key, const struct llm_call *call,
                                const struct conf_alias *alias, struct span captured);
void explain_walk(struct request *r);
void explain_request_free(struct request *r);

#endif
