/* Copies of calls for another target: what the client sees of them (nothing), who pays, what the log says, and what does
 * not happen. What must hold after any story is checked by flow_close: every copy is settled, and nothing is held. */
#include "tests/support/story.h"

#define SHADOW(percent, budget)                                                                                        \
    "aliases: {m: {ladder: [{targets: [up/model-x]}], shadow: {target: low/model-y, percent: " percent                 \
    ", budget: " budget "}}}\n"
#define CONF FLOW_BASE FLOW_BACKENDS SHADOW("100", "1 USD/month") FLOW_TEAMS
#define ZERO                                                                                                           \
    "{\"model\":\"m\",\"temperature\":0,\"messages\":[{\"role\":\"user\",\"content\":\"Hello\"}],\"max_tokens\":100}"

static struct caller *served(struct flow *f, const char *body) {
    size_t n = f->up.calls.n;
    struct caller *c = flow_call(f, body);
    UNTIL(f, provider_call(&f->up, n));
    up_answer(provider_call(&f->up, n), 200, "", flow_plain);
    UNTIL(f, c->whole);
    cr_assert_eq(c->status, 200);
    return c;
}

static int64_t count_of(struct flow *f, const char *result) {
    char labels[64];
    snprintf(labels, sizeof labels, "alias=\"m\",result=\"%s\"", result);
    const int64_t *n = map_find(&f->g->metrics.series[METRIC_SHADOWS], span_of(labels));
    return n ? *n : 0;
}

static struct json settled_by(struct flow *f, const char *team) {
    for (size_t i = 0; i < flow_count(f, "settle"); i++) {
        struct json settle = flow_record(f, "settle", i);
        if (json_is(json_get(settle, "team"), team))
            return settle;
    }
    return (struct json){0};
}

STORY(shadow, a_copy_goes_to_its_target_after_the_client_was_served, CONF) {
    struct caller *c = flow_call(f, ZERO);
    UNTIL(f, provider_call(&f->up, 0));
    cr_expect_eq(f->low.calls.n, 0);
    up_answer(provider_call(&f->up, 0), 200, "", flow_plain);
    UNTIL(f, c->whole);
    UNTIL(f, provider_call(&f->low, 0));
    struct up *copy = provider_call(&f->low, 0);
    cr_expect_not_null(strstr(copy->body.at, "\"model\":\"model-y\""), "%s", copy->body.at);
    cr_expect_not_null(strstr(copy->body.at, "\"content\":\"Hello\""));
    cr_expect(http_buffered_bytes() >= 0 && f->g->buffered_bytes == 0, "nothing of it is counted as a client's");
    cr_expect_gt(f->g->shadows.bytes, 0);
    up_answer(copy, 200, "", flow_plain);
    UNTIL(f, flow_idle(f));
    struct json own = settled_by(f, "_gateway"), clients = settled_by(f, "search");
    struct json pair = json_get(own, "pair");
    cr_expect(json_is(json_get(own, "alias"), "m") && json_is(json_get(own, "target"), "low/model-y"));
    cr_expect(span_equal(json_get(own, "shadow_of").raw, json_get(clients, "request").raw), "it names the other");
    cr_expect_eq(flow_i64(own, "cost_nanousd"), FLOW_COST_NANOUSD);
    cr_expect_eq(flow_i64(clients, "cost_nanousd"), FLOW_COST_NANOUSD, "the team pays for its own call alone");
    cr_expect_eq(flow_i64(json_get(pair, "client"), "cost_nanousd"), FLOW_COST_NANOUSD);
    cr_expect_eq(flow_i64(json_get(pair, "shadow"), "status"), 200);
    cr_expect(json_is(json_get(json_get(pair, "shadow"), "finish"), "stop"), "%.*s", SPAN_ARG(own.raw));
    cr_expect_eq(flow_i64(json_get(pair, "shadow"), "text_bytes"), 8);
    cr_expect_eq(flow_i64(pair, "likeness_ppm"), 1000000, "%.*s", SPAN_ARG(own.raw));
    cr_expect_eq(count_of(f, "served"), 1);
    cr_expect_eq(json_get(own, "client").kind, JSON_NONE, "nobody's address");
}

STORY(shadow, a_stream_is_copied_as_a_stream_and_compared_without_words_above_temperature_0, CONF) {
    struct caller *c = flow_call(f, FLOW_STREAM);
    UNTIL(f, provider_call(&f->up, 0));
    struct up *u = provider_call(&f->up, 0);
    up_stream(u);
    up_event(u, span_of(flow_stream));
    up_end(u);
    UNTIL(f, c->whole);
    UNTIL(f, provider_call(&f->low, 0));
    struct up *copy = provider_call(&f->low, 0);
    up_stream(copy);
    up_event(copy, span_of(flow_first));
    for (int i = 0; i < 10; i++)
        flow_turn(f, 0);
    up_event(copy, span_of(flow_rest));
    up_end(copy);
    UNTIL(f, flow_idle(f));
    struct json pair = json_get(settled_by(f, "_gateway"), "pair");
    cr_expect(flow_i64(json_get(pair, "shadow"), "first_us") >= 0, "%.*s", SPAN_ARG(pair.raw));
    cr_expect_eq(json_get(pair, "likeness_ppm").kind, JSON_NONE);
}

STORY(shadow, none_of_a_call_that_failed, CONF) {
    struct caller *c = flow_call(f, ZERO);
    UNTIL(f, provider_call(&f->up, 0));
    up_answer(provider_call(&f->up, 0), 400, "", "{\"error\":{\"message\":\"no\"}}");
    UNTIL(f, c->whole);
    UNTIL(f, flow_idle(f));
    cr_expect_eq(f->low.calls.n, 0);
}

STORY(shadow, none_where_the_share_is_nothing, FLOW_BASE FLOW_BACKENDS SHADOW("0", "1 USD/month") FLOW_TEAMS) {
    served(f, ZERO);
    UNTIL(f, flow_idle(f));
    cr_expect_eq(f->low.calls.n, 0);
    cr_expect_eq(f->g->metrics.series[METRIC_SHADOWS].n, 0);
}

/* The bound of one copy does not fit: no call, no record, and the client's own budget is not asked. */
STORY(shadow, over_its_budget_it_is_dropped_and_counted,
      FLOW_BASE FLOW_BACKENDS SHADOW("100", "0.0000001 USD/month") FLOW_TEAMS) {
    served(f, ZERO);
    UNTIL(f, flow_idle(f));
    cr_expect_eq(f->low.calls.n, 0);
    cr_expect_eq(count_of(f, "over_budget"), 1);
    cr_expect_eq(settled_by(f, "_gateway").kind, JSON_NONE);
    cr_expect_eq(flow_count(f, "refuse"), 0);
    served(f, ZERO);
}

STORY(shadow, its_target_is_down, CONF) {
    served(f, ZERO);
    UNTIL(f, provider_call(&f->low, 0));
    up_answer(provider_call(&f->low, 0), 500, "", "{\"error\":{\"message\":\"broken\"}}");
    UNTIL(f, flow_idle(f));
    struct json own = settled_by(f, "_gateway");
    cr_expect_eq(flow_i64(own, "status"), 502);
    cr_expect_eq(flow_i64(own, "cost_nanousd"), 0);
    cr_expect_eq(count_of(f, "failed"), 1);
    struct caller *c = served(f, ZERO);
    cr_expect_str_eq(caller_field(c, "x-tollgate-attempts"), "1");
    UNTIL(f, provider_call(&f->low, 1));
    up_answer(provider_call(&f->low, 1), 503, "", "{\"error\":{\"message\":\"broken\"}}");
}

STORY(shadow, a_boundary_of_the_caller_holds_for_the_copy_too,
      FLOW_BASE
      "backends:\n"
      "  up: {protocol: openai, url: \"http://127.0.0.1:@UP@/v1\", api_keys: [k], tags: [eu]}\n"
      "  low: {protocol: openai, url: \"http://127.0.0.1:@LOW@/v1\", api_keys: [k]}\n" SHADOW("100", "1 USD/month")
          FLOW_TEAMS) {
    struct caller *c = flow_call_with(f, "authorization: Bearer " FLOW_KEY "\r\nx-tollgate-require: eu\r\n", ZERO);
    UNTIL(f, provider_call(&f->up, 0));
    up_answer(provider_call(&f->up, 0), 200, "", flow_plain);
    UNTIL(f, c->whole);
    UNTIL(f, flow_idle(f));
    cr_expect_eq(f->low.calls.n, 0);
    cr_expect_eq(count_of(f, "failed"), 1);
}

STORY(shadow, few_run_at_once_and_what_is_too_much_is_dropped, CONF) {
    for (int i = 0; i < SHADOWS_MAX + 3; i++)
        served(f, ZERO);
    cr_expect_eq(f->g->shadows.all.n, SHADOWS_MAX);
    cr_expect_eq(f->g->shadows.running, SHADOWS_AT_ONCE);
    cr_expect_eq(count_of(f, "dropped"), 3);
    UNTIL(f, f->low.calls.n == SHADOWS_AT_ONCE);
    for (size_t i = 0; i < SHADOWS_MAX; i++) {
        UNTIL(f, provider_call(&f->low, i));
        up_answer(provider_call(&f->low, i), 200, "", flow_plain);
    }
    UNTIL(f, flow_idle(f));
    cr_expect_eq(count_of(f, "served"), SHADOWS_MAX);
}

STORY(shadow, it_takes_no_slot_of_a_backend,
      FLOW_BASE
      "backends:\n"
      "  up: {protocol: openai, url: \"http://127.0.0.1:@UP@/v1\", api_keys: [k], rate_limits: {in_flight: 1}}\n"
      "aliases: {m: {ladder: [{targets: [up/model-x]}], shadow: {target: up/model-y, percent: 100, budget: 1 "
      "USD/month}}}\n" FLOW_TEAMS) {
    served(f, ZERO);
    UNTIL(f, provider_call(&f->up, 1));
    struct caller *c = flow_call(f, ZERO);
    UNTIL(f, provider_call(&f->up, 2));
    up_answer(provider_call(&f->up, 2), 200, "", flow_plain);
    UNTIL(f, c->whole);
    cr_expect_eq(c->status, 200);
    up_answer(provider_call(&f->up, 1), 200, "", flow_plain);
    UNTIL(f, provider_call(&f->up, 3));
    up_answer(provider_call(&f->up, 3), 200, "", flow_plain);
}

STORY(shadow, a_drain_waits_for_none_and_pays_for_what_was_asked, CONF) {
    for (int i = 0; i < SHADOWS_AT_ONCE + 2; i++)
        served(f, ZERO);
    UNTIL(f, f->low.calls.n == SHADOWS_AT_ONCE);
    shadows_stop(f->g);
    UNTIL(f, flow_idle(f));
    cr_expect_eq(count_of(f, "cancelled"), SHADOWS_AT_ONCE + 2);
    for (size_t i = 0; i < SHADOWS_AT_ONCE; i++)
        UNTIL(f, provider_call(&f->low, i)->gone);
    struct json own = settled_by(f, "_gateway");
    cr_expect_eq(json_get(own, "estimated").kind, JSON_TRUE, "%.*s", SPAN_ARG(own.raw));
    cr_expect_gt(flow_i64(own, "cost_nanousd"), 0);
    cr_expect_eq(flow_count(f, "admit"), flow_count(f, "settle"));
}

STORY(shadow, a_call_that_begins_in_a_drain_is_not_copied, CONF) {
    struct caller *c = flow_call(f, ZERO);
    UNTIL(f, provider_call(&f->up, 0));
    f->g->draining = true;
    up_answer(provider_call(&f->up, 0), 200, "", flow_plain);
    UNTIL(f, c->whole);
    cr_expect_eq(count_of(f, "dropped"), 1);
    f->g->draining = false;
    UNTIL(f, flow_idle(f));
    cr_expect_eq(f->low.calls.n, 0);
}
