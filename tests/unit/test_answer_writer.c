/* Writers: the forms that test_golden.c does not show, and the rule that what a dialect writes it can read. */
#include "backends/dialect.h"
#include "tests/support/relay.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>

struct seen { /* what a stream says, whatever its chunks */
    struct reader *reader;
    struct str said;
    bool refused;
};

static void on_frame(struct span name, struct span data, void *user) {
    struct seen *s = user;
    struct event e;
    const char *why;
    s->refused |= reader_frame(s->reader, name, data, &e, &why) != ERR_NONE;
    for (size_t i = 0; !s->refused && i < e.n_parts; i++) {
        const struct part *p = &e.parts[i];
        static const char letters[] = "rtinoaf";
        if (p->kind == PART_ROLE)
            continue;
        str_printf(&s->said, "%c%d.%d[%.*s%.*s%.*s]", letters[p->kind], p->choice, p->tool, SPAN_ARG(p->id),
                   SPAN_ARG(p->name), SPAN_ARG(p->text));
    }
}

static void say_stream(enum endpoint e, struct span bytes, struct str *out) {
    struct seen s = {.reader = reader_new(PROTOCOL_OPENAI, e)};
    struct sse sse;
    str_init(&s.said, 1 << 20);
    sse_init(&sse);
    sse_feed(&sse, bytes, on_frame, &s);
    cr_expect_not(s.refused);
    cr_expect(reader_finished(s.reader));
    str_put(out, str_span(&s.said));
    str_printf(out, " usage %lld/%lld", (long long)reader_usage(s.reader)->in, (long long)reader_usage(s.reader)->out);
    sse_fini(&sse);
    str_fini(&s.said);
    reader_free(s.reader);
}

static const struct {
    enum endpoint e;
    const char *body, *said;
} PLAIN[] = {
    {ENDPOINT_CHAT,
     "{\"id\":\"c1\",\"object\":\"chat.completion\",\"created\":5,\"model\":\"m\",\"system_fingerprint\":\"fp\","
     "\"choices\":[{"
     "\"index\":0,\"message\":{\"role\":\"assistant\",\"content\":\"Hi\\ud83d\\ude00\",\"vendor\":1,\"tool_calls\":[{"
     "\"id\":\"a\","
     "\"type\":\"function\",\"function\":{\"name\":\"f\",\"arguments\":\"{}\"}},{\"id\":\"b\",\"type\":\"function\","
     "\"function\":{"
     "\"name\":\"g\",\"arguments\":\"[]\"}}]},\"logprobs\":null,\"finish_reason\":\"tool_calls\"}],\n\"usage\":{"
     "\"prompt_tokens\":3,\"completion_tokens\":2,\"total_tokens\":298}}",
     "t0.0[Hi\xf0\x9f\x98\x80]o0.0[af]a0.0[{}]o0.1[bg]a0.1[[]]f0.0[tool_calls] usage 3/295"},
    {ENDPOINT_COMPLETIONS,
     "{\"id\":\"c1\",\"object\":\"text_completion\",\"created\":5,\"model\":\"m\",\"choices\":[{\"index\":0,\"text\":"
     "\"a\","
     "\"finish_reason\":\"stop\"},{\"index\":1,\"text\":\"b\",\"finish_reason\":\"length\"}],\"usage\":{\"prompt_"
     "tokens\":1,"
     "\"completion_tokens\":2}}",
     "t0.0[a]f0.0[stop]t1.0[b]f1.0[length] usage 1/2"},
    {ENDPOINT_MESSAGES,
     "{\"id\":\"msg_1\",\"type\":\"message\",\"role\":\"assistant\",\"model\":\"m\",\"content\":[{\"type\":"
     "\"thinking\","
     "\"thinking\":\"hm\",\"signature\":\"s\"},{\"type\":\"text\",\"text\":\"Hi\"},{\"type\":\"tool_use\",\"id\":\"t\","
     "\"name\":\"f\","
     "\"input\":{\"a\":\"\\ud83d\"}},{\"type\":\"tool_use\",\"id\":\"u\",\"name\":\"g\",\"input\":{}}],\"stop_reason\":"
     "\"tool_use\","
     "\"stop_sequence\":null,\"usage\":{\"input_tokens\":7,\"output_tokens\":9}}",
     "i0.0[hm]t0.0[Hi]o0.0[tf]a0.0[{\"a\":\"\\ud83d\"}]o0.1[ug]f0.0[tool_use] usage 7/9"},
    {ENDPOINT_RESPONSES,
     "{\"id\":\"resp_1\",\"object\":\"response\",\"created_at\":5,\"status\":\"incomplete\",\"incomplete_details\":{"
     "\"reason\":"
     "\"max_output_tokens\"},\"model\":\"m\",\"output\":[{\"id\":\"rs\",\"type\":\"reasoning\",\"summary\":[{\"type\":"
     "\"summary_text\",\"text\":\"hm\"}]},{\"id\":\"m1\",\"type\":\"message\",\"status\":\"completed\",\"role\":"
     "\"assistant\","
     "\"content\":[{\"type\":\"output_text\",\"text\":\"Hi\",\"annotations\":[],\"logprobs\":[]}]},{\"id\":\"fc\","
     "\"type\":"
     "\"function_call\",\"status\":\"completed\",\"call_id\":\"t\",\"name\":\"f\",\"arguments\":\"{}\"}],\"usage\":{"
     "\"input_tokens\":4,\"output_tokens\":6}}",
     "i0.0[hm]t0.0[Hi]o0.0[tf]a0.0[{}]f0.0[incomplete] usage 4/6"},
};

Test(answer_writer, a_plain_answer_is_cut_into_a_stream_that_reads_the_same) { /* S-18 */
    for (size_t i = 0; i < ARRAY_LEN(PLAIN); i++) {
        struct str out, said;
        str_init(&out, 1 << 20);
        str_init(&said, 1 << 20);
        cr_assert(relay_body(PLAIN[i].e, span_of(PLAIN[i].body), true, true, &out));
        say_stream(PLAIN[i].e, str_span(&out), &said);
        cr_expect_str_eq(said.at, PLAIN[i].said, "%s\n%s", said.at, out.at);
        cr_expect_not_null(strstr(out.at, "asked/model"));
        cr_expect_not_null(strstr(out.at, "\"cost\":0.000001234"));
        str_fini(&out);
        str_fini(&said);
    }
}

Test(answer_writer, a_cut_answer_gathered_again_says_the_same) {
    for (size_t i = 0; i < ARRAY_LEN(PLAIN); i++) {
        struct str stream, whole, again, said;
        struct str *all[] = {&stream, &whole, &again, &said};
        for (size_t k = 0; k < 4; k++)
            str_init(all[k], 1 << 20);
        cr_assert(relay_body(PLAIN[i].e, span_of(PLAIN[i].body), true, true, &stream));
        relay_plain(PLAIN[i].e, str_span(&stream), &whole);
        cr_assert(relay_body(PLAIN[i].e, str_span(&whole), true, true, &again), "%s", whole.at);
        say_stream(PLAIN[i].e, str_span(&again), &said);
        cr_expect_str_eq(said.at, PLAIN[i].said, "%s\n%s", said.at, whole.at);
        for (size_t k = 0; k < 4; k++)
            str_fini(all[k]);
    }
}

Test(answer_writer, a_plain_answer_stays_exact_outside_its_splices) { /* T-14 */
    struct str out;
    str_init(&out, 1 << 20);
    cr_assert(relay_body(
        ENDPOINT_CHAT,
        SPAN(" { \"id\" : \"c\", \"choices\":[{\"index\":0,\"message\":{\"content\":\"\\u00e9\",\"odd\":1e400},"
             "\"finish_reason\":\"stop\"}],\"model\":\"m\", \"usage\":{\"prompt_tokens\":1, \"k\":[2]}, "
             "\"z\":9223372036854775808 } "),
        false, false, &out));
    cr_expect_str_eq(
        out.at, "{ \"id\" : \"c\", \"choices\":[{\"index\":0,\"message\":{\"content\":\"\\u00e9\",\"odd\":1e400},"
                "\"finish_reason\":\"stop\"}],\"model\":\"asked/model\", \"usage\":{\"prompt_tokens\":1, \"k\":[2],"
                "\"cost\":0.000001234}, \"z\":9223372036854775808 ,\"tollgate\":{\"degraded\":\"budget\"}}");
    str_fini(&out);
}

Test(answer_writer, embeddings_and_token_counts_pass_whole) {
    struct str out;
    str_init(&out, 1 << 20);
    cr_assert(relay_body(ENDPOINT_EMBEDDINGS,
                         SPAN("{\"object\":\"list\",\"data\":[{\"index\":0,\"embedding\":\"AAAA\"}],\"model\":\"m\"}"),
                         false, false, &out));
    cr_expect_str_eq(out.at,
                     "{\"object\":\"list\",\"data\":[{\"index\":0,\"embedding\":\"AAAA\"}],\"model\":\"asked/model\","
                     "\"tollgate\":{\"degraded\":\"budget\"}}");
    str_clear(&out);
    cr_assert(relay_body(ENDPOINT_COUNT_TOKENS, SPAN("{\"input_tokens\":12}"), false, false, &out));
    cr_expect_str_eq(out.at, "{\"input_tokens\":12,\"tollgate\":{\"degraded\":\"budget\"}}");
    str_fini(&out);
}

static struct writer *engine_writer(enum endpoint e, bool stream) {
    return writer_new(&(struct writer_options){
        .endpoint = e, .stream = stream, .include_usage = true, .model = SPAN("local"), .id = "X", .created_s = 7});
}

/* Three pieces of the engine through a writer. */
static void write_engine(enum endpoint e, bool stream, struct str *out) {
    static const char *const texts[] = {"Hi", " \"there\"", "!"};
    struct writer *w = engine_writer(e, stream);
    struct engine_choice c = {0};
    struct parts parts = {0};
    tool_text_init(&c.text, CALLS_NONE, 0);
    for (int i = 0; i < 3; i++) {
        struct event event;
        struct decode_piece piece = {.text = span_of(texts[i]),
                                     .last = i == 2,
                                     .finish = i == 2 ? "stop" : NULL,
                                     .usage = {.in = 4, .out = i + 1, .reported = true}};
        engine_event(e, &c, &piece, &parts, &event);
        event.usage = piece.usage;
        event.bits |= i == 2 ? EVENT_LAST | EVENT_USAGE : 0;
        cr_assert(writer_event(w, &event, NULL, out));
    }
    struct usage usage = {.in = 4, .out = 3, .reported = true};
    cr_assert(writer_end(w, &usage, NULL, out));
    tool_text_fini(&c.text);
    parts_fini(&parts);
    writer_free(w);
}

Test(answer_writer, the_engines_pieces_read_like_any_provider) {
    static const enum endpoint rows[] = {ENDPOINT_CHAT, ENDPOINT_COMPLETIONS};
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct str out, said;
        struct json v;
        struct json_fault fault;
        str_init(&out, 1 << 20);
        str_init(&said, 1 << 20);
        write_engine(rows[i], true, &out);
        say_stream(rows[i], str_span(&out), &said);
        cr_expect_str_eq(said.at, "t0.0[Hi]t0.0[ \"there\"]t0.0[!]f0.0[stop] usage 4/3", "%s", out.at);
        str_clear(&out);
        write_engine(rows[i], false, &out);
        cr_assert(json_check(str_span(&out), JSON_DEPTH_MAX, &v, &fault), "%s", out.at);
        struct json choice = json_at(json_get(v, "choices"), 0);
        struct json text =
            rows[i] == ENDPOINT_CHAT ? json_get(json_get(choice, "message"), "content") : json_get(choice, "text");
        cr_expect(json_is(text, "Hi \"there\"!"));
        cr_expect(json_is(json_get(choice, "finish_reason"), "stop"));
        cr_expect_eq(json_count(json_get(v, "usage")), 5);
        str_fini(&out);
        str_fini(&said);
    }
}

Test(answer_writer, a_failure_ends_without_a_success_terminator) { /* S-07 */
    static const struct {
        enum endpoint e;
        const char *expect;
    } rows[] = {
        {ENDPOINT_CHAT, "data: {\"error\":{\"message\":\"gone\",\"type\":\"server_error\",\"param\":null,\"code\":"
                        "\"upstream_failed\"},\"request_id\":\"r\"}\n\n"},
        {ENDPOINT_MESSAGES,
         "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"api_error\",\"message\":\"gone\","
         "\"code\":\"upstream_failed\"},\"request_id\":\"r\"}\n\n"},
        {ENDPOINT_RESPONSES,
         "event: error\ndata: {\"type\":\"error\",\"sequence_number\":0,\"code\":\"upstream_failed\","
         "\"message\":\"gone\",\"param\":null,\"request_id\":\"r\"}\n\n"},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct str out;
        struct writer *w = engine_writer(rows[i].e, true);
        str_init(&out, 1 << 16);
        writer_fail(w, ERR_UPSTREAM, "gone", "r", &out);
        cr_expect_str_eq(out.at, rows[i].expect, "%s", out.at);
        writer_free(w);
        str_fini(&out);
    }
}

Test(answer_writer, what_does_not_fit_leaves_out_as_it_was) {
    struct str out;
    struct writer *w = engine_writer(ENDPOINT_CHAT, true);
    struct part part = {.kind = PART_TEXT, .text = SPAN("some text that is longer than the room")};
    struct event e = {.parts = &part, .n_parts = 1, .bits = EVENT_CONTENT};
    str_init(&out, 40);
    str_puts(&out, "before");
    cr_expect_not(writer_event(w, &e, NULL, &out));
    cr_expect(span_is(str_span(&out), "before") && !out.over);
    writer_free(w);
    str_fini(&out);
}

Test(answer_writer, silence_is_not_written_and_nothing_is_not_an_answer) {
    struct str out;
    struct writer *w = engine_writer(ENDPOINT_CHAT, false);
    struct event silent = {.bits = EVENT_SILENT};
    str_init(&out, 1 << 16);
    cr_expect(writer_event(w, &silent, NULL, &out));
    cr_expect_eq(out.n, 0);
    cr_expect_not(writer_end(w, NULL, NULL, &out));
    writer_free(w);
    w = engine_writer(ENDPOINT_MESSAGES, true);
    cr_expect_not(writer_end(w, NULL, NULL, &out), "no message_stop is made up");
    cr_expect_eq(out.n, 0);
    writer_free(w);
    str_fini(&out);
}

Test(answer_writer, a_replay_has_an_id_and_a_time_of_its_own) {
    struct writer *w = writer_new(&(struct writer_options){
        .endpoint = ENDPOINT_CHAT, .model = SPAN("a"), .id = "N", .created_s = 9, .fresh = true});
    struct reader *r = reader_new(PROTOCOL_OPENAI, ENDPOINT_CHAT);
    struct event e;
    struct str out;
    const char *why;
    str_init(&out, 1 << 16);
    cr_assert_eq(reader_plain(r, SPAN("{\"id\":\"old\",\"created\":1,\"model\":\"m\",\"choices\":[{\"message\":{}}]}"),
                              &e, &why),
                 ERR_NONE);
    cr_assert(writer_event(w, &e, NULL, &out));
    cr_assert(writer_end(w, NULL, NULL, &out));
    cr_expect_str_eq(out.at, "{\"id\":\"chatcmpl-N\",\"created\":9,\"model\":\"a\",\"choices\":[{\"message\":{}}]}");
    writer_free(w);
    reader_free(r);
    str_fini(&out);
}
