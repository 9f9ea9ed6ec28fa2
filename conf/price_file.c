/* Price files in the public model_prices_and_context_window.json layout: an object of rows, USD a token as decimal
 * text, read without a double; extended here by `source`, `effective_from` and
 * `hidden_output`. Rows without a price a token (images by
 * the piece, audio by the second) are passed over. A row whose price rises above a prompt length is kept with its lower
 * price and with that length as its context, so that nothing is ever sold below what it costs; a model's own `context`
 * in conf lifts that. */
#include "conf/directives.h"

#include "gateway/base/json.h"
#include "gateway/base/usage.h"

#include <stdlib.h>

#define PRICE_FILE_BYTES_MAX (16 << 20) /* the public table is about 2 MB */
#define PRICE_ROWS_MAX 50000
#define PRICE_SCALE 12 /* USD to pico-dollars */

static const struct line {
    const char *name;
    size_t offset;
} lines[] = {
    {"input_cost_per_token", offsetof(struct price, in)},
    {"output_cost_per_token", offsetof(struct price, out)},
    {"cache_read_input_token_cost", offsetof(struct price, cache_read)},
    {"cache_creation_input_token_cost", offsetof(struct price, cache_write_5m)},
    {"cache_creation_input_token_cost_above_1hr", offsetof(struct price, cache_write_1h)},
    {"input_cost_per_audio_token", offsetof(struct price, in_audio)},
    {"output_cost_per_audio_token", offsetof(struct price, out_audio)},
    {"input_cost_per_request", offsetof(struct price, call)},
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

struct price_file {
    struct reader *r;
    const struct node *at; /* the conf's line that names the file */
    const char *path;
    int number; /* among the price files, from 1 */
    struct conf_price_row *rows;
    size_t n;
    size_t inexact;
    bool bad;
};

static void complain(struct price_file *f, struct span model, const char *what) {
    problem_at(f->r->report, f->at, "%s: the row '%.*s' %s", f->path, SPAN_ARG(model), what);
    f->bad = true;
}

/* Numbers stand as numbers; some rows of the public table write them in quotes. */
static struct span number_text(struct json v) {
    if (v.kind == JSON_STRING && v.raw.n >= 2)
        return (struct span){v.raw.at + 1, v.raw.n - 2};
    return v.kind == JSON_NUMBER ? v.raw : SPAN_NONE;
}

static void take_price(struct price_file *f, struct span model, struct json v, int64_t *out) {
    bool inexact = false;
    struct span text = number_text(v);
    if (v.kind == JSON_NONE || v.kind == JSON_NULL)
        return;
    if (!text.n || !money_decimal(text, PRICE_SCALE, out, &inexact))
        complain(f, model, "has a price that is no decimal of at least 0");
    f->inexact += inexact;
}

static void take_search(struct price_file *f, struct span model, struct json row, struct price *p) {
    struct json per = json_get(row, "search_context_cost_per_query");
    if (per.kind == JSON_OBJECT)
        take_price(f, model, json_get(per, "search_context_size_medium"), &p->web_search);
}

static void take_caps(struct json row, struct conf_price_row *to) {
    for (size_t i = 0; i < ARRAY_LEN(flags); i++) {
        struct json v = json_get(row, flags[i].name);
        if (v.kind != JSON_TRUE && v.kind != JSON_FALSE)
            continue;
        to->caps_said |= flags[i].cap;
        to->caps |= v.kind == JSON_TRUE ? (unsigned)flags[i].cap : 0;
    }
}

static int64_t take_tokens(struct json row, const char *name) {
    int64_t v;
    return json_i64(json_get(row, name), &v) && v > 0 ? v : -1;
}

/* "input_cost_per_token_above_200k_tokens" -> 200000; 0: no such member. */
static int64_t band_of(struct span name) {
    int64_t thousands = 0;
    static const char before[] = "input_cost_per_token_above_";
    if (!span_starts(name, before))
        return 0;
    struct span rest = {name.at + sizeof before - 1, name.n - (sizeof before - 1)}, digits;
    if (!span_cut(&rest, 'k', &digits) || !span_to_i64(digits, &thousands) || thousands > 1000000)
        return 0;
    return thousands * 1000;
}

static int64_t context_of(struct json row) {
    int64_t context = take_tokens(row, "max_input_tokens");
    struct json_walk w;
    struct span name;
    struct json v;
    json_walk_init(&w, row);
    while (json_walk_next(&w, &name, &v)) {
        int64_t band = v.kind == JSON_NULL ? 0 : band_of(name);
        if (band && (context < 0 || band < context))
            context = band;
    }
    return context;
}

static const char *text_of(struct price_file *f, struct json row, const char *name) {
    struct span text = json_text(json_get(row, name), &f->r->conf->arena);
    return text.at && text.n ? tree_strdup(&f->r->conf->arena, text) : NULL;
}

static void take_row(struct price_file *f, struct span name, struct json row) {
    struct arena *a = &f->r->conf->arena;
    struct span model = json_text((struct json){JSON_STRING, {name.at - 1, name.n + 2}}, a);
    if (span_is(model, "sample_spec") || row.kind != JSON_OBJECT)
        return;
    struct conf_price_row *to = &f->rows[f->n];
    *to = (struct conf_price_row){.model = tree_strdup(a, model), .file = f->number};
    to->max_output_tok = take_tokens(row, "max_output_tokens");
    price_unsaid(&to->price);
    to->price.visible_output = json_get(row, "hidden_output").kind == JSON_FALSE;
    for (size_t i = 0; i < ARRAY_LEN(lines); i++)
        take_price(f, model, json_get(row, lines[i].name), (int64_t *)(void *)((char *)&to->price + lines[i].offset));
    take_search(f, model, row, &to->price);
    bool embeds = json_is(json_get(row, "mode"), "embedding");
    if (embeds && to->price.out < 0)
        to->price.out = 0;
    if (to->price.in < 0 || to->price.out < 0)
        return;
    take_caps(row, to);
    to->context_tok = context_of(row);
    to->price.source = text_of(f, row, "source");
    to->price.from = text_of(f, row, "effective_from");
    if (!to->price.source)
        to->price.source = f->path;
    price_finish(&to->price);
    f->n++;
}

static bool check(struct price_file *f, struct span bytes, struct json *root) {
    struct json_fault fault = {0};
    if (!json_check(bytes, JSON_DEPTH_MAX, root, &fault)) {
        problem_at(f->r->report, f->at, "%s: byte %zu: not JSON: %s", f->path, fault.at, fault.what);
        return false;
    }
    if (root->kind == JSON_OBJECT && json_count(*root) <= PRICE_ROWS_MAX)
        return true;
    problem_at(f->r->report, f->at, "%s: expected an object of at most %d rows", f->path, PRICE_ROWS_MAX);
    return false;
}

static void take_file(struct reader *r, const struct node *at, int number) {
    struct conf *c = r->conf;
    struct price_file f = {.r = r, .at = at, .number = number};
    f.path = *at->text.at == '/' ? at->text.at : tree_printf(&c->arena, "%s/%s", r->folder, at->text.at);
    const char *why = NULL;
    struct span bytes = file_bytes(&c->arena, f.path, PRICE_FILE_BYTES_MAX, &why), name;
    if (!bytes.at) {
        problem_at(r->report, at, "the price file %s %s", f.path, why);
        return;
    }
    sha256_add(r->digest, bytes);
    struct json root, row;
    if (!check(&f, bytes, &root))
        return;
    struct json_walk w;
    f.rows = tree_alloc(&c->arena, (c->n_prices + json_count(root) + 1) * sizeof *f.rows);
    json_walk_init(&w, root);
    while (json_walk_next(&w, &name, &row))
        take_row(&f, name, row);
    if (c->n_prices)
        memcpy(f.rows + f.n, c->prices, c->n_prices * sizeof *f.rows);
    c->prices = f.rows;
    c->n_prices += f.n;
    if (f.inexact)
        warning_at(r->report, at, "%s: %zu prices have digits past a pico-dollar; they are rounded", f.path, f.inexact);
}

bool read_price_files(struct reader *r, const struct directive *d, const struct node *n, void *into) {
    (void)into;
    if (n->kind == NODE_SCALAR) {
        take_file(r, n, 1);
        return true;
    }
    if (n->kind != NODE_LIST) {
        problem_at(r->report, n, "%s must be a list of files, not %s", d->name, node_kind_name(n));
        return false;
    }
    for (size_t i = 0; i < n->n; i++)
        if (value_is_scalar(r, n->items[i], "a file"))
            take_file(r, n->items[i], (int)i + 1);
    return true;
}
