/* Counters for Prometheus, from one table; label sets are closed: names from conf only, never a caller's words. */
#ifndef TOLLGATE_GATEWAY_METRICS_H
#define TOLLGATE_GATEWAY_METRICS_H

#include "gateway/base/map.h"

/* name, labels (as printed), help */
#define METRIC_TABLE(X)                                                                                                \
    X(REQUESTS, "requests_total", "Requests answered, by alias, target and status.")                                   \
    X(ATTEMPTS, "attempts_total", "Tries at providers, by target and outcome.")                                        \
    X(HEDGES, "hedges_total", "Second tries beside slow ones, by alias and what became of them.")                      \
    X(SHADOWS, "shadows_total", "Copies of calls for other targets, by alias and what became of them.")                \
    X(TOKENS, "tokens_total", "Tokens, by kind.")                                                                      \
    X(COST, "cost_usd_total", "Settled cost in USD, by team.")                                                         \
    X(CACHE, "cache_total", "Cache look-ups, by result.")                                                              \
    X(SAVED, "cache_saved_usd_total", "What answers given again would have cost in USD, by team.")                     \
    X(REFUSED, "refused_total", "Requests refused, by code.")                                                          \
    X(ALERTS, "alerts_total",                                                                                          \
      "Alerts for webhooks, by event and result: delivered, retried, failed, dropped, elsewhere.")                     \
    X(BUDGET_EVENTS, "budget_events_total", "Warnings, first refusals and overruns of budgets, by event and scope.")   \
    X(CONTENT_LOST, "audit_content_lost_total", "Bodies that were to be stored and are not, by reason.")               \
    X(OVERRUN, "budget_overrun_usd_total", "USD that providers reported beyond what was held, by scope.")
enum metric {
#define X(id, name, help) METRIC_##id,
    METRIC_TABLE(X)
#undef X
        METRIC_N
};

#define HISTOGRAM_TABLE(X)                                                                                             \
    X(DURATION, "request_duration_seconds", "From the head to the last byte.")                                         \
    X(FIRST_TOKEN, "first_token_seconds", "From the head to the first content.")                                       \
    X(OVERHEAD, "overhead_seconds", "From the head to the provider's call: what the gateway adds.")
enum histogram {
#define X(id, name, help) HISTOGRAM_##id,
    HISTOGRAM_TABLE(X)
#undef X
        HISTOGRAM_N
};
#define HISTOGRAM_BUCKETS 14

struct metrics {
    struct map series[METRIC_N]; /* label text -> int64_t * (owned) */
    struct {
        int64_t buckets[HISTOGRAM_BUCKETS + 1], sum_us, n;
    } histograms[HISTOGRAM_N];
};

void metrics_init(struct metrics *m);
void metrics_fini(struct metrics *m);
/* labels: `alias="fast",target="openai/x"` made by the caller from conf's names. */
void metrics_add(struct metrics *m, enum metric which, int64_t amount, const char *labels, ...) printf_like(4, 5);
void metrics_time(struct metrics *m, enum histogram which, int64_t us);

struct gateway;
void metrics_print(struct gateway *g, struct str *out);
/* The same of all workers, added up. */
void metrics_print_all(struct gateway *g, struct str *out);
/* Goes on where a text of metrics_print stood: counters and histograms. */
void metrics_restore(struct metrics *m, struct span text);

#endif
