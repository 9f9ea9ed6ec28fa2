/* What a target's tokenizer makes of a text is learnt from what its provider reports: actual over estimated input, in
 * parts per million, by name, so that it outlives every conf. Always true here: a factor stays within fixed bounds, so no
 * provider's number can make an estimate absurd; and a bound never depends on one. */
#include "budget/calibrate.h"

#include <stdlib.h>

#define NAMES_MAX 4096    /* targets of pattern aliases are named by callers: past it nothing new is learnt */
#define EXPECT_TOK_MIN 32 /* below it the constants of a call outweigh its text */
#define WEIGHT_MAX 32     /* a sample is at least a 32nd of the factor, so that a new tokenizer is seen */
#define OUT_TOK 256       /* of an answer, while nobody has seen one */
#define OUT_TOK_MAX 10000000
#define PPM_MIN (CALIBRATION_ONE / 4)
#define PPM_MAX (CALIBRATION_ONE * 4)

__extension__ typedef __int128 wide;

struct seen {
    int64_t ppm, n;         /* n: samples, up to WEIGHT_MAX */
    int64_t out_tok, n_out; /* of a choice; likewise */
};

void calibration_init(struct calibration *c) {
    map_init(&c->by_name);
}

void calibration_fini(struct calibration *c) {
    for (struct map_entry *e = map_next(&c->by_name, NULL); e; e = map_next(&c->by_name, e))
        free(e->value);
    map_fini(&c->by_name);
}

static int64_t within(int64_t v, int64_t least, int64_t most) {
    return v < least ? least : v > most ? most : v;
}

static int64_t times(int64_t tok, int64_t over, int64_t under) {
    wide out = (wide)tok * over / under;
    return out > INT64_MAX ? INT64_MAX : (int64_t)out;
}

/* Only calls whose input is text alone: pictures, sound and what a provider's tools found are no matter of tokenizers. */
static bool teaches(const struct call_size *s, const struct usage *used) {
    return used->reported && !used->estimated && s->images == 0 && s->documents == 0 && s->audios == 0 &&
           s->server_turns == 0 && s->token_inputs == 0 && usage_in_tok(used) > 0 &&
           budget_in_expect_tok(s) >= EXPECT_TOK_MIN;
}

static struct seen *seen_get(struct calibration *c, const char *name) {
    struct seen *s = map_find(&c->by_name, span_of(name));
    if (s || c->by_name.n >= NAMES_MAX)
        return s;
    s = xcalloc(1, sizeof *s);
    s->ppm = CALIBRATION_ONE;
    map_put(&c->by_name, span_of(name), s);
    return s;
}

static void learn_out(struct calibration *c, const char *name, const struct call_size *size, const struct usage *used) {
    bool teaches_out = used->reported && !used->estimated && size->choices > 0;
    struct seen *s = teaches_out ? seen_get(c, name) : NULL;
    if (!s)
        return;
    s->n_out = s->n_out < WEIGHT_MAX ? s->n_out + 1 : WEIGHT_MAX;
    s->out_tok += (within(usage_out_tok(used) / size->choices, 0, OUT_TOK_MAX) - s->out_tok) / s->n_out;
}

int64_t calibration_out_tok(const struct calibration *c, const char *name) {
    const struct seen *s = name ? map_find(&c->by_name, span_of(name)) : NULL;
    return s && s->n_out ? s->out_tok : OUT_TOK;
}

void calibration_learn(struct calibration *c, const char *name, const struct call_size *size,
                       const struct usage *used) {
    learn_out(c, name, size, used);
    struct seen *s = teaches(size, used) ? seen_get(c, name) : NULL;
    if (!s)
        return;
    int64_t ratio = times(usage_in_tok(used), CALIBRATION_ONE, budget_in_expect_tok(size));
    s->n = s->n < WEIGHT_MAX ? s->n + 1 : WEIGHT_MAX;
    s->ppm += (within(ratio, PPM_MIN, PPM_MAX) - s->ppm) / s->n;
}

int64_t calibration_ppm(const struct calibration *c, const char *name) {
    const struct seen *s = name ? map_find(&c->by_name, span_of(name)) : NULL;
    return s ? s->ppm : CALIBRATION_ONE;
}

int64_t budget_calibrated_tok(int64_t tok, int64_t ppm) {
    return tok <= 0 ? 0 : times(tok, ppm, CALIBRATION_ONE);
}
