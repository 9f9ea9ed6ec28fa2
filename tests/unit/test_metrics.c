/* Counters and histograms: series by label text, buckets that a reader can add up. */
#include "gateway/metrics.h"

#include <criterion/criterion.h>

static int64_t value(const struct metrics *m, enum metric which, const char *labels) {
    const int64_t *count = map_find(&m->series[which], span_of(labels));
    return count ? *count : -1;
}

Test(metrics, a_series_is_its_labels) {
    struct metrics m;
    metrics_init(&m);
    metrics_add(&m, METRIC_REQUESTS, 1, "alias=\"%s\",status=\"%d\"", "fast", 200);
    metrics_add(&m, METRIC_REQUESTS, 2, "alias=\"%s\",status=\"%d\"", "fast", 200);
    metrics_add(&m, METRIC_REQUESTS, 1, "alias=\"%s\",status=\"%d\"", "fast", 429);
    metrics_add(&m, METRIC_TOKENS, INT64_C(5000000000), "kind=\"input\"");
    cr_expect_eq(value(&m, METRIC_REQUESTS, "alias=\"fast\",status=\"200\""), 3);
    cr_expect_eq(value(&m, METRIC_REQUESTS, "alias=\"fast\",status=\"429\""), 1);
    cr_expect_eq(m.series[METRIC_REQUESTS].n, 2);
    cr_expect_eq(value(&m, METRIC_TOKENS, "kind=\"input\""), INT64_C(5000000000));
    cr_expect_eq(value(&m, METRIC_COST, "kind=\"input\""), -1);
    metrics_fini(&m);
}

Test(metrics, labels_longer_than_a_line_are_cut_and_still_one_series) {
    struct metrics m;
    char name[2000];
    memset(name, 'x', sizeof name);
    name[sizeof name - 1] = '\0';
    metrics_init(&m);
    metrics_add(&m, METRIC_CACHE, 1, "result=\"%s\"", name);
    metrics_add(&m, METRIC_CACHE, 1, "result=\"%s\"", name);
    cr_expect_eq(m.series[METRIC_CACHE].n, 1);
    metrics_fini(&m);
}

Test(metrics, a_time_falls_into_the_first_bucket_that_holds_it) {
    static const struct {
        int64_t us;
        int bucket;
    } rows[] = {{0, 0}, {50, 0}, {51, 1}, {100, 1}, {1000, 4}, {1001, 5}, {120000000, 13}, {120000001, 14}};
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct metrics m;
        metrics_init(&m);
        metrics_time(&m, HISTOGRAM_DURATION, rows[i].us);
        cr_expect_eq(m.histograms[HISTOGRAM_DURATION].buckets[rows[i].bucket], 1, "%ld", (long)rows[i].us);
        cr_expect_eq(m.histograms[HISTOGRAM_DURATION].sum_us, rows[i].us);
        cr_expect_eq(m.histograms[HISTOGRAM_DURATION].n, 1);
        cr_expect_eq(m.histograms[HISTOGRAM_OVERHEAD].n, 0);
        metrics_fini(&m);
    }
}
