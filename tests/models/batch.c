/* Dialogues in ChatML as rows of a batch. What a token costs when it is not foreseen stands at the row before it:
 * answers count whole, questions a little (so that the model knows how people ask), roles and system messages nothing. */
#include "tests/models/tiny.h"

#include "gateway/base/mem.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define QUESTION_WEIGHT 0.1f
#define EARLIER_TURN_IN 5 /* one dialogue in so many has a turn before it */
#define SYSTEM_IN 6       /* one in so many begins with a system message */

static const char *const SYSTEMS[] = {
    "You are a helpful assistant.",
    "You are the tiny model of a gateway. Answer briefly.",
    "Answer in one sentence.",
    "You are a helpful assistant inside Tollgate.",
};

#define DIALOGUE_MAX (4 * TINY_SEGMENT_MAX)
struct dialogue {
    const struct tiny_bpe *bpe;
    int n, token[DIALOGUE_MAX];
    float weight[DIALOGUE_MAX]; /* of foreseeing this token */
};

static void put(struct dialogue *d, int token, float weight) {
    assert(d->n < DIALOGUE_MAX);
    d->token[d->n] = token;
    d->weight[d->n++] = weight;
}

static void put_text(struct dialogue *d, const char *text, float weight) {
    int token[DIALOGUE_MAX];
    assert(strlen(text) < DIALOGUE_MAX);
    int n = tiny_bpe_encode(d->bpe, text, strlen(text), token);
    for (int i = 0; i < n; i++)
        put(d, token[i], weight);
}

static void put_role(struct dialogue *d, const char *role) {
    put(d, TINY_IM_START, 0);
    put_text(d, role, 0);
    put_text(d, "\n", 0);
}

static void put_turn(struct dialogue *d, const char *role, const char *text, float weight) {
    put_role(d, role);
    put_text(d, text, weight);
    put(d, TINY_IM_END, weight);
    put_text(d, "\n", 0);
}

/* False when the rows left do not hold it; a dialogue that could never fit is a fault of the text. */
static bool batch_take(struct tiny_batch *b, const struct dialogue *d) {
    int rows = d->n - 1; /* the last token is only foreseen */
    assert(rows <= TINY_SEGMENT_MAX);
    if (b->rows + rows > TINY_ROWS)
        return false;
    for (int i = 0; i < rows; i++) {
        int r = b->rows + i;
        b->token[r] = d->token[i];
        b->target[r] = d->token[i + 1];
        b->weight[r] = d->weight[i + 1];
        b->start[r] = b->rows;
    }
    b->rows += rows;
    b->dialogues++;
    return true;
}

bool tiny_batch_add(struct tiny_batch *b, const struct tiny_bpe *bpe, const struct tiny_pair *pair) {
    struct dialogue d = {.bpe = bpe};
    char question[TINY_QUESTION_MAX];
    tiny_reword(question, pair->question, NULL);
    put_turn(&d, "user", question, 0);
    put_turn(&d, "assistant", pair->answer, 1);
    return batch_take(b, &d);
}

int tiny_prompt(const struct tiny_bpe *bpe, const char *question, int out[TINY_SEGMENT_MAX]) {
    struct dialogue d = {.bpe = bpe};
    put_turn(&d, "user", question, 0);
    put_role(&d, "assistant");
    int n = d.n < TINY_SEGMENT_MAX ? d.n : TINY_SEGMENT_MAX;
    memcpy(out, d.token, n * sizeof *out);
    return n;
}

void tiny_feed_init(struct tiny_feed *f, const struct tiny_bpe *bpe, const struct tiny_text *text, uint64_t seed) {
    *f = (struct tiny_feed){.bpe = bpe, .text = text, .rng = {seed}, .order = xcalloc(text->n, sizeof(int))};
    for (int i = 0; i < text->n; i++)
        if (!text->pairs[i].held_out)
            f->order[f->n++] = i;
    assert(f->n > 0);
}

void tiny_feed_fini(struct tiny_feed *f) {
    free(f->order);
    *f = (struct tiny_feed){0};
}

static void put_pair(struct dialogue *d, struct tiny_feed *f, const struct tiny_pair *pair) {
    char question[TINY_QUESTION_MAX];
    tiny_reword(question, pair->question, &f->rng);
    put_turn(d, "user", question, QUESTION_WEIGHT);
    put_turn(d, "assistant", pair->answer, 1);
}

/* A voice is asked for by its own system message; plain talk begins with one now and then. */
static void put_system(struct dialogue *d, struct tiny_feed *f, const char *system) {
    if (!system && tiny_rng_below(&f->rng, SYSTEM_IN) == 0)
        system = SYSTEMS[tiny_rng_below(&f->rng, sizeof SYSTEMS / sizeof *SYSTEMS)];
    if (system)
        put_turn(d, "system", system, 0);
}

static void put_earlier_turn(struct dialogue *d, struct tiny_feed *f, const char *system) {
    const struct tiny_pair *pair = &f->text->pairs[f->order[tiny_rng_below(&f->rng, f->n)]];
    if (tiny_rng_below(&f->rng, EARLIER_TURN_IN) == 0 && pair->system == system)
        put_pair(d, f, pair);
}

void tiny_feed_fill(struct tiny_feed *f, struct tiny_batch *b) {
    b->rows = b->dialogues = 0;
    for (bool fits = true; fits; f->at += fits) {
        if (f->at % f->n == 0)
            f->at = 0, tiny_rng_shuffle(&f->rng, f->order, f->n);
        const struct tiny_pair *pair = &f->text->pairs[f->order[f->at]];
        struct dialogue d = {.bpe = f->bpe};
        put_system(&d, f, pair->system);
        put_earlier_turn(&d, f, pair->system);
        put_pair(&d, f, pair);
        fits = batch_take(b, &d);
    }
}
