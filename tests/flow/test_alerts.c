/* Somebody is told: a webhook gets what happened, signed, once a period, and again until it has taken it. The second provider
 * plays the webhook. */
#include "gateway/alerts/alert.h"

#include "tests/support/story.h"

#include <stdlib.h>

#define SECRET "whsec_c2VjcmV0LWZvci1ob29rcw==" /* "secret-for-hooks" */
#define ALERTS "alerts: [{url: \"http://127.0.0.1:@LOW@/hook?a=b\", secret: \"" SECRET "\"}]\n"
#define UNPRICED                                                                                                       \
    "listen: [{address: \"127.0.0.1:0\"}]\n"                                                                           \
    "admin: {address: \"127.0.0.1:0\", token: admin-token-0123456789}\n"                                               \
    "node: test\n"                                                                                                     \
    "state: {directory: @DIR@/state}\n"                                                                                \
    "audit: {directory: @DIR@/audit}\n"                                                                                \
    "log: {level: error}\n"

static void take(struct up *u) {
    up_answer(u, 204, "", "");
}

static void field_of(const struct up *u, const char *name, char *out, size_t n) {
    const char *at = strcasestr(u->head.at, name);
    cr_assert_not_null(at, "%s in %s", name, u->head.at);
    at += strlen(name);
    at += strspn(at, ": ");
    snprintf(out, n, "%.*s", (int)strcspn(at, "\r\n"), at);
}

static void expect_signed(const struct up *u) {
    char id[64], when[32], signature[80], text[2048], right[BASE64_MAX(SHA256_BYTES)];
    uint8_t mac[SHA256_BYTES];
    field_of(u, "webhook-id", id, sizeof id);
    field_of(u, "webhook-timestamp", when, sizeof when);
    field_of(u, "webhook-signature", signature, sizeof signature);
    snprintf(text, sizeof text, "%s.%s.%.*s", id, when, (int)u->body.n, u->body.at);
    hmac_sha256(SPAN("secret-for-hooks"), span_of(text), mac);
    cr_expect(strncmp(signature, "v1,", 3) == 0);
    cr_expect_str_eq(signature + 3, base64_put(mac, sizeof mac, right));
}

static struct json body_of(const struct up *u) {
    struct json body;
    struct json_fault fault;
    cr_assert(json_check(str_span(&u->body), JSON_DEPTH_MAX, &body, &fault), "%s", u->body.at);
    return body;
}

static void raise_one(struct flow *f, const char *scope) {
    alert_raise(f->g,
                &(struct alert){.event = ALERT_BUDGET_LIMIT, .scope = scope, .text = "Gone.", .figures = "\"a\":1"});
}

static int64_t counted(struct flow *f, const char *result) {
    char labels[96];
    snprintf(labels, sizeof labels, "event=\"budget_limit\",result=\"%s\"", result);
    int64_t *n = map_find(&f->g->metrics.series[METRIC_ALERTS], span_of(labels));
    return n ? *n : 0;
}

STORY(alerts, a_model_without_a_price_is_told_once_and_signed, UNPRICED FLOW_BACKENDS FLOW_ALIASES FLOW_TEAMS ALERTS) {
    f->low.script = take;
    for (int i = 0; i < 3; i++) {
        struct caller *c = flow_call(f, FLOW_CALL);
        UNTIL(f, c->whole);
        cr_expect_eq(c->status, 403);
    }
    UNTIL(f, provider_call(&f->low, 0) && alerts_open(f->g->alerts) == 0);
    flow_pump(f, 20);
    cr_expect_eq(f->low.calls.n, 1, "three calls, one alert");
    struct up *u = provider_call(&f->low, 0);
    struct json body = body_of(u);
    char id[64];
    cr_expect(strncmp(u->head.at, "POST /hook?a=b HTTP/1.1", 23) == 0);
    field_of(u, "webhook-id", id, sizeof id);
    cr_expect(json_is(json_get(body, "id"), id));
    cr_expect(json_is(json_get(body, "event"), "price_unknown"));
    cr_expect(json_is(json_get(body, "scope"), "up/model-x"));
    cr_expect(json_is(json_get(body, "node"), "test"));
    cr_expect(json_is(json_get(json_get(body, "figures"), "alias"), "m"));
    expect_signed(u);
}

STORY(alerts, a_webhook_that_fails_is_asked_again_with_the_same_id, FLOW_CONF ALERTS) {
    char first[64], second[64];
    raise_one(f, "team/search");
    UNTIL(f, provider_call(&f->low, 0));
    up_answer(provider_call(&f->low, 0), 500, "", "{}");
    UNTIL(f, counted(f, "retried") == 1);
    flow_pump(f, 5);
    cr_expect_eq(f->low.calls.n, 1, "not before its time");
#ifdef TOLLGATE_TEST
    *f->clock_us += 2 * ALERT_FIRST_WAIT_US;
    UNTIL(f, provider_call(&f->low, 1));
    up_answer(provider_call(&f->low, 1), 302, "location: http://127.0.0.1:1/\r\n", "{}");
    UNTIL(f, counted(f, "retried") == 2);
    *f->clock_us += 4 * ALERT_FIRST_WAIT_US;
    UNTIL(f, provider_call(&f->low, 2));
    take(provider_call(&f->low, 2));
    UNTIL(f, counted(f, "delivered") == 1);
    field_of(provider_call(&f->low, 0), "webhook-id", first, sizeof first);
    field_of(provider_call(&f->low, 2), "webhook-id", second, sizeof second);
    cr_expect_str_eq(first, second);
    expect_signed(provider_call(&f->low, 2));
    raise_one(f, "team/search");
    cr_expect_eq(alerts_open(f->g->alerts), 0, "not again within its period");
    *f->clock_us += ALERT_QUIET_US;
    raise_one(f, "team/search");
    UNTIL(f, provider_call(&f->low, 3));
    take(provider_call(&f->low, 3));
    UNTIL(f, counted(f, "delivered") == 2);
#else
    (void)first, (void)second;
#endif
}

STORY(alerts, a_webhook_that_is_gone_or_was_taken_from_the_conf_is_given_up, FLOW_CONF ALERTS) {
    struct str report;
    raise_one(f, "a");
    UNTIL(f, provider_call(&f->low, 0));
    up_answer(provider_call(&f->low, 0), 410, "", "{}");
    UNTIL(f, counted(f, "failed") == 1 && alerts_open(f->g->alerts) == 0);
    raise_one(f, "b");
    UNTIL(f, provider_call(&f->low, 1));
    up_answer(provider_call(&f->low, 1), 500, "", "{}");
    UNTIL(f, counted(f, "retried") == 1);
    flow_conf(f, FLOW_CONF);
    str_init(&report, 4096);
    cr_assert(gateway_reload(f->g, false, &report), "%s", report.at);
    str_fini(&report);
#ifdef TOLLGATE_TEST
    *f->clock_us += 2 * ALERT_FIRST_WAIT_US;
    UNTIL(f, alerts_open(f->g->alerts) == 0);
    cr_expect_eq(counted(f, "dropped"), 1);
#endif
}

STORY(alerts, what_finds_no_room_is_dropped_and_counted, FLOW_CONF ALERTS) {
    char scope[32];
    for (int i = 0; i < ALERT_DELIVERIES_MAX + 5; i++) {
        snprintf(scope, sizeof scope, "team/%d", i);
        raise_one(f, scope);
    }
    cr_expect_eq(alerts_open(f->g->alerts), ALERT_DELIVERIES_MAX);
    cr_expect_eq(counted(f, "dropped"), 5);
    UNTIL(f, provider_call(&f->low, 1));
    flow_pump(f, 20);
    cr_expect_eq(f->low.calls.n, ALERT_RUNNING_MAX, "a silent webhook holds up no more than these");
    f->low.script = take;
    take(provider_call(&f->low, 0));
    take(provider_call(&f->low, 1));
    UNTIL(f, counted(f, "delivered") == ALERT_DELIVERIES_MAX);
}

STORY(alerts, a_target_that_is_down_is_told, FLOW_CONF ALERTS "health: {cool_down: [1m, 5m]}\n") {
    f->low.script = take;
    for (int i = 0; i < 4; i++) {
        struct caller *c = flow_call(f, FLOW_CALL);
        UNTIL(f, provider_call(&f->up, (size_t)i) || c->whole);
        if (provider_call(&f->up, (size_t)i))
            up_answer(provider_call(&f->up, (size_t)i), 500, "", "{}");
        UNTIL(f, c->whole);
    }
#ifdef TOLLGATE_TEST
    *f->clock_us += 2 * US_PER_S; /* the next look */
    UNTIL(f, provider_call(&f->low, 0) && alerts_open(f->g->alerts) == 0);
    struct json body = body_of(provider_call(&f->low, 0));
    cr_expect(json_is(json_get(body, "event"), "target_down"));
    cr_expect(json_is(json_get(body, "scope"), "up/model-x"));
    cr_expect(json_is(json_get(json_get(body, "figures"), "reason"), "unavailable"));
#endif
}

#ifdef TOLLGATE_TEST /* the clock can be moved */
#define EXPIRING                                                                                                       \
    FLOW_BASE FLOW_BACKENDS FLOW_ALIASES                                                                               \
        "teams:\n"                                                                                                     \
        "  search: {keys: [{id: callers1, name: test, sha256: @KEY@}, {id: shortkey, name: short, owner: anna, "       \
        "sha256: @OTHER@, expires: \""
#define EXPIRED "\"}], allow: [\"*\"]}\n" ALERTS

static void expect_expiry(struct flow *f, size_t nth, const char *event, const char *mark) {
    UNTIL(f, provider_call(&f->low, nth) && alerts_open(f->g->alerts) == 0);
    struct json body = body_of(provider_call(&f->low, nth));
    cr_expect(json_is(json_get(body, "event"), event) && json_is(json_get(body, "mark"), mark), "%s",
              provider_call(&f->low, nth)->body.at);
    cr_expect(json_is(json_get(body, "scope"), "shortkey"));
    cr_expect(json_is(json_get(json_get(body, "figures"), "owner"), "anna"));
}

STORY(alerts, a_key_that_ends_is_told_a_week_before_a_day_before_and_when_it_is_over, FLOW_CONF ALERTS) {
    char when[CLOCK_TEXT_MAX], conf[4096];
    struct str report;
    f->low.script = take;
    snprintf(conf, sizeof conf, "%s%s%s", EXPIRING, clock_text(clock_wall_us() + 3 * US_PER_DAY, when), EXPIRED);
    flow_conf(f, conf);
    str_init(&report, 4096);
    cr_assert(gateway_reload(f->g, false, &report), "%s", report.at);
    str_fini(&report);
    expect_expiry(f, 0, "key_expiring", "7d");
    *f->clock_us += 2 * US_PER_DAY + US_PER_HOUR;
    expect_expiry(f, 1, "key_expiring", "1d");
    *f->clock_us += US_PER_DAY;
    expect_expiry(f, 2, "key_expired", "over");
    *f->clock_us += US_PER_DAY;
    flow_pump(f, 50);
    cr_expect_eq(f->low.calls.n, 3, "each once, and no more of a key that is long over");
}

static void segment_of(struct flow *f, char path[512]) {
    char day[CLOCK_TEXT_MAX];
    clock_text(f->g->started_us, day);
    snprintf(path, 512, "%s/audit/audit-test.0-%.4s%.2s%.2s-000001.jsonl", f->folder, day, day + 5, day + 8);
}

STORY(alerts, a_log_that_cannot_be_written_is_told, FLOW_CONF ALERTS) {
    char path[512], away[520];
    f->low.script = take;
    segment_of(f, path);
    snprintf(away, sizeof away, "%s.away", path);
    UNTIL(f, flow_idle(f));
    cr_assert_eq(rename(path, away), 0, "%s", path);
    struct caller *c = flow_call(f, "{\"model\":\"nobody\",\"messages\":[]}");
    UNTIL(f, !audit_healthy(f->g->audit));
    *f->clock_us += 2 * US_PER_S; /* the next look */
    UNTIL(f, provider_call(&f->low, 0) && alerts_open(f->g->alerts) == 0);
    struct json body = body_of(provider_call(&f->low, 0));
    cr_expect(json_is(json_get(body, "event"), "audit_lag") && json_is(json_get(body, "scope"), "test.0"));
    cr_expect_eq(json_get(json_get(body, "figures"), "healthy").kind, JSON_FALSE);
    cr_assert_eq(rename(away, path), 0);
    UNTIL(f, audit_healthy(f->g->audit) && c->whole);
    cr_expect_eq(c->status, 404);
}
#endif
