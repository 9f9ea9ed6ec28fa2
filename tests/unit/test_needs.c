/* A call as routing sees it. */
#include "gateway/needs.h"
#include "tests/support/call_case.h"

#include <criterion/criterion.h>

#define CALL                                                                                                           \
    "{\"model\":\"m\",\"max_tokens\":50,\"stream\":true,\"service_tier\":\"flex\",\"messages\":[{\"role\":\"user\","   \
    "\"content\":\"Hello\"}],\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"f\"}}]}"

Test(needs, what_the_call_says_and_no_more_than_the_alias_looks_at) {
    struct call_case c;
    struct budget *b = budget_new();
    struct conf_rung rungs[2] = {{.policy = POLICY_WEIGHTED}, {.policy = POLICY_LATENCY}};
    struct conf_alias alias = {.name = "m", .rungs = rungs, .n_rungs = 2};
    struct needs n = {.alias = &alias};
    call_case_open(&c, ENDPOINT_CHAT, CALL);
    needs_of_call(&c.call, b, &n);
    cr_expect(n.stream && n.caps == CAP_TOOLS && n.max_output_tok == 50);
    cr_expect_eq(n.protocols, endpoint_row(ENDPOINT_CHAT)->protocols);
    cr_expect(n.affinity == 0 && n.expected.in == 0, "nobody asks");
    rungs[1].policy = POLICY_STICKY;
    rungs[0].policy = POLICY_COST;
    needs_of_call(&c.call, b, &n);
    cr_expect_eq(n.affinity, call_affinity(&c.call));
    cr_expect_eq(n.expected.in, n.in_bound_tok);
    cr_expect_eq(n.expected.out, 50, "no more than it allows");
    cr_expect_eq(n.expected.tier, TIER_FLEX);
    call_case_close(&c);
    budget_free(b);
}

Test(needs, the_output_that_is_foreseen_is_what_such_calls_had_of_late) {
    struct budget *b = budget_new();
    struct call_size one = {.text_bytes = 400, .messages = 1, .choices = 1, .max_output_tok = -1}, two = one;
    struct usage u = {.in = 100, .out = 40, .reported = true};
    two.choices = 2;
    cr_expect_eq(budget_expect_out_tok(b, "m", &one), 256);
    for (int i = 0; i < 50; i++)
        budget_learn(b, "m", &one, &u);
    cr_expect_eq(budget_expect_out_tok(b, "m", &one), 40);
    cr_expect_eq(budget_expect_out_tok(b, "m", &two), 80);
    cr_expect_eq(budget_expect_out_tok(b, "other", &one), 256);
    u.reported = false;
    u.out = 100000;
    budget_learn(b, "m", &one, &u);
    cr_expect_eq(budget_expect_out_tok(b, "m", &one), 40, "what nobody reported teaches nothing");
    one.max_output_tok = 7;
    cr_expect_eq(budget_expect_out_tok(b, "m", &one), 7);
    budget_free(b);
}
