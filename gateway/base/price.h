/* What a model costs, and the one function that turns usage into money: a hold and a settle both use it.
 *
 * A row has a price a line; bands over it for service tiers (flex, batch, priority) and for whole requests whose input is
 * longer than an edge; factors of a tier and of a named region on everything but fees; and the backend's factor on all.
 *
 * What a row does not say is never free:
 *
 *     line that is not said          is priced as
 *     cache_write_5m, _1h            1.25 and 2 times `in`
 *     cache_read_audio               `in_audio`
 *     other tokens in, tokens out    `in`, `out` (and those two as the row's dearest line)
 *     image, second, character       IMAGE_TOK of `out_image`, SECOND_TOK of `in_audio`, one token of `in`
 *     a picture given                nothing more: its tokens are counted
 *     search, session                the dearest fee that is published (FEE_...)
 *     any line of a band             as below the band, raised in the proportion in which its side rises there
 *     tier and edge together         the dearer of the two
 *     priority, fast                 PRIORITY_FACTOR, FAST_FACTOR times the row
 *     a named region                 REGION_FACTOR times the row */
#ifndef TOLLGATE_BASE_PRICE_H
#define TOLLGATE_BASE_PRICE_H

#include "gateway/base/money.h"
#include "gateway/base/usage.h"

#define PRICE_LINES(X) USAGE_LINES(X) X(reasoning)
enum price_line {
#define X(name) LINE_##name,
    PRICE_LINES(X)
#undef X
        LINE_N
};
extern const char *const price_line_names[LINE_N];

#define PRICE_IMAGE_TOK INT64_C(14400)                /* the largest picture at full detail */
#define PRICE_SECOND_TOK INT64_C(32)                  /* of sound */
#define PRICE_FEE_WEB_SEARCH INT64_C(50000000000)     /* 50 USD/1K: OpenAI's search previews at high context */
#define PRICE_FEE_FILE_SEARCH INT64_C(2500000000)     /* 2.50 USD/1K */
#define PRICE_FEE_CODE_SESSION INT64_C(1920000000000) /* 1.92 USD: OpenAI's container of 64 GB */
#define PRICE_PRIORITY_FACTOR (FACTOR_ONE * 5 / 2)
#define PRICE_FAST_FACTOR (FACTOR_ONE * 6)
#define PRICE_REGION_FACTOR (FACTOR_ONE * 11 / 10)
#define PRICE_BANDS_MAX 24 /* of one row; the public table has up to 8 */

/* Prices that hold instead of a row's own where the input is longer than above_tok and the call was served in `tier`. */
struct price_band {
    int64_t above_tok;    /* 0: whatever its length */
    enum usage_tier tier; /* TIER_STANDARD: of an edge alone */
    int64_t each[LINE_N]; /* pico-dollars a unit; -1: not said */
};

/* One model's prices in pico-dollars a unit; -1: unknown. One member a priced line of struct usage, by the same name. */
struct price {
    union {
        struct {
#define X(name) int64_t name;
            PRICE_LINES(X)
#undef X
        };
        int64_t each[LINE_N]; /* by enum price_line */
    };
    int64_t call;                   /* a fee per call, pico-dollars; 0 if none */
    int64_t factor;                 /* over FACTOR_ONE: the backend's price_factor */
    int64_t tier_factor[TIER_N];    /* over FACTOR_ONE; 0: not said */
    int64_t region_factor;          /* the same, for answers from a named region */
    const struct price_band *bands; /* ascending by edge; owned by the conf; NULL: none */
    size_t n_bands;
    unsigned unasked_tiers; /* bits of tiers that a call may get which names none; standard is always among them */
    bool known;             /* false: no row: refuse where a budget applies */
    bool free;              /* every line is explicitly 0 */
    bool visible_output;    /* all output that is charged is shown: no hidden reasoning */
    char digest[17];        /* first 16 hex of SHA-256 over the row's canonical text: names the row in audit records */
    const char *source;     /* where the row came from; owned by the conf; may be NULL */
    const char *from;       /* effective_from; owned by the conf; may be NULL */
    int64_t from_us;        /* the same as an instant; 0: always */
};

/* The prices in force for a call of that tier and input: all lines, none unknown. Factors are not in them. */
void price_resolve(const struct price *p, enum usage_tier tier, int64_t in_tok, int64_t each[LINE_N]);

/* Exact cost in nano-dollars, rounded up once; INT64_MAX on overflow. */
int64_t price_cost(const struct price *p, const struct usage *u);
/* The same over several tries of one request: one rounding over the whole sum. */
struct price_use {
    const struct price *price; /* borrowed */
    const struct usage *usage; /* borrowed */
};
int64_t price_cost_sum(const struct price_use *uses, size_t n);
/* The same before rounding, in pico-dollars as a decimal string, for the audit record of one try. */
#define PICO_TEXT_MAX 64
char *price_pico_text(const struct price *p, const struct usage *u, char out[PICO_TEXT_MAX]);

#endif
