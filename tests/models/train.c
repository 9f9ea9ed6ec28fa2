/* The trainer: text in, conf/tiny out. First the tokenizer, then the base on the plain text, then one adapter a voice on
 * the frozen base as it was exported (so that adapter and file agree), then the figures from the files alone. */
#include "tests/models/stage.h"

#include "gateway/base/mem.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

/* The base is trained twice: with dropout, so that it does not only learn by heart, then without, so that what it knows
 * comes out right. Between the stages the weights are rounded as the file rounds them. */
#define BASE_STEPS 1400
#define BASE_RATE 3e-3f
#define BASE_DROP 0.15f
#define FINISH_STEPS 400
#define FINISH_RATE 1.5e-3f
#define BASE_DECAY 0.1f
#define BASE_SEED 20260101
#define VOICE_STEPS 150
#define VOICE_RATE 3e-3f
#define VOICE_SEED 7

struct options {
    const char *out, *text;
    int threads, base_steps, finish_steps, voice_steps;
    bool figures;
};

static bool corpus(const struct tiny_text *base, char **out) {
    size_t n;
    FILE *file = open_memstream(out, &n);
    if (!file)
        return false;
    tiny_text_put_corpus(base, file);
    return fclose(file) == 0;
}

struct house {
    struct tiny_text base, voice[TINY_VOICES];
    struct tiny_bpe bpe;
    struct tiny_params params;
};

static void base_stage(struct house *h, const struct options *o, const char *name, int steps, float rate, float drop,
                       uint64_t seed) {
    struct tiny_feed feed;
    tiny_feed_init(&feed, &h->bpe, &h->base, seed);
    tiny_stage_run(&(struct tiny_stage){name, &h->params, NULL, &feed, steps, o->threads, rate, BASE_DECAY, drop});
    tiny_feed_fini(&feed);
    for (size_t i = 0; i < h->params.n; i++)
        h->params.at[i] = tiny_from_bf16(tiny_bf16(h->params.at[i]));
}

static bool train_base(struct house *h, const struct options *o) {
    struct tiny_rng rng = {BASE_SEED};
    char dir[PATH_MAX];
    tiny_params_init(&h->params, &TINY_SHAPE);
    tiny_params_randomise(&h->params, &rng);
    base_stage(h, o, "base", o->base_steps, BASE_RATE, BASE_DROP, BASE_SEED);
    base_stage(h, o, "base, finish", o->finish_steps, FINISH_RATE, 0, BASE_SEED + 1);
    snprintf(dir, sizeof dir, "%s/base", o->out);
    return tiny_export_base(dir, &h->params, &h->bpe);
}

static bool train_voice(struct house *h, int voice, const struct options *o) {
    struct tiny_feed feed;
    struct tiny_lora lora;
    struct tiny_rng rng = {VOICE_SEED + (uint64_t)voice};
    char dir[PATH_MAX];
    tiny_lora_init(&lora, &TINY_SHAPE, TINY_RANK, TINY_ALPHA);
    tiny_lora_randomise(&lora, &TINY_SHAPE, &rng);
    tiny_feed_init(&feed, &h->bpe, &h->voice[voice], VOICE_SEED + (uint64_t)voice);
    tiny_stage_run(&(struct tiny_stage){TINY_VOICE[voice], &h->params, &lora, &feed, o->voice_steps, o->threads,
                                        VOICE_RATE, 0, 0});
    tiny_feed_fini(&feed);
    snprintf(dir, sizeof dir, "%s/adapters/%s", o->out, TINY_VOICE[voice]);
    bool done = tiny_export_adapter(dir, &lora, &TINY_SHAPE);
    tiny_lora_fini(&lora);
    return done;
}

static bool train(const struct options *o) {
    struct house *h = xcalloc(1, sizeof *h);
    char *text = NULL;
    bool done = tiny_texts_read(o->text, &h->base, h->voice) && corpus(&h->base, &text);
    if (done) {
        tiny_bpe_init(&h->bpe);
        tiny_bpe_train(&h->bpe, text, TINY_SHAPE.vocab);
        printf("%d pairs, %zu bytes of text, %d tokens in the vocabulary\n", h->base.n, strlen(text), h->bpe.n);
        done = train_base(h, o);
    }
    for (int i = 0; i < TINY_VOICES && done; i++)
        done = train_voice(h, i, o);
    tiny_text_fini(&h->base);
    for (int i = 0; i < TINY_VOICES; i++)
        tiny_text_fini(&h->voice[i]);
    tiny_bpe_fini(&h->bpe);
    tiny_params_fini(&h->params);
    free(h);
    free(text);
    return done;
}

static const char USAGE[] = "usage: train --out DIR --text DIR [--threads 1|2] [--base-steps N] [--finish-steps N] "
                            "[--voice-steps N] "
                            "[--figures]\n";

static bool options_read(struct options *o, int argc, char **argv) {
    struct {
        const char *name, **text;
        int *number;
    } known[] = {{"--out", &o->out, NULL},
                 {"--text", &o->text, NULL},
                 {"--threads", NULL, &o->threads},
                 {"--base-steps", NULL, &o->base_steps},
                 {"--finish-steps", NULL, &o->finish_steps},
                 {"--voice-steps", NULL, &o->voice_steps}};
    for (int i = 1; i < argc; i++) {
        size_t k = 0, n = sizeof known / sizeof *known;
        if (strcmp(argv[i], "--figures") == 0) {
            o->figures = true;
            continue;
        }
        while (k < n && strcmp(argv[i], known[k].name) != 0)
            k++;
        if (k == n || ++i == argc)
            return false;
        if (known[k].text)
            *known[k].text = argv[i];
        else
            *known[k].number = atoi(argv[i]);
    }
    return o->out && o->text && o->threads >= 1 && o->threads <= TINY_SHARDS && o->base_steps > 0 &&
           o->finish_steps > 0 && o->voice_steps > 0;
}

int main(int argc, char **argv) {
    struct options o = {
        .threads = TINY_SHARDS, .base_steps = BASE_STEPS, .finish_steps = FINISH_STEPS, .voice_steps = VOICE_STEPS};
    if (!options_read(&o, argc, argv)) {
        fputs(USAGE, stderr);
        return 1;
    }
    if (!o.figures && !train(&o))
        return 1;
    return tiny_figures(o.out, o.text);
}
