/* The twin on a device, on one that is emulated: its numbers beside the plain twin's, its bits in company and alone, and what
 * happens when the device fails. Tolerances are shares of a row's largest logit: what goes into products is rounded to the
 * weights' type on a device, and to nothing on the CPU. */
#include "tests/support/fake_device.h"
#include "tests/support/random_adapter.h"
#include "tests/support/random_model.h"
#include "tests/support/twin_rig.h"

#include <math.h>
#include <stdlib.h>

#define TOLERANCE_F32 2e-5
#define TOLERANCE_F16 4e-3
#define TOLERANCE_BF16 3e-2

static struct model *opened(const struct random_model *m) {
    struct str why;
    str_init(&why, 2000);
    struct model *got = model_open(m->directory, "auto", &why);
    cr_assert(got, "%s", why.n ? why.at : "");
    str_fini(&why);
    return got;
}

static double tolerance_of(const char *dtype) {
    return strcmp(dtype, "F32") == 0 ? TOLERANCE_F32 : strcmp(dtype, "F16") == 0 ? TOLERANCE_F16 : TOLERANCE_BF16;
}

/* The largest difference, as a share of its row's largest number. */
static double distance(const float *a, const float *b, size_t rows, size_t n) {
    double worst = 0;
    for (size_t r = 0; r < rows; r++) {
        double most = 0, off = 0;
        for (size_t i = 0; i < n; i++) {
            most = fmax(most, fabs((double)a[r * n + i]));
            off = fmax(off, fabs((double)a[r * n + i] - (double)b[r * n + i]));
            if (!isfinite(b[r * n + i]))
                return INFINITY;
        }
        worst = fmax(worst, off / most);
    }
    return worst;
}

static const struct model_shape shapes[] = {
    {24, 40, 2, 6, 2, 10, 281, 640, true, "F32", 1},
    {32, 56, 2, 4, 4, 8, 283, 640, false, "F16", 2},
    {40, 48, 1, 9, 1, 20, 280, 640, false, "BF16", 3},
};
static const struct model_kind kinds[] = {
    {.type = "llama", .architecture = "LlamaForCausalLM"},
    {.type = "llama", .architecture = "LlamaForCausalLM", .qkv_bias = true, .o_bias = true, .mlp_bias = true},
    {.type = "mistral", .architecture = "MistralForCausalLM", .window = 7, .more = ",\"sliding_window\":7"},
    {.type = "qwen3", .architecture = "Qwen3ForCausalLM", .qk_norm = true},
};

struct company {
    struct random_adapter files[RIG_SLOTS];
    struct adapter *adapters[RIG_SLOTS];
};

static void adapters_make(struct company *c, const struct random_model *m, const struct model *model) {
    static const struct adapter_kind kind[RIG_SLOTS] = {
        {.rank = 4, .alpha = 8, .dtype = "F32", .seed = 21},
        {.rank = 9, .alpha = 9, .dtype = "F16", .seed = 23, .rslora = true, .only = "q_proj,v_proj,down_proj"},
        {.rank = 3, .alpha = 6, .dtype = "F32", .seed = 24, .dora = true},
        {.rank = 17, .alpha = 6, .dtype = "BF16", .seed = 25, .only = "lm_head,embed_tokens"},
    };
    struct str why;
    str_init(&why, 2000);
    for (int i = 0; i < RIG_SLOTS; i++) {
        random_adapter_write(&c->files[i], m, &kind[i], NULL);
        c->adapters[i] = adapter_open(c->files[i].files.directory, NULL, model, RIG_RANK_MAX, &why);
        cr_assert(c->adapters[i], "%s", why.n ? why.at : "");
    }
    str_fini(&why);
}

static void adapters_free(struct company *c) {
    for (int i = 0; i < RIG_SLOTS; i++) {
        adapter_close(c->adapters[i]);
        random_adapter_remove(&c->files[i]);
    }
}

/* Sequences 0, 3 and 6 are the base's. */
static void adapters_place(struct twin_rig *r, const struct company *c) {
    for (int s = 0; s < RIG_SEQUENCES; s++)
        r->slots[s] = s % 3 ? (s * 5 + s / 3) % RIG_SLOTS : -1;
    for (int i = 0; i < RIG_SLOTS; i++)
        cr_assert(r->ops->place(r->compute, i, c->adapters[i]));
}

static float *all_of(const struct model *model, const struct compute_ops *ops, const struct company *c, int length,
                     int decoded, bool alone) {
    struct twin_rig *r = malloc(sizeof *r);
    rig_open(r, model, ops, 1, length);
    if (c)
        adapters_place(r, c);
    float *all = rig_all(r, length, decoded, alone);
    rig_close(r);
    free(r);
    return all;
}

static void twins_agree(const struct model_shape *shape, const struct model_kind *kind, int length) {
    struct random_model m;
    struct company c;
    size_t n = (size_t)shape->vocabulary, rows = RIG_SEQUENCES * (size_t)length;
    random_model_write_kind(&m, shape, kind);
    struct model *model = opened(&m);
    adapters_make(&c, &m, model);
    float *want = all_of(model, &compute_plain, &c, length, length / 3, false);
    float *got = all_of(model, &compute_cuda, &c, length, length / 3, false);
    double off = distance(want, got, rows, n);
    cr_expect(off <= tolerance_of(shape->dtype), "%s %s: off by %g", kind->type, shape->dtype, off);
    free(want);
    free(got);
    adapters_free(&c);
    model_close(model);
    random_model_remove(&m);
}

Test(compute_cuda, numbers_are_the_plain_twins_with_adapters_and_without) {
    fake_device()->seed = 7;
    for (size_t i = 0; i < ARRAY_LEN(shapes); i++)
        twins_agree(&shapes[i], &kinds[0], 12);
}

Test(compute_cuda, families_give_the_plain_twins_numbers) {
    fake_device()->seed = 11;
    for (size_t i = 1; i < ARRAY_LEN(kinds); i++)
        twins_agree(&shapes[0], &kinds[i], 18);
}

/* Ragged steps beside each sequence for itself, over a past of several chunks in blocks of their own and in one. */
Test(compute_cuda, a_rows_bits_do_not_depend_on_its_company_by_the_houses_own_kernels) {
    struct random_model m;
    struct company c;
    const int length = 290;
    fake_device()->seed = 3;
    random_model_write(&m, &(struct model_shape){8, 8, 1, 2, 1, 4, 280, 640, true, "F32", 9});
    struct model *model = opened(&m);
    adapters_make(&c, &m, model);
    struct twin_rig *r = malloc(sizeof *r), *alone = malloc(sizeof *r);
    rig_open(r, model, &compute_cuda, 1, length);
    rig_open(alone, model, &compute_cuda, 1, length);
    adapters_place(r, &c);
    adapters_place(alone, &c);
    for (int s = 0; s < 2; s++)
        rig_add(r, s, 0, length - 30, false);
    cr_assert(rig_run(r));
    for (int at = 0; at < length - 30; at += 100) {
        rig_add(alone, 1, at, at + 100 < length - 30 ? at + 100 : length - 30, false);
        cr_assert(rig_run(alone));
    }
    for (int at = length - 30; at < length - 27; at++) {
        size_t n = (size_t)model->config.vocabulary;
        rig_add(r, 0, at, at + 1, true);
        rig_add(r, 1, at, at + 1, true);
        rig_add(alone, 1, at, at + 1, true);
        cr_assert(rig_run(r) && rig_run(alone));
        cr_expect_arr_eq(r->logits + n, alone->logits, n * sizeof *r->logits, "position %d", at);
    }
    rig_close(r);
    rig_close(alone);
    free(r);
    free(alone);
    adapters_free(&c);
    model_close(model);
    random_model_remove(&m);
}

/* Opens, places, steps; true when everything went well. Calls of the driver up to there in *calls: the rest gives back. */
static bool try_all(const struct model *model, const struct company *c, struct str *why, long *calls) {
    struct compute_limits limits = {32, 8, 8, 8, 1, RIG_SLOTS, RIG_RANK_MAX, 1 << 24};
    struct compute *d = compute_cuda.open(model, &limits, why);
    int32_t id = 3, pos = 0, seq = 0, want = 0, ctx = 1, block = 0;
    const int32_t *tab = &block;
    struct batch_tile tile = {0, 0, 1};
    float *logits = calloc((size_t)model->config.vocabulary, sizeof *logits);
    struct batch b = {.n_tok = 1,
                      .ids = &id,
                      .pos = &pos,
                      .seq = &seq,
                      .n_seq = 1,
                      .ctx_len = &ctx,
                      .block_tab = &tab,
                      .n_want = 1,
                      .want = &want,
                      .tiles = {&tile, 1},
                      .want_tiles = {&tile, 1}};
    bool ok = d && compute_cuda.place(d, 0, c->adapters[0]);
    for (int i = 0; ok && i < 3; i++) /* as it is, recorded, replayed */
        ok = compute_cuda.forward(d, &b, logits);
    *calls = fake_device()->calls;
    ok = ok && compute_cuda.place(d, 0, NULL);
    cr_expect(d || why->n, "not opened, and not a word");
    compute_cuda.close(d);
    free(logits);
    return ok;
}

Test(compute_cuda, any_call_of_the_driver_may_fail_and_everything_is_given_back) {
    struct random_model m;
    struct company c;
    struct str why;
    struct fake_cuda *f = fake_device();
    f->idle = true;
    random_model_write(&m, &shapes[0]);
    struct model *model = opened(&m);
    adapters_make(&c, &m, model);
    str_init(&why, 1000);
    f->fail_status = 2;
    long used = 0, unused;
    cr_assert(try_all(model, &c, &why, &used), "%s", why.n ? why.at : "");
    long calls = f->calls;
    cr_assert(calls > 100 && f->captures == 1 && f->graph_launches == 2);
    cr_expect(f->held == 0 && f->used == 0);
    for (long at = 1; at <= calls; at++) {
        str_clear(&why);
        f->calls = 0;
        f->fail_at = at;
        bool ok = try_all(model, &c, &why, &unused);
        cr_expect_eq(ok, at > used, "call %ld fails and nobody minds", at);
        cr_expect(f->held == 0 && f->used == 0, "call %ld: %ld things and %zu bytes are left", at, f->held, f->used);
    }
    f->fail_at = 0;
    str_fini(&why);
    adapters_free(&c);
    model_close(model);
    random_model_remove(&m);
}

Test(compute_cuda, an_adapter_without_room_on_the_device_is_no_failure) {
    struct random_model m;
    struct company c;
    fake_device()->idle = true;
    random_model_write(&m, &shapes[0]);
    struct model *model = opened(&m);
    adapters_make(&c, &m, model);
    struct twin_rig *r = malloc(sizeof *r);
    rig_open(r, model, &compute_cuda, 1, 32);
    cr_assert(compute_cuda.place(r->compute, 0, c.adapters[0]));
    fake_device()->memory = fake_device()->used + 10;
    cr_expect_not(compute_cuda.place(r->compute, 1, c.adapters[1]));
    rig_add(r, 0, 0, 3, true);
    cr_expect(rig_run(r), "and the device goes on");
    cr_assert(compute_cuda.place(r->compute, 0, NULL));
    cr_expect(compute_cuda.place(r->compute, 1, c.adapters[1]), "room that was given back is room");
    rig_close(r);
    free(r);
    adapters_free(&c);
    model_close(model);
    random_model_remove(&m);
}
