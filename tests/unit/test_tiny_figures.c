/* conf/tiny is what it says: the losses in figures.json and the greedy answers, computed again from the files. */
#include "tests/models/files.h"

#include <criterion/criterion.h>
#include <limits.h>
#include <math.h>

#define DIR "conf/tiny"
#define TEXT "tests/models/text"
#define VOICE_GAIN 0.3 /* nats a token that an adapter must win on its own lines */
#define MARGIN 0.1     /* of the logits at every greedy step, so that roundings do not decide */

static struct tiny_params params;
static struct tiny_bpe bpe;
static struct tiny_text text, voice_text[TINY_VOICES];
static struct str keep;
static struct json figures;

static void setup(void) {
    tiny_params_init(&params, &TINY_SHAPE);
    tiny_bpe_init(&bpe);
    str_init(&keep, TINY_FILE_MAX);
    cr_assert(tiny_texts_read(TEXT, &text, voice_text));
    cr_assert(tiny_import_base(DIR "/base", &params, &bpe));
}

static void teardown(void) {
    tiny_params_fini(&params);
    tiny_bpe_fini(&bpe);
    str_fini(&keep);
    tiny_text_fini(&text);
    for (int i = 0; i < TINY_VOICES; i++)
        tiny_text_fini(&voice_text[i]);
}

static double stated(struct json loss) {
    double nats = NAN;
    cr_assert(json_f64(json_get(loss, "nats_per_token"), &nats));
    return nats;
}

static struct json model_row(const char *name) {
    return json_get(json_get(figures, "held_out_lines"), name);
}

Test(tiny_figures, the_held_out_loss_of_the_base_is_the_one_stated, .init = setup, .fini = teardown) {
    cr_assert(tiny_file_json(DIR, "figures.json", &keep, &figures));
    struct tiny_loss loss = tiny_held_out(&params, NULL, &bpe, &text, false, INT_MAX);
    double wanted = stated(json_get(model_row("base"), "base"));
    cr_assert_lt(fabs(loss.nats - wanted), 0.01 * wanted, "%g, not %g", loss.nats, wanted);
}

Test(tiny_figures, each_adapter_wins_on_its_own_lines_what_is_stated, .init = setup, .fini = teardown) {
    cr_assert(tiny_file_json(DIR, "figures.json", &keep, &figures));
    for (int i = 0; i < TINY_VOICES; i++) {
        const char *mine = TINY_VOICE[i];
        struct tiny_lora lora;
        tiny_lora_init(&lora, &TINY_SHAPE, TINY_RANK, TINY_ALPHA);
        char dir[64];
        snprintf(dir, sizeof dir, DIR "/adapters/%s", mine);
        cr_assert(tiny_import_adapter(dir, &lora, &TINY_SHAPE));
        double own = stated(json_get(model_row(mine), mine));
        struct tiny_loss loss = tiny_held_out(&params, &lora, &bpe, &voice_text[i], false, INT_MAX);
        cr_assert_lt(fabs(loss.nats - own), 0.01 * own, "%s: %g, not %g", mine, loss.nats, own);
        cr_assert_gt(stated(json_get(model_row("base"), mine)) - own, VOICE_GAIN, "%s", mine);
        for (int k = 0; k < TINY_VOICES; k++)
            cr_assert(k == i || stated(json_get(model_row(TINY_VOICE[k]), mine)) - own > VOICE_GAIN, "%s", mine);
        tiny_lora_fini(&lora);
    }
}

Test(tiny_figures, what_base_and_another_adapter_lose_on_a_voice_is_what_is_stated, .init = setup, .fini = teardown) {
    cr_assert(tiny_file_json(DIR, "figures.json", &keep, &figures));
    struct tiny_lora pirate;
    tiny_lora_init(&pirate, &TINY_SHAPE, TINY_RANK, TINY_ALPHA);
    cr_assert(tiny_import_adapter(DIR "/adapters/pirate", &pirate, &TINY_SHAPE));
    double base = stated(json_get(model_row("base"), TINY_VOICE[1]));
    double other = stated(json_get(model_row("pirate"), TINY_VOICE[1]));
    cr_assert_lt(fabs(tiny_held_out(&params, NULL, &bpe, &voice_text[1], false, INT_MAX).nats - base), 0.01 * base);
    cr_assert_lt(fabs(tiny_held_out(&params, &pirate, &bpe, &voice_text[1], false, INT_MAX).nats - other),
                 0.01 * other);
    tiny_lora_fini(&pirate);
}

/* Two of the ten: the engine's tests go through all of them. */
Test(tiny_figures, greedy_answers_are_those_committed_with_a_comfortable_margin, .init = setup, .fini = teardown) {
    struct json all, one;
    struct arena arena;
    arena_init(&arena, 65536);
    cr_assert(tiny_file_json(DIR, "greedy.json", &keep, &all));
    cr_assert_eq(json_count(all), 10);
    for (size_t i = 0; i < 10; i++) {
        double margin = 0;
        one = json_at(all, i);
        cr_assert(json_f64(json_get(one, "smallest_margin"), &margin) && margin > MARGIN, "prompt %zu", i);
        if (i % 5)
            continue;
        static struct tiny_answer answer;
        tiny_greedy(&params, NULL, &bpe, arena_strdup(&arena, json_text(json_get(one, "prompt"), &arena)), &answer);
        cr_assert(json_is(json_get(one, "answer"), answer.text), "%s", answer.text);
        cr_assert(answer.ended);
    }
    arena_fini(&arena);
}
