/* Loading: files -> tree -> rows -> joins -> state. A conf with errors is dropped whole, and everything it allocated
 * with it; one without them is never written again, apart from its count. */
#include "conf/directives.h"

#include "gateway/base/redact.h"
#include "gateway/base/seal.h"

#include <stdlib.h>
#include <unistd.h>

#define NODE_NAME_MAX 64

/* --- hooks of the whole --- */

void tls_done(struct reader *r, const struct node *n, void *into) {
    const struct conf_listen *l = into;
    if (n && l->address && !strncmp(l->address, "unix:", 5))
        problem_at(r->report, n, "TLS on a unix socket is not served");
}

bool read_content_store(struct reader *r, const struct directive *d, const struct node *n, void *into) {
    struct conf *c = into;
    (void)d;
    if (!value_is_scalar(r, n, "none, digest or full"))
        return false;
    c->audit.content_full = span_is(n->text, "full");
    c->audit.content_digest = c->audit.content_full || span_is(n->text, "digest");
    if (c->audit.content_digest || span_is(n->text, "none"))
        return true;
    problem_at(r->report, n, "'%.*s' is no way to store content (none, digest, full)", SPAN_ARG(n->text));
    return false;
}

/* Rules are compiled here once, so that what is wrong in them is said with file and line. */
static void make_redact(struct reader *r, const struct node *n, struct conf *c) {
    struct str why;
    const struct node *rules = node_get(n, "redact");
    if (!c->audit.n_content_redact)
        return;
    str_init(&why, 512);
    c->audit.redact = redact_new(c->audit.content_redact, c->audit.n_content_redact, &why);
    if (!c->audit.redact)
        problem_at(r->report, rules ? rules : n, "redact: %s", why.at);
    str_fini(&why);
}

void content_done(struct reader *r, const struct node *n, void *into) {
    struct conf *c = into;
    if (!n)
        return;
    make_redact(r, n, c);
    if (c->audit.content_digest && !c->audit.content_key)
        problem_at(r->report, n, "store: %s needs a key%s", c->audit.content_full ? "full" : "digest",
                   c->audit.content_full ? ", or anybody could read what is stored"
                                         : ", or anybody could try bodies until one fits");
    else if (c->audit.content_full && !seal_key_read(span_of(c->audit.content_key), c->audit.content_wrap))
        problem_at(r->report, n, "store: full needs a key of 32 bytes, as 64 hex digits or as base64");
}

void anchor_done(struct reader *r, const struct node *n, void *into) {
    const struct conf_anchor *a = into;
    if (n && !a->file == !a->stream)
        problem_at(r->report, n, "an anchor is a file or a stream: say one of the two");
    if (n && a->stream && !node_get(r->root, "redis"))
        problem_at(r->report, n, "an anchor in a stream needs redis.url");
}

bool read_disclose_budget(struct reader *r, const struct directive *d, const struct node *n, void *into) {
    static const char *const levels[] = {"none", "key", "team", "organization"};
    struct conf *c = into;
    if (!value_is_scalar(r, n, "a level"))
        return false;
    for (size_t i = 0; i < ARRAY_LEN(levels); i++)
        if (span_is(n->text, levels[i])) {
            c->disclose.budget_key = i >= 1;
            c->disclose.budget_team = i >= 2;
            c->disclose.budget_organization = i >= 3;
            return true;
        }
    problem_at(r->report, n, "'%.*s' is no %s (none, key, team, organization)%s", SPAN_ARG(n->text), d->name,
               guess_text(&r->report->arena, n->text, levels, ARRAY_LEN(levels)));
    return false;
}

static bool writable_word(struct reader *r, const struct node *n, struct conf *c) {
    if (!value_is_scalar(r, n, "a word"))
        return false;
    if (span_is(n->text, "keys"))
        return c->state_writable_keys = true;
    if (span_is(n->text, "budgets"))
        return c->state_writable_budgets = true;
    if (span_is(n->text, "pointers"))
        return c->state_writable_pointers = true;
    if (span_is(n->text, "adapters")) {
        problem_at(r->report, n, "writable: adapters is not supported yet");
        return false;
    }
    problem_at(r->report, n, "'%.*s' cannot be made writable; keys, pointers and budgets can", SPAN_ARG(n->text));
    return false;
}

bool read_writable(struct reader *r, const struct directive *d, const struct node *n, void *into) {
    struct span rest = span_of(d->fallback), word;
    struct node of_default = {.kind = NODE_SCALAR};
    bool ok = true;
    while (!n->source && span_cut(&rest, ' ', &word)) {
        of_default.text = word;
        ok &= writable_word(r, &of_default, into);
    }
    if (!n->source)
        return ok;
    if (n->kind != NODE_LIST)
        return writable_word(r, n, into);
    for (size_t i = 0; i < n->n; i++)
        ok &= writable_word(r, n->items[i], into);
    return ok;
}

static const char *host_name(struct arena *a) {
    char name[NODE_NAME_MAX + 1] = "";
    if (gethostname(name, NODE_NAME_MAX))
        name[0] = 0;
    for (char *c = name; *c; c++)
        if (!value_name_ok((struct span){c, 1}, false))
            *c = '-';
    return tree_strdup(a, span_of(*name ? name : "node"));
}

static void check_listen(struct reader *r, const struct node *list) {
    const struct conf *c = r->conf;
    for (size_t i = 0; list && i < c->n_listen; i++)
        for (size_t k = 0; k < i; k++)
            if (c->listen[i].address && c->listen[k].address && !strcmp(c->listen[i].address, c->listen[k].address))
                problem_at(r->report, list->items[i], "'%s' stands twice in listen", c->listen[i].address);
}

/* Money and limits hold over several processes only where they share a ledger. */
static void check_workers(struct reader *r, const struct node *n) {
    const struct node *workers = node_get(n, "workers");
    if (r->conf->workers < 2)
        return;
    if (!node_get(n, "redis"))
        problem_at(r->report, workers, "workers above 1 needs redis, where all of them count what teams spend");
}

void root_done(struct reader *r, const struct node *n, void *into) {
    struct conf *c = into;
    const struct node *listen = node_get(n, "listen");
    if (!listen) {
        c->listen = tree_alloc(&c->arena, sizeof *c->listen);
        c->listen[0].address = "127.0.0.1:8080";
        c->n_listen = 1;
    } else if (listen->kind == NODE_LIST && !listen->n) {
        problem_at(r->report, listen, "listen names no address");
    }
    check_listen(r, listen);
    check_workers(r, n);
    if (c->cache.store != CACHE_IN_MEMORY && !node_get(n, "redis"))
        problem_at(r->report, node_get(node_get(n, "cache"), "store"), "a cache in Redis needs redis.url");
    if (!c->node)
        c->node = host_name(&c->arena);
    for (size_t i = 0; i < c->n_aliases; i++)
        if (c->aliases[i].cache.said && !c->aliases[i].cache.ttl_us)
            c->aliases[i].cache.ttl_us = c->cache.ttl_us;
}

/* --- loading --- */

static struct conf *conf_new(const char *path) {
    struct conf *c = xcalloc(1, sizeof *c);
    c->refs = 1;
    arena_init(&c->arena, CONF_ARENA_BYTES);
    map_init(&c->keys_by_sha256);
    map_init(&c->keys_by_id);
    map_init(&c->gateway_keys);
    c->gateway_team.name = CONF_GATEWAY_TEAM;
    c->gateway_team.max_cost_per_call = CONF_UNLIMITED;
    c->gateway_team.limits = (struct conf_limits){CONF_UNLIMITED, CONF_UNLIMITED, CONF_UNLIMITED};
    map_init(&c->aliases_by_name);
    c->path = tree_strdup(&c->arena, span_of(path));
    return c;
}

static void finish_digest(struct conf *c, struct sha256 *running) {
    uint8_t digest[SHA256_BYTES];
    sha256_end(running, digest);
    hex_put(digest, SHA256_BYTES, c->digest);
}

static void read_all(struct reader *r) {
    struct conf *c = r->conf;
    read_section(r, &root_section, r->root, c);
    aliases_join(r);
    run_later(r);
    if (c->state_directory)
        state_join(r);
    report_mask(r->report, r->secrets, r->n_secrets);
    free(r->secrets);
}

/* From the tree to the whole conf; `digest` has taken the files' bytes. */
static struct conf *read_tree(struct conf *c, struct sha256 *digest, struct conf_report *report, size_t errors) {
    struct node *root = c->tree->root;
    struct reader r = {.conf = c, .report = report, .root = root, .digest = digest};
    r.folder = root->source ? root->source->folder : ".";
    if (root->source)
        read_all(&r);
    finish_digest(c, digest);
    if (report->n_errors == errors)
        return c;
    conf_drop(c);
    return NULL;
}

struct conf *conf_load_text(const char *path, struct span text, struct conf_report *report) {
    struct conf *c = conf_new(path);
    struct sha256 *digest = sha256_new();
    size_t errors = report->n_errors;
    c->tree = tree_alloc(&c->arena, sizeof *c->tree);
    struct files files = {.arena = &c->arena, .report = report, .digest = digest, .tree = c->tree};
    c->tree->root = files_tree(&files, c->path, text);
    return read_tree(c, digest, report, errors);
}

struct conf *conf_with_state(struct conf *running, struct conf_report *report) {
    struct conf *c = conf_new(running->path);
    struct sha256 *digest = sha256_new();
    size_t errors = report->n_errors;
    c->base = conf_take(running->base ? running->base : running);
    c->tree = c->base->tree;
    for (size_t i = 0; i < c->tree->n_files; i++)
        sha256_add(digest, c->tree->files[i]);
    return read_tree(c, digest, report, errors);
}

struct conf *conf_load(const char *path, struct conf_report *report) {
    return conf_load_text(path, SPAN_NONE, report);
}

struct conf *conf_take(struct conf *c) {
    c->refs++;
    return c;
}

void conf_drop(struct conf *c) {
    if (!c || --c->refs)
        return;
    map_fini(&c->keys_by_sha256);
    map_fini(&c->keys_by_id);
    map_fini(&c->gateway_keys);
    map_fini(&c->aliases_by_name);
    redact_free(c->audit.redact);
    seal_forget(c->audit.content_wrap, sizeof c->audit.content_wrap);
    arena_fini(&c->arena);
    conf_drop(c->base);
    free(c);
}
