/* From usage to the cost of a call. Always true here: no product wraps (what does not fit becomes INT64_MAX), the sum of a
 * request is rounded once, upwards, and a line that a row does not say is priced by the rules on price.h, never at
 * nothing. */
#include "gateway/base/price.h"

#include <stdio.h>

#define RATIO_ONE 100       /* the rules' proportions are in hundredths */
#define SCALE_DIGITS 12     /* three factors over 10^4 stand in every sum */
#define WIDE_MAX (~(wide)0) /* stands for "too large" in sums of products */
#define WIDE_DIGITS 39      /* decimal digits of WIDE_MAX */

__extension__ typedef unsigned __int128 wide;

const char *const price_line_names[LINE_N] = {
#define X(name) [LINE_##name] = #name,
    PRICE_LINES(X)
#undef X
};

static wide wide_add(wide a, wide b) {
    wide out;
    return __builtin_add_overflow(a, b, &out) ? WIDE_MAX : out;
}

static wide wide_product(wide a, wide b) {
    wide out;
    return __builtin_mul_overflow(a, b, &out) ? WIDE_MAX : out;
}

/* price * over / under, rounded up. */
static int64_t scaled(int64_t price, int64_t over, int64_t under) {
    wide product = wide_product((wide)price, (wide)over);
    wide out = product / (wide)under + (product % (wide)under != 0);
    return out > (wide)INT64_MAX ? INT64_MAX : (int64_t)out;
}

/* --- lines --- */

/* How a line is priced that a row does not say: in proportion to another line that stands before it here, or at a fee.
 * `side`: the line whose rise in a band it follows. */
static const struct rule {
    enum price_line line, side, from;
    int64_t ratio; /* over RATIO_ONE; 0: a fee */
    int64_t fee;
} rules[] = {
    {LINE_cache_read, LINE_in, LINE_in, RATIO_ONE, 0},
    {LINE_cache_write_5m, LINE_in, LINE_in, RATIO_ONE * 5 / 4, 0},
    {LINE_cache_write_1h, LINE_in, LINE_in, RATIO_ONE * 2, 0},
    {LINE_in_audio, LINE_in, LINE_in, RATIO_ONE, 0},
    {LINE_cache_read_audio, LINE_in, LINE_in_audio, RATIO_ONE, 0},
    {LINE_in_image, LINE_in, LINE_in, RATIO_ONE, 0},
    {LINE_out_audio, LINE_out, LINE_out, RATIO_ONE, 0},
    {LINE_out_image, LINE_out, LINE_out, RATIO_ONE, 0},
    {LINE_reasoning, LINE_out, LINE_out, RATIO_ONE, 0},
    {LINE_images_in, LINE_in, LINE_in, 0, 0},
    {LINE_images, LINE_out, LINE_out_image, RATIO_ONE *PRICE_IMAGE_TOK, 0},
    {LINE_seconds, LINE_in, LINE_in_audio, RATIO_ONE *PRICE_SECOND_TOK, 0},
    {LINE_characters, LINE_in, LINE_in, RATIO_ONE, 0},
    {LINE_web_search, LINE_N, LINE_N, 0, PRICE_FEE_WEB_SEARCH},
    {LINE_file_search, LINE_N, LINE_N, 0, PRICE_FEE_FILE_SEARCH},
    {LINE_code_session, LINE_N, LINE_N, 0, PRICE_FEE_CODE_SESSION},
};

static int64_t dearest(const int64_t each[LINE_N]) {
    int64_t most = 0;
    for (size_t i = 0; i < LINE_N; i++)
        most = each[i] > most && i < LINE_images_in ? each[i] : most;
    return most;
}

static void fill(int64_t each[LINE_N]) {
    int64_t most = dearest(each);
    each[LINE_in] = each[LINE_in] < 0 ? most : each[LINE_in];
    each[LINE_out] = each[LINE_out] < 0 ? most : each[LINE_out];
    for (size_t i = 0; i < ARRAY_LEN(rules); i++) {
        const struct rule *r = &rules[i];
        if (each[r->line] < 0)
            each[r->line] = r->ratio ? scaled(each[r->from], r->ratio, RATIO_ONE) : r->fee;
    }
}

static enum price_line side_of(enum price_line line) {
    for (size_t i = 0; i < ARRAY_LEN(rules); i++)
        if (rules[i].line == line)
            return rules[i].side;
    return line;
}

/* --- bands --- */

/* Puts a band over the prices below it. A line that it leaves out rises as its side does, and never falls. */
static void overlay(int64_t each[LINE_N], const struct price_band *b) {
    int64_t below[LINE_N];
    memcpy(below, each, sizeof below);
    for (enum price_line line = 0; line < LINE_N; line++) {
        enum price_line side = side_of(line);
        if (b->each[line] >= 0)
            each[line] = b->each[line];
        else if (below[line] > 0 && side != LINE_N && below[side] > 0 && b->each[side] > below[side])
            each[line] = scaled(below[line], b->each[side], below[side]);
    }
}

/* All bands of a tier that such an input reaches; the highest edge among them, or -1 when there is none. */
static int64_t overlay_tier(const struct price *p, enum usage_tier tier, int64_t in_tok, int64_t each[LINE_N]) {
    int64_t edge = -1;
    for (size_t i = 0; i < p->n_bands; i++) {
        const struct price_band *b = &p->bands[i];
        if (b->tier != tier || (b->above_tok && in_tok <= b->above_tok))
            continue;
        overlay(each, b);
        edge = b->above_tok;
    }
    return edge;
}

static void dearer_of(int64_t each[LINE_N], const int64_t other[LINE_N]) {
    for (size_t i = 0; i < LINE_N; i++)
        each[i] = each[i] > other[i] ? each[i] : other[i];
}

void price_resolve(const struct price *p, enum usage_tier tier, int64_t in_tok, int64_t each[LINE_N]) {
    memcpy(each, p->each, sizeof p->each);
    int64_t edge = p->n_bands ? overlay_tier(p, TIER_STANDARD, in_tok, each) : -1;
    if (p->n_bands && tier != TIER_STANDARD) {
        int64_t of_tier[LINE_N];
        memcpy(of_tier, p->each, sizeof of_tier);
        int64_t tier_edge = overlay_tier(p, tier, in_tok, of_tier);
        if (tier_edge >= 0 && tier_edge >= edge)
            memcpy(each, of_tier, sizeof of_tier);
        else if (tier_edge >= 0)
            dearer_of(each, of_tier);
    }
    fill(each);
}

/* --- cost --- */

static int64_t factor_of_tier(const struct price *p, enum usage_tier tier) {
    static const int64_t unsaid[TIER_N] = {[TIER_PRIORITY] = PRICE_PRIORITY_FACTOR, [TIER_FAST] = PRICE_FAST_FACTOR};
    if (tier == TIER_STANDARD)
        return FACTOR_ONE;
    if (p->tier_factor[tier] > 0)
        return p->tier_factor[tier];
    for (size_t i = 0; i < p->n_bands; i++)
        if (p->bands[i].tier == tier)
            return FACTOR_ONE;
    return unsaid[tier] ? unsaid[tier] : FACTOR_ONE;
}

static int64_t factor_of_region(const struct price *p, const struct usage *u) {
    if (!u->regional)
        return FACTOR_ONE;
    return p->region_factor > 0 ? p->region_factor : PRICE_REGION_FACTOR;
}

static wide line_cost(int64_t count, int64_t price) {
    return count <= 0 ? 0 : wide_product((wide)count, (wide)price);
}

/* Reasoning stands inside out: what is not reasoning has the price of out. */
static wide out_cost(const struct usage *u, const int64_t each[LINE_N]) {
    int64_t out = u->out > 0 ? u->out : 0;
    int64_t thought = u->reasoning < 0 ? 0 : u->reasoning > out ? out : u->reasoning;
    return wide_add(line_cost(out - thought, each[LINE_out]), line_cost(thought, each[LINE_reasoning]));
}

static wide metered_cost(const struct usage *u, const int64_t each[LINE_N]) {
    const int64_t counts[] = {
#define X(name) [LINE_##name] = u->name,
        USAGE_LINES(X)
#undef X
    };
    wide sum = out_cost(u, each);
    for (size_t i = 0; i < LINE_web_search; i++)
        sum = i == LINE_out ? sum : wide_add(sum, line_cost(counts[i], each[i]));
    return sum;
}

static wide fee_cost(const struct price *p, const struct usage *u, const int64_t each[LINE_N]) {
    wide sum = p->call > 0 ? (wide)p->call : 0;
    sum = wide_add(sum, line_cost(u->web_search, each[LINE_web_search]));
    sum = wide_add(sum, line_cost(u->file_search, each[LINE_file_search]));
    return wide_add(sum, line_cost(u->code_session, each[LINE_code_session]));
}

/* In 10^-12 pico-dollars, so that no factor costs a digit; WIDE_MAX when it does not fit. */
static wide cost_scaled(const struct price *p, const struct usage *u) {
    int64_t each[LINE_N];
    if (!p->known || p->free || p->factor <= 0)
        return 0;
    price_resolve(p, u->tier, usage_in_tok(u), each);
    wide factors = (wide)factor_of_tier(p, u->tier) * (wide)factor_of_region(p, u);
    wide metered = wide_product(metered_cost(u, each), factors);
    wide fees = wide_product(fee_cost(p, u, each), (wide)(FACTOR_ONE * FACTOR_ONE));
    return wide_product(wide_add(metered, fees), (wide)p->factor);
}

#define SCALE_ONE ((wide)(FACTOR_ONE * FACTOR_ONE) * (wide)FACTOR_ONE)

int64_t price_cost_sum(const struct price_use *uses, size_t n) {
    const wide unit = SCALE_ONE * (wide)PICO_PER_NANO;
    wide sum = 0;
    for (size_t i = 0; i < n; i++)
        sum = wide_add(sum, cost_scaled(uses[i].price, uses[i].usage));
    wide nano = sum / unit + (sum % unit != 0);
    return sum == WIDE_MAX || nano > (wide)INT64_MAX ? INT64_MAX : (int64_t)nano;
}

int64_t price_cost(const struct price *p, const struct usage *u) {
    return price_cost_sum(&(struct price_use){p, u}, 1);
}

char *price_pico_text(const struct price *p, const struct usage *u, char out[PICO_TEXT_MAX]) {
    wide all = cost_scaled(p, u), whole = all / SCALE_ONE;
    char digits[WIDE_DIGITS + 1], *at = digits + WIDE_DIGITS;
    *at = '\0';
    do
        *--at = (char)('0' + (int)(whole % 10));
    while ((whole /= 10) != 0);
    unsigned long long fraction = (unsigned long long)(all % SCALE_ONE);
    int n = snprintf(out, PICO_TEXT_MAX, fraction ? "%s.%0*llu" : "%s", at, SCALE_DIGITS, fraction);
    while (fraction && out[n - 1] == '0')
        out[--n] = '\0';
    return out;
}
