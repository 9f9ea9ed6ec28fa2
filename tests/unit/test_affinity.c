/* Calls that begin alike: what counts as their beginning, and what does not. */
#include "tests/support/call_case.h"

#include <criterion/criterion.h>

static uint64_t of(enum endpoint e, const char *text) {
    struct call_case c;
    call_case_open(&c, e, text);
    cr_assert(c.good, "%s: %s", c.fault.field, c.fault.text);
    uint64_t out = call_affinity(&c.call);
    call_case_close(&c);
    return out;
}

struct pair {
    enum endpoint e;
    const char *one, *other;
};

#define SYSTEM "{\"role\":\"system\",\"content\":\"You are kind.\"}"
#define FIRST "{\"role\":\"user\",\"content\":\"Hello\"}"

Test(affinity, later_turns_settings_and_white_space_do_not_matter) {
    static const struct pair alike[] = {
        {ENDPOINT_CHAT, "{\"model\":\"m\",\"messages\":[" SYSTEM "," FIRST "]}",
         "{\"messages\": [" SYSTEM ", " FIRST ",{\"role\":\"assistant\",\"content\":\"Hi\"},{\"role\":\"user\","
         "\"content\":\"More\"}], \"temperature\": 1, \"model\":\"n\", \"stream\":true}"},
        {ENDPOINT_CHAT, "{\"model\":\"m\",\"messages\":[{\"role\":\"user\",\"content\":\"\\u0041\"}]}",
         "{\"model\":\"m\",\"messages\":[{\"content\":\"A\",\"role\":\"user\"}]}"},
        {ENDPOINT_MESSAGES,
         "{\"model\":\"m\",\"max_tokens\":5,\"system\":\"s\",\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":"
         "\"text\",\"text\":\"a\",\"cache_control\":{\"type\":\"ephemeral\"}}]}]}",
         "{\"model\":\"m\",\"max_tokens\":9,\"system\":\"s\",\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":"
         "\"text\",\"text\":\"a\"}]},{\"role\":\"assistant\",\"content\":\"b\"},{\"role\":\"user\",\"content\":\"c\"}]"
         "}"},
        {ENDPOINT_RESPONSES, "{\"model\":\"m\",\"instructions\":\"i\",\"input\":[" FIRST "]}",
         "{\"model\":\"m\",\"instructions\":\"i\",\"input\":[" FIRST ",{\"role\":\"assistant\",\"content\":\"b\"}]}"},
    };
    for (size_t i = 0; i < ARRAY_LEN(alike); i++)
        cr_expect_eq(of(alike[i].e, alike[i].one), of(alike[i].e, alike[i].other), "row %zu", i);
}

Test(affinity, tools_system_and_the_first_turn_do) {
    static const struct pair different[] = {
        {ENDPOINT_CHAT, "{\"model\":\"m\",\"messages\":[" SYSTEM "," FIRST "]}",
         "{\"model\":\"m\",\"messages\":[" FIRST "]}"},
        {ENDPOINT_CHAT, "{\"model\":\"m\",\"messages\":[" FIRST "]}",
         "{\"model\":\"m\",\"messages\":[{\"role\":\"user\",\"content\":\"Hello!\"}]}"},
        {ENDPOINT_CHAT, "{\"model\":\"m\",\"messages\":[" FIRST "]}",
         "{\"model\":\"m\",\"messages\":[" FIRST
         "],\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"f\"}}]}"},
        {ENDPOINT_MESSAGES, "{\"model\":\"m\",\"max_tokens\":5,\"system\":\"s\",\"messages\":[" FIRST "]}",
         "{\"model\":\"m\",\"max_tokens\":5,\"system\":\"t\",\"messages\":[" FIRST "]}"},
        {ENDPOINT_RESPONSES, "{\"model\":\"m\",\"input\":\"a\"}", "{\"model\":\"m\",\"input\":\"b\"}"},
        {ENDPOINT_COMPLETIONS, "{\"model\":\"m\",\"prompt\":\"a\"}", "{\"model\":\"m\",\"prompt\":\"b\"}"},
    };
    for (size_t i = 0; i < ARRAY_LEN(different); i++)
        cr_expect_neq(of(different[i].e, different[i].one), of(different[i].e, different[i].other), "row %zu", i);
}

Test(affinity, every_call_with_a_beginning_has_one_and_embeddings_have_none) {
    cr_expect_neq(of(ENDPOINT_CHAT, "{\"model\":\"m\",\"messages\":[" FIRST "]}"), 0);
    cr_expect_eq(of(ENDPOINT_EMBEDDINGS, "{\"model\":\"m\",\"input\":\"a\"}"), 0);
}
