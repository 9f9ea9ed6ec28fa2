/* The twin on a device, on one that is emulated: its numbers beside the plain twin's, its bits in company and alone, and what
 * happens when the device fails. Tolerances are shares of a row's largest logit: what goes into products is rounded to the
 * weights' type on a device, and to nothing on the CPU. */
#include "tests/support/fake_device.h"
#include "tests/support/random_adapter.h"
#include "tests/support/random_model.h"
#include "tests/support/twin_rig.h"

#include <math.h>
#include <stdio.h>
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
    fprintf(stderr, "%s %s: %g launches %ld graphs %ld\n", kind->type, shape->dtype, off, fake_device()->launches, fake_device()->graph_launches);
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
