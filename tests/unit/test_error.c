/* Errors both ways. */
#include "backends/dialect.h"

#include <criterion/criterion.h>
#include <stdio.h>

static struct provider_error read_error(int status, const char *body) {
    struct provider_error e;
    provider_error_read(PROTOCOL_OPENAI, status, span_of(body), &e);
    return e;
}

Test(error, every_provider_shape_gives_its_message) {
    static const struct {
        int status;
        const char *body, *message, *code, *type;
    } rows[] = {
        {404,
         "{\"error\":{\"message\":\"no "
         "m\",\"type\":\"invalid_request_error\",\"param\":null,\"code\":\"model_not_found\"}}",
         "no m", "model_not_found", "invalid_request_error"},
        {401, "{\"error\":{\"code\":\"401\",\"message\":\"Access denied\"}}", "Access denied", "401", ""},
        {400, "{\"error\":{\"message\":\"bad\",\"type\":\"BadRequestError\",\"code\":400}}", "bad", "400",
         "BadRequestError"},
        {529, "{\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"Overloaded\"}}", "Overloaded",
         "", "overloaded_error"},
        {429, "[{\"error\":{\"code\":429,\"message\":\"Quota\",\"status\":\"RESOURCE_EXHAUSTED\"}}]", "Quota", "429",
         "RESOURCE_EXHAUSTED"},
        {400, "{\"message\":\"too hot\"}", "too hot", "", ""},
        {403, "{\"Message\":\"denied\"}", "denied", "", ""},
        {400, "{\"object\":\"error\",\"message\":{\"detail\":\"x\"},\"type\":\"t\",\"code\":1234}",
         "{\"detail\":\"x\"}", "1234", "t"},
        {422, "{\"detail\":[{\"loc\":[\"body\"],\"msg\":\"Field required\",\"type\":\"missing\"}]}", "Field required",
         "", ""},
        {404, "{\"detail\":\"Not Found\"}", "Not Found", "", ""},
        {404, "{\"error\":\"model 'x' not found\"}", "model 'x' not found", "", ""},
        {502, "<html>\n<b>Bad\tGateway</b>", "<html> <b>Bad Gateway</b>", "", ""},
        {500, "", "", "", ""},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct provider_error e = read_error(rows[i].status, rows[i].body);
        cr_expect_str_eq(e.message, rows[i].message, "%s gives %s", rows[i].body, e.message);
        cr_expect_str_eq(e.code, rows[i].code);
        cr_expect_str_eq(e.type, rows[i].type);
        cr_expect_eq(e.status, rows[i].status);
    }
}

Test(error, refusals_that_lead_to_the_next_rung_are_recognised) {
    static const struct {
        int status;
        const char *body;
        bool context, filter;
    } rows[] = {
        {400, "{\"error\":{\"message\":\"x\",\"code\":\"context_length_exceeded\"}}", true, false},
        {400,
         "{\"type\":\"error\",\"error\":{\"type\":\"invalid_request_error\",\"message\":\"prompt is too long: 9 > "
         "8\"}}",
         true, false},
        {400, "{\"error\":{\"message\":\"This model's maximum context length is 8 tokens\"}}", true, false},
        {400, "{\"error\":{\"message\":\"filtered\",\"code\":\"content_filter\"}}", false, true},
        {400, "{\"error\":{\"message\":\"x\",\"innererror\":{\"code\":\"ResponsibleAIPolicyViolation\"}}}", false,
         true},
        {500, "{\"error\":{\"message\":\"maximum context length\"}}", false, false},
        {400, "{\"error\":{\"message\":\"temperature\"}}", false, false},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct provider_error e = read_error(rows[i].status, rows[i].body);
        cr_expect_eq(e.context_window, rows[i].context, "%s", rows[i].body);
        cr_expect_eq(e.content_filter, rows[i].filter, "%s", rows[i].body);
    }
}

Test(error, secrets_and_addresses_are_masked) { /* */
    static const struct {
        const char *text, *masked;
    } rows[] = {
        {"Incorrect API key provided: sk-proj-****abcd.", "Incorrect API key provided: [masked]"},
        {"see https://x.org/v1?key=AIzaSyD1 now", "see [address] now"},
        {"Authorization: Bearer abc.def-ghi was refused", "Authorization: [masked] [masked] was refused"},
        {"api_key=hello", "api_key=[masked]"},
        {"key: deadbeef", "key: [masked]"},
        {"0123456789abcdef0123456789abcdef", "[masked]"},
        {"Xk29dLs8QpWz71bNvC4mYtR6uHj3EoGa", "[masked]"},
        {"model claude-sonnet-4-5-20250929 is gone", "model claude-sonnet-4-5-20250929 is gone"},
        {"meta-llama/Llama-3.3-70B-Instruct-Turbo", "meta-llama/Llama-3.3-70B-Instruct-Turbo"},
        {"gr\xc3\xbc\xc3\x9f \xff bytes\x01", "gr\xc3\xbc\xc3\x9f ? bytes "},
    };
    char out[512];
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        error_mask(span_of(rows[i].text), out, sizeof out);
        cr_expect_str_eq(out, rows[i].masked, "%s", out);
    }
}

Test(error, long_bodies_are_cut_at_a_character) {
    struct str body;
    str_init(&body, 20 << 20);
    str_puts(&body, "{\"error\":{\"message\":\"");
    for (int i = 0; i < 2000; i++)
        str_puts(&body, "\xe5\xa5\xbd"); /* three bytes each */
    str_puts(&body, "\"}}");
    struct provider_error e;
    provider_error_read(PROTOCOL_OPENAI, 400, str_span(&body), &e);
    cr_expect_lt(strlen(e.message), sizeof e.message);
    cr_expect_eq(strlen(e.message) % 3, 0);
    cr_expect_gt(strlen(e.message), 500);
    for (int i = 0; i < 1000000; i++)
        str_puts(&body, "0123456789");
    provider_error_read(PROTOCOL_OPENAI, 500, str_span(&body), &e);
    cr_expect_lt(strlen(e.message), sizeof e.message);
    str_fini(&body);
}

static void expect_body(enum dialect d, const struct error_body *b, const char *expected) {
    struct str out;
    struct json v;
    struct json_fault fault;
    str_init(&out, 1 << 16);
    error_write(d, b, &out);
    cr_expect_str_eq(out.at, expected, "%s", out.at);
    cr_expect(json_check(str_span(&out), JSON_DEPTH_MAX, &v, &fault));
    str_fini(&out);
}

Test(error, bodies_speak_the_dialect_of_the_path) { /* T-18 */
    struct error_body b = {.err = ERR_BUDGET, .request_id = "req_1", .param = "n", .details = ",\"limit\":\"5 USD\""};
    expect_body(DIALECT_OPENAI, &b,
                "{\"error\":{\"message\":\"The budget is used up.\",\"type\":\"insufficient_quota\",\"param\":\"n\","
                "\"code\":\"budget_exceeded\",\"limit\":\"5 USD\"},\"request_id\":\"req_1\"}");
    expect_body(DIALECT_ANTHROPIC, &b,
                "{\"type\":\"error\",\"error\":{\"type\":\"billing_error\",\"message\":\"The budget is used up.\","
                "\"param\":\"n\",\"code\":\"budget_exceeded\",\"limit\":\"5 USD\"},\"request_id\":\"req_1\"}");
    b = (struct error_body){.err = ERR_INVALID, .message = "say \"hi\"\n", .code = "odd"};
    expect_body(DIALECT_RESPONSES, &b,
                "{\"error\":{\"message\":\"say \\\"hi\\\"\\n\",\"type\":\"invalid_request_error\",\"param\":null,"
                "\"code\":\"odd\"}}");
    b = (struct error_body){.err = ERR_CONTEXT, .message = "9 > 8"};
    expect_body(
        DIALECT_ANTHROPIC, &b,
        "{\"type\":\"error\",\"error\":{\"type\":\"invalid_request_error\",\"message\":\"prompt is too long: 9 > 8\","
        "\"code\":\"context_length_exceeded\"}}");
    cr_expect_eq(error_status(DIALECT_OPENAI, ERR_BUSY), 503);
    cr_expect_eq(error_status(DIALECT_ANTHROPIC, ERR_BUSY), 529);
}
