/* Training in small: the loss falls, one thread or two give the same weights bit for bit, an adapter leaves the base
 * alone. */
#include "tests/models/stage.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

static const struct tiny_shape SMALL = {.vocab = 259,
                                        .hidden = 16,
                                        .inter = 16,
                                        .layers = 1,
                                        .heads = 2,
                                        .kv_heads = 1,
                                        .head_dim = 8,
                                        .context = 64,
                                        .eps = 1e-5f,
                                        .theta = 10000};
static struct tiny_pair pairs[2] = {{.question = "a", .answer = "b"}, {.question = "c", .answer = "d"}};
static struct tiny_text text = {pairs, 2};
static struct tiny_bpe bpe;

static void run(struct tiny_params *p, struct tiny_lora *l, int steps, int threads) {
    struct tiny_feed feed;
    tiny_feed_init(&feed, &bpe, &text, 3);
    tiny_stage_run(&(struct tiny_stage){"test", p, l, &feed, steps, threads, 0.01f, 0, 0});
    tiny_feed_fini(&feed);
}

static void fresh(struct tiny_params *p) {
    struct tiny_rng rng = {2};
    tiny_params_init(p, &SMALL);
    tiny_params_randomise(p, &rng);
}

static double loss(const struct tiny_params *p, const struct tiny_lora *l) {
    struct tiny_pair held_out = {.question = "a", .answer = "b", .held_out = true};
    struct tiny_text one = {&held_out, 1};
    return tiny_held_out(p, l, &bpe, &one, false, 1).nats;
}

Test(tiny_stage, the_loss_falls_and_threads_do_not_change_a_bit) {
    struct tiny_params one, two;
    tiny_bpe_init(&bpe);
    fresh(&one), fresh(&two);
    double before = loss(&one, NULL);
    run(&one, NULL, 8, 1);
    run(&two, NULL, 8, 2);
    cr_assert_arr_eq(one.at, two.at, one.n * sizeof *one.at);
    cr_assert_lt(loss(&one, NULL), before - 0.3);
    tiny_params_fini(&one), tiny_params_fini(&two);
    tiny_bpe_fini(&bpe);
}

Test(tiny_stage, an_adapter_learns_and_its_base_stays) {
    struct tiny_params base, kept;
    struct tiny_lora lora;
    struct tiny_rng rng = {4};
    tiny_bpe_init(&bpe);
    fresh(&base), fresh(&kept);
    tiny_lora_init(&lora, &SMALL, 4, 8);
    tiny_lora_randomise(&lora, &SMALL, &rng);
    double before = loss(&base, &lora);
    cr_assert_eq(before, loss(&base, NULL));
    run(&base, &lora, 8, 1);
    cr_assert_arr_eq(base.at, kept.at, kept.n * sizeof *kept.at);
    cr_assert_lt(loss(&base, &lora), before - 0.1);
    tiny_params_fini(&base), tiny_params_fini(&kept);
    tiny_lora_fini(&lora);
    tiny_bpe_fini(&bpe);
}
