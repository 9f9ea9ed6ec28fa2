/* How large a call can be before anyone has counted its tokens. Always true here: a bound is never below what an honest
 * provider reports (a token is at least one byte of text; the dearest line that may apply prices each side), an
 * expectation is only a guess, and sums that do not fit stay at the largest number. */
#include "budget/budget.h"

/* Worst case, in tokens. */
#define BOUND_CALL_TOK 64         /* templates around the whole call, the start of the reply */
#define BOUND_MESSAGE_TOK 16      /* role words and separators of one message */
#define BOUND_TOOL_TOK 64         /* wrapping of one tool besides its schema's text */
#define BOUND_TOOLS_TOK 600       /* the hidden prompt that comes with any tools */
#define BOUND_IMAGE_TOK 14400     /* the largest picture at full detail */
#define BOUND_DOCUMENT_TOK 300000 /* 100 pages of text and picture */
#define BOUND_AUDIO_TOK 115200    /* an hour at 32 tokens a second */

#define FIT_TOK_MAX INT64_C(4294967296) /* where a search for what fits begins: beyond any model's output */

/* Likely, in tokens. */
#define EXPECT_CALL_TOK 3
#define EXPECT_MESSAGE_TOK 4
#define EXPECT_TOOL_TOK 12
#define EXPECT_TOOLS_TOK 350
#define EXPECT_IMAGE_TOK 1100
#define EXPECT_DOCUMENT_TOK 15000 /* ten pages */
#define EXPECT_AUDIO_TOK 1920     /* a minute */
#define EXPECT_BYTES 36           /* bytes of text in ... */
#define EXPECT_BYTES_TOK 10       /* ... so many tokens */

static int64_t sum(int64_t a, int64_t b) {
    int64_t out;
    return __builtin_add_overflow(a, b, &out) ? INT64_MAX : out;
}

/* Nothing that is negative counts. */
static int64_t product(int64_t count, int64_t each) {
    int64_t out;
    if (count <= 0 || each <= 0)
        return 0;
    return __builtin_mul_overflow(count, each, &out) ? INT64_MAX : out;
}

struct weights {
    int64_t call, message, tool, tools, image, document, audio;
};
static const struct weights worst = {BOUND_CALL_TOK,  BOUND_MESSAGE_TOK,  BOUND_TOOL_TOK, BOUND_TOOLS_TOK,
                                     BOUND_IMAGE_TOK, BOUND_DOCUMENT_TOK, BOUND_AUDIO_TOK};
static const struct weights likely = {EXPECT_CALL_TOK,  EXPECT_MESSAGE_TOK,  EXPECT_TOOL_TOK, EXPECT_TOOLS_TOK,
                                      EXPECT_IMAGE_TOK, EXPECT_DOCUMENT_TOK, EXPECT_AUDIO_TOK};

/* All input but sound. A call that is nothing but token ids or a list of texts still pays the call's own weight. */
static int64_t in_tok_silent(const struct call_size *s, const struct weights *w, int64_t text_tok) {
    int64_t tok = sum(w->call, sum(text_tok, s->token_inputs > 0 ? s->token_inputs : 0));
    tok = sum(tok, product(s->messages, w->message));
    tok = sum(tok, sum(product(s->tools, w->tool), s->tools > 0 ? w->tools : 0));
    return sum(tok, sum(product(s->images, w->image), product(s->documents, w->document)));
}

int64_t budget_in_bound_tok(const struct call_size *size) {
    return sum(in_tok_silent(size, &worst, product(size->text_bytes, 1)), product(size->audios, worst.audio));
}

int64_t budget_text_expect_tok(int64_t bytes) {
    if (bytes <= 0)
        return 0;
    int64_t whole = bytes / EXPECT_BYTES * EXPECT_BYTES_TOK, rest = bytes % EXPECT_BYTES * EXPECT_BYTES_TOK;
    return whole + (rest + EXPECT_BYTES - 1) / EXPECT_BYTES;
}

int64_t budget_in_expect_tok(const struct call_size *size) {
    int64_t text = budget_text_expect_tok(size->text_bytes);
    return sum(in_tok_silent(size, &likely, text), product(size->audios, likely.audio));
}

/* Output of one choice. A call that names a maximum is held to it, or to the model's own; one that does not is held for
 * conf's cap, or the model's where that is smaller. */
static int64_t choice_tok(const struct conf *conf, int64_t asked, int64_t model_max, bool *capped) {
    int64_t cap = asked >= 0 ? asked : conf->hold.output_cap_tok;
    *capped = asked < 0;
    if (model_max < 0 || model_max >= cap)
        return cap;
    *capped = true;
    return model_max;
}

static int64_t dearer(int64_t a, int64_t b) {
    return a > b ? a : b;
}

/* The row with each side at its dearest line: input may all be written to a cache, output may all be sound. */
static struct price dearest(const struct price *p) {
    struct price d = *p;
    d.in = dearer(dearer(p->in, p->cache_read), dearer(p->cache_write_5m, p->cache_write_1h));
    d.in_audio = dearer(d.in, p->in_audio);
    d.out = dearer(p->out, p->out_audio);
    return d;
}

static int64_t cost_of(const struct price *price, const struct call_size *size, const struct bound *b) {
    struct price p = dearest(price);
    bool out_unpriced = p.out < 0 && b->out_tok > 0;
    if (!price->known || p.in < 0 || out_unpriced || b->in_tok == INT64_MAX || b->out_tok == INT64_MAX)
        return INT64_MAX;
    int64_t audio = product(size->audios, BOUND_AUDIO_TOK);
    struct usage most = {.in = b->in_tok - audio, .in_audio = audio, .out = b->out_tok};
    return price_cost(&p, &most);
}

void budget_bound(const struct conf *conf, const struct price *price, const struct call_size *size,
                  int64_t model_max_output_tok, struct bound *out) {
    int64_t each = choice_tok(conf, size->max_output_tok, model_max_output_tok, &out->output_capped);
    bool endless = size->max_output_tok < 0 && model_max_output_tok < 0 && size->choices > 0;
    out->in_tok = budget_in_bound_tok(size);
    out->out_tok = product(size->choices, each);
    out->full_out_tok = endless ? INT64_MAX : out->out_tok;
    out->nanousd = cost_of(price, size, out);
}

void budget_bound_move(const struct price *price, const struct call_size *size, int64_t out_tok, struct bound *b) {
    b->out_tok = out_tok < b->full_out_tok ? out_tok : b->full_out_tok;
    b->nanousd = cost_of(price, size, b);
}

void budget_bound_part(const struct conf *conf, const struct price *price, const struct call_size *size,
                       struct bound *b) {
    int64_t part = product(size->choices, conf->hold.output_cap_tok);
    if (part < b->full_out_tok)
        budget_bound_move(price, size, part, b);
}

int64_t budget_fit_tok(const struct price *price, const struct call_size *size, const struct bound *b,
                       int64_t nanousd) {
    struct bound try = *b;
    int64_t low = -1, high = b->full_out_tok < FIT_TOK_MAX ? b->full_out_tok : FIT_TOK_MAX;
    while (low < high) {
        int64_t middle = high - (high - low) / 2;
        try.out_tok = middle;
        if (cost_of(price, size, &try) <= nanousd)
            low = middle;
        else
            high = middle - 1;
    }
    return low;
}
