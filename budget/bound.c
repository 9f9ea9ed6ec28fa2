/* How large a call can be before anyone has counted its tokens. Always true here: a bound is never below what an honest
 * provider reports (a token is at least one byte of text; the dearest line that may apply prices each side), an
 * expectation is only a guess, and sums that do not fit stay at the largest number. */
#include "budget/budget.h"

#include <stdio.h>

/* Worst case, in tokens. */
#define BOUND_CALL_TOK 64         /* templates around the whole call, the start of the reply */
#define BOUND_MESSAGE_TOK 16      /* role words and separators of one message */
#define BOUND_TOOL_TOK 64         /* wrapping of one tool besides its schema's text */
#define BOUND_TOOLS_TOK 600       /* the hidden prompt that comes with any tools */
#define BOUND_IMAGE_TOK 14400     /* the largest picture at full detail */
#define BOUND_DOCUMENT_TOK 300000 /* 100 pages of text and picture */
#define BOUND_AUDIO_S 3600        /* an hour */
#define BOUND_AUDIO_TOK (BOUND_AUDIO_S * PRICE_SECOND_TOK)

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

/* --- money --- */

static const enum price_line in_lines[] = {LINE_in, LINE_cache_read, LINE_cache_write_5m, LINE_cache_write_1h,
                                           LINE_in_image};
static const enum price_line audio_lines[] = {LINE_in_audio, LINE_cache_read_audio};
static const enum price_line out_lines[] = {LINE_out, LINE_reasoning, LINE_out_audio, LINE_out_image};

/* Only Anthropic writes for an hour, and its calls say so; elsewhere such a line counts where a row has a price for it. */
static bool may_be(const struct price *p, const struct call_size *s, enum price_line line) {
    if (line == LINE_cache_write_5m && s->writes_known)
        return s->writes_5m || s->writes_1h;
    if (line == LINE_cache_write_1h)
        return s->writes_known ? s->writes_1h : p->cache_write_1h >= 0;
    return line != LINE_in_image || s->images > 0;
}

static void count_into(struct usage *u, enum price_line line, int64_t n) {
    switch ((int)line) {
#define X(name)                                                                                                        \
    case LINE_##name:                                                                                                  \
        u->name = sum(u->name, n);                                                                                     \
        return;
        USAGE_LINES(X)
#undef X
    default: /* reasoning stands inside out */
        u->out = sum(u->out, n);
        u->reasoning = sum(u->reasoning, n);
    }
}

struct worst {
    const struct price *price;
    const struct call_size *size;
    int64_t each[LINE_N];
};

static enum price_line dearest_of(const struct worst *w, const enum price_line *lines, size_t n, enum price_line best) {
    const int64_t *each = w->each;
    for (size_t i = 0; i < n; i++)
        if (may_be(w->price, w->size, lines[i]) && each[lines[i]] > each[best])
            best = lines[i];
    return best;
}

/* What a call counts besides tokens. Fees are there only where the row prices them, see unbounded(). */
static struct usage counted(const struct price *p, const struct call_size *s) {
    return (struct usage){.images_in = s->images,
                          .images = p->images >= 0 ? s->choices : 0,
                          .seconds = p->seconds >= 0 ? product(s->audios, BOUND_AUDIO_S) : 0,
                          .characters = p->characters >= 0 ? s->text_bytes : 0,
                          .web_search = s->web_searches,
                          .file_search = s->file_searches,
                          .code_session = s->code_sessions};
}

/* The most that usage of that tier costs whose input is at most in_tok: within one band a price is linear, so the dearest
 * line of each side is the worst. */
static int64_t worst_at(const struct price *p, const struct call_size *s, enum usage_tier tier, int64_t in_tok,
                        int64_t out_tok) {
    struct worst w = {.price = p, .size = s};
    struct usage u = counted(p, s);
    int64_t audio = product(s->audios, BOUND_AUDIO_TOK);
    price_resolve(p, tier, in_tok, w.each);
    enum price_line silent = dearest_of(&w, in_lines, ARRAY_LEN(in_lines), LINE_in);
    enum price_line sound = dearest_of(&w, audio_lines, ARRAY_LEN(audio_lines), silent);
    audio = audio < in_tok ? audio : in_tok;
    count_into(&u, silent, in_tok - audio);
    count_into(&u, sound, audio);
    count_into(&u, dearest_of(&w, out_lines, ARRAY_LEN(out_lines), LINE_out), out_tok);
    u.tier = tier;
    u.regional = s->region_asked || (p->region_factor > FACTOR_ONE && !s->region_free);
    return price_cost(p, &u);
}

static int64_t dearer(int64_t a, int64_t b) {
    return a > b ? a : b;
}

/* Over all bands that the call may reach: at its most, and at each edge below that. */
static int64_t worst_of_tier(const struct price *p, const struct call_size *s, enum usage_tier tier, int64_t in_tok,
                             int64_t out_tok) {
    int64_t most = worst_at(p, s, tier, in_tok, out_tok);
    for (size_t i = 0; i < p->n_bands; i++) {
        int64_t edge = p->bands[i].above_tok;
        if (edge > 0 && edge < in_tok)
            most = dearer(most, worst_at(p, s, tier, edge, out_tok));
    }
    return most;
}

static int64_t worst_cost(const struct price *p, const struct call_size *s, int64_t in_tok, int64_t out_tok) {
    unsigned tiers = 1u << TIER_STANDARD | (s->tiers ? s->tiers : p->unasked_tiers);
    int64_t most = 0;
    for (enum usage_tier tier = 0; tier < TIER_N; tier++)
        if (tiers >> tier & 1)
            most = dearer(most, worst_of_tier(p, s, tier, in_tok, out_tok));
    return most;
}

/* Why no amount can be named; NULL when one can. */
static const char *unbounded(const struct price *p, const struct call_size *s, const struct bound *b) {
    if (!p->known)
        return "the model has no price";
    bool counted = p->seconds >= 0 || p->characters >= 0 || p->images >= 0;
    bool gives = p->out >= 0 || p->out_audio >= 0 || p->out_image >= 0;
    if (!counted && (p->in < 0 || (!gives && b->out_tok > 0)))
        return "the model's price row lacks input or output";
    if (s->open[0])
        return s->open;
    if (s->web_searches > 0 && p->web_search < 0)
        return "the model's price row has no web_search, which the call may use";
    if (s->file_searches > 0 && p->file_search < 0)
        return "the model's price row has no file_search, which the call may use";
    if (s->code_sessions > 0 && p->code_session < 0)
        return "the model's price row has no code_session, which the call may use";
    return b->in_tok == INT64_MAX ? "its input has no bound: the model's context is not known" : NULL;
}

/* The provider's own tools let it read everything again, each time up to the model's whole context. */
static int64_t in_tok_of(const struct call_size *s, const struct conf_model *facts) {
    int64_t once = budget_in_bound_tok(s);
    if (s->server_turns <= 0)
        return once;
    if (facts->context_tok < 0 || s->server_turns == INT64_MAX)
        return INT64_MAX;
    return dearer(once, product(s->server_turns + 1, facts->context_tok));
}

static int64_t cost_of(const struct price *price, const struct call_size *size, const struct bound *b) {
    return b->why[0] ? INT64_MAX : worst_cost(price, size, b->in_tok, b->out_tok);
}

void budget_bound(const struct conf *conf, const struct price *price, const struct call_size *size,
                  const struct conf_model *facts, struct bound *out) {
    int64_t each = choice_tok(conf, size->max_output_tok, facts->max_output_tok, &out->output_capped);
    bool endless = size->max_output_tok < 0 && facts->max_output_tok < 0 && size->choices > 0;
    out->in_tok = in_tok_of(size, facts);
    out->out_tok = product(size->choices, each);
    out->full_out_tok = endless ? INT64_MAX : out->out_tok;
    const char *why = price->known && price->free ? NULL : unbounded(price, size, out);
    snprintf(out->why, sizeof out->why, "%s", why ? why : "");
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
