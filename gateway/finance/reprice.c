/* Making adjusts. Always true here: a try's price now is what its settle recorded plus every adjust of it, so the same
 * prices give no second adjust; the log is read twice, first for the adjusts that are there, then for the settles. */
#include "gateway/finance/reprice.h"
#include <stdio.h>
#include <stdlib.h>

#define TRIES_MAX 32
#define ADJUST_BYTES_MAX ((size_t)256 << 10)

enum {
    S_ATTEMPTS,
    S_COST,
    S_LIST,
    S_ADMITTED,
    S_RECOVERED,
    S_TEAM,
    S_KEY,
    S_OWNER,
    S_END_USER,
    S_CLIENT,
    S_FAMILY,
    S_ENDPOINT,
    S_ALIAS,
    S_MODEL,
    S_TARGET,
    S_LABELS,
    S_CACHE,
    S_DEGRADED,
    S_ESTIMATED,
    S_OVERRUN,
    S_PICKED
};
static const char *const names[S_PICKED] = {"attempts",      "cost_nanousd", "list_nanousd", "admitted",  "recovered",
                                            "team",          "key_id",       "owner",        "end_user",  "client",
                                            "client_family", "endpoint",     "alias",        "model",     "target",
                                            "labels",        "cache",        "degraded",     "estimated", "overrun"};

/* What adjusts have added to a request so far. */
struct known {
    int64_t cost, list;
    size_t n;
    __int128 tries[]; /* cost and list cost of each, in 1/10^12 pico-dollars */
};

struct one_try {
    struct json target, upstream_key, usage;
    __int128 was, is, list_was, list_is; /* 1/10^12 pico-dollars */
    bool repriced;
};

struct repricing {
    const struct reprice_ask *ask;
    struct reprice_result *out;
    struct books books;
    struct map known; /* request -> struct known */
    struct str *why;
    bool good;
};

/* ---- numbers ---- */

/* A signed number of 1/10^12 pico-dollars as decimal pico-dollars. */
static char *pico_text(__int128 scaled, char out[PICO_TEXT_MAX]) {
    char digits[PICO_TEXT_MAX], *at = digits + sizeof digits - 1;
    unsigned __int128 size = scaled < 0 ? -(unsigned __int128)scaled : (unsigned __int128)scaled;
    int n = 0;
    *at = 0;
    do {
        *--at = (char)('0' + (int)(size % 10));
        size /= 10;
        if (++n == SPEND_SCALE_DIGITS)
            *--at = '.';
    } while ((size || n <= SPEND_SCALE_DIGITS) && at > digits + 2);
    snprintf(out, PICO_TEXT_MAX, "%s%s", scaled < 0 ? "-" : "", at);
    size_t end = strlen(out);
    while (out[end - 1] == '0')
        out[--end] = 0;
    if (out[end - 1] == '.')
        out[--end] = 0;
    return out;
}

static struct usage read_usage(struct json v) {
    struct usage u = {0};
#define X(name) u.name = spend_number(json_get(v, #name));
    USAGE_LINES(X)
#undef X
    u.reasoning = spend_number(json_get(v, "reasoning"));
    u.regional = json_get(v, "regional").kind == JSON_TRUE;
    for (int tier = 0; tier < TIER_N; tier++)
        if (json_is(json_get(v, "tier"), usage_tier_names[tier]))
            u.tier = (enum usage_tier)tier;
    return u;
}

static __int128 pico_of(const struct price *p, const struct usage *u) {
    char text[PICO_TEXT_MAX], quoted[PICO_TEXT_MAX + 2];
    __int128 scaled = 0;
    int n = snprintf(quoted, sizeof quoted, "\"%s\"", price_pico_text(p, u, text));
    struct json v = {JSON_STRING, span_from(quoted, (size_t)n)};
    return spend_pico(v, &scaled) ? scaled : 0;
}

/* ---- adjusts that are there ---- */

static size_t read_tries(struct json attempts, struct one_try tries[TRIES_MAX]) {
    struct json_walk walk;
    struct json v;
    struct span name;
    size_t n = 0;
    for (json_walk_init(&walk, attempts); n < TRIES_MAX && json_walk_next(&walk, &name, &v); n++) {
        struct json list = json_get(v, "list_pico");
        tries[n] = (struct one_try){.target = json_get(v, "target"),
                                    .upstream_key = json_get(v, "upstream_key"),
                                    .usage = json_get(v, "usage")};
        if (!spend_pico(json_get(v, "pico"), &tries[n].was))
            tries[n].was = 0;
        tries[n].list_was = tries[n].was;
        if (list.kind == JSON_STRING && !spend_pico(list, &tries[n].list_was))
            tries[n].list_was = tries[n].was;
    }
    return n;
}

static struct known *known_of(struct repricing *g, struct span request, size_t n) {
    struct known *k = map_find(&g->known, request);
    if (k && k->n >= n)
        return k;
    struct known *larger = xcalloc(1, sizeof *larger + n * 2 * sizeof(__int128));
    if (k)
        memcpy(larger, k, sizeof *k + k->n * 2 * sizeof(__int128));
    larger->n = n;
    free(k);
    map_put(&g->known, request, larger);
    return larger;
}

static bool see_adjust(const struct audit_line *l, void *user) {
    struct repricing *g = user;
    struct audit_frame f;
    struct one_try tries[TRIES_MAX];
    struct json root;
    struct json_fault fault;
    if (!audit_frame(l->text, &f) || f.kind != AUDIT_ADJUST || f.request.n == 0 ||
        !json_check(l->text, JSON_DEPTH_MAX, &root, &fault))
        return true;
    if (g->known.n >= REPRICE_KNOWN_MAX) {
        str_puts(g->why, "the log has more corrections than can be read at once: ask for fewer days");
        return g->good = false;
    }
    size_t n = read_tries(json_get(root, "attempts"), tries);
    struct known *k = known_of(g, f.request, n);
    k->cost += spend_number(json_get(root, "cost_nanousd"));
    k->list += spend_number(json_get(root, "list_nanousd"));
    for (size_t i = 0; i < n; i++) {
        k->tries[2 * i] += tries[i].was;
        k->tries[2 * i + 1] += tries[i].list_was;
    }
    return true;
}

/* ---- settles ---- */

static bool is_asked(const struct reprice_ask *ask, struct span target) {
    const char *slash = memchr(target.at, '/', target.n);
    if (!ask->model || span_is(target, ask->model))
        return true;
    return slash && span_is(span_from(slash + 1, target.n - (size_t)(slash + 1 - target.at)), ask->model);
}

/* False: conf has no known price for it any more. */
static bool price_try(const struct reprice_ask *ask, struct one_try *t, int64_t at_us) {
    char space[SPEND_TEXT_MAX];
    struct span target = spend_text(t->target, space), model = target, backend;
    t->is = t->was;
    t->list_is = t->list_was;
    if (t->target.kind != JSON_STRING || !is_asked(ask, target))
        return true;
    span_cut(&model, '/', &backend);
    const struct conf_backend *b = conf_find_backend(ask->conf, backend);
    struct price price = b ? conf_price(ask->conf, b, model, at_us) : (struct price){0}, list = price;
    struct usage used = read_usage(t->usage);
    if (!price.known)
        return false;
    list.factor = FACTOR_ONE;
    t->is = pico_of(&price, &used);
    t->list_is = pico_of(&list, &used);
    t->repriced = true;
    return true;
}

struct change {
    struct span request;
    const struct json *got;
    const struct one_try *tries;
    size_t n;
    int64_t admitted_us, cost, list, before;
};

static const struct book *closed_book(const struct books *b, int64_t us) {
    for (size_t i = 0; i < b->n; i++)
        if (us >= b->all[i].from_us && us < b->all[i].to_us)
            return &b->all[i];
    return NULL;
}

static void put_tries(const struct change *c, struct str *out) {
    char text[PICO_TEXT_MAX];
    json_put_raw(out, "attempts", SPAN("["));
    for (size_t i = 0; i < c->n; i++) {
        const struct one_try *t = &c->tries[i];
        str_puts(out, i ? ",{" : "{");
        if (t->target.kind == JSON_STRING)
            json_put_raw(out, "target", t->target.raw);
        if (t->upstream_key.kind == JSON_STRING)
            json_put_raw(out, "upstream_key", t->upstream_key.raw);
        json_put_str(out, "pico", pico_text(t->is - t->was, text));
        json_put_str(out, "list_pico", pico_text(t->list_is - t->list_was, text));
        str_putc(out, '}');
    }
    str_putc(out, ']');
}

static void put_members(const struct repricing *g, const struct change *c, struct str *out) {
    const struct book *closed = closed_book(&g->books, c->admitted_us);
    char time[CLOCK_TEXT_MAX];
    for (size_t i = S_OWNER; i < S_PICKED; i++)
        if (c->got[i].kind != JSON_NONE)
            json_put_raw(out, names[i], c->got[i].raw);
    put_tries(c, out);
    json_put_i64(out, "list_nanousd", c->list);
    if (closed) {
        json_put_str(out, "booked", clock_text(g->ask->now_us, time));
        json_put_str(out, "concerns", closed->month);
    }
}

static char *copy_text(struct json v) {
    char space[SPEND_TEXT_MAX];
    struct span text = spend_text(v, space);
    return v.kind == JSON_STRING && v.raw.n > 2 ? xstrndup(text.at, text.n) : NULL;
}

static void put_adjust(struct repricing *g, const struct change *c) {
    struct str text;
    str_init(&text, ADJUST_BYTES_MAX);
    put_members(g, c, &text);
    g->out->before_nanousd += c->before;
    g->out->after_nanousd += c->before + c->cost;
    finance_records_put(&g->out->adjusts,
                        (struct finance_record){.kind = AUDIT_ADJUST,
                                                .request = xstrndup(c->request.at, c->request.n),
                                                .team = copy_text(c->got[S_TEAM]),
                                                .key_id = copy_text(c->got[S_KEY]),
                                                .admitted_us = c->admitted_us,
                                                .cost_nanousd = c->cost},
                        &text);
}

static void reprice(struct repricing *g, struct span request, const struct json *got, int64_t admitted_us) {
    struct one_try tries[TRIES_MAX];
    size_t n = read_tries(got[S_ATTEMPTS], tries);
    const struct known *k = map_find(&g->known, request);
    int64_t cost = spend_number(got[S_COST]), list = got[S_LIST].kind == JSON_NUMBER ? spend_number(got[S_LIST]) : cost;
    __int128 sum = 0, list_sum = 0;
    bool any = false;
    for (size_t i = 0; i < n; i++) {
        if (k && i < k->n) {
            tries[i].was += k->tries[2 * i];
            tries[i].list_was += k->tries[2 * i + 1];
        }
        if (!price_try(g->ask, &tries[i], admitted_us)) {
            g->out->unknown++;
            return;
        }
        any = any || tries[i].repriced;
        sum += tries[i].is;
        list_sum += tries[i].list_is;
    }
    g->out->requests += any;
    int64_t before = cost + (k ? k->cost : 0), list_before = list + (k ? k->list : 0);
    struct change c = {
        request, got, tries, n, admitted_us, spend_ceil_nano(sum) - before, spend_ceil_nano(list_sum) - list_before,
        before};
    if (any && (c.cost || c.list))
        put_adjust(g, &c);
}

static bool see_settle(const struct audit_line *l, void *user) {
    struct repricing *g = user;
    struct audit_frame f;
    struct json root, got[S_PICKED];
    struct json_fault fault;
    int64_t admitted_us;
    if (!audit_frame(l->text, &f) || f.kind != AUDIT_SETTLE)
        return true;
    static const struct span admitted = SPAN("admitted");
    audit_pick(l->text, &admitted, got, 1);
    if (!spend_instant(got[0], &admitted_us) || admitted_us < g->ask->from_us || admitted_us >= g->ask->to_us)
        return true; /* what was never admitted cost nothing */
    if (!json_check(l->text, JSON_DEPTH_MAX, &root, &fault))
        return true;
    json_pick(root, names, got, S_PICKED);
    if (got[S_RECOVERED].kind == JSON_TRUE)
        g->out->unusable++;
    else
        reprice(g, f.request, got, admitted_us);
    g->out->more = g->out->adjusts.n >= REPRICE_ADJUSTS_MAX;
    return !g->out->more && !(g->ask->stop && atomic_load(g->ask->stop));
}

bool reprice_run(const struct reprice_ask *ask, struct reprice_result *out, struct str *why) {
    struct repricing g = {.ask = ask, .out = out, .why = why, .good = true};
    *out = (struct reprice_result){0};
    map_init(&g.known);
    bool good = books_read(ask->directory, "", &g.books, why);
    good = good && audit_read(ask->directory, see_adjust, &g, why) && g.good &&
           audit_read(ask->directory, see_settle, &g, why);
    for (struct map_entry *e = map_next(&g.known, NULL); e; e = map_next(&g.known, e))
        free(e->value);
    map_fini(&g.known);
    books_free(&g.books);
    if (!good)
        reprice_fini(out);
    return good;
}

void reprice_fini(struct reprice_result *r) {
    finance_records_free(&r->adjusts);
}

void reprice_print(const struct reprice_result *r, struct str *out) {
    json_put_i64(out, "requests", r->requests);
    json_put_i64(out, "adjusts", (int64_t)r->adjusts.n);
    json_put_i64(out, "unknown", r->unknown);
    json_put_i64(out, "unusable", r->unusable);
    money_put(out, "before_usd", r->before_nanousd);
    money_put(out, "after_usd", r->after_nanousd);
    json_put_i64(out, "difference_nanousd", r->after_nanousd - r->before_nanousd);
    json_put_bool(out, "more", r->more);
}
