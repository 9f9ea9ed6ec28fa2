/* A second try beside a slow one: who wins, what the other costs, and who may refuse it. What must hold after any story
 * (one settle a request, nothing held, the log equal to the ledger) is checked by flow_close. */
#include "tests/support/story.h"

#ifdef TOLLGATE_TEST

#define AFTER "hedge: {after: 20s}"
#define BELOW                                                                                                          \
    "aliases: {m: {ladder: [{targets: [up/model-x]}, {targets: [low/model-y]}], " AFTER ", cache: {enabled: true}}}\n"
#define BESIDE "aliases: {m: {ladder: [{targets: [up/model-x, low/model-y]}], " AFTER "}}\n"
#define CONF FLOW_BASE FLOW_BACKENDS BELOW FLOW_TEAMS "http: {heartbeat: 60s}\n" /* no head before the answer */
#define BROKEN "{\"error\":{\"message\":\"broken\"}}"
#define FIELDS "authorization: Bearer " FLOW_KEY "\r\n"

/* What the prompt of FLOW_CALL is taken to cost where nobody says: every story below has the same prices and call. */
static int64_t cost_of(struct json settle, size_t i) {
    int64_t pico = -1;
    struct json attempts = json_get(settle, "attempts");
    struct json text = json_get(json_at(attempts, i), "pico");
    struct arena a = {.max = 4096};
    cr_assert(span_to_i64(json_text(text, &a), &pico));
    arena_fini(&a);
    return pico;
}

static struct json try_of(struct json settle, size_t i) {
    return json_at(json_get(settle, "attempts"), i);
}

static void wait_for_second(struct flow *f) {
    UNTIL(f, provider_call(&f->up, 0));
    *f->clock_us += 21 * US_PER_S;
    UNTIL(f, provider_call(&f->low, 0));
}

static void say_all(struct up *u) {
    up_stream(u);
    up_event(u, span_of(flow_stream));
    up_end(u);
}

STORY(hedge, the_second_wins_and_the_first_ends_at_once, CONF) {
    struct caller *c = flow_call(f, FLOW_STREAM);
    wait_for_second(f);
    cr_assert_eq(flow_count(f, "hold"), 1, "the raised hold is in the file before the second call arrives");
    int64_t one_nanousd = flow_i64(flow_record(f, "admit", 0), "hold_nanousd");
    cr_expect_eq(flow_i64(flow_record(f, "hold", 0), "hold_nanousd"), 2 * one_nanousd, "it covers both");
    struct up *u = provider_call(&f->low, 0);
    up_stream(u);
    up_event(u, span_of(flow_first));
    UNTIL(f, strstr(c->body.at ? c->body.at : "", "\"Hi\""));
    UNTIL(f, provider_call(&f->up, 0)->gone);
    up_event(u, span_of(flow_rest));
    up_end(u);
    UNTIL(f, c->whole);
    cr_expect_not_null(strstr(c->body.at, "[DONE]"));
    cr_expect_str_eq(caller_field(c, "x-tollgate-target"), "low/model-y");
    cr_expect_str_eq(caller_field(c, "x-tollgate-attempts"), "2");
    cr_expect_str_eq(caller_field(c, "x-tollgate-hedged"), "won");
    cr_expect_str_eq(caller_field(c, "x-tollgate-degraded"), "timeout");
    struct json settle = flow_record(f, "settle", 0);
    cr_expect(json_is(json_get(try_of(settle, 0), "outcome"), "cancelled"), "%.*s", SPAN_ARG(settle.raw));
    cr_expect_eq(json_get(json_get(try_of(settle, 0), "usage"), "estimated").kind, JSON_TRUE);
    cr_expect_eq(json_get(try_of(settle, 0), "hedged").kind, JSON_NONE);
    cr_expect_eq(json_get(try_of(settle, 1), "hedged").kind, JSON_TRUE);
    cr_expect_eq(json_get(try_of(settle, 1), "won").kind, JSON_TRUE);
    cr_expect_eq(json_get(settle, "estimated").kind, JSON_TRUE);
    cr_expect_gt(cost_of(settle, 0), 0, "the prompt at least");
    cr_expect_eq(cost_of(settle, 1), FLOW_COST_NANOUSD * 1000);
    int64_t cost_nanousd = flow_i64(settle, "cost_nanousd");
    cr_expect(cost_nanousd > FLOW_COST_NANOUSD && cost_nanousd <= 2 * one_nanousd);
}

STORY(hedge, the_first_wins_after_all_and_nothing_is_degraded, CONF) {
    struct caller *c = flow_call(f, FLOW_STREAM);
    wait_for_second(f);
    say_all(provider_call(&f->up, 0));
    UNTIL(f, c->whole);
    UNTIL(f, provider_call(&f->low, 0)->gone);
    cr_expect_not_null(strstr(c->body.at, "[DONE]"));
    cr_expect_str_eq(caller_field(c, "x-tollgate-target"), "up/model-x");
    cr_expect_str_eq(caller_field(c, "x-tollgate-hedged"), "lost");
    cr_expect_null(caller_field(c, "x-tollgate-degraded"));
    struct json settle = flow_record(f, "settle", 0);
    cr_expect(json_is(json_get(settle, "target"), "up/model-x"));
    cr_expect_eq(json_get(try_of(settle, 0), "won").kind, JSON_TRUE);
    cr_expect_eq(json_get(try_of(settle, 1), "hedged").kind, JSON_TRUE);
    cr_expect(json_is(json_get(try_of(settle, 1), "outcome"), "cancelled"));
    cr_expect_gt(cost_of(settle, 1), 0);
}

STORY(hedge, what_the_loser_said_before_content_is_in_no_answer, CONF) {
    struct caller *c = flow_call(f, FLOW_STREAM);
    wait_for_second(f);
    struct up *u = provider_call(&f->up, 0);
    up_stream(u);
    up_event(u, SPAN("data: {\"id\":\"loser\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":\"model-x\","
                     "\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\"},\"finish_reason\":null}]}\n\n"));
    for (int i = 0; i < 20; i++)
        flow_turn(f, 0);
    say_all(provider_call(&f->low, 0));
    UNTIL(f, c->whole);
    cr_expect_null(strstr(c->body.at, "loser"), "%s", c->body.at);
    cr_expect_not_null(strstr(c->body.at, "[DONE]"));
}

STORY(hedge, within_one_rung_it_is_no_way_down, FLOW_BASE FLOW_BACKENDS BESIDE FLOW_TEAMS) {
    struct caller *c = flow_call(f, FLOW_CALL);
    UNTIL(f, provider_call(&f->up, 0) || provider_call(&f->low, 0));
    struct provider *second = provider_call(&f->up, 0) ? &f->low : &f->up;
    *f->clock_us += 21 * US_PER_S;
    UNTIL(f, provider_call(second, 0));
    up_answer(provider_call(second, 0), 200, "", flow_plain);
    UNTIL(f, c->whole);
    cr_expect_eq(c->status, 200);
    cr_expect_null(caller_field(c, "x-tollgate-degraded"));
    cr_expect_str_eq(caller_field(c, "x-tollgate-hedged"), "won");
}

STORY(hedge, both_fail, CONF) {
    struct caller *c = flow_call(f, FLOW_CALL);
    wait_for_second(f);
    up_answer(provider_call(&f->low, 0), 500, "", BROKEN);
    for (int i = 0; i < 20; i++)
        flow_turn(f, 0);
    cr_expect_not(c->whole, "the first may still answer");
    up_answer(provider_call(&f->up, 0), 503, "", BROKEN);
    UNTIL(f, c->whole);
    cr_expect_eq(c->status, 502);
    cr_expect_str_eq(caller_field(c, "x-tollgate-attempts"), "2");
    cr_expect_eq(flow_i64(flow_record(f, "settle", 0), "cost_nanousd"), 0);
    cr_expect(f->up.calls.n == 1 && f->low.calls.n == 1, "a lane at most once");
}

STORY(hedge, the_second_goes_on_when_the_first_fails, CONF) {
    struct caller *c = flow_call(f, FLOW_STREAM);
    wait_for_second(f);
    up_answer(provider_call(&f->up, 0), 500, "", BROKEN);
    for (int i = 0; i < 20; i++)
        flow_turn(f, 0);
    say_all(provider_call(&f->low, 0));
    UNTIL(f, c->whole);
    cr_expect_not_null(strstr(c->body.at, "[DONE]"));
    struct json settle = flow_record(f, "settle", 0);
    cr_expect_eq(flow_i64(settle, "cost_nanousd"), FLOW_COST_NANOUSD, "a try that failed by itself costs nothing");
    cr_expect_eq(f->low.calls.n, 1);
    cr_expect_eq(json_get(try_of(settle, 1), "won").kind, JSON_TRUE);
}

STORY(hedge, a_refusal_of_the_call_by_the_first_does_not_stop_the_second, CONF) {
    struct caller *c = flow_call(f, FLOW_CALL);
    wait_for_second(f);
    up_answer(provider_call(&f->up, 0), 400, "", BROKEN);
    for (int i = 0; i < 20; i++)
        flow_turn(f, 0);
    up_answer(provider_call(&f->low, 0), 200, "", flow_plain);
    UNTIL(f, c->whole);
    cr_expect_eq(c->status, 200);
}

STORY(hedge, the_client_leaves_while_two_run_and_pays_for_both_prompts, CONF) {
    struct caller *c = flow_call(f, FLOW_STREAM);
    wait_for_second(f);
    caller_leave(c, true);
    UNTIL(f, provider_call(&f->up, 0)->gone && provider_call(&f->low, 0)->gone);
    UNTIL(f, flow_idle(f));
    struct json settle = flow_record(f, "settle", 0);
    cr_expect_eq(flow_i64(settle, "status"), 499);
    cr_expect_gt(cost_of(settle, 0), 0);
    cr_expect_gt(cost_of(settle, 1), 0);
}

STORY(hedge, the_deadline_ends_both,
      FLOW_BASE FLOW_BACKENDS "aliases: {m: {ladder: [{targets: [up/model-x]}, {targets: [low/model-y]}], deadline: "
                              "30s, " AFTER "}}\n" FLOW_TEAMS) {
    struct caller *c = flow_call(f, FLOW_CALL);
    wait_for_second(f);
    *f->clock_us += 10 * US_PER_S;
    UNTIL(f, c->whole);
    cr_expect_eq(c->status, 504);
    UNTIL(f, provider_call(&f->up, 0)->gone && provider_call(&f->low, 0)->gone);
}

#define ONE_BOUND                                                                                                      \
    "teams:\n"                                                                                                         \
    "  search: {" FLOW_KEYS ", allow: [\"*\"], budgets: [{limit: 0.0004 USD, period: month, at_limit: clamp}]}\n"

STORY(hedge, a_budget_that_has_no_room_for_two_refuses_the_second_alone, FLOW_BASE FLOW_BACKENDS BELOW ONE_BOUND) {
    struct caller *c = flow_call(f, FLOW_CALL);
    UNTIL(f, provider_call(&f->up, 0));
    int64_t one_nanousd = flow_i64(flow_record(f, "admit", 0), "hold_nanousd");
    cr_assert(one_nanousd < 400000 && 2 * one_nanousd > 400000, "%ld", (long)one_nanousd);
    *f->clock_us += 21 * US_PER_S;
    UNTIL(f, f->g->metrics.series[METRIC_HEDGES].n == 1);
    for (int i = 0; i < 100; i++)
        flow_turn(f, 0);
    cr_expect_eq(f->low.calls.n, 0);
    int64_t held_nanousd, settled_nanousd;
    flow_held(f, &held_nanousd, &settled_nanousd);
    cr_expect_eq(held_nanousd, one_nanousd);
    up_answer(provider_call(&f->up, 0), 200, "", flow_plain);
    UNTIL(f, c->whole);
    cr_expect_eq(c->status, 200);
    cr_expect_str_eq(caller_field(c, "x-tollgate-attempts"), "1");
    cr_expect_null(caller_field(c, "x-tollgate-clamped"));
    cr_expect_eq(flow_i64(flow_record(f, "settle", 0), "cost_nanousd"), FLOW_COST_NANOUSD);
    cr_expect_eq(flow_count(f, "hold"), 0);
}

static void expect_no_second(struct flow *f, const char *fields) {
    struct caller *c = flow_call_with(f, fields, FLOW_CALL);
    UNTIL(f, provider_call(&f->up, 0));
    *f->clock_us += 21 * US_PER_S;
    for (int i = 0; i < 100; i++)
        flow_turn(f, 0);
    cr_expect_eq(f->low.calls.n, 0);
    up_answer(provider_call(&f->up, 0), 200, "", flow_plain);
    UNTIL(f, c->whole);
    cr_expect_eq(c->status, 200);
    cr_expect_null(caller_field(c, "x-tollgate-hedged"));
}

STORY(hedge, it_counts_as_one_of_the_attempts,
      FLOW_BASE FLOW_BACKENDS
      "aliases: {m: {ladder: [{targets: [up/model-x]}, {targets: [low/model-y]}], attempts: 1, " AFTER
      "}}\n" FLOW_TEAMS) {
    expect_no_second(f, FIELDS);
}

STORY(hedge, not_for_a_caller_who_wants_no_way_down, CONF) {
    expect_no_second(f, FIELDS "x-tollgate-fallback: none\r\n");
}

STORY(hedge, not_to_a_target_that_the_caller_may_not_reach,
      FLOW_BASE
      "backends:\n"
      "  up: {protocol: openai, url: \"http://127.0.0.1:@UP@/v1\", api_keys: [sk-upstream-canary], tags: [eu]}\n"
      "  low: {protocol: openai, url: \"http://127.0.0.1:@LOW@/v1\", api_keys: [sk-upstream-canary]}\n" BELOW
          FLOW_TEAMS) {
    expect_no_second(f, FIELDS "x-tollgate-require: eu\r\n");
}

STORY(hedge, not_to_a_rung_that_is_marked_as_lesser,
      FLOW_BASE FLOW_BACKENDS "aliases: {m: {ladder: [{targets: [up/model-x]}, {targets: [low/model-y], degraded: "
                              "true}], " AFTER "}}\n" FLOW_TEAMS) {
    expect_no_second(f, FIELDS);
}

STORY(hedge, nothing_is_begun_beside_a_stream_that_has_content, CONF) {
    struct caller *c = flow_call(f, FLOW_STREAM);
    UNTIL(f, provider_call(&f->up, 0));
    struct up *u = provider_call(&f->up, 0);
    up_stream(u);
    up_event(u, span_of(flow_first));
    UNTIL(f, strstr(c->body.at ? c->body.at : "", "\"Hi\""));
    *f->clock_us += 21 * US_PER_S;
    for (int i = 0; i < 100; i++)
        flow_turn(f, 0);
    cr_expect_eq(f->low.calls.n, 0);
    up_event(u, span_of(flow_rest));
    up_end(u);
    UNTIL(f, c->whole);
}

#define SAME                                                                                                           \
    "{\"model\":\"m\",\"temperature\":0,\"messages\":[{\"role\":\"user\",\"content\":\"Hello\"}],\"max_tokens\":100}"

STORY(hedge, a_follower_reads_what_the_winner_of_its_leader_says, CONF) {
    struct caller *lead = flow_call(f, SAME);
    UNTIL(f, provider_call(&f->up, 0));
    struct caller *along = flow_call(f, SAME);
    UNTIL(f, f->g->by_state[STATE_CACHE].n == 1);
    wait_for_second(f);
    up_answer(provider_call(&f->low, 0), 200, "", flow_plain);
    UNTIL(f, lead->whole && along->whole);
    cr_expect_str_eq(caller_field(along, "x-tollgate-cache"), "shared");
    cr_expect_str_eq(caller_field(along, "x-tollgate-target"), "low/model-y");
    cr_expect_str_eq(caller_field(along, "x-tollgate-degraded"), "timeout");
    cr_expect_eq(f->up.calls.n + f->low.calls.n, 2);
}

STORY(hedge, the_leader_leaves_and_two_go_on_for_its_follower, CONF) {
    struct caller *lead = flow_call(f, SAME);
    UNTIL(f, provider_call(&f->up, 0));
    struct caller *along = flow_call(f, SAME);
    UNTIL(f, f->g->by_state[STATE_CACHE].n == 1);
    caller_leave(lead, true);
    wait_for_second(f);
    up_answer(provider_call(&f->up, 0), 200, "", flow_plain);
    UNTIL(f, along->whole);
    cr_expect_eq(along->status, 200);
    cr_expect_str_eq(caller_field(along, "x-tollgate-target"), "up/model-x");
}

/* ---- without a second try: a stream that does not come to its first content is moved ---- */

#define CLOCKS                                                                                                         \
    "backends:\n"                                                                                                      \
    "  up: {protocol: openai, url: \"http://127.0.0.1:@UP@/v1\", api_keys: [k], timeouts: {first_token: 30s}}\n"       \
    "  low: {protocol: openai, url: \"http://127.0.0.1:@LOW@/v1\", api_keys: [k]}\n"                                   \
    "aliases: {m: {ladder: [{targets: [up/model-x]}, {targets: [low/model-y]}]}}\n"

STORY(hedge, a_stream_of_comments_is_moved_by_its_clock, FLOW_BASE CLOCKS FLOW_TEAMS) {
    struct caller *c = flow_call(f, FLOW_STREAM);
    UNTIL(f, provider_call(&f->up, 0));
    struct up *u = provider_call(&f->up, 0);
    up_stream(u);
    up_event(u, SPAN(": still thinking\n\n"));
    for (int i = 0; i < 20; i++)
        flow_turn(f, 0);
    *f->clock_us += 31 * US_PER_S;
    UNTIL(f, provider_call(&f->low, 0));
    UNTIL(f, u->gone);
    say_all(provider_call(&f->low, 0));
    UNTIL(f, c->whole);
    cr_expect_not_null(strstr(c->body.at, "[DONE]"));
    struct json settle = flow_record(f, "settle", 0);
    cr_expect(json_is(json_get(settle, "degraded"), "timeout"), "%.*s", SPAN_ARG(settle.raw));
    cr_expect(json_is(json_get(try_of(settle, 0), "outcome"), "timeout"));
}

STORY(hedge, a_stream_with_content_is_never_moved, FLOW_BASE CLOCKS FLOW_TEAMS) {
    struct caller *c = flow_call(f, FLOW_STREAM);
    UNTIL(f, provider_call(&f->up, 0));
    struct up *u = provider_call(&f->up, 0);
    up_stream(u);
    up_event(u, span_of(flow_first));
    UNTIL(f, strstr(c->body.at ? c->body.at : "", "\"Hi\""));
    *f->clock_us += 31 * US_PER_S;
    for (int i = 0; i < 100; i++)
        flow_turn(f, 0);
    cr_expect_not(u->gone);
    *f->clock_us += 120 * US_PER_S; /* idle */
    UNTIL(f, c->whole || c->closed);
    cr_expect_not_null(strstr(c->body.at, "\"error\""));
    cr_expect_null(strstr(c->body.at, "[DONE]"));
    cr_expect_eq(f->low.calls.n, 0);
}

/* ---- leaving at every turn, while one or two run ---- */

static bool leave_after(struct flow *f, int turns, unsigned *seen) {
    size_t ups = f->up.calls.n, lows = f->low.calls.n;
    struct caller *c = flow_call(f, FLOW_STREAM);
    UNTIL(f, provider_call(&f->up, ups));
    *f->clock_us += 21 * US_PER_S;
    bool said = false;
    for (int i = 0; i < turns && !c->whole; i++) {
        flow_turn(f, 0);
        *seen |= f->g->by_state[STATE_HOLD].n ? 1 : f->g->by_state[STATE_ADMIT].n ? 2 : 0;
        if (provider_call(&f->low, lows) && !said && (said = true))
            say_all(provider_call(&f->low, lows));
    }
    bool whole = c->whole;
    list_remove(&f->callers, &c->link);
    caller_leave(c, true);
    caller_free(c);
    UNTIL(f, flow_idle(f));
    return !whole;
}

static void leave_at_every_turn(bool late) {
    struct flow f;
    unsigned seen = 0;
    int turns = 0;
    flow_open(&f, CONF "health: {samples: 100000}\n", late);
    while (leave_after(&f, turns, &seen))
        cr_assert_lt(turns++, 300);
    cr_expect_gt(turns, 3);
    cr_expect(!late || seen & 1, "no client left while the second try was being held for");
    cr_expect_eq(flow_count(&f, "admit"), flow_count(&f, "settle"));
    flow_close(&f);
}

Test(hedge, the_client_leaves_at_every_turn) {
    leave_at_every_turn(false);
}

Test(hedge, the_client_leaves_at_every_turn_with_late_stores) {
    leave_at_every_turn(true);
}
#endif
