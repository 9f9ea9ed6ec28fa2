/* The conf built by hand. Always true here: every pointer stays good until hand_free, also those of earlier plans. */
#include "tests/support/hand_conf.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

#define HAND_ARENA_MAX (64 << 20)

struct hand *hand_new(uint64_t seed) {
    struct hand *h = xcalloc(1, sizeof *h);
    h->conf.health.window_us = 30 * HAND_SECOND;
    h->conf.health.errors = FACTOR_ONE / 2;
    h->conf.health.samples = 20;
    h->conf.health.cool_down_us = 2 * HAND_SECOND;
    h->conf.health.cool_down_max_us = 300 * HAND_SECOND;
    h->conf.backends = h->backends;
    h->team.name = "search";
    h->key.team = &h->team;
    h->alias = (struct conf_alias){.name = "smart", .rungs = h->rungs, .attempts = 4};
    h->needs = (struct needs){
        .conf = &h->conf,
        .key = &h->key,
        .alias = &h->alias,
        .protocols = 1u << PROTOCOL_OPENAI | 1u << PROTOCOL_DECODE,
        .max_output_tok = -1,
    };
    h->routing = routing_new(seed);
    h->now_us = 1000 * HAND_SECOND;
    arena_init(&h->arena, HAND_ARENA_MAX);
    return h;
}

void hand_free(struct hand *h) {
    for (size_t b = 0; b < HAND_BACKENDS; b++)
        for (size_t k = 0; k < HAND_KEYS; k++)
            free((char *)(uintptr_t)h->keys[b][k].name);
    arena_fini(&h->arena);
    routing_free(h->routing);
    free(h);
}

struct conf_backend *hand_backend(struct hand *h, const char *name, size_t n_keys) {
    assert(h->conf.n_backends < HAND_BACKENDS && n_keys <= HAND_KEYS);
    size_t nth = h->conf.n_backends++;
    struct conf_backend *b = &h->backends[nth];
    *b = (struct conf_backend){
        .name = name, .url = "http://127.0.0.1:1/v1", .in_flight = CONF_UNLIMITED, .price_factor = FACTOR_ONE};
    b->keys = h->keys[nth];
    b->n_keys = n_keys;
    b->models = h->models[nth];
    for (size_t k = 0; k < n_keys; k++) {
        char text[16];
        snprintf(text, sizeof text, "key%zu", k + 1);
        b->keys[k] = (struct conf_upstream_key){.name = xstrdup(text), .value = "secret", .weight = 1};
    }
    return b;
}

struct conf_target *hand_target(struct hand *h, size_t rung, struct conf_backend *b, const char *model, int weight) {
    assert(rung <= h->alias.n_rungs && rung < HAND_RUNGS);
    struct conf_rung *r = &h->rungs[rung];
    if (rung == h->alias.n_rungs) {
        h->alias.n_rungs++;
        r->targets = h->targets[rung];
        r->only_for = REASON_BIT(REASON_UNAVAILABLE) | REASON_BIT(REASON_RATE_LIMITED) | REASON_BIT(REASON_TIMEOUT) |
                      REASON_BIT(REASON_CONTEXT_WINDOW);
    }
    assert(r->n_targets < HAND_TARGETS);
    struct conf_target *t = &r->targets[r->n_targets++];
    *t = (struct conf_target){.name = model, .backend = b, .model = model, .weight = weight};
    return t;
}

struct conf_model *hand_model(struct hand *h, struct conf_backend *b, const char *model) {
    (void)h;
    struct conf_model *m = &b->models[b->n_models++];
    *m = (struct conf_model){.name = model, .context_tok = -1, .max_output_tok = -1};
    return m;
}

enum err hand_plan(struct hand *h) {
    return routing_plan(h->routing, &h->needs, h->now_us, &h->arena, &h->plan);
}

const struct choice *hand_choice(const struct hand *h, const char *target) {
    for (int i = 0; i < h->plan.n; i++)
        if (strcmp(h->plan.choices[i].target, target) == 0)
            return &h->plan.choices[i];
    return NULL;
}

const char *hand_why_out(const struct hand *h, const char *target) {
    for (int i = 0; i < h->plan.n_excluded; i++)
        if (strcmp(h->plan.excluded[i].target, target) == 0)
            return h->plan.excluded[i].why;
    return "";
}

void hand_learn(struct hand *h, const struct choice *c, enum outcome o, int64_t retry_after_us) {
    struct lesson lesson = {.outcome = o, .retry_after_us = retry_after_us};
    routing_learn(h->routing, &h->conf, c, &lesson, h->now_us);
}
