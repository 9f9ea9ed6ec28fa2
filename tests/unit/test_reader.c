/* Readers: odd bodies and frames, usage as each provider means it, repairs. Whole streams are in test_golden.c. */
#include "tests/support/relay.h"

#include <criterion/criterion.h>
#include <stdio.h>

static enum err plain(enum endpoint e, const char *body, struct reader **r, struct event *out) {
    const char *why = "";
    *r = reader_new(e == ENDPOINT_MESSAGES ? PROTOCOL_ANTHROPIC : PROTOCOL_OPENAI, e);
    return reader_plain(*r, span_of(body), out, &why);
}

Test(reader, bodies_that_are_no_answer_are_failures) { /* T-20 */
    static const struct {
        enum endpoint e;
        const char *body;
    } rows[] = {
        {ENDPOINT_CHAT, ""},
        {ENDPOINT_CHAT, "{}"},
        {ENDPOINT_CHAT, "null"},
        {ENDPOINT_CHAT, "[]"},
        {ENDPOINT_CHAT, "{\"choices\":[{\"index\":0,\"mess"},
        {ENDPOINT_CHAT, "{\"choices\":[]}"},
        {ENDPOINT_CHAT, "{\"choices\":null}"},
        {ENDPOINT_CHAT, "{\"choices\":{}}"},
        {ENDPOINT_CHAT, "{\"choices\":[7]}"},
        {ENDPOINT_CHAT, "{\"choices\":[{\"index\":0}]}"},
        {ENDPOINT_CHAT, "{\"choices\":[{\"index\":-1,\"message\":{}}]}"},
        {ENDPOINT_CHAT, "{\"choices\":[{\"index\":1e9,\"message\":{}}]}"},
        {ENDPOINT_CHAT, "\x1f\x8b garbage"},
        {ENDPOINT_COMPLETIONS, "{\"choices\":[{\"index\":0,\"message\":{}}]}"},
        {ENDPOINT_EMBEDDINGS, "{\"data\":[]}"},
        {ENDPOINT_RESPONSES, "{\"id\":\"resp_1\"}"},
        {ENDPOINT_MESSAGES, "{\"content\":\"x\"}"},
        {ENDPOINT_COUNT_TOKENS, "{\"input_tokens\":\"9\"}"},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct reader *r;
        struct event e;
        cr_expect_eq(plain(rows[i].e, rows[i].body, &r, &e), ERR_UPSTREAM, "%s", rows[i].body);
        reader_free(r);
    }
}

Test(reader, an_error_in_a_200_is_an_error_event) {
    static const struct {
        enum endpoint e;
        const char *body;
        int status;
        enum err err;
    } rows[] = {
        {ENDPOINT_CHAT, "{\"error\":{\"message\":\"m\",\"code\":503}}", 503, ERR_UPSTREAM},
        {ENDPOINT_CHAT, "{\"error\":\"text\"}", 0, ERR_UPSTREAM},
        {ENDPOINT_CHAT, "{\"object\":\"error\",\"message\":\"m\",\"code\":40303}", 0, ERR_UPSTREAM},
        {ENDPOINT_CHAT, "{\"error\":{\"message\":\"m\",\"code\":\"context_length_exceeded\"}}", 400, ERR_CONTEXT},
        {ENDPOINT_MESSAGES, "{\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"o\"}}", 529,
         ERR_UPSTREAM},
        {ENDPOINT_RESPONSES,
         "{\"object\":\"response\",\"status\":\"failed\",\"error\":{\"code\":\"rate_limit_exceeded\",\"message\":\"m\"}"
         "}",
         429, ERR_UPSTREAM},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct reader *r;
        struct event e;
        cr_expect_eq(plain(rows[i].e, rows[i].body, &r, &e), ERR_NONE, "%s", rows[i].body);
        cr_expect(e.bits & EVENT_ERROR && !(e.bits & (EVENT_PLAIN | EVENT_LAST)), "%s", rows[i].body);
        cr_expect(e.status == rows[i].status && e.err == rows[i].err, "%s: %d", rows[i].body, e.status);
        reader_free(r);
    }
}

Test(reader, each_token_is_counted_once) { /* T-19, S-20 */
    static const struct {
        enum endpoint e;
        const char *usage;
        struct usage expect;
    } rows[] = {
        {ENDPOINT_CHAT,
         "{\"prompt_tokens\":17111,\"completion_tokens\":4,\"total_tokens\":99,\"prompt_tokens_details\":{\"cached_"
         "tokens\":"
         "17102}}",
         {.in = 9, .cache_read = 17102, .out = 4}},
        {ENDPOINT_CHAT,
         "{\"prompt_tokens\":10,\"completion_tokens\":9,\"prompt_tokens_details\":{\"cached_tokens\":2,\"cache_write_"
         "tokens\":"
         "3,\"audio_tokens\":4},\"completion_tokens_details\":{\"reasoning_tokens\":5,\"audio_tokens\":6}}",
         {.in = 1, .cache_read = 2, .cache_write_5m = 3, .in_audio = 4, .out = 3, .out_audio = 6, .reasoning = 5}},
        {ENDPOINT_CHAT,
         "{\"prompt_tokens\":5,\"prompt_cache_hit_tokens\":5,\"completion_tokens\":0}",
         {.cache_read = 5}},
        {ENDPOINT_CHAT,
         "{\"prompt_tokens\":2,\"completion_tokens\":1,\"prompt_tokens_details\":{\"cached_tokens\":9}}",
         {.cache_read = 9, .out = 1}},
        {ENDPOINT_CHAT, "{\"prompt_tokens\":3,\"completion_tokens\":-7,\"total_tokens\":1e30}", {.in = 3}},
        {ENDPOINT_MESSAGES,
         "{\"input_tokens\":9,\"cache_read_input_tokens\":17102,\"cache_creation_input_tokens\":0,\"output_tokens\":4}",
         {.in = 9, .cache_read = 17102, .out = 4}},
        {ENDPOINT_MESSAGES,
         "{\"input_tokens\":1,\"cache_creation_input_tokens\":7,\"output_tokens\":2}",
         {.in = 1, .cache_write_5m = 7, .out = 2}},
        {ENDPOINT_MESSAGES,
         "{\"input_tokens\":1,\"output_tokens\":2,\"iterations\":[{\"type\":\"compaction\",\"input_tokens\":100,"
         "\"output_tokens\":30},{\"type\":\"message\",\"input_tokens\":1,\"output_tokens\":2}]}",
         {.in = 101, .out = 32}},
        {ENDPOINT_RESPONSES,
         "{\"input_tokens\":8,\"input_tokens_details\":{\"cached_tokens\":3},\"output_tokens\":2}",
         {.in = 5, .cache_read = 3, .out = 2}},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct usage expect = rows[i].expect;
        struct reader *r;
        struct event e;
        char body[1024];
        const char *shape = rows[i].e == ENDPOINT_CHAT
                                ? "{\"choices\":[{\"message\":{},\"finish_reason\":\"stop\"}],\"usage\":%s}"
                            : rows[i].e == ENDPOINT_MESSAGES
                                ? "{\"content\":[],\"stop_reason\":\"end_turn\",\"usage\":%s}"
                                : "{\"object\":\"response\",\"status\":\"completed\",\"output\":[],\"usage\":%s}";
        snprintf(body, sizeof body, shape, rows[i].usage);
        cr_assert_eq(plain(rows[i].e, body, &r, &e), ERR_NONE, "%s", body);
        expect.reported = true;
        cr_expect(memcmp(&expect, reader_usage(r), sizeof expect) == 0, "%s: in=%lld read=%lld out=%lld", rows[i].usage,
                  (long long)e.usage.in, (long long)e.usage.cache_read, (long long)e.usage.out);
        cr_expect(e.bits & EVENT_USAGE && span_is(e.usage_raw, rows[i].usage));
        reader_free(r);
    }
}

static void frames(enum endpoint e, const char *const *data, size_t n, struct reader **r, unsigned *seen) {
    struct event out;
    const char *why;
    *r = reader_new(PROTOCOL_OPENAI, e);
    *seen = 0;
    for (size_t i = 0; i < n; i++) {
        cr_assert_eq(reader_frame(*r, SPAN_NONE, span_of(data[i]), &out, &why), ERR_NONE, "%s", data[i]);
        *seen |= out.bits;
    }
}

Test(reader, an_empty_stream_is_not_finished) { /* S-19 */
    static const char *const role[] = {
        "{\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"\"}}]}"};
    static const char *const empty[] = {
        "{\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"\"}}]}",
        "{\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}"};
    struct reader *r;
    unsigned seen;
    frames(ENDPOINT_CHAT, role, 0, &r, &seen);
    cr_expect_not(reader_finished(r));
    reader_free(r);
    frames(ENDPOINT_CHAT, role, 1, &r, &seen);
    cr_expect_not(reader_finished(r));
    cr_expect_not(seen & EVENT_CONTENT, "a role alone is nothing a reader can see");
    reader_free(r);
    frames(ENDPOINT_CHAT, empty, 2, &r, &seen);
    cr_expect(reader_finished(r), "an empty reply with a finish reason is a valid one");
    reader_free(r);
}

Test(reader, one_choice_of_two_is_not_the_end) {
    static const char *const data[] = {
        "{\"choices\":[{\"index\":0,\"delta\":{\"content\":\"a\"},\"finish_reason\":\"stop\"}]}",
        "{\"choices\":[{\"index\":1,\"delta\":{\"content\":\"b\"}}]}",
        "{\"choices\":[{\"index\":1,\"delta\":{},\"finish_reason\":\"length\"}]}"};
    struct reader *r;
    unsigned seen;
    frames(ENDPOINT_CHAT, data, 2, &r, &seen);
    cr_expect_not(reader_finished(r));
    reader_free(r);
    frames(ENDPOINT_CHAT, data, 3, &r, &seen);
    cr_expect(reader_finished(r));
    reader_free(r);
}

Test(reader, frames_that_are_no_json_are_failures) {
    static const char *const bad[] = {"{\"choices\":[", "7", "[1]", "{\"choices\":7}", "\xff"};
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        struct reader *r = reader_new(PROTOCOL_OPENAI, ENDPOINT_CHAT);
        struct event e;
        const char *why = NULL;
        cr_expect_eq(reader_frame(r, SPAN_NONE, span_of(bad[i]), &e, &why), ERR_UPSTREAM, "%s", bad[i]);
        cr_expect_not_null(why);
        reader_free(r);
    }
}

Test(reader, signed_sealed_and_scored_answers_are_not_kept) {
    static const struct {
        enum endpoint e;
        const char *data;
        bool keep;
    } rows[] = {
        {ENDPOINT_CHAT, "{\"choices\":[{\"index\":0,\"delta\":{\"content\":\"a\"},\"logprobs\":{\"content\":[]}}]}",
         false},
        {ENDPOINT_CHAT, "{\"choices\":[{\"index\":0,\"delta\":{\"content\":\"a\"},\"logprobs\":null}]}", true},
        {ENDPOINT_CHAT, "{\"choices\":[{\"index\":0,\"delta\":{\"reasoning_details\":[{\"data\":\"x\"}]}}]}", false},
        {ENDPOINT_MESSAGES,
         "{\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"signature_delta\",\"signature\":\"x\"}}",
         false},
        {ENDPOINT_RESPONSES,
         "{\"type\":\"response.output_item.done\",\"item\":{\"type\":\"reasoning\",\"encrypted_content\":\"x\"}}",
         false},
        {ENDPOINT_RESPONSES, "{\"type\":\"response.output_text.delta\",\"delta\":\"x\"}", true},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct reader *r = reader_new(PROTOCOL_OPENAI, rows[i].e);
        struct event e;
        const char *why;
        cr_assert_eq(reader_frame(r, SPAN_NONE, span_of(rows[i].data), &e, &why), ERR_NONE);
        cr_expect_eq(!(e.bits & EVENT_NO_STORE), rows[i].keep, "%s", rows[i].data);
        reader_free(r);
    }
}
