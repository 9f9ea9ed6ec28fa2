/* Invoices worked out by hand: the usage as each provider sends it, read by the dialect's own reader, priced by a row of
 * the public table's layout (tests/golden/prices/sample.json, where every row names its source). An amount is written as
 * count * nano-dollars a unit: a price of 2.50 USD a million is 2500. Shapes: OpenAI's API reference (chat, responses,
 * embeddings, images, audio), Anthropic's Messages reference, and the pages of DeepSeek, Mistral, Groq, xAI, Google's
 * OpenAI-compatible endpoint and Alibaba's Model Studio. */
#include "backends/backends.h"
#include "conf/directives.h"
#include "tests/support/relay.h"

#include <criterion/criterion.h>
#include <stdio.h>

#define BODY_MAX 4096
#define TABLE_BYTES_MAX (1 << 20)

static const struct invoice {
    enum endpoint endpoint;
    const char *model, *more; /* `more`: members beside usage; output items of Responses */
    const char *usage;
    int64_t nanousd;
} invoices[] = {
    /* OpenAI chat: cached inside prompt, reasoning inside completion */
    {ENDPOINT_CHAT, "gpt-4o", "", "{\"prompt_tokens\":1000,\"completion_tokens\":500,\"total_tokens\":1500}",
     1000 * 2500 + 500 * 10000},
    {ENDPOINT_CHAT, "gpt-4o", "",
     "{\"prompt_tokens\":2006,\"completion_tokens\":300,\"total_tokens\":2306,\"prompt_tokens_details\":{"
     "\"cached_tokens\":1920,\"audio_tokens\":0},\"completion_tokens_details\":{\"reasoning_tokens\":0}}",
     86 * 2500 + 1920 * 1250 + 300 * 10000},
    {ENDPOINT_CHAT, "gpt-4o", ",\"service_tier\":\"default\"",
     "{\"prompt_tokens\":10,\"completion_tokens\":0,\"total_tokens\":10}", 10 * 2500},
    {ENDPOINT_CHAT, "gpt-4o", ",\"service_tier\":\"priority\"",
     "{\"prompt_tokens\":2006,\"completion_tokens\":300,\"total_tokens\":2306,"
     "\"prompt_tokens_details\":{\"cached_tokens\":1920}}",
     86 * 4250 + 1920 * 2125 + 300 * 17000},
    {ENDPOINT_CHAT, "gpt-4o", ",\"service_tier\":\"scale\"", "{\"prompt_tokens\":10,\"completion_tokens\":10}",
     10 * 2500 + 10 * 10000},
    {ENDPOINT_CHAT, "gpt-4o", "",
     "{\"prompt_tokens\":100,\"completion_tokens\":900,\"total_tokens\":1000,\"completion_tokens_details\":{"
     "\"accepted_prediction_tokens\":100,\"rejected_prediction_tokens\":700}}", /* rejected ones are inside and billed */
     100 * 2500 + 900 * 10000},
    {ENDPOINT_CHAT, "gpt-5", "",
     "{\"prompt_tokens\":75,\"completion_tokens\":1186,\"total_tokens\":1261,"
     "\"completion_tokens_details\":{\"reasoning_tokens\":1024}}",
     75 * 1250 + 1186 * 10000},
    {ENDPOINT_CHAT, "gpt-5", ",\"service_tier\":\"flex\"",
     "{\"prompt_tokens\":1001,\"completion_tokens\":11,\"total_tokens\":1012,"
     "\"prompt_tokens_details\":{\"cached_tokens\":1}}",
     1000 * 625 + 63 + 11 * 5000}, /* one cached token is 62.5: rounded up once */
    {ENDPOINT_CHAT, "gpt-5", ",\"service_tier\":\"priority\"", "{\"prompt_tokens\":1000,\"completion_tokens\":10}",
     1000 * 2500 + 10 * 20000},
    {ENDPOINT_CHAT, "gpt-5", ",\"service_tier\":null", "{\"prompt_tokens\":1000,\"completion_tokens\":10}",
     1000 * 1250 + 10 * 10000},
    {ENDPOINT_CHAT, "gpt-5.4", "", "{\"prompt_tokens\":272000,\"completion_tokens\":100,\"total_tokens\":272100}",
     INT64_C(272000) * 2500 + 100 * 15000},
    {ENDPOINT_CHAT, "gpt-5.4", "", "{\"prompt_tokens\":272001,\"completion_tokens\":100,\"total_tokens\":272101}",
     INT64_C(272001) * 5000 + 100 * 22500},
    {ENDPOINT_CHAT, "gpt-5.4", "",
     "{\"prompt_tokens\":300000,\"completion_tokens\":100,\"prompt_tokens_details\":{\"cached_tokens\":280000}}",
     20000 * 5000 + 280000 * 500 + 100 * 22500}, /* cached tokens count towards the edge */
    {ENDPOINT_CHAT, "gpt-5.4", ",\"service_tier\":\"priority\"", "{\"prompt_tokens\":300000,\"completion_tokens\":100}",
     INT64_C(300000) * 5000 + 100 * 30000},
    {ENDPOINT_CHAT, "gpt-6.2-sol", "",
     "{\"prompt_tokens\":5000,\"completion_tokens\":20,\"total_tokens\":5020,"
     "\"prompt_tokens_details\":{\"cached_tokens\":1000,\"cache_write_tokens\":3000}}",
     1000 * 2000 + 1000 * 100 + 3000 * 2500 + 20 * 10000},
    {ENDPOINT_CHAT, "gpt-6.2-sol", "",
     "{\"prompt_tokens\":272001,\"completion_tokens\":20,"
     "\"prompt_tokens_details\":{\"cached_tokens\":1000,\"cache_write_tokens\":3000}}",
     INT64_C(268001) * 4000 + 1000 * 200 + 3000 * 5000 + 20 * 15000}, /* cache lines rise as input does */
    {ENDPOINT_CHAT, "gpt-4o-audio-preview", "",
     "{\"prompt_tokens\":420,\"completion_tokens\":110,\"total_tokens\":530,\"prompt_tokens_details\":{"
     "\"audio_tokens\":400,\"text_tokens\":20},\"completion_tokens_details\":{\"audio_tokens\":90,\"text_tokens\":20}}",
     20 * 2500 + 400 * 40000 + 20 * 10000 + 90 * 80000},
    {ENDPOINT_CHAT, "gpt-4o-audio-preview", "",
     "{\"prompt_tokens\":420,\"completion_tokens\":1,\"prompt_tokens_details\":{\"audio_tokens\":400,"
     "\"cached_tokens\":320,\"cached_tokens_details\":{\"audio_tokens\":310,\"text_tokens\":10}}}",
     10 * 2500 + 10 * 2500 + 90 * 40000 + 310 * 40000 + 1 * 10000}, /* cached audio has no price: as audio */
    {ENDPOINT_CHAT, "gpt-4o-search-preview", "", "{\"prompt_tokens\":9,\"completion_tokens\":100,\"total_tokens\":109}",
     9 * 2500 + 100 * 10000},
    {ENDPOINT_CHAT, "gpt-4o-search-preview", "!cited",
     "{\"prompt_tokens\":9,\"completion_tokens\":100,\"total_tokens\":109}", 9 * 2500 + 100 * 10000 + 50000000},
    {ENDPOINT_CHAT, "gpt-image-1", "",
     "{\"input_tokens\":220,\"output_tokens\":4160,\"total_tokens\":4380,\"input_tokens_details\":{\"text_tokens\":26,"
     "\"image_tokens\":194},\"output_tokens_details\":{\"image_tokens\":4160,\"text_tokens\":0}}",
     26 * 5000 + 194 * 10000 + 4160 * 40000},
    {ENDPOINT_CHAT, "whisper-1", "", "{\"type\":\"duration\",\"seconds\":27}", 27 * 100000},
    {ENDPOINT_CHAT, "whisper-1", "", "{\"type\":\"duration\",\"seconds\":26.2}", 27 * 100000},
    {ENDPOINT_EMBEDDINGS, "text-embedding-3-small", "", "{\"prompt_tokens\":1536,\"total_tokens\":1536}", 1536 * 20},
    /* OpenAI Responses: the same numbers by other names; fees told by items */
    {ENDPOINT_RESPONSES, "gpt-5", "",
     "{\"input_tokens\":328,\"input_tokens_details\":{\"cached_tokens\":128},\"output_tokens\":52,"
     "\"output_tokens_details\":{\"reasoning_tokens\":32},\"total_tokens\":380}",
     200 * 1250 + 128 * 125 + 52 * 10000},
    {ENDPOINT_RESPONSES, "gpt-5",
     "{\"type\":\"web_search_call\",\"id\":\"a\"},{\"type\":\"web_search_call\",\"id\":\"b\"}",
     "{\"input_tokens\":1000,\"output_tokens\":10,\"total_tokens\":1010}", 1000 * 1250 + 10 * 10000 + 2 * 10000000},
    {ENDPOINT_RESPONSES, "gpt-5", "{\"type\":\"file_search_call\",\"id\":\"a\"}",
     "{\"input_tokens\":1000,\"output_tokens\":10,\"total_tokens\":1010}", 1000 * 1250 + 10 * 10000 + 2500000},
    {ENDPOINT_RESPONSES, "gpt-5",
     "{\"type\":\"code_interpreter_call\",\"id\":\"a\"},{\"type\":\"code_interpreter_call\",\"id\":\"b\"}",
     "{\"input_tokens\":1000,\"output_tokens\":10,\"total_tokens\":1010}",
     1000 * 1250 + 10 * 10000 + 30000000}, /* one container, however often it ran */
    {ENDPOINT_RESPONSES, "gpt-4o", "{\"type\":\"web_search_call\",\"id\":\"a\"}",
     "{\"input_tokens\":10,\"output_tokens\":1,\"total_tokens\":11}",
     10 * 2500 + 10000 + 50000000}, /* a row without the fee: the dearest that is published */
    {ENDPOINT_RESPONSES, "gpt-6.2-sol", "",
     "{\"input_tokens\":5000,\"input_tokens_details\":{\"cached_tokens\":1000,\"cache_write_tokens\":3000},"
     "\"output_tokens\":20,\"total_tokens\":5020}",
     1000 * 2000 + 1000 * 100 + 3000 * 2500 + 20 * 10000},
    /* Anthropic: cached and written beside input, thinking inside output */
    {ENDPOINT_MESSAGES, "claude-haiku-4-5", "", "{\"input_tokens\":2095,\"output_tokens\":503}",
     2095 * 1000 + 503 * 5000},
    {ENDPOINT_MESSAGES, "claude-haiku-4-5", "",
     "{\"input_tokens\":50,\"cache_creation_input_tokens\":248,\"cache_read_input_tokens\":100000,\"output_tokens\":"
     "393}",
     50 * 1000 + 248 * 1250 + 100000 * 100 + 393 * 5000},
    {ENDPOINT_MESSAGES, "claude-haiku-4-5", "",
     "{\"input_tokens\":2048,\"cache_read_input_tokens\":1800,\"cache_creation_input_tokens\":248,\"output_tokens\":"
     "503,"
     "\"cache_creation\":{\"ephemeral_5m_input_tokens\":148,\"ephemeral_1h_input_tokens\":100}}",
     2048 * 1000 + 1800 * 100 + 148 * 1250 + 100 * 2000 + 503 * 5000},
    {ENDPOINT_MESSAGES, "claude-haiku-4-5", "",
     "{\"input_tokens\":10,\"output_tokens\":900,\"output_tokens_details\":{\"thinking_tokens\":800}}",
     10 * 1000 + 900 * 5000},
    {ENDPOINT_MESSAGES, "claude-haiku-4-5", "",
     "{\"input_tokens\":10,\"output_tokens\":9,\"service_tier\":\"priority\",\"inference_geo\":\"not_available\"}",
     10 * 1000 + 9 * 5000}, /* capacity paid in advance has list prices */
    {ENDPOINT_MESSAGES, "claude-haiku-4-5", "",
     "{\"input_tokens\":100,\"output_tokens\":10,\"iterations\":[{\"type\":\"compaction\",\"input_tokens\":18000,"
     "\"output_tokens\":350},{\"type\":\"message\",\"input_tokens\":100,\"output_tokens\":10}]}",
     18100 * 1000 + 360 * 5000}, /* the top level leaves a compaction out */
    {ENDPOINT_MESSAGES, "claude-sonnet-4-5", "",
     "{\"input_tokens\":105,\"output_tokens\":6039,\"cache_read_input_tokens\":7123,\"cache_creation_input_tokens\":"
     "7345,"
     "\"server_tool_use\":{\"web_search_requests\":3}}",
     105 * 3000 + 7123 * 300 + 7345 * 3750 + 6039 * 15000 + 3 * 10000000},
    {ENDPOINT_MESSAGES, "claude-sonnet-4-5", "",
     "{\"input_tokens\":1000,\"cache_read_input_tokens\":199000,\"output_tokens\":10}",
     1000 * 3000 + 199000 * 300 + 10 * 15000}, /* 200,000 is not above the edge */
    {ENDPOINT_MESSAGES, "claude-sonnet-4-5", "",
     "{\"input_tokens\":1001,\"cache_read_input_tokens\":199000,\"output_tokens\":10}",
     1001 * 6000 + 199000 * 600 + 10 * 22500},
    {ENDPOINT_MESSAGES, "claude-sonnet-4-5", "",
     "{\"input_tokens\":1,\"cache_creation_input_tokens\":250000,\"output_tokens\":10,"
     "\"cache_creation\":{\"ephemeral_5m_input_tokens\":50000,\"ephemeral_1h_input_tokens\":200000}}",
     1 * 6000 + 50000 * 7500 + INT64_C(200000) * 12000 + 10 * 22500},
    {ENDPOINT_MESSAGES, "claude-opus-4-6", "",
     "{\"input_tokens\":1000,\"output_tokens\":100,\"speed\":\"fast\",\"inference_geo\":\"global\"}",
     1000 * 30000 + 100 * 150000},
    {ENDPOINT_MESSAGES, "claude-opus-4-6", "",
     "{\"input_tokens\":1000,\"cache_read_input_tokens\":2000,\"output_tokens\":100,\"speed\":\"standard\","
     "\"inference_geo\":\"us\",\"server_tool_use\":{\"web_search_requests\":1}}",
     1000 * 5500 + 2000 * 550 + 100 * 27500 + 10000000}, /* fees are not raised */
    {ENDPOINT_MESSAGES, "claude-opus-4-6", "",
     "{\"input_tokens\":1000,\"output_tokens\":100,\"speed\":\"fast\",\"inference_geo\":\"us\"}",
     1000 * 33000 + 100 * 165000},
    /* others behind OpenAI's shape */
    {ENDPOINT_CHAT, "gemini-2.5-pro", "",
     "{\"prompt_tokens\":1000,\"completion_tokens\":50,\"total_tokens\":1850}", /* thoughts are in the total alone */
     1000 * 1250 + 850 * 10000},
    {ENDPOINT_CHAT, "gemini-2.5-pro", "",
     "{\"prompt_tokens\":200001,\"completion_tokens\":50,\"total_tokens\":200051,"
     "\"prompt_tokens_details\":{\"cached_tokens\":100000}}",
     INT64_C(100001) * 2500 + 100000 * 250 + 50 * 15000},
    {ENDPOINT_CHAT, "deepseek-chat", "",
     "{\"prompt_tokens\":1100,\"completion_tokens\":200,\"total_tokens\":1300,\"prompt_cache_hit_tokens\":1000,"
     "\"prompt_cache_miss_tokens\":100}",
     100 * 280 + 1000 * 28 + 200 * 420},
    {ENDPOINT_CHAT, "mistral-large-2411", "", "{\"prompt_tokens\":15,\"total_tokens\":137,\"completion_tokens\":122}",
     15 * 2000 + 122 * 6000},
    {ENDPOINT_CHAT, "llama-3.3-70b-versatile", ",\"service_tier\":\"on_demand\"",
     "{\"queue_time\":0.04,\"prompt_tokens\":39,\"prompt_time\":0.003,\"completion_tokens\":7,\"total_tokens\":46}",
     39 * 590 + 7 * 790},
    {ENDPOINT_CHAT, "grok-4", "",
     "{\"prompt_tokens\":32,\"completion_tokens\":9,\"total_tokens\":135,\"prompt_tokens_details\":{\"text_tokens\":32,"
     "\"cached_tokens\":6},\"completion_tokens_details\":{\"reasoning_tokens\":94},\"num_sources_used\":0}",
     26 * 3000 + 6 * 750 + 103 * 15000}, /* reasoning stands beside the completion */
    {ENDPOINT_CHAT, "grok-4", "", "{\"prompt_tokens\":128001,\"completion_tokens\":1,\"total_tokens\":128002}",
     INT64_C(128001) * 6000 + 30000},
    {ENDPOINT_CHAT, "qwen-plus-2025-04-28", "",
     "{\"prompt_tokens\":1000,\"completion_tokens\":500,\"total_tokens\":1500,"
     "\"completion_tokens_details\":{\"reasoning_tokens\":400}}",
     1000 * 400 + 100 * 1200 + 400 * 4000}, /* reasoning has a price of its own */
    {ENDPOINT_CHAT, "qwen3-max", "", "{\"prompt_tokens\":32000,\"completion_tokens\":10,\"total_tokens\":32010}",
     32000 * 1200 + 10 * 6000},
    {ENDPOINT_CHAT, "qwen3-max", "", "{\"prompt_tokens\":32001,\"completion_tokens\":10,\"total_tokens\":32011}",
     32001 * 2400 + 10 * 12000},
    {ENDPOINT_CHAT, "qwen3-max", "", "{\"prompt_tokens\":128001,\"completion_tokens\":10,\"total_tokens\":128011}",
     INT64_C(128001) * 3000 + 10 * 15000},
};

struct table {
    struct arena arena;
    struct str bytes;
    struct conf_price_row rows[64];
    size_t n;
};

static void take_row(void *user, const struct conf_price_row *row, struct json raw) {
    struct table *t = user;
    (void)raw;
    cr_assert(t->n < ARRAY_LEN(t->rows));
    t->rows[t->n++] = *row;
}

static void take_note(void *user, const struct price_note *n) {
    (void)user;
    cr_assert(n->kind == PRICE_UNUSED, "line %d: %s %s", n->line, n->field, n->why);
}

static void table_open(struct table *t) {
    const struct price_see see = {take_row, take_note, t};
    t->n = 0;
    arena_init(&t->arena, TABLE_BYTES_MAX);
    str_init(&t->bytes, TABLE_BYTES_MAX);
    cr_assert(conf_price_rows(file_read("tests/golden/prices/sample.json", &t->bytes), "sample", 1, &t->arena, &see));
}

static void table_close(struct table *t) {
    arena_fini(&t->arena);
    str_fini(&t->bytes);
}

static const struct price *price_of(const struct table *t, const char *model) {
    for (size_t i = 0; i < t->n; i++)
        if (strcmp(t->rows[i].model, model) == 0)
            return &t->rows[i].price;
    cr_assert_fail("the sample has no row '%s'", model);
    return NULL;
}

static void put_body(const struct invoice *v, struct str *out) {
    bool cited = strcmp(v->more, "!cited") == 0;
    switch ((int)v->endpoint) {
    case ENDPOINT_MESSAGES:
        str_printf(out,
                   "{\"id\":\"m\",\"type\":\"message\",\"content\":[{\"type\":\"text\",\"text\":\"a\"}],"
                   "\"stop_reason\":\"end_turn\",\"usage\":%s}",
                   v->usage);
        return;
    case ENDPOINT_RESPONSES:
        str_printf(out, "{\"id\":\"r\",\"status\":\"completed\",\"output\":[%s],\"usage\":%s}", v->more, v->usage);
        return;
    case ENDPOINT_EMBEDDINGS:
        str_printf(out, "{\"object\":\"list\",\"data\":[{\"embedding\":[0]}],\"usage\":%s}", v->usage);
        return;
    default:
        str_printf(out,
                   "{\"id\":\"c\",\"choices\":[{\"index\":0,\"message\":{\"role\":\"assistant\",\"content\":\"a\"%s},"
                   "\"finish_reason\":\"stop\"}]%s,\"usage\":%s}",
                   cited ? ",\"annotations\":[{\"type\":\"url_citation\"}]" : "", cited ? "" : v->more, v->usage);
    }
}

static void check(const struct table *t, const struct invoice *v, size_t i) {
    struct reader *r = reader_new(v->endpoint == ENDPOINT_MESSAGES ? PROTOCOL_ANTHROPIC : PROTOCOL_OPENAI, v->endpoint);
    struct event e;
    struct str body;
    const char *why = "";
    str_init(&body, BODY_MAX);
    put_body(v, &body);
    cr_assert_eq(reader_plain(r, str_span(&body), &e, &why), ERR_NONE, "row %zu: %s", i, why);
    const struct usage *u = reader_usage(r);
    cr_expect(u->reported, "row %zu", i);
    int64_t cost = price_cost(price_of(t, v->model), u);
    cr_expect_eq(cost, v->nanousd, "row %zu, %s: %lld, not %lld", i, v->model, (long long)cost, (long long)v->nanousd);
    str_fini(&body);
    reader_free(r);
}

Test(invoice, each_providers_usage_costs_what_its_invoice_says) {
    static struct table t;
    cr_assert(ARRAY_LEN(invoices) >= 40);
    table_open(&t);
    for (size_t i = 0; i < ARRAY_LEN(invoices); i++)
        check(&t, &invoices[i], i);
    table_close(&t);
}
