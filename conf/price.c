/* Prices as conf writes them, and finding the price of backend/model. A price row never changes once it is made; its
 * digest names it in audit records, so two rows with the same numbers from the same place are the same row. */
#include "conf/directives.h"

#include <stdlib.h>

#define PRICE_TEXT_MAX 2048

void price_digest(struct price *p) {
    struct str text;
    uint8_t digest[SHA256_BYTES];
    char hex[SHA256_HEX_MAX];
    str_init(&text, PRICE_TEXT_MAX);
#define X(name) str_printf(&text, #name "=%lld;", (long long)p->name);
    USAGE_LINES(X)
#undef X
    str_printf(&text, "call=%lld;factor=%lld;source=%.400s;from=%.40s", (long long)p->call, (long long)p->factor,
               p->source ? p->source : "", p->from ? p->from : "");
    sha256(str_span(&text), digest);
    memcpy(p->digest, hex_put(digest, SHA256_BYTES, hex), sizeof p->digest - 1);
    p->digest[sizeof p->digest - 1] = 0;
    str_fini(&text);
}

static bool all_zero(const struct price *p) {
    bool zero = p->call == 0;
#define X(name) zero = zero && p->name <= 0;
    USAGE_LINES(X)
#undef X
    return zero && p->in == 0 && p->out == 0;
}

void price_finish(struct price *p) {
    p->factor = FACTOR_ONE;
    p->known = p->in >= 0 && p->out >= 0;
    p->free = all_zero(p);
    price_digest(p);
}

void price_unsaid(struct price *p) {
    *p = (struct price){.factor = FACTOR_ONE};
#define X(name) p->name = -1;
    USAGE_LINES(X)
#undef X
}

void price_done(struct reader *r, const struct node *n, void *into) {
    struct price *p = into;
    (void)r;
    for (size_t i = 0; i < price_section.n; i++) /* what is not said is unknown, not free */
        if (price_section.rows[i].type == TYPE_PRICE && !node_get(n, price_section.rows[i].name) &&
            strcmp(price_section.rows[i].name, "call") != 0)
            *(int64_t *)(void *)((char *)p + price_section.rows[i].offset) = -1;
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

static int by_model(const void *a, const void *b) {
    const struct conf_price_row *x = a, *y = b;
    int order = strcmp(x->model, y->model);
    if (order || x->file == y->file)
        return order;
    return !x->file || (y->file && x->file > y->file) ? -1 : 1; /* conf's row first, then the last file's */
}

void prices_done(struct reader *r, const struct node *n, void *into) {
    struct conf *c = into;
    if (!c->n_prices)
        return;
    qsort(c->prices, c->n_prices, sizeof *c->prices, by_model);
    size_t kept = 1;
    for (size_t i = 1; i < c->n_prices; i++) {
        const struct conf_price_row *last = &c->prices[kept - 1];
        if (strcmp(c->prices[i].model, last->model) != 0)
            c->prices[kept++] = c->prices[i];
        else if (c->prices[i].file == last->file)
            problem_at(r->report, node_get(n, "files"), "a price file has two rows for '%s'", last->model);
    }
    c->n_prices = kept;
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

static const struct conf_price_row *find_row(const struct conf *c, struct span before, struct span model) {
    struct wanted w = {before, model};
    size_t low = 0, high = c->n_prices;
    while (low < high) {
        size_t at = low + (high - low) / 2;
        int order = compare(&w, c->prices[at].model);
        if (!order)
            return &c->prices[at];
        if (order < 0)
            high = at;
        else
            low = at + 1;
    }
    return NULL;
}

/* What the public table calls a provider, by protocol. */
static const char *const providers[] = {
    [PROTOCOL_OPENAI] = "openai", [PROTOCOL_ANTHROPIC] = "anthropic", [PROTOCOL_DECODE] = "decode"};

static const struct conf_price_row *find(const struct conf *c, const struct conf_backend *b, struct span model) {
    const struct span before[] = {span_of(b->name), SPAN_NONE, span_of(providers[b->protocol])};
    for (int conf_only = 1; conf_only >= 0; conf_only--)
        for (size_t i = 0; i < ARRAY_LEN(before); i++) {
            const struct conf_price_row *row = find_row(c, before[i], model);
            if (row && (!row->file || !conf_only))
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

struct price conf_price(const struct conf *c, const struct conf_backend *b, struct span model) {
    const struct conf_model *m = find_model(b, model);
    const struct conf_price_row *row = m && m->price ? NULL : find(c, b, model);
    const struct price *from = m && m->price ? m->price : row ? &row->price : c->price_default;
    struct price p;
    price_unsaid(&p);
    if (!from)
        return p;
    p = *from;
    if (b->price_factor == FACTOR_ONE)
        return p;
    p.factor = b->price_factor;
    price_digest(&p);
    return p;
}

struct conf_model conf_model_facts(const struct conf *c, const struct conf_backend *b, struct span model) {
    const struct conf_model *m = find_model(b, model);
    const struct conf_price_row *row = find(c, b, model);
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
