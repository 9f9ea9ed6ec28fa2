/* Calls of the Responses API: above all what only names an object kept at a provider. */
#include "tests/support/call_case.h"

#include <criterion/criterion.h>

#define CALL(members) "{\"model\":\"m\",\"input\":\"hi\"" members "}"
#define ITEMS(items) "{\"model\":\"m\",\"input\":[" items "]}"

Test(responses_call, ids_of_stored_objects_are_refused_by_name) {
    static const struct call_row rows[] = {
        {CALL(""), "", ERR_NONE},
        {CALL(",\"store\":true"), "", ERR_NONE},
        {CALL(",\"previous_response_id\":\"resp_1\""), "previous_response_id", ERR_UNSUPPORTED},
        {CALL(",\"previous_response_id\":null,\"conversation\":null,\"background\":false"), "", ERR_NONE},
        {CALL(",\"conversation\":\"c\""), "conversation", ERR_UNSUPPORTED},
        {CALL(",\"background\":true"), "background", ERR_UNSUPPORTED},
        {CALL(",\"prompt\":{\"id\":\"pmpt_1\"}"), "prompt", ERR_UNSUPPORTED},
        {ITEMS("{\"role\":\"user\",\"content\":\"x\"},{\"type\":\"item_reference\",\"id\":\"msg_1\"}"),
         "input[1].item_reference", ERR_UNSUPPORTED},
        {ITEMS("{\"id\":\"rs_1\"}"), "input[0].item_reference", ERR_UNSUPPORTED},
        {ITEMS("{\"role\":\"user\",\"content\":[{\"type\":\"input_image\",\"file_id\":\"f\"}]}"),
         "input[0].content[0].file_id", ERR_UNSUPPORTED},
        {ITEMS("{\"role\":\"user\",\"content\":[{\"type\":\"input_file\",\"file_id\":\"f\"}]}"),
         "input[0].content[0].file_id", ERR_UNSUPPORTED},
        {CALL(",\"tools\":[{\"type\":\"file_search\",\"vector_store_ids\":[\"vs_1\"]}]"), "tools[0].vector_store_ids",
         ERR_UNSUPPORTED},
        {CALL(",\"tools\":[{\"type\":\"code_interpreter\",\"container\":\"cntr_1\"}]"), "tools[0].container",
         ERR_UNSUPPORTED},
        {CALL(",\"tools\":[{\"type\":\"code_interpreter\",\"container\":{\"type\":\"auto\",\"file_ids\":[\"f\"]}}]"),
         "tools[0].container.file_ids", ERR_UNSUPPORTED},
        {CALL(",\"tools\":[{\"type\":\"code_interpreter\",\"container\":{\"type\":\"auto\"}}]"), "", ERR_NONE},
        {CALL(",\"tools\":[{\"type\":\"function\",\"name\":\"f\",\"parameters\":{\"properties\":{\"file_id\":{}}}}]"),
         "", ERR_NONE},
        {ITEMS("{\"type\":\"reasoning\",\"id\":\"rs_1\",\"summary\":[],\"encrypted_content\":\"gAAA\"}"), "", ERR_NONE},
        {CALL(",\"max_output_tokens\":\"9\""), "max_output_tokens", ERR_INVALID},
        {CALL(",\"temperature\":3"), "temperature", ERR_INVALID},
        {ITEMS("7"), "input[0]", ERR_INVALID},
        {ITEMS("{\"type\":\"function_call_output\",\"call_id\":\"c\",\"output\":5}"), "input[0].output", ERR_INVALID},
    };
    char field[96];
    enum err err;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        const char *got = call_case_field(ENDPOINT_RESPONSES, rows[i].text, field, &err);
        cr_expect_str_eq(got, rows[i].field, "%s: '%s'", rows[i].text, got);
        cr_expect_eq(err, rows[i].err, "%s", rows[i].text);
    }
}

Test(responses_call, stored_unless_said_otherwise) {
    static const struct {
        const char *text;
        bool stored;
    } rows[] = {{CALL(""), true},
                {CALL(",\"store\":null"), true},
                {CALL(",\"store\":true"), true},
                {CALL(",\"store\":false"), false}};
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct call_case c;
        call_case_open(&c, ENDPOINT_RESPONSES, rows[i].text);
        cr_expect_eq(c.call.traits.stored, rows[i].stored, "%s", rows[i].text);
        call_case_close(&c);
    }
}

Test(responses_call, sizes_count_items_and_tool_results) {
    struct call_case c;
    call_case_open(&c, ENDPOINT_RESPONSES,
                   "{\"model\":\"m\",\"instructions\":\"be\",\"max_output_tokens\":11,\"input\":["
                   "{\"role\":\"user\",\"content\":[{\"type\":\"input_text\",\"text\":\"abcd\"},"
                   "{\"type\":\"input_image\",\"image_url\":\"https://x.org/i.png\"}]},"
                   "{\"type\":\"function_call_output\",\"call_id\":\"c\",\"output\":\"12345\"}]}");
    cr_assert(c.good, "%s", c.fault.text);
    cr_expect_eq(c.call.size.messages, 2);
    cr_expect_eq(c.call.size.images, 1);
    cr_expect_eq(c.call.size.max_output_tok, 11);
    cr_expect_eq(c.call.size.text_bytes, (int64_t)(strlen("\"be\"") + 4 + strlen("\"c\"") + 5));
    cr_expect(c.call.traits.remote_content);
    call_case_close(&c);
}
