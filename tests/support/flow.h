/* The whole house in one process: a gateway on a conf of the test's own in a folder of its own, two providers and any
 * number of clients on the same loop, and a false clock.
 *
 *     flow_open(conf) -> flow_call ... UNTIL(f, ...) ... flow_record -> flow_close
 *
 * flow_close checks what must hold after any story: nothing is lent, nothing is buffered, every request has exactly one
 * settle or refuse record, the chain verifies, and the ledger holds what the log says. */
#ifndef TOLLGATE_TESTS_FLOW_H
#define TOLLGATE_TESTS_FLOW_H

#include "gateway/gateway.h"
#include "tests/support/caller.h"
#include "tests/support/provider.h"

#define FLOW_KEY "sk-test-caller-0123456789abcdefghijklmnop"
#define FLOW_OTHER_KEY "sk-test-other-0123456789abcdefghijklmnop"
#define FLOW_DELAY_US 1500 /* of a late ledger */

/* What every conf begins with. @DIR@, @UP@ and @LOW@ (ports), @KEY@ and @OTHER@ (digests) are filled in. */
#define FLOW_BASE                                                                                                      \
    "listen: [{address: \"127.0.0.1:0\"}]\n"                                                                           \
    "admin: {address: \"127.0.0.1:0\", token: admin-token-0123456789}\n"                                               \
    "node: test\n"                                                                                                     \
    "state: {directory: @DIR@/state}\n"                                                                                \
    "audit: {directory: @DIR@/audit}\n"                                                                                \
    "prices: {unknown: {input: 1 USD/1M, output: 2 USD/1M}}\n"                                                         \
    "log: {level: error}\n"                                                                                            \
    "retries: {backoff: [0s, 0s], budget: \"100%\"}\n"                                                                 \
    "hold: {max_share_key: \"100%\", max_share_team: \"100%\"}\n"
#define FLOW_BACKENDS                                                                                                  \
    "backends:\n"                                                                                                      \
    "  up: {protocol: openai, url: \"http://127.0.0.1:@UP@/v1\", api_keys: [sk-upstream-canary]}\n"                    \
    "  low: {protocol: openai, url: \"http://127.0.0.1:@LOW@/v1\", api_keys: [sk-upstream-canary]}\n"
#define FLOW_KEYS "keys: [{id: callers1, name: test, sha256: @KEY@}]"
#define FLOW_TEAMS                                                                                                     \
    "teams:\n"                                                                                                         \
    "  search: {" FLOW_KEYS ", allow: [\"*\"], contact: the desk, budgets: [{limit: 1 USD, period: month}]}\n"
#define FLOW_ALIASES "aliases: {m: up/model-x}\n"
#define FLOW_CONF FLOW_BASE FLOW_BACKENDS FLOW_ALIASES FLOW_TEAMS

#define FLOW_CALL "{\"model\":\"m\",\"messages\":[{\"role\":\"user\",\"content\":\"Hello\"}],\"max_tokens\":100}"
#define FLOW_STREAM                                                                                                    \
    "{\"model\":\"m\",\"messages\":[{\"role\":\"user\",\"content\":\"Hello\"}],\"max_tokens\":100,\"stream\":true,"    \
    "\"stream_options\":{\"include_usage\":true}}"
/* A provider's plain answer and stream: nine tokens in, three out, so 0.000015 USD by FLOW_BASE's prices. */
#define FLOW_COST "0.000015"
#define FLOW_COST_NANOUSD 15000
extern const char flow_plain[];
extern const char flow_stream[]; /* all of it, [DONE] included */
extern const char flow_first[];  /* the first event with content */
extern const char flow_rest[];   /* what follows flow_first */

struct flow {
    char folder[64];
    char conf_path[96];
    struct gateway *g;
    struct provider up, low;
    struct list callers;
    struct delay_store *ledger; /* NULL: a prompt one */
    bool late;
    volatile int64_t *clock_us; /* the false clock's offset */
    struct event *nudge;
    struct arena records;
    bool gaps; /* the log was made to refuse settles: a restart would finish them */
    bool cut;  /* the gateway is closed while calls run: what is lent cannot be looked at any more */
};

void flow_open(struct flow *f, const char *conf, bool late);
void flow_close(struct flow *f);
void flow_conf(struct flow *f, const char *conf); /* writes the file anew, for a reload */

/* Turns the loop once, for a few milliseconds at most; false when `until_us` of the true clock has passed. */
bool flow_turn(struct flow *f, int64_t until_us);
int64_t flow_true_us(void);
#define UNTIL(f, condition)                                                                                            \
    do {                                                                                                               \
        int64_t end_us = flow_true_us() + 10 * US_PER_S;                                                               \
        bool done;                                                                                                     \
        while (!(done = (condition)) && flow_turn(f, end_us))                                                          \
            ;                                                                                                          \
        cr_assert(done, "waited in vain: %s", #condition);                                                             \
    } while (0)
void flow_pump(struct flow *f, int turns);

struct caller *flow_caller(struct flow *f);
/* A chat call with FLOW_KEY, from a client of its own. */
struct caller *flow_call(struct flow *f, const char *body);
struct caller *flow_call_with(struct flow *f, const char *fields, const char *body);
bool flow_idle(struct flow *f); /* no request, nothing waits for a store or the log */

/* The i-th record of a kind in the log (JSON_NONE: there is none), good until flow_close. */
struct json flow_record(struct flow *f, const char *kind, size_t i);
size_t flow_count(struct flow *f, const char *kind);
int64_t flow_i64(struct json record, const char *name);
void flow_held(struct flow *f, int64_t *held_nanousd, int64_t *settled_nanousd); /* of the team's first budget */

#endif
