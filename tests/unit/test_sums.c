/* Metrics of several processes as one text: sums, what is not summed, and what a dead process leaves. */
#include "gateway/admin/sums.h"

#include <criterion/criterion.h>

#include "gateway/metrics.h"

#define REQUESTS "# HELP tollgate_requests_total Requests.\n# TYPE tollgate_requests_total counter\n"
#define COST "# HELP tollgate_cost_usd_total Cost.\n# TYPE tollgate_cost_usd_total counter\n"
#define FLIGHT "# HELP tollgate_in_flight In flight.\n# TYPE tollgate_in_flight gauge\n"
#define UP "# HELP tollgate_redis_up Up.\n# TYPE tollgate_redis_up gauge\n"

static const char one[] = REQUESTS "tollgate_requests_total{alias=\"a b\",status=\"200\"} 5\n" COST
                                   "tollgate_cost_usd_total{team=\"x\"} 0.000000585\n" FLIGHT
                                   "tollgate_in_flight 3\n" UP "tollgate_redis_up 1\n";
static const char two[] = REQUESTS "tollgate_requests_total{alias=\"a b\",status=\"200\"} 9223372036854775807\n"
                                   "tollgate_requests_total{alias=\"c\",status=\"500\"} 1\n" COST
                                   "tollgate_cost_usd_total{team=\"x\"} 0.999999415\n" FLIGHT
                                   "tollgate_in_flight 4\n" UP "tollgate_redis_up 0\n";

static void expect_sum(bool gone, const char *expected) {
    struct sums s;
    struct str out;
    sums_init(&s);
    str_init(&out, 65536);
    sums_add(&s, span_of(one), false);
    sums_add(&s, span_of(two), gone);
    sums_print(&s, &out);
    cr_expect_str_eq(out.at, expected, "%s", out.at);
    str_fini(&out);
    sums_fini(&s);
}

#define COUNTERS                                                                                                       \
    REQUESTS "tollgate_requests_total{alias=\"a b\",status=\"200\"} 9223372036854775812\n"                             \
             "tollgate_requests_total{alias=\"c\",status=\"500\"} 1\n" COST "tollgate_cost_usd_total{team=\"x\"} 1\n"

Test(sums, counters_add_up_exactly_and_of_a_yes_or_no_the_least_stands) {
    expect_sum(false, COUNTERS FLIGHT "tollgate_in_flight 7\n" UP "tollgate_redis_up 0\n");
}

Test(sums, a_dead_process_leaves_its_counters_and_not_its_gauges) {
    expect_sum(true, COUNTERS FLIGHT "tollgate_in_flight 3\n" UP "tollgate_redis_up 1\n");
}

Test(sums, what_is_no_number_is_passed_over) {
    struct sums s;
    struct str out;
    sums_init(&s);
    str_init(&out, 65536);
    sums_add(&s,
             SPAN("tollgate_lost 1\n" FLIGHT "tollgate_in_flight\ntollgate_in_flight x\ntollgate_in_flight 1.2.3\n"
                  "tollgate_in_flight -\ntollgate_in_flight 1e9\n\n# comment\ntollgate_in_flight -2.50\n"),
             false);
    sums_print(&s, &out);
    cr_expect_str_eq(out.at, FLIGHT "tollgate_in_flight -2.5\n", "%s", out.at);
    str_fini(&out);
    sums_fini(&s);
}

/* As metrics.c prints them: buckets as sums, money as a decimal. */
static const char lived[] = REQUESTS
    "tollgate_requests_total{alias=\"a\",status=\"200\"} 12000000000\n" COST
    "tollgate_cost_usd_total{team=\"x\"} 12.000000585\n"
    "# HELP tollgate_overhead_seconds Over.\n# TYPE tollgate_overhead_seconds histogram\n"
    "tollgate_overhead_seconds_bucket{le=\"0.001\"} 0\ntollgate_overhead_seconds_bucket{le=\"+Inf\"} 7\n"
    "tollgate_overhead_seconds_sum 1.500000\ntollgate_overhead_seconds_count 7\n" FLIGHT "tollgate_in_flight 3\n";

Test(sums, the_next_worker_goes_on_where_the_counters_of_the_last_one_stood) {
    struct metrics m;
    int64_t in_buckets = 0;
    metrics_init(&m);
    metrics_restore(&m, span_of(lived));
    metrics_add(&m, METRIC_REQUESTS, 1, "alias=\"a\",status=\"200\"");
    int64_t *requests = map_find(&m.series[METRIC_REQUESTS], SPAN("alias=\"a\",status=\"200\""));
    int64_t *cost = map_find(&m.series[METRIC_COST], SPAN("team=\"x\""));
    cr_assert(requests && cost);
    cr_expect_eq(*requests, INT64_C(12000000001));
    cr_expect_eq(*cost, INT64_C(12000000585));
    cr_expect_eq(m.histograms[HISTOGRAM_OVERHEAD].n, 7);
    cr_expect_eq(m.histograms[HISTOGRAM_OVERHEAD].sum_us, 1500000);
    for (size_t i = 0; i <= HISTOGRAM_BUCKETS; i++)
        in_buckets += m.histograms[HISTOGRAM_OVERHEAD].buckets[i];
    cr_expect_eq(in_buckets, 7);
    metrics_fini(&m);
}
