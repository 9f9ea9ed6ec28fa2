/* Cache-control markers: stripped where they are markers, and nowhere else. */
#include "cache/cache_key.h"

#include <criterion/criterion.h>

static const char *strip(const char *text) {
    static struct str out;
    struct json v;
    struct json_fault fault;
    cr_assert(json_check(span_of(text), JSON_DEPTH_MAX, &v, &fault), "%s", text);
    str_fini(&out);
    str_init(&out, 4096);
    bool good = marker_strip(v, &out);
    cr_assert_not(out.over);
    return good ? out.at : "a name twice";
}

Test(marker, is_stripped_at_any_depth) {
    static const char *const table[][2] = {
        {"{\"a\":1,\"cache_control\":{\"type\":\"ephemeral\"}}", "{\"a\":1}"},
        {"{\"cache_control\":{\"type\":\"ephemeral\",\"ttl\":\"1h\"},\"a\":[1,2]}", "{\"a\":[1,2]}"},
        {"{\"cache_control\":{\"ttl\":\"5m\",\"type\":\"ephemeral\",\"scope\":\"x\"}}", "{}"},
        {"{\"cache_control\":null}", "{}"},
        {"{\"cache\\u005fcontrol\":{\"type\":\"ephemeral\"}}", "{}"},
        {"[{\"b\":[{\"c\":{\"cache_control\":{\"type\":\"ephemeral\"}}}]}]", "[{\"b\":[{\"c\":{}}]}]"},
        {"{\"prompt_cache_breakpoint\":{\"mode\":\"explicit\"},\"x\":\"\\u0041\"}", "{\"x\":\"\\u0041\"}"},
        {"[ 1 , { \"a\" : 2.50 } , null ]", "[1,{\"a\":2.50},null]"},
    };
    for (size_t i = 0; i < ARRAY_LEN(table); i++)
        cr_expect_str_eq(strip(table[i][0]), table[i][1]);
}

Test(marker, C_01_data_of_a_tool_that_looks_like_a_marker_is_stripped) {
    static const char *const kept[] = {
        "{\"cache_control\":{\"type\":\"string\"}}",
        "{\"cache_control\":{\"type\":\"ephemeral\",\"more\":1}}",
        "{\"cache_control\":\"ephemeral\"}",
        "{\"cache_control\":[]}",
        "{\"cache_control\":{\"type\":\"ephemeral\",\"type\":\"ephemeral\"}}",
        "{\"prompt_cache_breakpoint\":{\"type\":\"ephemeral\"}}",
        "{\"input_schema\":{\"properties\":{\"cache_control\":{\"type\":\"ephemeral\"}}}}",
        "{\"function\":{\"parameters\":{\"default\":{\"cache_control\":{\"type\":\"ephemeral\"}}}}}",
        "{\"type\":\"tool_use\",\"input\":{\"cache_control\":{\"type\":\"ephemeral\"}}}",
        "{\"text\":{\"format\":{\"schema\":{\"cache_control\":null}}}}",
    };
    for (size_t i = 0; i < ARRAY_LEN(kept); i++)
        cr_expect_str_eq(strip(kept[i]), kept[i]);
    cr_expect_str_eq(strip("{\"input\":[{\"cache_control\":{\"type\":\"ephemeral\"}}]}"), "{\"input\":[{}]}",
                     "a list called input holds messages");
}

Test(marker, twice_in_one_object_is_a_duplicate_key) {
    cr_expect_str_eq(strip("{\"cache_control\":null,\"cache_control\":null}"), "a name twice");
    cr_expect_str_eq(strip("{\"a\":[{\"cache_control\":{\"type\":\"ephemeral\"},\"cache\\u005fcontrol\":5}]}"),
                     "a name twice");
    cr_expect_str_eq(strip("[{\"cache_control\":null},{\"cache_control\":null}]"), "[{},{}]");
}

Test(marker, the_quick_look_misses_none) {
    cr_expect(marker_suspected(SPAN("{\"cache_control\":null}")));
    cr_expect(marker_suspected(SPAN("{\"prompt_cache_breakpoint\":null}")));
    cr_expect(marker_suspected(SPAN("{\"cache\\u005fcontrol\":null}")));
    cr_expect_not(marker_suspected(SPAN("{\"model\":\"x\\n\"}")));
}
