/* The numbers: both twins against a judge in double precision, against each other, and against themselves in company. */
#include "backends/decode/compute.h"
#include "tests/support/judge.h"
#include "tests/support/random_model.h"
#include "tests/support/reference_llama.h"

#include <criterion/criterion.h>
#include <stdlib.h>

#define SEQUENCES 8
#define LENGTH 40
#define BLOCKS_A_SEQUENCE 4

static const struct compute_ops *const twins[] = {
    &compute_plain,
#ifdef __x86_64__
    &compute_avx2,
#endif
};

/* A place for batches, with sequence s in blocks of its own, dealt out of order. */
struct bench {
    struct model *model;
    const struct compute_ops *ops;
    struct compute *compute;
    int32_t blocks[SEQUENCES][BLOCKS_A_SEQUENCE];
    struct batch batch;
    int32_t ids[512], pos[512], seq[512], q_start[SEQUENCES + 1], ctx_len[SEQUENCES], want[512];
    const int32_t *block_tab[SEQUENCES];
    float *logits;
};

static void bench_open(struct bench *b, const struct random_model *m, const struct compute_ops *ops, int threads) {
    struct str why;
    str_init(&why, 1000);
    struct compute_limits limits = {64, SEQUENCES * BLOCKS_A_SEQUENCE, 512, 512, threads, 0, 0, 0};
    *b = (struct bench){.ops = ops};
    b->model = model_open(m->directory, "auto", &why);
    cr_assert(b->model, "%s", why.at);
    b->compute = ops->open(b->model, &limits, &why);
    cr_assert(b->compute, "%s", why.at);
    for (int s = 0, used = 0; s < SEQUENCES; s++) {
        for (int i = 0; i < BLOCKS_A_SEQUENCE; i++, used++)
            b->blocks[s][i] = used * 13 % (SEQUENCES * BLOCKS_A_SEQUENCE);
        b->block_tab[s] = b->blocks[s];
    }
    b->batch = (struct batch){0, b->ids,  b->pos,    b->seq,    SEQUENCES, b->q_start, b->ctx_len, b->block_tab,
                              0, b->want, {NULL, 0}, {NULL, 0}, NULL};
    b->logits = calloc(512 * (size_t)m->shape.vocabulary, sizeof *b->logits);
    str_fini(&why);
}

static void bench_close(struct bench *b) {
    b->ops->close(b->compute);
    model_close(b->model);
    free(b->logits);
}

static int32_t token_of(int s, int pos) {
    return (s * 37 + pos * pos * 11 + pos * 5) % RANDOM_MODEL_VOCABULARY_MIN;
}

static void bench_add(struct bench *b, int s, int from, int to) {
    struct batch *t = &b->batch;
    for (int p = from; p < to; p++, t->n_tok++) {
        b->ids[t->n_tok] = token_of(s, p);
        b->pos[t->n_tok] = p;
        b->seq[t->n_tok] = s;
        b->want[t->n_want++] = t->n_tok;
    }
}

static void bench_run(struct bench *b) {
    b->ops->forward(b->compute, &b->batch, b->logits);
    b->batch.n_tok = b->batch.n_want = 0;
}

static const struct model_shape shapes[] = {
    {44, 92, 2, 6, 2, 10, 283, 160, true, "F32", 1},
    {64, 128, 3, 4, 4, 16, 288, 64, false, "F32", 2},
    {72, 96, 2, 4, 1, 40, 281, 64, false, "BF16", 3},
    {40, 60, 2, 2, 2, 20, 290, 64, true, "F16", 4},
};

static void expect_reference(const struct random_model *m) {
    int64_t n = m->shape.vocabulary;
    int32_t ids[LENGTH];
    double *want = calloc(LENGTH * (size_t)n, sizeof *want);
    for (int i = 0; i < LENGTH; i++)
        ids[i] = token_of(3, i);
    reference_logits(m, ids, LENGTH, want);
    for (size_t t = 0; t < ARRAY_LEN(twins); t++) {
        struct bench b;
        if (!twins[t]->usable())
            continue;
        bench_open(&b, m, twins[t], 1);
        bench_add(&b, 3, 0, LENGTH);
        bench_run(&b);
        for (int i = 0; i < LENGTH; i++)
            judge(b.logits + i * n, want + i * n, n, twins[t]->name);
        bench_close(&b);
    }
    free(want);
}

Test(compute, logits_equal_a_reference_in_double_precision) {
    for (size_t k = 0; k < ARRAY_LEN(shapes); k++) {
        struct random_model m;
        random_model_write(&m, &shapes[k]);
        expect_reference(&m);
        random_model_remove(&m);
    }
}

/* What tells families apart: biases, norms of heads, windows that begin inside a block, and stretched positions. */
static const struct model_kind kinds[] = {
    {.type = "llama", .architecture = "LlamaForCausalLM", .qkv_bias = true, .o_bias = true, .mlp_bias = true},
    {.type = "llama", .architecture = "LlamaForCausalLM", .rope = "linear", .factor = 4},
    {.type = "llama", .architecture = "LlamaForCausalLM", .rope = "dynamic", .factor = 4},
    {.type = "llama",
     .architecture = "LlamaForCausalLM",
     .rope = "llama3",
     .factor = 8,
     .low = 1,
     .high = 4,
     .original = 64},
    {.type = "mistral", .architecture = "MistralForCausalLM", .window = 7, .more = ",\"sliding_window\":7"},
    {.type = "mistral", .architecture = "MistralForCausalLM", .more = ",\"sliding_window\":null"},
    {.type = "qwen2",
     .architecture = "Qwen2ForCausalLM",
     .qkv_bias = true,
     .window = 18,
     .window_from = 1,
     .more = ",\"sliding_window\":18,\"use_sliding_window\":true,\"max_window_layers\":1"},
    {.type = "qwen2",
     .architecture = "Qwen2ForCausalLM",
     .qkv_bias = true,
     .rope = "yarn",
     .factor = 4,
     .original = 160,
     .more = ",\"sliding_window\":18,\"use_sliding_window\":false,\"max_window_layers\":1"},
    {.type = "qwen3", .architecture = "Qwen3ForCausalLM", .qk_norm = true},
    {.type = "qwen3",
     .architecture = "Qwen3ForCausalLM",
     .qk_norm = true,
     .window = 20,
     .window_from = 1,
     .more = ",\"sliding_window\":20,\"use_sliding_window\":true,\"max_window_layers\":0,"
             "\"layer_types\":[\"full_attention\",\"sliding_attention\"]"},
};

Test(compute, every_family_equals_the_reference) {
    for (size_t k = 0; k < ARRAY_LEN(kinds); k++) {
        struct random_model m;
        random_model_write_kind(&m, &shape_small, &kinds[k]);
        expect_reference(&m);
        random_model_remove(&m);
    }
}

/* Row by row, what each sequence gives when it is alone, a token at a time, by the plain twin. */
static float *alone(const struct random_model *m) {
    size_t n = (size_t)m->shape.vocabulary;
    float *all = calloc(SEQUENCES * LENGTH * n, sizeof *all);
    struct bench b;
    bench_open(&b, m, &compute_plain, 1);
    for (int s = 0; s < SEQUENCES; s++)
        for (int p = 0; p < LENGTH; p++) {
            bench_add(&b, s, p, p + 1);
            bench_run(&b);
            memcpy(all + ((size_t)s * LENGTH + (size_t)p) * n, b.logits, n * sizeof *all);
        }
    bench_close(&b);
    return all;
}

/* All together, in chunks of uneven length, each sequence at its own pace. Returns rows that differ in any bit. */
static int differences(struct bench *b, const float *want, size_t n) {
    int done[SEQUENCES] = {0}, bad = 0;
    for (int step = 0, left = SEQUENCES; left; step++) {
        int first[SEQUENCES + 1];
        left = 0;
        for (int s = 0; s < SEQUENCES; s++) {
            int chunk = 1 + (s * 7 + step * 3) % 9, to = done[s] + chunk < LENGTH ? done[s] + chunk : LENGTH;
            first[s] = b->batch.n_tok;
            bench_add(b, s, done[s], to);
            done[s] = to;
            left += to < LENGTH;
        }
        first[SEQUENCES] = b->batch.n_tok;
        bench_run(b);
        for (int s = 0; s < SEQUENCES; s++)
            for (int r = first[s]; r < first[s + 1]; r++) {
                size_t p = (size_t)(done[s] - (first[s + 1] - r));
                bad += memcmp(b->logits + (size_t)r * n, want + ((size_t)s * LENGTH + p) * n, n * sizeof *want) != 0;
            }
    }
    return bad;
}

Test(compute, a_row_has_the_same_bits_alone_and_in_company_on_both_twins_and_any_threads) {
    for (size_t k = 0; k < ARRAY_LEN(shapes); k++) {
        struct random_model m;
        random_model_write(&m, &shapes[k]);
        float *want = alone(&m);
        for (size_t t = 0; t < ARRAY_LEN(twins); t++)
            for (int threads = 1; threads <= 3 && twins[t]->usable(); threads += 2) {
                struct bench b;
                bench_open(&b, &m, twins[t], threads);
                cr_expect_eq(differences(&b, want, (size_t)shapes[k].vocabulary), 0, "%s, %d threads, shape %zu",
                             twins[t]->name, threads, k);
                bench_close(&b);
            }
        free(want);
        random_model_remove(&m);
    }
}

Test(compute, a_device_that_is_not_there_is_refused_by_name) {
    struct str why;
    str_init(&why, 1000);
    cr_expect(compute_pick("auto", &why) && compute_pick("cpu", &why) && why.n == 0);
    cr_expect_null(compute_pick("gpu0", &why));
    cr_expect_str_eq(why.at, "device: must be auto, cpu or cuda, not gpu0");
    str_fini(&why);
}
