/* Calls for the embedded engine: what it takes, and what it refuses by name. */
#include "backends/dialect.h"
#include "tests/support/call_case.h"

#include <criterion/criterion.h>
#include <stdio.h>

#define TOOLS ",\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"f\"}}]"
#define CHAT(members) "{\"model\":\"m\",\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}]" members "}"

Test(engine, chat_becomes_an_ask) {
    struct call_case c;
    struct engine_ask ask;
    call_case_open(
        &c, ENDPOINT_CHAT,
        "{\"model\":\"m\",\"temperature\":0,\"top_p\":0.5,\"seed\":-3,\"stop\":[\"a\\n\",\"b\"],\"max_tokens\":9,"
        "\"n\":2,\"tools\":[],\"logprobs\":false,\"response_format\":{\"type\":\"text\"},\"user\":\"u\","
        "\"frequency_penalty\":0.0,\"messages\":[{\"role\":\"developer\",\"content\":\"be\"},"
        "{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"a\"},{\"type\":\"text\",\"text\":\"b\"}]},"
        "{\"role\":\"assistant\",\"content\":null}]}");
    cr_assert(c.good, "%s", c.fault.text);
    cr_assert(engine_ask(&c.call, &c.arena, &ask, &c.fault), "%s", c.fault.text);
    cr_expect(ask.ask.temperature == 0 && ask.ask.top_p == 0.5 && ask.ask.seeded && (int64_t)ask.ask.seed == -3);
    cr_expect(ask.ask.n_stops == 2 && span_is(ask.ask.stops[0], "a\n") && ask.ask.max_output_tok == 9);
    cr_assert(ask.ask.n_messages == 3 && ask.choices == 2);
    cr_expect(span_is(ask.ask.messages[0].role, "system") && span_is(ask.ask.messages[0].text, "be"));
    cr_expect(span_is(ask.ask.messages[1].text, "ab") && ask.ask.messages[2].text.n == 0);
    call_case_close(&c);
}

Test(engine, what_it_cannot_do_is_refused_by_name) {
    static const struct {
        const char *text, *field;
    } rows[] = {
        {CHAT(",\"tools\":[{\"type\":\"custom\",\"custom\":{\"name\":\"f\"}}]"), "tools[0]"},
        {CHAT(TOOLS ",\"tool_choice\":{\"type\":\"function\",\"function\":{\"name\":\"g\"}}"), "tool_choice"},
        {CHAT(",\"tool_choice\":\"required\""), "tool_choice"},
        {CHAT(TOOLS ",\"tool_choice\":\"required\",\"stop\":\"x\""), "stop"},
        {CHAT(TOOLS ",\"tool_choice\":\"required\",\"response_format\":{\"type\":\"json_object\"}"), "tool_choice"},
        {CHAT(",\"top_logprobs\":2"), "top_logprobs"},
        {CHAT(",\"logprobs\":true,\"top_logprobs\":21"), "top_logprobs"},
        {CHAT(",\"response_format\":{\"type\":\"grammar\"}"), "response_format.type"},
        {CHAT(",\"stop\":\"x\",\"response_format\":{\"type\":\"json_object\"}"), "stop"},
        {CHAT(",\"response_format\":{\"type\":\"json_schema\",\"json_schema\":{\"name\":\"a\",\"schema\":{\"type\":"
              "\"object\",\"properties\":{\"x\":{\"pattern\":\"a\"}}}}}"),
         "response_format.json_schema.schema.properties.x.pattern"},
        {CHAT(",\"best_of\":3"), "best_of"},
        {CHAT(",\"reasoning_effort\":\"high\""), "reasoning_effort"},
        {CHAT(",\"modalities\":[\"text\",\"audio\"]"), "modalities"},
        {"{\"model\":\"m\",\"messages\":[]}", "messages"},
        {"{\"model\":\"m\",\"messages\":[{\"role\":\"critic\",\"content\":\"x\"}]}", "messages[0].role"},
        {"{\"model\":\"m\",\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"image_url\",\"image_url\":{"
         "\"url\":"
         "\"data:,\"}}]}]}",
         "messages[0].content[0]"},
        {"{\"model\":\"m\",\"messages\":[{\"role\":\"assistant\",\"function_call\":{\"name\":\"t\",\"arguments\":\"\"}}"
         "]}",
         "messages[0].function_call"},
        {CHAT(",\"stop\":\"\""), "stop"},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct call_case c;
        struct engine_ask ask;
        call_case_open(&c, ENDPOINT_CHAT, rows[i].text);
        cr_assert(c.good, "%s", rows[i].text);
        cr_expect_not(engine_ask(&c.call, &c.arena, &ask, &c.fault), "%s", rows[i].text);
        cr_expect_str_eq(c.fault.field, rows[i].field, "%s: %s", rows[i].text, c.fault.text);
        cr_expect_neq(c.fault.err, ERR_NONE);
        call_case_close(&c);
    }
}

Test(engine, completions_take_one_text) {
    static const struct {
        const char *text, *prompt;
        int64_t max;
    } rows[] = {{"{\"model\":\"m\",\"prompt\":\"once\"}", "once", 16},
                {"{\"model\":\"m\",\"prompt\":[\"once\"],\"max_tokens\":3}", "once", 3},
                {"{\"model\":\"m\",\"prompt\":[1,2]}", NULL, 0},
                {"{\"model\":\"m\",\"prompt\":[\"a\",\"b\"]}", NULL, 0},
                {"{\"model\":\"m\"}", NULL, 0}};
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct call_case c;
        struct engine_ask ask;
        call_case_open(&c, ENDPOINT_COMPLETIONS, rows[i].text);
        bool good = engine_ask(&c.call, &c.arena, &ask, &c.fault);
        cr_expect_eq(good, rows[i].prompt != NULL, "%s", rows[i].text);
        if (good)
            cr_expect(span_is(ask.ask.prompt, rows[i].prompt) && ask.ask.max_output_tok == rows[i].max &&
                      !ask.ask.n_messages);
        call_case_close(&c);
    }
}

Test(engine, calls_of_tools_reach_the_template_with_their_arguments_as_objects) {
    struct call_case c;
    struct engine_ask ask;
    call_case_open(&c, ENDPOINT_CHAT,
                   "{\"model\":\"m\",\"parallel_tool_calls\":false,\"tool_choice\":\"auto\"" TOOLS
                   ",\"messages\":[{\"role\":\"user\",\"content\":\"q\"},{\"role\":\"assistant\",\"content\":null,"
                   "\"tool_calls\":[{\"id\":\"c1\",\"type\":\"function\",\"function\":{\"name\":\"f\",\"arguments\":"
                   "\"{\\\"x\\\": 1}\"}}]},{\"role\":\"tool\",\"tool_call_id\":\"c1\",\"content\":\"2\"}]}");
    cr_assert(engine_ask(&c.call, &c.arena, &ask, &c.fault), "%s", c.fault.text);
    cr_expect(ask.one_call && ask.tool_choice == TOOLS_AUTO && ask.ask.tools.n && !ask.ask.form);
    cr_expect(span_is(ask.ask.messages[1].more, ",\"tool_calls\":[{\"type\":\"function\",\"id\":\"c1\",\"function\":{"
                                                "\"name\":\"f\",\"arguments\":{\"x\": 1}}}]"),
              "%.*s", SPAN_ARG(ask.ask.messages[1].more));
    cr_expect(span_is(ask.ask.messages[2].more, ",\"tool_call_id\":\"c1\""));
    call_case_close(&c);
}

Test(engine, pieces_become_events) {
    struct engine_choice c = {0};
    struct parts parts = {0};
    struct event e;
    struct decode_piece piece = {.text = SPAN("Hi"), .logprobs = SPAN("{}")};
    tool_text_init(&c.text, CALLS_NONE, 1);
    engine_event(ENDPOINT_CHAT, &c, &piece, &parts, &e);
    cr_expect(e.n_parts == 3 && e.parts[0].kind == PART_ROLE && e.parts[1].kind == PART_LOGPROBS);
    cr_expect(span_is(e.parts[2].text, "Hi") && e.parts[2].choice == 1);
    cr_expect(e.bits == EVENT_CONTENT && e.text_bytes == 2 && e.data.n == 0);
    piece = (struct decode_piece){.text = SPAN("!"), .last = true, .finish = "length", .usage = {.in = 3, .out = 2}};
    engine_event(ENDPOINT_COMPLETIONS, &c, &piece, &parts, &e);
    cr_expect(e.n_parts == 2 && e.parts[0].kind == PART_TEXT && e.parts[1].kind == PART_FINISH);
    cr_expect_eq(e.bits, EVENT_CONTENT | EVENT_FINISH);
    cr_expect(e.finish == FINISH_LENGTH && c.usage.out == 2);
    piece = (struct decode_piece){.last = true, .err = ERR_NO_TARGET};
    engine_event(ENDPOINT_CHAT, &c, &piece, &parts, &e);
    cr_expect(e.bits & EVENT_ERROR && e.err == ERR_NO_TARGET && !(e.bits & EVENT_LAST));
    piece = (struct decode_piece){0};
    engine_event(ENDPOINT_CHAT, &c, &piece, &parts, &e);
    cr_expect_eq(e.bits, EVENT_SILENT);
    tool_text_fini(&c.text);
    parts_fini(&parts);
}
