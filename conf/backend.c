/* Backends: what remains to be said once a backend's rows are read. Keys that could not be had are dropped, and a backend left without any is off, which is no error: a conf names providers
 * whose keys this machine does not have. */
#include "conf/directives.h"

#include <stdlib.h>

static const struct directive *row_of(const char *name) {
    for (size_t i = 0; i < backend_section.n; i++)
        if (!strcmp(backend_section.rows[i].name, name))
            return &backend_section.rows[i];
    return NULL;
}

const struct node *upstream_key_shape(struct reader *r, const struct node *n) {
    if (n->kind != NODE_SCALAR)
        return n;
    struct node *map = node_like(&r->conf->arena, n, NODE_MAP);
    node_add(&r->conf->arena, map, node_scalar(&r->conf->arena, n, "value"), (struct node *)(uintptr_t)n);
    return map;
}

static void key_teams_join(struct reader *r, void *into, const struct node *n) {
    const struct conf_upstream_key *k = into;
    const char **names = tree_alloc(&r->conf->arena, (r->conf->n_teams + 1) * sizeof *names);
    for (size_t t = 0; t < r->conf->n_teams; t++)
        names[t] = r->conf->teams[t].name;
    for (size_t i = 0; i < k->n_teams; i++) {
        bool found = false;
        for (size_t t = 0; t < r->conf->n_teams && !found; t++)
            found = !strcmp(names[t], k->teams[i]);
        if (!found)
            problem_at(r->report, n, "there is no team '%s'%s", k->teams[i],
                       guess_text(&r->report->arena, span_of(k->teams[i]), names, r->conf->n_teams));
    }
}

void upstream_key_done(struct reader *r, const struct node *n, void *into) {
    struct conf_upstream_key *k = into;
    if (k->n_teams)
        read_later(r, key_teams_join, k, node_get(n, "teams"));
}

static void take_url(struct reader *r, struct conf_backend *b, const struct node *at) {
    struct url_parts parts;
    if (!url_take(r, b->url, at, false, &parts))
        return;
    b->tls = parts.tls;
    b->host = parts.host;
    b->port = parts.port;
    b->path = parts.path;
}

/* --- keys --- */

static void name_keys(struct reader *r, struct conf_backend *b, const struct node *list) {
    for (size_t i = 0; i < b->n_keys; i++) {
        if (!b->keys[i].name)
            b->keys[i].name = tree_printf(&r->conf->arena, "key%zu", i + 1);
        for (size_t k = 0; k < i; k++)
            if (!strcmp(b->keys[k].name, b->keys[i].name))
                problem_at(r->report, list->items[i], "two keys are called '%s'", b->keys[i].name);
    }
}

static const char *why_lacking(struct reader *r, const struct node *item) {
    const char *lacking = NULL;
    const struct node *value = item->kind == NODE_MAP ? node_get(item, "value") : item;
    if (value && value->kind == NODE_SCALAR)
        expand_text(r, value, &lacking);
    return lacking;
}

/* Drops the keys that could not be had; the last of them names the reason. */
static void drop_lacking(struct reader *r, struct conf_backend *b, const struct node *list) {
    size_t kept = 0;
    const char *why = NULL;
    for (size_t i = 0; i < b->n_keys; i++) {
        if (b->keys[i].value)
            b->keys[kept++] = b->keys[i];
        else
            why = why_lacking(r, list->items[i]);
    }
    size_t had = b->n_keys;
    b->n_keys = kept;
    if (had && !kept && why) {
        b->off = true;
        b->off_reason = why;
        warning_at(r->report, list, "backend '%s' is off: %s", b->name, why);
    } else if (why) {
        warning_at(r->report, list, "backend '%s' does without a key: %s", b->name, why);
    }
}

static void take_keys(struct reader *r, struct conf_backend *b, const struct node *n) {
    const struct node *list = node_get(n, "api_keys");
    if (!list || list->kind != NODE_LIST)
        return;
    name_keys(r, b, list);
    drop_lacking(r, b, list);
}

/* --- the engine inside --- */

static const char *const decode_only[] = {
    "model",        "name",     "device",   "dtype",           "max_context", "max_sequences",  "batch_tokens",
    "threads",      "quantize", "kv_cache", "on_device_error", "price",       "adapter_memory", "max_adapter_rank",
    "prefix_cache", "adapters"};
static const char *const network_only[] = {"url", "api_keys", "ca_file", "proxy", "http2"};

static void refuse_rows(struct reader *r, const struct node *n, const char *const *names, size_t n_names,
                        const char *why) {
    for (size_t i = 0; i < n_names; i++)
        if (node_get(n, names[i]))
            problem_at(r->report, node_key(n, names[i]), "'%s' %s", names[i], why);
}

static void base_model(struct reader *r, struct conf_backend *b, const struct node *price) {
    struct conf_model *m = NULL;
    for (size_t i = 0; i < b->n_models && !m; i++)
        if (!strcmp(b->models[i].name, b->decode.name))
            m = &b->models[i];
    if (!m) {
        struct conf_model *all = tree_alloc(&r->conf->arena, (b->n_models + 1) * sizeof *all);
        if (b->n_models)
            memcpy(all, b->models, b->n_models * sizeof *all);
        m = &all[b->n_models++];
        *m = (struct conf_model){.name = b->decode.name, .context_tok = -1, .max_output_tok = -1};
        b->models = all;
    }
    struct directive at_price = {.name = "price", .offset = offsetof(struct conf_model, price)};
    if (price && price->kind != NODE_NULL)
        read_price(r, &at_price, price, m);
    if (m->context_tok < 0)
        m->context_tok = b->decode.max_context;
}

static void decode_done(struct reader *r, struct conf_backend *b, const struct node *n) {
    refuse_rows(r, n, network_only, ARRAY_LEN(network_only), "has no meaning for protocol decode");
    if (!b->decode.model) {
        if (!node_get(n, "model"))
            problem_at(r->report, n, "'model' is missing in %s: the directory of the model", r->path);
        return;
    }
    const char *slash = strrchr(b->decode.model, '/');
    if (!b->decode.name)
        b->decode.name = slash && slash[1] ? slash + 1 : b->decode.model;
    base_model(r, b, node_get(n, "price"));
}

static void network_done(struct reader *r, struct conf_backend *b, const struct node *n) {
    refuse_rows(r, n, decode_only, ARRAY_LEN(decode_only), "is for protocol decode; prices stand in 'models'");
    b->decode = (struct conf_decode){0};
    if (b->url)
        take_url(r, b, node_get(n, "url"));
    else if (!node_get(n, "url"))
        problem_at(r->report, n, "'url' is missing in %s", r->path);
    take_keys(r, b, n);
}

bool read_backend_price(struct reader *r, const struct directive *d, const struct node *n, void *into) {
    (void)r, (void)d, (void)n, (void)into; /* read with the base model, whose price it is */
    return true;
}

void model_done(struct reader *r, const struct node *n, void *into) {
    struct conf_model *m = into;
    (void)r;
    if (!node_get(n, "context"))
        m->context_tok = -1;
    if (!node_get(n, "max_output"))
        m->max_output_tok = -1;
}

void backend_done(struct reader *r, const struct node *n, void *into) {
    struct conf_backend *b = into;
    const struct node *protocol = node_get(n, "protocol");
    if (!protocol || protocol->kind != NODE_SCALAR)
        return;
    for (int i = 0; row_of("protocol")->words[i]; i++) { /* a wrong word is said already; no more noise */
        if (!span_is(protocol->text, row_of("protocol")->words[i]))
            continue;
        if (b->protocol == PROTOCOL_DECODE)
            decode_done(r, b, n);
        else
            network_done(r, b, n);
    }
}

const struct conf_backend *conf_find_backend(const struct conf *c, struct span name) {
    for (size_t i = 0; i < c->n_backends; i++)
        if (span_is(name, c->backends[i].name))
            return &c->backends[i];
    return NULL;
}
