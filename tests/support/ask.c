/* A call as the cache room sees it. Always true here: what the ask points to is inside it, so it is not to be copied. */
#include "tests/support/ask.h"

#include <assert.h>

void ask_body(struct ask *a, struct span body) {
    struct json_fault fault;
    bool good = json_check(body, JSON_DEPTH_MAX, &a->ask.body, &fault);
    assert(good);
}

void ask_init(struct ask *a, struct span body) {
    *a = (struct ask){.alias = {.name = "smart", .cache = {.said = true, .enabled = true}}};
    a->conf.cache.ttl_us = 3600;
    a->traits.temperature_said = a->traits.temperature_zero = true;
    a->ask = (struct cache_ask){
        .alias = &a->alias,
        .traits = &a->traits,
        .scope = "team:search",
        .endpoint = "chat",
        .dialect = "openai",
        .headers = a->headers,
        .ladder = a->ladder,
    };
    ask_body(a, body);
}

const struct cache_rule *ask_decide(struct ask *a) {
    cache_decide(&a->conf, &a->ask, &a->rule);
    return &a->rule;
}
