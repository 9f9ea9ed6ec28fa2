/* The whole model's gradient against central differences: a few elements of every tensor, of base and adapter. */
#include "tests/models/tiny.h"

#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

static const struct tiny_shape SMALL = {.vocab = 24,
                                        .hidden = 16,
                                        .inter = 40,
                                        .layers = 2,
                                        .heads = 4,
                                        .kv_heads = 2,
                                        .head_dim = 8,
                                        .context = 64,
                                        .eps = 1e-5f,
                                        .theta = 10000};

static struct tiny_params p, dp;
static struct tiny_lora lora, dlora;
static struct tiny_work work;
static struct tiny_batch batch;

static void setup(void) {
    struct tiny_rng rng = {3};
    tiny_params_init(&p, &SMALL), tiny_params_init(&dp, &SMALL);
    tiny_lora_init(&lora, &SMALL, 4, 8), tiny_lora_init(&dlora, &SMALL, 4, 8);
    tiny_params_randomise(&p, &rng);
    for (size_t i = 0; i < p.n; i++)
        p.at[i] += 0.1f * tiny_rng_normal(&rng);
    for (size_t i = 0; i < lora.n; i++)
        lora.at[i] = 0.2f * tiny_rng_normal(&rng);
    tiny_work_init(&work, &SMALL);
    batch.rows = 11;
    for (int r = 0; r < batch.rows; r++) {
        batch.token[r] = tiny_rng_below(&rng, SMALL.vocab);
        batch.target[r] = tiny_rng_below(&rng, SMALL.vocab);
        batch.start[r] = r < 5 ? 0 : 5;
        batch.weight[r] = r % 4 == 3 ? 0 : 1.0f + (float)(r % 2);
    }
}

static void teardown(void) {
    tiny_params_fini(&p), tiny_params_fini(&dp);
    tiny_lora_fini(&lora), tiny_lora_fini(&dlora);
    tiny_work_fini(&work);
}

static double loss(void) {
    work.rng.state = 9; /* what is dropped is the same each time */
    tiny_forward(&work, &p, &lora, &batch);
    return tiny_loss(&work, &p, &batch, 1);
}

static void check(const char *what, float *at, const float *grad, size_t n) {
    for (size_t i = 0; i < n; i += n / 3 ? n / 3 : 1) {
        float kept = at[i], step = 8e-3f;
        at[i] = kept + step;
        double up = loss();
        at[i] = kept - step;
        double down = loss();
        at[i] = kept;
        double slope = (up - down) / (2 * step);
        cr_assert_lt(fabs(slope - grad[i]), 1e-2 * (0.3 + fabs(slope)), "%s[%zu]: %g, not %g", what, i, slope, grad[i]);
    }
}

static void check_all(void) {
    memset(dp.at, 0, dp.n * sizeof *dp.at), memset(dlora.at, 0, dlora.n * sizeof *dlora.at);
    loss();
    tiny_backward(&work, &p, &lora, &batch, &dp, &dlora);
    check("embed", p.embed, dp.embed, (size_t)SMALL.vocab * SMALL.hidden);
    check("last norm", p.norm_last, dp.norm_last, SMALL.hidden);
    for (int i = 0; i < SMALL.layers; i++) {
        check("attention norm", p.norm[i][0], dp.norm[i][0], SMALL.hidden);
        check("mlp norm", p.norm[i][1], dp.norm[i][1], SMALL.hidden);
        for (int k = 0; k < TINY_LINEARS; k++) {
            int out, in;
            tiny_linear_size(&SMALL, k, &out, &in);
            check("linear", p.linear[i][k], dp.linear[i][k], (size_t)out * in);
            check("lora a", lora.a[i][k], dlora.a[i][k], (size_t)lora.rank * in);
            check("lora b", lora.b[i][k], dlora.b[i][k], (size_t)lora.rank * out);
        }
    }
}

Test(tiny_walk, the_gradient_of_every_tensor_is_the_slope_of_the_loss, .init = setup, .fini = teardown) {
    check_all();
}

Test(tiny_walk, the_gradient_knows_what_was_dropped, .init = setup, .fini = teardown) {
    double whole = loss();
    work.drop = 0.3f;
    cr_assert_neq(loss(), whole);
    check_all();
}

Test(tiny_walk, a_fresh_adapter_changes_nothing, .init = setup, .fini = teardown) {
    memset(lora.at, 0, lora.n * sizeof *lora.at);
    struct tiny_rng rng = {5};
    tiny_lora_randomise(&lora, &SMALL, &rng);
    double with = loss();
    tiny_forward(&work, &p, NULL, &batch);
    cr_assert_eq(with, tiny_loss(&work, &p, &batch, 1));
    cr_assert_neq(lora.at[0], 0);
}

Test(tiny_walk, a_row_does_not_see_the_rows_behind_it, .init = setup, .fini = teardown) {
    float before[24];
    tiny_forward(&work, &p, NULL, &batch);
    memcpy(before, work.logits + 7 * SMALL.vocab, sizeof before);
    batch.token[8] = (batch.token[8] + 1) % SMALL.vocab;
    tiny_forward(&work, &p, NULL, &batch);
    cr_assert_arr_eq(before, work.logits + 7 * SMALL.vocab, sizeof before);
}
