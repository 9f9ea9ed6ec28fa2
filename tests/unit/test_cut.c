/* A stream ended by us: to the client, streamed or gathered, it looks like the provider's own ending at a maximum. */
#include "backends/backends.h"

#include <criterion/criterion.h>
#include <string.h>

#define TYPED(type, rest) "{\"type\":\"" type "\"" rest "}"

static const struct row {
    enum endpoint endpoint;
    const char *frames[6];
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
