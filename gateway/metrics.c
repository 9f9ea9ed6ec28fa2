/* Counters and histograms, and their text form. A series is its label text; its number of series is bounded by conf's
 * names times statuses. */
#include "gateway/metrics.h"

#include "gateway/admin/sums.h"
#include "gateway/gateway.h"
#include "gateway/ledger.h"
#include "gateway/workers/peers.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#define LABELS_MAX 512

static const struct {
    const char *name, *help;
} counters[METRIC_N] =
    {
#define X(id, name, help) {name, help},
        METRIC_TABLE(X)
#undef X
},
  timings[HISTOGRAM_N] = {
#define X(id, name, help) {name, help},
      HISTOGRAM_TABLE(X)
#undef X
};

static const int64_t bounds_us[HISTOGRAM_BUCKETS] = {50,    100,    250,    500,     1000,    5000,     10000,
                                                     50000, 100000, 500000, 1000000, 5000000, 30000000, 120000000};

void metrics_init(struct metrics *m) {
    *m = (struct metrics){0};
}

void metrics_fini(struct metrics *m) {
    for (size_t i = 0; i < METRIC_N; i++) {
        for (struct map_entry *e = map_next(&m->series[i], NULL); e; e = map_next(&m->series[i], e))
            free(e->value);
        map_fini(&m->series[i]);
    }
}

void metrics_add(struct metrics *m, enum metric which, int64_t amount, const char *labels, ...) {
    char text[LABELS_MAX];
    va_list args;
    va_start(args, labels);
    int n = vsnprintf(text, sizeof(text), labels, args);
    va_end(args);
    struct span key = span_from(text, n < 0 ? 0 : (size_t)n < sizeof(text) ? (size_t)n : sizeof(text) - 1);
    int64_t *count = map_find(&m->series[which], key);
    if (!count) {
        count = xcalloc(1, sizeof(*count));
        map_put(&m->series[which], key, count);
    }
    *count += amount;
}

void metrics_time(struct metrics *m, enum histogram which, int64_t us) {
    size_t i = 0;
    while (i < HISTOGRAM_BUCKETS && us > bounds_us[i])
        i++;
    m->histograms[which].buckets[i]++;
    m->histograms[which].sum_us += us;
    m->histograms[which].n++;
}

static void print_head(struct str *out, const char *name, const char *help, const char *type) {
    str_printf(out, "# HELP tollgate_%s %s\n# TYPE tollgate_%s %s\n", name, help, name, type);
}

static void print_counter(const struct metrics *m, size_t which, struct str *out) {
    print_head(out, counters[which].name, counters[which].help, "counter");
    for (struct map_entry *e = map_next(&m->series[which], NULL); e; e = map_next(&m->series[which], e)) {
        char text[MONEY_TEXT_MAX];
        int64_t value = *(int64_t *)e->value;
        if (which == METRIC_COST || which == METRIC_SAVED || which == METRIC_OVERRUN)
            money_text(value, text);
        else
            snprintf(text, sizeof(text), "%" PRId64, value);
        str_printf(out, "tollgate_%s{%s} %s\n", counters[which].name, e->key, text);
    }
}

static void print_histogram(const struct metrics *m, size_t which, struct str *out) {
    const char *name = timings[which].name;
    int64_t below = 0;
    print_head(out, name, timings[which].help, "histogram");
    for (size_t i = 0; i < HISTOGRAM_BUCKETS; i++) {
        below += m->histograms[which].buckets[i];
        str_printf(out, "tollgate_%s_bucket{le=\"%g\"} %" PRId64 "\n", name, (double)bounds_us[i] / 1e6, below);
    }
    str_printf(out, "tollgate_%s_bucket{le=\"+Inf\"} %" PRId64 "\n", name, m->histograms[which].n);
    str_printf(out, "tollgate_%s_sum %.6f\n", name, (double)m->histograms[which].sum_us / 1e6);
    str_printf(out, "tollgate_%s_count %" PRId64 "\n", name, m->histograms[which].n);
}

static void print_gauge(struct str *out, const char *name, const char *help, int64_t value) {
    print_head(out, name, help, "gauge");
    str_printf(out, "tollgate_%s %" PRId64 "\n", name, value);
}

static void print_total(struct str *out, const char *name, const char *help, uint64_t value) {
    print_head(out, name, help, "counter");
    str_printf(out, "tollgate_%s %" PRIu64 "\n", name, value);
}

struct lane_print {
    struct map named; /* the targets that conf names: under a pattern the model is a caller's word and no label */
    struct str *out;
};

static void print_lane(const struct lane_view *v, void *user) {
    struct lane_print *p = user;
    if (map_find(&p->named, span_of(v->target)))
        str_printf(p->out, "tollgate_target_up{target=\"%s\",key=\"%s\"} %d\n", v->target, v->key ? v->key : "",
                   strcmp(v->state, "open") != 0);
}

static void name_targets(const struct conf_alias *alias, struct map *named) {
    for (size_t i = 0; i < alias->n_rungs; i++)
        for (size_t j = 0; j < alias->rungs[i].n_targets; j++)
            map_put(named, span_of(alias->rungs[i].targets[j].name), named);
}

static void print_lanes(const struct gateway *g, struct str *out) {
    struct lane_print p = {.out = out};
    map_init(&p.named);
    for (size_t i = 0; i < g->conf->n_aliases; i++)
        name_targets(&g->conf->aliases[i], &p.named);
    print_head(out, "target_up", "Whether a lane of a named target takes calls.", "gauge");
    routing_each(g->routing, clock_mono_us(), print_lane, &p);
    map_fini(&p.named);
}

static void print_budget(const struct budget_view *v, void *user) {
    char text[MONEY_TEXT_MAX];
    int64_t left = v->limit_nanousd - v->settled_nanousd - v->held_nanousd;
    if (v->limit_nanousd == CONF_UNLIMITED)
        return;
    str_printf(user, "tollgate_budget_remaining_usd{level=\"%s\",team=\"%s\",period=\"%s\"} %s\n",
               budget_level_names[v->level], v->scope, period_names[v->period], money_text(left > 0 ? left : 0, text));
}

static void print_cache(const struct gateway *g, struct str *out) {
    struct cache_stats stats;
    cache_stats(g->cache, &stats);
    print_gauge(out, "cache_bytes", "Bytes of kept answers.", stats.bytes);
    print_gauge(out, "cache_entries", "Kept answers.", stats.entries);
    print_total(out, "cache_redis_faults_total", "Commands of the cache that Redis did not answer.", stats.faults);
    print_total(out, "cache_rejected_total", "Values in Redis that were not what was kept there.", stats.rejected);
}

static void print_engines(const struct gateway *g, struct str *out) {
    static const struct {
        const char *name;
        size_t at;
    } rows[] = {{"tokens_total", offsetof(struct decode_view, tokens)},
                {"running", offsetof(struct decode_view, running)},
                {"queued", offsetof(struct decode_view, queued)},
                {"preemptions_total", offsetof(struct decode_view, preemptions)},
                {"prefix_hit_tokens_total", offsetof(struct decode_view, prefix_hit_tok)},
                {"prefix_asked_tokens_total", offsetof(struct decode_view, prefix_asked_tok)},
                {"adapters", offsetof(struct decode_view, adapters)},
                {"adapters_in_memory", offsetof(struct decode_view, adapters_in_memory)},
                {"adapter_bytes", offsetof(struct decode_view, adapter_bytes)},
                {"adapter_loads_total", offsetof(struct decode_view, adapter_loads)},
                {"adapter_evictions_total", offsetof(struct decode_view, adapter_evictions)}};
    print_head(out, "decode_tokens_total", "Tokens stepped by an engine.", "counter");
    for (struct map_entry *e = map_next(&g->engines, NULL); e; e = map_next(&g->engines, e)) {
        struct decode_view v;
        decode_view(e->value, &v);
        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
            int64_t n;
            memcpy(&n, (const char *)&v + rows[i].at, sizeof(n));
            str_printf(out, "tollgate_decode_%s{backend=\"%s\"} %" PRId64 "\n", rows[i].name, e->key, n);
        }
    }
}

void metrics_print(struct gateway *g, struct str *out) {
    int64_t now_us = clock_wall_us();
    for (size_t i = 0; i < METRIC_N; i++)
        print_counter(&g->metrics, i, out);
    for (size_t i = 0; i < HISTOGRAM_N; i++)
        print_histogram(&g->metrics, i, out);
    print_lanes(g, out);
    print_head(out, "budget_remaining_usd", "Limit less settled less held.", "gauge");
    budget_each(g->budget, g->conf, now_us, print_budget, out);
    print_gauge(out, "in_flight", "Requests between their body and their release.", requests_in_flight(g));
    print_gauge(out, "buffered_bytes", "Bytes of request bodies and held answers.", g->buffered_bytes);
    print_gauge(out, "connections", "Open client connections.", (int64_t)front_connections(g->front));
    print_gauge(out, "audit_lag_records", "Audit records added and not yet written.", audit_lag(g->audit));
    if (g->redis)
        print_gauge(out, "redis_up", "Whether Redis is connected and answers in time.", redis_up(g->redis));
    ledger_metrics(g, out);
    print_cache(g, out);
    print_engines(g, out);
}

void metrics_print_all(struct gateway *g, struct str *out) {
    struct str own;
    if (!g->peers) {
        metrics_print(g, out);
        return;
    }
    str_init(&own, out->max);
    metrics_print(g, &own);
    peers_metrics(g, str_span(&own), out);
    str_fini(&own);
}

/* ---- going on after a worker that died ---- */

#define NANO 1000000000

/* "tollgate_NAME" and what follows it in a series; false: another name. */
static bool cut_name(struct span series, const char *name, struct span *rest) {
    size_t n = strlen("tollgate_") + strlen(name);
    if (!span_starts(series, "tollgate_") || !span_starts(span_from(series.at + 9, series.n - 9), name))
        return false;
    *rest = span_from(series.at + n, series.n - n);
    return true;
}

static void restore_counter(struct metrics *m, size_t which, struct span rest, __int128 nano) {
    bool money = which == METRIC_COST || which == METRIC_SAVED || which == METRIC_OVERRUN;
    if (rest.n > 2 && rest.at[0] == '{')
        metrics_add(m, which, (int64_t)(money ? nano : nano / NANO), "%.*s", (int)(rest.n - 2), rest.at + 1);
}

static size_t bucket_of(struct span rest) {
    char label[64];
    for (size_t i = 0; i < HISTOGRAM_BUCKETS; i++) {
        snprintf(label, sizeof(label), "_bucket{le=\"%g\"}", (double)bounds_us[i] / 1e6);
        if (span_is(rest, label))
            return i;
    }
    return HISTOGRAM_BUCKETS;
}

/* Buckets are printed as sums, the smallest first: what came before in the same histogram is taken off again. */
static void restore_histogram(struct metrics *m, size_t which, struct span rest, __int128 nano) {
    if (span_is(rest, "_sum"))
        m->histograms[which].sum_us = (int64_t)(nano / 1000);
    else if (span_is(rest, "_count"))
        m->histograms[which].n = (int64_t)(nano / NANO);
    if (!span_starts(rest, "_bucket"))
        return;
    size_t at = bucket_of(rest);
    int64_t here = (int64_t)(nano / NANO);
    for (size_t i = 0; i < at; i++)
        here -= m->histograms[which].buckets[i];
    m->histograms[which].buckets[at] = here;
}

static void restore_one(struct span series, __int128 nano, void *user) {
    struct span rest;
    for (size_t i = 0; i < METRIC_N; i++)
        if (cut_name(series, counters[i].name, &rest))
            restore_counter(user, i, rest, nano);
    for (size_t i = 0; i < HISTOGRAM_N; i++)
        if (cut_name(series, timings[i].name, &rest))
            restore_histogram(user, i, rest, nano);
}

void metrics_restore(struct metrics *m, struct span text) {
    sums_each_counter(text, restore_one, m);
}
