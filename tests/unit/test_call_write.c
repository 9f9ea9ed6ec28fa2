/* What a provider gets: the client's bytes, outside the splices to the byte. */
#include "tests/support/call_case.h"

#include <criterion/criterion.h>

static void written(enum endpoint e, const char *text, const char *model, struct str *out) {
    struct call_case c;
    struct call_pieces pieces;
    call_case_open(&c, e, text);
    cr_assert(c.good, "%s", c.fault.text);
    cr_assert(call_write(&c.call, span_of(model), &c.arena, &pieces));
    cr_assert_leq(pieces.n, CALL_PIECES_MAX);
    for (size_t i = 0; i < pieces.n; i++)
        str_put(out, pieces.at[i]);
    cr_expect_eq(out->n, pieces.bytes);
    call_case_close(&c);
}

Test(call_write, bodies_are_exact_outside_the_splices) {
    static const struct {
        enum endpoint endpoint;
        const char *text, *expect;
    } rows[] = {
        {ENDPOINT_CHAT, "{ \"model\" : \"a\\u0062\" ,\"messages\":[],\"x\":1e400,\"y\":9223372036854775808,\"x\":2 }",
         "{ \"model\" : \"up/\\\"m\" ,\"messages\":[],\"x\":1e400,\"y\":9223372036854775808,\"x\":2 }"},
        {ENDPOINT_CHAT, "{\"messages\":[],\"stream\":true,\"model\":\"a\"}",
         "{\"messages\":[],\"stream\":true,\"model\":\"up/\\\"m\",\"stream_options\":{\"include_usage\":true}}"},
        {ENDPOINT_CHAT,
         "{\"stream_options\":{\"include_usage\":false,\"k\":1},\"messages\":[],\"stream\":true,\"model\":\"a\"}",
         "{\"stream_options\":{\"include_usage\":true,\"k\":1},\"messages\":[],\"stream\":true,\"model\":\"up/"
         "\\\"m\"}"},
        {ENDPOINT_CHAT,
         "{\"model\":\"a\",\"stream_options\":{\"include_obfuscation\":false},\"messages\":[],\"stream\":true}",
         "{\"model\":\"up/\\\"m\",\"stream_options\":{\"include_usage\":true,\"include_obfuscation\":false},"
         "\"messages\":[],\"stream\":true}"},
        {ENDPOINT_CHAT, "{\"model\":\"a\",\"stream_options\":{ },\"messages\":[],\"stream\":true}",
         "{\"model\":\"up/\\\"m\",\"stream_options\":{\"include_usage\":true},\"messages\":[],\"stream\":true}"},
        {ENDPOINT_CHAT, "{\"model\":\"a\",\"stream_options\":{\"include_usage\":true},\"messages\":[],\"stream\":true}",
         "{\"model\":\"up/\\\"m\",\"stream_options\":{\"include_usage\":true},\"messages\":[],\"stream\":true}"},
        {ENDPOINT_COMPLETIONS, "{\"model\":\"a\",\"prompt\":\"p\",\"stream\":false}",
         "{\"model\":\"up/\\\"m\",\"prompt\":\"p\",\"stream\":false}"},
        {ENDPOINT_MESSAGES, "{\"max_tokens\":1,\"stream\":true,\"messages\":[],\"model\":\"a\"}",
         "{\"max_tokens\":1,\"stream\":true,\"messages\":[],\"model\":\"up/\\\"m\"}"},
        {ENDPOINT_RESPONSES, "{\"model\":\"a\",\"input\":\"\\ud83d\",\"stream\":true}",
         "{\"model\":\"up/\\\"m\",\"input\":\"\\ud83d\",\"stream\":true}"},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct str out;
        str_init(&out, 1 << 16);
        written(rows[i].endpoint, rows[i].text, "up/\"m", &out);
        cr_expect_str_eq(out.at, rows[i].expect);
        str_fini(&out);
    }
}

Test(call_write, stream_options_null_are_replaced_not_doubled) {
    struct str out;
    str_init(&out, 1 << 16);
    written(ENDPOINT_CHAT, "{\"model\":\"a\",\"stream_options\":null,\"messages\":[],\"stream\":true}", "m", &out);
    struct json v;
    struct json_fault fault;
    cr_assert(json_check(str_span(&out), JSON_DEPTH_MAX, &v, &fault));
    static const char *const names[] = {"stream_options"};
    struct json options;
    cr_expect_null(json_pick(v, names, &options, 1), "%s", out.at);
    cr_expect_eq(json_get(options, "include_usage").kind, JSON_TRUE);
    str_fini(&out);
}

/* S-09: a provider that knows no stream_options gets the caller's own bytes. */
Test(call_write, s09_usage_is_not_asked_of_a_provider_that_cannot_tell_it) {
    const char *text = "{\"model\":\"a\",\"stream_options\":{\"k\":false},\"messages\":[],\"stream\":true}";
    struct call_case c;
    struct call_pieces pieces;
    struct str out;
    str_init(&out, 1 << 16);
    call_case_open(&c, ENDPOINT_CHAT, text);
    cr_assert(c.good);
    c.call.usage_unasked = true;
    cr_assert(call_write(&c.call, SPAN("a"), &c.arena, &pieces));
    for (size_t i = 0; i < pieces.n; i++)
        str_put(&out, pieces.at[i]);
    cr_expect_str_eq(out.at, text);
    str_fini(&out);
    call_case_close(&c);
}

Test(call_write, cache_control_and_order_survive_whatever_is_asked) { /* T-12 */
    const char *text =
        "{\"model\":\"a\",\"max_tokens\":5,\"system\":[{\"type\":\"text\",\"text\":\"s\","
        "\"cache_control\":{\"type\":\"ephemeral\",\"ttl\":\"1h\"}}],\"tools\":[{\"name\":\"t\","
        "\"input_schema\":{\"z\":1,\"a\":2},\"cache_control\":{\"type\":\"ephemeral\"}}],\"messages\":[]}";
    struct str one, two;
    str_init(&one, 1 << 16);
    str_init(&two, 1 << 16);
    written(ENDPOINT_MESSAGES, text, "a", &one);
    cr_expect_str_eq(one.at, text, "the same model: the same bytes");
    written(ENDPOINT_MESSAGES, text, "a", &two);
    cr_expect_str_eq(one.at, two.at);
    str_fini(&one);
    str_fini(&two);
}

Test(call_write, full_arena_is_said) {
    struct call_case c;
    struct call_pieces pieces;
    struct arena none;
    arena_init(&none, 1);
    call_case_open(&c, ENDPOINT_CHAT, "{\"model\":\"a\",\"messages\":[]}");
    cr_expect_not(call_write(&c.call, SPAN("some/model"), &none, &pieces));
    arena_fini(&none);
    call_case_close(&c);
}

Test(call_write, endpoints_and_credentials) {
    struct conf_upstream_key key = {.name = "k", .value = "sk-1"};
    struct str value;
    str_init(&value, 100);
    cr_expect_str_eq(backend_sign(PROTOCOL_OPENAI, &key, &value), "authorization");
    cr_expect_str_eq(value.at, "Bearer sk-1");
    str_clear(&value);
    cr_expect_str_eq(backend_sign(PROTOCOL_ANTHROPIC, &key, &value), "x-api-key");
    cr_expect_str_eq(value.at, "sk-1");
    cr_expect_null(backend_sign(PROTOCOL_DECODE, &key, &value));
    str_fini(&value);
    for (int e = 0; e < ENDPOINT_N; e++)
        cr_expect(endpoint_row(e)->name && endpoint_row(e)->client_path[0] == '/' && endpoint_row(e)->protocols);
    cr_expect_str_eq(dialect_heartbeat(DIALECT_OPENAI), ": ping\n\n");
    cr_expect_str_eq(dialect_heartbeat(DIALECT_ANTHROPIC), "event: ping\ndata: {\"type\":\"ping\"}\n\n");
}

/* ---- clamping ---- */

static void clamped(enum endpoint e, const char *text, int64_t tok, struct str *out) {
    struct call_case c;
    struct call_pieces pieces;
    call_case_open(&c, e, text);
    cr_assert(c.good, "%s", c.fault.text);
    c.call.clamped_tok = tok;
    cr_assert(call_write(&c.call, SPAN("m"), &c.arena, &pieces));
    cr_assert_leq(pieces.n, CALL_PIECES_MAX);
    for (size_t i = 0; i < pieces.n; i++)
        str_put(out, pieces.at[i]);
    call_case_close(&c);
}

Test(call_write, a_clamp_rewrites_the_field_that_the_call_uses) {
    static const struct {
        enum endpoint endpoint;
        const char *text, *expect;
    } rows[] = {
        {ENDPOINT_CHAT, "{\"max_tokens\" : 4000 ,\"model\":\"a\",\"messages\":[]}",
         "{\"max_tokens\" : 300 ,\"model\":\"m\",\"messages\":[]}"},
        {ENDPOINT_CHAT, "{\"model\":\"a\",\"max_completion_tokens\":4000,\"max_tokens\":5000,\"messages\":[]}",
         "{\"model\":\"m\",\"max_completion_tokens\":300,\"max_tokens\":300,\"messages\":[]}"},
        {ENDPOINT_CHAT, "{\"model\":\"a\",\"max_completion_tokens\":200,\"max_tokens\":5000,\"messages\":[]}",
         "{\"model\":\"m\",\"max_completion_tokens\":200,\"max_tokens\":300,\"messages\":[]}"},
        {ENDPOINT_CHAT, "{\"model\":\"a\",\"messages\":[],\"stream\":true}",
         "{\"model\":\"m\",\"messages\":[],\"stream\":true,\"stream_options\":{\"include_usage\":true},"
         "\"max_completion_tokens\":300}"},
        {ENDPOINT_CHAT, "{\"model\":\"a\",\"max_completion_tokens\":null,\"messages\":[]}",
         "{\"model\":\"m\",\"max_completion_tokens\":300,\"messages\":[]}"},
        {ENDPOINT_COMPLETIONS, "{\"model\":\"a\",\"prompt\":\"p\"}",
         "{\"model\":\"m\",\"prompt\":\"p\",\"max_tokens\":300}"},
        {ENDPOINT_MESSAGES, "{\"max_tokens\":4000,\"messages\":[],\"model\":\"a\"}",
         "{\"max_tokens\":300,\"messages\":[],\"model\":\"m\"}"},
        {ENDPOINT_RESPONSES, "{\"model\":\"a\",\"input\":\"i\"}",
         "{\"model\":\"m\",\"input\":\"i\",\"max_output_tokens\":300}"},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct str out;
        str_init(&out, 1 << 16);
        clamped(rows[i].endpoint, rows[i].text, 300, &out);
        cr_expect_str_eq(out.at, rows[i].expect);
        str_fini(&out);
    }
}

Test(call_write, what_a_cut_would_break_may_not_be_clamped) {
    static const struct {
        enum endpoint endpoint;
        const char *text;
        bool may;
    } rows[] = {
        {ENDPOINT_CHAT, "{\"model\":\"a\",\"messages\":[]}", true},
        {ENDPOINT_CHAT, "{\"model\":\"a\",\"messages\":[],\"response_format\":{\"type\":\"text\"}}", true},
        {ENDPOINT_CHAT, "{\"model\":\"a\",\"messages\":[],\"response_format\":{\"type\":\"json_object\"}}", false},
        {ENDPOINT_CHAT,
         "{\"model\":\"a\",\"messages\":[],\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"f\"}}]}", false},
        {ENDPOINT_RESPONSES, "{\"model\":\"a\",\"input\":\"i\",\"text\":{\"format\":{\"type\":\"json_object\"}}}",
         false},
        {ENDPOINT_MESSAGES,
         "{\"model\":\"a\",\"max_tokens\":4000,\"messages\":[],\"thinking\":{\"type\":\"enabled\",\"budget_tokens\":"
         "1024}}",
         false},
        {ENDPOINT_EMBEDDINGS, "{\"model\":\"a\",\"input\":\"i\"}", false},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct call_case c;
        call_case_open(&c, rows[i].endpoint, rows[i].text);
        cr_assert(c.good, "%s", c.fault.text);
        cr_expect_eq(call_may_clamp(&c.call, 300), rows[i].may, "%s", rows[i].text);
        call_case_close(&c);
    }
}
