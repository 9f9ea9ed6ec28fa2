/* Calls of the OpenAI dialect: what is refused and by which name, and the facts that the other rooms rely on. */
#include "tests/support/call_case.h"

#include <criterion/criterion.h>
#include <stdio.h>

static void check_rows(enum endpoint e, const struct call_row *rows, size_t n) {
    char field[96];
    enum err err;
    for (size_t i = 0; i < n; i++) {
        const char *got = call_case_field(e, rows[i].text, field, &err);
        cr_expect_str_eq(got, rows[i].field, "%s: refused for '%s', not '%s'", rows[i].text, got, rows[i].field);
        cr_expect_eq(err, rows[i].err, "%s: error %d", rows[i].text, (int)err);
    }
}

#define CHAT(members) "{\"model\":\"m\",\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}]" members "}"
#define MESSAGE(members) "{\"model\":\"m\",\"messages\":[{\"role\":\"user\"},{" members "}]}"
#define PART(members) MESSAGE("\"role\":\"user\",\"content\":[{" members "}]")

Test(openai_call, wrong_types_and_ranges_name_their_field) {
    static const struct call_row rows[] = {
        {CHAT(""), "", ERR_NONE},
        {"[]", "", ERR_INVALID},
        {"{\"messages\":[]}", "model", ERR_INVALID},
        {"{\"model\":\"m\"}", "messages", ERR_INVALID},
        {"{\"model\":null,\"messages\":[]}", "model", ERR_INVALID},
        {"{\"model\":\"\",\"messages\":[]}", "model", ERR_INVALID},
        {"{\"model\":7,\"messages\":[]}", "model", ERR_INVALID},
        {"{\"model\":\"m\",\"messages\":{}}", "messages", ERR_INVALID},
        {"{\"model\":\"m\",\"messages\":[1]}", "messages[0]", ERR_INVALID},
        {"{\"model\":\"m\",\"messages\":[{\"content\":\"x\"}]}", "messages[0].role", ERR_INVALID},
        {MESSAGE("\"role\":\"user\",\"content\":3"), "messages[1].content", ERR_INVALID},
        {PART("\"text\":\"x\""), "messages[1].content[0].type", ERR_INVALID},
        {PART("\"type\":\"text\",\"text\":[]"), "messages[1].content[0].text", ERR_INVALID},
        {PART("\"type\":\"image_url\",\"image_url\":{\"url\":1}"), "messages[1].content[0].image_url.url", ERR_INVALID},
        {CHAT(",\"temperature\":\"0\""), "temperature", ERR_INVALID},
        {CHAT(",\"temperature\":\"NaN\""), "temperature", ERR_INVALID},
        {CHAT(",\"temperature\":-1"), "temperature", ERR_INVALID},
        {CHAT(",\"temperature\":1e308"), "temperature", ERR_INVALID},
        {CHAT(",\"temperature\":1e400"), "temperature", ERR_INVALID},
        {CHAT(",\"top_p\":1.01"), "top_p", ERR_INVALID},
        {CHAT(",\"n\":0"), "n", ERR_INVALID},
        {CHAT(",\"n\":0.01"), "n", ERR_INVALID},
        {CHAT(",\"n\":129"), "n", ERR_INVALID},
        {CHAT(",\"max_tokens\":0"), "max_tokens", ERR_INVALID},
        {CHAT(",\"max_tokens\":-1"), "max_tokens", ERR_INVALID},
        {CHAT(",\"max_completion_tokens\":1e12"), "max_completion_tokens", ERR_INVALID},
        {CHAT(",\"max_tokens\":9223372036854775808"), "max_tokens", ERR_INVALID},
        {CHAT(",\"seed\":9223372036854775808"), "seed", ERR_INVALID},
        {CHAT(",\"stop\":[1]"), "stop[0]", ERR_INVALID},
        {CHAT(",\"stream\":\"true\""), "stream", ERR_INVALID},
        {CHAT(",\"stream_options\":{\"include_usage\":1}"), "stream_options.include_usage", ERR_INVALID},
        {CHAT(",\"tools\":[{\"type\":\"function\",\"function\":{\"parameters\":{}}}]"), "tools[0].function.name",
         ERR_INVALID},
        {CHAT(",\"response_format\":{}"), "response_format.type", ERR_INVALID},
        {CHAT(",\"max_tokens\":5,\"max_tokens\":500000"), "max_tokens", ERR_INVALID},
        {CHAT(",\"model\":\"other\""), "model", ERR_INVALID},
    };
    check_rows(ENDPOINT_CHAT, rows, ARRAY_LEN(rows));
}

Test(openai_call, null_and_unknown_fields_pass) {
    static const struct call_row rows[] = {
        {CHAT(",\"temperature\":null,\"n\":null,\"tools\":null,\"stop\":null,\"stream_options\":null"), "", ERR_NONE},
        {CHAT(",\"enable_thinking\":true,\"big\":9223372036854775808,\"odd\":1e400,\"a\":1,\"a\":2"), "", ERR_NONE},
        {MESSAGE("\"role\":\"martian\",\"content\":null,\"x\":{\"y\":1}"), "", ERR_NONE},
        {MESSAGE("\"role\":\"user\",\"content\":\"\\ud83d lone\""), "", ERR_NONE},
        {PART("\"type\":\"image_url\",\"image_url\":\"data:image/png;base64,AA\""), "", ERR_NONE},
    };
    check_rows(ENDPOINT_CHAT, rows, ARRAY_LEN(rows));
}

Test(openai_call, stored_objects_are_refused_by_name) {
    static const struct call_row rows[] = {
        {CHAT(",\"previous_response_id\":\"resp_1\""), "previous_response_id", ERR_UNSUPPORTED},
        {CHAT(",\"conversation\":{\"id\":\"c\"}"), "conversation", ERR_UNSUPPORTED},
        {CHAT(",\"container\":\"c\""), "container", ERR_UNSUPPORTED},
        {CHAT(",\"previous_response_id\":null"), "", ERR_NONE},
        {PART("\"type\":\"file\",\"file\":{\"file_id\":\"file-1\"}"), "messages[1].content[0].file.file_id",
         ERR_UNSUPPORTED},
        {MESSAGE("\"role\":\"assistant\",\"audio\":{\"id\":\"a\"}"), "messages[1].audio", ERR_UNSUPPORTED},
        {CHAT(",\"tools\":[{\"type\":\"file_search\",\"vector_store_ids\":[\"vs\"]}]"), "tools[0].vector_store_ids",
         ERR_UNSUPPORTED},
        {CHAT(",\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"f\",\"parameters\":{\"properties\":{"
              "\"file_id\":{\"type\":\"string\"}}}}}]"),
         "", ERR_NONE},
    };
    check_rows(ENDPOINT_CHAT, rows, ARRAY_LEN(rows));
}

Test(openai_call, sizes_count_everything_that_reaches_the_model) {
    struct call_case c;
    call_case_open(&c, ENDPOINT_CHAT,
                   "{\"model\":\"m\",\"max_tokens\":10,\"max_completion_tokens\":7,\"n\":3,\"messages\":["
                   "{\"role\":\"system\",\"content\":\"\\u00e9\"},"
                   "{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"abc\"},"
                   "{\"type\":\"image_url\",\"image_url\":{\"url\":\"data:image/png;base64,AAAA\"}},"
                   "{\"type\":\"image_url\",\"image_url\":{\"url\":\"https://x.org/a.png\"}},"
                   "{\"type\":\"input_audio\",\"input_audio\":{\"data\":\"AA\",\"format\":\"wav\"}},"
                   "{\"type\":\"file\",\"file\":{\"file_data\":\"data:application/pdf;base64,AA\"}}]},"
                   "{\"role\":\"tool\",\"tool_call_id\":\"t\",\"content\":\"result\"}],"
                   "\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"f\"}}]}");
    cr_assert(c.good, "%s", c.fault.text);
    cr_expect_eq(c.call.size.messages, 3);
    cr_expect_eq(c.call.size.images, 2);
    cr_expect_eq(c.call.size.audios, 1);
    cr_expect_eq(c.call.size.documents, 1);
    cr_expect_eq(c.call.size.tools, 1);
    cr_expect_eq(c.call.size.choices, 3);
    cr_expect_eq(c.call.size.max_output_tok, 10, "the larger of both counts");
    size_t tools = strlen("[{\"type\":\"function\",\"function\":{\"name\":\"f\"}}]");
    cr_expect_eq(c.call.size.text_bytes, (int64_t)(2 + 3 + 6 + strlen("\"t\"") + tools), "%lld",
                 (long long)c.call.size.text_bytes);
    cr_expect_eq(c.call.caps, CAP_VISION | CAP_TOOLS | CAP_AUDIO | CAP_DOCUMENTS);
    cr_expect(c.call.traits.many && c.call.traits.remote_content);
    call_case_close(&c);
}

Test(openai_call, unknown_text_counts_for_the_bound) {
    struct call_case c, d;
    call_case_open(&c, ENDPOINT_CHAT, CHAT(""));
    call_case_open(&d, ENDPOINT_CHAT, CHAT(",\"documents\":[\"0123456789\"]"));
    cr_expect_geq(d.call.size.text_bytes, c.call.size.text_bytes + 10);
    call_case_close(&c);
    call_case_close(&d);
}

Test(openai_call, traits_follow_the_contract) {
    struct call_case c;
    call_case_open(&c, ENDPOINT_CHAT, CHAT(",\"temperature\":0.0,\"seed\":1,\"store\":true,\"stream\":true"));
    cr_expect(c.call.traits.temperature_zero && c.call.traits.temperature_said && c.call.traits.seeded);
    cr_expect(c.call.traits.stored && c.call.stream && !c.call.traits.always && !c.call.traits.many);
    call_case_close(&c);
    call_case_open(&c, ENDPOINT_CHAT, CHAT(",\"modalities\":[\"text\",\"audio\"],\"web_search_options\":{}"));
    cr_expect(c.call.traits.audio_output && c.call.traits.server_tools && !c.call.traits.temperature_said);
    call_case_close(&c);
    call_case_open(&c, ENDPOINT_CHAT,
                   CHAT(",\"response_format\":{\"type\":\"json_schema\",\"json_schema\":{}},\"logprobs\":true"));
    cr_expect_eq(c.call.caps, CAP_JSON_SCHEMA | CAP_LOGPROBS);
    call_case_close(&c);
}

Test(openai_call, completions_and_embeddings) {
    struct call_case c;
    static const struct call_row rows[] = {
        {"{\"model\":\"m\",\"prompt\":[\"a\",7]}", "", ERR_NONE},
        {"{\"model\":\"m\",\"prompt\":[true]}", "prompt[0]", ERR_INVALID},
        {"{\"model\":\"m\",\"prompt\":[[1,\"x\"]]}", "prompt[0][1]", ERR_INVALID},
        {"{\"model\":\"m\",\"prompt\":\"a\",\"max_tokens\":0}", "", ERR_NONE},
        {"{\"model\":\"m\",\"prompt\":\"a\",\"best_of\":200}", "best_of", ERR_INVALID},
    };
    check_rows(ENDPOINT_COMPLETIONS, rows, ARRAY_LEN(rows));
    call_case_open(&c, ENDPOINT_COMPLETIONS, "{\"model\":\"m\",\"prompt\":[\"a\",\"b\"],\"n\":2}");
    cr_expect_eq(c.call.size.choices, 4, "each prompt is answered n times");
    call_case_close(&c);
    call_case_open(&c, ENDPOINT_EMBEDDINGS, "{\"model\":\"m\",\"input\":[[1,2,3],[4]],\"encoding_format\":\"base64\"}");
    cr_assert(c.good);
    cr_expect(c.call.traits.always && c.call.size.choices == 0 && c.call.size.token_inputs == 4);
    call_case_close(&c);
    call_case_open(&c, ENDPOINT_EMBEDDINGS, "{\"model\":\"m\",\"input\":5}");
    cr_expect_str_eq(c.fault.field, "input");
    call_case_close(&c);
}
