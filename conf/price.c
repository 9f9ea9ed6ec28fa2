/* Prices as conf writes them, and finding the price of backend/model. A price row never changes once it is made; its
 * digest names it in audit records, so two rows with the same numbers from the same place are the same row. */
#include "conf/directives.h"

#include "gateway/base/clock.h"

#include <stdlib.h>

#define PRICE_TEXT_MAX (32 << 10) /* a row with all its bands */

static void put_each(struct str *out, const int64_t each[LINE_N]) {
    for (size_t i = 0; i < LINE_N; i++)
        str_printf(out, "%s=%lld;", price_line_names[i], (long long)each[i]);
}

void price_digest(struct price *p) {
    struct str text;
    uint8_t digest[SHA256_BYTES];
    char hex[SHA256_HEX_MAX];
    str_init(&text, PRICE_TEXT_MAX);
    put_each(&text, p->each);
    str_printf(&text, "call=%lld;factor=%lld;region=%lld;", (long long)p->call, (long long)p->factor,
               (long long)p->region_factor);
    for (size_t i = 0; i < TIER_N; i++)
        str_printf(&text, "%s=%lld;", usage_tier_names[i], (long long)p->tier_factor[i]);
    for (size_t i = 0; i < p->n_bands; i++) {
        str_printf(&text, "%s>%lld:", usage_tier_names[p->bands[i].tier], (long long)p->bands[i].above_tok);
        put_each(&text, p->bands[i].each);
    }
    str_printf(&text, "source=%.400s;from=%.40s", p->source ? p->source : "", p->from ? p->from : "");
    sha256(str_span(&text), digest);
    memcpy(p->digest, hex_put(digest, SHA256_BYTES, hex), sizeof p->digest - 1);
    p->digest[sizeof p->digest - 1] = 0;
    str_fini(&text);
}

static bool none_above_zero(const int64_t each[LINE_N]) {
    for (size_t i = 0; i < LINE_N; i++)
        if (each[i] > 0)
            return false;
    return true;
}

static bool all_zero(const struct price *p) {
    bool zero = p->call <= 0 && none_above_zero(p->each);
    for (size_t i = 0; i < p->n_bands; i++)
        zero = zero && none_above_zero(p->bands[i].each);
    return zero && p->in == 0 && p->out == 0;
}

static int by_edge(const void *a, const void *b) {
    const struct price_band *x = a, *y = b;
    return x->above_tok == y->above_tok ? (x->tier > y->tier) - (x->tier < y->tier)
                                        : (x->above_tok > y->above_tok) - (x->above_tok < y->above_tok);
}

void price_bands(struct price *p, struct price_band *bands, size_t n) {
    if (n > 1)
        qsort(bands, n, sizeof *bands, by_edge);
    p->bands = bands;
    p->n_bands = n;
}

void price_finish(struct price *p) {
    bool counted = p->seconds >= 0 || p->characters >= 0 || p->images >= 0;
    bool gives = p->out >= 0 || p->out_audio >= 0 || p->out_image >= 0;
    p->factor = FACTOR_ONE;
    p->known = (p->in >= 0 && gives) || counted;
    p->free = all_zero(p);
    price_digest(p);
}

static void lines_unsaid(int64_t each[LINE_N]) {
    for (size_t i = 0; i < LINE_N; i++)
        each[i] = -1;
}

void price_unsaid(struct price *p) {
    *p = (struct price){.factor = FACTOR_ONE};
    lines_unsaid(p->each);
}

/* What is not said is unknown, not free. `base`: where the lines stand in the section's struct. */
static void unsay(const struct section *s, const struct node *n, void *into) {
    for (size_t i = 0; i < s->n; i++)
        if (s->rows[i].type == TYPE_PRICE && !node_get(n, s->rows[i].name) && strcmp(s->rows[i].name, "call") != 0)
            *(int64_t *)(void *)((char *)into + s->rows[i].offset) = -1;
}

void band_done(struct reader *r, const struct node *n, void *into) {
    struct price_band *b = into;
    unsay(&band_section, n, b);
    if (n && b->tier == TIER_STANDARD && b->above_tok == 0)
        problem_at(r->report, n, "a band needs a tier or an edge, as {above: 272000, input: ...}");
}

static void check_bands(struct reader *r, const struct node *n, const struct price *p) {
    if (p->n_bands > PRICE_BANDS_MAX)
        problem_at(r->report, node_get(n, "bands"), "a price has at most %d bands", PRICE_BANDS_MAX);
    for (size_t i = 1; i < p->n_bands; i++)
        if (by_edge(&p->bands[i - 1], &p->bands[i]) == 0)
            problem_at(r->report, node_get(n, "bands"), "two bands have the same tier and edge");
}

void price_done(struct reader *r, const struct node *n, void *into) {
    struct price *p = into;
    char date[CLOCK_TEXT_MAX];
    unsay(&price_section, n, p);
    price_bands(p, (struct price_band *)(uintptr_t)p->bands, p->n_bands);
    if (n)
        check_bands(r, n, p);
    if (p->from_us)
        p->from = tree_printf(&r->conf->arena, "%s", clock_text(p->from_us, date));
    if (n && n->source)
        p->source = n->source->file; /* without the line: moving a row does not make another price of it */
    price_finish(p);
}

bool read_price(struct reader *r, const struct directive *d, const struct node *n, void *into) {
    struct price *p = tree_alloc(&r->conf->arena, sizeof *p);
    read_section(r, &price_section, n, p);
    *(const struct price **)(void *)((char *)into + d->offset) = p;
    return true;
}

static struct conf_price_row *add_rows(struct conf *c, size_t n) {
    struct conf_price_row *all = tree_alloc(&c->arena, (c->n_prices + n) * sizeof *all);
    if (c->n_prices)
        memcpy(all, c->prices, c->n_prices * sizeof *all);
    c->prices = all;
    c->n_prices += n;
    return all + c->n_prices - n;
}

bool read_price_models(struct reader *r, const struct directive *d, const struct node *n, void *into) {
    (void)into;
    if (n->kind != NODE_MAP) {
        problem_at(r->report, n, "%s must be a map of models to prices, not %s", d->name, node_kind_name(n));
        return false;
    }
    struct conf_price_row *rows = add_rows(r->conf, n->n);
    for (size_t i = 0; i < n->n; i++) {
        rows[i] = (struct conf_price_row){.context_tok = -1, .max_output_tok = -1};
        rows[i].model = tree_strdup(&r->conf->arena, n->keys[i]->text);
        read_section(r, &price_section, n->items[i], &rows[i].price);
    }
    return true;
}

bool read_price_unknown(struct reader *r, const struct directive *d, const struct node *n, void *into) {
    struct directive at = {.name = d->name, .offset = offsetof(struct conf, price_default)};
    if (n->kind == NODE_SCALAR && span_is(n->text, "refuse"))
        return true;
    if (n->kind == NODE_MAP)
        return read_price(r, &at, n, into);
    problem_at(r->report, n, "expected refuse or a price, {input: ..., output: ...}");
    return false;
}

/* --- the table --- */

/* By name; conf's rows first, then those of the last file; of one place the newest first. */
static int by_model(const void *a, const void *b) {
    const struct conf_price_row *x = a, *y = b;
    int order = strcmp(x->model, y->model);
    if (order)
        return order;
    if (x->file != y->file)
        return !x->file || (y->file && x->file > y->file) ? -1 : 1;
    return (x->price.from_us < y->price.from_us) - (x->price.from_us > y->price.from_us);
}

void prices_done(struct reader *r, const struct node *n, void *into) {
    struct conf *c = into;
    if (!c->n_prices)
        return;
    qsort(c->prices, c->n_prices, sizeof *c->prices, by_model);
    for (size_t i = 1; i < c->n_prices; i++)
        if (by_model(&c->prices[i - 1], &c->prices[i]) == 0)
            problem_at(r->report, node_get(n, "files"), "a price file has two rows for '%s' from one day",
                       c->prices[i].model);
}

struct wanted {
    struct span before, model; /* "backend" and "model"; before.n == 0: the model alone */
};

static int compare(const struct wanted *w, const char *name) {
    struct span rest = span_of(name);
    if (w->before.n) {
        size_t n = w->before.n < rest.n ? w->before.n : rest.n;
        int order = memcmp(w->before.at, rest.at, n);
        if (order || rest.n <= w->before.n)
            return order ? order : 1;
        if (rest.at[w->before.n] != '/')
            return '/' - (unsigned char)rest.at[w->before.n];
        rest = (struct span){rest.at + w->before.n + 1, rest.n - w->before.n - 1};
    }
    size_t n = w->model.n < rest.n ? w->model.n : rest.n;
    int order = n ? memcmp(w->model.at, rest.at, n) : 0;
    return order ? order : (w->model.n > rest.n) - (w->model.n < rest.n);
}

/* The first row of that name; the others follow it. */
static size_t first_row(const struct conf *c, const struct wanted *w) {
    size_t low = 0, high = c->n_prices;
    while (low < high) {
        size_t at = low + (high - low) / 2;
        if (compare(w, c->prices[at].model) <= 0)
            high = at;
        else
            low = at + 1;
    }
    return low;
}

/* The row in force at that instant, of conf itself or of the last file that has the model; before the first date of such
 * a place its first row stands. */
static const struct conf_price_row *find_row(const struct conf *c, const struct wanted *w, int64_t at_us,
                                             bool conf_only) {
    const struct conf_price_row *oldest = NULL;
    for (size_t i = first_row(c, w); i < c->n_prices && compare(w, c->prices[i].model) == 0; i++) {
        const struct conf_price_row *row = &c->prices[i];
        if (conf_only && row->file)
            break;
        if (row->price.from_us <= at_us)
            return row;
        oldest = row;
    }
    return oldest;
}

/* What the public table calls a provider, by protocol. */
static const char *const providers[] = {
    [PROTOCOL_OPENAI] = "openai", [PROTOCOL_ANTHROPIC] = "anthropic", [PROTOCOL_DECODE] = "decode"};

static const struct conf_price_row *find(const struct conf *c, const struct conf_backend *b, struct span model,
                                         int64_t at_us) {
    const struct span before[] = {span_of(b->name), SPAN_NONE, span_of(providers[b->protocol])};
    for (int conf_only = 1; conf_only >= 0; conf_only--)
        for (size_t i = 0; i < ARRAY_LEN(before); i++) {
            const struct wanted w = {before[i], model};
            const struct conf_price_row *row = find_row(c, &w, at_us, conf_only);
            if (row)
                return row;
        }
    return NULL;
}

/* The model's own row: exact first, then a row whose name is a pattern. */
static const struct conf_model *find_model(const struct conf_backend *b, struct span model) {
    const struct conf_model *best = NULL;
    struct span captured;
    for (size_t i = 0; i < b->n_models; i++) {
        struct span name = span_of(b->models[i].name);
        if (span_equal(name, model))
            return &b->models[i];
        if (memchr(name.at, '*', name.n) && pattern_match(name, model, &captured) &&
            (!best || name.n > strlen(best->name)))
            best = &b->models[i];
    }
    /* An adapter without a row of its own is priced as its base. */
    if (!best && b->protocol == PROTOCOL_DECODE && b->decode.name && !span_is(model, b->decode.name))
        return find_model(b, span_of(b->decode.name));
    return best;
}

struct price conf_price(const struct conf *c, const struct conf_backend *b, struct span model, int64_t at_us) {
    const struct conf_model *m = find_model(b, model);
    const struct conf_price_row *row = m && m->price ? NULL : find(c, b, model, at_us);
    const struct price *from = m && m->price ? m->price : row ? &row->price : c->price_default;
    struct price p;
    price_unsaid(&p);
    if (!from)
        return p;
    p = *from;
    p.unasked_tiers = 1u << b->service_tier;
    if (b->price_factor == FACTOR_ONE)
        return p;
    p.factor = b->price_factor;
    price_digest(&p);
    return p;
}

struct conf_model conf_model_facts(const struct conf *c, const struct conf_backend *b, struct span model) {
    const struct conf_model *m = find_model(b, model);
    const struct conf_price_row *row = find(c, b, model, INT64_MAX);
    struct conf_model facts = {.context_tok = -1, .max_output_tok = -1};
    if (m)
        facts = *m;
    if (!row)
        return facts;
    if (facts.context_tok < 0)
        facts.context_tok = row->context_tok;
    if (facts.max_output_tok < 0)
        facts.max_output_tok = row->max_output_tok;
    unsigned more = row->caps_said & ~facts.caps_said;
    facts.caps |= row->caps & more;
    facts.caps_said |= more;
    return facts;
}
