/* One stage of training: base or adapter. Each step fills TINY_SHARDS shards, walks them (on threads or one after
 * another: the sums are the same), adds their gradients in the order of shards and lets the optimiser step once. */
#include "tests/models/stage.h"

#include "gateway/base/mem.h"

#include <assert.h>
#include <pthread.h>
#include <stdlib.h>

struct shard {
    const struct tiny_stage *stage;
    struct tiny_work work;
    struct tiny_batch batch;
    struct tiny_params dp; /* at == NULL: the base is frozen */
    struct tiny_lora dlora;
    float scale;
    double loss;
};

static void *shard_walk(void *at) {
    struct shard *s = at;
    const struct tiny_stage *stage = s->stage;
    tiny_forward(&s->work, stage->params, stage->lora, &s->batch);
    s->loss = tiny_loss(&s->work, stage->params, &s->batch, s->scale);
    tiny_backward(&s->work, stage->params, stage->lora, &s->batch, stage->lora ? NULL : &s->dp,
                  stage->lora ? &s->dlora : NULL);
    return NULL;
}

static void shard_init(struct shard *s, const struct tiny_stage *stage) {
    s->stage = stage;
    tiny_work_init(&s->work, &stage->params->shape);
    s->work.drop = stage->drop;
    s->work.rng.state = tiny_rng_next(&stage->feed->rng);
    if (stage->lora)
        tiny_lora_init(&s->dlora, &stage->params->shape, stage->lora->rank, 1);
    else
        tiny_params_init(&s->dp, &stage->params->shape);
}

static void shard_fini(struct shard *s) {
    tiny_work_fini(&s->work);
    tiny_params_fini(&s->dp);
    tiny_lora_fini(&s->dlora);
}

static double total_weight(const struct shard *shards) {
    double sum = 0;
    for (int i = 0; i < TINY_SHARDS; i++)
        for (int r = 0; r < shards[i].batch.rows; r++)
            sum += shards[i].batch.weight[r];
    return sum;
}

static void walk_all(struct shard *shards, int threads) {
    pthread_t thread[TINY_SHARDS];
    for (int i = 0; i < TINY_SHARDS; i++)
        if (threads == 1)
            shard_walk(&shards[i]);
        else if (pthread_create(&thread[i], NULL, shard_walk, &shards[i]))
            assert(!"no thread to be had");
    for (int i = 0; i < TINY_SHARDS && threads > 1; i++)
        pthread_join(thread[i], NULL);
}

static float *gradient(struct shard *s) {
    return s->stage->lora ? s->dlora.at : s->dp.at;
}

static void add_gradients(struct shard *shards, size_t n) {
    float *sum = gradient(&shards[0]);
    for (int i = 1; i < TINY_SHARDS; i++) {
        float *more = gradient(&shards[i]);
        for (size_t k = 0; k < n; k++) {
            sum[k] += more[k];
            more[k] = 0;
        }
    }
}

static double step(struct shard *shards, const struct tiny_stage *stage) {
    for (int i = 0; i < TINY_SHARDS; i++)
        tiny_feed_fill(stage->feed, &shards[i].batch);
    double total = total_weight(shards), loss = 0;
    for (int i = 0; i < TINY_SHARDS; i++)
        shards[i].scale = (float)(1 / total);
    walk_all(shards, stage->threads);
    for (int i = 0; i < TINY_SHARDS; i++)
        loss += shards[i].loss / total;
    return loss;
}

#define REPORT_EVERY 100

void tiny_stage_run(const struct tiny_stage *stage) {
    struct shard *shards = xcalloc(TINY_SHARDS, sizeof *shards);
    size_t n = stage->lora ? stage->lora->n : stage->params->n;
    float *at = stage->lora ? stage->lora->at : stage->params->at;
    struct tiny_adamw optimiser;
    tiny_adamw_init(&optimiser, n, stage->lora ? n : stage->params->n_decay, stage->decay);
    for (int i = 0; i < TINY_SHARDS; i++)
        shard_init(&shards[i], stage);
    double mean = 0;
    for (int i = 0; i < stage->steps; i++) {
        double loss = step(shards, stage);
        mean = i ? 0.98 * mean + 0.02 * loss : loss;
        add_gradients(shards, n);
        tiny_adamw_step(&optimiser, at, gradient(&shards[0]), tiny_rate(i, stage->steps, stage->rate));
        if ((i + 1) % REPORT_EVERY == 0)
            printf("%s: step %d of %d, loss %.3f\n", stage->name, i + 1, stage->steps, mean), fflush(stdout);
    }
    for (int i = 0; i < TINY_SHARDS; i++)
        shard_fini(&shards[i]);
    free(shards);
    tiny_adamw_fini(&optimiser);
}
