/* One stage of training: the base (lora NULL), or an adapter on a frozen base. */
#ifndef TOLLGATE_TESTS_MODELS_STAGE_H
#define TOLLGATE_TESTS_MODELS_STAGE_H

#include "tests/models/tiny.h"

struct tiny_stage {
    const char *name;
    struct tiny_params *params;
    struct tiny_lora *lora; /* may be NULL */
    struct tiny_feed *feed;
    int steps, threads; /* threads: 1 or TINY_SHARDS */
    float rate, decay, drop;
};
void tiny_stage_run(const struct tiny_stage *stage);

#endif
