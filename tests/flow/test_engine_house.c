/* The engine behind the hall: a small random model serves chat, plain and streamed, priced like any provider. */
#include "tests/support/random_model.h"
#include "tests/support/story.h"

#define CONF_HEAD                                                                                                      \
    FLOW_BASE                                                                                                          \
    "aliases: {m: local/small}\n" FLOW_TEAMS "backends:\n"                                                             \
    "  local: {protocol: decode, name: small, max_context: 64, max_sequences: 4, threads: 1, price: {input: 1 "        \
    "USD/1M, output: 2 USD/1M}, model: "
#define CALL(members)                                                                                                  \
    "{\"model\":\"m\",\"messages\":[{\"role\":\"user\",\"content\":\"Hi\"}],\"max_tokens\":12,\"temperature\":"        \
    "0" members "}"

struct engine_house {
    struct random_model model;
    struct flow f;
};

static void open_house_on(struct engine_house *h, const char *head, bool late) {
    char conf[4096];
    struct model_shape shape = shape_small;
    shape.seed = 5;
    random_model_write(&h->model, &shape);
    snprintf(conf, sizeof conf, "%s\"%s\"}\n", head, h->model.directory);
    flow_open(&h->f, conf, late);
}

static void open_house(struct engine_house *h, bool late) {
    open_house_on(h, CONF_HEAD, late);
}

static void close_house(struct engine_house *h) {
    flow_close(&h->f);
    random_model_remove(&h->model);
}

/* All text of a stream's deltas, as raw JSON string bytes. */
static void text_of_stream(const char *body, struct str *out) {
    str_clear(out);
    for (const char *at = body; (at = strstr(at, "\"content\":\"")); at++) {
        const char *from = at + 11, *end = from;
        while (*end != '"')
            end += *end == '\\' ? 2 : 1;
        str_put(out, span_from(from, (size_t)(end - from)));
    }
}

static void plain_and_stream_agree(bool late) {
    struct engine_house h;
    struct str plain_text, stream_text;
    struct json body;
    struct json_fault fault;
    open_house(&h, late);
    str_init(&plain_text, 1 << 16);
    str_init(&stream_text, 1 << 16);
    struct caller *plain = flow_call(&h.f, CALL(""));
    UNTIL(&h.f, plain->whole);
    cr_assert_eq(plain->status, 200, "%s", plain->body.at);
    cr_assert(json_check(str_span(&plain->body), JSON_DEPTH_MAX, &body, &fault));
    struct caller *stream = flow_call(&h.f, CALL(",\"stream\":true,\"stream_options\":{\"include_usage\":true}"));
    UNTIL(&h.f, stream->whole);
    cr_expect_not_null(strstr(stream->body.at, "data: [DONE]"));
    text_of_stream(plain->body.at, &plain_text);
    text_of_stream(stream->body.at, &stream_text);
    cr_expect_str_eq(stream_text.at, plain_text.at);
    cr_expect_gt(plain_text.n, 0);
    UNTIL(&h.f, flow_idle(&h.f));
    struct json one = flow_record(&h.f, "settle", 0), two = flow_record(&h.f, "settle", 1);
    struct json usage = json_get(one, "usage");
    cr_expect(span_equal(usage.raw, json_get(two, "usage").raw), "%.*s", SPAN_ARG(two.raw));
    cr_expect(flow_i64(usage, "in") > 0 && flow_i64(usage, "out") > 0 && flow_i64(usage, "out") <= 12);
    cr_expect_eq(flow_i64(one, "cost_nanousd"), 1000 * flow_i64(usage, "in") + 2000 * flow_i64(usage, "out"));
    struct json told = json_get(body, "usage");
    cr_expect_eq(flow_i64(told, "prompt_tokens"), flow_i64(usage, "in"));
    cr_expect_eq(flow_i64(told, "completion_tokens"), flow_i64(usage, "out"));
    str_fini(&plain_text);
    str_fini(&stream_text);
    close_house(&h);
}

Test(engine_house, a_stream_says_what_a_plain_call_says) {
    plain_and_stream_agree(false);
}

Test(engine_house, a_stream_says_what_a_plain_call_says_with_late_stores) {
    plain_and_stream_agree(true);
}

Test(engine_house, what_it_does_not_take_is_the_callers_fault_and_free) {
    struct engine_house h;
    open_house(&h, false);
    struct caller *c = flow_call(&h.f, CALL(",\"modalities\":[\"text\",\"audio\"]"));
    UNTIL(&h.f, c->whole);
    cr_expect_eq(c->status, 400);
    cr_expect_not_null(strstr(c->body.at, "\"param\":\"modalities\""), "%s", c->body.at);
    UNTIL(&h.f, flow_idle(&h.f));
    cr_expect_eq(flow_count(&h.f, "settle") + flow_count(&h.f, "refuse"), 1);
    close_house(&h);
}

Test(engine_house, more_calls_than_sequences_wait_and_all_are_answered) {
    struct engine_house h;
    struct caller *calls[12];
    open_house(&h, true);
    for (size_t i = 0; i < ARRAY_LEN(calls); i++)
        calls[i] = flow_call(&h.f, i % 2 ? CALL("") : CALL(",\"stream\":true"));
    for (size_t i = 0; i < ARRAY_LEN(calls); i++) {
        UNTIL(&h.f, calls[i]->whole);
        cr_expect_eq(calls[i]->status, 200);
    }
    close_house(&h);
}

Test(engine_house, a_client_that_leaves_ends_its_run) {
    for (int turns = 0; turns < 40; turns += 3) {
        struct engine_house h;
        open_house(&h, turns % 2);
        struct caller *c = flow_call(&h.f, CALL(",\"stream\":true"));
        for (int i = 0; i < turns && !c->whole; i++)
            flow_turn(&h.f, 0);
        caller_leave(c, true);
        UNTIL(&h.f, flow_idle(&h.f));
        close_house(&h);
    }
}

#define CAPPED                                                                                                         \
    "listen: [{address: \"127.0.0.1:0\"}]\n"                                                                           \
    "admin: {address: \"127.0.0.1:0\", token: admin-token-0123456789}\n"                                               \
    "node: test\nstate: {directory: @DIR@/state}\naudit: {directory: @DIR@/audit}\nlog: {level: error}\n"              \
    "hold: {output_cap: 5, max_share_key: \"100%\"}\naliases: {m: local/small}\n" FLOW_TEAMS "backends:\n"             \
    "  local: {protocol: decode, name: small, max_context: 64, max_sequences: 4, threads: 1, price: {input: 1 "        \
    "USD/1M, output: 2 USD/1M}, model: "

Test(engine_house, it_stops_at_the_exact_token_that_is_held) {
    struct engine_house h;
    open_house_on(&h, CAPPED, true);
    struct caller *c =
        flow_call(&h.f, "{\"model\":\"m\",\"messages\":[{\"role\":\"user\",\"content\":\"Hi\"}],\"temperature\":0}");
    UNTIL(&h.f, c->whole);
    cr_expect_not_null(strstr(c->body.at, "\"completion_tokens\":5,"), "%s", c->body.at);
    cr_expect_not_null(strstr(c->body.at, "\"finish_reason\":\"length\""));
    cr_expect_eq(json_get(flow_record(&h.f, "settle", 0), "overrun").kind, JSON_NONE);
    close_house(&h);
}
