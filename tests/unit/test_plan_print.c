/* A plan in words and as JSON. */
#include "gateway/base/json.h"
#include "tests/support/hand_conf.h"

#include <criterion/criterion.h>

static struct hand *make(void) {
    struct hand *h = hand_new(1);
    hand_target(h, 0, hand_backend(h, "off", 1), "m", 1);
    hand_target(h, 0, hand_backend(h, "openai", 1), "m", 1);
    hand_target(h, 1, hand_backend(h, "local", 0), "base", 1);
    h->backends[0].off = true;
    h->backends[0].off_reason = "OPENAI_API_KEY is not set";
    h->rungs[1].degraded = true;
    h->rungs[1].only_for = REASON_BIT(REASON_UNAVAILABLE) | REASON_BIT(REASON_BUDGET);
    return h;
}

static const char *print(struct hand *h, bool as_json) {
    static struct str out;
    str_fini(&out);
    str_init(&out, 1 << 16);
    plan_print(&h->plan, &(struct plan_sees){true, true}, as_json, &out);
    cr_assert_not(out.over);
    return out.at;
}

Test(plan_print, says_rungs_choices_and_exclusions_in_words) {
    struct hand *h = make();
    cr_assert_eq(hand_plan(h), ERR_NONE);
    cr_expect_str_eq(print(h, false), "alias smart: 2 rungs, at most 4 attempts\n"
                                      "  rung 1 of 2\n"
                                      "    1. openai/m, key key1: only target\n"
                                      "  rung 2 of 2, degraded, only for unavailable, budget\n"
                                      "    2. local/base: only target\n"
                                      "  left out\n"
                                      "    off/m: backend off is off: OPENAI_API_KEY is not set [unavailable]\n");
    h->backends[1].off = true;
    cr_assert_eq(hand_plan(h), ERR_NONE);
    cr_expect_not_null(strstr(print(h, false), "  better rungs passed over: unavailable\n"));
    h->alias.n_rungs = 1;
    cr_assert_eq(hand_plan(h), ERR_NO_TARGET);
    cr_expect_not_null(strstr(print(h, false), "  nobody can serve this call\n"));
    hand_free(h);
}

Test(plan_print, says_what_was_cut_and_when_somebody_is_back) {
    struct hand *h = hand_new(1);
    hand_target(h, 0, hand_backend(h, "many", 40), "m", 1);
    cr_assert_eq(hand_plan(h), ERR_NONE);
    cr_expect_not_null(strstr(print(h, false), "  8 more could serve; a plan holds 32\n"));
    struct choice c = h->plan.choices[0];
    hand_learn(h, &c, OUTCOME_UNAVAILABLE, 2 * HAND_SECOND);
    cr_assert_eq(hand_plan(h), ERR_NO_TARGET);
    cr_expect_not_null(strstr(print(h, false), "; the first target is back in 2s\n"));
    hand_free(h);
}

Test(plan_print, the_json_is_whole_and_says_the_same) {
    struct hand *h = make();
    h->backends[1].name = "open\"ai";
    cr_assert_eq(hand_plan(h), ERR_NONE);
    struct json doc;
    struct json_fault fault;
    cr_assert(json_check(span_of(print(h, true)), JSON_DEPTH_MAX, &doc, &fault), "%s at %zu", fault.what, fault.at);
    cr_expect(json_is(json_get(doc, "alias"), "smart"));
    cr_expect_eq(json_count(json_get(doc, "choices")), 2);
    struct json first = json_at(json_get(doc, "choices"), 0), second = json_at(json_get(doc, "choices"), 1);
    cr_expect(json_is(json_get(first, "target"), "open\"ai/m"));
    cr_expect(json_is(json_get(first, "key"), "key1"));
    cr_expect_eq(json_get(second, "key").kind, JSON_NULL);
    cr_expect_eq(json_get(second, "degraded").kind, JSON_TRUE);
    cr_expect_eq(json_count(json_get(second, "only_for")), 2);
    struct json out = json_at(json_get(doc, "excluded"), 0);
    cr_expect(json_is(json_get(out, "target"), "off/m"));
    cr_expect(json_is(json_get(out, "reason"), "unavailable"));
    hand_free(h);
}

Test(plan_print, whoever_may_not_see_targets_is_told_none_by_any_word) {
    struct hand *h = make();
    struct str out;
    str_init(&out, 1 << 16);
    cr_assert_eq(hand_plan(h), ERR_NONE);
    for (int json = 0; json < 2; json++)
        plan_print(&h->plan, &(struct plan_sees){false, false}, json, &out);
    cr_expect_null(strstr(out.at, "openai"), "%s", out.at);
    cr_expect(!strstr(out.at, "local") && !strstr(out.at, "OPENAI_API_KEY") && !strstr(out.at, "key1"), "%s", out.at);
    cr_expect_not_null(strstr(out.at, "1. a target: only target"));
    cr_expect_not_null(strstr(out.at, "a target [unavailable]"));
    str_clear(&out);
    for (int json = 0; json < 2; json++)
        plan_print(&h->plan, &(struct plan_sees){true, false}, json, &out);
    cr_expect(strstr(out.at, "openai/m") && !strstr(out.at, "key1"), "%s", out.at);
    str_fini(&out);
    hand_free(h);
}
