/* One row of the public model_prices_and_context_window.json layout: USD a unit as decimal text, read without a double.
 * The name of a price says all: `<line>[_above_1hr][_above_<N>k_tokens][_priority|_flex|_batches]`. Always true here: every
 * member that speaks of money is either used or noted by name with the reason, and no price is read inexactly in silence. */
#include "conf/price_row.h"

#include "gateway/base/clock.h"

#include <stdio.h>

#define PRICE_SCALE 12 /* USD to pico-dollars */
#define FACTOR_SCALE 4
#define THOUSAND_DIGITS 3

/* In which modes a row's word means our line; elsewhere it is another way to write what tokens cost already. */
enum { MODE_ANY, MODE_SPEECH, MODE_HEARD, MODE_PICTURE };

static const struct word {
    const char *name;
    enum price_line line; /* LINE_N: the fee per call */
    int mode, less;       /* `less`: digits by which it counts a larger unit */
} words[] = {
    {"input_cost_per_token", LINE_in, MODE_ANY, 0},
    {"output_cost_per_token", LINE_out, MODE_ANY, 0},
    {"cache_read_input_token_cost", LINE_cache_read, MODE_ANY, 0},
    {"input_cost_per_token_cache_hit", LINE_cache_read, MODE_ANY, 0},
    {"cache_creation_input_token_cost", LINE_cache_write_5m, MODE_ANY, 0},
    {"input_cost_per_audio_token", LINE_in_audio, MODE_ANY, 0},
    {"cache_read_input_audio_token_cost", LINE_cache_read_audio, MODE_ANY, 0},
    {"input_cost_per_image_token", LINE_in_image, MODE_ANY, 0},
    {"output_cost_per_audio_token", LINE_out_audio, MODE_ANY, 0},
    {"output_cost_per_image_token", LINE_out_image, MODE_ANY, 0},
    {"output_cost_per_reasoning_token", LINE_reasoning, MODE_ANY, 0},
    {"input_cost_per_image", LINE_images_in, MODE_PICTURE, 0},
    {"output_cost_per_image", LINE_images, MODE_ANY, 0},
    {"input_cost_per_second", LINE_seconds, MODE_HEARD, 0},
    {"output_cost_per_second", LINE_seconds, MODE_HEARD, 0},
    {"input_cost_per_character", LINE_characters, MODE_SPEECH, 0},
    {"file_search_cost_per_1k_calls", LINE_file_search, MODE_ANY, THOUSAND_DIGITS},
    {"code_interpreter_cost_per_session", LINE_code_session, MODE_ANY, 0},
    {"input_cost_per_request", LINE_N, MODE_ANY, 0},
    {"input_cost_per_query", LINE_N, MODE_ANY, 0},
};

static const struct {
    const char *suffix;
    enum usage_tier tier;
} tiers[] = {{"_priority", TIER_PRIORITY}, {"_flex", TIER_FLEX}, {"_batches", TIER_BATCH}};

/* Why a member is passed over, by how its name begins; the last stands for all others. */
static const struct {
    const char *begins, *why;
} reasons[] = {
    {"regional_processing_uplift", "no answer says so: set price_factor of the backend at a regional address"},
    {"regional_endpoint_uplift", "no answer says so: set price_factor of the backend at a regional address"},
    {"off_peak", "calls are priced as at the dearest time of the day"},
    {"input_cost_per_image", "pictures given are counted as tokens"},
    {"input_cost_per_character", "text is counted as tokens"},
    {"output_cost_per_character", "text is counted as tokens"},
    {"provider_specific_entry", "no answer says when it applies"},
    {"", "no usage that is read counts it"},
};

static const struct flag {
    const char *name;
    enum cap cap;
} flags[] = {
    {"supports_vision", CAP_VISION},
    {"supports_function_calling", CAP_TOOLS},
    {"supports_response_schema", CAP_JSON_SCHEMA},
    {"supports_audio_input", CAP_AUDIO},
    {"supports_pdf_input", CAP_DOCUMENTS},
};

struct taking {
    struct price_reader *r;
    const char *model;
    struct json row;
    struct conf_price_row *to;
    struct price_band bands[PRICE_BANDS_MAX];
    size_t n_bands;
    bool bad;
};

/* Places are asked for in rising order, more or less: what was counted is not counted again. */
static int line_of(struct price_reader *r, struct span at) {
    if (!r->counted_to || at.at < r->counted_to) {
        r->counted_to = r->bytes.at;
        r->line = 1;
    }
    for (; r->counted_to < at.at; r->counted_to++)
        r->line += *r->counted_to == '\n';
    return r->line;
}

static void note(struct taking *t, enum price_note_kind kind, struct span field, struct json v, const char *why) {
    char name[128];
    snprintf(name, sizeof name, "%.*s", SPAN_ARG(field));
    struct price_note n = {kind, t->model, name, why, line_of(t->r, v.raw)};
    t->bad |= kind == PRICE_BAD;
    t->r->note(t->r->user, &n);
}

/* Numbers stand as numbers; some rows of the public table write them in quotes. */
static struct span number_text(struct json v) {
    if (v.kind == JSON_STRING && v.raw.n >= 2)
        return (struct span){v.raw.at + 1, v.raw.n - 2};
    return v.kind == JSON_NUMBER ? v.raw : SPAN_NONE;
}

static bool take_decimal(struct taking *t, struct span field, struct json v, int scale, int64_t *out) {
    bool inexact = false;
    struct span text = number_text(v);
    if (!text.n || !money_decimal(text, scale, out, &inexact)) {
        note(t, PRICE_BAD, field, v, "must be a decimal of at least 0");
        return false;
    }
    if (inexact)
        note(t, PRICE_INEXACT, field, v, "has digits past a pico-dollar; it is rounded");
    return true;
}

/* --- names --- */

/* "_above_272k_tokens" or "_above_128000_tokens" off the front. */
static bool cut_edge(struct span *rest, int64_t *edge) {
    static const char before[] = "_above_", after[] = "_tokens";
    size_t n = sizeof before - 1, digits = 0;
    struct span s = *rest;
    if (!span_starts(s, before))
        return false;
    s = span_from(s.at + n, s.n - n);
    while (digits < s.n && s.at[digits] >= '0' && s.at[digits] <= '9')
        digits++;
    if (!span_to_i64(span_from(s.at, digits), edge) || *edge <= 0 || *edge > 1000000000)
        return false;
    s = span_from(s.at + digits, s.n - digits);
    if (s.n && *s.at == 'k') {
        *edge *= 1000;
        s = span_from(s.at + 1, s.n - 1);
    }
    if (!span_starts(s, after))
        return false;
    *rest = span_from(s.at + sizeof after - 1, s.n - (sizeof after - 1));
    return true;
}

struct meaning {
    const struct word *word;
    enum price_line line;
    int64_t edge;
    enum usage_tier tier;
};

static bool read_suffixes(struct span rest, struct meaning *m) {
    static const char hour[] = "_above_1hr";
    if (m->line == LINE_cache_write_5m && span_starts(rest, hour)) {
        m->line = LINE_cache_write_1h;
        rest = span_from(rest.at + sizeof hour - 1, rest.n - (sizeof hour - 1));
    }
    (void)cut_edge(&rest, &m->edge);
    for (size_t i = 0; i < ARRAY_LEN(tiers); i++)
        if (span_is(rest, tiers[i].suffix)) {
            m->tier = tiers[i].tier;
            return true;
        }
    return rest.n == 0;
}

static bool read_name(struct span name, struct meaning *m) {
    for (size_t i = 0; i < ARRAY_LEN(words); i++) {
        size_t n = strlen(words[i].name);
        *m = (struct meaning){.word = &words[i], .line = words[i].line};
        if (span_starts(name, words[i].name) && read_suffixes(span_from(name.at + n, name.n - n), m))
            return true;
    }
    return false;
}

static bool fits_mode(const struct taking *t, int mode) {
    static const char *const names[][4] = {[MODE_SPEECH] = {"audio_speech"},
                                           [MODE_HEARD] = {"audio_transcription"},
                                           [MODE_PICTURE] = {"embedding", "image_generation", "image_edit"}};
    struct json said = json_get(t->row, "mode");
    for (size_t i = 0; mode != MODE_ANY && names[mode][i]; i++)
        if (json_is(said, names[mode][i]))
            return true;
    return mode == MODE_ANY;
}

/* --- values --- */

static struct price_band *band_of(struct taking *t, enum usage_tier tier, int64_t edge) {
    for (size_t i = 0; i < t->n_bands; i++)
        if (t->bands[i].tier == tier && t->bands[i].above_tok == edge)
            return &t->bands[i];
    if (t->n_bands == PRICE_BANDS_MAX)
        return NULL;
    struct price_band *b = &t->bands[t->n_bands++];
    *b = (struct price_band){.tier = tier, .above_tok = edge};
    for (size_t i = 0; i < LINE_N; i++)
        b->each[i] = -1;
    return b;
}

static int64_t *place_of(struct taking *t, const struct meaning *m) {
    struct price *p = &t->to->price;
    if (m->line == LINE_N)
        return m->edge || m->tier ? NULL : &p->call;
    if (!m->edge && m->tier == TIER_STANDARD)
        return &p->each[m->line];
    struct price_band *b = band_of(t, m->tier, m->edge);
    return b ? &b->each[m->line] : NULL;
}

static void pass_over(struct taking *t, struct span name, struct json v) {
    size_t i = 0;
    while (!span_starts(name, reasons[i].begins))
        i++;
    note(t, PRICE_UNUSED, name, v, reasons[i].why);
}

/* Two words of one row may mean one line: the dearer counts. */
static void take_price(struct taking *t, struct span name, struct json v, const struct meaning *m) {
    int64_t price, *place;
    if (!take_decimal(t, name, v, PRICE_SCALE - m->word->less, &price))
        return;
    place = fits_mode(t, m->word->mode) ? place_of(t, m) : NULL;
    if (place)
        *place = price > *place ? price : *place;
    else if (price > 0)
        pass_over(t, name, v);
}

/* A search is priced at the dearest size that it may have: usage does not tell which it was. */
static void take_search(struct taking *t, struct span name, struct json v) {
    struct json_walk w;
    struct span size;
    struct json each;
    const struct meaning search = {.word = &words[0], .line = LINE_web_search};
    (void)name;
    json_walk_init(&w, v);
    while (json_walk_next(&w, &size, &each))
        if (each.kind != JSON_NULL)
            take_price(t, size, each, &search);
}

static void take_entry(struct taking *t, struct span name, struct json v) {
    struct price *p = &t->to->price;
    struct json_walk w;
    struct span word;
    struct json each;
    char whole[96];
    json_walk_init(&w, v);
    while (json_walk_next(&w, &word, &each)) {
        int64_t *to = json_name_is(word, "fast") ? &p->tier_factor[TIER_FAST]
                      : json_name_is(word, "us") ? &p->region_factor
                                                 : NULL;
        int n = snprintf(whole, sizeof whole, "%.*s.%.*s", SPAN_ARG(name), (int)(word.n < 40 ? word.n : 40), word.at);
        if (to)
            (void)take_decimal(t, span_from(whole, (size_t)n), each, FACTOR_SCALE, to);
        else
            pass_over(t, span_from(whole, (size_t)n), each);
    }
}

/* [{"range": [0, 32000], "input_cost_per_token": ...}, ...]: the same as edges. */
static void take_ranges(struct taking *t, struct span name, struct json v) {
    struct json_walk ranges, members;
    struct span word;
    struct json range, each;
    json_walk_init(&ranges, v);
    while (json_walk_next(&ranges, NULL, &range)) {
        int64_t edge = -1;
        if (!json_i64(json_at(json_get(range, "range"), 0), &edge) || edge < 0) {
            note(t, PRICE_BAD, name, range, "needs a range, as [0, 32000], in each of its parts");
            return;
        }
        json_walk_init(&members, range);
        while (json_walk_next(&members, &word, &each)) {
            struct meaning m;
            if (json_name_is(word, "range") || each.kind == JSON_NULL || !read_name(word, &m) || m.edge || m.tier)
                continue;
            m.edge = edge;
            take_price(t, word, each, &m);
        }
    }
}

static bool has_word(struct span name, const char *word) {
    return memmem(name.at, name.n, word, strlen(word)) != NULL;
}

static bool speaks_of_money(struct span name) {
    static const char *const parts[] = {"cost", "price", "pricing", "multiplier", "uplift"};
    for (size_t i = 0; i < ARRAY_LEN(parts); i++)
        if (has_word(name, parts[i]))
            return true;
    return false;
}

static const struct {
    const char *name;
    void (*take)(struct taking *t, struct span name, struct json v);
} groups[] = {{"search_context_cost_per_query", take_search},
              {"provider_specific_entry", take_entry},
              {"tiered_pricing", take_ranges}};

static bool is_nothing(struct json v) {
    return v.kind == JSON_NULL || v.kind == JSON_FALSE || json_is_zero(v) ||
           ((v.kind == JSON_OBJECT || v.kind == JSON_ARRAY) && json_count(v) == 0);
}

static void take_member(struct taking *t, struct span name, struct json v) {
    struct meaning m;
    if (v.kind == JSON_NULL)
        return;
    for (size_t i = 0; i < ARRAY_LEN(groups); i++)
        if (json_name_is(name, groups[i].name)) {
            groups[i].take(t, name, v);
            return;
        }
    if (read_name(name, &m))
        take_price(t, name, v, &m);
    else if (speaks_of_money(name) && !is_nothing(v))
        pass_over(t, name, v);
}

/* --- facts --- */

static void take_caps(struct taking *t) {
    for (size_t i = 0; i < ARRAY_LEN(flags); i++) {
        struct json v = json_get(t->row, flags[i].name);
        if (v.kind != JSON_TRUE && v.kind != JSON_FALSE)
            continue;
        t->to->caps_said |= flags[i].cap;
        t->to->caps |= v.kind == JSON_TRUE ? (unsigned)flags[i].cap : 0;
    }
}

static int64_t take_tokens(struct json row, const char *name) {
    int64_t v;
    return json_i64(json_get(row, name), &v) && v > 0 ? v : -1;
}

static const char *text_of(struct taking *t, const char *name) {
    struct span text = json_text(json_get(t->row, name), t->r->arena);
    return text.at && text.n ? arena_strdup(t->r->arena, text) : NULL;
}

static void take_facts(struct taking *t) {
    struct price *p = &t->to->price;
    struct json from = json_get(t->row, "effective_from");
    t->to->context_tok = take_tokens(t->row, "max_input_tokens");
    t->to->max_output_tok = take_tokens(t->row, "max_output_tokens");
    take_caps(t);
    p->visible_output = json_get(t->row, "hidden_output").kind == JSON_FALSE;
    p->source = text_of(t, "source");
    p->from = text_of(t, "effective_from");
    if (!p->source)
        p->source = t->r->path;
    if (p->from && !clock_parse(span_of(p->from), &p->from_us))
        note(t, PRICE_BAD, SPAN("effective_from"), from, "must be a date, as 2026-11-30, or an RFC 3339 time");
}

static bool take_bands(struct taking *t) {
    size_t bytes = t->n_bands * sizeof *t->bands;
    if (!bytes)
        return true;
    struct price_band *bands = arena_alloc(t->r->arena, bytes);
    if (!bands)
        return false;
    memcpy(bands, t->bands, bytes);
    price_bands(&t->to->price, bands, t->n_bands);
    return true;
}

enum price_row_kind price_row_read(struct price_reader *r, const char *model, struct json row,
                                   struct conf_price_row *to) {
    struct taking t = {.r = r, .model = model, .row = row, .to = to};
    struct json_walk w;
    struct span name;
    struct json v;
    *to = (struct conf_price_row){.model = model, .file = r->number, .line = line_of(r, row.raw)};
    price_unsaid(&to->price);
    json_walk_init(&w, row);
    while (json_walk_next(&w, &name, &v))
        take_member(&t, name, v);
    if (json_is(json_get(row, "mode"), "embedding") && to->price.out < 0)
        to->price.out = 0;
    take_facts(&t);
    if (t.bad || !take_bands(&t))
        return PRICE_ROW_BAD;
    price_finish(&to->price);
    return to->price.known ? PRICE_ROW_GOOD : PRICE_ROW_BARE;
}
