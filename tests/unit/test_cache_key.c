/* The key: made by exclusion. One thing is changed at a time. */
#include "cache/cache_key.h"
#include "tests/support/ask.h"

#include <criterion/criterion.h>
#include <stdlib.h>

#define MESSAGES                                                                                                       \
    "\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"hi\"},{\"type\":\"image_url\","       \
    "\"image_url\":{\"url\":\"data:image/png;base64,AAAA\"}}]},{\"role\":\"tool\",\"tool_call_id\":\"c1\","            \
    "\"content\":\"4\"}]"
#define BASE "{\"model\":\"smart\",\"temperature\":0,\"max_tokens\":10," MESSAGES "}"
#define WITH(member) "{\"model\":\"smart\",\"temperature\":0,\"max_tokens\":10," MESSAGES "," member "}"
#define INSTEAD(messages) "{\"model\":\"smart\",\"temperature\":0,\"max_tokens\":10,\"messages\":" messages "}"

static bool same_key(const char *a, const char *b) {
    struct ask x, y;
    ask_init(&x, span_of(a));
    ask_init(&y, span_of(b));
    cr_assert(ask_decide(&x)->may, "%s: %s", a, x.rule.why);
    cr_assert(ask_decide(&y)->may, "%s: %s", b, y.rule.why);
    return memcmp(x.rule.key, y.rule.key, SHA256_BYTES) == 0;
}

Test(cache_key, C_01_the_key_ignores_things_that_change_the_answer) {
    static const char *const changed[] = {
        "{\"model\":\"smart2\",\"temperature\":0,\"max_tokens\":10," MESSAGES "}",
        "{\"model\":\"smart\",\"temperature\":0.0000001,\"max_tokens\":10," MESSAGES "}",
        "{\"model\":\"smart\",\"temperature\":0,\"max_tokens\":11," MESSAGES "}",
        "{\"model\":\"smart\",\"temperature\":0," MESSAGES "}",
        "{\"model\":\"smart\",\"temperature\":0,\"max_tokens\":\"10\"," MESSAGES "}",
        "{\"model\":\"smart\",\"temperature\":0,\"max_tokens\":null," MESSAGES "}",
        WITH("\"max_completion_tokens\":10"),
        WITH("\"seed\":1"),
        WITH("\"seed\":2"),
        WITH("\"seed\":9007199254740993"),
        WITH("\"seed\":9007199254740992"),
        WITH("\"top_p\":1"),
        WITH("\"top_k\":40"),
        WITH("\"min_p\":0.1"),
        WITH("\"n\":1"),
        WITH("\"stop\":\"x\""),
        WITH("\"stop\":[\"x\"]"),
        WITH("\"stop\":[\"x\",\"y\"]"),
        WITH("\"stop\":[\"y\",\"x\"]"),
        WITH("\"frequency_penalty\":0.5"),
        WITH("\"presence_penalty\":0.5"),
        WITH("\"logit_bias\":{\"5\":1}"),
        WITH("\"logprobs\":true"),
        WITH("\"top_logprobs\":2"),
        WITH("\"response_format\":{\"type\":\"json_object\"}"),
        WITH("\"response_format\":{\"type\":\"json_schema\",\"json_schema\":{\"name\":\"a\"}}"),
        WITH("\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"a\"}}]"),
        WITH("\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"b\"}}]"),
        WITH("\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"a\"}},{\"type\":\"function\"}]"),
        WITH("\"tools\":[{\"type\":\"function\"},{\"type\":\"function\",\"function\":{\"name\":\"a\"}}]"),
        WITH("\"tools\":[{\"input_schema\":{\"properties\":{\"cache_control\":{\"type\":\"string\"}}}}]"),
        WITH("\"tools\":[{\"input_schema\":{\"properties\":{\"cache_control\":{\"type\":\"ephemeral\"}}}}]"),
        WITH("\"tools\":[{\"input_schema\":{\"properties\":{}}}]"),
        WITH("\"tool_choice\":\"auto\""),
        WITH("\"tool_choice\":\"none\""),
        WITH("\"parallel_tool_calls\":false"),
        WITH("\"reasoning_effort\":\"low\""),
        WITH("\"reasoning\":{\"effort\":\"low\"}"),
        WITH("\"thinking\":{\"type\":\"enabled\",\"budget_tokens\":1024}"),
        WITH("\"verbosity\":\"low\""),
        WITH("\"prediction\":{\"type\":\"content\",\"content\":\"x\"}"),
        WITH("\"modalities\":[\"text\"]"),
        WITH("\"system\":\"be brief\""),
        WITH("\"instructions\":\"be brief\""),
        WITH("\"extra_body\":{\"x\":1}"),
        WITH("\"nobody_has_heard_of_this\":0"),
        WITH("\"nobody_has_heard_of_this\":false"),
        WITH("\"store\":true"),
        WITH("\"prompt_cache\":1"),
        WITH("\"prompt_cachekey\":1"),
        WITH("\"streams\":true"),
        WITH("\"User\":\"anna\""),
        WITH("\"nested\":{\"user\":\"anna\"}"),
        WITH("\"nested\":{\"metadata\":{}}"),
        WITH("\"nested\":{\"prompt_cache_key\":1}"),
        INSTEAD("[{\"role\":\"user\",\"content\":\"hi\"}]"),
        INSTEAD("[{\"role\":\"user\",\"content\":\"hi \"}]"),
        INSTEAD("[{\"role\":\"user\",\"content\":\"Hi\"}]"),
        INSTEAD("[{\"role\":\"user\",\"content\":\"h\\u00ed\"}]"),
        INSTEAD("[{\"role\":\"user\",\"content\":\"hi\\u0301\"}]"),
        INSTEAD("[{\"role\":\"system\",\"content\":\"hi\"}]"),
        INSTEAD("[{\"role\":\"user\",\"content\":\"hi\",\"name\":\"anna\"}]"),
        INSTEAD("[{\"role\":\"user\",\"content\":\"hi\",\"name\":\"bert\"}]"),
        INSTEAD("[{\"role\":\"user\",\"content\":\"hi\",\"user\":\"anna\"}]"),
        INSTEAD("[{\"role\":\"tool\",\"tool_call_id\":\"c1\",\"content\":\"4\"}]"),
        INSTEAD("[{\"role\":\"tool\",\"tool_call_id\":\"c2\",\"content\":\"4\"}]"),
        INSTEAD("[{\"role\":\"assistant\",\"tool_calls\":[{\"id\":\"c1\",\"function\":{\"arguments\":\"{}\"}}]}]"),
        INSTEAD("[{\"role\":\"assistant\",\"tool_calls\":[{\"id\":\"c1\",\"function\":{\"arguments\":\"{ }\"}}]}]"),
        INSTEAD("[{\"image\":\"data:image/png;base64,AAAA\"}]"),
        INSTEAD("[{\"image\":\"data:image/png;base64,AAAB\"}]"),
        INSTEAD("[{\"image\":\"data:image/jpeg;base64,AAAA\"}]"),
        INSTEAD("[{\"image\":\"data:image/png;base64,AAAA\",\"detail\":\"low\"}]"),
        INSTEAD("[]"),
        INSTEAD("[[]]"),
        INSTEAD("{}"),
        INSTEAD("[1,23]"),
        INSTEAD("[12,3]"),
    };
    static uint8_t keys[ARRAY_LEN(changed) + 1][SHA256_BYTES];
    cr_assert_geq(ARRAY_LEN(changed), 40);
    for (size_t i = 0; i <= ARRAY_LEN(changed); i++) {
        struct ask a;
        ask_init(&a, span_of(i ? changed[i - 1] : BASE));
        cr_assert(ask_decide(&a)->may, "%s: %s", changed[i - 1], a.rule.why);
        memcpy(keys[i], a.rule.key, SHA256_BYTES);
        for (size_t j = 0; j < i; j++)
            cr_expect_neq(memcmp(keys[i], keys[j], SHA256_BYTES), 0, "rows %zu and %zu share a key", i, j);
    }
}

Test(cache_key, only_what_is_listed_is_left_out) {
    static const char *const neutral[] = {
        WITH("\"stream\":true"),
        WITH("\"stream\":false"),
        WITH("\"stream_options\":{\"include_usage\":true}"),
        WITH("\"user\":\"anna\""),
        WITH("\"metadata\":{\"a\":\"b\"}"),
        WITH("\"safety_identifier\":\"x\""),
        WITH("\"service_tier\":\"flex\""),
        WITH("\"store\":false"),
        WITH("\"prompt_cache_key\":\"k\""),
        WITH("\"prompt_cache_retention\":\"24h\""),
        WITH("\"prompt_cache_options\":{\"mode\":\"implicit\"}"),
        WITH("\"prompt_cache_of_tomorrow\":1"),
        WITH("\"cache_control\":{\"type\":\"ephemeral\"}"),
        WITH("\"prompt_cache_breakpoint\":{\"mode\":\"explicit\"}"),
        WITH("\"stream\":true,\"user\":\"u\",\"metadata\":{},\"store\":false,\"prompt_cache_key\":\"k\""),
    };
    for (size_t i = 0; i < ARRAY_LEN(neutral); i++)
        cr_expect(same_key(BASE, neutral[i]), "%s", neutral[i]);
    cr_expect(same_key("{\"system\":[{\"type\":\"text\",\"text\":\"x\"}],\"tools\":[{\"name\":\"t\"}]}",
                       "{\"system\":[{\"type\":\"text\",\"text\":\"x\",\"cache_control\":{\"type\":\"ephemeral\"}}],"
                       "\"tools\":[{\"name\":\"t\",\"cache_control\":{\"type\":\"ephemeral\",\"ttl\":\"1h\"}}]}"));
}

Test(cache_key, C_09_the_key_depends_on_byte_noise) {
    static const char *const table[][2] = {
        {"{\"a\":1,\"b\":2}", "{\"b\":2,\"a\":1}"},
        {"{\"a\":{\"c\":[1,{\"x\":1,\"y\":2}],\"d\":2}}",
         " {\n\"a\" : { \"d\":2, \"c\":[ 1 ,{\"y\":2,\"x\":1} ] } }\t"},
        {"{\"a\":\"\\u00e9\\/\\u0041\"}", "{\"a\":\"\xc3\xa9/A\"}"},
        {"{\"a\":\"\\ud83d\\ude00\"}", "{\"a\":\"\xf0\x9f\x98\x80\"}"},
        {"{\"\\u0061\":1}", "{\"a\":1}"},
        {"{\"a\":1.0,\"b\":100,\"c\":0.5,\"d\":-0}", "{\"a\":1e0,\"b\":1E+2,\"c\":5e-1,\"d\":0.0}"},
        {"{\"str\\u0065am\":true,\"a\":1}", "{\"a\":1}"},
        {"{\"prompt_cache\\u005fkey\":true,\"a\":1}", "{\"a\":1}"},
        {"{\"a\":\"\\u0041\",\"cache\\u005fcontrol\":{\"type\":\"ephemeral\"}}", "{\"a\":\"A\"}"},
    };
    for (size_t i = 0; i < ARRAY_LEN(table); i++)
        cr_expect(same_key(table[i][0], table[i][1]), "%s", table[i][0]);
    cr_expect_not(same_key("{\"a\":[1,2]}", "{\"a\":[2,1]}"), "the order of a list is no noise");
    cr_expect_not(same_key("{\"a\":1}", "{\"a\":\"1\"}"));
    cr_expect_not(same_key("{\"a\":\"\\\\u0041\"}", "{\"a\":\"A\"}"));
}

enum change {
    SCOPE,
    SCOPE_KEY,
    ENDPOINT,
    DIALECT,
    LADDER,
    HEADER_MORE,
    HEADER_VALUE,
    HEADER_NAME,
    HEADER_CASE_OF_VALUE,
    CHANGES
};

static void apply(struct ask *a, enum change c) {
    static const uint8_t other_ladder[SHA256_BYTES] = {[31] = 1};
    switch (c) {
    case SCOPE:
        a->ask.scope = "team:other";
        break;
    case SCOPE_KEY:
        a->ask.scope = "key:search";
        break;
    case ENDPOINT:
        a->ask.endpoint = "completions";
        break;
    case DIALECT:
        a->ask.dialect = "anthropic";
        break;
    case LADDER:
        a->ask.ladder = other_ladder;
        break;
    case HEADER_MORE:
        a->headers[a->ask.n_headers++] = SPAN("x-more: 1");
        break;
    case HEADER_VALUE:
        a->headers[0] = SPAN("anthropic-beta: two");
        break;
    case HEADER_NAME:
        a->headers[0] = SPAN("anthropic-bet: one");
        break;
    case HEADER_CASE_OF_VALUE:
        a->headers[0] = SPAN("anthropic-beta: One");
        break;
    default:
        cr_assert_fail("no such change");
    }
}

static void ask_with_headers(struct ask *a) {
    ask_init(a, span_of(BASE));
    a->headers[0] = SPAN("anthropic-beta: one");
    a->headers[1] = SPAN("anthropic-version: 2023-06-01");
    a->ask.n_headers = 2;
}

Test(cache_key, C_02_one_tenant_gets_another_s_reply) {
    struct ask a;
    ask_with_headers(&a);
    static uint8_t keys[CHANGES + 1][SHA256_BYTES];
    memcpy(keys[CHANGES], ask_decide(&a)->key, SHA256_BYTES);
    for (enum change c = 0; c < CHANGES; c++) {
        struct ask b;
        ask_with_headers(&b);
        apply(&b, c);
        memcpy(keys[c], ask_decide(&b)->key, SHA256_BYTES);
        cr_expect_neq(memcmp(keys[c], keys[CHANGES], SHA256_BYTES), 0, "change %d makes no other key", (int)c);
        for (enum change d = 0; d < c; d++)
            cr_expect_neq(memcmp(keys[c], keys[d], SHA256_BYTES), 0, "changes %d and %d share a key", (int)c, (int)d);
    }
}

Test(cache_key, the_order_of_headers_and_the_case_of_their_names_are_noise) {
    struct ask a, b;
    ask_with_headers(&a);
    ask_with_headers(&b);
    b.headers[0] = SPAN("Anthropic-Version:2023-06-01");
    b.headers[1] = SPAN("ANTHROPIC-beta:  one \t");
    cr_expect_eq(memcmp(ask_decide(&a)->key, ask_decide(&b)->key, SHA256_BYTES), 0);
    b.headers[0] = SPAN("no colon");
    cr_expect(ask_decide(&b)->may);
    cr_expect_neq(memcmp(a.rule.key, b.rule.key, SHA256_BYTES), 0);
}

Test(cache_key, a_name_that_stands_twice_has_no_key) {
    static const char *const twice[] = {
        "{\"a\":1,\"a\":1}",
        "{\"a\":1,\"\\u0061\":2}",
        "{\"m\":[{\"b\":{\"c\":1,\"c\":2}}]}",
        "{\"stream\":true,\"stream\":true}",
        "{\"user\":1,\"us\\u0065r\":2}",
        "{\"store\":false,\"store\":false}",
        "{\"store\":true,\"store\":false}",
        "{\"prompt_cache_key\":1,\"prompt_cache_key\":2}",
        "{\"metadata\":{\"a\":1,\"a\":2},\"metadata\":3}",
        "{\"cache_control\":{\"type\":\"ephemeral\"},\"cache_control\":{\"type\":\"ephemeral\"}}",
        "{\"cache_control\":{\"type\":\"ephemeral\",\"type\":\"ephemeral\"}}",
    };
    for (size_t i = 0; i < ARRAY_LEN(twice); i++) {
        struct ask a;
        ask_init(&a, span_of(twice[i]));
        cr_expect_not(ask_decide(&a)->may, "%s", twice[i]);
        cr_expect_str_eq(a.rule.why, "duplicate_key");
    }
}

Test(cache_key, texts_that_cannot_be_told_apart_have_no_key) {
    struct ask a;
    ask_init(&a, SPAN("{\"a\":\"\\ud800\"}"));
    cr_expect_not(ask_decide(&a)->may, "all lone surrogates would look alike");
}

Test(cache_key, what_would_hold_up_the_loop_has_no_key) {
    struct ask a;
    ask_init(&a, SPAN("[1]"));
    cr_expect_str_eq((ask_decide(&a), a.rule.why), "no_object");
    size_t n = KEY_BODY_MAX + 16;
    char *large = malloc(n);
    memset(large, 'x', n);
    memcpy(large, "{\"a\":\"", 6);
    memcpy(large + n - 2, "\"}", 2);
    ask_body(&a, span_from(large, n));
    cr_expect_str_eq((ask_decide(&a), a.rule.why), "too_large");
    large[KEY_BODY_MAX - 2] = '"';
    large[KEY_BODY_MAX - 1] = '}';
    ask_body(&a, span_from(large, KEY_BODY_MAX));
    cr_expect(ask_decide(&a)->may, "%s", a.rule.why ? a.rule.why : "");
    large[5] = '[';
    for (size_t i = 6; i < 6 + 2 * (size_t)KEY_COMMAS_MAX; i += 2)
        memcpy(large + i, "1,", 2);
    memcpy(large + 6 + 2 * (size_t)KEY_COMMAS_MAX, "1]}", 3);
    ask_body(&a, span_from(large, 9 + 2 * (size_t)KEY_COMMAS_MAX));
    cr_expect(ask_decide(&a)->may);
    memcpy(large + 6 + 2 * (size_t)KEY_COMMAS_MAX, "1,1]}", 5);
    ask_body(&a, span_from(large, 11 + 2 * (size_t)KEY_COMMAS_MAX));
    cr_expect_str_eq((ask_decide(&a), a.rule.why), "too_large");
    free(large);
    static struct span many[KEY_HEADERS_MAX + 1];
    for (size_t i = 0; i < ARRAY_LEN(many); i++)
        many[i] = SPAN("x-a: 1");
    ask_body(&a, SPAN("{}"));
    a.ask.headers = many;
    a.ask.n_headers = KEY_HEADERS_MAX;
    cr_expect(ask_decide(&a)->may);
    a.ask.n_headers++;
    cr_expect_str_eq((ask_decide(&a), a.rule.why), "too_large");
}

Test(cache_key, more_prompt_cache_members_than_it_looks_for_cost_a_miss_and_no_more) {
    struct str s;
    str_init(&s, 8192);
    str_puts(&s, "{\"a\":1");
    for (int i = 0; i < 100; i++)
        str_printf(&s, ",\"prompt_cache_%d\":1", i);
    str_putc(&s, '}');
    struct ask a;
    ask_init(&a, str_span(&s));
    cr_expect(ask_decide(&a)->may);
    str_fini(&s);
}
