/* A small conf built by hand: one team with one key, backends, and one alias with a ladder. For tests of the rooms, which
 * take values and need no file. */
#ifndef TOLLGATE_TESTS_HAND_CONF_H
#define TOLLGATE_TESTS_HAND_CONF_H

#include "routing/routing.h"

#define HAND_BACKENDS 8
#define HAND_RUNGS 8
#define HAND_TARGETS 40 /* of one rung */
#define HAND_KEYS 48    /* of one backend */
#define HAND_SECOND INT64_C(1000000)

struct hand {
    struct conf conf;
    struct conf_team team;
    struct conf_key key;
    struct conf_backend backends[HAND_BACKENDS];
    struct conf_upstream_key keys[HAND_BACKENDS][HAND_KEYS];
    struct conf_model models[HAND_BACKENDS][4];
    struct conf_rung rungs[HAND_RUNGS];
    struct conf_target targets[HAND_RUNGS][HAND_TARGETS];
    struct conf_alias alias;
    struct needs needs;
    struct routing *routing;
    struct arena arena;
    struct plan plan;
    int64_t now_us;
};

/* No backends, an alias "smart" without rungs, attempts 4; health as the defaults of the conf. Free with hand_free. */
struct hand *hand_new(uint64_t seed);
void hand_free(struct hand *h);
/* protocol openai, keys "key1", "key2", ... of weight 1. */
struct conf_backend *hand_backend(struct hand *h, const char *name, size_t n_keys);
/* Adds a target to a rung (the next one is made when it is not there, with the default reasons). */
struct conf_target *hand_target(struct hand *h, size_t rung, struct conf_backend *b, const char *model, int weight);
/* What is known of a model of a backend. */
struct conf_model *hand_model(struct hand *h, struct conf_backend *b, const char *model);
/* Plans into h->plan at h->now_us. */
enum err hand_plan(struct hand *h);
/* The first choice for a target, or NULL. */
const struct choice *hand_choice(const struct hand *h, const char *target);
/* The reason in words why a target is out, or "" when it is not. */
const char *hand_why_out(const struct hand *h, const char *target);
void hand_learn(struct hand *h, const struct choice *c, enum outcome o, int64_t retry_after_us);

#endif
