/* conf/tiny in the engine itself: the numbers of a judge in double precision, and the answers that were committed, each
 * prompt alone, all ten together, and one among seven others that are not greedy. */
#include "backends/decode/compute.h"
#include "backends/decode/decode.h"
#include "gateway/base/json.h"
#include "gateway/base/mem.h"
#include "tests/models/files.h"
#include "tests/support/judge.h"
#include "tests/support/reference_llama.h"

#include <criterion/criterion.h>
#include <event2/event.h>
#include <stdlib.h>

#define DIR "conf/tiny"
#define BASE DIR "/base"
#define PROMPTS 10
#define OTHERS 7
#define LENGTH 24

struct reader {
    struct decode_run *run;
    struct str text;
    struct decode_piece last;
};

static struct str keep;
static struct json answers;
static struct arena arena;
static struct loop *loop;
static struct decode *engine;
static int live;

static void setup(void) {
    struct decode_options o = {.directory = BASE,
                               .device = "auto",
                               .dtype = "auto",
                               .max_context = 512,
                               .max_sequences = PROMPTS + OTHERS,
                               .threads = 2};
    struct str why;
    str_init(&why, 4000);
    str_init(&keep, TINY_FILE_MAX);
    arena_init(&arena, 1 << 20);
    loop = loop_new();
    engine = decode_open(&o, loop, &why);
    cr_assert(engine, "%s", why.at);
    str_fini(&why);
    cr_assert(tiny_file_json(DIR, "greedy.json", &keep, &answers));
    cr_assert_eq(json_count(answers), PROMPTS);
}

static void teardown(void) {
    decode_close(engine);
    loop_free(loop);
    arena_fini(&arena);
    str_fini(&keep);
}

static void on_ready(void *user) {
    struct reader *r = user;
    struct decode_piece p;
    while (r->run && decode_take(r->run, &p)) {
        str_put(&r->text, p.text);
        r->last = p;
        if (!p.last)
            continue;
        decode_end(r->run);
        r->run = NULL;
        live--;
    }
}

static struct span text_of(size_t i, const char *member) {
    return json_text(json_get(json_at(answers, i), member), &arena);
}

static void start(struct reader *r, size_t i, double temperature) {
    struct decode_message m = {.role = SPAN("user"), .text = text_of(i, "prompt")};
    struct decode_ask ask = {
        .messages = &m, .n_messages = 1, .max_output_tok = 64, .temperature = temperature, .top_p = 1};
    *r = (struct reader){0};
    str_init(&r->text, 1 << 16);
    cr_assert_eq(decode_start(engine, &ask, on_ready, r, &r->run), ERR_NONE);
    live++;
}

static void finish_all(void) {
    while (live)
        event_base_loop(loop_base(loop), EVLOOP_ONCE);
}

static void judge_answer(struct reader *r, size_t i, const char *when) {
    int64_t tokens = 0;
    cr_assert(json_i64(json_get(json_at(answers, i), "tokens"), &tokens));
    cr_expect(span_equal(str_span(&r->text), text_of(i, "answer")), "%s, prompt %zu: %s", when, i, r->text.at);
    cr_expect_str_eq(r->last.finish, "stop");
    cr_expect_eq(r->last.usage.out, tokens, "%s, prompt %zu: %lld tokens", when, i, (long long)r->last.usage.out);
    str_fini(&r->text);
}

Test(tiny_engine, the_committed_answers_come_alone_and_all_together, .init = setup, .fini = teardown) {
    struct reader r[PROMPTS];
    for (size_t i = 0; i < PROMPTS; i++) {
        start(&r[i], i, 0);
        finish_all();
        judge_answer(&r[i], i, "alone");
    }
    for (size_t i = 0; i < PROMPTS; i++)
        start(&r[i], i, 0);
    finish_all();
    for (size_t i = 0; i < PROMPTS; i++)
        judge_answer(&r[i], i, "together");
}

Test(tiny_engine, a_greedy_answer_is_the_same_among_seven_that_are_not, .init = setup, .fini = teardown) {
    struct reader greedy, other[OTHERS];
    for (int i = 0; i < OTHERS; i++)
        start(&other[i], (size_t)(i + 3), 0.5 + i);
    start(&greedy, 1, 0);
    finish_all();
    judge_answer(&greedy, 1, "among others");
    for (int i = 0; i < OTHERS; i++)
        str_fini(&other[i].text);
}

/* --- the numbers --- */

static void take(struct random_model *m, const char *name, const float *vector, const struct tensor *matrix) {
    struct random_tensor *t = &m->tensors[m->n++];
    *t = (struct random_tensor){.rows = vector ? m->shape.hidden : matrix->rows, .cols = vector ? 0 : matrix->cols};
    snprintf(t->name, sizeof t->name, "%s", name);
    int64_t n = t->rows * (t->cols ? t->cols : 1);
    t->at = xcalloc((size_t)n, sizeof *t->at);
    for (int64_t i = 0; i < n; i++)
        t->at[i] = vector ? vector[i] : dtype_get(matrix->at, matrix->dtype, i);
}

static void take_layer(struct random_model *m, const struct layer *l, int64_t i) {
    const struct {
        const char *name;
        const float *vector;
        const struct tensor *matrix;
    } parts[] = {{"input_layernorm", l->attention_norm, NULL},
                 {"post_attention_layernorm", l->mlp_norm, NULL},
                 {"self_attn.q_proj", NULL, &l->q},
                 {"self_attn.k_proj", NULL, &l->k},
                 {"self_attn.v_proj", NULL, &l->v},
                 {"self_attn.o_proj", NULL, &l->o},
                 {"mlp.gate_proj", NULL, &l->gate},
                 {"mlp.up_proj", NULL, &l->up},
                 {"mlp.down_proj", NULL, &l->down}};
    for (size_t k = 0; k < ARRAY_LEN(parts); k++) {
        char name[96];
        snprintf(name, sizeof name, "model.layers.%lld.%s.weight", (long long)i, parts[k].name);
        take(m, name, parts[k].vector, parts[k].matrix);
    }
}

static void reference_of(const struct model *model, struct random_model *m) {
    const struct model_config *c = &model->config;
    *m = (struct random_model){.shape = {c->hidden, c->intermediate, c->layers, c->heads, c->kv_heads, c->head_dim,
                                         c->vocabulary, c->max_positions, c->tied, "BF16", 0}};
    m->tensors = xcalloc((size_t)(9 * c->layers + 2), sizeof *m->tensors);
    take(m, "model.embed_tokens.weight", NULL, &model->embed);
    take(m, "model.norm.weight", model->norm, NULL);
    for (int64_t i = 0; i < c->layers; i++)
        take_layer(m, &model->layers[i], i);
}

static void forward(const struct compute_ops *ops, const struct model *model, int32_t *ids, float *logits) {
    struct str why;
    str_init(&why, 1000);
    int32_t place[LENGTH], seq[LENGTH] = {0}, starts[] = {0, LENGTH}, length[] = {LENGTH}, blocks[] = {1, 0};
    const int32_t *table[] = {blocks};
    for (int i = 0; i < LENGTH; i++)
        place[i] = i;
    struct compute_limits limits = {
        .max_context = LENGTH, .n_blocks = ARRAY_LEN(blocks), .batch_tok = LENGTH, .want_rows = LENGTH, .threads = 2};
    struct batch b = {.n_tok = LENGTH,
                      .ids = ids,
                      .pos = place,
                      .seq = seq,
                      .n_seq = 1,
                      .q_start = starts,
                      .ctx_len = length,
                      .block_tab = table,
                      .n_want = LENGTH,
                      .want = place};
    struct compute *c = ops->open(model, &limits, &why);
    cr_assert(c, "%s", why.at);
    ops->forward(c, &b, logits);
    ops->close(c);
    str_fini(&why);
}

Test(tiny_engine, logits_equal_a_judge_in_double_precision_on_the_shipped_weights) {
    struct str why;
    str_init(&why, 1000);
    struct model *model = model_open(BASE, "auto", &why);
    cr_assert(model, "%s", why.at);
    struct random_model m;
    reference_of(model, &m);
    int64_t n = model->config.vocabulary;
    int32_t ids[LENGTH];
    for (int i = 0; i < LENGTH; i++)
        ids[i] = 3 + (i * i * 31 + i * 7) % ((int)n - 3);
    double *want = xcalloc((size_t)(LENGTH * n), sizeof *want);
    float *got = xcalloc((size_t)(LENGTH * n), sizeof *got);
    reference_logits(&m, ids, LENGTH, want);
    const struct compute_ops *twins[] = {&compute_plain, compute_pick("auto", &why)};
    for (size_t t = 0; t < ARRAY_LEN(twins); t++) {
        forward(twins[t], model, ids, got);
        for (int i = 0; i < LENGTH; i++)
            judge(got + i * n, want + i * n, n, twins[t]->name);
    }
    for (size_t i = 0; i < m.n; i++)
        free(m.tensors[i].at);
    free(m.tensors);
    free(want);
    free(got);
    model_close(model);
    str_fini(&why);
}
