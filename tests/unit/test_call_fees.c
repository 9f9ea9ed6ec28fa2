/* What the provider's own tools, tiers and regions may cost, as a call says it; what has no bound is named. */
#include "tests/support/call_case.h"

#include <criterion/criterion.h>
#include <stdio.h>

#define NO_END INT64_MAX

static const struct row {
    enum endpoint e;
    const char *more; /* members beside model and messages */
    int64_t web, files, sessions, turns;
    const char *open;
} rows[] = {
    {ENDPOINT_MESSAGES,
     "\"tools\":[{\"name\":\"f\",\"input_schema\":{}},{\"type\":\"bash_20250124\",\"name\":\"bash\"}]", 0, 0, 0, 0, ""},
    {ENDPOINT_MESSAGES, "\"tools\":[{\"type\":\"web_search_20250305\",\"name\":\"web_search\",\"max_uses\":5}]", 5, 0,
     0, 5, ""},
    {ENDPOINT_MESSAGES,
     "\"tools\":[{\"type\":\"web_search_20250305\",\"name\":\"web_search\",\"max_uses\":5},"
     "{\"type\":\"web_fetch_20250910\",\"name\":\"web_fetch\",\"max_uses\":2}]",
     5, 0, 0, 7, ""},
    {ENDPOINT_MESSAGES, "\"tools\":[{\"type\":\"web_search_20250305\",\"name\":\"web_search\"}]", NO_END, 0, 0, NO_END,
     "tools[0] (web_search_20250305) has no max_uses"},
    {ENDPOINT_MESSAGES, "\"tools\":[{\"type\":\"advisor_20260301\",\"name\":\"advisor\",\"max_uses\":3}]", 0, 0, 0, 3,
     "tools[0] (advisor_20260301) has fees that are not known"},
    {ENDPOINT_MESSAGES, "\"mcp_servers\":[{\"type\":\"url\",\"url\":\"http://x\",\"name\":\"x\"}]", 0, 0, 0, NO_END,
     "mcp_servers (mcp) may be called without end"},
    {ENDPOINT_MESSAGES, "\"mcp_servers\":[]", 0, 0, 0, 0, ""},
    {ENDPOINT_RESPONSES, "\"tools\":[{\"type\":\"function\",\"name\":\"f\"},{\"type\":\"local_shell\"}]", 0, 0, 0, 0,
     ""},
    {ENDPOINT_RESPONSES, "\"tools\":[{\"type\":\"web_search\"}],\"max_tool_calls\":3", 3, 0, 0, 3, ""},
    {ENDPOINT_RESPONSES, "\"max_tool_calls\":3,\"tools\":[{\"type\":\"file_search\"}]", 0, 3, 0, 3, ""},
    {ENDPOINT_RESPONSES,
     "\"max_tool_calls\":4,\"tools\":[{\"type\":\"code_interpreter\",\"container\":{\"type\":\"auto\"}}]", 0, 0, 1, 4,
     ""},
    {ENDPOINT_RESPONSES, "\"tools\":[{\"type\":\"function\",\"name\":\"f\"},{\"type\":\"web_search_preview\"}]", NO_END,
     0, 0, NO_END, "tools[1] (web_search_preview) may be called without end: max_tool_calls is not set"},
    {ENDPOINT_RESPONSES, "\"max_tool_calls\":1,\"tools\":[{\"type\":\"image_generation\"}]", 0, 0, 0, 1,
     "tools[0] (image_generation) has fees that are not known"},
    {ENDPOINT_CHAT, "\"web_search_options\":{\"search_context_size\":\"high\"}", 1, 0, 0, 0, ""},
    {ENDPOINT_CHAT, "\"tools\":[{\"type\":\"browser_search\"}]", NO_END, 0, 0, NO_END,
     "tools[0] (browser_search) has no bound on its calls"},
};

static void open_call(struct call_case *c, enum endpoint e, const char *more, char text[1024]) {
    const char *input =
        e == ENDPOINT_RESPONSES ? "\"input\":\"a\"" : "\"messages\":[{\"role\":\"user\",\"content\":\"a\"}]";
    snprintf(text, 1024, "{\"model\":\"m\",%s%s,%s}", input, e == ENDPOINT_MESSAGES ? ",\"max_tokens\":5" : "", more);
    call_case_open(c, e, text);
    cr_assert(c->good, "%s: %s", text, c->fault.text);
}

Test(call_fees, every_tool_of_a_provider_is_bounded_or_named) {
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct call_case c;
        char text[1024];
        open_call(&c, rows[i].e, rows[i].more, text);
        const struct call_size *s = &c.call.size;
        cr_expect(s->web_searches == rows[i].web && s->file_searches == rows[i].files &&
                      s->code_sessions == rows[i].sessions && s->server_turns == rows[i].turns,
                  "row %zu", i);
        cr_expect_str_eq(s->open, rows[i].open, "row %zu", i);
        call_case_close(&c);
    }
}

Test(call_fees, tiers_and_regions_are_what_the_call_may_get) {
    static const struct {
        enum endpoint e;
        const char *more;
        unsigned tiers;
        bool region_free, region_asked;
    } said[] = {
        {ENDPOINT_CHAT, "\"user\":\"u\"", 0, false, false},
        {ENDPOINT_CHAT, "\"service_tier\":\"auto\"", 0, false, false},
        {ENDPOINT_CHAT, "\"service_tier\":\"default\"", 1u << TIER_STANDARD, false, false},
        {ENDPOINT_CHAT, "\"service_tier\":\"flex\"", 1u << TIER_FLEX, false, false},
        {ENDPOINT_RESPONSES, "\"service_tier\":\"priority\"", 1u << TIER_PRIORITY, false, false},
        {ENDPOINT_CHAT, "\"service_tier\":\"gold\"", 1u << TIER_FLEX | 1u << TIER_PRIORITY, false, false},
        {ENDPOINT_MESSAGES, "\"service_tier\":\"auto\"", 0, false, false},
        {ENDPOINT_MESSAGES, "\"speed\":\"fast\"", 1u << TIER_FAST, false, false},
        {ENDPOINT_MESSAGES, "\"speed\":\"standard\",\"inference_geo\":\"global\"", 1u << TIER_STANDARD, true, false},
        {ENDPOINT_MESSAGES, "\"inference_geo\":\"us\"", 0, false, true},
    };
    for (size_t i = 0; i < ARRAY_LEN(said); i++) {
        struct call_case c;
        char text[1024];
        open_call(&c, said[i].e, said[i].more, text);
        cr_expect(c.call.size.tiers == said[i].tiers && c.call.size.region_free == said[i].region_free &&
                      c.call.size.region_asked == said[i].region_asked,
                  "row %zu", i);
        call_case_close(&c);
    }
}

Test(call_fees, what_may_be_written_to_a_cache_is_known_of_anthropic_alone) {
    static const struct {
        enum endpoint e;
        const char *more;
        bool known, minutes, hour;
    } said[] = {
        {ENDPOINT_CHAT, "\"user\":\"u\"", false, false, false},
        {ENDPOINT_MESSAGES, "\"metadata\":{}", true, false, false},
        {ENDPOINT_MESSAGES, "\"cache_control\":{\"type\":\"ephemeral\"}", true, true, false},
        {ENDPOINT_MESSAGES, "\"cache_control\":{\"type\":\"ephemeral\",\"ttl\":\"1h\"}", true, true, true},
        {ENDPOINT_MESSAGES, "\"cache\\u005fcontrol\":{\"type\":\"ephemeral\",\"ttl\":\"1\\u0068\"}", true, true, true},
    };
    for (size_t i = 0; i < ARRAY_LEN(said); i++) {
        struct call_case c;
        char text[1024];
        open_call(&c, said[i].e, said[i].more, text);
        const struct call_size *s = &c.call.size;
        cr_expect(s->writes_known == said[i].known && s->writes_5m == said[i].minutes && s->writes_1h == said[i].hour,
                  "row %zu", i);
        call_case_close(&c);
    }
}
