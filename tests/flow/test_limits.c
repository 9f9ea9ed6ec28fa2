/* At the limit: what becomes of a call that does not fit, each budget by its word; and streams that are held in parts. */
#include "tests/support/story.h"

#define BASE                                                                                                           \
    "listen: [{address: \"127.0.0.1:0\"}]\n"                                                                           \
    "admin: {address: \"127.0.0.1:0\", token: admin-token-0123456789}\n"                                               \
    "node: test\n"                                                                                                     \
    "state: {directory: @DIR@/state}\n"                                                                                \
    "audit: {directory: @DIR@/audit}\n"                                                                                \
    "log: {level: error}\n"                                                                                            \
    "retries: {backoff: [0s, 0s], budget: \"100%\"}\n"
#define PRICE "prices: {unknown: {input: 1 USD/1M, cache_write: 1 USD/1M, output: 2 USD/1M}}\n"
#define SHOWN "prices: {unknown: {input: 1 USD/1M, cache_write: 1 USD/1M, output: 2 USD/1M, hidden_output: false}}\n"
#define HOLD "hold: {max_share_key: \"100%\", max_share_team: \"100%\", output_cap: 20}\n"
#define TEAM(limit, more)                                                                                              \
    "teams:\n"                                                                                                         \
    "  search: {" FLOW_KEYS ", allow: [\"*\"], budgets: [{limit: " limit " USD, period: month" more "}]}\n"
#define CALL(max, more) "{\"model\":\"m\",\"messages\":[{\"role\":\"user\",\"content\":\"Hello\"}]" max more "}"

/* The number behind a name in a provider's body; -1: it is not there. */
static int64_t number_in(const struct str *body, const char *name) {
    const char *at = strstr(body->at, name);
    int64_t v = -1;
    size_t n = strlen(name);
    bool there = at && span_to_i64(span_from(at + n, strspn(at + n, "0123456789")), &v);
    return there ? v : -1;
}

/* ---- clamp ---- */

#define CLAMP BASE PRICE HOLD FLOW_BACKENDS FLOW_ALIASES TEAM("0.0007", ", at_limit: clamp")

STORY(limits, a_clamped_call_asks_for_what_fits_and_says_so, CLAMP) {
    int64_t held, settled;
    struct caller *c = flow_call(f, CALL(",\"max_tokens\":4000", ""));
    UNTIL(f, provider_call(&f->up, 0));
    int64_t n = number_in(&provider_call(&f->up, 0)->body, "\"max_tokens\":");
    cr_assert(n >= 256 && n < 320, "%s", provider_call(&f->up, 0)->body.at);
    flow_held(f, &held, &settled);
    cr_expect(held <= 700000 && held > 700000 - 2000, "all that is left, and no more: %lld", (long long)held);
    up_answer(provider_call(&f->up, 0), 200, "", flow_plain);
    UNTIL(f, c->whole);
    char header[40], member[80];
    snprintf(header, sizeof header, "max_tokens=%lld", (long long)n);
    snprintf(member, sizeof member, "\"tollgate\":{\"clamped\":\"%s\"}", header);
    cr_expect_str_eq(caller_field(c, "x-tollgate-clamped"), header);
    cr_expect_not_null(strstr(c->body.at, member), "%s", c->body.at);
    cr_expect_eq(flow_i64(flow_record(f, "settle", 0), "clamped_tok"), n);
}

STORY(limits, a_call_that_says_no_maximum_is_given_one, CLAMP) {
    struct caller *c = flow_call(f, CALL("", ",\"n\":1"));
    UNTIL(f, provider_call(&f->up, 0));
    cr_expect_eq(number_in(&provider_call(&f->up, 0)->body, "\"max_completion_tokens\":"), -1, "the cap of 20 fits");
    up_answer(provider_call(&f->up, 0), 200, "", flow_plain);
    UNTIL(f, c->whole);
    cr_expect_null(caller_field(c, "x-tollgate-clamped"));
}

STORY(limits, what_a_cut_would_break_is_not_clamped, CLAMP) {
    static const char *const more[] = {
        ",\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"f\"}}]",
        ",\"response_format\":{\"type\":\"json_object\"}",
        ",\"response_format\":{\"type\":\"json_schema\",\"json_schema\":{\"name\":\"s\",\"schema\":{}}}",
    };
    for (size_t i = 0; i < ARRAY_LEN(more); i++) {
        char body[400];
        snprintf(body, sizeof body, CALL(",\"max_tokens\":4000", "%s"), more[i]);
        struct caller *c = flow_call(f, body);
        UNTIL(f, c->whole);
        cr_expect_eq(c->status, 402, "%s", more[i]);
    }
    cr_expect_eq(f->up.calls.n, 0);
}

STORY(limits, nobody_is_left_with_less_than_the_floor,
      BASE PRICE HOLD FLOW_BACKENDS FLOW_ALIASES TEAM("0.0005", ", at_limit: clamp")) {
    struct caller *c = flow_call(f, CALL(",\"max_tokens\":4000", ""));
    UNTIL(f, c->whole);
    cr_expect_eq(c->status, 402);
    struct caller *small = flow_call(f, CALL(",\"max_tokens\":200", ""));
    UNTIL(f, provider_call(&f->up, 0));
    up_answer(provider_call(&f->up, 0), 200, "", flow_plain);
    UNTIL(f, small->whole);
    cr_expect_eq(small->status, 200, "what fits as it is needs no clamp");
}

/* ---- whose word counts ---- */

#define TWO(low_price)                                                                                                 \
    "backends:\n"                                                                                                      \
    "  up: {protocol: openai, url: \"http://127.0.0.1:@UP@/v1\", api_keys: [sk-upstream-canary]}\n"                    \
    "  low: {protocol: openai, url: \"http://127.0.0.1:@LOW@/v1\", api_keys: [sk-upstream-canary], models: "           \
    "{model-y: {price: {input: " low_price ", output: " low_price "}}}}\n"                                             \
    "aliases: {m: {ladder: [{targets: [up/model-x]}, {targets: [low/model-y], degraded: true, only_for: "              \
    "[budget]}]}}\n"
#define CHEAP TWO("0.1 USD/1M")
#define FREE TWO("0")

static void goes_down(struct flow *f) {
    struct caller *c = flow_call(f, CALL(",\"max_tokens\":4000", ""));
    UNTIL(f, provider_call(&f->low, 0) || c->whole);
    cr_assert_neq(c->status, 402);
    up_answer(provider_call(&f->low, 0), 200, "", flow_plain);
    UNTIL(f, c->whole);
    cr_expect_eq(c->status, 200);
    cr_expect_str_eq(caller_field(c, "x-tollgate-degraded"), "budget");
    cr_expect(json_is(json_get(flow_record(f, "settle", 0), "degraded"), "budget"));
    cr_expect_eq(f->up.calls.n, 0);
}

static void is_refused(struct flow *f) {
    struct caller *c = flow_call(f, CALL(",\"max_tokens\":4000", ""));
    UNTIL(f, c->whole);
    cr_expect_eq(c->status, 402);
    cr_expect_eq(f->low.calls.n + f->up.calls.n, 0);
    cr_expect_str_eq(caller_field(c, "x-should-retry"), "false");
}

STORY(limits, degrade_goes_down_to_what_fits, BASE PRICE HOLD CHEAP TEAM("0.001", ", at_limit: degrade")) {
    goes_down(f);
}

STORY(limits, refuse_spends_nothing_on_a_lower_rung, BASE PRICE HOLD CHEAP TEAM("0.001", ", at_limit: refuse")) {
    is_refused(f);
}

STORY(limits, what_is_free_takes_nothing_from_a_budget_that_refuses, BASE PRICE HOLD FREE TEAM("0.001", "")) {
    goes_down(f);
}

STORY(limits, degrade_that_finds_nothing_that_fits_is_402,
      BASE PRICE HOLD CHEAP TEAM("0.0001", ", at_limit: degrade")) {
    is_refused(f);
}

#define ALL(words)                                                                                                     \
    TEAM("0.001", ", at_limit: " words)                                                                                \
    "organization: {budgets: [{limit: 0.001 USD, period: month, at_limit: refuse}]}\n"

STORY(limits, the_strictest_of_the_budgets_that_do_not_fit_has_the_word, BASE PRICE HOLD CHEAP ALL("degrade")) {
    is_refused(f);
}

/* ---- streams that are held in parts ---- */

#define PARTS(limit) BASE SHOWN HOLD FLOW_BACKENDS FLOW_ALIASES TEAM(limit, "")
#define STREAM(max) CALL(",\"stream\":true,\"stream_options\":{\"include_usage\":true}", max)
#define PIECE(text)                                                                                                    \
    "data: {\"id\":\"c1\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":\"model-x\",\"choices\":[{"     \
    "\"index\":0,\"delta\":{\"content\":\"" text "\"},\"finish_reason\":null}]}\n\n"
#define TWELVE "twelve bytes"

static int64_t held_now(struct flow *f) {
    int64_t held, settled;
    flow_held(f, &held, &settled);
    return held;
}

STORY(limits, a_stream_holds_a_part_and_asks_for_more_before_it_passes_it, PARTS("1")) {
    struct caller *c = flow_call(f, STREAM(",\"max_tokens\":1000"));
    UNTIL(f, provider_call(&f->up, 0));
    int64_t first = held_now(f);
    cr_expect(first > 40000 && first < 200000, "the prompt and 20 tokens, not 1000: %lld", (long long)first);
    struct up *u = provider_call(&f->up, 0);
    up_stream(u);
    up_event(u, span_of(PIECE(TWELVE)));
    UNTIL(f, strstr(c->body.at, TWELVE));
    cr_expect_eq(flow_count(f, "hold"), 0, "12 bytes are at most 13 tokens");
    up_event(u, span_of(PIECE("and more of them")));
    UNTIL(f, strstr(c->body.at, "and more"));
    cr_assert_eq(flow_count(f, "hold"), 1, "the raise was written before it was used");
    cr_expect(flow_i64(flow_record(f, "hold", 0), "hold_nanousd") == held_now(f) && held_now(f) > first);
    for (int i = 0; i < 10; i++)
        up_event(u, span_of(PIECE(TWELVE)));
    up_event(u, span_of(flow_rest));
    up_end(u);
    UNTIL(f, c->whole);
    cr_expect_not_null(strstr(c->body.at, "[DONE]"));
    cr_expect(flow_count(f, "hold") >= 5);
    struct json settle = flow_record(f, "settle", 0);
    cr_expect_eq(flow_i64(settle, "cost_nanousd"), FLOW_COST_NANOUSD);
    cr_expect_eq(json_get(settle, "overrun").kind, JSON_NONE);
    cr_expect_eq(json_get(settle, "cut").kind, JSON_NONE);
}

/* In: about 87 tokens; what is left is for about 56 more, so two parts and a rest. */
STORY(limits, a_raise_that_is_refused_ends_the_stream_with_length, PARTS("0.0002")) {
    struct caller *c = flow_call(f, STREAM(""));
    UNTIL(f, provider_call(&f->up, 0));
    struct up *u = provider_call(&f->up, 0);
    up_stream(u);
    for (int i = 0; i < 10; i++)
        up_event(u, span_of(PIECE(TWELVE)));
    UNTIL(f, c->whole);
    cr_expect_eq(c->status, 200);
    cr_expect_not_null(strstr(c->body.at, "\"finish_reason\":\"length\""), "%s", c->body.at);
    cr_expect_not_null(strstr(c->body.at, "\"tollgate\":{\"cut\":\"budget\"}"), "%s", c->body.at);
    cr_expect_not_null(strstr(c->body.at, "\"completion_tokens\":"), "%s", c->body.at);
    cr_expect_not_null(strstr(c->body.at, "[DONE]"));
    cr_expect_null(strstr(c->body.at, "\"error\""));
    UNTIL(f, u->gone);
    struct json settle = flow_record(f, "settle", 0);
    cr_expect(json_is(json_get(settle, "cut"), "budget"), "%.*s", SPAN_ARG(settle.raw));
    cr_expect_eq(json_get(settle, "estimated").kind, JSON_TRUE);
    cr_expect_eq(json_get(settle, "overrun").kind, JSON_NONE);
    cr_expect(flow_i64(settle, "cost_nanousd") > 30000 && flow_i64(settle, "cost_nanousd") <= 200000);
    cr_expect(flow_count(f, "hold") >= 1);
    cr_expect(json_is(json_get(flow_record(f, "note", 0), "what"), "budget_limit"));
}

STORY(limits, an_event_larger_than_all_that_is_left_ends_the_stream_before_it, PARTS("0.0002")) {
    char big[4000] = "data: {\"id\":\"c1\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"";
    memset(big + strlen(big), 'y', 2000);
    strcat(big, "\"},\"finish_reason\":null}]}\n\n");
    struct caller *c = flow_call(f, STREAM(""));
    UNTIL(f, provider_call(&f->up, 0));
    struct up *u = provider_call(&f->up, 0);
    up_stream(u);
    up_event(u, span_of(big));
    UNTIL(f, c->whole);
    cr_expect_null(strstr(c->body.at, "yyy"));
    cr_expect_not_null(strstr(c->body.at, "\"finish_reason\":\"length\""), "%s", c->body.at);
    cr_expect(flow_i64(flow_record(f, "settle", 0), "cost_nanousd") > 0, "the prompt was sent and is paid");
}

STORY(limits, a_client_that_leaves_while_its_stream_asks_for_more, PARTS("1")) {
    struct caller *c = flow_call(f, STREAM(""));
    UNTIL(f, provider_call(&f->up, 0));
    struct up *u = provider_call(&f->up, 0);
    up_stream(u);
    up_event(u, span_of(PIECE(TWELVE)));
    UNTIL(f, strstr(c->body.at, TWELVE));
    up_event(u, span_of(PIECE("and more of them")));
    flow_pump(f, 1);
    caller_leave(c, true);
    UNTIL(f, u->gone && flow_idle(f));
    cr_expect_eq(held_now(f), 0);
    cr_expect_eq(json_get(flow_record(f, "settle", 0), "aborted").kind, JSON_TRUE);
}

/* ---- overruns ---- */

#define LIAR                                                                                                           \
    "{\"id\":\"c1\",\"object\":\"chat.completion\",\"created\":1,\"model\":\"model-x\",\"choices\":[{\"index\":0,"     \
    "\"message\":{\"role\":\"assistant\",\"content\":\"Hi\"},\"finish_reason\":\"stop\"}],\"usage\":{\"prompt_"        \
    "tokens\":9,"                                                                                                      \
    "\"completion_tokens\":900000,\"total_tokens\":900009}}"

STORY(limits, an_overrun_is_booked_in_full_and_closes_its_scope,
      BASE PRICE HOLD FLOW_BACKENDS FLOW_ALIASES TEAM("1", ", warn: [50%]")) {
    struct caller *c = flow_call(f, FLOW_CALL);
    UNTIL(f, provider_call(&f->up, 0));
    up_answer(provider_call(&f->up, 0), 200, "", LIAR);
    UNTIL(f, c->whole);
    struct json settle = flow_record(f, "settle", 0);
    cr_expect_eq(json_get(settle, "overrun").kind, JSON_TRUE);
    cr_expect_eq(flow_i64(settle, "cost_nanousd"), 1800009000);
    UNTIL(f, flow_idle(f));
    struct caller *next = flow_call(f, CALL(",\"max_tokens\":1", ""));
    UNTIL(f, next->whole);
    cr_expect_eq(next->status, 402);
    cr_expect_not_null(strstr(next->body.at, "\"overrun\":"), "%s", next->body.at);
    cr_expect_eq(f->up.calls.n, 1);
    cr_expect_eq(flow_count(f, "note"), 3, "the overrun, the share it passed, the first refusal");
}

STORY(limits, a_share_that_was_passed_stands_in_the_answer,
      BASE PRICE HOLD FLOW_BACKENDS FLOW_ALIASES TEAM("0.0003", ", warn: [50%, 90%]")) {
    struct caller *c = flow_call(f, CALL(",\"max_tokens\":50", ""));
    UNTIL(f, provider_call(&f->up, 0));
    up_answer(provider_call(&f->up, 0), 200, "", flow_plain);
    UNTIL(f, c->whole);
    cr_expect_str_eq(caller_field(c, "x-tollgate-budget-warning"), "50%; level=team");
    struct json note = flow_record(f, "note", 0);
    cr_expect(json_is(json_get(note, "what"), "budget_warn") && json_is(json_get(note, "after"), "50%"));
    cr_expect(json_is(json_get(note, "scope"), "team/search/month@UTC"), "%.*s", SPAN_ARG(note.raw));
    cr_expect_eq(flow_count(f, "note"), 1);
}
