/* A stream ended by us: to the client, streamed or gathered, it looks like the provider's own ending at a maximum. */
#include "backends/backends.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#define TYPED(type, rest) "{\"type\":\"" type "\"" rest "}"

static const struct row {
    enum endpoint endpoint;
    const char *frames[12];
    const char *stream[4], *gathered[3]; /* what each form must say, in this order */
} rows[] = {
    {ENDPOINT_CHAT,
     {"{\"id\":\"c1\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":\"up\",\"choices\":[{\"index\":0,"
      "\"delta\":{\"role\":\"assistant\",\"content\":\"Hi\"},\"finish_reason\":null}]}",
      "{\"id\":\"c1\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":\"up\",\"choices\":[{\"index\":1,"
      "\"delta\":{\"content\":\"Ho\"},\"finish_reason\":null}]}",
      "{\"id\":\"c1\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":\"up\",\"choices\":[{\"index\":1,"
      "\"delta\":{},\"finish_reason\":\"stop\"}]}"},
     {"\"Hi\"", "\"index\":0,\"delta\":{},\"logprobs\":null,\"finish_reason\":\"length\"", "\"completion_tokens\":7",
      "data: [DONE]"},
     {"\"content\":\"Hi\"", "\"finish_reason\":\"length\"", "\"content\":\"Ho\""}},
    {ENDPOINT_MESSAGES,
     {TYPED("message_start", ",\"message\":{\"id\":\"m1\",\"type\":\"message\",\"role\":\"assistant\",\"model\":\"up\","
                             "\"content\":[],\"usage\":{\"input_tokens\":9,\"output_tokens\":1}}"),
      TYPED("content_block_start", ",\"index\":0,\"content_block\":{\"type\":\"text\",\"text\":\"\"}"),
      TYPED("content_block_delta", ",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"Hi\"}")},
     {"text_delta", "event: content_block_stop", "\"stop_reason\":\"max_tokens\"", "event: message_stop"},
     {"\"text\":\"Hi\"", "\"stop_reason\":\"max_tokens\"", "\"output_tokens\":7"}},
    {ENDPOINT_RESPONSES,
     {TYPED("response.created", ",\"sequence_number\":0,\"response\":{\"id\":\"r1\",\"object\":\"response\","
                                "\"created_at\":1,\"model\":\"up\",\"status\":\"in_progress\",\"output\":[]}"),
      TYPED("response.output_text.delta",
            ",\"sequence_number\":4,\"output_index\":0,\"content_index\":0,\"delta\":\"Hi\"")},
     {"\"delta\":\"Hi\"", "event: response.incomplete", "\"sequence_number\":5", "\"reason\":\"max_output_tokens\""},
     {"\"id\":\"r1\"", "\"status\":\"incomplete\"", "\"output_tokens\":7"}},
};

struct out {
    struct writer *writer;
    struct str text;
    bool last;
};

static void give(const struct event *e, void *user) {
    struct out *o = user;
    struct writer_extra none = {.cost_nanousd = -1};
    cr_assert(writer_event(o->writer, e, &none, &o->text));
    o->last = o->last || e->bits & EVENT_LAST;
}

static void cut(const struct row *row, bool stream, struct str *text) {
    const struct usage used = {.in = 9, .out = 7, .estimated = true};
    struct reader *r =
        reader_new(row->endpoint == ENDPOINT_MESSAGES ? PROTOCOL_ANTHROPIC : PROTOCOL_OPENAI, row->endpoint);
    struct out o = {.writer = writer_new(&(struct writer_options){
                        .endpoint = row->endpoint, .stream = stream, .include_usage = true, .model = SPAN("asked")})};
    struct writer_extra extra = {.cost_nanousd = -1, .tollgate = "{\"cut\":\"budget\"}"};
    str_init(&o.text, 1 << 16);
    for (size_t i = 0; i < ARRAY_LEN(row->frames) && row->frames[i]; i++) {
        struct event e;
        const char *why;
        cr_assert_eq(reader_frame(r, SPAN_NONE, span_of(row->frames[i]), &e, &why), ERR_NONE);
        give(&e, &o);
    }
    cr_assert(reader_cut(r, &used, give, &o));
    cr_expect(o.last);
    cr_expect(writer_end(o.writer, &used, &extra, &o.text));
    str_put(text, str_span(&o.text));
    str_fini(&o.text);
    writer_free(o.writer);
    reader_free(r);
}

static void says(const char *text, const char *const *words, size_t n) {
    for (size_t i = 0; i < n; i++) {
        const char *at = words[i] ? strstr(text, words[i]) : text;
        cr_expect_not_null(at, "%s is not in (the rest of) %s", words[i], text);
        text = at ? at : text;
    }
}

Test(cut, each_dialect_ends_as_at_a_maximum_streamed_and_gathered) {
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct str text;
        str_init(&text, 1 << 16);
        cut(&rows[i], true, &text);
        says(text.at, rows[i].stream, ARRAY_LEN(rows[i].stream));
        str_clear(&text);
        cut(&rows[i], false, &text);
        says(text.at, rows[i].gathered, ARRAY_LEN(rows[i].gathered));
        str_fini(&text);
    }
}

static void count_all(const struct event *e, void *user) {
    (void)e;
    ++*(int *)user;
}

#define ITEM(n, item)                                                                                                  \
    TYPED("response.output_item.added", ",\"sequence_number\":1,\"output_index\":" n ",\"item\":" item)
#define SAY(type, n, rest) TYPED(type, ",\"sequence_number\":1,\"item_id\":\"i\",\"output_index\":" n rest)

/* Every way an item can stand when the stream is cut: done, a part open, a part closed, arguments half way, a tool that says
 * nothing. */
static const struct row items = {
    ENDPOINT_RESPONSES,
    {TYPED("response.created", ",\"sequence_number\":0,\"response\":{\"id\":\"r1\",\"object\":\"response\","
                               "\"created_at\":1,\"model\":\"up\",\"status\":\"in_progress\",\"output\":[]}"),
     ITEM("0", "{\"id\":\"rs\",\"type\":\"reasoning\",\"summary\":[]}"),
     SAY("response.reasoning_summary_text.delta", "0", ",\"summary_index\":0,\"delta\":\"why\""),
     TYPED("response.output_item.done", ",\"sequence_number\":3,\"output_index\":0,\"item\":{\"id\":\"rs\",\"type\":"
                                        "\"reasoning\",\"summary\":[{\"type\":\"summary_text\",\"text\":\"why\"}]}"),
     ITEM("1", "{\"id\":\"ms\",\"type\":\"message\",\"role\":\"assistant\",\"status\":\"in_progress\",\"content\":[]}"),
     SAY("response.output_text.delta", "1", ",\"content_index\":0,\"delta\":\"Hi \\\"\\ud83d\""),
     SAY("response.output_text.delta", "1", ",\"content_index\":0,\"delta\":\"\\ude00\""),
     ITEM("2",
          "{\"id\":\"fc\",\"type\":\"function_call\",\"call_id\":\"c\",\"name\":\"f\",\"arguments\":\"\",\"status\":"
          "\"in_progress\"}"),
     SAY("response.function_call_arguments.delta", "2", ",\"delta\":\"{\\\"a\\\":\""),
     ITEM("3", "{\"id\":\"ws\",\"type\":\"web_search_call\",\"status\":\"in_progress\"}")},
    {"event: response.output_text.done", "\"text\":\"Hi \\\"\\ud83d\\ude00\"", "event: response.content_part.done",
     "event: response.output_item.done"},
    {"\"text\":\"why\"", "\"text\":\"Hi \\\"\\ud83d\\ude00\"", "\"arguments\":\"{\\\"a\\\":\""}};

Test(cut, a_response_is_ended_with_its_items_closed_and_all_that_came) {
    static const char *const then[] = {"\"id\":\"ms\"",
                                       "\"status\":\"incomplete\"",
                                       "event: response.function_call_arguments.done",
                                       "\"arguments\":\"{\\\"a\\\":\"",
                                       "event: response.output_item.done",
                                       "\"id\":\"fc\"",
                                       "event: response.output_item.done",
                                       "\"id\":\"ws\"",
                                       "\"status\":\"incomplete\"",
                                       "event: response.incomplete",
                                       "\"output\":[{\"id\":\"rs\"",
                                       "\"id\":\"ms\"",
                                       "\"content\":[{\"type\":\"output_text\"",
                                       "\"id\":\"fc\"",
                                       "\"id\":\"ws\""};
    struct str text;
    str_init(&text, 1 << 16);
    cut(&items, true, &text);
    says(text.at, items.stream, ARRAY_LEN(items.stream));
    says(strstr(text.at, "event: response.content_part.done"), then, ARRAY_LEN(then));
    const char *ending = strstr(text.at, "event: response.output_text.done");
    cr_expect_null(strstr(ending, "event: response.reasoning_summary_text.done"), "what was done is not closed again");
    str_clear(&text);
    cut(&items, false, &text);
    says(text.at, items.gathered, ARRAY_LEN(items.gathered));
    str_fini(&text);
}

Test(cut, a_response_that_said_more_than_is_kept_ends_without_its_output) {
    char delta[70000];
    struct event e;
    const char *why;
    int n = 0;
    struct reader *r = reader_new(PROTOCOL_OPENAI, ENDPOINT_RESPONSES);
    snprintf(delta, sizeof delta, SAY("response.output_text.delta", "1", ",\"content_index\":0,\"delta\":\"%065000d\""),
             0);
    for (size_t i = 0; i < 5; i += 4)
        cr_assert_eq(reader_frame(r, SPAN_NONE, span_of(items.frames[i]), &e, &why), ERR_NONE);
    for (int i = 0; i < 12; i++)
        cr_assert_eq(reader_frame(r, SPAN_NONE, span_of(delta), &e, &why), ERR_NONE);
    cr_expect(reader_cut(r, &(struct usage){0}, count_all, &n));
    cr_expect_eq(n, 1, "response.incomplete alone");
    reader_free(r);
}

static void count(const struct event *e, void *user) {
    cr_expect(e->finish == FINISH_LENGTH && e->n_parts == 1);
    ++*(int *)user;
}

Test(cut, the_engine_has_no_reader) {
    int n = 0;
    cr_expect(reader_cut(NULL, &(struct usage){0}, count, &n));
    cr_expect_eq(n, 1);
}

Test(cut, a_response_that_never_began_cannot_be_ended) {
    int n = 0;
    struct reader *r = reader_new(PROTOCOL_OPENAI, ENDPOINT_RESPONSES);
    cr_expect_not(reader_cut(r, &(struct usage){0}, count, &n));
    reader_free(r);
}
