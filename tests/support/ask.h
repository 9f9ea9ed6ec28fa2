/* A call as the cache room sees it, from a few texts. */
#ifndef TOLLGATE_TESTS_ASK_H
#define TOLLGATE_TESTS_ASK_H

#include "cache/cache.h"

#define ASK_HEADERS 4

struct ask {
    struct conf conf;
    struct conf_alias alias;
    struct call_traits traits;
    uint8_t ladder[SHA256_BYTES];
    struct span headers[ASK_HEADERS];
    struct cache_ask ask;
    struct cache_rule rule;
};

/* A chat call at temperature 0 of an alias with the cache on; the body is checked. */
void ask_init(struct ask *a, struct span body);
/* Decides again into a->rule. */
const struct cache_rule *ask_decide(struct ask *a);
void ask_body(struct ask *a, struct span body);

#endif
