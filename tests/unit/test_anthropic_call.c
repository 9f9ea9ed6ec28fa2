/* Calls of the Anthropic dialect. */
#include "tests/support/call_case.h"

#include <criterion/criterion.h>
#include <stdio.h>

#define CALL(members)                                                                                                  \
    "{\"model\":\"m\",\"max_tokens\":9,\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}]" members "}"
#define BLOCK(members)                                                                                                 \
    "{\"model\":\"m\",\"max_tokens\":9,\"messages\":[{\"role\":\"user\",\"content\":[{" members "}]}]}"

static void check_rows(enum endpoint e, const struct call_row *rows, size_t n) {
    char field[96];
    enum err err;
    for (size_t i = 0; i < n; i++) {
        const char *got = call_case_field(e, rows[i].text, field, &err);
        cr_expect_str_eq(got, rows[i].field, "%s: refused for '%s', not '%s'", rows[i].text, got, rows[i].field);
        cr_expect_eq(err, rows[i].err, "%s", rows[i].text);
    }
}

Test(anthropic_call, wrong_types_and_stored_objects_name_their_field) {
    static const struct call_row rows[] = {
        {CALL(""), "", ERR_NONE},
        {"{\"model\":\"m\",\"messages\":[]}", "max_tokens", ERR_INVALID},
        {"{\"model\":\"m\",\"max_tokens\":9}", "messages", ERR_INVALID},
        {"{\"model\":\"m\",\"max_tokens\":1.5,\"messages\":[]}", "max_tokens", ERR_INVALID},
        {CALL(",\"temperature\":1.5"), "temperature", ERR_INVALID},
        {CALL(",\"top_k\":0.5"), "top_k", ERR_INVALID},
        {CALL(",\"top_k\":\"x\""), "top_k", ERR_INVALID},
        {CALL(",\"stop_sequences\":[null]"), "stop_sequences[0]", ERR_INVALID},
        {CALL(",\"thinking\":{\"type\":\"enabled\",\"budget_tokens\":-1}"), "thinking.budget_tokens", ERR_INVALID},
        {CALL(",\"system\":7"), "system", ERR_INVALID},
        {BLOCK("\"type\":\"text\",\"text\":1"), "messages[0].content[0].text", ERR_INVALID},
        {BLOCK("\"type\":\"tool_result\",\"tool_use_id\":\"t\",\"content\":9"), "messages[0].content[0].content",
         ERR_INVALID},
        {BLOCK("\"type\":\"image\",\"source\":{\"type\":\"file\",\"file_id\":\"f\"}"),
         "messages[0].content[0].source.file_id", ERR_UNSUPPORTED},
        {BLOCK("\"type\":\"container_upload\",\"file_id\":\"f\""), "messages[0].content[0].file_id", ERR_UNSUPPORTED},
        {BLOCK("\"type\":\"tool_use\",\"id\":\"t\",\"name\":\"n\",\"input\":{\"file_id\":\"mine\"}"), "", ERR_NONE},
        {CALL(",\"container\":\"c_1\""), "container", ERR_UNSUPPORTED},
        {CALL(",\"container\":null"), "", ERR_NONE},
        {CALL(",\"thread\":{\"id\":\"t\"}"), "thread", ERR_UNSUPPORTED},
        {CALL(",\"fallbacks\":[{\"model\":\"dear\"}]"), "fallbacks", ERR_UNSUPPORTED},
        {CALL(",\"context_management\":{},\"diagnostics\":{\"previous_message_id\":\"m\"},\"speed\":\"fast\""), "",
         ERR_NONE},
    };
    check_rows(ENDPOINT_MESSAGES, rows, ARRAY_LEN(rows));
}

Test(anthropic_call, sizes_and_traits) {
    struct call_case c;
    call_case_open(
        &c, ENDPOINT_MESSAGES,
        "{\"model\":\"m\",\"max_tokens\":64,\"temperature\":0,\"system\":[{\"type\":\"text\",\"text\":\"sys\","
        "\"cache_control\":{\"type\":\"ephemeral\"}}],\"messages\":[{\"role\":\"user\",\"content\":["
        "{\"type\":\"tool_result\",\"tool_use_id\":\"t\",\"content\":[{\"type\":\"text\",\"text\":\"ok\"},"
        "{\"type\":\"image\",\"source\":{\"type\":\"base64\",\"media_type\":\"image/png\",\"data\":\"AAAA\"}}]},"
        "{\"type\":\"document\",\"source\":{\"type\":\"text\",\"media_type\":\"text/plain\",\"data\":\"doc!\"}},"
        "{\"type\":\"image\",\"source\":{\"type\":\"url\",\"url\":\"https://x.org/i\"}}]}]}");
    cr_assert(c.good, "%s", c.fault.text);
    cr_expect_eq(c.call.size.images, 2);
    cr_expect_eq(c.call.size.documents, 1);
    cr_expect_eq(c.call.size.text_bytes, (int64_t)(3 + 2 + 4 + strlen("\"t\"")), "%lld",
                 (long long)c.call.size.text_bytes);
    cr_expect(c.call.traits.temperature_zero && c.call.traits.remote_content && !c.call.traits.server_tools);
    cr_expect_eq(c.call.caps, CAP_VISION | CAP_DOCUMENTS);
    cr_expect_eq(c.call.size.max_output_tok, 64);
    call_case_close(&c);
}

Test(anthropic_call, server_tools_are_told_from_the_callers_own) {
    static const struct {
        const char *tools;
        bool server;
    } rows[] = {{"[{\"name\":\"f\",\"input_schema\":{}}]", false},
                {"[{\"type\":\"custom\",\"name\":\"f\",\"input_schema\":{}}]", false},
                {"[{\"type\":\"bash_20250124\",\"name\":\"bash\"}]", false},
                {"[{\"type\":\"web_search_20260209\",\"name\":\"web_search\"}]", true},
                {"[{\"type\":\"code_execution_20260120\",\"name\":\"code_execution\"}]", true}};
    char text[512];
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct call_case c;
        snprintf(text, sizeof text, CALL(",\"tools\":%s"), rows[i].tools);
        call_case_open(&c, ENDPOINT_MESSAGES, text);
        cr_expect(c.good);
        cr_expect_eq(c.call.traits.server_tools, rows[i].server, "%s", rows[i].tools);
        call_case_close(&c);
    }
}

Test(anthropic_call, token_counts_need_no_max_tokens) {
    struct call_case c;
    call_case_open(&c, ENDPOINT_COUNT_TOKENS,
                   "{\"model\":\"m\",\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}]}");
    cr_assert(c.good);
    cr_expect(c.call.traits.always && c.call.size.choices == 0);
    call_case_close(&c);
}
