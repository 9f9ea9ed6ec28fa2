/* Two arms out of records: what counts where, and when a difference is said to be one. */
#include "gateway/finance/compare.h"

#include "gateway/base/clock.h"
#include "gateway/base/json.h"

#include <criterion/criterion.h>
#include <stdio.h>

#define ZEROS "0000000000000000000000000000000000000000000000000000000000000000"
#define SINCE "2026-12-01T00:00:00.000000Z"

static void see(struct compare *c, const char *arm, const char *outcome, int first_ms, int cost, const char *more) {
    char line[1024];
    snprintf(
        line, sizeof line,
        "{\"seq\":1,\"time\":\"2026-12-01T10:00:00.000000Z\",\"uptime_us\":1,\"kind\":\"settle\",\"prev\":\"" ZEROS
        "\","
        "\"request\":\"r\",\"alias\":\"smart\",\"status\":200,\"attempts\":[{\"target\":\"a/b\",\"outcome\":\"%s\"}],"
        "\"cost_nanousd\":%d,\"arm\":\"%s\",\"finish\":\"stop\",\"first_content_us\":%d%s,\"hash\":\"" ZEROS "\"}",
        outcome, cost, arm, first_ms * 1000, more);
    compare_see(c, span_of(line));
}

static struct json result(struct compare *c, struct str *out) {
    struct json v;
    str_clear(out);
    compare_print(c, true, out);
    cr_assert(json_check(str_span(out), JSON_DEPTH_MAX, &v, NULL), "%s", out->at);
    return v;
}

static int64_t number(struct json v, const char *side, const char *name) {
    int64_t n = -99;
    cr_assert(json_i64(json_get(json_get(v, side), name), &n), "%s %s", side, name);
    return n;
}

static struct compare *make(struct str *out) {
    int64_t since_us;
    str_init(out, 65536);
    cr_assert(clock_parse(SPAN(SINCE), &since_us));
    return compare_new("smart", since_us);
}

Test(compare, a_call_counts_on_its_arm_whoever_saved_it) {
    struct str out;
    struct compare *c = make(&out);
    for (int i = 0; i < 100; i++)
        see(c, "stable", i < 2 ? "timeout" : "ok", 100 + i, 1000, "");
    for (int i = 0; i < 50; i++)
        see(c, "canary", i < 10 ? "unavailable" : "ok", 300 + i, 2000 + i, "");
    see(c, "canary", "ok", 1, 1, ",\"cache\":\"hit\"");
    see(c, "canary", "ok", 1, 1, ",\"explained\":true");
    see(c, "pinned", "ok", 1, 1, "");
    compare_see(c, SPAN("not a record"));
    struct json v = result(c, &out), means = json_get(v, "meaning");
    cr_expect_eq(number(v, "stable", "calls"), 100);
    cr_expect_eq(number(v, "canary", "calls"), 50);
    cr_expect_eq(number(v, "stable", "errors"), 2);
    cr_expect_eq(number(v, "canary", "errors"), 10);
    cr_expect_eq(number(v, "stable", "first_token_p50_us"), 149000);
    cr_expect_eq(number(v, "stable", "first_token_p95_us"), 194000);
    cr_expect_eq(number(v, "canary", "cost_per_call_nanousd"), 2024);
    cr_expect(json_is(json_get(means, "errors"), "differs (p < 0.01)"), "%s", out.at);
    cr_expect(json_is(json_get(means, "first_token"), "differs (p < 0.01)"), "%s", out.at);
    cr_expect(json_is(json_get(means, "cost"), "differs (p < 0.01)"), "%s", out.at);
    str_clear(&out);
    compare_print(c, false, &out);
    cr_expect_not_null(strstr(out.at, "errors             2 (2.00%)          10 (20.00%)        differs (p < 0.01)"),
                       "%s", out.at);
    cr_expect_not_null(strstr(out.at, "finish stop        100                50"), "%s", out.at);
    compare_free(c);
    str_fini(&out);
}

Test(compare, of_few_or_equal_arms_no_difference_is_said) {
    struct str out;
    struct compare *c = make(&out);
    cr_expect(json_is(json_get(json_get(result(c, &out), "meaning"), "errors"), "too few calls to tell"));
    for (int i = 0; i < 29; i++) {
        see(c, "stable", "ok", 100, 1000, "");
        see(c, "canary", "timeout", 900, 9000, "");
    }
    cr_expect(json_is(json_get(json_get(result(c, &out), "meaning"), "errors"), "too few calls to tell"));
    compare_free(c);
    str_fini(&out);
    c = make(&out);
    for (int i = 0; i < 200; i++)
        see(c, i % 2 ? "stable" : "canary", i % 10 ? "ok" : "timeout", 100 + i % 7, 1000 + i % 3, "");
    struct json means = json_get(result(c, &out), "meaning");
    cr_expect(json_is(json_get(means, "first_token"), "may be chance"), "%s", out.at);
    cr_expect(json_is(json_get(means, "cost"), "may be chance"), "%s", out.at);
    compare_free(c);
    str_fini(&out);
}
