/* Whether a call may be cached at all. */
#include "tests/support/ask.h"

#include <criterion/criterion.h>

static const struct span body = {"{\"model\":\"smart\"}", 17};

static const char *why(struct ask *a) {
    const struct cache_rule *r = ask_decide(a);
    cr_assert_eq(r->may, r->why == NULL);
    return r->why ? r->why : "cached";
}

Test(cache_rule, nothing_is_cached_unless_said_but_embeddings_are_unless_denied) {
    struct ask a;
    ask_init(&a, body);
    cr_expect_str_eq(why(&a), "cached");
    a.alias.cache.enabled = false;
    cr_expect_str_eq(why(&a), "off");
    a.alias.cache.said = false;
    cr_expect_str_eq(why(&a), "off");
    a.ask.endpoint = "embeddings";
    a.traits = (struct call_traits){.always = true};
    cr_expect_str_eq(why(&a), "cached");
    a.alias.cache.said = true;
    cr_expect_str_eq(why(&a), "off");
    a.alias.cache = (struct conf_cache_rule){.said = false, .enabled = true};
    a.ask.endpoint = "count_tokens";
    cr_expect_str_eq(why(&a), "off");
}

Test(cache_rule, C_06_sampling_calls_are_cached_without_being_asked) {
    static const struct {
        bool said, zero, seed, seeded, replay, always;
        const char *why;
    } table[] = {
        /* temperature  seed   alias           */
        {true, true, false, false, false, false, "cached"},
        {true, true, true, false, false, false, "cached"},
        {true, false, false, false, false, false, "temperature"},
        {true, false, true, false, false, false, "temperature"},
        {true, false, true, true, false, false, "cached"},
        {true, false, false, true, false, false, "temperature"},
        {true, false, false, false, true, false, "temperature"},
        {false, false, false, false, false, false, "no_temperature"},
        {false, false, true, false, false, false, "no_temperature"},
        {false, false, true, true, false, false, "cached"},
        {false, false, false, true, false, false, "no_temperature"},
        {false, false, false, false, true, false, "cached"},
        {false, false, false, false, false, true, "cached"},
    };
    for (size_t i = 0; i < ARRAY_LEN(table); i++) {
        struct ask a;
        ask_init(&a, body);
        a.traits = (struct call_traits){.temperature_said = table[i].said,
                                        .temperature_zero = table[i].zero,
                                        .seeded = table[i].seed,
                                        .always = table[i].always};
        a.alias.cache.seeded = table[i].seeded;
        a.alias.cache.replay = table[i].replay;
        cr_expect_str_eq(why(&a), table[i].why, "row %zu", i);
    }
}

Test(cache_rule, C_03_what_may_change_behind_the_call_is_cached) {
    static const struct {
        struct call_traits traits;
        const char *why;
    } table[] = {
        {{.many = true}, "n"},
        {{.server_tools = true}, "server_tools"},
        {{.stored = true}, "stored"},
        {{.remote_content = true}, "remote_content"},
        {{.audio_output = true}, "audio_output"},
        {{.always = true, .remote_content = true}, "remote_content"},
    };
    for (size_t i = 0; i < ARRAY_LEN(table); i++) {
        struct ask a;
        ask_init(&a, body);
        a.alias.cache.seeded = a.alias.cache.replay = true;
        a.traits = table[i].traits;
        a.traits.temperature_said = a.traits.temperature_zero = a.traits.seeded = true;
        cr_expect_str_eq(why(&a), table[i].why, "row %zu", i);
    }
}

Test(cache_rule, a_caller_may_only_tighten) {
    static const struct {
        const char *header;
        bool may, no_find, no_keep;
        int64_t max_age_us;
    } table[] = {
        {"", true, false, false, INT64_MAX},
        {"no-cache", true, true, false, INT64_MAX},
        {"No-Store", true, false, true, INT64_MAX},
        {"no-store, no-cache", false, true, true, INT64_MAX},
        {"max-age=60", true, false, false, 60000000},
        {"max-age=60, no-store", true, false, true, 60000000},
        {"public, only-if-cached", true, false, false, INT64_MAX},
    };
    for (size_t i = 0; i < ARRAY_LEN(table); i++) {
        struct ask a;
        ask_init(&a, body);
        a.ask.cache_control = span_of(table[i].header);
        const struct cache_rule *r = ask_decide(&a);
        cr_expect_eq(r->may, table[i].may, "%s", table[i].header);
        cr_expect_eq(r->no_find, table[i].no_find, "%s", table[i].header);
        cr_expect_eq(r->no_keep, table[i].no_keep, "%s", table[i].header);
        cr_expect_eq(r->max_age_us, table[i].max_age_us, "%s", table[i].header);
        a.traits.temperature_zero = false;
        cr_expect_not(ask_decide(&a)->may, "%s", table[i].header);
    }
}

Test(cache_rule, the_time_to_live_is_the_alias_s_or_the_house_s) {
    struct ask a;
    ask_init(&a, body);
    cr_expect_eq(ask_decide(&a)->ttl_us, 3600);
    a.alias.cache.ttl_us = 5;
    cr_expect_eq(ask_decide(&a)->ttl_us, 5);
}
