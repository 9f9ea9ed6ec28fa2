/* Tries at providers: the ladder, what is invisible before content, what nothing turns back after it. */
#include "tests/support/story.h"

#define LADDER                                                                                                         \
    "aliases: {m: {ladder: [{targets: [up/model-x]}, {targets: [low/model-y], degraded: true}], attempts: 4, "         \
    "deadline: 20s}}\n"
#define CONF FLOW_BASE FLOW_BACKENDS LADDER FLOW_TEAMS
/* The second rung costs a hundred times more: its bound needs a raise. */
#define DEAR                                                                                                           \
    "backends:\n"                                                                                                      \
    "  up: {protocol: openai, url: \"http://127.0.0.1:@UP@/v1\", api_keys: [sk-upstream-canary]}\n"                    \
    "  low: {protocol: openai, url: \"http://127.0.0.1:@LOW@/v1\", api_keys: [sk-upstream-canary], models: "           \
    "{model-y: {price: {input: 100 USD/1M, output: 200 USD/1M}}}}\n"
#define BROKEN "{\"error\":{\"message\":\"broken\",\"type\":\"server_error\"}}"

STORY(tries, a_lower_rung_answers_and_the_answer_says_so, CONF) {
    struct caller *c = flow_call(f, FLOW_CALL);
    UNTIL(f, provider_call(&f->up, 0));
    up_answer(provider_call(&f->up, 0), 500, "", BROKEN);
    UNTIL(f, provider_call(&f->low, 0));
    cr_expect_not_null(strstr(provider_call(&f->low, 0)->body.at, "\"model\":\"model-y\""));
    up_answer(provider_call(&f->low, 0), 200, "", flow_plain);
    UNTIL(f, c->whole);
    cr_expect_eq(c->status, 200);
    cr_expect_str_eq(caller_field(c, "x-tollgate-degraded"), "unavailable");
    cr_expect_str_eq(caller_field(c, "x-tollgate-attempts"), "2");
    cr_expect_str_eq(caller_field(c, "x-tollgate-target"), "low/model-y");
    cr_expect_not_null(strstr(c->body.at, "\"tollgate\":{\"degraded\":\"unavailable\"}"), "%s", c->body.at);
    struct json settle = flow_record(f, "settle", 0);
    cr_expect(json_is(json_get(settle, "degraded"), "unavailable"));
    cr_expect_eq(json_count(json_get(settle, "attempts")), 2);
    cr_expect_eq(flow_i64(settle, "cost_nanousd"), FLOW_COST_NANOUSD, "a try that gave nothing costs nothing");
}

STORY(tries, a_lower_rung_marks_a_stream_too, CONF) {
    struct caller *c = flow_call(f, FLOW_STREAM);
    UNTIL(f, provider_call(&f->up, 0));
    up_leave(provider_call(&f->up, 0), true);
    UNTIL(f, provider_call(&f->low, 0));
    struct up *u = provider_call(&f->low, 0);
    up_stream(u);
    up_event(u, span_of(flow_stream));
    up_end(u);
    UNTIL(f, c->whole);
    cr_expect_str_eq(caller_field(c, "x-tollgate-degraded"), "unavailable");
    cr_expect_not_null(strstr(c->body.at, "\"tollgate\":{\"degraded\":\"unavailable\"}"), "%s", c->body.at);
    cr_expect_not_null(strstr(c->body.at, "[DONE]"));
}

STORY(tries, after_content_nothing_turns_back, CONF) {
    struct caller *c = flow_call(f, FLOW_STREAM);
    UNTIL(f, provider_call(&f->up, 0));
    struct up *u = provider_call(&f->up, 0);
    up_stream(u);
    up_event(u, span_of(flow_first));
    UNTIL(f, strstr(c->body.at, "\"Hi\""));
    up_leave(u, true);
    UNTIL(f, c->whole || c->closed);
    cr_expect_eq(f->low.calls.n, 0);
    cr_expect_not_null(strstr(c->body.at, "\"error\""));
    cr_expect_null(strstr(c->body.at, "[DONE]"));
    struct json settle = flow_record(f, "settle", 0);
    cr_expect(json_is(json_get(settle, "code"), "upstream_failed"), "%.*s", SPAN_ARG(settle.raw));
    cr_expect_eq(json_get(settle, "estimated").kind, JSON_TRUE);
    cr_expect(flow_i64(settle, "cost_nanousd") > 0, "what was seen is paid");
}

STORY(tries, every_choice_failed, CONF) {
    struct caller *c = flow_call(f, FLOW_CALL);
    UNTIL(f, provider_call(&f->up, 0));
    up_answer(provider_call(&f->up, 0), 500, "", BROKEN);
    UNTIL(f, provider_call(&f->low, 0));
    up_answer(provider_call(&f->low, 0), 503, "", BROKEN);
    UNTIL(f, c->whole);
    cr_expect_eq(c->status, 502);
    cr_expect_not_null(strstr(c->body.at, "\"code\":\"upstream_failed\""));
    cr_expect_str_eq(caller_field(c, "x-should-retry"), "false");
    cr_expect_eq(flow_i64(flow_record(f, "settle", 0), "cost_nanousd"), 0);
}

STORY(tries, a_raised_hold_is_written_before_it_is_used, FLOW_BASE DEAR LADDER FLOW_TEAMS) {
    struct caller *c = flow_call(f, FLOW_CALL);
    UNTIL(f, provider_call(&f->up, 0));
    int64_t admit_nanousd = flow_i64(flow_record(f, "admit", 0), "hold_nanousd");
    cr_expect_eq(flow_count(f, "hold"), 0);
    up_answer(provider_call(&f->up, 0), 500, "", BROKEN);
    UNTIL(f, provider_call(&f->low, 0));
    cr_assert_eq(flow_count(f, "hold"), 1, "the hold record is in the file when the second call arrives");
    int64_t held_nanousd, settled_nanousd, raised_nanousd = flow_i64(flow_record(f, "hold", 0), "hold_nanousd");
    cr_expect(raised_nanousd > 50 * admit_nanousd && admit_nanousd > 0);
    flow_held(f, &held_nanousd, &settled_nanousd);
    cr_expect_eq(held_nanousd, raised_nanousd);
    up_answer(provider_call(&f->low, 0), 200, "", flow_plain);
    UNTIL(f, c->whole);
    cr_expect_eq(flow_i64(flow_record(f, "settle", 0), "cost_nanousd"), 100 * FLOW_COST_NANOUSD);
}

#define SMALL                                                                                                          \
    "teams:\n"                                                                                                         \
    "  search: {" FLOW_KEYS ", allow: [\"*\"], budgets: [{limit: 0.01 USD, period: month}]}\n"

STORY(tries, a_raise_that_does_not_fit_is_402_and_the_first_hold_is_given_back, FLOW_BASE DEAR LADDER SMALL) {
    struct caller *c = flow_call(f, FLOW_CALL);
    UNTIL(f, provider_call(&f->up, 0));
    up_answer(provider_call(&f->up, 0), 500, "", BROKEN);
    UNTIL(f, c->whole);
    cr_expect_eq(c->status, 402);
    cr_expect_eq(f->low.calls.n, 0);
    UNTIL(f, flow_idle(f));
    cr_expect_eq(flow_count(f, "refuse"), 0);
    cr_expect(json_is(json_get(flow_record(f, "settle", 0), "code"), "budget_exceeded"),
              "what was admitted is settled");
}

#ifdef TOLLGATE_TEST
STORY(tries, the_deadline_ends_a_silent_try, CONF) {
    struct caller *c = flow_call(f, FLOW_CALL);
    UNTIL(f, provider_call(&f->up, 0));
    *f->clock_us += 21 * US_PER_S;
    UNTIL(f, c->whole);
    cr_expect_eq(c->status, 504);
    cr_expect_not_null(strstr(c->body.at, "\"code\":\"deadline_exceeded\""));
    UNTIL(f, provider_call(&f->up, 0)->gone);
    cr_expect_eq(f->low.calls.n, 0);
}

STORY(tries, the_deadline_never_cuts_a_running_stream, CONF) {
    struct caller *c = flow_call(f, FLOW_STREAM);
    UNTIL(f, provider_call(&f->up, 0));
    struct up *u = provider_call(&f->up, 0);
    up_stream(u);
    up_event(u, span_of(flow_first));
    UNTIL(f, strstr(c->body.at, "\"Hi\""));
    *f->clock_us += 21 * US_PER_S;
    UNTIL(f, strstr(c->body.at, ": ") == c->body.at || strstr(c->body.at, "\n: "));
    up_event(u, span_of(flow_rest));
    up_end(u);
    UNTIL(f, c->whole);
    cr_expect_not_null(strstr(c->body.at, "[DONE]"));
}

STORY(tries, heartbeats_commit_the_head_and_another_try_is_still_invisible, CONF) {
    struct caller *c = flow_call(f, FLOW_STREAM);
    UNTIL(f, provider_call(&f->up, 0));
    *f->clock_us += 16 * US_PER_S;
    UNTIL(f, c->status == 200 && c->body.n);
    cr_expect_eq(c->body.at[0], ':', "%s", c->body.at);
    up_answer(provider_call(&f->up, 0), 500, "", BROKEN);
    UNTIL(f, provider_call(&f->low, 0));
    struct up *u = provider_call(&f->low, 0);
    up_stream(u);
    up_event(u, span_of(flow_stream));
    up_end(u);
    UNTIL(f, c->whole);
    cr_expect_not_null(strstr(c->body.at, "[DONE]"));
    cr_expect_null(strstr(c->body.at, "\"error\""));
}

STORY(tries, a_failure_after_heartbeats_is_an_error_event, CONF) {
    struct caller *c = flow_call(f, FLOW_STREAM);
    UNTIL(f, provider_call(&f->up, 0));
    *f->clock_us += 16 * US_PER_S;
    UNTIL(f, c->status == 200 && c->body.n);
    up_answer(provider_call(&f->up, 0), 500, "", BROKEN);
    UNTIL(f, provider_call(&f->low, 0));
    up_answer(provider_call(&f->low, 0), 500, "", BROKEN);
    UNTIL(f, c->whole || c->closed);
    cr_expect_not_null(strstr(c->body.at, "data: {\"error\""), "%s", c->body.at);
    cr_expect_null(strstr(c->body.at, "[DONE]"));
    cr_expect(json_is(json_get(flow_record(f, "settle", 0), "code"), "upstream_failed"));
}
#endif

/* Back-off, health and slots: a provider's 429 with its wish goes down the ladder; alone it is told to the client. */
STORY(tries, a_rate_limit_of_the_only_provider_is_told_with_its_wait, FLOW_CONF) {
    struct caller *c = flow_call(f, FLOW_CALL);
    UNTIL(f, provider_call(&f->up, 0));
    up_answer(provider_call(&f->up, 0), 429, "retry-after: 7\r\n", BROKEN);
    UNTIL(f, c->whole);
    cr_expect_eq(c->status, 429);
    cr_expect_str_eq(caller_field(c, "retry-after"), "7");
    cr_expect_eq(f->up.calls.n, 1);
}

/* Two tries within reach: the second is the last word, and says that it is no use to come again at once. */
STORY(tries, R_14_gateway_and_sdk_retries_do_not_multiply, CONF) {
    struct caller *c = flow_call(f, FLOW_CALL);
    UNTIL(f, provider_call(&f->up, 0));
    up_answer(provider_call(&f->up, 0), 429, "retry-after: 9\r\n", BROKEN);
    UNTIL(f, provider_call(&f->low, 0));
    up_answer(provider_call(&f->low, 0), 429, "retry-after: 4\r\n", BROKEN);
    UNTIL(f, c->whole);
    cr_expect_eq(c->status, 429);
    cr_expect_str_eq(caller_field(c, "x-should-retry"), "false");
    cr_expect_str_eq(caller_field(c, "retry-after"), "4", "the soonest of those who asked for time");
    cr_expect_str_eq(caller_field(c, "x-tollgate-attempts"), "2");
}

/* Of a provider's view of the head; "" when it is not there. */
static void up_field(const struct up *u, const char *name, char out[80]) {
    const char *at = strstr(u->head.at, name);
    out[0] = '\0';
    if (at)
        snprintf(out, 80, "%.*s", (int)strcspn(at + strlen(name) + 2, "\r"), at + strlen(name) + 2);
}

STORY(tries, R_07_a_provider_hears_of_the_deadline_and_knows_the_same_call_again, CONF) {
    char wait[80], key[80], again[80];
    struct caller *c = flow_call(f, FLOW_CALL);
    UNTIL(f, provider_call(&f->up, 0));
    up_field(provider_call(&f->up, 0), "x-stainless-timeout", wait);
    up_field(provider_call(&f->up, 0), "idempotency-key", key);
    cr_expect_str_eq(wait, "10", "half of the alias's 20s: another may follow");
    up_answer(provider_call(&f->up, 0), 500, "", BROKEN);
    UNTIL(f, provider_call(&f->low, 0));
    up_field(provider_call(&f->low, 0), "x-stainless-timeout", wait);
    up_field(provider_call(&f->low, 0), "idempotency-key", again);
    cr_expect_str_eq(wait, "20", "what is left is all its own");
    cr_expect_str_eq(again, key);
    up_answer(provider_call(&f->low, 0), 200, "", flow_plain);
    UNTIL(f, c->whole);
    cr_expect_str_eq(caller_field(c, "x-request-id"), key);
}

#ifdef TOLLGATE_TEST
STORY(tries, a_silent_provider_does_not_use_up_the_time_of_the_rung_below, CONF) {
    struct caller *c = flow_call(f, FLOW_STREAM);
    UNTIL(f, provider_call(&f->up, 0));
    *f->clock_us += 11 * US_PER_S; /* of 20, while the backend's own patience is 5m */
    UNTIL(f, provider_call(&f->low, 0));
    struct up *u = provider_call(&f->low, 0);
    up_stream(u);
    up_event(u, span_of(flow_stream));
    up_end(u);
    UNTIL(f, c->whole);
    /* The head went with a comment while the first was silent: what came of it stands in the body. */
    cr_expect_not_null(strstr(c->body.at, "\"tollgate\":{\"degraded\":\"timeout\"}"), "%s", c->body.at);
}
#endif
